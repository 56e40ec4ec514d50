/*
 * feedback.c
 *	  bandit_feedback() and bandit_reward(): settle a decision.
 *
 * Feedback waits for another session in one case only: a transaction that is
 * still running has settled or skipped the very same decision, so that nobody
 * can say yet whether this feedback will count.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"

#include "arguments.h"
#include "bandit.h"
#include "current.h"
#include "feedback.h"
#include "log.h"
#include "trim.h"

PG_FUNCTION_INFO_V1(bandit_feedback);
PG_FUNCTION_INFO_V1(bandit_reward);
PG_FUNCTION_INFO_V1(bandit_feedback_by_subject);
PG_FUNCTION_INFO_V1(bandit_reward_by_subject);

/*
 * Turn what was given as feedback into a loss in the bandit's units, or complain.
 * A reward r is as good as a loss on the other side of the range is bad.
 */
static double
loss_in_range(const Bandit *bandit, double value, FeedbackKind kind)
{
	double		low = bandit->loss_low;
	double		high = bandit->loss_high;

	if (isnan(value) || (!bandit->clamp && (value < low || value > high)))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s must be between %s and %s: %s",
						kind == IS_LOSS ? "loss" : "reward", number_text(low),
						number_text(high), number_text(value))));
	value = Min(Max(value, low), high);
	return kind == IS_LOSS ? value : high - value + low;
}

/*
 * Find a decision and its bandit.  If it has been removed from the log, the
 * decision's epoch is all there is, and *removed tells what became of it.
 */
static const Bandit *
find_decision(int64 decision_id, Decision *decision, char *removed)
{
	const Bandit *bandit = NULL;

	*removed = '\0';
	if (log_find_decision(decision_id, decision) ||
		trim_find(decision_id, &decision->bandit_id, &decision->epoch, removed))
		bandit = bandit_by_id(decision->bandit_id);
	if (bandit == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("decision " INT64_FORMAT " does not exist", decision_id)));
	if (!bandit_may(bandit, BANDIT_USE))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for decision " INT64_FORMAT, decision_id)));
	return bandit;
}

/*
 * Settle a decision that seems to be open, with a loss in the bandit's units.
 * Returns false if somebody else has, or is about to.
 */
bool
settle(const Bandit *bandit, Current *current, const Decision *decision,
	   double loss, bool expired)
{
	Fold	   *fold = current_fold(current);
	Settlement	settlement = {
		.decision_id = decision->decision_id,
		.bandit_id = decision->bandit_id,
		.epoch = decision->epoch,
		.round = fold->learner.round,
		.loss = loss,
		.expired = expired,
		.received_at = GetCurrentStatementStartTimestamp()
	};

	fold_check_arm(fold, decision->ticket.arm);
	fold_clear_old_ties(fold, decision->ticket.arm);
	learner_feedback(&fold->learner, &decision->ticket,
					 (loss - bandit->loss_low) / (bandit->loss_high - bandit->loss_low),
					 &settlement.feedback);
	current_prepare_to_write(current, bandit);
	return current_add_settlement(current, &settlement);
}

static FeedbackOutcome
outcome_of_removed(char status)
{
	return status == TRIMMED_SKIPPED ? FEEDBACK_SKIPPED :
		status == TRIMMED_EXPIRED ? FEEDBACK_EXPIRED : FEEDBACK_DUPLICATE;
}

/*
 * Settle a decision with what was given as feedback.
 */
FeedbackOutcome
give_feedback(int64 decision_id, double value, FeedbackKind kind)
{
	PreventCommandIfReadOnly("bandit_feedback()");
	PreventCommandIfParallelMode("bandit_feedback()");
	for (;;)
	{
		Decision	decision;
		char		removed;
		const Bandit *bandit = find_decision(decision_id, &decision, &removed);
		double		loss = loss_in_range(bandit, value, kind);
		TransactionId settler;
		uint32		token;

		CHECK_FOR_INTERRUPTS();
		if (removed == '\0' && decision.epoch == bandit->epoch &&
			decision.ticket.arm >= bandit->setup.params.arms &&
			bandit_has_got_arm(bandit->bandit_id, decision.ticket.arm))
			continue;			/* look it up again */
		if (decision.epoch != bandit->epoch)
			return FEEDBACK_SKIPPED;	/* the bandit was reset since */
		if (removed != '\0')
			return outcome_of_removed(removed);
		switch (log_settlement_status(decision_id, &settler, &token))
		{
			case IS_SETTLED:
				return FEEDBACK_DUPLICATE;
			case IS_SKIPPED:
				return FEEDBACK_SKIPPED;
			case IS_EXPIRED:
				return FEEDBACK_EXPIRED;
			case BEING_SETTLED:
				if (token != 0)
					SpeculativeInsertionWait(settler, token);
				else
					XactLockTableWait(settler, NULL, NULL, XLTW_None);
				break;
			case NOT_SETTLED:
				/* or settled, and removed since we found the decision */
				if (bandit->history != NULL &&
					!log_find_decision(decision_id, &decision))
					break;
				if (settle(bandit, current_state(bandit), &decision, loss, false))
					return FEEDBACK_APPLIED;
				break;
		}
		/* the bandit may have been reset or dropped while we waited */
	}
}

static Datum
outcome_text(FeedbackOutcome outcome)
{
	static const char *const names[] = {
		[FEEDBACK_APPLIED] = "applied",
		[FEEDBACK_DUPLICATE] = "duplicate",
		[FEEDBACK_SKIPPED] = "skipped",
		[FEEDBACK_EXPIRED] = "expired"
	};

	return CStringGetTextDatum(names[outcome]);
}

static Datum
feedback_by_id(FunctionCallInfo fcinfo, FeedbackKind kind)
{
	if (PG_ARGISNULL(0))
		null_argument("decision_id");
	if (PG_ARGISNULL(1))
		null_argument(kind == IS_LOSS ? "loss" : "reward");
	PG_RETURN_DATUM(outcome_text(give_feedback(PG_GETARG_INT64(0),
											   PG_GETARG_FLOAT8(1), kind)));
}

/*
 * bandit_feedback(decision_id, loss)
 */
Datum
bandit_feedback(PG_FUNCTION_ARGS)
{
	return feedback_by_id(fcinfo, IS_LOSS);
}

/*
 * bandit_reward(decision_id, reward)
 */
Datum
bandit_reward(PG_FUNCTION_ARGS)
{
	return feedback_by_id(fcinfo, IS_REWARD);
}

/* ----------
 * By subject
 * ----------
 */

/*
 * Is this decision open, or may it be?  context is the bandit's epoch.
 */
static Verdict
seems_open(void *context, const Decision *decision)
{
	TransactionId settler;
	uint32		token;

	if (decision->epoch != *(int32 *) context)
		return GIVE_UP;
	switch (log_settlement_status(decision->decision_id, &settler, &token))
	{
		case NOT_SETTLED:
		case BEING_SETTLED:
			return TAKE_IT;
		default:
			return LOOK_ON;
	}
}

static Verdict
any_decision(void *context pg_attribute_unused(),
			 const Decision *decision pg_attribute_unused())
{
	return TAKE_IT;
}

/*
 * Settle the newest open decision of a subject.  If none is open, the answer is
 * about its newest decision.
 */
static Datum
feedback_by_subject(FunctionCallInfo fcinfo, FeedbackKind kind)
{
	FeedbackOutcome outcome;
	Decision	decision;
	text	   *subject;
	bool		found;

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	if (PG_ARGISNULL(1))
		null_argument("subject");
	if (PG_ARGISNULL(2))
		null_argument(kind == IS_LOSS ? "loss" : "reward");
	PreventCommandIfReadOnly("bandit_feedback()");
	PreventCommandIfParallelMode("bandit_feedback()");
	subject = argument_subject(fcinfo, 1);

	do
	{
		const Bandit *bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
		int32		epoch = bandit->epoch;

		found = log_find_by_subject(bandit->bandit_id, subject, seems_open, &epoch,
									&decision);
		if (!found && !log_find_by_subject(bandit->bandit_id, subject, any_decision,
										   NULL, &decision))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("bandit \"%s\" has no decision for subject \"%s\"",
							text_to_cstring(bandit->name), text_to_cstring(subject))));
		outcome = give_feedback(decision.decision_id, PG_GETARG_FLOAT8(2), kind);

		/* if somebody else was quicker, there may be an older one */
	} while (found && outcome != FEEDBACK_APPLIED);
	PG_RETURN_DATUM(outcome_text(outcome));
}

/*
 * bandit_feedback(bandit, subject, loss)
 */
Datum
bandit_feedback_by_subject(PG_FUNCTION_ARGS)
{
	return feedback_by_subject(fcinfo, IS_LOSS);
}

/*
 * bandit_reward(bandit, subject, reward)
 */
Datum
bandit_reward_by_subject(PG_FUNCTION_ARGS)
{
	return feedback_by_subject(fcinfo, IS_REWARD);
}
