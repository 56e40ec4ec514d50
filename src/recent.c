/*
 * recent.c
 *	  The newest rows of the log, in shared memory.
 *
 * With many sessions at work, most of what a session has to read was written a
 * moment ago.  So whoever appends a row to the log also puts a copy into a ring in
 * shared memory, where the others find it without an index and without visiting
 * pages.  The ring is a convenience: what is not there is in the log.
 *
 * Why it can be trusted.  A row is put into the ring by the transaction that
 * inserts it, before that has finished.  So when a transaction has finished, all
 * its rows have been in the ring, and they still are if it is later than `lost`,
 * the latest transaction of which a row has been overwritten, or which may have
 * begun before there was a ring.  A reader that wants to know about
 * transactions after `lost` only, and knows that they have finished, finds all
 * of their rows here.  Whether these are valid is decided as for a row of a
 * table, by the fate of the subtransaction that wrote it.
 *
 * Of each bandit the newest transaction that wrote to its log is known for
 * longer.  If that is an old one there is nothing to read, however much has been
 * overwritten: it is what a session finds that uses many bandits in turn.
 *
 * Rows that are many (bandit_choose_many) or that arrive in another way (COPY,
 * replication) are not copied.  Their transaction leaves a note that says to look
 * into the log.  Rows that have been removed (trim.c) are as good as any other:
 * whoever has all rows does not need their sums.
 *
 * All sessions that write must take part.  The library of version 1.0 did not: so
 * the ring is not read before the extension has been updated, after which that
 * library refuses to work, since tables have more columns than it knows.  Later
 * libraries can tell from the layout of the ring.  During recovery it is not
 * used, since rows come from another server then.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "compat.h"
#include "recent.h"
#include "tables.h"

/*
 * How many rows there are.  All sessions that are at work have some rows each
 * that another one may not have read yet.
 */
#define NUM_ROWS	256

/* For more transactions the log is asked: 32 bits of their identifiers must do. */
#define MAX_XACTS	1000000000

/* Bandits whose identifiers differ by a multiple of this are taken for the same. */
#define NUM_BANDITS 1024

typedef enum RecentKind
{
	RECENT_DECISION,
	RECENT_SETTLEMENT,
	LOOK_INTO_LOG				/* there are rows that are not here */
} RecentKind;

typedef struct RecentRow
{
	uint64		xact;			/* top-level transaction */
	TransactionId writer;		/* it, or its subtransaction */
	Oid			database;
	int32		bandit_id;
	RecentKind	kind;
	union
	{
		Decision	decision;	/* without its subject */
		Settlement	settlement;
	}			row;
} RecentRow;

typedef struct Recent
{
	uint64		begin;			/* nothing is known about earlier transactions */
	uint64		lost;			/* rows of this and earlier transactions may be
								 * missing */
	uint64		newest[NUM_BANDITS];	/* transactions that wrote, 0 for none */
	uint64		next;			/* how many rows have ever been added */
	uint64		xacts[NUM_ROWS];	/* of the rows; 0 for none */
	RecentRow	rows[NUM_ROWS];
} Recent;

/* To be counted up if the meaning of something changes, but not its size. */
#define LAYOUT	(1000000 + sizeof(Recent))

/*
 * What never changes, so that sessions with different libraries understand it: if
 * there are such, until the server is restarted nobody reads a ring.
 */
typedef struct Common
{
	LWLock		lock;			/* protects this, and the ring */
	uint64		layout;			/* of the ring */
	bool		mixed;			/* there are sessions with another one */
} Common;

static Common *common = NULL;
static Recent *recent = NULL;

/* Copies of the rows that a reader looks at. */
static RecentRow *copies = NULL;

/*
 * Find or make something in shared memory.  Returns NULL if there is none left of
 * what PostgreSQL keeps free for late comers.
 */
static void *
find_or_make(const char *name, Size size, bool *found)
{
	MemoryContext caller_context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	void	   *result;

	*found = false;
	PG_TRY();
	{
		result = ShmemInitStruct(name, size, found);
	}
	PG_CATCH();
	{
		/* it has nothing to clean up, and we still hold a lock */
		InterruptHoldoffCount = holdoff;
		MemoryContextSwitchTo(caller_context);
		FlushErrorState();
		result = NULL;
	}
	PG_END_TRY();
	return result;
}

/*
 * Find the ring, or make it.  If there is no memory for it there never will be
 * while the server is up, so that all sessions do without.
 */
static bool
attach(void)
{
	static bool tried = false;
	bool		found;

	if (tried)
		return recent != NULL;
	if (RecoveryInProgress())
		return false;

	if (copies == NULL)
		copies = MemoryContextAlloc(TopMemoryContext, NUM_ROWS * sizeof(RecentRow));
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	common = find_or_make("dexp3", sizeof(Common), &found);
	if (common != NULL && !found)
	{
		LWLockInitialize(&common->lock, LWLockNewTrancheId());
		common->layout = LAYOUT;
		common->mixed = false;
	}
	if (common != NULL)
		LWLockRegisterTranche(common->lock.tranche, "dexp3");
	if (common != NULL && common->layout != LAYOUT)
	{
		LWLockAcquire(&common->lock, LW_EXCLUSIVE);
		common->mixed = true;
		LWLockRelease(&common->lock);
	}
	else if (common != NULL)
		recent = find_or_make("dexp3 recent rows", sizeof(Recent), &found);
	if (recent != NULL && !found)
	{
		memset(recent, 0, sizeof(Recent));
		recent->begin = U64FromFullTransactionId(ReadNextFullTransactionId());
		recent->lost = recent->begin;
	}
	LWLockRelease(AddinShmemInitLock);
	tried = true;
	return recent != NULL;
}

static uint64 *
newest_of(int32 bandit_id)
{
	return &recent->newest[((uint32) bandit_id + MyDatabaseId) % NUM_BANDITS];
}

/* ----------
 * Writing
 * ----------
 */

static void
add(uint64 xact, RecentRow *row)
{
	uint64	   *newest;
	int			place;

	if (!attach())
		return;

	row->xact = xact;
	row->writer = GetCurrentTransactionId();
	row->database = MyDatabaseId;
	newest = newest_of(row->bandit_id);
	LWLockAcquire(&common->lock, LW_EXCLUSIVE);
	*newest = Max(*newest, xact);
	place = recent->next++ % NUM_ROWS;
	recent->lost = Max(recent->lost, recent->xacts[place]);
	recent->xacts[place] = xact;
	recent->rows[place] = *row;
	LWLockRelease(&common->lock);
}

void
recent_add_decision(uint64 xact, const Decision *decision)
{
	RecentRow	row = {
		.kind = RECENT_DECISION,
		.bandit_id = decision->bandit_id,
		.row.decision = *decision
	};

	row.row.decision.subject = NULL;
	add(xact, &row);
}

void
recent_add_settlement(uint64 xact, const Settlement *settlement)
{
	RecentRow	row = {
		.kind = RECENT_SETTLEMENT,
		.bandit_id = settlement->bandit_id,
		.row.settlement = *settlement
	};

	add(xact, &row);
}

/*
 * Take note that this transaction changes the log of a bandit in another way.
 */
void
recent_look_into_log(uint64 xact, int32 bandit_id)
{
	static uint64 last_xact = 0;
	static int32 last_bandit_id = 0;
	RecentRow	row = {
		.kind = LOOK_INTO_LOG,
		.bandit_id = bandit_id
	};

	/* once is enough: if it is overwritten, the transaction is among the lost */
	if (xact == last_xact && bandit_id == last_bandit_id)
		return;
	add(xact, &row);
	last_xact = xact;
	last_bandit_id = bandit_id;
}

/* ----------
 * Reading
 * ----------
 */

/*
 * Copy the rows of a bandit that transactions from `from` on and before `before`
 * have written, and set *n to their number.  Returns false if some are missing.
 */
static bool
copy_rows(int32 bandit_id, uint64 from, uint64 before, int *n)
{
	bool		none;
	bool		complete;

	*n = 0;
	LWLockAcquire(&common->lock, LW_SHARED);
	none = from > recent->begin && from > *newest_of(bandit_id);
	complete = none || from > recent->lost;
	if (common->mixed || before - from > MAX_XACTS)
		complete = false;
	for (int i = 0; !none && complete && i < NUM_ROWS; i++)
	{
		const RecentRow *row = &recent->rows[i];

		if (recent->xacts[i] >= from && recent->xacts[i] < before &&
			row->bandit_id == bandit_id && row->database == MyDatabaseId)
			copies[(*n)++] = *row;
	}
	LWLockRelease(&common->lock);
	return complete;
}

/*
 * Keep only those copies that are wanted and have been committed.  Returns false
 * if the log must be looked into.
 */
static bool
keep_committed(LogFilter wanted, void *context, int *n)
{
	int			kept = 0;
	bool		known = true;

	if (*n == 0)
		return true;

	/* what the commit log knows about very old transactions may be going away */
	LWLockAcquire(XactTruncationLock, LW_SHARED);
	for (int i = 0; known && i < *n; i++)
	{
		RecentRow  *row = &copies[i];

		if (!wanted(context, row->xact))
			continue;
		known = row->kind != LOOK_INTO_LOG &&
			TransactionIdFollowsOrEquals(row->writer, OldestClogXid);
		if (known && TransactionIdDidCommit(row->writer))
			copies[kept++] = *row;
	}
	LWLockRelease(XactTruncationLock);
	*n = kept;
	return known;
}

/*
 * Visit the rows of a bandit as log_scan() does, first decisions, then settlements.
 * What is wanted must have finished.  Returns false, having visited nothing, if
 * not all rows are here.
 */
bool
recent_scan(int32 bandit_id, int32 epoch, uint64 from, uint64 before,
			LogFilter wanted, LogVisitor visit_decision,
			LogVisitor visit_settlement, void *context)
{
	int			n;

	if (!OidIsValid(tables()->trimmed) || !attach() ||
		!copy_rows(bandit_id, from, before, &n) ||
		!keep_committed(wanted, context, &n))
		return false;

	for (int i = 0; i < n; i++)
	{
		if (copies[i].kind == RECENT_DECISION && copies[i].row.decision.epoch == epoch)
			visit_decision(context, &copies[i].row.decision);
	}
	for (int i = 0; i < n; i++)
	{
		if (copies[i].kind == RECENT_SETTLEMENT && copies[i].row.settlement.epoch == epoch)
			visit_settlement(context, &copies[i].row.settlement);
	}
	return true;
}
