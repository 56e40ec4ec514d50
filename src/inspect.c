/*
 * inspect.c
 *	  Look at a managed bandit: its probabilities, its state.
 */
#include "postgres.h"

#include <math.h>

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "arguments.h"
#include "bandit.h"
#include "compat.h"
#include "frontier.h"
#include "state.h"
#include "sums.h"

PG_FUNCTION_INFO_V1(bandit_probabilities);
PG_FUNCTION_INFO_V1(bandit_current_state);
PG_FUNCTION_INFO_V1(bandit_verify);

/* Sums that were made in another order agree up to this, relatively. */
#define ROUNDING		1e-9

/* A transaction that has just finished counts a moment later: wait for that. */
#define MAX_TRIES		5
#define TRY_AGAIN_AFTER	20000	/* microseconds */

/*
 * bandit_probabilities(bandit): what bandit_choose would use now
 */
Datum
bandit_probabilities(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const Bandit *bandit;
	Sums		sums;
	Learner		learner;
	double	   *weights;
	double		total;

	InitMaterializedSRF(fcinfo, 0);

	bandit = bandit_argument(fcinfo, "bandit_probabilities()");
	sums_take_all(&sums, bandit, AccessShareLock);
	sums_learner(&sums, bandit, &learner);
	weights = palloc(learner.params.arms * sizeof(double));
	total = learner_weights(&learner, learner_step_size(&learner, NO_DELAY, weights),
							learner.retired, weights);
	for (int i = 0; i < learner.params.arms; i++)
	{
		Datum		values[2];
		bool		nulls[2] = {0};

		if (bandit_is_retired(bandit, i))
			continue;
		values[0] = bandit->arms[i];
		values[1] = Float8GetDatum(weights[i] / total);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	PG_RETURN_NULL();
}

/* The open rounds of a bandit, in ascending order, each one once. */
typedef struct OpenList
{
	int64		newest_round;	/* later ones do not count yet */
	int64	   *rounds;
	int64		n;
	int64		capacity;
} OpenList;

static int
compare_rounds(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

static bool
add_open_round(void *context, const DecisionRow *row)
{
	OpenList   *open = context;

	if (row->ticket.round > open->newest_round)
		return true;
	if (open->n == open->capacity)
	{
		open->capacity *= 2;
		open->rounds = repalloc_huge(open->rounds, open->capacity * sizeof(int64));
	}
	open->rounds[open->n++] = row->ticket.round;
	return true;
}

/*
 * List the open rounds.
 *
 * Decisions that were made at the same time by several sessions have the same
 * round; they are numbered on, as if they had been made one after the other.
 */
static void
list_open_rounds(const Sums *sums, OpenList *open)
{
	open->newest_round = sums->totals.counts.decisions;
	open->n = 0;
	open->capacity = 64;
	open->rounds = palloc(open->capacity * sizeof(int64));
	frontier_visit_open(&sums->frontier, sums->log.bandit_id, sums->log.epoch,
						add_open_round, open);
	qsort(open->rounds, open->n, sizeof(int64), compare_rounds);
	for (int64 i = 1; i < open->n; i++)
		open->rounds[i] = Max(open->rounds[i], open->rounds[i - 1] + 1);
}

/*
 * Copy the vectors of a learner to a state that leaves out the retired arms.
 */
static void
copy_vectors(const Bandit *bandit, const Learner *learner, Learner *copy)
{
	int			n = 0;

	for (int i = 0; i < learner->params.arms; i++)
	{
		if (bandit_is_retired(bandit, i))
			continue;
		copy->z[n] = learner->z[i];
		if (learner->params.algorithm == DEDA)
		{
			copy->m[n] = learner->m[i];
			copy->z_tie[n] = learner->z_tie[i];
			copy->m_tie[n] = learner->m_tie[i];
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
	Sums		sums;
	Learner		learner;
	LearnerParams params;
	BanditState *state;
	Learner		copy;
	OpenList	open = {0};

	bandit = bandit_argument(fcinfo, "bandit_current_state()");
	sums_take_all(&sums, bandit, AccessShareLock);
	sums_learner_of_all(&sums, bandit, &learner);

	params = learner.params;
	params.arms = learner.playable;
	if (params.skipping)
		list_open_rounds(&sums, &open);
	state = state_make(&params, open.n > 0 ?
					   open_rounds_span(open.rounds[0], open.rounds[open.n - 1]) : 0);
	state_view(state, &copy);

	copy.round = learner.round;
	copy.outstanding = params.skipping ? open.n : learner.outstanding;
	copy.cumulative_delay = learner.cumulative_delay;
	copy.longest_delay = learner.longest_delay;
	copy.lbck = learner.lbck;
	copy.settled = learner.settled;
	copy.total_loss = learner.total_loss;
	copy.cost = learner.cost;
	copy_vectors(bandit, &learner, &copy);
	copy.open.nwords = 0;
	for (int64 i = 0; i < open.n; i++)
		open_rounds_add(&copy.open, open.rounds[i]);
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
 * Are two sums, of an arm or of none, the same but for rounding?  If not, say so
 * unless the caller wants to try again.
 */
static bool
same_sum(const char *name, int arm, double running, double folded, bool quietly)
{
	if (fabs(running - folded) <= ROUNDING * fmax(1, fmax(fabs(running), fabs(folded))))
		return true;
	if (!quietly)
		ereport(NOTICE,
				(errmsg("%s is %s in the running state, but %s in the log",
						arm < 0 ? name : psprintf("%s of arm %d", name, arm + 1),
						number_text(running), number_text(folded))));
	return false;
}

/*
 * Compare two totals.
 */
static bool
same_totals(Totals *running, Totals *folded, bool quietly)
{
	static const char *const names[NUM_ARM_SUMS] = {
		[ARM_Z] = "z",
		[ARM_DECISIONS] = "number of decisions",
		[ARM_CLOSED] = "number of settled decisions",
		[ARM_SETTLED] = "number of losses",
		[ARM_LOSS] = "sum of losses",
		[ARM_INVERSE] = "sum of inverse probabilities",
		[ARM_INVERSE2] = "sum of squared inverse probabilities",
		[ARM_WEIGHTED] = "sum of weighted losses",
		[ARM_WEIGHTED_INVERSE] = "sum of doubly weighted losses",
		[ARM_WEIGHTED2] = "sum of squared weighted losses",
		[ARM_M] = "m"
	};
	const Counts *a = &running->counts;
	const Counts *b = &folded->counts;
	bool		same;

	totals_refer_to(running, b->half_lives);
	totals_refer_to(folded, a->half_lives);
	same = same_sum("round", -1, a->decisions, b->decisions, quietly);
	same &= same_sum("outstanding", -1, a->decisions - a->closed, b->decisions - b->closed, quietly);
	same &= same_sum("skipped", -1, a->skipped, b->skipped, quietly);
	same &= same_sum("expired", -1, a->expired, b->expired, quietly);
	same &= same_sum("restricted", -1, a->restricted, b->restricted, quietly);
	same &= same_sum("cumulative_delay", -1, a->cumulative_delay, b->cumulative_delay, quietly);
	same &= same_sum("longest_delay", -1, fmax(a->announced_delay, a->longest_delay),
					 fmax(b->announced_delay, b->longest_delay), quietly);
	same &= same_sum("lbck", -1, a->lbck, b->lbck, quietly);
	same &= same_sum("settled", -1, a->settled, b->settled, quietly);
	same &= same_sum("total_loss", -1, a->total_loss, b->total_loss, quietly);
	same &= same_sum("cost", -1, a->cost, b->cost, quietly);
	for (int arm = 0; arm < Min(running->arms, folded->arms); arm++)
	{
		/* which rounds had ties is forgotten when rows are removed */
		for (int i = 0; i < NUM_ARM_SUMS; i++)
			same &= (i >= ARM_TIE_ROUND && i <= ARM_M_TIE) ||
				same_sum(names[i], arm, totals_vector(running, i)[arm],
						 totals_vector(folded, i)[arm], quietly);
	}
	return same;
}

/*
 * bandit_verify(bandit): are the running sums those that the log makes when it is
 * folded again from the start?
 */
Datum
bandit_verify(PG_FUNCTION_ARGS)
{
	const Bandit *bandit;
	Totals		running;
	Totals		folded;

	bandit = bandit_argument(fcinfo, "bandit_verify()");
	for (int try = 0; try < MAX_TRIES; try++)
	{
		sums_take_twice(bandit, &running, &folded);
		if (same_totals(&running, &folded, try < MAX_TRIES - 1))
			PG_RETURN_BOOL(true);
		pg_usleep(TRY_AGAIN_AFTER);
	}
	PG_RETURN_BOOL(false);
}
