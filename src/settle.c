/*
 * settle.c
 *	  Settling decisions one by one: by feedback, by skipping.
 *
 * To settle a decision is to append its row to dexp3.feedback, which can be done only
 * once, see once.c, and to add that to the sums.  Skipping goes through the decisions in
 * the order in which they were made, see frontier.h, and leaves alone what another
 * transaction is settling.  So does expiry, see expire.c.
 *
 * Feedback waits for another session in one case only: a transaction that is
 * still running has settled the very same decision, so that nobody can say yet
 * whether this feedback will count.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "arguments.h"
#include "clock.h"
#include "log.h"
#include "node.h"
#include "once.h"
#include "own.h"
#include "settle.h"
#include "settlement.h"
#include "trim.h"

/*
 * How many decisions that have become due one choose settles, and how many it looks at.
 * In the long run no more than one per choose can become due, but not every choose gets
 * to settle any.
 */
#define MAX_SKIPPED		8
#define MAX_LOOKED_AT	64

/*
 * One session at a time skips, unless skipping has fallen behind by this many rounds:
 * with many processors one session may be too few.
 */
#define FAR_BEHIND		64

/* ----------
 * One decision
 * ----------
 */

/*
 * Settle a decision that seems to be open, with a loss in the bandit's units
 * unless it is skipped.  Returns false if somebody else has, or is about to.
 * look_first says that nobody has looked yet.
 */
static bool
settle(const Bandit *bandit, const Sums *sums, const DecisionRow *decision,
	   SettledBy settled_by, double loss, bool look_first)
{
	int			arm = decision->ticket.arm;
	Ticket		ticket = decision->ticket;
	Learner		learner;
	FeedbackRow row = {
		.decision_id = decision->decision_id,
		.bandit_id = decision->bandit_id,
		.epoch = decision->epoch,
		.settled_by = settled_by,
		.received_at = time_of_action(),
		.decided_at = bandit->half_life != 0 ? decision->decided_at : DT_NOBEGIN
	};

	/* the sums are of this arm alone */
	sums_learner(sums, bandit, &learner);
	ticket.arm = 0;
	if (settled_by != SETTLED_BY_SKIPPING)
	{
		row.loss = loss;
		row.probability = ticket.probability;
		learner_feedback(&learner, &ticket,
						 bandit_scaled_loss(bandit, loss), &row.terms);
	}
	row.terms.arm = arm;
	row.terms.delay = Max(learner.round - ticket.round, 0);
	row.round = ticket.round + row.terms.delay;

	if (!once_append_feedback(&sums->log, &row, look_first, bandit->retention != NULL))
		return false;
	sums_add_feedback(&row, bandit);
	if (bandit->needs_frontier)
		own_note_settled(decision);
	return true;
}

/*
 * Take the sums that are needed to settle a decision.  The log's tables are locked.
 */
static void
take_sums_of(Sums *sums, const Bandit *bandit, const DecisionRow *decision)
{
	int			arm = decision->ticket.arm;

	if (arm < 0 || arm >= bandit->params.arms)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("log of a bandit with %d arms has a row with arm %d",
						bandit->params.arms, arm + 1)));
	sums_take(sums, bandit, NoLock, LEARNER_SUMS(bandit->params.algorithm), arm, 1);
}

/*
 * Settle a decision that seems to be open, without feedback.  Returns false if
 * somebody else has, or is about to.
 */
bool
settle_without_feedback(const Bandit *bandit, const DecisionRow *decision,
						SettledBy settled_by)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dexp3 decision",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Sums		sums;
	bool		settled;

	take_sums_of(&sums, bandit, decision);
	settled = settle(bandit, &sums, decision, settled_by, bandit->missing_loss, false);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return settled;
}

/* ----------
 * By skipping
 * ----------
 */

/* Which decisions are skipped. */
typedef struct Skipping
{
	const Bandit *bandit;
	int64		first_in_time;	/* those of earlier rounds */
} Skipping;

static bool
is_overdue(void *context, int64 round, TimestampTz decided_at pg_attribute_unused())
{
	const Skipping *skipping = context;

	return round < skipping->first_in_time;
}

static bool
skip(void *context, const DecisionRow *row)
{
	const Skipping *skipping = context;

	return settle_without_feedback(skipping->bandit, row, SETTLED_BY_SKIPPING);
}

/*
 * May there be a decision that has been open for too long?
 */
bool
has_overdue(const Sums *sums, const Learner *learner)
{
	return sums->frontier.nholes > 0 || sums->frontier.cursor.next_round == 0 ||
		sums->frontier.cursor.next_round < learner_first_in_time(learner);
}

/*
 * Are there so many of them that all should help?
 */
static bool
is_far_behind(const Sums *sums, const Learner *learner)
{
	int64		next_round = sums->frontier.cursor.next_round;

	return next_round != 0 && next_round < learner_first_in_time(learner) - FAR_BEHIND;
}

/*
 * Skip decisions that have been open for too many rounds, unless somebody else is doing
 * so and has not fallen far behind.
 */
void
settle_overdue(const Bandit *bandit, Sums *sums, const Learner *learner)
{
	Skipping	skipping = {
		.bandit = bandit,
		.first_in_time = learner_first_in_time(learner)
	};
	FrontierMove move = {
		.bandit_id = bandit->bandit_id,
		.epoch = bandit->epoch,
		.newest_round = sums->totals.counts.decisions,
		.now = time_of_action(),
		.last_in_batch = sums->last_in_batch,
		.is_due = is_overdue,
		.settle = skip,
		.context = &skipping,
		.max_settled = MAX_SKIPPED,
		.max_looked_at = MAX_LOOKED_AT
	};

	if (!has_overdue(sums, learner) ||
		(!shared_claim_frontier(&sums->log, &sums->frontier) &&
		 !is_far_behind(sums, learner)))
		return;
	own_reopen(move.bandit_id, move.epoch, &sums->frontier);
	frontier_move(&sums->frontier, &move);
	if (move.moved)
		own_publish_frontier(&sums->log, &sums->frontier);
	shared_release_frontier();
}

/* ----------
 * By feedback
 * ----------
 */

/*
 * Complain about a loss if rewards are wanted, and the other way round.
 */
static void
check_kind(const Bandit *bandit, FeedbackKind kind)
{
	if (bandit->goal == (kind == IS_LOSS ? GOAL_REWARD : GOAL_LOSS))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg(kind == IS_LOSS ?
						"bandit \"%s\" takes rewards, not losses" :
						"bandit \"%s\" takes losses, not rewards",
						text_to_cstring(bandit->name)),
				 errhint(kind == IS_LOSS ?
						 "Use bandit_reward(), or bandit_feedback_trigger() with the argument 'reward'." :
						 "Use bandit_feedback(), or bandit_feedback_trigger() without the argument 'reward'.")));
}

/*
 * Turn what was given as feedback into a loss in the bandit's units, or complain.
 * A reward r is as good as a loss on the other side of the range is bad.
 */
static double
loss_of(const Bandit *bandit, const Feedback *feedback)
{
	FeedbackKind kind = feedback->kind;
	double		low = bandit->loss_low;
	double		high = bandit->loss_high;
	double		value = feedback->value;

	check_kind(bandit, kind);
	if (feedback->is_boolean)
		value = value != 0 ? high : low;

	if (isnan(value) || (!bandit->clamp_losses && (value < low || value > high)))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s must be between %s and %s: %s",
						kind == IS_LOSS ? "loss" : "reward", number_text(low),
						number_text(high), number_text(value))));
	value = Min(Max(value, low), high);
	return kind == IS_LOSS ? value : bandit_mirrored(bandit, value);
}

static FeedbackOutcome
outcome_of(SettledBy settled_by)
{
	return settled_by == SETTLED_BY_SKIPPING ? FEEDBACK_SKIPPED :
		settled_by == SETTLED_BY_EXPIRY ? FEEDBACK_EXPIRED : FEEDBACK_DUPLICATE;
}

/*
 * Find a decision and its bandit.  If it has been removed from the log, the
 * decision's epoch is all there is, and *removed tells what had become of it.
 */
static const Bandit *
find_decision(int64 decision_id, DecisionRow *row, bool *is_removed, SettledBy *removed)
{
	const Bandit *bandit = NULL;

	*is_removed = false;
	if (!log_find_decision(decision_id, row))
		*is_removed = trim_find(decision_id, &row->bandit_id, &row->epoch, removed);
	if (*is_removed || row->decision_id == decision_id)
		bandit = bandit_by_id(row->bandit_id);
	if (bandit == NULL)
	{
		int			node = node_of_decision(decision_id);

		if (node >= 0 && node != own_node())
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("decision " INT64_FORMAT " is not here: node %d has made it, and this is node %d",
							decision_id, node, own_node()),
					 errhint("Give the feedback to the server that has made the decision.")));
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("decision " INT64_FORMAT " does not exist", decision_id)));
	}
	if (!bandit_may(bandit, BANDIT_USE))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for decision " INT64_FORMAT, decision_id)));
	return bandit;
}

/*
 * Return the bandit of a decision, whoever may use it; 0 if there is none.
 */
int32
settle_bandit_of(int64 decision_id)
{
	DecisionRow row = {0};
	SettledBy	removed;

	if (!log_find_decision(decision_id, &row) &&
		!trim_find(decision_id, &row.bandit_id, &row.epoch, &removed))
		return 0;
	return bandit_by_id(row.bandit_id) != NULL ? row.bandit_id : 0;
}

/*
 * Is the decision settled?  If no batch reaches it, most likely it is not: then leave it to
 * settle_write() to find out, unless a checkpoint comes before that.
 */
static SettlementStatus
look_at(Settling *settling, Settlement *settlement)
{
	if (!settling->look_closely && !settling->sums.checkpoint_due &&
		settling->decision.decision_id > settling->sums.last_in_batch)
		return NOT_SETTLED;
	settling->look_closely = true;
	return settlement_find(&settling->decision, settlement);
}

/*
 * Look at a decision that is to be settled with what was given as feedback.  If it seems
 * to be open, return true and what settle_write() needs; otherwise tell the outcome.
 *
 * Nothing is written here but checkpoints.  With look_closely, all that can be wrong with
 * feedback is found out.
 */
bool
settle_look(int64 decision_id, const Feedback *feedback, Settling *settling,
			FeedbackOutcome *outcome)
{
	check_may_write("bandit_feedback()");
	(void) log_lock(RowExclusiveLock);
	for (;;)
	{
		DecisionRow *row = &settling->decision;
		bool		is_removed;
		SettledBy	removed;
		const Bandit *bandit;
		Settlement	settlement;

		CHECK_FOR_INTERRUPTS();
		memset(row, 0, sizeof(DecisionRow));
		settling->bandit = bandit = find_decision(decision_id, row, &is_removed, &removed);
		settling->loss = loss_of(bandit, feedback);
		if (!is_removed && row->epoch == bandit->epoch &&
			row->ticket.arm >= bandit->params.arms &&
			bandit_has_got_arm(bandit->bandit_id, row->ticket.arm))
			continue;			/* look it up again */
		if (row->epoch != bandit->epoch)
		{
			*outcome = FEEDBACK_SKIPPED;	/* the bandit was reset since */
			return false;
		}
		if (is_removed)
		{
			*outcome = outcome_of(removed);
			return false;
		}
		take_sums_of(&settling->sums, bandit, row);
		switch (look_at(settling, &settlement))
		{
			case IS_SETTLED:
				*outcome = outcome_of(settlement.settled_by);
				return false;
			case BEING_SETTLED:
				if (settlement.speculative_token != 0)
					SpeculativeInsertionWait(settlement.settler,
											 settlement.speculative_token);
				else
					XactLockTableWait(settlement.settler, NULL, NULL, XLTW_None);
				break;
			case NOT_SETTLED:
				checkpoint_and_trim(&settling->sums, bandit);
				return true;
		}
		/* the bandit may have been reset or dropped while we waited */
	}
}

/*
 * Settle a decision that was just looked at.  Returns false if it is settled after all, or
 * somebody else was quicker: then look again.
 */
bool
settle_write(Settling *settling)
{
	bool		look_first = !settling->look_closely;

	settling->look_closely = true;	/* if it is not written */
	return settle(settling->bandit, &settling->sums, &settling->decision,
				  SETTLED_BY_FEEDBACK, settling->loss, look_first);
}

/*
 * Settle a decision with what was given as feedback.
 */
FeedbackOutcome
settle_by_feedback(int64 decision_id, const Feedback *feedback)
{
	Settling	settling = {.look_closely = false};
	FeedbackOutcome outcome;

	while (settle_look(decision_id, feedback, &settling, &outcome))
	{
		if (settle_write(&settling))
			return FEEDBACK_APPLIED;
	}
	return outcome;
}
