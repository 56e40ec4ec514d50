/*
 * fuzz/learner.c
 *	  Fuzz the mathematics: the files of src/learner.
 *
 * The input is a program: how the learner is made and where its life begins,
 * then draws, feedback in any order, duplicates, forged tickets, decisions that
 * nobody ever settles, arms that retire and come back.  Beside the learner runs a
 * model that is as simple as can be: a list of all decisions, from which every
 * count and every sum is worked out anew.  After each operation the two are
 * compared, and what must always hold is checked.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "learner/learner.h"

#define MAX_DECISIONS	400
#define MAX_OPERATIONS	200

#define CHECK(condition, ...) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__); \
			fputc('\n', stderr); \
			abort(); \
		} \
	} while (0)

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ----------
 * Reading the input; after its end come zeroes
 * ----------
 */

static const uint8_t *input;
static size_t input_left;

static uint64_t
take(size_t bytes)
{
	uint64_t	value = 0;

	while (bytes-- > 0)
	{
		value <<= 8;
		if (input_left > 0)
		{
			value |= *input++;
			input_left--;
		}
	}
	return value;
}

#define PICK(table)		((table)[take(1) % (sizeof(table) / sizeof(*(table)))])

/* Any double at all, but more often one that matters. */
static double
take_double(void)
{
	static const double numbers[] = {
		1, 0, 0.5, 2, 0.1, 1e-9, 1e9, 1e-300, 1e300, DBL_MIN, DBL_MAX,
		DBL_TRUE_MIN, -1, INFINITY, NAN
	};
	uint8_t		which = (uint8_t) take(1);
	double		number;
	uint64_t	bits;

	if (which < 128)
		return numbers[which % (sizeof(numbers) / sizeof(*numbers))];
	bits = take(8);
	memcpy(&number, &bits, sizeof(number));
	return number;
}

/* A number in [0, 1] for a loss, or in [0, 1) for a draw. */
static double
take_fraction(bool with_one)
{
	double		most = with_one ? 1 : 1 - DBL_EPSILON;

	switch (take(1) % 8)
	{
		case 0:
			return 0;
		case 1:
			return most;
		case 2:
			return with_one ? DBL_TRUE_MIN : DBL_EPSILON;
		default:
			/* a multiple of 2^-52, as from PostgreSQL's generator */
			return fmin((double) (take(7) >> 4) * DBL_EPSILON, most);
	}
}

/* A 32-bit number from -1 up, or any one at all. */
static int32_t
take_int32(void)
{
	static const int32_t numbers[] = {
		0, -1, 1, 2, 5, 63, 64, 65, 100, 1000, 1 << 20, INT32_MAX
	};

	return take(1) < 224 ? PICK(numbers) : (int32_t) take(4);
}

/* ----------
 * The model
 * ----------
 */

typedef enum Fate
{
	OPEN,
	SETTLED,
	SKIPPED
} Fate;

typedef struct Decision
{
	Ticket		ticket;
	Fate		fate;
	bool		dropped;		/* feedback will never come */
	int64_t		end;			/* the round in which it was settled or
								 * skipped */
	double		estimate;		/* if settled */
	double		expected;
} Decision;

typedef struct Model
{
	int64_t		round;
	double		first_delay;	/* cumulative delay of an earlier life */
	double		longest_delay;
	double		last_step_size;
	int32_t		playable;		/* arms that have not retired */
	int			ndecisions;
	Decision	decisions[MAX_DECISIONS];
} Model;

static Model model;
static Learner learner;
static double *vectors;
static double *weights;
static bool *retired;			/* a flag for each arm */
static bool *excluded;			/* room for others */

/*
 * D_t = sum of tau_s for s <= t: each decision counts once in every round after
 * its own, up to that in which its feedback came.
 */
static long double
model_cumulative_delay(void)
{
	long double sum = model.first_delay;

	for (int i = 0; i < model.ndecisions; i++)
	{
		const Decision *d = &model.decisions[i];

		sum += (d->fate == OPEN ? model.round : d->end) - d->ticket.round;
	}
	return sum;
}

/*
 * Lbck of Algorithm 1 from its definition: the sum over pairs, on the same arm,
 * of a settled decision s and one that was settled after s was made and not
 * later than s.
 *
 * The learner knows differences of sums, where a great estimate hides a small
 * one; *scale is what they are differences of.
 */
static long double
model_lbck(long double *scale)
{
	long double sum = 0;
	long double estimates = 0;

	*scale = 0;
	for (int i = 0; i < model.ndecisions; i++)
	{
		const Decision *s = &model.decisions[i];

		if (s->fate != SETTLED)
			continue;
		estimates += s->estimate;
		for (int k = 0; k < model.ndecisions; k++)
		{
			const Decision *j = &model.decisions[k];
			long double term;

			if (j->fate != SETTLED || j->ticket.arm != s->ticket.arm ||
				j->end > s->end)
				continue;
			term = (long double) s->estimate * j->expected +
				(long double) s->expected * j->estimate;
			*scale += term;
			if (j->end >= s->ticket.round)
				sum += term;
		}
	}
	if (estimates > DBL_MAX)
		*scale = INFINITY;
	return sum;
}

static bool
about_equal(double have, long double want, long double scale)
{
	if (want > DBL_MAX)
		want = DBL_MAX;
	/* sums stop at DBL_MAX, and differences of such sums may be anything */
	if (scale > DBL_MAX)
		return have >= 0 && have <= DBL_MAX;
	return fabsl(have - want) <= 1e-12L * scale + DBL_MIN;
}

/* ----------
 * What must hold after every operation
 * ----------
 */

static void
check_open_rounds(void)
{
	const OpenRounds *open = &learner.open;
	const char *problem = open_rounds_problem(open, learner.round,
											  learner.outstanding);
	int64_t		round = 0;

	if (!learner.params.skipping)
	{
		CHECK(open->nwords == 0, "%" PRId64, open->nwords);
		return;
	}
	CHECK(problem == NULL, "%s", problem);
	for (int i = 0; i < model.ndecisions; i++)
	{
		const Decision *d = &model.decisions[i];
		bool		is_open = d->fate == OPEN;

		CHECK(open_rounds_contains(open, d->ticket.round) == is_open,
			  "round %" PRId64, d->ticket.round);
		if (is_open)
		{
			round = open_rounds_next(open, round);
			CHECK(round == d->ticket.round,
				  "%" PRId64 ", not %" PRId64, round, d->ticket.round);
		}
	}
	CHECK(open_rounds_next(open, round) == 0, "there are more");
}

static void
check_counts(void)
{
	long double delay = model_cumulative_delay();
	int64_t		outstanding = 0;

	for (int i = 0; i < model.ndecisions; i++)
		outstanding += model.decisions[i].fate == OPEN;
	CHECK(learner.round == model.round,
		  "%" PRId64 ", not %" PRId64, learner.round, model.round);
	CHECK(learner.outstanding == outstanding,
		  "%" PRId64 ", not %" PRId64, learner.outstanding, outstanding);

	/* exact so long as a double can be */
	CHECK(delay < (INT64_C(1) << 53) ? learner.cumulative_delay == delay :
		  fabsl(learner.cumulative_delay - delay) <= delay * DBL_EPSILON * MAX_DECISIONS,
		  "%.17g, not %.17Lg", learner.cumulative_delay, delay);
	CHECK(learner.longest_delay == model.longest_delay,
		  "%.17g, not %.17g", learner.longest_delay, model.longest_delay);
}

/*
 * Check the sums of one arm; all arms have the same chance to be wrong, but
 * there may be 65,535 of them.
 */
static void
check_sums(int32_t arm)
{
	bool		deda = learner.params.algorithm == DEDA;
	long double z = 0;
	long double m = 0;
	long double z_tie = 0;
	long double m_tie = 0;
	long double lbck;
	long double scale;

	for (int i = 0; i < model.ndecisions; i++)
	{
		const Decision *d = &model.decisions[i];

		if (d->fate != SETTLED || d->ticket.arm != arm)
			continue;
		z += d->estimate;
		m += d->expected;
		if (d->end == model.round)
		{
			z_tie += d->estimate;
			m_tie += d->expected;
		}
	}
	CHECK(about_equal(learner.z[arm], z, z),
		  "z of arm %d: %.17g, not %.17Lg", arm, learner.z[arm], z);
	if (!deda)
		return;
	CHECK(about_equal(learner.m[arm], m, m),
		  "m of arm %d: %.17g, not %.17Lg", arm, learner.m[arm], m);
	CHECK(about_equal(learner.z_tie[arm], z_tie, z_tie),
		  "z_tie of arm %d: %.17g, not %.17Lg", arm, learner.z_tie[arm], z_tie);
	CHECK(about_equal(learner.m_tie[arm], m_tie, m_tie),
		  "m_tie of arm %d: %.17g, not %.17Lg", arm, learner.m_tie[arm], m_tie);
	lbck = model_lbck(&scale);
	CHECK(about_equal(learner.lbck, lbck, scale),
		  "lbck: %.17g, not %.17Lg", learner.lbck, lbck);
}

/* The step size of the next round, from the table of doc/algorithms.md. */
static void
check_step_size(double eta, int64_t delay)
{
	long double k = model.playable;
	long double c = learner.params.step_scale;
	long double t = (long double) model.round + 1;
	long double total = (long double) learner.cumulative_delay + learner.outstanding;
	long double d = fmax(learner.longest_delay, (double) delay);
	long double want = 0;

	switch (learner.params.algorithm)
	{
		case DADA:
			want = c * sqrtl(logl(k) / (t * k + total));
			break;
		case DADA_IX:
			want = c / 2 * sqrtl(3 * logl(k) / (2 * t * k + total));
			break;
		case DEDA:
			want = 1 / ((4 * d * d + 6 * d + 2) / logl(k) +
						sqrtl(learner.lbck / logl(k)));
			break;
	}
	/* only a step scale below all reason may make it vanish */
	CHECK(isfinite(eta) && (eta > 0 || want < DBL_MIN), "%g", eta);
	CHECK(about_equal(eta, want, want), "%.17g, not %.17Lg", eta, want);
}

/* Weights that learner_weights() or a draw has left, and their total */
static void
check_weights(double eta, const bool *without, double total)
{
	int32_t		arms = learner.params.arms;
	long double sum = 0;
	double		most = 0;

	CHECK(isfinite(total) && total >= 1 && total <= arms, "%g", total);
	for (int32_t i = 0; i < arms; i++)
	{
		double		p = weights[i] / total;

		CHECK(p >= 0 && p <= 1, "arm %d: %g", i, p);
		CHECK(without[i] ? p == 0 : eta > 0 || weights[i] == 1, "arm %d: %g", i, p);
		most = fmax(most, weights[i]);
		sum += p;
	}
	CHECK(most == 1, "%g", most);
	CHECK(fabsl(sum - 1) < 1e-9L, "%.17Lg", sum);
}

/* It may be infinite, with a step scale that nobody would use. */
static void
check_regret_bound(void)
{
	double		bound = learner_regret_bound(&learner, 1, learner.longest_delay, 0.05);

	CHECK(bound >= 1, "%g", bound);
}

static void
check(int32_t arm)
{
	double		eta = learner_step_size(&learner, NO_DELAY);

	check_counts();
	check_sums(arm);
	check_open_rounds();
	check_step_size(eta, NO_DELAY);
	check_weights(eta, retired,
				  learner_weights(&learner, eta, learner.retired, weights));
	check_regret_bound();
}

/* ----------
 * Operations
 * ----------
 */

/* An arm drawn with this uniform number lies where the number points to. */
static void
check_pick(const Ticket *ticket, double uniform, double total)
{
	long double before = 0;
	long double point = uniform + DBL_EPSILON / 2;
	long double rounding = (long double) DBL_EPSILON * learner.params.arms;

	for (int32_t i = 0; i < ticket->arm; i++)
		before += weights[i] / total;
	CHECK(before - rounding <= point &&
		  point <= before + weights[ticket->arm] / total + rounding,
		  "arm %d with %.17g", ticket->arm, uniform);
	CHECK(ticket->probability == weights[ticket->arm] / total &&
		  ticket->probability >= ldexp(1, -108), "%g", ticket->probability);
}

static void
draw(int64_t delay, double uniform)
{
	int64_t		words = learner_open_words_in_draw(&learner);
	double		total = learner_weights(&learner,
										learner_step_size(&learner, delay),
										learner.retired, weights);
	Decision   *d = &model.decisions[model.ndecisions];
	double		eta;
	double		wait;
	const char *problem;

	/* no more room than was asked for, so that the sanitizer sees every slip */
	if (learner.params.skipping)
	{
		learner.open.words = realloc(learner.open.words,
									 (size_t) words * sizeof(uint64_t));
		CHECK(learner.open.words != NULL, "out of memory");
	}
	check_step_size(learner_step_size(&learner, delay), delay);
	memset(d, 0, sizeof(*d));
	learner_draw(&learner, delay, uniform, weights, &d->ticket, &eta);

	CHECK(d->ticket.round == model.round + 1, "%" PRId64, d->ticket.round);
	CHECK(d->ticket.gamma == (learner.params.algorithm == DADA ? 0 : eta),
		  "%g", d->ticket.gamma);
	CHECK(eta <= model.last_step_size, "%g after %g", eta, model.last_step_size);
	check_weights(eta, retired, total);
	check_pick(&d->ticket, uniform, total);
	problem = learner_ticket_problem(&learner, &d->ticket);
	CHECK(problem == NULL, "%s", problem);

	model.ndecisions++;
	model.round++;
	model.last_step_size = eta;
	if (learner.params.algorithm == DEDA)
		model.longest_delay = fmax(model.longest_delay, (double) delay);

	/* the rule of skipping; see doc/algorithms.md */
	wait = fmax(learner.params.patience,
				sqrt((double) model_cumulative_delay() / log(model.playable)));
	for (int i = 0; i < model.ndecisions && learner.params.skipping; i++)
	{
		Decision   *s = &model.decisions[i];

		if (s->fate == OPEN && (double) (model.round - s->ticket.round) > wait)
		{
			s->fate = SKIPPED;
			s->end = model.round;
		}
	}
}

/*
 * Give feedback with this ticket, which may be the decision's own or forged.
 */
static void
learn(Decision *d, const Ticket *ticket, double loss)
{
	bool		learned;

	if (learner_ticket_problem(&learner, ticket) != NULL)
		return;
	/* without skipping, using a ticket once is the caller's duty */
	if (!learner.params.skipping && d->fate != OPEN)
		return;

	learned = learner_learn(&learner, ticket, loss);
	CHECK(learned == (d->fate == OPEN), "round %" PRId64, ticket->round);
	if (!learned)
		return;
	d->ticket = *ticket;
	d->fate = SETTLED;
	d->end = model.round;
	d->estimate = loss / (ticket->probability + ticket->gamma);
	CHECK(isfinite(d->estimate), "%g", d->estimate);
	if (learner.params.algorithm == DEDA)
	{
		d->expected = d->estimate * ticket->probability;
		model.longest_delay = fmax(model.longest_delay,
								   (double) (model.round - ticket->round));
	}
}

/*
 * Let rounds pass whose feedback comes at once and is 0, without playing them:
 * open rounds far apart would take too long otherwise.
 */
static void
skip_ahead(int64_t rounds)
{
	if (rounds > LEARNER_MAX_ROUNDS - model.round)
		return;
	learner.round += rounds;
	learner.cumulative_delay += (double) (rounds * learner.outstanding);
	model.round += rounds;
	if (rounds > 0 && learner.params.algorithm == DEDA)
	{
		memset(learner.z_tie, 0, sizeof(double) * (size_t) learner.params.arms);
		memset(learner.m_tie, 0, sizeof(double) * (size_t) learner.params.arms);
	}
}

/*
 * Let an arm retire, or come back.  The step size may grow then.
 */
static void
retire(int32_t arm)
{
	if (!retired[arm] && model.playable == LEARNER_MIN_ARMS)
		return;
	model.playable += retired[arm] ? 1 : -1;
	retired[arm] = !retired[arm];
	learner_retire(&learner, retired);
	model.last_step_size = INFINITY;
}

/*
 * Pick an arm, without playing it, when only the given one and some others may be
 * picked.
 */
static void
pick(int32_t allowed, uint8_t others, double uniform)
{
	Ticket		ticket;
	double		eta;
	double		total;

	for (int32_t i = 0; i < learner.params.arms; i++)
		excluded[i] = i != allowed && (retired[i] || (others >> (i % 8) & 1) == 0);
	total = learner_weights(&learner, learner_step_size(&learner, NO_DELAY),
							excluded, weights);
	learner_pick(&learner, NO_DELAY, uniform, excluded, weights, &ticket, &eta);
	check_weights(eta, excluded, total);
	check_pick(&ticket, uniform, total);
}

static void
operate(void)
{
	bool		deda = learner.params.algorithm == DEDA;
	uint8_t		what = (uint8_t) take(1);
	int			draws = 0;
	Decision   *d;
	Ticket		ticket;

	if (what < 112)
		draws = 1;
	else if (what < 120)
		draws = (int) take(1);
	if (draws > 0)
	{
		int64_t		delay = deda ? take_int32() : NO_DELAY;
		double		uniform = take_fraction(false);

		if (deda && delay < 0)
			delay = NO_DELAY;
		while (draws-- > 0 && model.ndecisions < MAX_DECISIONS &&
			   model.round < LEARNER_MAX_ROUNDS)
			draw(delay, uniform);
		return;
	}
	if (what < 124)
	{
		skip_ahead((int64_t) (take(1) < 240 ? take(1) : take(3) / 16));
		return;
	}
	if (what < 128)
	{
		int32_t		arm = (int32_t) (take(2) % (uint64_t) learner.params.arms);

		if (what < 126)
			retire(arm);
		else
			pick(arm, (uint8_t) take(1), take_fraction(false));
		return;
	}
	if (model.ndecisions == 0)
		return;

	/* one of the last decisions, of the first, or any */
	d = &model.decisions[take(2) % (uint64_t) model.ndecisions];
	ticket = d->ticket;
	if (what < 144)
		d->dropped = true;
	else if (what < 160)
	{
		/* the least that may pass, so that two estimates exceed all numbers */
		if (what < 148)
			ticket.probability = 6e-309;
		else if (what < 154)
			ticket.probability = take_double();
		else
			ticket.gamma = take_double();
		learn(d, &ticket, take_fraction(true));
	}
	else if (!d->dropped)
		learn(d, &ticket, take_fraction(true));
}

/* ----------
 * One run
 * ----------
 */

static void
take_params(LearnerParams *params)
{
	static const int32_t arms[] = {2, 3, 4, 5, 7, 12, 100};
	static const int32_t odd_arms[] = {
		LEARNER_MAX_ARMS, 1000, 1, 0, -1, LEARNER_MAX_ARMS + 1, INT32_MAX
	};
	uint8_t		flags = (uint8_t) take(1);

	memset(params, 0, sizeof(*params));
	params->algorithm = (Algorithm) (flags % 4);
	params->skipping = (flags & 16) != 0;
	params->arms = flags < 250 ? PICK(arms) : PICK(odd_arms);
	params->patience = params->skipping ? take_int32() : 0;
	params->max_delay = params->algorithm == DEDA ? take_int32() : NO_DELAY;
	params->step_scale = params->algorithm == DEDA ? 1 : take_double();
}

/*
 * The life may begin late: a state that was read has any number of rounds and
 * any cumulative delay up to its square.
 */
static void
take_history(void)
{
	static const int64_t rounds[] = {
		0, 0, 0, 1, 62, 63, 1000, INT64_C(1) << 31, (INT64_C(1) << 52) - 7,
		LEARNER_MAX_ROUNDS - 70, LEARNER_MAX_ROUNDS
	};

	model.round = PICK(rounds);
	model.first_delay = floor((double) model.round * (double) model.round *
							  (double) take(1) / 255);
	learner.round = model.round;
	learner.cumulative_delay = model.first_delay;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	LearnerParams params;
	int			operations = MAX_OPERATIONS;

	input = data;
	input_left = size;
	take_params(&params);
	if (learner_params_problem(&params) != NULL)
		return 0;

	vectors = calloc((size_t) NUM_VECTORS(params.algorithm) * (size_t) params.arms,
					 sizeof(double));
	weights = malloc((size_t) params.arms * sizeof(double));
	retired = calloc((size_t) params.arms, sizeof(bool));
	excluded = calloc((size_t) params.arms, sizeof(bool));
	memset(&model, 0, offsetof(Model, decisions));
	model.last_step_size = INFINITY;
	model.playable = params.arms;
	learner_init(&learner, &params, vectors);
	model.longest_delay = params.algorithm == DEDA ? fmax(params.max_delay, 0) : 0;
	take_history();
	if (params.arms >= 1000)
		operations = 3;			/* or it would take too long */

	check(0);
	while (input_left > 0 && operations-- > 0)
	{
		operate();
		check((int32_t) (take(2) % (uint64_t) params.arms));
	}

	free(learner.open.words);
	free(excluded);
	free(retired);
	free(weights);
	free(vectors);
	return 0;
}
