/*
 * upkeep.h
 *	  What must be done from time to time: settle decisions whose feedback is
 *	  missing.
 */
#ifndef DEXP3_UPKEEP_H
#define DEXP3_UPKEEP_H

#include "postgres.h"

#include "bandit.h"
#include "current.h"

extern TimestampTz expiry_time(const Bandit *bandit);
extern int64 expire_some(const Bandit *bandit, Current *current, int64 limit);

#endif							/* DEXP3_UPKEEP_H */
