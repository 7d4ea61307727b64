/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/drop.h"

#include "replication/catchup.h"
#include "replication/dropped.h"
#include "replication/hold.h"
#include "replication/pending.h"
#include "replication/rebalance.h"
#include "replication/set.h"

/* `peer` has sent a copy of a record, and a higher state of that record was dropped here, since its
 * replica set has it. The nodes of the set may be unable to reach `peer`, which would go on with
 * its older copy: so this node says what it dropped. Whether `peer` is itself of the set is not
 * known here, so it drops only what is lower. */
void tr_drop_pass_on(struct tr_replication *replication, uint16_t peer,
                     const struct tr_head *record, const struct tr_order *dropped)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_order order = record->order;
    if (tr_order_compare(dropped, &order) == 0)
        return;
    tr_replication_send(replication, peer,
                        (struct tr_message){
                            .kind = MESSAGE_DROPPED,
                            .key = record->key,
                            .order = *dropped,
                        });
}

/* The id of a write turned out to be taken elsewhere: the write is removed, and the other timer of
 * that id, which is older, lives. Nothing is answered: a node that hears that something was dropped
 * drops what is older. */
void tr_drop_take_back(struct tr_replication *replication, const struct tr_head *named)
{
    struct tr_head held;
    tr_ref ref = tr_store_find(replication->store, &named->key);
    tr_dropped_note_taken_back(replication, named);
    if (ref == TR_ARENA_NONE)
        return;
    tr_store_head(replication->store, ref, &held);
    TR_ASSERT(tr_key_equals(&held.key, &named->key));
    if (!tr_is_same_write(&held, named) ||
        tr_store_state_of(replication->store, ref) == TR_STORE_BUSY ||
        !tr_replication_has_room(replication, &held))
        return;
    replication->stats.drops++;
    replication->store->remove(replication->store->context, ref);
}

/* Whether what is held here stays, now or for good, though `peer` asks to drop it; if so, `peer` is
 * answered or the drop is asked for again. */
static bool is_kept(struct tr_replication *replication, uint16_t peer, const struct tr_head *named,
                    uint64_t operation, tr_ref ref, const struct tr_head *held)
{
    TR_ASSERT(ref != TR_ARENA_NONE && tr_key_equals(&held->key, &named->key));
    struct tr_order order = named->order;
    if (!tr_replication_has_room(replication, held)) {
        tr_catchup_pass_up(replication, peer, named);
        return true;
    }
    if (operation != 0 && tr_is_same_write(held, named)) {
        tr_replication_wait(replication, named, TR_ARENA_NONE, THEN_DROPPED, peer, operation);
        return true; /* it is the very write that replaces the older one */
    }
    if (tr_order_compare(&held->order, &order) > 0) {
        tr_cover(replication->trial, RULE_DROP_REFUSED);
        if (operation != 0)
            tr_replication_answer(replication, peer, operation, held, TR_RESULT_STALE);
        else
            tr_pending_send_copy(replication, peer, held);
        return true;
    }
    bool is_end = (held->flags & TR_RECORD_TOMBSTONE) != 0;
    if (operation == 0 && is_end && tr_order_compare(&held->order, &order) == 0) {
        /* The tombstone may be the only one that names the nodes that have yet to hear of it. */
        tr_replication_wait(replication, named, TR_ARENA_NONE, THEN_DROPPED, peer, 0);
        return true;
    }
    if (tr_store_state_of(replication->store, ref) == TR_STORE_BUSY &&
        tr_is_same_write(held, named)) {
        tr_cover(replication->trial, RULE_DROP_BUSY);
        return true; /* the drop is sent again */
    }
    if (operation == 0 && !tr_dropped_can_note(replication, &named->key)) {
        tr_hold_ahead(replication, peer, named); /* until the drop is sent again, others pop it */
        tr_catchup_miss(replication, peer);
        return true;
    }
    return false;
}

/* A record has hinted nodes, or moves from a set that had them, when some node could not be reached
 * as it was written: the node that moved it may still reach fewer of its holders than this one
 * does. So this node says to them that the record has moved on. Likewise if the copy here is of an
 * earlier write than the drop: this node may have brought that copy back to another node, which had
 * dropped the later write and has forgotten that it did. */
static void spread_drop(struct tr_replication *replication, uint16_t peer,
                        const struct tr_head *named, const struct tr_head *held)
{
    TR_ASSERT(tr_order_compare(&named->order, &held->order) >= 0);
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_set_names(held, names);
    unsigned copies = tr_set_copies(replication, held->factor);
    bool is_moving = (held->flags & TR_RECORD_MOVING) != 0;
    bool is_hinted = held->replicas.count > copies || (is_moving && held->from.count > copies);
    bool is_earlier = !tr_is_same_write(held, named);
    for (unsigned i = 0; (is_hinted || is_earlier) && i < count; i++) {
        if (names[i] == 0 || names[i] == peer)
            continue;
        tr_cover(replication->trial, is_hinted ? RULE_DROP_SPREAD : RULE_EARLIER_SPREAD);
        tr_drop_pass_on(replication, names[i], held, &named->order);
    }
}

/* A mutant: what is dropped becomes a tombstone, which ends it everywhere. */
static void bury(struct tr_replication *replication, tr_ref ref, const struct tr_head *named)
{
    TR_ASSERT(tr_breaks(replication->trial, MUTANT_DROP_IS_TOMBSTONE));
    const struct tr_store *store = replication->store;
    struct tr_whole whole;
    store->whole(store->context, ref, &whole);
    whole.head.order = named->order;
    whole.head.order.moves++;
    whole.head.flags = TR_RECORD_TOMBSTONE;
    whole.head.due_ms = replication->time->steady_ms + TR_TOMBSTONE_MS;
    whole.head.lag_ms = 0;
    tr_set_end_move(&whole.head);
    store->strip(&whole);
    store->put(store->context, &whole, &ref);
    store->arm(store->context, ref);
    tr_pending_replicate(replication, ref, REPLICATE_DURABLE);
}

void tr_drop_asked(struct tr_replication *replication, uint16_t peer, const struct tr_head *named,
                   uint64_t operation)
{
    TR_ASSERT(tr_is_other(replication, peer));
    const struct tr_store *store = replication->store;
    struct tr_head held = *named;
    bool has_any = false;
    tr_ref ref = store->find(store->context, &named->key, &has_any);
    if (ref != TR_ARENA_NONE) {
        tr_store_head(store, ref, &held);
        if (is_kept(replication, peer, named, operation, ref, &held))
            return;
    }
    if (has_any ? !tr_replication_has_room(replication, &held)
                : !tr_replication_can_wait(replication))
        return; /* nothing is dropped or answered now: the drop is sent again */
    if (ref == TR_ARENA_NONE)
        tr_cover(replication->trial, RULE_DROP_NOTHING);
    else if (tr_breaks(replication->trial, MUTANT_DROP_IS_TOMBSTONE))
        bury(replication, ref, named);
    else {
        if (operation == 0)
            spread_drop(replication, peer, named, &held);
        tr_dropped_remove(replication, ref);
    }
    replication->stats.drops += ref != TR_ARENA_NONE;
    if (named->key.part == 0) {
        struct tr_head ended = *named;
        ended.flags = 0;
        if (operation != 0)
            tr_store_end_others(replication->store, &ended);
    }
    tr_dropped_note(replication, named); /* and whatever is below that order */
    tr_replication_wait(replication, named, TR_ARENA_NONE, THEN_DROPPED, peer, operation);
}

/* This node sent its copy to `peer`, which says that it has dropped a higher state of the record.
 * If that was another version or a later pop, the copy here is dropped, too. If the record had only
 * moved, the nodes it moved to pop it; but they may be gone for good, and this may be the only
 * copy: it stays, is held back for a while, and is sent to `peer` again until that takes it. */
static void give_way(struct tr_replication *replication, uint16_t peer, const struct tr_head *named)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_head held;
    tr_ref ref = tr_store_find(replication->store, &named->key);
    if (ref == TR_ARENA_NONE)
        return;
    tr_store_head(replication->store, ref, &held);
    struct tr_order order = named->order;
    if (tr_store_state_of(replication->store, ref) == TR_STORE_BUSY ||
        tr_order_compare(&held.order, &order) >= 0)
        return;
    if (tr_is_same_write(&held, named) && named->order.sequence == held.order.sequence) {
        tr_hold_moved(replication, peer, named);
        tr_rebalance_look(replication, ref, &held, false); /* it is sent to `peer` from now on */
        return;
    }
    if (!tr_replication_has_room(replication, &held) ||
        !tr_dropped_can_note(replication, &named->key)) {
        tr_hold_ahead(replication, peer, named);
        tr_catchup_miss(replication, peer);
        return;
    }
    tr_cover(replication->trial, RULE_DROP_PASSED);
    replication->stats.drops++;
    tr_dropped_remove(replication, ref);
}

void tr_drop_heard(struct tr_replication *replication, uint16_t peer, const struct tr_head *named,
                   bool is_asked, bool is_wanted)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_head held;
    tr_ref ref = tr_store_find_exactly(replication->store, named, &held);
    if (ref == TR_ARENA_NONE && !is_asked && !is_wanted)
        give_way(replication, peer, named);
    if (ref == TR_ARENA_NONE)
        return;
    if (is_wanted) {
        tr_pending_send_copy(replication, peer, &held);
        return;
    }
    if (tr_set_has(&held, peer)) {
        if ((held.flags & TR_RECORD_TOMBSTONE) != 0)
            tr_pending_mark(replication, ref, &held, peer); /* it was there, and is forgotten */
        return;
    }
    bool is_moving = (held.flags & TR_RECORD_MOVING) != 0;
    replication->store->forget_member(replication->store->context, ref, peer);
    if (is_moving) {
        tr_store_head(replication->store, ref, &held);
        tr_rebalance_look(replication, ref, &held, false);
    } else
        tr_cover(replication->trial, RULE_ABSENT_DROPS);
}
