/*
 * warning.c
 *	  Feedback that was lost, in dexp3.warning.
 *
 * A trigger that must not make a statement fail leaves a row here for each feedback that
 * it could not give, with the statement's transaction.  The table is a ring for each
 * bandit and each owner of tables with triggers, so that nobody can fill it, or push out
 * what others have in it.  Whoever appends a row removes old ones, but never waits:
 * sessions that append at the same time may use the same number, and leave a few more
 * rows.
 */
#include "postgres.h"

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
#include "rowscan.h"
#include "tables.h"
#include "warning.h"

/* How many old rows are removed at once. */
#define MAX_REMOVED		10

/*
 * Begin a scan of a ring, up to a number.
 */
static void
begin_scan(RowScan *ring, int32 bandit_id, Oid owner, int64 up_to)
{
	ScanKeyData keys[3];

	/* the columns of the index are the first of the table */
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
	rows_begin(ring, tables()->warning, tables()->warning_idx, RowExclusiveLock, SnapshotSelf,
			   keys, lengthof(keys));
}

/*
 * Return the number of the newest row of a ring, or 0.
 */
static int64
newest_number(int32 bandit_id, Oid owner)
{
	RowScan		ring;
	int64		number = 0;
	bool		isnull;

	begin_scan(&ring, bandit_id, owner, PG_INT64_MAX);
	if (rows_next_from_end(&ring))
		number = DatumGetInt64(slot_getattr(ring.slot, Anum_warning_number, &isnull));
	rows_end(&ring);
	return number;
}

/*
 * Remove some rows of a ring that are too old, but only those that nobody else is
 * removing.
 */
static void
remove_old(int32 bandit_id, Oid owner, int64 up_to)
{
	RowScan		ring;

	begin_scan(&ring, bandit_id, owner, up_to);
	for (int i = 0; i < MAX_REMOVED && rows_next(&ring); i++)
		rows_delete(&ring);
	rows_end(&ring);
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
