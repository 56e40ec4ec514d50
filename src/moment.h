/*
 * moment.h
 *	  Which transactions had finished at some moment.
 */
#ifndef DEXP3_MOMENT_H
#define DEXP3_MOMENT_H

#include "postgres.h"

#include "utils/snapshot.h"

/*
 * A snapshot, reduced to what a log row's column xact is compared with: full
 * identifiers of top-level transactions.
 */
typedef struct Moment
{
	uint64		next;			/* no transaction from here on had finished */
	int			nrunning;
	int			capacity;
	uint64	   *running;		/* not finished although before next; sorted */
} Moment;

extern void moment_init(Moment *moment);
extern void moment_of_snapshot(Moment *moment, Snapshot snapshot);
extern void moment_set_running(Moment *moment, const void *running, int nrunning);
extern void moment_reach(Moment *moment, uint64 xact);
extern int	moment_first_running(const Moment *moment, uint64 from);
extern uint64 full_xid(TransactionId xid);

static inline bool
moment_is_running(const Moment *moment, uint64 xact)
{
	int			i = moment_first_running(moment, xact);

	return i < moment->nrunning && moment->running[i] == xact;
}

static inline bool
moment_includes(const Moment *moment, uint64 xact)
{
	return xact < moment->next && !moment_is_running(moment, xact);
}

#endif							/* DEXP3_MOMENT_H */
