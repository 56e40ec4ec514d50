/*
 * fold.h
 *	  The state of a managed bandit: a sum over rows of its log.
 *
 * Nothing here reads tables.  The order in which rows are folded does not
 * matter, beyond rounding.
 */
#ifndef DEXP3_FOLD_H
#define DEXP3_FOLD_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"

#include "learner.h"
#include "seen.h"

/* A row of dexp3.decision. */
typedef struct Decision
{
	int64		decision_id;
	int32		bandit_id;
	int32		epoch;
	Ticket		ticket;
	int64		outstanding;	/* tau of its round */
	int64		delay;			/* as announced, or NO_DELAY */
	TimestampTz decided_at;
	text	   *subject;		/* who it was for, or NULL; not read back */
} Decision;

/* A row of dexp3.feedback. */
typedef struct Settlement
{
	int64		decision_id;
	int32		bandit_id;
	int32		epoch;
	int64		round;			/* the newest round when it arrived */
	bool		skipped;		/* no loss: only decision, round, delay count */
	bool		expired;		/* the loss is that of missing feedback */
	double		loss;			/* in the bandit's own units */
	Feedback	feedback;
	TimestampTz received_at;
} Settlement;

/* A row of dexp3.trimmed: the sums of rows that have been removed. */
typedef struct Trimmed
{
	uint64		xact;			/* the transaction that removed them */
	uint64		newest_xact;	/* none of them was written by a later one */
	int64		rounds;			/* decisions; so many settlements, too */
	double		cumulative_delay;
	double		longest_delay;
	double		lbck;
	int			arms;			/* how many there were then */
	const double *z;
	const double *m;
} Trimmed;

/* What a fold depends on, besides rows. */
typedef struct FoldSetup
{
	LearnerParams params;
	bool		keep_open;		/* must it know which decisions are open? */
	const bool *retired;		/* for each arm, or NULL if none is */
	const double *head_start;	/* what z of each arm begins with, or NULL for 0 */
} FoldSetup;

/* A decision that is waited for, or was until recently. */
typedef struct OpenDecision
{
	int64		round;
	int64		decision_id;
	TimestampTz decided_at;
	bool		closed;
} OpenDecision;

typedef struct Fold
{
	Learner		learner;		/* its set of open rounds is not used */
	bool		keep_open;
	double	   *weights;		/* room for a draw */
	int64	   *tie_round;		/* DEDA: the round that z_tie and m_tie of each
								 * arm are about */
	int64		events;			/* how many rows have been folded */

	/*
	 * If keep_open: the open decisions by round and identifier, open[first ..
	 * end - 1].  A closed one in the middle stays in its place for some time,
	 * so that closing takes constant time on average; the first is open.
	 */
	OpenDecision *open;
	int64		open_first;
	int64		open_end;
	int64		open_capacity;
	int64		open_closed;	/* how many of them are closed */
} Fold;

extern void fold_init(Fold *fold, const FoldSetup *setup);
extern void fold_decision(Fold *fold, const Decision *decision);
extern void fold_settlement(Fold *fold, const Settlement *settlement);
extern void fold_trimmed(Fold *fold, const Trimmed *trimmed);
extern void fold_check_arm(const Fold *fold, int32 arm);
extern void fold_clear_old_ties(Fold *fold, int32 arm);
extern int64 fold_find_round(const Fold *fold, int64 round);
extern Fold *fold_save(const Fold *fold, Size max_size);
extern void fold_restore(Fold *fold, const Fold *saved);
extern Size fold_checkpoint_size(const Fold *fold);

extern void fold_serialize(const Fold *fold, const Seen *seen, StringInfo buf);
extern bool fold_deserialize(Fold *fold, Seen *seen, const char *data, Size size);

#endif							/* DEXP3_FOLD_H */
