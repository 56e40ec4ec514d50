/*
 * settle.h
 *	  Settling decisions one by one: by feedback, by skipping.
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

/* What the number that comes as feedback is. */
typedef enum FeedbackKind
{
	IS_LOSS,
	IS_REWARD
} FeedbackKind;

/* What comes as feedback. */
typedef struct Feedback
{
	FeedbackKind kind;
	double		value;
	bool		is_boolean;		/* is the value 1 for the upper end of the
								 * range, or 0 for the lower? */
} Feedback;

/* An open decision and all that is needed to settle it with feedback. */
typedef struct Settling
{
	bool		look_closely;	/* Must all be found out before anything is
								 * written?  Set it before the first look. */
	const Bandit *bandit;
	DecisionRow decision;
	double		loss;
	Sums		sums;
} Settling;

extern bool settle_look(int64 decision_id, const Feedback *feedback, Settling *settling,
						FeedbackOutcome *outcome);
extern bool settle_write(Settling *settling);
extern int32 settle_bandit_of(int64 decision_id);
extern FeedbackOutcome settle_by_feedback(int64 decision_id, const Feedback *feedback);
extern void settle_overdue(const Bandit *bandit, Sums *sums, const Learner *learner);
extern bool has_overdue(const Sums *sums, const Learner *learner);
extern bool settle_without_feedback(const Bandit *bandit, const DecisionRow *decision,
									SettledBy settled_by);

#endif							/* DEXP3_SETTLE_H */
