/*
 * openrounds.h
 *	  The set of rounds that a skipping learner still waits for.
 *
 * A word has a bit for each of 64 rounds.  There are words from that of the
 * oldest open round to that of the newest.  The skipping rule itself bounds the
 * size, because no open round is older than max(patience, sqrt(D_t / ln K)) + 1
 * rounds.  The first and the last word are never zero, so equal sets are equal
 * byte by byte.
 *
 * The caller owns the words and sees to it that there is room.
 */
#ifndef DEXP3_OPENROUNDS_H
#define DEXP3_OPENROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#define ROUNDS_PER_WORD		64

typedef struct OpenRounds
{
	int64_t		first_word;		/* words[0] is for the rounds from 64 *
								 * first_word; 0 if the set is empty */
	int64_t		nwords;
	uint64_t   *words;
} OpenRounds;

extern int64_t open_rounds_span(int64_t oldest, int64_t newest);
extern int64_t open_rounds_words_with(const OpenRounds *open, int64_t round);
extern void open_rounds_add(OpenRounds *open, int64_t round);
extern bool open_rounds_contains(const OpenRounds *open, int64_t round);
extern void open_rounds_remove(OpenRounds *open, int64_t round);
extern int64_t open_rounds_remove_before(OpenRounds *open, int64_t round);
extern int64_t open_rounds_next(const OpenRounds *open, int64_t after);
extern const char *open_rounds_problem(const OpenRounds *open,
									   int64_t newest, int64_t count);

#endif							/* DEXP3_OPENROUNDS_H */
