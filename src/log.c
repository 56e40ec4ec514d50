/*
 * log.c
 *	  The append-only log of managed bandits: dexp3.decision, dexp3.feedback,
 *	  dexp3.expiry and dexp3.trimmed.
 *
 * Rows are written directly, not through the executor, see insert.c; the
 * callers refuse in read-only transactions and check privileges.  Every row
 * carries xact, the full identifier of the top-level transaction that wrote it
 * here.
 *
 * Nothing waits.  A decision gets a new identifier, so nobody can hold it.  A row of
 * dexp3.feedback or dexp3.expiry is inserted speculatively, as INSERT ... ON CONFLICT DO
 * NOTHING does: if a decision is settled already, even by a transaction that is still
 * running, the row is withdrawn and the caller is told; see once.c.
 *
 * Serializable transactions would fail whenever two of them use the same bandit,
 * if their reads were watched.  So scans fetch rows with a snapshot that is not
 * watched, SnapshotAny or SnapshotSelf ("committed by now, or ours"), and test
 * what they fetch against the snapshot that the caller wants.
 *
 * Lock first, then look: whoever uses sums of the log locks its tables first, with
 * log_lock(), so that TRUNCATE cannot come between.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"

#include "compat.h"
#include "log.h"
#include "rowscan.h"
#include "tables.h"

/*
 * Return a number that changes with the files of the log's tables: TRUNCATE, a rewrite or
 * a new installation of the extension makes it another log.
 */
static uint64
log_identity(void)
{
	static uint64 generation = 0;
	static uint64 identity = 0;

	if (generation != tables_generation())
	{
		Oid			oids[] = {
			tables()->decision, tables()->feedback, tables()->expiry, tables()->trimmed
		};

		identity = 0;
		for (size_t i = 0; i < lengthof(oids); i++)
		{
			Relation	rel = table_open(oids[i], NoLock);
			Oid			content[2] = {oids[i], rel->rd_rel->relfilenode};

			identity = hash_bytes_extended((const unsigned char *) content,
										   sizeof(content), identity);
			table_close(rel, NoLock);
		}
		generation = tables_generation();
	}
	return identity;
}

/*
 * Lock the tables of the log until the end of the transaction, and return the
 * log's identity.  With NoLock, they have been locked already.
 */
uint64
log_lock(LOCKMODE lockmode)
{
	Tables		locked;

	if (lockmode == NoLock)
		return log_identity();
	for (;;)
	{
		locked = *tables();
		LockRelationOid(locked.decision, lockmode);
		LockRelationOid(locked.feedback, lockmode);
		LockRelationOid(locked.expiry, lockmode);
		LockRelationOid(locked.trimmed, AccessShareLock);
		/* news may have come with a lock */
		if (tables()->decision == locked.decision &&
			tables()->feedback == locked.feedback &&
			tables()->expiry == locked.expiry &&
			tables()->trimmed == locked.trimmed)
			return log_identity();
		UnlockRelationOid(locked.decision, lockmode);
		UnlockRelationOid(locked.feedback, lockmode);
		UnlockRelationOid(locked.expiry, lockmode);
		UnlockRelationOid(locked.trimmed, AccessShareLock);
	}
}

/*
 * Return the transaction that log rows written now belong to.
 */
uint64
log_current_xact(void)
{
	return U64FromFullTransactionId(GetTopFullTransactionId());
}

Datum
xact_datum(uint64 xact)
{
	return FullTransactionIdGetDatum(FullTransactionIdFromU64(xact));
}

static void
form_decision(const DecisionRow *row, Datum *values, bool *nulls)
{
	const Ticket *ticket = &row->ticket;

	memset(nulls, 0, sizeof(bool) * Natts_decision);
	values[Anum_decision_decision_id - 1] = Int64GetDatum(row->decision_id);
	values[Anum_decision_bandit_id - 1] = Int32GetDatum(row->bandit_id);
	values[Anum_decision_epoch - 1] = Int32GetDatum(row->epoch);
	values[Anum_decision_round - 1] = Int64GetDatum(ticket->round);
	values[Anum_decision_outstanding - 1] = Int64GetDatum(row->outstanding);
	values[Anum_decision_probability - 1] = Float8GetDatum(ticket->probability);
	values[Anum_decision_gamma - 1] = Float8GetDatum(ticket->gamma);
	values[Anum_decision_decided_at - 1] = TimestampTzGetDatum(row->decided_at);
	values[Anum_decision_xact - 1] = xact_datum(log_current_xact());
	values[Anum_decision_arm - 1] = Int32GetDatum(ticket->arm + 1);
	values[Anum_decision_delay - 1] = Int32GetDatum((int32) row->delay);
	nulls[Anum_decision_delay - 1] = row->delay == NO_DELAY;

	/* only "deda" has them, and a null takes no room */
	values[Anum_decision_z - 1] = Float8GetDatum(ticket->z);
	nulls[Anum_decision_z - 1] = ticket->z == 0;
	values[Anum_decision_m - 1] = Float8GetDatum(ticket->m);
	nulls[Anum_decision_m - 1] = ticket->m == 0;

	values[Anum_decision_subject - 1] = PointerGetDatum(row->subject);
	nulls[Anum_decision_subject - 1] = row->subject == NULL;
	values[Anum_decision_mass - 1] = Float8GetDatum(ticket->mass);
	nulls[Anum_decision_mass - 1] = ticket->mass == 1;
}

void
log_append_decision(const DecisionRow *row)
{
	Datum		values[Natts_decision];
	bool		nulls[Natts_decision];

	form_decision(row, values, nulls);
	insert_row(tables()->decision, values, nulls, Natts_decision);
}

/*
 * Append many decisions without subjects: log_begin_decisions(),
 * log_append_one_of_many() for each, insert_end().
 */
RowInserter *
log_begin_decisions(void)
{
	return insert_begin(tables()->decision);
}

void
log_append_one_of_many(RowInserter *inserter, const DecisionRow *row)
{
	Datum		values[Natts_decision];
	bool		nulls[Natts_decision];

	form_decision(row, values, nulls);
	insert_one_of_many(inserter, values, nulls, Natts_decision);
}

/*
 * Append a row of dexp3.feedback, unless the decision has one already or the check
 * objects: then return false.  look_first says whether to look for one before writing.
 */
bool
log_append_feedback(const FeedbackRow *row, bool look_first, RowCheck check, void *context)
{
	Datum		values[Natts_feedback];
	bool		nulls[Natts_feedback] = {0};
	const FeedbackTerms *terms = &row->terms;
	bool		skipped = row->settled_by == SETTLED_BY_SKIPPING;
	RowInserter *inserter = insert_begin_one(tables()->feedback);

	/* before the transaction gets an identifier */
	if (look_first && insert_is_there(inserter, tables()->feedback_pkey, row->decision_id))
	{
		insert_none(inserter);
		return false;
	}
	values[Anum_feedback_decision_id - 1] = Int64GetDatum(row->decision_id);
	values[Anum_feedback_bandit_id - 1] = Int32GetDatum(row->bandit_id);
	values[Anum_feedback_epoch - 1] = Int32GetDatum(row->epoch);
	values[Anum_feedback_round - 1] = Int64GetDatum(row->round);
	values[Anum_feedback_delay - 1] = Int64GetDatum(terms->delay);
	values[Anum_feedback_received_at - 1] = TimestampTzGetDatum(row->received_at);
	values[Anum_feedback_xact - 1] = xact_datum(log_current_xact());
	values[Anum_feedback_arm - 1] = Int32GetDatum(terms->arm + 1);
	values[Anum_feedback_probability - 1] = Float8GetDatum(row->probability);
	nulls[Anum_feedback_probability - 1] = skipped;
	values[Anum_feedback_loss - 1] = Float8GetDatum(row->loss);
	nulls[Anum_feedback_loss - 1] = skipped;
	values[Anum_feedback_estimate - 1] = Float8GetDatum(terms->estimate);
	nulls[Anum_feedback_estimate - 1] = skipped;

	/* only "deda" has them */
	values[Anum_feedback_expected - 1] = Float8GetDatum(terms->expected);
	nulls[Anum_feedback_expected - 1] = skipped || terms->expected == 0;
	values[Anum_feedback_lbck - 1] = Float8GetDatum(terms->lbck);
	nulls[Anum_feedback_lbck - 1] = skipped || terms->lbck == 0;

	values[Anum_feedback_expired - 1] = BoolGetDatum(true);
	nulls[Anum_feedback_expired - 1] = row->settled_by != SETTLED_BY_EXPIRY;

	/* only "self-tuned" has them */
	values[Anum_feedback_baseline - 1] = Float8GetDatum(terms->baseline);
	nulls[Anum_feedback_baseline - 1] = skipped || terms->baseline == 0;
	values[Anum_feedback_mass - 1] = Float8GetDatum(terms->mass);
	nulls[Anum_feedback_mass - 1] = skipped || terms->mass == 1;
	values[Anum_feedback_decided_at - 1] = TimestampTzGetDatum(row->decided_at);
	nulls[Anum_feedback_decided_at - 1] = row->decided_at == DT_NOBEGIN;

	return insert_one_if(inserter, values, nulls, Natts_feedback, check, context);
}

/*
 * Append a row of dexp3.expiry, unless the check objects: then return false.
 */
bool
log_append_expiry(const ExpiryRow *row, RowCheck check, void *context)
{
	Datum		values[Natts_expiry];
	bool		nulls[Natts_expiry] = {0};
	Datum	   *ids = palloc(sizeof(Datum) * row->n);
	ArrayType  *decisions;
	bool		appended;

	for (int i = 0; i < row->n; i++)
		ids[i] = Int64GetDatum(row->decisions[i]);
	decisions = construct_array(ids, row->n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
								TYPALIGN_DOUBLE);
	values[Anum_expiry_first_decision - 1] = Int64GetDatum(row->first_decision);
	values[Anum_expiry_bandit_id - 1] = Int32GetDatum(row->bandit_id);
	values[Anum_expiry_epoch - 1] = Int32GetDatum(row->epoch);
	values[Anum_expiry_last_decision - 1] = Int64GetDatum(row->last_decision);
	values[Anum_expiry_round - 1] = Int64GetDatum(row->round);
	values[Anum_expiry_received_at - 1] = TimestampTzGetDatum(row->received_at);
	values[Anum_expiry_xact - 1] = xact_datum(log_current_xact());
	values[Anum_expiry_loss - 1] = Float8GetDatum(row->loss);
	/* only "self-tuned" has one */
	values[Anum_expiry_baseline - 1] = Float8GetDatum(row->baseline);
	nulls[Anum_expiry_baseline - 1] = row->baseline == 0;
	values[Anum_expiry_decisions - 1] = PointerGetDatum(decisions);
	appended = insert_one_if(insert_begin_one(tables()->expiry), values, nulls, Natts_expiry,
							 check, context);
	pfree(decisions);
	pfree(ids);
	return appended;
}

/* ----------
 * Reading
 * ----------
 */

/*
 * Return an arm counted from 0, or -1 for what is not an arm.
 */
static int32
arm_or_none(const TupleTableSlot *slot, int attno)
{
	int32		arm = slot->tts_isnull[attno - 1] ? 0 :
		DatumGetInt32(slot->tts_values[attno - 1]);

	return arm > 0 ? arm - 1 : -1;
}

static uint64
read_xact(Datum value)
{
	return U64FromFullTransactionId(DatumGetFullTransactionId(value));
}

static void
read_decision(TupleTableSlot *slot, DecisionRow *row)
{
	Datum	   *values = slot->tts_values;
	bool	   *nulls = slot->tts_isnull;
	Ticket	   *ticket = &row->ticket;

	slot_getallattrs(slot);
	row->decision_id = DatumGetInt64(values[Anum_decision_decision_id - 1]);
	row->bandit_id = DatumGetInt32(values[Anum_decision_bandit_id - 1]);
	row->epoch = DatumGetInt32(values[Anum_decision_epoch - 1]);
	row->outstanding = DatumGetInt64(values[Anum_decision_outstanding - 1]);
	row->delay = nulls[Anum_decision_delay - 1] ? NO_DELAY :
		DatumGetInt32(values[Anum_decision_delay - 1]);
	row->decided_at = DatumGetTimestampTz(values[Anum_decision_decided_at - 1]);
	row->xact = read_xact(values[Anum_decision_xact - 1]);
	row->subject = NULL;
	ticket->round = DatumGetInt64(values[Anum_decision_round - 1]);
	ticket->arm = arm_or_none(slot, Anum_decision_arm);
	ticket->probability = DatumGetFloat8(values[Anum_decision_probability - 1]);
	ticket->gamma = DatumGetFloat8(values[Anum_decision_gamma - 1]);
	ticket->z = float8_or(slot, Anum_decision_z, 0);
	ticket->m = float8_or(slot, Anum_decision_m, 0);
	ticket->mass = float8_or(slot, Anum_decision_mass, 1);
}

void
log_read_feedback(TupleTableSlot *slot, FeedbackRow *row)
{
	Datum	   *values = slot->tts_values;
	bool	   *nulls = slot->tts_isnull;
	FeedbackTerms *terms = &row->terms;

	slot_getallattrs(slot);
	row->decision_id = DatumGetInt64(values[Anum_feedback_decision_id - 1]);
	row->bandit_id = DatumGetInt32(values[Anum_feedback_bandit_id - 1]);
	row->epoch = DatumGetInt32(values[Anum_feedback_epoch - 1]);
	row->round = DatumGetInt64(values[Anum_feedback_round - 1]);
	row->received_at = DatumGetTimestampTz(values[Anum_feedback_received_at - 1]);
	row->settled_by = nulls[Anum_feedback_loss - 1] ? SETTLED_BY_SKIPPING :
		!nulls[Anum_feedback_expired - 1] ? SETTLED_BY_EXPIRY : SETTLED_BY_FEEDBACK;
	row->loss = float8_or(slot, Anum_feedback_loss, 0);
	row->probability = float8_or(slot, Anum_feedback_probability, 0);
	terms->delay = DatumGetInt64(values[Anum_feedback_delay - 1]);
	terms->arm = arm_or_none(slot, Anum_feedback_arm);
	terms->estimate = float8_or(slot, Anum_feedback_estimate, 0);
	terms->expected = float8_or(slot, Anum_feedback_expected, 0);
	terms->lbck = float8_or(slot, Anum_feedback_lbck, 0);
	terms->baseline = float8_or(slot, Anum_feedback_baseline, 0);
	terms->mass = float8_or(slot, Anum_feedback_mass, 1);
	row->decided_at = time_or_never(slot, Anum_feedback_decided_at);
	row->xact = read_xact(values[Anum_feedback_xact - 1]);
}

/*
 * Complain about an array that nothing of ours has written.
 */
static void
wrong_array(const char *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("wrong array in dexp3.%s", table)));
}

/*
 * Read a row of dexp3.expiry; its decisions live in the current context.
 */
void
log_read_expiry(TupleTableSlot *slot, ExpiryRow *row)
{
	Datum	   *values = slot->tts_values;
	ArrayType  *decisions;

	slot_getallattrs(slot);
	row->first_decision = DatumGetInt64(values[Anum_expiry_first_decision - 1]);
	row->bandit_id = DatumGetInt32(values[Anum_expiry_bandit_id - 1]);
	row->epoch = DatumGetInt32(values[Anum_expiry_epoch - 1]);
	row->last_decision = DatumGetInt64(values[Anum_expiry_last_decision - 1]);
	row->round = DatumGetInt64(values[Anum_expiry_round - 1]);
	row->received_at = DatumGetTimestampTz(values[Anum_expiry_received_at - 1]);
	row->xact = read_xact(values[Anum_expiry_xact - 1]);
	row->loss = DatumGetFloat8(values[Anum_expiry_loss - 1]);
	row->baseline = float8_or(slot, Anum_expiry_baseline, 0);
	decisions = DatumGetArrayTypeP(values[Anum_expiry_decisions - 1]);
	if (ARR_NDIM(decisions) != 1 || array_contains_nulls(decisions))
		wrong_array("expiry");
	row->n = ARR_DIMS(decisions)[0];
	row->decisions = (const int64 *) ARR_DATA_PTR(decisions);
}

/*
 * Read a row of dexp3.trimmed; its sums live in the current context.
 */
static void
read_trimmed(TupleTableSlot *slot, TrimmedRow *row)
{
	Datum	   *values = slot->tts_values;
	ArrayType  *sums;

	slot_getallattrs(slot);
	row->xact = read_xact(values[Anum_trimmed_xact - 1]);
	row->newest_xact = read_xact(values[Anum_trimmed_newest_xact - 1]);
	row->rounds = DatumGetInt64(values[Anum_trimmed_rounds - 1]);
	row->skipped = DatumGetInt64(values[Anum_trimmed_skipped_rounds - 1]);
	row->expired = DatumGetInt64(values[Anum_trimmed_expired_rounds - 1]);
	row->cumulative_delay = DatumGetFloat8(values[Anum_trimmed_cumulative_delay - 1]);
	row->longest_delay = (double) DatumGetInt64(values[Anum_trimmed_longest_delay - 1]);
	row->lbck = DatumGetFloat8(values[Anum_trimmed_lbck - 1]);
	row->last_decision = DatumGetTimestampTz(values[Anum_trimmed_last_decision - 1]);
	row->last_feedback = time_or_never(slot, Anum_trimmed_last_feedback);
	row->half_lives = DatumGetInt64(values[Anum_trimmed_half_lives - 1]);
	row->settled = DatumGetFloat8(values[Anum_trimmed_settled - 1]);
	row->total_loss = DatumGetFloat8(values[Anum_trimmed_total_loss - 1]);
	row->cost = DatumGetFloat8(values[Anum_trimmed_cost - 1]);
	row->restricted = DatumGetInt64(values[Anum_trimmed_restricted_rounds - 1]);

	sums = DatumGetArrayTypeP(values[Anum_trimmed_sums - 1]);
	if (ARR_NDIM(sums) != 2 || array_contains_nulls(sums))
		wrong_array("trimmed");
	row->nsums = ARR_DIMS(sums)[0];
	row->arms = ARR_DIMS(sums)[1];
	row->sums = (const double *) ARR_DATA_PTR(sums);
}

typedef union AnyRow
{
	DecisionRow decision;
	FeedbackRow feedback;
	ExpiryRow	expiry;
	TrimmedRow	trimmed;
} AnyRow;

static void
read_row(LogTable table, TupleTableSlot *slot, AnyRow *row)
{
	switch (table)
	{
		case LOG_DECISIONS:
			read_decision(slot, &row->decision);
			break;
		case LOG_FEEDBACK:
			log_read_feedback(slot, &row->feedback);
			break;
		case LOG_EXPIRY:
			log_read_expiry(slot, &row->expiry);
			break;
		case LOG_TRIMMED:
			read_trimmed(slot, &row->trimmed);
			break;
	}
}

static uint64
index_xact(IndexScanDesc scan)
{
	bool		isnull;
	Datum		xact = index_getattr(scan->xs_itup, 3, scan->xs_itupdesc, &isnull);

	return read_xact(xact);
}

/*
 * Visit the rows of a bandit that transactions from `from` on and before
 * `before` have written, if they are wanted and the snapshot sees them.  The
 * index entry tells whose they are, before the row is fetched.
 */
void
log_scan(LogTable table, int32 bandit_id, int32 epoch, uint64 from, uint64 before,
		 Snapshot snapshot, LogFilter wanted, LogVisitor visit, void *context)
{
	RowScan		rows;
	ScanKeyData keys[4];
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "dexp3 row",
													  ALLOCSET_DEFAULT_SIZES);

	/* the columns of the index: bandit_id, epoch, xact */
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(bandit_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(epoch));
	ScanKeyInit(&keys[2], 3, BTGreaterEqualStrategyNumber, F_XID8GE, xact_datum(from));
	ScanKeyInit(&keys[3], 3, BTLessStrategyNumber, F_XID8LT, xact_datum(before));

	rows_begin_entries(&rows,
					   table == LOG_DECISIONS ? tables()->decision :
					   table == LOG_FEEDBACK ? tables()->feedback :
					   table == LOG_EXPIRY ? tables()->expiry : tables()->trimmed,
					   table == LOG_DECISIONS ? tables()->decision_log_idx :
					   table == LOG_FEEDBACK ? tables()->feedback_log_idx :
					   table == LOG_EXPIRY ? tables()->expiry_log_idx :
					   tables()->trimmed_log_idx,
					   AccessShareLock, SnapshotAny, keys, lengthof(keys));
	while (index_getnext_tid(rows.scan, ForwardScanDirection) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (!wanted(context, index_xact(rows.scan)))
			continue;
		while (index_fetch_heap(rows.scan, rows.slot))
		{
			if (table_tuple_satisfies_snapshot(rows.table, rows.slot, snapshot))
			{
				MemoryContext old = MemoryContextSwitchTo(row_context);
				AnyRow		row;

				read_row(table, rows.slot, &row);
				visit(context, &row);
				MemoryContextSwitchTo(old);
				MemoryContextReset(row_context);
			}
			if (!rows.scan->xs_heap_continue)
				break;
		}
	}
	rows_end(&rows);
	MemoryContextDelete(row_context);
}

/*
 * Visit the newest rows of dexp3.feedback of a bandit, the newest first.  At most max
 * rows are looked at, including those that are not there for us.
 */
void
log_scan_newest(int32 bandit_id, int32 epoch, int max, LogVisitor visit, void *context)
{
	RowScan		rows;
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(bandit_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(epoch));
	rows_begin(&rows, tables()->feedback, tables()->feedback_log_idx, AccessShareLock,
			   SnapshotSelf, keys, lengthof(keys));
	while (max-- > 0 && index_getnext_tid(rows.scan, BackwardScanDirection) != NULL)
	{
		FeedbackRow row;

		CHECK_FOR_INTERRUPTS();
		if (index_fetch_heap(rows.scan, rows.slot))
		{
			log_read_feedback(rows.slot, &row);
			visit(context, &row);
		}
	}
	rows_end(&rows);
}

/* ----------
 * Decisions one by one
 * ----------
 */

/*
 * A scan reads all entries of a page before it returns the first.  A walk often goes only
 * a step or two, so its first entries are those of this many transactions.
 */
#define NEAR_XACTS	16

struct DecisionWalk
{
	RowScan		rows;
	ScanKeyData keys[4];		/* bandit_id, epoch, then xact and decision_id */
	ScanKeyData place[2];		/* these two as a row, unless for one
								 * transaction */
	uint64		near_before;	/* entries of earlier transactions come first;
								 * 0 if all come at once */
};

static void
set_place(DecisionWalk *walk, uint64 xact, int64 decision_id)
{
	ScanKeyEntryInitialize(&walk->place[0], SK_ROW_MEMBER, 3, BTGreaterStrategyNumber,
						   InvalidOid, InvalidOid, F_XID8CMP, xact_datum(xact));
	ScanKeyEntryInitialize(&walk->place[1], SK_ROW_MEMBER | SK_ROW_END, 4,
						   BTGreaterStrategyNumber, InvalidOid, InvalidOid,
						   F_BTINT8CMP, Int64GetDatum(decision_id));
}

/*
 * Begin to read the decisions of a bandit behind a place, in the order of
 * transactions and, within one, of decisions.
 */
DecisionWalk *
log_begin_walk(int32 bandit_id, int32 epoch, uint64 xact, int64 decision_id,
			   bool one_transaction)
{
	DecisionWalk *walk = palloc0(sizeof(DecisionWalk));
	ScanKey		keys = walk->keys;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(bandit_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(epoch));
	if (one_transaction)
	{
		ScanKeyInit(&keys[2], 3, BTEqualStrategyNumber, F_XID8EQ, xact_datum(xact));
		ScanKeyInit(&keys[3], 4, BTGreaterStrategyNumber, F_INT8GT,
					Int64GetDatum(decision_id));
	}
	else
	{
		/* (xact, decision_id) > (..., ...) */
		set_place(walk, xact, decision_id);
		keys[2].sk_flags = SK_ROW_HEADER;
		keys[2].sk_attno = 3;
		keys[2].sk_strategy = BTGreaterStrategyNumber;
		keys[2].sk_argument = PointerGetDatum(walk->place);
		walk->near_before = xact + NEAR_XACTS;
		ScanKeyInit(&keys[3], 3, BTLessStrategyNumber, F_XID8LT,
					xact_datum(walk->near_before));
	}
	rows_begin_entries(&walk->rows, tables()->decision, tables()->decision_log_idx,
					   AccessShareLock, SnapshotSelf, keys, lengthof(walk->keys));
	return walk;
}

/*
 * Go to the next index entry, and tell its place.
 */
bool
log_next_place(DecisionWalk *walk, uint64 *xact, int64 *decision_id)
{
	RowScan    *rows = &walk->rows;
	bool		isnull;

	CHECK_FOR_INTERRUPTS();
	while (index_getnext_tid(rows->scan, ForwardScanDirection) == NULL)
	{
		if (walk->near_before == 0)
			return false;
		/* which costs less for each entry than to compare it with a place */
		ScanKeyInit(&walk->keys[2], 3, BTGreaterEqualStrategyNumber, F_XID8GE,
					xact_datum(walk->near_before));
		walk->keys[3].sk_argument = xact_datum(PG_UINT64_MAX);
		rows_begin_again(rows, walk->keys, lengthof(walk->keys));
		walk->near_before = 0;
	}
	*xact = index_xact(rows->scan);
	*decision_id = DatumGetInt64(index_getattr(rows->scan->xs_itup, 4,
											   rows->scan->xs_itupdesc, &isnull));
	return true;
}

/*
 * Read the decision at this place; false if its row is not there for us.
 */
bool
log_read_place(DecisionWalk *walk, DecisionRow *row)
{
	if (!index_fetch_heap(walk->rows.scan, walk->rows.slot))
		return false;
	read_decision(walk->rows.slot, row);
	return true;
}

void
log_end_walk(DecisionWalk *walk)
{
	rows_end(&walk->rows);
	pfree(walk);
}

/* ----------
 * Finding rows
 * ----------
 */

/*
 * Find the newest decision of a subject that is wanted.
 */
bool
log_find_by_subject(int32 bandit_id, text *subject, DecisionFilter wanted,
					void *context, DecisionRow *row)
{
	RowScan		rows;
	ScanKeyData keys[2];
	Verdict		verdict = LOOK_ON;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(bandit_id));
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, PointerGetDatum(subject));
	rows_begin(&rows, tables()->decision, tables()->decision_subject_idx, AccessShareLock,
			   SnapshotSelf, keys, lengthof(keys));
	while (verdict == LOOK_ON &&
		   rows_next_from_end(&rows))
	{
		CHECK_FOR_INTERRUPTS();
		read_decision(rows.slot, row);
		verdict = wanted(context, row);
	}
	rows_end(&rows);
	return verdict == TAKE_IT;
}

bool
log_find_decision(int64 decision_id, DecisionRow *row)
{
	RowScan		rows;
	ScanKeyData key;
	bool		found;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(decision_id));
	rows_begin(&rows, tables()->decision, tables()->decision_pkey, AccessShareLock,
			   SnapshotSelf, &key, 1);
	found = rows_next(&rows);
	if (found)
		read_decision(rows.slot, row);
	rows_end(&rows);
	return found;
}

/*
 * Are identifiers in ascending order, and not many others between them?
 */
static bool
ids_are_dense(const int64 *ids, int n)
{
	for (int i = 1; i < n; i++)
	{
		if (ids[i] <= ids[i - 1])
			return false;
	}
	return (uint64) ids[n - 1] - (uint64) ids[0] < 2 * (uint64) n;
}

/*
 * Visit the decisions with the given identifiers, if a snapshot sees them.  If they are
 * close together, which those of a batch are unless many bandits are in use, one scan
 * finds them all.
 */
void
log_visit_decisions(const int64 *ids, int n, Snapshot snapshot, LogVisitor visit,
					void *context)
{
	RowScan		rows;
	ScanKeyData keys[2];
	bool		at_once = ids_are_dense(ids, n);
	int			i = 0;

	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(ids[0]));
	ScanKeyInit(&keys[1], 1, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(ids[n - 1]));
	rows_begin(&rows, tables()->decision, tables()->decision_pkey, AccessShareLock,
			   SnapshotAny, keys, 2);
	while (i < n)
	{
		CHECK_FOR_INTERRUPTS();
		if (!at_once)
		{
			keys[0].sk_argument = keys[1].sk_argument = Int64GetDatum(ids[i++]);
			rows_begin_again(&rows, keys, 2);
		}
		while (rows_next(&rows))
		{
			DecisionRow row;

			if (!table_tuple_satisfies_snapshot(rows.table, rows.slot, snapshot))
				continue;
			read_decision(rows.slot, &row);
			while (at_once && i < n && ids[i] < row.decision_id)
				i++;
			if (!at_once || (i < n && ids[i] == row.decision_id))
				visit(context, &row);
		}
		if (at_once)
			break;
	}
	rows_end(&rows);
}

int64
log_next_decision_id(void)
{
	return nextval_internal(tables()->decision_id_seq, false);
}
