/*
 * bandit.c
 *	  Managed bandits by name or identifier, with a cache; who may use them;
 *	  making, resetting and dropping them.
 *
 * The cache is emptied as a whole when tables_generation() changes: whoever
 * changes a row of dexp3.bandit sends an invalidation message, see tables.c.
 *
 * Roles are stored by name, not by identifier, so that a dump can be restored
 * where they are others, or missing.  A bandit whose owner does not exist is for
 * superusers and those it was granted to.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "arguments.h"
#include "bandit.h"
#include "checkpoint.h"
#include "compat.h"
#include "state.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(bandit_create);
PG_FUNCTION_INFO_V1(bandit_reset);
PG_FUNCTION_INFO_V1(bandit_drop);
PG_FUNCTION_INFO_V1(bandit_grant);
PG_FUNCTION_INFO_V1(bandit_revoke);
PG_FUNCTION_INFO_V1(bandit_may_use);

/* An index entry must hold it. */
#define MAX_NAME_BYTES		1000

/* When the cache has so many bandits it starts afresh. */
#define MAX_CACHED_BANDITS	10000

/* ----------
 * Look-up
 * ----------
 */

typedef struct ByIdEntry
{
	int32		bandit_id;		/* hash key */
	Bandit	   *bandit;
} ByIdEntry;

/*
 * Names are found by a hash of theirs; two names with the same one take turns
 * in the entry.
 */
typedef struct ByNameEntry
{
	uint64		hash;			/* hash key */
	Bandit	   *bandit;
} ByNameEntry;

static MemoryContext cache_context = NULL;
static HTAB *cache_by_id = NULL;
static HTAB *cache_by_name = NULL;
static uint64 cache_generation = 0;

/*
 * Make sure that the cache is there and that nothing in it is out of date.
 */
static void
refresh_cache(void)
{
	HASHCTL		ctl = {0};

	tables_refuse_while_inserting();

	/* in a long transaction nothing else may have asked for news */
	AcceptInvalidationMessages();
	if (cache_context != NULL &&
		cache_generation == tables_generation() &&
		hash_get_num_entries(cache_by_id) +
		hash_get_num_entries(cache_by_name) < MAX_CACHED_BANDITS)
		return;

	if (cache_context != NULL)
		MemoryContextDelete(cache_context);
	cache_context = NULL;
	cache_context = AllocSetContextCreate(TopMemoryContext, "dexp3 bandits",
										  ALLOCSET_SMALL_SIZES);
	ctl.hcxt = cache_context;
	ctl.keysize = sizeof(int32);
	ctl.entrysize = sizeof(ByIdEntry);
	cache_by_id = hash_create("dexp3 bandits by id", 32, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(ByNameEntry);
	cache_by_name = hash_create("dexp3 bandits by name", 32, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	cache_generation = tables_generation();
}

/*
 * Complain about a row that nobody but the tables' owner can have written.
 */
static void
wrong_row(const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("wrong row in dexp3.bandit: %s", problem)));
}

static Bandit *
read_bandit(HeapTuple tuple, TupleDesc tupdesc)
{
	Bandit	   *bandit = palloc0(sizeof(Bandit));
	LearnerParams *params = &bandit->params;
	Datum		values[Natts_bandit];
	bool		nulls[Natts_bandit];

	for (int i = 0; i < Natts_bandit; i++)
	{
		values[i] = heap_getattr(tuple, i + 1, tupdesc, &nulls[i]);
		if (nulls[i] && i != Anum_bandit_max_delay - 1)
			wrong_row("a column is null");
	}
	bandit->bandit_id = DatumGetInt32(values[Anum_bandit_bandit_id - 1]);
	bandit->epoch = DatumGetInt32(values[Anum_bandit_epoch - 1]);
	bandit->name = DatumGetTextPCopy(values[Anum_bandit_name - 1]);
	deconstruct_array(DatumGetArrayTypePCopy(values[Anum_bandit_arms - 1]),
					  TEXTOID, -1, false, TYPALIGN_INT,
					  &bandit->arms, NULL, &params->arms);

	namestrcpy(&bandit->owner, NameStr(*DatumGetName(values[Anum_bandit_owner - 1])));
	deconstruct_array(DatumGetArrayTypePCopy(values[Anum_bandit_grantees - 1]),
					  NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR,
					  &bandit->grantees, NULL, &bandit->ngrantees);

	if (!algorithm_by_name(TextDatumGetCString(values[Anum_bandit_algorithm - 1]),
						   &params->algorithm))
		wrong_row("its algorithm is unknown");
	params->skipping = DatumGetBool(values[Anum_bandit_skipping - 1]);
	params->patience = params->skipping ?
		DatumGetInt32(values[Anum_bandit_patience - 1]) : 0;
	params->max_delay = nulls[Anum_bandit_max_delay - 1] ? NO_DELAY :
		DatumGetInt32(values[Anum_bandit_max_delay - 1]);
	params->step_scale = DatumGetFloat8(values[Anum_bandit_step_scale - 1]);
	if (learner_params_problem(params) != NULL)
		wrong_row(learner_params_problem(params));
	return bandit;
}

/*
 * Read one row of dexp3.bandit, the latest version whatever the isolation
 * level.  A catalog snapshot is always of this moment, and can be taken in
 * parallel queries, too: what is read goes to the cache, and must not be older.
 */
static Bandit *
load_bandit(ScanKey key)
{
	Relation	rel = table_open_checked(tables()->bandit, AccessShareLock);
	Relation	index = index_open(key->sk_attno == Anum_bandit_name ?
								   tables()->bandit_name_key : tables()->bandit_pkey,
								   AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(rel, index, NULL, 1, key);
	HeapTuple	tuple = systable_getnext_ordered(scan, ForwardScanDirection);
	Bandit	   *bandit = NULL;

	if (tuple != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(cache_context);

		bandit = read_bandit(tuple, RelationGetDescr(rel));
		MemoryContextSwitchTo(old);
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return bandit;
}

/*
 * Find a bandit by its identifier; NULL if there is none.
 */
const Bandit *
bandit_by_id(int32 bandit_id)
{
	ByIdEntry  *entry;
	Bandit	   *bandit;
	ScanKeyData key;

	refresh_cache();
	entry = hash_search(cache_by_id, &bandit_id, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->bandit;

	ScanKeyInit(&key, Anum_bandit_bandit_id, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(bandit_id));
	bandit = load_bandit(&key);

	/* what was read may be out of date already: then do not keep it */
	if (bandit != NULL && cache_generation == tables_generation())
	{
		entry = hash_search(cache_by_id, &bandit_id, HASH_ENTER, NULL);
		entry->bandit = bandit;
	}
	return bandit;
}

static bool
same_name(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

/* ----------
 * Rights
 * ----------
 */

static bool
has_rights_of(const char *role)
{
	Oid			roleid = get_role_oid(role, true);

	return OidIsValid(roleid) && has_privs_of_role(GetUserId(), roleid);
}

/*
 * Has the current user this right?
 */
bool
bandit_may(const Bandit *bandit, BanditRight right)
{
	if (superuser() || has_rights_of(NameStr(bandit->owner)))
		return true;
	if (right == BANDIT_CHANGE)
		return false;
	for (int i = 0; i < bandit->ngrantees; i++)
	{
		const char *grantee = NameStr(*DatumGetName(bandit->grantees[i]));

		if (strcmp(grantee, "public") == 0 || has_rights_of(grantee))
			return true;
	}
	return false;
}

static void
check_right(const Bandit *bandit, BanditRight right)
{
	if (!bandit_may(bandit, right))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 right == BANDIT_USE ?
				 errmsg("permission denied for bandit \"%s\"",
						text_to_cstring(bandit->name)) :
				 errmsg("must be owner of bandit \"%s\"",
						text_to_cstring(bandit->name))));
}

/*
 * dexp3.may_use(bandit_id): for the row security policies of the tables
 */
Datum
bandit_may_use(PG_FUNCTION_ARGS)
{
	const Bandit *bandit = bandit_by_id(PG_GETARG_INT32(0));

	PG_RETURN_BOOL(bandit != NULL ? bandit_may(bandit, BANDIT_USE) : superuser());
}

/*
 * Find a bandit by its name, which must exist and be for the current user.
 */
const Bandit *
bandit_by_name(text *name, BanditRight right)
{
	uint64		hash = hash_bytes_extended((unsigned char *) VARDATA_ANY(name),
										   VARSIZE_ANY_EXHDR(name), 0);
	ByNameEntry *entry;
	Bandit	   *bandit;
	ScanKeyData key;

	refresh_cache();
	entry = hash_search(cache_by_name, &hash, HASH_FIND, NULL);
	if (entry != NULL && same_name(entry->bandit->name, name))
	{
		check_right(entry->bandit, right);
		return entry->bandit;
	}

	ScanKeyEntryInitialize(&key, 0, Anum_bandit_name, BTEqualStrategyNumber,
						   InvalidOid, C_COLLATION_OID, F_TEXTEQ,
						   PointerGetDatum(name));
	bandit = load_bandit(&key);
	if (bandit == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("bandit \"%s\" does not exist", text_to_cstring(name))));
	if (cache_generation == tables_generation())
	{
		entry = hash_search(cache_by_name, &hash, HASH_ENTER, NULL);
		entry->bandit = bandit;
	}
	check_right(bandit, right);
	return bandit;
}

/* ----------
 * Making, resetting, dropping
 * ----------
 */

/*
 * Run a statement with the rights of the tables' owner and a safe search_path.
 * It sees what has been committed by now, as the look-up of the bandit did,
 * whatever the isolation level.  Returns the first column of the first row;
 * *found tells whether any row was affected.
 */
static Datum
run_as_owner(const char *sql, int nargs, Oid *types, Datum *values,
			 const char *nulls, bool *found)
{
	Relation	rel = table_open(tables()->bandit, AccessShareLock);
	Oid			owner = rel->rd_rel->relowner;
	Datum		result = (Datum) 0;
	SPIPlanPtr	plan;
	Oid			user;
	int			context;
	int			nest_level;
	bool		isnull;

	table_close(rel, AccessShareLock);
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(owner, context | SECURITY_LOCAL_USERID_CHANGE |
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
	*found = SPI_processed > 0;
	if (*found && SPI_tuptable != NULL)
		result = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
							   &isnull);	/* an integer: by value */
	SPI_finish();

	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, context);
	return result;
}

/*
 * Change or delete the row of a bandit, which was there a moment ago.  The
 * statement has its identifier as $1 and, if it needs one, a role as $2.
 */
static void
change_bandit(const char *sql, Datum bandit_id, Datum role)
{
	Oid			types[2] = {INT4OID, NAMEOID};
	Datum		values[2] = {bandit_id, role};
	bool		found;

	(void) run_as_owner(sql, 2, types, values, NULL, &found);
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not change a bandit that is being changed by another transaction")));
}

static text *
name_argument(FunctionCallInfo fcinfo)
{
	text	   *name;

	if (PG_ARGISNULL(0))
		null_argument("name");
	name = PG_GETARG_TEXT_PP(0);
	if (VARSIZE_ANY_EXHDR(name) == 0 || VARSIZE_ANY_EXHDR(name) > MAX_NAME_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a bandit must have between 1 and %d bytes, not %d",
						MAX_NAME_BYTES, (int) VARSIZE_ANY_EXHDR(name))));
	return name;
}

static int
compare_names(const void *a, const void *b)
{
	const text *x = DatumGetTextPP(*(const Datum *) a);
	const text *y = DatumGetTextPP(*(const Datum *) b);
	int			xlen = VARSIZE_ANY_EXHDR(x);
	int			ylen = VARSIZE_ANY_EXHDR(y);
	int			result = memcmp(VARDATA_ANY(x), VARDATA_ANY(y), Min(xlen, ylen));

	return result != 0 ? result : xlen - ylen;
}

/*
 * Check the names of the arms, and return their number.
 */
static int
check_arms(ArrayType *array)
{
	Datum	   *names;
	int			n;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("arms must be a one-dimensional array, not one of %d dimensions",
						ARR_NDIM(array))));
	if (array_contains_nulls(array))
		null_argument("the name of an arm");
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &n);
	qsort(names, n, sizeof(Datum), compare_names);
	for (int i = 1; i < n; i++)
	{
		if (compare_names(&names[i - 1], &names[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("arm \"%s\" is named twice",
							TextDatumGetCString(names[i]))));
	}
	return n;
}

/*
 * bandit_create(name, arms, algorithm, skipping, patience, max_delay, step_scale)
 */
Datum
bandit_create(PG_FUNCTION_ARGS)
{
	text	   *name;
	LearnerParams params;
	Oid			types[8] = {TEXTOID, TEXTARRAYOID, TEXTOID, BOOLOID, INT4OID,
	INT4OID, FLOAT8OID, NAMEOID};
	Datum		values[8];
	char		nulls[9] = "        ";
	Datum		bandit_id;
	bool		found;

	PreventCommandIfReadOnly("bandit_create()");
	PreventCommandIfParallelMode("bandit_create()");
	name = name_argument(fcinfo);
	if (PG_ARGISNULL(1))
		null_argument("arms");
	argument_params(fcinfo, 2, check_arms(PG_GETARG_ARRAYTYPE_P(1)), &params);

	values[0] = PointerGetDatum(name);
	values[1] = PG_GETARG_DATUM(1);
	values[2] = PG_GETARG_DATUM(2);
	values[3] = BoolGetDatum(params.skipping);
	values[4] = PG_GETARG_DATUM(4);
	values[5] = PG_GETARG_DATUM(5);
	nulls[5] = PG_ARGISNULL(5) ? 'n' : ' ';
	values[6] = PG_GETARG_DATUM(6);
	values[7] = DirectFunctionCall1(namein,
									CStringGetDatum(GetUserNameFromId(GetUserId(), false)));

	/*
	 * The identifier is asked for here, not left to the column's default: who
	 * could make a function nextval(text) in the extension's schema before the
	 * extension was, has that one called there.
	 */
	bandit_id = run_as_owner("INSERT INTO dexp3.bandit"
							 " (bandit_id, name, arms, algorithm, skipping, patience, max_delay, step_scale, owner)"
							 " VALUES (nextval('dexp3.bandit_id_seq'), $1, ($2)[:], $3, $4, $5, $6, $7, $8)"
							 " ON CONFLICT (name) DO NOTHING RETURNING bandit_id",
							 8, types, values, nulls, &found);
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("bandit \"%s\" already exists", text_to_cstring(name))));
	PG_RETURN_DATUM(bandit_id);
}

/*
 * Look a bandit up in order to change it: it must exist.
 */
static Datum
existing_bandit_id(FunctionCallInfo fcinfo, const char *argument)
{
	if (PG_ARGISNULL(0))
		null_argument(argument);
	return Int32GetDatum(bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_CHANGE)->bandit_id);
}

/*
 * bandit_reset(name): forget all that was learned
 *
 * The bandit begins another epoch; decisions of earlier ones stay in the log,
 * and feedback for them is told "skipped".
 */
Datum
bandit_reset(PG_FUNCTION_ARGS)
{
	Datum		bandit_id;

	PreventCommandIfReadOnly("bandit_reset()");
	PreventCommandIfParallelMode("bandit_reset()");
	bandit_id = existing_bandit_id(fcinfo, "name");
	change_bandit("UPDATE dexp3.bandit SET epoch = epoch + 1 WHERE bandit_id = $1",
				  bandit_id, (Datum) 0);
	checkpoint_remove(DatumGetInt32(bandit_id));
	PG_RETURN_VOID();
}

/*
 * bandit_drop(name): remove a bandit and its log
 */
Datum
bandit_drop(PG_FUNCTION_ARGS)
{
	Oid			types[1] = {INT4OID};
	Datum		bandit_id;
	bool		found;

	PreventCommandIfReadOnly("bandit_drop()");
	PreventCommandIfParallelMode("bandit_drop()");
	bandit_id = existing_bandit_id(fcinfo, "name");
	change_bandit("DELETE FROM dexp3.bandit WHERE bandit_id = $1", bandit_id,
				  (Datum) 0);
	(void) run_as_owner("DELETE FROM dexp3.feedback WHERE bandit_id = $1",
						1, types, &bandit_id, NULL, &found);
	(void) run_as_owner("DELETE FROM dexp3.decision WHERE bandit_id = $1",
						1, types, &bandit_id, NULL, &found);
	checkpoint_remove(DatumGetInt32(bandit_id));
	PG_RETURN_VOID();
}

static void
change_grantees(FunctionCallInfo fcinfo, const char *sql)
{
	Datum		bandit_id = existing_bandit_id(fcinfo, "bandit");
	const char *role;

	if (PG_ARGISNULL(1))
		null_argument("role");
	role = NameStr(*PG_GETARG_NAME(1));
	if (strcmp(role, "public") != 0)
		(void) get_role_oid(role, false);
	change_bandit(sql, bandit_id, PG_GETARG_DATUM(1));
}

/*
 * bandit_grant(bandit, role): let a role, or "public", use a bandit
 */
Datum
bandit_grant(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("bandit_grant()");
	PreventCommandIfParallelMode("bandit_grant()");
	change_grantees(fcinfo, "UPDATE dexp3.bandit"
					" SET grantees = array_append(array_remove(grantees, $2), $2)"
					" WHERE bandit_id = $1");
	PG_RETURN_VOID();
}

/*
 * bandit_revoke(bandit, role): the opposite
 */
Datum
bandit_revoke(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("bandit_revoke()");
	PreventCommandIfParallelMode("bandit_revoke()");
	change_grantees(fcinfo, "UPDATE dexp3.bandit"
					" SET grantees = array_remove(grantees, $2)"
					" WHERE bandit_id = $1");
	PG_RETURN_VOID();
}
