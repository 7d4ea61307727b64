/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of records on other nodes: storing what they send, telling them what changes here, and
 * seeing to it that each node of a record's list has it.
 *
 * Of two records with one key the higher order stays, wherever and in whatever order they arrive.
 * A record is owed to every node of its list that is not known to have exactly its order: one that
 * was told and does not say so is sent the whole record, and one that comes back is sent all that
 * it may lack, in the order of the book.
 */
#include "node/internal.h"

#define OWED_MS      1000 /* a node that was told has this long to say so */
#define OWED_WALK_MS 500
#define WINDOW       64  /* messages that a walk keeps ahead */
#define WALK_SLICE   512 /* records looked at in a step */

void tr_to_frame(const struct tr_node *node, const struct tr_record *record,
                 struct tr_frame_record *frame)
{
    frame->record = *record;
    frame->due_in_ms = (int64_t)(record->due_ms - node->steady_ms);
    frame->from_count = 0;
    for (unsigned i = 0; i < record->list_count; i++)
        frame->list[i] = tr_member_address(node, record->list[i]);
}

/* What is overdue counts from now: the nodes before this one in the list have only now heard of it
 * too, or are about to make it. */
static void set_due(const struct tr_node *node, struct tr_record *record, int64_t due_in_ms)
{
    record->due_ms = node->steady_ms + (due_in_ms > 0 ? (uint64_t)due_in_ms : 0);
    record->lag_ms += due_in_ms < 0 ? 0 - (uint64_t)due_in_ms : 0;
}

/* Nodes by our indexes, times by our clock. False: nothing to be stored, or no room for a name. */
static bool localize(struct tr_node *node, struct tr_frame_record *frame)
{
    struct tr_record *record = &frame->record;
    bool is_live = (record->flags & TR_RECORD_TOMBSTONE) == 0;
    set_due(node, record, frame->due_in_ms);
    if (record->due_ms > TR_TIME_MAX || record->lag_ms > TR_TIME_MAX ||
        (is_live && record->uri.size == 0))
        return false;
    for (unsigned i = 0; i < record->list_count; i++) {
        record->list[i] = tr_member_intern(node, frame->list[i]);
        if (record->list[i] == TR_MEMBER_NONE)
            return false;
    }
    return true;
}

/* Above 0: `a` is to stay. At equal order a tombstone does. */
static int compare(const struct tr_record *a, const struct tr_record *b)
{
    struct tr_order x = tr_record_order(a);
    struct tr_order y = tr_record_order(b);
    int order = tr_order_compare(&x, &y);
    if (order != 0)
        return order;
    return (a->flags & TR_RECORD_TOMBSTONE) - (b->flags & TR_RECORD_TOMBSTONE);
}

/* Whether what `whole` says of a timer ends this part of it: a new version ends what older ones
 * still owe, a tombstone their dead pops too. */
static bool ends(const struct tr_record *whole, const struct tr_record *part)
{
    bool is_dead = (part->flags & TR_RECORD_DEAD) != 0;
    bool is_tombstone = (whole->flags & TR_RECORD_TOMBSTONE) != 0;
    return part->part > 0 && part->version < whole->version && (!is_dead || is_tombstone);
}

/* The timer of this part has moved on to a version that ends it. */
static bool is_ended(const struct tr_node *node, const struct tr_record *part)
{
    struct tr_record whole;
    tr_ref ref = part->part == 0 ? TR_ARENA_NONE : tr_book_find(&node->book, part->id, 0);
    if (ref == TR_ARENA_NONE)
        return false;
    tr_book_unpack(&node->book, ref, &whole);
    return ends(&whole, part);
}

/* No tombstones for them: whoever holds them gets the new version, and lets them go likewise. */
static void end_parts(struct tr_node *node, const struct tr_record *record)
{
    for (unsigned i = 0; record->part == 0 && i <= TR_PARTS_MAX; i++) {
        struct tr_index_walk walk;
        struct tr_record part;
        tr_ref ref = tr_book_first(&node->book, record->id, &walk);
        for (; ref != TR_ARENA_NONE; ref = tr_book_next(&walk, record->id)) {
            tr_book_unpack(&node->book, ref, &part);
            if (ends(record, &part))
                break;
        }
        if (ref == TR_ARENA_NONE)
            return;
        tr_drop(node, ref);
    }
}

/* STORED: it is new here; HELD: it was here; STALE: something higher is; FULL. */
enum tr_frame_result tr_replica_store(struct tr_node *node, struct tr_record *record, tr_ref *ref)
{
    struct tr_record held;
    *ref = tr_book_find(&node->book, record->id, record->part);
    if (*ref != TR_ARENA_NONE) {
        tr_book_unpack(&node->book, *ref, &held);
        int order = compare(&held, record);
        if (order >= 0)
            return order == 0 ? TR_RESULT_HELD : TR_RESULT_STALE;
    }
    *ref = tr_put(node, record, *ref);
    if (*ref == TR_ARENA_NONE)
        return TR_RESULT_FULL;
    end_parts(node, record);
    return TR_RESULT_STORED;
}

/* ---- who has what ---- */

static void mark(struct tr_node *node, tr_ref ref, const struct tr_record *record, uint16_t member)
{
    unsigned place = tr_place_of(record, member);
    if (place < record->list_count)
        tr_book_set_acked(&node->book, ref,
                          tr_book_acked(&node->book, ref) | (uint8_t)(1u << place));
}

/* The record of this key, if it has exactly this order. */
static tr_ref find_exactly(const struct tr_node *node, const struct tr_record *named,
                           struct tr_record *held)
{
    tr_ref ref = tr_book_find(&node->book, named->id, named->part);
    if (ref == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    tr_book_unpack(&node->book, ref, held);
    struct tr_order x = tr_record_order(held);
    struct tr_order y = tr_record_order(named);
    return tr_order_compare(&x, &y) == 0 ? ref : TR_ARENA_NONE;
}

void tr_replica_acked(struct tr_node *node, uint16_t peer, const struct tr_record *named)
{
    struct tr_record held;
    tr_ref ref = find_exactly(node, named, &held);
    if (ref != TR_ARENA_NONE)
        mark(node, ref, &held, peer);
}

void tr_replica_marked(struct tr_node *node, const struct tr_record *named, uint8_t mask)
{
    struct tr_record held;
    tr_ref ref = find_exactly(node, named, &held);
    if (ref != TR_ARENA_NONE)
        tr_book_set_acked(&node->book, ref, tr_book_acked(&node->book, ref) | mask);
}

static bool is_owed(const struct tr_node *node, tr_ref ref, uint16_t peer, struct tr_record *record)
{
    if (tr_book_state(&node->book, ref) == TR_STATE_UNSAFE)
        return false; /* when it is durable, the list is told */
    tr_book_unpack(&node->book, ref, record);
    unsigned place = tr_place_of(record, peer);
    return place < record->list_count &&
           (tr_book_acked(&node->book, ref) & (uint8_t)(1u << place)) == 0;
}

/* Each node of the list has a moment to say that it has it. */
static void owe(struct tr_node *node, tr_ref ref)
{
    struct tr_record record;
    tr_book_unpack(&node->book, ref, &record);
    for (unsigned i = 0; i < record.list_count; i++) {
        uint16_t member = record.list[i];
        struct tr_fifo_entry entry = {ref, node->steady_ms + OWED_MS};
        if (member == 0 || !is_owed(node, ref, member, &record))
            continue;
        struct tr_peer *peer = &node->peers[member];
        if (peer->is_greeted && tr_fifo_push(&peer->owed, &node->arena, entry))
            continue;
        peer->is_behind = true;
        peer->cursor = 0;
    }
}

static void send_copy(struct tr_node *node, uint16_t peer, const struct tr_record *record)
{
    tr_send(node, peer,
            (struct tr_message){.kind = MESSAGE_COPY, .id = record->id, .part = record->part});
}

/* Those who were told and have not said that they have it. */
static void run_owed(struct tr_node *node, uint16_t index)
{
    struct tr_peer *peer = &node->peers[index];
    if (node->now_ms < peer->owed_ms)
        return;
    peer->owed_ms = node->now_ms + OWED_WALK_MS;
    for (uint32_t count = peer->owed.count; count > 0; count--) {
        struct tr_record record;
        struct tr_fifo_entry entry = tr_fifo_pop(&peer->owed, &node->arena);
        if (!tr_arena_holds(&node->arena, entry.ref) || !is_owed(node, entry.ref, index, &record))
            continue;
        if (entry.due_ms <= node->steady_ms) {
            send_copy(node, index, &record);
            entry.due_ms = node->steady_ms + OWED_MS;
        }
        if (!tr_fifo_push(&peer->owed, &node->arena, entry))
            peer->is_behind = true;
    }
}

/* All that it may lack, in the order of hashes: parts of one timer together. */
static void run_walk(struct tr_node *node, uint16_t index)
{
    struct tr_peer *peer = &node->peers[index];
    struct tr_index_walk walk = tr_index_seek(&node->book.index, peer->cursor);
    uint64_t last = peer->cursor;
    for (unsigned i = 0; peer->is_behind; i++) {
        struct tr_record record;
        tr_ref ref = TR_ARENA_NONE;
        if (!tr_index_next(&walk, &ref)) {
            peer->is_behind = false;
            peer->cursor = 0;
            return;
        }
        uint64_t hash = tr_book_hash(tr_book_id(&node->book, ref));
        if (hash != last && (i >= WALK_SLICE || peer->count >= WINDOW)) {
            peer->cursor = hash;
            return;
        }
        last = hash;
        struct tr_fifo_entry entry = {ref, node->steady_ms + OWED_MS};
        if (!is_owed(node, ref, index, &record))
            continue;
        send_copy(node, index, &record);
        if (!tr_fifo_push(&peer->owed, &node->arena, entry))
            return;
    }
}

void tr_settle_run(struct tr_node *node, uint16_t index)
{
    struct tr_peer *peer = &node->peers[index];
    if (peer->owed.count > 0)
        run_owed(node, index);
    if (peer->is_behind && peer->is_greeted && peer->count < WINDOW)
        run_walk(node, index);
}

/* ---- what happens here ---- */

void tr_tell(struct tr_node *node, tr_ref ref, bool is_new)
{
    struct tr_record record;
    if (!tr_is_clustered(node))
        return;
    tr_book_unpack(&node->book, ref, &record);
    tr_wait(node, (struct tr_waiting){
                      .then = THEN_TELL,
                      .token = is_new,
                      .id = record.id,
                      .part = record.part,
                      .version = record.version,
                      .ref = ref,
                      .order = tr_record_order(&record),
                  });
}

static struct tr_message message_of(const struct tr_waiting *waiting, enum tr_message_kind kind)
{
    return (struct tr_message){
        .kind = kind,
        .result = TR_RESULT_STORED,
        .operation = waiting->token,
        .id = waiting->id,
        .part = waiting->part,
        .order = waiting->order,
    };
}

/* A new record goes whole; of a change, its order and times. */
static void tell_list(struct tr_node *node, tr_ref ref, const struct tr_waiting *waiting)
{
    struct tr_record record;
    tr_book_unpack(&node->book, ref, &record);
    bool is_new = waiting->token != 0;
    for (unsigned i = 0; i < record.list_count; i++) {
        if (record.list[i] != 0)
            tr_send(node, record.list[i],
                    message_of(waiting, is_new ? MESSAGE_COPY : MESSAGE_OUTCOME));
    }
}

void tr_told(struct tr_node *node, const struct tr_waiting *waiting, struct tr_effects *out)
{
    struct tr_record named = {
        .id = waiting->id,
        .part = waiting->part,
        .version = waiting->order.version,
        .version_node = waiting->order.version_node,
        .sequence = waiting->order.sequence,
        .attempt = waiting->order.attempt,
        .moves = waiting->order.moves,
    };
    struct tr_record held;
    tr_ref ref = find_exactly(node, &named, &held);
    if (waiting->then == THEN_OPERATION)
        tr_operation_answered(node, waiting->token, 0, TR_RESULT_STORED, NULL, out);
    else if (waiting->then == THEN_REPLY)
        tr_send(node, waiting->peer, message_of(waiting, MESSAGE_ANSWER));
    else if (waiting->then == THEN_ACK && ref != TR_ARENA_NONE)
        tr_send(node, waiting->peer, message_of(waiting, MESSAGE_ACK));
    else if (waiting->then == THEN_TELL && ref != TR_ARENA_NONE)
        tell_list(node, ref, waiting);
    if (ref != TR_ARENA_NONE)
        owe(node, ref);
}

/* ---- what others send ---- */

static void wait_for(struct tr_node *node, const struct tr_record *record, tr_ref ref,
                     enum tr_then then, uint16_t peer, uint64_t operation)
{
    tr_wait(node, (struct tr_waiting){
                      .then = then,
                      .token = operation,
                      .peer = peer,
                      .id = record->id,
                      .part = record->part,
                      .version = record->version,
                      .ref = ref,
                      .order = tr_record_order(record),
                  });
}

static void refuse(struct tr_node *node, uint16_t peer, const struct tr_frame *frame,
                   const struct tr_record *record, enum tr_frame_result result)
{
    if (frame->of.write.operation != 0)
        tr_send(node, peer,
                (struct tr_message){
                    .kind = MESSAGE_ANSWER,
                    .operation = frame->of.write.operation,
                    .result = result,
                    .id = record->id,
                    .part = record->part,
                });
}

static bool is_same_write(const struct tr_record *a, const struct tr_record *b)
{
    return a->version == b->version && a->version_node == b->version_node;
}

/* Whether a client's write may be stored over what is held; if not, why. */
enum tr_frame_result tr_judge(const struct tr_node *node, enum tr_write_mode mode,
                              const struct tr_record *record)
{
    struct tr_record held;
    tr_ref ref = tr_book_find(&node->book, record->id, record->part);
    if (ref == TR_ARENA_NONE || mode == TR_WRITE_COPY)
        return TR_RESULT_STORED;
    tr_book_unpack(&node->book, ref, &held);
    if (is_same_write(&held, record))
        return TR_RESULT_STORED;
    if (mode == TR_WRITE_CREATE)
        return TR_RESULT_EXISTS;
    return held.version >= record->version ? TR_RESULT_STALE : TR_RESULT_STORED;
}

void tr_replica_write(struct tr_node *node, uint16_t peer, const struct tr_frame *frame,
                      struct tr_frame_record *travelling)
{
    struct tr_record *record = &travelling->record;
    tr_ref ref = TR_ARENA_NONE;
    bool has_room = localize(node, travelling) && tr_has_room(node, record);
    enum tr_frame_result result =
        has_room ? tr_judge(node, frame->of.write.mode, record) : TR_RESULT_FULL;
    tr_hear_stamp(node, record->version);
    if (result == TR_RESULT_STORED && is_ended(node, record))
        result = TR_RESULT_STALE;
    if (result == TR_RESULT_STORED)
        result = tr_replica_store(node, record, &ref);
    bool is_copy = frame->of.write.mode == TR_WRITE_COPY;
    if (result == TR_RESULT_STALE && is_copy && is_ended(node, record)) {
        send_copy(node, peer, &(struct tr_record){.id = record->id});
        return;
    }
    if (result == TR_RESULT_STALE && is_copy) {
        send_copy(node, peer, record);
        return;
    }
    if (result != TR_RESULT_STORED && result != TR_RESULT_HELD) {
        refuse(node, peer, frame, record, result);
        return;
    }
    if (is_copy)
        mark(node, ref, record, peer);
    wait_for(node, record, ref, is_copy ? THEN_ACK : THEN_REPLY, peer, frame->of.write.operation);
}

void tr_replica_outcome(struct tr_node *node, uint16_t peer, const struct tr_record *outcome,
                        int64_t due_in_ms)
{
    struct tr_record held;
    tr_ref ref = tr_book_find(&node->book, outcome->id, outcome->part);
    if (ref == TR_ARENA_NONE)
        return; /* it is owed: the whole record follows */
    tr_book_unpack(&node->book, ref, &held);
    bool is_over = (held.flags & TR_RECORD_TOMBSTONE) != 0;
    if (!is_same_write(&held, outcome) || !tr_has_room(node, &held))
        return;
    if (is_over && (outcome->flags & TR_RECORD_TOMBSTONE) == 0) {
        send_copy(node, peer, &held);
        return; /* what it lacks is more than times: the whole record follows if it is higher */
    }
    int order = compare(&held, outcome);
    if (order > 0) {
        send_copy(node, peer, &held);
        return;
    }
    if (order < 0) {
        struct tr_record changed = held;
        changed.sequence = outcome->sequence;
        changed.attempt = outcome->attempt;
        changed.moves = outcome->moves;
        changed.flags = outcome->flags;
        changed.lag_ms = outcome->lag_ms;
        set_due(node, &changed, due_in_ms);
        if (changed.due_ms > TR_TIME_MAX || changed.lag_ms > TR_TIME_MAX)
            return;
        ref = tr_change(node, ref, &held, &changed);
        held = changed;
    }
    mark(node, ref, &held, peer);
    wait_for(node, &held, TR_ARENA_NONE, THEN_ACK, peer, 0);
}
