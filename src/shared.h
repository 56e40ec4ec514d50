/*
 * shared.h
 *	  The committed sums of bandits, in shared memory.
 */
#ifndef DEXP3_SHARED_H
#define DEXP3_SHARED_H

#include "postgres.h"

#include "frontier.h"
#include "moment.h"
#include "totals.h"

/* the setting dexp3.shared_memory, in kilobytes */
extern int	shared_memory;

/* There is a counter of arrivals for each of these, see shared_arrivals(). */
#define NUM_ARRIVAL_SLOTS	256

/* Which log. */
typedef struct SharedLog
{
	int32		bandit_id;
	int32		epoch;
	uint64		identity;		/* of the tables, see log_lock() */
	int64		half_life;		/* that its sums are weighted with */
} SharedLog;

/* Which part of its sums. */
typedef struct Selection
{
	int			nsums;			/* so many of each arm, from the first on */
	int			first_arm;
	int			arms;
} Selection;

/* Using an entry */
extern bool shared_read(const SharedLog *log, const Selection *selection,
						Totals *totals, Frontier *frontier, bool *checkpoint_due);
extern void shared_publish_frontier(const SharedLog *log, Frontier *frontier);
extern bool shared_claim_checkpoint(const SharedLog *log);
extern bool shared_claim_expiry(const SharedLog *log);

/* The sums of other servers, which are part of it */
extern int	shared_arrival_slot(const text *bandit);
extern uint64 shared_arrivals(int slot);
extern void shared_note_arrival(int slot);
extern bool shared_read_foreign(const SharedLog *log, const Bandit *bandit,
								const Selection *selection, Totals *foreign);
extern void shared_keep_foreign(const SharedLog *log, const Bandit *bandit,
								uint64 arrivals, const Totals *foreign);
extern bool shared_claim_publishing(const SharedLog *log, int interval);

/* Building one */
extern bool shared_begin_build(const SharedLog *log, int arms, Snapshot *snapshot,
							   Moment *moment);
extern void shared_finish_build(const Totals *totals, Frontier *frontier,
								int64 checkpoint_events);
extern void shared_abandon_build(void);

/* At the end of a transaction */
typedef struct SharedEntry SharedEntry;

extern void shared_attach(void);
extern bool shared_without_failing(void (*action) (void *), void *argument);
extern SharedEntry *shared_lock_to_add(int32 bandit_id, int32 epoch, uint64 xact,
									   const Counts *counts, bool checkpoint,
									   double *scale);
extern bool shared_add_arm(SharedEntry *entry, int arm, const double *sums,
						   double scale);
extern void shared_unlock(SharedEntry *entry);
extern void shared_remove(int32 bandit_id, int32 epoch);
extern void shared_invalidate_all(void);
extern bool shared_is_attached(void);
extern void shared_note_prepared(TransactionId xid);

#endif							/* DEXP3_SHARED_H */
