/*
 * warning.h
 *	  Feedback that was lost, in dexp3.warning.
 */
#ifndef DEXP3_WARNING_H
#define DEXP3_WARNING_H

#include "postgres.h"

#include "utils/relcache.h"

/* How many are kept for each bandit and each owner of tables. */
#define MAX_WARNINGS	1000

/* Why a trigger gave no feedback. */
typedef struct Warning
{
	int32		bandit_id;		/* 0 if it is not known */
	bool		has_decision;
	int64		decision_id;
	int			sqlstate;
	const char *message;
} Warning;

extern bool warning_lock(void);
extern void warning_append(const Warning *warning, Relation table, const char *trigger);

#endif							/* DEXP3_WARNING_H */
