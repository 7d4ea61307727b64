/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebalancing: bringing each record to the nodes where the view places it, and then dropping it
 * everywhere else. Restart, return, repair and scaling are all this.
 *
 * One node moves a record, the first of those that hold it which is up and popping: the same that
 * pops it. So a record never has two owners, and one that moves is popped by the node that popped
 * it before, until all of the new replica set have it and all others have dropped it.
 *
 *   settled
 *     the view places it elsewhere, or a hinted node is no longer needed:
 *   moving     a new replica set, `from` the old one; sent to both; copies pending for the new set
 *     enough of the new set have it:
 *   dropping   those of the old set that are not of the new one are sent drops
 *     all of them have, or are down:
 *   in place   the new set hears of it, and pops from now on; a node that is down stays in `from`,
 *              and is sent a drop when it comes back
 *
 * None of this is kept beside the record: whoever takes over goes on from what the record says. A
 * change on the way, an outcome or a new version, has a higher order, and is waited for anew.
 *
 * The store is walked by the hash of ids from a cursor, which no insert, pop or change moves a
 * record across. A walk ends; it comes again when something was found, or when who is up or the
 * view changes. While nodes that are up show other views nothing is moved, since two nodes that
 * disagree would move it to and fro.
 *
 * Owns:    where the walk is, and which records this node moves.
 * Bounds:  `moves` records at once; a slice of the walk in a step.
 */
#ifndef TR_REPLICATION_REBALANCE_H
#define TR_REPLICATION_REBALANCE_H

#include "replication/replication.h"

void tr_rebalance_run(struct tr_replication *replication, struct tr_effects *out);
tr_mono_ms tr_rebalance_wake_at(const struct tr_replication *replication);

/* Another walk, from the beginning: who is up, or the view, has changed. */
void tr_rebalance_again(struct tr_replication *replication);
void tr_rebalance_asked(struct tr_replication *replication); /* by the operator */

/* Takes one record a step further, as the walk would: a node acknowledged or dropped it, or its
 * entry is durable. `may_send`: also sends copies and drops that were sent before. */
void tr_rebalance_look(struct tr_replication *replication, tr_ref ref, struct tr_head *head,
                       bool may_send);

/* Whether records may be on nodes other than those where the view places them: then reads and drops
 * go to every node that is up. */
bool tr_rebalance_may_be_elsewhere(const struct tr_replication *replication);

/* The view has changed lately: nodes of it may have yet to come. */
bool tr_rebalance_is_view_new(const struct tr_replication *replication);

#endif
