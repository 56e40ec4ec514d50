/*
 * current.c
 *	  The current state of a managed bandit, remembered from call to call.
 *
 * The state is the fold of all log rows whose transactions were finished at
 * some moment (seen), plus the rows that this session's transaction has
 * written itself, folded as they were written.  catchup.c brings it up to date; if
 * that fails, because rows have been removed, it is thrown away and made anew.
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

#include "catchup.h"
#include "checkpoint.h"
#include "current.h"
#include "log.h"
#include "progress.h"
#include "recent.h"
#include "tables.h"
#include "trim.h"

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
	Followed	state;			/* first its bandit_id, the hash key */
	uint64		fingerprint;	/* of the bandit that it was made for */
	MemoryContext context;		/* what is allocated for the state, and saved */
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
	hash_search(states, &current->state.bandit_id, HASH_REMOVE, NULL);
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

	current->state.bandit_id = bandit->bandit_id;
	current->state.epoch = bandit->epoch;
	current->fingerprint = bandit->fingerprint;
	current->state.may_be_trimmed = bandit->history != NULL;
	current->unwritten_from = PG_INT64_MAX;
	fold_init(&current->state.fold, &bandit->setup);
	seen_init(&current->state.seen);
	seen_init(&current->state.next_seen);
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
		(void) checkpoint_load(bandit->bandit_id, bandit->epoch, &current->state.fold,
							   &current->state.seen);
	current->checkpoint_events = current->state.fold.events;
	current->committed_checkpoint_events = current->state.fold.events;
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
	Fold	   *fold = fold_save(&current->state.fold, MAX_SAVED_SIZE);
	MemoryContext old;
	SavedState *saved;

	if (fold == NULL)
		return;

	old = MemoryContextSwitchTo(current->context);
	saved = palloc(sizeof(SavedState));
	saved->subid = GetCurrentSubTransactionId();
	saved->fold = fold;
	seen_init(&saved->seen);
	seen_copy(&saved->seen, &current->state.seen);
	saved->own_xact = current->state.own_xact;
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
	current->state.own_xact = log_current_xact();
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
	current->state.valid = false;
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
		Seen		swap = current->state.seen;

		(void) pop_saved(current);
		fold_restore(&current->state.fold, saved->fold);
		current->state.seen = saved->seen;
		saved->seen = swap;
		current->state.own_xact = saved->own_xact;
		current->written_in = saved->written_in;
		current->unwritten_from = PG_INT64_MAX;
		current->state.valid = true;
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
 * The state at this moment
 * ----------
 */

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
		(!current->state.valid || current->state.outdated || current->state.epoch != bandit->epoch ||
		 current->fingerprint != bandit->fingerprint))
	{
		forget(current);
		current = NULL;
	}
	if (current == NULL)
		current = remember(bandit, true);
	else
		dlist_move_head(&recently_used, &current->lru);

	for (bool from_checkpoint = true; !bring_up_to_date(&current->state, NULL, NULL); from_checkpoint = false)
	{
		CHECK_FOR_INTERRUPTS();
		forget(current);
		current = remember(bandit, from_checkpoint);
	}
	if (current->state.found_own)
	{
		mark_written(current);
		current->state.found_own = false;
	}
	limit_memory(current);
	return current;
}

Fold *
current_fold(Current *current)
{
	return &current->state.fold;
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
		progress_start(&progress, "rows", remembered->state.fold.events);
	} while (!bring_up_to_date(&replayed->state, NULL, &progress) ||
			 !bring_up_to_date(&remembered->state, &replayed->state.seen, NULL));

	*running = &remembered->state.fold;
	return &replayed->state.fold;
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
	Size		size = fold_checkpoint_size(&current->state.fold);
	int64		due = CHECKPOINT_EVENTS + size / BYTES_PER_EVENT;

	if (current->written_in != InvalidSubTransactionId || current->state.outdated)
		return;

	if (current->state.fold.events - current->checkpoint_events < due ||
		size > MAX_CHECKPOINT_SIZE)
		return;
	current->checkpoint_events = checkpoint_newest(current->state.bandit_id, current->state.epoch);
	if (current->state.fold.events - current->checkpoint_events < due)
		return;
	checkpoint_write(current->state.bandit_id, current->state.epoch, &current->state.fold,
					 &current->state.seen, 8 * due);
	current->checkpoint_events = current->state.fold.events;
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
	if (current->state.outdated)
		return 0;				/* the sums would lack arms */
	return trim_log(bandit, current->state.fold.learner.round, &current->state.seen, limit, from);
}

void
current_add_decision(Current *current, const Decision *decision)
{
	begin_write(current);
	log_append_decision(decision);
	recent_add_decision(current->state.own_xact, decision);
	fold_decision(&current->state.fold, decision);
	account_for(current);
	current->state.valid = true;
}

/*
 * Add many decisions.  Their rows are written later than they are folded, at the
 * latest before current_end_decisions().
 */
void
current_begin_decisions(Current *current)
{
	begin_write(current);
	recent_look_into_log(current->state.own_xact, current->state.bandit_id);
}

void
current_add_one_of_many(Current *current, RowInserter *inserter,
						const Decision *decision)
{
	current->unwritten_from = Min(current->unwritten_from, decision->decision_id);
	log_append_one_of_many(inserter, decision);
	fold_decision(&current->state.fold, decision);
}

void
current_end_decisions(Current *current)
{
	current->unwritten_from = PG_INT64_MAX;
	current->state.valid = true;
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
	if (current->state.may_be_trimmed &&
		settlement->decision_id < current->unwritten_from &&
		!log_find_decision(settlement->decision_id, &decision))
		return false;

	begin_write(current);
	added = log_append_settlement(settlement);
	if (added && current->state.may_be_trimmed &&
		settlement->decision_id < current->unwritten_from)
		check_still_there(settlement->decision_id);
	if (added)
	{
		recent_add_settlement(current->state.own_xact, settlement);
		fold_settlement(&current->state.fold, settlement);
	}
	account_for(current);
	current->state.valid = true;
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
