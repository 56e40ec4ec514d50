/*
 * state.c
 *	  The stored format of bandit_state: making, checking, viewing.
 *
 * state_problem() checks every value that enters as text, in binary form or
 * from disk.  The rest of the code sees a state only as a Learner, a view whose
 * vectors point into the value.
 */
#include "postgres.h"

#include <math.h>

#include "compat.h"
#include "state.h"

/*
 * Return the size of a state.  The caller has checked the number of arms, so only
 * the number of words can make the state too large.
 */
static Size
state_size(Algorithm algorithm, int32 arms, int64 open_nwords)
{
	Size		size = offsetof(BanditState, values) +
		(NUM_SCALARS(algorithm) + NUM_VECTORS(algorithm) * (Size) arms) * sizeof(double);

	if (open_nwords > MAX_OPEN_WORDS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("open rounds of a bandit_state span more than " INT64_FORMAT " rounds",
						(int64) MAX_OPEN_WORDS * ROUNDS_PER_WORD),
				 errhint("Use a smaller patience, or deliver feedback earlier.")));
	return size + (Size) open_nwords * sizeof(uint64);
}

/*
 * Make the state of a learner that has not played yet.  It has room for the given
 * number of words of open rounds.
 */
BanditState *
state_make(const LearnerParams *params, int64 open_nwords)
{
	Size		size = state_size(params->algorithm, params->arms, open_nwords);
	BanditState *state = palloc0(size);
	Learner		learner;

	SET_VARSIZE(state, size);
	state->version = BANDIT_STATE_VERSION;
	state->algorithm = params->algorithm;
	state->skipping = params->skipping;
	state->arms = params->arms;
	state->patience = params->patience;
	state->max_delay = params->max_delay;
	state->step_scale = params->step_scale;
	if (params->algorithm == SELF_TUNED)
	{
		state->values[STATE_OPTIMISM] = params->optimism;
		state->values[STATE_HALF_LIFE] = params->half_life;
	}
	state->open_nwords = open_nwords;

	learner_init(&learner, params, state_vectors(state));
	state->longest_delay = learner.longest_delay;
	return state;
}

/*
 * Return the parameters of the state's learner.  They need not have been checked; the
 * state must have its scalars.
 */
static LearnerParams
state_params(const BanditState *state)
{
	LearnerParams params = {
		.arms = state->arms,
		.algorithm = (Algorithm) state->algorithm,
		.skipping = state->skipping != 0,
		.patience = state->patience,
		.max_delay = state->max_delay,
		.step_scale = state->step_scale
	};

	if (state->algorithm == SELF_TUNED)
	{
		params.optimism = state->values[STATE_OPTIMISM];
		params.half_life = state->values[STATE_HALF_LIFE];
	}
	return params;
}

/*
 * Make the learner a view of the state.  The scalars are copied.  The vectors and
 * the open rounds are those of the state itself.
 */
void
state_view(BanditState *state, Learner *learner)
{
	LearnerParams params = state_params(state);

	learner_init(learner, &params, state_vectors(state));
	learner->round = state->round;
	learner->outstanding = state->outstanding;
	learner->cumulative_delay = state->cumulative_delay;
	learner->longest_delay = state->longest_delay;
	learner->lbck = state->lbck;
	if (params.algorithm == SELF_TUNED)
	{
		learner->settled = state->values[STATE_SETTLED];
		learner->total_loss = state->values[STATE_TOTAL_LOSS];
		learner->cost = state->values[STATE_COST];
	}
	learner->open.first_word = state->open_first_word;
	learner->open.nwords = state->open_nwords;
	learner->open.words = (uint64_t *)
		(state_vectors(state) + NUM_VECTORS(params.algorithm) * (Size) params.arms);
}

/*
 * Write back the scalars of a view, and give the state its final size.
 */
void
state_store(BanditState *state, const Learner *learner)
{
	state->round = learner->round;
	state->outstanding = learner->outstanding;
	state->cumulative_delay = learner->cumulative_delay;
	state->longest_delay = learner->longest_delay;
	state->lbck = learner->lbck;
	if (learner->params.algorithm == SELF_TUNED)
	{
		state->values[STATE_SETTLED] = learner->settled;
		state->values[STATE_TOTAL_LOSS] = learner->total_loss;
		state->values[STATE_COST] = learner->cost;
	}
	state->open_first_word = learner->open.first_word;
	state->open_nwords = learner->open.nwords;
	SET_VARSIZE(state, state_size(learner->params.algorithm,
								  learner->params.arms,
								  learner->open.nwords));
}

static bool
is_amount(double x)
{
	return isfinite(x) && !signbit(x);
}

static bool
is_count(double x)
{
	return is_amount(x) && x == floor(x);
}

/*
 * Is this a sum that may be negative?  Of the two zeros only one is canonical.
 */
static bool
is_sum(double x)
{
	return fabs(x) <= LEARNER_MAX_SUM && !(x == 0 && signbit(x));
}

/*
 * Check the sums that only "self-tuned" has.  Each settled decision counts at most
 * twice, see learner.h.
 */
static const char *
self_tuned_problem(const BanditState *state, const Learner *learner)
{
	double		most = 2 * (double) (state->round - state->outstanding);

	if (state->algorithm != SELF_TUNED)
		return NULL;
	if (!is_amount(learner->settled) || learner->settled > most)
		return "its number of settled rounds is out of range";
	if (!is_amount(learner->total_loss) || learner->total_loss > learner->settled)
		return "its total loss is out of range";
	if (!is_sum(learner->cost))
		return "its cost is out of range";
	for (int32 i = 0; i < state->arms; i++)
	{
		if (!is_sum(learner->z[i]))
			return "a sum of loss estimates is out of range";
	}
	return NULL;
}

/*
 * Check a state that came from outside.  Returns NULL if it is all that the code
 * relies on, or says what is wrong.
 */
const char *
state_problem(const BanditState *state)
{
	LearnerParams params;
	Learner		learner;
	const char *problem;
	double		rounds;
	Size		nvalues;

	if (VARSIZE(state) < offsetof(BanditState, values))
		return "its size is wrong";
	if (state->version != BANDIT_STATE_VERSION)
		return "its format version is not supported";
	if (state->reserved != 0 || state->reserved2 != 0)
		return "its reserved bytes are not zero";
	if (state->skipping > 1)
		return "its skipping flag is not a boolean";
	if (VARSIZE(state) < offsetof(BanditState, values) +
		NUM_SCALARS(state->algorithm) * sizeof(double))
		return "its size is wrong";

	params = state_params(state);
	problem = learner_params_problem(&params);
	if (problem != NULL)
		return problem;
	if (state->open_nwords < 0 || (state->open_nwords > 0 && !state->skipping) ||
		state->open_nwords > MAX_OPEN_WORDS ||
		VARSIZE(state) != state_size(params.algorithm, params.arms,
									 state->open_nwords))
		return "its size is wrong";
	state_view(unconstify(BanditState *, state), &learner);

	if (state->round < 0 || state->round > LEARNER_MAX_ROUNDS)
		return "its number of rounds is out of range";
	if (state->outstanding < 0 || state->outstanding > state->round)
		return "its number of outstanding rounds is out of range";
	rounds = (double) state->round;
	/* it is below rounds^2 / 2, but rounding may have added something */
	if (!is_count(state->cumulative_delay) ||
		state->cumulative_delay > rounds * rounds)
		return "its cumulative delay is out of range";
	if (!is_count(state->longest_delay) ||
		state->longest_delay > (double) LEARNER_MAX_ROUNDS ||
		state->longest_delay < state->max_delay ||
		(state->longest_delay != 0 && state->algorithm != DEDA))
		return "its longest delay is out of range";
	if (!is_amount(state->lbck) ||
		(state->lbck != 0 && state->algorithm != DEDA))
		return "its lbck is out of range";
	problem = self_tuned_problem(state, &learner);
	if (problem != NULL)
		return problem;

	nvalues = NUM_VECTORS(state->algorithm) * (Size) state->arms;
	for (Size i = 0; i < nvalues && state->algorithm != SELF_TUNED; i++)
	{
		if (!is_amount(learner.z[i]))
			return "a sum of loss estimates is not a finite, non-negative number";
	}

	if (!state->skipping)
		return state->open_first_word == 0 ? NULL : "its size is wrong";
	return open_rounds_problem(&learner.open, state->round, state->outstanding);
}

/*
 * Copy a state, and leave room for what a draw adds.
 */
BanditState *
state_copy_for_draw(const BanditState *state)
{
	Learner		learner;
	BanditState *copy;

	state_view(unconstify(BanditState *, state), &learner);
	copy = palloc(state_size(learner.params.algorithm, learner.params.arms,
							 learner_open_words_in_draw(&learner)));
	memcpy(copy, state, VARSIZE(state));
	return copy;
}

/*
 * Fetch a state, detoasted and checked.  The result may be the caller's own
 * value: copy it before changing it.
 */
BanditState *
DatumGetBanditState(Datum value)
{
	BanditState *state = (BanditState *) PG_DETOAST_DATUM(value);
	const char *problem = state_problem(state);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid value of type %s", "bandit_state"),
				 errdetail("Stored value is wrong: %s.", problem)));
	return state;
}
