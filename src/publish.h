/*
 * publish.h
 *	  Publishing the sums of a shared bandit.
 */
#ifndef DEXP3_PUBLISH_H
#define DEXP3_PUBLISH_H

#include "postgres.h"

#include "sums.h"

/* the setting dexp3.publish_interval, in milliseconds */
extern int	publish_interval;

extern void publish(const Bandit *bandit);
extern void publish_changed(int32 bandit_id);
extern void publish_if_due(const Sums *sums, const Bandit *bandit);

#endif							/* DEXP3_PUBLISH_H */
