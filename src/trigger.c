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
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "arguments.h"
#include "compat.h"
#include "settle.h"

PG_FUNCTION_INFO_V1(bandit_feedback_trigger);

/* Which columns of the user's table to look at. */
typedef struct FeedbackColumns
{
	int			decision;		/* attribute number */
	Oid			decision_type;	/* int2, int4 or int8 */
	int			value;			/* the loss or the reward */
	Oid			value_type;		/* a number */
	bool		is_reward;
} FeedbackColumns;

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static bool
is_number(Oid type)
{
	return is_integer(type) || type == FLOAT4OID || type == FLOAT8OID || type == NUMERICOID;
}

/*
 * Find a column by its name, and its type without domains, which must be as
 * wanted.
 */
static int
find_column(const TriggerData *trigdata, const char *name, bool (*fits) (Oid),
			const char *wanted, Oid *type)
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
	if (!fits(*type))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of trigger \"%s\" must be %s, not of type %s",
						name, trigdata->tg_trigger->tgname, wanted, format_type_be(*type))));
	return attno;
}

static void
read_trigger_arguments(const TriggerData *trigdata, FeedbackColumns *columns)
{
	char	  **args = trigdata->tg_trigger->tgargs;
	int			nargs = trigdata->tg_trigger->tgnargs;

	if (nargs < 2 || nargs > 3 || (nargs == 3 && strcmp(args[2], "reward") != 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger \"%s\" on table \"%s\" has wrong arguments",
						trigdata->tg_trigger->tgname,
						RelationGetRelationName(trigdata->tg_relation)),
				 errhint("Use bandit_feedback_trigger('decision column', 'loss column') "
						 "or bandit_feedback_trigger('decision column', 'reward column', 'reward').")));
	columns->is_reward = nargs == 3;
	columns->decision = find_column(trigdata, args[0], is_integer, "an integer",
									&columns->decision_type);
	columns->value = find_column(trigdata, args[1], is_number, "a number",
								 &columns->value_type);
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

	(void) settle_by_feedback(datum_to_int64(decision, columns->decision_type),
							  datum_to_double(value, columns->value_type),
							  columns->is_reward ? IS_REWARD : IS_LOSS);
}

/* A transition table that is being read. */
typedef struct TransitionReader
{
	Tuplestorestate *table;
	int			pointer;		/* must be selected before each read */
	TupleTableSlot *slot;
} TransitionReader;

/*
 * Begin to read a transition table from its start, without disturbing other
 * readers.
 */
static void
open_transition_table(TransitionReader *reader, Tuplestorestate *table, Relation rel)
{
	reader->table = table;
	reader->pointer = tuplestore_alloc_read_pointer(table, EXEC_FLAG_REWIND);
	reader->slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsMinimalTuple);
	tuplestore_select_read_pointer(table, reader->pointer);
	tuplestore_rescan(table);
}

static bool
next_row(TransitionReader *reader)
{
	tuplestore_select_read_pointer(reader->table, reader->pointer);
	return tuplestore_gettupleslot(reader->table, true, false, reader->slot);
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
	bool		update = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event);
	TransitionReader new;
	TransitionReader old = {0};
	bool		in_step = true;
	MemoryContext row_context;

	if (trigdata->tg_newtable == NULL || (update && trigdata->tg_oldtable == NULL))
		protocol_violated(trigdata, update ?
						  "with REFERENCING OLD TABLE and NEW TABLE, or FOR EACH ROW" :
						  "with REFERENCING NEW TABLE, or FOR EACH ROW");
	open_transition_table(&new, trigdata->tg_newtable, trigdata->tg_relation);
	if (update)
		open_transition_table(&old, trigdata->tg_oldtable, trigdata->tg_relation);

	row_context = AllocSetContextCreate(CurrentMemoryContext, "dexp3 feedback row",
										ALLOCSET_DEFAULT_SIZES);
	while (next_row(&new))
	{
		MemoryContext caller_context;

		in_step = !update || next_row(&old);
		if (!in_step)
			break;
		CHECK_FOR_INTERRUPTS();

		/* what the slots hold must outlive the row's own context */
		caller_context = MemoryContextSwitchTo(row_context);
		take_row(columns, old.slot, new.slot);
		MemoryContextSwitchTo(caller_context);
		MemoryContextReset(row_context);
	}
	if (!in_step || (update && next_row(&old)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("trigger \"%s\" cannot tell which rows of table \"%s\" were updated to which",
						trigdata->tg_trigger->tgname,
						RelationGetRelationName(trigdata->tg_relation)),
				 errdetail("A row was lost on its way to another partition."),
				 errhint("Use a trigger FOR EACH ROW.")));
	MemoryContextDelete(row_context);
	if (update)
		ExecDropSingleTupleTableSlot(old.slot);
	ExecDropSingleTupleTableSlot(new.slot);
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
	if (!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event))
		take_transition_tables(trigdata, &columns);
	else if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		take_row(&columns, trigdata->tg_trigslot, trigdata->tg_newslot);
	else
		take_row(&columns, NULL, trigdata->tg_trigslot);
	error_context_stack = context.previous;
	return PointerGetDatum(NULL);
}
