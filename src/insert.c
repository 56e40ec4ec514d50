/*
 * insert.c
 *	  Inserting rows into the extension's tables, without the executor.
 *
 * Privileges and read-only transactions are the caller's business.  What
 * PostgreSQL promises to the tables' owner is kept: indexes are maintained,
 * constraints checked, and triggers AFTER INSERT FOR EACH ROW fired.  Triggers
 * BEFORE INSERT or FOR EACH STATEMENT and rules are for SQL statements only.  All
 * that may run functions of the owner's.  They must not use bandits, which are in
 * the middle of something.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "insert.h"
#include "tables.h"

/* How many rows are written at once. */
#define MAX_BUFFERED_ROWS	500

struct RowInserter
{
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *relinfo;
	BulkInsertState bulk;		/* NULL for a single row */
	int			capacity;
	int			nslots;			/* rows that wait to be written */
	TupleTableSlot *slots[FLEXIBLE_ARRAY_MEMBER];	/* made when first needed */
};

static bool inserting = false;

/*
 * Fail if a function is called in the middle of an insertion.
 */
void
refuse_while_inserting(void)
{
	if (inserting)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot use bandits while a row is inserted in schema \"dexp3\""),
				 errdetail("A trigger, constraint or index that was added to a table there calls a function that does.")));
}

/*
 * Let functions that use bandits be refused, or not any more.
 */
void
set_inserting(bool now)
{
	inserting = now;
}

/*
 * Open the indexes of a table as ExecOpenIndices() does, except one that will
 * have no entries.
 */
static void
open_indexes(ResultRelInfo *relinfo, Oid without)
{
	List	   *indexes = RelationGetIndexList(relinfo->ri_RelationDesc);
	ListCell   *lc;
	int			n = 0;

	relinfo->ri_IndexRelationDescs = palloc(sizeof(Relation) * list_length(indexes));
	relinfo->ri_IndexRelationInfo = palloc(sizeof(IndexInfo *) * list_length(indexes));
	foreach(lc, indexes)
	{
		Relation	index;

		if (lfirst_oid(lc) == without)
			continue;
		index = index_open(lfirst_oid(lc), RowExclusiveLock);
		relinfo->ri_IndexRelationDescs[n] = index;
		relinfo->ri_IndexRelationInfo[n] = BuildIndexInfo(index);
		n++;
	}
	relinfo->ri_NumIndices = n;
	list_free(indexes);
}

/*
 * Begin to insert rows.  For decisions it must be known in advance whether they
 * will have a subject: most have none, and then the partial index of subjects
 * shall cost nothing.
 */
static RowInserter *
begin(Oid relid, bool subjects, int capacity)
{
	RowInserter *inserter = palloc0(offsetof(RowInserter, slots) +
									capacity * sizeof(TupleTableSlot *));

	inserter->capacity = capacity;
	inserter->rel = table_open_checked(relid, RowExclusiveLock);
	inserter->estate = CreateExecutorState();
	inserter->relinfo = makeNode(ResultRelInfo);
	/* it is in no range table */
	InitResultRelInfo(inserter->relinfo, inserter->rel, 0, NULL, 0);
	inserter->estate->es_opened_result_relations = list_make1(inserter->relinfo);
	open_indexes(inserter->relinfo,
				 subjects ? InvalidOid : tables()->decision_subject_idx);
	return inserter;
}

static TupleTableSlot *
next_slot(RowInserter *inserter, const Datum *values, const bool *nulls, int natts)
{
	Relation	rel = inserter->rel;
	int			table_natts = RelationGetNumberOfAttributes(rel);
	TupleTableSlot *slot = inserter->slots[inserter->nslots];

	if (slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(inserter));

		slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), table_slot_callbacks(rel));
		inserter->slots[inserter->nslots] = slot;
		MemoryContextSwitchTo(old);
	}
	ExecClearTuple(slot);

	/* a table may lack the newest columns, or have dropped ones at the end */
	natts = Min(natts, table_natts);
	memcpy(slot->tts_values, values, sizeof(Datum) * natts);
	memcpy(slot->tts_isnull, nulls, sizeof(bool) * natts);
	for (int i = natts; i < table_natts; i++)
		slot->tts_isnull[i] = true;
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(rel);
	return slot;
}

static void
check_constraints(RowInserter *inserter, TupleTableSlot *slot)
{
	if (RelationGetDescr(inserter->rel)->constr != NULL)
		ExecConstraints(inserter->relinfo, slot, inserter->estate);
}

/*
 * Fire the triggers of a row; foreign keys and deferrable constraints are
 * triggers, too.
 */
static void
fire_triggers(RowInserter *inserter, TupleTableSlot *slot, List *recheck)
{
	ResultRelInfo *relinfo = inserter->relinfo;

	if (relinfo->ri_TrigDesc == NULL || !relinfo->ri_TrigDesc->trig_insert_after_row)
		return;
	AfterTriggerBeginQuery();
	ExecARInsertTriggers(inserter->estate, relinfo, slot, recheck, NULL);
	AfterTriggerEndQuery(inserter->estate);
}

static bool
write_row(RowInserter *inserter, TupleTableSlot *slot, Oid if_new_in)
{
	Relation	rel = inserter->rel;
	bool		conflict = false;
	List	   *recheck;

	check_constraints(inserter, slot);
	if (OidIsValid(if_new_in))
	{
		TransactionId xid = GetCurrentTransactionId();
		uint32		token = SpeculativeInsertionLockAcquire(xid);

		table_tuple_insert_speculative(rel, slot, GetCurrentCommandId(true),
									   0, NULL, token);
		recheck = InsertIndexTuples(inserter->relinfo, slot, inserter->estate,
									list_make1_oid(if_new_in), &conflict);
		table_tuple_complete_speculative(rel, slot, token, !conflict);
		SpeculativeInsertionLockRelease(xid);
	}
	else
	{
		table_tuple_insert(rel, slot, GetCurrentCommandId(true), 0, NULL);
		recheck = InsertIndexTuples(inserter->relinfo, slot, inserter->estate,
									NIL, NULL);
	}
	if (!conflict)
		fire_triggers(inserter, slot, recheck);
	return !conflict;
}

static void
write_buffered(RowInserter *inserter)
{
	for (int i = 0; i < inserter->nslots; i++)
		check_constraints(inserter, inserter->slots[i]);
	table_multi_insert(inserter->rel, inserter->slots, inserter->nslots,
					   GetCurrentCommandId(true), 0, inserter->bulk);
	for (int i = 0; i < inserter->nslots; i++)
	{
		TupleTableSlot *slot = inserter->slots[i];

		fire_triggers(inserter, slot,
					  InsertIndexTuples(inserter->relinfo, slot, inserter->estate,
										NIL, NULL));
		ResetPerTupleExprContext(inserter->estate);
	}
	inserter->nslots = 0;
}

/*
 * Write a row, or those that are buffered, and meanwhile refuse to be called
 * again.
 */
static bool
write_guarded(RowInserter *inserter, TupleTableSlot *slot, Oid if_new_in)
{
	volatile bool inserted = true;

	inserting = true;
	PG_TRY();
	{
		if (slot != NULL)
			inserted = write_row(inserter, slot, if_new_in);
		else
			write_buffered(inserter);
	}
	PG_FINALLY();
	{
		inserting = false;
	}
	PG_END_TRY();
	return inserted;
}

static void
end(RowInserter *inserter)
{
	for (int i = 0; i < inserter->capacity && inserter->slots[i] != NULL; i++)
		ExecDropSingleTupleTableSlot(inserter->slots[i]);
	ExecResetTupleTable(inserter->estate->es_tupleTable, false);
	ExecCloseResultRelations(inserter->estate);
	FreeExecutorState(inserter->estate);
	table_close(inserter->rel, NoLock);
	pfree(inserter);
}

/*
 * Insert a row.  If it conflicts with another one in the unique index
 * if_new_in, be that committed or not, it is not inserted, and false is returned.
 */
bool
insert_row(Oid relid, const Datum *values, const bool *nulls, int natts, Oid if_new_in)
{
	bool		subject = relid == tables()->decision &&
		!nulls[Anum_decision_subject - 1];
	RowInserter *inserter = begin(relid, subject, 1);
	TupleTableSlot *slot = next_slot(inserter, values, nulls, natts);
	bool		inserted = write_guarded(inserter, slot, if_new_in);

	end(inserter);
	return inserted;
}

/*
 * Insert many rows: decisions without subjects.  They are written some hundred at
 * a time, the last ones by insert_end().
 */
RowInserter *
insert_begin(Oid relid)
{
	RowInserter *inserter = begin(relid, false, MAX_BUFFERED_ROWS);

	inserter->bulk = GetBulkInsertState();
	return inserter;
}

void
insert_one_of_many(RowInserter *inserter, const Datum *values, const bool *nulls,
				   int natts)
{
	ExecMaterializeSlot(next_slot(inserter, values, nulls, natts));
	if (++inserter->nslots == inserter->capacity)
		(void) write_guarded(inserter, NULL, InvalidOid);
}

void
insert_end(RowInserter *inserter)
{
	if (inserter->nslots > 0)
		(void) write_guarded(inserter, NULL, InvalidOid);
	table_finish_bulk_insert(inserter->rel, 0);
	FreeBulkInsertState(inserter->bulk);
	end(inserter);
}
