/*
 * totals.c
 *	  The state of a managed bandit: sums over rows of its log.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "totals.h"

/*
 * Add up, stopping at the largest double.  No draw of ours comes near it, but
 * a row that was written by hand may, and must not turn a sum into infinity.
 */
static double
add_bounded(double a, double b)
{
	return fmin(a + b, DBL_MAX);
}

void
counts_init(Counts *counts)
{
	memset(counts, 0, sizeof(Counts));
	counts->last_decision = DT_NOBEGIN;
	counts->last_feedback = DT_NOBEGIN;
}

void
counts_add(Counts *counts, const Counts *more)
{
	counts->decisions += more->decisions;
	counts->closed += more->closed;
	counts->skipped += more->skipped;
	counts->expired += more->expired;
	counts->cumulative_delay += more->cumulative_delay;
	counts->announced_delay = fmax(counts->announced_delay, more->announced_delay);
	counts->longest_delay = fmax(counts->longest_delay, more->longest_delay);
	counts->lbck = add_bounded(counts->lbck, more->lbck);
	counts->last_decision = Max(counts->last_decision, more->last_decision);
	counts->last_feedback = Max(counts->last_feedback, more->last_feedback);
}

/*
 * Add to the sums of an arm.  The strides say how far apart they are.
 *
 * Ties: of each arm the sums over the newest round in which feedback for it
 * arrived are kept, whatever the order in which the rows come.
 */
void
arm_sums_add(double *sums, Size stride, const double *more, Size more_stride, int nsums)
{
	bool		older = false;

	if (nsums > ARM_TIE_ROUND)
	{
		double	   *round = &sums[ARM_TIE_ROUND * stride];
		double		more_round = more[ARM_TIE_ROUND * more_stride];

		older = more_round < *round;
		if (more_round > *round)
		{
			*round = more_round;
			sums[ARM_Z_TIE * stride] = 0;
			sums[ARM_M_TIE * stride] = 0;
		}
	}
	for (int i = 0; i < nsums; i++)
	{
		if (i != ARM_TIE_ROUND && !(older && (i == ARM_Z_TIE || i == ARM_M_TIE)))
			sums[i * stride] = add_bounded(sums[i * stride], more[i * more_stride]);
	}
}

/*
 * Work out what a row of dexp3.decision adds.
 */
void
addition_of_decision(Addition *addition, const DecisionRow *row)
{
	memset(addition, 0, sizeof(Addition));
	counts_init(&addition->counts);
	addition->counts.decisions = 1;
	addition->counts.cumulative_delay = (double) row->outstanding;
	addition->counts.announced_delay = fmax((double) row->delay, 0);
	addition->counts.last_decision = row->decided_at;
	addition->arm = row->ticket.arm;
	addition->sums[ARM_DECISIONS] = 1;
}

/*
 * Work out what a row of dexp3.feedback adds.
 */
void
addition_of_feedback(Addition *addition, const FeedbackRow *row)
{
	const FeedbackTerms *terms = &row->terms;
	double	   *sums = addition->sums;
	double		inverse;

	memset(addition, 0, sizeof(Addition));
	counts_init(&addition->counts);
	addition->counts.closed = 1;
	addition->counts.skipped = row->settled_by == SETTLED_BY_SKIPPING;
	addition->counts.expired = row->settled_by == SETTLED_BY_EXPIRY;
	addition->counts.longest_delay = (double) terms->delay;
	addition->counts.lbck = terms->lbck;
	if (row->settled_by == SETTLED_BY_FEEDBACK)
		addition->counts.last_feedback = row->received_at;
	addition->arm = terms->arm;
	sums[ARM_CLOSED] = 1;
	if (row->settled_by == SETTLED_BY_SKIPPING)
		return;

	/* nothing of ours writes a probability of 0 */
	inverse = row->probability > 0 ? 1 / row->probability : 0;
	sums[ARM_Z] = terms->estimate;
	sums[ARM_SETTLED] = 1;
	sums[ARM_LOSS] = row->loss;
	sums[ARM_INVERSE] = inverse;
	sums[ARM_INVERSE2] = inverse * inverse;
	sums[ARM_WEIGHTED] = row->loss * inverse;
	sums[ARM_WEIGHTED_INVERSE] = row->loss * inverse * inverse;
	sums[ARM_WEIGHTED2] = row->loss * inverse * (row->loss * inverse);
	sums[ARM_M] = terms->expected;
	sums[ARM_TIE_ROUND] = (double) row->round;
	sums[ARM_Z_TIE] = terms->estimate;
	sums[ARM_M_TIE] = terms->expected;
}

/*
 * Start with no row.  The vectors are allocated in the current context.
 */
void
totals_init(Totals *totals, int nsums, int arms)
{
	counts_init(&totals->counts);
	totals->nsums = nsums;
	totals->arms = arms;
	totals->sums = palloc0(totals_sums_size(totals));
}

Size
totals_sums_size(const Totals *totals)
{
	return (Size) totals->nsums * totals->arms * sizeof(double);
}

/*
 * Make room for more arms.
 */
void
totals_grow(Totals *totals, int arms)
{
	Totals		larger = *totals;

	if (arms <= totals->arms)
		return;
	larger.arms = arms;
	larger.sums = MemoryContextAllocZero(GetMemoryChunkContext(totals->sums),
										 totals_sums_size(&larger));
	for (int i = 0; i < totals->nsums; i++)
		memcpy(totals_vector(&larger, i), totals_vector(totals, i),
			   totals->arms * sizeof(double));
	pfree(totals->sums);
	*totals = larger;
}

/*
 * Complain about a row whose arm cannot be: somebody has written to the tables.
 */
static void
check_arm(int arm)
{
	if (arm < 0 || arm >= LEARNER_MAX_ARMS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("log of a bandit has a row with arm %d", arm + 1)));
}

void
totals_add(Totals *totals, const Addition *addition)
{
	check_arm(addition->arm);
	totals_grow(totals, addition->arm + 1);
	counts_add(&totals->counts, &addition->counts);
	arm_sums_add(totals->sums + addition->arm, totals->arms,
				 addition->sums, 1, totals->nsums);
}

/*
 * Add a row of dexp3.trimmed: decisions that were all settled, and how.
 */
void
totals_add_trimmed(Totals *totals, const TrimmedRow *row)
{
	Counts		counts = {
		.decisions = row->rounds,
		.closed = row->rounds,
		.skipped = row->skipped,
		.expired = row->expired,
		.cumulative_delay = row->cumulative_delay,
		.announced_delay = row->longest_delay,
		.longest_delay = row->longest_delay,
		.lbck = row->lbck,
		.last_decision = row->last_decision,
		.last_feedback = row->last_feedback
	};

	if (row->nsums != NUM_ARM_SUMS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("wrong array in dexp3.trimmed")));
	check_arm(row->arms - 1);
	totals_grow(totals, row->arms);
	counts_add(&totals->counts, &counts);
	for (int arm = 0; arm < row->arms; arm++)
		arm_sums_add(totals->sums + arm, totals->arms, row->sums + arm, row->arms,
					 totals->nsums);
}
