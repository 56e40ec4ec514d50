/*
 * alter.c
 *	  bandit_alter(): change the settings of a managed bandit while it is in use.
 *
 * A null leaves a setting as it is; `without` names those that are to be none.  Nobody
 * waits: sessions that are in the middle of a call go by the old settings once more.
 *
 * Most settings say what happens from now on, also to decisions that are open.  Two need
 * more:
 *
 * - A first feedback_window needs to know which decisions are open.  The frontier is
 *	 moved up to the first of them here, so that no choose has to walk over a long log.
 * - half_life says how much each row of the log counts, so all sums are made anew: here,
 *	 with a checkpoint for all others.  Sums that were made with another half-life are
 *	 recognised by it, see counts_fit().  What was trimmed is known as a sum only: it goes
 *	 on from what it counts at this moment.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "arguments.h"
#include "bandit.h"
#include "clock.h"
#include "compat.h"
#include "ddl.h"
#include "own.h"
#include "ownersql.h"
#include "publish.h"
#include "settings.h"
#include "sums.h"
#include "trim.h"

PG_FUNCTION_INFO_V1(bandit_alter);

/* The arguments of bandit_alter(), in their order. */
enum
{
	ARG_BANDIT,
	ARG_FEEDBACK_WINDOW,
	ARG_MISSING_LOSS,
	ARG_RETENTION,
	ARG_HALF_LIFE,
	ARG_OPTIMISM,
	ARG_STEP_SCALE,
	ARG_PATIENCE,
	ARG_STICKY,
	ARG_CLAMP_LOSSES,
	ARG_GOAL,
	ARG_WITHOUT,
	NUM_ARGS
};

/* Those that may be none. */
static const struct
{
	const char *name;
	int			argument;
}			removable[] = {
	{"feedback_window", ARG_FEEDBACK_WINDOW},
	{"retention", ARG_RETENTION},
	{"half_life", ARG_HALF_LIFE},
	{"goal", ARG_GOAL}
};

/*
 * Read which settings are to be none, as a flag for each argument.
 */
static void
argument_without(FunctionCallInfo fcinfo, bool *without)
{
	Datum	   *names;
	bool	   *nulls;
	int			n;

	memset(without, 0, sizeof(bool) * NUM_ARGS);
	if (PG_ARGISNULL(ARG_WITHOUT))
		return;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(ARG_WITHOUT), TEXTOID, -1, false, TYPALIGN_INT,
					  &names, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		char	   *name;
		size_t		k = 0;

		if (nulls[i])
			null_argument("a setting in without");
		name = TextDatumGetCString(names[i]);
		while (k < lengthof(removable) && strcmp(removable[k].name, name) != 0)
			k++;
		if (k == lengthof(removable))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("a bandit cannot be without \"%s\"", name),
					 errhint("It can be without \"feedback_window\", \"retention\", \"half_life\" and \"goal\".")));
		if (!PG_ARGISNULL(removable[k].argument))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s is both given and named in without", name)));
		without[removable[k].argument] = true;
	}
}

/*
 * Refuse an argument that is not for this bandit.
 */
static void
not_for(const char *name, const char *which)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s is for %s only", name, which)));
}

/*
 * Check the settings that belong to the learner.
 */
static void
check_learner_settings(FunctionCallInfo fcinfo, const LearnerParams *params)
{
	check_half_life(fcinfo, ARG_HALF_LIFE, params);
	if (!PG_ARGISNULL(ARG_OPTIMISM))
	{
		if (params->algorithm != SELF_TUNED)
			not_for("optimism", "algorithm \"self-tuned\"");
		check_optimism(PG_GETARG_FLOAT8(ARG_OPTIMISM));
	}
	if (!PG_ARGISNULL(ARG_STEP_SCALE))
	{
		if (params->algorithm != DADA && params->algorithm != DADA_IX)
			not_for("step_scale", "algorithms \"dada\" and \"dada-ix\"");
		check_step_scale(PG_GETARG_FLOAT8(ARG_STEP_SCALE));
	}
	if (!PG_ARGISNULL(ARG_PATIENCE))
	{
		if (!params->skipping)
			not_for("patience", "bandits with skipping");
		check_patience(PG_GETARG_INT32(ARG_PATIENCE));
	}
}

/*
 * Refuse to change what feedback is when there has been some: nobody knows whether that
 * was right.
 */
static void
check_goal_may_change(const Bandit *bandit)
{
	Sums		sums;
	const Counts *own = &sums.totals.counts;
	const Counts *foreign = &sums.foreign.counts;

	sums_take_all(&sums, bandit, AccessShareLock);
	if (own->closed + foreign->closed >
		own->skipped + own->expired + foreign->skipped + foreign->expired)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change the goal of bandit \"%s\", which has had feedback",
						text_to_cstring(bandit->name)),
				 errhint("Use bandit_reset() first, if what it has learned may be wrong.")));
}

/*
 * Store the settings.  What arms began with is reduced to what it counts at this moment,
 * so that it goes on from there with another half-life.
 */
static void
store_settings(FunctionCallInfo fcinfo, const Bandit *bandit)
{
	Oid			types[NUM_ARGS + 3] = {
		INT4OID, INTERVALOID, FLOAT8OID, INTERVALOID, INTERVALOID, FLOAT8OID, FLOAT8OID,
		INT4OID, BOOLOID, BOOLOID, TEXTOID, TEXTARRAYOID,
		FLOAT8ARRAYOID, FLOAT8OID, TIMESTAMPTZOID
	};
	Datum		values[NUM_ARGS + 3];
	char		nulls[NUM_ARGS + 3];
	double		fade = sums_fading(bandit, bandit->arms_changed_at);

	/* with another optimism from now on, nothing is proven any more */
	bool		changed = bandit->arms_changed_at != DT_NOBEGIN ||
		(!PG_ARGISNULL(ARG_OPTIMISM) && PG_GETARG_FLOAT8(ARG_OPTIMISM) != bandit->params.optimism);

	for (int i = 1; i < NUM_ARGS; i++)
	{
		values[i] = PG_GETARG_DATUM(i);
		nulls[i] = PG_ARGISNULL(i) ? 'n' : ' ';
	}
	values[0] = Int32GetDatum(bandit->bandit_id);
	values[ARG_WITHOUT] = PG_ARGISNULL(ARG_WITHOUT) ?
		PointerGetDatum(construct_empty_array(TEXTOID)) : PG_GETARG_DATUM(ARG_WITHOUT);
	values[NUM_ARGS] = number_array(faded_head_start(bandit, fade), 1,
									bandit->head_start != NULL ? bandit->params.arms : 0);
	values[NUM_ARGS + 1] = Float8GetDatum(fade * bandit->cost_offset);
	values[NUM_ARGS + 2] = TimestampTzGetDatum(time_of_action());
	nulls[0] = nulls[ARG_WITHOUT] = nulls[NUM_ARGS] = nulls[NUM_ARGS + 1] = ' ';
	nulls[NUM_ARGS + 2] = changed ? ' ' : 'n';
#define SETTING_OR_NONE(name, number) \
	name " = CASE WHEN '" name "' = ANY ($12) THEN NULL ELSE coalesce($" number ", " name ") END"
	(void) run_as_owner("UPDATE dexp3.bandit_rows SET "
						SETTING_OR_NONE("feedback_window", "2") ", "
						SETTING_OR_NONE("retention", "4") ", "
						SETTING_OR_NONE("half_life", "5") ", "
						SETTING_OR_NONE("goal", "11") ","
						" missing_loss = coalesce($3, missing_loss),"
						" optimism = coalesce($6, optimism),"
						" step_scale = coalesce($7, step_scale),"
						" patience = coalesce($8, patience),"
						" sticky = coalesce($9, sticky),"
						" clamp_losses = coalesce($10, clamp_losses),"
						" head_start = $13, cost_offset = $14, arms_changed_at = $15"
						" WHERE bandit_id = $1",
						NUM_ARGS + 3, types, values, nulls, NULL, NULL);
}

/*
 * bandit_alter(bandit, feedback_window, missing_loss, retention, half_life, optimism,
 *	step_scale, patience, sticky, clamp_losses, goal, without)
 */
Datum
bandit_alter(PG_FUNCTION_ARGS)
{
	const Bandit *bandit = lock_bandit_to_change(fcinfo, "bandit_alter()");
	int32		bandit_id = bandit->bandit_id;
	int32		epoch = bandit->epoch;
	int64		half_life = bandit->half_life;
	bool		needs_frontier = bandit->needs_frontier;
	bool		without[NUM_ARGS];
	Goal		goal;

	argument_without(fcinfo, without);
	check_interval(fcinfo, ARG_FEEDBACK_WINDOW, "feedback_window");
	check_interval(fcinfo, ARG_RETENTION, "retention");
	check_learner_settings(fcinfo, &bandit->params);
	if (!PG_ARGISNULL(ARG_MISSING_LOSS))
		check_missing_loss(PG_GETARG_FLOAT8(ARG_MISSING_LOSS), bandit->loss_low, bandit->loss_high);
	goal = argument_goal(fcinfo, ARG_GOAL);
	if (goal != bandit->goal && (goal != GOAL_NOT_SAID || without[ARG_GOAL]))
		check_goal_may_change(bandit);

	store_settings(fcinfo, bandit);
	CommandCounterIncrement();
	bandit = bandit_by_name(PG_GETARG_TEXT_PP(ARG_BANDIT), BANDIT_CHANGE);
	if (bandit->half_life != half_life)
	{
		trim_convert(bandit_id, epoch, half_life, bandit->half_life);
		CommandCounterIncrement();
		own_disturb(bandit_id, epoch);
		bandit = bandit_by_name(PG_GETARG_TEXT_PP(ARG_BANDIT), BANDIT_CHANGE);
		sums_fold_anew(bandit);
	}
	else if (bandit->needs_frontier && !needs_frontier)
	{
		Sums		sums;

		sums_take_all(&sums, bandit, AccessShareLock);
		sums_pass_settled(&sums);
	}
	publish_changed(bandit_id);
	PG_RETURN_VOID();
}
