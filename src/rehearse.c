/*
 * rehearse.c
 *	  bandit_rehearse(): try a learner on a log of past decisions.
 *
 * A log has the outcome of one arm in each round, the one that was drawn then.  The
 * learner can play a round only if it draws the same arm.  So we go through the log, and
 * use a round or pass over it in such a way that the arms of the used rounds have the
 * learner's own distribution: this is rejection sampling.  See Li, Chu, Langford and
 * Wang, "Unbiased Offline Evaluation of Contextual-bandit-based News Article
 * Recommendation Algorithms" (2011), for logs that were drawn uniformly.
 *
 * Let q be the logged probability of the arm of a round, and p the one that the learner
 * has for it now.  The round is used with probability c p / q.  Whatever q is, arm i
 * comes and is used with probability q_i c p_i / q_i = c p_i, if c does not depend on the
 * arm and c p / q is never above 1.  With q_min the smallest q of all,
 *
 *	c = q_min / max p,	c p / q = (q_min / q) (p / max p),
 *
 * and p / max p is just the learner's weight, of which the largest is 1.  With a
 * uniform log, at least one round in K is used, and all of them as long as the
 * learner knows nothing.
 *
 * The learner does not notice rounds that were passed over.  If the outcomes of the
 * log are independent draws from a world that stands still, then the used rounds are
 * what the learner would have met in that world.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "arguments.h"
#include "play.h"

PG_FUNCTION_INFO_V1(bandit_rehearse);

/* The arguments, in their order. */
enum
{
	ARG_ARMS,
	ARG_LOSSES,
	ARG_PROBABILITIES,
	ARG_DELAYS,
	ARG_PLAY,					/* algorithm ... missing_loss */
	ARG_LEAST_PROBABILITY = ARG_PLAY + PLAY_NUM_ARGS
};

/* The 97.5% quantile of the normal distribution. */
#define Z_95			1.959964

/* A log of past decisions. */
typedef struct PastLog
{
	int			rounds;
	int			narms;			/* how many different arms there are */
	int		   *arms;			/* of each round, counted from 0 */
	const double *losses;
	const double *probabilities;	/* or NULL: drawn uniformly */
	const int  *delays;			/* or NULL: all 0 */
	double		least_probability;	/* q_min */
} PastLog;

/* What has come out of it. */
typedef struct Rehearsal
{
	int64		used;
	double		mean;			/* of the losses of used rounds */
	double		squares;		/* sum of the squares of their deviations */
	double		logged_mean;	/* of all losses */
} Rehearsal;

/* The arm of a round by its name. */
typedef struct NamedArm
{
	text	   *name;
	int			round;			/* counted from 0 */
} NamedArm;

static int
compare_arms(const void *a, const void *b)
{
	const text *x = ((const NamedArm *) a)->name;
	const text *y = ((const NamedArm *) b)->name;
	size_t		nx = VARSIZE_ANY_EXHDR(x);
	size_t		ny = VARSIZE_ANY_EXHDR(y);
	int			order = memcmp(VARDATA_ANY(x), VARDATA_ANY(y), Min(nx, ny));

	return order != 0 ? order : (nx > ny) - (nx < ny);
}

/*
 * Read which arms were drawn, and number them.
 */
static void
read_arms(ArrayType *array, PastLog *past)
{
	Datum	   *names;
	NamedArm   *sorted;

	past->rounds = check_series(array, "arms", -1);
	if (array_contains_nulls(array))
		null_argument("the name of an arm");
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &past->rounds);
	sorted = palloc_extended(sizeof(NamedArm) * (Size) Max(past->rounds, 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < past->rounds; i++)
	{
		sorted[i].name = DatumGetTextPP(names[i]);
		sorted[i].round = i;
	}
	qsort(sorted, past->rounds, sizeof(NamedArm), compare_arms);

	past->arms = palloc_extended(sizeof(int) * (Size) Max(past->rounds, 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < past->rounds; i++)
	{
		if (i == 0 || compare_arms(&sorted[i - 1], &sorted[i]) != 0)
			past->narms++;
		past->arms[sorted[i].round] = past->narms - 1;
	}
	pfree(sorted);
	pfree(names);
}

/*
 * Read an array with a number for each round.
 */
static const double *
read_numbers(ArrayType *array, const char *name, const char *element, int rounds)
{
	check_series(array, name, rounds);
	if (array_contains_nulls(array))
		null_argument(element);
	return (const double *) ARR_DATA_PTR(array);
}

static void
check_probability(const char *name, double probability)
{
	/* written so that NaN fails */
	if (!(probability > 0 && probability <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be above 0 and at most 1: %s", name,
						number_text(probability))));
}

/*
 * Read the probabilities that arms were drawn with, and find the smallest.
 */
static void
read_probabilities(FunctionCallInfo fcinfo, PastLog *past)
{
	bool		has_least = !PG_ARGISNULL(ARG_LEAST_PROBABILITY);

	past->least_probability = 1;
	if (PG_ARGISNULL(ARG_PROBABILITIES))
	{
		if (has_least)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("least_probability is for logs with probabilities only")));
		return;
	}
	past->probabilities = read_numbers(PG_GETARG_ARRAYTYPE_P(ARG_PROBABILITIES),
									   "probabilities", "a probability", past->rounds);
	for (int i = 0; i < past->rounds; i++)
	{
		check_probability("a probability", past->probabilities[i]);
		past->least_probability = fmin(past->least_probability, past->probabilities[i]);
	}
	if (has_least)
	{
		past->least_probability = PG_GETARG_FLOAT8(ARG_LEAST_PROBABILITY);
		check_probability("least_probability", past->least_probability);
	}
}

/*
 * Return q_min / q of a round.
 */
static double
rarity(const PastLog *past, int i)
{
	return past->probabilities ? past->least_probability / past->probabilities[i] : 1;
}

/*
 * Go through the log.
 */
static void
rehearse(Play *play, const PastLog *past, Rehearsal *result)
{
	bool		changed = true; /* has the learner, since we looked? */
	double		step_size = 0;
	double		total = 0;

	for (int i = 0; i < past->rounds; i++)
	{
		int			arm = past->arms[i];
		double		loss = past->losses[i];
		double		deviation;
		Ticket		ticket;

		play_check(play, i + 1);
		result->logged_mean += (loss - result->logged_mean) / (i + 1);
		if (changed)
			step_size = learner_next(&play->learner, 0, play->weights, &total);
		changed = play_random(play) < play->weights[arm] * rarity(past, i);
		if (!changed)
			continue;

		play_reserve(play);
		learner_play(&play->learner, 0, arm, play->weights, total, step_size, &ticket);
		play_send(play, &ticket, past->delays ? past->delays[i] : 0, loss);
		play_receive(play);

		result->used++;
		deviation = loss - result->mean;
		result->mean += deviation / result->used;
		result->squares += deviation * (loss - result->mean);
	}
}

/*
 * bandit_rehearse(arms, losses, probabilities, delays, algorithm, skipping, patience,
 *				   max_delay, step_scale, seed, optimism, half_life,
 *				   feedback_window, missing_loss, least_probability)
 */
Datum
bandit_rehearse(PG_FUNCTION_ARGS)
{
	PastLog		past = {0};
	Rehearsal	result = {0};
	Play		play;
	TupleDesc	tupdesc;
	Datum		values[6];
	bool		nulls[6] = {0};
	double		error;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	check_not_null(fcinfo, ARG_ARMS, "arms");
	check_not_null(fcinfo, ARG_LOSSES, "losses");
	read_arms(PG_GETARG_ARRAYTYPE_P(ARG_ARMS), &past);
	past.losses = read_numbers(PG_GETARG_ARRAYTYPE_P(ARG_LOSSES), "losses", "a loss",
							   past.rounds);
	for (int i = 0; i < past.rounds; i++)
		check_loss(past.losses[i]);
	read_probabilities(fcinfo, &past);
	play_start(&play, fcinfo, ARG_PLAY, past.narms, past.rounds);
	if (!PG_ARGISNULL(ARG_DELAYS))
	{
		check_series(PG_GETARG_ARRAYTYPE_P(ARG_DELAYS), "delays", past.rounds);
		/* what is known is the delay of the arm that was drawn */
		check_delays_of_arms(&play.learner.params);
		past.delays = delays_of_array(PG_GETARG_ARRAYTYPE_P(ARG_DELAYS));
	}
	rehearse(&play, &past, &result);

	error = result.used > 1 ?
		sqrt(result.squares / (result.used - 1) / result.used) : 0;
	values[0] = Int64GetDatum(past.rounds);
	values[1] = Int64GetDatum(result.used);
	values[2] = Float8GetDatum(result.mean);
	nulls[2] = result.used == 0;
	values[3] = Float8GetDatum(fmax(result.mean - Z_95 * error, 0));
	values[4] = Float8GetDatum(fmin(result.mean + Z_95 * error, 1));
	nulls[3] = nulls[4] = result.used < 2;
	values[5] = Float8GetDatum(result.logged_mean);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls)));
}
