/*
 * validate.c
 *	  Rows of the log that come from elsewhere: are their values possible?
 *
 * Whoever has installed the extension can insert rows, as a restore does.  Whatever these
 * are, nothing may crash, overflow or become NaN where the log is added up.  So each
 * value must be one that choose and feedback could have written.  They themselves write
 * rows without this check.
 *
 * Whether rows fit together, and to their bandit, is found out when they are added
 * up.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "learner/learner.h"
#include "tables.h"
#include "totals.h"
#include "validate.h"

/*
 * What values of a column may be.
 *
 * Nobody draws an arm with a probability as small as MIN_PROBABILITY, and squares of
 * losses (up to 1e100) that are divided by it are still far from overflowing.
 */
#define MIN_PROBABILITY		1e-40
#define MAX_PROBABILITY		(1 + 1e-9)	/* sums of them are rounded */
#define MAX_NUMBER			1e100

typedef enum Rule
{
	WHATEVER = 1,				/* any value except null */
	ID,							/* 1, 2, ... */
	COUNT,						/* 0, 1, 2, ... */
	ARM,
	INSTANT,					/* a finite point in time */
	PROBABILITY,
	NUMBER,						/* not too large */
	SUMS,						/* of each arm */
	IDS,						/* in ascending order */
	OR_NULL = 0x100				/* a flag */
} Rule;

static const int decision_rules[Natts_decision] = {
	ID, ID, ID, ID, COUNT, PROBABILITY, NUMBER, INSTANT, WHATEVER, ARM, COUNT | OR_NULL,
	NUMBER | OR_NULL, NUMBER | OR_NULL, WHATEVER | OR_NULL, PROBABILITY | OR_NULL
};
static const int feedback_rules[Natts_feedback] = {
	ID, ID, ID, ID, COUNT, INSTANT, WHATEVER, ARM, NUMBER | OR_NULL, NUMBER | OR_NULL,
	PROBABILITY | OR_NULL, NUMBER | OR_NULL, NUMBER | OR_NULL, WHATEVER | OR_NULL,
	NUMBER | OR_NULL, PROBABILITY | OR_NULL, INSTANT | OR_NULL
};
static const int expiry_rules[Natts_expiry] = {
	ID, ID, ID, ID, COUNT, INSTANT, WHATEVER, NUMBER, NUMBER | OR_NULL, IDS
};
static const int trimmed_rules[Natts_trimmed] = {
	ID, ID, ID, WHATEVER, WHATEVER, WHATEVER, WHATEVER, WHATEVER, COUNT, COUNT, COUNT,
	NUMBER, COUNT, INSTANT, INSTANT | OR_NULL, NUMBER, SUMS, WHATEVER, NUMBER, NUMBER,
	NUMBER, COUNT
};

static int64
integer_value(Datum value, Oid type)
{
	return type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value);
}

/* Written so that NaN fails. */
static bool
is_within(double value, double low, double high)
{
	return value >= low && value <= high;
}

/*
 * Can this be the sums of arms?  Those of decisions from before a reset are empty.
 */
static bool
are_sums(ArrayType *array)
{
	const double *sums;
	int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

	if (n == 0)
		return true;
	if (ARR_NDIM(array) != 2 || array_contains_nulls(array) ||
		ARR_DIMS(array)[0] != NUM_ARM_SUMS || ARR_DIMS(array)[1] > LEARNER_MAX_ARMS)
		return false;
	sums = (const double *) ARR_DATA_PTR(array);
	for (int i = 0; i < n; i++)
	{
		if (!is_within(sums[i], -LEARNER_MAX_SUM, LEARNER_MAX_SUM))
			return false;
	}
	return true;
}

/*
 * Can this be a list of decisions?
 */
static bool
are_ids(ArrayType *array)
{
	const int64 *ids;
	int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

	if (n == 0 || ARR_NDIM(array) != 1 || ARR_LBOUND(array)[0] != 1 ||
		array_contains_nulls(array))
		return false;
	ids = (const int64 *) ARR_DATA_PTR(array);
	for (int i = 0; i < n; i++)
	{
		if (ids[i] <= (i > 0 ? ids[i - 1] : 0) || ids[i] >= LEARNER_MAX_ROUNDS)
			return false;
	}
	return true;
}

/*
 * Does a batch's list of decisions go from the row's first to its last?
 */
static bool
has_its_ends(HeapTuple tuple, TupleDesc tupdesc, ArrayType *decisions)
{
	const int64 *ids = (const int64 *) ARR_DATA_PTR(decisions);
	bool		isnull;
	Datum		first = heap_getattr(tuple, Anum_expiry_first_decision, tupdesc, &isnull);
	Datum		last = heap_getattr(tuple, Anum_expiry_last_decision, tupdesc, &isnull);

	return ids[0] == DatumGetInt64(first) &&
		ids[ARR_DIMS(decisions)[0] - 1] == DatumGetInt64(last);
}

static bool
fits(int rule, Datum value, Oid type)
{
	switch (rule)
	{
		case ID:
			return integer_value(value, type) >= 1 &&
				integer_value(value, type) < LEARNER_MAX_ROUNDS;
		case COUNT:
			return integer_value(value, type) >= 0 &&
				integer_value(value, type) < LEARNER_MAX_ROUNDS;
		case ARM:
			return DatumGetInt32(value) >= 1 && DatumGetInt32(value) <= LEARNER_MAX_ARMS;
		case INSTANT:
			return !TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(value));
		case PROBABILITY:
			return is_within(DatumGetFloat8(value), MIN_PROBABILITY, MAX_PROBABILITY);
		case NUMBER:
			return is_within(DatumGetFloat8(value), -MAX_NUMBER, MAX_NUMBER);
		case SUMS:
			return are_sums(DatumGetArrayTypeP(value));
		case IDS:
			return are_ids(DatumGetArrayTypeP(value));
		default:
			return true;
	}
}

/*
 * Refuse a row with an impossible value.  The table must be one of the log's, and have
 * been opened by table_open_checked() or checked likewise.
 */
void
validate_log_row(Relation rel, HeapTuple tuple)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	Oid			relid = RelationGetRelid(rel);
	const int  *rules = relid == tables()->decision ? decision_rules :
		relid == tables()->feedback ? feedback_rules :
		relid == tables()->expiry ? expiry_rules : trimmed_rules;
	int			natts = relid == tables()->decision ? Natts_decision :
		relid == tables()->feedback ? Natts_feedback :
		relid == tables()->expiry ? Natts_expiry : Natts_trimmed;

	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(tupdesc, i);
		bool		isnull;
		Datum		value = heap_getattr(tuple, i + 1, tupdesc, &isnull);

		if (isnull ? (rules[i] & OR_NULL) != 0 :
			fits(rules[i] & ~OR_NULL, value, column->atttypid) &&
			(rules[i] != IDS || has_its_ends(tuple, tupdesc, DatumGetArrayTypeP(value))))
			continue;
		if (isnull)
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("null value in column \"%s\" of a row for \"dexp3.%s\"",
							NameStr(column->attname), RelationGetRelationName(rel))));
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("value in column \"%s\" of a row for \"dexp3.%s\" is out of range",
						NameStr(column->attname), RelationGetRelationName(rel)),
				 errdetail("No bandit can have written this row.")));
	}
}
