/*
 * current.h
 *	  The current state of a managed bandit, remembered from call to call.
 */
#ifndef DEXP3_CURRENT_H
#define DEXP3_CURRENT_H

#include "postgres.h"

#include "bandit.h"
#include "fold.h"
#include "insert.h"

typedef struct Current Current;

/* the setting dexp3.cache_memory, in kilobytes */
extern int	cache_memory;

extern void current_init(void);
extern Current *current_state(const Bandit *bandit);
extern Fold *current_fold(Current *current);
extern Fold *current_replay(const Bandit *bandit, Fold **running);
extern void current_prepare_to_write(Current *current, const Bandit *bandit);
extern void current_add_decision(Current *current, const Decision *decision);
extern void current_begin_decisions(Current *current);
extern void current_add_one_of_many(Current *current, RowInserter *inserter,
									const Decision *decision);
extern void current_end_decisions(Current *current);
extern int64 current_trim(Current *current, const Bandit *bandit, int64 limit,
						  uint64 *from);
extern bool current_add_settlement(Current *current, const Settlement *settlement);
extern void current_rows_arrive(int32 bandit_id);

#endif							/* DEXP3_CURRENT_H */
