/*
 * feedback.h
 *	  Settling decisions.
 */
#ifndef DEXP3_FEEDBACK_H
#define DEXP3_FEEDBACK_H

#include "postgres.h"

typedef enum FeedbackOutcome
{
	FEEDBACK_APPLIED,
	FEEDBACK_DUPLICATE,
	FEEDBACK_SKIPPED
} FeedbackOutcome;

extern FeedbackOutcome give_feedback(int64 decision_id, double loss);
extern double reward_to_loss(double reward);

#endif							/* DEXP3_FEEDBACK_H */
