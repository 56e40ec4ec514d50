/*
 * inspect.c
 *	  Look at a managed bandit: its probabilities, its state.
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"

#include "arguments.h"
#include "bandit.h"
#include "compat.h"
#include "current.h"
#include "state.h"

PG_FUNCTION_INFO_V1(bandit_probabilities);
PG_FUNCTION_INFO_V1(bandit_current_state);

/*
 * bandit_probabilities(bandit): what bandit_choose would use now
 */
Datum
bandit_probabilities(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const Bandit *bandit;
	const Learner *learner;
	Fold	   *fold;
	double		total;

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	InitMaterializedSRF(fcinfo, 0);

	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	fold = current_fold(current_state(bandit));
	learner = &fold->learner;
	total = learner_weights(learner, learner_step_size(learner, NO_DELAY),
							fold->weights);
	for (int i = 0; i < learner->params.arms; i++)
	{
		Datum		values[2];
		bool		nulls[2] = {0};

		values[0] = bandit->arms[i];
		values[1] = Float8GetDatum(fold->weights[i] / total);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	PG_RETURN_NULL();
}

/*
 * Return the numbers of the open rounds, each one once.
 *
 * Decisions that were made at the same time by several sessions have the same
 * round; they are numbered on, as if they had been made one after the other.
 */
static void
copy_open_rounds(const Fold *fold, OpenRounds *open)
{
	int64		previous = 0;

	for (int64 i = fold->open_first; i < fold->open_end; i++)
	{
		if (fold->open[i].closed)
			continue;
		previous = Max(fold->open[i].round, previous + 1);
		open_rounds_add(open, previous);
	}
}

/*
 * bandit_current_state(bandit): the bandit as a value
 */
Datum
bandit_current_state(PG_FUNCTION_ARGS)
{
	const Bandit *bandit;
	const Fold *fold;
	const Learner *learner;
	BanditState *state;
	Learner		copy;
	int64		nwords = 0;

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	fold = current_fold(current_state(bandit));
	learner = &fold->learner;

	/* from the oldest open round to the newest round of all */
	if (fold->open_first < fold->open_end)
		nwords = (learner->round - fold->open[fold->open_first].round) /
			ROUNDS_PER_WORD + 2;
	state = state_make(&learner->params, nwords);
	state_view(state, &copy);

	copy.round = learner->round;
	copy.outstanding = learner->outstanding;
	copy.cumulative_delay = learner->cumulative_delay;
	copy.longest_delay = learner->longest_delay;
	copy.lbck = learner->lbck;
	memcpy(copy.z, learner->z,
		   NUM_VECTORS(learner->params.algorithm) * learner->params.arms * sizeof(double));
	for (int i = 0; fold->tie_round != NULL && i < learner->params.arms; i++)
	{
		if (fold->tie_round[i] != learner->round)
		{
			copy.z_tie[i] = 0;
			copy.m_tie[i] = 0;
		}
	}
	copy.open.nwords = 0;
	copy_open_rounds(fold, &copy.open);
	state_store(state, &copy);
	PG_RETURN_BANDIT_STATE(state);
}
