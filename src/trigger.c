/*
 * trigger.c
 *	  bandit_feedback_trigger(): take feedback from the rows of a user's table.
 *
 *	CREATE TRIGGER ... AFTER INSERT OR UPDATE ON t FOR EACH ROW
 *		EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
 *
 * or FOR EACH STATEMENT with transition tables, one trigger per event.  A row whose loss
 * or decision is null has no effect.  An UPDATE counts where the loss was null and no
 * longer is or, if the loss is a constant, the decision was.
 *
 * Feedback is not worth an order.  With 'warn', what is wrong with it becomes a
 * warning.  All errors of ours come up while a decision is looked at, so that is done
 * in a subtransaction, which does not write and so gets no transaction identifier,
 * unless a checkpoint happens to be due.  The feedback itself is written outside:
 * thousands of rows in one statement do not make thousands of subtransactions that
 * all other sessions would have to look up.  At the end the warnings are written to
 * dexp3.warning, all of them in one subtransaction.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/tuplestore.h"

#include "arguments.h"
#include "compat.h"
#include "settle.h"
#include "warning.h"

PG_FUNCTION_INFO_V1(bandit_feedback_trigger);

/* Where the feedback is in a row of the user's table. */
typedef struct FeedbackSource
{
	const TriggerData *trigdata;
	FeedbackKind kind;
	bool		warn;			/* do errors become warnings? */
	bool		is_constant;
	double		constant;		/* the value, if it is one */
	MemoryContext context;		/* what warnings are kept in */
	List	   *warnings;		/* the last ones, to be written at the end */

	bool		columns_found;
	int			decision;		/* attribute number */
	Oid			decision_type;	/* int2, int4 or int8 */
	int			value;			/* the loss or the reward, if it is a column */
	Oid			value_type;		/* a number or a boolean */
} FeedbackSource;

/* A row of it, and what has become of that. */
typedef struct FeedbackFromRow
{
	FeedbackSource *source;
	TupleTableSlot *old;		/* before an UPDATE, or NULL */
	TupleTableSlot *new;
	bool		has_decision;
	int64		decision_id;
	Settling	settling;
	bool		is_open;		/* is there something to be written? */
} FeedbackFromRow;

/* ----------
 * Arguments and columns
 * ----------
 */

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static bool
is_outcome(Oid type)
{
	return is_integer(type) || type == FLOAT4OID || type == FLOAT8OID || type == NUMERICOID ||
		type == BOOLOID;
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

/*
 * Find the columns, once.
 */
static void
find_columns(FeedbackSource *source)
{
	char	  **args = source->trigdata->tg_trigger->tgargs;

	if (source->columns_found)
		return;
	source->decision = find_column(source->trigdata, args[0], is_integer, "an integer",
								   &source->decision_type);
	if (!source->is_constant)
		source->value = find_column(source->trigdata, args[1], is_outcome,
									"a number or a boolean", &source->value_type);
	source->columns_found = true;
}

/*
 * Read a constant: '=' and a number.
 */
static bool
read_constant(const char *arg, double *constant)
{
	char	   *end;

	*constant = strtod(arg + 1, &end);
	return end > arg + 1 && *end == '\0';
}

static void
read_trigger_arguments(const TriggerData *trigdata, FeedbackSource *source)
{
	char	  **args = trigdata->tg_trigger->tgargs;
	int			nargs = trigdata->tg_trigger->tgnargs;
	int			wrong = nargs;	/* the first one that is wrong */

	memset(source, 0, sizeof(FeedbackSource));
	source->trigdata = trigdata;
	source->context = CurrentMemoryContext;
	source->kind = IS_LOSS;
	for (int i = 2; i < nargs; i++)
	{
		if (strcmp(args[i], "reward") == 0 && source->kind == IS_LOSS)
			source->kind = IS_REWARD;
		else if (strcmp(args[i], "warn") == 0 && !source->warn)
			source->warn = true;
		else
			wrong = Min(wrong, i);
	}
	source->is_constant = nargs >= 2 && args[1][0] == '=';
	if (source->is_constant && !read_constant(args[1], &source->constant))
		wrong = 1;
	if (nargs < 2 || wrong < nargs)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger \"%s\" on table \"%s\" has wrong arguments",
						trigdata->tg_trigger->tgname,
						RelationGetRelationName(trigdata->tg_relation)),
				 nargs < 2 ? errdetail("It has %d, and needs two or more.", nargs) :
				 errdetail("Argument %d is \"%s\".", wrong + 1, args[wrong]),
				 errhint("Use bandit_feedback_trigger('decision column', 'loss column'). "
						 "A constant such as '=1' may be in the place of the loss column, "
						 "and 'reward' and 'warn' may follow.")));
}

/* ----------
 * One row
 * ----------
 */

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
		case BOOLOID:
			return DatumGetBool(value) ? 1 : 0;
		case FLOAT4OID:
			return DatumGetFloat4(value);
		case FLOAT8OID:
			return DatumGetFloat8(value);
		case NUMERICOID:
			return DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, value));
		default:
			return (double) datum_to_int64(value, type);
	}
}

/*
 * Look at a row, and at the decision that it has feedback for, if any.
 */
static void
look_at_row(void *argument)
{
	FeedbackFromRow *row = argument;
	FeedbackSource *source = row->source;
	Feedback	feedback = {.kind = source->kind,.value = source->constant};
	FeedbackOutcome outcome;
	bool		isnull;
	bool		was_null = true;
	Datum		decision;

	row->is_open = false;
	find_columns(source);
	if (row->old != NULL)
		(void) slot_getattr(row->old, source->is_constant ? source->decision : source->value,
							&was_null);
	decision = slot_getattr(row->new, source->decision, &isnull);
	if (isnull || !was_null)
		return;
	row->decision_id = datum_to_int64(decision, source->decision_type);
	row->has_decision = true;
	if (!source->is_constant)
	{
		Datum		value = slot_getattr(row->new, source->value, &isnull);

		if (isnull)
			return;
		feedback.value = datum_to_double(value, source->value_type);
		feedback.is_boolean = source->value_type == BOOLOID;
	}
	row->is_open = settle_look(row->decision_id, &feedback, &row->settling, &outcome);
}

/*
 * Is this an error that nobody may turn into a warning?  The user wants the statement to
 * end, or the transaction cannot be committed any more.
 */
static bool
must_fail(const ErrorData *error)
{
	int			category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return category == ERRCODE_OPERATOR_INTERVENTION ||
		(category == ERRCODE_TRANSACTION_ROLLBACK &&
		 error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED);
}

/*
 * Do something in a subtransaction, and return the error that it has ended with, or
 * NULL.
 *
 * When a deferred trigger is fired the transaction is being committed, and nothing is
 * executed that has a portal.  Then we need a second subtransaction around the first
 * one: RollbackAndReleaseCurrentSubTransaction() asserts that what is around is not
 * about to end.  (A server with assertions does not survive an EXCEPTION block of
 * PL/pgSQL there.  One without assertions does, and would not need this.)
 */
static ErrorData *
error_of(void (*action) (void *), void *argument)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	bool		at_commit = ActivePortal == NULL;
	ErrorData  *volatile error = NULL;

	if (at_commit)
		BeginInternalSubTransaction(NULL);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		action(argument);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (must_fail(error))
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	if (at_commit)
		ReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/*
 * Describe a row by its primary key, as an error of a unique index would; NULL if it has
 * none, or the user may not see it.
 */
static char *
key_of_row(Relation rel, TupleTableSlot *slot)
{
	List	   *indexes = RelationGetIndexList(rel);
	char	   *key = NULL;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		Datum		values[INDEX_MAX_KEYS];
		bool		nulls[INDEX_MAX_KEYS];

		if (index->rd_index->indisprimary)
		{
			for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
				values[i] = slot_getattr(slot, index->rd_index->indkey.values[i], &nulls[i]);
			key = BuildIndexValueDescription(index, values, nulls);
		}
		index_close(index, AccessShareLock);
	}
	return key;
}

/*
 * Warn of an error that was not worth failing for; row is NULL if it is about all rows.
 */
static void
warn(FeedbackSource *source, const FeedbackFromRow *row, const ErrorData *error)
{
	const TriggerData *trigdata = source->trigdata;
	const char *trigger = trigdata->tg_trigger->tgname;
	const char *table = RelationGetRelationName(trigdata->tg_relation);
	char	   *key = row == NULL ? NULL : key_of_row(trigdata->tg_relation, row->new);
	MemoryContext old = MemoryContextSwitchTo(source->context);
	Warning    *warning = palloc0(sizeof(Warning));

	if (row != NULL && row->has_decision)
	{
		warning->has_decision = true;
		warning->decision_id = row->decision_id;
	}
	warning->sqlstate = error->sqlerrcode;
	warning->message = pstrdup(error->message);
	source->warnings = lappend(source->warnings, warning);
	if (list_length(source->warnings) > MAX_WARNINGS)
	{
		Warning    *first = linitial(source->warnings);

		source->warnings = list_delete_first(source->warnings);
		pfree(unconstify(char *, first->message));
		pfree(first);
	}
	MemoryContextSwitchTo(old);

	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 row != NULL && row->has_decision ?
			 errmsg("trigger \"%s\" on table \"%s\" gave no feedback for decision " INT64_FORMAT ": %s",
					trigger, table, row->decision_id, error->message) :
			 errmsg("trigger \"%s\" on table \"%s\" gave no feedback: %s",
					trigger, table, error->message),
			 error->detail ? errdetail_internal("%s", error->detail) :
			 key ? errdetail("The row has %s.", key) : 0,
			 error->hint ? errhint("%s", error->hint) : 0));
}

static void
write_warnings(void *argument)
{
	const FeedbackSource *source = argument;
	ListCell   *lc;

	if (!warning_lock())
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on relation \"%s\"", "dexp3.warning")));
	foreach(lc, source->warnings)
	{
		Warning    *warning = lfirst(lc);

		if (warning->has_decision)
			warning->bandit_id = settle_bandit_of(warning->decision_id);
		warning_append(warning, source->trigdata->tg_relation,
					   source->trigdata->tg_trigger->tgname);
	}
}

/*
 * Let the warnings be counted.  In a transaction that must not write, they are not.
 */
static void
count_warnings(FeedbackSource *source)
{
	ErrorData  *error;

	if (source->warnings == NIL || XactReadOnly)
		return;
	error = error_of(write_warnings, source);
	if (error != NULL)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("trigger \"%s\" on table \"%s\" could not count its warnings: %s",
						source->trigdata->tg_trigger->tgname,
						RelationGetRelationName(source->trigdata->tg_relation),
						error->message)));
}

/*
 * Give the feedback of one row; old is what it was before an UPDATE, or NULL.
 */
static void
take_row(FeedbackSource *source, TupleTableSlot *old, TupleTableSlot *new)
{
	FeedbackFromRow row = {.source = source,.old = old,.new = new};

	row.settling.look_closely = source->warn;
	do
	{
		ErrorData  *error = NULL;

		if (source->warn)
			error = error_of(look_at_row, &row);
		else
			look_at_row(&row);
		if (error != NULL)
		{
			warn(source, &row, error);
			return;
		}
	} while (row.is_open && !settle_write(&row.settling));
}

/* ----------
 * All rows of a statement
 * ----------
 */

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
 * Make sure that the old and the new rows of an UPDATE belong together.
 *
 * The executor puts the old and the new version of a row into their tables at the same
 * time, so the two go in step.  The exception is a row that moves to another partition
 * and is thrown away there by a trigger: then it is unknown which rows belong together.
 */
static void
check_rows_in_step(void *argument)
{
	const TriggerData *trigdata = argument;

	if (tuplestore_tuple_count(trigdata->tg_oldtable) !=
		tuplestore_tuple_count(trigdata->tg_newtable))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("trigger \"%s\" cannot tell which rows of table \"%s\" were updated to which",
						trigdata->tg_trigger->tgname,
						RelationGetRelationName(trigdata->tg_relation)),
				 errdetail("A row was lost on its way to another partition."),
				 errhint("Use a trigger FOR EACH ROW.")));
}

/*
 * Take the rows of a statement in one pass.
 */
static void
take_transition_tables(TriggerData *trigdata, FeedbackSource *source)
{
	bool		update = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event);
	TransitionReader new;
	TransitionReader old = {0};
	MemoryContext row_context;

	if (trigdata->tg_newtable == NULL || (update && trigdata->tg_oldtable == NULL))
		protocol_violated(trigdata, update ?
						  "with REFERENCING OLD TABLE and NEW TABLE, or FOR EACH ROW" :
						  "with REFERENCING NEW TABLE, or FOR EACH ROW");
	if (update && source->warn)
	{
		ErrorData  *error = error_of(check_rows_in_step, trigdata);

		if (error != NULL)
		{
			warn(source, NULL, error);
			return;
		}
	}
	else if (update)
		check_rows_in_step(trigdata);
	open_transition_table(&new, trigdata->tg_newtable, trigdata->tg_relation);
	if (update)
		open_transition_table(&old, trigdata->tg_oldtable, trigdata->tg_relation);

	row_context = AllocSetContextCreate(CurrentMemoryContext, "dexp3 feedback row",
										ALLOCSET_DEFAULT_SIZES);
	while (next_row(&new) && (!update || next_row(&old)))
	{
		MemoryContext caller_context;

		CHECK_FOR_INTERRUPTS();
		/* what the slots hold must outlive the row's own context */
		caller_context = MemoryContextSwitchTo(row_context);
		take_row(source, old.slot, new.slot);
		MemoryContextSwitchTo(caller_context);
		MemoryContextReset(row_context);
	}
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
	FeedbackSource source;
	ErrorContextCallback context;

	check_called_as_trigger(fcinfo, "bandit_feedback_trigger");
	if (!TRIGGER_FIRED_AFTER(trigdata->tg_event))
		protocol_violated(trigdata, "AFTER the event");
	if (!TRIGGER_FIRED_BY_INSERT(trigdata->tg_event) &&
		!TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		protocol_violated(trigdata, "by INSERT or UPDATE");

	read_trigger_arguments(trigdata, &source);

	context.callback = trigger_error_context;
	context.arg = trigdata;
	context.previous = error_context_stack;
	if (!source.warn)
	{
		find_columns(&source);
		error_context_stack = &context;
	}
	if (!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event))
		take_transition_tables(trigdata, &source);
	else if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		take_row(&source, trigdata->tg_trigslot, trigdata->tg_newslot);
	else
		take_row(&source, NULL, trigdata->tg_trigslot);
	count_warnings(&source);
	error_context_stack = context.previous;
	return PointerGetDatum(NULL);
}
