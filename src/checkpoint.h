/*
 * checkpoint.h
 *	  Sums in dexp3.checkpoint, so that nobody need add up the whole log.
 */
#ifndef DEXP3_CHECKPOINT_H
#define DEXP3_CHECKPOINT_H

#include "postgres.h"

#include "frontier.h"
#include "moment.h"
#include "totals.h"

extern bool checkpoint_read(const Bandit *bandit, Snapshot snapshot, Totals *totals,
							Frontier *frontier, Moment *moment);
extern bool checkpoint_lock_to_write(void);
extern void checkpoint_write(int32 bandit_id, int32 epoch, const Totals *totals,
							 const Frontier *frontier, const Moment *moment,
							 int64 made_from);
extern int64 checkpoint_due_after(Size sums_size);
extern void checkpoint_remove(int32 bandit_id);
extern void checkpoint_remove_all(void);

#endif							/* DEXP3_CHECKPOINT_H */
