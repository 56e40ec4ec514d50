/*
 * progress.c
 *	  Progress lines, like those of pgbench, for operations that take long.
 *
 * They are messages of level NOTICE, which PostgreSQL sends at once.  There is
 * at most one of them every dexp3.progress_interval.  client_min_messages can
 * silence them, too.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "progress.h"

int			progress_interval = 5000;

void
progress_start(Progress *progress, const char *unit, int64 total)
{
	progress->unit = unit;
	progress->total = total;
	progress->started = GetCurrentTimestamp();
	progress->reported = progress->started;
}

/*
 * Report how many units are done, if the last report was long enough ago.  This
 * asks for the time, so do not call it for every unit.
 */
void
progress_report(Progress *progress, int64 done)
{
	TimestampTz now;
	double		seconds;

	if (progress_interval == 0)
		return;
	now = GetCurrentTimestamp();
	if (!TimestampDifferenceExceeds(progress->reported, now, progress_interval))
		return;

	progress->reported = now;
	seconds = (now - progress->started) / (double) USECS_PER_SEC;
	if (progress->total == 0)
		ereport(NOTICE,
				(errmsg("progress: %.1f s, " INT64_FORMAT " %s, %.0f %s/s",
						seconds, done, progress->unit,
						done / Max(seconds, 1e-6), progress->unit)));
	else
		ereport(NOTICE,
				(errmsg("progress: %.1f s, " INT64_FORMAT " of " INT64_FORMAT " %s (%.1f%%), %.0f %s/s",
						seconds, done, progress->total, progress->unit,
						100.0 * done / progress->total,
						done / Max(seconds, 1e-6), progress->unit)));
}
