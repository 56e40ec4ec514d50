/*
 * feedback.c
 *	  bandit_feedback() and bandit_reward(): settle a decision.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "arguments.h"
#include "bandit.h"
#include "log.h"
#include "settle.h"
#include "settlement.h"

PG_FUNCTION_INFO_V1(bandit_feedback);
PG_FUNCTION_INFO_V1(bandit_reward);
PG_FUNCTION_INFO_V1(bandit_reward_boolean);
PG_FUNCTION_INFO_V1(bandit_feedback_by_subject);
PG_FUNCTION_INFO_V1(bandit_reward_by_subject);
PG_FUNCTION_INFO_V1(bandit_reward_by_subject_boolean);

/*
 * How many decisions of a subject are looked at, in search of an open one: its
 * newest ones.
 */
#define MAX_LOOKED_AT	1000

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

/*
 * Read a loss or a reward: a number or, for rewards, a boolean.
 */
static Feedback
argument_feedback(FunctionCallInfo fcinfo, int n, FeedbackKind kind, bool is_boolean)
{
	Feedback	feedback = {.kind = kind,.is_boolean = is_boolean};

	check_not_null(fcinfo, n, kind == IS_LOSS ? "loss" : "reward");
	feedback.value = is_boolean ? (double) PG_GETARG_BOOL(n) : PG_GETARG_FLOAT8(n);
	return feedback;
}

static Datum
feedback_by_id(FunctionCallInfo fcinfo, FeedbackKind kind, bool is_boolean)
{
	Feedback	feedback;

	check_not_null(fcinfo, 0, "decision_id");
	feedback = argument_feedback(fcinfo, 1, kind, is_boolean);
	PG_RETURN_DATUM(outcome_text(settle_by_feedback(PG_GETARG_INT64(0), &feedback)));
}

/*
 * bandit_feedback(decision_id, loss)
 */
Datum
bandit_feedback(PG_FUNCTION_ARGS)
{
	return feedback_by_id(fcinfo, IS_LOSS, false);
}

/*
 * bandit_reward(decision_id, reward)
 */
Datum
bandit_reward(PG_FUNCTION_ARGS)
{
	return feedback_by_id(fcinfo, IS_REWARD, false);
}

/*
 * bandit_reward(decision_id, boolean)
 */
Datum
bandit_reward_boolean(PG_FUNCTION_ARGS)
{
	return feedback_by_id(fcinfo, IS_REWARD, true);
}

/* ----------
 * By subject
 * ----------
 */

typedef struct Search
{
	int32		epoch;
	int			looked_at;
} Search;

/*
 * Is this decision open, or may it be?
 */
static Verdict
seems_open(void *context, const DecisionRow *row)
{
	Search	   *search = context;
	Settlement	settlement;

	if (row->epoch != search->epoch || ++search->looked_at > MAX_LOOKED_AT)
		return GIVE_UP;
	return settlement_find(row, &settlement) == IS_SETTLED ?
		LOOK_ON : TAKE_IT;
}

static Verdict
any_decision(void *context pg_attribute_unused(),
			 const DecisionRow *row pg_attribute_unused())
{
	return TAKE_IT;
}

/*
 * Settle the newest open decision of a subject.  If none is open, the answer is
 * about its newest decision.
 */
static Datum
feedback_by_subject(FunctionCallInfo fcinfo, FeedbackKind kind, bool is_boolean)
{
	Feedback	feedback;
	FeedbackOutcome outcome;
	DecisionRow row;
	text	   *subject;
	bool		found;

	check_not_null(fcinfo, 0, "bandit");
	check_not_null(fcinfo, 1, "subject");
	feedback = argument_feedback(fcinfo, 2, kind, is_boolean);
	check_may_write("bandit_feedback()");
	subject = argument_subject(fcinfo, 1);
	(void) log_lock(RowExclusiveLock);

	do
	{
		const Bandit *bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
		Search		search = {.epoch = bandit->epoch};

		found = log_find_by_subject(bandit->bandit_id, subject, seems_open, &search, &row);
		if (!found && !log_find_by_subject(bandit->bandit_id, subject, any_decision,
										   NULL, &row))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("bandit \"%s\" has no decision for subject \"%s\"",
							text_to_cstring(bandit->name), text_to_cstring(subject))));
		outcome = settle_by_feedback(row.decision_id, &feedback);

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
	return feedback_by_subject(fcinfo, IS_LOSS, false);
}

/*
 * bandit_reward(bandit, subject, reward)
 */
Datum
bandit_reward_by_subject(PG_FUNCTION_ARGS)
{
	return feedback_by_subject(fcinfo, IS_REWARD, false);
}

/*
 * bandit_reward(bandit, subject, boolean)
 */
Datum
bandit_reward_by_subject_boolean(PG_FUNCTION_ARGS)
{
	return feedback_by_subject(fcinfo, IS_REWARD, true);
}
