/*
 * rowscan.h
 *	  Scanning the extension's tables by their indexes, without the executor.
 */
#ifndef DEXP3_ROWSCAN_H
#define DEXP3_ROWSCAN_H

#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/skey.h"
#include "executor/tuptable.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* A scan of a table by one of its indexes. */
typedef struct RowScan
{
	Relation	table;
	Relation	index;
	IndexScanDesc scan;
	TupleTableSlot *slot;
} RowScan;

extern void rows_begin(RowScan *rows, Oid table, Oid index, Snapshot snapshot,
					   ScanKey keys, int nkeys);
extern void rows_begin_again(RowScan *rows, ScanKey keys, int nkeys);
extern bool rows_next(RowScan *rows);
extern void rows_end(RowScan *rows);

#endif							/* DEXP3_ROWSCAN_H */
