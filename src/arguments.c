/*
 * arguments.c
 *	  The arguments that several SQL functions share, each checked in one place.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"

#include "arguments.h"
#include "compat.h"

#define MAX_SUBJECT_BYTES	1000

/*
 * Complain about an argument that must not be null.  Functions that change
 * something are not strict, because a silent null would lose a bandit or a loss.
 */
void
null_argument(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", name)));
}

/*
 * Make sure that an argument is not null.
 */
void
check_not_null(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		null_argument(name);
}

/*
 * Fail if a function that writes is called where it must not be.
 */
void
check_may_write(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
}

/*
 * Write a number for a message, with all its digits.
 */
char *
number_text(double number)
{
	return DatumGetCString(DirectFunctionCall1(float8out, Float8GetDatum(number)));
}

/*
 * Make an array of numbers, of two dimensions unless it has one row only.
 */
Datum
number_array(const double *numbers, int rows, int columns)
{
	Datum	   *elements = palloc(sizeof(Datum) * (Size) Max(rows * columns, 1));
	int			dims[2] = {rows, columns};
	int			lower[2] = {1, 1};
	int			ndims = rows == 1 ? 1 : 2;

	for (int i = 0; i < rows * columns; i++)
		elements[i] = Float8GetDatum(numbers[i]);
	return PointerGetDatum(construct_md_array(elements, NULL, ndims, dims + 2 - ndims, lower,
											  FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL,
											  TYPALIGN_DOUBLE));
}

static void
invalid_argument(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s", message),
			 hint ? errhint("%s", hint) : 0));
}

static void
check_not_negative(const char *name, int32 value)
{
	if (value < 0)
		invalid_argument(psprintf("%s must not be negative: %d", name, value), NULL);
}

/* The values of arguments that somebody has left out. */
#define DEFAULT_PATIENCE	100
#define DEFAULT_OPTIMISM	0.25

/*
 * Refuse an argument that is not for "self-tuned".
 */
static void
not_for_self_tuned(const char *name)
{
	invalid_argument(psprintf("%s is not for algorithm \"self-tuned\"", name),
					 "It tunes itself. Leave the argument out, or use \"dada\", \"dada-ix\" or \"deda\".");
}

void
check_optimism(double optimism)
{
	/* written so that NaN fails */
	if (!(optimism > 0 && optimism <= 1))
		invalid_argument(psprintf("optimism must be above 0 and at most 1: %s",
								  number_text(optimism)), NULL);
}

void
check_step_scale(double step_scale)
{
	if (!(step_scale > 0) || isinf(step_scale))
		invalid_argument(psprintf("step_scale must be positive and finite: %s",
								  number_text(step_scale)), NULL);
}

void
check_patience(int32 patience)
{
	check_not_negative("patience", patience);
}

/*
 * Read the parameters that only some learners have.
 */
static void
self_tuned_params(FunctionCallInfo fcinfo, int first, int optimism, LearnerParams *params)
{
	if (!PG_ARGISNULL(first + 1) && PG_GETARG_BOOL(first + 1))
		invalid_argument("algorithm \"self-tuned\" cannot skip rounds",
						 "It does without: missing feedback costs only what is not learned from it.");
	if (PG_GETARG_INT32(first + 2) != DEFAULT_PATIENCE)
		not_for_self_tuned("patience");
	if (!PG_ARGISNULL(first + 3))
		not_for_self_tuned("max_delay");
	if (PG_GETARG_FLOAT8(first + 4) != 1)
		not_for_self_tuned("step_scale");

	params->optimism = PG_GETARG_FLOAT8(optimism);
	check_optimism(params->optimism);
}

/*
 * Read the parameters of a learner, except for its half-life.  They are five
 * consecutive arguments, algorithm, skipping, patience, max_delay and step_scale; and
 * optimism, which comes later.
 */
void
argument_params(FunctionCallInfo fcinfo, int first, int optimism, int32 arms,
				LearnerParams *params)
{
	char	   *name;
	int32		patience;

	if (arms < LEARNER_MIN_ARMS || arms > LEARNER_MAX_ARMS)
		invalid_argument(psprintf("number of arms must be between %d and %d, not %d",
								  LEARNER_MIN_ARMS, LEARNER_MAX_ARMS, arms), NULL);
	memset(params, 0, sizeof(LearnerParams));
	params->arms = arms;
	params->max_delay = NO_DELAY;
	params->step_scale = 1;

	check_not_null(fcinfo, first, "algorithm");
	name = text_to_cstring(PG_GETARG_TEXT_PP(first));
	if (!algorithm_by_name(name, &params->algorithm))
		invalid_argument(psprintf("unknown algorithm: \"%s\"", name),
						 "The algorithms are \"self-tuned\", \"dada\", \"dada-ix\" and \"deda\".");
	check_not_null(fcinfo, first + 2, "patience");
	check_not_null(fcinfo, first + 4, "step_scale");
	check_not_null(fcinfo, optimism, "optimism");
	if (params->algorithm == SELF_TUNED)
	{
		self_tuned_params(fcinfo, first, optimism, params);
		return;
	}
	if (PG_GETARG_FLOAT8(optimism) != DEFAULT_OPTIMISM)
		invalid_argument("optimism is for algorithm \"self-tuned\" only", NULL);

	/* null means that the learner skips if its algorithm can */
	params->skipping = PG_ARGISNULL(first + 1) ?
		params->algorithm != DEDA : PG_GETARG_BOOL(first + 1);
	if (params->skipping && params->algorithm == DEDA)
		invalid_argument("algorithm \"deda\" cannot skip rounds",
						 "Leave skipping out, or use \"dada\" or \"dada-ix\".");

	patience = PG_GETARG_INT32(first + 2);
	check_patience(patience);
	params->patience = params->skipping ? patience : 0;

	if (!PG_ARGISNULL(first + 3))
	{
		params->max_delay = PG_GETARG_INT32(first + 3);
		check_not_negative("max_delay", params->max_delay);
		if (params->algorithm != DEDA)
			invalid_argument("max_delay is for algorithm \"deda\" only",
							 "The other algorithms adapt to delays without a bound.");
	}

	params->step_scale = PG_GETARG_FLOAT8(first + 4);
	check_step_scale(params->step_scale);
	if (params->algorithm == DEDA && params->step_scale != 1)
		invalid_argument("step_scale is not for algorithm \"deda\"",
						 "The step size of \"deda\" adapts to the losses by itself.");

	Assert(learner_params_problem(params) == NULL);
}

/*
 * Refuse a half-life that is not for this algorithm.
 */
void
check_may_forget(const LearnerParams *params)
{
	if (params->algorithm != SELF_TUNED)
		invalid_argument("half_life is for algorithm \"self-tuned\" only", NULL);
}

/*
 * Read a half-life in rounds, which may be null.
 */
void
argument_half_life(FunctionCallInfo fcinfo, int n, LearnerParams *params)
{
	if (PG_ARGISNULL(n))
		return;
	check_may_forget(params);
	params->half_life = PG_GETARG_FLOAT8(n);
	/* written so that NaN fails */
	if (!(params->half_life >= LEARNER_MIN_HALF_LIFE &&
		  params->half_life <= LEARNER_MAX_HALF_LIFE))
		invalid_argument(psprintf("half_life must be between %g and %g rounds: %s",
								  LEARNER_MIN_HALF_LIFE, LEARNER_MAX_HALF_LIFE,
								  number_text(params->half_life)), NULL);
}

/*
 * Read the announced delay of a decision.  Only "deda" has this argument, and it
 * needs it unless max_delay bounds all delays.
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
	check_not_negative("delay", delay);
	return delay;
}

/*
 * Make sure that a loss is between 0 and 1.
 */
void
check_loss(double loss)
{
	if (!is_loss(loss))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("loss must be between 0 and 1: %s", number_text(loss))));
}

/*
 * Read whom a decision is for.  The subject must fit into an index entry.
 */
text *
argument_subject(FunctionCallInfo fcinfo, int n)
{
	text	   *subject = PG_GETARG_TEXT_PP(n);

	if (VARSIZE_ANY_EXHDR(subject) > MAX_SUBJECT_BYTES)
		invalid_argument(psprintf("subject must have at most %d bytes, not %d",
								  MAX_SUBJECT_BYTES, (int) VARSIZE_ANY_EXHDR(subject)), NULL);
	return subject;
}

/*
 * Make sure that a function is called as a trigger.
 */
void
check_called_as_trigger(FunctionCallInfo fcinfo, const char *function)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be called as a trigger", function)));
}

/*
 * Complain about a trigger that is fired in another way than it should be.
 */
void
protocol_violated(const TriggerData *trigdata, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("trigger \"%s\" on table \"%s\" must be fired %s",
					trigdata->tg_trigger->tgname,
					RelationGetRelationName(trigdata->tg_relation), problem)));
}
