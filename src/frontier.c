/*
 * frontier.c
 *	  How far the decisions of a bandit are known to be settled: moving on.
 *
 * The cursor is moved past decisions that are settled.  It is moved past one that is open
 * only by settling it, when it is due.  Nobody is waited for:
 *
 * - A decision that another open transaction has just settled is passed, and that
 *	 transaction becomes a hole.  If it is rolled back, the cursor goes back; also if it
 *	 is committed, but has settled something in a subtransaction, which may have been
 *	 rolled back, or was about to settle something, and may have withdrawn its row.  One's
 *	 own transaction is such a hole for the decisions that it has settled itself, until it
 *	 ends; own.c knows what a savepoint has rolled back.
 * - A transaction that is running, and may have made decisions that come before the
 *	 cursor's new place, becomes a hole.  When it has finished its decisions are
 *	 looked at by themselves.
 *
 * If there is no room for another hole, the cursor stays where it is until there
 * is.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "storage/lwlock.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "frontier.h"
#include "log.h"
#include "moment.h"
#include "settlement.h"

/* How many rows that are gone may be walked over in one move. */
#define MAX_GONE		1000

/* How far the moment is made to reach, up to one's own transaction. */
#define MAX_REACH		1000

/* A move that is under way. */
typedef struct Mover
{
	Frontier   *frontier;
	FrontierMove *move;
	Moment		moment;
	uint64		mine;			/* our transaction, 0 if it has no identifier */
	bool		reaches_mine;	/* is known what runs before it? */
	int			reserved;		/* room for holes that are still to be looked
								 * at */
	SettlementLook *look;
	int64		looked_at;
	int64		gone;
} Mover;

/*
 * Compare two places.
 */
int
frontier_compare(const Cursor *a, const Cursor *b)
{
	if (a->xact != b->xact)
		return a->xact < b->xact ? -1 : 1;
	return a->decision_id < b->decision_id ? -1 : a->decision_id > b->decision_id ? 1 : 0;
}

static bool
is_due(const FrontierMove *move, int64 round, TimestampTz decided_at)
{
	return move->is_due != NULL && move->is_due(move->context, round, decided_at);
}

/*
 * Is it known that nothing behind a cursor is due?
 */
static bool
is_quiet(const Cursor *cursor, const FrontierMove *move)
{
	return cursor->next_round != 0 && !is_due(move, cursor->next_round, cursor->next_time);
}

static void
set_next(Cursor *cursor, int64 round, TimestampTz decided_at)
{
	cursor->next_round = round;
	cursor->next_time = decided_at;
}

/* ----------
 * Holes
 * ----------
 */

/*
 * Take note of a transaction that was running when the cursor passed.  Returns
 * false if there is no room for it.
 */
static bool
add_hole(Mover *mover, HoleKind kind, uint64 xact, const Cursor *before)
{
	Frontier   *frontier = mover->frontier;
	Hole	   *hole = frontier->holes;

	while (hole < frontier->holes + frontier->nholes &&
		   (hole->kind != kind || hole->xact != xact))
		hole++;
	if (hole == frontier->holes + frontier->nholes)
	{
		if (frontier->nholes + mover->reserved >= MAX_HOLES)
			return false;
		frontier->nholes++;
		memset(hole, 0, sizeof(Hole));
		hole->xact = xact;
		hole->kind = kind;
		hole->cursor = *before;
	}
	else if (frontier_compare(before, &hole->cursor) < 0)
		hole->cursor = *before;
	set_next(&hole->cursor, 0, 0);
	return true;
}

/*
 * Take note of a transaction that has settled a decision behind the cursor.
 */
static bool
add_settler(Mover *mover, const Settlement *settlement, const Cursor *before)
{
	Frontier   *frontier = mover->frontier;

	if (!add_hole(mover, HOLE_SETTLEMENTS, settlement->xact, before))
		return false;
	for (int i = 0; i < frontier->nholes; i++)
	{
		Hole	   *hole = &frontier->holes[i];

		if (hole->kind == HOLE_SETTLEMENTS && hole->xact == settlement->xact)
			hole->look_again |= settlement->speculative_token != 0 ||
				settlement->settler != (TransactionId) settlement->xact;
	}
	return true;
}

/*
 * Has a transaction that has finished been committed?  If it is so old that nobody
 * knows, say no: then it is looked at again.
 */
static bool
was_committed(uint64 xact)
{
	TransactionId xid = (TransactionId) xact;
	bool		committed;

	LWLockAcquire(XactTruncationLock, LW_SHARED);
	committed = full_xid(OldestClogXid) <= xact && TransactionIdDidCommit(xid);
	LWLockRelease(XactTruncationLock);
	return committed;
}

static bool
is_finished(const Hole *hole, const Moment *moment, Snapshot snapshot)
{
	if (hole->xact >= moment->next)
		return false;
	/* the snapshot compares 32 bits */
	return moment->next - hole->xact > PG_INT32_MAX / 2 ||
		!XidInMVCCSnapshot((TransactionId) hole->xact, snapshot);
}

/* ----------
 * Moving
 * ----------
 */

/*
 * Is there a running transaction between the cursor and a place, which may still
 * make decisions there visible?  Our own is one if the place is behind it.
 */
static bool
has_running_between(const Mover *mover, const Cursor *cursor, uint64 xact)
{
	const Moment *moment = &mover->moment;

	for (int i = moment_first_running(moment, cursor->xact);
		 i < moment->nrunning && moment->running[i] <= xact; i++)
	{
		if (moment->running[i] != mover->mine || xact != mover->mine)
			return true;
	}
	return false;
}

/*
 * Move a cursor to a place; false if there is no room for a hole.
 */
static bool
pass(Mover *mover, Cursor *cursor, uint64 xact, int64 decision_id, bool one_transaction)
{
	const Moment *moment = &mover->moment;

	for (int i = moment_first_running(moment, cursor->xact);
		 !one_transaction && i < moment->nrunning && moment->running[i] <= xact; i++)
	{
		uint64		running = moment->running[i];
		Cursor		before = {
			.xact = running,
			.decision_id = running == cursor->xact ? cursor->decision_id : 0
		};

		if ((running != mover->mine || xact != mover->mine) &&
			!add_hole(mover, HOLE_DECISIONS, running, &before))
			return false;
	}
	cursor->xact = xact;
	cursor->decision_id = decision_id;
	mover->move->moved = true;
	return true;
}

/* What became of the decision at a place. */
typedef enum Outcome
{
	PASSED,
	NOT_DUE,					/* it is open, or better left alone */
	NO_MORE						/* some limit has been reached */
} Outcome;

/*
 * Look at a decision, settle it if it is due, and move the cursor past it.
 */
static Outcome
take_decision(Mover *mover, Cursor *cursor, const DecisionRow *row, bool one_transaction)
{
	FrontierMove *move = mover->move;
	bool		due = is_due(move, row->ticket.round, row->decided_at);
	Settlement	settlement;

	/* if one had to be settled, most likely the next is open, too */
	if (!due && move->settled > 0)
		return NOT_DUE;
	if (++mover->looked_at > move->max_looked_at)
		return NO_MORE;
	if (settlement_of(mover->look, row, &settlement) == NOT_SETTLED)
	{
		if (!due)
			return NOT_DUE;
		if (move->settled >= move->max_settled)
			return NO_MORE;
		if (move->settle(move->context, row))
		{
			move->settled++;
			settlement.settler = GetCurrentTransactionId();
			settlement.xact = log_current_xact();
		}
		else if (settlement_find(row, &settlement) == NOT_SETTLED)
			return NO_MORE;		/* somebody was quicker, and rolled back */
	}

	/* only what is due is worth a hole */
	if (!due && (settlement.status == BEING_SETTLED ||
				 (!one_transaction && has_running_between(mover, cursor, row->xact))))
		return NOT_DUE;
	if (TransactionIdIsValid(settlement.settler) &&
		!add_settler(mover, &settlement, cursor))
		return NO_MORE;
	return pass(mover, cursor, row->xact, row->decision_id, one_transaction) ?
		PASSED : NO_MORE;
}

/*
 * Return the time of the decision that is so far behind the cursor, counting the one at
 * which the walk has stopped, or now if there are not as many.
 */
static TimestampTz
find_time_ahead(const FrontierMove *move, DecisionWalk *walk)
{
	DecisionRow row;
	uint64		xact;
	int64		decision_id;
	int			n = 1;

	while (n < move->look_ahead && log_next_place(walk, &xact, &decision_id))
		n++;
	return n == move->look_ahead && log_read_place(walk, &row) ? row.decided_at : move->now;
}

/*
 * Move a cursor as far as it goes, in all transactions or in one.  Returns whether
 * it has come to the end.
 */
static bool
move_cursor(Mover *mover, Cursor *cursor, bool one_transaction)
{
	FrontierMove *move = mover->move;
	DecisionWalk *walk = log_begin_walk(move->bandit_id, move->epoch, cursor->xact,
										cursor->decision_id, one_transaction);
	Outcome		outcome = PASSED;
	Cursor		before_gone;	/* where it was before rows that are gone */
	uint64		xact;
	int64		decision_id;

	set_next(cursor, 0, 0);
	before_gone = *cursor;
	while (outcome == PASSED && log_next_place(walk, &xact, &decision_id))
	{
		bool		here = xact == cursor->xact && decision_id == cursor->decision_id;
		DecisionRow row;

		if (xact >= mover->moment.next && !(xact == mover->mine && mover->reaches_mine))
			break;				/* too new for us */
		if (xact != mover->mine && moment_is_running(&mover->moment, xact))
			continue;			/* whoever passes it makes a hole */
		if (log_read_place(walk, &row))
		{
			/* somebody has changed it, and an older version was here */
			if (here)
				*cursor = before_gone;
			outcome = take_decision(mover, cursor, &row, one_transaction);
			if (outcome == NOT_DUE)
				set_next(cursor, row.ticket.round, row.decided_at);
		}
		else
		{
			if (!here)
				before_gone = *cursor;
			/* rolled back, or removed; many are worth a hole */
			if (one_transaction || mover->gone > MAX_GONE / 2 ||
				!has_running_between(mover, cursor, xact))
				(void) pass(mover, cursor, xact, decision_id, one_transaction);
			if (++mover->gone > MAX_GONE)
			{
				*cursor = before_gone;
				outcome = NO_MORE;
			}
		}
	}
	if (!one_transaction && move->look_ahead > 0)
		move->time_ahead = outcome == NOT_DUE ? find_time_ahead(move, walk) : move->now;
	log_end_walk(walk);
	if (outcome == PASSED)
		set_next(cursor, Max(move->newest_round, 1), move->now);
	return outcome == PASSED;
}

/*
 * Look at the transactions that were running, and drop those that need no further
 * look.
 */
static void
fill_holes(Mover *mover, Snapshot snapshot)
{
	Frontier   *frontier = mover->frontier;
	Hole		holes[MAX_HOLES];
	int			nholes = frontier->nholes;
	int			finished = 0;

	/* put those aside first: looking at decisions may make new holes */
	memcpy(holes, frontier->holes, nholes * sizeof(Hole));
	frontier->nholes = 0;
	for (int i = 0; i < nholes; i++)
	{
		Hole	   *hole = &holes[i];
		bool		mine = hole->xact == mover->mine;

		if (is_quiet(&hole->cursor, mover->move) ||
			(mine ? hole->kind == HOLE_SETTLEMENTS :
			 !is_finished(hole, &mover->moment, snapshot)))
			frontier->holes[frontier->nholes++] = *hole;
		else if (hole->kind == HOLE_DECISIONS)
			holes[finished++] = *hole;
		else
		{
			if ((hole->look_again || !was_committed(hole->xact)) &&
				frontier_compare(&hole->cursor, &frontier->cursor) < 0)
				frontier->cursor = hole->cursor;
			mover->move->moved = true;
		}
	}
	mover->reserved = finished;
	for (int i = 0; i < finished; i++)
	{
		Hole		hole = holes[i];
		bool		at_end = move_cursor(mover, &hole.cursor, true);

		mover->reserved--;
		if (!at_end || hole.xact == mover->mine)
			frontier->holes[frontier->nholes++] = hole;
		mover->move->moved = true;
	}
}

/*
 * Move a frontier.  move->moved tells whether it has changed.
 */
void
frontier_move(Frontier *frontier, FrontierMove *move)
{
	Mover		mover = {
		.frontier = frontier,
		.move = move,
		.mine = U64FromFullTransactionId(GetTopFullTransactionIdIfAny())
	};
	Snapshot	snapshot;
	Cursor		before = frontier->cursor;

	move->settled = 0;
	move->moved = false;
	if (frontier->nholes == 0 && is_quiet(&frontier->cursor, move))
		return;

	snapshot = RegisterSnapshot(GetLatestSnapshot());
	moment_init(&mover.moment);
	moment_of_snapshot(&mover.moment, snapshot);
	mover.reaches_mine = mover.mine < mover.moment.next + MAX_REACH;
	if (mover.reaches_mine)
		moment_reach(&mover.moment, mover.mine);
	mover.look = settlement_begin_look(move->last_in_batch);
	fill_holes(&mover, snapshot);
	if (!is_quiet(&frontier->cursor, move))
		(void) move_cursor(&mover, &frontier->cursor, false);
	settlement_end_look(mover.look);
	UnregisterSnapshot(snapshot);
	pfree(mover.moment.running);
	if (memcmp(&before, &frontier->cursor, sizeof(Cursor)) != 0)
		move->moved = true;
}

/*
 * Visit the decisions that are open, in their order, from a place on before which
 * everything is settled for good.
 */
void
frontier_visit_open(const Frontier *frontier, int32 bandit_id, int32 epoch,
					OpenVisitor visit, void *context)
{
	Cursor		begin = frontier->cursor;
	SettlementLook *look = settlement_begin_look(LAST_NOT_KNOWN);
	DecisionWalk *walk;
	uint64		xact;
	int64		decision_id;
	bool		go_on = true;

	for (int i = 0; i < frontier->nholes; i++)
	{
		if (frontier_compare(&frontier->holes[i].cursor, &begin) < 0)
			begin = frontier->holes[i].cursor;
	}
	walk = log_begin_walk(bandit_id, epoch, begin.xact, begin.decision_id, false);
	while (go_on && log_next_place(walk, &xact, &decision_id))
	{
		DecisionRow row;
		Settlement	settlement;

		if (log_read_place(walk, &row) && settlement_of(look, &row, &settlement) != IS_SETTLED)
			go_on = visit(context, &row);
	}
	settlement_end_look(look);
	log_end_walk(walk);
}
