/*
 * openrounds.c
 *	  The set of rounds that a skipping learner still waits for.
 */
#include "openrounds.h"

#include <string.h>

#define WORD_OF(round)		((round) / ROUNDS_PER_WORD)
#define BIT_OF(round)		(UINT64_C(1) << ((round) % ROUNDS_PER_WORD))

/*
 * Return how many words a set from the oldest to the newest round has.
 */
int64_t
open_rounds_span(int64_t oldest, int64_t newest)
{
	return WORD_OF(newest) - WORD_OF(oldest) + 1;
}

/*
 * Return how many words the set has once round is in it.  The round must be
 * newer than every round in the set.
 */
int64_t
open_rounds_words_with(const OpenRounds *open, int64_t round)
{
	if (open->nwords == 0)
		return 1;
	return WORD_OF(round) - open->first_word + 1;
}

/*
 * Add a round that is newer than every round in the set.  There must be room
 * for open_rounds_words_with(open, round) words.
 */
void
open_rounds_add(OpenRounds *open, int64_t round)
{
	int64_t		nwords = open_rounds_words_with(open, round);

	if (open->nwords == 0)
		open->first_word = WORD_OF(round);
	memset(open->words + open->nwords, 0,
		   (size_t) (nwords - open->nwords) * sizeof(uint64_t));
	open->nwords = nwords;
	open->words[nwords - 1] |= BIT_OF(round);
}

bool
open_rounds_contains(const OpenRounds *open, int64_t round)
{
	int64_t		word = WORD_OF(round) - open->first_word;

	return word >= 0 && word < open->nwords &&
		(open->words[word] & BIT_OF(round)) != 0;
}

/*
 * Drop empty words at both ends.  No more words leave the front than rounds have
 * filled at the back, so moving the rest down costs little on average.
 */
static void
trim(OpenRounds *open)
{
	int64_t		empty = 0;

	while (open->nwords > 0 && open->words[open->nwords - 1] == 0)
		open->nwords--;
	while (empty < open->nwords && open->words[empty] == 0)
		empty++;
	if (empty > 0)
	{
		open->nwords -= empty;
		memmove(open->words, open->words + empty,
				(size_t) open->nwords * sizeof(uint64_t));
	}
	open->first_word = open->nwords > 0 ? open->first_word + empty : 0;
}

/*
 * Remove a round that is in the set.
 */
void
open_rounds_remove(OpenRounds *open, int64_t round)
{
	open->words[WORD_OF(round) - open->first_word] &= ~BIT_OF(round);
	trim(open);
}

static int64_t
count_bits(uint64_t word)
{
	int64_t		count = 0;

	for (; word != 0; word &= word - 1)
		count++;
	return count;
}

/*
 * Remove all rounds before the given one, and return how many there were.
 */
int64_t
open_rounds_remove_before(OpenRounds *open, int64_t round)
{
	int64_t		word = WORD_OF(round) - open->first_word;
	int64_t		removed = 0;

	for (int64_t i = 0; i < open->nwords && i <= word; i++)
	{
		uint64_t	gone = i < word ? open->words[i] :
			open->words[i] & (BIT_OF(round) - 1);

		removed += count_bits(gone);
		open->words[i] &= ~gone;
	}
	if (removed > 0)
		trim(open);
	return removed;
}

/*
 * Return the oldest round in the set that is newer than the given one, or 0 if
 * there is none.  Rounds count from 1, so next(0) is the oldest of all.
 */
int64_t
open_rounds_next(const OpenRounds *open, int64_t after)
{
	int64_t		start = open->first_word * ROUNDS_PER_WORD;
	int64_t		end = start + open->nwords * ROUNDS_PER_WORD;
	int64_t		round = after + 1 > start ? after + 1 : start;

	while (round < end)
	{
		uint64_t	rest = open->words[WORD_OF(round) - open->first_word] >>
			(round % ROUNDS_PER_WORD);

		if ((rest & 1) != 0)
			return round;
		round = rest != 0 ? round + 1 : (WORD_OF(round) + 1) * ROUNDS_PER_WORD;
	}
	return 0;
}

/*
 * Check a set that came from outside.  It must be well formed and have count
 * members, none of them newer than the newest round.  Returns NULL, or says what
 * is wrong.
 */
const char *
open_rounds_problem(const OpenRounds *open, int64_t newest, int64_t count)
{
	int64_t		members = 0;

	if (open->nwords == 0)
		return open->first_word == 0 && count == 0 ? NULL :
			"its open rounds do not match their number";
	if (open->first_word < 0 || open->first_word > WORD_OF(newest) ||
		open->nwords > WORD_OF(newest) - open->first_word + 1)
		return "an open round is out of range";
	if (open->words[0] == 0 || open->words[open->nwords - 1] == 0)
		return "its open rounds are not in canonical form";
	if (open_rounds_contains(open, 0) ||
		open_rounds_next(open, newest) != 0)
		return "an open round is out of range";

	for (int64_t i = 0; i < open->nwords; i++)
		members += count_bits(open->words[i]);
	return members == count ? NULL : "its open rounds do not match their number";
}
