/*
 * ownersql.h
 *	  SQL on the extension's tables, with the rights of their owner.
 */
#ifndef DEXP3_OWNERSQL_H
#define DEXP3_OWNERSQL_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"

/* What to do with each row of the result. */
typedef void (*RowVisitor) (void *context, HeapTuple tuple, TupleDesc tupdesc);

extern uint64 run_as_owner(const char *sql, int nargs, Oid *types, Datum *values,
						   const char *nulls, RowVisitor visit, void *context);

/* Visitors: append the first column, an integer, to a List; keep the row. */
extern void add_integer(void *context, HeapTuple tuple, TupleDesc tupdesc);
extern void keep_row(void *context, HeapTuple tuple, TupleDesc tupdesc);

#define MAX_KEPT_COLUMNS	4

/* The row of a result that has one, or none. */
typedef struct KeptRow
{
	Datum		values[MAX_KEPT_COLUMNS];
	bool		nulls[MAX_KEPT_COLUMNS];
} KeptRow;

#endif							/* DEXP3_OWNERSQL_H */
