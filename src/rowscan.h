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
#include "storage/lockdefs.h"
#include "utils/rel.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

/* A scan of a table by one of its indexes. */
typedef struct RowScan
{
	Relation	table;
	Relation	index;
	IndexScanDesc scan;
	TupleTableSlot *slot;
	LOCKMODE	lockmode;
	bool		table_is_locked;	/* to write, since before the scan */
} RowScan;

extern void rows_begin(RowScan *rows, Oid table, Oid index, LOCKMODE lockmode,
					   Snapshot snapshot, ScanKey keys, int nkeys);
extern void rows_begin_entries(RowScan *rows, Oid table, Oid index, LOCKMODE lockmode,
							   Snapshot snapshot, ScanKey keys, int nkeys);
extern void rows_begin_again(RowScan *rows, ScanKey keys, int nkeys);
extern bool rows_next(RowScan *rows);
extern bool rows_next_from_end(RowScan *rows);
extern void rows_delete(RowScan *rows);
extern void rows_end(RowScan *rows);

/* Columns of a row that has been deformed, and what a null stands for */
static inline double
float8_or(const TupleTableSlot *slot, int attno, double otherwise)
{
	return slot->tts_isnull[attno - 1] ? otherwise :
		DatumGetFloat8(slot->tts_values[attno - 1]);
}

static inline TimestampTz
time_or_never(const TupleTableSlot *slot, int attno)
{
	return slot->tts_isnull[attno - 1] ? DT_NOBEGIN :
		DatumGetTimestampTz(slot->tts_values[attno - 1]);
}

#endif							/* DEXP3_ROWSCAN_H */
