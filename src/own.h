/*
 * own.h
 *	  What the running transaction adds to the sums of bandits.
 */
#ifndef DEXP3_OWN_H
#define DEXP3_OWN_H

#include "postgres.h"

#include "frontier.h"
#include "shared.h"
#include "totals.h"

extern void own_init(void);

/* Rows that this transaction writes */
extern void own_add(int32 bandit_id, int32 epoch, const Addition *addition);
extern bool own_has_checkpoint(int32 bandit_id, int32 epoch);
extern void own_note_checkpoint(int32 bandit_id, int32 epoch);
extern void own_note_settled(const DecisionRow *row);
extern void own_reopen(int32 bandit_id, int32 epoch, Frontier *frontier);
extern void own_publish_frontier(const SharedLog *log, Frontier *frontier);
extern void own_add_to(int32 bandit_id, int32 epoch, const Selection *selection,
					   Totals *totals);

/* A bandit whose decisions may expire when this transaction is committed. */
typedef struct OwnExpiry
{
	int32		bandit_id;
	int32		epoch;
	int64		decisions;		/* that this transaction has made */
} OwnExpiry;

extern void own_note_expiry(int32 bandit_id, int32 epoch, TimestampTz after);
extern int	own_expiries(TimestampTz now, OwnExpiry **expiries);

/* Rows that come or go in another way */
extern void own_disturb(int32 bandit_id, int32 epoch);
extern void own_disturb_all(void);
extern void own_use_log(uint64 identity);
extern void own_use_half_life(int32 bandit_id, int32 epoch, int64 half_life);
extern void own_expect_changes(bool expected);
extern bool own_expects_changes(void);
extern bool own_is_disturbed(int32 bandit_id, int32 epoch);

/* Rows of other servers that come to dexp3.component, or leave it */
extern void own_note_arrival(const text *bandit);
extern void own_note_arrival_for_all(void);
extern bool own_has_arrival(const text *bandit);

#endif							/* DEXP3_OWN_H */
