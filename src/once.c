/*
 * once.c
 *	  Writing down that decisions are settled, each of them once.
 *
 * A row of dexp3.feedback settles one decision, a row of dexp3.expiry a batch of them.
 * Nobody locks a decision in order to settle it.  Still it is settled once:
 *
 * Two rows of dexp3.feedback.  The decision is the primary key.
 *
 * A row of dexp3.feedback and a batch.  Both are inserted speculatively, as INSERT ... ON
 * CONFLICT does: others find the row, but it counts only when it is made definite.
 * Between the two the writer looks for a rival with a dirty snapshot, which shows all
 * rows but those that have been withdrawn or rolled back.  If there is one, the row is
 * withdrawn.  So each of the two writes first and looks afterwards, and therefore at
 * least one sees the other: if neither did, each would have looked before the other
 * wrote, and so before it wrote itself.
 *
 * Feedback need not look if it is known that no batch reaches its decision, which is so
 * for almost all decisions.  The entry in shared memory has the last decision of all
 * batches.  The writer of a batch notes its last decision there, after the write and
 * before the look.  Feedback reads the entry after its own write.  If it does so before
 * the batch is noted, the batch looks even later, and finds the row of feedback.  If it
 * does so afterwards, it knows of the batch: either the note is still there, or the entry
 * has been made anew since.  Its maker looks for batches after the entry has been begun,
 * and so after the batch was written.  The maker also counts batches that are not there
 * any more: it may have removed some itself, and be rolled back.
 *
 * Two batches.  They do the same with each other: a batch is withdrawn if there is
 * any other of the same bandit that reaches its first decision.  So, of two definite
 * batches that exist at the same time, all decisions of one come before all of the
 * other.  That is also what makes it quick to find the batch of a decision: it can
 * only be the first one that reaches the decision.
 *
 * Batches that are still speculative may overlap with others.  A search for a decision
 * passes over these, and stops at the first other one, X.  If a batch A that covers the
 * decision is not seen because of that, this does no harm.  Either A looks for rows of
 * dexp3.feedback only after that, and finds the one that was written before the look at
 * X.  Or A has looked already, and for batches even earlier.  Either X was there then,
 * and A is withdrawn; or X was not, and X found A when it looked, and is not definite.
 * That is why a batch looks for batches first.
 *
 * Decisions that are removed.  trim.c removes a decision and how it was settled in one
 * transaction.  So the last check is whether the decision is still there: if it is, how
 * it was settled was there, too, when the writer looked for that.
 *
 * Which one withdraws: both, if they have seen each other.  A batch gives up and never
 * waits; its writer may try again without the decision.  Feedback waits until a
 * speculative batch has been withdrawn or made definite, which takes no longer than
 * looking at its decisions; its own row stays there, so that the batch sees it.
 *
 * Rows that come from elsewhere are compared with what is here, and noted, before they are
 * inserted, see arrival.c.  That leaves a gap: they are not meant to come while their bandit
 * is in use.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"

#include "log.h"
#include "once.h"
#include "own.h"
#include "settlement.h"

/* A row that has been written, but counts for nobody yet. */
typedef struct NewRow
{
	const FeedbackRow *feedback;	/* one of these two */
	const ExpiryRow *batch;
	const SharedLog *log;		/* of feedback */
	bool		may_be_removed; /* are decisions, after they have been
								 * settled? */
} NewRow;

/*
 * Is there no batch that covers the decision of a row of dexp3.feedback?  Feedback
 * waits for one that may be withdrawn.
 */
static bool
is_in_no_batch(const SharedLog *log, const FeedbackRow *row)
{
	Settlement	settlement;

	/*
	 * what this transaction has done to the log by other means is not in the
	 * entry
	 */
	if (!own_is_disturbed(row->bandit_id, row->epoch) &&
		row->decision_id > shared_last_in_batch(log))
		return true;
	while (settlement_find_batch(row->bandit_id, row->epoch, row->decision_id, &settlement))
	{
		if (settlement.speculative_token == 0 || row->settled_by != SETTLED_BY_FEEDBACK)
			return false;
		SpeculativeInsertionWait(settlement.settler, settlement.speculative_token);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/*
 * Does a batch have no rival?
 */
static bool
is_alone(const ExpiryRow *row)
{
	shared_note_batch(row->bandit_id, row->epoch, row->last_decision);
	return settlement_is_alone(row);
}

/*
 * May a row stay: has it no rival, and then, is each of its decisions still there?
 */
static bool
may_stay(void *context)
{
	const NewRow *new = context;
	const int64 *ids = new->batch ? new->batch->decisions : &new->feedback->decision_id;
	int			n = new->batch ? new->batch->n : 1;
	bool		stays = new->batch ? is_alone(new->batch) :
		is_in_no_batch(new->log, new->feedback);

	for (int i = 0; stays && new->may_be_removed && i < n; i++)
	{
		DecisionRow decision;

		stays = log_find_decision(ids[i], &decision);
	}
	return stays;
}

/*
 * Append a row of dexp3.feedback, unless the decision is settled: then return false.
 * With look_first, that is likely enough to be worth a look before anything is written.
 */
bool
once_append_feedback(const SharedLog *log, const FeedbackRow *row, bool look_first,
					 bool may_be_removed)
{
	NewRow		new = {.feedback = row,.log = log,.may_be_removed = may_be_removed};

	return log_append_feedback(row, look_first, may_stay, &new);
}

/*
 * Append a batch, unless one of its decisions is settled, or may be: then return
 * false.
 */
bool
once_append_batch(const ExpiryRow *row, bool may_be_removed)
{
	NewRow		new = {.batch = row,.may_be_removed = may_be_removed};

	return log_append_expiry(row, may_stay, &new);
}
