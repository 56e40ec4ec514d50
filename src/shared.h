/*
 * shared.h
 *	  The committed sums of bandits, in shared memory.
 */
#ifndef DEXP3_SHARED_H
#define DEXP3_SHARED_H

#include "postgres.h"

#include "entry.h"
#include "moment.h"

/* Which part of its sums. */
typedef struct Selection
{
	int			nsums;			/* this many of each arm, from the first on */
	int			first_arm;
	int			arms;
} Selection;

/* Using an entry */
extern bool shared_read(const SharedLog *log, const Selection *selection,
						Totals *totals, Frontier *frontier, bool *checkpoint_due,
						int64 *last_in_batch);
extern int64 shared_last_in_batch(const SharedLog *log);
extern void shared_note_batch(int32 bandit_id, int32 epoch, int64 last_decision);
extern void shared_publish_frontier(const SharedLog *log, Frontier *frontier);
extern bool shared_claim_checkpoint(const SharedLog *log);
extern bool shared_frontier_is_claimed(int32 bandit_id, int32 epoch);
extern bool shared_claim_frontier(const SharedLog *log, Frontier *frontier);
extern void shared_release_frontier(void);
extern bool shared_claim_publishing(const SharedLog *log, int interval);

/* Building one */
extern bool shared_begin_build(const SharedLog *log, int arms, Snapshot *snapshot,
							   Moment *moment);
extern void shared_finish_build(const Totals *totals, Frontier *frontier,
								int64 checkpoint_events, int64 last_in_batch);
extern void shared_abandon_build(void);

/* At the end of a transaction */
extern SharedEntry *shared_lock_to_add(int32 bandit_id, int32 epoch, uint64 xact,
									   const Counts *counts, bool checkpoint,
									   double *scale);
extern bool shared_add_arm(SharedEntry *entry, int arm, const double *sums,
						   double scale);
extern void shared_remove(int32 bandit_id, int32 epoch);

#endif							/* DEXP3_SHARED_H */
