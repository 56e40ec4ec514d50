/*
 * random.h
 *	  The session's random numbers.
 */
#ifndef DEXP3_RANDOM_H
#define DEXP3_RANDOM_H

#include "fmgr.h"
#include "utils/fmgrprotos.h"

/*
 * Draw uniformly from [0, 1), as the SQL function random() does.  This uses the
 * same generator, so setseed() makes draws repeatable.
 */
static inline double
session_random(void)
{
	LOCAL_FCINFO(fcinfo, 0);
	Datum		drawn;
	double		number;

	InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
	drawn = drandom(fcinfo);
	number = DatumGetFloat8(drawn);
	if (!FLOAT8PASSBYVAL)
		pfree(DatumGetPointer(drawn));
	return number;
}

#endif							/* DEXP3_RANDOM_H */
