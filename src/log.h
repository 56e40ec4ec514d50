/*
 * log.h
 *	  The append-only log of managed bandits: dexp3.decision and dexp3.feedback.
 */
#ifndef DEXP3_LOG_H
#define DEXP3_LOG_H

#include "postgres.h"

#include "fold.h"
#include "insert.h"

/* Writing */
extern int64 log_next_decision_id(void);
extern void log_append_decision(const Decision *decision);
extern RowInserter *log_begin_decisions(void);
extern void log_append_one_of_many(RowInserter *inserter,
								   const Decision *decision);
extern bool log_append_settlement(const Settlement *settlement);
extern uint64 log_current_xact(void);

/* Identifiers that come from elsewhere */
extern void log_note_arrival(int64 decision_id);
extern void log_note_bandit(int32 bandit_id);
extern void log_skip_arrived_ids(void);
extern void log_forget_arrivals(void);

/* Reading */
typedef enum LogTable
{
	LOG_DECISIONS,
	LOG_SETTLEMENTS,
	LOG_TRIMMED
} LogTable;

/* Is a row of this transaction wanted?  And here it is. */
typedef bool (*LogFilter) (void *context, uint64 xact);
typedef void (*LogVisitor) (void *context, const void *row);

extern void log_scan(LogTable table, int32 bandit_id, int32 epoch,
					 uint64 from, uint64 before,
					 LogFilter wanted, LogVisitor visit, void *context);
extern bool log_find_decision(int64 decision_id, Decision *decision);

/* Is this the decision that was looked for? */
typedef enum Verdict
{
	TAKE_IT,
	LOOK_ON,
	GIVE_UP						/* older ones are not, either */
} Verdict;

typedef Verdict (*DecisionFilter) (void *context, const Decision *decision);

extern bool log_find_by_subject(int32 bandit_id, text *subject,
								DecisionFilter wanted, void *context,
								Decision *decision);

/* What is known about the settlement of a decision. */
typedef enum SettlementStatus
{
	NOT_SETTLED,
	IS_SETTLED,
	IS_SKIPPED,
	IS_EXPIRED,
	BEING_SETTLED				/* by another transaction that is running */
} SettlementStatus;

extern SettlementStatus log_settlement_status(int64 decision_id,
											  TransactionId *settler,
											  uint32 *speculative_token);

#endif							/* DEXP3_LOG_H */
