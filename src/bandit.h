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
	NameData	owner;			/* a role */
	Datum	   *grantees;		/* names of roles that may use it */
	int			ngrantees;
} Bandit;

/* What somebody wants to do with a bandit. */
typedef enum BanditRight
{
	BANDIT_USE,					/* choose, give feedback, look */
	BANDIT_CHANGE				/* reset, drop, grant */
} BanditRight;

extern const Bandit *bandit_by_name(text *name, BanditRight right);
extern const Bandit *bandit_by_id(int32 bandit_id);
extern bool bandit_may(const Bandit *bandit, BanditRight right);

#endif							/* DEXP3_BANDIT_H */
