/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: the store is gone through in the order of hashes for records that another node is not
 * known to have, and these are sent. It begins when a link comes up, after anti-entropy has shown
 * what both have, and whenever something for the node could not be sent or remembered.
 *
 * Owns:    a cursor for each node; no change moves a record across it.
 * Bounds:  a slice in a step, a window of messages; it stops while `pending` is full.
 */
#ifndef TR_REPLICATION_WALK_H
#define TR_REPLICATION_WALK_H

#include "replication/replication.h"

/* Starts a walk of the store for a node, unless one is under way. */
static inline void tr_walk_on(struct tr_progress *progress)
{
    progress->walk = progress->walk == WALK_NOT ? WALK_ON : progress->walk;
}

/* The same; but if the walk under way may have passed the record already, another one follows. */
static inline void tr_walk_all(struct tr_progress *progress)
{
    progress->walk = progress->cursor > 0 ? WALK_TWICE : progress->walk;
    tr_walk_on(progress);
}

void tr_walk_run(struct tr_replication *replication, uint16_t peer);
bool tr_walk_wants_tick(const struct tr_replication *replication, uint16_t peer);

#endif
