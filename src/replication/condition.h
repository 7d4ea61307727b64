/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are done only if a record is as they want it, and creates with a key.
 *
 * All of them go to one node, the first of those where the record belongs that is up: it hears what
 * the others hold, decides, and writes as for a client of its own. Of two that come at once it
 * refuses one. So one wins, for as long as the members agree who is up; on two sides of a split one
 * may win on each, and the later of them stays.
 */
#ifndef TR_REPLICATION_CONDITION_H
#define TR_REPLICATION_CONDITION_H

#include "replication/operation.h"

/* Whether a request is decided in that way. */
static inline bool tr_condition_is_due(const struct tr_operation *operation)
{
    return operation->condition.when != TR_WHEN_ANY || operation->is_keyed;
}

/* `held` is NULL where nothing is. */
static inline bool tr_condition_holds(const struct tr_condition *condition,
                                      const struct tr_head *held)
{
    bool is_there = held != NULL && (held->flags & TR_RECORD_TOMBSTONE) == 0;
    switch (condition->when) {
    case TR_WHEN_ANY:
        return true;
    case TR_WHEN_ABSENT:
        return !is_there;
    case TR_WHEN_THERE:
        return is_there;
    case TR_WHEN_SAME:
        break;
    }
    bool is_dead = is_there && (held->flags & TR_RECORD_DEAD) != 0;
    uint64_t pop = !is_there ? 0 : held->key.part > 0 ? held->key.part : held->order.sequence;
    return is_there && held->order.version == condition->version && pop == condition->sequence &&
           held->order.attempt == condition->attempt && is_dead == condition->is_dead;
}

/* What a node holds is heard of. */
void tr_condition_hear(struct tr_operation *operation, const struct tr_head *held);

/* Whether another one for the same record is under way here. */
bool tr_condition_is_busy(const struct tr_replication *replication,
                          const struct tr_operation *operation);

/* The node that decides; 0: this one. TR_MEMBER_NONE: none that could is up. */
uint16_t tr_condition_place(const struct tr_replication *replication, tr_timer_id id,
                            uint32_t factor);

/* How a result is told to the node that has passed the request on, and back. */
enum tr_frame_result tr_condition_tell(enum tr_result result, bool is_replayed);
enum tr_result tr_condition_hear_result(enum tr_frame_result result);

#endif
