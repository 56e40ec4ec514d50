/*
 * tables.c
 *	  Find the extension's tables, notice when they change, write to them.
 *
 * The identifiers are looked up once.  An invalidation message for any of the
 * tables makes them stale.  dexp3.bandit also has a trigger that sends such a
 * message whenever a row of it changes, so that everything which was remembered
 * about bandits expires in all sessions when that change commits: caches compare
 * tables_generation().  tables_log_identity() changes when the log is another
 * one, because the extension was made again or the tables were truncated.
 *
 * Rows are inserted without the executor, but with what PostgreSQL promises to
 * the tables' owner: indexes are maintained, constraints checked, and triggers
 * AFTER INSERT FOR EACH ROW fired.  Triggers BEFORE INSERT or FOR EACH STATEMENT
 * and rules are for SQL statements only.  All that may run functions of the
 * owner's.  They must not use bandits, which are in the middle of something.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "tables.h"

static Tables known;
static bool known_valid = false;
static uint64 generation = 1;
static uint64 log_identity = 1;
static Oid	log_files[2];		/* of decision and feedback */

static bool inserting = false;

static void
relation_invalidated(Datum arg pg_attribute_unused(), Oid relid)
{
	const Oid  *oids = (const Oid *) &known;

	if (!known_valid)
		return;
	for (size_t i = 0; i < sizeof(Tables) / sizeof(Oid); i++)
	{
		if (relid == InvalidOid || relid == oids[i])
		{
			known_valid = false;
			generation++;
			return;
		}
	}
}

void
tables_init(void)
{
	CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
}

uint64
tables_log_identity(void)
{
	(void) tables();
	return log_identity;
}

/*
 * Return a number that changes whenever dexp3.bandit or the definition of one
 * of the tables may have changed.
 */
uint64
tables_generation(void)
{
	return generation;
}

static Oid
find(const char *name, Oid schema)
{
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"dexp3.%s\" does not exist", name),
				 errhint("Is the extension dexp3 installed in this database, in its current version?")));
	return relid;
}

/*
 * Return the file of a table, which TRUNCATE changes.
 */
static Oid
find_file(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			file;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	file = ((Form_pg_class) GETSTRUCT(tuple))->relfilenode;
	ReleaseSysCache(tuple);
	return file;
}

const Tables *
tables(void)
{
	Tables		found;
	Oid			files[2];
	Oid			schema;

	if (known_valid)
		return &known;

	schema = get_namespace_oid("dexp3", false);
	found.bandit = find("bandit", schema);
	found.bandit_pkey = find("bandit_pkey", schema);
	found.bandit_name_key = find("bandit_name_key", schema);
	found.bandit_id_seq = find("bandit_id_seq", schema);
	found.decision = find("decision", schema);
	found.decision_pkey = find("decision_pkey", schema);
	found.decision_log_idx = find("decision_log_idx", schema);
	found.decision_id_seq = find("decision_id_seq", schema);
	found.feedback = find("feedback", schema);
	found.feedback_pkey = find("feedback_pkey", schema);
	found.feedback_log_idx = find("feedback_log_idx", schema);
	found.checkpoint = find("checkpoint", schema);
	found.checkpoint_idx = find("checkpoint_idx", schema);

	files[0] = find_file(found.decision);
	files[1] = find_file(found.feedback);

	if (known.decision != found.decision || known.feedback != found.feedback ||
		memcmp(log_files, files, sizeof(files)) != 0)
		log_identity++;
	memcpy(log_files, files, sizeof(files));
	known = found;
	known_valid = true;
	return &known;
}

/* The types of their columns. */
static const Oid bandit_types[Natts_bandit] = {
	INT4OID, TEXTOID, TEXTARRAYOID, TEXTOID, BOOLOID, INT4OID, INT4OID, FLOAT8OID,
	INT4OID, TIMESTAMPTZOID, NAMEOID, NAMEARRAYOID
};
static const Oid decision_types[Natts_decision] = {
	INT8OID, INT4OID, INT4OID, INT8OID, INT8OID, FLOAT8OID, FLOAT8OID,
	TIMESTAMPTZOID, XID8OID, INT4OID, INT4OID, FLOAT8OID, FLOAT8OID
};
static const Oid feedback_types[Natts_feedback] = {
	INT8OID, INT4OID, INT4OID, INT8OID, INT8OID, TIMESTAMPTZOID, XID8OID,
	FLOAT8OID, FLOAT8OID, INT4OID, FLOAT8OID, FLOAT8OID
};
static const Oid checkpoint_types[Natts_checkpoint] = {
	INT4OID, INT4OID, INT8OID, TIMESTAMPTZOID, BYTEAOID
};

/*
 * Open one of the tables, which must have the columns that this library knows:
 * their owner might have changed them.  Behind those there may be others that
 * were added and dropped again.
 */
Relation
table_open_checked(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = table_open(relid, lockmode);
	TupleDesc	tupdesc = RelationGetDescr(rel);
	const Oid  *types;
	int			natts;
	bool		fits;

	/* opening it may have brought news about all of them */
	if (relid == tables()->decision)
		types = decision_types, natts = Natts_decision;
	else if (relid == tables()->feedback)
		types = feedback_types, natts = Natts_feedback;
	else if (relid == tables()->checkpoint)
		types = checkpoint_types, natts = Natts_checkpoint;
	else
		types = bandit_types, natts = Natts_bandit;

	fits = tupdesc->natts >= natts;
	for (int i = 0; fits && i < tupdesc->natts; i++)
		fits = i < natts ? TupleDescAttr(tupdesc, i)->atttypid == types[i] :
			TupleDescAttr(tupdesc, i)->attisdropped;
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"dexp3.%s\" does not have the columns that the library of dexp3 expects",
						RelationGetRelationName(rel)),
				 errhint("Drop columns that were added to it, or bring the extension up to date with ALTER EXTENSION dexp3 UPDATE.")));
	return rel;
}

/*
 * Fail if a function is called in the middle of an insertion.
 */
void
tables_refuse_while_inserting(void)
{
	if (inserting)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot use bandits while a row is inserted in schema \"dexp3\""),
				 errdetail("A trigger, constraint or index that was added to a table there calls a function that does.")));
}

static bool
insert_row(Relation rel, TupleTableSlot *slot, Oid if_new_in)
{
	EState	   *estate = CreateExecutorState();
	ResultRelInfo *relinfo = makeNode(ResultRelInfo);
	bool		conflict = false;
	List	   *recheck;

	/* it is in no range table */
	InitResultRelInfo(relinfo, rel, 0, NULL, 0);
	estate->es_opened_result_relations = list_make1(relinfo);
	ExecOpenIndices(relinfo, false);
	if (RelationGetDescr(rel)->constr != NULL)
		ExecConstraints(relinfo, slot, estate);

	if (OidIsValid(if_new_in))
	{
		TransactionId xid = GetCurrentTransactionId();
		uint32		token = SpeculativeInsertionLockAcquire(xid);

		table_tuple_insert_speculative(rel, slot, GetCurrentCommandId(true),
									   0, NULL, token);
		recheck = InsertIndexTuples(relinfo, slot, estate,
									list_make1_oid(if_new_in), &conflict);
		table_tuple_complete_speculative(rel, slot, token, !conflict);
		SpeculativeInsertionLockRelease(xid);
	}
	else
	{
		table_tuple_insert(rel, slot, GetCurrentCommandId(true), 0, NULL);
		recheck = InsertIndexTuples(relinfo, slot, estate, NIL, NULL);
	}

	/* foreign keys and deferrable constraints are triggers, too */
	if (!conflict && relinfo->ri_TrigDesc != NULL &&
		relinfo->ri_TrigDesc->trig_insert_after_row)
	{
		AfterTriggerBeginQuery();
		ExecARInsertTriggers(estate, relinfo, slot, recheck, NULL);
		AfterTriggerEndQuery(estate);
	}

	ExecResetTupleTable(estate->es_tupleTable, false);
	ExecCloseResultRelations(estate);
	FreeExecutorState(estate);
	return !conflict;
}

/*
 * Insert a row; privileges and read-only transactions are the caller's business.
 * If it conflicts with another one in the unique index if_new_in, be that
 * committed or not, it is not inserted, and false is returned.
 */
bool
table_insert_row(Oid relid, const Datum *values, const bool *nulls, int natts,
				 Oid if_new_in)
{
	Relation	rel = table_open_checked(relid, RowExclusiveLock);
	TupleDesc	tupdesc = RelationGetDescr(rel);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(tupdesc, table_slot_callbacks(rel));
	bool		inserted;

	memcpy(slot->tts_values, values, sizeof(Datum) * natts);
	memcpy(slot->tts_isnull, nulls, sizeof(bool) * natts);
	for (int i = natts; i < tupdesc->natts; i++)
		slot->tts_isnull[i] = true; /* dropped */
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = relid;

	inserting = true;
	PG_TRY();
	{
		inserted = insert_row(rel, slot, if_new_in);
	}
	PG_FINALLY();
	{
		inserting = false;
	}
	PG_END_TRY();

	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	return inserted;
}
