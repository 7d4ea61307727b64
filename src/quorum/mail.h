/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries for other nodes, encoded when they are made, in the order in which they are made; and
 * answers that wait until the log has what they tell of.
 *
 * Bounds:  TR_MAIL_MAX bytes for one node; beyond it what can be done again later is not sent.
 */
#ifndef TR_QUORUM_MAIL_H
#define TR_QUORUM_MAIL_H

#include "quorum/quorum.h"

#define TR_MAIL_MAX ((size_t)16 << 20)

/* False, and nothing is sent: the node is not linked, too much waits for it, or there is no
 * memory. */
bool tr_mail_send(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                  struct tr_span list);

/* The same of an entry that was encoded before. */
bool tr_mail_send_again(struct tr_quorum *quorum, uint16_t peer, tr_ref piece);

/* Whether there is room for what somebody waits for beside records in bulk. */
bool tr_mail_has_room(const struct tr_quorum *quorum, uint16_t peer);

/* The same when `batch` of the log is durable. False: too many wait for that. */
bool tr_mail_promise(struct tr_quorum *quorum, uint16_t peer, uint64_t batch,
                     const struct tr_key_entry *entry);
/* A pair: the end of one only then, since what is owed for it is durable with it. */
bool tr_mail_send_pair(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                       uint64_t batch);
bool tr_mail_can_promise(const struct tr_quorum *quorum);
/* This node's own copy counts for an operation then. */
bool tr_mail_promise_own(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                         uint64_t batch);

/* The next operation whose own copy is durable now; answers to others are sent on the way. False:
 * there is none. */
bool tr_mail_next_durable(struct tr_quorum *quorum, uint64_t *operation, uint64_t *batch);

/* Frames of what waits for a node. */
void tr_mail_put_frames(struct tr_quorum *quorum, uint16_t peer, struct tr_effects *out);

/* The link is lost, and what was to go over it. */
void tr_mail_clear(struct tr_quorum *quorum, uint16_t peer);

/* An entry as a piece of its own, of which the caller takes care; TR_ARENA_NONE: no memory. */
tr_ref tr_mail_encode(struct tr_quorum *quorum, const struct tr_key_entry *entry,
                      struct tr_span list);
struct tr_reader tr_mail_read(const struct tr_quorum *quorum, tr_ref piece);

#endif
