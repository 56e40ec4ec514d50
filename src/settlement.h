/*
 * settlement.h
 *	  How a decision was settled: by a row of dexp3.feedback, or by one of
 *	  dexp3.expiry that it shares with others.
 */
#ifndef DEXP3_SETTLEMENT_H
#define DEXP3_SETTLEMENT_H

#include "postgres.h"

#include "rows.h"

typedef enum SettlementStatus
{
	NOT_SETTLED,
	IS_SETTLED,
	BEING_SETTLED				/* by another transaction that is running */
} SettlementStatus;

typedef struct Settlement
{
	SettlementStatus status;
	SettledBy	settled_by;		/* if it is settled */
	TransactionId settler;		/* if it is running: this transaction or
								 * subtransaction, perhaps one of ours;
								 * otherwise invalid */
	uint64		xact;			/* the top-level transaction that it belongs
								 * to, if it is running */
	uint32		speculative_token;	/* not 0 if it may still withdraw the row */
} Settlement;

/* The last decision that is in a batch, if nothing is known of batches. */
#define LAST_NOT_KNOWN	PG_INT64_MAX

/*
 * Looking, at one decision or at many.  The answer may be a moment old, but what is
 * said to be settled is.
 */
typedef struct SettlementLook SettlementLook;

extern SettlementStatus settlement_find(const DecisionRow *decision, Settlement *settlement);
extern bool settlement_find_batch(int32 bandit_id, int32 epoch, int64 decision_id,
								  Settlement *settlement);
extern SettlementLook *settlement_begin_look(int64 last_in_batch);
extern SettlementStatus settlement_of(SettlementLook *look, const DecisionRow *decision,
									  Settlement *settlement);
extern void settlement_end_look(SettlementLook *look);

/* Batches */
extern int64 settlement_last_in_batch(int32 bandit_id, int32 epoch, bool also_removed);
extern bool settlement_is_alone(const ExpiryRow *row);

#endif							/* DEXP3_SETTLEMENT_H */
