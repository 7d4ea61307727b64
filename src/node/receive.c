/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of other nodes: what they tell of the clock is heard first, the rest is replication's. */
#include "node/internal.h"

#define SAMPLE_MS 1500 /* what took longer does not tell the time */

/* By when shared records are due; and what is stored from here on is by the clock as it is then. */
static void mind_clock(struct tr_node *node, const struct tr_frame *frame, struct tr_reader samples)
{
    struct tr_head head = {0};
    int64_t due_in_ms = 0;
    uint32_t check = 0;
    bool has_entries = samples.at < samples.end;
    if (frame->kind == TR_FRAME_OUTCOMES) {
        uint64_t age_ms = node->time.now_ms - frame->heard_ms;
        bool is_prompt = frame->heard_ms <= node->time.now_ms && age_ms < SAMPLE_MS;
        while (!node->replication.is_serving && is_prompt &&
               tr_frame_get_outcome(&samples, &head, &due_in_ms, &check))
            tr_hear_sample(node, &head, due_in_ms);
        tr_correct_clock(node, (int64_t)age_ms);
        node->is_clock_used |= has_entries;
    }
    if (frame->kind == TR_FRAME_WRITES || frame->kind == TR_FRAME_COPIES)
        node->is_clock_used = true;
}

void tr_frame_received(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    uint16_t peer = event->of.frame.peer;
    struct tr_reader reader;
    struct tr_frame frame;
    if (node->is_stop_logged)
        return; /* after a clean stop nothing more is written */
    if (!tr_peer_receive(&node->cluster, event, &frame, &reader, out))
        return;
    mind_clock(node, &frame, reader);
    tr_receive_frame(&node->replication, peer, &frame, &reader, out);
    if (reader.is_short)
        tr_peer_reset(&node->cluster, peer, out);
}
