/*
 * insert.h
 *	  Inserting rows into the extension's tables, without the executor.
 */
#ifndef DEXP3_INSERT_H
#define DEXP3_INSERT_H

#include "postgres.h"

extern void insert_row(Oid relid, const Datum *values, const bool *nulls, int natts);

/* Should a row stay that has just been inserted, but counts for nobody yet? */
typedef bool (*RowCheck) (void *context);

typedef struct RowInserter RowInserter;

extern RowInserter *insert_begin_one(Oid relid);
extern bool insert_is_there(RowInserter *inserter, Oid index, int64 key);
extern bool insert_one_if(RowInserter *inserter, const Datum *values, const bool *nulls,
						  int natts, RowCheck check, void *context);
extern void insert_none(RowInserter *inserter);

/* Inserting many rows */
extern RowInserter *insert_begin(Oid relid);
extern void insert_one_of_many(RowInserter *inserter, const Datum *values,
							   const bool *nulls, int natts);
extern void insert_flush(RowInserter *inserter);
extern void insert_end(RowInserter *inserter);

/* Refusing to be called in the middle of something */
extern void refuse_while_inserting(void);
extern void set_inserting(bool now);

#endif							/* DEXP3_INSERT_H */
