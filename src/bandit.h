/*
 * bandit.h
 *	  Managed bandits by name or identifier: what is fixed about them.
 */
#ifndef DEXP3_BANDIT_H
#define DEXP3_BANDIT_H

#include "postgres.h"

#include "learner.h"

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
	LearnerParams params;
} Bandit;

extern const Bandit *bandit_by_name(text *name);
extern const Bandit *bandit_by_id(int32 bandit_id);

#endif							/* DEXP3_BANDIT_H */
