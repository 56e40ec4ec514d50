/*
 * feedback.c
 *	  bandit_feedback() and bandit_reward(): settle a decision.
 *
 * Feedback waits for another session in one case only: a transaction that is
 * still running has settled or skipped the very same decision, so that nobody
 * can say yet whether this feedback will count.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"

#include "arguments.h"
#include "bandit.h"
#include "current.h"
#include "feedback.h"
#include "log.h"

PG_FUNCTION_INFO_V1(bandit_feedback);
PG_FUNCTION_INFO_V1(bandit_reward);

static const Bandit *
find_decision(int64 decision_id, Decision *decision)
{
	const Bandit *bandit = NULL;

	if (log_find_decision(decision_id, decision))
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
 * Try to settle a decision that seems to be open.
 */
static bool
settle(const Bandit *bandit, const Decision *decision, double loss)
{
	Current    *current = current_state(bandit);
	Fold	   *fold = current_fold(current);
	Settlement	settlement = {
		.decision_id = decision->decision_id,
		.bandit_id = decision->bandit_id,
		.epoch = decision->epoch,
		.round = fold->learner.round,
		.loss = loss,
		.received_at = GetCurrentStatementStartTimestamp()
	};

	fold_check_arm(fold, decision->ticket.arm);
	fold_clear_old_ties(fold, decision->ticket.arm);
	learner_feedback(&fold->learner, &decision->ticket, loss, &settlement.feedback);
	current_prepare_to_write(current);
	return current_add_settlement(current, &settlement);
}

/*
 * Settle a decision with a loss that has been checked.
 */
FeedbackOutcome
give_feedback(int64 decision_id, double loss)
{
	Decision	decision;
	const Bandit *bandit;

	PreventCommandIfReadOnly("bandit_feedback()");
	PreventCommandIfParallelMode("bandit_feedback()");
	bandit = find_decision(decision_id, &decision);
	if (decision.epoch != bandit->epoch)
		return FEEDBACK_SKIPPED;	/* the bandit was reset since */

	for (;;)
	{
		TransactionId settler;
		uint32		token;

		CHECK_FOR_INTERRUPTS();
		switch (log_settlement_status(decision_id, &settler, &token))
		{
			case IS_SETTLED:
				return FEEDBACK_DUPLICATE;
			case IS_SKIPPED:
				return FEEDBACK_SKIPPED;
			case BEING_SETTLED:
				if (token != 0)
					SpeculativeInsertionWait(settler, token);
				else
					XactLockTableWait(settler, NULL, NULL, XLTW_None);
				break;
			case NOT_SETTLED:
				if (settle(bandit, &decision, loss))
					return FEEDBACK_APPLIED;
				break;
		}

		/* the bandit may have been reset or dropped while we waited */
		bandit = find_decision(decision_id, &decision);
		if (decision.epoch != bandit->epoch)
			return FEEDBACK_SKIPPED;
	}
}

/*
 * Turn a reward in [0,1] into a loss.
 */
double
reward_to_loss(double reward)
{
	/* written so that NaN fails */
	if (!(reward >= 0 && reward <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("reward must be between 0 and 1: %s", number_text(reward))));
	return 1 - reward;
}

static Datum
outcome_text(FeedbackOutcome outcome)
{
	static const char *const names[] = {
		[FEEDBACK_APPLIED] = "applied",
		[FEEDBACK_DUPLICATE] = "duplicate",
		[FEEDBACK_SKIPPED] = "skipped"
	};

	return CStringGetTextDatum(names[outcome]);
}

/*
 * bandit_feedback(decision_id, loss)
 */
Datum
bandit_feedback(PG_FUNCTION_ARGS)
{
	double		loss;

	if (PG_ARGISNULL(0))
		null_argument("decision_id");
	loss = argument_loss(fcinfo, 1);
	PG_RETURN_DATUM(outcome_text(give_feedback(PG_GETARG_INT64(0), loss)));
}

/*
 * bandit_reward(decision_id, reward)
 */
Datum
bandit_reward(PG_FUNCTION_ARGS)
{
	double		loss;

	if (PG_ARGISNULL(0))
		null_argument("decision_id");
	if (PG_ARGISNULL(1))
		null_argument("reward");
	loss = reward_to_loss(PG_GETARG_FLOAT8(1));
	PG_RETURN_DATUM(outcome_text(give_feedback(PG_GETARG_INT64(0), loss)));
}
