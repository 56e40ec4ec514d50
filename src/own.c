/*
 * own.c
 *	  What the running transaction adds to the sums of bandits.
 *
 * There are sums for each bandit and each open subtransaction that wrote rows of its log.
 * When a subtransaction is released they become part of its parent's; when it is rolled
 * back they are dropped.  When the transaction is committed they are added to what all
 * sessions share.
 *
 * Rows may also come or go in other ways: COPY, a restore, replication, TRUNCATE,
 * DELETE.  A log is called disturbed then.  Until the end of the transaction its
 * sums are folded anew for each call, and at the commit the shared ones are thrown
 * away.
 *
 * PREPARE TRANSACTION is refused after a choose or feedback: somebody else would
 * commit it, perhaps never, and feedback for a decision that it settled would have
 * to wait for that.
 *
 * All memory is the transaction's.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/memutils.h"

#include "foreign.h"
#include "own.h"

/* The sums of an arm. */
typedef struct OwnArm
{
	int			arm;			/* hash key */
	char		status;
	double		sums[NUM_ARM_SUMS];
} OwnArm;

#define SH_PREFIX		own_arms
#define SH_ELEMENT_TYPE	OwnArm
#define SH_KEY_TYPE		int
#define SH_KEY			arm
#define SH_HASH_KEY(tb, key)	murmurhash32((uint32) (key))
#define SH_EQUAL(tb, a, b)		((a) == (b))
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* The sums of a bandit in one subtransaction. */
typedef struct OwnSums
{
	struct OwnSums *outer;		/* of the next outer one that wrote */
	SubTransactionId subid;
	bool		checkpoint;		/* has a checkpoint been written? */
	bool		learned;		/* are there sums that a learner needs? */
	Cursor		settled_after;	/* the place before the first decision that it
								 * has settled, if the bandit needs to know */
	Counts		counts;
	own_arms_hash *arms;
} OwnSums;

/* The sums of a bandit. */
typedef struct OwnBandit
{
	uint64		key;			/* identifier and epoch */
	char		status;
	OwnSums    *innermost;
	Cursor		reopened_after; /* likewise, if that was rolled back */
	TimestampTz expires_after;	/* when enough decisions will be due */
} OwnBandit;

#define SH_PREFIX		own_bandits
#define SH_ELEMENT_TYPE	OwnBandit
#define SH_KEY_TYPE		uint64
#define SH_KEY			key
#define SH_HASH_KEY(tb, key)	murmurhash32((uint32) ((key) >> 32) ^ (uint32) (key))
#define SH_EQUAL(tb, a, b)		((a) == (b))
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* If more logs than this are disturbed, all are taken to be. */
#define MAX_DISTURBED	64

static own_bandits_hash * bandits = NULL;
static uint64 disturbed[MAX_DISTURBED];
static int	ndisturbed = 0;
static bool all_disturbed = false;

/* Which log the sums are of, see log_lock(); 0 if there are none yet. */
static uint64 log_identity = 0;

/* For which bandits rows of other servers have come, see foreign_slot(). */
static uint64 arrived[NUM_ARRIVAL_SLOTS / 64];
static bool any_arrived = false;

/* Are rows being removed in a way that does not change the sums? */
static bool changes_expected = false;

/* Behind all decisions: there is none. */
static const Cursor nowhere = {.xact = PG_UINT64_MAX};

static uint64
key_of(int32 bandit_id, int32 epoch)
{
	return (uint64) (uint32) bandit_id << 32 | (uint32) epoch;
}

static int32
key_bandit_id(uint64 key)
{
	return (int32) (key >> 32);
}

static int32
key_epoch(uint64 key)
{
	return (int32) (key & PG_UINT32_MAX);
}

/* ----------
 * Own sums
 * ----------
 */

/*
 * Return what this transaction has of a bandit, or NULL.
 */
static OwnBandit *
find_bandit(int32 bandit_id, int32 epoch)
{
	return bandits == NULL ? NULL : own_bandits_lookup(bandits, key_of(bandit_id, epoch));
}

/*
 * Return the sums of a bandit in the current subtransaction.
 */
static OwnSums *
current_sums(int32 bandit_id, int32 epoch)
{
	OwnBandit  *bandit;
	OwnSums    *sums;
	bool		found;

	if (bandits == NULL)
	{
		entries_attach();
		bandits = own_bandits_create(TopTransactionContext, 1, NULL);
	}
	bandit = own_bandits_insert(bandits, key_of(bandit_id, epoch), &found);
	if (!found)
	{
		bandit->innermost = NULL;
		bandit->reopened_after = nowhere;
		bandit->expires_after = DT_NOEND;
	}
	sums = bandit->innermost;
	if (sums == NULL || sums->subid != GetCurrentSubTransactionId())
	{
		sums = MemoryContextAlloc(TopTransactionContext, sizeof(OwnSums));
		sums->outer = bandit->innermost;
		sums->subid = GetCurrentSubTransactionId();
		sums->checkpoint = false;
		sums->learned = false;
		sums->settled_after = nowhere;
		counts_init(&sums->counts);
		sums->arms = own_arms_create(TopTransactionContext, 1, NULL);
		bandit->innermost = sums;
	}
	return sums;
}

/*
 * Add counts.  *scale is what the sums of arms that come with them must be multiplied
 * by.
 */
static void
add_counts(OwnSums *sums, const Counts *more, double *scale)
{
	double		own_scale = counts_add(&sums->counts, more, scale);
	own_arms_iterator iterator;
	OwnArm	   *own;

	if (own_scale == 1)
		return;
	own_arms_start_iterate(sums->arms, &iterator);
	while ((own = own_arms_iterate(sums->arms, &iterator)) != NULL)
		own->sums[ARM_Z] *= own_scale;
}

static void
add_arm(OwnSums *sums, int arm, const double *more, double scale)
{
	bool		found;
	OwnArm	   *own = own_arms_insert(sums->arms, arm, &found);

	if (!found)
		memset(own->sums, 0, sizeof(own->sums));
	arm_sums_add(own->sums, 1, more, 1, NUM_ARM_SUMS, scale);
}

/*
 * Add a row that this transaction has written.
 */
void
own_add(int32 bandit_id, int32 epoch, const Addition *addition)
{
	OwnSums    *sums = current_sums(bandit_id, epoch);
	double		scale;

	sums->learned |= addition->counts.closed > 0;
	add_counts(sums, &addition->counts, &scale);
	add_arm(sums, addition->arm, addition->sums, scale);
}

/*
 * Has this transaction written a checkpoint?  One is enough.
 */
bool
own_has_checkpoint(int32 bandit_id, int32 epoch)
{
	OwnBandit  *bandit = find_bandit(bandit_id, epoch);

	for (OwnSums *sums = bandit ? bandit->innermost : NULL; sums != NULL; sums = sums->outer)
	{
		if (sums->checkpoint)
			return true;
	}
	return false;
}

/*
 * Take note that this transaction has written a checkpoint.
 */
void
own_note_checkpoint(int32 bandit_id, int32 epoch)
{
	current_sums(bandit_id, epoch)->checkpoint = true;
}

static void
set_to_earlier(Cursor *place, const Cursor *other)
{
	if (frontier_compare(other, place) < 0)
		*place = *other;
}

/*
 * Take note that this transaction has settled a decision, for the case that a
 * savepoint is rolled back.
 */
void
own_note_settled(const DecisionRow *row)
{
	Cursor		before = {.xact = row->xact,.decision_id = row->decision_id - 1};

	set_to_earlier(&current_sums(row->bandit_id, row->epoch)->settled_after, &before);
}

/*
 * If savepoints that were rolled back have opened decisions again, let a frontier go
 * back to the place before the first one.
 */
void
own_reopen(int32 bandit_id, int32 epoch, Frontier *frontier)
{
	OwnBandit  *bandit = find_bandit(bandit_id, epoch);

	if (bandit != NULL)
		set_to_earlier(&frontier->cursor, &bandit->reopened_after);
}

/*
 * Let others know of a frontier that has been moved, after own_reopen().
 */
void
own_publish_frontier(const SharedLog *log, Frontier *frontier)
{
	OwnBandit  *bandit = find_bandit(log->bandit_id, log->epoch);

	/* what a disturbed log looks like may be taken back */
	if (own_is_disturbed(log->bandit_id, log->epoch))
		return;
	shared_publish_frontier(log, frontier);
	if (bandit != NULL)
		bandit->reopened_after = nowhere;
}

/*
 * Take note of when enough decisions of a bandit will be due, of which this
 * transaction has made one.
 */
void
own_note_expiry(int32 bandit_id, int32 epoch, TimestampTz after)
{
	OwnBandit  *bandit = find_bandit(bandit_id, epoch);

	Assert(bandit != NULL);
	bandit->expires_after = Min(bandit->expires_after, after);
}

/*
 * List the bandits of which enough decisions are due, unless somebody else is at it, and
 * return their number.
 */
int
own_expiries(TimestampTz now, OwnExpiry **expiries)
{
	own_bandits_iterator iterator;
	OwnBandit  *bandit;
	int			n = 0;

	if (bandits == NULL)
		return 0;
	own_bandits_start_iterate(bandits, &iterator);
	while ((bandit = own_bandits_iterate(bandits, &iterator)) != NULL)
	{
		int32		bandit_id = key_bandit_id(bandit->key);
		int32		epoch = key_epoch(bandit->key);
		OwnExpiry  *expiry;

		if (bandit->expires_after >= now || bandit->innermost == NULL ||
			shared_frontier_is_claimed(bandit_id, epoch))
			continue;
		if (n == 0)
			*expiries = palloc(bandits->members * sizeof(OwnExpiry));
		expiry = &(*expiries)[n++];
		expiry->bandit_id = bandit_id;
		expiry->epoch = epoch;
		expiry->decisions = bandit->innermost->counts.decisions;
	}
	return n;
}

/*
 * Add what this transaction has written so far to the committed sums.
 */
void
own_add_to(int32 bandit_id, int32 epoch, const Selection *selection, Totals *totals)
{
	OwnBandit  *bandit = find_bandit(bandit_id, epoch);

	if (bandit == NULL)
		return;
	for (OwnSums *sums = bandit->innermost; sums != NULL; sums = sums->outer)
	{
		own_arms_iterator iterator;
		OwnArm	   *own;
		double		scale;

		totals_add_counts(totals, &sums->counts, &scale);
		if (!sums->learned && selection->nsums < NUM_ARM_SUMS)
			continue;			/* decisions alone matter to reports only */
		own_arms_start_iterate(sums->arms, &iterator);
		while ((own = own_arms_iterate(sums->arms, &iterator)) != NULL)
		{
			int			arm = own->arm - selection->first_arm;

			if (arm >= 0 && arm < selection->arms)
				arm_sums_add(totals->sums + arm, totals->arms, own->sums, 1,
							 totals->nsums, scale);
		}
	}
}

/*
 * Drop the innermost sums of a bandit.
 */
static void
drop_innermost(OwnBandit *bandit)
{
	OwnSums    *sums = bandit->innermost;

	bandit->innermost = sums->outer;
	own_arms_destroy(sums->arms);
	pfree(sums);
}

/*
 * Add the innermost sums of a bandit to those around them.
 */
static void
merge_innermost(OwnBandit *bandit)
{
	OwnSums    *sums = bandit->innermost;
	own_arms_iterator iterator;
	OwnArm	   *own;
	double		scale;

	sums->outer->checkpoint |= sums->checkpoint;
	sums->outer->learned |= sums->learned;
	set_to_earlier(&sums->outer->settled_after, &sums->settled_after);
	add_counts(sums->outer, &sums->counts, &scale);
	own_arms_start_iterate(sums->arms, &iterator);
	while ((own = own_arms_iterate(sums->arms, &iterator)) != NULL)
		add_arm(sums->outer, own->arm, own->sums, scale);
	drop_innermost(bandit);
}

/* ----------
 * Disturbances
 * ----------
 */

/*
 * Let changes of the log not count as a disturbance, or count as one again.
 */
void
own_expect_changes(bool expected)
{
	changes_expected = expected;
}

bool
own_expects_changes(void)
{
	return changes_expected;
}

void
own_disturb_all(void)
{
	entries_attach();
	all_disturbed = true;
}

/*
 * Take note of the log that is in use.  If it is another one than before in this
 * transaction, it is as good as disturbed.
 */
void
own_use_log(uint64 identity)
{
	if (log_identity != 0 && identity != log_identity)
		own_disturb_all();
	log_identity = identity;
}

/*
 * Take note of the half-life of a bandit.  If own sums are weighted with another one,
 * its log is as good as disturbed.
 */
void
own_use_half_life(int32 bandit_id, int32 epoch, int64 half_life)
{
	OwnBandit  *bandit = find_bandit(bandit_id, epoch);

	for (OwnSums *sums = bandit ? bandit->innermost : NULL; sums != NULL; sums = sums->outer)
	{
		if (!counts_fit(&sums->counts, half_life))
			own_disturb(bandit_id, epoch);
	}
}

bool
own_is_disturbed(int32 bandit_id, int32 epoch)
{
	if (all_disturbed)
		return true;
	for (int i = 0; i < ndisturbed; i++)
	{
		if (disturbed[i] == key_of(bandit_id, epoch))
			return true;
	}
	return false;
}

void
own_disturb(int32 bandit_id, int32 epoch)
{
	if (own_is_disturbed(bandit_id, epoch))
		return;
	if (ndisturbed == MAX_DISTURBED)
	{
		own_disturb_all();
		return;
	}
	entries_attach();
	disturbed[ndisturbed++] = key_of(bandit_id, epoch);
}

/* ----------
 * Rows of other servers
 *
 * They come to dexp3.component.  At the commit they are counted, so that everybody
 * reads them.  Until then, this transaction reads them each time.
 * ----------
 */

static void
note_slot(int slot)
{
	entries_attach();
	arrived[slot / 64] |= UINT64CONST(1) << (slot % 64);
	any_arrived = true;
}

static bool
has_slot(int slot)
{
	return any_arrived && (arrived[slot / 64] >> (slot % 64) & 1) != 0;
}

void
own_note_arrival(const text *bandit)
{
	note_slot(foreign_slot(bandit));
}

void
own_note_arrival_for_all(void)
{
	for (int slot = 0; slot < NUM_ARRIVAL_SLOTS; slot++)
		note_slot(slot);
}

bool
own_has_arrival(const text *bandit)
{
	return any_arrived && has_slot(foreign_slot(bandit));
}

static void
count_arrivals(void)
{
	for (int slot = 0; slot < NUM_ARRIVAL_SLOTS && any_arrived; slot++)
	{
		if (has_slot(slot))
			foreign_note_arrival(slot);
	}
}

/* ----------
 * The end of transactions and savepoints
 * ----------
 */

static void
share_bandit(const OwnBandit *bandit, uint64 xact)
{
	const OwnSums *sums = bandit->innermost;
	SharedEntry *entry;
	own_arms_iterator iterator;
	OwnArm	   *own;
	double		scale;

	if (sums == NULL)
		return;					/* all was rolled back */
	Assert(sums->outer == NULL);
	entry = shared_lock_to_add(key_bandit_id(bandit->key), key_epoch(bandit->key), xact,
							   &sums->counts, sums->checkpoint, &scale);
	if (entry == NULL)
		return;
	own_arms_start_iterate(sums->arms, &iterator);
	while ((own = own_arms_iterate(sums->arms, &iterator)) != NULL)
	{
		if (!shared_add_arm(entry, own->arm, own->sums, scale))
			return;
	}
	entry_unlock(entry);
}

/*
 * Add the sums of this transaction to those that are shared, or throw them away.
 */
static void
share(void *argument pg_attribute_unused())
{
	uint64		xact = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	own_bandits_iterator iterator;
	OwnBandit  *bandit;

	if (all_disturbed || !entries_are_attached())
	{
		entries_invalidate();
		return;
	}
	for (int i = 0; i < ndisturbed; i++)
		shared_remove(key_bandit_id(disturbed[i]), key_epoch(disturbed[i]));
	if (bandits == NULL)
		return;
	own_bandits_start_iterate(bandits, &iterator);
	while ((bandit = own_bandits_iterate(bandits, &iterator)) != NULL)
		share_bandit(bandit, xact);
}

static void
forget_all(void)
{
	bandits = NULL;
	ndisturbed = 0;
	all_disturbed = false;
	log_identity = 0;
	if (any_arrived)
		memset(arrived, 0, sizeof(arrived));
	any_arrived = false;
}

static void
transaction_event(XactEvent event, void *arg pg_attribute_unused())
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			if (bandits != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has used bandit_choose or bandit_feedback")));
			break;
		case XACT_EVENT_PREPARE:
			if (ndisturbed > 0 || all_disturbed || any_arrived)
				entries_note_prepared(GetTopTransactionIdIfAny());
			forget_all();
			break;
		case XACT_EVENT_COMMIT:
			/* nothing may fail any more: if it does, all sums are made anew */
			if ((bandits != NULL || ndisturbed > 0 || all_disturbed) &&
				!entries_without_failing(share, NULL))
				entries_invalidate();
			count_arrivals();
			forget_all();
			break;
		case XACT_EVENT_ABORT:
			shared_abandon_build();
			shared_release_frontier();
			forget_all();
			break;
		default:
			break;
	}
}

static void
subtransaction_event(SubXactEvent event, SubTransactionId subid,
					 SubTransactionId parent, void *arg pg_attribute_unused())
{
	own_bandits_iterator iterator;
	OwnBandit  *bandit;

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		shared_abandon_build();
		shared_release_frontier();
	}
	if (bandits == NULL ||
		(event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB))
		return;

	own_bandits_start_iterate(bandits, &iterator);
	while ((bandit = own_bandits_iterate(bandits, &iterator)) != NULL)
	{
		OwnSums    *sums = bandit->innermost;

		if (sums == NULL || sums->subid != subid)
			continue;
		if (event == SUBXACT_EVENT_ABORT_SUB)
		{
			set_to_earlier(&bandit->reopened_after, &sums->settled_after);
			drop_innermost(bandit);
		}
		else if (sums->outer != NULL && sums->outer->subid == parent)
		{
			bool		was_disturbed = all_disturbed;

			/* if it fails half-way, the sums are not to be used */
			all_disturbed = true;
			merge_innermost(bandit);
			all_disturbed = was_disturbed;
		}
		else
			sums->subid = parent;
	}
}

void
own_init(void)
{
	RegisterXactCallback(transaction_event, NULL);
	RegisterSubXactCallback(subtransaction_event, NULL);
}
