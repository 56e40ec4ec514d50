/*
 * arguments.c
 *	  The arguments that several SQL functions share, each checked in one place.
 */
#include "postgres.h"

#include <math.h>

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "arguments.h"
#include "compat.h"
#include "state.h"

#define MAX_SUBJECT_BYTES	1000

/*
 * Complain about an argument that must not be null.  Functions that change
 * something are not strict: a silent null would lose a bandit or a loss.
 */
void
null_argument(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", name)));
}

/*
 * Write a number for a message, with all its digits.
 */
char *
number_text(double number)
{
	return DatumGetCString(DirectFunctionCall1(float8out, Float8GetDatum(number)));
}

static void
check_not_null(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		null_argument(name);
}

static void
invalid_argument(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s", message),
			 hint ? errhint("%s", hint) : 0));
}

/*
 * Read what makes a learner: algorithm, skipping, patience, max_delay and
 * step_scale, which are consecutive arguments from the first on.
 */
void
argument_params(FunctionCallInfo fcinfo, int first, int32 arms,
				LearnerParams *params)
{
	char	   *name;
	int32		patience;

	if (arms < LEARNER_MIN_ARMS || arms > LEARNER_MAX_ARMS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of arms must be between %d and %d, not %d",
						LEARNER_MIN_ARMS, LEARNER_MAX_ARMS, arms)));
	params->arms = arms;

	check_not_null(fcinfo, first, "algorithm");
	name = text_to_cstring(PG_GETARG_TEXT_PP(first));
	if (!algorithm_by_name(name, &params->algorithm))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown algorithm: \"%s\"", name),
				 errhint("The algorithms are \"dada\", \"dada-ix\" and \"deda\".")));

	/* null means: wherever the algorithm can */
	params->skipping = PG_ARGISNULL(first + 1) ?
		params->algorithm != DEDA : PG_GETARG_BOOL(first + 1);
	if (params->skipping && params->algorithm == DEDA)
		invalid_argument("algorithm \"deda\" cannot skip rounds",
						 "Leave skipping out, or use \"dada\" or \"dada-ix\".");

	check_not_null(fcinfo, first + 2, "patience");
	patience = PG_GETARG_INT32(first + 2);
	if (patience < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("patience must not be negative: %d", patience)));
	params->patience = params->skipping ? patience : 0;

	params->max_delay = NO_DELAY;
	if (!PG_ARGISNULL(first + 3))
	{
		params->max_delay = PG_GETARG_INT32(first + 3);
		if (params->max_delay < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("max_delay must not be negative: %d",
							params->max_delay)));
		if (params->algorithm != DEDA)
			invalid_argument("max_delay is for algorithm \"deda\" only",
							 "The other algorithms adapt to delays without a bound.");
	}

	check_not_null(fcinfo, first + 4, "step_scale");
	params->step_scale = PG_GETARG_FLOAT8(first + 4);
	if (!(params->step_scale > 0) || isinf(params->step_scale))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step_scale must be positive and finite: %s",
						number_text(params->step_scale))));
	if (params->algorithm == DEDA && params->step_scale != 1)
		invalid_argument("step_scale is not for algorithm \"deda\"",
						 "The step size of \"deda\" adapts to the losses by itself.");

	Assert(learner_params_problem(params) == NULL);
}

/*
 * Read the announced delay of a decision, an argument that only "deda" has and
 * that it needs unless max_delay bounds all delays.
 */
int64
argument_delay(FunctionCallInfo fcinfo, int n, const LearnerParams *params)
{
	int32		delay;

	if (PG_ARGISNULL(n))
	{
		if (params->algorithm == DEDA && params->max_delay == NO_DELAY)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("algorithm \"deda\" needs the delay of each decision in advance"),
					 errhint("Pass delay, or make the bandit with max_delay.")));
		return NO_DELAY;
	}

	delay = PG_GETARG_INT32(n);
	if (params->algorithm != DEDA)
		invalid_argument("delay is for algorithm \"deda\" only",
						 "The other algorithms learn the delay when the feedback arrives.");
	if (delay < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delay must not be negative: %d", delay)));
	return delay;
}

void
check_loss(double loss)
{
	if (!is_loss(loss))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("loss must be between 0 and 1: %s", number_text(loss))));
}

/*
 * Read a loss between 0 and 1.
 */
double
argument_loss(FunctionCallInfo fcinfo, int n)
{
	double		loss;

	check_not_null(fcinfo, n, "loss");
	loss = PG_GETARG_FLOAT8(n);
	check_loss(loss);
	return loss;
}

/*
 * Read who a decision is for.  An index entry must hold it.
 */
text *
argument_subject(FunctionCallInfo fcinfo, int n)
{
	text	   *subject = PG_GETARG_TEXT_PP(n);

	if (VARSIZE_ANY_EXHDR(subject) > MAX_SUBJECT_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subject must have at most %d bytes, not %d",
						MAX_SUBJECT_BYTES, (int) VARSIZE_ANY_EXHDR(subject))));
	return subject;
}
