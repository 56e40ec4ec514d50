/*
 * component.h
 *	  The sums that each of several servers has published for a shared bandit.
 */
#ifndef DEXP3_COMPONENT_H
#define DEXP3_COMPONENT_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "bandit.h"
#include "totals.h"

/* Before all versions. */
#define NO_VERSION	PG_INT64_MIN

/* A row of dexp3.component. */
typedef struct ComponentRow
{
	int32		node;			/* the one that has written it */
	int32		epoch;			/* how often the bandit was reset there */
	int64		version;		/* a clock that never runs back */
	TimestampTz written_at;
	bool		forgotten;		/* is it not to be counted any more? */
	Datum	   *arms;			/* names: those in play, then the retired ones */
	int			narms;
	int			playable;		/* how many are in play */
	const char *algorithm;
	double		loss_low;
	double		loss_high;
	double		optimism;
	int64		half_life;		/* in microseconds, or 0 for none */
	Counts		counts;			/* those that there are columns for */
	const double *z;			/* of each arm, with what it began with */
	const double *sums;			/* from ARM_DECISIONS on, as in Totals */
	bool		wrong;			/* could it not be read? */
} ComponentRow;

typedef void (*ComponentVisitor) (void *context, const ComponentRow *row);

/* Which rows of a node. */
typedef enum WhichRows
{
	ALL_ROWS,
	VALID_ROWS,					/* those that are not forgotten */
	FORGOTTEN_ROWS
} WhichRows;

/* Which older versions are removed. */
typedef enum OlderVersions
{
	OLDER_OF_OTHERS,			/* all of them */
	OLDER_OF_OURS,				/* not those of a stranger, for an hour */
	OLDER_OF_STRANGER			/* those only */
} OlderVersions;

extern void component_visit_newest(const text *bandit, Snapshot snapshot,
								   ComponentVisitor visit, void *context);
extern bool component_find_newest(const text *bandit, int32 node, WhichRows which,
								  int64 *version, TimestampTz *written_at);
extern const char *component_problem(const ComponentRow *row, const Bandit *bandit);
extern void component_read_others(const Bandit *bandit, Snapshot snapshot, Totals *others);
extern bool component_lock_to_write(void);
extern void component_write(const Bandit *bandit, Totals *totals, bool thoroughly);
extern void component_remove_older(const text *bandit, int32 node, int64 version,
								   OlderVersions which, bool thoroughly);

#endif							/* DEXP3_COMPONENT_H */
