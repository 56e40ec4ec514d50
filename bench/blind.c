/*
 * blind.c
 *	  blind_simulate(): Exp3 that knows nothing of delays, as one would write it.
 *
 * It is what DAda-Exp3 is without delays: the step size is sqrt(ln K / (t K)),
 * whatever is outstanding, and feedback is taken in when it arrives.  A step_scale
 * of 0 makes it play uniformly.
 *
 * A loss is divided by the arm's probability in the round in which it was played
 * or, unless that was stored, in the newest round when feedback arrives.  The latter
 * is a mistake, and unlike the former can be as small as you like: it is
 * taken to be at least LEAST_PROBABILITY, so that no sum can overflow.
 *
 * No input is checked.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "common/pg_prng.h"
#include "funcapi.h"
#include "miscadmin.h"

#include "learner/exponential.h"
#include "rounds.h"

PG_FUNCTION_INFO_V1(blind_simulate);

/* The smallest with which dexp3 draws an arm, see sample() in learner.c: 2^-108 */
#define LEAST_PROBABILITY	(DBL_EPSILON * DBL_EPSILON / 16)

/*
 * Fill in the probabilities, and return the arm that the draw hits.
 */
static int
draw(const double *z, int arms, double step_size, double uniform,
	 double *probabilities)
{
	double		least = z[0];
	double		total = 0;
	double		sum = 0;
	double		target;
	int			arm;

	for (int i = 1; i < arms; i++)
		least = Min(least, z[i]);
	for (int i = 0; i < arms; i++)
		probabilities[i] = -step_size * (z[i] - least);
	exponentials(probabilities, arms);
	for (int i = 0; i < arms; i++)
		total += probabilities[i];

	/* the middle of the draw's cell: nothing improbable is hit by a draw of 0 */
	target = (uniform + DBL_EPSILON / 2) * total;
	for (arm = 0; arm < arms - 1; arm++)
	{
		sum += probabilities[arm];
		if (sum > target)
			break;
	}
	for (int i = 0; i < arms; i++)
		probabilities[i] /= total;
	return arm;
}

/* blind_simulate(losses, delays, stored, step_scale, seed) */
Datum
blind_simulate(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Round	   *rounds = read_delays(PG_GETARG_ARRAYTYPE_P(1));
	bool		stored = PG_GETARG_BOOL(2);
	double		step_scale = PG_GETARG_FLOAT8(3);
	const double *losses = (const double *) ARR_DATA_PTR(array);
	int			nrounds = ARR_DIMS(array)[0];
	int			arms = ARR_DIMS(array)[1];
	double	   *z = palloc0(sizeof(double) * arms);
	double	   *probabilities = palloc(sizeof(double) * arms);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	pg_prng_state generator;

	pg_prng_seed(&generator, PG_GETARG_INT64(4));
	InitMaterializedSRF(fcinfo, 0);

	for (int t = 0; t < nrounds; t++)
	{
		double		step_size = step_scale * sqrt(log(arms) / ((t + 1.0) * arms));
		Round	   *round = &rounds[t];
		Datum		values[5];
		bool		nulls[5] = {0};

		CHECK_FOR_INTERRUPTS();
		round->arm = draw(z, arms, step_size, pg_prng_double(&generator), probabilities);
		round->probability = probabilities[round->arm];

		values[0] = Int64GetDatum(t + 1);
		values[1] = Int32GetDatum(round->arm + 1);
		values[2] = Float8GetDatum(round->probability);
		values[3] = Float8GetDatum(step_size);
		values[4] = Float8GetDatum(losses[(Size) t * arms + round->arm]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);

		enqueue(rounds, nrounds, t);
		for (int s = round->first; s != NO_ROUND; s = rounds[s].next)
		{
			int			arm = rounds[s].arm;
			double		probability = stored ? rounds[s].probability : probabilities[arm];

			z[arm] += losses[(Size) s * arms + arm] / Max(probability, LEAST_PROBABILITY);
		}
	}
	PG_RETURN_NULL();
}
