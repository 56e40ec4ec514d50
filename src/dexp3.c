/*
 * dexp3.c
 *	  Module magic and settings.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "compat.h"
#include "current.h"
#include "progress.h"
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
	DefineCustomIntVariable("dexp3.cache_memory",
							"Sets the memory for remembered states of bandits in each session.",
							"A state that does not fit is read again from its newest checkpoint when it is needed.",
							&cache_memory,
							65536, 64, MAX_KILOBYTES,
							PGC_USERSET, GUC_UNIT_KB,
							NULL, NULL, NULL);
	MarkGUCPrefixReserved("dexp3");

	tables_init();
	current_init();
}
