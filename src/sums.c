/*
 * sums.c
 *	  The sums of a managed bandit at this moment.
 *
 * They are the committed ones, from shared memory, and those of the running
 * transaction.  If shared memory has none, they are made there from a checkpoint
 * and the log.  If that cannot be done, or the transaction has disturbed the log,
 * they are folded for this call alone.
 *
 * If the bandit is shared with other servers, what these have published is kept beside
 * them.  A learner goes by all of them; rounds, checkpoints and what is published are
 * this server's own.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "bandit.h"
#include "clock.h"
#include "component.h"
#include "fold.h"
#include "foreign.h"
#include "log.h"
#include "own.h"
#include "settlement.h"
#include "sums.h"

/* ----------
 * Folding
 * ----------
 */

/*
 * Move the frontier past decisions that are settled, settling none.
 */
static void
pass_settled(const SharedLog *log, const Totals *totals, Frontier *frontier,
			 int64 max_looked_at)
{
	FrontierMove move = {
		.bandit_id = log->bandit_id,
		.epoch = log->epoch,
		.newest_round = totals->counts.decisions,
		.now = time_of_action(),
		.last_in_batch = LAST_NOT_KNOWN,
		.max_looked_at = max_looked_at
	};

	frontier->cursor.next_round = 0;
	frontier_move(frontier, &move);
}

/*
 * Fold the log of a bandit from its newest checkpoint.  Returns how many events the
 * checkpoint covers.
 */
static int64
fold(const Bandit *bandit, Snapshot snapshot, const Moment *moment, bool with_own_rows,
	 Totals *totals, Frontier *frontier)
{
	totals_init(totals, NUM_ARM_SUMS, bandit->params.arms);
	return fold_log(bandit, FOLD_FROM_CHECKPOINT, snapshot, moment, with_own_rows, totals,
					frontier);
}

/*
 * Move the frontier of a checkpoint that covers so many events past what was settled
 * since.  If there was none, look for it.
 *
 * A session that settles decisions looks at few of them at a time.  If the frontier that
 * it leaves behind in shared memory were thrown away each time, it would come to the same
 * settled ones again and again, and never get beyond them.
 */
static void
follow(const SharedLog *log, const Bandit *bandit, const Totals *totals, Frontier *frontier,
	   int64 checkpoint_events)
{
	if (bandit->needs_frontier && !RecoveryInProgress())
		pass_settled(log, totals, frontier,
					 frontier->cursor.xact == 0 ? PG_INT64_MAX :
					 counts_events(&totals->counts) - checkpoint_events);
}

/*
 * Fold the sums for this call, and share them if that is possible.
 */
static void
fold_now(const SharedLog *log, const Bandit *bandit, Totals *totals, Frontier *frontier,
		 bool *checkpoint_due)
{
	bool		disturbed = own_is_disturbed(log->bandit_id, log->epoch);
	Moment		moment;
	Snapshot	snapshot;
	int64		checkpoint_events;
	bool		building;

	moment_init(&moment);
	building = !disturbed &&
		shared_begin_build(log, bandit->params.arms, &snapshot, &moment);
	if (!building)
	{
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		moment_of_snapshot(&moment, snapshot);
	}
	checkpoint_events = fold(bandit, snapshot, &moment, disturbed, totals, frontier);
	follow(log, bandit, totals, frontier, checkpoint_events);
	if (building)
		shared_finish_build(totals, frontier, checkpoint_events,
							settlement_last_in_batch(log->bandit_id, log->epoch, true));
	*checkpoint_due = !disturbed &&
		counts_events(&totals->counts) - checkpoint_events >=
		checkpoint_due_after(totals_sums_size(totals));
	UnregisterSnapshot(snapshot);
	pfree(moment.running);
}

/*
 * Complain if the log has rows of an arm that the bandit does not have.  It may have got
 * the arm a moment ago: then this call does without it.
 */
static void
check_arms(const Bandit *bandit, int log_arms)
{
	if (log_arms > bandit->params.arms &&
		!bandit_has_got_arm(bandit->bandit_id, log_arms - 1))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("log of a bandit with %d arms has a row with arm %d",
						bandit->params.arms, log_arms)));
}

/* ----------
 * Taking sums
 * ----------
 */

/*
 * Read what other servers have published, all sums or z alone, and before that the
 * counter of arrivals.
 */
static void
read_others(const Bandit *bandit, int nsums, Totals *others, uint64 *arrivals)
{
	Snapshot	snapshot;

	*arrivals = foreign_arrivals(bandit->name);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	totals_init(others, nsums, bandit->params.arms);
	component_read_others(bandit, snapshot, others);
	UnregisterSnapshot(snapshot);
}

/*
 * Take the sums of other servers for a learner, from shared memory if they are there.
 */
static void
take_foreign(Sums *sums, const Bandit *bandit)
{
	bool		arrived = own_has_arrival(bandit->name);
	Totals		all;
	uint64		arrivals;

	if (!arrived &&
		foreign_read(&sums->log, bandit, &sums->selection, &sums->foreign))
		return;
	read_others(bandit, 1, &all, &arrivals);
	if (!arrived)
		foreign_keep(&sums->log, bandit, arrivals, &all);
	totals_init(&sums->foreign, 1, sums->selection.arms);
	sums->foreign.counts = all.counts;
	totals_select(&all, sums->selection.first_arm, &sums->foreign);
}

/*
 * Take all that other servers have published, for reports.
 */
void
sums_take_others(Totals *others, const Bandit *bandit)
{
	uint64		arrivals;

	read_others(bandit, NUM_ARM_SUMS, others, &arrivals);
}

/*
 * Forget the sums of other servers.
 */
void
sums_without_others(Sums *sums)
{
	counts_init(&sums->foreign.counts);
	sums->foreign.arms = 0;
	sums->foreign.sums = NULL;
}

/*
 * Take the sums of some arms of a bandit at this moment, nsums of each.  The log's tables
 * are locked first, except with NoLock.  The sums are allocated in the current memory
 * context.
 */
void
sums_take(Sums *sums, const Bandit *bandit, LOCKMODE lockmode, int nsums, int first_arm,
		  int arms)
{
	SharedLog  *log = &sums->log;
	bool		disturbed;

	log->bandit_id = bandit->bandit_id;
	log->epoch = bandit->epoch;
	log->identity = log_lock(lockmode);
	log->half_life = bandit->half_life;
	own_use_log(log->identity);
	own_use_half_life(log->bandit_id, log->epoch, log->half_life);
	disturbed = own_is_disturbed(log->bandit_id, log->epoch);
	sums->selection.nsums = nsums;
	sums->selection.first_arm = first_arm;
	sums->selection.arms = arms;

	if (disturbed || !shared_read(log, &sums->selection, &sums->totals, &sums->frontier,
								  &sums->checkpoint_due, &sums->last_in_batch))
	{
		Totals		all;

		fold_now(log, bandit, &all, &sums->frontier, &sums->checkpoint_due);
		check_arms(bandit, all.arms);
		totals_init(&sums->totals, nsums, arms);
		sums->totals.counts = all.counts;
		totals_select(&all, first_arm, &sums->totals);
		sums->last_in_batch = LAST_NOT_KNOWN;
	}
	if (!disturbed)
		own_add_to(log->bandit_id, log->epoch, &sums->selection, &sums->totals);
	if (bandit->shared)
		take_foreign(sums, bandit);
	else
		sums_without_others(sums);
}

static double
limit(double sum)
{
	/* never -0, which is not canonical */
	return fmax(fmin(sum, LEARNER_MAX_SUM), -LEARNER_MAX_SUM) + 0.0;
}

/*
 * Return how much something that happened at a given time counts.
 */
double
sums_fading(const Bandit *bandit, TimestampTz time)
{
	double		age = (double) time_of_action() - (double) time;

	return bandit->half_life == 0 ? 1 : exp2(-fmax(age, 0) / (double) bandit->half_life);
}

/*
 * Return what sums must be multiplied by to be weighted as at this moment.
 */
static double
weight_now(const Counts *counts, const Bandit *bandit)
{
	if (bandit->half_life == 0)
		return 1;
	/* a clock that was far ahead for a moment must not make an infinity */
	return exp2(fmin(-half_lives_between(time_of_action(), bandit->half_life,
										 counts->half_lives), 1000));
}

/*
 * Give a "self-tuned" learner its sums, as they are weighted at this moment.  Numbers
 * that were written to a row by hand must not become too large.
 */
static void
weigh_sums(const Sums *sums, const Bandit *bandit, const double *head_start,
		   Learner *learner)
{
	const Counts *counts = &sums->totals.counts;
	const Counts *foreign = &sums->foreign.counts;
	const double *foreign_z = sums->foreign.sums;
	double		fade = sums_fading(bandit, bandit->arms_changed_at);
	double		scale = weight_now(counts, bandit);
	double		foreign_scale = foreign_z == NULL ? 0 : weight_now(foreign, bandit);

	learner->settled = fmax(limit(scale * counts->settled +
								  foreign_scale * foreign->settled), 0);
	learner->total_loss = fmin(fmax(limit(scale * counts->total_loss +
										  foreign_scale * foreign->total_loss), 0),
							   learner->settled);
	learner->cost = limit(scale * counts->cost + fade * bandit->cost_offset +
						  foreign_scale * foreign->cost);
	for (int i = 0; i < learner->params.arms; i++)
		learner->z[i] = limit(scale * learner->z[i] +
							  (head_start != NULL ? fade * head_start[i] : 0) +
							  (foreign_z != NULL ? foreign_scale * foreign_z[i] : 0));
}

/*
 * Make a learner of sums, once.  It takes over the sums, and what arms began with is
 * added to z.  Its arms are the selected ones.
 *
 * What a transaction has committed counts a moment after others can see its rows.
 * So in the meantime there may be more decisions settled than made.
 */
void
sums_learner(const Sums *sums, const Bandit *bandit, Learner *learner)
{
	const Totals *totals = &sums->totals;
	const Counts *counts = &totals->counts;
	const double *head_start = bandit->head_start == NULL ? NULL :
		bandit->head_start + sums->selection.first_arm;
	LearnerParams params = bandit->params;

	params.arms = totals->arms;
	learner_init(learner, &params, totals_vector(totals, ARM_Z));
	if (bandit->retired != NULL && totals->arms == bandit->params.arms)
		learner_retire(learner, bandit->retired);
	learner->playable = bandit->playable;
	if (params.algorithm == SELF_TUNED)
		weigh_sums(sums, bandit, head_start, learner);
	else if (head_start != NULL)
	{
		for (int i = 0; i < totals->arms; i++)
			learner->z[i] += head_start[i];
	}
	learner->round = counts->decisions;
	learner->outstanding = Max(counts->decisions - counts->closed, 0);
	learner->cumulative_delay = counts->cumulative_delay;
	if (params.algorithm == DEDA)
	{
		const double *tie_round = totals_vector(totals, ARM_TIE_ROUND);

		learner->m = totals_vector(totals, ARM_M);
		learner->z_tie = totals_vector(totals, ARM_Z_TIE);
		learner->m_tie = totals_vector(totals, ARM_M_TIE);
		for (int i = 0; i < totals->arms; i++)
		{
			/* ties are about the newest round only */
			if (tie_round[i] != (double) learner->round)
				learner->z_tie[i] = learner->m_tie[i] = 0;
		}
		learner->lbck = counts->lbck;
		learner->longest_delay = fmax(learner->longest_delay,
									  fmax(counts->announced_delay, counts->longest_delay));
	}
}

/*
 * The same for a look at the bandit, where the rounds of other servers count, too.
 */
void
sums_learner_of_all(const Sums *sums, const Bandit *bandit, Learner *learner)
{
	const Counts *foreign = &sums->foreign.counts;

	sums_learner(sums, bandit, learner);
	learner->round += foreign->decisions;
	learner->outstanding += Max(foreign->decisions - foreign->closed, 0);
}

void
sums_add_decision(const DecisionRow *row)
{
	Addition	addition;

	addition_of_decision(&addition, row);
	own_add(row->bandit_id, row->epoch, &addition);
}

void
sums_add_feedback(const FeedbackRow *row, const Bandit *bandit)
{
	Addition	addition;

	addition_of_feedback(&addition, row, bandit);
	own_add(row->bandit_id, row->epoch, &addition);
}

/* ----------
 * Checkpoints
 * ----------
 */

#ifdef USE_ASSERT_CHECKING
/*
 * Check the shared sums against a fold of the log, if nobody else is at work.  A
 * transaction that has just finished adds its sums a moment later, so give it
 * that moment.
 */
static void
assert_agreement(const SharedLog *log, const Totals *folded, const Moment *moment)
{
	Selection	selection = {.nsums = NUM_ARM_SUMS};
	Totals		shared;
	Frontier	frontier;
	Moment		now;
	int64		last;
	bool		due;

	moment_init(&now);
	for (int i = 0; i < 1000; i++)
	{
		bool		found = shared_read(log, &selection, &shared, &frontier, &due, &last);

		moment_of_snapshot(&now, GetLatestSnapshot());
		if (!found || now.next != moment->next || now.nrunning != moment->nrunning ||
			memcmp(now.running, moment->running, now.nrunning * sizeof(uint64)) != 0)
			return;				/* something has happened since */
		if (shared.counts.decisions == folded->counts.decisions &&
			shared.counts.closed == folded->counts.closed)
			return;
		pg_usleep(1000);
	}
	elog(PANIC, "sums in shared memory are not those of the log");
}
#endif

/*
 * Write a checkpoint if one is due and nobody else does; then return true, and
 * what it covers.
 *
 * It does not depend on the sums in shared memory: it is the last one and what has
 * been added to the log since.
 */
bool
sums_write_checkpoint(const Sums *sums, const Bandit *bandit, Moment *covered)
{
	const SharedLog *log = &sums->log;
	Totals		totals;
	Frontier	frontier;
	Snapshot	snapshot;
	int64		made_from;
	Selection	nothing = {0};
	Totals		none;
	Frontier	shared;
	int64		last;
	bool		due;

	if (!sums->checkpoint_due || own_is_disturbed(log->bandit_id, log->epoch) ||
		own_has_checkpoint(log->bandit_id, log->epoch) ||
		(entries_are_attached() && !shared_claim_checkpoint(log)) ||
		!checkpoint_lock_to_write())
		return false;

	moment_init(covered);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	moment_of_snapshot(covered, snapshot);
	made_from = fold(bandit, snapshot, covered, false, &totals, &frontier);
#ifdef USE_ASSERT_CHECKING
	if (entries_are_attached())
		assert_agreement(log, &totals, covered);
#endif

	/*
	 * the shared frontier is further on; if there is none, it is not true any
	 * more
	 */
	if (bandit->needs_frontier)
	{
		if (shared_read(log, &nothing, &none, &shared, &due, &last))
			frontier_copy(&frontier, &shared);
		follow(log, bandit, &totals, &frontier, made_from);
		shared_publish_frontier(log, &frontier);
	}
	checkpoint_write(log->bandit_id, log->epoch, &totals, &frontier, covered, made_from);
	own_note_checkpoint(log->bandit_id, log->epoch);
	UnregisterSnapshot(snapshot);
	pfree(totals.sums);
	return true;
}

/*
 * Fold the whole log of a bandit whose half-life this transaction has changed, and write
 * a checkpoint, from which all others can begin.  Those before it are removed, even with
 * the same half-life: meanwhile, what was trimmed has faded with another one.
 */
void
sums_fold_anew(const Bandit *bandit)
{
	SharedLog	log = {
		.bandit_id = bandit->bandit_id,
		.epoch = bandit->epoch,
		.identity = log_lock(AccessShareLock)
	};
	Totals		totals;
	Frontier	frontier;
	Snapshot	snapshot;
	Moment		moment;

	if (!checkpoint_lock_to_write())
		return;
	moment_init(&moment);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	moment_of_snapshot(&moment, snapshot);
	totals_init(&totals, NUM_ARM_SUMS, bandit->params.arms);
	(void) fold_log(bandit, FOLD_FROM_START, snapshot, &moment, false, &totals, &frontier);
	if (bandit->needs_frontier)
		pass_settled(&log, &totals, &frontier, PG_INT64_MAX);
	checkpoint_remove(log.bandit_id);
	checkpoint_write(log.bandit_id, log.epoch, &totals, &frontier, &moment, 0);
	UnregisterSnapshot(snapshot);
	pfree(totals.sums);
}

/*
 * Move the frontier up to the first decision that is open.
 */
void
sums_pass_settled(Sums *sums)
{
	pass_settled(&sums->log, &sums->totals, &sums->frontier, PG_INT64_MAX);
	if (!own_is_disturbed(sums->log.bandit_id, sums->log.epoch))
		shared_publish_frontier(&sums->log, &sums->frontier);
}

static bool
take_first(void *context, const DecisionRow *row)
{
	*(DecisionRow *) context = *row;
	return false;
}

/*
 * Find the first decision that is open; false if there is none.  The bandit must be one
 * that needs a frontier.
 */
bool
sums_first_open(Sums *sums, DecisionRow *first)
{
	const Counts *counts = &sums->totals.counts;

	first->decision_id = 0;
	if (counts->closed < counts->decisions)
	{
		sums_pass_settled(sums);
		frontier_visit_open(&sums->frontier, sums->log.bandit_id, sums->log.epoch,
							take_first, first);
	}
	return first->decision_id != 0;
}

/*
 * Take all sums, and fold the log from its start, at the same moment.  On a bandit
 * that is in use the two may still differ by a transaction that has just
 * finished: then try again.
 */
void
sums_take_twice(const Bandit *bandit, Totals *running, Totals *folded)
{
	int			arms = bandit->params.arms;
	Sums		before = {0};	/* an analyser does not see that it is filled */
	Sums		after = {0};
	Frontier	frontier;
	Moment		moment;
	Snapshot	snapshot = NULL;

	moment_init(&moment);
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (snapshot != NULL)
			UnregisterSnapshot(snapshot);
		sums_take(&before, bandit, AccessShareLock, NUM_ARM_SUMS, 0, arms);
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		sums_take(&after, bandit, AccessShareLock, NUM_ARM_SUMS, 0, arms);
	} while (counts_events(&before.totals.counts) != counts_events(&after.totals.counts));

	moment_of_snapshot(&moment, snapshot);
	totals_init(folded, NUM_ARM_SUMS, arms);
	(void) fold_log(bandit, FOLD_FROM_START, snapshot, &moment, true, folded, &frontier);
	UnregisterSnapshot(snapshot);
	*running = before.totals;
}
