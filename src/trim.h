/*
 * trim.h
 *	  Removing old rows from the log of a managed bandit.
 */
#ifndef DEXP3_TRIM_H
#define DEXP3_TRIM_H

#include "postgres.h"

#include "bandit.h"
#include "sums.h"

extern void checkpoint_and_trim(const Sums *sums, const Bandit *bandit);
extern int64 trim_some(const Bandit *bandit, uint64 *from);
extern int64 trim_earlier_epochs(const Bandit *bandit);
extern void trim_convert(int32 bandit_id, int32 epoch, int64 from, int64 to);
extern void trim_whole_log(int32 bandit_id);
extern void trim_dropped(int64 limit);
extern bool trim_find(int64 decision_id, int32 *bandit_id, int32 *epoch,
					  SettledBy *settled_by);

#endif							/* DEXP3_TRIM_H */
