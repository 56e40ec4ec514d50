/*
 * warning.c
 *	  Feedback that was lost, in dexp3.warning.
 *
 * A trigger that shall not make a statement fail leaves a row here for each feedback
 * that it could not give, with the statement's transaction.  The table is a ring for each
 * bandit and each owner of tables with triggers, so that nobody can fill it, or push out
 * what others have in it.  Whoever appends a row removes old ones, but never waits:
 * sessions that append at the same time may use the same number, and leave a few rows
 * more.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "insert.h"
#include "tables.h"
#include "warning.h"

/* How many old rows are removed at once. */
#define MAX_REMOVED		10

/* A scan over a ring. */
typedef struct RingScan
{
	Relation	rel;
	Relation	index;
	SysScanDesc scan;
} RingScan;

/*
 * Begin a scan of a ring, up to a number.
 */
static void
begin_scan(RingScan *ring, int32 bandit_id, Oid owner, int64 up_to)
{
	ScanKeyData keys[3];

	if (bandit_id != 0)
		ScanKeyInit(&keys[0], Anum_warning_bandit_id, BTEqualStrategyNumber,
					F_INT4EQ, Int32GetDatum(bandit_id));
	else
		ScanKeyEntryInitialize(&keys[0], SK_ISNULL | SK_SEARCHNULL, Anum_warning_bandit_id,
							   InvalidStrategy, InvalidOid, InvalidOid, InvalidOid, (Datum) 0);
	ScanKeyInit(&keys[1], Anum_warning_table_owner, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(owner));
	ScanKeyInit(&keys[2], Anum_warning_number, BTLessEqualStrategyNumber,
				F_INT8LE, Int64GetDatum(up_to));
	ring->rel = table_open_checked(tables()->warning, RowExclusiveLock);
	ring->index = index_open(tables()->warning_idx, RowExclusiveLock);
	ring->scan = systable_beginscan_ordered(ring->rel, ring->index, SnapshotSelf, 3, keys);
}

static void
end_scan(RingScan *ring)
{
	systable_endscan_ordered(ring->scan);
	index_close(ring->index, NoLock);
	table_close(ring->rel, NoLock);
}

/*
 * Return the number of the newest row of a ring, or 0.
 */
static int64
newest_number(int32 bandit_id, Oid owner)
{
	RingScan	ring;
	HeapTuple	tuple;
	int64		number = 0;
	bool		isnull;

	begin_scan(&ring, bandit_id, owner, PG_INT64_MAX);
	tuple = systable_getnext_ordered(ring.scan, BackwardScanDirection);
	if (tuple != NULL)
		number = DatumGetInt64(heap_getattr(tuple, Anum_warning_number,
											RelationGetDescr(ring.rel), &isnull));
	end_scan(&ring);
	return number;
}

/*
 * Remove some rows of a ring that are too old, but only those that nobody else is just
 * removing, nor this very command has written.
 */
static void
remove_old(int32 bandit_id, Oid owner, int64 up_to)
{
	RingScan	ring;
	HeapTuple	tuple;
	int			removed = 0;

	begin_scan(&ring, bandit_id, owner, up_to);
	while (removed < MAX_REMOVED &&
		   (tuple = systable_getnext_ordered(ring.scan, ForwardScanDirection)) != NULL)
	{
		TM_FailureData failure;

		removed++;
		if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(tuple->t_data)) &&
			HeapTupleHeaderGetRawCommandId(tuple->t_data) >= GetCurrentCommandId(false))
			continue;
		(void) table_tuple_delete(ring.rel, &tuple->t_self,
								  GetCurrentCommandId(true), SnapshotSelf,
								  InvalidSnapshot, false, &failure, false);
	}
	end_scan(&ring);
}

/*
 * Take the right to append rows, without waiting.
 */
bool
warning_lock(void)
{
	return ConditionalLockRelationOid(tables()->warning, RowExclusiveLock);
}

/*
 * Append a row about a trigger on a table.
 */
void
warning_append(const Warning *warning, Relation table, const char *trigger)
{
	Datum		values[Natts_warning];
	bool		nulls[Natts_warning] = {0};
	Oid			owner = table->rd_rel->relowner;
	NameData	trigger_name;
	NameData	role;
	int64		number;

	namestrcpy(&trigger_name, trigger);
	namestrcpy(&role, GetUserNameFromId(GetUserId(), false));
	number = newest_number(warning->bandit_id, owner) + 1;

	values[Anum_warning_bandit_id - 1] = Int32GetDatum(warning->bandit_id);
	nulls[Anum_warning_bandit_id - 1] = warning->bandit_id == 0;
	values[Anum_warning_table_owner - 1] = ObjectIdGetDatum(owner);
	values[Anum_warning_number - 1] = Int64GetDatum(number);
	values[Anum_warning_warned_at - 1] = TimestampTzGetDatum(time_of_action());
	values[Anum_warning_role - 1] = NameGetDatum(&role);
	values[Anum_warning_table_name - 1] =
		CStringGetTextDatum(quote_qualified_identifier(get_namespace_name(RelationGetNamespace(table)),
													   RelationGetRelationName(table)));
	values[Anum_warning_trigger_name - 1] = NameGetDatum(&trigger_name);
	values[Anum_warning_decision_id - 1] = Int64GetDatum(warning->decision_id);
	nulls[Anum_warning_decision_id - 1] = !warning->has_decision;
	values[Anum_warning_sqlstate - 1] = CStringGetTextDatum(unpack_sql_state(warning->sqlstate));
	values[Anum_warning_message - 1] = CStringGetTextDatum(warning->message);
	insert_row(tables()->warning, values, nulls, Natts_warning);
	if (number > MAX_WARNINGS)
		remove_old(warning->bandit_id, owner, number - MAX_WARNINGS);
}
