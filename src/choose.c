/*
 * choose.c
 *	  bandit_choose(): draw an arm, and remember the decision.
 *
 * One round as in doc/algorithms.md: find the bandit, take its sums, draw, append
 * one row to dexp3.decision, skip what has been open for too long.  Decisions whose
 * feedback has been missing for too long expire when the transaction is committed.  It
 * never waits for another session.
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
#include "utils/tuplestore.h"

#include "arguments.h"
#include "bandit.h"
#include "clock.h"
#include "compat.h"
#include "expire.h"
#include "log.h"
#include "own.h"
#include "progress.h"
#include "random.h"
#include "settle.h"
#include "settlement.h"
#include "sums.h"
#include "trim.h"

PG_FUNCTION_INFO_V1(bandit_choose);
PG_FUNCTION_INFO_V1(bandit_choose_each);
PG_FUNCTION_INFO_V1(bandit_choose_many);

/*
 * How many decisions of a subject are looked at, in search of an open one to be
 * kept.  Whoever keeps them has the newest open.
 */
#define MAX_LOOKED_AT	32

#define NUM_RESULT_COLUMNS	3

/*
 * Draw an arm that is not excluded, and let the learner count the decision.
 */
static void
draw(const Bandit *bandit, Learner *learner, int64 delay, const bool *excluded,
	 DecisionRow *row)
{
	double	   *weights = palloc(bandit->params.arms * sizeof(double));
	double		step_size;

	learner_pick(learner, delay, session_random(), excluded, weights, &row->ticket,
				 &step_size);
	pfree(weights);
	row->decision_id = log_next_decision_id();
	row->bandit_id = bandit->bandit_id;
	row->epoch = bandit->epoch;
	row->outstanding = learner->outstanding;
	row->delay = delay;
	row->decided_at = time_of_action();
	row->subject = NULL;

	learner->cumulative_delay += (double) learner->outstanding;
	learner->outstanding++;
	learner->round++;
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
		return bandit->retired;

	array = PG_GETARG_ARRAYTYPE_P(n);
	if (array_contains_nulls(array))
		null_argument("an allowed arm");
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &nnames);

	excluded = palloc(bandit->params.arms);
	memset(excluded, true, bandit->params.arms);
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
	int			looked_at;
} Sticky;

static Verdict
can_be_kept(void *context, const DecisionRow *row)
{
	Sticky	   *sticky = context;
	int			arm = row->ticket.arm;
	Settlement	settlement;

	if (row->epoch != sticky->bandit->epoch || ++sticky->looked_at > MAX_LOOKED_AT)
		return GIVE_UP;
	if (arm < 0 || arm >= sticky->bandit->params.arms ||
		(sticky->excluded != NULL && sticky->excluded[arm]) ||
		row->decided_at < sticky->expired_before ||
		settlement_find(row, &settlement) != NOT_SETTLED)
		return LOOK_ON;
	return TAKE_IT;
}

/*
 * Find an open decision of a subject that can be used again: its arm may be
 * drawn, and its feedback is not missing yet.
 */
static bool
find_open_decision(const Bandit *bandit, text *subject, const bool *excluded,
				   DecisionRow *row)
{
	Sticky		sticky = {
		.bandit = bandit,
		.excluded = excluded,
		.expired_before = expiry_time(bandit)
	};

	(void) log_lock(RowExclusiveLock);
	return log_find_by_subject(bandit->bandit_id, subject, can_be_kept, &sticky, row);
}

/*
 * Return the row type of the result.  Asking the catalogs for it each time would take a
 * noticeable part of a choose.
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
		TupleDescFinalize(new_desc);
		desc = BlessTupleDesc(new_desc);
		MemoryContextSwitchTo(old);
	}
	return desc;
}

static void
fill_result(const Bandit *bandit, const DecisionRow *row, Datum *values)
{
	values[0] = Int64GetDatum(row->decision_id);
	values[1] = bandit->arms[row->ticket.arm];
	values[2] = Float8GetDatum(row->ticket.probability);
}

/*
 * Take the sums of a bandit for a draw, after having done what is due.
 */
static void
take_sums(const Bandit *bandit, Sums *sums)
{
	sums_take_all(sums, bandit, RowExclusiveLock);
	checkpoint_and_trim(sums, bandit);
}

/*
 * The arguments are bandit, ..., delay, allowed and subject.
 */
static Datum
choose(FunctionCallInfo fcinfo, int delay_arg)
{
	int			subject_arg = delay_arg + 2;
	const Bandit *bandit;
	const bool *excluded;
	text	   *subject = NULL;
	DecisionRow row;
	int64		delay;
	Datum		values[NUM_RESULT_COLUMNS];
	bool		nulls[NUM_RESULT_COLUMNS] = {0};

	check_not_null(fcinfo, 0, "bandit");
	check_may_write("bandit_choose()");

	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	delay = argument_delay(fcinfo, delay_arg, &bandit->params);
	excluded = argument_allowed(fcinfo, delay_arg + 1, bandit);
	if (!PG_ARGISNULL(subject_arg))
		subject = argument_subject(fcinfo, subject_arg);

	if (subject == NULL || !bandit->sticky ||
		!find_open_decision(bandit, subject, excluded, &row))
	{
		Sums		sums;
		Learner		learner;

		take_sums(bandit, &sums);
		sums_learner(&sums, bandit, &learner);
		draw(bandit, &learner, delay, excluded, &row);
		row.subject = subject;
		log_append_decision(&row);
		sums_add_decision(&row);
		expire_after_choose(bandit, &sums.frontier);
		if (bandit->params.skipping)
			settle_overdue(bandit, &sums, &learner);
	}

	fill_result(bandit, &row, values);
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
 * bandit_choose_each(bandit, row_value, delay, allowed, subject): the same, but because
 * it depends on a value of the row, the planner calls it for each row.
 */
Datum
bandit_choose_each(PG_FUNCTION_ARGS)
{
	return choose(fcinfo, 2);
}

/*
 * bandit_choose_many(bandit, n, delay, allowed): n consecutive rounds
 *
 * The same as n calls of bandit_choose, except that the rows are written in bulk.  They
 * must be there before decisions that may be due are looked at.
 */
Datum
bandit_choose_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const Bandit *bandit;
	const bool *excluded;
	RowInserter *inserter;
	Progress	progress;
	MemoryContext round_context;
	int64		delay;
	int32		n;

	check_not_null(fcinfo, 0, "bandit");
	check_not_null(fcinfo, 1, "n");
	n = PG_GETARG_INT32(1);
	if (n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of decisions must not be negative: %d", n)));
	check_may_write("bandit_choose_many()");
	InitMaterializedSRF(fcinfo, 0);
	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	delay = argument_delay(fcinfo, 2, &bandit->params);
	excluded = argument_allowed(fcinfo, 3, bandit);
	if (n == 0)
		PG_RETURN_NULL();

	inserter = log_begin_decisions();
	progress_start(&progress, "decisions", n);
	round_context = AllocSetContextCreate(CurrentMemoryContext, "dexp3 round",
										  ALLOCSET_DEFAULT_SIZES);
	for (int32 i = 0; i < n; i++)
	{
		Sums		sums;
		Learner		learner;
		DecisionRow row;
		Datum		values[NUM_RESULT_COLUMNS];
		bool		nulls[NUM_RESULT_COLUMNS] = {0};
		MemoryContext caller_context = MemoryContextSwitchTo(round_context);

		CHECK_FOR_INTERRUPTS();
		if (own_is_disturbed(bandit->bandit_id, bandit->epoch))
			insert_flush(inserter); /* sums are made from what is in the log */
		if (i == 0)
			take_sums(bandit, &sums);
		else
			sums_take_all(&sums, bandit, RowExclusiveLock);
		sums_learner(&sums, bandit, &learner);
		draw(bandit, &learner, delay, excluded, &row);
		log_append_one_of_many(inserter, &row);
		sums_add_decision(&row);
		if (i == 0)
			expire_after_choose(bandit, &sums.frontier);
		if (bandit->params.skipping && has_overdue(&sums, &learner))
		{
			insert_flush(inserter);
			settle_overdue(bandit, &sums, &learner);
		}
		fill_result(bandit, &row, values);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		MemoryContextSwitchTo(caller_context);
		MemoryContextReset(round_context);
		if (i % 1024 == 0)
			progress_report(&progress, i);
	}
	insert_end(inserter);
	PG_RETURN_NULL();
}
