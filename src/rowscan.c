/*
 * rowscan.c
 *	  Scanning the extension's tables by their indexes, without the executor.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "rowscan.h"
#include "tables.h"

/*
 * Has this transaction locked a table to write?
 */
static bool
is_locked_to_write(Oid table)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, table);
	return IsLockHeldByMe(&tag, RowExclusiveLock);
}

/*
 * Begin a scan.  The keys have the numbers of columns of the index.  The log's tables
 * must have been locked, with log_lock(), or be looked at for a row that may as well be
 * gone.
 *
 * A table that is locked to write, until the end of the transaction, needs no other lock.
 * Indexes are locked only while they are in use, as by INSERT: nobody should have to wait
 * for an idle transaction in order to move one.
 */
static void
begin(RowScan *rows, Oid table, Oid index, LOCKMODE lockmode, Snapshot snapshot,
	  bool with_entries, ScanKey keys, int nkeys)
{
	rows->lockmode = lockmode;
	rows->table_is_locked = is_locked_to_write(table);
	rows->table = table_open_checked(table, rows->table_is_locked ? NoLock : lockmode);
	rows->index = index_open(index, lockmode);
	rows->slot = MakeSingleTupleTableSlot(RelationGetDescr(rows->table),
										  table_slot_callbacks(rows->table));
	rows->scan = BeginIndexScan(rows->table, rows->index, snapshot, nkeys);
	rows->scan->xs_want_itup = with_entries;
	rows_begin_again(rows, keys, nkeys);
}

void
rows_begin(RowScan *rows, Oid table, Oid index, LOCKMODE lockmode, Snapshot snapshot,
		   ScanKey keys, int nkeys)
{
	begin(rows, table, index, lockmode, snapshot, false, keys, nkeys);
}

/*
 * The same, where index entries are looked at before rows are fetched: they are in
 * rows->scan->xs_itup.
 */
void
rows_begin_entries(RowScan *rows, Oid table, Oid index, LOCKMODE lockmode,
				   Snapshot snapshot, ScanKey keys, int nkeys)
{
	begin(rows, table, index, lockmode, snapshot, true, keys, nkeys);
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

/*
 * The same, if the scan is to begin at the end.
 */
bool
rows_next_from_end(RowScan *rows)
{
	return index_getnext_slot(rows->scan, BackwardScanDirection, rows->slot);
}

/*
 * Delete the row that was fetched, unless somebody else is doing so.  One that this very
 * command has written cannot be deleted by it, and stays.
 */
void
rows_delete(RowScan *rows)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(rows->slot, false, NULL);

	if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(tuple->t_data)) &&
		HeapTupleHeaderGetRawCommandId(tuple->t_data) >= GetCurrentCommandId(false))
		return;
	DeleteTuple(rows->table, &tuple->t_self, SnapshotSelf);
}

/*
 * End a scan.  A lock to write is kept until the end of the transaction.
 */
void
rows_end(RowScan *rows)
{
	LOCKMODE	unlock = rows->lockmode == AccessShareLock ? AccessShareLock : NoLock;

	index_endscan(rows->scan);
	ExecDropSingleTupleTableSlot(rows->slot);
	index_close(rows->index, unlock);
	table_close(rows->table, rows->table_is_locked ? NoLock : unlock);
}
