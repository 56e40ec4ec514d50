/*
 * bandit.c
 *	  Managed bandits by name or identifier, with a cache; who may use them.
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
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "bandit.h"
#include "compat.h"
#include "insert.h"
#include "state.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(bandit_may_use);

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

	refuse_while_inserting();

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

/*
 * Compare two names, byte by byte.
 */
int
bandit_compare_names(const text *a, const text *b)
{
	int			a_size = VARSIZE_ANY_EXHDR(a);
	int			b_size = VARSIZE_ANY_EXHDR(b);
	int			result = memcmp(VARDATA_ANY(a), VARDATA_ANY(b), Min(a_size, b_size));

	return result != 0 ? result : a_size - b_size;
}

static int
compare_arms(const void *a, const void *b, void *arms)
{
	const Datum *names = arms;

	return bandit_compare_names(DatumGetTextPP(names[*(const int *) a]),
								DatumGetTextPP(names[*(const int *) b]));
}

/*
 * Return the number of an arm, or -1 if there is none of that name.
 */
int
bandit_find_arm(const Bandit *bandit, const text *name)
{
	int			low = 0;
	int			high = bandit->setup.params.arms;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;
		int			arm = bandit->arms_by_name[middle];
		int			order = bandit_compare_names(name, DatumGetTextPP(bandit->arms[arm]));

		if (order == 0)
			return arm;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return -1;
}

bool
bandit_is_retired(const Bandit *bandit, int arm)
{
	return bandit->setup.retired != NULL && bandit->setup.retired[arm];
}

/*
 * Read what came with version 1.1; bandit->arms_by_name must be there.
 */
static void
read_newer_columns(Bandit *bandit, Datum *values, const bool *nulls)
{
	int			narms = bandit->setup.params.arms;
	Datum	   *elements;
	int			n;

	if (!nulls[Anum_bandit_feedback_window - 1])
		bandit->feedback_window = DatumGetIntervalP(datumCopy(values[Anum_bandit_feedback_window - 1],
															   false, sizeof(Interval)));
	bandit->missing_loss = DatumGetFloat8(values[Anum_bandit_missing_loss - 1]);
	if (!nulls[Anum_bandit_history - 1])
		bandit->history = DatumGetIntervalP(datumCopy(values[Anum_bandit_history - 1],
													  false, sizeof(Interval)));
	bandit->sticky = DatumGetBool(values[Anum_bandit_sticky - 1]);
	bandit->clamp = DatumGetBool(values[Anum_bandit_clamp - 1]);

	deconstruct_array(DatumGetArrayTypeP(values[Anum_bandit_loss_range - 1]),
					  FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &elements, NULL, &n);
	if (n != 2)
		wrong_row("its loss_range is not a range");
	bandit->loss_low = DatumGetFloat8(elements[0]);
	bandit->loss_high = DatumGetFloat8(elements[1]);

	deconstruct_array(DatumGetArrayTypeP(values[Anum_bandit_retired - 1]),
					  TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	if (n > 0)
	{
		bool	   *retired = palloc0(narms);
		int			playable = narms;

		for (int i = 0; i < n; i++)
		{
			int			arm = bandit_find_arm(bandit, DatumGetTextPP(elements[i]));

			if (arm >= 0 && !retired[arm])
			{
				retired[arm] = true;
				playable--;
			}
		}
		if (playable < LEARNER_MIN_ARMS)
			wrong_row("too few arms are left");
		bandit->setup.retired = retired;
	}

	deconstruct_array(DatumGetArrayTypeP(values[Anum_bandit_head_start - 1]),
					  FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &elements, NULL, &n);
	if (n > 0)
	{
		double	   *head_start = palloc0(narms * sizeof(double));

		for (int i = 0; i < Min(n, narms); i++)
			head_start[i] = DatumGetFloat8(elements[i]);
		bandit->setup.head_start = head_start;
	}
}

/*
 * Return a number that tells whether states folded for this bandit are good for
 * that one: they are if the setup is the same, and the version of the row.  A row
 * that is a new one may have come with another log.
 */
static uint64
fingerprint(const FoldSetup *setup, TransactionId writer)
{
	int			arms = setup->params.arms;
	uint64		hash = hash_bytes_extended((const unsigned char *) &setup->params,
										   sizeof(LearnerParams),
										   ((uint64) writer << 1) | setup->keep_open);

	if (setup->retired != NULL)
		hash = hash_bytes_extended((const unsigned char *) setup->retired, arms, hash);
	if (setup->head_start != NULL)
		hash = hash_bytes_extended((const unsigned char *) setup->head_start,
								   arms * sizeof(double), hash);
	return hash;
}

static bool
may_be_null(int attno)
{
	return attno == Anum_bandit_max_delay || attno == Anum_bandit_feedback_window ||
		attno == Anum_bandit_history;
}

static Bandit *
read_bandit(HeapTuple tuple, TupleDesc tupdesc)
{
	Bandit	   *bandit = palloc0(sizeof(Bandit));
	LearnerParams *params = &bandit->setup.params;
	Datum		values[Natts_bandit];
	bool		nulls[Natts_bandit];

	for (int i = 0; i < Natts_bandit; i++)
	{
		bool		known = table_has_column(tupdesc, i + 1);

		values[i] = known ? heap_getattr(tuple, i + 1, tupdesc, &nulls[i]) : (Datum) 0;
		if (known && nulls[i] && !may_be_null(i + 1))
			wrong_row("a column is null");
	}
	bandit->bandit_id = DatumGetInt32(values[Anum_bandit_bandit_id - 1]);
	bandit->epoch = DatumGetInt32(values[Anum_bandit_epoch - 1]);
	bandit->name = DatumGetTextPCopy(values[Anum_bandit_name - 1]);
	deconstruct_array(DatumGetArrayTypePCopy(values[Anum_bandit_arms - 1]),
					  TEXTOID, -1, false, TYPALIGN_INT,
					  &bandit->arms, NULL, &params->arms);
	bandit->arms_by_name = palloc(sizeof(int) * Max(params->arms, 1));
	for (int i = 0; i < params->arms; i++)
		bandit->arms_by_name[i] = i;
	qsort_arg(bandit->arms_by_name, params->arms, sizeof(int), compare_arms,
			  bandit->arms);

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

	bandit->missing_loss = 1;
	bandit->loss_high = 1;
	if (table_has_column(tupdesc, Natts_bandit))
		read_newer_columns(bandit, values, nulls);
	bandit->setup.keep_open = params->skipping || bandit->feedback_window != NULL;
	bandit->fingerprint = fingerprint(&bandit->setup,
									  HeapTupleHeaderGetRawXmin(tuple->t_data));
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

static uint64
hash_of_name(text *name)
{
	return hash_bytes_extended((unsigned char *) VARDATA_ANY(name),
							   VARSIZE_ANY_EXHDR(name), 0);
}

/*
 * Keep a bandit that has been read, unless it may be out of date already.
 */
static void
keep_bandit(Bandit *bandit)
{
	uint64		hash = hash_of_name(bandit->name);

	if (cache_generation == tables_generation())
	{
		ByIdEntry  *by_id;
		ByNameEntry *by_name;

		by_id = hash_search(cache_by_id, &bandit->bandit_id, HASH_ENTER, NULL);
		by_id->bandit = bandit;
		by_name = hash_search(cache_by_name, &hash, HASH_ENTER, NULL);
		by_name->bandit = bandit;
	}
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
	if (bandit != NULL)
		keep_bandit(bandit);
	return bandit;
}

/*
 * Has a bandit, as it is in the table now, this arm?  If so, what is remembered of
 * bandits is out of date, although the message that says so has not come yet: it
 * is sent a moment after the commit.
 */
bool
bandit_has_got_arm(int32 bandit_id, int arm)
{
	Bandit	   *bandit;
	ScanKeyData key;

	ScanKeyInit(&key, Anum_bandit_bandit_id, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(bandit_id));
	bandit = load_bandit(&key);
	if (bandit == NULL || arm >= bandit->setup.params.arms)
		return false;
	cache_generation = 0;
	return true;
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
	uint64		hash = hash_of_name(name);
	ByNameEntry *entry;
	Bandit	   *bandit;
	ScanKeyData key;

	refresh_cache();
	entry = hash_search(cache_by_name, &hash, HASH_FIND, NULL);
	if (entry != NULL && bandit_compare_names(entry->bandit->name, name) == 0)
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
	keep_bandit(bandit);
	check_right(bandit, right);
	return bandit;
}
