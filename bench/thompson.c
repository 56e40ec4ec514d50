/*
 * thompson.c
 *	  thompson_simulate(): Thompson sampling, as one would write it.
 *
 * What is known of an arm is a Beta distribution of its mean loss, Beta(1, 1) at
 * first.  In each round one number is drawn from each arm's distribution, and the
 * arm with the smallest is played.  A loss l adds l to the first parameter and
 * 1 - l to the second when it arrives; with losses of 0 and 1 that is Bayes' rule.
 * Neither delays nor changes of the world are thought of.
 *
 * The rows have no probability and no step size: nobody computes them.
 *
 * No input is checked.
 */
#include "postgres.h"

#include <math.h>

#include "common/pg_prng.h"
#include "funcapi.h"
#include "miscadmin.h"

#include "rounds.h"

PG_FUNCTION_INFO_V1(thompson_simulate);
PG_FUNCTION_INFO_V1(beta_draws);

/* What is known of an arm, and what follows from it. */
typedef struct Posterior
{
	double		a;
	double		b;
	double		rate;
	double		shift;
} Posterior;

static void
set_posterior(Posterior *posterior, double a, double b)
{
	double		sum = a + b;
	double		product = a * b;

	posterior->a = a;
	posterior->b = b;
	/* 1 is the limit for Beta(1, 1) */
	posterior->rate = sum > 2 ? sqrt((sum - 2) / (2 * product - sum)) : 1;
	posterior->shift = Min(a, b) + 1 / posterior->rate;
}

/*
 * Draw from a Beta distribution whose parameters are at least 1: algorithm BB of
 * R. C. H. Cheng, "Generating Beta Variates with Nonintegral Shape Parameters",
 * Communications of the ACM 21 (1978).
 */
static double
draw_beta(const Posterior *posterior, pg_prng_state *generator)
{
	double		least = Min(posterior->a, posterior->b);
	double		most = Max(posterior->a, posterior->b);
	double		sum = least + most;

	for (;;)
	{
		double		u = pg_prng_double(generator);
		double		v = pg_prng_double(generator);
		double		logit;
		double		w;
		double		z;
		double		r;
		double		s;

		if (u == 0 || v == 0)
			continue;
		logit = posterior->rate * log(u / (1 - u));
		w = least * exp(logit);
		z = u * u * v;
		r = posterior->shift * logit - log(4.0);
		s = least + r - w;
		/* the first test is a shortcut */
		if (s + 1 + log(5.0) >= 5 * z ||
			r + sum * log(sum / (most + w)) >= log(z))
		{
			double		share = isinf(w) ? 1 : w / (most + w);

			return posterior->a <= posterior->b ? share : 1 - share;
		}
	}
}

/* thompson_simulate(losses, delays, seed) */
Datum
thompson_simulate(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Round	   *rounds = read_delays(PG_GETARG_ARRAYTYPE_P(1));
	const double *losses = (const double *) ARR_DATA_PTR(array);
	int			nrounds = ARR_DIMS(array)[0];
	int			arms = ARR_DIMS(array)[1];
	Posterior  *posteriors = palloc(sizeof(Posterior) * arms);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	pg_prng_state generator;

	pg_prng_seed(&generator, PG_GETARG_INT64(2));
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < arms; i++)
		set_posterior(&posteriors[i], 1, 1);

	for (int t = 0; t < nrounds; t++)
	{
		double		least = 2;
		Datum		values[3];
		bool		nulls[3] = {0};

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < arms; i++)
		{
			double		drawn = draw_beta(&posteriors[i], &generator);

			if (drawn < least)
			{
				least = drawn;
				rounds[t].arm = i;
			}
		}

		values[0] = Int64GetDatum(t + 1);
		values[1] = Int32GetDatum(rounds[t].arm + 1);
		values[2] = Float8GetDatum(losses[(Size) t * arms + rounds[t].arm]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);

		enqueue(rounds, nrounds, t);
		for (int s = rounds[t].first; s != NO_ROUND; s = rounds[s].next)
		{
			Posterior  *posterior = &posteriors[rounds[s].arm];
			double		loss = losses[(Size) s * arms + rounds[s].arm];

			set_posterior(posterior, posterior->a + loss, posterior->b + 1 - loss);
		}
	}
	PG_RETURN_NULL();
}

/* beta_draws(a, b, n, seed): n numbers, to check their distribution */
Datum
beta_draws(PG_FUNCTION_ARGS)
{
	int			n = PG_GETARG_INT32(2);
	Datum	   *drawn = palloc(sizeof(Datum) * Max(n, 1));
	Posterior	posterior;
	pg_prng_state generator;

	pg_prng_seed(&generator, PG_GETARG_INT64(3));
	set_posterior(&posterior, PG_GETARG_FLOAT8(0), PG_GETARG_FLOAT8(1));
	for (int i = 0; i < n; i++)
		drawn[i] = Float8GetDatum(draw_beta(&posterior, &generator));
	PG_RETURN_ARRAYTYPE_P(construct_array(drawn, n, FLOAT8OID, sizeof(float8),
										  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}
