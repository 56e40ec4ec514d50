/*
 * moment.c
 *	  Which transactions had finished at some moment.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "utils/memutils.h"

#include "moment.h"

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
 * Widen the identifier of a transaction that has begun.
 */
uint64
full_xid(TransactionId xid)
{
	return widen(xid, ReadNextFullTransactionId());
}

/*
 * Start with no transaction finished.  The list lives in the current memory
 * context and stays there when it grows.
 */
void
moment_init(Moment *moment)
{
	moment->next = 0;
	moment->nrunning = 0;
	moment->capacity = 16;
	moment->running = palloc(sizeof(uint64) * moment->capacity);
}

static void
reserve(Moment *moment, int n)
{
	if (n > moment->capacity)
	{
		moment->capacity = Max(n, 2 * moment->capacity);
		moment->running = repalloc(moment->running, sizeof(uint64) * moment->capacity);
	}
}

/*
 * Add a transaction to those that are running.
 */
static void
add_running(Moment *moment, uint64 xact)
{
	int			place = moment_first_running(moment, xact);

	reserve(moment, moment->nrunning + 1);
	memmove(moment->running + place + 1, moment->running + place,
			(moment->nrunning - place) * sizeof(uint64));
	moment->running[place] = xact;
	moment->nrunning++;
}

/*
 * Set a moment to that of a snapshot, which was taken just now.
 *
 * A snapshot does not list one's own transaction; a moment does, because it is running.
 */
void
moment_of_snapshot(Moment *moment, Snapshot snapshot)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint64		mine = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	int			n = 0;

	reserve(moment, snapshot->xcnt + snapshot->subxcnt);
	for (uint32 i = 0; i < snapshot->xcnt; i++)
		moment->running[n++] = widen(snapshot->xip[i], next);

	/* on a standby all transactions are kept together with subtransactions */
	if (snapshot->takenDuringRecovery)
	{
		for (int32 i = 0; i < snapshot->subxcnt; i++)
			moment->running[n++] = widen(snapshot->subxip[i], next);
	}
	moment->nrunning = n;
	moment->next = widen(snapshot->xmax, next);
	qsort(moment->running, n, sizeof(uint64), compare_xacts);
	if (mine != 0 && mine < moment->next)
		add_running(moment, mine);
}

/*
 * Set the list to a copy of a sorted one, which need not be aligned.
 */
void
moment_set_running(Moment *moment, const void *running, int nrunning)
{
	reserve(moment, nrunning);
	memcpy(moment->running, running, sizeof(uint64) * nrunning);
	moment->nrunning = nrunning;
}

/*
 * Let a moment reach up to a transaction, by listing all before it as running.
 */
void
moment_reach(Moment *moment, uint64 xact)
{
	if (xact <= moment->next)
		return;
	reserve(moment, moment->nrunning + (int) (xact - moment->next));
	while (moment->next < xact)
		moment->running[moment->nrunning++] = moment->next++;
}

/*
 * Return the place in the list of the first transaction from the given one on.
 */
int
moment_first_running(const Moment *moment, uint64 from)
{
	int			low = 0;
	int			high = moment->nrunning;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (moment->running[middle] < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
