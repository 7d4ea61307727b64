/* SPDX-License-Identifier: Apache-2.0 */
/* Asking other nodes for a client: what they hold of a timer, of which the highest wins; or to try
 * its dead pops again. A create with a key asks first, too. */
#include "node/operation.h"

/* What it keeps of a read is found; of a create, is to be written. */
static void look_here(struct tr_node *node, struct tr_operation *operation)
{
    struct tr_record record;
    tr_ref ref = tr_replica_find(node, operation->id);
    operation->is_found |= ref != TR_ARENA_NONE;
    if (ref == TR_ARENA_NONE || operation->kind == TR_API_CREATE)
        return;
    tr_book_unpack(&node->book, ref, &record);
    tr_operation_keep(node, operation, &record);
}

static void redrive_here(struct tr_node *node, struct tr_operation *operation,
                         const struct tr_event *event)
{
    const struct tr_api_request *query = event->of.request.query;
    struct tr_waiting waiting = {.then = THEN_OPERATION, .token = operation->number};
    operation->sequence = query->has_sequence ? query->sequence : 0;
    if (tr_redrive(node, operation->id, operation->sequence, waiting) > 0)
        tr_operation_open(operation, 0);
}

/* Where it is placed, or, while it may be elsewhere, everywhere. */
static void ask_all(struct tr_node *node, struct tr_operation *operation)
{
    uint16_t list[TR_SET_MAX];
    bool is_wide = tr_is_wide(node);
    unsigned count =
        tr_view_place(&node->cluster, operation->id, tr_copies(node, operation->factor), list);
    operation->stage = STAGE_ASKING;
    operation->is_complete = false;
    for (unsigned k = 0; k < count; k++)
        operation->is_complete |= tr_peer_is_up(&node->cluster, list[k]);
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        bool is_asked = is_wide;
        for (unsigned k = 0; k < count; k++)
            is_asked |= list[k] == i;
        bool is_up = tr_peer_is_up(&node->cluster, (uint16_t)i);
        operation->is_complete &=
            is_up || !is_wide || node->cluster.members[i].role == TR_ROLE_NONE;
        if (!is_asked || !is_up)
            continue;
        tr_cover(&node->trial, operation->kind == TR_API_REDRIVE ? RULE_REDRIVEN : RULE_READ);
        tr_operation_open(operation, i);
        tr_send(node, (uint16_t)i,
                (struct tr_message){
                    .kind = MESSAGE_ASK,
                    .operation = operation->number,
                    .key.id = operation->id,
                    .order = {.attempt =
                                  operation->kind == TR_API_REDRIVE ? TR_ASK_REDRIVE : TR_ASK_READ,
                              .sequence = operation->sequence},
                });
    }
}

void tr_ask_begin(struct tr_node *node, struct tr_operation *operation,
                  const struct tr_event *event)
{
    if (operation->kind == TR_API_REDRIVE)
        redrive_here(node, operation, event);
    else
        look_here(node, operation);
    ask_all(node, operation);
}

/* The higher of what was heard: of one part by its order, and the timer before its parts. */
static bool is_above(const struct tr_record *a, const struct tr_record *b)
{
    return a->head.key.part == b->head.key.part
               ? tr_order_compare(&a->head.order, &b->head.order) > 0
               : a->head.key.part < b->head.key.part;
}

static void hear(struct tr_node *node, struct tr_operation *operation, uint16_t member,
                 const struct tr_record *held)
{
    tr_operation_close(operation, member);
    if (held == NULL)
        return;
    operation->is_found = true;
    if (operation->kind == TR_API_CREATE)
        return; /* what it keeps is to be written */
    struct tr_record best;
    if (operation->record != TR_ARENA_NONE)
        best = tr_operation_unpack(node, operation);
    if (operation->record == TR_ARENA_NONE || is_above(held, &best))
        tr_operation_keep(node, operation, held);
}

/* All who were asked have answered, and one of those where it is placed was; while it may be
 * elsewhere, everybody was. */
static bool is_known(const struct tr_node *node, const struct tr_operation *operation)
{
    bool is_open = false;
    for (uint32_t i = 0; i < node->cluster.member_count; i++)
        is_open |= tr_operation_is_open(operation, i);
    return operation->is_complete && !is_open;
}

static void answer_read(struct tr_node *node, struct tr_operation *operation,
                        struct tr_effects *out)
{
    struct tr_record record = {.head.flags = TR_RECORD_TOMBSTONE};
    if (operation->record != TR_ARENA_NONE)
        record = tr_operation_unpack(node, operation);
    if ((record.head.flags & TR_RECORD_TOMBSTONE) != 0) {
        if (operation->record == TR_ARENA_NONE && !is_known(node, operation))
            tr_operation_refuse(node, operation, 503, "a node that may have it did not answer",
                                out);
        else
            tr_operation_answer(node, operation, 404, "there is no such timer", out);
        tr_operation_end(node, operation);
        return;
    }
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_ANSWER_TIMER);
    effect->of.timer.token = operation->token;
    effect->of.timer.ref = operation->record;
    node->read_size[node->read_count] = operation->record_size;
    node->read[node->read_count++] = operation->record; /* given back in the next step */
    operation->record = TR_ARENA_NONE;
    tr_operation_end(node, operation);
}

void tr_ask_conclude(struct tr_node *node, struct tr_operation *operation, bool is_over,
                     struct tr_effects *out)
{
    if (tr_operation_has_open(node, operation) && !is_over)
        return;
    /* It may have moved from one that was asked late to one that was asked early. */
    bool is_sought = !operation->is_found && operation->kind != TR_API_REDRIVE;
    if (is_sought && !is_over && !operation->is_late && tr_is_wide(node)) {
        tr_cover(&node->trial, RULE_ASKED_AGAIN);
        operation->is_late = true;
        tr_operation_renumber(node, operation);
        memset(operation->open, 0, sizeof operation->open);
        look_here(node, operation);
        ask_all(node, operation);
        if (tr_operation_has_open(node, operation))
            return;
    }
    if (operation->kind == TR_API_READ) {
        if (node->read_count < READS_MAX)
            answer_read(node, operation, out);
        else
            tr_operations_look(node); /* in the next step there is room */
        return;
    }
    if (operation->kind == TR_API_REDRIVE) {
        bool is_done = operation->done > 0;
        tr_operation_answer(node, operation, is_done ? 200 : 404,
                            is_done ? NULL : "this timer has no such dead pop", out);
        tr_operation_end(node, operation);
        return;
    }
    if (operation->is_found) {
        tr_operation_finish(node, operation, out);
        return;
    }
    struct tr_record record = tr_operation_unpack(node, operation);
    operation->is_late = false;
    tr_write_begin(node, operation, &record, out);
}

void tr_ask_answered(struct tr_node *node, struct tr_operation *operation, uint16_t member,
                     enum tr_frame_result result, const struct tr_record *held,
                     struct tr_effects *out)
{
    operation->done |= result == TR_RESULT_STORED;
    hear(node, operation, member, result == TR_RESULT_HELD ? held : NULL);
    tr_ask_conclude(node, operation, false, out);
}
