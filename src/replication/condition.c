/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/condition.h"

#include "cluster/peer.h"
#include "cluster/view.h"
#include "replication/set.h"

bool tr_condition_holds(const struct tr_condition *condition, const struct tr_head *held)
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

/* The timer before its failed pops, and of one of them the higher state. */
static bool is_above(const struct tr_head *a, const struct tr_head *b)
{
    if ((a->key.part == 0) != (b->key.part == 0))
        return a->key.part == 0;
    return tr_order_compare(&a->order, &b->order) > 0;
}

void tr_condition_hear(struct tr_operation *operation, const struct tr_head *held)
{
    TR_ASSERT(tr_condition_is_due(operation));
    if (operation->has_best && !is_above(held, &operation->best))
        return;
    operation->has_best = true;
    operation->best = *held;
}

bool tr_condition_is_busy(const struct tr_replication *replication,
                          const struct tr_operation *operation)
{
    uint32_t left = replication->operation_count;
    for (uint32_t i = 0; left > 0 && i < replication->config.operations_max; i++) {
        const struct tr_operation *other = &replication->operations[i];
        left -= other->number != 0;
        if (other->number != 0 && other != operation && other->id == operation->id &&
            other->stage != STAGE_PASSED && tr_condition_is_due(other))
            return true;
    }
    return false;
}

static enum tr_result decide(const struct tr_operation *operation, bool is_known)
{
    const struct tr_head *best = operation->has_best ? &operation->best : NULL;
    if (best == NULL && !is_known)
        return TR_NO_ANSWER; /* who may hold it does not say */
    if (!operation->is_keyed)
        return tr_condition_holds(&operation->condition, best) ? TR_DONE : TR_CONDITION_FAILED;
    bool is_other = best != NULL && best->fingerprint != 0 && operation->fingerprint != 0 &&
                    best->fingerprint != operation->fingerprint;
    return is_other ? TR_KEY_REUSED : TR_DONE;
}

bool tr_condition_decide(struct tr_replication *replication, struct tr_operation *operation,
                         bool is_known, struct tr_effects *out)
{
    enum tr_result result = decide(operation, is_known);
    bool is_replayed = result == TR_DONE && operation->is_keyed && operation->has_best;
    if (result == TR_DONE && !is_replayed)
        return false;
    tr_cover(replication->trial, is_replayed ? RULE_REPLAYED : RULE_CONDITION_FAILED);
    operation->is_replayed = is_replayed;
    tr_operation_reply(replication, operation, result, out);
    tr_operation_end(replication, operation);
    return true;
}

uint16_t tr_condition_place(const struct tr_replication *replication, tr_timer_id id,
                            uint32_t factor)
{
    uint16_t list[TR_SET_MAX];
    unsigned count =
        tr_view_place(replication->cluster, id, tr_set_copies(replication, factor), list);
    for (unsigned i = 0; i < count; i++) {
        if (list[i] == 0 || tr_peer_is_serving(replication->cluster, list[i]))
            return list[i];
    }
    return 0; /* whoever is asked decides, with the nodes that are hinted */
}

void tr_condition_pass_on(struct tr_replication *replication, struct tr_operation *operation,
                          uint16_t member)
{
    TR_ASSERT(tr_is_other(replication, member) && operation->record != TR_ARENA_NONE);
    tr_cover(replication->trial, RULE_PASSED_ON);
    operation->stage = STAGE_PASSED;
    tr_operation_open(operation, member);
    tr_replication_send(replication, member,
                        (struct tr_message){
                            .kind = MESSAGE_PASS,
                            .operation = operation->number,
                            .key.id = operation->id,
                        });
}

/* ---- results between nodes ---- */

enum tr_frame_result tr_condition_tell(enum tr_result result, bool is_replayed)
{
    switch ((int)result) {
    case TR_DONE:
        return is_replayed ? TR_RESULT_REPLAYED : TR_RESULT_STORED;
    case TR_CONDITION_FAILED:
        return TR_RESULT_FAILED;
    case TR_KEY_REUSED:
        return TR_RESULT_REUSED;
    case TR_KEY_BUSY:
        return TR_RESULT_BUSY;
    case TR_UNKNOWN:
        return TR_RESULT_UNKNOWN;
    default:
        return TR_RESULT_FULL; /* nothing has happened, and it may be asked again */
    }
}

static enum tr_result hear_result(enum tr_frame_result result)
{
    switch ((int)result) {
    case TR_RESULT_STORED:
    case TR_RESULT_REPLAYED:
        return TR_DONE;
    case TR_RESULT_FAILED:
        return TR_CONDITION_FAILED;
    case TR_RESULT_REUSED:
        return TR_KEY_REUSED;
    case TR_RESULT_BUSY:
        return TR_KEY_BUSY;
    case TR_RESULT_FULL:
        return TR_TOO_MANY_REQUESTS;
    default:
        return TR_UNKNOWN;
    }
}

void tr_condition_answered(struct tr_replication *replication, struct tr_operation *operation,
                           uint16_t member, enum tr_frame_result result, struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_PASSED);
    if (!tr_operation_is_open(operation, member))
        return;
    operation->is_replayed = result == TR_RESULT_REPLAYED;
    tr_operation_reply(replication, operation, hear_result(result), out);
    tr_operation_end(replication, operation);
}

void tr_condition_passed(struct tr_replication *replication, uint16_t peer,
                         const struct tr_frame_pass *pass, struct tr_whole *whole,
                         struct tr_effects *out)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_head *head = &whole->head;
    bool is_sound = head->factor > 0 && head->key.part == 0 &&
                    replication->store->fits(replication->store->context, whole) &&
                    replication->store->is_sound(replication->store->context, whole);
    bool may = is_sound && replication->is_serving && replication->log->is_running &&
               replication->cluster->view.count > 0 &&
               tr_replication_has_room_for(replication, whole);
    head->replicas = (struct tr_set){.count = 1};
    head->from = (struct tr_from){.count = 0};
    head->segment = 0;
    if (!may) {
        struct tr_head named = {.key = head->key};
        tr_replication_answer(replication, peer, pass->operation, &named, TR_RESULT_FULL);
        return;
    }
    struct tr_request request = {
        .kind = pass->is_keyed ? OPERATION_CREATE : OPERATION_REPLACE,
        .condition = pass->condition,
        .peer = peer,
        .peer_operation = pass->operation,
    };
    tr_operation_begin(replication, &request, whole, out);
}
