/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outbox: messages that wait for a peer, by their kind, and the frames that take them. What a
 * message says of a record is looked up when its frame is encoded, so that times are right and
 * nothing old is sent twice.
 *
 * Bounds:  messages come from one pool, of which a peer has its share at most; TR_FRAMES_SIZE bytes
 *          of frames in one step.
 */
#ifndef TR_CLUSTER_OUTBOX_H
#define TR_CLUSTER_OUTBOX_H

#include "cluster/cluster.h"

#define TR_FRAMES_SIZE ((size_t)4 << 20) /* of the frames of one step */
#define TR_QUEUE_END   UINT32_MAX

/* Whether there is room for a message of this kind. */
bool tr_outbox_can_send(const struct tr_cluster *cluster, uint16_t peer, enum tr_message_kind kind);
/* Queues it. False, and it is not: the peer has not greeted, or has its share. */
bool tr_outbox_send(struct tr_cluster *cluster, uint16_t peer, struct tr_message message);
/* Drops all that waits for a peer. */
void tr_outbox_clear(struct tr_cluster *cluster, uint16_t peer);

/* Whether another frame can be encoded in this step. */
bool tr_outbox_has_frame_room(const struct tr_cluster *cluster, const struct tr_effects *out);
struct tr_writer tr_outbox_begin_frame(struct tr_cluster *cluster);
void tr_outbox_end_frame(struct tr_cluster *cluster, uint16_t peer, const struct tr_writer *writer,
                         struct tr_effects *out);

/* As many messages of a kind as there are, in one frame; there must be room for it. */
void tr_outbox_send_queue(struct tr_cluster *cluster, uint16_t peer, enum tr_message_kind kind,
                          struct tr_effects *out);
/* A frame of each kind, one after the other: they go out together. */
void tr_outbox_send_all(struct tr_cluster *cluster, uint16_t peer, struct tr_effects *out);

#endif
