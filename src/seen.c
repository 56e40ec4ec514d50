/*
 * seen.c
 *	  Which transactions were finished at some moment.
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "seen.h"

static int
compare_xacts(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

/*
 * Widen a transaction identifier that is not in the future of next.
 */
static uint64
widen(TransactionId xid, FullTransactionId next)
{
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return U64FromFullTransactionId(FullTransactionIdFromEpochAndXid(epoch, xid));
}

/*
 * Start with no transaction seen.  The list lives in the current memory context
 * and stays there when it grows.
 */
void
seen_init(Seen *seen)
{
	seen->next = 0;
	seen->nrunning = 0;
	seen->capacity = 16;
	seen->running = palloc(sizeof(uint64) * seen->capacity);
}

static void
reserve(Seen *seen, int n)
{
	if (n > seen->capacity)
	{
		seen->capacity = Max(n, 2 * seen->capacity);
		seen->running = repalloc(seen->running, sizeof(uint64) * seen->capacity);
	}
}

/*
 * Set seen to this moment, whatever the isolation level.
 *
 * One's own transaction is never in the list of those that run, as in any
 * snapshot.
 */
void
seen_now(Seen *seen)
{
	Snapshot	snapshot = GetLatestSnapshot();
	FullTransactionId next = ReadNextFullTransactionId();
	int			n = 0;

	reserve(seen, snapshot->xcnt + snapshot->subxcnt);
	for (uint32 i = 0; i < snapshot->xcnt; i++)
		seen->running[n++] = widen(snapshot->xip[i], next);

	/* on a standby all transactions are kept together with subtransactions */
	if (snapshot->takenDuringRecovery)
	{
		for (int32 i = 0; i < snapshot->subxcnt; i++)
			seen->running[n++] = widen(snapshot->subxip[i], next);
	}
	seen->nrunning = n;
	seen->next = widen(snapshot->xmax, next);
	qsort(seen->running, n, sizeof(uint64), compare_xacts);
}

/*
 * Set the list to a copy of a sorted one, which need not be aligned.
 */
void
seen_set_running(Seen *seen, const void *running, int nrunning)
{
	reserve(seen, nrunning);
	memcpy(seen->running, running, sizeof(uint64) * nrunning);
	seen->nrunning = nrunning;
}

void
seen_copy(Seen *seen, const Seen *from)
{
	seen->next = from->next;
	seen_set_running(seen, from->running, from->nrunning);
}

void
seen_add_running(Seen *seen, uint64 xact)
{
	int			place;

	reserve(seen, seen->nrunning + 1);
	for (place = seen->nrunning; place > 0 && seen->running[place - 1] > xact; place--)
		seen->running[place] = seen->running[place - 1];
	seen->running[place] = xact;
	seen->nrunning++;
}

bool
seen_is_running(const Seen *seen, uint64 xact)
{
	if (seen->nrunning == 0 || xact < seen->running[0])
		return false;
	return bsearch(&xact, seen->running, seen->nrunning, sizeof(uint64),
				   compare_xacts) != NULL;
}
