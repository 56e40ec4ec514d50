/*
 * ddl.c
 *	  Making, changing and dropping managed bandits.
 *
 * These change rows of dexp3.bandit with ordinary SQL, so they wait for each
 * other on the same bandit; choose and feedback do not wait for them.
 */
#include "postgres.h"

#include <float.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "arguments.h"
#include "bandit.h"
#include "checkpoint.h"
#include "clock.h"
#include "compat.h"
#include "ddl.h"
#include "own.h"
#include "ownersql.h"
#include "publish.h"
#include "settings.h"
#include "sums.h"
#include "trim.h"

/* How many bandits that were dropped before are looked at again by bandit_drop(). */
#define MAX_DROPPED_BEFORE	4

PG_FUNCTION_INFO_V1(bandit_create);
PG_FUNCTION_INFO_V1(bandit_reset);
PG_FUNCTION_INFO_V1(bandit_drop);
PG_FUNCTION_INFO_V1(bandit_grant);
PG_FUNCTION_INFO_V1(bandit_revoke);
PG_FUNCTION_INFO_V1(bandit_add_arm);
PG_FUNCTION_INFO_V1(bandit_retire_arm);
PG_FUNCTION_INFO_V1(bandit_unretire_arm);

/* The arguments of bandit_create(), in their order. */
enum
{
	ARG_BANDIT,
	ARG_ARMS,
	ARG_PARAMS,					/* algorithm ... step_scale, 5 arguments */
	ARG_SKIPPING = ARG_PARAMS + 1,
	ARG_FEEDBACK_WINDOW = ARG_PARAMS + 5,
	ARG_MISSING_LOSS,
	ARG_RETENTION,
	ARG_STICKY,
	ARG_LOSS_RANGE,
	ARG_CLAMP_LOSSES,
	ARG_OPTIMISM,
	ARG_HALF_LIFE,
	ARG_GOAL,
	NUM_ARGS
};

/*
 * Change or delete the row of a bandit, which was there a moment ago.  In the
 * statement, $1 is its identifier and $2 a name or null.
 */
void
update_bandit(const char *sql, int32 bandit_id, text *name)
{
	Oid			types[] = {INT4OID, TEXTOID};
	Datum		values[] = {Int32GetDatum(bandit_id), PointerGetDatum(name)};

	if (run_as_owner(sql, 2, types, values, name == NULL ? " n" : NULL, NULL, NULL) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not change a bandit that is being changed by another transaction")));
}

static text *
name_argument(FunctionCallInfo fcinfo)
{
	text	   *name;

	check_not_null(fcinfo, 0, "bandit");
	name = PG_GETARG_TEXT_PP(0);
	if (VARSIZE_ANY_EXHDR(name) == 0 || VARSIZE_ANY_EXHDR(name) > BANDIT_MAX_NAME_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a bandit must have between 1 and %d bytes, not %d",
						BANDIT_MAX_NAME_BYTES, (int) VARSIZE_ANY_EXHDR(name))));
	return name;
}

static int
compare_names(const void *a, const void *b)
{
	return bandit_compare_names(DatumGetTextPP(*(const Datum *) a),
								DatumGetTextPP(*(const Datum *) b));
}

/*
 * Check the names of the arms, and return their number.
 */
static int
check_arms(ArrayType *array)
{
	Datum	   *names;
	int			n;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("arms must be a one-dimensional array, not one of %d dimensions",
						ARR_NDIM(array))));
	if (array_contains_nulls(array))
		null_argument("the name of an arm");
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &n);
	qsort(names, n, sizeof(Datum), compare_names);
	for (int i = 1; i < n; i++)
	{
		if (compare_names(&names[i - 1], &names[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("arm \"%s\" is named twice",
							TextDatumGetCString(names[i]))));
	}
	return n;
}

/*
 * Check the settings of bandit_create() that are not the learner's, from
 * feedback_window on, and return missing_loss.
 */
static double
check_settings(FunctionCallInfo fcinfo)
{
	double		low;
	double		high;
	double		missing;

	check_interval(fcinfo, ARG_FEEDBACK_WINDOW, "feedback_window");
	check_interval(fcinfo, ARG_RETENTION, "retention");
	check_not_null(fcinfo, ARG_STICKY, "sticky");
	argument_loss_range(fcinfo, ARG_LOSS_RANGE, &low, &high);
	check_not_null(fcinfo, ARG_CLAMP_LOSSES, "clamp_losses");
	missing = PG_ARGISNULL(ARG_MISSING_LOSS) ? high : PG_GETARG_FLOAT8(ARG_MISSING_LOSS);
	check_missing_loss(missing, low, high);
	return missing;
}

/*
 * bandit_create(bandit, arms, algorithm, skipping, patience, max_delay, step_scale,
 *	feedback_window, missing_loss, retention, sticky, loss_range, clamp_losses, optimism,
 *	half_life, goal)
 */
Datum
bandit_create(PG_FUNCTION_ARGS)
{
	text	   *name;
	LearnerParams params;
	double		missing;
	Oid			types[NUM_ARGS + 1] = {
		TEXTOID, TEXTARRAYOID, TEXTOID, BOOLOID, INT4OID, INT4OID, FLOAT8OID,
		INTERVALOID, FLOAT8OID, INTERVALOID, BOOLOID, FLOAT8ARRAYOID, BOOLOID, FLOAT8OID,
		INTERVALOID, TEXTOID, TEXTOID
	};
	Datum		values[NUM_ARGS + 1];
	char		nulls[NUM_ARGS + 1];
	KeptRow		created = {0};

	check_may_write("bandit_create()");
	name = name_argument(fcinfo);
	check_not_null(fcinfo, ARG_ARMS, "arms");
	argument_params(fcinfo, ARG_PARAMS, ARG_OPTIMISM, check_arms(PG_GETARG_ARRAYTYPE_P(ARG_ARMS)),
					&params);
	check_half_life(fcinfo, ARG_HALF_LIFE, &params);
	missing = check_settings(fcinfo);
	(void) argument_goal(fcinfo, ARG_GOAL);

	for (int i = 0; i < NUM_ARGS; i++)
	{
		values[i] = PG_GETARG_DATUM(i);
		nulls[i] = PG_ARGISNULL(i) ? 'n' : ' ';
	}
	/* what is waited for by the clock need not be given up by counting rounds */
	values[ARG_SKIPPING] = BoolGetDatum(params.skipping && (PG_ARGISNULL(ARG_FEEDBACK_WINDOW) ||
															!PG_ARGISNULL(ARG_SKIPPING)));
	values[ARG_MISSING_LOSS] = Float8GetDatum(missing);
	values[NUM_ARGS] = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	nulls[ARG_SKIPPING] = nulls[ARG_MISSING_LOSS] = nulls[NUM_ARGS] = ' ';
	nulls[ARG_OPTIMISM] = params.algorithm == SELF_TUNED ? ' ' : 'n';

	if (run_as_owner("INSERT INTO dexp3.bandit_rows"
					 " (bandit_id, name, arms, algorithm, skipping, patience, max_delay, step_scale,"
					 " feedback_window, missing_loss, retention, sticky, loss_range, clamp_losses,"
					 " optimism, half_life, goal, owner)"
					 " VALUES (nextval('dexp3.bandit_id_seq'), $1, ($2)[:], $3, $4, $5, $6, $7,"
					 " $8, $9, $10, $11, ($12)[:], $13, $14, $15, $16, $17::dexp3.role)"
					 " ON CONFLICT (name) DO NOTHING RETURNING bandit_id",
					 NUM_ARGS + 1, types, values, nulls, keep_row, &created) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("bandit \"%s\" already exists", text_to_cstring(name))));
	PG_RETURN_INT32(DatumGetInt32(created.values[0]));
}

/*
 * Look up the bandit that a function is to change.
 */
const Bandit *
bandit_to_change(FunctionCallInfo fcinfo, const char *function)
{
	check_may_write(function);
	check_not_null(fcinfo, 0, "bandit");
	return bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_CHANGE);
}

/*
 * bandit_reset(bandit): forget all that was learned
 *
 * The bandit begins another epoch; decisions of earlier ones stay in the log, and the
 * answer to feedback for them is "skipped".
 */
Datum
bandit_reset(PG_FUNCTION_ARGS)
{
	int32		bandit_id = bandit_to_change(fcinfo, "bandit_reset()")->bandit_id;

	update_bandit("UPDATE dexp3.bandit_rows SET epoch = epoch + 1, head_start = '{}',"
				  " cost_offset = 0, arms_changed_at = NULL WHERE bandit_id = $1",
				  bandit_id, NULL);
	checkpoint_remove(bandit_id);
	publish_changed(bandit_id);
	PG_RETURN_VOID();
}

/*
 * bandit_drop(bandit): remove a bandit and its log
 */
Datum
bandit_drop(PG_FUNCTION_ARGS)
{
	const Bandit *bandit = bandit_to_change(fcinfo, "bandit_drop()");
	int32		bandit_id = bandit->bandit_id;
	int32		epoch = bandit->epoch;
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(bandit_id)};

	update_bandit("DELETE FROM dexp3.bandit_rows WHERE bandit_id = $1", bandit_id, NULL);
	trim_whole_log(bandit_id);
	trim_dropped(MAX_DROPPED_BEFORE);
	(void) run_as_owner("INSERT INTO dexp3.dropped VALUES ($1, now(), pg_current_xact_id())",
						1, types, values, NULL, NULL, NULL);
	own_disturb(bandit_id, epoch);
	(void) run_as_owner("DELETE FROM dexp3.warning WHERE bandit_id = $1",
						1, types, values, NULL, NULL, NULL);
	checkpoint_remove(bandit_id);
	PG_RETURN_VOID();
}

/*
 * Grant or revoke.  The role must exist; to be revoked, it may also be a grantee
 * that has been dropped since.
 */
static Datum
change_grantees(FunctionCallInfo fcinfo, const char *function, bool revoke, const char *sql)
{
	const Bandit *bandit = bandit_to_change(fcinfo, function);
	const char *role;
	bool		known;

	check_not_null(fcinfo, 1, "role");
	role = NameStr(*PG_GETARG_NAME(1));
	known = strcmp(role, "public") == 0;
	for (int i = 0; i < bandit->rights.ngrantees && revoke && !known; i++)
		known = strcmp(role_name(&bandit->rights.grantees[i]), role) == 0;
	if (!known)
		(void) get_role_oid(role, false);
	update_bandit(sql, bandit->bandit_id, cstring_to_text(role));
	PG_RETURN_VOID();
}

/*
 * bandit_grant(bandit, role): let a role, or "public", use a bandit
 */
Datum
bandit_grant(PG_FUNCTION_ARGS)
{
	return change_grantees(fcinfo, "bandit_grant()", false,
						   "UPDATE dexp3.bandit_rows"
						   " SET grantees = array_append(array_remove(grantees, $2::dexp3.role), $2::dexp3.role)"
						   " WHERE bandit_id = $1");
}

/*
 * bandit_revoke(bandit, role): the opposite
 */
Datum
bandit_revoke(PG_FUNCTION_ARGS)
{
	return change_grantees(fcinfo, "bandit_revoke()", true,
						   "UPDATE dexp3.bandit_rows"
						   " SET grantees = array_remove(grantees, $2::dexp3.role)"
						   " WHERE bandit_id = $1");
}

/*
 * Look up a bandit whose arms or settings a function is to change.  Nobody else changes
 * it until the end of the transaction.
 */
const Bandit *
lock_bandit_to_change(FunctionCallInfo fcinfo, const char *function)
{
	int32		bandit_id = bandit_to_change(fcinfo, function)->bandit_id;

	update_bandit("SELECT FROM dexp3.bandit_rows WHERE bandit_id = $1 FOR UPDATE", bandit_id, NULL);
	return bandit_to_change(fcinfo, function);
}

/*
 * Return what each arm began with, as it counts at this moment, with room for one more
 * arm.
 */
double *
faded_head_start(const Bandit *bandit, double fade)
{
	int			arms = bandit->params.arms;
	double	   *head_start = palloc0((arms + 1) * sizeof(double));

	for (int i = 0; i < arms && bandit->head_start != NULL; i++)
		head_start[i] = fade * bandit->head_start[i];
	return head_start;
}

/* ----------
 * Arms
 * ----------
 */

typedef enum ArmChange
{
	ADD_ARM,
	RETIRE_ARM,
	UNRETIRE_ARM
} ArmChange;

/*
 * Look up a bandit whose arms a function is to change.
 */
static const Bandit *
bandit_to_change_arms(FunctionCallInfo fcinfo, const char *function)
{
	check_not_null(fcinfo, 1, "arm");
	return lock_bandit_to_change(fcinfo, function);
}

/*
 * Return the cost with which a "self-tuned" learner has the same step size with other
 * arms as before.
 */
static double
cost_with_arms(const Learner *before, int arms, double *z, const bool *retired)
{
	double	   *weights = palloc(Max(arms, before->params.arms) * sizeof(double));
	LearnerParams params = before->params;
	Learner		after;

	params.arms = arms;
	learner_init(&after, &params, z);
	learner_retire(&after, retired);
	return learner_cost_for(&after, learner_step_size(before, NO_DELAY, weights), weights);
}

/*
 * Change the arms of a bandit; `number` is that of the arm, if it exists.
 *
 * A new arm starts with the smallest estimated loss of the others: it is drawn about as
 * often as the best of them until its own losses tell.  With 0 it would be drawn always,
 * with an average loss hardly ever.  When an arm retires, its difference from that is
 * kept; when it comes back, it is as far from the best of the others as it was, whatever
 * they have lost since.
 *
 * "self-tuned" takes the excess of its losses over those of the best mixture for the cost
 * of delays.  So that a change of arms does not look like such a cost, it gets an offset
 * with which the step size stays the same.
 *
 * Where the bandit is shared with other servers, both are about what this one has
 * learned, and are published with it: all servers together begin with the sum.  Until
 * they have changed their arms likewise, their sums do not count here.
 */
static void
change_arms(const Bandit *bandit, text *arm, ArmChange change, int number)
{
	Oid			types[] = {INT4OID, TEXTOID, FLOAT8ARRAYOID, FLOAT8OID, TIMESTAMPTZOID};
	Datum		values[lengthof(types)];
	int			arms = bandit->params.arms;
	double		fade = sums_fading(bandit, bandit->arms_changed_at);
	double	   *head_start = faded_head_start(bandit, fade);
	double		offset = 0;
	double		least = DBL_MAX;
	double	   *z = palloc((arms + 1) * sizeof(double));
	bool	   *retired = palloc0(arms + 1);
	Sums		sums;
	Learner		learner;

	sums_take_all(&sums, bandit, AccessShareLock);
	sums_without_others(&sums);
	sums_learner(&sums, bandit, &learner);
	for (int i = 0; i < arms; i++)
	{
		z[i] = learner.z[i];
		retired[i] = i == number || bandit_is_retired(bandit, i);
		if (!retired[i])
			least = Min(least, z[i]);
	}
	switch (change)
	{
		case ADD_ARM:
			head_start[arms] = z[arms] = least;
			break;
		case RETIRE_ARM:
			head_start[number] -= least;
			break;
		case UNRETIRE_ARM:
			head_start[number] += least;
			z[number] += least;
			retired[number] = false;
			break;
	}
	if (bandit->params.algorithm == SELF_TUNED)
		offset = fade * bandit->cost_offset - learner.cost +
			cost_with_arms(&learner, change == ADD_ARM ? arms + 1 : arms, z, retired);

	values[0] = Int32GetDatum(bandit->bandit_id);
	values[1] = PointerGetDatum(arm);
	values[2] = number_array(head_start, 1, change == ADD_ARM ? arms + 1 : arms);
	values[3] = Float8GetDatum(offset);
	values[4] = TimestampTzGetDatum(time_of_action());
	(void) run_as_owner(change == ADD_ARM ?
						"UPDATE dexp3.bandit_rows SET arms = arms || $2,"
						" head_start = $3, cost_offset = $4, arms_changed_at = $5"
						" WHERE bandit_id = $1" :
						change == RETIRE_ARM ?
						"UPDATE dexp3.bandit_rows SET retired = retired || $2,"
						" head_start = $3, cost_offset = $4, arms_changed_at = $5"
						" WHERE bandit_id = $1" :
						"UPDATE dexp3.bandit_rows SET retired = array_remove(retired, $2),"
						" head_start = $3, cost_offset = $4, arms_changed_at = $5"
						" WHERE bandit_id = $1",
						lengthof(types), types, values, NULL, NULL, NULL);
	publish_changed(DatumGetInt32(values[0]));
}

/*
 * bandit_add_arm(bandit, arm)
 */
Datum
bandit_add_arm(PG_FUNCTION_ARGS)
{
	const Bandit *bandit = bandit_to_change_arms(fcinfo, "bandit_add_arm()");
	text	   *arm = PG_GETARG_TEXT_PP(1);
	int			existing = bandit_find_arm(bandit, arm);

	if (existing >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg(bandit_is_retired(bandit, existing) ?
						"arm \"%s\" of bandit \"%s\" has been retired" :
						"arm \"%s\" of bandit \"%s\" already exists",
						text_to_cstring(arm), text_to_cstring(bandit->name)),
				 bandit_is_retired(bandit, existing) ?
				 errhint("Let it be drawn again with bandit_unretire_arm().") :
				 errhint("The name of an arm always means the same arm.")));
	if (bandit->params.arms >= LEARNER_MAX_ARMS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("bandit \"%s\" has %d arms already, the retired ones included",
						text_to_cstring(bandit->name), LEARNER_MAX_ARMS)));
	change_arms(bandit, arm, ADD_ARM, -1);
	PG_RETURN_VOID();
}

/*
 * Read the arm of a bandit that a function is to change.
 */
static int
argument_arm(FunctionCallInfo fcinfo, int n, const Bandit *bandit)
{
	text	   *arm = PG_GETARG_TEXT_PP(n);
	int			number = bandit_find_arm(bandit, arm);

	if (number < 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("bandit \"%s\" has no arm \"%s\"",
						text_to_cstring(bandit->name), text_to_cstring(arm))));
	return number;
}

/*
 * bandit_retire_arm(bandit, arm): do not draw it any more
 */
Datum
bandit_retire_arm(PG_FUNCTION_ARGS)
{
	const Bandit *bandit = bandit_to_change_arms(fcinfo, "bandit_retire_arm()");
	text	   *arm = PG_GETARG_TEXT_PP(1);
	int			number = argument_arm(fcinfo, 1, bandit);

	if (bandit_is_retired(bandit, number))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("arm \"%s\" of bandit \"%s\" has been retired already",
						text_to_cstring(arm), text_to_cstring(bandit->name))));
	if (bandit->playable <= LEARNER_MIN_ARMS)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot retire arm \"%s\" of bandit \"%s\", which has only %d arms left",
						text_to_cstring(arm), text_to_cstring(bandit->name), bandit->playable),
				 errhint("Add another arm first, or drop the bandit.")));
	change_arms(bandit, arm, RETIRE_ARM, number);
	PG_RETURN_VOID();
}

/*
 * bandit_unretire_arm(bandit, arm): draw it again
 */
Datum
bandit_unretire_arm(PG_FUNCTION_ARGS)
{
	const Bandit *bandit = bandit_to_change_arms(fcinfo, "bandit_unretire_arm()");
	text	   *arm = PG_GETARG_TEXT_PP(1);
	int			number = argument_arm(fcinfo, 1, bandit);

	if (!bandit_is_retired(bandit, number))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("arm \"%s\" of bandit \"%s\" has not been retired",
						text_to_cstring(arm), text_to_cstring(bandit->name))));
	change_arms(bandit, arm, UNRETIRE_ARM, number);
	PG_RETURN_VOID();
}
