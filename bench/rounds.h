/*
 * rounds.h
 *	  The rounds of a simulation, and when their feedback arrives: after round
 *	  s + d_s and in the order of s, as in bandit_simulate().
 *
 * No input is checked.
 */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include "catalog/pg_type.h"
#include "utils/array.h"

#define NEVER			(-1)
#define NO_ROUND		(-1)

/* A round, counted from 0, and a queue of those whose feedback arrives after it. */
typedef struct Round
{
	int			delay;
	int			arm;
	double		probability;
	int			first;			/* of the queue */
	int			last;
	int			next;			/* in the queue that this round is in */
} Round;

static inline Round *
read_delays(ArrayType *array)
{
	Datum	   *values;
	bool	   *nulls;
	int			nrounds;
	Round	   *rounds;

	deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT,
					  &values, &nulls, &nrounds);
	rounds = palloc(sizeof(Round) * Max(nrounds, 1));
	for (int t = 0; t < nrounds; t++)
	{
		rounds[t].delay = nulls[t] ? NEVER : DatumGetInt32(values[t]);
		rounds[t].first = NO_ROUND;
	}
	return rounds;
}

/*
 * Put a round that has been played into the queue of the round after which its
 * feedback arrives, if there is one.
 */
static inline void
enqueue(Round *rounds, int nrounds, int s)
{
	Round	   *arrival;

	if (rounds[s].delay == NEVER || rounds[s].delay >= nrounds - s)
		return;
	arrival = &rounds[s + rounds[s].delay];
	if (arrival->first == NO_ROUND)
		arrival->first = s;
	else
		rounds[arrival->last].next = s;
	arrival->last = s;
	rounds[s].next = NO_ROUND;
}

#endif							/* BENCH_ROUNDS_H */
