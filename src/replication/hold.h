/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which records are held back here, since another node acts on them: it has claimed the pop, has
 * popped it already, has moved the record on, or, of a write that replaces another and may be
 * stamped anew, has yet to decide.
 *
 * Owns:    the notes, in a table of fixed size.
 * Bounds:  its size. Of a node that claims more than can be noted all is held back for a while, and
 *          a write that cannot be noted is due when it must have been decided.
 */
#ifndef TR_REPLICATION_HOLD_H
#define TR_REPLICATION_HOLD_H

#include "replication/replication.h"

#define TR_HOLD_MS 3000 /* a claim is good for as long */

/* Another node says that it makes this pop. */
void tr_hold_claim(struct tr_replication *replication, uint16_t peer, const struct tr_head *head);

/* An outcome, by a record that is not here: what comes before it has been popped. */
void tr_hold_past(struct tr_replication *replication, uint16_t peer, const struct tr_head *outcome);

/* A move, by a record that is not here: what comes of before it is popped by others. */
void tr_hold_moved(struct tr_replication *replication, uint16_t peer, const struct tr_head *head);

/* Who has shown that it moved, beyond this state of it; or TR_MEMBER_NONE. */
uint16_t tr_hold_moved_by(const struct tr_replication *replication, const struct tr_head *head);

/* A write that its coordinator, this node if it is 0, may stamp anew is held back until that has
 * decided: prepared before it is stored, opened after. Where there is no room to remember that, it
 * is due when that must have been. */
void tr_hold_prepare(const struct tr_replication *replication, uint16_t peer, struct tr_head *head);
void tr_hold_open(struct tr_replication *replication, uint16_t peer, const struct tr_head *head);
void tr_hold_close(struct tr_replication *replication, const struct tr_head *head);
bool tr_hold_is_open(const struct tr_replication *replication, const struct tr_head *head);

#endif
