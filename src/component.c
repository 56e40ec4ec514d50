/*
 * component.c
 *	  The sums that each of several servers has published of a shared bandit.
 *
 * A state is a sum over rows, so it is a sum over servers of their sums.  Each server
 * writes its own to dexp3.component, as rows with its node and a version.  Replication
 * or bandit_pull() carry them to the others.  Of each node the newest version counts,
 * and counts once; so it does not matter if rows come twice, late, in another order
 * or not at all.
 *
 * The version is a clock that never runs back.  Whoever brings a newer one removes
 * those before it, but never waits for somebody who is doing the same.  There is no
 * unique index: two sessions may bring the same row at the same time, and neither
 * shall wait or fail.
 *
 * Arms are matched by name.  What an arm, or C, began with when arms were changed is
 * part of what is published: all servers together begin with the sum.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "arguments.h"
#include "clock.h"
#include "compat.h"
#include "component.h"
#include "insert.h"
#include "node.h"
#include "tables.h"

/* The sums that are only for reports: all from ARM_DECISIONS on. */
#define NUM_REPORT_SUMS	(NUM_ARM_SUMS - ARM_DECISIONS)

/*
 * How far back of the newest version others are looked for, to be removed.  Those
 * before have been removed; while an old snapshot is open they pile up, and must not
 * be walked over again and again.
 */
#define LOOK_BACK	(10 * USECS_PER_MINUTE)

/* How long it is remembered that somebody else uses our number. */
#define REMEMBER_STRANGER	USECS_PER_HOUR

/* ----------
 * Scans
 * ----------
 */

typedef struct ComponentScan
{
	Relation	rel;
	Relation	index;
	SysScanDesc scan;
} ComponentScan;

static void
begin_scan(ComponentScan *scan, LOCKMODE lockmode, Snapshot snapshot, const text *bandit,
		   ScanKey more, int nmore)
{
	ScanKeyData keys[4];

	ScanKeyEntryInitialize(&keys[0], 0, Anum_component_bandit, BTEqualStrategyNumber,
						   InvalidOid, C_COLLATION_OID, F_TEXTEQ, PointerGetDatum(bandit));
	memcpy(keys + 1, more, sizeof(ScanKeyData) * nmore);
	scan->rel = table_open_checked(tables()->component, lockmode);
	scan->index = index_open(tables()->component_idx, lockmode);
	scan->scan = systable_beginscan_ordered(scan->rel, scan->index, snapshot, nmore + 1, keys);
}

/*
 * Return the next row that a snapshot sees, of the highest node first and then the
 * newest; or NULL.  The scan itself fetches all, so that no serializable transaction
 * depends on what it has read.
 */
static HeapTuple
next_row(ComponentScan *scan, Snapshot snapshot)
{
	HeapTuple	tuple;

	do
	{
		tuple = systable_getnext_ordered(scan->scan, BackwardScanDirection);
	} while (tuple != NULL &&
			 !table_tuple_satisfies_snapshot(scan->rel, scan->scan->slot, snapshot));
	return tuple;
}

static void
end_scan(ComponentScan *scan)
{
	systable_endscan_ordered(scan->scan);
	index_close(scan->index, NoLock);
	table_close(scan->rel, NoLock);
}

static void
node_key(ScanKey key, StrategyNumber strategy, RegProcedure procedure, int32 node)
{
	ScanKeyInit(key, Anum_component_node, strategy, procedure, Int32GetDatum(node));
}

/* ----------
 * Reading
 * ----------
 */

/*
 * Read an array of numbers, which must have so many; otherwise return NULL.
 */
static const double *
read_numbers(Datum value, int n)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	const double *numbers = (const double *) ARR_DATA_PTR(array);

	if (ARR_ELEMTYPE(array) != FLOAT8OID || array_contains_nulls(array) ||
		ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) != n)
		return NULL;
	for (int i = 0; i < n; i++)
	{
		if (!isfinite(numbers[i]))
			return NULL;
	}
	return numbers;
}

static TimestampTz
time_or_never(Datum value, bool isnull)
{
	return isnull ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

/*
 * Read what tells which row this is.
 */
static void
read_head(const ComponentScan *scan, HeapTuple tuple, ComponentRow *row)
{
	Datum		values[Anum_component_forgotten];
	bool		isnull;

	memset(row, 0, sizeof(ComponentRow));
	for (int i = 0; i < Anum_component_forgotten; i++)
		values[i] = heap_getattr(tuple, i + 1, RelationGetDescr(scan->rel), &isnull);
	row->node = DatumGetInt32(values[Anum_component_node - 1]);
	row->epoch = DatumGetInt32(values[Anum_component_epoch - 1]);
	row->version = DatumGetInt64(values[Anum_component_version - 1]);
	row->written_at = DatumGetTimestampTz(values[Anum_component_written_at - 1]);
	row->forgotten = DatumGetBool(values[Anum_component_forgotten - 1]);
}

/*
 * Read a row.  It may have been written by anybody, and must not make us fail.
 */
static void
read_row(const ComponentScan *scan, HeapTuple tuple, ComponentRow *row)
{
	Datum		values[Natts_component];
	bool		nulls[Natts_component];
	const double *range;
	ArrayType  *names;
	Counts	   *counts = &row->counts;

	read_head(scan, tuple, row);
	for (int i = 0; i < Natts_component; i++)
		values[i] = heap_getattr(tuple, i + 1, RelationGetDescr(scan->rel), &nulls[i]);
	row->playable = DatumGetInt32(values[Anum_component_playable - 1]);
	row->algorithm = TextDatumGetCString(values[Anum_component_algorithm - 1]);
	row->optimism = DatumGetFloat8(values[Anum_component_optimism - 1]);
	if (!nulls[Anum_component_half_life - 1])
		row->half_life = bandit_microseconds(DatumGetIntervalP(values[Anum_component_half_life - 1]));

	counts_init(counts);
	counts->decisions = DatumGetInt64(values[Anum_component_rounds - 1]);
	counts->closed = DatumGetInt64(values[Anum_component_settled - 1]);
	counts->expired = DatumGetInt64(values[Anum_component_expired - 1]);
	counts->last_decision = time_or_never(values[Anum_component_last_decision - 1],
										  nulls[Anum_component_last_decision - 1]);
	counts->last_feedback = time_or_never(values[Anum_component_last_feedback - 1],
										  nulls[Anum_component_last_feedback - 1]);
	counts->half_lives = DatumGetInt64(values[Anum_component_half_lives - 1]);
	counts->settled = DatumGetFloat8(values[Anum_component_weight - 1]);
	counts->total_loss = DatumGetFloat8(values[Anum_component_total_loss - 1]);
	counts->cost = DatumGetFloat8(values[Anum_component_cost - 1]);

	range = read_numbers(values[Anum_component_loss_range - 1], 2);
	names = DatumGetArrayTypeP(values[Anum_component_arms - 1]);
	if (!array_contains_nulls(names))
		deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &row->arms, NULL, &row->narms);
	row->z = read_numbers(values[Anum_component_z - 1], row->narms);
	row->sums = read_numbers(values[Anum_component_sums - 1], NUM_REPORT_SUMS * row->narms);
	row->wrong = range == NULL || row->z == NULL || row->sums == NULL ||
		row->playable < 0 || row->playable > row->narms ||
		!isfinite(counts->settled) || !isfinite(counts->total_loss) || !isfinite(counts->cost);
	if (range != NULL)
	{
		row->loss_low = range[0];
		row->loss_high = range[1];
	}
}

/*
 * Visit the newest version of each node that a snapshot sees.
 */
void
component_visit_newest(const text *bandit, Snapshot snapshot, ComponentVisitor visit,
					   void *context)
{
	int32		last_node = PG_INT32_MAX;
	bool		found;

	do
	{
		ScanKeyData key;
		ComponentScan scan;
		HeapTuple	tuple;

		node_key(&key, BTLessEqualStrategyNumber, F_INT4LE, last_node);
		begin_scan(&scan, AccessShareLock, SnapshotAny, bandit, &key, 1);
		tuple = next_row(&scan, snapshot);
		found = tuple != NULL;
		if (found)
		{
			ComponentRow row;

			read_row(&scan, tuple, &row);
			visit(context, &row);
			last_node = row.node - 1;
			found = row.node > PG_INT32_MIN;
		}
		end_scan(&scan);
	} while (found);
}

/*
 * Find the newest version of a node that has been committed or is ours, and when it was
 * written.  Returns false, and NO_VERSION, if there is none.
 */
bool
component_find_newest(const text *bandit, int32 node, WhichRows which, int64 *version,
					  TimestampTz *written_at)
{
	ScanKeyData key;
	ComponentScan scan;
	HeapTuple	tuple;

	node_key(&key, BTEqualStrategyNumber, F_INT4EQ, node);
	begin_scan(&scan, AccessShareLock, SnapshotAny, bandit, &key, 1);
	*version = NO_VERSION;
	*written_at = DT_NOBEGIN;
	while ((tuple = next_row(&scan, SnapshotSelf)) != NULL)
	{
		ComponentRow row;

		read_head(&scan, tuple, &row);
		if (which != ALL_ROWS && row.forgotten != (which == FORGOTTEN_ROWS))
			continue;
		*version = row.version;
		*written_at = row.written_at;
		break;
	}
	end_scan(&scan);
	return tuple != NULL;
}

/*
 * Say why a row does not count for a bandit, or return NULL if it does.
 */
const char *
component_problem(const ComponentRow *row, const Bandit *bandit)
{
	if (row->forgotten)
		return "it was forgotten";
	if (row->wrong)
		return "the row is damaged";
	if (strcmp(row->algorithm, algorithm_name(bandit->params.algorithm)) != 0)
		return psprintf("its algorithm is %s", row->algorithm);
	if (row->loss_low != bandit->loss_low || row->loss_high != bandit->loss_high)
		return psprintf("its loss_range is from %s to %s", number_text(row->loss_low),
						number_text(row->loss_high));
	if (row->optimism != bandit->params.optimism)
		return psprintf("its optimism is %s", number_text(row->optimism));
	if (row->half_life != bandit->half_life)
		return row->half_life == 0 ? "it has no half_life" : "its half_life is another one";
	for (int i = 0; i < row->playable; i++)
	{
		int			arm = bandit_find_arm(bandit, DatumGetTextPP(row->arms[i]));

		if (arm < 0 || bandit_is_retired(bandit, arm))
			return psprintf("it has arm \"%s\"", TextDatumGetCString(row->arms[i]));
	}
	for (int i = 0; i < bandit->params.arms && row->playable < bandit->playable; i++)
	{
		bool		found = bandit_is_retired(bandit, i);

		for (int j = 0; j < row->playable && !found; j++)
			found = bandit_compare_names(DatumGetTextPP(bandit->arms[i]),
										 DatumGetTextPP(row->arms[j])) == 0;
		if (!found)
			return psprintf("it does not have arm \"%s\"", TextDatumGetCString(bandit->arms[i]));
	}
	return NULL;
}

typedef struct Others
{
	const Bandit *bandit;
	int			own_node;
	Totals	   *totals;
} Others;

static void
add_other(void *context, const ComponentRow *row)
{
	Others	   *others = context;
	Totals	   *totals = others->totals;
	double		scale;

	if (row->node == others->own_node || component_problem(row, others->bandit) != NULL)
		return;
	totals_add_counts(totals, &row->counts, &scale);
	for (int i = 0; i < row->narms; i++)
	{
		int			arm = bandit_find_arm(others->bandit, DatumGetTextPP(row->arms[i]));
		double		sums[NUM_ARM_SUMS] = {0};

		if (arm < 0)
			continue;			/* retired there, unknown here */
		sums[ARM_Z] = row->z[i];
		for (int j = 0; j < NUM_REPORT_SUMS; j++)
			sums[ARM_DECISIONS + j] = row->sums[j * row->narms + i];
		arm_sums_add(totals->sums + arm, totals->arms, sums, 1, totals->nsums, scale);
	}
}

/*
 * Add up what the other servers have published.  The totals must be new, for all arms
 * of the bandit.
 */
void
component_read_others(const Bandit *bandit, Snapshot snapshot, Totals *others)
{
	Others		context = {
		.bandit = bandit,
		.own_node = own_node(),
		.totals = others
	};
	MemoryContext rows = AllocSetContextCreate(CurrentMemoryContext, "dexp3 components",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(rows);

	component_visit_newest(bandit->name, snapshot, add_other, &context);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(rows);
}

/* ----------
 * Writing
 * ----------
 */

/*
 * Take the right to write, unless somebody has locked the table: then return false.
 */
bool
component_lock_to_write(void)
{
	return ConditionalLockRelationOid(tables()->component, RowExclusiveLock);
}

static bool
is_to_go(const ComponentScan *scan, HeapTuple tuple, OlderVersions which)
{
	ComponentRow row;

	if (which == OLDER_OF_OTHERS)
		return true;
	read_head(scan, tuple, &row);
	if (which == OLDER_OF_STRANGER)
		return row.forgotten;
	return !row.forgotten || row.written_at < time_of_action() - REMEMBER_STRANGER;
}

/*
 * Remove versions of a node before the given one, which is about to come, but only rows that nobody else is
 * just removing.  One that this very command has written cannot be removed by it, and
 * stays.
 */
void
component_remove_older(const text *bandit, int32 node, int64 version, OlderVersions which,
					   bool thoroughly)
{
	ScanKeyData keys[3];
	ComponentScan scan;
	HeapTuple	tuple;
	int64		newest;
	TimestampTz written_at;
	int64		from = NO_VERSION;

	if (!thoroughly && component_find_newest(bandit, node, ALL_ROWS, &newest, &written_at) &&
		Min(newest, version) > NO_VERSION + LOOK_BACK)
		from = Min(newest, version) - LOOK_BACK;
	node_key(&keys[0], BTEqualStrategyNumber, F_INT4EQ, node);
	ScanKeyInit(&keys[1], Anum_component_version, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(from));
	ScanKeyInit(&keys[2], Anum_component_version, BTLessStrategyNumber, F_INT8LT,
				Int64GetDatum(version));
	begin_scan(&scan, RowExclusiveLock, SnapshotSelf, bandit, keys, 3);
	while ((tuple = systable_getnext_ordered(scan.scan, BackwardScanDirection)) != NULL)
	{
		TM_FailureData failure;

		if ((TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(tuple->t_data)) &&
			 HeapTupleHeaderGetRawCommandId(tuple->t_data) >= GetCurrentCommandId(false)) ||
			!is_to_go(&scan, tuple, which))
			continue;
		(void) table_tuple_delete(scan.rel, &tuple->t_self, GetCurrentCommandId(true),
								  SnapshotSelf, InvalidSnapshot, false, &failure, false);
	}
	end_scan(&scan);
}

static Datum
number_array(double *numbers, int rows, int columns)
{
	Datum	   *elements = palloc(sizeof(Datum) * rows * columns);
	int			dims[2] = {rows, columns};
	int			lower[2] = {1, 1};
	int			ndims = rows == 1 ? 1 : 2;

	for (int i = 0; i < rows * columns; i++)
		elements[i] = Float8GetDatum(numbers[i]);
	return PointerGetDatum(construct_md_array(elements, NULL, ndims, dims + 2 - ndims, lower,
											  FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL,
											  TYPALIGN_DOUBLE));
}

/*
 * Put the arms in the order in which they are published: those in play come first.
 */
static int *
publishing_order(const Bandit *bandit)
{
	int		   *order = palloc(sizeof(int) * bandit->params.arms);
	int			n = 0;

	for (int retired = 0; retired < 2; retired++)
	{
		for (int i = 0; i < bandit->params.arms; i++)
		{
			if (bandit_is_retired(bandit, i) == (retired != 0))
				order[n++] = i;
		}
	}
	return order;
}

/*
 * Publish the sums of a bandit on this server, all of them, as the newest version, and
 * remove older ones.
 */
void
component_write(const Bandit *bandit, Totals *totals, bool thoroughly)
{
	int			narms = bandit->params.arms;
	int			node = own_node();
	int		   *order = publishing_order(bandit);
	Datum	   *names = palloc(sizeof(Datum) * narms);
	double	   *z = palloc(sizeof(double) * narms);
	double	   *sums = palloc(sizeof(double) * NUM_REPORT_SUMS * narms);
	double		range[2] = {bandit->loss_low, bandit->loss_high};
	TimestampTz now = GetCurrentTimestamp();
	double		fade = 1;
	Interval	half_life = {.time = bandit->half_life};
	Counts		counts;
	double		scale;
	int64		last;
	TimestampTz last_written;
	int64		version;
	Datum		values[Natts_component];
	bool		nulls[Natts_component] = {0};

	/* let them refer to this moment, so that nothing counts more than now */
	if (bandit->half_life != 0)
	{
		counts_init(&counts);
		counts.half_lives = time_of_action() / bandit->half_life;
		totals_add_counts(totals, &counts, &scale);
		fade = exp2(fmin(half_lives_between(bandit->arms_changed_at, bandit->half_life,
											totals->counts.half_lives), 1));
	}
	counts = totals->counts;
	for (int i = 0; i < narms; i++)
	{
		int			arm = order[i];

		names[i] = bandit->arms[arm];
		z[i] = totals_vector(totals, ARM_Z)[arm] +
			(bandit->head_start == NULL ? 0 : fade * bandit->head_start[arm]);
		for (int j = 0; j < NUM_REPORT_SUMS; j++)
			sums[j * narms + i] = totals_vector(totals, ARM_DECISIONS + j)[arm];
	}
	(void) component_find_newest(bandit->name, node, ALL_ROWS, &last, &last_written);
	version = Max(now, last + 1);
	component_remove_older(bandit->name, node, version, OLDER_OF_OURS, thoroughly);

	values[Anum_component_bandit - 1] = PointerGetDatum(bandit->name);
	values[Anum_component_node - 1] = Int32GetDatum(node);
	values[Anum_component_epoch - 1] = Int32GetDatum(bandit->epoch);
	values[Anum_component_version - 1] = Int64GetDatum(version);
	values[Anum_component_written_at - 1] = TimestampTzGetDatum(now);
	values[Anum_component_forgotten - 1] = BoolGetDatum(false);
	values[Anum_component_arms - 1] =
		PointerGetDatum(construct_array(names, narms, TEXTOID, -1, false, TYPALIGN_INT));
	values[Anum_component_playable - 1] = Int32GetDatum(bandit->playable);
	values[Anum_component_algorithm - 1] =
		CStringGetTextDatum(algorithm_name(bandit->params.algorithm));
	values[Anum_component_loss_range - 1] = number_array(range, 1, 2);
	values[Anum_component_optimism - 1] = Float8GetDatum(bandit->params.optimism);
	values[Anum_component_half_life - 1] = IntervalPGetDatum(&half_life);
	nulls[Anum_component_half_life - 1] = bandit->half_life == 0;
	values[Anum_component_rounds - 1] = Int64GetDatum(counts.decisions);
	values[Anum_component_settled - 1] = Int64GetDatum(counts.closed);
	values[Anum_component_expired - 1] = Int64GetDatum(counts.expired);
	values[Anum_component_last_decision - 1] = TimestampTzGetDatum(counts.last_decision);
	nulls[Anum_component_last_decision - 1] = counts.last_decision == DT_NOBEGIN;
	values[Anum_component_last_feedback - 1] = TimestampTzGetDatum(counts.last_feedback);
	nulls[Anum_component_last_feedback - 1] = counts.last_feedback == DT_NOBEGIN;
	values[Anum_component_half_lives - 1] = Int64GetDatum(counts.half_lives);
	values[Anum_component_weight - 1] = Float8GetDatum(counts.settled);
	values[Anum_component_total_loss - 1] = Float8GetDatum(counts.total_loss);
	values[Anum_component_cost - 1] = Float8GetDatum(counts.cost + fade * bandit->cost_offset);
	values[Anum_component_z - 1] = number_array(z, 1, narms);
	values[Anum_component_sums - 1] = number_array(sums, NUM_REPORT_SUMS, narms);
	insert_row(tables()->component, values, nulls, Natts_component);
}
