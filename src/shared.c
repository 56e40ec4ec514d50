/*
 * shared.c
 *	  The committed sums of bandits, in shared memory.
 *
 * An entry has the sums over all rows of a bandit's log that have been committed.
 * Whoever commits adds what it has written, before its client hears of the
 * commit; so everybody can use the sums without reading what others wrote.
 *
 * Why nothing is missing and nothing counts twice.  The maker of an entry takes a
 * snapshot under the entry's lock, and folds the log as of that snapshot.  A transaction
 * that commits looks for the entry afterwards, when it is finished for all snapshots
 * taken from then on.  If there is none, whoever makes one later finds its rows in the
 * log.  If there is one whose snapshot includes the transaction, its maker finds them.
 * Otherwise it adds its sums itself, whether the entry is complete or still being made:
 * sums do not mind the order.
 *
 * entry.c says when an entry is thrown away.  The next session that needs it makes it
 * again from a checkpoint and the log.  Where there can be no entry (on a standby,
 * without memory, while somebody else is making it), sums are folded for one call.
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "checkpoint.h"
#include "clock.h"
#include "shared.h"

/* What this session is making. */
static int32 building_bandit_id;
static int32 building_epoch;
static uint64 building = 0;		/* number of the entry, 0 if none */

/* Whose frontier it is moving. */
static int32 moving_bandit_id;
static int32 moving_epoch;
static bool is_moving = false;

/*
 * View the sums of arms of an entry.  Its counts are elsewhere.
 */
static void
entry_totals(const SharedEntry *entry, Totals *totals)
{
	totals->nsums = NUM_ARM_SUMS;
	totals->arms = entry->arms;
	totals->sums = entry_address(entry->content);
}

/*
 * Had this transaction finished when the entry was begun?
 */
static bool
is_covered(const SharedEntry *entry, uint64 xact)
{
	Totals		totals;
	Moment		moment = {.next = entry->next,.nrunning = entry->nrunning};

	entry_totals(entry, &totals);
	moment.running = (uint64 *) ((char *) totals.sums + totals_sums_size(&totals));
	return moment_includes(&moment, xact);
}

/*
 * Add counts.  *scale is what the sums of arms that come with them must be multiplied
 * by.
 */
static void
add_counts(SharedEntry *entry, const Counts *more, double *scale)
{
	Totals		totals;

	entry_totals(entry, &totals);
	totals.counts = entry->counts;
	totals_add_counts(&totals, more, scale);
	entry->counts = totals.counts;
}

void
shared_remove(int32 bandit_id, int32 epoch)
{
	SharedEntry *entry = entry_find(bandit_id, epoch, true);

	if (entry != NULL)
		entry_remove(entry);
}

/* ----------
 * Using an entry
 * ----------
 */

/*
 * Read committed sums.  totals gets the counts and the selected sums, in the
 * current memory context.  Returns false if there is no entry.
 */
bool
shared_read(const SharedLog *log, const Selection *selection, Totals *totals,
			Frontier *frontier, bool *checkpoint_due, int64 *last_in_batch)
{
	SharedEntry *entry;
	Totals		all;

	if (!entries_are_usable())
		return false;
	entries_check_prepared();

	/* memory first: nothing may fail under the lock */
	totals->nsums = selection->nsums;
	totals->arms = selection->arms;
	totals->sums = palloc(totals_sums_size(totals));

	entry = entry_find_ready(log, false);
	if (entry == NULL)
		return false;
	totals->counts = entry->counts;
	entry_totals(entry, &all);
	totals_select(&all, selection->first_arm, totals);
	frontier_copy(frontier, &entry->frontier);
	*checkpoint_due = counts_events(&entry->counts) - entry->checkpoint_events >=
		checkpoint_due_after(entry->size);
	*last_in_batch = entry->last_in_batch;
	pg_atomic_write_u64(&entry->last_used, (uint64) time_of_action());
	entry_unlock(entry);
	return true;
}

/*
 * Return the last decision of all batches of a bandit, or the largest number if that is not
 * known.  once.c tells what it is for.
 */
int64
shared_last_in_batch(const SharedLog *log)
{
	SharedEntry *entry = entries_are_usable() ? entry_find_ready(log, false) : NULL;
	int64		last;

	if (entry == NULL)
		return PG_INT64_MAX;
	last = entry->last_in_batch;
	entry_unlock(entry);
	return last;
}

/*
 * Take note of a batch up to this decision.
 */
void
shared_note_batch(int32 bandit_id, int32 epoch, int64 last_decision)
{
	SharedEntry *entry;

	if (!entries_are_usable())
	{
		entries_invalidate();	/* others may use them */
		return;
	}
	entry = entry_find(bandit_id, epoch, true);
	if (entry == NULL)
		return;
	entry->last_in_batch = Max(entry->last_in_batch, last_decision);
	entry_unlock(entry);
}

/*
 * Put a frontier in the place of the one that it was made from.  If somebody else
 * has, the one that is further on stays: both are true.
 */
void
shared_publish_frontier(const SharedLog *log, Frontier *frontier)
{
	SharedEntry *entry;

	if (!entries_are_usable())
		return;
	entry = entry_find(log->bandit_id, log->epoch, true);
	if (entry == NULL)
		return;
	if (entry->ready && entry_is_of(entry, log) && frontier->entry == entry->number &&
		(frontier->version == entry->frontier.version ||
		 frontier->cursor.xact > entry->frontier.cursor.xact ||
		 (frontier->cursor.xact == entry->frontier.cursor.xact &&
		  frontier->cursor.decision_id > entry->frontier.cursor.decision_id)))
	{
		frontier->version = entry->frontier.version + 1;
		frontier_copy(&entry->frontier, frontier);
	}
	entry_unlock(entry);
}

/*
 * If a checkpoint is due, and nobody is writing one, let it be ours to write: then return
 * true.  A writer that has been at it for as long as it takes for another to be due is
 * not waited for any longer.
 */
bool
shared_claim_checkpoint(const SharedLog *log)
{
	uint64		mine = U64FromFullTransactionId(GetTopFullTransactionId());
	SharedEntry *entry = entry_find(log->bandit_id, log->epoch, true);
	int64		events;
	bool		due;

	if (entry == NULL)
		return true;			/* there is no memory for one */
	events = counts_events(&entry->counts);
	due = entry->ready && entry_is_of(entry, log) &&
		events - entry->checkpoint_events >= checkpoint_due_after(entry->size) &&
		(entry->checkpointer == 0 ||
		 events - entry->next_checkpoint_events >= checkpoint_due_after(entry->size) ||
		 !TransactionIdIsInProgress((TransactionId) entry->checkpointer));
	if (due)
	{
		entry->checkpointer = mine;
		entry->next_checkpoint_events = events;
	}
	entry_unlock(entry);
	return due;
}

/*
 * Is this a transaction of another session that is running?
 */
static bool
is_of_others(uint64 xact)
{
	return xact != 0 && xact != U64FromFullTransactionId(GetTopFullTransactionIdIfAny()) &&
		TransactionIdIsInProgress((TransactionId) xact);
}

/*
 * Is somebody else moving the frontier of a bandit?
 */
bool
shared_frontier_is_claimed(int32 bandit_id, int32 epoch)
{
	SharedEntry *entry = entries_are_usable() ? entry_find(bandit_id, epoch, false) : NULL;
	uint64		mover;

	if (entry == NULL)
		return false;
	mover = entry->mover;
	entry_unlock(entry);
	return is_of_others(mover);
}

/*
 * If nobody is moving the frontier of a bandit, let it be ours to move until
 * shared_release_frontier(): then return true, with the frontier as it is now.
 *
 * Two sessions that move it at the same time come to the same decisions, and one of them
 * has worked for nothing.  That is all: nothing goes wrong if they do.
 */
bool
shared_claim_frontier(const SharedLog *log, Frontier *frontier)
{
	uint64		mine = U64FromFullTransactionId(GetTopFullTransactionId());
	uint64		ended = 0;

	if (!entries_are_usable())
		return true;
	for (;;)
	{
		SharedEntry *entry = entry_find(log->bandit_id, log->epoch, true);
		uint64		mover;

		if (entry == NULL)
			return true;
		mover = entry->mover;
		if (mover == 0 || mover == ended || mover == mine)
		{
			entry->mover = mine;
			moving_bandit_id = log->bandit_id;
			moving_epoch = log->epoch;
			is_moving = true;
			if (entry->ready && entry_is_of(entry, log) && frontier->entry == entry->number)
				frontier_copy(frontier, &entry->frontier);
			entry_unlock(entry);
			return true;
		}
		/* finding this out may take a moment, in which others need the entry */
		entry_unlock(entry);
		if (is_of_others(mover))
			return false;
		ended = mover;
	}
}

/*
 * Let others move the frontier that we have claimed, if we have.
 */
void
shared_release_frontier(void)
{
	SharedEntry *entry;

	if (!is_moving)
		return;
	is_moving = false;
	entry = entry_find(moving_bandit_id, moving_epoch, true);
	if (entry == NULL)
		return;
	if (entry->mover == U64FromFullTransactionId(GetTopFullTransactionIdIfAny()))
		entry->mover = 0;
	entry_unlock(entry);
}

/*
 * If this many milliseconds have passed since the sums of a bandit were published, let it
 * be ours to do it again: then return true.  If there is no entry, the caller has to find
 * out.
 */
bool
shared_claim_publishing(const SharedLog *log, int interval)
{
	TimestampTz now = time_of_action();

	if (!entries_are_usable())
		return true;
	for (bool exclusive = false;; exclusive = true)
	{
		SharedEntry *entry = entry_find_ready(log, exclusive);
		bool		due;

		if (entry == NULL)
			return true;
		/* the clock may have been set back */
		due = entry->published_at == DT_NOBEGIN || now < entry->published_at - USECS_PER_MINUTE ||
			now - entry->published_at >= interval * INT64CONST(1000);
		if (due && exclusive)
			entry->published_at = now;
		entry_unlock(entry);
		if (!due || exclusive)
			return due;
	}
}

/* ----------
 * Building an entry
 * ----------
 */

typedef struct NewEntry
{
	const SharedLog *log;
	int			arms;
	uint64		limit;			/* bytes that all entries may have */
	ResourceOwner owner;		/* of the snapshot */
	Snapshot	snapshot;
	Moment	   *moment;
	bool		begun;
} NewEntry;

/*
 * Begin an entry, unless there is one.
 */
static void
begin_entry(void *argument)
{
	NewEntry   *new = argument;
	const SharedLog *log = new->log;
	Totals		totals = {
		.nsums = NUM_ARM_SUMS,
		.arms = new->arms
	};
	SharedEntry *entry;
	uint64		generation;

	entries_limit_memory(new->limit, totals_sums_size(&totals) + sizeof(SharedEntry));
	entry = entry_find_or_make(log);
	if (entry_is_of(entry, log))
	{
		entry_unlock(entry);	/* ready, or somebody is making it */
		return;
	}

	/* from here on it is not valid until it is begun */
	entry->ready = false;
	entry->generation = 0;
	entry_free_content(entry);
	generation = entries_generation();	/* before the snapshot */
	new->snapshot = RegisterSnapshotOnOwner(GetLatestSnapshot(), new->owner);
	moment_of_snapshot(new->moment, new->snapshot);

	entry->size = totals_sums_size(&totals) + new->moment->nrunning * sizeof(uint64);
	entry->content = entry_allocate(entry->size);
	entry->arms = new->arms;
	entry->identity = log->identity;
	entry->half_life = log->half_life;
	entry->next = new->moment->next;
	entry->nrunning = new->moment->nrunning;
	memcpy((char *) entry_address(entry->content) + totals_sums_size(&totals),
		   new->moment->running, new->moment->nrunning * sizeof(uint64));
	counts_init(&entry->counts);
	frontier_init(&entry->frontier);
	entry->checkpointer = 0;
	entry->published_at = DT_NOBEGIN;
	entry->mover = 0;
	entry->last_in_batch = PG_INT64_MIN;
	pg_atomic_write_u64(&entry->last_used, (uint64) time_of_action());
	entry->number = entry_next_number();
	entry->generation = generation;

	building_bandit_id = log->bandit_id;
	building_epoch = log->epoch;
	building = entry->number;
	new->begun = true;
	entry_unlock(entry);
}

/*
 * Begin to make an entry for this many arms.  If it is ours to make, return true, with
 * the snapshot, which is registered, and the moment at which the log must be folded.
 * Otherwise there is one, or none can be made.
 */
bool
shared_begin_build(const SharedLog *log, int arms, Snapshot *snapshot, Moment *moment)
{
	NewEntry	new = {
		.log = log,
		.arms = arms,
		.limit = (uint64) shared_memory * 1024,
		.owner = CurrentResourceOwner,
		.moment = moment
	};

	Assert(building == 0);
	if (!entries_are_usable())
		return false;
	/* the system may have less memory than the setting allows */
	for (int try = 0; try < 2 && !entries_without_failing(begin_entry, &new); try++)
	{
		if (new.snapshot != NULL)
			UnregisterSnapshot(new.snapshot);
		new.snapshot = NULL;
		new.limit = entries_memory() / 2;
	}
	*snapshot = new.snapshot;
	return new.begun;
}

/*
 * Complete the entry that was begun, if it is still there.  The last decision of all
 * batches has been looked for since.
 */
void
shared_finish_build(const Totals *totals, Frontier *frontier, int64 checkpoint_events,
					int64 last_in_batch)
{
	SharedEntry *entry = entry_find(building_bandit_id, building_epoch, true);
	uint64		number = building;
	Totals		sums;
	double		scale;

	building = 0;
	if (entry == NULL)
		return;
	if (entry->number != number || !entry_is_valid(entry))
	{
		entry_unlock(entry);
		return;
	}
	entry_totals(entry, &sums);
	if (totals->arms > sums.arms)
	{
		entry_remove(entry);	/* the bandit has got arms meanwhile */
		return;
	}
	add_counts(entry, &totals->counts, &scale);
	for (int arm = 0; arm < totals->arms; arm++)
		arm_sums_add(sums.sums + arm, sums.arms, totals->sums + arm, totals->arms,
					 NUM_ARM_SUMS, scale);
	frontier->entry = number;
	frontier_copy(&entry->frontier, frontier);
	entry->checkpoint_events = checkpoint_events;
	entry->last_in_batch = Max(entry->last_in_batch, last_in_batch);
	entry->ready = true;
	entry_unlock(entry);
}

/*
 * An error has come between: let somebody else make it.
 */
void
shared_abandon_build(void)
{
	SharedEntry *entry;
	uint64		number = building;

	if (number == 0)
		return;
	building = 0;
	entry = entry_find(building_bandit_id, building_epoch, true);
	if (entry != NULL && entry->number == number && !entry->ready)
		entry_remove(entry);
	else if (entry != NULL)
		entry_unlock(entry);
}

/* ----------
 * Committing
 * ----------
 */

/*
 * Add the counts of a transaction that has been committed, perhaps with a
 * checkpoint, and return the entry for its arms, whose sums are to be multiplied by
 * *scale; NULL if there is nothing to be added to.  What is weighted with another
 * half-life than the entry cannot be added: then the entry is removed.
 */
SharedEntry *
shared_lock_to_add(int32 bandit_id, int32 epoch, uint64 xact, const Counts *counts,
				   bool checkpoint, double *scale)
{
	SharedEntry *entry = entry_find(bandit_id, epoch, true);

	if (entry == NULL)
		return NULL;
	if (!entry_is_valid(entry) || is_covered(entry, xact))
	{
		entry_unlock(entry);
		return NULL;
	}
	if (!counts_fit(counts, entry->half_life))
	{
		entry_remove(entry);
		return NULL;
	}
	add_counts(entry, counts, scale);
	if (checkpoint && entry->checkpointer == xact)
	{
		entry->checkpointer = 0;
		entry->checkpoint_events = entry->next_checkpoint_events;
	}
	return entry;
}

/*
 * Add the sums of an arm.  If it is a new one, for which the entry has no room,
 * remove the entry and return false.
 */
bool
shared_add_arm(SharedEntry *entry, int arm, const double *sums, double scale)
{
	Totals		totals;

	if (arm >= entry->arms)
	{
		entry_remove(entry);
		return false;
	}
	entry_totals(entry, &totals);
	arm_sums_add(totals.sums + arm, totals.arms, sums, 1, NUM_ARM_SUMS, scale);
	return true;
}
