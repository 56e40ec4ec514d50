/*
 * rows.h
 *	  The rows of the log as C sees them.
 *
 * Each struct is a row of the table of that name in schema dexp3; tables.h
 * numbers the columns, the install script describes them.
 */
#ifndef DEXP3_ROWS_H
#define DEXP3_ROWS_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "learner/learner.h"

/* A row of dexp3.decision. */
typedef struct DecisionRow
{
	int64		decision_id;
	int32		bandit_id;
	int32		epoch;
	Ticket		ticket;			/* its arm is -1 if the row names none */
	int64		outstanding;	/* tau of its round */
	int64		delay;			/* as announced, or NO_DELAY */
	TimestampTz decided_at;
	uint64		xact;			/* set when the row is read */
	text	   *subject;		/* who it was for, or NULL; not read back */
} DecisionRow;

/* How a decision was settled. */
typedef enum SettledBy
{
	SETTLED_BY_FEEDBACK,
	SETTLED_BY_SKIPPING,		/* given up, without a loss */
	SETTLED_BY_EXPIRY			/* its feedback was missing for too long */
} SettledBy;

/* A row of dexp3.feedback. */
typedef struct FeedbackRow
{
	int64		decision_id;
	int32		bandit_id;
	int32		epoch;
	int64		round;			/* the newest round when it arrived */
	SettledBy	settled_by;
	double		loss;			/* in the bandit's own units; 0 if skipped */
	double		probability;	/* of the decision; 0 if skipped */
	FeedbackTerms terms;		/* its arm is -1 if the row names none */
	TimestampTz received_at;
	TimestampTz decided_at;		/* of the decision, if the bandit has a
								 * half-life; otherwise DT_NOBEGIN */
	uint64		xact;			/* set when the row is read */
} FeedbackRow;

/*
 * A row of dexp3.expiry: decisions that have expired together.  What it says about
 * one of them, a row of dexp3.feedback could say: see expired_feedback() in totals.h.
 */
typedef struct ExpiryRow
{
	int64		first_decision;
	int32		bandit_id;
	int32		epoch;
	int64		last_decision;
	int64		round;			/* the newest round then */
	double		loss;			/* of each, in the bandit's own units */
	double		baseline;		/* as in FeedbackTerms */
	TimestampTz received_at;	/* when they expired */
	int			n;
	const int64 *decisions;		/* from the first to the last */
	uint64		xact;			/* set when the row is read */
} ExpiryRow;

/*
 * A row of dexp3.trimmed: the sums of rows that have been removed.  The columns
 * that tell which rows they were are not read.
 */
typedef struct TrimmedRow
{
	uint64		xact;			/* the transaction that removed them */
	uint64		newest_xact;	/* none of them was written by a later one */
	int64		rounds;			/* decisions, all of them settled */
	int64		skipped;		/* how many of them were skipped ... */
	int64		expired;		/* ... and how many expired */
	int64		restricted;		/* see totals.h */
	double		cumulative_delay;
	double		longest_delay;
	double		lbck;
	TimestampTz last_decision;
	TimestampTz last_feedback;	/* DT_NOBEGIN if there was none */
	int64		half_lives;		/* these and z are relative to this moment,
								 * see totals.h */
	double		settled;
	double		total_loss;
	double		cost;

	int			nsums;			/* vectors of sums, see totals.h ... */
	int			arms;			/* ... of that length */
	const double *sums;
} TrimmedRow;

#endif							/* DEXP3_ROWS_H */
