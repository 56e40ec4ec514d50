/*
 * arrival.h
 *	  Rows that come to the extension's tables in other ways than through its functions.
 */
#ifndef DEXP3_ARRIVAL_H
#define DEXP3_ARRIVAL_H

extern void arrival_init(void);

#endif							/* DEXP3_ARRIVAL_H */
