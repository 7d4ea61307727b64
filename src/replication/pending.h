/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other nodes are to have, and have not acknowledged.
 *
 * A record is pending for every node of its replica set that is not known to have exactly its
 * order: one that was sent a change and does not acknowledge it is sent the whole record. For a
 * node that is no longer of the set and may hold an older copy a drop is pending.
 *
 * Owns:    a queue for each node, of records it has to acknowledge by a time.
 * Bounds:  `pending` records a node. Of one with more the store is walked (antientropy).
 */
#ifndef TR_REPLICATION_PENDING_H
#define TR_REPLICATION_PENDING_H

#include "replication/replication.h"

#define TR_PENDING_AGAIN_MS 1000 /* a node that was sent a record has this long to say so */

/* When and how the replica set of a record hears of a change. */
enum tr_replicate {
    REPLICATE_AT_ONCE, /* what came of a pop: it has happened, whatever becomes of this disk */
    REPLICATE_DURABLE, /* the new order and times, once this node's log has them */
    REPLICATE_WHOLE,   /* a record that is new to the set, when it is durable */
    REPLICATE_PART,    /* a part, once durable; until then its timer is not sent either */
};

/* Sends what has changed to all nodes that the record names, now or once it is durable. */
void tr_pending_replicate(struct tr_replication *replication, tr_ref ref, enum tr_replicate how);

/* Sends a message of this kind to every other node that the record names. A node that is to drop
 * the record is sent a drop instead. */
void tr_pending_send_all(struct tr_replication *replication, const struct tr_head *head,
                         enum tr_message_kind kind);

/* Each node that is named, and is not known to have it, has a moment to acknowledge it. */
void tr_pending_add(struct tr_replication *replication, tr_ref ref, const struct tr_head *head);

/* Whether it is pending for a node; the head is filled in if it may be. */
bool tr_pending_has(const struct tr_replication *replication, tr_ref ref, uint16_t peer,
                    struct tr_head *head);
bool tr_pending_is_drop(const struct tr_head *head, uint16_t peer);
bool tr_pending_is_empty(struct tr_replication *replication, uint16_t peer);

/* Sends again what a node has not acknowledged in time. */
void tr_pending_run(struct tr_replication *replication, uint16_t peer);

/* One message: all of a record, a drop of this order and what is below, a drop of this order alone;
 * or, of what is pending, the one that it is. */
void tr_pending_send_copy(struct tr_replication *replication, uint16_t peer,
                          const struct tr_head *head);
/* A write that its coordinator has decided, however fresh it is. */
void tr_pending_send_decided(struct tr_replication *replication, uint16_t peer,
                             const struct tr_head *head);
void tr_pending_send_drop(struct tr_replication *replication, uint16_t peer,
                          const struct tr_head *head);
void tr_pending_send_take_back(struct tr_replication *replication, uint16_t peer,
                               const struct tr_head *head);
void tr_pending_send(struct tr_replication *replication, uint16_t peer, const struct tr_head *head);

/* A node has it. */
void tr_pending_mark(struct tr_replication *replication, tr_ref ref, const struct tr_head *head,
                     uint16_t member);

/* Its write may still be under way, and be taken back: nobody else passes it on. */
bool tr_pending_is_fresh(const struct tr_replication *replication, const struct tr_head *head);

#endif
