/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which records were dropped here lately: a copy that was on its way must not bring them back.
 *
 * Owns:    the notes, in a table of fixed size.
 * Bounds:  its size. A note that is young gives way to no other, so a drop that can wait does.
 */
#ifndef TR_REPLICATION_DROPPED_H
#define TR_REPLICATION_DROPPED_H

#include "replication/replication.h"

/* Whether it will be remembered that this key was dropped. If not, and it can wait, it is not
 * dropped yet. */
bool tr_dropped_can_note(const struct tr_replication *replication, const struct tr_key *key);

/* That what is at its order, or below, was dropped; or that this write alone was taken back. */
void tr_dropped_note(struct tr_replication *replication, const struct tr_head *head);
void tr_dropped_note_taken_back(struct tr_replication *replication, const struct tr_head *head);
bool tr_dropped_is_taken_back(const struct tr_replication *replication, const struct tr_head *head);

/* The order that was dropped here lately, if it is this one or a higher one; or NULL. */
const struct tr_order *tr_dropped_find(const struct tr_replication *replication,
                                       const struct tr_head *head);

/* Drops a record, here alone, and remembers it. */
void tr_dropped_remove(struct tr_replication *replication, tr_ref ref);

#endif
