/*
 * arrival.c
 *	  Rows that come to the extension's tables, or leave them, in other ways than through
 *	  its functions: COPY, a restore, replication, an owner's SQL.
 *
 * Triggers, which always fire, refuse impossible rows, stamp the others with the
 * transaction that brings them, and see to it that sums are made anew.  Before the
 * transaction commits, sequences are moved past the identifiers that have arrived, and
 * have not been rolled back: sequences are not replicated logically, and would give out
 * identifiers that are taken.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/xid8.h"

#include "arguments.h"
#include "arrival.h"
#include "bandit.h"
#include "checkpoint.h"
#include "component.h"
#include "insert.h"
#include "log.h"
#include "node.h"
#include "own.h"
#include "settlement.h"
#include "shared.h"
#include "tables.h"
#include "validate.h"

PG_FUNCTION_INFO_V1(dexp3_log_arrival);
PG_FUNCTION_INFO_V1(dexp3_checkpoint_arrival);
PG_FUNCTION_INFO_V1(dexp3_log_changed);
PG_FUNCTION_INFO_V1(dexp3_bandit_changed);
PG_FUNCTION_INFO_V1(dexp3_component_arrival);
PG_FUNCTION_INFO_V1(dexp3_component_changed);

/* ----------
 * Identifiers
 * ----------
 */

/*
 * The largest identifiers that this transaction has brought, or 0: those of decisions,
 * for each node.
 */
typedef struct Arrived
{
	bool		any;
	int32		bandit_id;
	int64		decision_id[MAX_NODE + 1];
} Arrived;

static Arrived arrived;

/* What they were before each open subtransaction that has brought some. */
typedef struct SavedArrived
{
	struct SavedArrived *outer;
	SubTransactionId subid;
	Arrived		before;
} SavedArrived;

static SavedArrived *saved = NULL;	/* the memory is the transaction's */

/*
 * Prepare for identifiers that have arrived.
 */
static void
note_arrival(void)
{
	SubTransactionId subid = GetCurrentSubTransactionId();

	if (subid != TopSubTransactionId && (saved == NULL || saved->subid != subid))
	{
		SavedArrived *save = MemoryContextAlloc(TopTransactionContext, sizeof(SavedArrived));

		save->outer = saved;
		save->subid = subid;
		save->before = arrived;
		saved = save;
	}
	arrived.any = true;
}

static void
note_decision_id(int64 decision_id)
{
	int			node = node_of_decision(decision_id);

	if (node < 0)
		return;
	note_arrival();
	arrived.decision_id[node] = Max(arrived.decision_id[node], decision_id);
}

static void
note_bandit_id(int32 bandit_id)
{
	note_arrival();
	arrived.bandit_id = Max(arrived.bandit_id, bandit_id);
}

/*
 * What a subtransaction has brought goes with it, or becomes its parent's.
 */
static void
subtransaction_event(SubXactEvent event, SubTransactionId subid,
					 SubTransactionId parent, void *arg pg_attribute_unused())
{
	if (saved == NULL || saved->subid != subid)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		arrived = saved->before;
		saved = saved->outer;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		if (parent == TopSubTransactionId ||
			(saved->outer != NULL && saved->outer->subid == parent))
			saved = saved->outer;
		else
			saved->subid = parent;
	}
}

/*
 * Move the sequences past the identifiers that have arrived.  Those of other nodes
 * are in nobody's way.  A commit must not fail because the extension has been dropped
 * meanwhile, its creation rolled back, or something else put in its place.
 */
static void
skip_arrived_ids(void)
{
	int			node;

	if (!arrived.any || tables_if_there() == NULL)
		return;
	node = own_node();
	if (node >= 0 && node <= MAX_NODE)
		skip_ids(tables()->decision_id_seq, arrived.decision_id[node]);
	skip_ids(tables()->bandit_id_seq, arrived.bandit_id);
}

static void
transaction_event(XactEvent event, void *arg pg_attribute_unused())
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			skip_arrived_ids();
			break;
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
			if (arrived.any)
				memset(&arrived, 0, sizeof(arrived));
			saved = NULL;
			break;
		default:
			break;
	}
}

void
arrival_init(void)
{
	RegisterXactCallback(transaction_event, NULL);
	RegisterSubXactCallback(subtransaction_event, NULL);
}

/* ----------
 * Triggers
 * ----------
 */

/*
 * Let all sums be made anew from the log.  If that is because of rows, the first one of a
 * transaction or subtransaction is enough.
 */
static void
forget_sums(bool for_row)
{
	static TransactionId forgotten_by = InvalidTransactionId;

	if (for_row && forgotten_by == GetCurrentTransactionId())
		return;
	forgotten_by = GetCurrentTransactionId();
	checkpoint_remove_all();
	own_disturb_all();
}

/*
 * Refuse a row for decisions that are settled already.  If another row of dexp3.feedback
 * has settled the same decision, the primary key refuses the row.
 */
static void
check_not_settled(Relation rel, HeapTuple tuple, DecisionRow *row)
{
	bool		is_batch = RelationGetRelid(rel) == tables()->expiry;
	const int64 *ids = &row->decision_id;
	int			n = 1;

	if (is_batch)
	{
		bool		isnull;
		ArrayType  *decisions = DatumGetArrayTypeP(heap_getattr(tuple, Anum_expiry_decisions,
																RelationGetDescr(rel), &isnull));

		ids = (const int64 *) ARR_DATA_PTR(decisions);
		n = ARR_DIMS(decisions)[0];
	}
	for (int i = 0; i < n; i++)
	{
		Settlement	settlement;

		row->decision_id = ids[i];
		if (is_batch ? settlement_find(row, &settlement) != NOT_SETTLED :
			settlement_find_batch(row->bandit_id, row->epoch, row->decision_id, &settlement))
			ereport(ERROR,
					(errcode(ERRCODE_UNIQUE_VIOLATION),
					 errmsg("decision " INT64_FORMAT " of a row for \"dexp3.%s\" is settled already",
							row->decision_id, RelationGetRelationName(rel))));
	}
}

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
	DecisionRow row = {0};
	Settlement	settlement;
	bool		isnull;

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

	/* nobody may use it for a table of another shape */
	relid = RelationGetRelid(trigdata->tg_relation);
	if (relid == tables()->decision)
		xact_attnos[0] = Anum_decision_xact;
	else if (relid == tables()->feedback)
		xact_attnos[0] = Anum_feedback_xact;
	else if (relid == tables()->expiry)
		xact_attnos[0] = Anum_expiry_xact;
	else if (relid == tables()->trimmed)
	{
		/* it is not known when the rows that are gone arrived here */
		xact_attnos[0] = Anum_trimmed_xact;
		xact_attnos[1] = Anum_trimmed_newest_xact;
		nxacts = 2;
	}
	else
		protocol_violated(trigdata, "on dexp3.decision, dexp3.feedback, dexp3.expiry or dexp3.trimmed");

	table_check(trigdata->tg_relation);
	validate_log_row(trigdata->tg_relation, tuple);

	/* all of them begin with a decision, its bandit and its epoch */
	tupdesc = RelationGetDescr(trigdata->tg_relation);
	for (int i = 0; i < 3; i++)
		ids[i] = heap_getattr(tuple, i + 1, tupdesc, &isnull);
	row.decision_id = DatumGetInt64(ids[0]);
	row.bandit_id = DatumGetInt32(ids[1]);
	row.epoch = DatumGetInt32(ids[2]);
	if (relid == tables()->decision)
	{
		note_decision_id(row.decision_id);

		/*
		 * checkpoints may have its batch, which counted for nothing without
		 * it
		 */
		if (settlement_find_batch(row.bandit_id, row.epoch, row.decision_id, &settlement))
			forget_sums(true);
	}
	else if (relid != tables()->trimmed && !is_update)
		check_not_settled(trigdata->tg_relation, tuple, &row);
	if (relid == tables()->expiry)
		shared_note_batch(row.bandit_id, row.epoch,
						  DatumGetInt64(heap_getattr(tuple, Anum_expiry_last_decision,
													 tupdesc, &isnull)));
	own_disturb(row.bandit_id, row.epoch);
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
 * Trigger on the tables of the log: when they are truncated, or rows are changed or
 * deleted by somebody other than us, neither checkpoints nor sums hold any more.  A
 * subscription fires triggers for rows only.
 */
Datum
dexp3_log_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	check_called_as_trigger(fcinfo, "log_changed");
	if (!own_expects_changes())
		forget_sums(TRIGGER_FIRED_FOR_ROW(trigdata->tg_event));
	return PointerGetDatum(NULL);
}

/*
 * Trigger on dexp3.bandit: refuse a bandit that cannot be; tell all sessions, this
 * one included, to forget what they know about bandits; and keep the identifier of a
 * new one from being given out again, wherever it comes from.
 */
Datum
dexp3_bandit_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	check_called_as_trigger(fcinfo, "bandit_changed");
	if (TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) &&
		!TRIGGER_FIRED_BY_DELETE(trigdata->tg_event) &&
		RelationGetRelid(trigdata->tg_relation) == tables()->bandit)
	{
		HeapTuple	tuple = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event) ?
			trigdata->tg_newtuple : trigdata->tg_trigtuple;

		table_check(trigdata->tg_relation);
		note_bandit_id(bandit_check_row(tuple, RelationGetDescr(trigdata->tg_relation)));
	}
	CacheInvalidateRelcache(trigdata->tg_relation);
	return PointerGetDatum(NULL);
}

/* ----------
 * What other servers have published
 * ----------
 */

/*
 * Trigger on dexp3.component, for rows of other servers.  Whichever way they come, and
 * however often, only a newer version than the one that is here is kept, and older ones
 * are removed.
 *
 * A row with our own number, newer than ours, is not ours: another server uses the same
 * number.  It never counts, and dexp3.nodes shows it.
 */
Datum
dexp3_component_arrival(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	TupleDesc	tupdesc;
	HeapTuple	tuple;
	Datum		values[Anum_component_version];
	bool		isnull;
	text	   *bandit;
	int32		node;
	int64		version;
	int64		newest;
	int64		ours;
	TimestampTz written_at;
	bool		stranger;

	check_called_as_trigger(fcinfo, "component_arrival");
	if (!TRIGGER_FIRED_BEFORE(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(trigdata->tg_event) ||
		RelationGetRelid(trigdata->tg_relation) != tables()->component)
		protocol_violated(trigdata, "BEFORE INSERT FOR EACH ROW on dexp3.component");
	refuse_while_inserting();
	table_check(trigdata->tg_relation);
	tuple = trigdata->tg_trigtuple;
	tupdesc = RelationGetDescr(trigdata->tg_relation);
	for (int i = 0; i < Anum_component_version; i++)
	{
		values[i] = heap_getattr(tuple, i + 1, tupdesc, &isnull);
		if (isnull)
			return PointerGetDatum(tuple);	/* which will be refused */
	}
	bandit = DatumGetTextPP(values[Anum_component_bandit - 1]);
	node = DatumGetInt32(values[Anum_component_node - 1]);
	version = DatumGetInt64(values[Anum_component_version - 1]);

	/*
	 * a version that is not a time would keep its server from ever publishing
	 * again
	 */
	if (version >= END_TIMESTAMP)
		return PointerGetDatum(NULL);
	if (component_find_newest(bandit, node, ALL_ROWS, &newest, &written_at) && newest >= version)
		return PointerGetDatum(NULL);
	stranger = node == own_node() &&
		component_find_newest(bandit, node, VALID_ROWS, &ours, &written_at);
	component_remove_older(bandit, node, version,
						   stranger ? OLDER_OF_STRANGER : OLDER_OF_OTHERS, false);
	own_note_arrival(bandit);
	if (stranger)
	{
		int			attno = Anum_component_forgotten;
		Datum		forgotten = BoolGetDatum(true);

		isnull = false;
		tuple = heap_modify_tuple_by_cols(tuple, tupdesc, 1, &attno, &forgotten, &isnull);
	}
	return PointerGetDatum(tuple);
}

static void
note_component(HeapTuple tuple, TupleDesc tupdesc)
{
	bool		isnull;

	own_note_arrival(DatumGetTextPP(heap_getattr(tuple, Anum_component_bandit, tupdesc,
												 &isnull)));
}

/*
 * Trigger on dexp3.component: rows were changed or removed by somebody other than us.
 */
Datum
dexp3_component_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	check_called_as_trigger(fcinfo, "component_changed");
	if (!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ||
		RelationGetRelid(trigdata->tg_relation) != tables()->component)
	{
		own_note_arrival_for_all();
		return PointerGetDatum(NULL);
	}
	note_component(trigdata->tg_trigtuple, RelationGetDescr(trigdata->tg_relation));
	if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		note_component(trigdata->tg_newtuple, RelationGetDescr(trigdata->tg_relation));
	return PointerGetDatum(NULL);
}
