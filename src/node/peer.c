/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other nodes: links, heartbeats, and what waits to be sent to them.
 *
 * One frame at a time is on its way to a link; what it says of records is looked up when it is
 * encoded, so that times are right and nothing old is sent twice. A node is up when it has greeted
 * and was heard of within SUSPECT_MS. Being up only speeds things up; it changes no view.
 *
 * Messages come from one pool. When it is empty, or a node is not up, nothing is queued: the node
 * is behind, and is sent what it lacks when it is there (replica.c).
 */
#include "node/internal.h"

#define BEAT_MS    100
#define BATCH_SIZE 32768 /* bytes of a frame of small entries */

bool tr_node_is_up(const struct tr_node *node, uint16_t member)
{
    return member == 0 || node->peers[member].is_up;
}

/* ---- messages ---- */

void tr_send(struct tr_node *node, uint16_t index, struct tr_message message)
{
    struct tr_peer *peer = &node->peers[index];
    uint32_t slot = node->message_free;
    if (!peer->is_greeted || (slot == NONE && node->message_fresh == node->config.messages_max)) {
        peer->is_behind = true;
        return;
    }
    if (slot != NONE)
        node->message_free = node->messages[slot].next;
    else
        slot = node->message_fresh++;
    node->messages[slot] = message;
    node->messages[slot].next = NONE;
    if (peer->count == 0)
        peer->first = slot;
    else
        node->messages[peer->last].next = slot;
    peer->last = slot;
    peer->count++;
}

static void drop_first(struct tr_node *node, struct tr_peer *peer)
{
    uint32_t slot = peer->first;
    peer->first = node->messages[slot].next;
    peer->count--;
    node->messages[slot].next = node->message_free;
    node->message_free = slot;
}

/* ---- links ---- */

void tr_link_up(struct tr_node *node, uint16_t index)
{
    struct tr_peer *peer = &node->peers[index];
    tr_link_down(node, index);
    peer->is_linked = true;
    peer->heard_ms = node->now_ms;
}

void tr_link_down(struct tr_node *node, uint16_t index)
{
    struct tr_peer *peer = &node->peers[index];
    while (peer->count > 0)
        drop_first(node, peer);
    while (peer->owed.count > 0)
        tr_fifo_pop(&peer->owed, &node->arena);
    peer->is_linked = false;
    peer->is_greeted = false;
    peer->has_greeted = false;
    peer->is_sending = false;
    peer->has_told = false;
    peer->is_behind = true;
    peer->cursor = 0;
    peer->tick_ms = 0;
}

void tr_frame_sent(struct tr_node *node, uint16_t index)
{
    node->peers[index].is_sending = false;
}

static void reset(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    tr_link_down(node, index);
    if (tr_effects_has_room(out, 1))
        tr_effects_push(out, TR_EFFECT_LINK_RESET)->of.frame.peer = index;
}

/* ---- frames out ---- */

static struct tr_writer begin_frame(struct tr_node *node)
{
    return tr_writer_on(node->frames + node->frames_size, FRAMES_SIZE - node->frames_size);
}

static void end_frame(struct tr_node *node, uint16_t index, const struct tr_writer *writer,
                      struct tr_effects *out)
{
    TR_ASSERT(!writer->is_full);
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_FRAME_SEND);
    effect->of.frame.peer = index;
    effect->of.frame.bytes = writer->bytes;
    effect->of.frame.size = writer->size;
    node->frames_size += writer->size;
    node->peers[index].is_sending = true;
}

static void send_hello(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    const struct tr_log_state *log = &node->log;
    struct tr_frame frame = {.kind = TR_FRAME_HELLO};
    struct tr_writer writer = begin_frame(node);
    frame.of.hello.version = TR_FRAME_VERSION;
    frame.of.hello.address = node->config.address;
    memcpy(frame.of.hello.store_id, node->store_id, sizeof node->store_id);
    frame.of.hello.view = node->view.id;
    frame.of.hello.tick_ms = node->now_ms;
    frame.of.hello.incarnation_count = log->incarnation_count;
    memcpy(frame.of.hello.incarnations, log->incarnations, sizeof log->incarnations);
    tr_frame_put(&writer, &frame);
    end_frame(node, index, &writer, out);
    node->peers[index].has_greeted = true;
    node->peers[index].beat_ms = node->now_ms;
}

static uint8_t beat_flags(const struct tr_node *node, const struct tr_peer *peer)
{
    return (uint8_t)((node->is_popping ? TR_BEAT_POPPING | TR_BEAT_READY : 0) |
                     (peer->is_behind ? TR_BEAT_OWES : 0));
}

static void send_beat(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    struct tr_frame frame = {.kind = TR_FRAME_BEAT, .heard_ms = peer->tick_ms};
    struct tr_writer writer = begin_frame(node);
    frame.of.beat.tick_ms = node->now_ms;
    frame.of.beat.stamp = tr_clock(node);
    frame.of.beat.view = node->view.id;
    frame.of.beat.position = node->log.first + node->log.offset;
    frame.of.beat.memory_fill = (uint8_t)(100 - tr_arena_room(&node->arena) / 10);
    frame.of.beat.flags = beat_flags(node, peer);
    frame.of.beat.popping_from_ms = node->popping_from_ms;
    tr_frame_put(&writer, &frame);
    end_frame(node, index, &writer, out);
    peer->beat_ms = node->now_ms + BEAT_MS;
}

/* The record of a message, as it is now. False: there is nothing to say of it any more. */
static bool find_record(const struct tr_node *node, const struct tr_message *message,
                        struct tr_record *record)
{
    tr_ref ref = tr_book_find(&node->book, message->id, message->part);
    if (ref == TR_ARENA_NONE || tr_book_state(&node->book, ref) == TR_STATE_UNSAFE)
        return false;
    tr_book_unpack(&node->book, ref, record);
    return true;
}

/* A frame with one record, or none. False: it says nothing. */
static bool put_one(struct tr_node *node, const struct tr_message *message, struct tr_frame *frame,
                    struct tr_writer *writer)
{
    struct tr_record record;
    struct tr_frame_record travelling;
    bool has_record = true;
    if (message->kind == MESSAGE_WRITE) {
        frame->kind = TR_FRAME_WRITE;
        frame->of.write.operation = message->operation;
        frame->of.write.had = 0;
        if (!tr_operation_record(node, message->operation, &record, &frame->of.write.mode))
            return false;
    } else if (message->kind == MESSAGE_COPY) {
        frame->kind = TR_FRAME_WRITE;
        frame->of.write.operation = 0;
        frame->of.write.mode = TR_WRITE_COPY;
        if (!find_record(node, message, &record))
            return false;
        frame->of.write.had = 0;
    } else {
        frame->kind = TR_FRAME_ANSWER;
        frame->of.answer.operation = message->operation;
        frame->of.answer.result = message->result;
        has_record = message->result != TR_RESULT_STORED && find_record(node, message, &record);
    }
    tr_frame_put(writer, frame);
    if (has_record) {
        tr_to_frame(node, &record, &travelling);
        tr_frame_put_record(writer, &travelling);
    }
    return true;
}

static void put_small(struct tr_node *node, const struct tr_message *message,
                      struct tr_writer *writer)
{
    struct tr_record record = {
        .id = message->id,
        .part = message->part,
        .version = message->order.version,
        .version_node = message->order.version_node,
        .sequence = message->order.sequence,
        .attempt = message->order.attempt,
        .moves = message->order.moves,
    };
    if (message->kind == MESSAGE_ACK || message->kind == MESSAGE_CLAIM)
        tr_frame_put_key(writer, &record);
    else if (message->kind == MESSAGE_MARK)
        tr_frame_put_mark(writer, &record, message->mask);
    else if (find_record(node, message, &record))
        tr_frame_put_outcome(writer, &record, (int64_t)(record.due_ms - node->steady_ms));
}

/* As many small messages of one kind as there are, in one frame. */
static void put_many(struct tr_node *node, struct tr_peer *peer, struct tr_frame *frame,
                     struct tr_writer *writer)
{
    enum tr_message_kind kind = node->messages[peer->first].kind;
    frame->kind = kind == MESSAGE_ACK     ? TR_FRAME_ACKS
                  : kind == MESSAGE_MARK  ? TR_FRAME_MARKS
                  : kind == MESSAGE_CLAIM ? TR_FRAME_CLAIMS
                                          : TR_FRAME_OUTCOMES;
    tr_frame_put(writer, frame);
    while (peer->count > 0 && node->messages[peer->first].kind == kind &&
           writer->size < BATCH_SIZE) {
        put_small(node, &node->messages[peer->first], writer);
        drop_first(node, peer);
    }
}

static void send_messages(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    while (peer->count > 0) {
        struct tr_writer writer = begin_frame(node);
        struct tr_frame frame = {.heard_ms = peer->tick_ms};
        const struct tr_message *first = &node->messages[peer->first];
        bool is_said = true;
        if (first->kind == MESSAGE_ACK || first->kind == MESSAGE_MARK ||
            first->kind == MESSAGE_OUTCOME || first->kind == MESSAGE_CLAIM) {
            put_many(node, peer, &frame, &writer);
        } else {
            is_said = put_one(node, first, &frame, &writer);
            drop_first(node, peer);
        }
        if (is_said) {
            end_frame(node, index, &writer, out);
            return;
        }
    }
}

static bool has_frame_room(const struct tr_node *node, const struct tr_effects *out)
{
    size_t most = TR_FRAME_MAX + 2 * node->config.opaque_max;
    return tr_effects_has_room(out, 8) && FRAMES_SIZE - node->frames_size >= most;
}

/* ---- frames in ---- */

static void greet(struct tr_node *node, uint16_t index, const struct tr_frame *frame,
                  struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    uint32_t count = frame->of.hello.incarnation_count;
    if (frame->of.hello.version < 1 || count == 0 ||
        !tr_span_equals(frame->of.hello.address, tr_member_address(node, index))) {
        reset(node, index, out);
        return;
    }
    peer->is_greeted = true;
    peer->view = frame->of.hello.view;
    peer->incarnation = frame->of.hello.incarnations[count - 1].number;
    peer->tick_ms = frame->of.hello.tick_ms;
}

static void hear_beat(struct tr_node *node, uint16_t index, const struct tr_frame *frame)
{
    struct tr_peer *peer = &node->peers[index];
    peer->tick_ms = frame->of.beat.tick_ms;
    peer->view = frame->of.beat.view;
    peer->flags = frame->of.beat.flags;
    peer->popping_from_ms = frame->of.beat.popping_from_ms;
    peer->has_told |= (peer->flags & TR_BEAT_OWES) == 0;
    tr_hear_stamp(node, frame->of.beat.stamp);
}

static void hear_records(struct tr_node *node, uint16_t index, struct tr_reader *reader,
                         const struct tr_frame *frame, struct tr_effects *out)
{
    struct tr_frame_record record;
    bool has_one = tr_frame_get_record(reader, &record);
    if (frame->kind == TR_FRAME_WRITE && has_one)
        tr_replica_write(node, index, frame, &record);
    else if (frame->kind == TR_FRAME_ANSWER && !reader->is_short)
        tr_operation_answered(node, frame->of.answer.operation, index, frame->of.answer.result,
                              has_one ? &record.record : NULL, out);
}

static void hear_small(struct tr_node *node, uint16_t index, struct tr_reader *reader,
                       const struct tr_frame *frame)
{
    struct tr_record record = {0};
    int64_t due_in_ms = 0;
    uint8_t mask = 0;
    if (frame->kind == TR_FRAME_OUTCOMES) {
        while (tr_frame_get_outcome(reader, &record, &due_in_ms))
            tr_replica_outcome(node, index, &record, due_in_ms);
    } else if (frame->kind == TR_FRAME_ACKS) {
        while (tr_frame_get_key(reader, &record))
            tr_replica_acked(node, index, &record);
    } else if (frame->kind == TR_FRAME_CLAIMS) {
        while (tr_frame_get_key(reader, &record))
            tr_claim_heard(node, index, &record);
    } else {
        while (tr_frame_get_mark(reader, &record, &mask))
            tr_replica_marked(node, &record, mask);
    }
}

/* A page in flight must not bring back what was deleted meanwhile. */
static bool is_too_old(const struct tr_node *node, const struct tr_frame *frame)
{
    return frame->kind != TR_FRAME_HELLO && frame->kind != TR_FRAME_BEAT && frame->heard_ms > 0 &&
           node->now_ms > frame->heard_ms + FRAME_LIFE_MS;
}

void tr_frame_received(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    uint16_t index = event->of.frame.peer;
    struct tr_peer *peer = &node->peers[index];
    struct tr_reader reader = tr_reader_on(event->of.frame.bytes, event->of.frame.size);
    struct tr_frame frame;
    if (!peer->is_linked)
        return;
    bool is_frame = tr_frame_get(&reader, &frame);
    if (!is_frame || (!peer->is_greeted && frame.kind != TR_FRAME_HELLO) ||
        is_too_old(node, &frame)) {
        reset(node, index, out);
        return;
    }
    peer->heard_ms = node->now_ms;
    switch (frame.kind) {
    case TR_FRAME_HELLO:
        greet(node, index, &frame, out);
        return;
    case TR_FRAME_BEAT:
        hear_beat(node, index, &frame);
        return;
    case TR_FRAME_WRITE:
    case TR_FRAME_ANSWER:
        hear_records(node, index, &reader, &frame, out);
        break;
    case TR_FRAME_OUTCOMES:
    case TR_FRAME_ACKS:
    case TR_FRAME_MARKS:
    case TR_FRAME_CLAIMS:
        hear_small(node, index, &reader, &frame);
        break;
    case TR_FRAME_DROP:
    case TR_FRAME_ASK:
    case TR_FRAME_BUCKETS:
    case TR_FRAME_LIST:
    case TR_FRAME_PAGE:
    case TR_FRAME_PART:
        break;
    }
    if (reader.is_short)
        reset(node, index, out);
}

/* ---- each step ---- */

static void look_at(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    bool is_up = peer->is_greeted && node->now_ms < peer->heard_ms + SUSPECT_MS;
    if (is_up != peer->is_up)
        tr_note(out, is_up ? TR_NOTE_PEER_UP : TR_NOTE_PEER_DOWN, 0, index);
    peer->is_up = is_up;
}

void tr_peers_run(struct tr_node *node, struct tr_effects *out)
{
    for (uint32_t i = 1; i < node->member_count; i++) {
        uint16_t index = (uint16_t)i;
        struct tr_peer *peer = &node->peers[index];
        look_at(node, index, out);
        if (peer->is_greeted)
            tr_settle_run(node, index);
        if (!peer->is_linked || peer->is_sending || !has_frame_room(node, out))
            continue;
        if (!peer->has_greeted)
            send_hello(node, index, out);
        else if (node->now_ms >= peer->beat_ms)
            send_beat(node, index, out);
        else
            send_messages(node, index, out);
    }
}

tr_mono_ms tr_peers_wake_at(const struct tr_node *node)
{
    tr_mono_ms wake = TR_NODE_NEVER;
    for (uint32_t i = 1; i < node->member_count; i++) {
        const struct tr_peer *peer = &node->peers[i];
        if (!peer->is_linked)
            continue;
        tr_mono_ms at = peer->is_up ? peer->heard_ms + SUSPECT_MS : TR_NODE_NEVER;
        if (!peer->is_sending) {
            tr_mono_ms next = peer->count > 0 || !peer->has_greeted ? node->now_ms : peer->beat_ms;
            at = next < at ? next : at;
        }
        wake = at < wake ? at : wake;
    }
    return wake;
}
