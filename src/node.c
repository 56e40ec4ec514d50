/*
 * node.c
 *	  The number of this server among those that share bandits.
 *
 * It is in the upper bits of the sequence of decision identifiers, and nowhere else:
 * so dumps, standbys and backups have it, and no two servers with different numbers
 * give out the same identifier.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_authid.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "node.h"
#include "tables.h"

/* Milliseconds since 2000-01-01 UTC are above this; numbers of decisions are below. */
#define CLOCK_BEGAN	(INT64CONST(1) << 39)

/*
 * Return the last identifier that a sequence has given out.
 */
static int64
last_id(Oid sequence_id)
{
	Relation	rel = relation_open(sequence_id, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, SnapshotAny, 0, NULL);
	HeapTuple	tuple = systable_getnext(scan);
	Form_pg_sequence_data sequence = (Form_pg_sequence_data) GETSTRUCT(tuple);
	int64		result = sequence->is_called ? sequence->last_value :
		sequence->last_value - 1;

	systable_endscan(scan);
	relation_close(rel, AccessShareLock);
	return result;
}

static int
node_of_id(int64 id)
{
	return (int) (id >> NODE_SHIFT);
}

/*
 * Return the number of this server: 0 until somebody sets another one.
 */
int
own_node(void)
{
	return node_of_id(last_id(tables()->decision_id_seq));
}

/* ----------
 * Moving sequences
 *
 * Nobody may move one between our look at it and our change, hence the lock; it is
 * held for this moment only.  It is an advisory lock of a class that SQL cannot
 * reach.
 * ----------
 */

static LOCKTAG
lock_sequence(Oid sequence_id)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, sequence_id, 3);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	return tag;
}

/*
 * Set a sequence to an identifier that has been given out, or will be the next one.
 */
static void
set_sequence(Oid sequence_id, int64 id, bool given_out)
{
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, context | SECURITY_LOCAL_USERID_CHANGE);
	DirectFunctionCall3(setval3_oid, ObjectIdGetDatum(sequence_id), Int64GetDatum(id),
						BoolGetDatum(given_out));
	SetUserIdAndSecContext(user, context);
}

/*
 * Move a sequence past an identifier that has arrived, but never back, and never to
 * another node.
 */
void
skip_ids(Oid sequence_id, int64 id)
{
	LOCKTAG		tag;

	if (id <= last_id(sequence_id))
		return;
	tag = lock_sequence(sequence_id);
	if (id > last_id(sequence_id) && node_of_id(id) == node_of_id(last_id(sequence_id)))
		set_sequence(sequence_id, id, true);
	(void) LockRelease(&tag, ExclusiveLock, false);
}

/*
 * Return the first identifier of a node that has no decisions here.  It may have had
 * some, which were dropped with their bandit, and whose identifiers somebody may still
 * have.  As long as the numbers of this server have only grown, it has not.  Otherwise
 * begin with the time in milliseconds, and go on like that.
 */
static int64
first_id(int node, int64 last)
{
	int64		first = (int64) node << NODE_SHIFT;
	int64		n = last & ((INT64CONST(1) << NODE_SHIFT) - 1);

	return node > node_of_id(last) && n < CLOCK_BEGAN ? first + 1 :
		first + GetCurrentTimestamp() / 1000;
}

/*
 * Make this server another node, and go on after the last identifier of that node, if
 * there is one.  That is not undone by a rollback: somebody may have got an identifier
 * meanwhile.
 */
void
set_own_node(int node, int64 last)
{
	Oid			sequence_id = tables()->decision_id_seq;
	LOCKTAG		tag = lock_sequence(sequence_id);

	if (node != own_node() && last != 0)
		set_sequence(sequence_id, last, true);
	else if (node != own_node())
		set_sequence(sequence_id, first_id(node, last_id(sequence_id)), false);
	(void) LockRelease(&tag, ExclusiveLock, false);
}
