/*
 * upkeep.c
 *	  What must be done from time to time: settle decisions whose feedback is
 *	  missing, remove old rows from the log.
 *
 * Every choose takes a small share of it; bandit_expire() and bandit_trim() do
 * all that is due.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "arguments.h"
#include "feedback.h"
#include "log.h"
#include "ownersql.h"
#include "progress.h"
#include "tables.h"
#include "trim.h"
#include "upkeep.h"

PG_FUNCTION_INFO_V1(bandit_expire);
PG_FUNCTION_INFO_V1(bandit_trim);

/* How many decisions bandit_trim() removes with one statement. */
#define TRIM_BATCH		10000

/* ----------
 * Missing feedback
 * ----------
 */

/*
 * Return since when a decision must have been open for its feedback to count as
 * missing.
 */
TimestampTz
expiry_time(const Bandit *bandit)
{
	if (bandit->feedback_window == NULL)
		return DT_NOBEGIN;
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
												   TimestampTzGetDatum(GetCurrentStatementStartTimestamp()),
												   IntervalPGetDatum(bandit->feedback_window)));
}

/*
 * Settle a decision with the loss of missing feedback, unless somebody else is
 * settling it.
 */
static bool
expire(const Bandit *bandit, Current *current, OpenDecision *open, TimestampTz before)
{
	TransactionId settler;
	uint32		token;
	Decision	decision;

	if (log_settlement_status(open->decision_id, &settler, &token) != NOT_SETTLED ||
		!log_find_decision(open->decision_id, &decision))
		return false;

	/* an old checkpoint does not tell when it was made */
	open->decided_at = decision.decided_at;
	return decision.decided_at < before &&
		settle(bandit, current, &decision, bandit->missing_loss, true);
}

/*
 * Settle decisions whose feedback is missing, the oldest first, but not more
 * than so many; return their number.
 *
 * If somebody else is doing this at the same time, go on somewhere else, lest all
 * sessions try the same.
 */
int64
expire_some(const Bandit *bandit, Current *current, int64 limit)
{
	Fold	   *fold = current_fold(current);
	TimestampTz before;
	int64		first = fold->open_first;
	int64		start = 0;
	int64		due = 0;
	int64		still_open = 0;
	int64		expired = 0;

	if (bandit->feedback_window == NULL)
		return 0;

	before = expiry_time(bandit);
	while (still_open < 4 * limit && first + due < fold->open_end &&
		   (fold->open[first + due].closed ||
			fold->open[first + due].decided_at < before))
	{
		still_open += !fold->open[first + due].closed;
		due++;
	}
	for (int64 i = 0; i < due && expired < limit; i++)
	{
		OpenDecision *open = &fold->open[first + (start + i) % due];

		CHECK_FOR_INTERRUPTS();
		if (open->closed)
			continue;
		if (expire(bandit, current, open, before))
			expired++;
		else if (start == 0)
		{
			start = MyProcPid;	/* and once round from there */
			i = -1;
		}
	}
	return expired;
}

/*
 * Settle all decisions whose feedback is missing, also those behind one that is
 * waited for: decisions of long transactions are not in the order of their times.
 * *done counts on.
 */
static void
expire_all(const Bandit *bandit, Current *current, int64 *done, Progress *progress)
{
	Fold	   *fold = current_fold(current);
	TimestampTz before = expiry_time(bandit);

	for (int64 i = fold->open_first; i < fold->open_end; i++)
	{
		OpenDecision *open = &fold->open[i];

		CHECK_FOR_INTERRUPTS();
		if (!open->closed && open->decided_at < before &&
			expire(bandit, current, open, before) && ++*done % 1000 == 0)
			progress_report(progress, *done);
	}
}

/* ----------
 * SQL functions
 * ----------
 */

static void
add_bandit_id(void *context, HeapTuple tuple, TupleDesc tupdesc)
{
	List	  **ids = context;
	bool		isnull;

	*ids = lappend_int(*ids, DatumGetInt32(heap_getattr(tuple, 1, tupdesc, &isnull)));
}

/*
 * Return the identifiers of the bandit in the first argument or, if that is
 * null, of all that the given statement finds and the user may use.
 */
static List *
argument_bandits(FunctionCallInfo fcinfo, const char *sql)
{
	List	   *all = NIL;
	List	   *usable = NIL;
	ListCell   *lc;

	if (!PG_ARGISNULL(0))
		return list_make1_int(bandit_by_name(PG_GETARG_TEXT_PP(0), BANDIT_USE)->bandit_id);

	(void) run_as_owner(sql, 0, NULL, NULL, NULL, add_bandit_id, &all);
	foreach(lc, all)
	{
		const Bandit *bandit = bandit_by_id(lfirst_int(lc));

		if (bandit != NULL && bandit_may(bandit, BANDIT_USE))
			usable = lappend_int(usable, lfirst_int(lc));
	}
	return usable;
}

/*
 * bandit_expire(bandit): settle all decisions whose feedback is missing
 */
Datum
bandit_expire(PG_FUNCTION_ARGS)
{
	int64		total = 0;
	Progress	progress;
	List	   *ids;
	ListCell   *lc;

	PreventCommandIfReadOnly("bandit_expire()");
	PreventCommandIfParallelMode("bandit_expire()");
	progress_start(&progress, "decisions", 0);
	ids = argument_bandits(fcinfo,
						   "SELECT bandit_id FROM dexp3.bandit"
						   " WHERE feedback_window IS NOT NULL ORDER BY bandit_id");
	foreach(lc, ids)
	{
		const Bandit *bandit = bandit_by_id(lfirst_int(lc));
		Current    *current;

		if (bandit == NULL || bandit->feedback_window == NULL)
			continue;			/* perhaps dropped meanwhile */
		current = current_state(bandit);
		current_prepare_to_write(current, bandit);
		expire_all(bandit, current, &total, &progress);
	}
	PG_RETURN_INT64(total);
}

/*
 * bandit_trim(bandit): remove all rows that are older than the bandit's history
 */
Datum
bandit_trim(PG_FUNCTION_ARGS)
{
	int64		total = 0;
	Progress	progress;
	List	   *ids;
	ListCell   *lc;

	PreventCommandIfReadOnly("bandit_trim()");
	PreventCommandIfParallelMode("bandit_trim()");
	progress_start(&progress, "decisions", 0);
	ids = argument_bandits(fcinfo,
						   "SELECT bandit_id FROM dexp3.bandit"
						   " WHERE history IS NOT NULL ORDER BY bandit_id");
	foreach(lc, ids)
	{
		const Bandit *bandit = bandit_by_id(lfirst_int(lc));
		uint64		from = 1;
		int64		trimmed;

		if (bandit == NULL || bandit->history == NULL)
			continue;
		total += trim_earlier_epochs(bandit);
		do
		{
			CHECK_FOR_INTERRUPTS();
			bandit = bandit_by_id(lfirst_int(lc));
			if (bandit == NULL || bandit->history == NULL)
				break;
			trimmed = current_trim(current_state(bandit), bandit, TRIM_BATCH, &from);
			total += trimmed;
			progress_report(&progress, total);
		} while (trimmed > 0);
	}
	PG_RETURN_INT64(total);
}
