/*
 * log.h
 *	  The append-only log of managed bandits: dexp3.decision, dexp3.feedback,
 *	  dexp3.expiry and dexp3.trimmed.
 */
#ifndef DEXP3_LOG_H
#define DEXP3_LOG_H

#include "postgres.h"

#include "access/sdir.h"
#include "executor/tuptable.h"
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
extern bool log_append_feedback(const FeedbackRow *row, bool look_first, RowCheck check,
								void *context);
extern bool log_append_expiry(const ExpiryRow *row, RowCheck check, void *context);
extern uint64 log_current_xact(void);
extern Datum xact_datum(uint64 xact);

/* Reading rows in the order of their transactions */
typedef enum LogTable
{
	LOG_DECISIONS,
	LOG_FEEDBACK,
	LOG_EXPIRY,
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
extern void log_visit_decisions(const int64 *ids, int n, Snapshot snapshot,
								LogVisitor visit, void *context);

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

/* Reading a row that a scan has found */
extern void log_read_feedback(TupleTableSlot *slot, FeedbackRow *row);
extern void log_read_expiry(TupleTableSlot *slot, ExpiryRow *row);

#endif							/* DEXP3_LOG_H */
