/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/replica.h"

#include "cluster/clock.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "replication/catchup.h"
#include "replication/drop.h"
#include "replication/dropped.h"
#include "replication/hold.h"
#include "replication/pending.h"
#include "replication/set.h"

#define HEARSAY_MAX   (TR_LOG_NODES_MAX - TR_VIEW_NODES_MAX) /* names; the rest is for views */
#define CLAIMED_BY_MS 1500 /* a pop under way is claimed after a second */

_Static_assert(CLAIMED_BY_MS < TR_POSITION_MS, "a claim comes before the next in turn acts");

/* A pop that is overdue is due from now on: the nodes before this one in the replica set have only
 * now heard of it, too, or are about to make it. When it is overdue by a position's time, or
 * almost, one of them may have begun to, and has a moment to claim it. */
static void set_due(const struct tr_replication *replication, struct tr_head *record,
                    int64_t due_in_ms)
{
    uint64_t late_ms = due_in_ms < 0 ? 0 - (uint64_t)due_in_ms : 0;
    uint64_t wait_ms = late_ms + TR_SUSPECT_MS >= TR_POSITION_MS ? CLAIMED_BY_MS : 0;
    record->due_ms = replication->time->steady_ms + (due_in_ms > 0 ? (uint64_t)due_in_ms : wait_ms);
    record->lag_ms += late_ms + wait_ms;
    TR_ASSERT(record->due_ms >= replication->time->steady_ms); /* it is not popped in the past */
}

/* Whether the numbers of a head from another node are in the range that an honest node sends. */
static bool is_sane(const struct tr_head *head)
{
    return head->order.sequence < UINT32_MAX && head->key.part <= UINT32_MAX &&
           head->order.moves < UINT32_MAX / 2;
}

/* A record that another node sent, with the nodes by this node's indexes and the times by its
 * clock. False: it cannot be stored, or there is no room for the name of a node. */
static bool localize(struct tr_replication *replication, struct tr_whole *whole,
                     const struct tr_frame_names *names)
{
    const struct tr_store *store = replication->store;
    struct tr_head *head = &whole->head;
    set_due(replication, head, names->due_in_ms);
    if (head->due_ms > TR_TIME_MAX || head->lag_ms > head->due_ms || head->replicas.count == 0 ||
        head->factor == 0 || !is_sane(head) || !store->fits(store->context, whole) ||
        !store->is_sound(store->context, whole))
        return false;
    for (unsigned i = 0; i < head->replicas.count; i++) {
        head->replicas.members[i] =
            tr_member_intern(replication->cluster, names->replicas[i], HEARSAY_MAX);
        if (head->replicas.members[i] == TR_MEMBER_NONE)
            return false;
    }
    for (unsigned i = 0; i < head->from.count; i++) {
        head->from.members[i] = tr_member_intern(replication->cluster, names->from[i], HEARSAY_MAX);
        if (head->from.members[i] == TR_MEMBER_NONE)
            return false;
    }
    return tr_set_is_sound(head);
}

/* Above 0: `a` is to stay; below: `b`. At equal order a tombstone stays, then a record that does
 * not move; then a hash of the replica set decides, which is the same on every node. */
static int compare(const struct tr_replication *replication, const struct tr_head *a,
                   const struct tr_head *b)
{
    TR_ASSERT(tr_key_equals(&a->key, &b->key));
    int order = tr_order_compare(&a->order, &b->order);
    if (order != 0)
        return order;
    order = (a->flags & TR_RECORD_TOMBSTONE) - (b->flags & TR_RECORD_TOMBSTONE);
    if (order == 0)
        order = (b->flags & TR_RECORD_MOVING) - (a->flags & TR_RECORD_MOVING);
    uint32_t mine = tr_set_check(replication, a);
    uint32_t other = tr_set_check(replication, b);
    return order != 0 ? order : (mine > other) - (mine < other);
}

/* `record` replaces `held`. A node that `held` names and `record` does not may hold an older copy,
 * so `record` remembers it in `from`: it is to drop that. While `record` moves, the node that moves
 * it has the nodes of the old set drop it; but of those that were in `from` before, that node may
 * not know. Nor does it know of the nodes that have another write, an older one: they are sent a
 * drop at once, since `record` is durable where it moves from. */
static void inherit(struct tr_replication *replication, struct tr_head *record,
                    const struct tr_head *held)
{
    TR_ASSERT(tr_key_equals(&record->key, &held->key));
    uint16_t names[TR_NAMES_MAX];
    bool is_moving = (record->flags & TR_RECORD_MOVING) != 0;
    bool was_moving = (held->flags & TR_RECORD_MOVING) != 0;
    bool is_told = is_moving && tr_is_same_write(record, held);
    unsigned count = is_told ? held->from.count * !was_moving : tr_set_names(held, names);
    for (unsigned i = 0; i < count; i++) {
        uint16_t name = is_told ? held->from.members[i] : names[i];
        if (name == 0 || tr_set_is_named(record, name))
            continue;
        if (is_moving)
            tr_cover(replication->trial, RULE_INHERITED);
        tr_set_remember(record, name);
        if (is_moving && !is_told)
            tr_pending_send_drop(replication, name, record);
    }
}

/* The two stand for the same attempt at the same pop; only their replica sets may differ. */
static bool is_same_pop(const struct tr_head *a, const struct tr_head *b)
{
    TR_ASSERT(tr_key_equals(&a->key, &b->key));
    return tr_is_same_write(a, b) && a->order.sequence == b->order.sequence &&
           a->order.attempt == b->order.attempt &&
           ((a->flags | b->flags) & TR_RECORD_TOMBSTONE) == 0 &&
           ((a->flags ^ b->flags) & TR_RECORD_DEAD) == 0;
}

/* Stores a record unless this order or a higher one is held. `has_any`: other records of the id are
 * held, and those that this one ends go. STORED: done; HELD: this order was here already; STALE: a
 * higher one is; FULL: no memory. */
static enum tr_frame_result put(struct tr_replication *replication, struct tr_whole *whole,
                                tr_ref *ref, bool has_any)
{
    TR_ASSERT(tr_set_is_sound(&whole->head));
    const struct tr_store *store = replication->store;
    struct tr_head held;
    if (*ref != TR_ARENA_NONE) {
        tr_store_head(store, *ref, &held);
        int order = compare(replication, &held, &whole->head);
        if (order >= 0)
            return order == 0 ? TR_RESULT_HELD : TR_RESULT_STALE;
        inherit(replication, &whole->head, &held);
        TR_ASSERT(tr_order_compare(&whole->head.order, &held.order) >= 0); /* it never falls */
    }
    tr_ref before = *ref;
    if (!store->put(store->context, whole, ref)) {
        *ref = TR_ARENA_NONE;
        tr_cover(replication->trial, RULE_FULL);
        return TR_RESULT_FULL;
    }
    if (before != TR_ARENA_NONE && is_same_pop(&held, &whole->head))
        tr_store_carry_on(store, before, *ref, &whole->head);
    if (has_any)
        tr_store_end_others(store, &whole->head);
    if (whole->head.key.part > 0 && store->limit_others != NULL)
        store->limit_others(store->context, &whole->head); /* who split it off does so too */
    return TR_RESULT_STORED;
}

/* ---- what others send ---- */

/* Whether a client's write may be stored over another one; if not, why. */
static enum tr_frame_result judge(const struct tr_replication *replication, enum tr_write_mode mode,
                                  const struct tr_head *held, const struct tr_head *record)
{
    TR_ASSERT(tr_key_equals(&held->key, &record->key) && !tr_is_same_write(held, record));
    /* Of two requests with one key at once, the later stays, here as elsewhere. */
    if (mode == TR_WRITE_CREATE && (record->flags & TR_RECORD_KEYED) == 0)
        return TR_RESULT_EXISTS;
    bool is_later = held->order.version > record->order.version ||
                    (held->order.version == record->order.version &&
                     held->order.version_node > record->order.version_node);
    bool is_stale = is_later && !tr_breaks(replication->trial, MUTANT_STALE_IGNORED);
    return is_stale ? TR_RESULT_STALE : TR_RESULT_STORED;
}

/* An older state of what is held has come late. A node that it names, and the held one does not,
 * has missed what came after: it is remembered in `from`. */
static void remember_named(struct tr_replication *replication, tr_ref ref,
                           const struct tr_head *older)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_head held;
    bool is_busy = tr_store_state_of(replication->store, ref) == TR_STORE_BUSY;
    tr_store_head(replication->store, ref, &held);
    uint8_t count = held.from.count;
    inherit(replication, &held, older);
    if (held.from.count == count || !tr_replication_has_room(replication, &held))
        return;
    tr_cover(replication->trial, RULE_ADOPTED);
    tr_ref placed = tr_store_put_head(replication->store, ref, &held);
    if (placed == TR_ARENA_NONE)
        return;
    if (is_busy)
        tr_store_carry_on(replication->store, ref, placed, &held);
    tr_pending_replicate(replication, placed, REPLICATE_DURABLE);
}

/* The same write has come again, with nodes that are hinted for others, after what is held has
 * popped: these nodes are of its set, too, and are counted on, so they are sent what is held.
 * False: it has come late, and is no such write. */
static bool extend_set(struct tr_replication *replication, tr_ref *ref, const struct tr_head *again)
{
    TR_ASSERT(*ref != TR_ARENA_NONE);
    struct tr_head held;
    struct tr_head before;
    tr_store_head(replication->store, *ref, &before);
    held = before;
    bool is_over = ((held.flags | again->flags) & (TR_RECORD_TOMBSTONE | TR_RECORD_MOVING)) != 0;
    if (is_over || again->order.moves <= held.order.moves)
        return false;
    bool is_busy = tr_store_state_of(replication->store, *ref) == TR_STORE_BUSY;
    held.replicas = again->replicas;
    held.order.moves = again->order.moves;
    inherit(replication, &held, &before);
    inherit(replication, &held, again);
    if (!tr_replication_has_room(replication, &held))
        return false;
    tr_ref placed = tr_store_put_head(replication->store, *ref, &held);
    if (placed == TR_ARENA_NONE)
        return false;
    tr_cover(replication->trial, RULE_JOINED_BY_HINTED);
    if (is_busy)
        tr_store_carry_on(replication->store, *ref, placed, &held);
    *ref = placed;
    tr_pending_replicate(replication, placed, REPLICATE_DURABLE);
    return true;
}

/* Whether what is new here may be stored. A full disk takes what ends or changes a record, and
 * nothing that is new to it. */
static bool may_grow(const struct tr_replication *replication, const struct tr_head *record,
                     bool is_there)
{
    bool may =
        !replication->log->is_refused || is_there || (record->flags & TR_RECORD_TOMBSTONE) != 0;
    if (!may)
        tr_cover(replication->trial, RULE_FULL_OF_LIVE);
    return may;
}

enum tr_frame_result tr_replica_take(struct tr_replication *replication, enum tr_write_mode mode,
                                     bool has_room, struct tr_whole *whole, tr_ref *ref)
{
    TR_ASSERT(mode == TR_WRITE_CREATE || mode == TR_WRITE_REPLACE);
    const struct tr_store *store = replication->store;
    struct tr_head held;
    bool has_any = false;
    *ref = store->find(store->context, &whole->head.key, &has_any);
    bool is_there = *ref != TR_ARENA_NONE;
    if (is_there)
        tr_store_head(store, *ref, &held);
    const struct tr_order *dropped = is_there ? NULL : tr_dropped_find(replication, &whole->head);
    if (dropped != NULL) {
        tr_cover(replication->trial, RULE_LATE_WRITE);
        bool is_it = dropped->version == whole->head.order.version &&
                     dropped->version_node == whole->head.order.version_node;
        if (!is_it)
            return TR_RESULT_STALE;                        /* something higher was here */
        return has_room ? TR_RESULT_HELD : TR_RESULT_FULL; /* it has moved on */
    }
    bool is_same = is_there && tr_is_same_write(&held, &whole->head);
    enum tr_frame_result result =
        is_there && !is_same ? judge(replication, mode, &held, &whole->head) : TR_RESULT_STORED;
    if (result == TR_RESULT_STORED &&
        (!has_room || !may_grow(replication, &whole->head, is_there))) {
        tr_cover(replication->trial, RULE_FULL);
        return TR_RESULT_FULL;
    }
    if (result == TR_RESULT_STORED)
        result = put(replication, whole, ref, has_any);
    if (result == TR_RESULT_STALE && is_same) {
        if (!extend_set(replication, ref, &whole->head))
            remember_named(replication, *ref, &whole->head);
        return has_room ? TR_RESULT_HELD : TR_RESULT_FULL; /* it has moved on already */
    }
    return result;
}

void tr_replica_write(struct tr_replication *replication, uint16_t peer, uint64_t operation,
                      enum tr_write_mode mode, struct tr_whole *whole,
                      const struct tr_frame_names *names)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_head *head = &whole->head;
    tr_ref ref = TR_ARENA_NONE;
    enum tr_frame_result result = TR_RESULT_FULL;
    bool is_sound = localize(replication, whole, names);
    /* A node that stops takes no new record; but a write to what it holds it stores, and answers
     * FULL: so nobody counts on it, and nobody is shown the old one. */
    bool is_stopping = !replication->log->is_running;
    bool is_taken = (!is_stopping && !tr_peer_knows_more(replication->cluster, peer)) ||
                    tr_store_find(replication->store, &head->key) != TR_ARENA_NONE;
    bool has_room = is_sound && tr_replication_has_room_for(replication, whole) && is_taken;
    if (is_sound && mode == TR_WRITE_REPLACE)
        tr_hold_prepare(replication, peer, head);
    tr_clock_hear(replication->cluster, head->order.version);
    if (is_sound)
        result = tr_replica_take(replication, mode, has_room, whole, &ref);
    if (result == TR_RESULT_STORED && mode == TR_WRITE_REPLACE)
        tr_hold_open(replication, peer, head);
    if (result == TR_RESULT_STALE && tr_breaks(replication->trial, MUTANT_STALE_IGNORED))
        result = TR_RESULT_HELD;
    if (result == TR_RESULT_STORED && is_stopping) {
        tr_replication_wait(replication, head, ref, THEN_ANSWER, peer, 0);
        result = TR_RESULT_FULL;
    }
    if (result == TR_RESULT_STORED && tr_breaks(replication->trial, MUTANT_ACK_BEFORE_SYNC))
        tr_replication_answer(replication, peer, operation, head, TR_RESULT_STORED);
    if (is_sound && result == TR_RESULT_FULL)
        tr_catchup_pass_up(replication, peer, head);
    if (result == TR_RESULT_STORED || result == TR_RESULT_HELD)
        tr_replication_wait(replication, head, ref, THEN_REPLY, peer, operation);
    else
        tr_replication_answer(replication, peer, operation, head, result);
}

/* `peer` has sent `record`, which is higher than what is held here and does not name this node: the
 * copy here is dropped. The other nodes that the copy names are sent a drop, but not `peer`: it may
 * be the only one that has `record`. */
static void drop_stray(struct tr_replication *replication, uint16_t peer,
                       const struct tr_head *record, tr_ref ref, const struct tr_head *held)
{
    TR_ASSERT(tr_is_other(replication, peer));
    TR_ASSERT(tr_order_compare(&record->order, &held->order) >= 0);
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_set_names(held, names);
    if (tr_store_state_of(replication->store, ref) == TR_STORE_BUSY ||
        !tr_dropped_can_note(replication, &held->key)) {
        tr_hold_ahead(replication, peer, record); /* the copy is looked at again later */
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        bool is_meant = !tr_set_is_named(record, names[i]) || tr_pending_is_drop(record, names[i]);
        if (names[i] != 0 && names[i] != peer && is_meant)
            tr_pending_send_drop(replication, names[i], record);
    }
    tr_cover(replication->trial, RULE_STRAY_LEARNS);
    replication->stats.drops++;
    tr_dropped_remove(replication, ref);
}

/* Whether `peer`, from which the record moves, had dropped it already and has it again: a write
 * came late there, and it would pop beside the nodes that the record moves to. */
static bool has_come_back(const struct tr_replication *replication, uint16_t peer,
                          const struct tr_head *record, tr_ref ref)
{
    TR_ASSERT(tr_is_other(replication, peer));
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_head held;
    tr_store_head(replication->store, ref, &held);
    return (record->flags & TR_RECORD_MOVING) != 0 && tr_set_is_named(record, peer) &&
           !tr_set_is_named(&held, peer);
}

/* A copy of a record that does not name this node: what is held of it here goes if that is lower,
 * and is shown to the other node if it is higher. */
static void hear_stray(struct tr_replication *replication, uint16_t peer,
                       const struct tr_head *head, tr_ref ref)
{
    TR_ASSERT(!tr_set_is_named(head, 0));
    struct tr_head held;
    tr_store_end_others(replication->store, head);
    if (ref == TR_ARENA_NONE)
        return;
    tr_store_head(replication->store, ref, &held);
    int order = compare(replication, &held, head);
    if (order < 0)
        drop_stray(replication, peer, head, ref, &held);
    else if (order > 0)
        tr_pending_send_copy(replication, peer, head);
}

/* Whether a copy that is not held here comes too late to be stored: this order or a higher one was
 * dropped here lately, or the record moves and names this node in `from` alone. */
static bool is_too_late(struct tr_replication *replication, uint16_t peer,
                        const struct tr_head *head)
{
    TR_ASSERT(tr_set_is_named(head, 0));
    bool is_past = (head->flags & TR_RECORD_MOVING) != 0 && !tr_set_has(head, 0);
    const struct tr_order *dropped = tr_dropped_find(replication, head);
    if (!is_past && dropped == NULL)
        return false;
    tr_cover(replication->trial, RULE_MOVED);
    if (dropped == NULL) /* its write may be yet to come, and counts as stored, but others pop it */
        tr_hold_ahead(replication, peer, head);
    else if (tr_set_has(head, 0))
        tr_drop_pass_on(replication, peer, head, dropped);
    return true;
}

static void store_copy(struct tr_replication *replication, uint16_t peer, struct tr_whole *whole,
                       tr_ref ref, bool has_any)
{
    TR_ASSERT(tr_set_is_named(&whole->head, 0));
    const struct tr_head *head = &whole->head;
    enum tr_frame_result result = put(replication, whole, &ref, has_any);
    if (result == TR_RESULT_STALE) {
        tr_cover(replication->trial, RULE_HIGHER);
        tr_pending_send_copy(replication, peer, head);
    }
    if (result == TR_RESULT_FULL)
        tr_catchup_pass_up(replication, peer, head);
    if (result == TR_RESULT_HELD && has_come_back(replication, peer, head, ref)) {
        tr_cover(replication->trial, RULE_CAME_BACK);
        if (tr_store_state_of(replication->store, ref) != TR_STORE_UNSAFE)
            tr_pending_send_drop(replication, peer, head); /* else it is shown again */
        return;
    }
    if (result != TR_RESULT_STORED && result != TR_RESULT_HELD)
        return;
    if (has_any)
        tr_store_end_others(replication->store, head);
    tr_pending_mark(replication, ref, head, peer);
    tr_replication_wait(replication, head, ref, THEN_ACK, peer, 0);
}

void tr_replica_copy(struct tr_replication *replication, uint16_t peer, struct tr_whole *whole,
                     const struct tr_frame_names *names)
{
    TR_ASSERT(tr_is_other(replication, peer));
    const struct tr_store *store = replication->store;
    const struct tr_head *head = &whole->head;
    if (!localize(replication, whole, names))
        return;
    if (!tr_replication_has_room_for(replication, whole)) {
        tr_catchup_pass_up(replication, peer, head);
        return; /* it is offered again */
    }
    replication->stats.records_in++;
    tr_clock_hear(replication->cluster, head->order.version);
    if (tr_dropped_is_taken_back(replication, head)) {
        tr_pending_send_take_back(replication, peer, head); /* the other node has not heard of it */
        return;
    }
    if (store->is_ended != NULL && store->is_ended(store->context, head)) {
        tr_pending_send_copy(replication, peer, &(struct tr_head){.key.id = head->key.id});
        return;
    }
    bool has_any = false;
    tr_ref ref = store->find(store->context, &head->key, &has_any);
    /* A node that stops takes no new record: it may stop for good. But it takes a part that split
     * off from a record it holds: that record moves on without the part. */
    bool is_part = head->key.part != 0 && has_any;
    if (ref == TR_ARENA_NONE && !replication->log->is_running && !is_part)
        return;
    bool is_new = ref == TR_ARENA_NONE && tr_set_has(head, 0);
    if (is_new &&
        (tr_peer_knows_more(replication->cluster, peer) || !may_grow(replication, head, false)))
        return; /* it is offered again */
    if (!tr_set_is_named(head, 0))
        hear_stray(replication, peer, head, ref);
    else if (ref == TR_ARENA_NONE && is_too_late(replication, peer, head))
        tr_replication_wait(replication, head, TR_ARENA_NONE, THEN_DROPPED, peer, 0);
    else
        store_copy(replication, peer, whole, ref, has_any);
}

/* A record that has ended becomes a tombstone: nothing but its head. If it was moving, it has
 * arrived. Its old holders are sent drops by every node that holds the tombstone, since the node
 * that ended it may not reach them all. */
static tr_ref put_tombstone(struct tr_replication *replication, tr_ref ref,
                            const struct tr_head *held, struct tr_whole *whole)
{
    TR_ASSERT((whole->head.flags & TR_RECORD_TOMBSTONE) != 0);
    const struct tr_store *store = replication->store;
    store->strip(whole);
    if ((held->flags & ~whole->head.flags & TR_RECORD_MOVING) != 0)
        tr_set_end_move(&whole->head);
    if (!store->put(store->context, whole, &ref))
        return TR_ARENA_NONE; /* its numbers may be longer than those of what it ends */
    store->arm(store->context, ref);
    return ref;
}

/* The outcome of a pop has come before the record that it is about. The whole record is asked for;
 * should an older state of it come first, its pop is not made, since it was made elsewhere. */
static void await_record(struct tr_replication *replication, uint16_t peer,
                         const struct tr_head *outcome)
{
    TR_ASSERT(tr_is_other(replication, peer));
    tr_cover(replication->trial, RULE_OVERTAKEN);
    tr_hold_past(replication, peer, outcome);
    tr_replication_send(replication, peer,
                        (struct tr_message){
                            .kind = MESSAGE_DROPPED,
                            .of.is_wanted = true,
                            .key = outcome->key,
                            .order = outcome->order,
                        });
}

/* The record at `*ref` becomes what the outcome says. False: it says what cannot be, or there is no
 * memory for it. */
static bool apply_outcome(struct tr_replication *replication, const struct tr_head *outcome,
                          int64_t due_in_ms, struct tr_head *held, tr_ref *ref)
{
    TR_ASSERT(*ref != TR_ARENA_NONE && tr_is_same_write(held, outcome));
    TR_ASSERT(tr_order_compare(&held->order, &outcome->order) < 0);
    const struct tr_store *store = replication->store;
    struct tr_whole changed;
    store->whole(store->context, *ref, &changed);
    changed.head.order.sequence = outcome->order.sequence;
    changed.head.order.attempt = outcome->order.attempt;
    changed.head.order.moves = outcome->order.moves;
    changed.head.flags = outcome->flags;
    changed.head.instant_ms = outcome->instant_ms;
    changed.head.attempt = outcome->attempt;
    changed.head.lag_ms = outcome->lag_ms;
    set_due(replication, &changed.head, due_in_ms);
    if (changed.head.due_ms > TR_TIME_MAX || changed.head.lag_ms > changed.head.due_ms ||
        !is_sane(&changed.head) || !store->is_sound(store->context, &changed) ||
        !tr_store_may_store(store, &changed))
        return false;
    bool is_busy = tr_store_state_of(store, *ref) == TR_STORE_BUSY;
    tr_ref before = *ref;
    *ref = (changed.head.flags & TR_RECORD_TOMBSTONE) != 0
               ? put_tombstone(replication, before, held, &changed)
               : store->change(store->context, before, held, &changed.head);
    if (*ref == TR_ARENA_NONE)
        return false;
    if (is_busy && is_same_pop(held, &changed.head))
        tr_store_carry_on(store, before, *ref, &changed.head);
    *held = changed.head;
    return true;
}

void tr_replica_outcome(struct tr_replication *replication, uint16_t peer,
                        const struct tr_head *outcome, int64_t due_in_ms, uint32_t check)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_head held;
    tr_ref ref = tr_store_find(replication->store, &outcome->key);
    if (ref == TR_ARENA_NONE) {
        await_record(replication, peer, outcome);
        return;
    }
    tr_store_head(replication->store, ref, &held);
    int order = tr_order_compare(&held.order, &outcome->order);
    bool is_over = (held.flags & TR_RECORD_TOMBSTONE) != 0;
    bool begins_move = (outcome->flags & TR_RECORD_MOVING) > (held.flags & TR_RECORD_MOVING);
    if (!tr_replication_has_room(replication, &held)) {
        if (order < 0) {
            tr_hold_past(replication, peer, outcome);
            tr_catchup_miss(replication, peer);
        }
        return; /* the whole record follows */
    }
    if (!tr_is_same_write(&held, outcome) || check != tr_set_check(replication, &held) ||
        begins_move) {
        if (order < 0)
            await_record(replication, peer, outcome); /* its replica set is not known here */
        return;
    }
    if (order > 0 || (is_over && (outcome->flags & TR_RECORD_TOMBSTONE) == 0)) {
        tr_pending_send_copy(replication, peer, &held);
        return; /* what it lacks is more than times: the whole record follows if it is higher */
    }
    if (order < 0 && !apply_outcome(replication, outcome, due_in_ms, &held, &ref)) {
        tr_hold_past(replication, peer, outcome); /* what is held is not popped meanwhile */
        tr_catchup_miss(replication, peer);
        return;
    }
    tr_pending_mark(replication, ref, &held, peer);
    tr_replication_wait(replication, &held, TR_ARENA_NONE, THEN_ACK, peer, 0);
}
