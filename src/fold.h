/*
 * fold.h
 *	  Adding up the log of a managed bandit, as a snapshot sees it.
 */
#ifndef DEXP3_FOLD_H
#define DEXP3_FOLD_H

#include "postgres.h"

#include "bandit.h"
#include "checkpoint.h"
#include "progress.h"

typedef enum FoldFrom
{
	FOLD_FROM_CHECKPOINT,		/* if there is one */
	FOLD_FROM_START
} FoldFrom;

extern int64 fold_log(const Bandit *bandit, FoldFrom from,
					  Snapshot snapshot, const Moment *moment, bool with_own_rows,
					  Totals *totals, Frontier *frontier);

#endif							/* DEXP3_FOLD_H */
