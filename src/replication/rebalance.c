/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/rebalance.h"

#include "cluster/peer.h"
#include "cluster/view.h"
#include "replication/dropped.h"
#include "replication/hold.h"
#include "replication/pending.h"
#include "replication/set.h"
#include "replication/walk.h"

#define WALK_SLICE  512 /* records looked at in a step, */
#define BUSY_SLICE  64  /* and of them those that need something, */
#define QUIET_SLICE 320 /* or, when nobody waits, so many */
#define PRUNE_MS    10
#define OFFERS_MAX  32
#define JOIN_MS     10000
#define AGAIN_MS    1000
#define LOOK_MS     500
#define QUIET_MS    500
#define STARTED_MS  1000 /* others have heard by then, and two trips, that this node started */
#define PATIENCE_MS 3000 /* nodes hear of a new view one after the other */

_Static_assert(BUSY_SLICE <= QUIET_SLICE && QUIET_SLICE <= WALK_SLICE,
               "a step changes no more records than it looks at");
_Static_assert(WALK_SLICE > TR_PARTS_MAX + 1, "all parts of a timer are of one slice");

/* Whether all nodes that are up have the view of this one. A node that is not in the view is left
 * out: it has left, and may not know it yet. But if this node's own view names nobody else, such a
 * node counts: then it is this node that has yet to hear of the view; unless that one is of no
 * cluster, or of another, and waits to be taken in: for that this one may have to be done first. */
static bool views_agree(const struct tr_replication *replication)
{
    TR_ASSERT(replication->cluster->view.count > 0);
    bool knows_others = replication->cluster->members[0].role == TR_ROLE_NONE ||
                        tr_view_has_others(replication->cluster);
    for (uint32_t i = 1; i < replication->cluster->member_count; i++) {
        const struct tr_peer *peer = &replication->cluster->peers[i];
        bool is_asked = replication->cluster->members[i].role != TR_ROLE_NONE ||
                        (!knows_others && !peer->is_apart);
        if (peer->is_up && is_asked && peer->view != replication->cluster->view.id)
            return false;
    }
    return true;
}

/* Also while a node stops or starts: others are hinted for it. That holds for this node, too, which
 * may be the last to know, and for a while after it has started: others have yet to hear of that,
 * and it has yet to hear what they hold for it. */
bool tr_rebalance_may_be_elsewhere(const struct tr_replication *replication)
{
    uint64_t new_ms = STARTED_MS + 2 * tr_peers_trip(replication->cluster);
    bool is_new = replication->time->now_ms < replication->caught_up_ms + new_ms;
    bool is_wide = replication->rebalance.is_rebalancing || !replication->log->is_running || is_new;
    for (uint32_t i = 0; i < replication->cluster->member_count && !is_wide; i++) {
        const struct tr_peer *peer = &replication->cluster->peers[i];
        is_wide = replication->cluster->members[i].role > TR_ROLE_STAYING ||
                  (i > 0 && peer->is_up &&
                   (peer->view != replication->cluster->view.id ||
                    (peer->flags & TR_BEAT_REBALANCING) != 0 ||
                    !tr_peer_is_serving(replication->cluster, (uint16_t)i)));
    }
    return is_wide && !tr_breaks(replication->trial, MUTANT_NARROW);
}

bool tr_rebalance_is_view_new(const struct tr_replication *replication)
{
    TR_ASSERT(replication->rebalance.changed_ms <= replication->time->now_ms);
    return replication->time->now_ms < replication->rebalance.changed_ms + JOIN_MS;
}

/* The other nodes hear of it at once, by a heartbeat: while records are not in place, every node is
 * asked to drop what a write replaces, and for what is read. */
static void set_rebalancing(struct tr_replication *replication, bool is_rebalancing)
{
    if (replication->rebalance.is_rebalancing == is_rebalancing)
        return;
    replication->rebalance.is_rebalancing = is_rebalancing;
    tr_peers_beat_now(replication->cluster);
}

void tr_rebalance_again(struct tr_replication *replication)
{
    replication->rebalance.is_walking = true;
    replication->rebalance.found = 0;
    replication->rebalance.is_missed = false;
    replication->rebalance.offers = 0;
    replication->rebalance.cursor = 0;
}

/* The mover may have dropped the record for a higher state that this node has not heard of. So the
 * copy is sent to the mover in one walk and to the nodes where the view places it in the next. A
 * walk sends few: most such copies are about to be dropped anyway. */
static void offer(struct tr_replication *replication, uint16_t mover, const struct tr_head *record,
                  bool may_send)
{
    TR_ASSERT(tr_is_other(replication, mover));
    if (!may_send || replication->rebalance.offers >= OFFERS_MAX)
        return;
    uint16_t placed[TR_SET_MAX];
    unsigned count = tr_view_place(replication->cluster, record->key.id,
                                   tr_set_copies(replication, record->factor), placed);
    replication->rebalance.offers++;
    tr_cover(replication->trial, RULE_OFFERED);
    if (replication->rebalance.walks % 2 == 0)
        tr_pending_send_copy(replication, mover, record);
    for (unsigned i = 0; replication->rebalance.walks % 2 == 1 && i < count; i++) {
        if (placed[i] != 0)
            tr_pending_send_copy(replication, placed[i], record);
    }
}

/* The node `ahead` has said that the record has moved on from the state held here, though by this
 * node's view it is where it belongs: the node that moved it cannot be reached from here. What
 * `ahead` said holds the pop back for a while, so the copy is sent to it again. */
static void show_again(struct tr_replication *replication, uint16_t ahead,
                       const struct tr_head *record, bool may_send)
{
    TR_ASSERT(tr_is_other(replication, ahead));
    if (!may_send || replication->rebalance.offers >= OFFERS_MAX)
        return;
    replication->rebalance.offers++;
    tr_cover(replication->trial, RULE_SHOWN_AGAIN);
    tr_pending_send_copy(replication, ahead, record);
}

static void follow(struct tr_replication *replication, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_fifo_entry entry = {ref, 0};
    if (!tr_fifo_push(&replication->rebalance.moves, replication->arena, entry))
        replication->rebalance.found++; /* the next walk meets it */
}

static bool may_change(const struct tr_replication *replication, tr_ref ref,
                       const struct tr_head *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    TR_ASSERT(tr_set_is_bounded(record));
    const struct tr_store *store = replication->store;
    bool may = tr_store_state_of(store, ref) == TR_STORE_IDLE &&
               (store->may_move == NULL || store->may_move(store->context, ref, record));
    return may && tr_replication_has_room(replication, record);
}

/* A node that has just joined is waited for: if another one were hinted for it, the record would
 * move twice. So are the nodes that a record names if the view names nobody else: this node may
 * have yet to hear of them. */
static bool is_too_soon(const struct tr_replication *replication, const struct tr_head *record)
{
    TR_ASSERT(record->factor > 0);
    uint16_t placed[TR_SET_MAX];
    unsigned count = tr_view_place(replication->cluster, record->key.id,
                                   tr_set_copies(replication, record->factor), placed);
    bool are_up = true;
    for (unsigned i = 0; i < count; i++)
        are_up &= tr_peer_is_up(replication->cluster, placed[i]);
    bool is_alone = !tr_view_has_others(replication->cluster) && tr_set_others(record) > 0;
    return (!are_up || is_alone) && tr_rebalance_is_view_new(replication);
}

/* The record gets its new replica set; the nodes of the old one become its `from`. */
static void begin(struct tr_replication *replication, tr_ref ref, struct tr_head *record)
{
    TR_ASSERT((record->flags & TR_RECORD_TOMBSTONE) == 0);
    struct tr_head old = *record;
    if (!may_change(replication, ref, record) || is_too_soon(replication, record))
        return;
    tr_cover(replication->trial,
             (old.flags & TR_RECORD_MOVING) != 0 ? RULE_MOVE_AGAIN : RULE_MOVE_BEGUN);
    bool was_moving = (old.flags & TR_RECORD_MOVING) != 0;
    record->from.count = 0;
    record->from.gone = 0;
    for (unsigned i = 0; was_moving && i < old.from.count; i++)
        tr_set_remember(record, old.from.members[i]);
    for (unsigned i = 0; i < old.replicas.count; i++)
        tr_set_remember(record, old.replicas.members[i]);
    for (unsigned i = 0; !was_moving && i < old.from.count; i++)
        tr_set_remember(record, old.from.members[i]);
    tr_set_remember(record, 0);
    record->replicas.count = (uint8_t)tr_set_want(replication, record->key.id, record->factor, NULL,
                                                  0, false, record->replicas.members);
    record->flags |= TR_RECORD_MOVING;
    record->order.moves = tr_next_move(record->order.moves, replication->cluster->stamp_node);
    TR_ASSERT(tr_set_is_sound(record) && record->from.count > 0);
    TR_ASSERT(tr_order_compare(&record->order, &old.order) > 0);
    tr_ref placed = tr_store_put_head(replication->store, ref, record);
    if (placed == TR_ARENA_NONE)
        return;
    tr_pending_replicate(replication, placed, REPLICATE_WHOLE); /* it is armed when it is durable */
    follow(replication, placed);
}

/* Enough of the new set have the record, and every node of `from` that is up has dropped it: it is
 * where it belongs. Nodes that are down stay in `from`. */
static void finish(struct tr_replication *replication, tr_ref ref, struct tr_head *record)
{
    TR_ASSERT((record->flags & TR_RECORD_MOVING) != 0);
    struct tr_head old = *record;
    if (tr_store_state_of(replication->store, ref) != TR_STORE_IDLE ||
        !tr_replication_has_room(replication, record))
        return;
    record->flags &= (uint8_t)~TR_RECORD_MOVING;
    record->order.moves = tr_next_move(record->order.moves, replication->cluster->stamp_node);
    record->from.count = 0;
    record->from.gone = 0;
    for (unsigned i = 0; i < old.from.count; i++) {
        if (old.from.members[i] != 0 && !tr_set_has(record, old.from.members[i]))
            tr_set_remember(record, old.from.members[i]);
    }
    TR_ASSERT(tr_order_compare(&record->order, &old.order) > 0);
    tr_cover(replication->trial, RULE_MOVE_ENDED);
    replication->stats.moved++;

    bool has_absent = record->from.count > 0;
    if (has_absent) {
        tr_cover(replication->trial, RULE_ABSENT);
        ref = tr_store_put_head(replication->store, ref, record);
        if (ref == TR_ARENA_NONE)
            return;
    } else {
        ref = replication->store->change(replication->store->context, ref, &old, record);
    }
    tr_pending_replicate(replication, ref, has_absent ? REPLICATE_WHOLE : REPLICATE_DURABLE);
    if (!tr_set_has(record, 0))
        follow(replication, ref);
}

/* Sends drops to the old holders that are up. True: one of them has yet to drop the record. */
static bool send_drops(struct tr_replication *replication, const struct tr_head *record,
                       bool may_send)
{
    TR_ASSERT((record->flags & TR_RECORD_MOVING) != 0);
    bool is_waiting = false;
    for (unsigned i = 0; i < record->from.count; i++) {
        uint16_t member = record->from.members[i];
        if (member == 0 || tr_set_has(record, member) ||
            !tr_peer_is_up(replication->cluster, member))
            continue;
        is_waiting = true;
        if (!may_send)
            continue;
        tr_cover(replication->trial, RULE_DROP_SENT);
        tr_pending_send_drop(replication, member, record);
    }
    return is_waiting;
}

/* Whether all nodes of the new set that are up pop: one that is only starting does not. */
static bool can_take_over(const struct tr_replication *replication, const struct tr_head *record)
{
    TR_ASSERT(record->replicas.count > 0);
    for (unsigned i = 0; i < record->replicas.count; i++) {
        const struct tr_peer *peer = &replication->cluster->peers[record->replicas.members[i]];
        if (record->replicas.members[i] != 0 && peer->is_up && (peer->flags & TR_BEAT_POPPING) == 0)
            return false;
    }
    return true;
}

static void advance(struct tr_replication *replication, tr_ref ref, struct tr_head *record,
                    bool may_send)
{
    TR_ASSERT((record->flags & TR_RECORD_MOVING) != 0);
    TR_ASSERT(tr_set_is_bounded(record));
    if (!tr_set_has_enough(replication, ref, record)) {
        uint16_t wanted[TR_SET_MAX];
        unsigned count =
            tr_set_want(replication, record->key.id, record->factor, NULL, 0, false, wanted);
        bool is_same = count == record->replicas.count &&
                       memcmp(wanted, record->replicas.members, count * sizeof wanted[0]) == 0;
        if (!is_same)
            begin(replication, ref, record); /* one of the new set is down: another is hinted */
        return;                              /* else the record is pending for them, and comes */
    }
    if (!send_drops(replication, record, may_send) && can_take_over(replication, record))
        finish(replication, ref, record);
}

/* The replica set does not name this node: its copy is dropped when the set has the record. */
static void drop_own(struct tr_replication *replication, tr_ref ref, const struct tr_head *record,
                     uint16_t mover, bool may_send)
{
    TR_ASSERT(!tr_set_has(record, 0));
    enum tr_store_state state = tr_store_state_of(replication->store, ref);
    if (!tr_set_has_enough(replication, ref, record) &&
        !tr_set_is_known(replication, ref, record)) {
        if (mover !=
            0) /* it is pending for them; but they may have moved it on, or be gone for good */
            offer(replication, mover, record, may_send);
        return;
    }
    if ((state != TR_STORE_IDLE && state != TR_STORE_UNSAFE) ||
        !tr_replication_has_room(replication, record) ||
        !tr_dropped_can_note(replication, &record->key))
        return;
    tr_cover(replication->trial, RULE_LEFT);
    replication->stats.drops++;
    tr_dropped_remove(replication, ref);
}

/* A tombstone does not move. But by a new view its timer would be on other nodes, and those may
 * hold the timer already, from a node that saw the view earlier: they are remembered in `from`, and
 * sent drops. */
static void remember_placed(struct tr_replication *replication, tr_ref ref, struct tr_head *record)
{
    TR_ASSERT((record->flags & TR_RECORD_TOMBSTONE) != 0);
    uint16_t placed[TR_SET_MAX];
    enum tr_store_state state = tr_store_state_of(replication->store, ref);
    if (replication->rebalance.view == replication->cluster->view.id || state != TR_STORE_IDLE ||
        !views_agree(replication))
        return;
    unsigned count = tr_view_place(replication->cluster, record->key.id,
                                   tr_set_copies(replication, record->factor), placed);
    bool is_changed = false;
    for (unsigned i = 0; i < count; i++) {
        if (placed[i] == 0 || tr_set_is_named(record, placed[i]))
            continue;
        tr_set_remember(record, placed[i]);
        is_changed = true;
    }
    if (!is_changed || !tr_replication_has_room(replication, record))
        return;
    tr_cover(replication->trial, RULE_ADDRESSED);
    ref = tr_store_put_head(replication->store, ref, record);
    if (ref != TR_ARENA_NONE)
        tr_pending_replicate(replication, ref, REPLICATE_DURABLE);
}

/* True: it is not where it belongs. */
static bool look_at(struct tr_replication *replication, tr_ref ref, struct tr_head *record,
                    bool may_send)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    TR_ASSERT(replication->cluster->view.count > 0);
    if ((record->flags & TR_RECORD_TOMBSTONE) != 0) {
        remember_placed(replication, ref, record);
        return false;
    }
    bool is_moving = (record->flags & TR_RECORD_MOVING) != 0;
    bool is_well = tr_set_is_placed(replication, record);
    bool is_balanced = !is_moving && is_well && tr_set_has(record, 0);
    uint16_t ahead = tr_hold_who_is_ahead(replication, record);
    if (is_balanced && (ahead == TR_MEMBER_NONE || ahead == 0))
        return false;
    if (!tr_replication_is_popping(replication) ||
        tr_store_state_of(replication->store, ref) == TR_STORE_UNSAFE)
        return true;
    if (is_balanced) {
        show_again(replication, ahead, record, may_send);
        return true;
    }
    if (!views_agree(replication)) {
        tr_cover(replication->trial, RULE_VIEWS_DIFFER);
        return true;
    }
    uint16_t mover = tr_set_mover(replication, record);
    if (!is_moving && !tr_set_has(record, 0) && (is_well || mover != 0))
        drop_own(replication, ref, record, mover, may_send);
    else if (!replication->log->is_running)
        return true; /* a node that stops drops records, and begins and ends no move */
    else if (mover != 0)
        offer(replication, mover, record, may_send);
    else if (is_well)
        advance(replication, ref, record, may_send);
    else
        begin(replication, ref, record);
    return true;
}

static bool look(struct tr_replication *replication, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_head record;
    tr_store_head(replication->store, ref, &record);
    return look_at(replication, ref, &record, true);
}

void tr_rebalance_look(struct tr_replication *replication, tr_ref ref, struct tr_head *record,
                       bool may_send)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    if (!look_at(replication, ref, record, may_send))
        return;
    set_rebalancing(replication, true);
    replication->rebalance.is_missed = true;
    if (!replication->rebalance.is_walking &&
        replication->rebalance.again_ms > replication->time->now_ms + AGAIN_MS)
        replication->rebalance.again_ms = replication->time->now_ms + AGAIN_MS;
}

/* ---- the walk ---- */

/* A mutant of the walk: the next record by due time. What pops meanwhile is passed over. */
static bool next_by_due(const struct tr_replication *replication, uint64_t *cursor, tr_ref *next)
{
    TR_ASSERT(tr_breaks(replication->trial, MUTANT_PAGE_BY_DUE));
    struct tr_index_walk walk = tr_index_seek(replication->store->index, 0);
    uint64_t best = UINT64_MAX;
    tr_ref ref = TR_ARENA_NONE;
    while (tr_index_next(&walk, &ref)) {
        struct tr_head record;
        tr_store_head(replication->store, ref, &record);
        uint64_t due_ms = record.due_ms;
        if (due_ms > *cursor && due_ms < best) {
            best = due_ms;
            *next = ref;
        }
    }
    *cursor = best;
    return best != UINT64_MAX;
}

static bool next_record(const struct tr_replication *replication, struct tr_index_walk *walk,
                        uint64_t *cursor, tr_ref *ref)
{
    if (tr_breaks(replication->trial, MUTANT_PAGE_BY_DUE))
        return next_by_due(replication, cursor, ref);
    if (!tr_index_next(walk, ref))
        return false;
    *cursor = tr_store_hash(replication->store, *ref);
    return true;
}

/* The operator asked for this walk, and hears how it went: that it is done, or, once, what it waits
 * for. */
static void report(struct tr_replication *replication, bool is_left, struct tr_effects *out)
{
    struct tr_rebalance *rebalance = &replication->rebalance;
    bool is_complete = !is_left && !rebalance->is_behind;
    for (uint32_t i = 1; rebalance->is_asked && i < replication->cluster->member_count; i++) {
        const struct tr_peer *peer = &replication->cluster->peers[i];
        const struct tr_progress *progress = &replication->progress[i];
        bool is_meant = replication->cluster->members[i].role != TR_ROLE_NONE;
        bool is_missing = is_meant && (!peer->is_up || peer->view != replication->cluster->view.id);
        is_complete &= !is_missing && !(peer->is_up && progress->walk != WALK_NOT);
        if (!is_missing || rebalance->is_reported ||
            replication->time->now_ms < rebalance->asked_ms + PATIENCE_MS)
            continue;
        tr_note(out, peer->is_up ? TR_NOTE_REBALANCE_VIEW : TR_NOTE_REBALANCE_DOWN, 0, i);
        rebalance->is_reported = true;
    }
    if (!rebalance->is_asked || !is_complete)
        return;
    tr_note(out, TR_NOTE_REBALANCED, 0, replication->store->count(replication->store->context));
    rebalance->is_asked = false;
}

static void end_walk(struct tr_replication *replication, struct tr_effects *out)
{
    TR_ASSERT(replication->rebalance.is_walking);
    struct tr_rebalance *rebalance = &replication->rebalance;
    TR_ASSERT(rebalance->moves.count <= replication->config.moves || rebalance->found > 0);
    rebalance->is_walking = false;
    rebalance->cursor = 0;
    rebalance->walks++;
    if (views_agree(replication))
        rebalance->view = replication->cluster->view.id;
    bool is_left = rebalance->found > 0 || rebalance->is_missed || rebalance->moves.count > 0;
    rebalance->to_rebalance = rebalance->found;
    report(replication, is_left, out);
    bool is_again = is_left || (rebalance->is_asked && !rebalance->is_reported);
    rebalance->again_ms = is_again ? replication->time->now_ms + AGAIN_MS : TR_NEVER;
    if (tr_breaks(replication->trial, MUTANT_PAGE_BY_DUE))
        rebalance->again_ms = TR_NEVER;
    set_rebalancing(replication, is_left);
}

/* For a while there was nobody who would have waited for a step to end. */
static bool is_quiet(const struct tr_replication *replication)
{
    TR_ASSERT(replication->busy_ms <= replication->time->now_ms);
    return replication->time->now_ms > replication->busy_ms + QUIET_MS;
}

/* The refs of a slice are gathered first: to look at one may change the book. */
static void walk_slice(struct tr_replication *replication, struct tr_effects *out)
{
    TR_ASSERT(replication->rebalance.is_walking);
    struct tr_rebalance *rebalance = &replication->rebalance;
    tr_ref refs[WALK_SLICE];
    unsigned count = 0;
    uint64_t cursor = rebalance->cursor;
    struct tr_index_walk walk = tr_index_seek(replication->store->index, cursor + (cursor > 0));
    tr_ref ref = TR_ARENA_NONE;
    bool is_over = false;
    uint64_t last = cursor;
    while (!is_over) {
        is_over = !next_record(replication, &walk, &cursor, &ref);
        /* All parts of a timer, which share its hash, are of one slice. */
        if (is_over || (cursor != last && count + TR_PARTS_MAX + 1 >= WALK_SLICE) ||
            count == WALK_SLICE)
            break;
        last = cursor;
        refs[count++] = ref;
    }
    TR_ASSERT(count <= WALK_SLICE && last >= rebalance->cursor);
    rebalance->cursor = last;
    unsigned busy = 0;
    unsigned most =
        tr_replication_slice(replication, is_quiet(replication) ? QUIET_SLICE : BUSY_SLICE);
    for (unsigned i = 0; i < count; i++) {
        if (!tr_arena_holds(replication->arena, refs[i]))
            continue;
        uint64_t hash = tr_store_hash(replication->store, refs[i]);
        if (busy >= most && hash != rebalance->cursor) {
            is_over = false;
            break;
        }
        rebalance->cursor = hash;
        busy += look(replication, refs[i]);
    }
    rebalance->found += busy;
    if (is_over)
        end_walk(replication, out);
}

static bool is_under_way(const struct tr_replication *replication, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_head record;
    if (!tr_arena_holds(replication->arena, ref))
        return false;
    tr_store_head(replication->store, ref, &record);
    return (record.flags & TR_RECORD_TOMBSTONE) == 0 &&
           ((record.flags & TR_RECORD_MOVING) != 0 || !tr_set_has(&record, 0));
}

/* Moves under way: acknowledgements take them on. Those that do not come are looked at now and
 * then; and while the walk waits, those that are over make room for more. */
static void run_moves(struct tr_replication *replication)
{
    TR_ASSERT(replication->rebalance.moves.count > 0);
    struct tr_rebalance *rebalance = &replication->rebalance;
    bool is_due = replication->time->now_ms >= rebalance->look_ms;
    bool is_full = rebalance->is_walking && rebalance->moves.count >= replication->config.moves;
    if (!is_due && !(is_full && replication->time->now_ms >= rebalance->prune_ms))
        return;
    rebalance->prune_ms = replication->time->now_ms + PRUNE_MS;
    if (is_due)
        rebalance->look_ms = replication->time->now_ms + LOOK_MS;
    for (uint32_t count = rebalance->moves.count; count > 0; count--) {
        struct tr_fifo_entry entry = tr_fifo_pop(&rebalance->moves, replication->arena);
        if (is_due && tr_arena_holds(replication->arena, entry.ref))
            rebalance->is_missed |= look(replication, entry.ref);
        if (is_under_way(replication, entry.ref) &&
            rebalance->moves.count < replication->config.moves)
            tr_fifo_push(&rebalance->moves, replication->arena, entry);
    }
}

void tr_rebalance_asked(struct tr_replication *replication)
{
    replication->rebalance.is_asked = true;
    replication->rebalance.is_reported = false;
    replication->rebalance.asked_ms = replication->time->now_ms;
    for (uint32_t i = 1; i < replication->cluster->member_count; i++)
        tr_walk_on(&replication->progress[i]);
    tr_rebalance_again(replication);
}

void tr_rebalance_run(struct tr_replication *replication, struct tr_effects *out)
{
    struct tr_rebalance *rebalance = &replication->rebalance;
    if (!tr_replication_is_popping(replication))
        return;
    if (rebalance->moves.count > 0)
        run_moves(replication);
    if (!rebalance->is_walking && replication->time->now_ms >= rebalance->again_ms)
        tr_rebalance_again(replication);
    if (rebalance->is_walking && rebalance->moves.count < replication->config.moves)
        walk_slice(replication, out);
}

tr_mono_ms tr_rebalance_wake_at(const struct tr_replication *replication)
{
    const struct tr_rebalance *rebalance = &replication->rebalance;
    if (!tr_replication_is_popping(replication) || !replication->log->is_running)
        return TR_NEVER;
    if (rebalance->is_walking && rebalance->moves.count < replication->config.moves)
        return replication->time->now_ms;
    tr_mono_ms wake = rebalance->moves.count > 0 ? rebalance->look_ms : TR_NEVER;
    if (rebalance->is_walking && rebalance->prune_ms < wake)
        wake = rebalance->prune_ms;
    return !rebalance->is_walking && rebalance->again_ms < wake ? rebalance->again_ms : wake;
}
