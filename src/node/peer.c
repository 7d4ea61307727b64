/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other nodes: links, heartbeats, and what waits to be sent to them.
 *
 * One frame at a time is on its way to a link; what it says of records is looked up when it is
 * encoded, so that times are right and nothing old is sent twice. A node is up when it has
 * greeted, was heard of within SUSPECT_MS, and hears us: if a link works one way only, both ends
 * know. Being up only speeds things up; it changes no view.
 *
 * Messages come from one pool. When it is empty, or a node has not greeted or has its share of it,
 * nothing is queued: the node is behind, and is sent what it lacks when it is there (compare.c).
 */
#include "node/internal.h"

#define BEAT_MS     100
#define HEARS_MS    1000  /* its last frame tells what of us it had heard by then */
#define SILENT_MS   60000 /* a link on which nothing was heard for so long is given up */
#define PEER_SHARE  4     /* of the pool of messages one peer has at most this part */
#define SAMPLE_MS   1500  /* what took longer does not tell the time */
#define BATCH_SIZE  32768 /* bytes after which a frame takes no more entries, */
#define BATCH_COUNT 1024  /* and entries */
#define BULK_SIZE   16384 /* bytes of records in bulk: what they take to store delays others */
#define TRIP_WEIGHT 8
#define FRESH_MS    800    /* less than until it is owed again */
#define DISK_FULL   100    /* per cent */
#define FRAME_ROOM  131072 /* more than a frame takes, the last entry's opaque data aside */

bool tr_node_is_up(const struct tr_node *node, uint16_t member)
{
    return member == 0 || node->peers[member].is_up;
}

void tr_node_peer(const struct tr_node *node, uint16_t member, struct tr_node_peer *seen)
{
    const struct tr_peer *peer = &node->peers[member];
    *seen = (struct tr_node_peer){
        .address = tr_member_address(node, member),
        .role = node->members[member].role,
        .is_linked = peer->is_linked,
        .is_up = tr_node_is_up(node, member),
        .is_serving = tr_is_serving(node, member),
        .is_unsettled = peer->is_up && (peer->flags & TR_BEAT_UNSETTLED) != 0,
        .has_same_view = member == 0 || peer->view == node->view.id,
        .is_behind = peer->is_behind,
        .heard_ms = node->time.now_ms - peer->heard_ms,
        .clock_ms = peer->clock_ms,
        .queued = peer->count,
        .owed = peer->owed.count,
        .fill = peer->fill,
    };
}

/* ---- messages ---- */

bool tr_can_send(const struct tr_node *node, uint16_t index, enum tr_message_kind kind)
{
    const struct tr_peer *peer = &node->peers[index];
    uint32_t share = node->config.messages_max / PEER_SHARE;
    bool is_bulk = kind >= MESSAGE_DROP; /* it leaves room for what somebody waits for */
    bool is_empty = node->message_free == NONE && node->message_fresh == node->config.messages_max;
    return peer->is_greeted && peer->count < (is_bulk ? share / 2 : share) && !is_empty;
}

/* Whether it tells what the other node is to have: if that is lost, the book is walked for it. Of
 * the rest somebody asks again. */
static bool is_of_record(enum tr_message_kind kind)
{
    return kind == MESSAGE_OUTCOME || kind == MESSAGE_PART || kind == MESSAGE_COPY ||
           kind == MESSAGE_DROP;
}

bool tr_send(struct tr_node *node, uint16_t index, struct tr_message message)
{
    struct tr_peer *peer = &node->peers[index];
    uint32_t slot = node->message_free;
    if (!tr_can_send(node, index, message.kind)) {
        if (is_of_record(message.kind)) {
            peer->is_behind = true;
            peer->is_passed |= peer->cursor > 0; /* the walk that is under way may be beyond it */
        }
        return false;
    }
    if (slot != NONE)
        node->message_free = node->messages[slot].next;
    else
        slot = node->message_fresh++;
    node->messages[slot] = message;
    node->messages[slot].next = NONE;
    struct tr_queue *queue = &peer->queues[message.kind];
    if (queue->count == 0)
        queue->first = slot;
    else
        node->messages[queue->last].next = slot;
    queue->last = slot;
    queue->count++;
    peer->count++;
    return true;
}

static void drop_first(struct tr_node *node, struct tr_peer *peer, struct tr_queue *queue)
{
    uint32_t slot = queue->first;
    queue->first = node->messages[slot].next;
    queue->count--;
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
    peer->linked_ms = node->time.now_ms;
    peer->heard_ms = node->time.now_ms;
    peer->echo_ms = 0;
}

void tr_link_down(struct tr_node *node, uint16_t index)
{
    struct tr_peer *peer = &node->peers[index];
    for (unsigned kind = 0; kind < MESSAGE_KINDS; kind++) {
        while (peer->queues[kind].count > 0)
            drop_first(node, peer, &peer->queues[kind]);
    }
    while (peer->owed.count > 0)
        tr_fifo_pop(&peer->owed, &node->arena);
    peer->is_linked = false;
    peer->is_greeted = false;
    peer->has_greeted = false;
    peer->is_sending = false;
    peer->has_told = false;
    peer->is_behind = true;
    peer->cursor = 0;
    peer->passed = 0;
    peer->tick_ms = 0;
    peer->version = 0;
    peer->has_missed = false;
    tr_compare_end(node, index);
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
    const struct tr_log *log = &node->log;
    struct tr_frame frame = {.kind = TR_FRAME_HELLO};
    struct tr_writer writer = begin_frame(node);
    frame.of.hello.version = TR_FRAME_VERSION;
    frame.of.hello.address = node->config.address;
    memcpy(frame.of.hello.store_id, node->log.store_id, sizeof node->log.store_id);
    frame.of.hello.view = node->view.id;
    frame.of.hello.tick_ms = node->time.now_ms;
    frame.of.hello.incarnation_count = log->incarnation_count;
    memcpy(frame.of.hello.incarnations, log->incarnations, sizeof log->incarnations);
    tr_frame_put(&writer, &frame);
    end_frame(node, index, &writer, out);
    node->peers[index].has_greeted = true;
    node->peers[index].beat_ms = node->time.now_ms;
}

bool tr_is_out_of_date(const struct tr_node *node, uint16_t peer)
{
    return !tr_view_has_others(node) && node->peers[peer].view != node->view.id;
}

/* Who has not yet heard what it missed itself has nothing to say; but to one that has missed
 * something, too, what it was told before. */
static bool may_tell(const struct tr_node *node, uint16_t index)
{
    return node->is_popping || (node->is_serving && node->peers[index].has_missed);
}

/* Whether a node that waits at its barrier has yet to hear something from this one. */
static bool owes(struct tr_node *node, uint16_t index)
{
    const struct tr_peer *peer = &node->peers[index];
    bool is_starting = (peer->flags & TR_BEAT_READY) == 0;
    bool has_missed = peer->has_missed && !tr_breaks(&node->trial, MUTANT_DEAF);
    return peer->is_behind || node->is_claiming_all || (is_starting && peer->count > 0) ||
           (has_missed && !tr_owes_nothing(node, index));
}

static uint8_t beat_flags(struct tr_node *node, uint16_t index)
{
    const struct tr_peer *peer = &node->peers[index];
    bool is_known = !tr_is_out_of_date(node, index); /* else it cannot be counted on */
    bool is_popping = node->is_popping && node->phase == PHASE_READY && is_known;
    bool is_serving = node->is_serving && is_known;
    bool has_backlog = peer->version >= 2 && tr_has_backlog(node);
    return (uint8_t)((has_backlog ? TR_BEAT_BACKLOG : 0) | (is_popping ? TR_BEAT_POPPING : 0) |
                     (is_serving ? TR_BEAT_READY : 0) |
                     (node->settling.is_unsettled ? TR_BEAT_UNSETTLED : 0) |
                     (may_tell(node, index) && owes(node, index) ? TR_BEAT_OWES : 0));
}

static void send_beat(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    struct tr_frame frame = {.kind = TR_FRAME_BEAT, .heard_ms = peer->tick_ms};
    struct tr_writer writer = begin_frame(node);
    frame.of.beat.tick_ms = node->time.now_ms;
    frame.of.beat.stamp = tr_clock(node);
    frame.of.beat.view = node->view.id;
    frame.of.beat.position = node->log.synced;
    frame.of.beat.memory_fill = (uint8_t)(100 - tr_arena_room(&node->arena) / 10);
    frame.of.beat.disk_fill = node->log.is_refused || node->has_missed ? DISK_FULL : 0;
    frame.of.beat.flags = beat_flags(node, index);
    frame.of.beat.popping_from_ms = node->popping_from_ms;
    tr_frame_put(&writer, &frame);
    end_frame(node, index, &writer, out);
    peer->beat_ms = node->time.now_ms + BEAT_MS;
}

/* Whether the node that made a write may still be busy with it: it may find that the id is taken,
 * and take it back. Until then nobody else passes it on; who lacks it later is sent it then. */
static bool is_fresh(const struct tr_node *node, const struct tr_record *record)
{
    uint64_t clock_ms = tr_clock(node) >> 16;
    uint64_t stamp_ms = record->head.order.version >> 16;
    return record->head.order.moves == 0 && record->head.order.sequence == 1 &&
           record->head.order.attempt == 0 && stamp_ms + FRESH_MS > clock_ms &&
           stamp_ms < clock_ms + FRESH_MS && (record->head.flags & TR_RECORD_TOMBSTONE) == 0;
}

/* The record of a message, as it is now. False: there is nothing to say of it any more, or not yet.
 * One that is not durable, or not decided, may be read; to be kept elsewhere it has to be. */
static bool find_record(const struct tr_node *node, const struct tr_message *message,
                        struct tr_record *record)
{
    tr_ref ref = tr_book_find(&node->book, &message->key);
    bool is_read = message->kind == MESSAGE_ANSWER && message->result == TR_RESULT_HELD;
    if (ref == TR_ARENA_NONE || (tr_book_state(&node->book, ref) == TR_STATE_UNSAFE && !is_read))
        return false;
    tr_book_unpack(&node->book, ref, record);
    bool is_early = message->kind == MESSAGE_COPY && is_fresh(node, record);
    return is_read || (!tr_claim_is_open(node, &record->head) && !is_early);
}

static void put_record(const struct tr_node *node, struct tr_writer *writer,
                       const struct tr_record *record)
{
    struct tr_frame_record travelling;
    tr_to_frame(node, record, &travelling);
    tr_frame_put_record(writer, &travelling);
}

static void put_write(const struct tr_node *node, const struct tr_message *message,
                      struct tr_writer *writer)
{
    struct tr_record record;
    struct tr_frame_write write = {.operation = message->operation};
    if (!tr_operation_record(node, message->operation, &record, &write.mode))
        return; /* it is over */
    tr_to_frame(node, &record, &write.record);
    tr_frame_put_write(writer, &write);
}

/* With the record that is here, where that says more. */
static void put_answer(const struct tr_node *node, const struct tr_message *message,
                       struct tr_writer *writer)
{
    struct tr_record record;
    struct tr_frame_answer answer = {.operation = message->operation, .result = message->result};
    bool is_asked = message->result != TR_RESULT_STORED || message->mask != 0;
    bool is_here = is_asked && find_record(node, message, &record);
    if (!is_here && message->result == TR_RESULT_HELD)
        answer.result = TR_RESULT_NONE;
    answer.has_record = is_here && message->result != TR_RESULT_NONE;
    if (is_here && message->result == TR_RESULT_STORED)
        answer.has_record =
            record.head.from.count > 0 && (record.head.flags & TR_RECORD_MOVING) == 0;
    if (answer.has_record)
        tr_to_frame(node, &record, &answer.record);
    tr_frame_put_answer(writer, &answer);
}

static void put_ask(const struct tr_message *message, struct tr_writer *writer)
{
    struct tr_frame_ask ask = {
        .operation = message->operation,
        .mode = (enum tr_ask_mode)message->order.attempt,
        .id = message->key.id,
        .sequence = message->order.sequence,
    };
    tr_frame_put_ask(writer, &ask);
}

static void put_entry(struct tr_node *node, const struct tr_message *message,
                      struct tr_writer *writer)
{
    struct tr_record record = {
        .head.key = message->key,
        .head.order = message->order,
    };
    switch (message->kind) {
    case MESSAGE_ACK:
    case MESSAGE_CLAIM:
        tr_frame_put_key(writer, &record.head);
        return;
    case MESSAGE_MARK:
        tr_frame_put_mark(writer, &record.head, message->mask);
        return;
    case MESSAGE_DROP:
    case MESSAGE_DROPPED:
        tr_frame_put_drop(writer, &record.head, message->operation, message->mask == 1);
        return;
    case MESSAGE_OUTCOME:
        if (find_record(node, message, &record))
            tr_frame_put_outcome(writer, &record.head,
                                 (int64_t)(record.head.due_ms - node->time.steady_ms),
                                 tr_list_check(node, &record.head));
        return;
    case MESSAGE_PART:
    case MESSAGE_COPY:
        if (find_record(node, message, &record))
            put_record(node, writer, &record);
        return;
    case MESSAGE_WRITE:
        put_write(node, message, writer);
        return;
    case MESSAGE_ANSWER:
        put_answer(node, message, writer);
        return;
    case MESSAGE_ASK:
        put_ask(message, writer);
        return;
    case MESSAGE_KINDS:
        TR_UNREACHABLE("no such message");
    }
}

static enum tr_frame_kind frame_of(enum tr_message_kind kind)
{
    switch (kind) {
    case MESSAGE_PART:
    case MESSAGE_COPY:
        return TR_FRAME_COPIES;
    case MESSAGE_OUTCOME:
        return TR_FRAME_OUTCOMES;
    case MESSAGE_ACK:
        return TR_FRAME_ACKS;
    case MESSAGE_MARK:
        return TR_FRAME_MARKS;
    case MESSAGE_CLAIM:
        return TR_FRAME_CLAIMS;
    case MESSAGE_DROP:
        return TR_FRAME_DROPS;
    case MESSAGE_DROPPED:
        return TR_FRAME_DROPPED;
    case MESSAGE_WRITE:
        return TR_FRAME_WRITES;
    case MESSAGE_ANSWER:
        return TR_FRAME_ANSWERS;
    case MESSAGE_ASK:
        return TR_FRAME_ASKS;
    case MESSAGE_KINDS:
        break;
    }
    TR_UNREACHABLE("no such message");
}

static bool has_frame_room(const struct tr_node *node, const struct tr_effects *out)
{
    size_t most = FRAME_ROOM + node->config.opaque_max;
    return tr_effects_has_room(out, 8) && FRAMES_SIZE - node->frames_size >= most;
}

/* As many messages of a kind as there are, in one frame. */
static void send_queue(struct tr_node *node, uint16_t index, enum tr_message_kind kind,
                       struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    struct tr_queue *queue = &peer->queues[kind];
    struct tr_frame frame = {.kind = frame_of(kind), .heard_ms = peer->tick_ms};
    struct tr_writer writer = begin_frame(node);
    tr_frame_put(&writer, &frame);
    size_t most = kind == MESSAGE_COPY ? BULK_SIZE : BATCH_SIZE;
    for (unsigned i = 0; i < BATCH_COUNT && queue->count > 0 && writer.size < most; i++) {
        struct tr_writer before = writer;
        put_entry(node, &node->messages[queue->first], &writer);
        if (writer.is_full) { /* its data is of a time with a higher limit: in a later step */
            writer = before;
            break;
        }
        drop_first(node, peer, queue);
    }
    end_frame(node, index, &writer, out);
    peer->sent_ms = node->time.now_ms;
}

/* A frame of each kind, one after the other: they go out together. */
static void send_messages(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    bool is_starting = (peer->flags & TR_BEAT_READY) == 0; /* by samples it corrects its clock */
    if (is_starting && peer->queues[MESSAGE_OUTCOME].count > 0 &&
        peer->queues[MESSAGE_PART].count == 0 && has_frame_room(node, out))
        send_queue(node, index, MESSAGE_OUTCOME, out);
    for (unsigned kind = 0; kind < MESSAGE_KINDS && peer->count > 0; kind++) {
        if (kind == MESSAGE_OUTCOME && peer->queues[MESSAGE_PART].count > 0)
            continue; /* parts go before what follows from them */
        if (peer->queues[kind].count > 0 && has_frame_room(node, out))
            send_queue(node, index, (enum tr_message_kind)kind, out);
    }
}

static void send_sums(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    struct tr_frame frame = {.kind = TR_FRAME_BUCKETS, .heard_ms = peer->tick_ms};
    struct tr_writer writer = begin_frame(node);
    frame.of.sums = tr_arena_at(&node->arena, peer->own_sums);
    tr_frame_put(&writer, &frame);
    end_frame(node, index, &writer, out);
    peer->has_sent_sums = true;
}

void tr_beat_now(struct tr_node *node)
{
    for (uint32_t i = 1; i < node->member_count; i++)
        node->peers[i].beat_ms = node->time.now_ms;
}

bool tr_all_are_told(struct tr_node *node)
{
    for (uint32_t i = 1; i < node->member_count; i++) {
        const struct tr_peer *peer = &node->peers[i];
        bool has_heard = peer->echo_ms > peer->sent_ms;
        if (peer->is_up && (!has_heard || peer->count > 0 || !tr_owes_nothing(node, (uint16_t)i)))
            return false;
    }
    return true;
}

/* ---- frames in ---- */

/* A store that is another one, or an older state of itself, may have lost what it had. */
static void meet_store(struct tr_node *node, uint16_t index, const struct tr_frame *frame,
                       struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    const struct tr_log_incarnation *history = frame->of.hello.incarnations;
    uint32_t count = frame->of.hello.incarnation_count;
    bool is_same = memcmp(peer->store_id, frame->of.hello.store_id, sizeof peer->store_id) == 0;
    bool is_rolled_back = peer->incarnation != 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_known = history[i].number == peer->incarnation;
        if (is_known && (i + 1 == count || history[i + 1].start >= peer->position))
            is_rolled_back = false;
    }
    if (peer->has_store && (!is_same || is_rolled_back)) {
        tr_cover(&node->trial, is_same ? RULE_ROLLED_BACK : RULE_NEW_STORE);
        tr_forget_acks(node, index);
        tr_note(out, TR_NOTE_PEER_LESS, 0, index);
    }
    memcpy(peer->store_id, frame->of.hello.store_id, sizeof peer->store_id);
    peer->has_store = true;
}

static void greet(struct tr_node *node, uint16_t index, const struct tr_frame *frame,
                  struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    uint32_t count = frame->of.hello.incarnation_count;
    if (peer->is_greeted || frame->of.hello.version < 1 || count == 0 ||
        !tr_span_equals(frame->of.hello.address, tr_member_address(node, index))) {
        reset(node, index, out);
        return;
    }
    meet_store(node, index, frame, out);
    peer->is_greeted = true;
    peer->version = (uint8_t)(frame->of.hello.version < TR_FRAME_VERSION ? frame->of.hello.version
                                                                         : TR_FRAME_VERSION);
    peer->trip_ms = 0;
    peer->backlog_until_ms = 0;
    peer->unnoted_until_ms = 0;
    peer->view = frame->of.hello.view;
    peer->incarnation = frame->of.hello.incarnations[count - 1].number;
    peer->tick_ms = frame->of.hello.tick_ms;
    peer->flags = TR_BEAT_POPPING | TR_BEAT_UNSETTLED; /* until it says */
    peer->popping_from_ms = 0;
    if (node->is_serving)
        tr_send_samples(node, index);
    tr_claim_now(node);
    tr_compare_begin(node, index);
}

static void hear_beat(struct tr_node *node, uint16_t index, const struct tr_frame *frame)
{
    struct tr_peer *peer = &node->peers[index];
    peer->tick_ms = frame->of.beat.tick_ms;
    if (peer->view != frame->of.beat.view)
        tr_settle_again(node); /* they may agree now */
    peer->view = frame->of.beat.view;
    peer->flags = frame->of.beat.flags;
    peer->position = frame->of.beat.position;
    peer->popping_from_ms = frame->of.beat.popping_from_ms;
    peer->clock_ms = (int64_t)((frame->of.beat.stamp >> 16) - node->time.steady_ms);
    peer->fill = frame->of.beat.memory_fill > frame->of.beat.disk_fill ? frame->of.beat.memory_fill
                                                                       : frame->of.beat.disk_fill;

    bool is_full = frame->of.beat.disk_fill == DISK_FULL;
    if (is_full && !peer->has_missed) {
        peer->is_passed |= peer->cursor > 0; /* all that it may lack is looked for */
        peer->is_behind = true;
    }
    if (is_full || (peer->flags & TR_BEAT_POPPING) != 0)
        peer->has_missed = is_full;

    /* Said after it has heard of this barrier, not before a pause of ours. */
    bool is_fresh = frame->heard_ms >= node->barrier_ms;
    peer->has_told |= is_fresh && (peer->flags & TR_BEAT_OWES) == 0;
    tr_backlog_heard(node, index);
    if ((peer->flags & TR_BEAT_POPPING) != 0)
        peer->popped_ms = node->time.now_ms;
    tr_hear_stamp(node, frame->of.beat.stamp);
}

static void hear_answer(struct tr_node *node, uint16_t index, struct tr_frame_answer *answer,
                        struct tr_effects *out)
{
    struct tr_record *record = &answer->record.record;
    if (answer->has_record)
        tr_localize_due(node, &answer->record);
    for (unsigned i = 0; answer->has_record && i < record->head.from.count; i++)
        record->head.from.members[i] = tr_member_find(node, answer->record.from[i]);
    for (unsigned i = 0; answer->has_record && i < record->head.replicas.count; i++)
        record->head.replicas.members[i] = tr_member_find(node, answer->record.list[i]);
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

/* A page in flight must not bring back what was deleted meanwhile. */
static bool is_too_old(const struct tr_node *node, const struct tr_frame *frame)
{
    bool is_old = frame->kind != TR_FRAME_HELLO && frame->kind != TR_FRAME_BEAT &&
                  frame->heard_ms > 0 && node->time.now_ms > frame->heard_ms + FRAME_LIFE_MS &&
                  !tr_breaks(&node->trial, MUTANT_OLD_FRAMES);
    if (is_old)
        tr_cover(&node->trial, RULE_OLD_FRAME);
    return is_old;
}

/* The answer to a heartbeat has waited for a frame to travel with: the shortest tell, and those
 * that become longer are believed little by little. */
static void measure_trip(const struct tr_node *node, struct tr_peer *peer)
{
    uint64_t trip_ms = node->time.now_ms - peer->echo_ms;
    trip_ms = trip_ms < HEARS_MS ? trip_ms : HEARS_MS; /* what takes longer counts as down */
    if (peer->trip_ms == 0 || trip_ms < peer->trip_ms)
        peer->trip_ms = trip_ms;
    else
        peer->trip_ms += (trip_ms - peer->trip_ms + TRIP_WEIGHT - 1) / TRIP_WEIGHT;
}

void tr_frame_received(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    uint16_t index = event->of.frame.peer;
    struct tr_peer *peer = &node->peers[index];
    struct tr_reader reader = tr_reader_on(event->of.frame.bytes, event->of.frame.size);
    struct tr_frame frame;
    struct tr_frame_record copy;
    if (!peer->is_linked || node->is_stop_logged)
        return; /* after a clean stop nothing more is written */
    bool is_frame = tr_frame_get(&reader, &frame);
    if (!is_frame || (!peer->is_greeted && frame.kind != TR_FRAME_HELLO) ||
        is_too_old(node, &frame)) {
        reset(node, index, out);
        return;
    }
    peer->heard_ms = node->time.now_ms;
    if (frame.heard_ms > peer->echo_ms && frame.heard_ms <= node->time.now_ms) {
        peer->echo_ms = frame.heard_ms;
        measure_trip(node, peer);
    }
    switch (frame.kind) {
    case TR_FRAME_HELLO:
        greet(node, index, &frame, out);
        return;
    case TR_FRAME_BEAT:
        hear_beat(node, index, &frame);
        return;
    case TR_FRAME_WRITES:
    case TR_FRAME_ANSWERS:
    case TR_FRAME_ASKS:
        hear_operations(node, index, &reader, &frame, out);
        break;
    case TR_FRAME_COPIES:
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
        reset(node, index, out);
}

/* ---- each step ---- */

static void look_at(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    struct tr_peer *peer = &node->peers[index];
    tr_mono_ms hears_ms = peer->echo_ms > peer->linked_ms ? peer->echo_ms : peer->linked_ms;
    bool is_heard = peer->is_greeted && node->time.now_ms < peer->heard_ms + SUSPECT_MS;
    bool is_up = is_heard && node->time.now_ms < hears_ms + HEARS_MS;
    if (is_heard && !is_up)
        tr_cover(&node->trial, RULE_ONE_WAY);
    if (is_up == peer->is_up)
        return;
    peer->is_up = is_up;
    peer->up_ms = node->time.now_ms;
    tr_note(out, is_up ? TR_NOTE_PEER_UP : TR_NOTE_PEER_DOWN, 0, index);
    tr_settle_again(node); /* who moves a record, and who stands in, may be another now */
    tr_operations_look(node);
}

/* That a node pops no more is heard after its claims of what it has begun. */
static bool has_sent_claims(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    const struct tr_queue *claims = &node->peers[index].queues[MESSAGE_CLAIM];
    while (!node->is_popping && claims->count > 0 && has_frame_room(node, out))
        send_queue(node, index, MESSAGE_CLAIM, out);
    return (node->is_popping || claims->count == 0) && has_frame_room(node, out);
}

void tr_peers_run(struct tr_node *node, struct tr_effects *out)
{
    bool is_stopping = node->phase == PHASE_DRAINING;
    for (uint32_t i = 1; i < node->member_count; i++) {
        uint16_t index = (uint16_t)i;
        struct tr_peer *peer = &node->peers[index];
        look_at(node, index, out);
        if (peer->is_linked && node->time.now_ms >= peer->heard_ms + SILENT_MS) {
            tr_cover(&node->trial, RULE_HALF_OPEN);
            reset(node, index, out); /* the other end may not know of this link any more */
        }

        if (peer->is_greeted)
            tr_compare_run(node, index);
        if (peer->is_up && may_tell(node, index))
            tr_owed_run(node, index);
        if (!peer->is_linked || peer->is_sending || !has_frame_room(node, out))
            continue;
        if (!peer->has_greeted) {
            send_hello(node, index, out);
            continue;
        }
        if (node->time.now_ms >= peer->beat_ms && !(is_stopping && peer->count > 0) &&
            has_sent_claims(node, index, out))
            send_beat(node, index, out);
        if (peer->compare >= COMPARE_SUMMED && !peer->has_sent_sums && has_frame_room(node, out))
            send_sums(node, index, out);
        send_messages(node, index, out);
    }
}

tr_mono_ms tr_peers_wake_at(const struct tr_node *node)
{
    tr_mono_ms wake = TR_NEVER;
    for (uint32_t i = 1; i < node->member_count; i++) {
        const struct tr_peer *peer = &node->peers[i];
        if (!peer->is_linked)
            continue;
        tr_mono_ms at = peer->heard_ms + (peer->is_up ? SUSPECT_MS : SILENT_MS);
        if (tr_compare_wants_tick(node, (uint16_t)i))
            at = node->time.now_ms;
        if (!peer->is_sending) {
            bool has_sums = peer->compare >= COMPARE_SUMMED && !peer->has_sent_sums;
            tr_mono_ms next = peer->count > 0 || !peer->has_greeted || has_sums ? node->time.now_ms
                                                                                : peer->beat_ms;
            at = next < at ? next : at;
        }
        wake = at < wake ? at : wake;
    }
    return wake;
}
