/*
 * trim.c
 *	  Removing old rows from the log of a managed bandit.
 *
 * Decisions that were settled longer ago than the bandit's history, and their
 * settlements, are replaced by one row of dexp3.trimmed: the sums that the state
 * needs, the sums that reports need, and which decisions they were, so that
 * feedback for them can still be answered.  What is in dexp3.trimmed and what is
 * left of the log make the state, always.
 *
 * Rows are removed only if they are in the remover's state, and no row that
 * somebody else is removing is waited for.  catchup.c tells how sessions cope.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "insert.h"
#include "log.h"
#include "ownersql.h"
#include "tables.h"
#include "trim.h"

/*
 * Remove up to $7 decisions, and return the sums as a row of dexp3.trimmed,
 * except its own xact, and the newest xact of a settlement.  $1 bandit_id, $2
 * epoch, $3 settled before, $4 round before, $5 first (0: where the last removal
 * ended) and $6 end of the transactions, $9 those between them that were running,
 * $8 number of arms.
 *
 * Losses that were never given (skips) count for the state, not for reports.
 * The reports' sums are made of the loss l and the probability p of each
 * decision: of l, 1/p, 1/p^2, l/p, l/p^2 and l^2/p^2.  The square of a very small
 * loss would be an error (underflow), so it counts as 0.
 *
 * The planner knows nothing about these rows, and may believe that there is one.
 * So there must be no join that it could do by nested loops without an index:
 * pairs are made by the second DELETE, and a FULL JOIN, which adds nothing here, is
 * hashed.  Decisions that a bandit_drop is deleting are left to it.
 */
static const char *const remove_settled =
"WITH old AS MATERIALIZED ("
" SELECT decision_id FROM dexp3.feedback"
" WHERE bandit_id = $1 AND epoch = $2 AND xact < $6 AND NOT xact = ANY ($9)"
"  AND xact >= CASE WHEN $5 = '0'::xid8 THEN coalesce("
"   (SELECT newest_xact FROM dexp3.trimmed WHERE bandit_id = $1 AND epoch = $2"
"    AND newest_xact < xact ORDER BY bandit_id DESC, epoch DESC, xact DESC LIMIT 1), '0') ELSE $5 END"
"  AND received_at < $3 AND round < $4"
" ORDER BY bandit_id, epoch, xact LIMIT $7 FOR UPDATE SKIP LOCKED),"
" free AS MATERIALIZED ("
" SELECT decision.decision_id FROM dexp3.decision JOIN old USING (decision_id)"
"  FOR UPDATE OF decision SKIP LOCKED),"
" f AS (DELETE FROM dexp3.feedback USING free WHERE feedback.decision_id = free.decision_id"
"  RETURNING feedback.*),"
" pair AS (DELETE FROM dexp3.decision d USING f WHERE d.decision_id = f.decision_id"
"  RETURNING d.decision_id, d.arm, d.outstanding, d.delay AS announced, d.probability AS p,"
"   f.loss AS l, f.estimate, f.expected, f.lbck, f.delay, f.expired, d.decided_at, f.received_at,"
"   greatest(d.xact::text::bigint, f.xact::text::bigint) AS newest, f.xact::text::bigint AS settler,"
"   CASE WHEN abs(f.loss) > 1e-150 THEN f.loss / d.probability ELSE 0 END AS w),"
" arm AS ("
"  SELECT i, coalesce(sum(estimate), 0) AS z, coalesce(sum(expected), 0) AS m,"
"   count(decision_id) AS decisions, count(l) AS settled, coalesce(sum(l), 0) AS loss,"
"   coalesce(sum(1 / p) FILTER (WHERE l IS NOT NULL), 0) AS inverse,"
"   coalesce(sum(1 / p / p) FILTER (WHERE l IS NOT NULL), 0) AS inverse2,"
"   coalesce(sum(l / p), 0) AS weighted,"
"   coalesce(sum(l / p / p), 0) AS weighted_inverse,"
"   coalesce(sum(w * w), 0) AS weighted2"
"  FROM generate_series(1, $8) i FULL JOIN pair ON arm = i GROUP BY i)"
" SELECT min(decision_id), $1, $2, NULL::xid8, max(newest)::text::xid8,"
"  range_agg(int8range(decision_id, decision_id, '[]')),"
"  coalesce(range_agg(int8range(decision_id, decision_id, '[]')) FILTER (WHERE l IS NULL), '{}'),"
"  coalesce(range_agg(int8range(decision_id, decision_id, '[]')) FILTER (WHERE expired), '{}'),"
"  count(*), count(*) FILTER (WHERE l IS NULL), count(*) FILTER (WHERE expired),"
"  sum(outstanding)::float8, greatest(max(announced), max(delay)), max(decided_at),"
"  max(received_at) FILTER (WHERE l IS NOT NULL AND expired IS NULL), coalesce(sum(lbck), 0),"
"  (SELECT array_agg(z ORDER BY i) FROM arm), (SELECT array_agg(m ORDER BY i) FROM arm),"
"  (SELECT array_agg(decisions ORDER BY i) FROM arm), (SELECT array_agg(settled ORDER BY i) FROM arm),"
"  (SELECT array_agg(loss ORDER BY i) FROM arm), (SELECT array_agg(inverse ORDER BY i) FROM arm),"
"  (SELECT array_agg(inverse2 ORDER BY i) FROM arm), (SELECT array_agg(weighted ORDER BY i) FROM arm),"
"  (SELECT array_agg(weighted_inverse ORDER BY i) FROM arm),"
"  (SELECT array_agg(weighted2 ORDER BY i) FROM arm), max(settler)::text::xid8"
" FROM pair HAVING count(*) > 0";

/*
 * The same for decisions of earlier epochs, which nothing is learned from any
 * more: settled or not, they are remembered as skipped.  $1 bandit_id, $2 the
 * current epoch, $3 decided before.
 */
static const char *const remove_earlier =
"WITH d AS (DELETE FROM dexp3.decision"
"  WHERE bandit_id = $1 AND epoch < $2 AND decided_at < $3"
"  RETURNING decision_id, epoch, decided_at),"
" f AS (DELETE FROM dexp3.feedback USING d WHERE feedback.decision_id = d.decision_id)"
" SELECT min(decision_id), $1, epoch, NULL::xid8, '0'::xid8,"
"  range_agg(int8range(decision_id, decision_id, '[]')),"
"  range_agg(int8range(decision_id, decision_id, '[]')),"
"  '{}'::int8multirange, count(*), count(*), 0::bigint, 0::float8, 0::bigint,"
"  max(decided_at), NULL::timestamptz, 0::float8,"
"  '{0}'::float8[], '{0}'::float8[], '{0}'::bigint[], '{0}'::bigint[], '{0}'::float8[],"
"  '{0}'::float8[], '{0}'::float8[], '{0}'::float8[], '{0}'::float8[], '{0}'::float8[]"
" FROM d GROUP BY epoch";

/* What the rows of dexp3.trimmed that were written have in common. */
typedef struct Removal
{
	int64		decisions;
	uint64		newest;			/* that wrote a settlement, not a decision */
} Removal;

/*
 * Write a row of dexp3.trimmed.
 */
static void
write_trimmed(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	Removal    *removal = context;
	Datum		values[Natts_trimmed + 1];
	bool		nulls[Natts_trimmed + 1];

	heap_deform_tuple(tuple, tupdesc, values, nulls);
	removal->decisions += DatumGetInt64(values[Anum_trimmed_rounds - 1]);
	if (tupdesc->natts > Natts_trimmed)
		removal->newest =
			U64FromFullTransactionId(DatumGetFullTransactionId(values[Natts_trimmed]));
	values[Anum_trimmed_xact - 1] =
		FullTransactionIdGetDatum(FullTransactionIdFromU64(log_current_xact()));
	nulls[Anum_trimmed_xact - 1] = false;
	(void) insert_row(tables()->trimmed, values, nulls, Natts_trimmed, InvalidOid);
}

static Datum
history_begins(const Bandit *bandit)
{
	return DirectFunctionCall2(timestamptz_mi_interval,
							   TimestampTzGetDatum(GetCurrentStatementStartTimestamp()),
							   IntervalPGetDatum(bandit->history));
}

static Datum
xact_datum(uint64 xact)
{
	return FullTransactionIdGetDatum(FullTransactionIdFromU64(xact));
}

/*
 * Remove up to `limit` old decisions that were settled by transactions that have
 * been seen, and return how many.  With deda, not those that were settled in the
 * newest round: feedback that is still to come in it must know of them.
 *
 * *from is where the last removal ended, or 0 if that is not known here: what is
 * before it is gone, and under an old snapshot its remains would be walked over
 * again and again.  1 begins at the beginning, for rows that were not old enough
 * when those after them were.
 */
int64
trim_log(const Bandit *bandit, int64 newest_round, const Seen *seen, int64 limit,
		 uint64 *from)
{
	Oid			types[9] = {INT4OID, INT4OID, TIMESTAMPTZOID, INT8OID, XID8OID,
	XID8OID, INT8OID, INT4OID, XID8ARRAYOID};
	Datum		values[9];
	Datum	   *running = palloc(sizeof(Datum) * Max(seen->nrunning, 1));
	Removal		removal = {0};

	for (int i = 0; i < seen->nrunning; i++)
		running[i] = xact_datum(seen->running[i]);

	values[0] = Int32GetDatum(bandit->bandit_id);
	values[1] = Int32GetDatum(bandit->epoch);
	values[2] = history_begins(bandit);
	values[3] = Int64GetDatum(bandit->setup.params.algorithm == DEDA ? newest_round :
							  PG_INT64_MAX);
	values[4] = xact_datum(*from);
	values[5] = xact_datum(seen->next);
	values[6] = Int64GetDatum(limit);
	values[7] = Int32GetDatum(bandit->setup.params.arms);
	values[8] = PointerGetDatum(construct_array(running, seen->nrunning, XID8OID,
												sizeof(uint64), FLOAT8PASSBYVAL,
												TYPALIGN_DOUBLE));

	/* the caller's bandit must not vanish because a trigger looks one up */
	set_inserting(true);
	PG_TRY();
	{
		(void) run_as_owner(remove_settled, 9, types, values, NULL, write_trimmed,
							&removal);
	}
	PG_FINALLY();
	{
		set_inserting(false);
	}
	PG_END_TRY();
	*from = Max(*from, removal.newest);
	return removal.decisions;
}

/*
 * Remove old decisions from before the last reset, and return how many.
 */
int64
trim_earlier_epochs(const Bandit *bandit)
{
	Oid			types[3] = {INT4OID, INT4OID, TIMESTAMPTZOID};
	Datum		values[3];
	Removal		removal = {0};

	values[0] = Int32GetDatum(bandit->bandit_id);
	values[1] = Int32GetDatum(bandit->epoch);
	values[2] = history_begins(bandit);
	(void) run_as_owner(remove_earlier, 3, types, values, NULL, write_trimmed,
						&removal);
	return removal.decisions;
}

/* ----------
 * What became of a decision that has been removed
 * ----------
 */

typedef struct Found
{
	int32		bandit_id;
	int32		epoch;
	char		status;
} Found;

static void
read_found(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	Found	   *found = context;
	bool		isnull;

	found->bandit_id = DatumGetInt32(heap_getattr(tuple, 1, tupdesc, &isnull));
	found->epoch = DatumGetInt32(heap_getattr(tuple, 2, tupdesc, &isnull));
	found->status = DatumGetChar(heap_getattr(tuple, 3, tupdesc, &isnull));
}

/*
 * Look a decision up that is not in dexp3.decision.
 */
bool
trim_find(int64 decision_id, int32 *bandit_id, int32 *epoch, char *status)
{
	Oid			types[1] = {INT8OID};
	Datum		values[1];
	Found		found = {0};

	if (!OidIsValid(tables()->trimmed))
		return false;
	values[0] = Int64GetDatum(decision_id);
	(void) run_as_owner("SELECT bandit_id, epoch, (CASE WHEN skipped @> $1 THEN 'k'"
						" WHEN expired @> $1 THEN 'e' ELSE 's' END)::\"char\""
						" FROM dexp3.trimmed WHERE decisions @> $1",
						1, types, values, NULL, read_found, &found);
	*bandit_id = found.bandit_id;
	*epoch = found.epoch;
	*status = found.status;
	return found.bandit_id != 0;
}
