/*
 * shared.c
 *	  The committed sums of bandits, in shared memory.
 *
 * An entry has the sums over all rows of a bandit's log that have been committed.
 * Whoever commits adds what it has written, before its client hears of the
 * commit; so everybody can use the sums without reading what others wrote.
 *
 * Why nothing is missing and nothing counts twice.  Who makes an entry takes a
 * snapshot under the entry's lock, and folds the log as of that snapshot.  A
 * transaction that commits looks for the entry afterwards, when it is finished
 * for all snapshots taken from then on.  If there is none, whoever makes one later
 * finds its rows in the log.  If there is one whose snapshot includes the
 * transaction, its maker does.  Otherwise it adds its sums itself, whether the
 * entry is complete or still being made: sums do not mind the order.
 *
 * An entry may be thrown away at any time: to limit memory, because rows came or
 * went in another way, or because something could not be added.  The next one who
 * needs it makes it again from a checkpoint and the log.  Where there can be no
 * entry (on a standby, without memory, while somebody else is making it), sums
 * are folded for one call.
 *
 * A bandit that is shared with other servers also has their sums in its entry, so
 * that they cost no more than its own.  They are read from dexp3.component, and are
 * good until a row for the bandit arrives there: a counter tells.  Whoever reads the
 * table looks at the counter before it takes a snapshot; whoever brings a row counts
 * when all snapshots see it.
 *
 * Entries are in a dshash table in a DSA area, which the first session that needs
 * it makes; nothing has to be preloaded.  Its partition locks are the only locks:
 * held in shared mode to copy sums, exclusively to add to them.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "lib/dshash.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/dsa.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "checkpoint.h"
#include "clock.h"
#include "compat.h"
#include "shared.h"

typedef struct SharedKey
{
	Oid			database;
	int32		bandit_id;
	int32		epoch;
	uint32		unused;			/* 0: the key is compared byte by byte */
} SharedKey;

struct SharedEntry
{
	SharedKey	key;
	bool		ready;			/* false while it is being made */
	uint64		number;			/* every entry ever made has another one */
	uint64		generation;		/* it is valid in */
	uint64		identity;		/* of the log's tables */
	int64		half_life;		/* that the sums are weighted with */
	pg_atomic_uint64 last_used; /* a time */
	int64		checkpoint_events;	/* events that a checkpoint covers ... */
	uint64		checkpointer;	/* ... unless this transaction is committed
								 * ... */
	int64		next_checkpoint_events; /* ... which covers these */
	TimestampTz published_at;	/* when its sums were last published */
	uint64		expirer;		/* the transaction that lets decisions expire,
								 * if it is running */
	Frontier	frontier;
	Counts		counts;

	/* the snapshot that it was made with, as a Moment */
	uint64		next;
	int			nrunning;

	/* the sums of each arm as in Totals, then the running transactions */
	int			arms;
	Size		size;			/* of these, in bytes */
	dsa_pointer content;

	/* what other servers have, if it is shared with any: ForeignPart */
	Size		foreign_size;
	dsa_pointer foreign;
};

/*
 * The sums of other servers.  They are good as long as the counter of arrivals and
 * the bandit's definition are these.
 */
typedef struct ForeignPart
{
	uint64		arrivals;
	uint64		definition;
	Counts		counts;
	int			arms;
	double		z[FLEXIBLE_ARRAY_MEMBER];
} ForeignPart;

/*
 * What never changes, so that sessions with different libraries understand it: if
 * there are such, until the server is restarted nobody shares anything.
 */
typedef struct Common
{
	uint64		layout;
	bool		mixed;
} Common;

typedef struct Control
{
	LWLock		lock;			/* protects the list of transactions */
	dsa_handle	area;
	dshash_table_handle table;	/* both invalid until they are made */
	pg_atomic_uint64 generation;	/* entries of earlier ones are not valid */
	pg_atomic_uint64 number;	/* of the newest entry */
	pg_atomic_uint64 used;		/* bytes */

	/* how often rows of other servers have come, by a hash of the bandit */
	pg_atomic_uint64 arrivals[NUM_ARRIVAL_SLOTS];

	/* prepared transactions that may have brought rows */
	int			nprepared;
	TransactionId prepared[FLEXIBLE_ARRAY_MEMBER];	/* max_prepared_xacts */
} Control;

/* To be changed if the meaning of something changes, but not its size. */
#define LAYOUT	(1000000 + sizeof(Control) + sizeof(SharedEntry))

int			shared_memory = 65536;

static Common *common = NULL;
static Control *control = NULL;
static dsa_area *area = NULL;
static dshash_table *table = NULL;

/* What this session is making. */
static SharedKey building_key;
static uint64 building = 0;		/* number of the entry, 0 if none */

/* ----------
 * Making the table, and finding it
 * ----------
 */

/*
 * Look for prepared transactions that a restart of the server has left.
 */
static void
find_prepared(void)
{
	Snapshot	snapshot = GetLatestSnapshot();

	for (uint32 i = 0; i < snapshot->xcnt && control->nprepared < max_prepared_xacts; i++)
	{
		if (BackendXidGetPid(snapshot->xip[i]) == 0)
			control->prepared[control->nprepared++] = snapshot->xip[i];
	}
}

/*
 * Find or make what is in the main shared memory.
 */
static void
attach_control(void)
{
	Size		size = offsetof(Control, prepared) +
		max_prepared_xacts * sizeof(TransactionId);
	bool		found;

	common = ShmemInitStruct("dexp3", sizeof(Common), &found);
	if (!found)
	{
		common->layout = LAYOUT;
		common->mixed = false;
	}
	else if (common->layout != LAYOUT)
		common->mixed = true;
	if (common->mixed)
		return;

	control = ShmemInitStruct("dexp3 sums", size, &found);
	if (!found)
	{
		memset(control, 0, size);
		LWLockInitialize(&control->lock, LWLockNewTrancheId());
		control->area = DSM_HANDLE_INVALID;
		control->table = InvalidDsaPointer;
		pg_atomic_init_u64(&control->generation, 1);
		pg_atomic_init_u64(&control->number, 0);
		pg_atomic_init_u64(&control->used, 0);
		for (int i = 0; i < NUM_ARRIVAL_SLOTS; i++)
			pg_atomic_init_u64(&control->arrivals[i], 0);
		find_prepared();
	}
	LWLockRegisterTranche(control->lock.tranche, "dexp3");
}

/*
 * Find or make all that is shared.
 */
static void
attach(void *argument pg_attribute_unused())
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	dshash_parameters params = {
		.key_size = sizeof(SharedKey),
		.entry_size = sizeof(SharedEntry),
		.compare_function = dshash_memcmp,
		.hash_function = dshash_memhash
	};

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	if (control == NULL)
		attach_control();
	if (control != NULL && area == NULL)
	{
		if (control->area == DSM_HANDLE_INVALID)
		{
			area = dsa_create(control->lock.tranche);
			dsa_pin(area);
			control->area = dsa_get_handle(area);
		}
		else
			area = dsa_attach(control->area);
		dsa_pin_mapping(area);
	}
	if (control != NULL)
	{
		params.tranche_id = control->lock.tranche;
		SetDshashCopyFunction(&params);
		if (DsaPointerIsValid(control->table))
			table = dshash_attach(area, &params, control->table, NULL);
		else
		{
			table = dshash_create(area, &params, NULL);
			control->table = dshash_get_hash_table_handle(table);
		}
	}
	LWLockRelease(AddinShmemInitLock);
	MemoryContextSwitchTo(old);
}

/*
 * Run something that may fail for want of memory, and return whether it has not.
 * No other lightweight lock may be held.
 */
bool
shared_without_failing(void (*action) (void *), void *argument)
{
	MemoryContext caller_context = CurrentMemoryContext;
	ResourceOwner caller_owner = CurrentResourceOwner;
	ResourceOwner volatile owner = NULL;
	uint32		holdoff = InterruptHoldoffCount;
	volatile bool done = true;

	PG_TRY();
	{
		owner = ResourceOwnerCreate(caller_owner, "dexp3");
		CurrentResourceOwner = owner;
		action(argument);
	}
	PG_CATCH();
	{
		LWLockReleaseAll();
		InterruptHoldoffCount = holdoff;
		MemoryContextSwitchTo(caller_context);
		FlushErrorState();
		done = false;
	}
	PG_END_TRY();

	/* what a failure has left half-made, such as a piece of shared memory */
	CurrentResourceOwner = caller_owner;
	if (owner != NULL)
	{
		ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, done, false);
		ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, done, false);
		ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, done, false);
		ResourceOwnerDelete(owner);
	}
	return done;
}

/*
 * Make sure, before a transaction writes, that its end will be able to tell the
 * others.
 */
void
shared_attach(void)
{
	static bool impossible = false;

	if (table != NULL || impossible || !IsUnderPostmaster || RecoveryInProgress())
		return;

	/*
	 * without control it is impossible for all sessions, while the server is
	 * up
	 */
	(void) shared_without_failing(attach, NULL);
	impossible = control == NULL;
}

bool
shared_is_attached(void)
{
	return table != NULL && !common->mixed;
}

/*
 * Are there entries?
 */
static bool
is_usable(void)
{
	shared_attach();
	return shared_is_attached() && !RecoveryInProgress();
}

/* ----------
 * Entries
 * ----------
 */

static SharedKey
key_of(int32 bandit_id, int32 epoch)
{
	SharedKey	key = {
		.database = MyDatabaseId,
		.bandit_id = bandit_id,
		.epoch = epoch
	};

	return key;
}

static SharedEntry *
lock_entry(int32 bandit_id, int32 epoch, bool exclusive)
{
	SharedKey	key = key_of(bandit_id, epoch);

	return dshash_find(table, &key, exclusive);
}

static bool
is_valid(const SharedEntry *entry)
{
	return entry->generation == pg_atomic_read_u64(&control->generation);
}

static bool
is_of(const SharedEntry *entry, const SharedLog *log)
{
	return is_valid(entry) && entry->identity == log->identity &&
		entry->half_life == log->half_life;
}

/*
 * View the sums of arms of an entry.  Its counts are elsewhere.
 */
static void
entry_totals(const SharedEntry *entry, Totals *totals)
{
	totals->nsums = NUM_ARM_SUMS;
	totals->arms = entry->arms;
	totals->sums = dsa_get_address(area, entry->content);
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

static void
free_foreign(SharedEntry *entry)
{
	if (!DsaPointerIsValid(entry->foreign))
		return;
	dsa_free(area, entry->foreign);
	entry->foreign = InvalidDsaPointer;
	pg_atomic_fetch_sub_u64(&control->used, entry->foreign_size);
}

static void
free_content(SharedEntry *entry)
{
	free_foreign(entry);
	if (!DsaPointerIsValid(entry->content))
		return;
	dsa_free(area, entry->content);
	entry->content = InvalidDsaPointer;
	pg_atomic_fetch_sub_u64(&control->used, entry->size);
}

static void
remove_entry(SharedEntry *entry)
{
	free_content(entry);
	dshash_delete_entry(table, entry);
	pg_atomic_fetch_sub_u64(&control->used, sizeof(SharedEntry));
}

void
shared_unlock(SharedEntry *entry)
{
	dshash_release_lock(table, entry);
}

/*
 * Throw all entries away.  This cannot fail.
 */
void
shared_invalidate_all(void)
{
	if (control != NULL)
		pg_atomic_fetch_add_u64(&control->generation, 1);
}

void
shared_remove(int32 bandit_id, int32 epoch)
{
	SharedEntry *entry = lock_entry(bandit_id, epoch, true);

	if (entry != NULL)
		remove_entry(entry);
}

/* ----------
 * Prepared transactions
 *
 * A transaction that has used a bandit cannot be prepared.  One that has brought
 * rows in another way can; nobody tells us when it is committed.
 * ----------
 */

/*
 * Throw all entries away if such a transaction has ended.  The lock must be held.
 */
static void
check_prepared(void)
{
	int			left = 0;

	for (int i = 0; i < control->nprepared; i++)
	{
		if (TransactionIdIsInProgress(control->prepared[i]))
			control->prepared[left++] = control->prepared[i];
		else
			shared_invalidate_all();
	}
	control->nprepared = left;
}

void
shared_note_prepared(TransactionId xid)
{
	if (control == NULL)
		return;
	LWLockAcquire(&control->lock, LW_EXCLUSIVE);
	check_prepared();			/* so that there is room */
	if (control->nprepared < max_prepared_xacts)
		control->prepared[control->nprepared++] = xid;
	LWLockRelease(&control->lock);
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
			Frontier *frontier, bool *checkpoint_due)
{
	SharedEntry *entry;
	Totals		all;

	if (!is_usable())
		return false;
	if (control->nprepared > 0)
	{
		LWLockAcquire(&control->lock, LW_EXCLUSIVE);
		check_prepared();
		LWLockRelease(&control->lock);
	}

	/* memory first: nothing may fail under the lock */
	totals->nsums = selection->nsums;
	totals->arms = selection->arms;
	totals->sums = palloc(totals_sums_size(totals));

	entry = lock_entry(log->bandit_id, log->epoch, false);
	if (entry == NULL)
		return false;
	if (!entry->ready || !is_of(entry, log))
	{
		shared_unlock(entry);
		return false;
	}
	totals->counts = entry->counts;
	entry_totals(entry, &all);
	totals_select(&all, selection->first_arm, totals);
	frontier_copy(frontier, &entry->frontier);
	*checkpoint_due = counts_events(&entry->counts) - entry->checkpoint_events >=
		checkpoint_due_after(entry->size);
	pg_atomic_write_u64(&entry->last_used, (uint64) time_of_action());
	shared_unlock(entry);
	return true;
}

/*
 * Put a frontier in the place of the one that it was made from.  If somebody else
 * has, the one that is further on stays: both are true.
 */
void
shared_publish_frontier(const SharedLog *log, Frontier *frontier)
{
	SharedEntry *entry;

	if (!is_usable())
		return;
	entry = lock_entry(log->bandit_id, log->epoch, true);
	if (entry == NULL)
		return;
	if (entry->expirer == U64FromFullTransactionId(GetTopFullTransactionIdIfAny()))
		entry->expirer = 0;
	if (entry->ready && is_of(entry, log) && frontier->entry == entry->number &&
		(frontier->version == entry->frontier.version ||
		 frontier->cursor.xact > entry->frontier.cursor.xact ||
		 (frontier->cursor.xact == entry->frontier.cursor.xact &&
		  frontier->cursor.decision_id > entry->frontier.cursor.decision_id)))
	{
		frontier->version = entry->frontier.version + 1;
		frontier_copy(&entry->frontier, frontier);
	}
	shared_unlock(entry);
}

/*
 * If a checkpoint is due, and nobody is writing one, let it be ours to write: then
 * return true.  Who has been at it for as long as it takes for another to be due, is
 * not waited for any longer.
 */
bool
shared_claim_checkpoint(const SharedLog *log)
{
	uint64		mine = U64FromFullTransactionId(GetTopFullTransactionId());
	SharedEntry *entry = lock_entry(log->bandit_id, log->epoch, true);
	int64		events;
	bool		due;

	if (entry == NULL)
		return true;			/* there is no memory for one */
	events = counts_events(&entry->counts);
	due = entry->ready && is_of(entry, log) &&
		events - entry->checkpoint_events >= checkpoint_due_after(entry->size) &&
		(entry->checkpointer == 0 ||
		 events - entry->next_checkpoint_events >= checkpoint_due_after(entry->size) ||
		 !TransactionIdIsInProgress((TransactionId) entry->checkpointer));
	if (due)
	{
		entry->checkpointer = mine;
		entry->next_checkpoint_events = events;
	}
	shared_unlock(entry);
	return due;
}

/*
 * If nobody is letting decisions expire, let it be ours to do until a frontier is
 * published, or the transaction ends: then return true.
 */
bool
shared_claim_expiry(const SharedLog *log)
{
	uint64		mine = U64FromFullTransactionId(GetTopFullTransactionId());
	SharedEntry *entry;
	bool		is_free;

	if (!is_usable())
		return true;
	entry = lock_entry(log->bandit_id, log->epoch, true);
	if (entry == NULL)
		return true;
	is_free = entry->expirer == 0 || entry->expirer == mine ||
		!TransactionIdIsInProgress((TransactionId) entry->expirer);
	if (is_free)
		entry->expirer = mine;
	shared_unlock(entry);
	return is_free;
}

/* ----------
 * The sums of other servers
 * ----------
 */

/*
 * Return which counter counts the rows that arrive for a bandit.  Several bandits
 * may have the same one: then their rows are read once too often.
 */
int
shared_arrival_slot(const text *bandit)
{
	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(bandit),
							   VARSIZE_ANY_EXHDR(bandit), MyDatabaseId) % NUM_ARRIVAL_SLOTS;
}

uint64
shared_arrivals(int slot)
{
	shared_attach();
	return control == NULL ? 0 : pg_atomic_read_u64(&control->arrivals[slot]);
}

/*
 * Count a transaction that has brought rows, when others see them.  This cannot
 * fail.
 */
void
shared_note_arrival(int slot)
{
	if (control != NULL)
		pg_atomic_fetch_add_u64(&control->arrivals[slot], 1);
}

/*
 * Read the sums of other servers: their counts, and z of the selected arms.  Returns
 * false if there are none, or if they are out of date.
 */
bool
shared_read_foreign(const SharedLog *log, const Bandit *bandit, const Selection *selection,
					Totals *foreign)
{
	uint64		arrivals = shared_arrivals(shared_arrival_slot(bandit->name));
	SharedEntry *entry;
	bool		good = false;

	if (!is_usable())
		return false;
	foreign->nsums = 1;
	foreign->arms = selection->arms;
	foreign->sums = palloc(totals_sums_size(foreign));
	entry = lock_entry(log->bandit_id, log->epoch, false);
	if (entry == NULL)
		return false;
	if (entry->ready && is_of(entry, log) && DsaPointerIsValid(entry->foreign))
	{
		ForeignPart *part = dsa_get_address(area, entry->foreign);
		Totals		all = {.nsums = 1,.arms = part->arms,.sums = part->z};

		good = part->arrivals == arrivals && part->definition == bandit->definition;
		if (good)
		{
			foreign->counts = part->counts;
			totals_select(&all, selection->first_arm, foreign);
		}
	}
	shared_unlock(entry);
	return good;
}

typedef struct NewForeign
{
	const SharedLog *log;
	const Bandit *bandit;
	uint64		arrivals;
	const Totals *foreign;
} NewForeign;

static void
keep_foreign(void *argument)
{
	const NewForeign *new = argument;
	const Totals *foreign = new->foreign;
	Size		size = offsetof(ForeignPart, z) + totals_sums_size(foreign);
	SharedEntry *entry = lock_entry(new->log->bandit_id, new->log->epoch, true);
	ForeignPart *part;

	if (entry == NULL)
		return;
	if (!is_of(entry, new->log))
	{
		shared_unlock(entry);
		return;
	}
	if (DsaPointerIsValid(entry->foreign) && entry->foreign_size != size)
		free_foreign(entry);
	if (!DsaPointerIsValid(entry->foreign))
	{
		entry->foreign = dsa_allocate_extended(area, size, DSA_ALLOC_HUGE);
		entry->foreign_size = size;
		pg_atomic_fetch_add_u64(&control->used, size);
	}
	part = dsa_get_address(area, entry->foreign);
	part->arrivals = new->arrivals;
	part->definition = new->bandit->definition;
	part->counts = foreign->counts;
	part->arms = foreign->arms;
	memcpy(part->z, foreign->sums, totals_sums_size(foreign));
	shared_unlock(entry);
}

/*
 * Keep the sums of other servers, of all arms, that were read when the counter of
 * arrivals had been looked at.  They may be out of date already: then nobody uses
 * them.  Without memory they are read again next time.
 */
void
shared_keep_foreign(const SharedLog *log, const Bandit *bandit, uint64 arrivals,
					const Totals *foreign)
{
	NewForeign	new = {
		.log = log,
		.bandit = bandit,
		.arrivals = arrivals,
		.foreign = foreign
	};

	if (is_usable())
		(void) shared_without_failing(keep_foreign, &new);
}

/*
 * If so many milliseconds have passed since the sums of a bandit were published, let
 * it be ours to do it again: then return true.  If there is no entry, the caller has
 * to find out.
 */
bool
shared_claim_publishing(const SharedLog *log, int interval)
{
	TimestampTz now = time_of_action();
	bool		exclusive = false;
	bool		due;

	if (!is_usable())
		return true;
	do
	{
		SharedEntry *entry = lock_entry(log->bandit_id, log->epoch, exclusive);

		if (entry == NULL || !entry->ready || !is_of(entry, log))
		{
			if (entry != NULL)
				shared_unlock(entry);
			return true;
		}
		/* the clock may have been set back */
		due = entry->published_at == DT_NOBEGIN || now < entry->published_at - USECS_PER_MINUTE ||
			now - entry->published_at >= interval * INT64CONST(1000);
		if (due && exclusive)
			entry->published_at = now;
		shared_unlock(entry);
		exclusive = !exclusive;
	} while (due && exclusive);
	return due;
}

/* ----------
 * Limiting memory
 * ----------
 */

/*
 * If that is too much with what is wanted, remove the entries that have not been used for longest: in
 * each pass those of the earlier half of the time that they span.
 */
static void
limit_memory(uint64 limit, Size wanted)
{
	TimestampTz before = 0;

	while (pg_atomic_read_u64(&control->used) + wanted > limit)
	{
		TimestampTz oldest = PG_INT64_MAX;
		dshash_seq_status scan;
		SharedEntry *entry;

		dshash_seq_init(&scan, table, before > 0);
		while ((entry = dshash_seq_next(&scan)) != NULL)
		{
			TimestampTz last_used = (TimestampTz) pg_atomic_read_u64(&entry->last_used);

			oldest = Min(oldest, last_used);
			if (last_used < before)
			{
				free_content(entry);
				dshash_delete_current(&scan);
				pg_atomic_fetch_sub_u64(&control->used, sizeof(SharedEntry));
			}
		}
		dshash_seq_term(&scan);
		if (oldest == PG_INT64_MAX)
			break;				/* nothing is left */
		if (oldest >= before)
			before = oldest + Max(time_of_action() - oldest, 0) / 2 + 1;
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
	SharedKey	key = key_of(log->bandit_id, log->epoch);
	Totals		totals = {
		.nsums = NUM_ARM_SUMS,
		.arms = new->arms
	};
	SharedEntry *entry;
	uint64		generation;
	bool		found;

	limit_memory(new->limit, totals_sums_size(&totals) + sizeof(SharedEntry));
	entry = dshash_find_or_insert(table, &key, &found);
	if (!found)
	{
		memset((char *) entry + sizeof(SharedKey), 0, sizeof(SharedEntry) - sizeof(SharedKey));
		pg_atomic_init_u64(&entry->last_used, 0);
		entry->content = InvalidDsaPointer;
		entry->foreign = InvalidDsaPointer;
		pg_atomic_fetch_add_u64(&control->used, sizeof(SharedEntry));
	}
	if (is_of(entry, log))
	{
		shared_unlock(entry);	/* ready, or somebody is making it */
		return;
	}

	/* from here on it is not valid until it is begun */
	entry->ready = false;
	entry->generation = 0;
	free_content(entry);
	generation = pg_atomic_read_u64(&control->generation);	/* before the snapshot */
	new->snapshot = RegisterSnapshotOnOwner(GetLatestSnapshot(), new->owner);
	moment_of_snapshot(new->moment, new->snapshot);

	entry->size = totals_sums_size(&totals) + new->moment->nrunning * sizeof(uint64);
	entry->content = dsa_allocate_extended(area, entry->size, DSA_ALLOC_ZERO | DSA_ALLOC_HUGE);
	pg_atomic_fetch_add_u64(&control->used, entry->size);
	entry->arms = new->arms;
	entry->identity = log->identity;
	entry->half_life = log->half_life;
	entry->next = new->moment->next;
	entry->nrunning = new->moment->nrunning;
	memcpy((char *) dsa_get_address(area, entry->content) + totals_sums_size(&totals),
		   new->moment->running, new->moment->nrunning * sizeof(uint64));
	counts_init(&entry->counts);
	frontier_init(&entry->frontier);
	entry->checkpointer = 0;
	entry->published_at = DT_NOBEGIN;
	entry->expirer = 0;
	pg_atomic_write_u64(&entry->last_used, (uint64) time_of_action());
	entry->number = pg_atomic_add_fetch_u64(&control->number, 1);
	entry->generation = generation;

	building_key = key;
	building = entry->number;
	new->begun = true;
	shared_unlock(entry);
}

/*
 * Begin to make an entry, for so many arms.  If it is ours to make, return true,
 * with the snapshot, which is registered, and the moment at which the log must be
 * folded.  Otherwise there is one, or none can be made.
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
	if (!is_usable())
		return false;
	/* the system may have less memory than the setting allows */
	for (int try = 0; try < 2 && !shared_without_failing(begin_entry, &new); try++)
	{
		if (new.snapshot != NULL)
			UnregisterSnapshot(new.snapshot);
		new.snapshot = NULL;
		new.limit = pg_atomic_read_u64(&control->used) / 2;
	}
	*snapshot = new.snapshot;
	return new.begun;
}

/*
 * Complete the entry that was begun, if it is still there.
 */
void
shared_finish_build(const Totals *totals, Frontier *frontier,
					int64 checkpoint_events)
{
	SharedEntry *entry = dshash_find(table, &building_key, true);
	uint64		number = building;
	Totals		sums;
	double		scale;

	building = 0;
	if (entry == NULL)
		return;
	if (entry->number != number || !is_valid(entry))
	{
		shared_unlock(entry);
		return;
	}
	entry_totals(entry, &sums);
	if (totals->arms > sums.arms)
	{
		remove_entry(entry);	/* the bandit has got arms meanwhile */
		return;
	}
	add_counts(entry, &totals->counts, &scale);
	for (int arm = 0; arm < totals->arms; arm++)
		arm_sums_add(sums.sums + arm, sums.arms, totals->sums + arm, totals->arms,
					 NUM_ARM_SUMS, scale);
	frontier->entry = number;
	frontier_copy(&entry->frontier, frontier);
	entry->checkpoint_events = checkpoint_events;
	entry->ready = true;
	shared_unlock(entry);
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
	entry = dshash_find(table, &building_key, true);
	if (entry != NULL && entry->number == number && !entry->ready)
		remove_entry(entry);
	else if (entry != NULL)
		shared_unlock(entry);
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
	SharedEntry *entry = lock_entry(bandit_id, epoch, true);

	if (entry == NULL)
		return NULL;
	if (!is_valid(entry) || is_covered(entry, xact))
	{
		shared_unlock(entry);
		return NULL;
	}
	if (!counts_fit(counts, entry->half_life))
	{
		remove_entry(entry);
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
		remove_entry(entry);
		return false;
	}
	entry_totals(entry, &totals);
	arm_sums_add(totals.sums + arm, totals.arms, sums, 1, NUM_ARM_SUMS, scale);
	return true;
}
