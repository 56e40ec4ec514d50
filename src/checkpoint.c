/*
 * checkpoint.c
 *	  Folded states in dexp3.checkpoint, so that a session need not fold the
 *	  whole log.
 *
 * A checkpoint is never the truth, only a quick way to it: it is not dumped, and
 * any may be lost.  Several may exist; the one with the most events is the best.
 * Whoever writes one removes older ones, but never waits for somebody who is
 * doing the same.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "checkpoint.h"
#include "compat.h"
#include "insert.h"
#include "log.h"
#include "tables.h"

#define ALL_BANDITS		0
#define ALL_EPOCHS		0

/* A scan over the checkpoints of a bandit. */
typedef struct CheckpointScan
{
	Relation	rel;
	Relation	index;
	SysScanDesc scan;
} CheckpointScan;

/*
 * Begin a scan of the checkpoints of a bandit or ALL_BANDITS, of one epoch or
 * ALL_EPOCHS.  With a range, only those that cover at least range[0] and less than range[1] events.
 */
static void
begin_scan(CheckpointScan *scan, LOCKMODE lockmode, Snapshot snapshot,
		   int32 bandit_id, int32 epoch, const int64 *range)
{
	ScanKeyData keys[4];

	ScanKeyInit(&keys[0], Anum_checkpoint_bandit_id, BTEqualStrategyNumber,
				F_INT4EQ, Int32GetDatum(bandit_id));
	ScanKeyInit(&keys[1], Anum_checkpoint_epoch, BTEqualStrategyNumber,
				F_INT4EQ, Int32GetDatum(epoch));
	if (range != NULL)
	{
		ScanKeyInit(&keys[2], Anum_checkpoint_events, BTGreaterEqualStrategyNumber,
					F_INT8GE, Int64GetDatum(range[0]));
		ScanKeyInit(&keys[3], Anum_checkpoint_events, BTLessStrategyNumber,
					F_INT8LT, Int64GetDatum(range[1]));
	}
	scan->rel = table_open_checked(tables()->checkpoint, lockmode);
	scan->index = index_open(tables()->checkpoint_idx, lockmode);
	scan->scan = systable_beginscan_ordered(scan->rel, scan->index, snapshot,
											bandit_id == ALL_BANDITS ? 0 :
											epoch == ALL_EPOCHS ? 1 :
											range == NULL ? 2 : 4, keys);
}

/* Return the next checkpoint, the newest first. */
static HeapTuple
next_checkpoint(CheckpointScan *scan)
{
	return systable_getnext_ordered(scan->scan, BackwardScanDirection);
}

static void
end_scan(CheckpointScan *scan)
{
	systable_endscan_ordered(scan->scan);
	index_close(scan->index, NoLock);
	table_close(scan->rel, NoLock);
}

static Datum
checkpoint_column(CheckpointScan *scan, HeapTuple tuple, int attno)
{
	bool		isnull;

	return heap_getattr(tuple, attno, RelationGetDescr(scan->rel), &isnull);
}

/*
 * Read the newest checkpoint into a new fold.
 */
bool
checkpoint_load(int32 bandit_id, int32 epoch, Fold *fold, Seen *seen)
{
	bool		found = false;

	/*
	 * With SnapshotSelf a scan can miss both of two checkpoints if the newer
	 * one replaces the older at that very moment; so look twice.
	 */
	for (int try = 0; try < 2 && !found; try++)
	{
		CheckpointScan scan;
		HeapTuple	tuple;

		begin_scan(&scan, AccessShareLock, SnapshotSelf, bandit_id, epoch, NULL);
		tuple = next_checkpoint(&scan);
		if (tuple != NULL)
		{
			bytea	   *state = DatumGetByteaPP(checkpoint_column(&scan, tuple,
																  Anum_checkpoint_state));

			found = fold_deserialize(fold, seen, VARDATA_ANY(state),
									 VARSIZE_ANY_EXHDR(state));
		}
		end_scan(&scan);
	}
	return found;
}

/*
 * Return how many events the newest checkpoint covers, 0 if there is none; it
 * counts even if its writer has not committed yet.
 */
int64
checkpoint_newest(int32 bandit_id, int32 epoch)
{
	CheckpointScan scan;
	SnapshotData dirty;
	HeapTuple	tuple;
	int64		events = 0;

	InitDirtySnapshot(dirty);
	begin_scan(&scan, AccessShareLock, &dirty, bandit_id, epoch, NULL);
	tuple = next_checkpoint(&scan);
	if (tuple != NULL)
		events = DatumGetInt64(checkpoint_column(&scan, tuple, Anum_checkpoint_events));
	end_scan(&scan);
	return events;
}

/*
 * Remove checkpoints, but only those that nobody else is just removing.
 */
static void
remove_checkpoints(int32 bandit_id, int32 epoch, const int64 *range)
{
	CheckpointScan scan;
	HeapTuple	tuple;

	begin_scan(&scan, RowExclusiveLock, SnapshotSelf, bandit_id, epoch, range);
	while ((tuple = next_checkpoint(&scan)) != NULL)
	{
		TM_FailureData failure;

		(void) table_tuple_delete(scan.rel, &tuple->t_self,
								  GetCurrentCommandId(true), SnapshotSelf,
								  InvalidSnapshot, false, &failure, false);
	}
	end_scan(&scan);
}

/*
 * Write a checkpoint of a fold that has seen what `seen` says and nothing of
 * the current transaction, and remove older ones.
 *
 * Older means up to so many events: normally that is the one before.  While an
 * old snapshot is open, dead ones pile up before that, and must not be walked
 * over again and again.
 */
void
checkpoint_write(int32 bandit_id, int32 epoch, const Fold *fold, const Seen *seen,
				 int64 older)
{
	int64		range[2] = {fold->events - older, fold->events};
	uint64		mine = log_current_xact();
	Seen		for_others;
	StringInfoData state;
	Datum		values[Natts_checkpoint];
	bool		nulls[Natts_checkpoint] = {0};

	/* a snapshot does not list its own transaction, but for others it runs */
	seen_init(&for_others);
	seen_copy(&for_others, seen);
	if (mine < seen->next)
		seen_add_running(&for_others, mine);

	initStringInfo(&state);
	state.len = VARHDRSZ;
	fold_serialize(fold, &for_others, &state);
	SET_VARSIZE(state.data, state.len);

	values[Anum_checkpoint_bandit_id - 1] = Int32GetDatum(bandit_id);
	values[Anum_checkpoint_epoch - 1] = Int32GetDatum(epoch);
	values[Anum_checkpoint_events - 1] = Int64GetDatum(fold->events);
	values[Anum_checkpoint_written_at - 1] =
		TimestampTzGetDatum(GetCurrentStatementStartTimestamp());
	values[Anum_checkpoint_state - 1] = PointerGetDatum(state.data);
	(void) insert_row(tables()->checkpoint, values, nulls, Natts_checkpoint,
					  InvalidOid);
	remove_checkpoints(bandit_id, epoch, range);

	pfree(state.data);
	pfree(for_others.running);
}

/*
 * Remove the checkpoints of a bandit that is reset or dropped.
 */
void
checkpoint_remove(int32 bandit_id)
{
	remove_checkpoints(bandit_id, ALL_EPOCHS, NULL);
}

/*
 * Remove the checkpoints of all bandits.
 */
void
checkpoint_remove_all(void)
{
	remove_checkpoints(ALL_BANDITS, ALL_EPOCHS, NULL);
}
