/*
 * ownersql.c
 *	  SQL on the extension's tables, with the rights of their owner.
 *
 * For what happens seldom; choose and feedback do without.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "ownersql.h"
#include "tables.h"

/*
 * Run a statement with the rights of the tables' owner and a safe search_path,
 * and return how many rows it affected.  It sees what has been committed by now,
 * as look-ups of bandits do, whatever the isolation level.
 *
 * Each row of the result, if it has any, is visited in the caller's memory context, but
 * must be copied if it is to be kept.
 */
uint64
run_as_owner(const char *sql, int nargs, Oid *types, Datum *values,
			 const char *nulls, RowVisitor visit, void *context)
{
	Relation	rel = table_open(tables()->bandit, AccessShareLock);
	Oid			owner = rel->rd_rel->relowner;
	MemoryContext caller = CurrentMemoryContext;
	SPIPlanPtr	plan;
	Oid			user;
	int			security;
	int			nest_level;
	uint64		processed;

	table_close(rel, AccessShareLock);
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(owner, security | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);

	SPI_connect();
	plan = SPI_prepare(sql, nargs, types);
	if (plan == NULL ||
		SPI_execute_snapshot(plan, values, nulls, GetLatestSnapshot(),
							 InvalidSnapshot, false, true, 0) < 0)
		elog(ERROR, "could not execute: %s", sql);
	processed = SPI_processed;
	for (uint64 i = 0; visit != NULL && SPI_tuptable != NULL && i < processed; i++)
	{
		MemoryContext spi = MemoryContextSwitchTo(caller);

		visit(context, SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
		MemoryContextSwitchTo(spi);
	}
	SPI_finish();

	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, security);
	return processed;
}

void
add_integer(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	List	  **list = context;
	bool		isnull;

	*list = lappend_int(*list, DatumGetInt32(heap_getattr(tuple, 1, tupdesc, &isnull)));
}

void
keep_row(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	KeptRow    *row = context;

	Assert(tupdesc->natts <= MAX_KEPT_COLUMNS);
	heap_deform_tuple(heap_copytuple(tuple), tupdesc, row->values, row->nulls);
}
