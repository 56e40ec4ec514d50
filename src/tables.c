/*
 * tables.c
 *	  Find the extension's tables, and notice when they change.
 *
 * The tables that everybody knows are partitioned, and have row security.  Here their
 * names always stand for their only partition, which has the rows: dexp3.decision_rows
 * for dexp3.decision, and so on; the install script tells why.
 *
 * The identifiers are looked up once.  An invalidation message for any of the tables
 * makes them stale.  dexp3.bandit_rows also has a trigger that sends such a message
 * whenever a row of it changes, so that everything that was remembered about bandits
 * expires in all sessions when that change commits: caches compare tables_generation().
 *
 * Nobody but a superuser can put something else in the place of a table, an index
 * or a sequence.  That gets an error nevertheless, rather than a crash.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "role.h"
#include "tables.h"

/* In place of the types that are our own. */
#define ROLE		InvalidOid
#define ROLE_ARRAY	((Oid) 1)

/* The types of the columns. */
static const Oid bandit_types[Natts_bandit] = {
	INT4OID, TEXTOID, TEXTARRAYOID, TEXTOID, BOOLOID, INT4OID, INT4OID, FLOAT8OID,
	INT4OID, TIMESTAMPTZOID, ROLE, ROLE_ARRAY,
	INTERVALOID, FLOAT8OID, INTERVALOID, BOOLOID, FLOAT8ARRAYOID, BOOLOID,
	TEXTARRAYOID, FLOAT8ARRAYOID,
	FLOAT8OID, INTERVALOID, FLOAT8OID, TIMESTAMPTZOID, TEXTOID, BOOLOID
};
static const Oid decision_types[Natts_decision] = {
	INT8OID, INT4OID, INT4OID, INT8OID, INT8OID, FLOAT8OID, FLOAT8OID,
	TIMESTAMPTZOID, XID8OID, INT4OID, INT4OID, FLOAT8OID, FLOAT8OID,
	TEXTOID, FLOAT8OID
};
static const Oid feedback_types[Natts_feedback] = {
	INT8OID, INT4OID, INT4OID, INT8OID, INT8OID, TIMESTAMPTZOID, XID8OID, INT4OID,
	FLOAT8OID, FLOAT8OID, FLOAT8OID, FLOAT8OID, FLOAT8OID, BOOLOID,
	FLOAT8OID, FLOAT8OID, TIMESTAMPTZOID
};
static const Oid expiry_types[Natts_expiry] = {
	INT8OID, INT4OID, INT4OID, INT8OID, INT8OID, TIMESTAMPTZOID, XID8OID,
	FLOAT8OID, FLOAT8OID, INT8ARRAYOID
};
static const Oid trimmed_types[Natts_trimmed] = {
	INT8OID, INT4OID, INT4OID, XID8OID, XID8OID,
	INT8MULTIRANGEOID, INT8MULTIRANGEOID, INT8MULTIRANGEOID,
	INT8OID, INT8OID, INT8OID, FLOAT8OID, INT8OID,
	TIMESTAMPTZOID, TIMESTAMPTZOID, FLOAT8OID, FLOAT8ARRAYOID,
	INT8OID, FLOAT8OID, FLOAT8OID, FLOAT8OID, INT8OID
};
static const Oid checkpoint_types[Natts_checkpoint] = {
	INT4OID, INT4OID, INT8OID, TIMESTAMPTZOID, BYTEAOID
};
static const Oid warning_types[Natts_warning] = {
	INT4OID, OIDOID, INT8OID, TIMESTAMPTZOID, NAMEOID, TEXTOID, NAMEOID, INT8OID,
	TEXTOID, TEXTOID
};
static const Oid component_types[Natts_component] = {
	TEXTOID, INT4OID, INT4OID, INT8OID, TIMESTAMPTZOID, BOOLOID,
	TEXTARRAYOID, INT4OID, TEXTOID, FLOAT8ARRAYOID, FLOAT8OID, INTERVALOID,
	INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID,
	INT8OID, FLOAT8OID, FLOAT8OID, FLOAT8OID, FLOAT8ARRAYOID, FLOAT8ARRAYOID
};

#define MAX_KEYS	4

/* What a relation must be. */
typedef struct Expected
{
	const char *name;
	/* a table has this many columns of these types */
	const Oid  *types;
	int			natts;
	char		kind;			/* as in pg_class */
	/* an index is a btree on the table before it in the list */
	bool		unique;
	bool		partial;
	AttrNumber	keys[MAX_KEYS]; /* up to the first 0 */
} Expected;

#define TABLE(name_, table) \
	{.name = (name_), .kind = RELKIND_RELATION, .types = table##_types, .natts = Natts_##table}
#define SEQUENCE(name_)		{.name = (name_), .kind = RELKIND_SEQUENCE}
#define INDEX(name_, ...)	{.name = (name_), .kind = RELKIND_INDEX, .keys = {__VA_ARGS__}}
#define UNIQUE_INDEX(name_, ...) \
	{.name = (name_), .kind = RELKIND_INDEX, .unique = true, .keys = {__VA_ARGS__}}
#define PARTIAL_INDEX(name_, ...) \
	{.name = (name_), .kind = RELKIND_INDEX, .partial = true, .keys = {__VA_ARGS__}}

/* In the order of Tables */
static const Expected relations[] = {
	TABLE("bandit_rows", bandit),
	UNIQUE_INDEX("bandit_rows_pkey", Anum_bandit_bandit_id),
	UNIQUE_INDEX("bandit_name_key", Anum_bandit_name),
	SEQUENCE("bandit_id_seq"),
	TABLE("decision_rows", decision),
	UNIQUE_INDEX("decision_rows_pkey", Anum_decision_decision_id),
	INDEX("decision_log_idx", Anum_decision_bandit_id, Anum_decision_epoch, Anum_decision_xact, Anum_decision_decision_id),
	PARTIAL_INDEX("decision_subject_idx", Anum_decision_bandit_id, Anum_decision_subject, Anum_decision_decision_id),
	SEQUENCE("decision_id_seq"),
	TABLE("feedback_rows", feedback),
	UNIQUE_INDEX("feedback_rows_pkey", Anum_feedback_decision_id),
	INDEX("feedback_log_idx", Anum_feedback_bandit_id, Anum_feedback_epoch, Anum_feedback_xact),
	TABLE("expiry_rows", expiry),
	UNIQUE_INDEX("expiry_rows_pkey", Anum_expiry_first_decision),
	INDEX("expiry_log_idx", Anum_expiry_bandit_id, Anum_expiry_epoch, Anum_expiry_xact),
	INDEX("expiry_last_idx", Anum_expiry_bandit_id, Anum_expiry_epoch, Anum_expiry_last_decision),
	TABLE("trimmed_rows", trimmed),
	INDEX("trimmed_log_idx", Anum_trimmed_bandit_id, Anum_trimmed_epoch, Anum_trimmed_xact),
	TABLE("checkpoint", checkpoint),
	INDEX("checkpoint_idx", Anum_checkpoint_bandit_id, Anum_checkpoint_epoch, Anum_checkpoint_events),
	TABLE("warning", warning),
	INDEX("warning_idx", Anum_warning_bandit_id, Anum_warning_table_owner, Anum_warning_number),
	TABLE("component", component),
	INDEX("component_idx", Anum_component_bandit, Anum_component_node, Anum_component_version)
};

static union
{
	Tables		tables;
	Oid			oids[lengthof(relations)];
}			known;
static bool known_valid = false;
static uint64 generation = 1;

/* The generation in which the columns of a table have been looked at */
static uint64 checked[lengthof(relations)];

static void
relation_invalidated(Datum arg pg_attribute_unused(), Oid relid)
{
	for (size_t i = 0; known_valid && i < lengthof(relations); i++)
	{
		if (relid == InvalidOid || relid == known.oids[i])
		{
			known_valid = false;
			generation++;
		}
	}
}

void
tables_init(void)
{
	CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
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

/*
 * Is an index what it must be?
 */
static bool
index_fits(Oid relid, const Expected *expected, Oid table)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(relid));
	Form_pg_index index;
	int			n = 0;
	bool		fits;

	if (!HeapTupleIsValid(tuple))
		return false;
	index = (Form_pg_index) GETSTRUCT(tuple);
	fits = index->indrelid == table && index->indisunique == expected->unique &&
		index->indisvalid && index->indimmediate &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL) == !expected->partial;
	while (fits && n < MAX_KEYS && expected->keys[n] != 0)
	{
		fits = n < index->indnkeyatts && index->indkey.values[n] == expected->keys[n];
		n++;
	}
	fits = fits && index->indnkeyatts == n;
	ReleaseSysCache(tuple);
	return fits;
}

/*
 * Find a relation, which must be what is expected; if it is not, and need not be,
 * return InvalidOid.  It may be gone already when it is opened, which is an error,
 * too.
 */
static Oid
find_relation(Oid schema, const Expected *expected, Oid table, bool missing_ok)
{
	Oid			relid = get_relname_relid(expected->name, schema);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class relation;
	bool		fits;

	if (!HeapTupleIsValid(tuple) && missing_ok)
		return InvalidOid;
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"dexp3.%s\" does not exist", expected->name),
				 errhint("Is the extension dexp3 installed in this database, in its current version?")));
	relation = (Form_pg_class) GETSTRUCT(tuple);
	fits = relation->relkind == expected->kind;
	if (expected->kind == RELKIND_RELATION)
		fits = fits && relation->relam == HEAP_TABLE_AM_OID;
	if (expected->kind == RELKIND_INDEX)
		fits = fits && relation->relam == BTREE_AM_OID &&
			index_fits(relid, expected, table);
	ReleaseSysCache(tuple);
	if (!fits && missing_ok)
		return InvalidOid;
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"dexp3.%s\" is not what the library of dexp3 expects",
						expected->name),
				 errhint("Undo what was done to it, or bring the extension up to date with ALTER EXTENSION dexp3 UPDATE.")));
	return relid;
}

static const Tables *
find_tables(bool missing_ok)
{
	Oid			found[lengthof(relations)];
	Oid			schema;
	Oid			table = InvalidOid;

	StaticAssertStmt(sizeof(Tables) == sizeof(found), "each relation has its field");
	if (known_valid)
		return &known.tables;

	schema = get_namespace_oid("dexp3", missing_ok);
	for (size_t i = 0; i < lengthof(relations); i++)
	{
		found[i] = find_relation(schema, &relations[i], table, missing_ok);
		if (!OidIsValid(found[i]))
			return NULL;
		if (relations[i].kind == RELKIND_RELATION)
			table = found[i];
	}
	memcpy(known.oids, found, sizeof(found));
	known_valid = true;
	return &known.tables;
}

/*
 * Return the identifiers of the tables, which are looked up when necessary.
 */
const Tables *
tables(void)
{
	const Tables *found = find_tables(false);

	Assert(found != NULL);
	return found;
}

/*
 * The same, or NULL if they are not there, or not as they should be.
 */
const Tables *
tables_if_there(void)
{
	return find_tables(true);
}

/*
 * Return the type dexp3.role.
 */
Oid
tables_role_type(void)
{
	Oid			schema = get_namespace_oid("dexp3", false);
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
									   CStringGetDatum("role"), ObjectIdGetDatum(schema));

	if (!OidIsValid(type) || get_typlen(type) != sizeof(Role))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("type dexp3.role is not what the library of dexp3 expects"),
				 errhint("Bring the extension up to date with ALTER EXTENSION dexp3 UPDATE.")));
	return type;
}

static bool
has_type(Form_pg_attribute column, Oid type)
{
	if (type == ROLE)
		type = tables_role_type();
	else if (type == ROLE_ARRAY)
		type = get_array_type(tables_role_type());
	return column->atttypid == type;
}

/*
 * Fail unless one of the tables has the columns that this library knows.
 */
void
table_check(Relation rel)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	const Tables *present = tables();	/* opening it may have brought news */
	const Expected *expected = NULL;
	uint64		present_generation = generation;	/* comparing may bring
													 * more */
	size_t		i = 0;
	int			live;
	bool		fits;

	while (i < lengthof(relations) && ((const Oid *) present)[i] != RelationGetRelid(rel))
		i++;
	if (i < lengthof(relations))
	{
		if (checked[i] == present_generation)
			return;
		expected = &relations[i];
	}

	/* after the columns there may be some that were added and dropped again */
	live = tupdesc->natts;
	while (live > 0 && TupleDescAttr(tupdesc, live - 1)->attisdropped)
		live--;
	fits = expected != NULL && live == expected->natts;
	for (int n = 0; fits && n < expected->natts; n++)
		fits = has_type(TupleDescAttr(tupdesc, n), expected->types[n]);
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"dexp3.%s\" does not have the columns that the library of dexp3 expects",
						RelationGetRelationName(rel)),
				 errhint("Drop columns that were added to it, or bring the extension up to date with ALTER EXTENSION dexp3 UPDATE.")));
	checked[i] = present_generation;
}

/*
 * Open one of the tables, which must have the columns that this library knows.
 */
Relation
table_open_checked(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = table_open(relid, lockmode);

	table_check(rel);
	return rel;
}
