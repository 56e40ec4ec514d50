/*
 * fuzz/palloc.h
 *	  Memory of the extension that the sanitizer can watch.
 *
 * Included before everything else in a build for fuzzing.  PostgreSQL's memory
 * contexts hand out pieces of larger blocks, and AddressSanitizer cannot see
 * where a piece ends; while an input is being tried, the extension gets each of
 * its pieces from malloc instead.
 */
#ifndef DEXP3_FUZZ_PALLOC_H
#define DEXP3_FUZZ_PALLOC_H

#include "postgres.h"

extern void *fuzz_palloc(Size size);
extern void *fuzz_palloc0(Size size);
extern void *fuzz_repalloc(void *pointer, Size size);
extern void fuzz_pfree(void *pointer);

#define palloc		fuzz_palloc
#define palloc0		fuzz_palloc0
#define repalloc	fuzz_repalloc
#define pfree		fuzz_pfree

#endif							/* DEXP3_FUZZ_PALLOC_H */
