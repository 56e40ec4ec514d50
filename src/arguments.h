/*
 * arguments.h
 *	  The arguments that several SQL functions share, each checked in one place.
 */
#ifndef DEXP3_ARGUMENTS_H
#define DEXP3_ARGUMENTS_H

#include "fmgr.h"

#include "learner.h"

extern char *number_text(double number);
extern void null_argument(const char *name);
extern void argument_params(FunctionCallInfo fcinfo, int first, int32 arms,
							LearnerParams *params);
extern int64 argument_delay(FunctionCallInfo fcinfo, int n,
							const LearnerParams *params);
extern double argument_loss(FunctionCallInfo fcinfo, int n);
extern void check_loss(double loss);
extern text *argument_subject(FunctionCallInfo fcinfo, int n);

/* Written so that NaN is none. */
static inline bool
is_loss(double loss)
{
	return loss >= 0 && loss <= 1;
}

#endif							/* DEXP3_ARGUMENTS_H */
