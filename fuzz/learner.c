/*
 * fuzz/learner.c
 *	  Fuzz the mathematics: the files of src/learner.
 *
 * The input is a program: how the learner is made and where its life begins,
 * then draws, some from a part of the arms, feedback in any order, duplicates,
 * forged tickets, decisions that nobody ever settles, arms that retire and come
 * back.  Beside the learner runs a model that is as simple as can be: a list of all
 * decisions, from which every count and every sum is worked out anew.  After each
 * operation the two are compared, and what must always hold is checked.
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

/* With so many arms, no check that takes long, or only a few operations */
#define SOME_ARMS		100
#define MANY_ARMS		1000

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

/* A sum that may be negative, as a state may have it that was read */
static double
take_sum(void)
{
	static const double numbers[] = {
		0, 1, 10, 1000, 1e9, 1e15, 1e16, LEARNER_MAX_SUM, 1e-300, DBL_TRUE_MIN
	};
	uint8_t		flags = (uint8_t) take(1);
	double		number = (flags & 2) != 0 ? take_double() : PICK(numbers);

	if (!(fabs(number) <= LEARNER_MAX_SUM))
		number = LEARNER_MAX_SUM;
	return ((flags & 1) != 0 ? -number : number) + 0.0;
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
	long double estimate;		/* if settled */
	double		expected;

	/* SELF_TUNED only */
	double		loss;
	long double cost;
	long double cost_scale;		/* what the cost is a difference of */
	long double estimate_scale; /* and the estimate */
	long double estimate_slack; /* what the estimate may be wrong by besides */
} Decision;

/*
 * What a sum of SELF_TUNED was when we began to count, in the way in which the
 * learner wrote it after that round.
 */
typedef struct Start
{
	double		sum;
	int64_t		round;
} Start;

typedef struct Model
{
	int64_t		round;
	double		first_delay;	/* cumulative delay of an earlier life */
	double		longest_delay;
	double		last_step_size;
	int32_t		playable;		/* arms that have not retired */
	Start		settled;		/* SELF_TUNED only, down to the next line */
	Start		total_loss;
	Start		cost;
	Start	   *z;				/* one for each arm */
	int			ndecisions;
	Decision	decisions[MAX_DECISIONS];
} Model;

static Model model;
static Learner learner;
static double *vectors;
static double *weights;
static bool *retired;			/* a flag for each arm */
static bool *excluded;			/* room for others */

static bool
is_self_tuned(void)
{
	return learner.params.algorithm == SELF_TUNED;
}

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
	/* those that have just arrived are added twice */
	if (2 * estimates > DBL_MAX)
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
 * The model of SELF_TUNED
 * ----------
 */

/*
 * How much something counts now that happened in a round, or so many rounds
 * before it
 */
static long double
model_weight(int64_t round, long double before)
{
	long double half_life = learner.params.half_life;

	if (half_life == NO_HALF_LIFE)
		return 1;
	return exp2l(-((long double) (model.round - round) + before) / half_life);
}

/*
 * How many rounds before a round the moment is that the learner's sums refer to:
 * the last multiple of the half-life
 */
static long double
model_before(int64_t round)
{
	long double half_life = learner.params.half_life;

	return half_life == NO_HALF_LIFE ? 0 : fmodl((long double) round, half_life);
}

/* What the learner's sums must be multiplied by to be those of now ... */
static long double
model_fading(void)
{
	return model_weight(model.round, model_before(model.round));
}

/*
 * ... and those of the next draw, in which all is a round older.  There is none
 * after the last round, whose number plus 1 is not a double.
 */
static long double
model_next_fading(void)
{
	return model_weight(model.round, model_before(model.round) +
						(model.round < LEARNER_MAX_ROUNDS ? 1 : 0));
}

/* Count from what a sum of the learner is now. */
static void
begin_with(Start *start, double sum)
{
	start->sum = sum;
	start->round = model.round;
}

/* A sum as it is now, and how exact it can be expected to be */
typedef struct Sum
{
	long double value;
	long double scale;			/* of the absolute values */
	long double slack;
} Sum;

static void
add_term(Sum *sum, long double weight, long double term, long double scale)
{
	sum->value += weight * term;
	sum->scale += weight * scale;
	/* the weight may have few digits, if it is so small */
	sum->slack += DBL_TRUE_MIN * scale;
}

static Sum
start_of(const Start *start)
{
	Sum			sum = {0};

	add_term(&sum, model_weight(start->round, model_before(start->round)),
			 start->sum, fabs(start->sum));
	return sum;
}

/*
 * The sums over all settled decisions, each with its weight, that of z for one arm
 */
static void
model_sums(int32_t arm, Sum *settled, Sum *total_loss, Sum *cost, Sum *z)
{
	*settled = start_of(&model.settled);
	*total_loss = start_of(&model.total_loss);
	*cost = start_of(&model.cost);
	*z = start_of(&model.z[arm]);
	for (int i = 0; i < model.ndecisions; i++)
	{
		const Decision *d = &model.decisions[i];
		long double weight;

		if (d->fate != SETTLED)
			continue;
		weight = model_weight(d->ticket.round, 0);
		add_term(settled, weight, 1, 1);
		add_term(total_loss, weight, d->loss, d->loss);
		add_term(cost, weight, d->cost, d->cost_scale);
		if (d->ticket.arm == arm)
		{
			add_term(z, weight, d->estimate, d->estimate_scale);
			z->slack += d->estimate_slack;
		}
	}
}

/*
 * What the loss of an arm is taken to be that is not drawn
 */
static long double
model_baseline(void)
{
	Sum			settled;
	Sum			total_loss;
	Sum			others;

	model_sums(0, &settled, &total_loss, &others, &others);
	return (1 - (long double) learner.params.optimism) * total_loss.value /
		(settled.value + model.playable);
}

/* The smallest sum of the arms that have not retired */
static long double
model_least_z(void)
{
	long double least = INFINITY;

	for (int32_t i = 0; i < learner.params.arms; i++)
	{
		if (!retired[i])
			least = fminl(least, learner.z[i]);
	}
	return least;
}

/*
 * The sum of the weights of arms, with the learner's sums faded by so much
 */
static long double
model_total(long double eta, long double fading, long double least, const bool *without)
{
	long double total = 0;

	for (int32_t i = 0; i < learner.params.arms; i++)
	{
		if (!without[i])
			total += expl(-eta * fading * (learner.z[i] - least));
	}
	return total;
}

/*
 * The difference of the two sides of the equation
 *
 *	v = K ln K + 2 (C - Phi(z)),	Phi(z) = -(1/eta) ln((1/K) sum of exp(-eta z_i))
 *
 * with eta = ln K / v.  It grows with v.  The least z is subtracted from C and from
 * all z, which changes nothing but the rounding errors.
 */
static long double
model_excess(long double v)
{
	long double k = model.playable;
	long double eta = logl(k) / v;
	long double fading = model_next_fading();
	long double least = model_least_z();
	long double phi = -logl(model_total(eta, fading, least, retired) / k) / eta;

	return v - k * logl(k) - 2 * (fading * (learner.cost - least) - phi);
}

/*
 * The solution of the equation, by bisection
 */
static long double
model_v(void)
{
	long double low = model.playable * logl(model.playable);
	long double high = low + 2 * model_next_fading() *
		fmaxl(learner.cost - model_least_z(), 0);

	if (model_excess(low) >= 0)
		return low;
	while (high - low > 1e-12L * low)
	{
		long double middle = high > 2 * low ? sqrtl(low * high) : (low + high) / 2;

		if (model_excess(middle) < 0)
			low = middle;
		else
			high = middle;
	}
	return low;
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

/* A sum of SELF_TUNED has a canonical form. */
static void
check_range(double sum)
{
	CHECK(fabs(sum) <= LEARNER_MAX_SUM && !(sum == 0 && signbit(sum)), "%g", sum);
}

static void
check_sum(const char *name, double have, const Sum *want)
{
	long double now = have * model_fading();

	check_range(have);
	CHECK(fabsl(now - want->value) <= 1e-12L * want->scale + want->slack + DBL_MIN,
		  "%s: %.17Lg, not %.17Lg", name, now, want->value);
}

/*
 * The same for SELF_TUNED, and the sums that only it has
 */
static void
check_self_tuned_sums(int32_t arm)
{
	double		most = 2 * (double) (learner.round - learner.outstanding);
	Sum			settled;
	Sum			total_loss;
	Sum			cost;
	Sum			z;

	model_sums(arm, &settled, &total_loss, &cost, &z);
	check_sum("settled", learner.settled, &settled);
	check_sum("total loss", learner.total_loss, &total_loss);
	check_sum("cost", learner.cost, &cost);
	check_sum("z", learner.z[arm], &z);

	/* what a state must fulfil to be read again */
	for (int32_t i = 0; i < learner.params.arms; i++)
		check_range(learner.z[i]);
	CHECK(learner.settled >= 0 && learner.settled <= most, "%g", learner.settled);
	CHECK(learner.total_loss >= 0 && learner.total_loss <= most, "%g", learner.total_loss);
	CHECK(model.total_loss.sum > model.settled.sum ||
		  learner.total_loss <= learner.settled,
		  "%.17g of %.17g", learner.total_loss, learner.settled);
}

/*
 * The step size of SELF_TUNED: it solves the equation, wherever the search for it
 * started; and what is proven by algebra holds.
 */
static void
check_self_tuned_step_size(double eta)
{
	static const double starts[] = {0, 1, 0.5, 1.0000001, 2, 1e9, 1e-9, INFINITY};
	int			nstarts = learner.params.arms < SOME_ARMS ?
		(int) (sizeof(starts) / sizeof(*starts)) : 1;
	long double k = model.playable;
	long double v = logl(k) / eta;
	long double least_v = k * logl(k);
	long double cost = model_next_fading() * (learner.cost - model_least_z());
	long double bound = 1.5L * v - 0.5L * least_v;

	CHECK(isfinite(eta) && eta > 0, "%g", eta);
	if (learner.params.arms < SOME_ARMS)
	{
		long double want = model_v();

		CHECK(fabsl(v - want) <= 1e-9L * want, "v is %.17Lg, not %.17Lg", v, want);
	}
	else
	{
		/* the last step of the bisection is enough */
		CHECK(v >= least_v * (1 - 1e-9L) &&
			  (v <= least_v * (1 + 1e-9L) || model_excess(v * (1 - 1e-9L)) <= 0) &&
			  model_excess(v * (1 + 1e-9L)) >= 0, "v is %.17Lg", v);
	}
	CHECK(cost <= bound * (1 + 1e-9L), "cost %.17Lg with v = %.17Lg", cost, v);
	for (int i = 0; i < nstarts; i++)
	{
		Learner		other = learner;
		double		other_eta;

		other.last_v = starts[i] == 0 ? 0 : (double) v * starts[i];
		other_eta = learner_step_size(&other, NO_DELAY, weights);
		CHECK(fabs(other_eta - eta) <= 1e-12 * eta,
			  "%.17g, but %.17g from %.17g", eta, other_eta, other.last_v);
	}
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
		case SELF_TUNED:
			check_self_tuned_step_size(eta);
			return;
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
check_regret_bound(double eta)
{
	double		bound = learner_regret_bound(&learner, eta, 1, learner.longest_delay, 0.05);

	CHECK(bound >= 1, "%g", bound);
	CHECK(learner_has_regret_bound(&learner) ==
		  !(is_self_tuned() && learner.params.optimism < 1), "it has one or not");
	if (is_self_tuned())
	{
		long double k = model.playable;
		long double want = 1.5L * logl(k) / eta - 0.5L * k * logl(k) + learner.outstanding;

		CHECK(about_equal(bound, want, want), "%.17g, not %.17Lg", bound, want);
		CHECK(learner_regret_estimate(&learner, eta) == bound, "%.17g", bound);
	}
}

static void
check(int32_t arm)
{
	double		eta = learner_step_size(&learner, NO_DELAY, weights);

	check_counts();
	if (is_self_tuned())
		check_self_tuned_sums(arm);
	else
		check_sums(arm);
	check_open_rounds();
	check_step_size(eta, NO_DELAY);
	check_weights(eta, retired,
				  learner_weights(&learner, eta, learner.retired, weights));
	check_regret_bound(eta);
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

/* The total of the weights that a draw has left */
static double
total_weight(void)
{
	double		total = 0;

	for (int32_t i = 0; i < learner.params.arms; i++)
		total += weights[i];
	return total;
}

/*
 * Pick an arm, without playing it, when some are excluded.
 */
static void
pick(int64_t delay, double uniform, const bool *without, Ticket *ticket)
{
	double		step_size = learner_step_size(&learner, delay, weights);
	double		eta;
	double		total;

	learner_pick(&learner, delay, uniform, without, weights, ticket, &eta);
	total = total_weight();
	CHECK(eta == step_size, "%.17g, not %.17g", eta, step_size);
	check_weights(eta, without, total);
	check_pick(ticket, uniform, total);
	if (is_self_tuned())
	{
		long double fading = model_next_fading();
		long double least = model_least_z();
		long double mass = model_total(eta, fading, least, without) /
			model_total(eta, fading, least, retired);

		CHECK(ticket->mass >= 0 && ticket->mass <= 1 &&
			  fabsl(ticket->mass - mass) <= 1e-9L * mass + DBL_MIN,
			  "%.17g, not %.17Lg", ticket->mass, mass);
	}
	else
		CHECK(ticket->mass == 1, "%g", ticket->mass);
}

/*
 * Play the arm that learner_draw() would draw, as if it had been drawn elsewhere.
 */
static void
play(int64_t delay, double uniform, Ticket *ticket, double *eta)
{
	Ticket		picked;
	double		step_size;
	double		total;

	learner_pick(&learner, delay, uniform, learner.retired, weights, &picked, &step_size);
	*eta = learner_next(&learner, delay, weights, &total);
	CHECK(*eta == step_size, "%.17g, not %.17g", *eta, step_size);
	CHECK(total == total_weight(), "%.17g, not %.17g", total, total_weight());
	learner_play(&learner, delay, picked.arm, weights, total, *eta, ticket);
	CHECK(ticket->round == picked.round && ticket->arm == picked.arm &&
		  ticket->probability == picked.probability && ticket->gamma == picked.gamma &&
		  ticket->z == picked.z && ticket->m == picked.m && ticket->mass == picked.mass,
		  "round %" PRId64, ticket->round);
}

/*
 * Play a round.  Unless without is NULL, it flags the arms that cannot be drawn.
 */
static void
draw(int64_t delay, double uniform, const bool *without)
{
	int64_t		words = learner_open_words_in_draw(&learner);
	Decision   *d = &model.decisions[model.ndecisions];
	Ticket		restricted = {0};
	double		eta;
	double		total;
	double		wait;
	const char *problem;

	/* no more room than was asked for, so that the sanitizer sees every slip */
	if (learner.params.skipping)
	{
		learner.open.words = realloc(learner.open.words,
									 (size_t) words * sizeof(uint64_t));
		CHECK(learner.open.words != NULL, "out of memory");
	}
	check_step_size(learner_step_size(&learner, delay, weights), delay);
	if (without != NULL)
		pick(delay, uniform, without, &restricted);
	memset(d, 0, sizeof(*d));
	if (model.round % 2 == 0)
		learner_draw(&learner, delay, uniform, weights, &d->ticket, &eta);
	else
		play(delay, uniform, &d->ticket, &eta);
	total = total_weight();

	CHECK(d->ticket.round == model.round + 1, "%" PRId64, d->ticket.round);
	CHECK(d->ticket.gamma == (learner.params.algorithm == DADA ? 0 :
							  is_self_tuned() ? eta / 16 : eta),
		  "%g", d->ticket.gamma);
	CHECK(d->ticket.mass == 1, "%g", d->ticket.mass);
	/* SELF_TUNED may find that it was too cautious */
	CHECK(is_self_tuned() || eta <= model.last_step_size,
		  "%g after %g", eta, model.last_step_size);
	check_weights(eta, retired, total);
	check_pick(&d->ticket, uniform, total);
	if (without != NULL)
	{
		CHECK(restricted.round == d->ticket.round && restricted.gamma == d->ticket.gamma,
			  "round %" PRId64, restricted.round);
		d->ticket = restricted;
	}
	problem = learner_ticket_problem(&learner, &d->ticket);
	CHECK(problem == NULL, "%s", problem);

	model.ndecisions++;
	model.round++;
	model.last_step_size = eta;
	if (learner.params.algorithm == DEDA)
		model.longest_delay = fmax(model.longest_delay, (double) delay);
	if (is_self_tuned() && without == NULL)
	{
		/* the weights fit the step size; the sums may have been halved since */
		long double want = expl(-eta * model_fading() *
								(learner.z[d->ticket.arm] - model_least_z()));

		CHECK(about_equal(weights[d->ticket.arm], want, 1000 * want),
			  "%.17g, not %.17Lg", weights[d->ticket.arm], want);
	}

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
 * A sum of z would have become too large: from now on it is what the learner says.
 */
static void
restart_z(int32_t arm)
{
	begin_with(&model.z[arm], learner.z[arm]);
	for (int i = 0; i < model.ndecisions; i++)
	{
		Decision   *d = &model.decisions[i];

		if (d->ticket.arm == arm)
			d->estimate = d->estimate_scale = d->estimate_slack = 0;
	}
}

/*
 * What feedback adds to the sums of SELF_TUNED, and what the learner says that it
 * does.
 */
static void
learn_self_tuned(Decision *d, const Ticket *ticket, double loss)
{
	long double baseline = model_baseline();
	long double divisor = (long double) ticket->probability + ticket->gamma;
	FeedbackTerms terms;

	learner_feedback(&learner, ticket, loss, &terms);
	CHECK(fabsl(terms.baseline - baseline) <= 1e-12L * baseline + DBL_MIN,
		  "%.17g, not %.17Lg", terms.baseline, baseline);
	CHECK(terms.baseline >= 0 &&
		  (terms.baseline < 1 || model.total_loss.sum > model.settled.sum),
		  "%.17g", terms.baseline);
	CHECK(terms.arm == ticket->arm && terms.mass == ticket->mass &&
		  terms.delay == model.round - ticket->round,
		  "%d, %g, %" PRId64, terms.arm, terms.mass, terms.delay);

	d->loss = loss;
	d->cost = ticket->mass * (loss - baseline);
	d->cost_scale = ticket->mass * (loss + baseline);
	d->estimate = (loss - baseline) / divisor;
	d->estimate_scale = (loss + baseline) / divisor;
	d->estimate_slack = 100 * DBL_TRUE_MIN / divisor;
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

	if (is_self_tuned())
		learn_self_tuned(d, ticket, loss);
	learned = learner_learn(&learner, ticket, loss);
	CHECK(learned == (d->fate == OPEN), "round %" PRId64, ticket->round);
	if (!learned)
		return;
	d->ticket = *ticket;
	d->fate = SETTLED;
	d->end = model.round;
	if (is_self_tuned())
	{
		Sum			z;
		Sum			others;

		model_sums(ticket->arm, &others, &others, &others, &z);
		if (d->estimate_scale > DBL_MAX ||
			z.scale > model_fading() * LEARNER_MAX_SUM * (1 - 1e-9L))
			restart_z(ticket->arm);
		return;
	}
	d->estimate = loss / (ticket->probability + ticket->gamma);
	CHECK(isfinite(d->estimate), "%Lg", d->estimate);
	if (learner.params.algorithm == DEDA)
	{
		d->expected = (double) d->estimate * ticket->probability;
		model.longest_delay = fmax(model.longest_delay,
								   (double) (model.round - ticket->round));
	}
}

/*
 * Let the sums of SELF_TUNED refer to a later moment.
 */
static void
halve_sums(int64_t rounds)
{
	long double half_life = learner.params.half_life;
	long double halvings;

	if (half_life == NO_HALF_LIFE)
		return;
	halvings = rintl((model_before(model.round) + rounds -
					  model_before(model.round + rounds)) / half_life);
	for (int32_t i = -3; i < learner.params.arms; i++)
	{
		double	   *sum = i == -3 ? &learner.settled : i == -2 ? &learner.total_loss :
			i == -1 ? &learner.cost : &learner.z[i];

		/* 0.0 because there is no canonical -0 */
		*sum = ldexp(*sum, -(int) fminl(halvings, 10000)) + 0.0;
	}
}

/*
 * Let rounds pass without playing them: open rounds far apart would take too long
 * otherwise.  Their feedback came at once and was 0, or it was one of SELF_TUNED
 * that left no trace in the sums.
 */
static void
skip_ahead(int64_t rounds)
{
	if (rounds > LEARNER_MAX_ROUNDS - model.round)
		return;
	if (is_self_tuned())
		halve_sums(rounds);
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
 * Give SELF_TUNED another cost, so that its step size is what it was before its arms
 * changed, or as large as it can be.
 */
static void
keep_step_size(double before)
{
	double		cost = learner_cost_for(&learner, before, weights);
	long double k = model.playable;
	long double want = fmaxl(logl(k) / before, k * logl(k));
	long double rounding = 4 * (fabsl(cost) + fabsl(model_least_z())) * DBL_EPSILON;
	double		after;

	CHECK(isfinite(cost), "%g", cost);
	learner.cost = fmax(fmin(cost, LEARNER_MAX_SUM), -LEARNER_MAX_SUM) + 0.0;
	begin_with(&model.cost, learner.cost);
	for (int i = 0; i < model.ndecisions; i++)
		model.decisions[i].cost = model.decisions[i].cost_scale = 0;

	after = learner_step_size(&learner, NO_DELAY, weights);
	CHECK(fabsl(logl(k) / after - want) <= 1e-9L * want + model_next_fading() * rounding ||
		  cost != learner.cost,
		  "step size %.17g, then %.17g with cost %.17g", before, after, cost);
}

/*
 * Let an arm retire, or come back.  The step size may grow then.
 */
static void
retire(int32_t arm, bool keeping_step_size)
{
	double		eta = learner_step_size(&learner, NO_DELAY, weights);

	if (!retired[arm] && model.playable == LEARNER_MIN_ARMS)
		return;
	model.playable += retired[arm] ? 1 : -1;
	retired[arm] = !retired[arm];
	learner_retire(&learner, retired);
	model.last_step_size = INFINITY;
	if (is_self_tuned() && keeping_step_size)
		keep_step_size(eta);
}

/*
 * Let only the given arm and some others be drawn; the given one may stand for the
 * next that has not retired.
 */
static void
restrict_to(int32_t arm, uint8_t others)
{
	while (retired[arm])
		arm = (arm + 1) % learner.params.arms;
	for (int32_t i = 0; i < learner.params.arms; i++)
		excluded[i] = i != arm && (retired[i] || (others >> (i % 8) & 1) == 0);
}

static void
operate(void)
{
	bool		deda = learner.params.algorithm == DEDA;
	uint8_t		what = (uint8_t) take(1);
	int			draws = 0;
	bool	   *without = NULL;
	Decision   *d;
	Ticket		ticket;

	if (what < 112)
		draws = 1;
	else if (what < 116)
		draws = (int) take(1) % (learner.params.arms < MANY_ARMS ? 256 : 16);
	if (draws > 0)
	{
		int64_t		delay = deda ? take_int32() : NO_DELAY;
		double		uniform = take_fraction(false);

		if (deda && delay < 0)
			delay = NO_DELAY;
		if (what % 8 == 7)
		{
			restrict_to((int32_t) (take(2) % (uint64_t) learner.params.arms),
						(uint8_t) take(1));
			without = excluded;
		}
		while (draws-- > 0 && model.ndecisions < MAX_DECISIONS &&
			   model.round < LEARNER_MAX_ROUNDS)
			draw(delay, uniform, without);
		return;
	}
	if (what < 120)
	{
		skip_ahead((int64_t) (take(1) < 240 ? take(1) : take(3) / 16));
		return;
	}
	if (what < 128)
	{
		retire((int32_t) (take(2) % (uint64_t) learner.params.arms), what < 126);
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
		{
			ticket.probability = 6e-309;
			ticket.gamma = what % 2 == 0 ? 0 : ticket.gamma;
		}
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
		LEARNER_MAX_ARMS, MANY_ARMS, 1, 0, -1, LEARNER_MAX_ARMS + 1, INT32_MAX
	};
	static const int algorithms[8] = {
		DADA, DADA_IX, DEDA, SELF_TUNED, SELF_TUNED, SELF_TUNED, DADA, NUM_ALGORITHMS
	};
	static const double optimisms[] = {0.25, 1, 0.5, 0.1, 1 - DBL_EPSILON / 2, 1e-9};
	static const double half_lives[] = {
		NO_HALF_LIFE, 1, 10, 0.7, 1000, 1e6, 0.01, LEARNER_MIN_HALF_LIFE,
		LEARNER_MAX_HALF_LIFE
	};
	uint8_t		flags = (uint8_t) take(1);

	memset(params, 0, sizeof(*params));
	params->algorithm = (Algorithm) algorithms[flags % 8];
	/* for the other two it is an error, seldom enough */
	params->skipping = (flags & 16) != 0 && (params->algorithm < DEDA || flags / 32 == 1);
	params->arms = flags < 250 ? PICK(arms) : PICK(odd_arms);
	params->patience = params->skipping ? take_int32() : 0;
	params->max_delay = params->algorithm == DEDA ? take_int32() : NO_DELAY;
	params->step_scale = params->algorithm == DEDA || params->algorithm == SELF_TUNED ?
		1 : take_double();
	if (params->algorithm == SELF_TUNED)
	{
		params->optimism = take(1) < 224 ? PICK(optimisms) : take_double();
		params->half_life = take(1) < 224 ? PICK(half_lives) : take_double();
	}
}

/*
 * Sums of SELF_TUNED as a state may have them that was read
 */
static void
take_sums(void)
{
	uint8_t		flags = (uint8_t) take(1);
	double		most = 2 * (double) model.round;
	double		z[8];

	if (flags % 4 != 0)
		return;
	learner.settled = most * take_fraction(true);
	/* hardly possible, but allowed: more losses than decisions */
	learner.total_loss = (flags >= 240 ? most : learner.settled) * take_fraction(true);
	learner.cost = take_sum();
	for (int i = 0; i < 8; i++)
		z[i] = (flags & 8) != 0 ? learner.cost : take_sum();
	/* sums close to each other, and to the cost */
	for (int i = 0; i < 8 && (flags & 16) != 0; i++)
		z[i] = fmax(fmin(z[0] + take_sum(), LEARNER_MAX_SUM), -LEARNER_MAX_SUM) + 0.0;
	for (int32_t i = 0; i < learner.params.arms; i++)
	{
		learner.z[i] = z[i % 8];
		begin_with(&model.z[i], learner.z[i]);
	}
	begin_with(&model.settled, learner.settled);
	begin_with(&model.total_loss, learner.total_loss);
	begin_with(&model.cost, learner.cost);
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
	if (is_self_tuned())
		take_sums();
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
	model.z = calloc((size_t) params.arms, sizeof(Start));
	learner_init(&learner, &params, vectors);
	model.longest_delay = params.algorithm == DEDA ? fmax(params.max_delay, 0) : 0;
	take_history();
	if (params.arms >= MANY_ARMS)
		operations = 3;			/* or it would take too long */

	check(0);
	while (input_left > 0 && operations-- > 0)
	{
		operate();
		check((int32_t) (take(2) % (uint64_t) params.arms));
	}

	free(learner.open.words);
	free(model.z);
	free(excluded);
	free(retired);
	free(weights);
	free(vectors);
	return 0;
}
