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
bool tr_condition_holds(const struct tr_condition *condition, const struct tr_head *held);

/* What a node holds is heard of. */
void tr_condition_hear(struct tr_operation *operation, const struct tr_head *held);

/* All have been heard. True: the request is over, and was answered. */
bool tr_condition_decide(struct tr_replication *replication, struct tr_operation *operation,
                         bool is_known, struct tr_effects *out);

/* Whether another one for the same record is under way here. */
bool tr_condition_is_busy(const struct tr_replication *replication,
                          const struct tr_operation *operation);

/* The node that decides; 0: this one. TR_MEMBER_NONE: none that could is up. */
uint16_t tr_condition_place(const struct tr_replication *replication, tr_timer_id id,
                            uint32_t factor);

/* Has another node decide. */
void tr_condition_pass_on(struct tr_replication *replication, struct tr_operation *operation,
                          uint16_t member);

/* Another node has passed one on to this one. */
void tr_condition_passed(struct tr_replication *replication, uint16_t peer,
                         const struct tr_frame_pass *pass, struct tr_whole *whole,
                         struct tr_effects *out);

/* The node that it was passed on to has answered. */
void tr_condition_answered(struct tr_replication *replication, struct tr_operation *operation,
                           uint16_t member, enum tr_frame_result result, struct tr_effects *out);

/* How a result is told to the node that has passed the request on, and back. */
enum tr_frame_result tr_condition_tell(enum tr_result result, bool is_replayed);

#endif
