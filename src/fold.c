/*
 * fold.c
 *	  Adding up the log of a managed bandit, as a snapshot sees it.
 *
 * Starting from a checkpoint, only rows of transactions that have finished since are
 * read: those that were running then, one by one, and those that came later.
 *
 * A row of dexp3.expiry says which decisions have expired, and with which loss; what
 * that adds follows from the decisions.  A snapshot that sees the row sees them, too.
 *
 * Rows that have been removed.  Old settled rows may be replaced by their sums,
 * see trim.c.  The snapshot sees either the rows or the sums, so that from the
 * start the two make the whole.  A checkpoint that has the rows does not need the
 * sums.  One that lacks some of them, because it is that old, is of no use.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "utils/snapmgr.h"

#include "fold.h"
#include "log.h"

typedef struct Fold
{
	const Bandit *bandit;
	Totals	   *totals;
	const Moment *since;		/* what the checkpoint includes */
	const Moment *moment;		/* what the result is to include */
	Snapshot	snapshot;		/* of the scan that is under way */
	const ExpiryRow *batch;		/* whose decisions are visited */
	uint64		mine;			/* our transaction, 0 if it has no identifier */
	bool		usable;			/* has the checkpoint all rows that are gone? */
	Progress	progress;
} Fold;

static bool
is_new(void *context, uint64 xact)
{
	const Fold *fold = context;

	return moment_includes(fold->moment, xact) && !moment_includes(fold->since, xact);
}

static bool
is_mine(void *context, uint64 xact)
{
	return xact == ((const Fold *) context)->mine;
}

static void
add(Fold *fold, const Addition *addition)
{
	totals_add(fold->totals, addition);
	if (counts_events(&fold->totals->counts) % 1024 == 0)
		progress_report(&fold->progress, counts_events(&fold->totals->counts));
}

static void
visit_decision(void *context, const void *row)
{
	Addition	addition;

	addition_of_decision(&addition, row);
	add(context, &addition);
}

static void
visit_feedback(void *context, const void *row)
{
	Fold	   *fold = context;
	Addition	addition;

	addition_of_feedback(&addition, row, fold->bandit);
	add(fold, &addition);
}

static void
visit_expired(void *context, const void *row)
{
	Fold	   *fold = context;
	const DecisionRow *decision = row;
	FeedbackRow feedback;

	/* as everywhere, one of another bandit does not belong to the batch */
	if (decision->bandit_id != fold->batch->bandit_id || decision->epoch != fold->batch->epoch)
		return;
	expired_feedback(&feedback, fold->batch, decision, fold->bandit);
	visit_feedback(fold, &feedback);
}

static void
visit_expiry(void *context, const void *row)
{
	Fold	   *fold = context;

	fold->batch = row;
	log_visit_decisions(fold->batch->decisions, fold->batch->n, fold->snapshot,
						visit_expired, fold);
}

static void
visit_trimmed(void *context, const void *row)
{
	totals_add_trimmed(((Fold *) context)->totals, row);
}

/*
 * Check that the rows which a removal took away are in the checkpoint.  That is
 * so if it includes all transactions up to the newest that wrote one of them,
 * save those that are still running.
 */
static void
check_removal(void *context, const void *row)
{
	Fold	   *fold = context;
	const TrimmedRow *trimmed = row;
	const Moment *since = fold->since;

	if (since->next <= trimmed->newest_xact)
		fold->usable = false;
	for (int i = 0; i < since->nrunning && since->running[i] <= trimmed->newest_xact; i++)
	{
		if (!moment_is_running(fold->moment, since->running[i]))
			fold->usable = false;
	}
}

/*
 * Visit the rows of a table that are new since the checkpoint.
 */
static void
scan_new(Fold *fold, LogTable table, Snapshot snapshot, LogVisitor visit)
{
	int32		bandit_id = fold->bandit->bandit_id;
	int32		epoch = fold->bandit->epoch;
	const Moment *since = fold->since;

	fold->snapshot = snapshot;
	for (int i = 0; i < since->nrunning; i++)
	{
		uint64		xact = since->running[i];

		if (is_new(fold, xact))
			log_scan(table, bandit_id, epoch, xact, xact + 1, snapshot,
					 is_new, visit, fold);
	}
	log_scan(table, bandit_id, epoch, since->next, fold->moment->next, snapshot,
			 is_new, visit, fold);
}

static void
scan_mine(Fold *fold, LogTable table, LogVisitor visit)
{
	fold->snapshot = SnapshotSelf;
	if (fold->mine != 0)
		log_scan(table, fold->bandit->bandit_id, fold->bandit->epoch,
				 fold->mine, fold->mine + 1, SnapshotSelf, is_mine, visit, fold);
}

/*
 * Add up the log of a bandit as a snapshot sees it, which was taken at the given moment.
 * With own rows, those that this transaction has written are added, too.  The totals must
 * be new.  Returns how many events are covered by the checkpoint that it started from.
 */
int64
fold_log(const Bandit *bandit, FoldFrom from, Snapshot snapshot, const Moment *moment,
		 bool with_own_rows, Totals *totals, Frontier *frontier)
{
	Moment		since;
	Fold		fold = {
		.bandit = bandit,
		.totals = totals,
		.since = &since,
		.moment = moment,
		.mine = U64FromFullTransactionId(GetTopFullTransactionIdIfAny()),
		.usable = true
	};
	int64		checkpoint_events;

	moment_init(&since);
	frontier_init(frontier);
	progress_start(&fold.progress, "rows", 0);
	if (from == FOLD_FROM_CHECKPOINT &&
		checkpoint_read(bandit, snapshot, totals, frontier, &since))
	{
		scan_new(&fold, LOG_TRIMMED, snapshot, check_removal);
		scan_mine(&fold, LOG_TRIMMED, check_removal);
	}
	if (!fold.usable)
	{
		pfree(totals->sums);
		totals_init(totals, totals->nsums, totals->arms);
		frontier_init(frontier);
		since.next = 0;
		since.nrunning = 0;
	}
	checkpoint_events = counts_events(&totals->counts);
	if (since.next == 0)
	{
		scan_new(&fold, LOG_TRIMMED, snapshot, visit_trimmed);
		scan_mine(&fold, LOG_TRIMMED, visit_trimmed);
	}
	scan_new(&fold, LOG_DECISIONS, snapshot, visit_decision);
	scan_new(&fold, LOG_FEEDBACK, snapshot, visit_feedback);
	scan_new(&fold, LOG_EXPIRY, snapshot, visit_expiry);

	if (with_own_rows)
	{
		scan_mine(&fold, LOG_DECISIONS, visit_decision);
		scan_mine(&fold, LOG_FEEDBACK, visit_feedback);
		scan_mine(&fold, LOG_EXPIRY, visit_expiry);
	}
	pfree(since.running);

	totals->counts.half_life = bandit->half_life;

	/* no snapshot sees how a decision was settled, but not the decision */
	if (totals->counts.closed > totals->counts.decisions)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("log of a bandit has " INT64_FORMAT " decisions, but " INT64_FORMAT " that are settled",
						totals->counts.decisions, totals->counts.closed)));
	return checkpoint_events;
}
