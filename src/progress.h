/*
 * progress.h
 *	  Progress lines, like those of pgbench, for operations that take long.
 */
#ifndef DEXP3_PROGRESS_H
#define DEXP3_PROGRESS_H

#include "datatype/timestamp.h"

typedef struct Progress
{
	const char *unit;			/* what is counted, in the plural */
	int64		total;			/* 0 if it is unknown */
	TimestampTz started;
	TimestampTz reported;
} Progress;

/* The setting dexp3.progress_interval, in milliseconds. */
extern int	progress_interval;

extern void progress_start(Progress *progress, const char *unit, int64 total);
extern void progress_report(Progress *progress, int64 done);

#endif							/* DEXP3_PROGRESS_H */
