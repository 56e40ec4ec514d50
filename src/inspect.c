/*
 * inspect.c
 *	  Look at a managed bandit: its probabilities, its state.
 */
#include "postgres.h"

#include <math.h>

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
PG_FUNCTION_INFO_V1(bandit_replay);

/* Sums that were made in another order agree up to this, relatively. */
#define ROUNDING		1e-9

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
							learner->retired, fold->weights);
	for (int i = 0; i < learner->params.arms; i++)
	{
		Datum		values[2];
		bool		nulls[2] = {0};

		if (bandit_is_retired(bandit, i))
			continue;
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
 * Copy the vectors of a fold to a state that leaves out the retired arms.
 */
static void
copy_vectors(const Bandit *bandit, const Fold *fold, Learner *copy)
{
	const Learner *learner = &fold->learner;
	int			n = 0;

	for (int i = 0; i < learner->params.arms; i++)
	{
		if (bandit_is_retired(bandit, i))
			continue;
		copy->z[n] = learner->z[i];
		if (learner->params.algorithm == DEDA)
		{
			bool		tied = fold->tie_round[i] == learner->round;

			copy->m[n] = learner->m[i];
			copy->z_tie[n] = tied ? learner->z_tie[i] : 0;
			copy->m_tie[n] = tied ? learner->m_tie[i] : 0;
		}
		n++;
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
	LearnerParams params;
	BanditState *state;
	Learner		copy;
	int64	   *open = NULL;
	int64		nopen = 0;

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	PreventCommandIfParallelMode("bandit_current_state()");
	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	fold = current_fold(current_state(bandit));
	learner = &fold->learner;

	params = learner->params;
	params.arms = learner->playable;
	if (params.skipping)
		nopen = list_open_rounds(fold, &open);
	state = state_make(&params,
					   nopen > 0 ? open_rounds_span(open[0], open[nopen - 1]) : 0);
	state_view(state, &copy);

	copy.round = learner->round;
	copy.outstanding = learner->outstanding;
	copy.cumulative_delay = learner->cumulative_delay;
	copy.longest_delay = learner->longest_delay;
	copy.lbck = learner->lbck;
	copy_vectors(bandit, fold, &copy);
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

/*
 * Are two sums the same, but for rounding?  If not, say so.
 */
static bool
same_sum(const char *name, double running, double replayed)
{
	if (fabs(running - replayed) <= ROUNDING * fmax(1, fmax(fabs(running), fabs(replayed))))
		return true;
	ereport(NOTICE,
			(errmsg("%s is %s in the running state, but %s in the log", name,
					number_text(running), number_text(replayed))));
	return false;
}

/*
 * bandit_replay(bandit): does the running state equal that which the log makes
 * when it is folded again from the start?
 */
Datum
bandit_replay(PG_FUNCTION_ARGS)
{
	const Bandit *bandit;
	const Fold *replayed;
	Fold	   *running;
	const Learner *a;
	const Learner *b;
	bool		same;

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	PreventCommandIfParallelMode("bandit_replay()");
	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
	replayed = current_replay(bandit, &running);
	a = &running->learner;
	b = &replayed->learner;

	same = same_sum("round", a->round, b->round);
	same &= same_sum("outstanding", a->outstanding, b->outstanding);
	same &= same_sum("cumulative_delay", a->cumulative_delay, b->cumulative_delay);
	same &= same_sum("longest_delay", a->longest_delay, b->longest_delay);
	same &= same_sum("lbck", a->lbck, b->lbck);
	for (int i = 0; i < a->params.arms; i++)
	{
		same &= same_sum(psprintf("z of arm %d", i + 1), a->z[i], b->z[i]);
		if (a->m != NULL)
			same &= same_sum(psprintf("m of arm %d", i + 1), a->m[i], b->m[i]);
	}
	same &= same_sum("number of open decisions",
					 running->open_end - running->open_first - running->open_closed,
					 replayed->open_end - replayed->open_first - replayed->open_closed);
	PG_RETURN_BOOL(same);
}
