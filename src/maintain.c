/*
 * maintain.c
 *	  bandit_expire(), bandit_trim() and bandit_publish(): do at once what every choose
 *	  does a small share of, or now and then.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "arguments.h"
#include "bandit.h"
#include "expire.h"
#include "ownersql.h"
#include "progress.h"
#include "publish.h"
#include "trim.h"

PG_FUNCTION_INFO_V1(bandit_expire);
PG_FUNCTION_INFO_V1(bandit_trim);
PG_FUNCTION_INFO_V1(bandit_publish);

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

	(void) run_as_owner(sql, 0, NULL, NULL, NULL, add_integer, &all);
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
	List	   *ids;
	ListCell   *lc;

	check_may_write("bandit_expire()");
	ids = argument_bandits(fcinfo,
						   "SELECT bandit_id FROM dexp3.bandit_rows"
						   " WHERE feedback_window IS NOT NULL ORDER BY bandit_id");
	foreach(lc, ids)
	{
		const Bandit *bandit = bandit_by_id(lfirst_int(lc));

		/* it may have been dropped meanwhile */
		if (bandit != NULL && bandit->feedback_window != NULL)
			total += expire_all(bandit);
	}
	PG_RETURN_INT64(total);
}

/*
 * bandit_trim(bandit): remove all rows that are older than the bandit's retention, and
 * what is left of bandits that were dropped
 */
Datum
bandit_trim(PG_FUNCTION_ARGS)
{
	int64		total = 0;
	Progress	progress;
	List	   *ids;
	ListCell   *lc;

	check_may_write("bandit_trim()");
	progress_start(&progress, "decisions", 0);
	ids = argument_bandits(fcinfo,
						   "SELECT bandit_id FROM dexp3.bandit_rows"
						   " WHERE retention IS NOT NULL ORDER BY bandit_id");
	foreach(lc, ids)
	{
		const Bandit *bandit = bandit_by_id(lfirst_int(lc));
		uint64		from = 1;
		int64		trimmed;

		if (bandit == NULL || bandit->retention == NULL)
			continue;
		total += trim_earlier_epochs(bandit);
		do
		{
			CHECK_FOR_INTERRUPTS();
			bandit = bandit_by_id(lfirst_int(lc));
			if (bandit == NULL || bandit->retention == NULL)
				break;
			trimmed = trim_some(bandit, &from);
			total += trimmed;
			progress_report(&progress, total);
		} while (trimmed > 0);
	}
	trim_dropped(PG_INT64_MAX);
	PG_RETURN_INT64(total);
}

/*
 * bandit_publish(bandit): publish the sums of shared bandits now
 */
Datum
bandit_publish(PG_FUNCTION_ARGS)
{
	int64		published = 0;
	List	   *ids;
	ListCell   *lc;

	check_may_write("bandit_publish()");
	ids = argument_bandits(fcinfo,
						   "SELECT bandit_id FROM dexp3.bandit WHERE shared ORDER BY bandit_id");
	foreach(lc, ids)
	{
		const Bandit *bandit = bandit_by_id(lfirst_int(lc));

		if (bandit == NULL)
			continue;			/* it has just been dropped */
		if (!bandit->shared)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("bandit \"%s\" is not shared", text_to_cstring(bandit->name)),
					 errhint("Share it with bandit_share().")));
		publish(bandit);
		published++;
	}
	PG_RETURN_INT64(published);
}
