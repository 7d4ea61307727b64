/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a record: who holds it, in whose order they act, and where the view wants it.
 *
 * A record's own replica set rules, not the view: replicas in order, then hinted nodes, which hold
 * it for a replica that is down. Beside it stand the nodes that may hold an older copy and have to
 * drop it (`from`). While a record moves those are the ones that had it before, in their old order,
 * and they act first; so whoever holds the record as it was and whoever holds it as it will be
 * agree on whose turn it is.
 *
 * Owns:    nothing.
 * Bounds:  TR_SET_MAX nodes of a set, TR_FROM_MAX beside it; one that does not fit is sent a drop
 *          when it shows its copy.
 */
#ifndef TR_REPLICATION_SET_H
#define TR_REPLICATION_SET_H

#include "replication/replication.h"

#define TR_NAMES_MAX (TR_SET_MAX + TR_FROM_MAX)

/* The place of a node in the replica set of a record, or how many there are. */
static inline unsigned tr_set_place_of(const struct tr_head *head, uint16_t member)
{
    unsigned i = 0;
    TR_ASSERT(head->replicas.count <= TR_SET_MAX);
    while (i < head->replicas.count && head->replicas.members[i] != member)
        i++;
    return i;
}

/* For assertions: the replica set and `from` have no more nodes than they have places. */
static inline bool tr_set_is_bounded(const struct tr_head *head)
{
    return head->replicas.count <= TR_SET_MAX && head->from.count <= TR_FROM_MAX;
}

/* The same, and neither names a node twice. Checked of every record that another node sends. */
bool tr_set_is_sound(const struct tr_head *head);

/* Nobody but this node is named. */
static inline bool tr_set_is_own(const struct tr_head *head)
{
    return head->replicas.count == 1 && head->replicas.members[0] == 0 && head->from.count == 0;
}

bool tr_set_has(const struct tr_head *head, uint16_t member);
bool tr_set_is_named(const struct tr_head *head, uint16_t member); /* by its set, or by `from` */
void tr_set_remember(struct tr_head *head, uint16_t member);       /* in `from` */
unsigned tr_set_names(const struct tr_head *head, uint16_t *names);
unsigned tr_set_others(const struct tr_head *head); /* how many of them are not this node */

/* Of a record that has ended while it moved: its old holders that are not of the set stay in
 * `from`, since they have to hear of the end. */
void tr_set_end_move(struct tr_head *head);

/* Lists the nodes in the order of their turns to make this attempt at the pop; returns how many.
 * The order for attempt 0 also says who moves the record. A node of `from` that has dropped the
 * record keeps its place, as TR_MEMBER_NONE. */
unsigned tr_set_turns(const struct tr_replication *replication, const struct tr_head *head,
                      uint32_t attempt, uint16_t *turns);

/* Who moves it: the first that is up and pops; 0, this node, if there is none. */
uint16_t tr_set_mover(const struct tr_replication *replication, const struct tr_head *head);

/* A hash of the replica set, by addresses: the same on every node. */
uint32_t tr_set_check(const struct tr_replication *replication, const struct tr_head *head);

/* How many copies there are to be of a record that wants `factor`. */
unsigned tr_set_copies(const struct tr_replication *replication, uint32_t factor);

/* Replicas in their order, then a hinted node for each of them that is not up or failed; for a new
 * record also for those that are only starting. */
unsigned tr_set_want(const struct tr_replication *replication, tr_timer_id id, uint32_t factor,
                     const uint16_t *failed, unsigned failed_count, bool is_new, uint16_t *list);

/* It is where the view places it. */
bool tr_set_is_placed(const struct tr_replication *replication, const struct tr_head *head);

/* Whether every node of the replica set is known to have exactly this order of the record. */
bool tr_set_is_known(const struct tr_replication *replication, tr_ref ref,
                     const struct tr_head *head);
/* Whether as many nodes of the replica set have it as there should be copies (tr_set_copies). */
bool tr_set_has_enough(const struct tr_replication *replication, tr_ref ref,
                       const struct tr_head *head);

#endif
