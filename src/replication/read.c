/* SPDX-License-Identifier: Apache-2.0 */
/* Reading for a client: what other nodes hold of an id, of which the highest wins; or having them
 * perform what the store alone understands. What is done under a condition reads first,
 * too, and so does a create with a key. */
#include "replication/operation.h"

#include "cluster/clock.h"
#include "cluster/peer.h"
#include "cluster/view.h"
#include "replication/condition.h"
#include "replication/rebalance.h"
#include "replication/set.h"

/* What is performed under a condition reads first. */
static bool is_performing(const struct tr_operation *operation)
{
    return operation->kind == OPERATION_PERFORM && operation->condition.when == TR_WHEN_ANY;
}

static bool is_placed_on(const struct tr_replication *replication,
                         const struct tr_operation *operation, uint16_t member)
{
    uint16_t list[TR_SET_MAX];
    unsigned count = tr_view_place(replication->cluster, operation->id,
                                   tr_set_copies(replication, operation->factor), list);
    for (unsigned i = 0; i < count; i++) {
        if (list[i] == member)
            return true;
    }
    return false;
}

/* Keeps a record of a node to show it. If that cannot be, none is shown: what is left might be
 * older. */
static void keep(struct tr_replication *replication, struct tr_operation *operation,
                 const struct tr_whole *record, uint16_t member)
{
    TR_ASSERT(operation->kind != OPERATION_CREATE);
    bool is_end = (record->head.flags & TR_RECORD_TOMBSTONE) != 0;
    operation->is_stray_end = is_end && !is_placed_on(replication, operation, member);
    if (!operation->is_unkept && tr_operation_keep(replication, operation, record))
        return;
    operation->is_unkept = true;
    if (operation->record != TR_ARENA_NONE)
        tr_arena_give(replication->arena, operation->record);
    operation->record = TR_ARENA_NONE;
}

/* Looks at what this node holds. The record that an operation keeps is, of a read, the highest
 * found; of a create, the one to be written. */
static void look_here(struct tr_replication *replication, struct tr_operation *operation)
{
    TR_ASSERT(!is_performing(operation));
    struct tr_whole record;
    const struct tr_store *store = replication->store;
    tr_ref ref = store->find_shown(store->context, operation->id);
    operation->is_found |= ref != TR_ARENA_NONE;
    if (ref == TR_ARENA_NONE)
        return;
    if (tr_condition_is_due(operation)) { /* what it keeps is to be written */
        struct tr_head head;
        tr_store_head(store, ref, &head);
        tr_condition_hear(operation, &head);
        return;
    }
    store->whole(store->context, ref, &record);
    keep(replication, operation, &record, 0);
}

static void perform_here(struct tr_replication *replication, struct tr_operation *operation)
{
    TR_ASSERT(operation->kind == OPERATION_PERFORM);
    const struct tr_store *store = replication->store;
    struct tr_waiting ticket = {.then = THEN_OPERATION, .token = operation->number};
    TR_ASSERT(store->perform != NULL);
    if (!store->can_perform(store->context, operation->performs))
        return;
    if (store->perform(store->context, operation->id, operation->performs, operation->argument,
                       ticket) > 0)
        tr_operation_open(operation, 0);
}

/* Where it is placed, or, while it may be elsewhere, everywhere. */
static void ask_all(struct tr_replication *replication, struct tr_operation *operation)
{
    TR_ASSERT(operation->number != 0);
    uint16_t list[TR_SET_MAX];
    bool is_wide = tr_rebalance_may_be_elsewhere(replication);
    unsigned count = tr_view_place(replication->cluster, operation->id,
                                   tr_set_copies(replication, operation->factor), list);
    operation->stage = STAGE_READING;
    operation->is_complete = false;
    for (unsigned k = 0; k < count; k++)
        operation->is_complete |= tr_peer_is_up(replication->cluster, list[k]);
    for (uint32_t i = 1; i < replication->cluster->member_count; i++) {
        bool is_asked = is_wide;
        for (unsigned k = 0; k < count; k++)
            is_asked |= list[k] == i;
        bool is_up = tr_peer_is_up(replication->cluster, (uint16_t)i);
        operation->is_complete &=
            is_up || !is_wide || replication->cluster->members[i].role == TR_ROLE_NONE;
        if (!is_asked || !tr_peer_heeds(replication->cluster, (uint16_t)i))
            continue;
        tr_cover(replication->trial, is_performing(operation) ? RULE_REDRIVEN : RULE_READ);
        tr_operation_open(operation, i);
        tr_replication_send(
            replication, (uint16_t)i,
            (struct tr_message){
                .kind = MESSAGE_ASK,
                .operation = operation->number,
                .key.id = operation->id,
                .of.ask = is_performing(operation) ? operation->performs : TR_ASK_READ,
                .order.sequence = operation->argument,
            });
    }
}

void tr_read_begin(struct tr_replication *replication, struct tr_operation *operation)
{
    TR_ASSERT(operation->kind != OPERATION_REPLACE || tr_condition_is_due(operation));
    if (is_performing(operation))
        perform_here(replication, operation);
    else
        look_here(replication, operation);
    ask_all(replication, operation);
}

/* The higher of what was heard: of one part by its order, and the timer before its parts. */
static bool is_above(const struct tr_whole *a, const struct tr_whole *b)
{
    return a->head.key.part == b->head.key.part
               ? tr_order_compare(&a->head.order, &b->head.order) > 0
               : a->head.key.part < b->head.key.part;
}

static void hear(struct tr_replication *replication, struct tr_operation *operation,
                 uint16_t member, const struct tr_whole *held)
{
    TR_ASSERT(operation->stage == STAGE_READING);
    TR_ASSERT(member < replication->cluster->member_count);
    tr_operation_close(operation, member);
    if (held == NULL)
        return;
    operation->is_found = true;
    if (tr_condition_is_due(operation)) { /* likewise */
        tr_condition_hear(operation, &held->head);
        return;
    }
    struct tr_whole best;
    if (operation->record != TR_ARENA_NONE)
        tr_operation_unpack(replication, operation, &best);
    if (operation->record == TR_ARENA_NONE || is_above(held, &best))
        keep(replication, operation, held, member);
}

/* Whether nobody else can hold it: all nodes that were asked have answered, and a node where the
 * view places it was among them. While records may be elsewhere, every node of the view was. */
static bool is_known(const struct tr_replication *replication, const struct tr_operation *operation)
{
    TR_ASSERT(operation->stage == STAGE_READING);
    bool is_open = false;
    for (uint32_t i = 0; i < replication->cluster->member_count; i++)
        is_open |= tr_operation_is_open(operation, i);
    return operation->is_complete && !is_open;
}

static void answer_read(struct tr_replication *replication, struct tr_operation *operation,
                        struct tr_effects *out)
{
    TR_ASSERT(operation->kind == OPERATION_READ);
    struct tr_whole record = {.head.flags = TR_RECORD_TOMBSTONE};
    if (operation->record != TR_ARENA_NONE)
        tr_operation_unpack(replication, operation, &record);
    if ((record.head.flags & TR_RECORD_TOMBSTONE) != 0) {
        /* A tombstone on a node where the view does not place the timer says nothing of what has
         * been written since where it does. */
        bool is_none = operation->record == TR_ARENA_NONE || operation->is_stray_end;
        if (operation->record == TR_ARENA_NONE && operation->is_found)
            tr_operation_refuse(replication, operation, TR_MEMORY_FULL, out);
        else if (is_none && !is_known(replication, operation))
            tr_operation_refuse(replication, operation, TR_NO_ANSWER, out);
        else
            tr_operation_answer(replication, operation, TR_NOT_FOUND, out);
        tr_operation_end(replication, operation);
        return;
    }
    TR_ASSERT(replication->read_count < TR_READS_MAX);
    struct tr_reply reply = {
        .token = operation->token, .result = TR_DONE, .shown = operation->record};
    replication->store->answer(replication->store->context, &reply, out);
    replication->read_size[replication->read_count] = operation->record_size;
    replication->read[replication->read_count++] =
        operation->record; /* given back in the next step */
    operation->record = TR_ARENA_NONE;
    tr_operation_end(replication, operation);
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

/* All have been heard. True: the request is over, and was answered. */
static bool decide_over(struct tr_replication *replication, struct tr_operation *operation,
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

void tr_read_conclude(struct tr_replication *replication, struct tr_operation *operation,
                      bool is_over, struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_READING);
    if (tr_operation_has_open(replication, operation) && !is_over)
        return;
    /* It may have moved from one that was asked late to one that was asked early. */
    bool is_sought = !operation->is_found && !is_performing(operation);
    if (is_sought && !is_over && !operation->is_late &&
        tr_rebalance_may_be_elsewhere(replication)) {
        tr_cover(replication->trial, RULE_ASKED_AGAIN);
        operation->is_late = true;
        tr_operation_renumber(replication, operation);
        memset(operation->open, 0, sizeof operation->open);
        look_here(replication, operation);
        ask_all(replication, operation);
        if (tr_operation_has_open(replication, operation))
            return;
    }
    if (operation->kind == OPERATION_READ) {
        if (replication->read_count < TR_READS_MAX)
            answer_read(replication, operation, out);
        else
            tr_operations_look(replication); /* in the next step there is room */
        return;
    }
    if (is_performing(operation)) {
        enum tr_result none = operation->performs == TR_ASK_FIRE ? TR_NOT_FOUND : TR_NO_DEAD_POP;
        tr_operation_answer(replication, operation, operation->done > 0 ? TR_DONE : none, out);
        tr_operation_end(replication, operation);
        return;
    }
    if (decide_over(replication, operation, is_known(replication, operation), out))
        return;
    if (operation->kind == OPERATION_PERFORM) {
        operation->condition.when = TR_WHEN_ANY; /* it held */
        tr_operation_renumber(replication, operation);
        memset(operation->open, 0, sizeof operation->open);
        tr_read_begin(replication, operation);
        tr_operations_look(replication); /* nobody else may have it */
        return;
    }
    struct tr_whole record;
    tr_operation_unpack(replication, operation, &record);
    operation->is_late = false;
    if (tr_condition_is_due(operation)) /* above what it found; and who decides gives the stamp */
        operation->version = tr_clock_stamp(
            replication->cluster, operation->has_best ? operation->best.order.version : 0);
    tr_write_begin(replication, operation, &record, out);
}

void tr_read_answered(struct tr_replication *replication, struct tr_operation *operation,
                      uint16_t member, enum tr_frame_result result, const struct tr_whole *held,
                      struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_READING);
    operation->done |= result == TR_RESULT_STORED;
    hear(replication, operation, member, result == TR_RESULT_HELD ? held : NULL);
    tr_read_conclude(replication, operation, false, out);
}

void tr_read_asked(struct tr_replication *replication, uint16_t peer,
                   const struct tr_frame_ask *ask)
{
    TR_ASSERT(tr_is_other(replication, peer));
    const struct tr_store *store = replication->store;
    struct tr_head found = {.key.id = ask->id};
    tr_ref ref = store->find_shown(store->context, ask->id);
    if (ref != TR_ARENA_NONE)
        tr_store_head(store, ref, &found);
    bool is_performed = ask->mode != TR_ASK_READ;
    struct tr_waiting ticket = {
        .then = THEN_REPLY, .token = ask->operation, .peer = peer, .key.id = found.key.id};
    if (is_performed && store->perform != NULL && store->can_perform(store->context, ask->mode) &&
        store->perform(store->context, ask->id, ask->mode, ask->sequence, ticket) > 0)
        return;
    bool is_held = ref != TR_ARENA_NONE && !is_performed;
    tr_replication_answer(replication, peer, ask->operation, &found,
                          is_held ? TR_RESULT_HELD : TR_RESULT_NONE);
}
