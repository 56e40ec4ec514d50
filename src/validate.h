/*
 * validate.h
 *	  Rows of the log that come from elsewhere: are their values possible?
 */
#ifndef DEXP3_VALIDATE_H
#define DEXP3_VALIDATE_H

#include "postgres.h"

#include "access/htup.h"
#include "utils/relcache.h"

extern void validate_log_row(Relation rel, HeapTuple tuple);

#endif							/* DEXP3_VALIDATE_H */
