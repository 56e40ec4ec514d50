/*
 * once.h
 *	  Writing down that decisions are settled, each of them once.
 */
#ifndef DEXP3_ONCE_H
#define DEXP3_ONCE_H

#include "postgres.h"

#include "rows.h"
#include "shared.h"

extern bool once_append_feedback(const SharedLog *log, const FeedbackRow *row,
								 bool look_first, bool may_be_removed);
extern bool once_append_batch(const ExpiryRow *row, bool may_be_removed);

#endif							/* DEXP3_ONCE_H */
