/*
 * component.c
 *	  The sums that each of several servers has published for a shared bandit.
 *
 * A state is a sum over rows, so it is a sum over servers of their sums.  Each server
 * writes its own to dexp3.component, as rows with its node and a version.  Replication or
 * bandit_pull() carries them to the others.  The newest version of each node counts, and
 * counts once; so it does not matter if rows come twice, late, in another order or not at
 * all.
 *
 * The version is a clock that never runs back.  Whoever brings a newer one removes those
 * before it, but never waits for somebody who is doing the same.  There is no unique
 * index: two sessions may bring the same row at the same time, and neither may wait or
 * fail.
 *
 * Arms are matched by name.  What an arm, or C, began with when arms were changed is
 * part of what is published: all servers together begin with the sum.
 */
#include "postgres.h"

#include <math.h>

#include "access/tableam.h"
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
#include "rowscan.h"
#include "tables.h"

/* The sums that are only for reports: all from ARM_DECISIONS on. */
#define NUM_REPORT_SUMS	(NUM_ARM_SUMS - ARM_DECISIONS)

/*
 * How far back from the newest version others are looked for, to be removed.  Earlier
 * ones have been removed already; while an old snapshot is open they pile up, and must
 * not be walked over again and again.
 */
#define LOOK_BACK	(10 * USECS_PER_MINUTE)

/* How long it is remembered that somebody else uses our number. */
#define REMEMBER_STRANGER	USECS_PER_HOUR

/* A node cannot have more decisions than identifiers. */
#define MAX_DECISIONS	((double) (INT64CONST(1) << NODE_SHIFT))

/* How many half-lives the clock of another server may be ahead. */
#define MAX_AHEAD	10

/* ----------
 * Scans
 * ----------
 */

/* The columns of the index. */
enum
{
	INDEX_BANDIT = 1,
	INDEX_NODE,
	INDEX_VERSION
};

#define MAX_MORE_KEYS	3

static void
begin_scan(RowScan *rows, LOCKMODE lockmode, Snapshot snapshot, const text *bandit,
		   ScanKey more, int nmore)
{
	ScanKeyData keys[1 + MAX_MORE_KEYS];

	ScanKeyEntryInitialize(&keys[0], 0, INDEX_BANDIT, BTEqualStrategyNumber,
						   InvalidOid, C_COLLATION_OID, F_TEXTEQ, PointerGetDatum(bandit));
	memcpy(keys + 1, more, sizeof(ScanKeyData) * nmore);
	rows_begin(rows, tables()->component, tables()->component_idx, lockmode, snapshot, keys,
			   nmore + 1);
}

/*
 * Fetch the next row that a snapshot sees, of the highest node first and then the
 * newest; false if there is none.  The scan itself fetches all, so that no serializable
 * transaction depends on what it has read.
 */
static bool
next_row(RowScan *rows, Snapshot snapshot)
{
	while (rows_next_from_end(rows))
	{
		if (table_tuple_satisfies_snapshot(rows->table, rows->slot, snapshot))
			return true;
	}
	return false;
}

static void
node_key(ScanKey key, StrategyNumber strategy, RegProcedure procedure, int32 node)
{
	ScanKeyInit(key, INDEX_NODE, strategy, procedure, Int32GetDatum(node));
}

/* ----------
 * Reading
 * ----------
 */

/*
 * Read an array of numbers, which must have n elements; otherwise return NULL.
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

/*
 * Read what tells which row this is.
 */
static void
read_head(TupleTableSlot *slot, ComponentRow *row)
{
	Datum	   *values = slot->tts_values;

	slot_getsomeattrs(slot, Anum_component_forgotten);
	memset(row, 0, sizeof(ComponentRow));
	row->node = DatumGetInt32(values[Anum_component_node - 1]);
	row->epoch = DatumGetInt32(values[Anum_component_epoch - 1]);
	row->version = DatumGetInt64(values[Anum_component_version - 1]);
	row->written_at = DatumGetTimestampTz(values[Anum_component_written_at - 1]);
	row->forgotten = DatumGetBool(values[Anum_component_forgotten - 1]);
}

static bool
is_number_of_decisions(double n)
{
	return n >= 0 && n <= MAX_DECISIONS;
}

/*
 * Can a server have published these numbers?  What reports and states are made of
 * must not make them fail.  With a half-life, a decision counts up to twice.
 */
static bool
are_possible(const ComponentRow *row)
{
	const Counts *counts = &row->counts;

	for (int i = 0; i < (ARM_LOSS - ARM_DECISIONS) * row->narms; i++)
	{
		if (!is_number_of_decisions(row->sums[i]))
			return false;
	}
	return row->node >= 0 && row->node <= MAX_NODE &&
		row->playable >= 0 && row->playable <= row->narms &&
		is_number_of_decisions((double) counts->decisions) &&
		is_number_of_decisions((double) counts->closed) &&
		is_number_of_decisions((double) counts->expired) &&
		counts->settled >= 0 && counts->settled <= 2 * (double) counts->closed &&
		isfinite(counts->total_loss) && isfinite(counts->cost);
}

/*
 * Read a row.  It may have been written by anybody, and must not make us fail.
 */
static void
read_row(TupleTableSlot *slot, ComponentRow *row)
{
	Datum	   *values = slot->tts_values;
	const double *range;
	ArrayType  *names;
	Counts	   *counts = &row->counts;

	read_head(slot, row);
	slot_getallattrs(slot);
	row->playable = DatumGetInt32(values[Anum_component_playable - 1]);
	row->algorithm = TextDatumGetCString(values[Anum_component_algorithm - 1]);
	row->optimism = DatumGetFloat8(values[Anum_component_optimism - 1]);
	if (!slot->tts_isnull[Anum_component_half_life - 1])
		row->half_life = bandit_microseconds(DatumGetIntervalP(values[Anum_component_half_life - 1]));

	counts_init(counts);
	counts->decisions = DatumGetInt64(values[Anum_component_rounds - 1]);
	counts->closed = DatumGetInt64(values[Anum_component_settled - 1]);
	counts->expired = DatumGetInt64(values[Anum_component_expired - 1]);
	counts->last_decision = time_or_never(slot, Anum_component_last_decision);
	counts->last_feedback = time_or_never(slot, Anum_component_last_feedback);
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
	row->wrong = range == NULL || row->z == NULL || row->sums == NULL || !are_possible(row) ||
		(slot->tts_isnull[Anum_component_half_life - 1] ? counts->half_lives != 0 : row->half_life <= 0);
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
		RowScan		rows;

		node_key(&key, BTLessEqualStrategyNumber, F_INT4LE, last_node);
		begin_scan(&rows, AccessShareLock, SnapshotAny, bandit, &key, 1);
		found = next_row(&rows, snapshot);
		if (found)
		{
			ComponentRow row;

			read_row(rows.slot, &row);
			visit(context, &row);
			last_node = row.node - 1;
			found = row.node > PG_INT32_MIN;
		}
		rows_end(&rows);
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
	RowScan		rows;
	bool		found = false;

	node_key(&key, BTEqualStrategyNumber, F_INT4EQ, node);
	begin_scan(&rows, AccessShareLock, SnapshotAny, bandit, &key, 1);
	*version = NO_VERSION;
	*written_at = DT_NOBEGIN;
	while (!found && next_row(&rows, SnapshotSelf))
	{
		ComponentRow row;

		read_head(rows.slot, &row);
		found = which == ALL_ROWS || row.forgotten == (which == FORGOTTEN_ROWS);
		if (found)
		{
			*version = row.version;
			*written_at = row.written_at;
		}
	}
	rows_end(&rows);
	return found;
}

/*
 * Say why a row does not count for a bandit, or return NULL if it does.
 */
const char *
component_problem(const ComponentRow *row, const Bandit *bandit)
{
	bool	   *is_there;

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
	if (row->half_life != 0 &&
		row->counts.half_lives > time_of_action() / row->half_life + MAX_AHEAD)
		return "its clock is ahead";
	is_there = palloc0(sizeof(bool) * bandit->params.arms);
	for (int i = 0; i < row->playable; i++)
	{
		int			arm = bandit_find_arm(bandit, DatumGetTextPP(row->arms[i]));

		if (arm < 0 || bandit_is_retired(bandit, arm))
			return psprintf("it has arm \"%s\"", TextDatumGetCString(row->arms[i]));
		is_there[arm] = true;
	}
	for (int i = 0; i < bandit->params.arms; i++)
	{
		if (!is_there[i] && !bandit_is_retired(bandit, i))
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
is_to_go(TupleTableSlot *slot, OlderVersions which)
{
	ComponentRow row;

	if (which == OLDER_OF_OTHERS)
		return true;
	read_head(slot, &row);
	if (which == OLDER_OF_STRANGER)
		return row.forgotten;
	return !row.forgotten || row.written_at < time_of_action() - REMEMBER_STRANGER;
}

/*
 * Remove versions of a node before the given one, which is about to come, but only rows
 * that nobody else is removing.
 */
void
component_remove_older(const text *bandit, int32 node, int64 version, OlderVersions which,
					   bool thoroughly)
{
	ScanKeyData keys[MAX_MORE_KEYS];
	RowScan		rows;
	int64		newest;
	TimestampTz written_at;
	int64		from = NO_VERSION;

	if (!thoroughly && component_find_newest(bandit, node, ALL_ROWS, &newest, &written_at) &&
		Min(newest, version) > NO_VERSION + LOOK_BACK)
		from = Min(newest, version) - LOOK_BACK;
	node_key(&keys[0], BTEqualStrategyNumber, F_INT4EQ, node);
	ScanKeyInit(&keys[1], INDEX_VERSION, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(from));
	ScanKeyInit(&keys[2], INDEX_VERSION, BTLessStrategyNumber, F_INT8LT,
				Int64GetDatum(version));
	begin_scan(&rows, RowExclusiveLock, SnapshotSelf, bandit, keys, lengthof(keys));
	while (rows_next_from_end(&rows))
	{
		if (is_to_go(rows.slot, which))
			rows_delete(&rows);
	}
	rows_end(&rows);
}

/*
 * Set the columns about each arm.  Those in play come first.  What an arm began with is
 * multiplied by "fade".
 */
static void
form_arms(const Bandit *bandit, const Totals *totals, double fade, Datum *values)
{
	int			narms = bandit->params.arms;
	Datum	   *names = palloc(sizeof(Datum) * narms);
	double	   *z = palloc(sizeof(double) * narms);
	double	   *sums = palloc(sizeof(double) * NUM_REPORT_SUMS * narms);
	int			in_play = 0;
	int			retired = bandit->playable;

	for (int arm = 0; arm < narms; arm++)
	{
		int			i = bandit_is_retired(bandit, arm) ? retired++ : in_play++;

		names[i] = bandit->arms[arm];
		z[i] = totals_vector(totals, ARM_Z)[arm] +
			(bandit->head_start == NULL ? 0 : fade * bandit->head_start[arm]);
		for (int j = 0; j < NUM_REPORT_SUMS; j++)
			sums[j * narms + i] = totals_vector(totals, ARM_DECISIONS + j)[arm];
	}
	values[Anum_component_arms - 1] =
		PointerGetDatum(construct_array(names, narms, TEXTOID, -1, false, TYPALIGN_INT));
	values[Anum_component_z - 1] = number_array(z, 1, narms);
	values[Anum_component_sums - 1] = number_array(sums, NUM_REPORT_SUMS, narms);
}

/*
 * Publish the sums of a bandit on this server, all of them, as the newest version, and
 * remove older ones.
 */
void
component_write(const Bandit *bandit, Totals *totals, bool thoroughly)
{
	const Counts *counts = &totals->counts;
	int			node = own_node();
	double		range[2] = {bandit->loss_low, bandit->loss_high};
	TimestampTz now = GetCurrentTimestamp();
	double		fade = 1;
	Interval	half_life = {.time = bandit->half_life};
	int64		last;
	TimestampTz last_written;
	int64		version;
	Datum		values[Natts_component];
	bool		nulls[Natts_component] = {0};

	/* let them refer to this moment, so that nothing counts more than now */
	if (bandit->half_life != 0)
	{
		totals_refer_to(totals, time_of_action() / bandit->half_life);
		fade = exp2(fmin(half_lives_between(bandit->arms_changed_at, bandit->half_life,
											counts->half_lives), 1));
	}
	(void) component_find_newest(bandit->name, node, ALL_ROWS, &last, &last_written);
	version = Max(now, last + 1);
	component_remove_older(bandit->name, node, version, OLDER_OF_OURS, thoroughly);

	form_arms(bandit, totals, fade, values);
	values[Anum_component_bandit - 1] = PointerGetDatum(bandit->name);
	values[Anum_component_node - 1] = Int32GetDatum(node);
	values[Anum_component_epoch - 1] = Int32GetDatum(bandit->epoch);
	values[Anum_component_version - 1] = Int64GetDatum(version);
	values[Anum_component_written_at - 1] = TimestampTzGetDatum(now);
	values[Anum_component_forgotten - 1] = BoolGetDatum(false);
	values[Anum_component_playable - 1] = Int32GetDatum(bandit->playable);
	values[Anum_component_algorithm - 1] =
		CStringGetTextDatum(algorithm_name(bandit->params.algorithm));
	values[Anum_component_loss_range - 1] = number_array(range, 1, 2);
	values[Anum_component_optimism - 1] = Float8GetDatum(bandit->params.optimism);
	values[Anum_component_half_life - 1] = IntervalPGetDatum(&half_life);
	nulls[Anum_component_half_life - 1] = bandit->half_life == 0;
	values[Anum_component_rounds - 1] = Int64GetDatum(counts->decisions);
	values[Anum_component_settled - 1] = Int64GetDatum(counts->closed);
	values[Anum_component_expired - 1] = Int64GetDatum(counts->expired);
	values[Anum_component_last_decision - 1] = TimestampTzGetDatum(counts->last_decision);
	nulls[Anum_component_last_decision - 1] = counts->last_decision == DT_NOBEGIN;
	values[Anum_component_last_feedback - 1] = TimestampTzGetDatum(counts->last_feedback);
	nulls[Anum_component_last_feedback - 1] = counts->last_feedback == DT_NOBEGIN;
	values[Anum_component_half_lives - 1] = Int64GetDatum(counts->half_lives);
	values[Anum_component_weight - 1] = Float8GetDatum(counts->settled);
	values[Anum_component_total_loss - 1] = Float8GetDatum(counts->total_loss);
	values[Anum_component_cost - 1] = Float8GetDatum(counts->cost + fade * bandit->cost_offset);
	insert_row(tables()->component, values, nulls, Natts_component);
}
