/*
 * floor.c
 *	  floor_simulate(): the least that bandit_simulate() could cost.
 *
 * DAda-Exp3 with a constant delay as a bare loop: K exponentials a round, one
 * draw, one row into a tuplestore.  No input is checked, no feedback can fail
 * to arrive, nothing is skipped, and the loop cannot be interrupted.
 */
#include "postgres.h"

#include <math.h>

#include "common/pg_prng.h"
#include "funcapi.h"
#include "utils/array.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(floor_simulate);

/* floor_simulate(losses, delay) */
Datum
floor_simulate(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	int			delay = PG_GETARG_INT32(1);
	const double *losses = (const double *) ARR_DATA_PTR(array);
	int			rounds = ARR_DIMS(array)[0];
	int			arms = ARR_DIMS(array)[1];
	double		log_arms = log(arms);
	double		cumulative_delay = 0;
	double	   *z = palloc0(sizeof(double) * arms);
	double	   *weights = palloc(sizeof(double) * arms);
	int		   *played = palloc(sizeof(int) * rounds);
	double	   *estimates = palloc(sizeof(double) * rounds);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	pg_prng_state generator;

	InitMaterializedSRF(fcinfo, 0);
	pg_prng_seed(&generator, 1);

	for (int t = 0; t < rounds; t++)
	{
		double		least = z[0];
		double		total = 0;
		double		step_size;
		double		target;
		double		probability;
		double		loss;
		int			arm = 0;
		Datum		values[5];
		bool		nulls[5] = {0};

		cumulative_delay += Min(t, delay);
		step_size = sqrt(log_arms / ((t + 1.0) * arms + cumulative_delay));
		for (int i = 1; i < arms; i++)
			least = z[i] < least ? z[i] : least;
		for (int i = 0; i < arms; i++)
		{
			weights[i] = exp(-step_size * (z[i] - least));
			total += weights[i];
		}

		target = pg_prng_double(&generator) * total;
		while (arm < arms - 1 && (target -= weights[arm]) >= 0)
			arm++;
		probability = weights[arm] / total;
		loss = losses[(Size) t * arms + arm];

		values[0] = Int64GetDatum(t + 1);
		values[1] = Int32GetDatum(arm + 1);
		values[2] = Float8GetDatum(probability);
		values[3] = Float8GetDatum(step_size);
		values[4] = Float8GetDatum(loss);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);

		played[t] = arm;
		estimates[t] = loss / probability;
		if (t >= delay)
			z[played[t - delay]] += estimates[t - delay];
	}
	PG_RETURN_NULL();
}
