/*
 * feedback.h
 *	  Settling decisions.
 */
#ifndef DEXP3_FEEDBACK_H
#define DEXP3_FEEDBACK_H

#include "postgres.h"

#include "bandit.h"
#include "current.h"

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

extern FeedbackOutcome give_feedback(int64 decision_id, double value,
									 FeedbackKind kind);
extern bool settle(const Bandit *bandit, Current *current,
				   const Decision *decision, double loss, bool expired);

#endif							/* DEXP3_FEEDBACK_H */
