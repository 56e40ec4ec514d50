/*
 * settings.h
 *	  The settings of a managed bandit, checked: for bandit_create() and bandit_alter().
 */
#ifndef DEXP3_SETTINGS_H
#define DEXP3_SETTINGS_H

#include "postgres.h"

#include "fmgr.h"

#include "bandit.h"
#include "learner/learner.h"

extern void check_interval(FunctionCallInfo fcinfo, int n, const char *name);
extern void argument_loss_range(FunctionCallInfo fcinfo, int n, double *low, double *high);
extern void check_missing_loss(double missing, double low, double high);
extern void check_half_life(FunctionCallInfo fcinfo, int n, const LearnerParams *params);
extern Goal argument_goal(FunctionCallInfo fcinfo, int n);

#endif							/* DEXP3_SETTINGS_H */
