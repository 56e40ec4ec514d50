/*
 * bandit.c
 *	  Managed bandits by name or identifier, with a cache; who may use them.
 *
 * The cache is emptied as a whole when tables_generation() changes: whoever
 * changes a row of dexp3.bandit sends an invalidation message, see tables.c.  It is
 * emptied, too, when it has become large.
 *
 * role.c tells what roles are.  A bandit whose owner does not exist is for
 * superusers and those it was granted to.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "common/int.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "arguments.h"
#include "bandit.h"
#include "clock.h"
#include "compat.h"
#include "insert.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(dexp3_may_use);
PG_FUNCTION_INFO_V1(dexp3_may_see_warning);

/* When the cache has become as large as this it starts afresh. */
#define MAX_CACHE_SIZE		((Size) 4 * 1024 * 1024)

/* ----------
 * Look-up
 * ----------
 */

/*
 * Bandits are found by their identifier, or by a hash of their name that differs
 * from all identifiers.  Two names with the same hash take turns in the entry.
 *
 * A caller that only asks who may use a bandit, as row security does for each row, need
 * not read its arms, of which there may be many.
 */
typedef struct CacheEntry
{
	uint64		key;			/* hash key */
	const BanditRights *rights;
	Bandit	   *bandit;			/* NULL if only the rights were asked for */
} CacheEntry;

static MemoryContext cache_context = NULL;
static HTAB *cache = NULL;
static uint64 cache_generation = 0;

static uint64
key_of_id(int32 bandit_id)
{
	return (uint32) bandit_id;
}

static uint64
key_of_name(const text *name)
{
	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(name),
							   VARSIZE_ANY_EXHDR(name), 0) | (UINT64CONST(1) << 63);
}

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
		MemoryContextMemAllocated(cache_context, true) < MAX_CACHE_SIZE)
		return;

	if (cache_context != NULL)
		MemoryContextDelete(cache_context);
	cache_context = NULL;
	cache_context = AllocSetContextCreate(TopMemoryContext, "dexp3 bandits",
										  ALLOCSET_SMALL_SIZES);
	ctl.hcxt = cache_context;
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(CacheEntry);
	cache = hash_create("dexp3 bandits", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	cache_generation = tables_generation();
}

/* Is it a row that arrives, rather than one that is there? */
static bool arriving = false;

/*
 * Complain about a row that somebody else has written.
 */
static void
wrong_row(const char *problem)
{
	if (arriving)
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("wrong row for dexp3.bandit: %s", problem)));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("wrong row in dexp3.bandit: %s", problem)));
}

/*
 * Return an array that must have one dimension, counted from 1, or be empty.
 */
static ArrayType *
plain_array(Datum array)
{
	ArrayType  *result = DatumGetArrayTypePCopy(array);

	if (ARR_NDIM(result) > 1 || (ARR_NDIM(result) == 1 && ARR_LBOUND(result)[0] != 1))
		wrong_row("an array has another shape");
	if (array_contains_nulls(result))
		wrong_row("an array has a null");
	return result;
}

/*
 * Compare two names, byte by byte.
 */
int
bandit_compare_names(const text *a, const text *b)
{
	return varstr_cmp(VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
					  VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b), C_COLLATION_OID);
}

/*
 * Compare a name with that of an arm.
 */
static int
compare_with_arm(const void *name, const void *arm, void *arms)
{
	return bandit_compare_names(name, DatumGetTextPP(((Datum *) arms)[*(const int *) arm]));
}

static int
compare_arms(const void *a, const void *b, void *arms)
{
	return compare_with_arm(DatumGetTextPP(((Datum *) arms)[*(const int *) a]), b, arms);
}

/*
 * Return the number of an arm, or -1 if there is none of that name.
 */
int
bandit_find_arm(const Bandit *bandit, const text *name)
{
	int		   *arm = bsearch_arg(name, bandit->arms_by_name, bandit->params.arms,
								  sizeof(int), compare_with_arm, bandit->arms);

	return arm != NULL ? *arm : -1;
}

bool
bandit_is_retired(const Bandit *bandit, int arm)
{
	return bandit->retired != NULL && bandit->retired[arm];
}

/*
 * Read which arms have retired; bandit->arms_by_name must be there.
 */
static const bool *
read_retired(Bandit *bandit, Datum array)
{
	int			narms = bandit->params.arms;
	bool	   *retired;
	Datum	   *names;
	int			n;

	deconstruct_array(plain_array(array),
					  TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &n);
	bandit->playable = narms;
	if (n == 0)
		return NULL;
	retired = palloc0(narms);
	for (int i = 0; i < n; i++)
	{
		int			arm = bandit_find_arm(bandit, DatumGetTextPP(names[i]));

		if (arm >= 0 && !retired[arm])
		{
			retired[arm] = true;
			bandit->playable--;
		}
	}
	if (bandit->playable < LEARNER_MIN_ARMS)
		wrong_row("too few arms are left");
	return retired;
}

/*
 * Read the numbers of an array, and return how many there are.
 */
static int
read_numbers(Datum array, Datum **numbers)
{
	int			n;

	deconstruct_array(plain_array(array),
					  FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  numbers, NULL, &n);
	return n;
}

/*
 * Read what each arm began with, 0 where it is missing.
 */
static const double *
read_head_start(Datum array, int narms)
{
	double	   *head_start;
	Datum	   *numbers;
	int			n = read_numbers(array, &numbers);

	if (n == 0)
		return NULL;
	head_start = palloc0(narms * sizeof(double));
	for (int i = 0; i < Min(n, narms); i++)
		head_start[i] = DatumGetFloat8(numbers[i]);
	return head_start;
}

static Interval *
read_interval(Datum value, bool isnull)
{
	return isnull ? NULL :
		DatumGetIntervalP(datumCopy(value, false, sizeof(Interval)));
}

/*
 * Return how long a half-life is, with months of 30 days; 0 if it is out of range.
 */
int64
bandit_microseconds(const Interval *interval)
{
	int64		days = (int64) interval->month * DAYS_PER_MONTH + interval->day;
	int64		result;

	if (pg_mul_s64_overflow(days, USECS_PER_DAY, &result) ||
		pg_add_s64_overflow(result, interval->time, &result))
		return 0;
	return result;
}

/*
 * Find out what a goal is called; false if there is none of that name.
 */
bool
goal_by_name(const char *name, Goal *goal)
{
	if (strcmp(name, "loss") == 0)
		*goal = GOAL_LOSS;
	else if (strcmp(name, "reward") == 0)
		*goal = GOAL_REWARD;
	else
		return false;
	return true;
}

/*
 * Hash what must be the same where a bandit is shared: its playable arms, in their
 * order here, and how its sums are made.
 */
static uint64
hash_definition(const Bandit *bandit, const Datum *values)
{
	static const int attnos[] = {
		Anum_bandit_name, Anum_bandit_arms, Anum_bandit_retired, Anum_bandit_loss_range
	};
	uint64		hash = hash_bytes_extended((const unsigned char *) &bandit->half_life,
										   sizeof(bandit->half_life), 0);

	hash = hash_bytes_extended((const unsigned char *) &bandit->params.optimism,
							   sizeof(bandit->params.optimism), hash);
	for (size_t i = 0; i < lengthof(attnos); i++)
	{
		struct varlena *value = PG_DETOAST_DATUM_PACKED(values[attnos[i] - 1]);

		hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(value),
								   VARSIZE_ANY_EXHDR(value), hash);
	}
	return hash;
}

static bool
may_be_null(int attno)
{
	return attno == Anum_bandit_max_delay || attno == Anum_bandit_feedback_window ||
		attno == Anum_bandit_retention || attno == Anum_bandit_optimism ||
		attno == Anum_bandit_half_life || attno == Anum_bandit_arms_changed_at ||
		attno == Anum_bandit_goal;
}

static void
read_rights(BanditRights *rights, Datum owner, Datum grantees)
{
	Datum	   *roles;

	rights->owner = *DatumGetRoleP(owner);
	deconstruct_array(plain_array(grantees), tables_role_type(), sizeof(Role),
					  false, TYPALIGN_INT, &roles, NULL, &rights->ngrantees);
	rights->grantees = palloc(sizeof(Role) * Max(rights->ngrantees, 1));
	for (int i = 0; i < rights->ngrantees; i++)
		rights->grantees[i] = *DatumGetRoleP(roles[i]);
	pfree(roles);
}

/*
 * Read who may use a bandit, and nothing else.
 */
static void *
read_rights_only(HeapTuple tuple, TupleDesc tupdesc)
{
	BanditRights *rights = palloc(sizeof(BanditRights));
	bool		no_owner;
	bool		no_grantees;
	Datum		owner = heap_getattr(tuple, Anum_bandit_owner, tupdesc, &no_owner);
	Datum		grantees = heap_getattr(tuple, Anum_bandit_grantees, tupdesc, &no_grantees);

	if (no_owner || no_grantees)
		wrong_row("a column is null");
	read_rights(rights, owner, grantees);
	return rights;
}

/*
 * Read the parameters of the learner, except for the number of its arms.
 */
static void
read_params(const Datum *values, const bool *nulls, LearnerParams *params)
{
	if (!algorithm_by_name(TextDatumGetCString(values[Anum_bandit_algorithm - 1]),
						   &params->algorithm))
		wrong_row("its algorithm is unknown");
	params->skipping = DatumGetBool(values[Anum_bandit_skipping - 1]);
	params->patience = params->skipping ?
		DatumGetInt32(values[Anum_bandit_patience - 1]) : 0;
	params->max_delay = nulls[Anum_bandit_max_delay - 1] ? NO_DELAY :
		DatumGetInt32(values[Anum_bandit_max_delay - 1]);
	params->step_scale = DatumGetFloat8(values[Anum_bandit_step_scale - 1]);
	if (!nulls[Anum_bandit_optimism - 1])
		params->optimism = DatumGetFloat8(values[Anum_bandit_optimism - 1]);
	if (learner_params_problem(params) != NULL)
		wrong_row(learner_params_problem(params));
}

static void *
read_bandit(HeapTuple tuple, TupleDesc tupdesc)
{
	Bandit	   *bandit = palloc0(sizeof(Bandit));
	LearnerParams *params = &bandit->params;
	Datum		values[Natts_bandit];
	bool		nulls[Natts_bandit];
	Datum	   *loss_range;

	for (int i = 0; i < Natts_bandit; i++)
	{
		values[i] = heap_getattr(tuple, i + 1, tupdesc, &nulls[i]);
		if (nulls[i] && !may_be_null(i + 1))
			wrong_row("a column is null");
	}
	bandit->bandit_id = DatumGetInt32(values[Anum_bandit_bandit_id - 1]);
	bandit->epoch = DatumGetInt32(values[Anum_bandit_epoch - 1]);
	bandit->name = DatumGetTextPCopy(values[Anum_bandit_name - 1]);
	deconstruct_array(plain_array(values[Anum_bandit_arms - 1]),
					  TEXTOID, -1, false, TYPALIGN_INT,
					  &bandit->arms, NULL, &params->arms);
	bandit->arms_by_name = palloc(sizeof(int) * Max(params->arms, 1));
	for (int i = 0; i < params->arms; i++)
		bandit->arms_by_name[i] = i;
	qsort_arg(bandit->arms_by_name, params->arms, sizeof(int), compare_arms,
			  bandit->arms);

	read_rights(&bandit->rights, values[Anum_bandit_owner - 1],
				values[Anum_bandit_grantees - 1]);

	read_params(values, nulls, params);
	bandit->feedback_window = read_interval(values[Anum_bandit_feedback_window - 1],
											nulls[Anum_bandit_feedback_window - 1]);
	bandit->missing_loss = DatumGetFloat8(values[Anum_bandit_missing_loss - 1]);
	bandit->retention = read_interval(values[Anum_bandit_retention - 1],
									  nulls[Anum_bandit_retention - 1]);
	bandit->sticky = DatumGetBool(values[Anum_bandit_sticky - 1]);
	if (read_numbers(values[Anum_bandit_loss_range - 1], &loss_range) != 2)
		wrong_row("its loss_range is not a range");
	bandit->loss_low = DatumGetFloat8(loss_range[0]);
	bandit->loss_high = DatumGetFloat8(loss_range[1]);
	bandit->clamp_losses = DatumGetBool(values[Anum_bandit_clamp_losses - 1]);

	if (!nulls[Anum_bandit_goal - 1] &&
		!goal_by_name(TextDatumGetCString(values[Anum_bandit_goal - 1]), &bandit->goal))
		wrong_row("its goal is unknown");

	bandit->retired = read_retired(bandit, values[Anum_bandit_retired - 1]);
	bandit->head_start = read_head_start(values[Anum_bandit_head_start - 1], params->arms);
	bandit->cost_offset = DatumGetFloat8(values[Anum_bandit_cost_offset - 1]);
	bandit->arms_changed_at = nulls[Anum_bandit_arms_changed_at - 1] ? DT_NOBEGIN :
		DatumGetTimestampTz(values[Anum_bandit_arms_changed_at - 1]);
	if (!nulls[Anum_bandit_half_life - 1])
	{
		bandit->half_life = bandit_microseconds(DatumGetIntervalP(values[Anum_bandit_half_life - 1]));
		if (bandit->half_life <= 0 || params->algorithm != SELF_TUNED)
			wrong_row("its half_life is out of range");
	}

	bandit->shared = DatumGetBool(values[Anum_bandit_shared - 1]) &&
		params->algorithm == SELF_TUNED;
	if (bandit->shared)
		bandit->definition = hash_definition(bandit, values);

	/* the bound of "dada-ix" depends on the oldest one */
	bandit->needs_frontier = params->skipping || bandit->feedback_window != NULL ||
		params->algorithm == DADA_IX;
	return bandit;
}

/*
 * Can there be such a window or retention?  If not, the moment that long ago may be an
 * error, too.
 */
static bool
is_span(Interval *span)
{
	Interval	zero = {0};

	return span == NULL ||
		(!TIMESTAMP_NOT_FINITE(time_before_action(span)) &&
		 DatumGetBool(DirectFunctionCall2(interval_ge, IntervalPGetDatum(span),
										  IntervalPGetDatum(&zero))));
}

static bool
is_moderate(double number)
{
	return fabs(number) <= BANDIT_MAX_LOSS;
}

/*
 * Say what is wrong with a bandit that arrives, other than what read_bandit() would
 * have found; NULL if nothing is.
 */
static const char *
bandit_problem(const Bandit *bandit)
{
	int			arms = bandit->params.arms;

	if (bandit->bandit_id < 1 || bandit->epoch < 1)
		return "its identifier or its epoch is not positive";
	if (VARSIZE_ANY_EXHDR(bandit->name) == 0 ||
		VARSIZE_ANY_EXHDR(bandit->name) > BANDIT_MAX_NAME_BYTES)
		return "its name is too short or too long";
	for (int i = 1; i < arms; i++)
	{
		if (compare_arms(&bandit->arms_by_name[i - 1], &bandit->arms_by_name[i],
						 bandit->arms) == 0)
			return "an arm is named twice";
	}
	if (!is_span(bandit->feedback_window) || !is_span(bandit->retention))
		return "its feedback_window or its retention is out of range";
	/* written so that NaN fails */
	if (!(bandit->loss_low < bandit->loss_high) || !is_moderate(bandit->loss_low) ||
		!is_moderate(bandit->loss_high))
		return "its loss_range is not a range";
	if (!(bandit->missing_loss >= bandit->loss_low &&
		  bandit->missing_loss <= bandit->loss_high))
		return "its missing_loss is out of range";
	for (int i = 0; i < arms && bandit->head_start != NULL; i++)
	{
		if (!is_moderate(bandit->head_start[i]))
			return "its head_start is out of range";
	}
	if (!is_moderate(bandit->cost_offset))
		return "its cost_offset is out of range";
	return NULL;
}

/*
 * Refuse a row that arrives if there can be no such bandit, and return its
 * identifier.
 */
int32
bandit_check_row(HeapTuple tuple, TupleDesc tupdesc)
{
	static const int times[] = {Anum_bandit_created_at, Anum_bandit_arms_changed_at};
	const Bandit *bandit;

	arriving = true;
	bandit = read_bandit(tuple, tupdesc);
	if (bandit_problem(bandit) != NULL)
		wrong_row(bandit_problem(bandit));
	for (size_t i = 0; i < lengthof(times); i++)
	{
		bool		isnull;
		Datum		time = heap_getattr(tuple, times[i], tupdesc, &isnull);

		if (!isnull && TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(time)))
			wrong_row("a time is infinite");
	}
	arriving = false;
	return bandit->bandit_id;
}

/*
 * Read the latest version of one row of dexp3.bandit, or a part of it, whatever the
 * isolation level.  A catalog snapshot is always of this moment, and can be taken in
 * parallel queries, too: what is read goes to the cache, and must not be older.
 */
static void *
load(ScanKey key, void *(*read) (HeapTuple, TupleDesc))
{
	Relation	rel = table_open_checked(tables()->bandit, AccessShareLock);
	Relation	index = index_open(key->sk_attno == Anum_bandit_name ?
								   tables()->bandit_name_key : tables()->bandit_pkey,
								   AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(rel, index, NULL, 1, key);
	HeapTuple	tuple = systable_getnext_ordered(scan, ForwardScanDirection);
	void	   *result = NULL;

	if (tuple != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(cache_context);

		arriving = false;
		result = read(tuple, RelationGetDescr(rel));
		MemoryContextSwitchTo(old);
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return result;
}

static void *
load_by_id(int32 bandit_id, void *(*read) (HeapTuple, TupleDesc))
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_bandit_bandit_id, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(bandit_id));
	return load(&key, read);
}

/*
 * Find a bandit, or only who may use it.
 */
static CacheEntry
find_in_cache(uint64 key)
{
	CacheEntry	nothing = {0};
	CacheEntry *entry;

	refresh_cache();
	entry = hash_search(cache, &key, HASH_FIND, NULL);
	return entry != NULL ? *entry : nothing;
}

/*
 * Keep what has been read, unless it may be out of date already.
 */
static void
keep(uint64 key, Bandit *bandit, const BanditRights *rights)
{
	CacheEntry *entry;

	if (cache_generation != tables_generation())
		return;
	entry = hash_search(cache, &key, HASH_ENTER, NULL);
	entry->bandit = bandit;
	entry->rights = rights;
}

static void
keep_bandit(Bandit *bandit)
{
	keep(key_of_id(bandit->bandit_id), bandit, &bandit->rights);
	keep(key_of_name(bandit->name), bandit, &bandit->rights);
}

/*
 * Find a bandit by its identifier; NULL if there is none.
 */
const Bandit *
bandit_by_id(int32 bandit_id)
{
	Bandit	   *bandit = find_in_cache(key_of_id(bandit_id)).bandit;

	if (bandit != NULL)
		return bandit;
	bandit = load_by_id(bandit_id, read_bandit);
	if (bandit != NULL)
		keep_bandit(bandit);
	return bandit;
}

/*
 * Find who may use a bandit; NULL if there is none.
 */
static const BanditRights *
rights_by_id(int32 bandit_id)
{
	uint64		key = key_of_id(bandit_id);
	const BanditRights *rights = find_in_cache(key).rights;

	if (rights != NULL)
		return rights;
	rights = load_by_id(bandit_id, read_rights_only);
	if (rights != NULL)
		keep(key, NULL, rights);
	return rights;
}

/*
 * Does a bandit, as it is in the table now, have this arm?  If so, what is remembered of
 * bandits is out of date, although the message that says so has not come yet: it is sent
 * a moment after the commit.
 */
bool
bandit_has_got_arm(int32 bandit_id, int arm)
{
	const Bandit *bandit = load_by_id(bandit_id, read_bandit);

	if (bandit == NULL || arm >= bandit->params.arms)
		return false;
	cache_generation = 0;
	return true;
}

/* ----------
 * Rights
 * ----------
 */

static bool
has_rights_of(const Role *role)
{
	Oid			roleid = role_oid(role);

	return OidIsValid(roleid) && has_privs_of_role(GetUserId(), roleid);
}

static bool
rights_allow(const BanditRights *rights, BanditRight right)
{
	if (superuser() || has_rights_of(&rights->owner))
		return true;
	if (right == BANDIT_CHANGE)
		return false;
	for (int i = 0; i < rights->ngrantees; i++)
	{
		const Role *grantee = &rights->grantees[i];

		if (role_is_public(grantee) || has_rights_of(grantee))
			return true;
	}
	return false;
}

/*
 * Does the current user have this right?
 */
bool
bandit_may(const Bandit *bandit, BanditRight right)
{
	return rights_allow(&bandit->rights, right);
}

/*
 * dexp3.may_use(bandit_id): for the row security policies of the tables
 */
Datum
dexp3_may_use(PG_FUNCTION_ARGS)
{
	const BanditRights *rights = rights_by_id(PG_GETARG_INT32(0));

	PG_RETURN_BOOL(rights != NULL ? rights_allow(rights, BANDIT_USE) : superuser());
}

/*
 * dexp3.may_see_warning(bandit_id, table_owner): likewise for dexp3.warning.  A trigger
 * is the business of its table's owner, too.
 */
Datum
dexp3_may_see_warning(PG_FUNCTION_ARGS)
{
	const Bandit *bandit = PG_ARGISNULL(0) ? NULL : bandit_by_id(PG_GETARG_INT32(0));

	PG_RETURN_BOOL(superuser() || (bandit != NULL && bandit_may(bandit, BANDIT_USE)) ||
				   (!PG_ARGISNULL(1) && has_privs_of_role(GetUserId(), PG_GETARG_OID(1))));
}

/*
 * Find a bandit by its name, which must exist and be for the current user.
 */
const Bandit *
bandit_by_name(text *name, BanditRight right)
{
	Bandit	   *bandit = find_in_cache(key_of_name(name)).bandit;

	if (bandit == NULL || bandit_compare_names(bandit->name, name) != 0)
	{
		ScanKeyData key;

		ScanKeyEntryInitialize(&key, 0, Anum_bandit_name, BTEqualStrategyNumber,
							   InvalidOid, C_COLLATION_OID, F_TEXTEQ,
							   PointerGetDatum(name));
		bandit = load(&key, read_bandit);
		if (bandit == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("bandit \"%s\" does not exist", text_to_cstring(name))));
		keep_bandit(bandit);
	}
	if (!bandit_may(bandit, right))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg(right == BANDIT_USE ? "permission denied for bandit \"%s\"" :
						"must be owner of bandit \"%s\"",
						text_to_cstring(bandit->name))));
	return bandit;
}

/*
 * Find the bandit that the first argument of a function names, for a look at it.
 */
const Bandit *
bandit_argument(FunctionCallInfo fcinfo, const char *function)
{
	check_not_null(fcinfo, 0, "bandit");
	PreventCommandIfParallelMode(function);
	return bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE);
}
