/*
 * insert.c
 *	  Inserting rows into the extension's tables, without the executor.
 *
 * Privileges and read-only transactions are the caller's business.  What PostgreSQL
 * promises to the tables' owner is kept: indexes are maintained, constraints checked, and
 * triggers AFTER INSERT FOR EACH ROW fired.  Triggers BEFORE INSERT or FOR EACH STATEMENT
 * and rules are for SQL statements only.  All of that may run functions of the owner's.
 * They must not use bandits, which are in the middle of something.
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
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

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
 * Start or stop refusing functions that use bandits.
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
 * Begin to insert rows.  For decisions it must be known in advance whether they will have
 * a subject: most have none, and then the partial index of subjects should cost nothing.
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

/*
 * Let a row wait to be written.
 */
static void
add_row(RowInserter *inserter, const Datum *values, const bool *nulls, int natts)
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

	/* a table may have dropped columns at the end */
	memcpy(slot->tts_values, values, sizeof(Datum) * natts);
	memcpy(slot->tts_isnull, nulls, sizeof(bool) * natts);
	for (int i = natts; i < table_natts; i++)
		slot->tts_isnull[i] = true;
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(rel);
	ExecMaterializeSlot(slot);
	inserter->nslots++;
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

/*
 * Return the unique indexes whose key is exactly the first column, a decision's
 * identifier.  While REINDEX CONCURRENTLY is at work there are two.
 */
static List *
unique_indexes(const ResultRelInfo *relinfo)
{
	List	   *result = NIL;

	for (int i = 0; i < relinfo->ri_NumIndices; i++)
	{
		const IndexInfo *info = relinfo->ri_IndexRelationInfo[i];

		if (info->ii_Unique && info->ii_NumIndexKeyAttrs == 1 &&
			info->ii_IndexAttrNumbers[0] == 1 && info->ii_Predicate == NIL)
			result = lappend_oid(result, RelationGetRelid(relinfo->ri_IndexRelationDescs[i]));
	}
	return result;
}

/*
 * Write the rows that wait.  With a check, which is for a single row, it is withdrawn
 * if there is another one with the same first column, or if the check says so.
 * Returns false then.
 */
static bool
write_rows(RowInserter *inserter, RowCheck check, void *context)
{
	Relation	rel = inserter->rel;
	TupleTableSlot **slots = inserter->slots;
	CommandId	cid;
	uint32		token = 0;
	List	   *unique = NIL;
	bool		conflict = false;

	for (int i = 0; i < inserter->nslots && RelationGetDescr(rel)->constr != NULL; i++)
		ExecConstraints(inserter->relinfo, slots[i], inserter->estate);
	cid = GetCurrentCommandId(true);
	if (check != NULL)
	{
		unique = unique_indexes(inserter->relinfo);
		token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
		table_tuple_insert_speculative(rel, slots[0], cid, 0, NULL, token);
	}
	else if (inserter->bulk == NULL)
		table_tuple_insert(rel, slots[0], cid, 0, NULL);
	else
		table_multi_insert(rel, slots, inserter->nslots, cid, 0, inserter->bulk);

	for (int i = 0; i < inserter->nslots; i++)
	{
		List	   *recheck = InsertIndexTuples(inserter->relinfo, slots[i],
												inserter->estate, unique, &conflict);

		if (check != NULL)
		{
			conflict = conflict || !check(context);
			table_tuple_complete_speculative(rel, slots[i], token, !conflict);
			SpeculativeInsertionLockRelease(GetCurrentTransactionId());
		}
		if (!conflict)
			fire_triggers(inserter, slots[i], recheck);
		ResetPerTupleExprContext(inserter->estate);
	}
	inserter->nslots = 0;
	return !conflict;
}

/*
 * The same, and meanwhile refuse to be called again.
 */
static bool
write_guarded(RowInserter *inserter, RowCheck check, void *context)
{
	volatile bool inserted = true;

	inserting = true;
	PG_TRY();
	{
		inserted = write_rows(inserter, check, context);
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
 * Insert one row, perhaps after a look at others: insert_begin_one(), then insert_one_if()
 * or insert_none().
 */
RowInserter *
insert_begin_one(Oid relid)
{
	return begin(relid, false, 1);
}

/*
 * Is there a row with this number in its first column, whether committed or not?  The
 * index must be the unique one of that column.
 */
bool
insert_is_there(RowInserter *inserter, Oid index, int64 key)
{
	const ResultRelInfo *relinfo = inserter->relinfo;
	bool		found = false;

	for (int i = 0; i < relinfo->ri_NumIndices; i++)
	{
		Relation	rel = relinfo->ri_IndexRelationDescs[i];
		SnapshotData dirty;
		ScanKeyData scankey;
		IndexScanDesc scan;
		TupleTableSlot *slot;

		if (RelationGetRelid(rel) != index)
			continue;
		InitDirtySnapshot(dirty);
		ScanKeyInit(&scankey, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(key));
		scan = BeginIndexScan(inserter->rel, rel, &dirty, 1);
		index_rescan(scan, &scankey, 1, NULL, 0);
		slot = MakeSingleTupleTableSlot(RelationGetDescr(inserter->rel),
										table_slot_callbacks(inserter->rel));
		found = index_getnext_slot(scan, ForwardScanDirection, slot);
		ExecDropSingleTupleTableSlot(slot);
		index_endscan(scan);
	}
	return found;
}

/*
 * Insert a row speculatively: everybody can find it in the indexes, but may have to wait
 * for our decision, which is a matter of moments.  If there is another one with the same
 * first column, whether committed or not, or if the check then says no, it is withdrawn,
 * and false is returned.  Without a check, just insert it.
 */
bool
insert_one_if(RowInserter *inserter, const Datum *values, const bool *nulls, int natts,
			  RowCheck check, void *context)
{
	bool		inserted;

	add_row(inserter, values, nulls, natts);
	inserted = write_guarded(inserter, check, context);
	end(inserter);
	return inserted;
}

void
insert_none(RowInserter *inserter)
{
	end(inserter);
}

void
insert_row(Oid relid, const Datum *values, const bool *nulls, int natts)
{
	bool		subject = relid == tables()->decision &&
		!nulls[Anum_decision_subject - 1];

	(void) insert_one_if(begin(relid, subject, 1), values, nulls, natts, NULL, NULL);
}

/*
 * Insert many rows: decisions without subjects.  They are written some hundreds at a
 * time, the last ones by insert_end().
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
	add_row(inserter, values, nulls, natts);
	if (inserter->nslots == inserter->capacity)
		insert_flush(inserter);
}

/*
 * Write the rows that are waiting.
 */
void
insert_flush(RowInserter *inserter)
{
	if (inserter->nslots > 0)
		(void) write_guarded(inserter, NULL, NULL);
}

void
insert_end(RowInserter *inserter)
{
	insert_flush(inserter);
	table_finish_bulk_insert(inserter->rel, 0);
	FreeBulkInsertState(inserter->bulk);
	end(inserter);
}
