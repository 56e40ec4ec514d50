/*
 * manage.c
 *	  Making, changing and dropping managed bandits.
 *
 * These change rows of dexp3.bandit with ordinary SQL, so they wait for each
 * other on the same bandit; choose and feedback do not wait for them.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "access/htup_details.h"
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
#include "compat.h"
#include "current.h"
#include "ownersql.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(bandit_create);
PG_FUNCTION_INFO_V1(bandit_reset);
PG_FUNCTION_INFO_V1(bandit_drop);
PG_FUNCTION_INFO_V1(bandit_grant);
PG_FUNCTION_INFO_V1(bandit_revoke);
PG_FUNCTION_INFO_V1(bandit_add_arm);
PG_FUNCTION_INFO_V1(bandit_retire_arm);

/* The sums that reports need are of squares of losses. */
#define MAX_LOSS			1e100

/* An index entry must hold it. */
#define MAX_NAME_BYTES		1000

/*
 * Change or delete the row of a bandit, which was there a moment ago.
 */
static void
update_bandit(const char *sql, int nargs, Oid *types, Datum *values)
{
	if (run_as_owner(sql, nargs, types, values, NULL, NULL, NULL) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not change a bandit that is being changed by another transaction")));
}

/*
 * The same for a statement that needs its identifier only, as $1.
 */
static void
update_by_id(const char *sql, Datum bandit_id)
{
	Oid			types[1] = {INT4OID};

	update_bandit(sql, 1, types, &bandit_id);
}

static text *
name_argument(FunctionCallInfo fcinfo)
{
	text	   *name;

	if (PG_ARGISNULL(0))
		null_argument("name");
	name = PG_GETARG_TEXT_PP(0);
	if (VARSIZE_ANY_EXHDR(name) == 0 || VARSIZE_ANY_EXHDR(name) > MAX_NAME_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a bandit must have between 1 and %d bytes, not %d",
						MAX_NAME_BYTES, (int) VARSIZE_ANY_EXHDR(name))));
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
 * Read a span of time that may be null and must not be negative, nor reach back
 * beyond the beginning of time.
 */
static void
check_interval(FunctionCallInfo fcinfo, int n, const char *name)
{
	Interval	zero = {0};

	if (!PG_ARGISNULL(n))
		(void) DirectFunctionCall2(timestamptz_mi_interval,
								   TimestampTzGetDatum(GetCurrentStatementStartTimestamp()),
								   PG_GETARG_DATUM(n));
	if (!PG_ARGISNULL(n) &&
		DatumGetBool(DirectFunctionCall2(interval_lt, PG_GETARG_DATUM(n),
										 IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be negative: %s", name,
						DatumGetCString(DirectFunctionCall1(interval_out,
															PG_GETARG_DATUM(n))))));
}

/*
 * Read the range of losses.
 */
static void
argument_loss_range(FunctionCallInfo fcinfo, int n, double *low, double *high)
{
	ArrayType  *array;
	Datum	   *elements;
	int			nelements;

	if (PG_ARGISNULL(n))
		null_argument("loss_range");
	array = PG_GETARG_ARRAYTYPE_P(n);
	if (ARR_NDIM(array) != 1 || ARR_DIMS(array)[0] != 2)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("loss_range must be an array of two numbers")));
	if (array_contains_nulls(array))
		null_argument("an end of loss_range");
	deconstruct_array(array, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &elements, NULL, &nelements);
	*low = DatumGetFloat8(elements[0]);
	*high = DatumGetFloat8(elements[1]);
	/* written so that NaN fails */
	if (!(*low < *high) || isinf(*high - *low))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("loss_range must go from a lower to a higher finite number, not from %s to %s",
						number_text(*low), number_text(*high))));
	/* squares of losses, divided by probabilities, must not overflow */
	if (fabs(*low) > MAX_LOSS || fabs(*high) > MAX_LOSS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("loss_range must be between -%g and %g", MAX_LOSS, MAX_LOSS)));
}

/*
 * Read what version 1.1 has added to bandit_create.  Feedback that is waited for
 * by the clock need not be given up by counting rounds, so that a window turns
 * skipping off unless it is asked for.
 */
static void
argument_newer_settings(FunctionCallInfo fcinfo, LearnerParams *params,
						Datum *values, char *nulls)
{
	double		low;
	double		high;
	double		missing;

	if (!PG_ARGISNULL(7) && PG_ARGISNULL(3))
		params->skipping = false;
	check_interval(fcinfo, 7, "feedback_window");
	check_interval(fcinfo, 9, "history");
	if (PG_ARGISNULL(10))
		null_argument("sticky");
	argument_loss_range(fcinfo, 11, &low, &high);
	if (PG_ARGISNULL(12))
		null_argument("clamp");
	missing = PG_ARGISNULL(8) ? high : PG_GETARG_FLOAT8(8);
	if (!(missing >= low && missing <= high))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("missing_loss must be between %s and %s: %s", number_text(low),
						number_text(high), number_text(missing))));

	values[0] = PG_GETARG_DATUM(7);
	nulls[0] = PG_ARGISNULL(7) ? 'n' : ' ';
	values[1] = Float8GetDatum(missing);
	values[2] = PG_GETARG_DATUM(9);
	nulls[2] = PG_ARGISNULL(9) ? 'n' : ' ';
	values[3] = PG_GETARG_DATUM(10);
	values[4] = PG_GETARG_DATUM(11);
	values[5] = PG_GETARG_DATUM(12);
}

static void
read_bandit_id(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	bool		isnull;

	*(int32 *) context = DatumGetInt32(heap_getattr(tuple, 1, tupdesc, &isnull));
}

/*
 * bandit_create(name, arms, algorithm, skipping, patience, max_delay, step_scale,
 *	feedback_window, missing_loss, history, sticky, loss_range, clamp)
 */
Datum
bandit_create(PG_FUNCTION_ARGS)
{
	text	   *name;
	LearnerParams params;
	Oid			types[14] = {TEXTOID, TEXTARRAYOID, TEXTOID, BOOLOID, INT4OID,
		INT4OID, FLOAT8OID, NAMEOID,
		INTERVALOID, FLOAT8OID, INTERVALOID, BOOLOID, FLOAT8ARRAYOID, BOOLOID};
	Datum		values[14];
	char		nulls[15] = "              ";
	bool		version_1_0 = PG_NARGS() == 7;
	int32		bandit_id;

	PreventCommandIfReadOnly("bandit_create()");
	PreventCommandIfParallelMode("bandit_create()");
	name = name_argument(fcinfo);
	if (PG_ARGISNULL(1))
		null_argument("arms");
	argument_params(fcinfo, 2, check_arms(PG_GETARG_ARRAYTYPE_P(1)), &params);
	if (!version_1_0)
		argument_newer_settings(fcinfo, &params, values + 8, nulls + 8);

	values[0] = PointerGetDatum(name);
	values[1] = PG_GETARG_DATUM(1);
	values[2] = PG_GETARG_DATUM(2);
	values[3] = BoolGetDatum(params.skipping);
	values[4] = PG_GETARG_DATUM(4);
	values[5] = PG_GETARG_DATUM(5);
	nulls[5] = PG_ARGISNULL(5) ? 'n' : ' ';
	values[6] = PG_GETARG_DATUM(6);
	values[7] = DirectFunctionCall1(namein,
									CStringGetDatum(GetUserNameFromId(GetUserId(), false)));

	/*
	 * The identifier is asked for here, not left to the column's default: who
	 * could make a function nextval(text) in the extension's schema before
	 * version 1.0 of the extension was made, has that one called there.
	 */
	if (run_as_owner(version_1_0 ?
					 "INSERT INTO dexp3.bandit"
					 " (bandit_id, name, arms, algorithm, skipping, patience, max_delay, step_scale, owner)"
					 " VALUES (nextval('dexp3.bandit_id_seq'), $1, ($2)[:], $3, $4, $5, $6, $7, $8)"
					 " ON CONFLICT (name) DO NOTHING RETURNING bandit_id" :
					 "INSERT INTO dexp3.bandit"
					 " (bandit_id, name, arms, algorithm, skipping, patience, max_delay, step_scale, owner,"
					 " feedback_window, missing_loss, history, sticky, loss_range, clamp)"
					 " VALUES (nextval('dexp3.bandit_id_seq'), $1, ($2)[:], $3, $4, $5, $6, $7, $8,"
					 " $9, $10, $11, $12, ($13)[:], $14)"
					 " ON CONFLICT (name) DO NOTHING RETURNING bandit_id",
					 version_1_0 ? 8 : 14, types, values, nulls,
					 read_bandit_id, &bandit_id) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("bandit \"%s\" already exists", text_to_cstring(name))));
	PG_RETURN_INT32(bandit_id);
}

/*
 * Look a bandit up in order to change it: it must exist.
 */
static Datum
existing_bandit_id(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		null_argument("name");
	return Int32GetDatum(bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_CHANGE)->bandit_id);
}

/*
 * bandit_reset(name): forget all that was learned
 *
 * The bandit begins another epoch; decisions of earlier ones stay in the log,
 * and feedback for them is told "skipped".
 */
Datum
bandit_reset(PG_FUNCTION_ARGS)
{
	Datum		bandit_id;

	PreventCommandIfReadOnly("bandit_reset()");
	PreventCommandIfParallelMode("bandit_reset()");
	bandit_id = existing_bandit_id(fcinfo);
	update_by_id(OidIsValid(tables()->trimmed) ?
				 "UPDATE dexp3.bandit SET epoch = epoch + 1, head_start = '{}'"
				 " WHERE bandit_id = $1" :
				 "UPDATE dexp3.bandit SET epoch = epoch + 1 WHERE bandit_id = $1",
				 bandit_id);
	checkpoint_remove(DatumGetInt32(bandit_id));
	PG_RETURN_VOID();
}

/*
 * bandit_drop(name): remove a bandit and its log
 */
Datum
bandit_drop(PG_FUNCTION_ARGS)
{
	Oid			types[1] = {INT4OID};
	Datum		bandit_id;

	PreventCommandIfReadOnly("bandit_drop()");
	PreventCommandIfParallelMode("bandit_drop()");
	bandit_id = existing_bandit_id(fcinfo);
	update_by_id("DELETE FROM dexp3.bandit WHERE bandit_id = $1", bandit_id);
	(void) run_as_owner("DELETE FROM dexp3.feedback WHERE bandit_id = $1",
						1, types, &bandit_id, NULL, NULL, NULL);
	(void) run_as_owner("DELETE FROM dexp3.decision WHERE bandit_id = $1",
						1, types, &bandit_id, NULL, NULL, NULL);
	if (OidIsValid(tables()->trimmed))
		(void) run_as_owner("DELETE FROM dexp3.trimmed WHERE bandit_id = $1",
							1, types, &bandit_id, NULL, NULL, NULL);
	checkpoint_remove(DatumGetInt32(bandit_id));
	PG_RETURN_VOID();
}

static bool
is_grantee(const Bandit *bandit, const char *role)
{
	for (int i = 0; i < bandit->ngrantees; i++)
	{
		if (strcmp(NameStr(*DatumGetName(bandit->grantees[i])), role) == 0)
			return true;
	}
	return false;
}

/*
 * Grant or revoke.  The role must exist, unless it is a grantee that has been
 * dropped since.
 */
static void
change_grantees(FunctionCallInfo fcinfo, const char *sql)
{
	Oid			types[2] = {INT4OID, NAMEOID};
	Datum		values[2];
	const Bandit *bandit;
	const char *role;

	if (PG_ARGISNULL(0))
		null_argument("bandit");
	bandit = bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_CHANGE);
	if (PG_ARGISNULL(1))
		null_argument("role");
	role = NameStr(*PG_GETARG_NAME(1));
	if (strcmp(role, "public") != 0 && !is_grantee(bandit, role))
		(void) get_role_oid(role, false);
	values[0] = Int32GetDatum(bandit->bandit_id);
	values[1] = PG_GETARG_DATUM(1);
	update_bandit(sql, 2, types, values);
}

/*
 * bandit_grant(bandit, role): let a role, or "public", use a bandit
 */
Datum
bandit_grant(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("bandit_grant()");
	PreventCommandIfParallelMode("bandit_grant()");
	change_grantees(fcinfo, "UPDATE dexp3.bandit"
					" SET grantees = array_append(array_remove(grantees, $2), $2)"
					" WHERE bandit_id = $1");
	PG_RETURN_VOID();
}

/*
 * bandit_revoke(bandit, role): the opposite
 */
Datum
bandit_revoke(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("bandit_revoke()");
	PreventCommandIfParallelMode("bandit_revoke()");
	change_grantees(fcinfo, "UPDATE dexp3.bandit"
					" SET grantees = array_remove(grantees, $2)"
					" WHERE bandit_id = $1");
	PG_RETURN_VOID();
}

/*
 * Read the bandit and the arm of bandit_add_arm() and bandit_retire_arm().
 */
static const Bandit *
arm_arguments(FunctionCallInfo fcinfo, text **arm)
{
	if (PG_ARGISNULL(0))
		null_argument("bandit");
	if (PG_ARGISNULL(1))
		null_argument("arm");
	*arm = PG_GETARG_TEXT_PP(1);
	return bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_CHANGE);
}

/*
 * Return the smallest sum of loss estimates among the arms that are left.
 */
static double
smallest_loss(const Bandit *bandit)
{
	const Learner *learner = &current_fold(current_state(bandit))->learner;
	double		least = DBL_MAX;

	for (int i = 0; i < learner->params.arms; i++)
	{
		if (!bandit_is_retired(bandit, i))
			least = Min(least, learner->z[i]);
	}
	return least;
}

/*
 * bandit_add_arm(bandit, arm)
 *
 * A new arm starts with the smallest estimated loss of the others: it is drawn
 * about as often as the best of them until its own losses tell.  With 0 it would
 * be drawn always, with an average loss hardly ever.
 */
Datum
bandit_add_arm(PG_FUNCTION_ARGS)
{
	Oid			types[3] = {INT4OID, TEXTOID, FLOAT8OID};
	Datum		values[3];
	const Bandit *bandit;
	text	   *arm;
	int			existing;

	PreventCommandIfReadOnly("bandit_add_arm()");
	PreventCommandIfParallelMode("bandit_add_arm()");
	bandit = arm_arguments(fcinfo, &arm);
	existing = bandit_find_arm(bandit, arm);
	if (existing >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg(bandit_is_retired(bandit, existing) ?
						"arm \"%s\" of bandit \"%s\" has been retired" :
						"arm \"%s\" of bandit \"%s\" already exists",
						text_to_cstring(arm), text_to_cstring(bandit->name)),
				 errhint("The name of an arm always means the same arm.")));
	if (bandit->setup.params.arms >= LEARNER_MAX_ARMS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("bandit \"%s\" has %d arms already, the retired ones included",
						text_to_cstring(bandit->name), LEARNER_MAX_ARMS)));

	values[0] = Int32GetDatum(bandit->bandit_id);
	values[1] = PointerGetDatum(arm);
	values[2] = Float8GetDatum(smallest_loss(bandit));
	update_bandit("UPDATE dexp3.bandit SET arms = arms || $2,"
				  " head_start = head_start || array_fill(0::float8,"
				  "  ARRAY[cardinality(arms) - cardinality(head_start)]) || $3"
				  " WHERE bandit_id = $1 AND NOT $2 = ANY (arms) AND cardinality(arms) < "
				  CppAsString2(LEARNER_MAX_ARMS),
				  3, types, values);
	PG_RETURN_VOID();
}

/*
 * bandit_retire_arm(bandit, arm): do not draw it any more
 */
Datum
bandit_retire_arm(PG_FUNCTION_ARGS)
{
	Oid			types[2] = {INT4OID, TEXTOID};
	Datum		values[2];
	const Bandit *bandit;
	text	   *arm;
	int			number;
	int			left = 0;

	PreventCommandIfReadOnly("bandit_retire_arm()");
	PreventCommandIfParallelMode("bandit_retire_arm()");
	bandit = arm_arguments(fcinfo, &arm);
	number = bandit_find_arm(bandit, arm);
	if (number < 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("bandit \"%s\" has no arm \"%s\"",
						text_to_cstring(bandit->name), text_to_cstring(arm))));
	if (bandit_is_retired(bandit, number))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("arm \"%s\" of bandit \"%s\" has been retired already",
						text_to_cstring(arm), text_to_cstring(bandit->name))));
	for (int i = 0; i < bandit->setup.params.arms; i++)
		left += !bandit_is_retired(bandit, i);
	if (left <= LEARNER_MIN_ARMS)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot retire arm \"%s\" of bandit \"%s\", which has only %d arms left",
						text_to_cstring(arm), text_to_cstring(bandit->name), left),
				 errhint("Add another arm first, or drop the bandit.")));

	values[0] = Int32GetDatum(bandit->bandit_id);
	values[1] = PointerGetDatum(arm);
	update_bandit("UPDATE dexp3.bandit SET retired = retired || $2"
				  " WHERE bandit_id = $1 AND NOT $2 = ANY (retired)"
				  " AND cardinality(arms) - cardinality(retired) > 2",
				  2, types, values);
	PG_RETURN_VOID();
}
