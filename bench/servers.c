/*
 * servers.c
 *	  servers_simulate(): one self-tuned bandit on several servers.
 *
 * Rounds go to the servers by turns.  Each server counts its own feedback at once, and
 * that of the others as it was when they last exchanged their sums, which they do
 * every so many rounds of all servers together.  Feedback arrives at the server that
 * has drawn, and its baseline is made from what that server knows: as in the extension.
 *
 * The learner is the extension's own.  No input is checked.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"

#include "learner/learner.h"
#include "rounds.h"

PG_FUNCTION_INFO_V1(servers_simulate);

typedef struct Server
{
	Learner		own;			/* sums over its own rounds */
	Learner		known;			/* and with those of the others */
} Server;

static void
make_learner(Learner *learner, int arms, double optimism)
{
	LearnerParams params = {
		.arms = arms,
		.algorithm = SELF_TUNED,
		.max_delay = NO_DELAY,
		.step_scale = 1,
		.optimism = optimism
	};

	learner_init(learner, &params, palloc0(sizeof(double) * arms));
}

/*
 * Let each server know the sums of all.
 */
static void
exchange(Server *servers, int nservers, Learner *total)
{
	int			arms = total->params.arms;

	memset(total->z, 0, sizeof(double) * arms);
	total->settled = total->total_loss = total->cost = 0;
	for (int i = 0; i < nservers; i++)
	{
		const Learner *own = &servers[i].own;

		for (int arm = 0; arm < arms; arm++)
			total->z[arm] += own->z[arm];
		total->settled += own->settled;
		total->total_loss += own->total_loss;
		total->cost += own->cost;
	}
	for (int i = 0; i < nservers; i++)
	{
		Learner    *known = &servers[i].known;

		memcpy(known->z, total->z, sizeof(double) * arms);
		known->settled = total->settled;
		known->total_loss = total->total_loss;
		known->cost = total->cost;
	}
}

/* servers_simulate(losses, delays, servers, exchange_every, optimism, seed): the sum of losses */
Datum
servers_simulate(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Round	   *rounds = read_delays(PG_GETARG_ARRAYTYPE_P(1));
	const double *losses = (const double *) ARR_DATA_PTR(array);
	int			nrounds = ARR_DIMS(array)[0];
	int			arms = ARR_DIMS(array)[1];
	int			nservers = PG_GETARG_INT32(2);
	int			every = PG_GETARG_INT32(3); /* 0: never */
	double		optimism = PG_GETARG_FLOAT8(4);
	Server	   *servers = palloc(sizeof(Server) * nservers);
	Ticket	   *tickets = palloc(sizeof(Ticket) * Max(nrounds, 1));
	double	   *weights = palloc(sizeof(double) * arms);
	double		sum = 0;
	Learner		total;
	pg_prng_state generator;

	pg_prng_seed(&generator, PG_GETARG_INT64(5));
	make_learner(&total, arms, optimism);
	for (int i = 0; i < nservers; i++)
	{
		make_learner(&servers[i].own, arms, optimism);
		make_learner(&servers[i].known, arms, optimism);
	}
	for (int t = 0; t < nrounds; t++)
	{
		Learner    *learner = &servers[t % nservers].known;
		double		step_size;

		CHECK_FOR_INTERRUPTS();
		if (every > 0 && t % every == 0)
			exchange(servers, nservers, &total);
		learner_pick(learner, NO_DELAY, pg_prng_double(&generator), NULL, weights,
					 &tickets[t], &step_size);
		rounds[t].arm = tickets[t].arm;
		sum += losses[(Size) t * arms + rounds[t].arm];
		enqueue(rounds, nrounds, t);
		for (int s = rounds[t].first; s != NO_ROUND; s = rounds[s].next)
		{
			Server	   *server = &servers[s % nservers];
			double		loss = losses[(Size) s * arms + rounds[s].arm];
			FeedbackTerms terms;

			learner_feedback(&server->known, &tickets[s], loss, &terms);
			learner_add_feedback(&server->known, &terms, loss);
			learner_add_feedback(&server->own, &terms, loss);
		}
	}
	PG_RETURN_FLOAT8(sum);
}
