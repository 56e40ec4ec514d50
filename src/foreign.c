/*
 * foreign.c
 *	  The sums of other servers, in the entries of shared bandits.
 *
 * So they cost no more than a bandit's own.  They are read from dexp3.component, and are
 * good until a row for the bandit arrives there: a counter tells.  Whoever reads the
 * table looks at the counter before it takes a snapshot; whoever brings a row counts
 * when all snapshots see it.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"

#include "compat.h"
#include "entry.h"
#include "foreign.h"

/*
 * The sums of other servers.  They are good as long as the counter of arrivals and
 * the bandit's definition are these.
 */
typedef struct ForeignPart
{
	uint64		arrivals;
	uint64		definition;
	Counts		counts;
	int			arms;
	double		z[FLEXIBLE_ARRAY_MEMBER];
} ForeignPart;

/*
 * Return which counter counts the rows that arrive for a bandit.  Several bandits
 * may have the same one: then their rows are read once too often.
 */
int
foreign_slot(const text *bandit)
{
	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(bandit),
							   VARSIZE_ANY_EXHDR(bandit), MyDatabaseId) % NUM_ARRIVAL_SLOTS;
}

/*
 * Return how often rows have arrived for a bandit.
 */
uint64
foreign_arrivals(const text *bandit)
{
	pg_atomic_uint64 *counter;

	entries_attach();
	counter = arrival_counter(foreign_slot(bandit));
	return counter == NULL ? 0 : pg_atomic_read_u64(counter);
}

/*
 * Count a transaction that has brought rows, once others see them.  This cannot fail.
 */
void
foreign_note_arrival(int slot)
{
	pg_atomic_uint64 *counter = arrival_counter(slot);

	if (counter != NULL)
		pg_atomic_fetch_add_u64(counter, 1);
}

/*
 * Read the sums of other servers: their counts, and z of the selected arms.  Returns
 * false if there are none, or if they are out of date.
 */
bool
foreign_read(const SharedLog *log, const Bandit *bandit, const Selection *selection,
			 Totals *foreign)
{
	uint64		arrivals = foreign_arrivals(bandit->name);
	SharedEntry *entry;
	bool		good = false;

	if (!entries_are_usable())
		return false;
	foreign->nsums = 1;
	foreign->arms = selection->arms;
	foreign->sums = palloc(totals_sums_size(foreign));
	entry = entry_find_ready(log, false);
	if (entry == NULL)
		return false;
	if (DsaPointerIsValid(entry->foreign))
	{
		ForeignPart *part = entry_address(entry->foreign);
		Totals		all = {.nsums = 1,.arms = part->arms,.sums = part->z};

		good = part->arrivals == arrivals && part->definition == bandit->definition;
		if (good)
		{
			foreign->counts = part->counts;
			totals_select(&all, selection->first_arm, foreign);
		}
	}
	entry_unlock(entry);
	return good;
}

typedef struct NewForeign
{
	const SharedLog *log;
	const Bandit *bandit;
	uint64		arrivals;
	const Totals *foreign;
} NewForeign;

static void
keep_foreign(void *argument)
{
	const NewForeign *new = argument;
	const Totals *foreign = new->foreign;
	Size		size = offsetof(ForeignPart, z) + totals_sums_size(foreign);
	SharedEntry *entry = entry_find(new->log->bandit_id, new->log->epoch, true);
	ForeignPart *part;

	if (entry == NULL)
		return;
	if (!entry_is_of(entry, new->log))
	{
		entry_unlock(entry);
		return;
	}
	if (DsaPointerIsValid(entry->foreign) && entry->foreign_size != size)
		entry_free_foreign(entry);
	if (!DsaPointerIsValid(entry->foreign))
	{
		entry->foreign = entry_allocate(size);
		entry->foreign_size = size;
	}
	part = entry_address(entry->foreign);
	part->arrivals = new->arrivals;
	part->definition = new->bandit->definition;
	part->counts = foreign->counts;
	part->arms = foreign->arms;
	memcpy(part->z, foreign->sums, totals_sums_size(foreign));
	entry_unlock(entry);
}

/*
 * Keep the sums of other servers, of all arms, that were read after the counter of
 * arrivals had been looked at.  They may be out of date already: then nobody uses them.
 * Without memory they are read again next time.
 */
void
foreign_keep(const SharedLog *log, const Bandit *bandit, uint64 arrivals,
			 const Totals *foreign)
{
	NewForeign	new = {
		.log = log,
		.bandit = bandit,
		.arrivals = arrivals,
		.foreign = foreign
	};

	if (entries_are_usable())
		(void) entries_without_failing(keep_foreign, &new);
}
