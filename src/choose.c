/*
 * choose.c
 *	  bandit_choose(): draw an arm, and remember the decision.
 *
 * One round as in doc/algorithms.md: bring the state up to date, draw, append
 * one row to dexp3.decision, skip what has been open for too long.  Before that,
 * decisions whose feedback has been missing for too long are settled.  It never
 * waits for another session.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "arguments.h"
#include "bandit.h"
#include "compat.h"
#include "current.h"
#include "log.h"
#include "progress.h"
#include "random.h"
#include "upkeep.h"

PG_FUNCTION_INFO_V1(bandit_choose);
PG_FUNCTION_INFO_V1(bandit_choose_each);
PG_FUNCTION_INFO_V1(bandit_choose_many);

/*
 * How many overdue decisions one choose looks at, and how many it skips.  In
 * sequential use there is at most one; more than one a choose cannot become
 * overdue in the long run.
 */
#define MAX_TRIES	4
#define MAX_SKIPS	2

/* How many decisions with missing feedback one choose settles. */
#define MAX_EXPIRED	2

/*
 * How many decisions of a subject are looked at, in search of an open one to be
 * kept.  Whoever keeps them has the newest open.
 */
#define MAX_LOOKED_AT	32

#define NUM_RESULT_COLUMNS	3

/*
 * Draw an arm that is not excluded.
 */
static void
draw(const Bandit *bandit, const Fold *fold, int64 delay, const bool *excluded,
	 Decision *decision)
{
	double		step_size;

	learner_pick(&fold->learner, delay, session_random(), excluded, fold->weights,
				 &decision->ticket, &step_size);
	decision->decision_id = log_next_decision_id();
	decision->bandit_id = bandit->bandit_id;
	decision->epoch = bandit->epoch;
	decision->outstanding = fold->learner.outstanding;
	decision->delay = delay;
	decision->decided_at = GetCurrentStatementStartTimestamp();
	decision->subject = NULL;
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

/*
 * Read which arms are allowed, and return which are excluded then: the others,
 * and those that have retired.
 */
static const bool *
argument_allowed(FunctionCallInfo fcinfo, int n, const Bandit *bandit)
{
	ArrayType  *array;
	Datum	   *names;
	int			nnames;
	bool	   *excluded;
	bool		any = false;

	if (PG_NARGS() <= n || PG_ARGISNULL(n))
		return bandit->setup.retired;

	array = PG_GETARG_ARRAYTYPE_P(n);
	if (array_contains_nulls(array))
		null_argument("an allowed arm");
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &nnames);

	excluded = palloc(bandit->setup.params.arms);
	memset(excluded, true, bandit->setup.params.arms);
	for (int i = 0; i < nnames; i++)
	{
		int			arm = bandit_find_arm(bandit, DatumGetTextPP(names[i]));

		if (arm < 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("bandit \"%s\" has no arm \"%s\"",
							text_to_cstring(bandit->name),
							TextDatumGetCString(names[i]))));
		if (!bandit_is_retired(bandit, arm))
		{
			excluded[arm] = false;
			any = true;
		}
	}
	if (!any)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no arm of bandit \"%s\" is allowed",
						text_to_cstring(bandit->name)),
				 errhint("At least one arm that has not been retired must be allowed.")));
	return excluded;
}

/* What to look for among the decisions of a subject. */
typedef struct Sticky
{
	const Bandit *bandit;
	const bool *excluded;
	TimestampTz expired_before;
	int64		oldest_open;	/* a round */
	int			looked_at;
} Sticky;

static Verdict
can_be_kept(void *context, const Decision *decision)
{
	Sticky	   *sticky = context;
	int			arm = decision->ticket.arm;
	TransactionId settler;
	uint32		token;

	if (decision->epoch != sticky->bandit->epoch ||
		decision->ticket.round < sticky->oldest_open ||
		++sticky->looked_at > MAX_LOOKED_AT)
		return GIVE_UP;
	if (arm < 0 || arm >= sticky->bandit->setup.params.arms ||
		(sticky->excluded != NULL && sticky->excluded[arm]) ||
		decision->decided_at < sticky->expired_before ||
		log_settlement_status(decision->decision_id, &settler, &token) != NOT_SETTLED)
		return LOOK_ON;
	return TAKE_IT;
}

/*
 * Find an open decision of a subject that can be used again: its arm may be
 * drawn, and its feedback is not missing yet.
 */
static bool
find_open_decision(const Bandit *bandit, Current *current, text *subject,
				   const bool *excluded, Decision *decision)
{
	const Fold *fold = current_fold(current);
	Sticky		sticky = {
		.bandit = bandit,
		.excluded = excluded,
		.expired_before = expiry_time(bandit),
		.oldest_open = fold->open_first < fold->open_end ?
			fold->open[fold->open_first].round : 0
	};

	return fold->learner.outstanding > 0 &&
		log_find_by_subject(bandit->bandit_id, subject, can_be_kept, &sticky, decision);
}

/*
 * Return the row type of the result.  To ask the catalogs for it, each time, would
 * take a noticeable part of a choose.
 */
static TupleDesc
result_desc(void)
{
	static TupleDesc desc = NULL;

	if (desc == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
		TupleDesc	new_desc = CreateTemplateTupleDesc(NUM_RESULT_COLUMNS);

		TupleDescInitEntry(new_desc, 1, "decision_id", INT8OID, -1, 0);
		TupleDescInitEntry(new_desc, 2, "arm", TEXTOID, -1, 0);
		TupleDescInitEntry(new_desc, 3, "probability", FLOAT8OID, -1, 0);
		desc = BlessTupleDesc(new_desc);
		MemoryContextSwitchTo(old);
	}
	return desc;
}

static void
fill_result(const Bandit *bandit, const Decision *decision, Datum *values)
{
	values[0] = Int64GetDatum(decision->decision_id);
	values[1] = bandit->arms[decision->ticket.arm];
	values[2] = Float8GetDatum(decision->ticket.probability);
}

/*
 * The arguments are bandit, ..., delay and, from version 1.1 on, allowed and
 * subject.
 */
static Datum
choose(FunctionCallInfo fcinfo, int delay_arg)
{
	int			subject_arg = delay_arg + 2;
	const Bandit *bandit;
	const bool *excluded;
	text	   *subject = NULL;
	Current    *current;
	Decision	decision;
	int64		delay;
	Datum		values[NUM_RESULT_COLUMNS];
	bool		nulls[NUM_RESULT_COLUMNS] = {0};

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	PreventCommandIfReadOnly("bandit_choose()");
	PreventCommandIfParallelMode("bandit_choose()");

	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	delay = argument_delay(fcinfo, delay_arg, &bandit->setup.params);
	excluded = argument_allowed(fcinfo, delay_arg + 1, bandit);
	if (PG_NARGS() > subject_arg && !PG_ARGISNULL(subject_arg))
		subject = argument_subject(fcinfo, subject_arg);

	current = current_state(bandit);
	if (subject == NULL || !bandit->sticky ||
		!find_open_decision(bandit, current, subject, excluded, &decision))
	{
		current_prepare_to_write(current, bandit);
		expire_some(bandit, current, MAX_EXPIRED);
		draw(bandit, current_fold(current), delay, excluded, &decision);
		decision.subject = subject;
		current_add_decision(current, &decision);
		if (bandit->setup.params.skipping)
			skip_overdue(bandit, current);
	}

	fill_result(bandit, &decision, values);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(result_desc(), values, nulls)));
}

/*
 * bandit_choose(bandit, delay, allowed, subject)
 */
Datum
bandit_choose(PG_FUNCTION_ARGS)
{
	return choose(fcinfo, 1);
}

/*
 * bandit_choose_each(bandit, row_value, delay, allowed, subject): the same; that
 * it depends on a value of the row makes the planner call it for each row.
 */
Datum
bandit_choose_each(PG_FUNCTION_ARGS)
{
	return choose(fcinfo, 2);
}

/*
 * bandit_choose_many(bandit, n, delay, allowed): n consecutive rounds
 *
 * The same as n calls of bandit_choose, only that the state is brought up to
 * date once, and the rows are written in bulk.
 */
Datum
bandit_choose_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const Bandit *bandit;
	const bool *excluded;
	Current    *current;
	RowInserter *inserter;
	Progress	progress;
	MemoryContext round_context;
	int64		delay;
	int32		n;

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	if (PG_ARGISNULL(1))
		null_argument("n");
	n = PG_GETARG_INT32(1);
	if (n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of decisions must not be negative: %d", n)));
	PreventCommandIfReadOnly("bandit_choose_many()");
	PreventCommandIfParallelMode("bandit_choose_many()");
	InitMaterializedSRF(fcinfo, 0);
	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	delay = argument_delay(fcinfo, 2, &bandit->setup.params);
	excluded = argument_allowed(fcinfo, 3, bandit);
	if (n == 0)
		PG_RETURN_NULL();

	current = current_state(bandit);
	current_prepare_to_write(current, bandit);
	expire_some(bandit, current, (int64) MAX_EXPIRED * n);
	current_begin_decisions(current);
	inserter = log_begin_decisions();
	progress_start(&progress, "decisions", n);
	round_context = AllocSetContextCreate(CurrentMemoryContext, "dexp3 round",
										  ALLOCSET_DEFAULT_SIZES);
	for (int32 i = 0; i < n; i++)
	{
		Decision	decision;
		Datum		values[NUM_RESULT_COLUMNS];
		bool		nulls[NUM_RESULT_COLUMNS] = {0};
		MemoryContext caller_context = MemoryContextSwitchTo(round_context);

		CHECK_FOR_INTERRUPTS();
		draw(bandit, current_fold(current), delay, excluded, &decision);
		current_add_one_of_many(current, inserter, &decision);
		if (bandit->setup.params.skipping)
			skip_overdue(bandit, current);
		fill_result(bandit, &decision, values);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		MemoryContextSwitchTo(caller_context);
		MemoryContextReset(round_context);
		if (i % 1024 == 0)
			progress_report(&progress, i);
	}
	insert_end(inserter);
	current_end_decisions(current);
	PG_RETURN_NULL();
}
