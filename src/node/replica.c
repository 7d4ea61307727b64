/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of records on other nodes: storing, changing and letting go what they send. Of two records
 * with one key the higher order stays, wherever and in whatever order they arrive.
 */
#include "node/internal.h"

#define HEARSAY_MAX   (TR_LOG_NODES_MAX - TR_VIEW_NODES_MAX) /* names; the rest is for views */
#define CLAIMED_BY_MS 1500 /* a pop under way is claimed after a second */

void tr_to_frame(const struct tr_node *node, const struct tr_record *record,
                 struct tr_frame_record *frame)
{
    frame->record = *record;
    frame->due_in_ms = (int64_t)(record->head.due_ms - node->time.steady_ms);
    for (unsigned i = 0; i < record->head.replicas.count; i++)
        frame->list[i] = tr_member_address(&node->cluster, record->head.replicas.members[i]);
    for (unsigned i = 0; i < record->head.from.count; i++)
        frame->from[i] = tr_member_address(&node->cluster, record->head.from.members[i]);
}

/* What is overdue counts from now: the nodes before this one in the list have only now heard of it
 * too, or are about to make it. After a position's time, or almost, somebody may have begun to, and
 * has a moment to claim it. */
static void set_due(const struct tr_node *node, struct tr_head *record, int64_t due_in_ms)
{
    uint64_t late_ms = due_in_ms < 0 ? 0 - (uint64_t)due_in_ms : 0;
    uint64_t wait_ms = late_ms + TR_SUSPECT_MS >= POSITION_MS ? CLAIMED_BY_MS : 0;
    record->due_ms = node->time.steady_ms + (due_in_ms > 0 ? (uint64_t)due_in_ms : wait_ms);
    record->lag_ms += late_ms + wait_ms;
}

void tr_localize_due(const struct tr_node *node, struct tr_frame_record *frame)
{
    int64_t due_ms = (int64_t)node->time.steady_ms;
    bool is_sane = frame->due_in_ms > -due_ms && frame->due_in_ms < (int64_t)TR_TIME_MAX - due_ms;
    frame->record.head.due_ms = (uint64_t)(is_sane ? due_ms + frame->due_in_ms : due_ms);
}

/* A timer stands for one of its pops, or is over; whoever says something else is not to be
 * trusted. */
static bool has_sense(const struct tr_record *record)
{
    bool is_live = (record->head.flags & TR_RECORD_TOMBSTONE) == 0;
    bool is_timer = is_live && record->head.key.part == 0;
    return record->head.order.sequence < UINT32_MAX && record->head.key.part <= UINT32_MAX &&
           record->head.order.moves < UINT32_MAX / 2 &&
           (!is_timer || (record->head.order.sequence >= 1 &&
                          record->head.order.sequence <= tr_record_pops(record)));
}

/* Nodes by our indexes, times by our clock. False: nothing to be stored, or no room for a name. */
static bool localize(struct tr_node *node, struct tr_frame_record *frame)
{
    struct tr_record *record = &frame->record;
    bool is_live = (record->head.flags & TR_RECORD_TOMBSTONE) == 0;
    set_due(node, &record->head, frame->due_in_ms);
    if (record->head.due_ms > TR_TIME_MAX || record->head.lag_ms > record->head.due_ms ||
        record->head.replicas.count == 0 || record->head.factor == 0 ||
        record->opaque.size > node->config.opaque_max || (is_live && record->uri.size == 0) ||
        !has_sense(record))
        return false;
    for (unsigned i = 0; i < record->head.replicas.count; i++) {
        record->head.replicas.members[i] =
            tr_member_intern(&node->cluster, frame->list[i], HEARSAY_MAX);
        if (record->head.replicas.members[i] == TR_MEMBER_NONE)
            return false;
    }
    for (unsigned i = 0; i < record->head.from.count; i++) {
        record->head.from.members[i] =
            tr_member_intern(&node->cluster, frame->from[i], HEARSAY_MAX);
        if (record->head.from.members[i] == TR_MEMBER_NONE)
            return false;
    }
    return true;
}

/* Above 0: `a` is to stay. At equal order a tombstone does, then one that has arrived; of two nodes
 * that moved it at once, one. */
static int compare(const struct tr_node *node, const struct tr_head *a, const struct tr_head *b)
{
    int order = tr_order_compare(&a->order, &b->order);
    if (order != 0)
        return order;
    order = (a->flags & TR_RECORD_TOMBSTONE) - (b->flags & TR_RECORD_TOMBSTONE);
    if (order == 0)
        order = (b->flags & TR_RECORD_MOVING) - (a->flags & TR_RECORD_MOVING);
    uint32_t mine = tr_list_check(node, a);
    uint32_t other = tr_list_check(node, b);
    return order != 0 ? order : (mine > other) - (mine < other);
}

/* Whether what `whole` says of a timer ends this part of it: a new version ends what older ones
 * still owe, a cancellation their dead pops too. */
static bool ends(const struct tr_head *whole, const struct tr_head *part)
{
    bool is_dead = (part->flags & TR_RECORD_DEAD) != 0;
    /* A client's: one that follows the last pop is of a later sequence. */
    bool is_cancelled = (whole->flags & TR_RECORD_TOMBSTONE) != 0 && whole->order.sequence <= 1;
    return part->key.part > 0 && part->order.version < whole->order.version &&
           (!is_dead || is_cancelled);
}

/* The timer of this part has moved on to a version that ends it. */
static bool is_ended(const struct tr_node *node, const struct tr_head *part)
{
    struct tr_head whole;
    tr_ref ref =
        part->key.part == 0 ? TR_ARENA_NONE : tr_book_find_whole(&node->book, part->key.id);
    if (ref == TR_ARENA_NONE)
        return false;
    tr_book_head(&node->book, ref, &whole);
    return ends(&whole, part);
}

/* No tombstones for them: whoever holds them gets the new version, and lets them go likewise. */
static void end_parts(struct tr_node *node, const struct tr_head *record)
{
    for (unsigned i = 0; record->key.part == 0 && i <= TR_PARTS_MAX; i++) {
        struct tr_index_walk walk;
        struct tr_head part;
        tr_ref ref = tr_book_first(&node->book, record->key.id, &walk);
        for (; ref != TR_ARENA_NONE; ref = tr_book_next(&walk, record->key.id)) {
            tr_book_head(&node->book, ref, &part);
            if (ends(record, &part))
                break;
        }
        if (ref == TR_ARENA_NONE)
            return;
        tr_drop(node, ref);
    }
}

/* Whoever held what is replaced here, and is not named any more, must hear of it. While it moves,
 * who moves it sees to that; but of those who were to be told already that node may not know. */
static void inherit(const struct tr_node *node, struct tr_head *record, const struct tr_head *held)
{
    uint16_t names[TR_NAMES_MAX];
    bool is_moving = (record->flags & TR_RECORD_MOVING) != 0;
    bool was_moving = (held->flags & TR_RECORD_MOVING) != 0;
    unsigned count = is_moving ? held->from.count * !was_moving : tr_names(held, names);
    for (unsigned i = 0; i < count; i++) {
        uint16_t name = is_moving ? held->from.members[i] : names[i];
        if (name == 0 || tr_is_named(record, name))
            continue;
        if (is_moving)
            tr_cover(&node->trial, RULE_INHERITED);
        tr_remember(record, name);
    }
}

/* Its callback is under way, or about to be. */
static bool is_busy(const struct tr_node *node, tr_ref ref)
{
    enum tr_record_state state = tr_book_state(&node->book, ref);
    return state == TR_STATE_QUEUED || state == TR_STATE_FLYING;
}

/* Only where it belongs differs. */
static bool is_same_pop(const struct tr_head *a, const struct tr_head *b)
{
    return tr_is_same_write(a, b) && a->order.sequence == b->order.sequence &&
           a->order.attempt == b->order.attempt &&
           ((a->flags | b->flags) & TR_RECORD_TOMBSTONE) == 0;
}

/* Where nothing is held of its timer, a record ends nothing. STORED: it is new here; HELD: it was
 * here; STALE: something higher is; FULL. */
static enum tr_frame_result store(struct tr_node *node, struct tr_record *record, tr_ref *ref,
                                  bool has_any)
{
    struct tr_record held;
    if (*ref != TR_ARENA_NONE) {
        tr_book_unpack(&node->book, *ref, &held);
        int order = compare(node, &held.head, &record->head);
        if (order >= 0)
            return order == 0 ? TR_RESULT_HELD : TR_RESULT_STALE;
        inherit(node, &record->head, &held.head);
    }
    tr_ref before = *ref;
    *ref = tr_put(node, record, before);
    if (*ref == TR_ARENA_NONE) {
        tr_cover(&node->trial, RULE_FULL);
        return TR_RESULT_FULL;
    }
    if (before != TR_ARENA_NONE && is_same_pop(&held.head, &record->head))
        tr_fly_on(node, before, *ref, &record->head);
    if (has_any)
        end_parts(node, &record->head);
    if (record->head.key.part > 0)
        tr_limit_parts(node, record->head.key.id, record->head.key.part,
                       NULL); /* who split it off does so too */
    return TR_RESULT_STORED;
}

/* ---- what others send ---- */

/* What is not kept now is sent again. At its barrier this node waits for that: it says that it has
 * missed something, and others that they owe nothing only when it has acknowledged everything. */
static void miss(struct tr_node *node, uint16_t peer)
{
    if (node->is_popping || node->phase != PHASE_READY)
        return;
    tr_cover(&node->trial, RULE_MISSED);
    node->announced_ms = 0;
    node->progress[peer].has_told = false;
    if (node->has_missed)
        return;
    node->has_missed = true;
    tr_barrier_begin(node);
    node->barrier_ms++; /* what others heard in this millisecond they may have heard before */
    tr_peers_beat_now(&node->cluster);
}

static bool holds_lower(const struct tr_node *node, const struct tr_head *record)
{
    struct tr_head held;
    tr_ref ref = tr_book_find(&node->book, &record->key);
    if (ref == TR_ARENA_NONE)
        return false;
    tr_book_head(&node->book, ref, &held);
    struct tr_order order = record->order;
    return tr_order_compare(&held.order, &order) < 0;
}

/* There is no room for a record. What is held of before it is others' to pop. */
static void pass_up(struct tr_node *node, uint16_t peer, const struct tr_head *record)
{
    if (!holds_lower(node, record))
        return;
    tr_claim_moved(node, peer, record);
    miss(node, peer);
}

static void wait_for(struct tr_node *node, const struct tr_head *record, tr_ref ref,
                     enum tr_then then, uint16_t peer, uint64_t operation)
{
    tr_log_wait(&node->log, (struct tr_waiting){
                                .then = then,
                                .token = operation,
                                .peer = peer,
                                .key = record->key,
                                .ref = ref,
                                .order = record->order,
                            });
}

static void refuse(struct tr_node *node, uint16_t peer, uint64_t operation,
                   const struct tr_head *record, enum tr_frame_result result)
{
    tr_send(node, peer,
            (struct tr_message){
                .kind = MESSAGE_ANSWER,
                .operation = operation,
                .result = result,
                .key = record->key,
            });
}

/* Whether a client's write may be stored over another one; if not, why. */
static enum tr_frame_result judge(const struct tr_node *node, enum tr_write_mode mode,
                                  const struct tr_head *held, const struct tr_head *record)
{
    /* Of two requests with one key at once, the later stays, here as elsewhere. */
    if (mode == TR_WRITE_CREATE && (record->flags & TR_RECORD_KEYED) == 0)
        return TR_RESULT_EXISTS;
    bool is_later = held->order.version > record->order.version ||
                    (held->order.version == record->order.version &&
                     held->order.version_node > record->order.version_node);
    bool is_stale = is_later && !tr_breaks(&node->trial, MUTANT_STALE_IGNORED);
    return is_stale ? TR_RESULT_STALE : TR_RESULT_STORED;
}

/* Who is named by an older state of what is held, and by that alone, has missed what came after. */
static void adopt(struct tr_node *node, tr_ref ref, const struct tr_head *older)
{
    struct tr_head held;
    bool is_flying = tr_book_state(&node->book, ref) == TR_STATE_FLYING;
    tr_book_head(&node->book, ref, &held);
    uint8_t count = held.from.count;
    inherit(node, &held, older);
    if (held.from.count == count || !tr_has_room(node, &held))
        return;
    tr_cover(&node->trial, RULE_ADOPTED);
    tr_ref placed = tr_put_head(node, ref, &held);
    if (placed == TR_ARENA_NONE)
        return;
    if (is_flying)
        tr_fly_on(node, ref, placed, &held);
    tr_tell(node, placed, TELL_DURABLE);
}

/* Whether what is new here may be stored. A full disk takes what ends or changes a record, and
 * nothing that is new to it. */
static bool may_grow(const struct tr_node *node, const struct tr_head *record, bool is_there)
{
    bool may = !node->log.is_refused || is_there || (record->flags & TR_RECORD_TOMBSTONE) != 0;
    if (!may)
        tr_cover(&node->trial, RULE_FULL_OF_LIVE);
    return may;
}

enum tr_frame_result tr_replica_take(struct tr_node *node, enum tr_write_mode mode, bool has_room,
                                     struct tr_record *record, tr_ref *ref)
{
    struct tr_record held;
    bool has_any = false;
    *ref = tr_book_find_part(&node->book, &record->head.key, &has_any);
    bool is_there = *ref != TR_ARENA_NONE;
    if (is_there)
        tr_book_unpack(&node->book, *ref, &held);
    const struct tr_order *dropped = is_there ? NULL : tr_find_dropped(node, &record->head);
    if (dropped != NULL) {
        tr_cover(&node->trial, RULE_LATE_WRITE);
        bool is_it = dropped->version == record->head.order.version &&
                     dropped->version_node == record->head.order.version_node;
        if (!is_it)
            return TR_RESULT_STALE;                        /* something higher was here */
        return has_room ? TR_RESULT_HELD : TR_RESULT_FULL; /* it has moved on */
    }
    bool is_same = is_there && tr_is_same_write(&held.head, &record->head);
    enum tr_frame_result result =
        is_there && !is_same ? judge(node, mode, &held.head, &record->head) : TR_RESULT_STORED;
    if (result == TR_RESULT_STORED && (!has_room || !may_grow(node, &record->head, is_there))) {
        tr_cover(&node->trial, RULE_FULL);
        return TR_RESULT_FULL;
    }
    if (result == TR_RESULT_STORED)
        result = store(node, record, ref, has_any);
    if (result == TR_RESULT_STALE && is_same) {
        adopt(node, *ref, &record->head);
        return has_room ? TR_RESULT_HELD : TR_RESULT_FULL; /* it has moved on already */
    }
    return result;
}

void tr_replica_write(struct tr_node *node, uint16_t peer, struct tr_frame_write *write)
{
    struct tr_record *record = &write->record.record;
    uint64_t operation = write->operation;
    tr_ref ref = TR_ARENA_NONE;
    enum tr_frame_result result = TR_RESULT_FULL;
    bool is_sound = localize(node, &write->record);
    /* One that stops is not counted on; but what it holds it does not show after it has ended. */
    bool is_stopping = node->phase != PHASE_READY;
    bool is_taken = (!is_stopping && !tr_peer_knows_more(&node->cluster, peer)) ||
                    tr_book_find(&node->book, &record->head.key) != TR_ARENA_NONE;
    bool has_room = is_sound && tr_has_room(node, &record->head) && is_taken;
    if (is_sound && write->mode == TR_WRITE_REPLACE)
        tr_claim_prepare(node, peer, &record->head);
    tr_clock_hear(&node->cluster, record->head.order.version);
    if (is_sound)
        result = tr_replica_take(node, write->mode, has_room, record, &ref);
    if (result == TR_RESULT_STORED && write->mode == TR_WRITE_REPLACE)
        tr_claim_open(node, peer, &record->head);
    if (result == TR_RESULT_STALE && tr_breaks(&node->trial, MUTANT_STALE_IGNORED))
        result = TR_RESULT_HELD;
    if (result == TR_RESULT_STORED && is_stopping) {
        wait_for(node, &record->head, ref, THEN_ANSWER, peer, 0);
        result = TR_RESULT_FULL;
    }
    if (result == TR_RESULT_STORED && tr_breaks(&node->trial, MUTANT_ACK_BEFORE_SYNC))
        refuse(node, peer, operation, &record->head, TR_RESULT_STORED);
    if (is_sound && result == TR_RESULT_FULL)
        pass_up(node, peer, &record->head);
    if (result == TR_RESULT_STORED || result == TR_RESULT_HELD)
        wait_for(node, &record->head, ref, THEN_REPLY, peer, operation);
    else
        refuse(node, peer, operation, &record->head, result);
}

/* It is let go here for a higher one that does not name this node; so is what others hold of it,
 * but for who has shown it: that one may be the only one to have it. */
static void learn(struct tr_node *node, uint16_t peer, const struct tr_head *record, tr_ref ref,
                  const struct tr_head *held)
{
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_names(held, names);
    if (is_busy(node, ref) || !tr_can_drop(node, &held->key)) {
        tr_claim_moved(node, peer, record); /* it is met again when that has ended */
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        bool is_meant = !tr_is_named(record, names[i]) || tr_is_owed_drop(record, names[i]);
        if (names[i] != 0 && names[i] != peer && is_meant)
            tr_send_drop(node, names[i], record);
    }
    tr_cover(&node->trial, RULE_STRAY_LEARNS);
    node->stats.drops++;
    tr_drop(node, ref);
}

/* A higher state of it was let go here, since those who should have that do. They may be unable to
 * reach this one, which would go on with what it has. Whether it should have that too is not known
 * here: only what is lower goes. */
static void pass_drop(struct tr_node *node, uint16_t peer, const struct tr_head *record,
                      const struct tr_order *dropped)
{
    struct tr_order order = record->order;
    if (tr_order_compare(dropped, &order) == 0)
        return;
    tr_send(node, peer,
            (struct tr_message){
                .kind = MESSAGE_DROPPED,
                .key = record->key,
                .order = *dropped,
            });
}

/* Whether a node shows a record that moves and comes from there, though it had let that go: a write
 * came late, and it would pop beside those to whom the record moves. */
static bool has_come_back(const struct tr_node *node, uint16_t peer, const struct tr_head *record,
                          tr_ref ref)
{
    struct tr_head held;
    tr_book_head(&node->book, ref, &held);
    return (record->flags & TR_RECORD_MOVING) != 0 && tr_is_named(record, peer) &&
           !tr_is_named(&held, peer);
}

void tr_replica_copy(struct tr_node *node, uint16_t peer, struct tr_frame_record *travelling)
{
    struct tr_record *record = &travelling->record;
    struct tr_record held;
    if (!localize(node, travelling))
        return;
    if (!tr_has_room(node, &record->head)) {
        pass_up(node, peer, &record->head);
        return; /* it is offered again */
    }
    node->stats.records_in++;
    tr_clock_hear(&node->cluster, record->head.order.version);
    if (tr_is_taken_back(node, &record->head)) {
        tr_send_take_back(node, peer, &record->head); /* who shows it has not heard of that */
        return;
    }
    if (is_ended(node, &record->head)) {
        tr_send_copy(node, peer, &(struct tr_head){.key.id = record->head.key.id});
        return;
    }
    bool has_any = false;
    tr_ref ref = tr_book_find_part(&node->book, &record->head.key, &has_any);
    if (ref == TR_ARENA_NONE && node->phase != PHASE_READY)
        return; /* one that stops takes nothing more: it may be for good */
    bool is_new = ref == TR_ARENA_NONE && tr_is_listed(&record->head, 0);
    if (is_new &&
        (tr_peer_knows_more(&node->cluster, peer) || !may_grow(node, &record->head, false)))
        return; /* it is offered again */
    if (!tr_is_named(&record->head, 0)) {
        end_parts(node, &record->head);
        if (ref == TR_ARENA_NONE)
            return;
        tr_book_unpack(&node->book, ref, &held);
        int order = compare(node, &held.head, &record->head);
        if (order < 0)
            learn(node, peer, &record->head, ref, &held.head);
        else if (order > 0)
            tr_send_copy(node, peer, &record->head); /* it was shown, to hear of this */
        return;
    }
    /* It has let go already; or it only comes from here, and is not here. */
    bool is_past = (record->head.flags & TR_RECORD_MOVING) != 0 && !tr_is_listed(&record->head, 0);
    const struct tr_order *dropped = tr_find_dropped(node, &record->head);
    if (ref == TR_ARENA_NONE && (is_past || dropped != NULL)) {
        tr_cover(&node->trial, RULE_MOVED);
        if (dropped == NULL) /* its write may be yet to come, and counts, but others pop it */
            tr_claim_moved(node, peer, &record->head);
        else if (tr_is_listed(&record->head, 0))
            pass_drop(node, peer, &record->head, dropped);
        wait_for(node, &record->head, TR_ARENA_NONE, THEN_DROPPED, peer, 0);
        return;
    }
    enum tr_frame_result result = store(node, record, &ref, has_any);
    if (result == TR_RESULT_STALE) {
        tr_cover(&node->trial, RULE_HIGHER);
        tr_send_copy(node, peer, &record->head);
    }
    if (result == TR_RESULT_FULL)
        pass_up(node, peer, &record->head);
    if (result == TR_RESULT_HELD && has_come_back(node, peer, &record->head, ref)) {
        tr_cover(&node->trial, RULE_CAME_BACK);
        if (tr_book_state(&node->book, ref) != TR_STATE_UNSAFE)
            tr_send_drop(node, peer, &record->head); /* else it is shown again */
        return;
    }
    if (result != TR_RESULT_STORED && result != TR_RESULT_HELD)
        return;
    if (has_any)
        end_parts(node, &record->head);
    tr_mark(node, ref, &record->head, peer);
    wait_for(node, &record->head, ref, THEN_ACK, peer, 0);
}

/* A write whose id is taken elsewhere goes; the other timer of that id is older, and lives. That is
 * not answered: who hears of a drop lets go what is older. */
void tr_replica_take_back(struct tr_node *node, const struct tr_head *named)
{
    struct tr_head held;
    tr_ref ref = tr_book_find(&node->book, &named->key);
    tr_note_taken_back(node, named);
    if (ref == TR_ARENA_NONE)
        return;
    tr_book_head(&node->book, ref, &held);
    if (!tr_is_same_write(&held, named) || is_busy(node, ref) || !tr_has_room(node, &held))
        return;
    node->stats.drops++;
    tr_forget(node, ref);
}

/* Whether a drop leaves what is held here as it is, now or for good; then that is seen to. */
static bool is_kept(struct tr_node *node, uint16_t peer, const struct tr_head *named,
                    uint64_t operation, tr_ref ref, const struct tr_head *held)
{
    struct tr_order order = named->order;
    if (!tr_has_room(node, held)) {
        pass_up(node, peer, named);
        return true;
    }
    if (operation != 0 && tr_is_same_write(held, named)) {
        wait_for(node, named, TR_ARENA_NONE, THEN_DROPPED, peer, operation);
        return true; /* the very thing, and on its way */
    }
    if (tr_order_compare(&held->order, &order) > 0) {
        tr_cover(&node->trial, RULE_DROP_REFUSED);
        if (operation != 0)
            refuse(node, peer, operation, held, TR_RESULT_STALE);
        else
            tr_send_copy(node, peer, held);
        return true;
    }
    bool is_end = (held->flags & TR_RECORD_TOMBSTONE) != 0;
    if (operation == 0 && is_end && tr_order_compare(&held->order, &order) == 0) {
        wait_for(node, named, TR_ARENA_NONE, THEN_DROPPED, peer, 0);
        return true; /* it may be the only one to know who else is to hear of the end */
    }
    if (is_busy(node, ref) && tr_is_same_write(held, named)) {
        tr_cover(&node->trial, RULE_DROP_BUSY);
        return true; /* it is asked again */
    }
    if (operation == 0 && !tr_can_drop(node, &named->key)) {
        tr_claim_moved(node, peer, named); /* likewise; and it is others' to pop */
        miss(node, peer);
        return true;
    }
    return false;
}

/* Of a record with stand-ins not all nodes could be reached when it was written: who has moved it
 * may still reach fewer of them than this one does. They hear that it has moved on. */
static void spread_drop(struct tr_node *node, uint16_t peer, const struct tr_head *named,
                        const struct tr_head *held)
{
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_names(held, names);
    for (unsigned i = 0; held->replicas.count > tr_copies(node, held->factor) && i < count; i++) {
        if (names[i] == 0 || names[i] == peer)
            continue;
        tr_cover(&node->trial, RULE_DROP_SPREAD);
        pass_drop(node, names[i], held, &named->order);
    }
}

void tr_replica_drop(struct tr_node *node, uint16_t peer, const struct tr_head *named,
                     uint64_t operation)
{
    struct tr_head held;
    tr_ref ref = tr_book_find(&node->book, &named->key);
    if (ref != TR_ARENA_NONE) {
        tr_book_head(&node->book, ref, &held);
        if (is_kept(node, peer, named, operation, ref, &held))
            return;
    }
    if (ref == TR_ARENA_NONE ? !tr_can_wait(node) : !tr_has_room(node, &held))
        return; /* likewise */
    if (ref == TR_ARENA_NONE)
        tr_cover(&node->trial, RULE_DROP_NOTHING);
    else if (tr_breaks(&node->trial, MUTANT_DROP_IS_TOMBSTONE))
        tr_tell(node,
                tr_end(node, ref,
                       &(struct tr_order){.version = named->order.version,
                                          .version_node = named->order.version_node,
                                          .sequence = named->order.sequence,
                                          .attempt = named->order.attempt,
                                          .moves = named->order.moves + 1}),
                TELL_DURABLE);
    else {
        if (operation == 0)
            spread_drop(node, peer, named, &held);
        tr_drop(node, ref);
    }
    node->stats.drops += ref != TR_ARENA_NONE;
    if (named->key.part == 0) {
        struct tr_head ended = *named;
        ended.flags = 0;
        if (operation != 0)
            end_parts(node, &ended);
    }
    tr_note_dropped(node, named); /* and whatever is below that order */
    wait_for(node, named, TR_ARENA_NONE, THEN_DROPPED, peer, operation);
}

/* A node that this one shows its copy to has let a higher state of it go. What was replaced,
 * cancelled or popped goes here too. What has only moved is popped by those it moved to; but they
 * may be gone for good, and this the only copy: it is held back, until the other one takes it. */
static void give_way(struct tr_node *node, uint16_t peer, const struct tr_head *named)
{
    struct tr_head held;
    tr_ref ref = tr_book_find(&node->book, &named->key);
    if (ref == TR_ARENA_NONE)
        return;
    tr_book_head(&node->book, ref, &held);
    struct tr_order order = named->order;
    if (is_busy(node, ref) || tr_order_compare(&held.order, &order) >= 0)
        return;
    if (tr_is_same_write(&held, named) && named->order.sequence == held.order.sequence) {
        tr_claim_moved(node, peer, named);
        tr_settle_look(node, ref, &held, false); /* from now on it is shown to that one */
        return;
    }
    if (!tr_has_room(node, &held) || !tr_can_drop(node, &named->key)) {
        tr_claim_moved(node, peer, named);
        miss(node, peer);
        return;
    }
    tr_cover(&node->trial, RULE_DROP_PASSED);
    node->stats.drops++;
    tr_drop(node, ref);
}

void tr_replica_dropped(struct tr_node *node, uint16_t peer, const struct tr_head *named,
                        uint64_t operation, bool is_wanted, struct tr_effects *out)
{
    struct tr_head held;
    tr_ref ref = tr_find_exactly(node, named, &held);
    if (operation != 0)
        tr_operation_dropped(node, operation, peer, out);
    else if (ref == TR_ARENA_NONE && !is_wanted)
        give_way(node, peer, named);
    if (ref == TR_ARENA_NONE)
        return;
    if (is_wanted) {
        tr_send_copy(node, peer, &held);
        return;
    }
    if (tr_is_listed(&held, peer)) {
        if ((held.flags & TR_RECORD_TOMBSTONE) != 0)
            tr_mark(node, ref, &held, peer); /* it was there, and is forgotten */
        return;
    }
    bool is_moving = (held.flags & TR_RECORD_MOVING) != 0;
    tr_book_forget(&node->book, ref, peer);
    if (is_moving) {
        tr_book_head(&node->book, ref, &held);
        tr_settle_look(node, ref, &held, false);
    } else
        tr_cover(&node->trial, RULE_ABSENT_TOLD);
}

tr_ref tr_replica_find(const struct tr_node *node, tr_timer_id id)
{
    struct tr_index_walk walk;
    struct tr_record record;
    tr_ref found = TR_ARENA_NONE;
    unsigned best = 0;
    for (tr_ref ref = tr_book_first(&node->book, id, &walk); ref != TR_ARENA_NONE;
         ref = tr_book_next(&walk, id)) {
        tr_book_unpack(&node->book, ref, &record);
        bool is_live = (record.head.flags & TR_RECORD_TOMBSTONE) == 0;
        unsigned worth = is_live && record.head.key.part == 0 ? 3
                         : is_live                            ? 2
                         : record.head.key.part == 0          ? 1
                                                              : 0;
        if (worth > best) {
            best = worth;
            found = ref;
        }
    }
    return found;
}

void tr_replica_ask(struct tr_node *node, uint16_t peer, const struct tr_frame_ask *ask)
{
    struct tr_head found = {.key.id = ask->id};
    tr_ref ref = tr_replica_find(node, ask->id);
    if (ref != TR_ARENA_NONE)
        tr_book_head(&node->book, ref, &found);
    bool is_asked = ask->mode == TR_ASK_REDRIVE;
    struct tr_waiting waiting = {
        .then = THEN_REPLY, .token = ask->operation, .peer = peer, .key.id = found.key.id};
    if (is_asked && tr_has_parts_room(node) &&
        tr_redrive(node, ask->id, ask->sequence, waiting) > 0)
        return;
    bool is_held = ref != TR_ARENA_NONE && !is_asked;
    refuse(node, peer, ask->operation, &found, is_held ? TR_RESULT_HELD : TR_RESULT_NONE);
}

/* Of one that is over no text is kept; and if it was moving, it has arrived. Who held it before is
 * told by everybody, since the one that has ended it may not reach it. */
static tr_ref put_tombstone(struct tr_node *node, tr_ref ref, const struct tr_record *held,
                            struct tr_record *record)
{
    tr_strip(record);
    if ((held->head.flags & ~record->head.flags & TR_RECORD_MOVING) != 0)
        tr_let_others_go(&record->head);
    ref = tr_put(node, record, ref);
    TR_ASSERT(ref != TR_ARENA_NONE); /* it is smaller, and has no text */
    tr_arm(node, ref);
    return ref;
}

/* An outcome has overtaken what it is about. The whole record is asked for; what comes first, an
 * older state of it, is not popped, since that has been. */
static void await_record(struct tr_node *node, uint16_t peer, const struct tr_head *outcome)
{
    tr_cover(&node->trial, RULE_OVERTAKEN);
    tr_claim_past(node, peer, outcome);
    tr_send(node, peer,
            (struct tr_message){
                .kind = MESSAGE_DROPPED,
                .mask = 1,
                .key = outcome->key,
                .order = outcome->order,
            });
}

void tr_replica_outcome(struct tr_node *node, uint16_t peer, const struct tr_head *outcome,
                        int64_t due_in_ms, uint32_t check)
{
    struct tr_record held;
    tr_ref ref = tr_book_find(&node->book, &outcome->key);
    if (ref == TR_ARENA_NONE) {
        await_record(node, peer, outcome);
        return;
    }
    tr_book_unpack(&node->book, ref, &held);
    int order = tr_order_compare(&held.head.order, &outcome->order);
    bool is_over = (held.head.flags & TR_RECORD_TOMBSTONE) != 0;
    bool has_arrived = (outcome->flags & TR_RECORD_MOVING) > (held.head.flags & TR_RECORD_MOVING);
    if (!tr_has_room(node, &held.head)) {
        if (order < 0) {
            tr_claim_past(node, peer, outcome);
            miss(node, peer);
        }
        return; /* the whole record follows */
    }
    if (!tr_is_same_write(&held.head, outcome) || check != tr_list_check(node, &held.head) ||
        has_arrived) {
        if (order < 0)
            await_record(node, peer, outcome); /* where it comes from is not known here */
        return;
    }
    if (is_over && (outcome->flags & TR_RECORD_TOMBSTONE) == 0) {
        tr_send_copy(node, peer, &held.head);
        return; /* what it lacks is more than times: the whole record follows if it is higher */
    }
    if (order > 0) {
        tr_send_copy(node, peer, &held.head);
        return;
    }
    if (order < 0) {
        struct tr_record changed = held;
        changed.head.order.sequence = outcome->order.sequence;
        changed.head.order.attempt = outcome->order.attempt;
        changed.head.order.moves = outcome->order.moves;
        changed.head.flags = outcome->flags;
        changed.head.lag_ms = outcome->lag_ms;
        set_due(node, &changed.head, due_in_ms);
        if (changed.head.due_ms > TR_TIME_MAX || changed.head.lag_ms > changed.head.due_ms ||
            !has_sense(&changed))
            return;
        bool is_flying = tr_book_state(&node->book, ref) == TR_STATE_FLYING;
        tr_ref before = ref;
        ref = (changed.head.flags & TR_RECORD_TOMBSTONE) != 0
                  ? put_tombstone(node, ref, &held, &changed)
                  : tr_change(node, ref, &held.head, &changed.head);
        if (is_flying && is_same_pop(&held.head, &changed.head))
            tr_fly_on(node, before, ref, &changed.head);
        held = changed;
    }
    tr_mark(node, ref, &held.head, peer);
    wait_for(node, &held.head, TR_ARENA_NONE, THEN_ACK, peer, 0);
}
