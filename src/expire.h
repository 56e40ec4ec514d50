/*
 * expire.h
 *	  Letting decisions expire whose feedback is missing, many together.
 */
#ifndef DEXP3_EXPIRE_H
#define DEXP3_EXPIRE_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "bandit.h"
#include "frontier.h"

extern void expire_init(void);
extern TimestampTz expiry_time(const Bandit *bandit);
extern void expire_after_choose(const Bandit *bandit, const Frontier *frontier);
extern int64 expire_all(const Bandit *bandit);

#endif							/* DEXP3_EXPIRE_H */
