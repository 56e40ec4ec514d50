/*
 * log.c
 *	  The append-only log of managed bandits: dexp3.decision and dexp3.feedback.
 *
 * Rows are written directly, not through the executor, see insert.c; the
 * callers refuse in read-only transactions and check privileges.  Every row
 * carries xact, the full identifier of the top-level transaction that wrote it
 * here.
 *
 * Nothing waits.  A decision gets a new identifier, so nobody can hold it.  A
 * settlement is inserted speculatively, as INSERT ... ON CONFLICT DO NOTHING
 * does: if there already is one, even of a transaction that is still running,
 * ours is withdrawn and the caller is told.
 *
 * Reads use SnapshotSelf, "committed by now, or ours", and the caller compares
 * xact with the moment it wants to see.  That is the same as a snapshot of that
 * moment, since rows are only ever inserted; and it leaves serializable
 * transactions alone, which would otherwise fail whenever two of them use the
 * same bandit.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"

#include "compat.h"
#include "log.h"
#include "tables.h"

/*
 * Return the transaction that log rows written now belong to.
 */
uint64
log_current_xact(void)
{
	return U64FromFullTransactionId(GetTopFullTransactionId());
}

static Datum
xact_datum(uint64 xact)
{
	return FullTransactionIdGetDatum(FullTransactionIdFromU64(xact));
}

static void
form_decision(const Decision *decision, Datum *values, bool *nulls)
{
	const Ticket *ticket = &decision->ticket;

	memset(nulls, 0, sizeof(bool) * Natts_decision);
	values[Anum_decision_decision_id - 1] = Int64GetDatum(decision->decision_id);
	values[Anum_decision_bandit_id - 1] = Int32GetDatum(decision->bandit_id);
	values[Anum_decision_epoch - 1] = Int32GetDatum(decision->epoch);
	values[Anum_decision_round - 1] = Int64GetDatum(ticket->round);
	values[Anum_decision_outstanding - 1] = Int64GetDatum(decision->outstanding);
	values[Anum_decision_probability - 1] = Float8GetDatum(ticket->probability);
	values[Anum_decision_gamma - 1] = Float8GetDatum(ticket->gamma);
	values[Anum_decision_decided_at - 1] = TimestampTzGetDatum(decision->decided_at);
	values[Anum_decision_xact - 1] = xact_datum(log_current_xact());
	values[Anum_decision_arm - 1] = Int32GetDatum(ticket->arm + 1);
	values[Anum_decision_delay - 1] = Int32GetDatum((int32) decision->delay);
	nulls[Anum_decision_delay - 1] = decision->delay == NO_DELAY;

	/* only "deda" has them, and a null takes no room */
	values[Anum_decision_z - 1] = Float8GetDatum(ticket->z);
	nulls[Anum_decision_z - 1] = ticket->z == 0;
	values[Anum_decision_m - 1] = Float8GetDatum(ticket->m);
	nulls[Anum_decision_m - 1] = ticket->m == 0;

	values[Anum_decision_subject - 1] = PointerGetDatum(decision->subject);
	nulls[Anum_decision_subject - 1] = decision->subject == NULL;
}

void
log_append_decision(const Decision *decision)
{
	Datum		values[Natts_decision];
	bool		nulls[Natts_decision];

	form_decision(decision, values, nulls);
	(void) insert_row(tables()->decision, values, nulls, Natts_decision, InvalidOid);
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
log_append_one_of_many(RowInserter *inserter, const Decision *decision)
{
	Datum		values[Natts_decision];
	bool		nulls[Natts_decision];

	form_decision(decision, values, nulls);
	insert_one_of_many(inserter, values, nulls, Natts_decision);
}

/*
 * Append a settlement, unless the decision has one already: then return false.
 */
bool
log_append_settlement(const Settlement *settlement)
{
	Datum		values[Natts_feedback];
	bool		nulls[Natts_feedback] = {0};
	const Feedback *feedback = &settlement->feedback;
	bool		skipped = settlement->skipped;

	values[Anum_feedback_decision_id - 1] = Int64GetDatum(settlement->decision_id);
	values[Anum_feedback_bandit_id - 1] = Int32GetDatum(settlement->bandit_id);
	values[Anum_feedback_epoch - 1] = Int32GetDatum(settlement->epoch);
	values[Anum_feedback_round - 1] = Int64GetDatum(settlement->round);
	values[Anum_feedback_delay - 1] = Int64GetDatum(feedback->delay);
	values[Anum_feedback_received_at - 1] = TimestampTzGetDatum(settlement->received_at);
	values[Anum_feedback_xact - 1] = xact_datum(log_current_xact());
	values[Anum_feedback_loss - 1] = Float8GetDatum(settlement->loss);
	nulls[Anum_feedback_loss - 1] = skipped;
	values[Anum_feedback_estimate - 1] = Float8GetDatum(feedback->estimate);
	nulls[Anum_feedback_estimate - 1] = skipped;
	values[Anum_feedback_arm - 1] = Int32GetDatum(feedback->arm + 1);
	nulls[Anum_feedback_arm - 1] = skipped;

	/* only "deda" has them */
	values[Anum_feedback_expected - 1] = Float8GetDatum(feedback->expected);
	nulls[Anum_feedback_expected - 1] = skipped || feedback->expected == 0;
	values[Anum_feedback_lbck - 1] = Float8GetDatum(feedback->lbck);
	nulls[Anum_feedback_lbck - 1] = skipped || feedback->lbck == 0;

	values[Anum_feedback_expired - 1] = BoolGetDatum(true);
	nulls[Anum_feedback_expired - 1] = !settlement->expired;

	return insert_row(tables()->feedback, values, nulls, Natts_feedback,
					  tables()->feedback_pkey);
}

/* ----------
 * Reading
 * ----------
 */

/* A scan of a table by one of its indexes. */
typedef struct RowScan
{
	Relation	table;
	Relation	index;
	IndexScanDesc scan;
	TupleTableSlot *slot;
} RowScan;

/* By which index to scan. */
typedef enum LogOrder
{
	BY_ID,						/* of the decision */
	BY_XACT,					/* by bandit, epoch, xact */
	BY_SUBJECT					/* by bandit, subject, decision; decisions only */
} LogOrder;

static Oid
log_table(LogTable table)
{
	switch (table)
	{
		case LOG_DECISIONS:
			return tables()->decision;
		case LOG_SETTLEMENTS:
			return tables()->feedback;
		case LOG_TRIMMED:
			return tables()->trimmed;
	}
	return InvalidOid;			/* not reached */
}

static Oid
log_index(LogTable table, LogOrder order)
{
	switch (table)
	{
		case LOG_DECISIONS:
			return order == BY_ID ? tables()->decision_pkey :
				order == BY_XACT ? tables()->decision_log_idx :
				tables()->decision_subject_idx;
		case LOG_SETTLEMENTS:
			return order == BY_ID ? tables()->feedback_pkey :
				tables()->feedback_log_idx;
		case LOG_TRIMMED:
			return tables()->trimmed_log_idx;
	}
	return InvalidOid;			/* not reached */
}

static void
begin_rows(RowScan *rows, LogTable table, LogOrder order, Snapshot snapshot,
		   ScanKey keys, int nkeys)
{
	/* opening a table may bring news about its indexes, so ask for them then */
	rows->table = table_open_checked(log_table(table), AccessShareLock);
	rows->index = index_open(log_index(table, order), AccessShareLock);
	rows->slot = MakeSingleTupleTableSlot(RelationGetDescr(rows->table),
										  table_slot_callbacks(rows->table));
	rows->scan = BeginIndexScan(rows->table, rows->index, snapshot, nkeys);
	rows->scan->xs_want_itup = order == BY_XACT;
	index_rescan(rows->scan, keys, nkeys, NULL, 0);
}

static void
end_rows(RowScan *rows)
{
	index_endscan(rows->scan);
	ExecDropSingleTupleTableSlot(rows->slot);
	index_close(rows->index, AccessShareLock);
	table_close(rows->table, AccessShareLock);
}

/*
 * Find the row of a decision in one of the tables.
 */
static bool
begin_row_by_id(RowScan *rows, LogTable table, Snapshot snapshot, int64 decision_id)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(decision_id));
	begin_rows(rows, table, BY_ID, snapshot, &key, 1);
	return index_getnext_slot(rows->scan, ForwardScanDirection, rows->slot);
}

static double
float8_or_zero(Datum value, bool isnull)
{
	return isnull ? 0 : DatumGetFloat8(value);
}

/*
 * Return an arm counted from 0, or -1 for what is not an arm.
 */
static int32
arm_or_none(Datum value, bool isnull)
{
	int32		arm = isnull ? 0 : DatumGetInt32(value);

	return arm > 0 ? arm - 1 : -1;
}

static void
read_decision(TupleTableSlot *slot, Decision *decision)
{
	Datum	   *values = slot->tts_values;
	bool	   *nulls = slot->tts_isnull;
	Ticket	   *ticket = &decision->ticket;

	slot_getallattrs(slot);
	decision->decision_id = DatumGetInt64(values[Anum_decision_decision_id - 1]);
	decision->bandit_id = DatumGetInt32(values[Anum_decision_bandit_id - 1]);
	decision->epoch = DatumGetInt32(values[Anum_decision_epoch - 1]);
	decision->outstanding = DatumGetInt64(values[Anum_decision_outstanding - 1]);
	decision->delay = nulls[Anum_decision_delay - 1] ? NO_DELAY :
		DatumGetInt32(values[Anum_decision_delay - 1]);
	decision->decided_at = DatumGetTimestampTz(values[Anum_decision_decided_at - 1]);
	decision->subject = NULL;
	ticket->round = DatumGetInt64(values[Anum_decision_round - 1]);
	ticket->arm = arm_or_none(values[Anum_decision_arm - 1],
							  nulls[Anum_decision_arm - 1]);
	ticket->probability = DatumGetFloat8(values[Anum_decision_probability - 1]);
	ticket->gamma = DatumGetFloat8(values[Anum_decision_gamma - 1]);
	ticket->z = float8_or_zero(values[Anum_decision_z - 1],
							   nulls[Anum_decision_z - 1]);
	ticket->m = float8_or_zero(values[Anum_decision_m - 1],
							   nulls[Anum_decision_m - 1]);
}

static void
read_settlement(TupleTableSlot *slot, Settlement *settlement)
{
	Datum	   *values = slot->tts_values;
	bool	   *nulls = slot->tts_isnull;
	Feedback   *feedback = &settlement->feedback;

	slot_getallattrs(slot);
	settlement->decision_id = DatumGetInt64(values[Anum_feedback_decision_id - 1]);
	settlement->bandit_id = DatumGetInt32(values[Anum_feedback_bandit_id - 1]);
	settlement->epoch = DatumGetInt32(values[Anum_feedback_epoch - 1]);
	settlement->round = DatumGetInt64(values[Anum_feedback_round - 1]);
	settlement->received_at = DatumGetTimestampTz(values[Anum_feedback_received_at - 1]);
	settlement->skipped = nulls[Anum_feedback_loss - 1];
	settlement->expired = table_has_column(slot->tts_tupleDescriptor,
										   Anum_feedback_expired) &&
		!nulls[Anum_feedback_expired - 1];
	settlement->loss = float8_or_zero(values[Anum_feedback_loss - 1],
									  settlement->skipped);
	feedback->delay = DatumGetInt64(values[Anum_feedback_delay - 1]);
	feedback->arm = arm_or_none(values[Anum_feedback_arm - 1],
								nulls[Anum_feedback_arm - 1]);
	feedback->estimate = float8_or_zero(values[Anum_feedback_estimate - 1],
										nulls[Anum_feedback_estimate - 1]);
	feedback->expected = float8_or_zero(values[Anum_feedback_expected - 1],
										nulls[Anum_feedback_expected - 1]);
	feedback->lbck = float8_or_zero(values[Anum_feedback_lbck - 1],
									nulls[Anum_feedback_lbck - 1]);
}

/*
 * Return the numbers of an array without nulls.
 */
static const double *
read_numbers(Datum value, int *n)
{
	ArrayType  *array = DatumGetArrayTypeP(value);

	if (array_contains_nulls(array) || ARR_ELEMTYPE(array) != FLOAT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("wrong array in dexp3.trimmed")));
	*n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	return (const double *) ARR_DATA_PTR(array);
}

/*
 * Read a row of dexp3.trimmed; its vectors live in the current context.
 */
static void
read_trimmed(TupleTableSlot *slot, Trimmed *trimmed)
{
	Datum	   *values = slot->tts_values;
	int			m_arms;

	slot_getallattrs(slot);
	trimmed->xact = U64FromFullTransactionId(DatumGetFullTransactionId(values[Anum_trimmed_xact - 1]));
	trimmed->newest_xact =
		U64FromFullTransactionId(DatumGetFullTransactionId(values[Anum_trimmed_newest_xact - 1]));
	trimmed->rounds = DatumGetInt64(values[Anum_trimmed_rounds - 1]);
	trimmed->cumulative_delay = DatumGetFloat8(values[Anum_trimmed_cumulative_delay - 1]);
	trimmed->longest_delay = (double) DatumGetInt64(values[Anum_trimmed_longest_delay - 1]);
	trimmed->lbck = DatumGetFloat8(values[Anum_trimmed_lbck - 1]);
	trimmed->z = read_numbers(values[Anum_trimmed_z - 1], &trimmed->arms);
	trimmed->m = read_numbers(values[Anum_trimmed_m - 1], &m_arms);
	if (m_arms != trimmed->arms)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("wrong array in dexp3.trimmed")));
}

/*
 * Is the row that was fetched still the one of the index entry?  On a standby
 * vacuum does not wait for this scan, and its place may have been taken.
 */
static bool
is_same_row(LogTable table, TupleTableSlot *slot, int32 bandit_id, Datum xact)
{
	bool		isnull;
	Datum		row_bandit_id;
	Datum		row_xact;

	row_bandit_id = slot_getattr(slot, table == LOG_DECISIONS ? Anum_decision_bandit_id :
								 table == LOG_SETTLEMENTS ? Anum_feedback_bandit_id :
								 Anum_trimmed_bandit_id, &isnull);
	row_xact = slot_getattr(slot, table == LOG_DECISIONS ? Anum_decision_xact :
							table == LOG_SETTLEMENTS ? Anum_feedback_xact :
							Anum_trimmed_xact, &isnull);
	return DatumGetInt32(row_bandit_id) == bandit_id &&
		FullTransactionIdEquals(DatumGetFullTransactionId(row_xact),
								DatumGetFullTransactionId(xact));
}

/*
 * Visit the rows of a bandit that transactions from `from` on and before
 * `before` have written, if they are wanted.  With many sessions at work a good
 * part is not: then the index entry tells, and the row need not be fetched.
 */
void
log_scan(LogTable table, int32 bandit_id, int32 epoch, uint64 from, uint64 before,
		 LogFilter wanted, LogVisitor visit, void *context)
{
	RowScan		rows;
	ScanKeyData keys[4];
	MemoryContext vectors = NULL;

	/* the columns of the index: bandit_id, epoch, xact */
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(bandit_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(epoch));
	ScanKeyInit(&keys[2], 3, BTGreaterEqualStrategyNumber, F_XID8GE, xact_datum(from));
	ScanKeyInit(&keys[3], 3, BTLessStrategyNumber, F_XID8LT, xact_datum(before));

	begin_rows(&rows, table, BY_XACT, SnapshotSelf, keys, lengthof(keys));
	while (index_getnext_tid(rows.scan, ForwardScanDirection) != NULL)
	{
		bool		isnull;
		Datum		xact = index_getattr(rows.scan->xs_itup, 3,
										 rows.scan->xs_itupdesc, &isnull);

		CHECK_FOR_INTERRUPTS();
		if (!wanted(context, U64FromFullTransactionId(DatumGetFullTransactionId(xact))) ||
			!index_fetch_heap(rows.scan, rows.slot) ||
			!is_same_row(table, rows.slot, bandit_id, xact))
			continue;
		if (table == LOG_DECISIONS)
		{
			Decision	decision;

			read_decision(rows.slot, &decision);
			visit(context, &decision);
		}
		else if (table == LOG_SETTLEMENTS)
		{
			Settlement	settlement;

			read_settlement(rows.slot, &settlement);
			visit(context, &settlement);
		}
		else
		{
			Trimmed		trimmed;
			MemoryContext old;

			if (vectors == NULL)
				vectors = AllocSetContextCreate(CurrentMemoryContext, "dexp3 vectors",
												ALLOCSET_DEFAULT_SIZES);
			old = MemoryContextSwitchTo(vectors);
			read_trimmed(rows.slot, &trimmed);
			MemoryContextSwitchTo(old);
			visit(context, &trimmed);
			MemoryContextReset(vectors);
		}
	}
	end_rows(&rows);
	if (vectors != NULL)
		MemoryContextDelete(vectors);
}

/*
 * Find the newest decision of a subject that is wanted.
 */
bool
log_find_by_subject(int32 bandit_id, text *subject, DecisionFilter wanted,
					void *context, Decision *decision)
{
	RowScan		rows;
	ScanKeyData keys[2];
	Verdict		verdict = LOOK_ON;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(bandit_id));
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, PointerGetDatum(subject));
	begin_rows(&rows, LOG_DECISIONS, BY_SUBJECT, SnapshotSelf, keys, lengthof(keys));
	while (verdict == LOOK_ON &&
		   index_getnext_slot(rows.scan, BackwardScanDirection, rows.slot))
	{
		CHECK_FOR_INTERRUPTS();
		read_decision(rows.slot, decision);
		verdict = wanted(context, decision);
	}
	end_rows(&rows);
	return verdict == TAKE_IT;
}

bool
log_find_decision(int64 decision_id, Decision *decision)
{
	RowScan		rows;
	bool		found = begin_row_by_id(&rows, LOG_DECISIONS, SnapshotSelf, decision_id);

	if (found)
		read_decision(rows.slot, decision);
	end_rows(&rows);
	return found;
}

/*
 * Find out whether a decision is settled, also by somebody who has not
 * committed yet.  *settler is then that transaction, and *speculative_token is
 * not 0 as long as it may still withdraw the row.
 */
SettlementStatus
log_settlement_status(int64 decision_id, TransactionId *settler,
					  uint32 *speculative_token)
{
	SettlementStatus status = NOT_SETTLED;
	SnapshotData dirty;
	RowScan		rows;

	InitDirtySnapshot(dirty);
	if (begin_row_by_id(&rows, LOG_SETTLEMENTS, &dirty, decision_id))
	{
		if (TransactionIdIsValid(dirty.xmin))
		{
			status = BEING_SETTLED;
			*settler = dirty.xmin;
			*speculative_token = dirty.speculativeToken;
		}
		else
		{
			Settlement	settlement;

			read_settlement(rows.slot, &settlement);
			status = settlement.skipped ? IS_SKIPPED :
				settlement.expired ? IS_EXPIRED : IS_SETTLED;
		}
	}
	end_rows(&rows);
	return status;
}

/* ----------
 * Identifiers
 * ----------
 */

int64
log_next_decision_id(void)
{
	return nextval_internal(tables()->decision_id_seq, false);
}

/*
 * Return the last identifier that a sequence has given out.
 */
static int64
last_id(Oid sequence_id)
{
	Relation	rel = relation_open(sequence_id, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, SnapshotAny, 0, NULL);
	HeapTuple	tuple = systable_getnext(scan);
	Form_pg_sequence_data sequence = (Form_pg_sequence_data) GETSTRUCT(tuple);
	int64		result = sequence->is_called ? sequence->last_value :
		sequence->last_value - 1;

	systable_endscan(scan);
	relation_close(rel, AccessShareLock);
	return result;
}

/* The largest identifiers that this transaction has brought, or 0. */
static int64 largest_decision_id = 0;
static int32 largest_bandit_id = 0;

/*
 * Take note of a decision that arrives by COPY, a restore or replication.
 */
void
log_note_arrival(int64 decision_id)
{
	largest_decision_id = Max(largest_decision_id, decision_id);
}

/*
 * Likewise of a bandit, which may also be a new one.
 */
void
log_note_bandit(int32 bandit_id)
{
	largest_bandit_id = Max(largest_bandit_id, bandit_id);
}

/*
 * Move a sequence of identifiers past the given one.
 *
 * It must never be moved back, hence the lock; it is held for this moment only.
 * It is an advisory lock of a class that SQL cannot reach.
 */
static void
skip_ids(Oid sequence_id, int64 id)
{
	LOCKTAG		tag;

	if (id <= last_id(sequence_id))
		return;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, sequence_id, 3);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	if (id > last_id(sequence_id))
	{
		Oid			user;
		int			context;

		GetUserIdAndSecContext(&user, &context);
		SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID,
							   context | SECURITY_LOCAL_USERID_CHANGE);
		DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence_id),
							Int64GetDatum(id));
		SetUserIdAndSecContext(user, context);
	}
	(void) LockRelease(&tag, ExclusiveLock, false);
}

/*
 * Before a transaction commits: move the sequences past the identifiers that
 * have arrived.  Sequences are not replicated logically, so they would give out
 * identifiers that are taken.
 */
void
log_skip_arrived_ids(void)
{
	if (largest_decision_id > 0)
		skip_ids(tables()->decision_id_seq, largest_decision_id);
	if (largest_bandit_id > 0)
		skip_ids(tables()->bandit_id_seq, largest_bandit_id);
}

/*
 * At the end of a transaction.
 */
void
log_forget_arrivals(void)
{
	largest_decision_id = 0;
	largest_bandit_id = 0;
}
