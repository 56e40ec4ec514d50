/*
 * expire.c
 *	  Letting decisions expire whose feedback is missing, many together.
 *
 * Decisions expire in the order in which they were made, see frontier.h.  Most of
 * them may, so silence must be cheap: one row of dexp3.expiry, a batch, says it for
 * many.  once.c tells why each decision is still settled once.
 *
 * A choose finds out from the frontier, which it has anyway, whether enough decisions are
 * due, or some have been for a while.  The batch is written at the very end, before the
 * commit: so it is open for no longer than a commit takes, however long the transaction
 * is, and no savepoint can take it back alone.  One transaction at a time does that for a
 * bandit; the others go on.  bandit_expire() writes batches at once.
 *
 * The decisions of a batch come after those of all earlier ones, by identifier.
 * Decisions are looked at in the order of transactions, which is nearly the same.
 * A decision that comes too late for a batch gets a row of its own in dexp3.feedback,
 * as all do with "deda", where what is learned from one depends on the others.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "common/int.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "expire.h"
#include "insert.h"
#include "log.h"
#include "once.h"
#include "own.h"
#include "settle.h"
#include "settlement.h"
#include "sums.h"
#include "tables.h"
#include "trim.h"

/*
 * How many decisions are enough for a batch, and how many fit into one.  A row with
 * that many is not compressed, nor moved out of line.
 */
#define ENOUGH			128
#define MAX_BATCH		200

/*
 * If fewer are due, how long a bandit waits for more: a part of its feedback window,
 * but not longer than this.
 */
#define PART_OF_WINDOW	32
#define MAX_WAIT		(60 * USECS_PER_SEC)

/*
 * How many decisions get a row of their own at one commit, and how many are looked
 * at.
 */
#define MAX_SINGLE		16
#define MAX_LOOKED_AT	(INT64CONST(4) * MAX_BATCH)

/* How often a batch is tried if others have some of its decisions. */
#define MAX_TRIES		4

/*
 * How many transactions are looked at behind a decision that is not due, in search
 * of decisions that are.
 */
#define MAX_LOOK_AHEAD	1000

/*
 * Return since when a decision must have been open for its feedback to count as
 * missing.
 */
TimestampTz
expiry_time(const Bandit *bandit)
{
	return bandit->feedback_window == NULL ? DT_NOBEGIN :
		time_before_action(bandit->feedback_window);
}

static TimestampTz
later(TimestampTz time, int64 by)
{
	TimestampTz result;

	return pg_add_s64_overflow(time, by, &result) ? DT_NOEND : result;
}

/*
 * Return after which time it is worth while to let decisions expire: when enough are
 * due, or one has been for a while; or when holes should be looked at again.
 */
static TimestampTz
worth_while_after(const Bandit *bandit, const Frontier *frontier)
{
	int64		window = time_of_action() - expiry_time(bandit);
	int64		wait = Min(Max(window, 0) / PART_OF_WINDOW, MAX_WAIT);
	const Cursor *cursor = &frontier->cursor;
	TimestampTz decided_at;
	TimestampTz result;

	if (cursor->next_round == 0)
		return DT_NOBEGIN;
	decided_at = Min(Max(frontier->enough_time, cursor->next_time),
					 later(cursor->next_time, wait));
	result = later(decided_at, window);
	if (frontier->nholes > 0)
		result = Min(result, later(frontier->looked_at, wait));
	return result;
}

/* ----------
 * One batch
 * ----------
 */

/* Decisions that are to expire. */
typedef struct Collection
{
	const Bandit *bandit;
	TimestampTz expired_before;
	int64		last_in_batch;	/* what comes before gets a row of its own */
	int64		max_single;
	int64		single;			/* how many have got one */
	int			n;
	DecisionRow *decisions;
} Collection;

static bool
has_expired(void *context, int64 round pg_attribute_unused(), TimestampTz decided_at)
{
	const Collection *collection = context;

	return decided_at < collection->expired_before;
}

/*
 * Take a decision into the batch, or let it expire by itself.
 */
static bool
collect(void *context, const DecisionRow *row)
{
	Collection *collection = context;
	const Bandit *bandit = collection->bandit;
	int			arm = row->ticket.arm;

	if (bandit->params.algorithm != DEDA && row->decision_id > collection->last_in_batch &&
		arm >= 0 && arm < bandit->params.arms)
	{
		if (collection->n == MAX_BATCH)
			return false;
		collection->decisions[collection->n++] = *row;
		return true;
	}
	if (collection->single >= collection->max_single ||
		(arm >= bandit->params.arms && bandit_has_got_arm(bandit->bandit_id, arm)) ||
		!settle_without_feedback(bandit, row, SETTLED_BY_EXPIRY))
		return false;
	collection->single++;
	return true;
}

static int
compare_decisions(const void *a, const void *b)
{
	int64		x = ((const DecisionRow *) a)->decision_id;
	int64		y = ((const DecisionRow *) b)->decision_id;

	return x < y ? -1 : x > y ? 1 : 0;
}

/*
 * Put the decisions in order.  One may be there twice: in a hole, and behind a cursor
 * that has gone back.
 */
static void
sort_collection(Collection *collection)
{
	DecisionRow *decisions = collection->decisions;
	int			n = 0;

	qsort(decisions, collection->n, sizeof(DecisionRow), compare_decisions);
	for (int i = 0; i < collection->n; i++)
	{
		if (n == 0 || decisions[n - 1].decision_id != decisions[i].decision_id)
			decisions[n++] = decisions[i];
	}
	collection->n = n;
}

/*
 * Write the batch and count it.  Returns false if somebody else has settled one of
 * its decisions, or is about to.
 */
static bool
write_batch(Collection *collection, const Sums *sums)
{
	const Bandit *bandit = collection->bandit;
	int64		ids[MAX_BATCH];
	Learner		learner;
	ExpiryRow	batch;
	int			n;

	sort_collection(collection);
	n = collection->n;
	Assert(n > 0);
	for (int i = 0; i < n; i++)
		ids[i] = collection->decisions[i].decision_id;
	sums_learner(sums, bandit, &learner);
	memset(&batch, 0, sizeof(batch));
	batch.first_decision = ids[0];
	batch.last_decision = ids[n - 1];
	batch.bandit_id = bandit->bandit_id;
	batch.epoch = bandit->epoch;
	batch.round = learner.round;
	batch.loss = bandit->missing_loss;
	batch.baseline = learner_baseline(&learner);
	batch.received_at = time_of_action();
	batch.n = n;
	batch.decisions = ids;
	if (!once_append_batch(&batch, bandit->retention != NULL))
		return false;
	for (int i = 0; i < n; i++)
	{
		FeedbackRow row;

		expired_feedback(&row, &batch, &collection->decisions[i], bandit);
		sums_add_feedback(&row, bandit);
		own_note_settled(&collection->decisions[i]);
	}
	return true;
}

/*
 * Move the frontier, collecting what has expired.
 */
static void
move_frontier(Collection *collection, Sums *sums)
{
	const Bandit *bandit = collection->bandit;
	FrontierMove move = {
		.bandit_id = bandit->bandit_id,
		.epoch = bandit->epoch,
		.newest_round = sums->totals.counts.decisions,
		.now = time_of_action(),
		.last_in_batch = LAST_NOT_KNOWN,	/* one may not be noted yet */
		.is_due = has_expired,
		.settle = collect,
		.context = collection,
		.max_settled = PG_INT64_MAX,
		.max_looked_at = collection->max_single == PG_INT64_MAX ? PG_INT64_MAX : MAX_LOOKED_AT,
		.look_ahead = ENOUGH,
		.time_ahead = sums->frontier.enough_time
	};

	own_reopen(move.bandit_id, move.epoch, &sums->frontier);
	frontier_move(&sums->frontier, &move);
	sums->frontier.enough_time = move.time_ahead;
	sums->frontier.looked_at = move.now;
}

/*
 * Before a commit: if it is worth while to let decisions expire, and nobody else does,
 * claim the frontier and return true.
 */
static bool
begin_at_commit(const Bandit *bandit, Sums *sums)
{
	TimestampTz now = time_of_action();

	/* somebody may have moved it a moment ago */
	return worth_while_after(bandit, &sums->frontier) < now &&
		shared_claim_frontier(&sums->log, &sums->frontier) &&
		worth_while_after(bandit, &sums->frontier) < now;
}

/*
 * Let decisions expire, a batch of them and perhaps some by themselves, and return how
 * many.  Before a commit, do so only if it is worth while and nobody else does.
 * Otherwise go on from a frontier, and move that.
 */
static int64
expire_some(const Bandit *bandit, Frontier *from)
{
	bool		at_commit = from == NULL;
	Collection	collection = {
		.bandit = bandit,
		.expired_before = expiry_time(bandit),
		.max_single = at_commit ? MAX_SINGLE : PG_INT64_MAX,
		.decisions = palloc(MAX_BATCH * sizeof(DecisionRow))
	};
	int			in_batch = 0;

	for (int try = 0; try < MAX_TRIES; try++)
	{
		Sums		sums;

		CHECK_FOR_INTERRUPTS();
		sums_take(&sums, bandit, RowExclusiveLock, LEARNER_SUMS(bandit->params.algorithm), 0, 1);
		if (at_commit && !begin_at_commit(bandit, &sums))
			break;
		if (!at_commit)
			frontier_copy(&sums.frontier, from);
		collection.n = 0;
		collection.last_in_batch = settlement_last_in_batch(bandit->bandit_id, bandit->epoch,
															false);
		move_frontier(&collection, &sums);
		if (collection.n == 0 || write_batch(&collection, &sums))
		{
			own_publish_frontier(&sums.log, &sums.frontier);
			if (!at_commit)
				frontier_copy(from, &sums.frontier);
			in_batch = collection.n;
			break;
		}
		/* look again at all of them: somebody else has one */
	}
	shared_release_frontier();
	return in_batch + collection.single;
}

/* ----------
 * At the end of a transaction that has chosen
 * ----------
 */

/*
 * After a choose, take note of when decisions of its bandit should expire.
 */
void
expire_after_choose(const Bandit *bandit, const Frontier *frontier)
{
	if (bandit->feedback_window != NULL)
		own_note_expiry(bandit->bandit_id, bandit->epoch, worth_while_after(bandit, frontier));
}

/*
 * Let decisions of a bandit expire, if it is still there, and more of them if this
 * transaction has made many.  The current memory context is ours.
 */
static void
expire_for(const OwnExpiry *expiry)
{
	int64		total = 0;
	int64		some;

	do
	{
		const Bandit *bandit = bandit_by_id(expiry->bandit_id);

		if (bandit == NULL || bandit->epoch != expiry->epoch ||
			bandit->feedback_window == NULL ||
			own_is_disturbed(expiry->bandit_id, expiry->epoch))
			break;
		some = expire_some(bandit, NULL);
		total += some;
		MemoryContextReset(CurrentMemoryContext);
	} while (some > 0 && total < 2 * expiry->decisions);
}

/*
 * Let decisions expire before the commit.  Triggers that somebody has put on the
 * tables may be deferred, and would be forgotten now.
 */
static void
expire_before_commit(void)
{
	MemoryContext context;
	MemoryContext old;
	OwnExpiry  *expiries;
	int			n = own_expiries(time_of_action(), &expiries);

	/* the extension may have been dropped */
	if (n == 0 || XactReadOnly || tables_if_there() == NULL)
		return;

	context = AllocSetContextCreate(TopTransactionContext, "dexp3 expiry",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < n; i++)
		expire_for(&expiries[i]);
	PopActiveSnapshot();
	set_inserting(true);
	PG_TRY();
	{
		AfterTriggerFireDeferred();
	}
	PG_FINALLY();
	{
		set_inserting(false);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

static void
transaction_event(XactEvent event, void *arg pg_attribute_unused())
{
	if (event == XACT_EVENT_PRE_COMMIT)
		expire_before_commit();
}

void
expire_init(void)
{
	RegisterXactCallback(transaction_event, NULL);
}

/* ----------
 * bandit_expire()
 * ----------
 */

/* Decisions behind one that is not due. */
typedef struct Rest
{
	const Bandit *bandit;
	TimestampTz expired_before;
	int64		expired;
	int			not_due;		/* how many transactions had only these */
	uint64		last_xact;
} Rest;

static bool
expire_rest(void *context, const DecisionRow *row)
{
	Rest	   *rest = context;
	Settlement	settlement;

	if (row->decided_at < rest->expired_before)
	{
		if (settlement_find(row, &settlement) == NOT_SETTLED &&
			settle_without_feedback(rest->bandit, row, SETTLED_BY_EXPIRY))
			rest->expired++;
	}
	else if (row->xact != rest->last_xact)
		rest->not_due++;
	rest->last_xact = row->xact;
	return rest->not_due < MAX_LOOK_AHEAD;
}

/*
 * Let all decisions expire whose feedback is missing: first in their order, then
 * those behind one that is waited for, since decisions of long transactions are not in
 * the order of their times.  Returns how many.
 */
int64
expire_all(const Bandit *bandit)
{
	Rest		rest = {
		.bandit = bandit,
		.expired_before = expiry_time(bandit)
	};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dexp3 expiry",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;
	Sums		sums;
	int64		some;

	sums_take_all(&sums, bandit, RowExclusiveLock);
	checkpoint_and_trim(&sums, bandit);
	old = MemoryContextSwitchTo(context);
	do
	{
		some = expire_some(bandit, &sums.frontier);
		rest.expired += some;
		MemoryContextReset(context);
	} while (some > 0);
	frontier_visit_open(&sums.frontier, bandit->bandit_id, bandit->epoch, expire_rest, &rest);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return rest.expired;
}
