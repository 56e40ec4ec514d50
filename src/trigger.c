/*
 * trigger.c
 *	  bandit_feedback_trigger(): take feedback from the rows of a user's table.
 *
 *	CREATE TRIGGER ... AFTER INSERT OR UPDATE ON t FOR EACH ROW
 *		EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
 *
 * or FOR EACH STATEMENT with transition tables, one trigger an event.  A row
 * whose loss or decision is null has no effect.  An UPDATE counts where the loss
 * was null and no longer is.
 *
 * Also the triggers that keep the log in order when rows reach it in another
 * way than from bandit_choose and bandit_feedback.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"
#include "utils/xid8.h"

#include "arguments.h"
#include "checkpoint.h"
#include "compat.h"
#include "current.h"
#include "feedback.h"
#include "insert.h"
#include "log.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(bandit_feedback_trigger);
PG_FUNCTION_INFO_V1(bandit_log_arrival);
PG_FUNCTION_INFO_V1(bandit_checkpoint_arrival);
PG_FUNCTION_INFO_V1(bandit_log_truncated);
PG_FUNCTION_INFO_V1(bandit_changed);

/* Which columns of the user's table to look at. */
typedef struct FeedbackColumns
{
	int			decision;		/* attribute number */
	Oid			decision_type;	/* int2, int4 or int8 */
	int			value;			/* the loss or the reward */
	Oid			value_type;		/* a number */
	bool		is_reward;
} FeedbackColumns;

static void
check_called_as_trigger(FunctionCallInfo fcinfo, const char *function)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be called as a trigger", function)));
}

static void
protocol_violated(const TriggerData *trigdata, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("trigger \"%s\" on table \"%s\" must be fired %s",
					trigdata->tg_trigger->tgname,
					RelationGetRelationName(trigdata->tg_relation), problem)));
}

static void
wrong_arguments(const TriggerData *trigdata)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("trigger \"%s\" on table \"%s\" has wrong arguments",
					trigdata->tg_trigger->tgname,
					RelationGetRelationName(trigdata->tg_relation)),
			 errhint("Use bandit_feedback_trigger('decision column', 'loss column') "
					 "or bandit_feedback_trigger('decision column', 'reward column', 'reward').")));
}

/*
 * Find a column by its name, and its type without domains.
 */
static int
find_column(const TriggerData *trigdata, const char *name, Oid *type)
{
	TupleDesc	tupdesc = RelationGetDescr(trigdata->tg_relation);
	int			attno = SPI_fnumber(tupdesc, name);

	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of trigger \"%s\" does not exist in table \"%s\"",
						name, trigdata->tg_trigger->tgname,
						RelationGetRelationName(trigdata->tg_relation))));
	if (IsVirtualColumn(TupleDescAttr(tupdesc, attno - 1)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" of trigger \"%s\" is a virtual generated column",
						name, trigdata->tg_trigger->tgname),
				 errhint("Make it a stored generated column.")));
	*type = getBaseType(SPI_gettypeid(tupdesc, attno));
	return attno;
}

static void
wrong_type(const TriggerData *trigdata, const char *column, Oid type,
		   const char *wanted)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("column \"%s\" of trigger \"%s\" must be %s, not of type %s",
					column, trigdata->tg_trigger->tgname, wanted,
					format_type_be(type))));
}

static void
read_trigger_arguments(const TriggerData *trigdata, FeedbackColumns *columns)
{
	char	  **args = trigdata->tg_trigger->tgargs;
	int			nargs = trigdata->tg_trigger->tgnargs;

	if (nargs < 2 || nargs > 3 || (nargs == 3 && strcmp(args[2], "reward") != 0))
		wrong_arguments(trigdata);
	columns->is_reward = nargs == 3;

	columns->decision = find_column(trigdata, args[0], &columns->decision_type);
	switch (columns->decision_type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			break;
		default:
			wrong_type(trigdata, args[0], columns->decision_type, "an integer");
	}

	columns->value = find_column(trigdata, args[1], &columns->value_type);
	switch (columns->value_type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
			break;
		default:
			wrong_type(trigdata, args[1], columns->value_type, "a number");
	}
}

static int64
datum_to_int64(Datum value, Oid type)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

static double
datum_to_double(Datum value, Oid type)
{
	switch (type)
	{
		case FLOAT4OID:
			return DatumGetFloat4(value);
		case FLOAT8OID:
			return DatumGetFloat8(value);
		case NUMERICOID:
			return DatumGetFloat8(DirectFunctionCall1(numeric_float8, value));
		default:
			return (double) datum_to_int64(value, type);
	}
}

/*
 * Give the feedback of one row; old is what it was before an UPDATE, or NULL.
 */
static void
take_row(const FeedbackColumns *columns, TupleTableSlot *old, TupleTableSlot *new)
{
	bool		decision_null;
	bool		value_null;
	bool		old_null = true;
	Datum		decision = slot_getattr(new, columns->decision, &decision_null);
	Datum		value = slot_getattr(new, columns->value, &value_null);

	if (old != NULL)
		(void) slot_getattr(old, columns->value, &old_null);
	if (decision_null || value_null || !old_null)
		return;

	(void) give_feedback(datum_to_int64(decision, columns->decision_type),
						 datum_to_double(value, columns->value_type),
						 columns->is_reward ? IS_REWARD : IS_LOSS);
}

static void
take_tuple(const TriggerData *trigdata, const FeedbackColumns *columns)
{
	TupleDesc	tupdesc = RelationGetDescr(trigdata->tg_relation);
	bool		update = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event);
	TupleTableSlot *new = MakeSingleTupleTableSlot(tupdesc, &TTSOpsHeapTuple);
	TupleTableSlot *old = NULL;

	if (update)
	{
		old = MakeSingleTupleTableSlot(tupdesc, &TTSOpsHeapTuple);
		ExecStoreHeapTuple(trigdata->tg_trigtuple, old, false);
	}
	ExecStoreHeapTuple(update ? trigdata->tg_newtuple : trigdata->tg_trigtuple,
					   new, false);
	take_row(columns, old, new);
	if (update)
		ExecDropSingleTupleTableSlot(old);
	ExecDropSingleTupleTableSlot(new);
}

/*
 * Begin to read a transition table from its start, without disturbing other
 * readers; what select_reader() returns must be selected before each read.
 */
static int
open_transition_table(Tuplestorestate *table)
{
	int			reader = tuplestore_alloc_read_pointer(table, EXEC_FLAG_REWIND);

	tuplestore_select_read_pointer(table, reader);
	tuplestore_rescan(table);
	return reader;
}

static bool
next_row(Tuplestorestate *table, int reader, TupleTableSlot *slot)
{
	tuplestore_select_read_pointer(table, reader);
	return tuplestore_gettupleslot(table, true, false, slot);
}

/*
 * Take the rows of a statement in one pass.
 *
 * The executor puts the old and the new version of a row into their tables at
 * the same time, so the two go in step.  The exception is a row that moves to
 * another partition and is thrown away there by a trigger: that is refused, once
 * it is noticed at the end, since it is unknown which rows belong together.
 */
static void
take_transition_tables(const TriggerData *trigdata, const FeedbackColumns *columns)
{
	TupleDesc	tupdesc = RelationGetDescr(trigdata->tg_relation);
	bool		update = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event);
	Tuplestorestate *new_table = trigdata->tg_newtable;
	Tuplestorestate *old_table = trigdata->tg_oldtable;
	TupleTableSlot *new;
	TupleTableSlot *old = NULL;
	int			new_reader;
	int			old_reader = 0;
	bool		in_step = true;
	MemoryContext row_context;

	if (new_table == NULL || (update && old_table == NULL))
		protocol_violated(trigdata, update ?
						  "with REFERENCING OLD TABLE and NEW TABLE, or FOR EACH ROW" :
						  "with REFERENCING NEW TABLE, or FOR EACH ROW");

	new = MakeSingleTupleTableSlot(tupdesc, &TTSOpsMinimalTuple);
	new_reader = open_transition_table(new_table);
	if (update)
	{
		old = MakeSingleTupleTableSlot(tupdesc, &TTSOpsMinimalTuple);
		old_reader = open_transition_table(old_table);
	}

	row_context = AllocSetContextCreate(CurrentMemoryContext, "dexp3 feedback row",
										ALLOCSET_DEFAULT_SIZES);
	while (next_row(new_table, new_reader, new))
	{
		MemoryContext caller_context;

		in_step = !update || next_row(old_table, old_reader, old);
		if (!in_step)
			break;
		CHECK_FOR_INTERRUPTS();

		/* what the slots hold must outlive the row's own context */
		caller_context = MemoryContextSwitchTo(row_context);
		take_row(columns, old, new);
		MemoryContextSwitchTo(caller_context);
		MemoryContextReset(row_context);
	}
	if (!in_step || (update && next_row(old_table, old_reader, old)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("trigger \"%s\" cannot tell which rows of table \"%s\" were updated to which",
						trigdata->tg_trigger->tgname,
						RelationGetRelationName(trigdata->tg_relation)),
				 errdetail("A row was lost on its way to another partition."),
				 errhint("Use a trigger FOR EACH ROW.")));
	MemoryContextDelete(row_context);

	if (update)
		ExecDropSingleTupleTableSlot(old);
	ExecDropSingleTupleTableSlot(new);
}

/*
 * Name the trigger in the context of errors that feedback raises.
 */
static void
trigger_error_context(void *arg)
{
	const TriggerData *trigdata = arg;

	errcontext("trigger \"%s\" on table \"%s\"", trigdata->tg_trigger->tgname,
			   RelationGetRelationName(trigdata->tg_relation));
}

Datum
bandit_feedback_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	FeedbackColumns columns;
	ErrorContextCallback context;

	check_called_as_trigger(fcinfo, "bandit_feedback_trigger");
	if (!TRIGGER_FIRED_AFTER(trigdata->tg_event))
		protocol_violated(trigdata, "AFTER the event");
	if (!TRIGGER_FIRED_BY_INSERT(trigdata->tg_event) &&
		!TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		protocol_violated(trigdata, "by INSERT or UPDATE");

	read_trigger_arguments(trigdata, &columns);

	context.callback = trigger_error_context;
	context.arg = trigdata;
	context.previous = error_context_stack;
	error_context_stack = &context;
	if (TRIGGER_FIRED_FOR_ROW(trigdata->tg_event))
		take_tuple(trigdata, &columns);
	else
		take_transition_tables(trigdata, &columns);
	error_context_stack = context.previous;
	return PointerGetDatum(NULL);
}

/*
 * Trigger on the tables of the log, for rows that come from COPY, a restore or
 * replication: xact is the transaction under which they become visible here,
 * whatever it was elsewhere.
 */
Datum
bandit_log_arrival(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	TupleDesc	tupdesc;
	Oid			relid;
	int			bandit_attno = 0;
	int			xact_attnos[2];
	int			nxacts = 1;
	Datum		xacts[2];
	bool		nulls[2] = {0};
	bool		isnull;

	check_called_as_trigger(fcinfo, "log_arrival");
	refuse_while_inserting();
	if (!TRIGGER_FIRED_BEFORE(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(trigdata->tg_event))
		protocol_violated(trigdata, "BEFORE INSERT FOR EACH ROW");

	/* nobody shall use it for a table of another shape */
	relid = RelationGetRelid(trigdata->tg_relation);
	if (relid == tables()->decision)
	{
		bandit_attno = Anum_decision_bandit_id;
		xact_attnos[0] = Anum_decision_xact;
	}
	else if (relid == tables()->feedback)
	{
		bandit_attno = Anum_feedback_bandit_id;
		xact_attnos[0] = Anum_feedback_xact;
	}
	else if (relid == tables()->trimmed)
	{
		/* when the rows that are gone arrived here is not known */
		bandit_attno = Anum_trimmed_bandit_id;
		xact_attnos[0] = Anum_trimmed_xact;
		xact_attnos[1] = Anum_trimmed_newest_xact;
		nxacts = 2;
	}
	else
		protocol_violated(trigdata, "on dexp3.decision, dexp3.feedback or dexp3.trimmed");

	tupdesc = RelationGetDescr(trigdata->tg_relation);
	if (relid == tables()->decision)
	{
		Datum		decision_id = heap_getattr(trigdata->tg_trigtuple,
											   Anum_decision_decision_id,
											   tupdesc, &isnull);

		if (!isnull)			/* a null will be refused, but after this */
			log_note_arrival(DatumGetInt64(decision_id));
	}
	current_rows_arrive(DatumGetInt32(heap_getattr(trigdata->tg_trigtuple,
												   bandit_attno, tupdesc, &isnull)));
	xacts[0] = xacts[1] = FullTransactionIdGetDatum(FullTransactionIdFromU64(log_current_xact()));
	return PointerGetDatum(heap_modify_tuple_by_cols(trigdata->tg_trigtuple, tupdesc,
													 nxacts, xact_attnos, xacts, nulls));
}

/*
 * Trigger on dexp3.checkpoint: rows that do not come from this cluster's own
 * sessions mean nothing here, and are dropped.
 */
Datum
bandit_checkpoint_arrival(PG_FUNCTION_ARGS)
{
	check_called_as_trigger(fcinfo, "checkpoint_arrival");
	return PointerGetDatum(NULL);
}

/*
 * Trigger on dexp3.decision and dexp3.feedback: when they are truncated,
 * checkpoints tell of rows that are gone.
 */
Datum
bandit_log_truncated(PG_FUNCTION_ARGS)
{
	check_called_as_trigger(fcinfo, "log_truncated");
	checkpoint_remove_all();
	return PointerGetDatum(NULL);
}

/*
 * Trigger on dexp3.bandit: tell all sessions, this one included, to forget what
 * they know about bandits; and keep the identifier of a new one from being given
 * out again, wherever it comes from.
 */
Datum
bandit_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	check_called_as_trigger(fcinfo, "bandit_changed");
	if (TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) &&
		TRIGGER_FIRED_BY_INSERT(trigdata->tg_event) &&
		RelationGetRelid(trigdata->tg_relation) == tables()->bandit)
	{
		bool		isnull;

		log_note_bandit(DatumGetInt32(heap_getattr(trigdata->tg_trigtuple,
												   Anum_bandit_bandit_id,
												   RelationGetDescr(trigdata->tg_relation),
												   &isnull)));
	}
	CacheInvalidateRelcache(trigdata->tg_relation);
	return PointerGetDatum(NULL);
}
