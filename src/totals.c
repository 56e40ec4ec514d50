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
static inline double
add_bounded(double a, double b)
{
	double		sum = a + b;

	/* not fmin() and fmax(): this is called for every sum of every row */
	return sum <= DBL_MAX ? (sum >= -DBL_MAX ? sum : -DBL_MAX) : DBL_MAX;
}

/* ----------
 * Forgetting
 * ----------
 */

/*
 * Return how many half-lives, of so many microseconds, a time is after a moment,
 * which is itself counted in half-lives since the year 2000.
 */
double
half_lives_between(TimestampTz time, int64 half_life, int64 half_lives)
{
	int64		whole = time / half_life;

	/* only the rest is rounded */
	return (double) whole - (double) half_lives +
		(double) (time - whole * half_life) / (double) half_life;
}

/*
 * Return what sums that refer to a moment must be multiplied by to refer to a later one.
 */
static double
halved(int64 half_lives, int64 later)
{
	return half_lives == later ? 1 : exp2((double) half_lives - (double) later);
}

void
counts_init(Counts *counts)
{
	memset(counts, 0, sizeof(Counts));
	counts->last_decision = DT_NOBEGIN;
	counts->last_feedback = DT_NOBEGIN;
	counts->half_life = ANY_HALF_LIFE;
}

/*
 * May counts be added to others that are weighted with this half-life?  It may have
 * been changed by bandit_alter() since.
 */
bool
counts_fit(const Counts *counts, int64 half_life)
{
	return counts->half_life == ANY_HALF_LIFE || half_life == ANY_HALF_LIFE ||
		counts->half_life == half_life;
}

/*
 * Add counts, and let them refer to the later of their moments.  Returns what the sums of
 * arms that belong to the former must be multiplied by, and sets *more_scale to the same
 * for the latter.  Their half-lives must fit.
 */
double
counts_add(Counts *counts, const Counts *more, double *more_scale)
{
	int64		later = Max(counts->half_lives, more->half_lives);
	double		scale = halved(counts->half_lives, later);

	*more_scale = halved(more->half_lives, later);
	counts->half_lives = later;
	if (more->half_life != ANY_HALF_LIFE)
		counts->half_life = more->half_life;
	counts->settled = counts->settled * scale + more->settled * *more_scale;
	counts->total_loss = counts->total_loss * scale + more->total_loss * *more_scale;
	counts->cost = add_bounded(counts->cost * scale, more->cost * *more_scale);
	counts->decisions += more->decisions;
	counts->closed += more->closed;
	counts->skipped += more->skipped;
	counts->expired += more->expired;
	counts->restricted += more->restricted;
	counts->cumulative_delay += more->cumulative_delay;
	counts->announced_delay = fmax(counts->announced_delay, more->announced_delay);
	counts->longest_delay = fmax(counts->longest_delay, more->longest_delay);
	counts->lbck = add_bounded(counts->lbck, more->lbck);
	counts->last_decision = Max(counts->last_decision, more->last_decision);
	counts->last_feedback = Max(counts->last_feedback, more->last_feedback);
	return scale;
}

/*
 * Add to the sums of an arm.  The strides say how far apart they are, and the scale
 * how much the other z counts.
 *
 * Ties: for each arm, the sums over the newest round in which feedback for it arrived are
 * kept, whatever the order in which the rows come.
 */
void
arm_sums_add(double *sums, Size stride, const double *more, Size more_stride, int nsums,
			 double scale)
{
	bool		older = false;

	if (nsums > ARM_Z)
		sums[ARM_Z * stride] = add_bounded(sums[ARM_Z * stride],
										   more[ARM_Z * more_stride] * scale);
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
	for (int i = ARM_Z + 1; i < nsums; i++)
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
	addition->counts.restricted = row->ticket.mass != 1;
	addition->counts.cumulative_delay = (double) row->outstanding;
	addition->counts.announced_delay = fmax((double) row->delay, 0);
	addition->counts.last_decision = row->decided_at;
	addition->arm = row->ticket.arm;
	addition->sums[ARM_DECISIONS] = 1;
}

/*
 * Set the sums that a report is made of.
 */
static void
add_outcome(Addition *addition, const FeedbackRow *row)
{
	/* nothing of ours writes a probability of 0 */
	double		inverse = row->probability > 0 ? 1 / row->probability : 0;
	double	   *sums = addition->sums;

	sums[ARM_SETTLED] = 1;
	sums[ARM_LOSS] = row->loss;
	sums[ARM_INVERSE] = inverse;
	sums[ARM_INVERSE2] = inverse * inverse;
	sums[ARM_WEIGHTED] = row->loss * inverse;
	sums[ARM_WEIGHTED_INVERSE] = row->loss * inverse * inverse;
	sums[ARM_WEIGHTED2] = row->loss * inverse * (row->loss * inverse);
}

/*
 * Work out what a row of dexp3.feedback adds to the sums that a report is made of.
 */
void
addition_of_outcome(Addition *addition, const FeedbackRow *row)
{
	memset(addition, 0, sizeof(Addition));
	addition->arm = row->terms.arm;
	add_outcome(addition, row);
}

/*
 * Work out what a row of dexp3.feedback adds to the sums of its bandit.
 */
void
addition_of_feedback(Addition *addition, const FeedbackRow *row, const Bandit *bandit)
{
	const FeedbackTerms *terms = &row->terms;
	double	   *sums = addition->sums;
	double		weight = 1;
	double		loss;

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

	if (bandit->half_life != 0)
	{
		/*
		 * the clock may have been wrong; no decision is later than its
		 * feedback
		 */
		TimestampTz decided_at = row->decided_at == DT_NOBEGIN ?
			row->received_at : Min(row->decided_at, row->received_at);

		addition->counts.half_lives = decided_at / bandit->half_life;
		weight = exp2(half_lives_between(decided_at, bandit->half_life,
										 addition->counts.half_lives));
	}
	loss = bandit_scaled_loss(bandit, row->loss);
	addition->counts.half_life = bandit->half_life;
	addition->counts.settled = weight;
	addition->counts.total_loss = weight * loss;
	addition->counts.cost = weight * terms->mass * (loss - terms->baseline);

	add_outcome(addition, row);
	sums[ARM_Z] = weight * terms->estimate;
	sums[ARM_M] = terms->expected;
	sums[ARM_TIE_ROUND] = (double) row->round;
	sums[ARM_Z_TIE] = terms->estimate;
	sums[ARM_M_TIE] = terms->expected;
}

/*
 * Make the row of dexp3.feedback that says the same about a decision as a row of
 * dexp3.expiry does.
 */
void
expired_feedback(FeedbackRow *row, const ExpiryRow *batch, const DecisionRow *decision,
				 const Bandit *bandit)
{
	const Ticket *ticket = &decision->ticket;
	FeedbackTerms *terms = &row->terms;

	memset(row, 0, sizeof(FeedbackRow));
	row->decision_id = decision->decision_id;
	row->bandit_id = batch->bandit_id;
	row->epoch = batch->epoch;
	row->round = Max(batch->round, ticket->round);
	row->settled_by = SETTLED_BY_EXPIRY;
	row->loss = batch->loss;
	row->probability = ticket->probability;
	row->received_at = batch->received_at;
	row->decided_at = bandit->half_life != 0 ? decision->decided_at : DT_NOBEGIN;
	row->xact = batch->xact;
	terms->arm = ticket->arm;
	terms->delay = row->round - ticket->round;
	terms->baseline = batch->baseline;
	terms->mass = ticket->mass;
	/* nothing of ours writes a probability of 0 */
	if (ticket->probability > 0)
		terms->estimate = learner_estimate(ticket, bandit_scaled_loss(bandit, batch->loss),
										   batch->baseline);
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
 * Copy the sums of some arms, from the given one on, into vectors that are there.  Arms
 * that do not exist have sums of 0.
 */
void
totals_select(const Totals *all, int first_arm, Totals *selected)
{
	int			n = Min(selected->arms, Max(all->arms - first_arm, 0));

	for (int i = 0; i < selected->nsums; i++)
	{
		double	   *vector = totals_vector(selected, i);

		memcpy(vector, totals_vector(all, i) + first_arm, n * sizeof(double));
		memset(vector + n, 0, (selected->arms - n) * sizeof(double));
	}
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
 * Complain about a row with an impossible arm: somebody has written to the tables.
 */
static void
check_arm(int arm)
{
	if (arm < 0 || arm >= LEARNER_MAX_ARMS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("log of a bandit has a row with arm %d", arm + 1)));
}

/*
 * Add counts, and let the sums of arms refer to the same moment.  *more_scale is what
 * the sums of arms that come with them must be multiplied by.
 */
void
totals_add_counts(Totals *totals, const Counts *more, double *more_scale)
{
	double		scale = counts_add(&totals->counts, more, more_scale);

	for (int i = 0; i < totals->arms && totals->nsums > ARM_Z && scale != 1; i++)
		totals_vector(totals, ARM_Z)[i] *= scale;
}

/*
 * Let sums refer to a moment, in half-lives since the year 2000, if that is later than
 * the one to which they do.
 */
void
totals_refer_to(Totals *totals, int64 half_lives)
{
	Counts		none;
	double		scale;

	counts_init(&none);
	none.half_lives = half_lives;
	totals_add_counts(totals, &none, &scale);
}

void
totals_add(Totals *totals, const Addition *addition)
{
	double		scale;

	check_arm(addition->arm);
	totals_grow(totals, addition->arm + 1);
	totals_add_counts(totals, &addition->counts, &scale);
	arm_sums_add(totals->sums + addition->arm, totals->arms,
				 addition->sums, 1, totals->nsums, scale);
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
		.restricted = row->restricted,
		.cumulative_delay = row->cumulative_delay,
		.announced_delay = row->longest_delay,
		.longest_delay = row->longest_delay,
		.lbck = row->lbck,
		.last_decision = row->last_decision,
		.last_feedback = row->last_feedback,
		.half_life = ANY_HALF_LIFE,
		.half_lives = row->half_lives,
		.settled = row->settled,
		.total_loss = row->total_loss,
		.cost = row->cost
	};
	double		scale;

	if (row->nsums != NUM_ARM_SUMS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("wrong array in dexp3.trimmed")));
	check_arm(row->arms - 1);
	totals_grow(totals, row->arms);
	totals_add_counts(totals, &counts, &scale);
	for (int arm = 0; arm < row->arms; arm++)
		arm_sums_add(totals->sums + arm, totals->arms, row->sums + arm, row->arms,
					 totals->nsums, scale);
}
