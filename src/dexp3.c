/*
 * dexp3.c
 *	  Module magic and settings.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "arrival.h"
#include "compat.h"
#include "expire.h"
#include "own.h"
#include "progress.h"
#include "publish.h"
#include "entry.h"
#include "tables.h"

DEXP3_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	DefineCustomIntVariable("dexp3.progress_interval",
							"Sets how often long operations report their progress.",
							"The reports are messages of level NOTICE. Zero turns them off.",
							&progress_interval,
							5000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("dexp3.publish_interval",
							"Sets how often the sums of bandits that are shared with other servers are published.",
							"Whoever chooses or gives feedback does it. -1 leaves it to bandit_publish().",
							&publish_interval,
							1000, -1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("dexp3.shared_memory",
							"Sets the memory that all sessions share for the sums of bandits.",
							"Those of bandits that have not been used for longest are dropped, and made again when they are needed.",
							&shared_memory,
							65536, 0, MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB,
							NULL, NULL, NULL);
	MarkGUCPrefixReserved("dexp3");

	tables_init();
	own_init();
	expire_init();
	arrival_init();
}
