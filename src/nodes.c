/*
 * nodes.c
 *	  What each server has published for a shared bandit, and whether it counts here.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "arguments.h"
#include "bandit.h"
#include "compat.h"
#include "component.h"
#include "node.h"
#include "sums.h"

PG_FUNCTION_INFO_V1(dexp3_node_totals);

#define NUM_COLUMNS	9

typedef struct Listing
{
	const Bandit *bandit;
	int			own_node;
	ReturnSetInfo *rsinfo;
} Listing;

static void
put_node(ReturnSetInfo *rsinfo, int node, bool own, int epoch, const Counts *counts,
		 double losses, TimestampTz written_at, bool does_count, const char *why)
{
	Datum		values[NUM_COLUMNS];
	bool		nulls[NUM_COLUMNS] = {0};

	values[0] = Int32GetDatum(node);
	values[1] = BoolGetDatum(own);
	values[2] = Int32GetDatum(epoch);
	values[3] = Int64GetDatum(counts->decisions);
	values[4] = Int64GetDatum(counts->closed);
	values[5] = Float8GetDatum(losses);
	values[6] = TimestampTzGetDatum(written_at);
	nulls[6] = TIMESTAMP_NOT_FINITE(written_at);
	values[7] = BoolGetDatum(does_count);
	nulls[8] = why == NULL;
	values[8] = why == NULL ? (Datum) 0 : CStringGetTextDatum(why);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
list_other(void *context, const ComponentRow *row)
{
	Listing    *listing = context;
	const char *problem;
	double		losses = 0;

	if (row->node == listing->own_node)
		return;
	problem = component_problem(row, listing->bandit);
	for (int i = 0; i < row->narms && !row->wrong; i++)
		losses += row->sums[(ARM_LOSS - ARM_DECISIONS) * row->narms + i];
	put_node(listing->rsinfo, row->node, false, row->epoch, &row->counts, losses,
			 row->written_at, problem == NULL, problem);
}

/*
 * dexp3.node_totals(bandit): the rows of dexp3.nodes for a bandit
 *
 * What this server has itself is shown as it is now, with the time at which it was last
 * published.
 */
Datum
dexp3_node_totals(PG_FUNCTION_ARGS)
{
	Listing		listing = {.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo};
	Sums		sums;
	Snapshot	snapshot;
	int64		version;
	TimestampTz written_at;
	TimestampTz strangers;
	const char *warning = NULL;
	double		losses = 0;

	InitMaterializedSRF(fcinfo, 0);
	listing.bandit = bandit_argument(fcinfo, "dexp3.node_totals()");
	listing.own_node = own_node();
	if (!listing.bandit->shared)
		PG_RETURN_NULL();
	sums_take(&sums, listing.bandit, AccessShareLock, NUM_ARM_SUMS, 0,
			  listing.bandit->params.arms);
	for (int i = 0; i < sums.totals.arms; i++)
		losses += totals_vector(&sums.totals, ARM_LOSS)[i];
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	component_visit_newest(listing.bandit->name, snapshot, list_other, &listing);
	UnregisterSnapshot(snapshot);
	if (component_find_newest(listing.bandit->name, listing.own_node, FORGOTTEN_ROWS,
							  &version, &strangers))
		warning = "another server has published as the same node, or this one before it was restored";
	(void) component_find_newest(listing.bandit->name, listing.own_node, VALID_ROWS,
								 &version, &written_at);
	put_node(listing.rsinfo, listing.own_node, true, listing.bandit->epoch,
			 &sums.totals.counts, losses, written_at, true, warning);
	PG_RETURN_NULL();
}
