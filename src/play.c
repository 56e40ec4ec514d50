/*
 * play.c
 *	  A learner that plays in memory, with feedback that arrives rounds later.
 *
 * The feedback of round s arrives after round s + d_s, and that of several rounds in
 * their order.  With a feedback window of w rounds, what has not arrived after round
 * s + w counts as missing_loss then, and what comes later is ignored.
 *
 * Besides its arguments, this needs 16 bytes for each round, and a ticket for each
 * decision whose feedback is under way.  It does not keep the ticket of a round whose
 * feedback will never arrive.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "arguments.h"
#include "play.h"
#include "random.h"

/* How many weights to compute between two looks at the clock. */
#define WEIGHTS_PER_LOOK	65536

/* A decision whose feedback is under way. */
typedef struct Pending
{
	dlist_node	node;
	Ticket		ticket;
	double		loss;
} Pending;

/*
 * Make sure that an array has one element for each round; return the number of
 * elements.  If rounds is negative, any number will do.
 */
int
check_series(ArrayType *array, const char *name, int rounds)
{
	int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("%s must be a one-dimensional array, not one of %d dimensions",
						name, ARR_NDIM(array))));
	if (rounds >= 0 && n != rounds)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("number of %s (%d) must be the number of rounds (%d)",
						name, n, rounds)));
	return n;
}

/*
 * Return the delays in an array of any shape, in their order, with NEVER for null.
 */
int *
delays_of_array(ArrayType *array)
{
	int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const uint8 *bitmap = ARR_NULLBITMAP(array);
	const int32 *next = (const int32 *) ARR_DATA_PTR(array);
	int		   *delays;

	delays = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(int) * (Size) Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		if (bitmap != NULL && (bitmap[i / 8] & (1 << (i % 8))) == 0)
		{
			delays[i] = NEVER;
			continue;
		}
		delays[i] = *next++;
		if (delays[i] < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("delay must not be negative: %d", delays[i])));
	}
	return delays;
}

/*
 * Fail if a learner must be told delays in advance that depend on the arm.
 */
void
check_delays_of_arms(const LearnerParams *params)
{
	if (params->algorithm == DEDA && params->max_delay == NO_DELAY)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("algorithm \"deda\" needs max_delay if delays depend on the arm"),
				 errhint("It must know the delay before it draws the arm.")));
}

/*
 * Get a learner ready to play up to max_rounds rounds.  Its arguments are
 * PLAY_NUM_ARGS of those of the SQL function, from "first" on.
 */
void
play_start(Play *play, FunctionCallInfo fcinfo, int first, int arms, int max_rounds)
{
	int			window = first + PLAY_FEEDBACK_WINDOW;
	int			missing = first + PLAY_MISSING_LOSS;
	LearnerParams params;

	memset(play, 0, sizeof(*play));
	argument_params(fcinfo, first + PLAY_PARAMS, first + PLAY_OPTIMISM, arms, &params);
	argument_half_life(fcinfo, first + PLAY_HALF_LIFE, &params);

	play->feedback_window = NEVER;
	if (!PG_ARGISNULL(window))
	{
		play->feedback_window = PG_GETARG_INT32(window);
		if (play->feedback_window < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("feedback_window must not be negative: %d",
							play->feedback_window)));
		/* as bandit_create() has it */
		if (PG_ARGISNULL(first + PLAY_PARAMS + 1))
		{
			params.skipping = false;
			params.patience = 0;
		}
	}
	play->missing_loss = PG_ARGISNULL(missing) ? 1 : PG_GETARG_FLOAT8(missing);
	if (!is_loss(play->missing_loss))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("missing_loss must be between 0 and 1: %s",
						number_text(play->missing_loss))));

	play->seeded = !PG_ARGISNULL(first + PLAY_SEED);
	if (play->seeded)
		pg_prng_seed(&play->generator, PG_GETARG_INT64(first + PLAY_SEED));

	learner_init(&play->learner, &params,
				 palloc0(NUM_VECTORS(params.algorithm) *
						 (Size) params.arms * sizeof(double)));
	play->weights = palloc(sizeof(double) * arms);
	play->max_rounds = max_rounds;
	play->arrivals = MemoryContextAllocExtended(CurrentMemoryContext,
												((Size) max_rounds + 1) * sizeof(dlist_head),
												MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	play->look = Max(WEIGHTS_PER_LOOK / arms, 1);
	progress_start(&play->progress, "rounds", max_rounds);
}

/*
 * To be called in each round: let it be cancelled, and report the progress.
 */
void
play_check(Play *play, int64 round)
{
	CHECK_FOR_INTERRUPTS();
	if (round % play->look == 0)
		progress_report(&play->progress, round);
}

/*
 * Draw uniformly from [0, 1).
 */
double
play_random(Play *play)
{
	return play->seeded ? pg_prng_double(&play->generator) : session_random();
}

/*
 * Return the delay of a round as one can know it in advance, for "deda".  With
 * max_delay, "deda" is not told the delay of each round.
 */
int
play_announced_delay(const Play *play, int delay)
{
	if (play->learner.params.max_delay != NO_DELAY)
		return NO_DELAY;
	if (play->feedback_window != NEVER && (delay == NEVER || delay > play->feedback_window))
		return play->feedback_window;
	return delay == NEVER ? NO_DELAY : delay;
}

/*
 * Make sure that there is room for the open rounds of one more draw.
 */
void
play_reserve(Play *play)
{
	Learner    *learner = &play->learner;
	OpenRounds *open = &learner->open;
	int64		nwords;

	/* in most cases this simple test is enough */
	if (!learner->params.skipping ||
		open_rounds_words_with(open, learner->round + 1) <= play->open_capacity)
		return;
	nwords = learner_open_words_in_draw(learner);
	if (nwords <= play->open_capacity)
		return;
	play->open_capacity = Max(2 * nwords, 16);
	open->words = open->words == NULL ?
		palloc(play->open_capacity * sizeof(uint64)) :
		repalloc(open->words, play->open_capacity * sizeof(uint64));
}

/*
 * Send the loss of the newest round on its way.
 */
void
play_send(Play *play, const Ticket *ticket, int delay, double loss)
{
	Pending    *pending;

	if (play->feedback_window != NEVER && (delay == NEVER || delay > play->feedback_window))
	{
		delay = play->feedback_window;
		loss = play->missing_loss;
	}
	if (delay == NEVER || delay > play->max_rounds - ticket->round)
		return;
	pending = palloc(sizeof(Pending));
	pending->ticket = *ticket;
	pending->loss = loss;
	dlist_push_tail(&play->arrivals[ticket->round + delay], &pending->node);
}

/*
 * Learn all that arrives after the newest round.
 */
void
play_receive(Play *play)
{
	dlist_head *arrivals = &play->arrivals[play->learner.round];

	while (!dlist_is_empty(arrivals))
	{
		Pending    *arrived = dlist_container(Pending, node, dlist_pop_head_node(arrivals));

		learner_learn(&play->learner, &arrived->ticket, arrived->loss);
		pfree(arrived);
	}
}
