/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which records are held back here, since another node acts on them: it has claimed the pop, has
 * popped it already, has a higher order of it, or, of a write that replaces another and may be
 * stamped anew, has yet to decide.
 *
 * Owns:    the notes, in a table of fixed size.
 * Bounds:  its size. Of a node that claims more than can be noted all is held back for a while, and
 *          a write that cannot be noted is due when it must have been decided.
 */
#ifndef TR_REPLICATION_HOLD_H
#define TR_REPLICATION_HOLD_H

#include "replication/replication.h"

#define TR_HOLD_MS   3000 /* a claim is good for as long */
#define TR_DECIDE_MS 1000 /* a coordinator has as long to decide a write, and two trips more */

/* Another node says that it makes this pop. */
void tr_hold_claim(struct tr_replication *replication, uint16_t peer, const struct tr_head *head);

/* `peer` has popped what comes before this order, and the outcome is not stored here yet: a copy
 * here of a lower order is not popped. */
void tr_hold_past(struct tr_replication *replication, uint16_t peer, const struct tr_head *outcome);

/* `peer` (0: nobody in particular) has this higher order, and it is not stored here, since the
 * record moved on or there was no room for it. Until it comes, a lower copy here is left to nodes
 * that have the higher one. */
void tr_hold_ahead(struct tr_replication *replication, uint16_t peer, const struct tr_head *head);

/* `peer` has dropped this higher order of a record that had only moved, so others have it. If that
 * very state comes, and its replica set names this node, it pops here in turn: there is nothing to
 * leave to others then, unless a note that was there before, or comes later, says more. */
void tr_hold_moved(struct tr_replication *replication, uint16_t peer, const struct tr_head *head);

/* The node that said that it has an order above this one; or TR_MEMBER_NONE. */
uint16_t tr_hold_who_is_ahead(const struct tr_replication *replication, const struct tr_head *head);

/* A write that replaces another may meet a higher version, and then its coordinator (`peer`; 0 is
 * this node) stamps it anew. Until the coordinator has decided, the write must not pop. Before it
 * is stored it is prepared: if the table has no room for a note, it is made due when the
 * coordinator must have decided. After that it is opened: the note is made. When the decision is
 * heard it is closed. */
void tr_hold_prepare(const struct tr_replication *replication, uint16_t peer, struct tr_head *head);
void tr_hold_open(struct tr_replication *replication, uint16_t peer, const struct tr_head *head);
void tr_hold_close(struct tr_replication *replication, const struct tr_head *head);
bool tr_hold_is_open(const struct tr_replication *replication, const struct tr_head *head);

#endif
