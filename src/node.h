/*
 * node.h
 *	  The number of this server among those that share bandits.
 */
#ifndef DEXP3_NODE_H
#define DEXP3_NODE_H

#include "postgres.h"

/*
 * The identifiers of decisions have the number of the server that made them above
 * these bits.  All of them are below 2^53, so that they are exact in JSON.
 */
#define NODE_SHIFT	48
#define MAX_NODE	31

/* Return the node that a decision belongs to, or -1 if no node can have made it. */
static inline int
node_of_decision(int64 decision_id)
{
	int64		node = decision_id >> NODE_SHIFT;

	return decision_id > 0 && node <= MAX_NODE ? (int) node : -1;
}

extern int	own_node(void);
extern void skip_ids(Oid sequence_id, int64 id);
extern void set_own_node(int node, int64 last);

#endif							/* DEXP3_NODE_H */
