/*
 * seen.h
 *	  Which transactions were finished at some moment.
 */
#ifndef DEXP3_SEEN_H
#define DEXP3_SEEN_H

#include "postgres.h"

/*
 * A snapshot, reduced to what a log row's column xact is compared with: full
 * identifiers of top-level transactions.
 */
typedef struct Seen
{
	uint64		next;			/* no transaction from here on was finished */
	int			nrunning;
	int			capacity;
	uint64	   *running;		/* not finished although before next; sorted */
} Seen;

extern void seen_init(Seen *seen);
extern void seen_now(Seen *seen);
extern void seen_copy(Seen *seen, const Seen *from);
extern void seen_add_running(Seen *seen, uint64 xact);
extern bool seen_is_running(const Seen *seen, uint64 xact);
extern void seen_set_running(Seen *seen, const void *running, int nrunning);

static inline bool
seen_includes(const Seen *seen, uint64 xact)
{
	return xact < seen->next && !seen_is_running(seen, xact);
}

#endif							/* DEXP3_SEEN_H */
