/*
 * publish.c
 *	  Publishing the sums of a shared bandit.
 *
 * Whoever chooses or settles does it, in the same transaction, once some time has
 * passed since it was last done.  What is published includes what this transaction has
 * done so far: others see either both or neither.  Nobody waits.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "component.h"
#include "node.h"
#include "publish.h"

int			publish_interval = 1000;

static void
write_sums(const Bandit *bandit, bool thoroughly)
{
	Sums		sums;

	sums_take(&sums, bandit, RowExclusiveLock, NUM_ARM_SUMS, 0, bandit->params.arms);
	component_write(bandit, &sums.totals, thoroughly);
}

/*
 * Publish the sums of a bandit now.
 */
void
publish(const Bandit *bandit)
{
	write_sums(bandit, true);
}

/*
 * This command has changed a bandit: if it is shared, let others know.
 */
void
publish_changed(int32 bandit_id)
{
	const Bandit *bandit;

	CommandCounterIncrement();
	bandit = bandit_by_id(bandit_id);
	if (bandit != NULL && bandit->shared)
		publish(bandit);
}

/*
 * Publish the sums of a bandit if it is shared, some time has passed and nobody else is
 * about to.
 */
void
publish_if_due(const Sums *sums, const Bandit *bandit)
{
	int64		version;
	TimestampTz written_at;
	int64		age;

	if (!bandit->shared || publish_interval < 0 ||
		!shared_claim_publishing(&sums->log, publish_interval) ||
		!component_lock_to_write())
		return;
	/* the entry in shared memory may be new, or missing */
	if (component_find_newest(bandit->name, own_node(), VALID_ROWS, &version, &written_at))
	{
		/* it may have been written since our statement began */
		age = time_of_action() - written_at;
		if (age < publish_interval * INT64CONST(1000) && age > -USECS_PER_MINUTE)
			return;
	}
	write_sums(bandit, false);
}
