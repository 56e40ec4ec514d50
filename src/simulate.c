/*
 * simulate.c
 *	  bandit_simulate(): try a learner on known losses and delays.
 *
 * The rows go into a tuplestore, which spills to disk beyond work_mem.  Besides
 * the tuplestore and the arguments, this needs 16 bytes for each round, and a
 * ticket for each decision whose feedback is under way.  It does not keep the
 * ticket of a round whose feedback will never arrive.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "funcapi.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "arguments.h"
#include "learner/learner.h"
#include "progress.h"
#include "random.h"

PG_FUNCTION_INFO_V1(bandit_simulate);

/* The arguments, in their order. */
enum
{
	ARG_LOSSES,
	ARG_DELAYS,
	ARG_PARAMS,					/* algorithm ... step_scale, 5 arguments */
	ARG_SEED = ARG_PARAMS + 5,
	ARG_OPTIMISM,
	ARG_HALF_LIFE
};

#define NEVER			(-1)

/* How many weights to compute between two looks at the clock. */
#define WEIGHTS_PER_LOOK	65536

/* A decision whose feedback is under way. */
typedef struct Pending
{
	dlist_node	node;
	Ticket		ticket;
} Pending;

/* What is simulated. */
typedef struct Environment
{
	int			rounds;			/* T */
	int			arms;			/* K */
	const double *losses;		/* T x K */
	int		   *delays;			/* T, or NULL if there is no delay at all */
} Environment;

static double
loss_of(const Environment *environment, const Ticket *ticket)
{
	return environment->losses[(Size) (ticket->round - 1) * environment->arms + ticket->arm];
}

static void
read_losses(ArrayType *array, Environment *environment)
{
	Size		nlosses;

	if (ARR_NDIM(array) != 2)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("losses must be a two-dimensional array, not one of %d dimensions",
						ARR_NDIM(array)),
				 errhint("Give one row a round, with the loss of every arm.")));
	if (array_contains_nulls(array))
		null_argument("a loss");

	environment->rounds = ARR_DIMS(array)[0];
	environment->arms = ARR_DIMS(array)[1];
	environment->losses = (const double *) ARR_DATA_PTR(array);
	nlosses = (Size) environment->rounds * environment->arms;
	for (Size i = 0; i < nlosses; i++)
	{
		if (unlikely(!is_loss(environment->losses[i])))
			check_loss(environment->losses[i]);
	}
}

static void
read_delays(ArrayType *array, Environment *environment)
{
	Datum	   *values;
	bool	   *nulls;
	int			nvalues;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("delays must be a one-dimensional array, not one of %d dimensions",
						ARR_NDIM(array))));
	deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT,
					  &values, &nulls, &nvalues);
	if (nvalues != environment->rounds)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("number of delays (%d) must be the number of rounds (%d)",
						nvalues, environment->rounds)));

	environment->delays = palloc(sizeof(int) * Max(nvalues, 1));
	for (int i = 0; i < nvalues; i++)
	{
		environment->delays[i] = nulls[i] ? NEVER : DatumGetInt32(values[i]);
		if (!nulls[i] && environment->delays[i] < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("delay must not be negative: %d", environment->delays[i])));
	}
	pfree(values);
	pfree(nulls);
}

/*
 * Make sure that there is room for the open rounds of one more draw.
 */
static void
reserve_open_words(Learner *learner, int64 *capacity)
{
	OpenRounds *open = &learner->open;
	int64		nwords;

	/* in most cases this simple test is enough */
	if (!learner->params.skipping ||
		open_rounds_words_with(open, learner->round + 1) <= *capacity)
		return;
	nwords = learner_open_words_in_draw(learner);
	if (nwords <= *capacity)
		return;
	*capacity = Max(2 * nwords, 16);
	open->words = open->words == NULL ?
		palloc(*capacity * sizeof(uint64)) :
		repalloc(open->words, *capacity * sizeof(uint64));
}

static void
put_row(ReturnSetInfo *rsinfo, const Ticket *ticket, double step_size, double loss)
{
	/* "Fast" allocates nothing, even if such numbers are passed by reference */
	Datum		values[] = {
		Int64GetDatumFast(ticket->round),
		Int32GetDatum(ticket->arm + 1),
		Float8GetDatumFast(ticket->probability),
		Float8GetDatumFast(step_size),
		Float8GetDatumFast(loss)
	};
	bool		nulls[lengthof(values)] = {0};

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * Play all rounds.  The feedback of round s arrives after round s + d_s, and that
 * of several rounds in their order.
 */
static void
play(const Environment *environment, Learner *learner,
	 pg_prng_state *generator, ReturnSetInfo *rsinfo)
{
	int			rounds = environment->rounds;
	int			arms = environment->arms;
	int			look = Max(WEIGHTS_PER_LOOK / arms, 1);
	double	   *weights = palloc(sizeof(double) * arms);
	int64		open_capacity = 0;
	dlist_head *arrivals;		/* for each round, what arrives after it */
	Progress	progress;

	arrivals = MemoryContextAllocExtended(CurrentMemoryContext,
										  ((Size) rounds + 1) * sizeof(dlist_head),
										  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	progress_start(&progress, "rounds", rounds);
	for (int round = 1; round <= rounds; round++)
	{
		int			delay = environment->delays ? environment->delays[round - 1] : 0;
		double		uniform;
		double		step_size;
		Ticket		ticket;

		CHECK_FOR_INTERRUPTS();
		if (round % look == 0)
			progress_report(&progress, round);

		uniform = generator ? pg_prng_double(generator) : session_random();
		reserve_open_words(learner, &open_capacity);

		/* with max_delay, "deda" is not told the delay of each round */
		learner_draw(learner,
					 learner->params.max_delay == NO_DELAY ? delay : NO_DELAY,
					 uniform, weights, &ticket, &step_size);
		put_row(rsinfo, &ticket, step_size, loss_of(environment, &ticket));

		if (delay != NEVER && delay <= rounds - round)
		{
			Pending    *pending = palloc(sizeof(Pending));

			pending->ticket = ticket;
			dlist_push_tail(&arrivals[round + delay], &pending->node);
		}
		while (!dlist_is_empty(&arrivals[round]))
		{
			Pending    *arrived = dlist_container(Pending, node,
												  dlist_pop_head_node(&arrivals[round]));

			learner_learn(learner, &arrived->ticket,
						  loss_of(environment, &arrived->ticket));
			pfree(arrived);
		}
	}
}

/*
 * bandit_simulate(losses, delays, algorithm, skipping, patience, max_delay,
 *				   step_scale, seed, optimism, half_life)
 */
Datum
bandit_simulate(PG_FUNCTION_ARGS)
{
	Environment environment = {0};
	LearnerParams params;
	Learner		learner;
	pg_prng_state generator;
	bool		seeded = !PG_ARGISNULL(ARG_SEED);

	check_not_null(fcinfo, ARG_LOSSES, "losses");
	read_losses(PG_GETARG_ARRAYTYPE_P(ARG_LOSSES), &environment);
	argument_params(fcinfo, ARG_PARAMS, ARG_OPTIMISM, environment.arms, &params);
	argument_half_life(fcinfo, ARG_HALF_LIFE, &params);
	if (!PG_ARGISNULL(ARG_DELAYS))
		read_delays(PG_GETARG_ARRAYTYPE_P(ARG_DELAYS), &environment);
	if (seeded)
		pg_prng_seed(&generator, PG_GETARG_INT64(ARG_SEED));

	learner_init(&learner, &params,
				 palloc0(NUM_VECTORS(params.algorithm) *
						 (Size) params.arms * sizeof(double)));
	InitMaterializedSRF(fcinfo, 0);
	play(&environment, &learner, seeded ? &generator : NULL,
		 (ReturnSetInfo *) fcinfo->resultinfo);
	PG_RETURN_NULL();
}
