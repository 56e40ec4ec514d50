/*
 * checkpoint.h
 *	  Folded states in dexp3.checkpoint, so that a session need not fold the
 *	  whole log.
 */
#ifndef DEXP3_CHECKPOINT_H
#define DEXP3_CHECKPOINT_H

#include "postgres.h"

#include "fold.h"

extern bool checkpoint_load(int32 bandit_id, int32 epoch, Fold *fold, Seen *seen);
extern int64 checkpoint_newest(int32 bandit_id, int32 epoch);
extern void checkpoint_write(int32 bandit_id, int32 epoch, const Fold *fold,
							 const Seen *seen, int64 older);
extern void checkpoint_remove(int32 bandit_id);
extern void checkpoint_remove_all(void);

#endif							/* DEXP3_CHECKPOINT_H */
