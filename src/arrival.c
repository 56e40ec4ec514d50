/*
 * arrival.c
 *	  Rows that come to the extension's tables, or leave them, in another way than
 *	  by its functions: COPY, a restore, replication, an owner's SQL.
 *
 * Triggers, which always fire, stamp rows with the transaction that brings them,
 * and see to it that sums are made anew.  Before the transaction commits,
 * sequences are moved past the identifiers that have arrived: sequences are not
 * replicated logically, and would give out identifiers that are taken.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"

#include "arguments.h"
#include "arrival.h"
#include "checkpoint.h"
#include "insert.h"
#include "log.h"
#include "own.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(dexp3_log_arrival);
PG_FUNCTION_INFO_V1(dexp3_checkpoint_arrival);
PG_FUNCTION_INFO_V1(dexp3_log_changed);
PG_FUNCTION_INFO_V1(dexp3_bandit_changed);

/* ----------
 * Identifiers
 * ----------
 */

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
 * Before a transaction commits, move the sequences past the identifiers that have
 * arrived.
 */
static void
transaction_event(XactEvent event, void *arg pg_attribute_unused())
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:

			/*
			 * the extension may have been dropped, or its creation rolled
			 * back
			 */
			if ((largest_decision_id > 0 || largest_bandit_id > 0) && !tables_exist())
				break;
			if (largest_decision_id > 0)
				skip_ids(tables()->decision_id_seq, largest_decision_id);
			if (largest_bandit_id > 0)
				skip_ids(tables()->bandit_id_seq, largest_bandit_id);
			break;
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
			largest_decision_id = 0;
			largest_bandit_id = 0;
			break;
		default:
			break;
	}
}

void
arrival_init(void)
{
	RegisterXactCallback(transaction_event, NULL);
}

/* ----------
 * Triggers
 * ----------
 */

/*
 * Trigger on the tables of the log, for rows that come from COPY, a restore or
 * replication: xact is the transaction under which they become visible here,
 * whatever it was elsewhere.  A row that a publisher has updated comes with the
 * publisher's, too.
 */
Datum
dexp3_log_arrival(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	HeapTuple	tuple;
	TupleDesc	tupdesc;
	bool		is_update;
	Oid			relid;
	int			xact_attnos[2];
	int			nxacts = 1;
	Datum		xacts[2];
	bool		nulls[2] = {0};
	Datum		ids[3];
	bool		isnull[3];

	check_called_as_trigger(fcinfo, "log_arrival");
	is_update = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event);
	tuple = is_update ? trigdata->tg_newtuple : trigdata->tg_trigtuple;
	if (own_expects_changes())
		return PointerGetDatum(tuple);	/* trim.c knows */
	refuse_while_inserting();
	if (!TRIGGER_FIRED_BEFORE(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ||
		(!is_update && !TRIGGER_FIRED_BY_INSERT(trigdata->tg_event)))
		protocol_violated(trigdata, "BEFORE INSERT OR UPDATE FOR EACH ROW");

	/* nobody shall use it for a table of another shape */
	relid = RelationGetRelid(trigdata->tg_relation);
	if (relid == tables()->decision)
		xact_attnos[0] = Anum_decision_xact;
	else if (relid == tables()->feedback)
		xact_attnos[0] = Anum_feedback_xact;
	else if (relid == tables()->trimmed)
	{
		/* when the rows that are gone arrived here is not known */
		xact_attnos[0] = Anum_trimmed_xact;
		xact_attnos[1] = Anum_trimmed_newest_xact;
		nxacts = 2;
	}
	else
		protocol_violated(trigdata, "on dexp3.decision, dexp3.feedback or dexp3.trimmed");

	/* all of them begin with a decision, its bandit and its epoch */
	tupdesc = RelationGetDescr(trigdata->tg_relation);
	for (int i = 0; i < 3; i++)
		ids[i] = heap_getattr(tuple, i + 1, tupdesc, &isnull[i]);
	/* a null will be refused, but after this */
	if (relid == tables()->decision && !isnull[0])
		largest_decision_id = Max(largest_decision_id, DatumGetInt64(ids[0]));
	own_disturb(DatumGetInt32(ids[1]), DatumGetInt32(ids[2]));
	xacts[0] = xacts[1] = xact_datum(log_current_xact());
	return PointerGetDatum(heap_modify_tuple_by_cols(tuple, tupdesc, nxacts,
													 xact_attnos, xacts, nulls));
}

/*
 * Trigger on dexp3.checkpoint: rows that do not come from this cluster's own
 * sessions mean nothing here, and are dropped.
 */
Datum
dexp3_checkpoint_arrival(PG_FUNCTION_ARGS)
{
	check_called_as_trigger(fcinfo, "checkpoint_arrival");
	return PointerGetDatum(NULL);
}

/*
 * Trigger on the tables of the log: when they are truncated, or rows are changed
 * or deleted by somebody else than us, neither checkpoints nor sums hold any more.
 * A subscription fires triggers for rows only; the first row of a transaction or
 * subtransaction is enough.
 */
Datum
dexp3_log_changed(PG_FUNCTION_ARGS)
{
	static TransactionId changed_by = InvalidTransactionId;
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	check_called_as_trigger(fcinfo, "log_changed");
	if (!own_expects_changes() && !(TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) &&
									changed_by == GetCurrentTransactionId()))
	{
		changed_by = GetCurrentTransactionId();
		checkpoint_remove_all();
		own_disturb_all();
	}
	return PointerGetDatum(NULL);
}

/*
 * Trigger on dexp3.bandit: tell all sessions, this one included, to forget what
 * they know about bandits; and keep the identifier of a new one from being given
 * out again, wherever it comes from.
 */
Datum
dexp3_bandit_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	check_called_as_trigger(fcinfo, "bandit_changed");
	if (TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) &&
		TRIGGER_FIRED_BY_INSERT(trigdata->tg_event) &&
		RelationGetRelid(trigdata->tg_relation) == tables()->bandit)
	{
		bool		isnull;
		Datum		bandit_id = heap_getattr(trigdata->tg_trigtuple, Anum_bandit_bandit_id,
											 RelationGetDescr(trigdata->tg_relation),
											 &isnull);

		largest_bandit_id = Max(largest_bandit_id, DatumGetInt32(bandit_id));
	}
	CacheInvalidateRelcache(trigdata->tg_relation);
	return PointerGetDatum(NULL);
}
