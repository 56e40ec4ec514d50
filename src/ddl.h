/*
 * ddl.h
 *	  Changing rows of dexp3.bandit.
 */
#ifndef DEXP3_DDL_H
#define DEXP3_DDL_H

#include "postgres.h"

#include "bandit.h"

extern const Bandit *bandit_to_change(FunctionCallInfo fcinfo, const char *function);
extern const Bandit *lock_bandit_to_change(FunctionCallInfo fcinfo, const char *function);
extern void update_bandit(const char *sql, int32 bandit_id, text *name);
extern double *faded_head_start(const Bandit *bandit, double fade);

#endif							/* DEXP3_DDL_H */
