/*
 * catchup.c
 *	  Bringing the state of a managed bandit up to date.
 *
 * Only rows of transactions that have finished since are read: from shared memory
 * if all of them are there, otherwise from the log.
 *
 * Rows that are removed.  Old settled rows may be replaced by their sums, see
 * trim.c.  States that hold them are not affected.  One that does not, because it
 * is that old, or misses them because they vanished while it was being folded,
 * cannot be brought up to date: it must be folded anew, at last from the sums and
 * what is left of the log.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"

#include "bandit.h"
#include "catchup.h"
#include "log.h"
#include "recent.h"

/*
 * Transactions that were still running and so far back or less are found by
 * the scan of the log's end; each older one gets a look-up of its own.
 */
#define RECENT_XACTS		256

typedef struct CatchUp
{
	Followed   *state;
	uint64		mine;			/* our transaction, 0 if it has no identifier */
	bool		has_own;		/* were there rows of ours? */
	bool		complete;		/* false if rows are missing */
	int64		rows_in_log;	/* for an assertion */
	Progress   *progress;		/* or NULL */
} CatchUp;

/*
 * Is a row of this transaction new to the state?
 */
static bool
is_new(void *context, uint64 xact)
{
	CatchUp    *catch_up = context;
	const Followed *state = catch_up->state;

	if (xact == state->own_xact)
		return false;
	if (xact == catch_up->mine)
	{
		catch_up->has_own = true;
		return true;
	}
	return seen_includes(&state->next_seen, xact) &&
		!seen_includes(&state->seen, xact);
}

static void
report_progress(const CatchUp *catch_up)
{
	if (catch_up->progress != NULL && catch_up->state->fold.events % 1024 == 0)
		progress_report(catch_up->progress, catch_up->state->fold.events);
}

static void
visit_decision(void *context, const void *row)
{
	fold_decision(&((CatchUp *) context)->state->fold, row);
	report_progress(context);
}

/*
 * Is this the number of an arm that was added since our caller has looked the
 * bandit up?  Then what is about it cannot be folded; the state will do for this
 * call, without those losses, and is thrown away after it.
 */
static bool
is_added_arm(Followed *state, int arm)
{
	if (arm < state->fold.learner.params.arms)
		return false;
	if (!state->outdated)
		state->outdated = bandit_has_got_arm(state->bandit_id, arm);
	return state->outdated;
}

static void
visit_settlement(void *context, const void *row)
{
	Followed   *state = ((CatchUp *) context)->state;
	Settlement	settlement = *(const Settlement *) row;

	if (!settlement.skipped && is_added_arm(state, settlement.feedback.arm))
	{
		settlement.skipped = true;
		row = &settlement;
	}
	fold_settlement(&state->fold, row);
	report_progress(context);
}

static void
visit_trimmed(void *context, const void *row)
{
	Followed   *state = ((CatchUp *) context)->state;
	Trimmed		trimmed = *(const Trimmed *) row;

	if (is_added_arm(state, trimmed.arms - 1))
	{
		trimmed.arms = state->fold.learner.params.arms;
		row = &trimmed;
	}
	fold_trimmed(&state->fold, row);
}

/*
 * Is this a removal of rows that the state may not know of?
 */
static bool
is_unknown(void *context, uint64 xact)
{
	return !seen_includes(&((CatchUp *) context)->state->seen, xact);
}

/*
 * Check that the rows which this removal took away are in the state.  That is so
 * if all transactions up to the newest that wrote one of them had been folded
 * before, save those that are still running.
 */
static void
check_removal(void *context, const void *row)
{
	CatchUp    *catch_up = context;
	const Followed *state = catch_up->state;
	const Trimmed *trimmed = row;
	const Seen *seen = &state->seen;

	if (seen->next == 0)
	{
		/* the state was folded from scratch: removals up to now are in it */
		if (trimmed->xact != catch_up->mine &&
			!seen_includes(&state->next_seen, trimmed->xact))
			catch_up->complete = false;
		return;
	}
	if (seen->next <= trimmed->newest_xact)
		catch_up->complete = false;
	for (int i = 0; i < seen->nrunning && seen->running[i] <= trimmed->newest_xact; i++)
	{
		if (!seen_is_running(&state->next_seen, seen->running[i]))
			catch_up->complete = false;
	}
}

/*
 * Check all removals that the state may not know of.  Those of transactions that
 * have been running for long get a look-up each: in the meantime there may have
 * been many others, which would be walked over again and again.
 */
static void
check_removals(CatchUp *context)
{
	const Followed *state = context->state;
	const Seen *seen = &state->seen;
	uint64		from = seen->next;

	for (int i = seen->nrunning - 1; i >= 0; i--)
	{
		if (seen->running[i] + RECENT_XACTS >= seen->next)
			from = seen->running[i];
		else
			log_scan(LOG_TRIMMED, state->bandit_id, state->epoch,
					 seen->running[i], seen->running[i] + 1,
					 is_unknown, check_removal, context);
	}
	log_scan(LOG_TRIMMED, state->bandit_id, state->epoch, from, PG_UINT64_MAX,
			 is_unknown, check_removal, context);
}

/*
 * Fold a table's rows that are new.  The ranges overlap with nothing: older
 * stragglers are all before `from`.
 */
static void
fold_new_rows(CatchUp *catch_up, LogTable table, LogVisitor visit,
			  uint64 from, uint64 before)
{
	Followed   *state = catch_up->state;
	const Seen *seen = &state->seen;

	for (int i = 0; i < seen->nrunning && seen->running[i] < from; i++)
	{
		uint64		xact = seen->running[i];

		if (!seen_is_running(&state->next_seen, xact))
			log_scan(table, state->bandit_id, state->epoch, xact, xact + 1,
					 is_new, visit, catch_up);
	}
	if (from < before)
		log_scan(table, state->bandit_id, state->epoch, from, before,
				 is_new, visit, catch_up);
}

#ifdef USE_ASSERT_CHECKING
static void
count_row(void *context, const void *row pg_attribute_unused())
{
	((CatchUp *) context)->rows_in_log++;
}
#endif

/*
 * The same for both tables, from what is in shared memory.  Returns false, with
 * nothing done, if that is not all.
 */
static bool
fold_recent_rows(CatchUp *catch_up, uint64 from, uint64 before)
{
	Followed   *state = catch_up->state;
	const Seen *seen = &state->seen;
#ifdef USE_ASSERT_CHECKING
	int64		events = state->fold.events;
#endif

	for (int i = 0; i < seen->nrunning && seen->running[i] < from; i++)
	{
		if (!seen_is_running(&state->next_seen, seen->running[i]))
			return false;
	}
	if (!recent_scan(state->bandit_id, state->epoch, from, before, is_new,
					 visit_decision, visit_settlement, catch_up))
		return false;

#ifdef USE_ASSERT_CHECKING
	/* the log must have as many, unless rows, or the bandit, have been removed */
	if (!state->may_be_trimmed)
	{
		fold_new_rows(catch_up, LOG_DECISIONS, count_row, from, before);
		fold_new_rows(catch_up, LOG_SETTLEMENTS, count_row, from, before);
		Assert(catch_up->rows_in_log == state->fold.events - events ||
			   (catch_up->rows_in_log < state->fold.events - events &&
				!bandit_has_got_arm(state->bandit_id, 0)));
	}
#endif
	return true;
}

/*
 * Bring a state up to date, or to a certain later moment.  A new one, not valid
 * yet, may lack rows that this transaction has written; an old one holds them.
 * Returns false, with the state not valid, if rows that it needs have been
 * removed.
 */
bool
bring_up_to_date(Followed *state, const Seen *moment, Progress *progress)
{
	CatchUp		catch_up = {
		.state = state,
		.mine = U64FromFullTransactionId(GetTopFullTransactionIdIfAny()),
		.complete = true,
		.progress = progress
	};
	bool		made_now = !state->valid;
	Progress	of_new;
	const Seen *seen = &state->seen;
	Seen		swap;
	uint64		from;
	uint64		before;

	if (moment != NULL)
		seen_copy(&state->next_seen, moment);
	else
		seen_now(&state->next_seen);

	/* if nothing has happened since, it ends here: bulk operations rely on it */
	if (!made_now && seen->next == state->next_seen.next &&
		seen->nrunning == state->next_seen.nrunning)
		return true;

	/*
	 * New rows can only come from transactions that were running or had not
	 * begun.  Of those that were running, only the ones that no longer are
	 * matter; the lowest that is not too far back is where the scan begins.
	 */
	from = seen->next;
	for (int i = seen->nrunning - 1; i >= 0; i--)
	{
		if (seen->running[i] + RECENT_XACTS < seen->next)
			break;
		if (!seen_is_running(&state->next_seen, seen->running[i]))
			from = seen->running[i];
	}
	before = Max(state->next_seen.next, catch_up.mine + 1);
	if (from == state->own_xact)
		from++;					/* often this leaves nothing to read */

	/* a long log without a checkpoint takes its time */
	if (made_now && progress == NULL)
	{
		progress_start(&of_new, "rows", 0);
		catch_up.progress = &of_new;
	}

	state->valid = false;
	if (made_now || !fold_recent_rows(&catch_up, from, state->next_seen.next))
	{
		/* a decision must be there before its settlement */
		if (state->may_be_trimmed && seen->next == 0)
			log_scan(LOG_TRIMMED, state->bandit_id, state->epoch, from, before,
					 is_new, visit_trimmed, &catch_up);
		fold_new_rows(&catch_up, LOG_DECISIONS, visit_decision, from, before);
		fold_new_rows(&catch_up, LOG_SETTLEMENTS, visit_settlement, from, before);
		if (state->may_be_trimmed)
		{
			check_removals(&catch_up);
			if (!catch_up.complete)
				return false;
		}
	}

	swap = state->seen;
	state->seen = state->next_seen;
	state->next_seen = swap;
	state->found_own = catch_up.has_own;
	state->valid = true;
	return true;
}
