/*
 * totals.h
 *	  The state of a managed bandit: sums over rows of its log.
 *
 * Nothing here reads tables.  The order in which rows are added does not matter,
 * beyond rounding, so that sums can be made in parts and added up.
 */
#ifndef DEXP3_TOTALS_H
#define DEXP3_TOTALS_H

#include "postgres.h"

#include "bandit.h"
#include "rows.h"

#define ANY_HALF_LIFE	(-1)

/* The sums that do not belong to an arm. */
typedef struct Counts
{
	int64		decisions;
	int64		closed;			/* settled in any way */
	int64		skipped;		/* settled by skipping ... */
	int64		expired;		/* ... and by expiry */
	int64		restricted;		/* decisions of "self-tuned" for which not all
								 * arms were allowed */
	double		cumulative_delay;	/* sum of outstanding */
	double		announced_delay;	/* the longest announced; DEDA only */
	double		longest_delay;	/* the longest of those settled */
	double		lbck;			/* DEDA only */
	TimestampTz last_decision;	/* DT_NOBEGIN if there was none; likewise: */
	TimestampTz last_feedback;	/* neither skipped nor expired */

	/*
	 * What only "self-tuned" needs, see Learner.  If the bandit has a
	 * half-life, in these and in ARM_Z a decision that was made at time t
	 * counts 2^(t - half_lives), both in half-lives since the year 2000.  So
	 * sums that refer to different moments are added up after halving those
	 * of the earlier one often enough, which is exact.
	 */
	int64		half_life;		/* that they are weighted with, 0 for none;
								 * ANY_HALF_LIFE if there is nothing in them */
	int64		half_lives;		/* 0 without a half-life */
	double		settled;		/* n */
	double		total_loss;		/* L */
	double		cost;			/* C */
} Counts;

/*
 * The sums of each arm: what every draw needs, what only "deda" needs, and what
 * only reports need.  p and l are the probability and the loss of a decision that
 * has a loss, in the bandit's own units.
 */
typedef enum ArmSum
{
	ARM_Z,						/* of estimates */

	ARM_M,						/* of estimate * probability */
	ARM_TIE_ROUND,				/* the newest round in which feedback arrived */
	ARM_Z_TIE,					/* the part of z that arrived in it ... */
	ARM_M_TIE,					/* ... and that of m */

	ARM_DECISIONS,
	ARM_CLOSED,
	ARM_SETTLED,				/* with a loss: not skipped */
	ARM_LOSS,					/* of l */
	ARM_INVERSE,				/* of 1 / p */
	ARM_INVERSE2,				/* of 1 / p^2 */
	ARM_WEIGHTED,				/* of l / p */
	ARM_WEIGHTED_INVERSE,		/* of l / p^2 */
	ARM_WEIGHTED2				/* of (l / p)^2 */
} ArmSum;

#define NUM_ARM_SUMS	(ARM_WEIGHTED2 + 1)

/* How many of them, from the first on, a learner needs. */
#define LEARNER_SUMS(algorithm) ((algorithm) == DEDA ? ARM_M_TIE + 1 : ARM_Z + 1)

/* All sums of a bandit, or a part of them. */
typedef struct Totals
{
	Counts		counts;
	int			nsums;			/* vectors, from the first on */
	int			arms;			/* their length */
	double	   *sums;
} Totals;

/* What one row adds to them. */
typedef struct Addition
{
	Counts		counts;
	int			arm;
	double		sums[NUM_ARM_SUMS];
} Addition;

static inline double *
totals_vector(const Totals *totals, ArmSum sum)
{
	return totals->sums + (Size) sum * totals->arms;
}

/* The number of rows that have been added up. */
static inline int64
counts_events(const Counts *counts)
{
	return counts->decisions + counts->closed;
}

extern void counts_init(Counts *counts);
extern bool counts_fit(const Counts *counts, int64 half_life);
extern double counts_add(Counts *counts, const Counts *more, double *more_scale);
extern void arm_sums_add(double *sums, Size stride, const double *more,
						 Size more_stride, int nsums, double scale);
extern double half_lives_between(TimestampTz time, int64 half_life, int64 half_lives);

extern void addition_of_decision(Addition *addition, const DecisionRow *row);
extern void addition_of_outcome(Addition *addition, const FeedbackRow *row);
extern void addition_of_feedback(Addition *addition, const FeedbackRow *row,
								 const Bandit *bandit);
extern void expired_feedback(FeedbackRow *row, const ExpiryRow *batch,
							 const DecisionRow *decision, const Bandit *bandit);

extern void totals_init(Totals *totals, int nsums, int arms);
extern void totals_select(const Totals *all, int first_arm, Totals *selected);
extern void totals_grow(Totals *totals, int arms);
extern void totals_add_counts(Totals *totals, const Counts *more, double *more_scale);
extern void totals_refer_to(Totals *totals, int64 half_lives);
extern void totals_add(Totals *totals, const Addition *addition);
extern void totals_add_trimmed(Totals *totals, const TrimmedRow *row);
extern Size totals_sums_size(const Totals *totals);

#endif							/* DEXP3_TOTALS_H */
