/*
 * simulate.c
 *	  bandit_simulate(): try a learner on known losses and delays.
 *
 * The rows go into a tuplestore, which spills to disk beyond work_mem.  Apart
 * from it and the arguments, memory is 4 bytes a round plus what is in flight
 * at the same time: the ticket of a round whose feedback will never arrive is
 * not kept at all.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "arguments.h"
#include "learner.h"
#include "progress.h"
#include "random.h"

PG_FUNCTION_INFO_V1(bandit_simulate);

/* The arguments, in their order. */
enum
{
	ARG_LOSSES,
	ARG_DELAYS,
	ARG_PARAMS,					/* algorithm ... step_scale, 5 arguments */
	ARG_SEED = ARG_PARAMS + 5
};

/* The columns of a result row. */
enum
{
	COL_ROUND,
	COL_ARM,
	COL_PROBABILITY,
	COL_STEP_SIZE,
	COL_LOSS,
	NUM_COLS
};

#define NO_SLOT			(-1)
#define NEVER			(-1)

/* How many weights to compute between two looks at the clock. */
#define WEIGHTS_PER_LOOK	65536

/* A decision whose feedback is under way. */
typedef struct Slot
{
	Ticket		ticket;
	int			next;			/* see Flight */
} Slot;

/*
 * All feedback under way.  The slots whose feedback arrives after the same
 * round form a ring; last[round] is its newest slot, whose next is the oldest,
 * so feedback is handed out in the order of the decisions.  Unused slots are
 * chained through next, too.
 */
typedef struct Flight
{
	int		   *last;			/* per round of arrival, from 1 */
	Slot	   *slots;
	int			nslots;
	int			free;
} Flight;

/* What is simulated. */
typedef struct Environment
{
	int			rounds;			/* T */
	int			arms;			/* K */
	const double *losses;		/* T x K */
	int		   *delays;			/* T, or NULL if there is no delay at all */
} Environment;

static void
flight_init(Flight *flight, int rounds)
{
	flight->last = MemoryContextAllocHuge(CurrentMemoryContext,
										  ((Size) rounds + 1) * sizeof(int));
	for (int i = 0; i <= rounds; i++)
		flight->last[i] = NO_SLOT;
	flight->slots = NULL;
	flight->nslots = 0;
	flight->free = NO_SLOT;
}

static void
flight_grow(Flight *flight)
{
	int			old = flight->nslots;
	int			new = old == 0 ? 64 : 2 * old;
	Size		size = (Size) new * sizeof(Slot);

	flight->slots = old == 0 ?
		MemoryContextAllocHuge(CurrentMemoryContext, size) :
		repalloc_huge(flight->slots, size);
	for (int i = old; i < new; i++)
		flight->slots[i].next = i + 1 < new ? i + 1 : flight->free;
	flight->free = old;
	flight->nslots = new;
}

static void
flight_launch(Flight *flight, const Ticket *ticket, int arrival)
{
	int			slot;
	int			newest = flight->last[arrival];

	if (flight->free == NO_SLOT)
		flight_grow(flight);
	slot = flight->free;
	flight->free = flight->slots[slot].next;

	flight->slots[slot].ticket = *ticket;
	if (newest == NO_SLOT)
		flight->slots[slot].next = slot;
	else
	{
		flight->slots[slot].next = flight->slots[newest].next;
		flight->slots[newest].next = slot;
	}
	flight->last[arrival] = slot;
}

/*
 * Take the oldest decision out whose feedback arrives after this round.
 */
static bool
flight_land(Flight *flight, int arrival, Ticket *ticket)
{
	int			newest = flight->last[arrival];
	int			oldest;

	if (newest == NO_SLOT)
		return false;
	oldest = flight->slots[newest].next;
	if (oldest == newest)
		flight->last[arrival] = NO_SLOT;
	else
		flight->slots[newest].next = flight->slots[oldest].next;

	*ticket = flight->slots[oldest].ticket;
	flight->slots[oldest].next = flight->free;
	flight->free = oldest;
	return true;
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
		int32		delay = nulls[i] ? NEVER : DatumGetInt32(values[i]);

		if (!nulls[i] && delay < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("delay must not be negative: %d", delay)));
		environment->delays[i] = delay;
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

	/* mostly it is plain to see */
	if (!learner->params.skipping ||
		open_rounds_words_with(open, learner->round + 1) <= *capacity)
		return;
	nwords = learner_open_words_in_draw(learner);
	if (nwords <= *capacity)
		return;
	*capacity = Max(2 * nwords, 16);
	if (open->words == NULL)
		open->words = palloc(*capacity * sizeof(uint64));
	else
		open->words = repalloc(open->words, *capacity * sizeof(uint64));
}

static void
put_row(ReturnSetInfo *rsinfo, const Ticket *ticket, double step_size, double loss)
{
	Datum		values[NUM_COLS];
	bool		nulls[NUM_COLS] = {0};

	/* "Fast": nothing is allocated where such numbers are passed by reference */
	values[COL_ROUND] = Int64GetDatumFast(ticket->round);
	values[COL_ARM] = Int32GetDatum(ticket->arm + 1);
	values[COL_PROBABILITY] = Float8GetDatumFast(ticket->probability);
	values[COL_STEP_SIZE] = Float8GetDatumFast(step_size);
	values[COL_LOSS] = Float8GetDatumFast(loss);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * Play all rounds.  Feedback of round s arrives after round s + d_s.
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
	Flight		flight;
	Progress	progress;

	flight_init(&flight, rounds);
	progress_start(&progress, "rounds", rounds);

	for (int round = 1; round <= rounds; round++)
	{
		int			delay = environment->delays ? environment->delays[round - 1] : 0;
		double		uniform;
		double		step_size;
		double		loss;
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
		loss = environment->losses[(Size) (round - 1) * arms + ticket.arm];
		put_row(rsinfo, &ticket, step_size, loss);

		if (delay != NEVER && delay <= rounds - round)
			flight_launch(&flight, &ticket, round + delay);
		while (flight_land(&flight, round, &ticket))
		{
			loss = environment->losses[(Size) (ticket.round - 1) * arms + ticket.arm];
			learner_learn(learner, &ticket, loss);
		}
	}
}

/*
 * bandit_simulate(losses, delays, algorithm, skipping, patience, max_delay,
 *				   step_scale, seed)
 */
Datum
bandit_simulate(PG_FUNCTION_ARGS)
{
	Environment environment = {0};
	LearnerParams params;
	Learner		learner;
	pg_prng_state generator;
	bool		seeded = !PG_ARGISNULL(ARG_SEED);

	if (PG_ARGISNULL(ARG_LOSSES))
		null_argument("losses");
	read_losses(PG_GETARG_ARRAYTYPE_P(ARG_LOSSES), &environment);
	argument_params(fcinfo, ARG_PARAMS, environment.arms, &params);
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
