/*
 * choose.c
 *	  bandit_choose(): draw an arm, and remember the decision.
 *
 * One round as in doc/algorithms.md: bring the state up to date, draw, append
 * one row to dexp3.decision, skip what has been open for too long.  It never
 * waits for another session.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "arguments.h"
#include "bandit.h"
#include "compat.h"
#include "current.h"
#include "log.h"
#include "random.h"

PG_FUNCTION_INFO_V1(bandit_choose);
PG_FUNCTION_INFO_V1(bandit_choose_each);

/*
 * How many overdue decisions one choose looks at, and how many it skips.  In
 * sequential use there is at most one; more than one a choose cannot become
 * overdue in the long run.
 */
#define MAX_TRIES	4
#define MAX_SKIPS	2

/*
 * Draw an arm.
 */
static void
draw(const Bandit *bandit, const Fold *fold, int64 delay, Decision *decision)
{
	double		step_size;

	learner_pick(&fold->learner, delay, session_random(), fold->weights,
				 &decision->ticket, &step_size);
	decision->decision_id = log_next_decision_id();
	decision->bandit_id = bandit->bandit_id;
	decision->epoch = bandit->epoch;
	decision->outstanding = fold->learner.outstanding;
	decision->delay = delay;
	decision->decided_at = GetCurrentStatementStartTimestamp();
}

/*
 * Skip a decision, unless somebody is settling it.
 */
static bool
skip(const Bandit *bandit, Current *current, const OpenDecision *open)
{
	TransactionId settler;
	uint32		token;
	Settlement	settlement = {
		.decision_id = open->decision_id,
		.bandit_id = bandit->bandit_id,
		.epoch = bandit->epoch,
		.round = current_fold(current)->learner.round,
		.skipped = true,
		.feedback.delay = current_fold(current)->learner.round - open->round,
		.received_at = GetCurrentStatementStartTimestamp()
	};

	/* look first: a row that is withdrawn leaves a dead one behind */
	return log_settlement_status(open->decision_id, &settler, &token) == NOT_SETTLED &&
		current_add_settlement(current, &settlement);
}

/*
 * Skip decisions that have been open for too long.
 *
 * One that another transaction is just settling is left to it, and looked at
 * again by a later choose if that one rolls back.  When sessions choose at the
 * same time there may be several overdue ones; each session begins with another
 * one, lest they all try the same.
 */
static void
skip_overdue(const Bandit *bandit, Current *current)
{
	Fold	   *fold = current_fold(current);
	int64		first = fold->open_first;
	int64		overdue = fold_find_round(fold, learner_first_in_time(&fold->learner)) - first;
	int			tries = 0;
	int			skips = 0;

	for (int64 i = 0; i < overdue && tries < MAX_TRIES && skips < MAX_SKIPS; i++)
	{
		OpenDecision open = fold->open[first + (MyProcPid + i) % overdue];

		if (!open.closed)
		{
			tries++;
			if (skip(bandit, current, &open))
				skips++;
		}
	}
}

static Datum
choose(FunctionCallInfo fcinfo, int delay_arg)
{
	const Bandit *bandit;
	Current    *current;
	Decision	decision;
	int64		delay;
	TupleDesc	tupdesc;
	Datum		values[3];
	bool		nulls[3] = {0};

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	PreventCommandIfReadOnly("bandit_choose()");
	PreventCommandIfParallelMode("bandit_choose()");
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	delay = argument_delay(fcinfo, delay_arg, &bandit->params);

	current = current_state(bandit);
	current_prepare_to_write(current);
	draw(bandit, current_fold(current), delay, &decision);
	current_add_decision(current, &decision);
	if (bandit->params.skipping)
		skip_overdue(bandit, current);

	values[0] = Int64GetDatum(decision.decision_id);
	values[1] = bandit->arms[decision.ticket.arm];
	values[2] = Float8GetDatum(decision.ticket.probability);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}

/*
 * bandit_choose(bandit, delay)
 */
Datum
bandit_choose(PG_FUNCTION_ARGS)
{
	return choose(fcinfo, 1);
}

/*
 * bandit_choose_each(bandit, row_value, delay): the same; that it depends on a
 * value of the row makes the planner call it for each row.
 */
Datum
bandit_choose_each(PG_FUNCTION_ARGS)
{
	return choose(fcinfo, 2);
}
