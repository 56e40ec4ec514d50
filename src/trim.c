/*
 * trim.c
 *	  Removing old rows from the log of a managed bandit.
 *
 * Decisions that were settled longer ago than the bandit's retention, and how,
 * are replaced by one row of dexp3.trimmed: the sums that the state and the
 * reports need, and which decisions they were, so that feedback for them can still
 * be answered.  What is in dexp3.trimmed and what is left of the log make the
 * state, always; so the sums in shared memory are not affected.
 *
 * Rows are removed only if they are of transactions that have finished, and no
 * row that somebody else is removing is waited for.  fold.c tells what that means
 * for checkpoints.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "checkpoint.h"
#include "clock.h"
#include "insert.h"
#include "log.h"
#include "moment.h"
#include "own.h"
#include "ownersql.h"
#include "publish.h"
#include "tables.h"
#include "trim.h"

PG_FUNCTION_INFO_V1(dexp3_faded);

/* How many decisions are removed along with a checkpoint, and at once. */
#define MAX_WITH_CHECKPOINT	2048
#define MAX_AT_ONCE			10000

/* What one of the functions that remove rows returns. */
typedef struct Removed
{
	int64		decisions;
	uint64		newest_settler; /* that settled one of them; 0 if not known */
} Removed;

static void
read_removed(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	Removed    *removed = context;
	bool		isnull;
	Datum		settler = (Datum) 0;

	removed->decisions = DatumGetInt64(heap_getattr(tuple, 1, tupdesc, &isnull));
	isnull = true;
	if (tupdesc->natts > 1)
		settler = heap_getattr(tuple, 2, tupdesc, &isnull);
	if (!isnull)
		removed->newest_settler =
			U64FromFullTransactionId(DatumGetFullTransactionId(settler));
}

/*
 * Run one of these functions.  It must not be taken for somebody else's change, nor
 * may a trigger of the owner's use bandits meanwhile.
 */
static Removed
remove_rows(const char *sql, int nargs, Oid *types, Datum *values)
{
	Removed		removed = {0};

	own_expect_changes(true);
	set_inserting(true);
	PG_TRY();
	{
		(void) run_as_owner(sql, nargs, types, values, NULL, read_removed, &removed);
	}
	PG_FINALLY();
	{
		set_inserting(false);
		own_expect_changes(false);
	}
	PG_END_TRY();
	return removed;
}

static Datum
retention_begins(const Bandit *bandit)
{
	return DirectFunctionCall2(timestamptz_mi_interval,
							   TimestampTzGetDatum(time_of_action()),
							   IntervalPGetDatum(bandit->retention));
}

/*
 * Remove up to `limit` old decisions of transactions that had finished at a
 * moment, and return how many.  With "deda", those that were settled in the newest
 * round stay: feedback that is still to come in it must know of them.
 *
 * *from is where the last removal ended, or 0 if that is not known: what is before
 * it is gone, and under an old snapshot its remains would be walked over again
 * and again.  1 begins at the beginning, for rows that were not old enough when
 * those after them were.
 */
static int64
trim_log(const Bandit *bandit, int64 newest_round, const Moment *moment, int64 limit,
		 uint64 *from)
{
	Oid			types[9] = {
		INT4OID, INT4OID, TIMESTAMPTZOID, INT8OID, XID8OID, XID8OID, XID8ARRAYOID,
		INT8OID, INT8OID
	};
	Datum		values[9];
	Datum	   *running = palloc(sizeof(Datum) * Max(moment->nrunning, 1));
	Removed		removed;

	for (int i = 0; i < moment->nrunning; i++)
		running[i] = xact_datum(moment->running[i]);
	values[0] = Int32GetDatum(bandit->bandit_id);
	values[1] = Int32GetDatum(bandit->epoch);
	values[2] = retention_begins(bandit);
	values[3] = Int64GetDatum(bandit->params.algorithm == DEDA ? newest_round : PG_INT64_MAX);
	values[4] = xact_datum(*from);
	values[5] = xact_datum(moment->next);
	values[6] = PointerGetDatum(construct_array(running, moment->nrunning, XID8OID,
												sizeof(int64), FLOAT8PASSBYVAL,
												TYPALIGN_DOUBLE));
	values[7] = Int64GetDatum(limit);
	/* any moment will do; this one keeps the numbers small */
	values[8] = Int64GetDatum(bandit->half_life == 0 ? 0 :
							  time_of_action() / bandit->half_life);
	removed = remove_rows("SELECT trimmed, newest_settler"
						  " FROM dexp3.trim_settled($1, $2, $3, $4, $5, $6, $7, $8, $9)",
						  9, types, values);
	*from = Max(*from, removed.newest_settler);
	return removed.decisions;
}

/*
 * Do what is due: publish the sums; write a checkpoint, and remove some old rows that
 * it covers.
 */
void
checkpoint_and_trim(const Sums *sums, const Bandit *bandit)
{
	Size		sums_size = NUM_ARM_SUMS * (Size) bandit->params.arms * sizeof(double);
	int64		limit = Min(checkpoint_due_after(sums_size), MAX_WITH_CHECKPOINT);
	Moment		covered;
	uint64		from = 0;

	publish_if_due(sums, bandit);
	if (sums_write_checkpoint(sums, bandit, &covered) &&
		bandit->retention != NULL && XactIsoLevel == XACT_READ_COMMITTED)
		(void) trim_log(bandit, sums->totals.counts.decisions, &covered,
						limit, &from);
}

/*
 * Remove some old decisions, and return how many; see trim_log() for *from.
 */
int64
trim_some(const Bandit *bandit, uint64 *from)
{
	Sums		sums;
	Moment		moment;

	sums_take(&sums, bandit, RowExclusiveLock, 1, 0, 1);
	if (own_is_disturbed(bandit->bandit_id, bandit->epoch))
		return 0;				/* rows of ours are not where they seem to be */
	moment_init(&moment);
	moment_of_snapshot(&moment, GetLatestSnapshot());
	return trim_log(bandit, sums.totals.counts.decisions, &moment, MAX_AT_ONCE, from);
}

/*
 * Remove old decisions from before the last reset, and return how many.
 */
int64
trim_earlier_epochs(const Bandit *bandit)
{
	Oid			types[3] = {INT4OID, INT4OID, TIMESTAMPTZOID};
	Datum		values[3];

	values[0] = Int32GetDatum(bandit->bandit_id);
	values[1] = Int32GetDatum(bandit->epoch);
	values[2] = retention_begins(bandit);
	return remove_rows("SELECT dexp3.trim_earlier_epochs($1, $2, $3)", 3, types, values).decisions;
}

/* ----------
 * Bandits that were dropped
 * ----------
 */

/*
 * Remove the whole log of a bandit.
 */
void
trim_whole_log(int32 bandit_id)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(bandit_id)};

	(void) remove_rows("WITH f AS (DELETE FROM dexp3.feedback_rows WHERE bandit_id = $1),"
					   " e AS (DELETE FROM dexp3.expiry_rows WHERE bandit_id = $1),"
					   " t AS (DELETE FROM dexp3.trimmed_rows WHERE bandit_id = $1),"
					   " d AS (DELETE FROM dexp3.decision_rows WHERE bandit_id = $1 RETURNING decision_id)"
					   " SELECT count(*) FROM d",
					   1, types, values);
}

static void
read_dropped(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	List	  **ids = context;
	bool		isnull;

	*ids = lappend_int(*ids, DatumGetInt32(heap_getattr(tuple, 1, tupdesc, &isnull)));
}

/*
 * Remove rows of bandits that were dropped while somebody was using them, and whose
 * transactions were committed since.  A bandit is watched for a day, and until all
 * transactions of its time have finished.  One that was put back by hand is left
 * alone, and so is one that somebody else is looking at.  No more than so many are
 * looked at, the last ones first.
 */
void
trim_dropped(int64 limit)
{
	Oid			limit_types[] = {INT8OID};
	Datum		limit_values[] = {Int64GetDatum(limit)};
	List	   *ids = NIL;
	ListCell   *lc;

	(void) run_as_owner("SELECT x.bandit_id FROM dexp3.dropped x WHERE NOT EXISTS"
						" (SELECT FROM dexp3.bandit_rows b WHERE b.bandit_id = x.bandit_id)"
						" ORDER BY x.dropped_at DESC LIMIT $1 FOR UPDATE SKIP LOCKED",
						1, limit_types, limit_values, NULL, read_dropped, &ids);
	foreach(lc, ids)
	{
		Oid			types[] = {INT4OID};
		Datum		values[] = {Int32GetDatum(lfirst_int(lc))};

		trim_whole_log(lfirst_int(lc));
		(void) run_as_owner("DELETE FROM dexp3.dropped WHERE bandit_id = $1"
							" AND dropped_at < now() - interval '1 day'"
							" AND xact < pg_snapshot_xmin(pg_current_snapshot())",
							1, types, values, NULL, NULL, NULL);
	}
}

/*
 * dexp3.faded(value, factor, decided_at, half_life, half_lives): value * factor, as
 * much as it counts in sums that refer to this moment, see totals.h
 *
 * Other than SQL's own product, it may become 0.
 */
Datum
dexp3_faded(PG_FUNCTION_ARGS)
{
	double		value;
	int64		half_life;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2) || PG_ARGISNULL(4))
		PG_RETURN_NULL();
	value = PG_GETARG_FLOAT8(0) * PG_GETARG_FLOAT8(1);
	if (PG_ARGISNULL(3))
		PG_RETURN_FLOAT8(value);
	half_life = bandit_microseconds(PG_GETARG_INTERVAL_P(3));
	if (half_life <= 0)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(value * exp2(half_lives_between(PG_GETARG_TIMESTAMPTZ(2), half_life,
													 PG_GETARG_INT64(4))));
}

/* ----------
 * What became of a decision that has been removed
 * ----------
 */

typedef struct Found
{
	int32		bandit_id;
	int32		epoch;
	SettledBy	settled_by;
} Found;

static void
read_found(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	Found	   *found = context;
	bool		isnull;

	found->bandit_id = DatumGetInt32(heap_getattr(tuple, 1, tupdesc, &isnull));
	found->epoch = DatumGetInt32(heap_getattr(tuple, 2, tupdesc, &isnull));
	found->settled_by = DatumGetBool(heap_getattr(tuple, 3, tupdesc, &isnull)) ?
		SETTLED_BY_SKIPPING :
		DatumGetBool(heap_getattr(tuple, 4, tupdesc, &isnull)) ?
		SETTLED_BY_EXPIRY : SETTLED_BY_FEEDBACK;
}

/*
 * Look a decision up that is not in dexp3.decision.
 */
bool
trim_find(int64 decision_id, int32 *bandit_id, int32 *epoch, SettledBy *settled_by)
{
	Oid			types[1] = {INT8OID};
	Datum		values[1];
	Found		found = {0};

	values[0] = Int64GetDatum(decision_id);
	(void) run_as_owner("SELECT bandit_id, epoch, skipped @> $1, expired @> $1"
						" FROM dexp3.trimmed_rows WHERE decisions @> $1",
						1, types, values, NULL, read_found, &found);
	*bandit_id = found.bandit_id;
	*epoch = found.epoch;
	*settled_by = found.settled_by;
	return found.bandit_id != 0;
}
