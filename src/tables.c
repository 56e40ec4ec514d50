/*
 * tables.c
 *	  Find the extension's tables, and notice when they change.
 *
 * The identifiers are looked up once.  An invalidation message for any of the
 * tables makes them stale.  dexp3.bandit also has a trigger that sends such a
 * message whenever a row of it changes, so that everything which was remembered
 * about bandits expires in all sessions when that change commits: caches compare
 * tables_generation().  tables_log_identity() changes when the log is another
 * one, because the extension was made again or the tables were truncated.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "tables.h"

static Tables known;
static bool known_valid = false;
static uint64 generation = 1;
static uint64 log_identity = 1;
static Oid	log_files[3];		/* of decision, feedback and trimmed */

static void
relation_invalidated(Datum arg pg_attribute_unused(), Oid relid)
{
	const Oid  *oids = (const Oid *) &known;

	if (!known_valid)
		return;
	for (size_t i = 0; i < sizeof(Tables) / sizeof(Oid); i++)
	{
		if (relid == InvalidOid || relid == oids[i])
		{
			known_valid = false;
			generation++;
			return;
		}
	}
}

void
tables_init(void)
{
	CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
}

uint64
tables_log_identity(void)
{
	(void) tables();
	return log_identity;
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

static Oid
find(const char *name, Oid schema)
{
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"dexp3.%s\" does not exist", name),
				 errhint("Is the extension dexp3 installed in this database, in its current version?")));
	return relid;
}

/*
 * Return the file of a table, which TRUNCATE changes.
 */
static Oid
find_file(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			file;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	file = ((Form_pg_class) GETSTRUCT(tuple))->relfilenode;
	ReleaseSysCache(tuple);
	return file;
}

/*
 * Find something that older versions of the install script do not make.
 */
static Oid
find_newer(const char *name, Oid schema)
{
	return get_relname_relid(name, schema);
}

const Tables *
tables(void)
{
	Tables		found;
	Oid			files[3];
	Oid			schema;

	if (known_valid)
		return &known;

	schema = get_namespace_oid("dexp3", false);
	found.bandit = find("bandit", schema);
	found.bandit_pkey = find("bandit_pkey", schema);
	found.bandit_name_key = find("bandit_name_key", schema);
	found.bandit_id_seq = find("bandit_id_seq", schema);
	found.decision = find("decision", schema);
	found.decision_pkey = find("decision_pkey", schema);
	found.decision_log_idx = find("decision_log_idx", schema);
	found.decision_subject_idx = find_newer("decision_subject_idx", schema);
	found.decision_id_seq = find("decision_id_seq", schema);
	found.feedback = find("feedback", schema);
	found.feedback_pkey = find("feedback_pkey", schema);
	found.feedback_log_idx = find("feedback_log_idx", schema);
	found.trimmed = find_newer("trimmed", schema);
	found.trimmed_log_idx = find_newer("trimmed_log_idx", schema);
	found.checkpoint = find("checkpoint", schema);
	found.checkpoint_idx = find("checkpoint_idx", schema);

	files[0] = find_file(found.decision);
	files[1] = find_file(found.feedback);
	files[2] = OidIsValid(found.trimmed) ? find_file(found.trimmed) : InvalidOid;

	if (known.decision != found.decision || known.feedback != found.feedback ||
		memcmp(log_files, files, sizeof(files)) != 0)
		log_identity++;
	memcpy(log_files, files, sizeof(files));
	known = found;
	known_valid = true;
	return &known;
}

/* The types of their columns. */
static const Oid bandit_types[Natts_bandit] = {
	INT4OID, TEXTOID, TEXTARRAYOID, TEXTOID, BOOLOID, INT4OID, INT4OID, FLOAT8OID,
	INT4OID, TIMESTAMPTZOID, NAMEOID, NAMEARRAYOID,
	INTERVALOID, FLOAT8OID, INTERVALOID, BOOLOID, FLOAT8ARRAYOID, BOOLOID,
	TEXTARRAYOID, FLOAT8ARRAYOID
};
static const Oid decision_types[Natts_decision] = {
	INT8OID, INT4OID, INT4OID, INT8OID, INT8OID, FLOAT8OID, FLOAT8OID,
	TIMESTAMPTZOID, XID8OID, INT4OID, INT4OID, FLOAT8OID, FLOAT8OID,
	TEXTOID
};
static const Oid feedback_types[Natts_feedback] = {
	INT8OID, INT4OID, INT4OID, INT8OID, INT8OID, TIMESTAMPTZOID, XID8OID,
	FLOAT8OID, FLOAT8OID, INT4OID, FLOAT8OID, FLOAT8OID,
	BOOLOID
};
static const Oid trimmed_types[Natts_trimmed] = {
	INT8OID, INT4OID, INT4OID, XID8OID, XID8OID,
	INT8MULTIRANGEOID, INT8MULTIRANGEOID, INT8MULTIRANGEOID,
	INT8OID, INT8OID, INT8OID, FLOAT8OID, INT8OID,
	TIMESTAMPTZOID, TIMESTAMPTZOID, FLOAT8OID,
	FLOAT8ARRAYOID, FLOAT8ARRAYOID,
	INT8ARRAYOID, INT8ARRAYOID, FLOAT8ARRAYOID, FLOAT8ARRAYOID, FLOAT8ARRAYOID,
	FLOAT8ARRAYOID, FLOAT8ARRAYOID, FLOAT8ARRAYOID
};
static const Oid checkpoint_types[Natts_checkpoint] = {
	INT4OID, INT4OID, INT8OID, TIMESTAMPTZOID, BYTEAOID
};

/*
 * Open one of the tables, which must have the columns that this library knows:
 * their owner might have changed them.  Behind those there may be others that
 * were added and dropped again.
 */
Relation
table_open_checked(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = table_open(relid, lockmode);
	TupleDesc	tupdesc = RelationGetDescr(rel);
	const Oid  *types;
	int			natts;
	int			natts_1_0;
	int			live;
	bool		fits;

	/* opening it may have brought news about all of them */
	if (relid == tables()->decision)
		types = decision_types, natts = Natts_decision, natts_1_0 = Natts_decision_1_0;
	else if (relid == tables()->feedback)
		types = feedback_types, natts = Natts_feedback, natts_1_0 = Natts_feedback_1_0;
	else if (relid == tables()->trimmed)
		types = trimmed_types, natts = natts_1_0 = Natts_trimmed;
	else if (relid == tables()->checkpoint)
		types = checkpoint_types, natts = natts_1_0 = Natts_checkpoint;
	else
		types = bandit_types, natts = Natts_bandit, natts_1_0 = Natts_bandit_1_0;

	/* behind the columns there may be others that were added and dropped again */
	live = tupdesc->natts;
	while (live > 0 && TupleDescAttr(tupdesc, live - 1)->attisdropped)
		live--;
	fits = live == natts || live == natts_1_0;
	for (int i = 0; fits && i < live; i++)
		fits = TupleDescAttr(tupdesc, i)->atttypid == types[i];
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"dexp3.%s\" does not have the columns that the library of dexp3 expects",
						RelationGetRelationName(rel)),
				 errhint("Drop columns that were added to it, or bring the extension up to date with ALTER EXTENSION dexp3 UPDATE.")));
	return rel;
}

/*
 * Has a table this column, which only newer versions of the install script make?
 */
bool
table_has_column(TupleDesc tupdesc, int attno)
{
	return attno <= tupdesc->natts && !TupleDescAttr(tupdesc, attno - 1)->attisdropped;
}
