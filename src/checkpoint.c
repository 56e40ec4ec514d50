/*
 * checkpoint.c
 *	  Sums in dexp3.checkpoint, so that nobody need add up the whole log.
 *
 * A checkpoint has the sums over the log at some moment, and the frontier.  It is
 * never the truth, only a quick way to it: it is not dumped, and any may be lost.
 * Several may exist; the one with the most events is the best.  Whoever writes
 * one removes older ones, but never waits for somebody who is doing the same.
 *
 * Only the cluster that wrote a checkpoint reads it, so that native representation
 * will do.  A change of layout must change CHECKPOINT_FORMAT; a checkpoint that
 * cannot be read is useless but not wrong.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "checkpoint.h"
#include "clock.h"
#include "compat.h"
#include "insert.h"
#include "rowscan.h"
#include "tables.h"

#define CHECKPOINT_FORMAT	2

/*
 * A checkpoint is due when this many events are not covered by one, or more if it is
 * large: then the events pay for it.
 */
#define CHECKPOINT_EVENTS	512
#define BYTES_PER_EVENT		128

typedef struct CheckpointHeader
{
	uint32		format;
	int32		arms;
	int32		nrunning;
	uint64		next;
	Counts		counts;
	int32		nholes;
} CheckpointHeader;

#define ALL_BANDITS		0
#define ALL_EPOCHS		0

/*
 * Begin a scan of the checkpoints of a bandit or ALL_BANDITS, of one epoch or
 * ALL_EPOCHS.  With a range, only those that cover at least range[0] and less than
 * range[1] events.
 */
static void
begin_scan(RowScan *rows, LOCKMODE lockmode, Snapshot snapshot,
		   int32 bandit_id, int32 epoch, const int64 *range)
{
	ScanKeyData keys[4];

	/* the columns of the index are the first of the table */
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
	rows_begin(rows, tables()->checkpoint, tables()->checkpoint_idx, lockmode, snapshot,
			   keys, bandit_id == ALL_BANDITS ? 0 : epoch == ALL_EPOCHS ? 1 :
			   range == NULL ? 2 : 4);
}

/*
 * Return after how many events another checkpoint should be written.
 */
int64
checkpoint_due_after(Size sums_size)
{
	return CHECKPOINT_EVENTS + sums_size / BYTES_PER_EVENT;
}

static void
serialize(StringInfo buf, const Totals *totals, const Frontier *frontier,
		  const Moment *moment)
{
	CheckpointHeader header;

	memset(&header, 0, sizeof(header));
	header.format = CHECKPOINT_FORMAT;
	header.arms = totals->arms;
	header.nrunning = moment->nrunning;
	header.next = moment->next;
	header.counts = totals->counts;
	header.nholes = frontier->nholes;

	appendBinaryStringInfo(buf, (const char *) &header, sizeof(header));
	appendBinaryStringInfo(buf, (const char *) totals->sums, totals_sums_size(totals));
	appendBinaryStringInfo(buf, (const char *) moment->running,
						   moment->nrunning * sizeof(uint64));
	appendBinaryStringInfo(buf, (const char *) frontier, FRONTIER_SIZE(frontier->nholes));
}

/*
 * Read a checkpoint.  The bytes need not be aligned.  Returns false if it is of
 * another format, or of a time when the bandit had another half-life.
 */
static bool
deserialize(const char *data, Size size, int64 half_life, Totals *totals,
			Frontier *frontier, Moment *moment)
{
	CheckpointHeader header;
	Totals		read = {.nsums = NUM_ARM_SUMS};
	Size		running_size;

	if (size < sizeof(header))
		return false;
	memcpy(&header, data, sizeof(header));
	if (header.format != CHECKPOINT_FORMAT ||
		header.arms < 0 || header.arms > LEARNER_MAX_ARMS ||
		header.nrunning < 0 || header.nholes < 0 || header.nholes > MAX_HOLES ||
		header.counts.half_life != half_life)
		return false;
	read.arms = header.arms;
	running_size = header.nrunning * sizeof(uint64);
	if (size != sizeof(header) + totals_sums_size(&read) + running_size +
		FRONTIER_SIZE(header.nholes))
		return false;

	totals_grow(totals, header.arms);
	totals->counts = header.counts;
	data += sizeof(header);
	for (int i = 0; i < NUM_ARM_SUMS; i++)
	{
		memcpy(totals_vector(totals, i), data, read.arms * sizeof(double));
		data += read.arms * sizeof(double);
	}
	moment->next = header.next;
	moment_set_running(moment, data, header.nrunning);
	data += running_size;
	memcpy(frontier, data, FRONTIER_SIZE(header.nholes));
	frontier->nholes = header.nholes;
	frontier->entry = 0;
	return true;
}

/*
 * Read the newest checkpoint that a snapshot sees into totals that are new.  Returns
 * false if there is none.  One that was written since may include transactions that
 * had not finished for the snapshot.
 */
bool
checkpoint_read(const Bandit *bandit, Snapshot snapshot, Totals *totals,
				Frontier *frontier, Moment *moment)
{
	bool		found = false;
	RowScan		rows;

	begin_scan(&rows, AccessShareLock, SnapshotAny, bandit->bandit_id, bandit->epoch, NULL);
	while (!found && rows_next_from_end(&rows))
	{
		if (table_tuple_satisfies_snapshot(rows.table, rows.slot, snapshot))
		{
			bool		isnull;
			bytea	   *state = DatumGetByteaPP(slot_getattr(rows.slot, Anum_checkpoint_state,
															 &isnull));

			found = deserialize(VARDATA_ANY(state), VARSIZE_ANY_EXHDR(state),
								bandit->half_life, totals, frontier, moment);
		}
	}
	rows_end(&rows);
	return found;
}

/*
 * Remove checkpoints, but only those that nobody else is removing.
 */
static void
remove_checkpoints(int32 bandit_id, int32 epoch, const int64 *range)
{
	RowScan		rows;

	begin_scan(&rows, RowExclusiveLock, SnapshotSelf, bandit_id, epoch, range);
	while (rows_next_from_end(&rows))
		rows_delete(&rows);
	rows_end(&rows);
}

/*
 * Take the right to write a checkpoint, before the snapshot for it, until the end
 * of the transaction.  Returns false if somebody is changing the log by hand, see
 * checkpoint_remove_all().
 */
bool
checkpoint_lock_to_write(void)
{
	return ConditionalLockRelationOid(tables()->checkpoint, RowExclusiveLock);
}

/*
 * Write a checkpoint of the sums at a moment, which must not include this transaction,
 * and remove the one that it was made from, which covers so many events.  Earlier ones
 * have been removed already; while an old snapshot is open they pile up, and must not be
 * walked over again and again.
 */
void
checkpoint_write(int32 bandit_id, int32 epoch, const Totals *totals,
				 const Frontier *frontier, const Moment *moment, int64 made_from)
{
	int64		events = counts_events(&totals->counts);
	int64		range[2] = {made_from, events};
	StringInfoData state;
	Datum		values[Natts_checkpoint];
	bool		nulls[Natts_checkpoint] = {0};

	initStringInfo(&state);
	state.len = VARHDRSZ;
	serialize(&state, totals, frontier, moment);
	SET_VARSIZE(state.data, state.len);

	values[Anum_checkpoint_bandit_id - 1] = Int32GetDatum(bandit_id);
	values[Anum_checkpoint_epoch - 1] = Int32GetDatum(epoch);
	values[Anum_checkpoint_events - 1] = Int64GetDatum(events);
	values[Anum_checkpoint_written_at - 1] =
		TimestampTzGetDatum(time_of_action());
	values[Anum_checkpoint_state - 1] = PointerGetDatum(state.data);
	insert_row(tables()->checkpoint, values, nulls, Natts_checkpoint);
	remove_checkpoints(bandit_id, epoch, range);
	pfree(state.data);
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
 * Remove the checkpoints of all bandits, because this transaction has changed rows of the
 * log.  Until it ends nobody may write one, which would lack the change; whoever has just
 * done so is waited for.
 */
void
checkpoint_remove_all(void)
{
	LockRelationOid(tables()->checkpoint, ShareRowExclusiveLock);
	CommandCounterIncrement();	/* this very command may have written one */
	remove_checkpoints(ALL_BANDITS, ALL_EPOCHS, NULL);
}
