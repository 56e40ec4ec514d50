/*
 * settle.h
 *	  Settling decisions: by feedback, by skipping, by expiry.
 */
#ifndef DEXP3_SETTLE_H
#define DEXP3_SETTLE_H

#include "postgres.h"

#include "bandit.h"
#include "sums.h"

typedef enum FeedbackOutcome
{
	FEEDBACK_APPLIED,
	FEEDBACK_DUPLICATE,
	FEEDBACK_SKIPPED,
	FEEDBACK_EXPIRED
} FeedbackOutcome;

/* What the number is that comes as feedback. */
typedef enum FeedbackKind
{
	IS_LOSS,
	IS_REWARD
} FeedbackKind;

extern FeedbackOutcome settle_by_feedback(int64 decision_id, double value,
										  FeedbackKind kind);
extern void settle_overdue(const Bandit *bandit, Sums *sums, const Learner *learner);
extern int64 settle_expired(const Bandit *bandit, Sums *sums, int64 limit);
extern int64 settle_all_expired(const Bandit *bandit);
extern bool has_overdue(const Sums *sums, const Learner *learner);
extern TimestampTz expiry_time(const Bandit *bandit);

#endif							/* DEXP3_SETTLE_H */
