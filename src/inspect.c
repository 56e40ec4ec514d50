/*
 * inspect.c
 *	  Look at a managed bandit: its probabilities, its state.
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
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
	PreventCommandIfParallelMode("bandit_probabilities()");
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
 * List the open rounds in ascending order, each one once; returns how many
 * there are.
 *
 * Decisions that were made at the same time by several sessions have the same
 * round; they are numbered on, as if they had been made one after the other.
 */
static int64
list_open_rounds(const Fold *fold, int64 **rounds)
{
	int64		previous = 0;
	int64		n = 0;

	*rounds = palloc_extended(sizeof(int64) * Max(fold->open_end - fold->open_first, 1),
							  MCXT_ALLOC_HUGE);
	for (int64 i = fold->open_first; i < fold->open_end; i++)
	{
		if (fold->open[i].closed)
			continue;
		previous = Max(fold->open[i].round, previous + 1);
		(*rounds)[n++] = previous;
	}
	return n;
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
	int64	   *open;
	int64		nopen;

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	PreventCommandIfParallelMode("bandit_current_state()");
	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	fold = current_fold(current_state(bandit));
	learner = &fold->learner;

	nopen = list_open_rounds(fold, &open);
	state = state_make(&learner->params,
					   nopen > 0 ? open_rounds_span(open[0], open[nopen - 1]) : 0);
	state_view(state, &copy);

	copy.round = learner->round;
	copy.outstanding = learner->outstanding;
	copy.cumulative_delay = learner->cumulative_delay;
	copy.longest_delay = learner->longest_delay;
	copy.lbck = learner->lbck;
	memcpy(copy.z, learner->z,
		   NUM_VECTORS(learner->params.algorithm) * (Size) learner->params.arms *
		   sizeof(double));
	for (int i = 0; fold->tie_round != NULL && i < learner->params.arms; i++)
	{
		if (fold->tie_round[i] != learner->round)
		{
			copy.z_tie[i] = 0;
			copy.m_tie[i] = 0;
		}
	}
	copy.open.nwords = 0;
	for (int64 i = 0; i < nopen; i++)
		open_rounds_add(&copy.open, open[i]);
	state_store(state, &copy);

	/* somebody may have deleted rows of the log */
	if (state_problem(state) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("log of bandit \"%s\" is not complete: %s",
						text_to_cstring(bandit->name), state_problem(state))));
	PG_RETURN_BANDIT_STATE(state);
}
