/*
 * settlement.c
 *	  How a decision was settled: by a row of dexp3.feedback, or by one of
 *	  dexp3.expiry that it shares with others.
 *
 * A row of dexp3.expiry is a batch: it lists the decisions that it covers.  Of two
 * batches of a bandit, all decisions of one come before all of the other, see once.c.  So
 * the batch of a decision can only be the first one that reaches the decision.
 *
 * Rows of dexp3.feedback and batches are looked up with a dirty snapshot, which shows all
 * but those that have been withdrawn or rolled back.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "access/xact.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "log.h"
#include "rowscan.h"
#include "settlement.h"
#include "tables.h"

/*
 * How far apart two decisions may be to count as near, and how far to look ahead then.
 * If decisions stand alone, for instance because many bandits are in use, their
 * neighbours are not worth a look.
 */
#define NEAR	32
#define REACH	256

struct SettlementLook
{
	int64		last_in_batch;	/* later decisions are in no batch */
	MemoryContext context;		/* of the batch; NULL before the first */
	SnapshotData dirty;
	bool		in_feedback;	/* have these scans been begun? */
	bool		in_expiry;
	RowScan		feedback;
	RowScan		expiry;

	/* The scan of dexp3.feedback is for decisions behind this one ... */
	int64		asked;
	int64		until;			/* ... up to this one */
	bool		has_next;		/* it is at the index entry of this decision: */
	int64		next;

	/*
	 * From this decision on, this is the first batch that reaches another, if
	 * there is one.
	 */
	bool		known;
	int32		bandit_id;
	int32		epoch;
	int64		from;
	bool		has_batch;
	ExpiryRow	batch;
};

/*
 * Take note of whose row the dirty snapshot has just shown.
 */
static void
note_settler(const SettlementLook *look, const RowScan *rows, SettledBy settled_by,
			 uint64 xact, Settlement *settlement)
{
	bool		isnull;
	TransactionId xmin = DatumGetTransactionId(slot_getsysattr(rows->slot,
															   MinTransactionIdAttributeNumber,
															   &isnull));

	settlement->settled_by = settled_by;
	settlement->xact = xact;
	settlement->status = IS_SETTLED;
	if (TransactionIdIsValid(look->dirty.xmin))
	{
		settlement->status = BEING_SETTLED;
		settlement->settler = look->dirty.xmin;
		settlement->speculative_token = look->dirty.speculativeToken;
	}
	else if (TransactionIdIsCurrentTransactionId(xmin))
		settlement->settler = xmin;
}

/*
 * Is a decision in a batch?
 */
static bool
covers(const ExpiryRow *batch, int64 decision_id)
{
	if (batch->first_decision > decision_id || batch->last_decision < decision_id)
		return false;
	for (int i = 0; i < batch->n; i++)
	{
		if (batch->decisions[i] == decision_id)
			return true;
	}
	return false;
}

/* ----------
 * Rows of dexp3.feedback
 * ----------
 */

/*
 * Go to the next index entry.  The row is fetched only if it is asked for.
 */
static void
next_feedback(SettlementLook *look)
{
	IndexScanDesc scan = look->feedback.scan;
	bool		isnull;

	look->has_next = index_getnext_tid(scan, ForwardScanDirection) != NULL;
	if (look->has_next)
		look->next = DatumGetInt64(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &isnull));
}

/*
 * Begin to look at the rows of some decisions.
 */
static void
begin_feedback(SettlementLook *look, int64 first, int64 last)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(first));
	ScanKeyInit(&keys[1], 1, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(last));
	if (look->in_feedback)
		rows_begin_again(&look->feedback, keys, 2);
	else
		rows_begin_entries(&look->feedback, tables()->feedback, tables()->feedback_pkey,
						   AccessShareLock, &look->dirty, keys, 2);
	look->in_feedback = true;
	look->until = last;
	next_feedback(look);
}

/*
 * Find the row of a decision, and return whether there is one.
 *
 * A caller that looks at many decisions asks for one after the other.  If they are near
 * each other, one scan finds the rows of all that come soon.
 */
static bool
find_feedback(SettlementLook *look, int64 decision_id)
{
	if (!look->in_feedback || decision_id <= look->asked || decision_id > look->until)
	{
		/* identifiers may be anything, if somebody has inserted rows */
		bool		is_near = look->in_feedback && decision_id <= PG_INT64_MAX - REACH &&
			(uint64) decision_id - (uint64) look->asked + NEAR < UINT64CONST(2) * NEAR;

		begin_feedback(look, decision_id, is_near ? decision_id + REACH : decision_id);
	}
	look->asked = decision_id;
	while (look->has_next && look->next < decision_id)
		next_feedback(look);
	while (look->has_next && look->next == decision_id)
	{
		if (index_fetch_heap(look->feedback.scan, look->feedback.slot))
			return true;
		next_feedback(look);	/* it was withdrawn, or rolled back */
	}
	return false;
}

/* ----------
 * Batches
 * ----------
 */

/*
 * Begin to look at the batches of a bandit that reach a decision, in their order.
 */
static void
begin_batches(SettlementLook *look, int32 bandit_id, int32 epoch, int64 decision_id)
{
	ScanKeyData keys[3];

	/* the columns of the index: bandit_id, epoch, last_decision */
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(bandit_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(epoch));
	ScanKeyInit(&keys[2], 3, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(decision_id));
	if (look->in_expiry)
		rows_begin_again(&look->expiry, keys, lengthof(keys));
	else
		rows_begin(&look->expiry, tables()->expiry, tables()->expiry_last_idx,
				   AccessShareLock, &look->dirty, keys, lengthof(keys));
	look->in_expiry = true;
}

static bool
next_batch(SettlementLook *look)
{
	MemoryContext old;

	if (!rows_next(&look->expiry))
		return false;
	if (look->context == NULL)
		look->context = AllocSetContextCreate(GetMemoryChunkContext(look), "dexp3 batch",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(look->context);
	old = MemoryContextSwitchTo(look->context);
	log_read_expiry(look->expiry.slot, &look->batch);
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * Find the batch that covers a decision, and return whether there is one.
 */
static bool
find_batch(SettlementLook *look, int32 bandit_id, int32 epoch, int64 decision_id,
		   Settlement *settlement)
{
	bool		same = look->known && bandit_id == look->bandit_id &&
		epoch == look->epoch && decision_id >= look->from;

	if (same && (!look->has_batch || decision_id <= look->batch.last_decision))
	{
		if (!look->has_batch || !covers(&look->batch, decision_id))
			return false;
		settlement->status = IS_SETTLED;
		settlement->settled_by = SETTLED_BY_EXPIRY;
		settlement->xact = look->batch.xact;
		return true;
	}

	look->known = false;
	look->bandit_id = bandit_id;
	look->epoch = epoch;
	look->from = decision_id;
	begin_batches(look, bandit_id, epoch, decision_id);
	while (next_batch(look))
	{
		Settlement	found = {0};

		note_settler(look, &look->expiry, SETTLED_BY_EXPIRY, look->batch.xact, &found);
		/* what may be rolled back, perhaps by ourselves, is not remembered */
		if (!TransactionIdIsValid(found.settler))
			look->known = look->has_batch = true;
		if (covers(&look->batch, decision_id))
		{
			*settlement = found;
			return true;
		}
		if (found.speculative_token == 0)
			return false;
	}
	look->known = true;
	look->has_batch = false;
	return false;
}

/*
 * Return the last decision that is in a batch of a bandit, or 0; perhaps also of batches
 * that have been withdrawn, rolled back or removed.
 */
int64
settlement_last_in_batch(int32 bandit_id, int32 epoch, bool also_removed)
{
	SnapshotData dirty;
	ScanKeyData keys[2];
	RowScan		rows;
	int64		last = 0;

	InitDirtySnapshot(dirty);
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(bandit_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(epoch));
	rows_begin(&rows, tables()->expiry, tables()->expiry_last_idx, AccessShareLock,
			   also_removed ? SnapshotAny : &dirty, keys, lengthof(keys));
	if (rows_next_from_end(&rows))
	{
		bool		isnull;

		last = DatumGetInt64(slot_getattr(rows.slot, Anum_expiry_last_decision, &isnull));
	}
	rows_end(&rows);
	return last;
}

/* ----------
 * Looking
 * ----------
 */

/*
 * Begin to look.  No decision after the last one that is in a batch is looked for among
 * the batches.
 */
SettlementLook *
settlement_begin_look(int64 last_in_batch)
{
	SettlementLook *look = palloc0(sizeof(SettlementLook));

	look->last_in_batch = last_in_batch;
	InitDirtySnapshot(look->dirty);
	return look;
}

/*
 * Find out whether a decision is settled, perhaps by somebody who has not committed yet.
 */
SettlementStatus
settlement_of(SettlementLook *look, const DecisionRow *decision, Settlement *settlement)
{
	memset(settlement, 0, sizeof(Settlement));
	if (find_feedback(look, decision->decision_id))
	{
		FeedbackRow row;

		log_read_feedback(look->feedback.slot, &row);
		note_settler(look, &look->feedback, row.settled_by, row.xact, settlement);
	}
	else if (decision->decision_id <= look->last_in_batch)
		(void) find_batch(look, decision->bandit_id, decision->epoch,
						  decision->decision_id, settlement);
	return settlement->status;
}

void
settlement_end_look(SettlementLook *look)
{
	if (look->in_feedback)
		rows_end(&look->feedback);
	if (look->in_expiry)
		rows_end(&look->expiry);
	if (look->context != NULL)
		MemoryContextDelete(look->context);
	pfree(look);
}

/*
 * Look at one decision.
 */
SettlementStatus
settlement_find(const DecisionRow *decision, Settlement *settlement)
{
	SettlementLook *look = settlement_begin_look(LAST_NOT_KNOWN);
	SettlementStatus status = settlement_of(look, decision, settlement);

	settlement_end_look(look);
	return status;
}

/*
 * Find the batch that covers a decision; false if there is none.
 */
bool
settlement_find_batch(int32 bandit_id, int32 epoch, int64 decision_id,
					  Settlement *settlement)
{
	SettlementLook *look = settlement_begin_look(LAST_NOT_KNOWN);
	bool		covered;

	memset(settlement, 0, sizeof(Settlement));
	covered = find_batch(look, bandit_id, epoch, decision_id, settlement);
	settlement_end_look(look);
	return covered;
}

/*
 * Does a batch that has just been written have no rival: neither another batch that
 * reaches its first decision, nor a row of dexp3.feedback for one of its decisions?  They
 * are looked for in this order.
 */
bool
settlement_is_alone(const ExpiryRow *row)
{
	SettlementLook *look = settlement_begin_look(LAST_NOT_KNOWN);
	bool		alone = true;

	begin_batches(look, row->bandit_id, row->epoch, row->first_decision);
	while (alone && next_batch(look))
		alone = look->batch.first_decision == row->first_decision;	/* itself */
	for (int i = 0; alone && i < row->n; i++)
		alone = !find_feedback(look, row->decisions[i]);
	settlement_end_look(look);
	return alone;
}
