/*
 * entry.c
 *	  Entries for bandits in shared memory: where they are, how much memory they take,
 *	  and when they are thrown away.  shared.c and foreign.c know what is in them.
 *
 * They are in a dshash table in a DSA area, which the first session that needs it
 * makes; nothing has to be preloaded.  Its partition locks are the only locks of
 * entries: held in shared mode to read one, exclusively to change it.
 *
 * An entry may be thrown away at any time: to limit memory, because rows came or went in
 * another way, or because something could not be added.  The next session that needs it
 * makes it again.
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xlog.h"
#include "lib/dshash.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "clock.h"
#include "compat.h"
#include "entry.h"

/*
 * What never changes, so that sessions with different libraries understand it: if there
 * are such, nobody shares anything until the server is restarted.
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
		LWLockInitialize(&control->lock, NewTranche("dexp3"));
		control->area = DSM_HANDLE_INVALID;
		control->table = InvalidDsaPointer;
		pg_atomic_init_u64(&control->generation, 1);
		pg_atomic_init_u64(&control->number, 0);
		pg_atomic_init_u64(&control->used, 0);
		for (int i = 0; i < NUM_ARRIVAL_SLOTS; i++)
			pg_atomic_init_u64(&control->arrivals[i], 0);
		find_prepared();
	}
	NameTranche(control->lock.tranche, "dexp3");
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
 * Run something that may fail for want of memory, and return whether it has succeeded.
 * No other lightweight lock may be held.
 */
bool
entries_without_failing(void (*action) (void *), void *argument)
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
entries_attach(void)
{
	static bool impossible = false;

	if (table != NULL || impossible || !IsUnderPostmaster || RecoveryInProgress())
		return;

	/* without control it is impossible until the server is restarted */
	(void) entries_without_failing(attach, NULL);
	impossible = control == NULL;
}

bool
entries_are_attached(void)
{
	return table != NULL && !common->mixed;
}

/*
 * Are there entries?
 */
bool
entries_are_usable(void)
{
	entries_attach();
	return entries_are_attached() && !RecoveryInProgress();
}

/*
 * Return how much memory all entries take, in bytes.
 */
uint64
entries_memory(void)
{
	return pg_atomic_read_u64(&control->used);
}

/* ----------
 * One entry
 *
 * Whoever finds or makes one holds its lock until entry_unlock() or entry_remove().  In
 * between nothing may fail, except in entries_without_failing().
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

/*
 * Find an entry, whether or not it is complete and valid; NULL if there is none.
 */
SharedEntry *
entry_find(int32 bandit_id, int32 epoch, bool exclusive)
{
	SharedKey	key = key_of(bandit_id, epoch);

	return dshash_find(table, &key, exclusive);
}

/*
 * Find an entry that is complete, and of exactly this log; NULL if there is none.
 */
SharedEntry *
entry_find_ready(const SharedLog *log, bool exclusive)
{
	SharedEntry *entry = entry_find(log->bandit_id, log->epoch, exclusive);

	if (entry != NULL && !(entry->ready && entry_is_of(entry, log)))
	{
		entry_unlock(entry);
		return NULL;
	}
	return entry;
}

/*
 * Find an entry, or make one that is not valid yet.
 */
SharedEntry *
entry_find_or_make(const SharedLog *log)
{
	SharedKey	key = key_of(log->bandit_id, log->epoch);
	bool		found;
	SharedEntry *entry = dshash_find_or_insert(table, &key, &found);

	if (!found)
	{
		memset((char *) entry + sizeof(SharedKey), 0, sizeof(SharedEntry) - sizeof(SharedKey));
		pg_atomic_init_u64(&entry->last_used, 0);
		entry->content = InvalidDsaPointer;
		entry->foreign = InvalidDsaPointer;
		pg_atomic_fetch_add_u64(&control->used, sizeof(SharedEntry));
	}
	return entry;
}

/*
 * Return a number that no entry has had.
 */
uint64
entry_next_number(void)
{
	return pg_atomic_add_fetch_u64(&control->number, 1);
}

bool
entry_is_valid(const SharedEntry *entry)
{
	return entry->generation == entries_generation();
}

bool
entry_is_of(const SharedEntry *entry, const SharedLog *log)
{
	return entry_is_valid(entry) && entry->identity == log->identity &&
		entry->half_life == log->half_life;
}

/*
 * Allocate memory for an entry, filled with zeros.
 */
dsa_pointer
entry_allocate(Size size)
{
	dsa_pointer pointer = dsa_allocate_extended(area, size, DSA_ALLOC_ZERO | DSA_ALLOC_HUGE);

	pg_atomic_fetch_add_u64(&control->used, size);
	return pointer;
}

void *
entry_address(dsa_pointer pointer)
{
	return dsa_get_address(area, pointer);
}

static void
free_memory(dsa_pointer *pointer, Size size)
{
	if (!DsaPointerIsValid(*pointer))
		return;
	dsa_free(area, *pointer);
	*pointer = InvalidDsaPointer;
	pg_atomic_fetch_sub_u64(&control->used, size);
}

void
entry_free_foreign(SharedEntry *entry)
{
	free_memory(&entry->foreign, entry->foreign_size);
}

void
entry_free_content(SharedEntry *entry)
{
	entry_free_foreign(entry);
	free_memory(&entry->content, entry->size);
}

void
entry_remove(SharedEntry *entry)
{
	entry_free_content(entry);
	dshash_delete_entry(table, entry);
	pg_atomic_fetch_sub_u64(&control->used, sizeof(SharedEntry));
}

void
entry_unlock(SharedEntry *entry)
{
	dshash_release_lock(table, entry);
}

/*
 * Return the counter of rows that have come from other servers, or NULL if there is no
 * shared memory.
 */
pg_atomic_uint64 *
arrival_counter(int slot)
{
	return control == NULL ? NULL : &control->arrivals[slot];
}

/* ----------
 * Throwing entries away
 * ----------
 */

/*
 * Return the generation that entries must have to be valid.
 */
uint64
entries_generation(void)
{
	return pg_atomic_read_u64(&control->generation);
}

/*
 * Throw all entries away.  This cannot fail.
 */
void
entries_invalidate(void)
{
	if (control != NULL)
		pg_atomic_fetch_add_u64(&control->generation, 1);
}

/*
 * If the entries and what is wanted are too much together, remove the entries that have
 * been unused for longest: in each pass, those of the earlier half of the time that they
 * span.
 */
void
entries_limit_memory(uint64 limit, Size wanted)
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
				entry_free_content(entry);
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
forget_ended(void)
{
	int			left = 0;

	for (int i = 0; i < control->nprepared; i++)
	{
		if (TransactionIdIsInProgress(control->prepared[i]))
			control->prepared[left++] = control->prepared[i];
		else
			entries_invalidate();
	}
	control->nprepared = left;
}

void
entries_note_prepared(TransactionId xid)
{
	if (control == NULL)
		return;
	LWLockAcquire(&control->lock, LW_EXCLUSIVE);
	forget_ended();				/* so that there is room */
	if (control->nprepared < max_prepared_xacts)
		control->prepared[control->nprepared++] = xid;
	LWLockRelease(&control->lock);
}

/*
 * Throw all entries away if such a transaction has ended.
 */
void
entries_check_prepared(void)
{
	if (control->nprepared == 0)
		return;
	LWLockAcquire(&control->lock, LW_EXCLUSIVE);
	forget_ended();
	LWLockRelease(&control->lock);
}
