/*
 * state.h
 *	  The type bandit_state: a learner as one value.
 */
#ifndef DEXP3_STATE_H
#define DEXP3_STATE_H

#include "fmgr.h"

#include "learner/learner.h"

#define BANDIT_STATE_VERSION	1

/*
 * A learner waits for no round longer than its patience, a 32-bit number, or
 * sqrt(D_t / ln K), which is less in practice.  So this many words are enough,
 * and a short text cannot ask for more memory.
 */
#define MAX_OPEN_WORDS			((INT64CONST(1) << 31) / ROUNDS_PER_WORD + 2)

/*
 * The stored format, version 1.  doc/format.md describes it byte by byte.
 *
 * The form is canonical: fields that an algorithm does not use are zero or
 * NO_DELAY.  So two states are equal if and only if their bytes are.
 */
typedef struct BanditState
{
	int32		vl_len_;		/* varlena header (do not touch directly!) */
	uint8		version;		/* BANDIT_STATE_VERSION */
	uint8		algorithm;		/* an Algorithm */
	uint8		skipping;		/* 0 or 1 */
	uint8		reserved;		/* always zero */
	int32		arms;
	int32		patience;
	int32		max_delay;
	int32		reserved2;		/* always zero */
	double		step_scale;
	int64		round;
	int64		outstanding;
	double		cumulative_delay;
	double		longest_delay;
	double		lbck;
	int64		open_first_word;
	int64		open_nwords;
	double		values[FLEXIBLE_ARRAY_MEMBER];

	/*
	 * values holds, with SELF_TUNED, the numbers of StateScalar; then z, and
	 * with DEDA also m, z_tie and m_tie, each of length arms.  The
	 * open_nwords words of the set of open rounds follow.
	 */
} BanditState;

/* What only SELF_TUNED has. */
typedef enum StateScalar
{
	STATE_OPTIMISM,
	STATE_HALF_LIFE,
	STATE_SETTLED,
	STATE_TOTAL_LOSS,
	STATE_COST
} StateScalar;

#define NUM_SCALARS(algorithm)	((algorithm) == SELF_TUNED ? STATE_COST + 1 : 0)

static inline double *
state_vectors(BanditState *state)
{
	return state->values + NUM_SCALARS(state->algorithm);
}

extern BanditState *state_make(const LearnerParams *params, int64 open_nwords);
extern const char *state_problem(const BanditState *state);
extern void state_view(BanditState *state, Learner *learner);
extern BanditState *state_copy_for_draw(const BanditState *state);
extern void state_store(BanditState *state, const Learner *learner);
extern BanditState *DatumGetBanditState(Datum value);

#define PG_GETARG_BANDIT_STATE(n)	DatumGetBanditState(PG_GETARG_DATUM(n))
#define PG_GETARG_BANDIT_STATE_COPY(n) \
	DatumGetBanditState(PointerGetDatum(PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(n))))
#define PG_RETURN_BANDIT_STATE(s)	PG_RETURN_POINTER(s)

#endif							/* DEXP3_STATE_H */
