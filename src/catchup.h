/*
 * catchup.h
 *	  Bringing the state of a managed bandit up to date.
 */
#ifndef DEXP3_CATCHUP_H
#define DEXP3_CATCHUP_H

#include "postgres.h"

#include "fold.h"
#include "progress.h"
#include "seen.h"

/*
 * A state that follows the log.  It holds the rows of all transactions that had
 * finished at the moment `seen`, and those that own_xact, our own transaction or
 * the last one, has written.
 */
typedef struct Followed
{
	int32		bandit_id;
	int32		epoch;
	bool		may_be_trimmed; /* may rows of the log have been removed? */
	bool		valid;			/* false while it is being changed */
	bool		outdated;		/* the bandit has got arms since */
	Fold		fold;
	Seen		seen;			/* which transactions have been folded */
	Seen		next_seen;		/* the same, while catching up */
	uint64		own_xact;		/* our transaction that has been folded, or 0 */
	bool		found_own;		/* has catching up found rows of ours? */
} Followed;

extern bool bring_up_to_date(Followed *state, const Seen *moment,
							 Progress *progress);

#endif							/* DEXP3_CATCHUP_H */
