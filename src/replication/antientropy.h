/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anti-entropy: what two nodes share, by sums over ranges of hashes, whenever a link comes up.
 * Where the sums are equal both have the same, and it is marked so; where they differ, the walk
 * sends what the other is not known to have.
 *
 * A bucket that changes after it was summed counts as different. That somebody does not have a
 * record is never concluded from a sum: it is sent.
 *
 * Owns:    the sums of each node, while they are compared.
 * Bounds:  TR_BUCKETS sums of each of the two; a slice of the store is summed in a step.
 */
#ifndef TR_REPLICATION_ANTIENTROPY_H
#define TR_REPLICATION_ANTIENTROPY_H

#include "replication/replication.h"

void tr_antientropy_begin(struct tr_replication *replication, uint16_t peer);
void tr_antientropy_end(struct tr_replication *replication, uint16_t peer);
void tr_antientropy_run(struct tr_replication *replication, uint16_t peer);
bool tr_antientropy_is_summing(const struct tr_replication *replication, uint16_t peer);
/* The other node's sums have not come, or this node's were not sent; but not for too long. */
bool tr_antientropy_is_waiting(const struct tr_replication *replication, uint16_t peer);

/* The sums of the other node are here; those of this one may be sent. */
void tr_antientropy_heard(struct tr_replication *replication, uint16_t peer, const uint8_t *sums);
bool tr_antientropy_has_sums(const struct tr_replication *replication, uint16_t peer);
void tr_antientropy_send_sums(struct tr_replication *replication, uint16_t peer,
                              struct tr_effects *out);

/* A record of this hash has changed. */
void tr_antientropy_touched(struct tr_replication *replication, uint64_t hash);

/* Notes what the sums have shown of a record: that the other node has it, or may not. */
void tr_antientropy_mark(struct tr_replication *replication, uint16_t peer, tr_ref ref,
                         uint64_t hash, const struct tr_head *head);
/* For a mutant: drops a record that the other node has nothing of. False: it does not. */
bool tr_antientropy_drop_absent(struct tr_replication *replication, uint16_t peer, tr_ref ref,
                                uint64_t hash, const struct tr_head *head);

/* A node may have lost all that it had acknowledged. */
void tr_antientropy_forget_acks(struct tr_replication *replication, uint16_t peer);

#endif
