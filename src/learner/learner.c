/*
 * learner.c
 *	  The learners as plain C; see learner.h.
 *
 * Drawing costs O(K), learning O(1).
 */
#include "learner.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "exponential.h"

/*
 * How exactly SELF_TUNED solves its equation, relatively, and with how many sums
 * over all arms at most.  It needs two or three of them if the last solution is
 * known, and five or six otherwise.
 */
#define TOLERANCE		1e-14
#define MAX_PASSES		60

/* gamma of SELF_TUNED is this part of eta. */
#define GAMMA_SHARE		(1.0 / 16)

static const char *const algorithm_names[NUM_ALGORITHMS] = {
	[DADA] = "dada",
	[DADA_IX] = "dada-ix",
	[DEDA] = "deda",
	[SELF_TUNED] = "self-tuned"
};

const char *
algorithm_name(Algorithm algorithm)
{
	return algorithm_names[algorithm];
}

/*
 * Find an algorithm by its name.  Returns false if there is no such algorithm.
 */
bool
algorithm_by_name(const char *name, Algorithm *algorithm)
{
	for (int i = 0; i < NUM_ALGORITHMS; i++)
	{
		if (strcmp(name, algorithm_names[i]) == 0)
		{
			*algorithm = (Algorithm) i;
			return true;
		}
	}
	return false;
}

/*
 * Add two numbers that are not negative, but stop at the largest double.  No
 * draw of ours comes near it; see sample().  A ticket that was written by hand
 * may, and it must not turn a sum into infinity.
 */
static double
add_bounded(double a, double b)
{
	double		sum = a + b;

	return sum < DBL_MAX ? sum : DBL_MAX;
}

/*
 * Add to a sum that may be negative, but not beyond LEARNER_MAX_SUM.
 */
static double
add_limited(double a, double b)
{
	return fmax(fmin(a + b, LEARNER_MAX_SUM), -LEARNER_MAX_SUM);
}

static bool
is_amount(double x)
{
	return isfinite(x) && !signbit(x);
}

/*
 * Make a learner that has not played yet.  The memory for all its vectors comes
 * from the caller, is filled with zeroes, and stays in use.  A skipping learner
 * also needs words for its open rounds before it draws.
 */
void
learner_init(Learner *learner, const LearnerParams *params, double *vectors)
{
	memset(learner, 0, sizeof(*learner));
	learner->params = *params;
	learner->playable = params->arms;
	learner->log_arms = log(params->arms);
	learner->z = vectors;
	if (params->algorithm == DEDA)
	{
		learner->m = vectors + params->arms;
		learner->z_tie = vectors + (size_t) 2 * params->arms;
		learner->m_tie = vectors + (size_t) 3 * params->arms;
		learner->longest_delay = fmax(params->max_delay, 0);	/* d*_0 */
	}
}

/*
 * Retire some arms: they are not drawn any more.  At least LEARNER_MIN_ARMS arms
 * must be left.  The losses of retired arms count as before, also those that are
 * still to come, but K is the number of the arms that are left.  There is one
 * flag for each arm, and the flags stay in use.
 */
void
learner_retire(Learner *learner, const bool *retired)
{
	int32_t		playable = 0;

	for (int32_t i = 0; i < learner->params.arms; i++)
		playable += !retired[i];
	learner->retired = retired;
	learner->playable = playable;
	/* cppcheck-suppress invalidFunctionArg ; some arms are left */
	learner->log_arms = log(playable);
}

const char *
learner_params_problem(const LearnerParams *params)
{
	if (params->arms < LEARNER_MIN_ARMS || params->arms > LEARNER_MAX_ARMS)
		return "the number of arms is out of range";
	if ((int) params->algorithm < 0 || params->algorithm >= NUM_ALGORITHMS)
		return "the algorithm is unknown";
	if (params->skipping && params->algorithm == DEDA)
		return "\"deda\" cannot skip";
	if (params->skipping && params->algorithm == SELF_TUNED)
		return "\"self-tuned\" cannot skip";
	if (params->patience < 0 || (params->patience != 0 && !params->skipping))
		return "the patience is out of range";
	if (params->max_delay < NO_DELAY ||
		(params->max_delay != NO_DELAY && params->algorithm != DEDA))
		return "the maximum delay is out of range";
	if (!is_amount(params->step_scale) || params->step_scale == 0 ||
		(params->step_scale != 1 && (params->algorithm == DEDA ||
									 params->algorithm == SELF_TUNED)))
		return "the step scale is out of range";
	/* written so that NaN fails */
	if (params->algorithm == SELF_TUNED ?
		!(params->optimism > 0 && params->optimism <= 1) :
		!(params->optimism == 0 && !signbit(params->optimism)))
		return "the optimism is out of range";
	if (!is_amount(params->half_life) ||
		(params->half_life != NO_HALF_LIFE &&
		 (params->algorithm != SELF_TUNED ||
		  params->half_life < LEARNER_MIN_HALF_LIFE ||
		  params->half_life > LEARNER_MAX_HALF_LIFE)))
		return "the half-life is out of range";
	return NULL;
}

/*
 * Check that this learner can have issued the ticket, as far as the learner can
 * know.  This does not tell whether the ticket's round is still open.
 */
const char *
learner_ticket_problem(const Learner *learner, const Ticket *ticket)
{
	Algorithm	algorithm = learner->params.algorithm;

	if (ticket->round < 1 || ticket->round > learner->round)
		return "its round has not been played";
	if (ticket->arm < 0 || ticket->arm >= learner->params.arms)
		return "its arm does not exist";
	if (!(ticket->probability > 0 && ticket->probability <= 1))
		return "its probability is out of range";
	if (!is_amount(ticket->gamma) || (algorithm == DADA && ticket->gamma != 0))
		return "its gamma is out of range";
	if (!isfinite(1 / (ticket->probability + ticket->gamma)))
		return "its probability is too small";
	if (!is_amount(ticket->z) || !is_amount(ticket->m))
		return "its z or m is out of range";
	if (algorithm == DEDA && (ticket->z > learner->z[ticket->arm] ||
							  ticket->m > learner->m[ticket->arm]))
		return "its z or m is greater than the state's";
	return NULL;
}

/* ----------
 * Forgetting: how much a decision counts in the sums, see learner.h
 * ----------
 */

/*
 * Return how many half-lives the start of a round is after the moment to which the
 * sums refer.
 */
static double
half_lives_since(const Learner *learner, double round)
{
	double		half_life = learner->params.half_life;
	double		newest = (double) learner->round;

	/* fmod() is exact */
	return (fmod(newest, half_life) + (round - newest)) / half_life;
}

/*
 * Return by what the sums must be multiplied to be those of a round.
 */
static double
fading(const Learner *learner, double round)
{
	if (learner->params.half_life == NO_HALF_LIFE)
		return 1;
	return exp2(-half_lives_since(learner, round));
}

static double
scaled(double sum, double scale)
{
	return sum * scale + 0.0;	/* never -0, which is not canonical */
}

/*
 * After a draw, let the sums refer to the last multiple of the half-life.
 */
static void
halve_sums(Learner *learner)
{
	double		half_life = learner->params.half_life;
	double		newest = (double) learner->round;
	double		halvings = rint((fmod(newest - 1, half_life) + 1 -
								 fmod(newest, half_life)) / half_life);
	double		scale = exp2(-halvings);

	if (halvings == 0)
		return;
	learner->settled *= scale;
	learner->total_loss *= scale;
	learner->cost = scaled(learner->cost, scale);
	for (int32_t i = 0; i < learner->params.arms; i++)
		learner->z[i] = scaled(learner->z[i], scale);
}

/* ----------
 * Step sizes and weights
 * ----------
 */

/*
 * Return the smallest sum of the arms that are not excluded.
 */
static double
least_z(const Learner *learner, const bool *excluded)
{
	int32_t		arms = learner->params.arms;
	const double *z = learner->z;
	double		least = DBL_MAX;

	/* a loop without exclusions is faster */
	if (excluded == NULL)
	{
		for (int32_t i = 0; i < arms; i++)
			least = z[i] < least ? z[i] : least;
	}
	else
	{
		for (int32_t i = 0; i < arms; i++)
			least = !excluded[i] && z[i] < least ? z[i] : least;
	}
	return least;
}

/*
 * Fill in the weight exp(-rate (z_i - least)) of every arm that is not excluded,
 * and 0 for the others.
 */
static void
fill_weights(const Learner *learner, double rate, double least, const bool *excluded,
			 double *weights)
{
	int32_t		arms = learner->params.arms;
	const double *z = learner->z;

	for (int32_t i = 0; i < arms; i++)
		weights[i] = -rate * (z[i] - least);
	if (excluded != NULL)
	{
		/* the exponential of such a number is exactly 0 */
		for (int32_t i = 0; i < arms; i++)
			weights[i] = excluded[i] ? -DBL_MAX : weights[i];
	}
	exponentials(weights, arms);
}

/*
 * Fill in the weight exp(-eta (z_i - min z)) of every arm, and return their
 * sum; the probability of arm i is weights[i] / sum.
 *
 * Unless excluded is NULL, it flags the arms that cannot be drawn.  It must not
 * flag all of them.
 */
double
learner_weights(const Learner *learner, double step_size, const bool *excluded,
				double *weights)
{
	double		total = 0;

	fill_weights(learner, step_size * fading(learner, (double) learner->round + 1),
				 least_z(learner, excluded), excluded, weights);
	for (int32_t i = 0; i < learner->params.arms; i++)
		total += weights[i];
	return total;
}

/*
 * Return the step size of SELF_TUNED, eta = ln K / v, where v solves
 *
 *	v = K ln K + 2 (C - Phi(v)),	Phi(v) = -(1/eta) ln((1/K) sum of exp(-eta z_i))
 *
 * or is K ln K if that is larger.  The weights are left in weights, and their sum
 * in *total.
 *
 * With S the sum of the weights exp(-eta (z_i - min z)), Phi is min z + v - v ln S
 * / ln K.  So we look for the zero of
 *
 *	g(v) = v (3 - 2 ln S / ln K) - K ln K - 2 (C - min z).
 *
 * Its slope is 3 - 2 H / ln K, where H is the entropy of the probabilities: it is
 * between 1 and 3, and falls as v grows.  So g is concave, Newton's method never
 * passes the zero from below, and a step from above ends below it.  The bracket is
 * there for rounding errors only.
 */
static double
self_tuned_step_size(const Learner *learner, double *weights, double *total)
{
	int32_t		arms = learner->params.arms;
	const double *z = learner->z;
	double		log_arms = learner->log_arms;
	double		least_v = learner->playable * log_arms;
	double		fade = fading(learner, (double) learner->round + 1);
	double		least = least_z(learner, learner->retired);
	double		target = least_v + 2 * fade * fmax(learner->cost - least, 0);
	double		low = least_v;
	double		high = target;
	double		v = learner->last_v;

	/* where it is if one arm has all the probability: never too far */
	if (!(v >= low && v <= high))
		v = fmax(target / 3, least_v);
	for (int pass = 0; pass < MAX_PASSES; pass++)
	{
		double		rate = fade * log_arms / v;
		double		sum = 0;
		double		moment = 0;
		double		log_sum;
		double		entropy;
		double		g;
		double		next;

		fill_weights(learner, rate, least, learner->retired, weights);
		for (int32_t i = 0; i < arms; i++)
		{
			sum += weights[i];
			moment += weights[i] * (z[i] - least);
		}
		*total = sum;
		/* cppcheck-suppress invalidFunctionArg ; some arms are left */
		log_sum = log(sum);
		entropy = log_sum + rate * moment / sum;
		g = v * (3 - 2 * log_sum / log_arms) - target;
		if (g < 0)
			low = v;
		else
			high = v;
		next = fmin(fmax(v - g / (3 - 2 * entropy / log_arms), low), high);
		if (fabs(next - v) <= TOLERANCE * v)
			break;
		v = next;
	}
	return log_arms / v;
}

/*
 * Return eta of the next round, t + 1, given its announced delay.  weights must have
 * room for a number for each arm, and is overwritten.
 *
 * The sum of tau-tilde is over s < t, as the paper's reduction to the effective
 * delays needs it.  Section 5 writes s <= t.
 */
double
learner_step_size(const Learner *learner, int64_t delay, double *weights)
{
	const LearnerParams *params = &learner->params;
	double		arms = learner->playable;
	double		log_arms = learner->log_arms;
	double		t = (double) learner->round + 1;
	double		cumulative_delay = learner->cumulative_delay +
		(double) learner->outstanding;
	double		total;

	switch (params->algorithm)
	{
		case DADA:				/* Corollary 3.2; section 5, theorem (i) */
			return params->step_scale *
				sqrt(log_arms / (t * arms + cumulative_delay));

		case DADA_IX:			/* Corollary 4.2; section 5, theorem (ii) */
			return params->step_scale / 2 *
				sqrt(3 * log_arms / (2 * t * arms + cumulative_delay));

		case DEDA:				/* Algorithm 1 */
			{
				double		d = fmax(learner->longest_delay, (double) delay);

				return 1 / ((4 * d * d + 6 * d + 2) / log_arms +
							sqrt(learner->lbck) / sqrt(log_arms));
			}

		case SELF_TUNED:
			return self_tuned_step_size(learner, weights, &total);
	}
	return 0;					/* not reached */
}

/*
 * Return the cost with which SELF_TUNED would have this step size, or the nearest
 * that it can have.  weights is overwritten.
 */
double
learner_cost_for(const Learner *learner, double step_size, double *weights)
{
	double		log_arms = learner->log_arms;
	double		least_v = learner->playable * log_arms;
	double		v = fmax(log_arms / step_size, least_v);
	double		fade = fading(learner, (double) learner->round + 1);
	double		sum = learner_weights(learner, log_arms / v, learner->retired, weights);

	/* C = Phi + (v - K ln K) / 2 */
	return least_z(learner, learner->retired) +
		(v - v * log(sum) / log_arms + (v - least_v) / 2) / fade;
}

/*
 * Pick an arm with one uniform draw from the multiples of 2^-52 in [0, 1).
 *
 * We use the middle of the draw's cell, not its lower end, because 0 would always
 * hit the first arm, however improbable that arm is.  So an arm is drawn only if
 * it moves the running sum across a point that is at least 2^-53 of the total.
 * Its probability is then not below 2^-108, and no loss estimate can exceed
 * 2^108.  In particular, an arm whose probability rounds to zero is never drawn.
 */
static int32_t
sample(const double *weights, int32_t arms, double total, double uniform)
{
	double		target = (uniform + DBL_EPSILON / 2) * total;
	double		sum = 0;
	int32_t		last = 0;

	for (int32_t i = 0; i < arms; i++)
	{
		double		next = sum + weights[i];

		if (next > target)
			return i;
		if (next > sum)
			last = i;
		sum = next;
	}
	return last;				/* only if the caller's total is rounded up */
}

/*
 * Return the first round whose feedback is still in time.  A skipping learner
 * gives up on open rounds before it.  The learner waits sqrt(D_t / ln K) rounds,
 * as in section 5, but at least as many as its patience says.
 */
int64_t
learner_first_in_time(const Learner *learner)
{
	double		wait = fmax(sqrt(learner->cumulative_delay / learner->log_arms),
							learner->params.patience);

	return wait >= (double) learner->round ? 1 : learner->round - (int64_t) wait;
}

/*
 * Is there a proof for what learner_regret_bound() says?
 */
bool
learner_has_regret_bound(const Learner *learner)
{
	return learner->params.algorithm != SELF_TUNED || learner->params.optimism == 1;
}

/*
 * Return what SELF_TUNED has lost, as far as it can tell, beyond the best single
 * arm: 1.5 v - 0.5 K ln K, and 1 for each decision that is not settled.
 */
double
learner_regret_estimate(const Learner *learner, double step_size)
{
	return learner->log_arms * (1.5 / step_size - 0.5 * learner->playable) +
		(double) learner->outstanding;
}

/*
 * Return what SELF_TUNED took its regret to be, apart from open decisions, when it made
 * a decision with this gamma.
 */
double
learner_regret_of_gamma(double inverse_gamma, int arms)
{
	return log(arms) * (1.5 * GAMMA_SHARE * inverse_gamma - 0.5 * arms);
}

/*
 * Return the bound on the regret that is proven for what has been seen so far: the
 * number of rounds, the delays, the rounds that were skipped; or, for SELF_TUNED,
 * its step size.  The bound for DADA_IX holds with probability 1 - delta, the others
 * in expectation.
 *
 * c = step_scale enters through Theorems 3.1 and 4.1, which hold for any step
 * size that never grows.  With eta_t = c eta, the term in 1 / eta_T is divided by
 * c, and the sum of eta_t is multiplied by c.  The roots are 0 before the first
 * round, and c or 1 / c alone may overflow, so we apply c to each root first.
 */
double
learner_regret_bound(const Learner *learner, double step_size, double skipped,
					 double longest_delay, double delta)
{
	double		c = learner->params.step_scale;
	double		arms = learner->playable;
	double		log_arms = learner->log_arms;
	double		t = (double) learner->round;
	double		delays = learner->cumulative_delay;

	switch (learner->params.algorithm)
	{
		case DADA:				/* Corollary 3.2; section 5, (eq:skipped) */
			{
				double		root = sqrt(log_arms * (t * arms + delays));

				return skipped + root / c + 2 * (root * c);
			}

		case DADA_IX:			/* Corollary 4.2; section 5 */
			{
				double		sum = 2 * t * arms + delays;
				double		root = sqrt(3 * log_arms * sum);

				return skipped + root / c + root * c +
					(2 * sqrt(sum / (3 * log_arms)) / c + longest_delay + 2) *
					log(2 / delta) / 2;
			}

		case DEDA:

			/*
			 * Theorem 6.2.  Not all of its losses are known, but none is
			 * above 1.  The sum over O_t and D_t is then twice the cumulative
			 * delay.
			 */
			{
				double		d = learner->longest_delay;

				return 4 * d * d + 6 * d + 2 +
					(2 + sqrt(2)) * sqrt(log_arms * (2 * delays + t * arms));
			}

		case SELF_TUNED:		/* if its optimism is 1 */
			return learner_regret_estimate(learner, step_size);
	}
	return 0;					/* not reached */
}

/*
 * Count one more decision.
 */
static void
count_decision(Learner *learner)
{
	learner->cumulative_delay += (double) learner->outstanding;
	learner->outstanding++;
	learner->round++;
}

/*
 * Return how many words of open rounds a draw needs room for.
 */
int64_t
learner_open_words_in_draw(const Learner *learner)
{
	const OpenRounds *open = &learner->open;
	Learner		after = *learner;
	int64_t		oldest;
	int64_t		nwords;

	if (!learner->params.skipping)
		return 0;
	count_decision(&after);
	oldest = open_rounds_next(open, learner_first_in_time(&after) - 1);
	nwords = open_rounds_span(oldest != 0 ? oldest : after.round, after.round);
	return nwords > open->nwords ? nwords : open->nwords;
}

/*
 * Fill in the weights of the next round, see learner_weights(), and return its step
 * size.  *mass is the probability of the arms that are not excluded among all.
 */
static double
next_weights(const Learner *learner, int64_t delay, const bool *excluded,
			 double *weights, double *total, double *mass)
{
	double		eta;

	*mass = 1;
	if (learner->params.algorithm != SELF_TUNED)
	{
		eta = learner_step_size(learner, delay, weights);
		*total = learner_weights(learner, eta, excluded, weights);
		return eta;
	}

	eta = self_tuned_step_size(learner, weights, total);
	if (excluded != learner->retired)
	{
		double		rate = eta * fading(learner, (double) learner->round + 1);
		double		above = least_z(learner, excluded) -
			least_z(learner, learner->retired);
		double		all = *total;

		*total = learner_weights(learner, eta, excluded, weights);
		*mass = fmin(exp(-rate * above) * *total / all, 1);
	}
	return eta;
}

/*
 * Make out the ticket of the next round.
 */
static void
make_ticket(const Learner *learner, int32_t arm, double probability, double eta,
			double mass, Ticket *ticket)
{
	Algorithm	algorithm = learner->params.algorithm;

	ticket->round = learner->round + 1;
	ticket->arm = arm;
	ticket->probability = probability;
	ticket->gamma = algorithm == DADA ? 0 :
		algorithm == SELF_TUNED ? eta * GAMMA_SHARE : eta;
	ticket->z = algorithm == DEDA ? learner->z[arm] : 0;
	ticket->m = algorithm == DEDA ? learner->m[arm] : 0;
	ticket->mass = mass;
}

/*
 * Count one more round.  A skipping learner also gives up on rounds that have been
 * open for too long.
 */
static void
begin_round(Learner *learner, int64_t delay, double step_size)
{
	count_decision(learner);
	if (learner->params.algorithm == SELF_TUNED)
	{
		learner->last_v = learner->log_arms / step_size;
		if (learner->params.half_life != NO_HALF_LIFE)
			halve_sums(learner);
	}
	if (learner->params.algorithm == DEDA)
	{
		size_t		size = (size_t) learner->params.arms * sizeof(double);

		learner->longest_delay = fmax(learner->longest_delay, (double) delay);
		memset(learner->z_tie, 0, size);
		memset(learner->m_tie, 0, size);
	}

	if (learner->params.skipping)
	{
		learner->outstanding -=
			open_rounds_remove_before(&learner->open, learner_first_in_time(learner));
		open_rounds_add(&learner->open, learner->round);
	}
}

/*
 * Pick the arm of the next round, and make out its ticket.  See
 * learner_weights() about excluded; it must also flag the arms that have
 * retired.
 *
 * weights must have room for a number for each arm.  The weights are left there.
 */
void
learner_pick(const Learner *learner, int64_t delay, double uniform,
			 const bool *excluded, double *weights,
			 Ticket *ticket, double *step_size)
{
	double		total;
	double		mass;
	int32_t		arm;

	*step_size = next_weights(learner, delay, excluded, weights, &total, &mass);
	arm = sample(weights, learner->params.arms, total, uniform);
	make_ticket(learner, arm, weights[arm] / total, *step_size, mass, ticket);
}

/*
 * Play one round: pick an arm.  A skipping learner needs room for
 * learner_open_words_in_draw() words of open rounds.
 */
void
learner_draw(Learner *learner, int64_t delay, double uniform,
			 double *weights, Ticket *ticket, double *step_size)
{
	learner_pick(learner, delay, uniform, learner->retired, weights, ticket,
				 step_size);
	begin_round(learner, delay, *step_size);
}

/*
 * Find out how the next round would be drawn: return its step size, and leave the
 * weights of all arms in weights, and their sum in *total.  The largest is 1.
 */
double
learner_next(const Learner *learner, int64_t delay, double *weights, double *total)
{
	double		mass;

	return next_weights(learner, delay, learner->retired, weights, total, &mass);
}

/*
 * Play one round as learner_draw() does, but with an arm that was drawn elsewhere.
 * The step size and the weights are those of learner_next(), and the weight of the
 * arm is not 0.
 */
void
learner_play(Learner *learner, int64_t delay, int32_t arm, const double *weights,
			 double total, double step_size, Ticket *ticket)
{
	make_ticket(learner, arm, weights[arm] / total, step_size, 1, ticket);
	begin_round(learner, delay, step_size);
}

/*
 * Return what SELF_TUNED takes to be the loss of an arm that it has not drawn: a part of
 * the average loss so far, as if each arm had also lost 0 once.  Others have no baseline.
 */
double
learner_baseline(const Learner *learner)
{
	double		fade;

	if (learner->params.algorithm != SELF_TUNED)
		return 0;
	fade = fading(learner, (double) learner->round);
	return (1 - learner->params.optimism) * fade * learner->total_loss /
		(fade * learner->settled + learner->playable);
}

/*
 * Estimate the loss of an arm, or what it has beyond a baseline, from the loss of a
 * decision: equations (1) and (2).
 */
double
learner_estimate(const Ticket *ticket, double loss, double baseline)
{
	return (loss - baseline) / (ticket->probability + ticket->gamma);
}

/*
 * Work out what the loss of a decision adds to the sums.
 *
 * DEDA treats all feedback between two decisions as one batch: the terms of
 * Algorithm 1 use m_{t+1} and z_{t+1}, which include the whole batch.  Feedback
 * that has arrived cannot know what will follow it in the same round.  So each
 * newcomer adds its own term, and also what the terms of the earlier ones of its
 * arm lack: estimate * (m_tie + p * z_tie).
 */
void
learner_feedback(const Learner *learner, const Ticket *ticket, double loss,
				 FeedbackTerms *terms)
{
	int32_t		arm = ticket->arm;

	terms->baseline = learner_baseline(learner);
	terms->mass = ticket->mass;
	terms->estimate = learner_estimate(ticket, loss, terms->baseline);
	terms->arm = arm;
	terms->delay = learner->round - ticket->round;
	terms->expected = 0;
	terms->lbck = 0;

	if (learner->params.algorithm == DEDA)
	{
		double		expected = terms->estimate * ticket->probability;
		double		m_since = add_bounded(learner->m[arm], expected) - ticket->m;
		double		z_since = add_bounded(learner->z[arm], terms->estimate) - ticket->z;

		/* sums made in another order may differ by a rounding error */
		m_since = add_bounded(fmax(m_since, 0), learner->m_tie[arm]);
		z_since = add_bounded(fmax(z_since, 0), learner->z_tie[arm]);

		terms->expected = expected;
		terms->lbck = fmin(terms->estimate * m_since + expected * z_since,
						   DBL_MAX);
	}
}

/*
 * Add the terms of one feedback to the sums, with the loss itself.
 */
void
learner_add_feedback(Learner *learner, const FeedbackTerms *terms, double loss)
{
	int32_t		arm = terms->arm;

	learner->outstanding--;
	if (learner->params.algorithm == SELF_TUNED)
	{
		double		round = (double) (learner->round - terms->delay);
		double		weight = learner->params.half_life == NO_HALF_LIFE ? 1 :
			exp2(half_lives_since(learner, round));

		learner->z[arm] = add_limited(learner->z[arm], weight * terms->estimate);
		learner->settled += weight;
		learner->total_loss += weight * loss;
		learner->cost = add_limited(learner->cost,
									weight * terms->mass * (loss - terms->baseline));
		return;
	}
	learner->z[arm] = add_bounded(learner->z[arm], terms->estimate);
	if (learner->params.algorithm == DEDA)
	{
		learner->m[arm] = add_bounded(learner->m[arm], terms->expected);
		learner->z_tie[arm] = add_bounded(learner->z_tie[arm], terms->estimate);
		learner->m_tie[arm] = add_bounded(learner->m_tie[arm], terms->expected);
		learner->lbck = add_bounded(learner->lbck, terms->lbck);
		learner->longest_delay = fmax(learner->longest_delay,
									  (double) terms->delay);
	}
}

/*
 * Learn the loss of a decision.  If the learner does not wait for it any more,
 * this changes nothing and returns false.
 */
bool
learner_learn(Learner *learner, const Ticket *ticket, double loss)
{
	FeedbackTerms terms;

	if (learner->outstanding == 0 ||
		(learner->params.skipping &&
		 !open_rounds_contains(&learner->open, ticket->round)))
		return false;

	learner_feedback(learner, ticket, loss, &terms);
	learner_add_feedback(learner, &terms, loss);
	if (learner->params.skipping)
		open_rounds_remove(&learner->open, ticket->round);
	return true;
}
