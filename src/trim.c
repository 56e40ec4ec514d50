/*
 * trim.c
 *	  Removing old rows from the log of a managed bandit.
 *
 * Decisions that were settled longer ago than the bandit's retention, and how they were
 * settled, are replaced by one row of dexp3.trimmed: the sums that the state and the
 * reports need, and which decisions they were, so that feedback for them can still be
 * answered.  What is in dexp3.trimmed and what is left of the log make the state, always;
 * so the sums in shared memory are not affected.
 *
 * Rows are removed only if they are of transactions that have finished, and no
 * row that somebody else is removing is waited for.  fold.c tells what that means
 * for checkpoints.
 */
#include "postgres.h"

#include <math.h>

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
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

/*
 * Run a statement that changes the log.  It must not be taken for somebody else's change,
 * nor may a trigger of the owner's use bandits meanwhile.
 */
static KeptRow
change_log(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls)
{
	KeptRow		result = {0};

	own_expect_changes(true);
	set_inserting(true);
	PG_TRY();
	{
		(void) run_as_owner(sql, nargs, types, values, nulls, keep_row, &result);
	}
	PG_FINALLY();
	{
		set_inserting(false);
		own_expect_changes(false);
	}
	PG_END_TRY();
	return result;
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
	KeptRow		removed;

	for (int i = 0; i < moment->nrunning; i++)
		running[i] = xact_datum(moment->running[i]);
	values[0] = Int32GetDatum(bandit->bandit_id);
	values[1] = Int32GetDatum(bandit->epoch);
	values[2] = TimestampTzGetDatum(time_before_action(bandit->retention));
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
	removed = change_log("SELECT trimmed, newest_settler"
						 " FROM dexp3.trim_settled($1, $2, $3, $4, $5, $6, $7, $8, $9)",
						 9, types, values, NULL);
	if (!removed.nulls[1])
		*from = Max(*from,
					U64FromFullTransactionId(DatumGetFullTransactionId(removed.values[1])));
	return DatumGetInt64(removed.values[0]);
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
	values[2] = TimestampTzGetDatum(time_before_action(bandit->retention));
	return DatumGetInt64(change_log("SELECT dexp3.trim_earlier_epochs($1, $2, $3)",
									3, types, values, NULL).values[0]);
}

/*
 * Let the sums of trimmed decisions count what they do at this moment, and refer to it in
 * units of another half-life, which may be none.
 */
void
trim_convert(int32 bandit_id, int32 epoch, int64 from, int64 to)
{
	Oid			types[] = {INT4OID, INT4OID, TIMESTAMPTZOID, INTERVALOID, INTERVALOID, INT8OID};
	TimestampTz now = time_of_action();
	Interval	old = {.time = from};
	Interval	new = {.time = to};
	Datum		values[lengthof(types)];
	char		nulls[] = "      ";

	values[0] = Int32GetDatum(bandit_id);
	values[1] = Int32GetDatum(epoch);
	values[2] = TimestampTzGetDatum(now);
	values[3] = IntervalPGetDatum(&old);
	values[4] = IntervalPGetDatum(&new);
	values[5] = Int64GetDatum(to == 0 ? 0 : now / to);
	nulls[3] = from == 0 ? 'n' : ' ';
	nulls[4] = to == 0 ? 'n' : ' ';
	/* SQL would raise an error for a product that is too small */
	(void) change_log("UPDATE dexp3.trimmed_rows t SET half_lives = $6,"
					  " settled = dexp3.faded(t.settled, f.factor, $3, NULL, 0),"
					  " total_loss = dexp3.faded(t.total_loss, f.factor, $3, NULL, 0),"
					  " cost = dexp3.faded(t.cost, f.factor, $3, NULL, 0),"
					  " sums = CASE WHEN t.sums = '{}' THEN t.sums ELSE"
					  "  ARRAY[ARRAY(SELECT dexp3.faded(z, f.factor, $3, NULL, 0)"
					  "   FROM unnest(t.sums[1:1]) WITH ORDINALITY AS u (z, i) ORDER BY i)]"
					  "  || t.sums[2:] END"
					  " FROM (SELECT first_decision, dexp3.faded(1 / dexp3.faded(1, 1, $3, $4, half_lives),"
					  "  1, $3, $5, $6) AS factor"
					  "  FROM dexp3.trimmed_rows WHERE bandit_id = $1 AND epoch = $2) f"
					  " WHERE t.first_decision = f.first_decision",
					  lengthof(types), types, values, nulls);
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

	(void) change_log("WITH f AS (DELETE FROM dexp3.feedback_rows WHERE bandit_id = $1),"
					  " e AS (DELETE FROM dexp3.expiry_rows WHERE bandit_id = $1),"
					  " t AS (DELETE FROM dexp3.trimmed_rows WHERE bandit_id = $1),"
					  " d AS (DELETE FROM dexp3.decision_rows WHERE bandit_id = $1 RETURNING decision_id)"
					  " SELECT count(*) FROM d",
					  1, types, values, NULL);
}

/*
 * Remove rows of bandits that were dropped while somebody was using them, and whose
 * transactions were committed since.  A bandit is watched for a day, and until all
 * transactions of its time have finished.  One that was put back by hand is left alone,
 * and so is one that somebody else is looking at.  No more than limit of them are looked
 * at, the last ones first.
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
						1, limit_types, limit_values, NULL, add_integer, &ids);
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
 * Unlike SQL's own product, it may become 0.
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

/*
 * Look up a decision that is not in dexp3.decision.
 */
bool
trim_find(int64 decision_id, int32 *bandit_id, int32 *epoch, SettledBy *settled_by)
{
	Oid			types[] = {INT8OID};
	Datum		values[] = {Int64GetDatum(decision_id)};
	KeptRow		found = {0};

	if (run_as_owner("SELECT bandit_id, epoch, skipped @> $1, expired @> $1"
					 " FROM dexp3.trimmed_rows WHERE decisions @> $1",
					 1, types, values, NULL, keep_row, &found) == 0)
		return false;
	*bandit_id = DatumGetInt32(found.values[0]);
	*epoch = DatumGetInt32(found.values[1]);
	*settled_by = DatumGetBool(found.values[2]) ? SETTLED_BY_SKIPPING :
		DatumGetBool(found.values[3]) ? SETTLED_BY_EXPIRY : SETTLED_BY_FEEDBACK;
	return true;
}
