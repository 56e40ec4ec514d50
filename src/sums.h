/*
 * sums.h
 *	  The sums of a managed bandit at this moment.
 */
#ifndef DEXP3_SUMS_H
#define DEXP3_SUMS_H

#include "postgres.h"

#include "storage/lockdefs.h"

#include "bandit.h"
#include "shared.h"

typedef struct Sums
{
	SharedLog	log;
	Selection	selection;
	Totals		totals;			/* of the selected arms */
	Frontier	frontier;		/* only if the bandit needs one */
	bool		checkpoint_due;
	int64		last_in_batch;	/* as in SharedEntry */
	Totals		foreign;		/* z and counts of other servers, if the
								 * bandit is shared; otherwise without vectors */
} Sums;

extern void sums_take(Sums *sums, const Bandit *bandit, LOCKMODE lockmode,
					  int nsums, int first_arm, int arms);
extern double sums_fading(const Bandit *bandit, TimestampTz time);
extern void sums_without_others(Sums *sums);
extern void sums_learner(const Sums *sums, const Bandit *bandit, Learner *learner);
extern void sums_learner_of_all(const Sums *sums, const Bandit *bandit,
								Learner *learner);
extern bool sums_write_checkpoint(const Sums *sums, const Bandit *bandit,
								  Moment *covered);
extern void sums_fold_anew(const Bandit *bandit);
extern void sums_pass_settled(Sums *sums);
extern bool sums_first_open(Sums *sums, DecisionRow *first);
extern void sums_take_others(Totals *others, const Bandit *bandit);
extern void sums_take_twice(const Bandit *bandit, Totals *running, Totals *folded);

/* Take what a learner needs, of all arms. */
static inline void
sums_take_all(Sums *sums, const Bandit *bandit, LOCKMODE lockmode)
{
	sums_take(sums, bandit, lockmode, LEARNER_SUMS(bandit->params.algorithm), 0,
			  bandit->params.arms);
}

/* Count a row that this transaction has just written. */
extern void sums_add_decision(const DecisionRow *row);
extern void sums_add_feedback(const FeedbackRow *row, const Bandit *bandit);

#endif							/* DEXP3_SUMS_H */
