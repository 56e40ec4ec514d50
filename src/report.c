/*
 * report.c
 *	  What the reports, which are SQL, need from C.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"

#include "arguments.h"
#include "bandit.h"
#include "state.h"

PG_FUNCTION_INFO_V1(bandit_checked_id);
PG_FUNCTION_INFO_V1(bandit_checked_policy);
PG_FUNCTION_INFO_V1(bandit_bound);

/* How far the probabilities of a policy may be from summing up to 1. */
#define POLICY_TOLERANCE	1e-6

/*
 * dexp3.bandit_id_of(bandit): its identifier, for those who may use it
 */
Datum
bandit_checked_id(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		null_argument("bandit");
	PG_RETURN_INT32(bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE)->bandit_id);
}

/*
 * dexp3.checked_policy(policy, arms): the policy, if it is a distribution
 */
Datum
bandit_checked_policy(PG_FUNCTION_ARGS)
{
	ArrayType  *policy;
	Datum	   *elements;
	int			n;
	int			arms = PG_GETARG_INT32(1);
	double		sum = 0;

	if (PG_ARGISNULL(0))
		null_argument("policy");
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
 * dexp3.bound(state, skipped, longest_delay, delta)
 */
Datum
bandit_bound(PG_FUNCTION_ARGS)
{
	Learner		learner;
	double		delta = PG_GETARG_FLOAT8(3);

	/* written so that NaN fails */
	if (!(delta > 0 && delta < 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delta must be between 0 and 1, exclusively: %s",
						number_text(delta))));
	state_view(PG_GETARG_BANDIT_STATE(0), &learner);
	PG_RETURN_FLOAT8(learner_regret_bound(&learner, (double) PG_GETARG_INT64(1),
										  (double) PG_GETARG_INT64(2), delta));
}
