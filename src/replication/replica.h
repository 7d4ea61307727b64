/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storing what other nodes send. Of two records with one key the higher order stays, wherever and
 * in whatever order they arrive.
 *
 * Owns:    nothing.
 */
#ifndef TR_REPLICATION_REPLICA_H
#define TR_REPLICATION_REPLICA_H

#include "replication/replication.h"

/* Stores a client's write. STORED: it is new here. HELD: this very write was here already, and may
 * have been popped or moved since. EXISTS, STALE or FULL: why it was not stored. */
enum tr_frame_result tr_replica_take(struct tr_replication *replication, enum tr_write_mode mode,
                                     bool has_room, struct tr_whole *whole, tr_ref *ref);

/* The same for another node, which is answered. */
void tr_replica_write(struct tr_replication *replication, uint16_t peer, uint64_t operation,
                      enum tr_write_mode mode, struct tr_whole *whole,
                      const struct tr_frame_names *names);

/* A copy of a whole record; or, of one that is here, its new order and times. */
void tr_replica_copy(struct tr_replication *replication, uint16_t peer, struct tr_whole *whole,
                     const struct tr_frame_names *names);
void tr_replica_outcome(struct tr_replication *replication, uint16_t peer,
                        const struct tr_head *outcome, int64_t due_in_ms, uint32_t check);

#endif
