/*
 * frontier.h
 *	  How far the decisions of a bandit are known to be settled.
 *
 * Decisions become overdue, or miss their feedback, in the order in which they
 * were made.  So it is enough to know a cursor into that order: everything up to
 * it is settled for good.  Two kinds of transactions that were running when the
 * cursor passed are the exceptions, and are listed as holes: one that may have
 * made decisions before the cursor, which nobody could see; and one that had
 * settled a decision before the cursor, and may still be rolled back.
 *
 * A frontier is a statement about the log that stays true: whoever makes a new
 * one may put it in the place of an older one, or copy it to a checkpoint, at
 * any time and in any order.
 */
#ifndef DEXP3_FRONTIER_H
#define DEXP3_FRONTIER_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "rows.h"

/* A place in the order of decisions: by transaction, then by identifier. */
typedef struct Cursor
{
	uint64		xact;			/* the last decision that was passed */
	int64		decision_id;

	/* what is known of the next one; if that is not due, no later one is */
	int64		next_round;		/* 0: nothing */
	TimestampTz next_time;
} Cursor;

typedef enum HoleKind
{
	HOLE_DECISIONS,				/* decisions of the transaction itself */
	HOLE_SETTLEMENTS			/* decisions that it has settled */
} HoleKind;

typedef struct Hole
{
	uint64		xact;			/* was running */
	HoleKind	kind;
	bool		look_again;		/* may it take back what it has settled, yet
								 * be committed? */
	Cursor		cursor;			/* which of its decisions have been passed; or
								 * what comes before the first that it settled */
} Hole;

#define MAX_HOLES	32

typedef struct Frontier
{
	uint64		entry;			/* number and version of the shared one that
								 * this is a copy of; 0 if it is of none */
	uint64		version;
	Cursor		cursor;

	/* when decisions expire together, see expire.c */
	TimestampTz enough_time;	/* if a decision of this time is due, enough
								 * are; 0: not known */
	TimestampTz looked_at;		/* when they were looked for */

	int			nholes;
	Hole		holes[MAX_HOLES];
} Frontier;

/* The size of that part of a frontier which is in use. */
#define FRONTIER_SIZE(nholes)	(offsetof(Frontier, holes) + (nholes) * sizeof(Hole))

static inline void
frontier_init(Frontier *frontier)
{
	memset(frontier, 0, offsetof(Frontier, holes));
}

static inline void
frontier_copy(Frontier *to, const Frontier *from)
{
	memcpy(to, from, FRONTIER_SIZE(from->nholes));
}

/*
 * How to move a frontier: past what is settled, up to the first decision that is
 * open and not due yet.
 */
typedef struct FrontierMove
{
	int32		bandit_id;
	int32		epoch;
	int64		newest_round;
	TimestampTz now;
	int64		last_in_batch;	/* later decisions are in no batch; as in
								 * SharedEntry */

	/* is a decision of this round and time due?  NULL: never */
	bool		(*is_due) (void *context, int64 round, TimestampTz decided_at);

	/* settle one that is; false if somebody else does, or is about to */
	bool		(*settle) (void *context, const DecisionRow *row);
	void	   *context;

	int64		max_settled;	/* settle no more than this many ... */
	int64		max_looked_at;	/* ... and look at no more than this many */
	int			look_ahead;		/* find out the time of the decision that is
								 * so far behind the cursor; 0: do not */

	/* results */
	int64		settled;
	bool		moved;
	TimestampTz time_ahead;		/* of that decision, or now if there are not
								 * as many; unchanged if the cursor is */
} FrontierMove;

extern void frontier_move(Frontier *frontier, FrontierMove *move);
extern int	frontier_compare(const Cursor *a, const Cursor *b);

/* Visit the decisions that are open, as long as the visitor wants more. */
typedef bool (*OpenVisitor) (void *context, const DecisionRow *row);

extern void frontier_visit_open(const Frontier *frontier, int32 bandit_id, int32 epoch,
								OpenVisitor visit, void *context);

#endif							/* DEXP3_FRONTIER_H */
