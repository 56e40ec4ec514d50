/*
 * exponential.h
 *	  Many exponentials at once.
 */
#ifndef DEXP3_EXPONENTIAL_H
#define DEXP3_EXPONENTIAL_H

#include <stdint.h>

extern void exponentials(double *x, int32_t n);

#endif							/* DEXP3_EXPONENTIAL_H */
