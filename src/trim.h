/*
 * trim.h
 *	  Removing old rows from the log of a managed bandit.
 */
#ifndef DEXP3_TRIM_H
#define DEXP3_TRIM_H

#include "postgres.h"

#include "bandit.h"

extern int64 trim_log(const Bandit *bandit, int64 newest_round, const Seen *seen,
					  int64 limit, uint64 *from);
extern int64 trim_earlier_epochs(const Bandit *bandit);
extern bool trim_find(int64 decision_id, int32 *bandit_id, int32 *epoch,
					  char *status);

/* What trim_find() says of a decision. */
#define TRIMMED_SETTLED		's'
#define TRIMMED_SKIPPED		'k'
#define TRIMMED_EXPIRED		'e'

#endif							/* DEXP3_TRIM_H */
