/*
 * dexp3.c
 *	  Module magic and settings.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "compat.h"
#include "progress.h"

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
	MarkGUCPrefixReserved("dexp3");
}
