/*
 * simulate.c
 *	  bandit_simulate(): try a learner on known losses and delays.
 *
 * The rows go into a tuplestore, which spills to disk beyond work_mem.  play.c says
 * how much memory the rest takes.
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/array.h"
#include "utils/tuplestore.h"

#include "arguments.h"
#include "play.h"

PG_FUNCTION_INFO_V1(bandit_simulate);

/* The arguments, in their order. */
enum
{
	ARG_LOSSES,
	ARG_DELAYS,
	ARG_PLAY					/* algorithm ... missing_loss */
};

/* What is simulated. */
typedef struct Environment
{
	int			rounds;			/* T */
	int			arms;			/* K */
	const double *losses;		/* T x K */
	const int  *delays;			/* T, or NULL if there is no delay at all */
	bool		delays_of_arms; /* or T x K */
} Environment;

static double
loss_of(const Environment *environment, const Ticket *ticket)
{
	return environment->losses[(Size) (ticket->round - 1) * environment->arms + ticket->arm];
}

static int
delay_of(const Environment *environment, int64 round, int32 arm)
{
	if (environment->delays == NULL)
		return 0;
	if (environment->delays_of_arms)
		return environment->delays[(Size) (round - 1) * environment->arms + arm];
	return environment->delays[round - 1];
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

/*
 * Read the delays: one for each round, or one for each round and arm.
 */
static void
read_delays(ArrayType *array, const LearnerParams *params, Environment *environment)
{
	const int  *dims = ARR_DIMS(array);

	environment->delays_of_arms = ARR_NDIM(array) == 2;
	if (!environment->delays_of_arms)
		check_series(array, "delays", environment->rounds);
	else if (dims[0] != environment->rounds || dims[1] != environment->arms)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("delays must be an array of %d x %d, as losses are, not of %d x %d",
						environment->rounds, environment->arms, dims[0], dims[1]),
				 errhint("Give one delay a round, or one row a round with the delay of every arm.")));
	else
		check_delays_of_arms(params);
	environment->delays = delays_of_array(array);
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
 * Play all rounds.
 */
static void
play_all(Play *play, const Environment *environment, ReturnSetInfo *rsinfo)
{
	for (int round = 1; round <= environment->rounds; round++)
	{
		int			announced = NO_DELAY;
		double		step_size;
		double		loss;
		Ticket		ticket;

		play_check(play, round);
		if (!environment->delays_of_arms)
			announced = play_announced_delay(play, delay_of(environment, round, 0));
		play_reserve(play);
		learner_draw(&play->learner, announced, play_random(play), play->weights,
					 &ticket, &step_size);
		loss = loss_of(environment, &ticket);
		put_row(rsinfo, &ticket, step_size, loss);
		play_send(play, &ticket, delay_of(environment, round, ticket.arm), loss);
		play_receive(play);
	}
}

/*
 * bandit_simulate(losses, delays, algorithm, skipping, patience, max_delay,
 *				   step_scale, seed, optimism, half_life, feedback_window,
 *				   missing_loss)
 */
Datum
bandit_simulate(PG_FUNCTION_ARGS)
{
	Environment environment = {0};
	Play		play;

	check_not_null(fcinfo, ARG_LOSSES, "losses");
	read_losses(PG_GETARG_ARRAYTYPE_P(ARG_LOSSES), &environment);
	play_start(&play, fcinfo, ARG_PLAY, environment.arms, environment.rounds);
	if (!PG_ARGISNULL(ARG_DELAYS))
		read_delays(PG_GETARG_ARRAYTYPE_P(ARG_DELAYS), &play.learner.params, &environment);
	InitMaterializedSRF(fcinfo, 0);
	play_all(&play, &environment, (ReturnSetInfo *) fcinfo->resultinfo);
	PG_RETURN_NULL();
}
