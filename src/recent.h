/*
 * recent.h
 *	  The newest rows of the log, in shared memory.
 */
#ifndef DEXP3_RECENT_H
#define DEXP3_RECENT_H

#include "postgres.h"

#include "fold.h"
#include "log.h"

/* Writing: every row of the log must be told before its transaction finishes. */
extern void recent_add_decision(uint64 xact, const Decision *decision);
extern void recent_add_settlement(uint64 xact, const Settlement *settlement);
extern void recent_look_into_log(uint64 xact, int32 bandit_id);

/* Reading */
extern bool recent_scan(int32 bandit_id, int32 epoch, uint64 from, uint64 before,
						LogFilter wanted, LogVisitor visit_decision,
						LogVisitor visit_settlement, void *context);

#endif							/* DEXP3_RECENT_H */
