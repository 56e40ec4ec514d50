/*
 * entry.h
 *	  Entries for bandits in shared memory.
 *
 * For the files that keep something in them.
 */
#ifndef DEXP3_ENTRY_H
#define DEXP3_ENTRY_H

#include "postgres.h"

#include "port/atomics.h"
#include "utils/dsa.h"

#include "frontier.h"
#include "totals.h"

/* the setting dexp3.shared_memory, in kilobytes */
extern int	shared_memory;

/* Which log. */
typedef struct SharedLog
{
	int32		bandit_id;
	int32		epoch;
	uint64		identity;		/* of the tables, see log_lock() */
	int64		half_life;		/* that its sums are weighted with */
} SharedLog;

typedef struct SharedKey
{
	Oid			database;
	int32		bandit_id;
	int32		epoch;
	uint32		unused;			/* 0: the key is compared byte by byte */
} SharedKey;

typedef struct SharedEntry
{
	SharedKey	key;
	bool		ready;			/* false while it is being made */
	uint64		number;			/* every entry ever made has a different one */
	uint64		generation;		/* it is valid in */
	uint64		identity;		/* of the log's tables */
	int64		half_life;		/* that the sums are weighted with */
	pg_atomic_uint64 last_used; /* a time */
	int64		checkpoint_events;	/* events that a checkpoint covers ... */
	uint64		checkpointer;	/* ... unless this transaction is committed
								 * ... */
	int64		next_checkpoint_events; /* ... which covers these */
	TimestampTz published_at;	/* when its sums were last published */
	uint64		mover;			/* the transaction that is moving the
								 * frontier, if it is running */
	int64		last_in_batch;	/* the last decision of all batches that were
								 * noted or found */
	Frontier	frontier;
	Counts		counts;

	/* the snapshot that it was made with, as a Moment */
	uint64		next;
	int			nrunning;

	/* the sums of each arm as in Totals, then the running transactions */
	int			arms;
	Size		size;			/* of these, in bytes */
	dsa_pointer content;

	/* what other servers have, if it is shared with any, see foreign.c */
	Size		foreign_size;
	dsa_pointer foreign;
} SharedEntry;

/* There is a counter for each of these, see foreign_slot(). */
#define NUM_ARRIVAL_SLOTS	256

/* The memory of all entries */
extern void entries_attach(void);
extern bool entries_are_attached(void);
extern bool entries_are_usable(void);
extern bool entries_without_failing(void (*action) (void *), void *argument);
extern void entries_limit_memory(uint64 limit, Size wanted);
extern uint64 entries_memory(void);

/* Throwing all of them away */
extern uint64 entries_generation(void);
extern void entries_invalidate(void);
extern void entries_note_prepared(TransactionId xid);
extern void entries_check_prepared(void);

/* One entry */
extern SharedEntry *entry_find(int32 bandit_id, int32 epoch, bool exclusive);
extern SharedEntry *entry_find_ready(const SharedLog *log, bool exclusive);
extern SharedEntry *entry_find_or_make(const SharedLog *log);
extern uint64 entry_next_number(void);
extern bool entry_is_valid(const SharedEntry *entry);
extern bool entry_is_of(const SharedEntry *entry, const SharedLog *log);
extern dsa_pointer entry_allocate(Size size);
extern void *entry_address(dsa_pointer pointer);
extern void entry_free_foreign(SharedEntry *entry);
extern void entry_free_content(SharedEntry *entry);
extern void entry_remove(SharedEntry *entry);
extern void entry_unlock(SharedEntry *entry);

/* Rows of other servers */
extern pg_atomic_uint64 *arrival_counter(int slot);

#endif							/* DEXP3_ENTRY_H */
