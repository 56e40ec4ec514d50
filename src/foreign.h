/*
 * foreign.h
 *	  The sums of other servers, in the entries of shared bandits.
 */
#ifndef DEXP3_FOREIGN_H
#define DEXP3_FOREIGN_H

#include "postgres.h"

#include "bandit.h"
#include "shared.h"

/* How often rows of other servers have come */
extern int	foreign_slot(const text *bandit);
extern uint64 foreign_arrivals(const text *bandit);
extern void foreign_note_arrival(int slot);

extern bool foreign_read(const SharedLog *log, const Bandit *bandit,
						 const Selection *selection, Totals *foreign);
extern void foreign_keep(const SharedLog *log, const Bandit *bandit, uint64 arrivals,
						 const Totals *foreign);

#endif							/* DEXP3_FOREIGN_H */
