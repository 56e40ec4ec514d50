/*
 * settings.c
 *	  The settings of a managed bandit, checked: for bandit_create() and bandit_alter().
 */
#include "postgres.h"

#include <math.h>

#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "arguments.h"
#include "clock.h"
#include "settings.h"

/*
 * Check a span of time, which may be null.  It must not be negative, nor reach back
 * beyond the beginning of time, which is in the year 4713 BC.
 */
void
check_interval(FunctionCallInfo fcinfo, int n, const char *name)
{
	Interval	zero = {0};
	Interval	longest = {.month = 6000 * MONTHS_PER_YEAR};
	Datum		span;

	if (PG_ARGISNULL(n))
		return;
	span = PG_GETARG_DATUM(n);
	if (DatumGetBool(DirectFunctionCall2(interval_lt, span, IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be negative: %s", name,
						DatumGetCString(DirectFunctionCall1(interval_out, span)))));
	if (DatumGetBool(DirectFunctionCall2(interval_gt, span, IntervalPGetDatum(&longest))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be at most 6,000 years: %s", name,
						DatumGetCString(DirectFunctionCall1(interval_out, span)))));
	/* months and days of different signs may still reach too far */
	(void) time_before_action(DatumGetIntervalP(span));
}

/*
 * Read the range of losses.
 */
void
argument_loss_range(FunctionCallInfo fcinfo, int n, double *low, double *high)
{
	ArrayType  *array;

	check_not_null(fcinfo, n, "loss_range");
	array = PG_GETARG_ARRAYTYPE_P(n);
	if (ARR_NDIM(array) != 1 || ARR_DIMS(array)[0] != 2)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("loss_range must be an array of two numbers")));
	if (array_contains_nulls(array))
		null_argument("an end of loss_range");
	*low = ((double *) ARR_DATA_PTR(array))[0];
	*high = ((double *) ARR_DATA_PTR(array))[1];
	/* written so that NaN fails */
	if (!(*low < *high) || isinf(*low) || isinf(*high))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("loss_range must go from a lower to a higher finite number, not from %s to %s",
						number_text(*low), number_text(*high))));
	/* squares of losses, divided by probabilities, must not overflow */
	if (fabs(*low) > BANDIT_MAX_LOSS || fabs(*high) > BANDIT_MAX_LOSS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("loss_range must be between -%g and %g, not from %s to %s", BANDIT_MAX_LOSS,
						BANDIT_MAX_LOSS, number_text(*low), number_text(*high))));
}

/*
 * Make sure that a loss for missing feedback is in the range.
 */
void
check_missing_loss(double missing, double low, double high)
{
	/* written so that NaN fails */
	if (!(missing >= low && missing <= high))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("missing_loss must be between %s and %s: %s", number_text(low),
						number_text(high), number_text(missing))));
}

/*
 * Check a half-life in real time, which may be null.
 */
void
check_half_life(FunctionCallInfo fcinfo, int n, const LearnerParams *params)
{
	if (PG_ARGISNULL(n))
		return;
	check_may_forget(params);
	if (bandit_microseconds(PG_GETARG_INTERVAL_P(n)) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("half_life must be positive, and less than 290,000 years: %s",
						DatumGetCString(DirectFunctionCall1(interval_out,
															PG_GETARG_DATUM(n))))));
}

/*
 * Read what feedback is to be, which may be null.
 */
Goal
argument_goal(FunctionCallInfo fcinfo, int n)
{
	char	   *name;
	Goal		goal;

	if (PG_ARGISNULL(n))
		return GOAL_NOT_SAID;
	name = text_to_cstring(PG_GETARG_TEXT_PP(n));
	if (!goal_by_name(name, &goal))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown goal: \"%s\"", name),
				 errhint("The goals are \"reward\" and \"loss\".")));
	return goal;
}
