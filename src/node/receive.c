/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of other nodes: each entry goes to the room that it is for. */
#include "node/internal.h"

#define SAMPLE_MS 1500 /* what took longer does not tell the time */

static void hear_answer(struct tr_node *node, uint16_t index, struct tr_frame_answer *answer,
                        struct tr_effects *out)
{
    struct tr_record *record = &answer->record.record;
    if (answer->has_record)
        tr_localize_due(node, &answer->record);
    for (unsigned i = 0; answer->has_record && i < record->head.from.count; i++)
        record->head.from.members[i] = tr_member_find(&node->cluster, answer->record.from[i]);
    for (unsigned i = 0; answer->has_record && i < record->head.replicas.count; i++)
        record->head.replicas.members[i] = tr_member_find(&node->cluster, answer->record.list[i]);
    tr_operation_answered(node, answer->operation, index, answer->result,
                          answer->has_record ? record : NULL, out);
}

static void hear_operations(struct tr_node *node, uint16_t index, struct tr_reader *reader,
                            const struct tr_frame *frame, struct tr_effects *out)
{
    struct tr_frame_write write;
    struct tr_frame_answer answer;
    struct tr_frame_ask ask;
    if (frame->kind == TR_FRAME_WRITES) {
        node->is_clock_used = true;
        while (tr_frame_get_write(reader, &write))
            tr_replica_write(node, index, &write);
    } else if (frame->kind == TR_FRAME_ASKS) {
        while (tr_frame_get_ask(reader, &ask))
            tr_replica_ask(node, index, &ask);
    } else {
        /* No honest frame has more of them than there is room for. */
        while (tr_effects_has_room(out, 16) && tr_frame_get_answer(reader, &answer))
            hear_answer(node, index, &answer, out);
    }
}

static void hear_keys(struct tr_node *node, uint16_t index, struct tr_reader *reader,
                      const struct tr_frame *frame)
{
    struct tr_head head = {0};
    int64_t due_in_ms = 0;
    uint32_t check = 0;
    uint8_t mask = 0;
    if (frame->kind == TR_FRAME_OUTCOMES) {
        uint64_t age_ms = node->time.now_ms - frame->heard_ms;
        bool is_prompt = frame->heard_ms <= node->time.now_ms && age_ms < SAMPLE_MS;
        struct tr_reader samples = *reader;
        while (!node->is_serving && is_prompt &&
               tr_frame_get_outcome(&samples, &head, &due_in_ms, &check))
            tr_hear_sample(node, &head, due_in_ms);
        tr_correct_clock(node, (int64_t)age_ms);
        node->is_clock_used |= reader->at < reader->end;

        while (tr_frame_get_outcome(reader, &head, &due_in_ms, &check))
            tr_replica_outcome(node, index, &head, due_in_ms, check);
    } else if (frame->kind == TR_FRAME_ACKS) {
        while (tr_frame_get_key(reader, &head))
            tr_acked(node, index, &head);
    } else if (frame->kind == TR_FRAME_CLAIMS) {
        while (tr_frame_get_key(reader, &head))
            tr_claim_heard(node, index, &head);
    } else {
        while (tr_frame_get_mark(reader, &head, &mask)) {
            tr_marked(node, TR_ARENA_NONE, &head, mask);
            tr_claim_close(node, &head);
        }
    }
}

static void hear_drops(struct tr_node *node, uint16_t index, struct tr_reader *reader,
                       const struct tr_frame *frame, struct tr_effects *out)
{
    struct tr_head head = {0};
    uint64_t operation = 0;
    bool is_exact = false;
    while (tr_frame_get_drop(reader, &head, &operation, &is_exact)) {
        if (frame->kind == TR_FRAME_DROPS && is_exact)
            tr_replica_take_back(node, &head);
        else if (frame->kind == TR_FRAME_DROPS)
            tr_replica_drop(node, index, &head, operation);
        else if (tr_effects_has_room(out, 8))
            tr_replica_dropped(node, index, &head, operation, is_exact, out);
    }
}

void tr_frame_received(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    uint16_t index = event->of.frame.peer;
    struct tr_reader reader;
    struct tr_frame frame;
    struct tr_frame_record copy;
    if (node->is_stop_logged)
        return; /* after a clean stop nothing more is written */
    if (!tr_peer_receive(&node->cluster, event, &frame, &reader, out))
        return;
    switch (frame.kind) {
    case TR_FRAME_HELLO:
    case TR_FRAME_BEAT:
        TR_UNREACHABLE("the cluster hears these itself");
    case TR_FRAME_WRITES:
    case TR_FRAME_ANSWERS:
    case TR_FRAME_ASKS:
        hear_operations(node, index, &reader, &frame, out);
        break;
    case TR_FRAME_COPIES:
        node->is_clock_used = true;
        while (tr_frame_get_record(&reader, &copy))
            tr_replica_copy(node, index, &copy);
        break;
    case TR_FRAME_OUTCOMES:
    case TR_FRAME_ACKS:
    case TR_FRAME_MARKS:
    case TR_FRAME_CLAIMS:
        hear_keys(node, index, &reader, &frame);
        break;
    case TR_FRAME_DROPS:
    case TR_FRAME_DROPPED:
        hear_drops(node, index, &reader, &frame, out);
        break;
    case TR_FRAME_BUCKETS:
        tr_compare_heard(node, index, frame.of.sums);
        break;
    }
    if (reader.is_short)
        tr_peer_reset(&node->cluster, index, out);
}
