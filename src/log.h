/*
 * log.h
 *	  The append-only log of managed bandits: dexp3.decision, dexp3.feedback and
 *	  dexp3.trimmed.
 */
#ifndef DEXP3_LOG_H
#define DEXP3_LOG_H

#include "postgres.h"

#include "access/sdir.h"
#include "storage/lockdefs.h"
#include "utils/snapshot.h"

#include "insert.h"
#include "rows.h"

extern uint64 log_lock(LOCKMODE lockmode);

/* Writing */
extern int64 log_next_decision_id(void);
extern void log_append_decision(const DecisionRow *row);
extern RowInserter *log_begin_decisions(void);
extern void log_append_one_of_many(RowInserter *inserter, const DecisionRow *row);
extern bool log_append_feedback(const FeedbackRow *row);
extern uint64 log_current_xact(void);
extern Datum xact_datum(uint64 xact);

/* Reading rows in the order of their transactions */
typedef enum LogTable
{
	LOG_DECISIONS,
	LOG_FEEDBACK,
	LOG_TRIMMED
} LogTable;

/* Is a row of this transaction wanted?  And here it is. */
typedef bool (*LogFilter) (void *context, uint64 xact);
typedef void (*LogVisitor) (void *context, const void *row);

extern void log_scan(LogTable table, int32 bandit_id, int32 epoch,
					 uint64 from, uint64 before, Snapshot snapshot,
					 LogFilter wanted, LogVisitor visit, void *context);

extern void log_scan_newest(int32 bandit_id, int32 epoch, int max, LogVisitor visit,
							void *context);

/*
 * Reading decisions one by one, from behind a place.  A row that is not there
 * for us is returned as its place only.
 */
typedef struct DecisionWalk DecisionWalk;

extern DecisionWalk *log_begin_walk(int32 bandit_id, int32 epoch,
									uint64 xact, int64 decision_id,
									bool one_transaction);
extern bool log_next_place(DecisionWalk *walk, uint64 *xact, int64 *decision_id);
extern bool log_read_place(DecisionWalk *walk, DecisionRow *row);
extern void log_end_walk(DecisionWalk *walk);

/* Finding rows */
extern bool log_find_decision(int64 decision_id, DecisionRow *row);

/* Is this the decision that was looked for? */
typedef enum Verdict
{
	TAKE_IT,
	LOOK_ON,
	GIVE_UP						/* older ones are not, either */
} Verdict;

typedef Verdict (*DecisionFilter) (void *context, const DecisionRow *row);

extern bool log_find_by_subject(int32 bandit_id, text *subject,
								DecisionFilter wanted, void *context,
								DecisionRow *row);

/* What is known about the settlement of a decision. */
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

extern SettlementStatus log_find_settlement(int64 decision_id,
											Settlement *settlement);

#endif							/* DEXP3_LOG_H */
