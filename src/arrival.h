/*
 * arrival.h
 *	  Rows that come to the extension's tables in another way than by its
 *	  functions.
 */
#ifndef DEXP3_ARRIVAL_H
#define DEXP3_ARRIVAL_H

extern void arrival_init(void);

#endif							/* DEXP3_ARRIVAL_H */
