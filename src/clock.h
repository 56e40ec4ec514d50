/*
 * clock.h
 *	  The time at which things happen.
 */
#ifndef DEXP3_CLOCK_H
#define DEXP3_CLOCK_H

#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

/*
 * Return the time at which what we are doing happens: the start of the statement.
 *
 * For a procedure that commits, its CALL is one long statement, in which time would stand
 * still.  But each of its transactions has a start of its own.
 */
static inline TimestampTz
time_of_action(void)
{
	return Max(GetCurrentStatementStartTimestamp(), GetCurrentTransactionStartTimestamp());
}

/*
 * Return the time that was this long ago.  It is an error if there is none.
 */
static inline TimestampTz
time_before_action(const Interval *span)
{
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
												   TimestampTzGetDatum(time_of_action()),
												   IntervalPGetDatum(span)));
}

#endif							/* DEXP3_CLOCK_H */
