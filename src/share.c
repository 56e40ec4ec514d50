/*
 * share.c
 *	  One bandit on several servers: which server this is, which bandits it shares,
 *	  and fetching what others have published.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "arguments.h"
#include "bandit.h"
#include "compat.h"
#include "ddl.h"
#include "foreign.h"
#include "node.h"
#include "own.h"
#include "ownersql.h"
#include "publish.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(bandit_node);
PG_FUNCTION_INFO_V1(bandit_share);
PG_FUNCTION_INFO_V1(bandit_forget_node);
PG_FUNCTION_INFO_V1(bandit_pull);

/* ----------
 * Which server this is
 * ----------
 */

static int
argument_node(FunctionCallInfo fcinfo, int n)
{
	int			node;

	check_not_null(fcinfo, n, "node");
	node = PG_GETARG_INT32(n);
	if (node < 0 || node > MAX_NODE)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("node must be between 0 and %d: %d", MAX_NODE, node)));
	return node;
}

static void
take_id(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	bool		isnull;
	Datum		id = heap_getattr(tuple, 1, tupdesc, &isnull);

	*(int64 *) context = isnull ? 0 : DatumGetInt64(id);
}

/*
 * Return the largest identifier that a node has given to a decision of this log, or 0.
 */
static int64
largest_id_of(int node)
{
	Oid			types[] = {INT8OID, INT8OID};
	Datum		values[2];
	int64		id = 0;

	values[0] = Int64GetDatum((int64) node << NODE_SHIFT);
	values[1] = Int64GetDatum((int64) (node + 1) << NODE_SHIFT);
	(void) run_as_owner("SELECT greatest((SELECT max(decision_id) FROM dexp3.decision"
						"  WHERE decision_id >= $1 AND decision_id < $2),"
						" (SELECT max(upper(decisions * int8multirange(int8range($1, $2)))) - 1"
						"  FROM dexp3.trimmed WHERE decisions && int8range($1, $2)))",
						2, types, values, NULL, take_id, &id);
	return id;
}

static void
take_name(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	bool		isnull;

	*(char **) context = TextDatumGetCString(heap_getattr(tuple, 1, tupdesc, &isnull));
}

/*
 * Complain if sums count as those of a node: the present one, under which what is in
 * this log may have been published, or the new one, which may be another server.
 */
static void
check_unpublished(int node, bool present)
{
	Oid			types[] = {INT4OID, BOOLOID};
	Datum		values[2];
	char	   *bandit = NULL;

	values[0] = Int32GetDatum(node);
	values[1] = BoolGetDatum(present);
	if (run_as_owner("SELECT c.bandit FROM dexp3.component c"
					 " LEFT JOIN dexp3.bandit b ON b.name = c.bandit AND b.epoch = c.epoch"
					 " WHERE c.node = $1 AND NOT c.forgotten"
					 " AND (NOT $2 OR b.name IS NOT NULL AND c.rounds > 0)"
					 " ORDER BY c.bandit COLLATE \"C\" LIMIT 1",
					 2, types, values, NULL, take_name, &bandit) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("sums of bandit \"%s\" have been published as those of node %d",
						bandit, node),
				 present ?
				 errdetail("With another number, others would count them twice.") :
				 errdetail("Each server needs a number of its own, which no other has had."),
				 present ?
				 errhint("Begin anew with bandit_reset(); or stop sharing with bandit_share(bandit, false), and let all servers bandit_forget_node(%d).", node) :
				 errhint("If that server is gone, and its sums need not count any more, let all servers bandit_forget_node(%d).", node)));
}

/*
 * Let this server be another node.
 *
 * If there are decisions of that node in this log, they have come from elsewhere; then
 * a server that has made none itself can take the place of the one that made them.
 */
static void
change_node(int present, int node)
{
	int64		last_id = largest_id_of(node);
	Oid			types[] = {INT4OID};
	Datum		values[1];

	if (last_id == 0)
		check_unpublished(node, false);
	else if (node < present || largest_id_of(present) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("node %d has made decisions that are in this log", node),
				 errhint("Each server needs a number of its own, which no other has had.")));
	check_unpublished(present, true);

	/*
	 * what is left under the present number is empty, and must not replace
	 * anything
	 */
	values[0] = Int32GetDatum(present);
	(void) run_as_owner("DELETE FROM dexp3.component WHERE node = $1 AND rounds = 0",
						1, types, values, NULL, NULL, NULL);
	own_note_arrival_for_all();
	set_own_node(node, last_id);
	/* it is so from now on, whatever becomes of this transaction */
	for (int slot = 0; slot < NUM_ARRIVAL_SLOTS; slot++)
		foreign_note_arrival(slot);
}

/*
 * bandit_node(node): the number of this server, which is set unless it is null
 */
Datum
bandit_node(PG_FUNCTION_ARGS)
{
	int			present = own_node();
	int			node;

	if (PG_ARGISNULL(0))
		PG_RETURN_INT32(present);
	check_may_write("bandit_node()");
	node = argument_node(fcinfo, 0);
	if (pg_class_aclcheck(tables()->decision_id_seq, GetUserId(), ACL_UPDATE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set the node of this server"),
				 errhint("That needs the right UPDATE on dexp3.decision_id_seq.")));
	if (node != present)
		change_node(present, node);
	PG_RETURN_INT32(node);
}

/* ----------
 * Which bandits it shares
 * ----------
 */

/*
 * bandit_share(bandit, shared)
 */
Datum
bandit_share(PG_FUNCTION_ARGS)
{
	const Bandit *bandit;
	int32		bandit_id;
	bool		shared;

	check_not_null(fcinfo, 1, "shared");
	bandit = bandit_to_change(fcinfo, "bandit_share()");
	bandit_id = bandit->bandit_id;
	shared = PG_GETARG_BOOL(1);
	if (shared && bandit->params.algorithm != SELF_TUNED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot share bandit \"%s\", whose algorithm is \"%s\"",
						text_to_cstring(bandit->name),
						algorithm_name(bandit->params.algorithm)),
				 errdetail("Its step size depends on how many decisions were open at each draw, which no server knows of the others."),
				 errhint("Only \"self-tuned\" bandits can be shared.")));
	if (shared == bandit->shared)
		PG_RETURN_VOID();

	update_bandit(shared ?
				  "UPDATE dexp3.bandit_rows SET shared = true WHERE bandit_id = $1" :
				  "UPDATE dexp3.bandit_rows SET shared = false WHERE bandit_id = $1",
				  bandit_id, NULL);
	publish_changed(bandit_id);
	PG_RETURN_VOID();
}

/* ----------
 * What others have published
 * ----------
 */

/* The bandits for which a node has published something. */
typedef struct Published
{
	List	   *names;
	List	   *ids;			/* 0 if there is none of the name here */
} Published;

static void
add_published(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	Published  *published = context;
	Datum		name;
	int32		id;
	bool		isnull;

	name = heap_getattr(tuple, 1, tupdesc, &isnull);
	published->names = lappend(published->names, DatumGetTextPCopy(name));
	id = DatumGetInt32(heap_getattr(tuple, 2, tupdesc, &isnull));
	published->ids = lappend_int(published->ids, isnull ? 0 : id);
}

/*
 * May the current user let a bandit forget?  Superusers may, whether there is one or
 * not.
 */
static bool
may_forget(int32 bandit_id)
{
	const Bandit *bandit = bandit_id == 0 ? NULL : bandit_by_id(bandit_id);

	return bandit != NULL ? bandit_may(bandit, BANDIT_CHANGE) : superuser();
}

/*
 * bandit_forget_node(node, bandit): what a node has published counts no longer
 *
 * The row stays, so that the same one is not counted when it comes again.  Rows of our
 * own are removed; nobody sends them to us.
 */
Datum
bandit_forget_node(PG_FUNCTION_ARGS)
{
	int64		forgotten = 0;
	int			node;
	bool		ours;
	Published	published = {0};
	ListCell   *name;
	ListCell   *id;
	Oid			types[] = {INT4OID, TEXTOID};
	Datum		values[2];

	check_may_write("bandit_forget_node()");
	node = argument_node(fcinfo, 0);
	ours = node == own_node();
	values[0] = Int32GetDatum(node);
	if (PG_ARGISNULL(1))
		(void) run_as_owner("SELECT DISTINCT c.bandit, b.bandit_id FROM dexp3.component c"
							" LEFT JOIN dexp3.bandit b ON b.name = c.bandit WHERE c.node = $1",
							1, types, values, NULL, add_published, &published);
	else
	{
		const Bandit *bandit = bandit_by_name(PG_GETARG_TEXT_PP(1), BANDIT_CHANGE);

		published.names = list_make1(PG_GETARG_TEXT_PP(1));
		published.ids = list_make1_int(bandit->bandit_id);
	}
	forboth(name, published.names, id, published.ids)
	{
		if (!may_forget(lfirst_int(id)))
			continue;
		values[1] = PointerGetDatum(lfirst(name));
		if (ours && run_as_owner("SELECT FROM dexp3.bandit WHERE name = $2 AND shared"
								 " AND $1 IS NOT NULL",
								 2, types, values, NULL, NULL, NULL) > 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("node %d is this server, which shares bandit \"%s\"",
							node, text_to_cstring(lfirst(name))),
					 errhint("Begin anew with bandit_reset(), or stop sharing with bandit_share(bandit, false) before.")));

		/* if we have to wait for somebody, there is a newer row afterwards */
		do
		{
			CHECK_FOR_INTERRUPTS();
			forgotten += run_as_owner(ours ?
									  "DELETE FROM dexp3.component WHERE node = $1 AND bandit = $2" :
									  "UPDATE dexp3.component SET forgotten = true"
									  " WHERE node = $1 AND bandit = $2 AND NOT forgotten",
									  2, types, values, NULL, NULL, NULL);
		} while (run_as_owner("SELECT FROM dexp3.component"
							  " WHERE node = $1 AND bandit = $2 AND NOT forgotten",
							  2, types, values, NULL, NULL, NULL) > 0);
	}
	PG_RETURN_INT64(forgotten);
}

/* The columns of dexp3.component that are fetched, and their types. */
#define COLUMNS \
	"bandit, node, epoch, version, written_at, forgotten, arms, playable, algorithm," \
	" loss_range, optimism, half_life, rounds, settled, expired," \
	" last_decision, last_feedback, half_lives, weight, total_loss, cost, z, sums"
#define DEFINITIONS \
	"bandit text, node integer, epoch integer, version bigint, written_at timestamptz," \
	" forgotten boolean, arms text[], playable integer, algorithm text," \
	" loss_range float8[], optimism float8, half_life interval, rounds bigint," \
	" settled bigint, expired bigint, last_decision timestamptz," \
	" last_feedback timestamptz, half_lives bigint, weight float8, total_loss float8," \
	" cost float8, z float8[], sums float8[]"

/*
 * Run a statement with the rights that the caller has, and return how many rows it
 * affected.
 */
static uint64
run_as_caller(const char *sql, int nargs, Oid *types, Datum *values)
{
	if (SPI_execute_with_args(sql, nargs, types, values, NULL, false, 0) < 0)
		elog(ERROR, "could not execute: %s", sql);
	return SPI_processed;
}

/*
 * Return the name of a foreign table through which the current user sees
 * dexp3.component of a server.  If it has made one, that is used; otherwise one is made
 * for this session, which costs some milliseconds.  Nobody else's is ever used.
 */
static char *
foreign_component(const ForeignServer *server)
{
	Oid			types[] = {OIDOID, OIDOID};
	Datum		values[2];
	char	   *name;

	values[0] = ObjectIdGetDatum(server->serverid);
	values[1] = ObjectIdGetDatum(GetUserId());
	if (run_as_caller("SELECT c.oid::regclass::text"
					  " FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid"
					  " WHERE f.ftserver = $1 AND c.relowner = $2"
					  " AND f.ftoptions @> '{schema_name=dexp3,table_name=component}'"
					  " AND (c.relpersistence <> 't' OR c.relnamespace = pg_my_temp_schema())"
					  " ORDER BY c.relpersistence, c.oid LIMIT 1",
					  2, types, values) > 0)
		return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

	name = psprintf("pg_temp.dexp3_component_%u", server->serverid);
	(void) run_as_caller(psprintf("CREATE FOREIGN TABLE %s (" DEFINITIONS ") SERVER %s"
								  " OPTIONS (schema_name 'dexp3', table_name 'component')",
								  name, quote_identifier(server->servername)),
						 0, NULL, NULL);
	return name;
}

/*
 * bandit_pull(server): fetch from a foreign server what it has in dexp3.component, if it
 * is newer than what is here
 *
 * All of it is done with the caller's own rights: on the foreign server, on the temporary
 * schema, and to insert into dexp3.component.  First we ask which versions there are, so
 * that large rows need not come again and again.
 */
Datum
bandit_pull(PG_FUNCTION_ARGS)
{
	ForeignServer *server;
	char	   *table;
	Oid			types[] = {INT8ARRAYOID};
	Datum		values[1];
	bool		isnull;
	int			nest_level;
	uint64		pulled = 0;

	check_may_write("bandit_pull()");
	check_not_null(fcinfo, 0, "server");
	server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);

	nest_level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	table = foreign_component(server);
	(void) run_as_caller(psprintf("SELECT array_agg(r.version) FROM %s r"
								  " WHERE NOT EXISTS (SELECT FROM dexp3.component c"
								  "  WHERE c.bandit = r.bandit AND c.node = r.node"
								  "  AND c.version >= r.version)", table),
						 0, NULL, NULL);
	values[0] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	if (!isnull)
		pulled = run_as_caller(psprintf("INSERT INTO dexp3.component (" COLUMNS ")"
										" SELECT " COLUMNS " FROM %s"
										" WHERE version = ANY ($1) AND NOT forgotten",
										table), 1, types, values);
	SPI_finish();
	AtEOXact_GUC(false, nest_level);
	PG_RETURN_INT64((int64) pulled);
}
