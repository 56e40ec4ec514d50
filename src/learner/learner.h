/*
 * learner.h
 *	  The learners as plain C: our own, which tunes itself, and those of Gyorgy and
 *	  Joulani, "Adapting to Delays and Data in Adversarial Multi-Armed Bandits".
 *
 * Nothing in this directory knows PostgreSQL: no fmgr, no ereport, no palloc.
 * The caller owns all memory and has checked all input; see
 * learner_params_problem() and learner_ticket_problem() for what counts as
 * checked.
 *
 * Numeric range: with up to LEARNER_MAX_ARMS arms and LEARNER_MAX_ROUNDS
 * rounds every quantity stays finite and the probabilities sum to 1 up to
 * rounding.  Weights are never stored, only sums of loss estimates; the
 * smallest sum is subtracted before exponentiating, so the largest weight is
 * exactly 1 and the sum of weights is never 0.
 */
#ifndef DEXP3_LEARNER_H
#define DEXP3_LEARNER_H

#include <stdbool.h>
#include <stdint.h>

#include "openrounds.h"

#define LEARNER_MIN_ARMS	2
#define LEARNER_MAX_ARMS	65535

/* Every round number is exact in a double. */
#define LEARNER_MAX_ROUNDS	(INT64_C(1) << 53)

/* No delay was announced, or no bound on the delay is known. */
#define NO_DELAY			(-1)

/* What a half-life may be, in rounds.  NO_HALF_LIFE: nothing is forgotten. */
#define NO_HALF_LIFE		0.0
#define LEARNER_MIN_HALF_LIFE	0.001
#define LEARNER_MAX_HALF_LIFE	((double) LEARNER_MAX_ROUNDS)

/* No sum of SELF_TUNED is larger, so that differences of two are finite. */
#define LEARNER_MAX_SUM		1e300

typedef enum Algorithm
{
	DADA = 0,					/* DAda-Exp3, estimate (1), Corollary 3.2 */
	DADA_IX = 1,				/* with implicit exploration, Corollary 4.2 */
	DEDA = 2,					/* DeDa-Exp3, Algorithm 1 */
	SELF_TUNED = 3				/* doc/algorithms.md */
} Algorithm;

#define NUM_ALGORITHMS		4

/* What is fixed when a learner is made. */
typedef struct LearnerParams
{
	int32_t		arms;			/* K */
	Algorithm	algorithm;
	bool		skipping;		/* DADA and DADA_IX only */
	int32_t		patience;		/* rounds that are always waited for, if
								 * skipping */
	int32_t		max_delay;		/* d^B of DEDA, or NO_DELAY */
	double		step_scale;		/* c; DADA and DADA_IX, otherwise 1 */
	double		optimism;		/* f; SELF_TUNED only, otherwise 0 */
	double		half_life;		/* in rounds; SELF_TUNED only */
} LearnerParams;

/*
 * Everything a learner remembers between two operations.  Quantities with an
 * index t are those after round t, the newest.
 */
typedef struct Learner
{
	LearnerParams params;
	const bool *retired;		/* arms not to be drawn any more; NULL: none */
	int32_t		playable;		/* K: how many of the arms are left */
	double		log_arms;		/* ln K */

	int64_t		round;			/* t, the number of decisions made */
	int64_t		outstanding;	/* those neither settled nor skipped */
	double		cumulative_delay;	/* D_t = sum of tau_s for s <= t; an
									 * integer */
	double	   *z;				/* K sums of loss estimates */

	/*
	 * SELF_TUNED only; otherwise 0.  Sums over settled decisions.  With a
	 * half-life h, in these and in z a decision of round s counts 2^((s - r)
	 * / h), where r is the last multiple of h that is not after round t.
	 */
	double		settled;		/* n, their number */
	double		total_loss;		/* L, of their losses */
	double		cost;			/* C, of their losses less the baselines */
	double		last_v;			/* v of the last draw, a good guess of the
								 * next one; or 0 */

	/* DEDA only; otherwise 0 and NULL */
	double		longest_delay;	/* d*_t; an integer */
	double		lbck;			/* Lbck_t */
	double	   *m;				/* K sums of estimate * probability */
	double	   *z_tie;			/* the part of z that arrived since round t
								 * ... */
	double	   *m_tie;			/* ... and that of m */

	/* skipping only; otherwise empty */
	OpenRounds	open;			/* which rounds are outstanding */
} Learner;

/*
 * What must be remembered of a decision until its feedback arrives.  The loss
 * estimate is zero for every arm but the one played, so these few numbers are
 * all that Algorithm 1 ever needs back of its vectors m_s, z_s and p_s.
 */
typedef struct Ticket
{
	int64_t		round;			/* s */
	int32_t		arm;			/* A_s, counted from 0 */
	double		probability;	/* p_s,arm, as used in the draw */
	double		gamma;			/* gamma_s; 0 with DADA */
	double		z;				/* z_s,arm; 0 unless DEDA */
	double		m;				/* m_s,arm; 0 unless DEDA */
	double		mass;			/* SELF_TUNED: the probability of all arms
								 * that could be drawn, before the others were
								 * excluded; 1 if none was */
} Ticket;

/* What one feedback adds to the learner's sums. */
typedef struct FeedbackTerms
{
	int32_t		arm;
	int64_t		delay;			/* d_s */
	double		estimate;		/* of the loss, or of what it has beyond the
								 * baseline; to z */
	double		expected;		/* estimate * probability, to m; DEDA only */
	double		lbck;			/* to Lbck; DEDA only */
	double		baseline;		/* o; SELF_TUNED only, otherwise 0 */
	double		mass;			/* that of the ticket */
} FeedbackTerms;

/* How many vectors of length K a learner has: z, and with DEDA m, z_tie, m_tie. */
#define NUM_VECTORS(algorithm)	((algorithm) == DEDA ? 4 : 1)

/* The names that SQL knows the algorithms by. */
extern const char *algorithm_name(Algorithm algorithm);
extern bool algorithm_by_name(const char *name, Algorithm *algorithm);

extern void learner_init(Learner *learner, const LearnerParams *params,
						 double *vectors);

extern void learner_retire(Learner *learner, const bool *retired);

/* Checks.  Each returns NULL, or says in a few words what is wrong. */
extern const char *learner_params_problem(const LearnerParams *params);
extern const char *learner_ticket_problem(const Learner *learner,
										  const Ticket *ticket);

/* The formulas. */
extern double learner_step_size(const Learner *learner, int64_t delay,
								double *weights);
extern double learner_weights(const Learner *learner, double step_size,
							  const bool *excluded, double *weights);
extern void learner_pick(const Learner *learner, int64_t delay, double uniform,
						 const bool *excluded, double *weights,
						 Ticket *ticket, double *step_size);
extern int64_t learner_first_in_time(const Learner *learner);
extern int64_t learner_open_words_in_draw(const Learner *learner);
extern bool learner_has_regret_bound(const Learner *learner);
extern double learner_regret_bound(const Learner *learner, double step_size,
								   double skipped, double longest_delay,
								   double delta);
extern double learner_regret_estimate(const Learner *learner, double step_size);
extern double learner_regret_of_gamma(double inverse_gamma, int arms);
extern double learner_cost_for(const Learner *learner, double step_size,
							   double *weights);
extern double learner_baseline(const Learner *learner);
extern double learner_estimate(const Ticket *ticket, double loss, double baseline);
extern void learner_feedback(const Learner *learner, const Ticket *ticket,
							 double loss, FeedbackTerms *terms);
extern void learner_add_feedback(Learner *learner, const FeedbackTerms *terms,
								 double loss);

/* One round, and one feedback, of sequential play. */
extern void learner_draw(Learner *learner, int64_t delay, double uniform,
						 double *weights, Ticket *ticket, double *step_size);
extern double learner_next(const Learner *learner, int64_t delay, double *weights,
						   double *total);
extern void learner_play(Learner *learner, int64_t delay, int32_t arm,
						 const double *weights, double total, double step_size,
						 Ticket *ticket);
extern bool learner_learn(Learner *learner, const Ticket *ticket, double loss);

#endif							/* DEXP3_LEARNER_H */
