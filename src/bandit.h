/*
 * bandit.h
 *	  Managed bandits by name or identifier: what is fixed about them.
 */
#ifndef DEXP3_BANDIT_H
#define DEXP3_BANDIT_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "datatype/timestamp.h"
#include "fmgr.h"

#include "learner/learner.h"
#include "role.h"

/* The sums that reports need are of squares of losses. */
#define BANDIT_MAX_LOSS			1e100

/* An index entry must hold it. */
#define BANDIT_MAX_NAME_BYTES	1000

/* Who may do something with a bandit. */
typedef struct BanditRights
{
	Role		owner;
	int			ngrantees;
	Role	   *grantees;		/* that may use it */
} BanditRights;

/* What feedback for a bandit is, if it has been said. */
typedef enum Goal
{
	GOAL_NOT_SAID,
	GOAL_LOSS,
	GOAL_REWARD
} Goal;

/*
 * A row of dexp3.bandit.  It stays valid until the next look-up, so do not keep
 * it across anything that may run user code.
 */
typedef struct Bandit
{
	int32		bandit_id;
	int32		epoch;			/* how often it was reset, from 1 */
	text	   *name;
	Datum	   *arms;			/* their names; text */
	int		   *arms_by_name;	/* their numbers, in the order of the names */
	LearnerParams params;
	const bool *retired;		/* for each arm, or NULL if none is */
	int			playable;		/* the number of arms that have not retired */
	const double *head_start;	/* what z of each arm begins with, or NULL for
								 * 0 */
	double		cost_offset;	/* what C begins with */
	TimestampTz arms_changed_at;	/* to which these two refer, if there is a
									 * half-life; DT_NOBEGIN if arms have
									 * never been changed */
	int64		half_life;		/* in microseconds, or 0 for none */
	bool		needs_frontier; /* must it be known which decisions are open? */
	Interval   *feedback_window;	/* how long feedback is waited for, or
									 * NULL */
	double		missing_loss;	/* what it counts as then */
	Interval   *retention;		/* how long the log is kept, or NULL */
	bool		sticky;			/* does a subject stay with its open decision? */
	double		loss_low;		/* the range of losses */
	double		loss_high;
	bool		clamp_losses;	/* are losses beyond it moved to its ends? */
	Goal		goal;
	bool		shared;			/* with other servers? */
	uint64		definition;		/* changes with whatever decides which sums of
								 * others count, if it is shared */
	BanditRights rights;
} Bandit;

/* What somebody wants to do with a bandit. */
typedef enum BanditRight
{
	BANDIT_USE,					/* choose, give feedback, look */
	BANDIT_CHANGE				/* reset, drop, grant */
} BanditRight;

extern const Bandit *bandit_by_name(text *name, BanditRight right);
extern const Bandit *bandit_argument(FunctionCallInfo fcinfo, const char *function);
extern const Bandit *bandit_by_id(int32 bandit_id);
extern bool bandit_has_got_arm(int32 bandit_id, int arm);
extern int32 bandit_check_row(HeapTuple tuple, TupleDesc tupdesc);
extern bool bandit_may(const Bandit *bandit, BanditRight right);
extern int	bandit_find_arm(const Bandit *bandit, const text *name);
extern bool bandit_is_retired(const Bandit *bandit, int arm);
extern int	bandit_compare_names(const text *a, const text *b);
extern int64 bandit_microseconds(const Interval *interval);
extern bool goal_by_name(const char *name, Goal *goal);

/* Turn a loss into a reward, or the other way round. */
static inline double
bandit_mirrored(const Bandit *bandit, double value)
{
	return bandit->loss_high - value + bandit->loss_low;
}

/* Scale a loss to [0, 1]. */
static inline double
bandit_scaled_loss(const Bandit *bandit, double loss)
{
	return (loss - bandit->loss_low) / (bandit->loss_high - bandit->loss_low);
}

#endif							/* DEXP3_BANDIT_H */
