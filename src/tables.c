/*
 * tables.c
 *	  Find the extension's tables, and notice when they change.
 *
 * The identifiers are looked up once.  An invalidation message for any of the
 * tables makes them stale.  dexp3.bandit also has a trigger that sends such a
 * message whenever a row of it changes, so that everything which was remembered
 * about bandits expires in all sessions when that change commits: caches compare
 * tables_generation().
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "tables.h"

/* In the order of Tables */
static const char *const names[] = {
	"bandit", "bandit_pkey", "bandit_name_key", "bandit_id_seq",
	"decision", "decision_pkey", "decision_log_idx", "decision_subject_idx", "decision_id_seq",
	"feedback", "feedback_pkey", "feedback_log_idx",
	"trimmed", "trimmed_log_idx",
	"checkpoint", "checkpoint_idx"
};

static union
{
	Tables		tables;
	Oid			oids[lengthof(names)];
}			known;
static bool known_valid = false;
static uint64 generation = 1;

static void
relation_invalidated(Datum arg pg_attribute_unused(), Oid relid)
{
	for (size_t i = 0; known_valid && i < lengthof(names); i++)
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
 * Is the extension there?
 */
bool
tables_exist(void)
{
	Oid			schema = get_namespace_oid("dexp3", true);

	return OidIsValid(schema) && OidIsValid(get_relname_relid(names[0], schema));
}

/*
 * Return the identifiers of the tables, which are looked up when necessary.
 */
const Tables *
tables(void)
{
	Oid			found[lengthof(names)];
	Oid			schema;

	StaticAssertStmt(sizeof(Tables) == sizeof(found), "each name has its field");
	if (known_valid)
		return &known.tables;

	schema = get_namespace_oid("dexp3", false);
	for (size_t i = 0; i < lengthof(names); i++)
	{
		found[i] = get_relname_relid(names[i], schema);
		if (!OidIsValid(found[i]))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation \"dexp3.%s\" does not exist", names[i]),
					 errhint("Is the extension dexp3 installed in this database, in its current version?")));
	}
	memcpy(known.oids, found, sizeof(found));
	known_valid = true;
	return &known.tables;
}

/* The types of their columns. */
static const Oid bandit_types[Natts_bandit] = {
	INT4OID, TEXTOID, TEXTARRAYOID, TEXTOID, BOOLOID, INT4OID, INT4OID, FLOAT8OID,
	INT4OID, TIMESTAMPTZOID, NAMEOID, NAMEARRAYOID,
	INTERVALOID, FLOAT8OID, INTERVALOID, BOOLOID, FLOAT8ARRAYOID, BOOLOID,
	TEXTARRAYOID, FLOAT8ARRAYOID,
	FLOAT8OID, INTERVALOID, FLOAT8OID, TIMESTAMPTZOID
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

/*
 * Open one of the tables, which must have the columns that this library knows:
 * their owner might have changed them.
 */
Relation
table_open_checked(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = table_open(relid, lockmode);
	TupleDesc	tupdesc = RelationGetDescr(rel);
	const Oid  *types;
	int			natts;
	int			live;
	bool		fits;

	/* opening it may have brought news about all of them */
	if (relid == tables()->decision)
		types = decision_types, natts = Natts_decision;
	else if (relid == tables()->feedback)
		types = feedback_types, natts = Natts_feedback;
	else if (relid == tables()->trimmed)
		types = trimmed_types, natts = Natts_trimmed;
	else if (relid == tables()->checkpoint)
		types = checkpoint_types, natts = Natts_checkpoint;
	else
		types = bandit_types, natts = Natts_bandit;

	/*
	 * behind the columns there may be others that were added and dropped
	 * again
	 */
	live = tupdesc->natts;
	while (live > 0 && TupleDescAttr(tupdesc, live - 1)->attisdropped)
		live--;
	fits = live == natts;
	for (int i = 0; fits && i < natts; i++)
		fits = TupleDescAttr(tupdesc, i)->atttypid == types[i];
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"dexp3.%s\" does not have the columns that the library of dexp3 expects",
						RelationGetRelationName(rel)),
				 errhint("Drop columns that were added to it, or bring the extension up to date with ALTER EXTENSION dexp3 UPDATE.")));
	return rel;
}
