/*
 * compat.h
 *	  The differences between the supported versions of PostgreSQL, 15 to 19.
 */
#ifndef DEXP3_COMPAT_H
#define DEXP3_COMPAT_H

#include "access/genam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_attribute.h"
#include "executor/executor.h"
#include "fmgr.h"

#if PG_VERSION_NUM < 150000
#error "dexp3 needs PostgreSQL 15 or later"
#endif

#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#include "varatt.h"

/* Call an input function, reporting errors to escontext if it takes them. */
static inline bool
InputFunctionCallSoft(PGFunction func, char *str, Node *escontext, Datum *result)
{
	return DirectInputFunctionCallSafe(func, str, InvalidOid, -1, escontext,
									   result);
}

#else

/* Before 16, every error is a hard one. */
#define errsave(context, ...)	ereport(ERROR, __VA_ARGS__)

static inline bool
InputFunctionCallSoft(PGFunction func, char *str, Node *escontext, Datum *result)
{
	(void) escontext;
	*result = DirectFunctionCall3(func, CStringGetDatum(str),
								  ObjectIdGetDatum(InvalidOid),
								  Int32GetDatum(-1));
	return true;
}
#endif

/*
 * Insert the index entries of a new row.  A conflict in one of the listed unique
 * indexes is reported at once and without an error.  Returns the indexes whose
 * constraints must be checked later.
 */
static inline List *
InsertIndexTuples(ResultRelInfo *relinfo, TupleTableSlot *slot, EState *estate,
				  List *if_new_in, bool *conflict)
{
#if PG_VERSION_NUM >= 190000
	return ExecInsertIndexTuples(relinfo, estate, if_new_in != NIL ? EIIT_NO_DUPE_ERROR : 0,
								 slot, if_new_in, conflict);
#elif PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(relinfo, slot, estate, false, if_new_in != NIL,
								 conflict, if_new_in, false);
#else
	return ExecInsertIndexTuples(relinfo, slot, estate, false, if_new_in != NIL,
								 conflict, if_new_in);
#endif
}

/* Begin an index scan without order-by operators. */
static inline IndexScanDesc
BeginIndexScan(Relation table, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(table, index, snapshot, NULL, nkeys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(table, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(table, index, snapshot, nkeys, 0);
#endif
}

/* Delete a row, without waiting for anybody. */
static inline void
DeleteTuple(Relation rel, ItemPointer tid, Snapshot snapshot)
{
	TM_FailureData failure;

#if PG_VERSION_NUM >= 190000
	(void) table_tuple_delete(rel, tid, GetCurrentCommandId(true), 0, snapshot,
							  InvalidSnapshot, false, &failure);
#else
	(void) table_tuple_delete(rel, tid, GetCurrentCommandId(true), snapshot,
							  InvalidSnapshot, false, &failure, false);
#endif
}

/* Since 19 a row type that was made column by column must be completed. */
#if PG_VERSION_NUM < 190000
#define TupleDescFinalize(desc)		((void) 0)
#endif

/*
 * Make a kind of lightweight lock.  Before 19 each session must be told its name.
 */
#if PG_VERSION_NUM >= 190000
#define NewTranche(name)			LWLockNewTrancheId(name)
#define NameTranche(tranche, name)	((void) 0)
#else
#define NewTranche(name)			LWLockNewTrancheId()
#define NameTranche(tranche, name)	LWLockRegisterTranche(tranche, name)
#endif

/* The oldest transaction that the commit log knows.  XactTruncationLock protects it. */
#if PG_VERSION_NUM >= 170000
#define OldestClogXid	(TransamVariables->oldestClogXid)
#else
#define OldestClogXid	(ShmemVariableCache->oldestClogXid)
#endif

/* Is exactly this lock held? */
#if PG_VERSION_NUM >= 170000
#define IsLockHeldByMe(tag, mode)	LockHeldByMe(tag, mode, false)
#else
#define IsLockHeldByMe(tag, mode)	LockHeldByMe(tag, mode)
#endif

/* Since 17 a dshash table copies keys by a function. */
#if PG_VERSION_NUM >= 170000
#define SetDshashCopyFunction(params)	((params)->copy_function = dshash_memcpy)
#else
#define SetDshashCopyFunction(params)	((void) 0)
#endif

/* Virtual generated columns came with 18.  A trigger cannot see them. */
#ifdef ATTRIBUTE_GENERATED_VIRTUAL
#define IsVirtualColumn(attribute) \
	((attribute)->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
#else
#define IsVirtualColumn(attribute)	false
#endif

#if PG_VERSION_NUM >= 180000
#define DEXP3_MODULE_MAGIC	PG_MODULE_MAGIC_EXT(.name = "dexp3")
#else
#define DEXP3_MODULE_MAGIC	PG_MODULE_MAGIC
#endif

#endif							/* DEXP3_COMPAT_H */
