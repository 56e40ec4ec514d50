/*
 * arguments.h
 *	  The arguments that several SQL functions share, each checked in one place.
 */
#ifndef DEXP3_ARGUMENTS_H
#define DEXP3_ARGUMENTS_H

#include "commands/trigger.h"
#include "fmgr.h"

#include "learner/learner.h"

extern char *number_text(double number);
extern Datum number_array(const double *numbers, int rows, int columns);
extern void null_argument(const char *name);
extern void check_not_null(FunctionCallInfo fcinfo, int n, const char *name);
extern void check_may_write(const char *function);
extern void argument_params(FunctionCallInfo fcinfo, int first, int optimism,
							int32 arms, LearnerParams *params);
extern void check_optimism(double optimism);
extern void check_step_scale(double step_scale);
extern void check_patience(int32 patience);
extern void check_may_forget(const LearnerParams *params);
extern void argument_half_life(FunctionCallInfo fcinfo, int n, LearnerParams *params);
extern int64 argument_delay(FunctionCallInfo fcinfo, int n,
							const LearnerParams *params);
extern void check_loss(double loss);
extern text *argument_subject(FunctionCallInfo fcinfo, int n);
extern void check_called_as_trigger(FunctionCallInfo fcinfo, const char *function);
extern void protocol_violated(const TriggerData *trigdata, const char *problem);

/* Say whether this is a loss.  NaN is none. */
static inline bool
is_loss(double loss)
{
	return loss >= 0 && loss <= 1;
}

#endif							/* DEXP3_ARGUMENTS_H */
