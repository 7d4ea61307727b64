/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the memory of what has ended may go: a tombstone is kept until everybody who could bring
 * back what it ended has heard of it.
 *
 * Owns:    nothing; tombstones are records of the store.
 * Bounds:  half of the memory for all of them, a 32nd for those that are where they should be.
 */
#ifndef TR_REPLICATION_TOMBSTONE_H
#define TR_REPLICATION_TOMBSTONE_H

#include "replication/replication.h"

/* When the record ended, by this node's steady time. */
tr_steady_ms tr_tombstone_ended_at(const struct tr_replication *replication,
                                   const struct tr_head *head);

/* Whether a record that ends leaves one: for others who may have the record, or for its key. */
bool tr_tombstone_is_needed(const struct tr_replication *replication, const struct tr_head *head);

/* Whether this tombstone may go now, where there are `tombstones` in all. */
bool tr_tombstone_may_forget(struct tr_replication *replication, tr_ref ref,
                             const struct tr_head *head, uint64_t tombstones);

#endif
