/*
 * current.c
 *	  The current state of a managed bandit, remembered from call to call.
 *
 * The state is the fold of all log rows whose transactions were finished at
 * some moment (Current.seen), plus the rows that this session's transaction has
 * written itself, folded as they were written.  To catch up, only rows of
 * transactions that have finished since are read.
 *
 * One's own rows.  A snapshot never lists its own transaction as running, so
 * own_xact says whose rows have been folded already: those of the transaction
 * that is under way, or of the last one until `seen` covers it.
 *
 * Aborts.  A transaction or savepoint that wrote rows and is rolled back takes
 * them out of the log again.  Before the first row that it writes, the state is
 * saved, and at its abort it is set back to that.  Large states are not saved but
 * thrown away, to be folded anew from a checkpoint when they are needed; so is a
 * state that an error interrupts half-way (valid).
 *
 * Rows that are removed.  Old settled rows may be replaced by their sums, see
 * trim.c.  States that hold them are not affected.  One that does not, because it
 * is that old, or misses them because they vanished while it was being folded,
 * is thrown away and folded anew, at last from the sums and what is left of the
 * log.
 *
 * PREPARE TRANSACTION is refused after such a write: somebody else would commit
 * it, perhaps never, and feedback for a decision that it settled would have to
 * wait for that.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "checkpoint.h"
#include "current.h"
#include "log.h"
#include "progress.h"
#include "recent.h"
#include "tables.h"
#include "trim.h"

/*
 * Transactions that were still running and so far back or less are found by
 * the scan of the log's end; each older one gets a look-up of its own.
 */
#define RECENT_XACTS		256

/*
 * Write a checkpoint when so many events are not covered by one, and more if
 * it is large: then the events pay for it.
 */
#define CHECKPOINT_EVENTS	512
#define BYTES_PER_EVENT		64
#define MAX_CHECKPOINT_SIZE ((Size) 256 * 1024 * 1024)

/* At most so many decisions are removed along with a checkpoint. */
#define MAX_TRIMMED			2048

/* States up to this size are saved before a transaction writes. */
#define MAX_SAVED_SIZE		((Size) 64 * 1024)

/* What a state was before a subtransaction wrote to it. */
typedef struct SavedState
{
	slist_node	node;			/* in Current.saved, innermost first */
	SubTransactionId subid;
	Fold	   *fold;
	Seen		seen;
	uint64		own_xact;
	SubTransactionId written_in;
} SavedState;

struct Current
{
	int32		bandit_id;		/* hash key */
	int32		epoch;
	uint64		fingerprint;	/* of the bandit that it was made for */
	bool		may_be_trimmed; /* may rows of the log have been removed? */
	bool		valid;			/* false while it is being changed */
	bool		outdated;		/* the bandit has got arms since */
	MemoryContext context;		/* everything below is in it */
	Fold		fold;
	Seen		seen;			/* which transactions have been folded */
	Seen		next_seen;		/* the same, while catching up */
	uint64		own_xact;		/* our transaction that has been folded, or 0 */
	bool		found_own;		/* has catching up found rows of ours? */
	SubTransactionId written_in;	/* the newest subtransaction of ours that
									 * wrote rows; invalid if none has */
	slist_head	saved;			/* SavedStates of subtransactions that wrote */
	int64		unwritten_from; /* decisions from here on may not have been
								 * written yet; see current_begin_decisions() */
	uint64		trim_from;		/* where to look for rows to be removed ... */
	uint64		trim_aborts;	/* ... if there has been no abort since */
	int64		checkpoint_events;	/* events that a checkpoint covers ... */
	int64		committed_checkpoint_events;	/* ... not counting one of the
												 * transaction under way */
	Size		size;			/* last accounted for */
	dlist_node	lru;			/* in recently_used, newest first */
	dlist_node	written;		/* in written_states, if written_in is valid */
};

int			cache_memory = 65536;

static HTAB *states = NULL;
static dlist_head recently_used = DLIST_STATIC_INIT(recently_used);
static dlist_head written_states = DLIST_STATIC_INIT(written_states);
static Size total_size = 0;

/* Has this transaction written to the log? */
static bool wrote_log = false;

/* How many transactions and savepoints of this session have been rolled back. */
static uint64 aborts = 0;

/* What tables_log_identity() was when the states were made. */
static uint64 log_identity = 0;

/* ----------
 * The cache
 * ----------
 */

static void
forget(Current *current)
{
	MemoryContextDelete(current->context);
	total_size -= current->size;
	dlist_delete(&current->lru);
	if (current->written_in != InvalidSubTransactionId)
		dlist_delete(&current->written);
	hash_search(states, &current->bandit_id, HASH_REMOVE, NULL);
}

static void
forget_all(void)
{
	while (!dlist_is_empty(&recently_used))
		forget(dlist_head_element(Current, lru, &recently_used));
}

/*
 * Take note that this transaction adds rows to the log of a bandit in another
 * way.
 */
void
current_rows_arrive(int32 bandit_id)
{
	Current    *current = states == NULL ? NULL :
		hash_search(states, &bandit_id, HASH_FIND, NULL);

	if (current != NULL)
		forget(current);
	recent_look_into_log(log_current_xact(), bandit_id);
}

/*
 * Take note of the memory that a state takes.
 */
static void
account_for(Current *current)
{
	Size		size = sizeof(Current) + MemoryContextMemAllocated(current->context, false);

	total_size += size - current->size;
	current->size = size;
}

/*
 * Keep the memory of all states within bounds; the given one stays.
 */
static void
limit_memory(Current *current)
{
	account_for(current);
	while (total_size > (Size) cache_memory * 1024)
	{
		Current    *oldest = dlist_tail_element(Current, lru, &recently_used);

		if (oldest == current)
			break;
		forget(oldest);
	}
}

/*
 * Fill in the state of a bandit without any row, in its memory context.
 */
static void
init_state(Current *current, const Bandit *bandit)
{
	MemoryContext old = MemoryContextSwitchTo(current->context);

	current->bandit_id = bandit->bandit_id;
	current->epoch = bandit->epoch;
	current->fingerprint = bandit->fingerprint;
	current->may_be_trimmed = bandit->history != NULL;
	current->unwritten_from = PG_INT64_MAX;
	fold_init(&current->fold, &bandit->setup);
	seen_init(&current->seen);
	seen_init(&current->next_seen);
	slist_init(&current->saved);
	MemoryContextSwitchTo(old);
}

/*
 * Make an entry for a bandit, starting from its newest checkpoint unless that
 * has turned out to be useless.
 */
static Current *
remember(const Bandit *bandit, bool from_checkpoint)
{
	MemoryContext context;
	Current    *current;

	if (states == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(int32), .entrysize = sizeof(Current)};

		states = hash_create("dexp3 states", 32, &ctl, HASH_ELEM | HASH_BLOBS);
	}

	context = AllocSetContextCreate(TopMemoryContext, "dexp3 state",
									ALLOCSET_SMALL_SIZES);
	current = hash_search(states, &bandit->bandit_id, HASH_ENTER, NULL);
	memset(current, 0, sizeof(Current));
	current->context = context;
	dlist_push_head(&recently_used, &current->lru);
	init_state(current, bandit);

	if (from_checkpoint)
		(void) checkpoint_load(bandit->bandit_id, bandit->epoch, &current->fold,
							   &current->seen);
	current->checkpoint_events = current->fold.events;
	current->committed_checkpoint_events = current->fold.events;
	return current;
}

/* ----------
 * Own rows, and taking them back
 * ----------
 */

/*
 * Save a state before the current subtransaction writes to it for the first
 * time.
 */
static void
save(Current *current)
{
	Fold	   *fold = fold_save(&current->fold, MAX_SAVED_SIZE);
	MemoryContext old;
	SavedState *saved;

	if (fold == NULL)
		return;

	old = MemoryContextSwitchTo(current->context);
	saved = palloc(sizeof(SavedState));
	saved->subid = GetCurrentSubTransactionId();
	saved->fold = fold;
	seen_init(&saved->seen);
	seen_copy(&saved->seen, &current->seen);
	saved->own_xact = current->own_xact;
	saved->written_in = current->written_in;
	slist_push_head(&current->saved, &saved->node);
	MemoryContextSwitchTo(old);
}

static SavedState *
pop_saved(Current *current)
{
	return slist_container(SavedState, node, slist_pop_head_node(&current->saved));
}

static void
free_saved(SavedState *saved)
{
	pfree(saved->fold);
	pfree(saved->seen.running);
	pfree(saved);
}

static SavedState *
innermost_saved(Current *current)
{
	return slist_is_empty(&current->saved) ? NULL :
		slist_head_element(SavedState, node, &current->saved);
}

/*
 * Take note that rows of this transaction are in the state, or about to be.
 */
static void
mark_written(Current *current)
{
	if (current->written_in == InvalidSubTransactionId)
		dlist_push_head(&written_states, &current->written);
	current->written_in = GetCurrentSubTransactionId();
	current->own_xact = log_current_xact();
}

/*
 * Prepare a state for a row that this transaction is going to write.  It is not
 * valid until the row has been folded.
 */
static void
begin_write(Current *current)
{
	if (current->written_in < GetCurrentSubTransactionId())
		save(current);
	mark_written(current);
	wrote_log = true;
	current->valid = false;
}

/*
 * Take back what a subtransaction and its children, which have higher numbers,
 * have written to a state.  Nothing here may fail.
 */
static void
take_back(Current *current, SubTransactionId subid)
{
	SavedState *saved;

	while ((saved = innermost_saved(current)) != NULL && saved->subid >= subid)
	{
		Seen		swap = current->seen;

		(void) pop_saved(current);
		fold_restore(&current->fold, saved->fold);
		current->seen = saved->seen;
		saved->seen = swap;
		current->own_xact = saved->own_xact;
		current->written_in = saved->written_in;
		current->unwritten_from = PG_INT64_MAX;
		current->valid = true;
		if (current->written_in == InvalidSubTransactionId)
		{
			dlist_delete(&current->written);
			current->checkpoint_events = current->committed_checkpoint_events;
		}
		free_saved(saved);
	}

	/* what was not saved is lost */
	if (current->written_in >= subid)
		forget(current);
}

static void
take_back_all(SubTransactionId subid)
{
	dlist_mutable_iter iter;

	aborts++;

	dlist_foreach_modify(iter, &written_states)
		take_back(dlist_container(Current, written, iter.cur), subid);
}

/*
 * A subtransaction has become part of its parent: if the parent had not written
 * to a state before, what was saved for the child now serves the parent.
 */
static void
pass_to_parent(SubTransactionId subid, SubTransactionId parent)
{
	dlist_iter	iter;

	dlist_foreach(iter, &written_states)
	{
		Current    *current = dlist_container(Current, written, iter.cur);
		SavedState *saved = innermost_saved(current);
		slist_node *next;

		if (saved == NULL || saved->subid != subid)
			continue;
		next = saved->node.next;
		if (next != NULL &&
			slist_container(SavedState, node, next)->subid == parent)
			free_saved(pop_saved(current));
		else
			saved->subid = parent;
	}
}

/* ----------
 * Catching up
 * ----------
 */

typedef struct CatchUp
{
	Current    *current;
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
	const Current *current = catch_up->current;

	if (xact == current->own_xact)
		return false;
	if (xact == catch_up->mine)
	{
		catch_up->has_own = true;
		return true;
	}
	return seen_includes(&current->next_seen, xact) &&
		!seen_includes(&current->seen, xact);
}

static void
report_progress(const CatchUp *catch_up)
{
	if (catch_up->progress != NULL && catch_up->current->fold.events % 1024 == 0)
		progress_report(catch_up->progress, catch_up->current->fold.events);
}

static void
visit_decision(void *context, const void *row)
{
	fold_decision(&((CatchUp *) context)->current->fold, row);
	report_progress(context);
}

/*
 * Is this the number of an arm that was added since our caller has looked the
 * bandit up?  Then what is about it cannot be folded; the state will do for this
 * call, without those losses, and is thrown away after it.
 */
static bool
is_added_arm(Current *current, int arm)
{
	if (arm < current->fold.learner.params.arms)
		return false;
	if (!current->outdated)
		current->outdated = bandit_has_got_arm(current->bandit_id, arm);
	return current->outdated;
}

static void
visit_settlement(void *context, const void *row)
{
	Current    *current = ((CatchUp *) context)->current;
	Settlement	settlement = *(const Settlement *) row;

	if (!settlement.skipped && is_added_arm(current, settlement.feedback.arm))
	{
		settlement.skipped = true;
		row = &settlement;
	}
	fold_settlement(&current->fold, row);
	report_progress(context);
}

static void
visit_trimmed(void *context, const void *row)
{
	Current    *current = ((CatchUp *) context)->current;
	Trimmed		trimmed = *(const Trimmed *) row;

	if (is_added_arm(current, trimmed.arms - 1))
	{
		trimmed.arms = current->fold.learner.params.arms;
		row = &trimmed;
	}
	fold_trimmed(&current->fold, row);
}

/*
 * Is this a removal of rows that the state may not know of?
 */
static bool
is_unknown(void *context, uint64 xact)
{
	return !seen_includes(&((CatchUp *) context)->current->seen, xact);
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
	const Current *current = catch_up->current;
	const Trimmed *trimmed = row;
	const Seen *seen = &current->seen;

	if (seen->next == 0)
	{
		/* the state was folded from scratch: removals up to now are in it */
		if (trimmed->xact != catch_up->mine &&
			!seen_includes(&current->next_seen, trimmed->xact))
			catch_up->complete = false;
		return;
	}
	if (seen->next <= trimmed->newest_xact)
		catch_up->complete = false;
	for (int i = 0; i < seen->nrunning && seen->running[i] <= trimmed->newest_xact; i++)
	{
		if (!seen_is_running(&current->next_seen, seen->running[i]))
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
	const Current *current = context->current;
	const Seen *seen = &current->seen;
	uint64		from = seen->next;

	for (int i = seen->nrunning - 1; i >= 0; i--)
	{
		if (seen->running[i] + RECENT_XACTS >= seen->next)
			from = seen->running[i];
		else
			log_scan(LOG_TRIMMED, current->bandit_id, current->epoch,
					 seen->running[i], seen->running[i] + 1,
					 is_unknown, check_removal, context);
	}
	log_scan(LOG_TRIMMED, current->bandit_id, current->epoch, from, PG_UINT64_MAX,
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
	Current    *current = catch_up->current;
	const Seen *seen = &current->seen;

	for (int i = 0; i < seen->nrunning && seen->running[i] < from; i++)
	{
		uint64		xact = seen->running[i];

		if (!seen_is_running(&current->next_seen, xact))
			log_scan(table, current->bandit_id, current->epoch, xact, xact + 1,
					 is_new, visit, catch_up);
	}
	if (from < before)
		log_scan(table, current->bandit_id, current->epoch, from, before,
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
	Current    *current = catch_up->current;
	const Seen *seen = &current->seen;
#ifdef USE_ASSERT_CHECKING
	int64		events = current->fold.events;
#endif

	for (int i = 0; i < seen->nrunning && seen->running[i] < from; i++)
	{
		if (!seen_is_running(&current->next_seen, seen->running[i]))
			return false;
	}
	if (!recent_scan(current->bandit_id, current->epoch, from, before, is_new,
					 visit_decision, visit_settlement, catch_up))
		return false;

#ifdef USE_ASSERT_CHECKING
	/* the log must have as many, unless rows, or the bandit, have been removed */
	if (!current->may_be_trimmed)
	{
		fold_new_rows(catch_up, LOG_DECISIONS, count_row, from, before);
		fold_new_rows(catch_up, LOG_SETTLEMENTS, count_row, from, before);
		Assert(catch_up->rows_in_log == current->fold.events - events ||
			   (catch_up->rows_in_log < current->fold.events - events &&
				!bandit_has_got_arm(current->bandit_id, 0)));
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
static bool
bring_up_to_date(Current *current, const Seen *moment, Progress *progress)
{
	CatchUp		catch_up = {
		.current = current,
		.mine = U64FromFullTransactionId(GetTopFullTransactionIdIfAny()),
		.complete = true,
		.progress = progress
	};
	bool		made_now = !current->valid;
	Progress	of_new;
	const Seen *seen = &current->seen;
	Seen		swap;
	uint64		from;
	uint64		before;

	if (moment != NULL)
		seen_copy(&current->next_seen, moment);
	else
		seen_now(&current->next_seen);

	/* if nothing has happened since, it ends here: bulk operations rely on it */
	if (!made_now && seen->next == current->next_seen.next &&
		seen->nrunning == current->next_seen.nrunning)
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
		if (!seen_is_running(&current->next_seen, seen->running[i]))
			from = seen->running[i];
	}
	before = Max(current->next_seen.next, catch_up.mine + 1);
	if (from == current->own_xact)
		from++;					/* often this leaves nothing to read */

	/* a long log without a checkpoint takes its time */
	if (made_now && progress == NULL)
	{
		progress_start(&of_new, "rows", 0);
		catch_up.progress = &of_new;
	}

	current->valid = false;
	if (made_now || !fold_recent_rows(&catch_up, from, current->next_seen.next))
	{
		/* a decision must be there before its settlement */
		if (current->may_be_trimmed && seen->next == 0)
			log_scan(LOG_TRIMMED, current->bandit_id, current->epoch, from, before,
					 is_new, visit_trimmed, &catch_up);
		fold_new_rows(&catch_up, LOG_DECISIONS, visit_decision, from, before);
		fold_new_rows(&catch_up, LOG_SETTLEMENTS, visit_settlement, from, before);
		if (current->may_be_trimmed)
		{
			check_removals(&catch_up);
			if (!catch_up.complete)
				return false;
		}
	}

	swap = current->seen;
	current->seen = current->next_seen;
	current->next_seen = swap;
	current->found_own = catch_up.has_own;
	current->valid = true;
	return true;
}

/*
 * Return the state of a bandit at this moment.  It stays valid until the next
 * call for any bandit.
 */
Current *
current_state(const Bandit *bandit)
{
	Current    *current;

	if (log_identity != tables_log_identity())
	{
		forget_all();
		log_identity = tables_log_identity();
	}

	current = states == NULL ? NULL :
		hash_search(states, &bandit->bandit_id, HASH_FIND, NULL);
	if (current != NULL &&
		(!current->valid || current->outdated || current->epoch != bandit->epoch ||
		 current->fingerprint != bandit->fingerprint))
	{
		forget(current);
		current = NULL;
	}
	if (current == NULL)
		current = remember(bandit, true);
	else
		dlist_move_head(&recently_used, &current->lru);

	for (bool from_checkpoint = true; !bring_up_to_date(current, NULL, NULL); from_checkpoint = false)
	{
		CHECK_FOR_INTERRUPTS();
		forget(current);
		current = remember(bandit, from_checkpoint);
	}
	if (current->found_own)
	{
		mark_written(current);
		current->found_own = false;
	}
	limit_memory(current);
	return current;
}

Fold *
current_fold(Current *current)
{
	return &current->fold;
}

/*
 * Fold the whole log of a bandit again, into a state that is not remembered.
 * *running is the remembered one at the same moment.
 */
Fold *
current_replay(const Bandit *bandit, Fold **running)
{
	Current    *replayed = palloc(sizeof(Current));
	Current    *remembered;
	Progress	progress;

	/* if rows are removed just now, it must be done again */
	do
	{
		CHECK_FOR_INTERRUPTS();
		remembered = current_state(bandit);
		memset(replayed, 0, sizeof(Current));
		replayed->context = CurrentMemoryContext;
		init_state(replayed, bandit);
		progress_start(&progress, "rows", remembered->fold.events);
	} while (!bring_up_to_date(replayed, NULL, &progress) ||
			 !bring_up_to_date(remembered, &replayed->seen, NULL));

	*running = &remembered->fold;
	return &replayed->fold;
}

/* ----------
 * Writing
 * ----------
 */

/*
 * Do what must come before the first row that a transaction writes: write a
 * checkpoint if one is due, and remove some old rows that it covers.
 */
void
current_prepare_to_write(Current *current, const Bandit *bandit)
{
	Size		size = fold_checkpoint_size(&current->fold);
	int64		due = CHECKPOINT_EVENTS + size / BYTES_PER_EVENT;

	if (current->written_in != InvalidSubTransactionId || current->outdated)
		return;

	if (current->fold.events - current->checkpoint_events < due ||
		size > MAX_CHECKPOINT_SIZE)
		return;
	current->checkpoint_events = checkpoint_newest(current->bandit_id, current->epoch);
	if (current->fold.events - current->checkpoint_events < due)
		return;
	checkpoint_write(current->bandit_id, current->epoch, &current->fold,
					 &current->seen, 8 * due);
	current->checkpoint_events = current->fold.events;
	if (bandit->history != NULL && XactIsoLevel == XACT_READ_COMMITTED)
	{
		if (current->trim_aborts != aborts)
			current->trim_from = 0;
		current->trim_aborts = aborts;
		(void) current_trim(current, bandit, Min(due, MAX_TRIMMED), &current->trim_from);
	}
}

/*
 * Replace up to so many old decisions and their settlements by their sums, and
 * return how many; see trim_log() for *from.
 */
int64
current_trim(Current *current, const Bandit *bandit, int64 limit, uint64 *from)
{
	if (current->outdated)
		return 0;				/* the sums would lack arms */
	return trim_log(bandit, current->fold.learner.round, &current->seen, limit, from);
}

void
current_add_decision(Current *current, const Decision *decision)
{
	begin_write(current);
	log_append_decision(decision);
	recent_add_decision(current->own_xact, decision);
	fold_decision(&current->fold, decision);
	account_for(current);
	current->valid = true;
}

/*
 * Add many decisions.  Their rows are written later than they are folded, at the
 * latest before current_end_decisions().
 */
void
current_begin_decisions(Current *current)
{
	begin_write(current);
	recent_look_into_log(current->own_xact, current->bandit_id);
}

void
current_add_one_of_many(Current *current, RowInserter *inserter,
						const Decision *decision)
{
	current->unwritten_from = Min(current->unwritten_from, decision->decision_id);
	log_append_one_of_many(inserter, decision);
	fold_decision(&current->fold, decision);
}

void
current_end_decisions(Current *current)
{
	current->unwritten_from = PG_INT64_MAX;
	current->valid = true;
}

/*
 * Make sure that a decision which has just been settled is still in the log.
 * Otherwise it had been settled before, and both rows were removed in the very
 * moment between the look at them and now; nobody else could have settled it
 * since.
 */
static void
check_still_there(int64 decision_id)
{
	Decision	decision;

	if (!log_find_decision(decision_id, &decision))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not settle decision " INT64_FORMAT ", which was settled and removed from the log by another transaction",
						decision_id)));
}

/*
 * Settle a decision, unless somebody else has, or is about to: then return
 * false.
 */
bool
current_add_settlement(Current *current, const Settlement *settlement)
{
	Decision	decision;
	bool		added;

	/* the state may be some time old, if this is one of many */
	if (current->may_be_trimmed &&
		settlement->decision_id < current->unwritten_from &&
		!log_find_decision(settlement->decision_id, &decision))
		return false;

	begin_write(current);
	added = log_append_settlement(settlement);
	if (added && current->may_be_trimmed &&
		settlement->decision_id < current->unwritten_from)
		check_still_there(settlement->decision_id);
	if (added)
	{
		recent_add_settlement(current->own_xact, settlement);
		fold_settlement(&current->fold, settlement);
	}
	account_for(current);
	current->valid = true;
	return added;
}

/* ----------
 * The end of transactions and savepoints
 * ----------
 */

static void
transaction_event(XactEvent event, void *arg pg_attribute_unused())
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			log_skip_arrived_ids();
			break;
		case XACT_EVENT_PRE_PREPARE:
			log_skip_arrived_ids();
			if (wrote_log)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has used bandit_choose or bandit_feedback")));
			break;
		case XACT_EVENT_PREPARE:
			/* rows have arrived, and it is not known whether they will stay */
			take_back_all(TopSubTransactionId);
			log_forget_arrivals();
			break;
		case XACT_EVENT_ABORT:
			take_back_all(TopSubTransactionId);
			log_forget_arrivals();
			wrote_log = false;
			break;
		case XACT_EVENT_COMMIT:
			while (!dlist_is_empty(&written_states))
			{
				dlist_node *node = dlist_pop_head_node(&written_states);
				Current    *current = dlist_container(Current, written, node);

				current->written_in = InvalidSubTransactionId;
				current->committed_checkpoint_events = current->checkpoint_events;
				while (!slist_is_empty(&current->saved))
					free_saved(pop_saved(current));
			}
			log_forget_arrivals();
			wrote_log = false;
			break;
		default:
			break;
	}
}

static void
subtransaction_event(SubXactEvent event, SubTransactionId subid,
					 SubTransactionId parent, void *arg pg_attribute_unused())
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		take_back_all(subid);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		pass_to_parent(subid, parent);
}

void
current_init(void)
{
	RegisterXactCallback(transaction_event, NULL);
	RegisterSubXactCallback(subtransaction_event, NULL);
}
