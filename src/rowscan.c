/*
 * rowscan.c
 *	  Scanning the extension's tables by their indexes, without the executor.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "executor/executor.h"

#include "compat.h"
#include "rowscan.h"
#include "tables.h"

/*
 * Begin a scan.  The log's tables must have been locked, with log_lock(), or be
 * looked at for a row that may as well be gone.
 */
void
rows_begin(RowScan *rows, Oid table, Oid index, Snapshot snapshot, ScanKey keys, int nkeys)
{
	rows->table = table_open_checked(table, AccessShareLock);
	rows->index = index_open(index, AccessShareLock);
	rows->slot = MakeSingleTupleTableSlot(RelationGetDescr(rows->table),
										  table_slot_callbacks(rows->table));
	rows->scan = BeginIndexScan(rows->table, rows->index, snapshot, nkeys);
	rows->scan->xs_want_itup = true;
	rows_begin_again(rows, keys, nkeys);
}

/*
 * Begin it again with other keys.
 */
void
rows_begin_again(RowScan *rows, ScanKey keys, int nkeys)
{
	index_rescan(rows->scan, keys, nkeys, NULL, 0);
}

/*
 * Fetch the next row into the slot; false if there is none.
 */
bool
rows_next(RowScan *rows)
{
	return index_getnext_slot(rows->scan, ForwardScanDirection, rows->slot);
}

void
rows_end(RowScan *rows)
{
	index_endscan(rows->scan);
	ExecDropSingleTupleTableSlot(rows->slot);
	index_close(rows->index, AccessShareLock);
	table_close(rows->table, AccessShareLock);
}
