/*
 * report.c
 *	  What the reports, which are SQL, need from C.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/snapmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "arguments.h"
#include "bandit.h"
#include "compat.h"
#include "frontier.h"
#include "log.h"
#include "sums.h"

PG_FUNCTION_INFO_V1(dexp3_bandit_id_of);
PG_FUNCTION_INFO_V1(dexp3_checked_policy);
PG_FUNCTION_INFO_V1(bandit_regret_bound);
PG_FUNCTION_INFO_V1(bandit_regret_estimate);
PG_FUNCTION_INFO_V1(dexp3_totals);
PG_FUNCTION_INFO_V1(dexp3_arm_totals);
PG_FUNCTION_INFO_V1(dexp3_product);
PG_FUNCTION_INFO_V1(dexp3_ratio);
PG_FUNCTION_INFO_V1(dexp3_newest_feedback);

/* How far the probabilities of a policy may be from summing up to 1. */
#define POLICY_TOLERANCE	1e-6

/*
 * How many transactions before that of a decision are searched for feedback for later
 * ones.
 */
#define TRANSACTIONS_BEFORE	10000

/* The delta of the bound in dexp3.overview. */
#define DEFAULT_DELTA		0.05

/*
 * dexp3.bandit_id_of(bandit): its identifier, for those who may use it
 */
Datum
dexp3_bandit_id_of(PG_FUNCTION_ARGS)
{
	check_not_null(fcinfo, 0, "bandit");
	PG_RETURN_INT32(bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE)->bandit_id);
}

/*
 * dexp3.checked_policy(policy, arms): the policy, if it is a distribution
 */
Datum
dexp3_checked_policy(PG_FUNCTION_ARGS)
{
	ArrayType  *policy;
	Datum	   *elements;
	int			n;
	int			arms = PG_GETARG_INT32(1);
	double		sum = 0;

	check_not_null(fcinfo, 0, "policy");
	policy = PG_GETARG_ARRAYTYPE_P(0);
	if (ARR_NDIM(policy) != 1 || ARR_DIMS(policy)[0] != arms)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("policy must be an array with the probabilities of all %d arms",
						arms)));
	if (array_contains_nulls(policy))
		null_argument("a probability of policy");
	deconstruct_array(policy, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		double		probability = DatumGetFloat8(elements[i]);

		/* written so that NaN fails */
		if (!(probability >= 0 && probability <= 1))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("probabilities of policy must be between 0 and 1: %s",
							number_text(probability))));
		sum += probability;
	}
	if (fabs(sum - 1) > POLICY_TOLERANCE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("probabilities of policy must sum up to 1, not to %s",
						number_text(sum))));
	PG_RETURN_ARRAYTYPE_P(policy);
}

/*
 * dexp3.product(a, b, c)
 */
Datum
dexp3_product(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(PG_GETARG_FLOAT8(0) * PG_GETARG_FLOAT8(1) * PG_GETARG_FLOAT8(2));
}

/*
 * dexp3.ratio(a, b)
 */
Datum
dexp3_ratio(PG_FUNCTION_ARGS)
{
	if (PG_GETARG_FLOAT8(1) == 0)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(PG_GETARG_FLOAT8(0) / PG_GETARG_FLOAT8(1));
}

/* ----------
 * Totals
 * ----------
 */

/*
 * Return the longest delay of a decision so far, whether settled or not.
 */
static double
longest_delay_so_far(Sums *sums)
{
	const Counts *counts = &sums->totals.counts;
	int64		oldest = counts->decisions;
	DecisionRow first;

	if (sums_first_open(sums, &first))
		oldest = first.ticket.round;
	return fmax(counts->longest_delay, (double) (counts->decisions - oldest));
}

/* What is known about the regret, in the bandit's own units. */
typedef struct Regret
{
	double		step_size;		/* of the next decision */
	bool		has_bound;
	double		bound;
	bool		has_estimate;
	double		estimate;
} Regret;

/*
 * Find out about the regret.  Nobody can lose more than the whole range in each round.
 * For "self-tuned", nothing is proven about arms that come and go, or that are not always
 * allowed; and it is not known here whether this has been so on other servers.
 */
static void
find_regret(Sums *sums, const Bandit *bandit, const Learner *learner, double delta,
			Regret *regret)
{
	Algorithm	algorithm = bandit->params.algorithm;
	double		range = bandit->loss_high - bandit->loss_low;
	double		rounds = (double) learner->round;
	double		longest_delay = 0;

	if (algorithm == DADA_IX)
		longest_delay = longest_delay_so_far(sums);
	regret->step_size = learner_step_size(learner, NO_DELAY,
										  palloc(learner->params.arms * sizeof(double)));
	regret->has_bound = learner_has_regret_bound(learner) &&
		!(algorithm == SELF_TUNED && (bandit->arms_changed_at != DT_NOBEGIN ||
									  sums->totals.counts.restricted > 0 ||
									  sums->foreign.counts.decisions > 0));
	regret->bound = range *
		fmin(rounds, learner_regret_bound(learner, regret->step_size,
										  (double) sums->totals.counts.skipped,
										  longest_delay, delta));
	regret->has_estimate = algorithm == SELF_TUNED;
	regret->estimate = range *
		fmin(rounds, learner_regret_estimate(learner, regret->step_size));
}

/*
 * Find out about the regret of the bandit that an SQL function is about.
 */
static void
regret_of_argument(FunctionCallInfo fcinfo, const char *function, double delta,
				   Regret *regret)
{
	const Bandit *bandit = bandit_argument(fcinfo, function);
	Sums		sums;
	Learner		learner;

	sums_take_all(&sums, bandit, AccessShareLock);
	sums_learner_of_all(&sums, bandit, &learner);
	find_regret(&sums, bandit, &learner, delta, regret);
}

/*
 * bandit_regret_bound(bandit, delta)
 */
Datum
bandit_regret_bound(PG_FUNCTION_ARGS)
{
	Regret		regret;
	double		delta;

	check_not_null(fcinfo, 1, "delta");
	delta = PG_GETARG_FLOAT8(1);
	/* written so that NaN fails */
	if (!(delta > 0 && delta < 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delta must be between 0 and 1, exclusively: %s",
						number_text(delta))));
	regret_of_argument(fcinfo, "bandit_regret_bound()", delta, &regret);
	if (!regret.has_bound)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(regret.bound);
}

/*
 * bandit_regret_estimate(bandit)
 */
Datum
bandit_regret_estimate(PG_FUNCTION_ARGS)
{
	Regret		regret;

	regret_of_argument(fcinfo, "bandit_regret_estimate()", DEFAULT_DELTA, &regret);
	if (!regret.has_estimate)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(regret.estimate);
}

/*
 * dexp3.totals(bandit): the columns of dexp3.overview that sums can tell
 */
Datum
dexp3_totals(PG_FUNCTION_ARGS)
{
	const Bandit *bandit;
	const Counts *counts;
	Sums		sums;
	Learner		learner;
	Regret		regret;
	TupleDesc	tupdesc;
	Datum		values[13];
	bool		nulls[13] = {0};
	double		settled = 0;
	double		loss = 0;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	bandit = bandit_argument(fcinfo, "dexp3.totals()");
	sums_take(&sums, bandit, AccessShareLock, NUM_ARM_SUMS, 0, bandit->params.arms);
	sums_learner_of_all(&sums, bandit, &learner);
	find_regret(&sums, bandit, &learner, DEFAULT_DELTA, &regret);
	counts = &sums.totals.counts;
	for (int i = 0; i < sums.totals.arms; i++)
	{
		settled += totals_vector(&sums.totals, ARM_SETTLED)[i];
		loss += totals_vector(&sums.totals, ARM_LOSS)[i];
	}

	values[0] = Int64GetDatum(counts->decisions);
	values[1] = Int64GetDatum(Max(counts->decisions - counts->closed, 0));
	values[2] = Int64GetDatum(counts->skipped);
	values[3] = Int64GetDatum(counts->expired);
	values[4] = Float8GetDatum(counts->cumulative_delay);
	values[5] = Int64GetDatum((int64) counts->longest_delay);
	nulls[5] = counts->closed == 0;
	values[6] = Float8GetDatum(regret.step_size);
	values[7] = Float8GetDatum(loss);
	values[8] = Float8GetDatum(regret.bound);
	nulls[8] = !regret.has_bound;
	values[9] = Float8GetDatum(regret.estimate);
	nulls[9] = !regret.has_estimate;
	values[10] = TimestampTzGetDatum(counts->last_decision);
	nulls[10] = counts->last_decision == DT_NOBEGIN;
	values[11] = TimestampTzGetDatum(counts->last_feedback);
	nulls[11] = counts->last_feedback == DT_NOBEGIN;
	values[12] = Float8GetDatum(settled * (bandit->loss_low + bandit->loss_high) - loss);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls)));
}

/* ----------
 * Decisions made since the first one that is still open
 *
 * With a feedback window, successes arrive before failures expire.  So the newest
 * decisions look too good, and a report is about those before the first one that is open:
 * everything is known about these.
 * ----------
 */

typedef struct LeftOut
{
	int64		first_open;		/* a decision */
	Totals	   *totals;
	double	   *decisions;		/* of each arm */
} LeftOut;

/* The sums that a report is made of. */
static const ArmSum outcome_sums[] = {
	ARM_SETTLED, ARM_LOSS, ARM_INVERSE, ARM_INVERSE2, ARM_WEIGHTED, ARM_WEIGHTED_INVERSE, ARM_WEIGHTED2
};

static bool
any_transaction(void *context pg_attribute_unused(), uint64 xact pg_attribute_unused())
{
	return true;
}

static void
leave_out_row(void *context, const void *row)
{
	const FeedbackRow *feedback = row;
	LeftOut    *left_out = context;
	Totals	   *totals = left_out->totals;
	Addition	addition;

	if (feedback->settled_by != SETTLED_BY_FEEDBACK || feedback->decision_id < left_out->first_open ||
		feedback->terms.arm < 0 || feedback->terms.arm >= totals->arms)
		return;
	addition_of_outcome(&addition, feedback);
	for (size_t i = 0; i < lengthof(outcome_sums); i++)
		totals_vector(totals, outcome_sums[i])[addition.arm] -= addition.sums[outcome_sums[i]];
	left_out->decisions[addition.arm]++;
}

/*
 * Take the outcomes of decisions that come after the first open one out of the sums, and
 * return how many of each arm those were.  This reads the feedback that came since.
 */
static double *
leave_out_newest(Sums *sums, const Bandit *bandit)
{
	LeftOut		left_out = {
		.totals = &sums->totals,
		.decisions = palloc0(sizeof(double) * sums->totals.arms)
	};
	DecisionRow first;

	if (bandit->feedback_window == NULL || !sums_first_open(sums, &first))
		return left_out.decisions;
	left_out.first_open = first.decision_id;
	/* transactions that were running then may have brought some, too */
	log_scan(LOG_FEEDBACK, bandit->bandit_id, bandit->epoch,
			 first.xact - Min(first.xact, TRANSACTIONS_BEFORE), PG_UINT64_MAX, SnapshotSelf,
			 any_transaction, leave_out_row, &left_out);
	for (int arm = 0; arm < sums->totals.arms; arm++)
	{
		/* no rounding error must stay; and a row may have come a moment ago */
		if (left_out.decisions[arm] == 0 || totals_vector(&sums->totals, ARM_SETTLED)[arm] > 0.5)
			continue;
		for (size_t i = 0; i < lengthof(outcome_sums); i++)
			totals_vector(&sums->totals, outcome_sums[i])[arm] = 0;
	}
	return left_out.decisions;
}

/*
 * dexp3.arm_totals(bandit, all_nodes): the sums of each arm, on this server or on all
 */
Datum
dexp3_arm_totals(PG_FUNCTION_ARGS)
{
	static const ArmSum columns[] = {
		ARM_LOSS, ARM_INVERSE, ARM_INVERSE2, ARM_WEIGHTED, ARM_WEIGHTED_INVERSE, ARM_WEIGHTED2
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const Bandit *bandit;
	Sums		sums;
	double	   *left_out;

	InitMaterializedSRF(fcinfo, 0);
	check_not_null(fcinfo, 1, "all_nodes");
	bandit = bandit_argument(fcinfo, "dexp3.arm_totals()");
	sums_take(&sums, bandit, AccessShareLock, NUM_ARM_SUMS, 0, bandit->params.arms);
	left_out = leave_out_newest(&sums, bandit);
	if (PG_GETARG_BOOL(1) && bandit->shared)
	{
		Totals		others;

		sums_take_others(&others, bandit);
		for (int i = 0; i < others.arms; i++)
			arm_sums_add(sums.totals.sums + i, sums.totals.arms, others.sums + i, others.arms,
						 NUM_ARM_SUMS, 1);
	}
	for (int i = 0; i < sums.totals.arms; i++)
	{
		double		decisions = totals_vector(&sums.totals, ARM_DECISIONS)[i];
		double		closed = totals_vector(&sums.totals, ARM_CLOSED)[i];
		Datum		values[5 + lengthof(columns)];
		bool		nulls[5 + lengthof(columns)] = {0};

		values[0] = Int32GetDatum(i + 1);
		values[1] = Int64GetDatum((int64) decisions);
		values[2] = Int64GetDatum((int64) totals_vector(&sums.totals, ARM_SETTLED)[i]);
		values[3] = Int64GetDatum((int64) fmax(decisions - closed, 0));
		for (size_t j = 0; j < lengthof(columns); j++)
			values[4 + j] = Float8GetDatum(totals_vector(&sums.totals, columns[j])[i]);
		values[4 + lengthof(columns)] = Int64GetDatum((int64) left_out[i]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	PG_RETURN_NULL();
}

static void
put_feedback(void *context, const void *row)
{
	ReturnSetInfo *rsinfo = context;
	const FeedbackRow *feedback = row;
	DecisionRow decision;
	Interval	duration = {0};
	Datum		values[4];
	bool		nulls[4] = {0};

	if (feedback->settled_by != SETTLED_BY_FEEDBACK ||
		!log_find_decision(feedback->decision_id, &decision))
		return;
	duration.time = Max(feedback->received_at - decision.decided_at, 0);
	values[0] = Int64GetDatum(decision.ticket.round);
	values[1] = TimestampTzGetDatum(decision.decided_at);
	values[2] = Int64GetDatum(feedback->terms.delay);
	values[3] = DirectFunctionCall1(interval_justify_hours, IntervalPGetDatum(&duration));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * dexp3.newest_feedback(bandit, newest): how long it took
 */
Datum
dexp3_newest_feedback(PG_FUNCTION_ARGS)
{
	const Bandit *bandit;
	int32		newest;

	check_not_null(fcinfo, 1, "newest");
	newest = PG_GETARG_INT32(1);
	if (newest <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("newest must be positive: %d", newest)));
	InitMaterializedSRF(fcinfo, 0);
	bandit = bandit_argument(fcinfo, "dexp3.newest_feedback()");
	log_lock(AccessShareLock);
	log_scan_newest(bandit->bandit_id, bandit->epoch, newest, put_feedback,
					fcinfo->resultinfo);
	PG_RETURN_NULL();
}
