/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settling: bringing each record to the nodes where the view places it, and then letting it go
 * everywhere else. Restart, return, repair and scaling are all this.
 *
 * One node moves a record, the first of those that hold it which is up and popping: the same that
 * pops it. So a level never has two owners, and a record that moves is popped by who popped it
 * before, until all of the new list have it and all others have let go.
 *
 *   settled
 *     the view places it elsewhere, or a stand-in is no longer needed:
 *   moving     a new list, `from` the old one; told to both; copies owed to the new list
 *     enough of the new list have it:
 *   dropping   those of the old list that are not on the new one are told to let go
 *     all of them have, or are down:
 *   settled    told to the new list, which pops from now on; who is down stays in `from`, and is
 *              told when it comes back
 *
 * None of this is kept beside the record: whoever takes over goes on from what the record says. A
 * change on the way, an outcome or a new version, has a higher order, and is waited for anew.
 *
 * The book is walked by the hash of ids from a cursor, which no insert, pop or change moves a
 * record across. A walk ends; it comes again when something was found, or when who is up or the
 * view changes. While nodes that are up show other views nothing is moved, since two nodes that
 * disagree would move it to and fro.
 */
#include "node/internal.h"

#define WALK_SLICE  512 /* records looked at in a step, */
#define BUSY_SLICE  64  /* and of them those that need something, */
#define QUIET_SLICE 320 /* or, when nobody waits, so many */
#define PRUNE_MS    10
#define OFFERS_MAX  32
#define JOIN_MS     10000
#define AGAIN_MS    1000
#define LOOK_MS     500
#define QUIET_MS    500
#define PATIENCE_MS 3000 /* nodes hear of a new view one after the other */
#define NEAR_MS     1000 /* a timer that is due sooner pops first */

/* One that has left, and does not know it, is not asked; unless this one knows of nobody else: then
 * it is this one that has not heard. */
static bool views_agree(const struct tr_node *node)
{
    bool knows_others =
        node->cluster.members[0].role == TR_ROLE_NONE || tr_view_has_others(&node->cluster);
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        const struct tr_peer *peer = &node->cluster.peers[i];
        bool is_asked = node->cluster.members[i].role != TR_ROLE_NONE || !knows_others;
        if (peer->is_up && is_asked && peer->view != node->cluster.view.id)
            return false;
    }
    return true;
}

/* Others stand in for one that stops or starts, this one too, and it may be the last to know. */
bool tr_is_wide(const struct tr_node *node)
{
    bool is_wide = node->settling.is_unsettled || node->phase == PHASE_DRAINING;
    for (uint32_t i = 0; i < node->cluster.member_count && !is_wide; i++) {
        const struct tr_peer *peer = &node->cluster.peers[i];
        is_wide = node->cluster.members[i].role > TR_ROLE_STAYING ||
                  (i > 0 && peer->is_up &&
                   (peer->view != node->cluster.view.id || (peer->flags & TR_BEAT_UNSETTLED) != 0 ||
                    !tr_peer_is_serving(&node->cluster, (uint16_t)i)));
    }
    return is_wide && !tr_breaks(&node->trial, MUTANT_NARROW);
}

bool tr_view_is_new(const struct tr_node *node)
{
    return node->time.now_ms < node->settling.changed_ms + JOIN_MS;
}

/* The others hear of it at once: a write that is acknowledged must reach what is not in place. */
static void set_unsettled(struct tr_node *node, bool is_unsettled)
{
    if (node->settling.is_unsettled == is_unsettled)
        return;
    node->settling.is_unsettled = is_unsettled;
    tr_peers_beat_now(&node->cluster);
}

void tr_settle_again(struct tr_node *node)
{
    node->settling.is_walking = true;
    node->settling.found = 0;
    node->settling.is_missed = false;
    node->settling.offers = 0;
    node->settling.cursor = 0;
}

/* Who moves it: the first that is up and pops, this node if there is none. */
uint16_t tr_find_mover(const struct tr_node *node, const struct tr_head *record)
{
    uint16_t turns[TR_NAMES_MAX];
    unsigned count = tr_turns(node, record, 0, turns);
    for (unsigned i = 0; i < count; i++) {
        if (turns[i] == 0 && i > 0 && (record->flags & TR_RECORD_MOVING) != 0)
            tr_cover(&node->trial, RULE_MOVE_TAKEN);
        if (turns[i] == 0 || tr_peer_is_popping(&node->cluster, turns[i]))
            return turns[i];
    }
    return 0;
}

/* Who should move it may have let it go for something higher that this node has not heard of: it is
 * shown first to who would have that, then to who should move it. A few in a walk: those that are
 * only on their way are gone by the next one. */
static void offer(struct tr_node *node, uint16_t mover, const struct tr_head *record, bool may_send)
{
    if (!may_send || node->settling.offers >= OFFERS_MAX)
        return;
    uint16_t placed[TR_SET_MAX];
    unsigned count =
        tr_view_place(&node->cluster, record->key.id, tr_copies(node, record->factor), placed);
    node->settling.offers++;
    tr_cover(&node->trial, RULE_OFFERED);
    if (node->settling.walks % 2 == 0)
        tr_send_copy(node, mover, record);
    for (unsigned i = 0; node->settling.walks % 2 == 1 && i < count; i++) {
        if (placed[i] != 0)
            tr_send_copy(node, placed[i], record);
    }
}

/* A node has said that the record has moved on from what is held here, though by what this one sees
 * it is where it belongs: who moved it is not reached from here. What that node says holds the pop
 * back for a moment, so it is asked again. */
static void show_again(struct tr_node *node, uint16_t ahead, const struct tr_head *record,
                       bool may_send)
{
    if (!may_send || node->settling.offers >= OFFERS_MAX)
        return;
    node->settling.offers++;
    tr_cover(&node->trial, RULE_SHOWN_AGAIN);
    tr_send_copy(node, ahead, record);
}

static void follow(struct tr_node *node, tr_ref ref)
{
    struct tr_fifo_entry entry = {ref, 0};
    if (!tr_fifo_push(&node->settling.moves, &node->arena, entry))
        node->settling.found++; /* the next walk meets it */
}

/* A pop that is near, or under way, comes first. */
static bool may_change(const struct tr_node *node, tr_ref ref, const struct tr_head *record)
{
    bool is_idle = tr_book_state(&node->book, ref) == TR_STATE_ARMED;
    bool is_near = tr_book_interval(&node->book, ref) >= 2 * (uint64_t)NEAR_MS &&
                   (record->flags & TR_RECORD_DEAD) == 0 &&
                   record->due_ms < node->time.steady_ms + NEAR_MS;
    if (is_near)
        tr_cover(&node->trial, RULE_MOVE_WAITS);
    return is_idle && !is_near && !tr_is_claimed(node, record) && tr_has_room(node, record);
}

/* Who has just joined is waited for, rather than to find a stand-in and move it twice. So are those
 * that a record names if the view names nobody: this node may have yet to hear of them. */
static bool is_too_soon(const struct tr_node *node, const struct tr_head *record)
{
    uint16_t placed[TR_SET_MAX];
    unsigned count =
        tr_view_place(&node->cluster, record->key.id, tr_copies(node, record->factor), placed);
    bool are_up = true;
    for (unsigned i = 0; i < count; i++)
        are_up &= tr_peer_is_up(&node->cluster, placed[i]);
    bool is_alone = !tr_view_has_others(&node->cluster) && tr_others(record) > 0;
    return (!are_up || is_alone) && tr_view_is_new(node);
}

/* It gets its new list, and comes from where it is. */
static void begin(struct tr_node *node, tr_ref ref, struct tr_head *record)
{
    struct tr_head old = *record;
    if (!may_change(node, ref, record) || is_too_soon(node, record))
        return;
    tr_cover(&node->trial, (old.flags & TR_RECORD_MOVING) != 0 ? RULE_MOVE_AGAIN : RULE_MOVE_BEGUN);
    bool was_moving = (old.flags & TR_RECORD_MOVING) != 0;
    record->from.count = 0;
    record->from.gone = 0;
    for (unsigned i = 0; was_moving && i < old.from.count; i++)
        tr_remember(record, old.from.members[i]);
    for (unsigned i = 0; i < old.replicas.count; i++)
        tr_remember(record, old.replicas.members[i]);
    for (unsigned i = 0; !was_moving && i < old.from.count; i++)
        tr_remember(record, old.from.members[i]);
    tr_remember(record, 0);
    record->replicas.count = (uint8_t)tr_want(node, record->key.id, record->factor, NULL, 0, false,
                                              record->replicas.members);
    record->flags |= TR_RECORD_MOVING;
    record->order.moves = tr_next_move(record->order.moves, node->cluster.stamp_node);
    tr_ref placed = tr_put_head(node, ref, record);
    if (placed == TR_ARENA_NONE)
        return;
    tr_tell(node, placed, TELL_WHOLE); /* it is armed when it is durable */
    follow(node, placed);
}

/* All of the new list have it, and nobody else who could be asked: it is where it belongs. */
static void finish(struct tr_node *node, tr_ref ref, struct tr_head *record)
{
    struct tr_head old = *record;
    if (tr_book_state(&node->book, ref) != TR_STATE_ARMED || !tr_has_room(node, record))
        return;
    record->flags &= (uint8_t)~TR_RECORD_MOVING;
    record->order.moves = tr_next_move(record->order.moves, node->cluster.stamp_node);
    record->from.count = 0;
    record->from.gone = 0;
    for (unsigned i = 0; i < old.from.count; i++) {
        if (old.from.members[i] != 0 && !tr_is_listed(record, old.from.members[i]))
            tr_remember(record, old.from.members[i]);
    }
    tr_cover(&node->trial, RULE_MOVE_ENDED);
    node->stats.moved++;

    bool has_absent = record->from.count > 0;
    if (has_absent) {
        tr_cover(&node->trial, RULE_ABSENT);
        ref = tr_put_head(node, ref, record);
        if (ref == TR_ARENA_NONE)
            return;
    } else {
        ref = tr_change(node, ref, &old, record);
    }
    tr_tell(node, ref, has_absent ? TELL_WHOLE : TELL_DURABLE);
    if (!tr_is_listed(record, 0))
        follow(node, ref);
}

/* True: somebody is still to let go. */
static bool send_drops(struct tr_node *node, const struct tr_head *record, bool may_send)
{
    bool is_waiting = false;
    for (unsigned i = 0; i < record->from.count; i++) {
        uint16_t member = record->from.members[i];
        if (member == 0 || tr_is_listed(record, member) || !tr_peer_is_up(&node->cluster, member))
            continue;
        is_waiting = true;
        if (!may_send)
            continue;
        tr_cover(&node->trial, RULE_DROP_SENT);
        tr_send_drop(node, member, record);
    }
    return is_waiting;
}

/* Nobody of the new list is only just starting: it would not pop. */
static bool can_take_over(const struct tr_node *node, const struct tr_head *record)
{
    for (unsigned i = 0; i < record->replicas.count; i++) {
        const struct tr_peer *peer = &node->cluster.peers[record->replicas.members[i]];
        if (record->replicas.members[i] != 0 && peer->is_up && (peer->flags & TR_BEAT_POPPING) == 0)
            return false;
    }
    return true;
}

static void advance(struct tr_node *node, tr_ref ref, struct tr_head *record, bool may_send)
{
    if (!tr_has_enough(node, ref, record)) {
        uint16_t wanted[TR_SET_MAX];
        unsigned count = tr_want(node, record->key.id, record->factor, NULL, 0, false, wanted);
        bool is_same = count == record->replicas.count &&
                       memcmp(wanted, record->replicas.members, count * sizeof wanted[0]) == 0;
        if (!is_same)
            begin(node, ref, record); /* one of the new list is down: a stand-in */
        return;                       /* else it is owed, and comes */
    }
    if (!send_drops(node, record, may_send) && can_take_over(node, record))
        finish(node, ref, record);
}

/* A copy that is not wanted here goes when those who should have it do. */
static void leave(struct tr_node *node, tr_ref ref, const struct tr_head *record, uint16_t mover,
                  bool may_send)
{
    enum tr_record_state state = tr_book_state(&node->book, ref);
    if (!tr_has_enough(node, ref, record) && !tr_is_known(node, ref, record)) {
        if (mover != 0) /* it is owed to them; but they may have moved on, or be gone for good */
            offer(node, mover, record, may_send);
        return;
    }
    if ((state != TR_STATE_ARMED && state != TR_STATE_UNSAFE) || !tr_has_room(node, record) ||
        !tr_can_drop(node, &record->key))
        return;
    tr_cover(&node->trial, RULE_LEFT);
    node->stats.drops++;
    tr_drop(node, ref);
}

/* A tombstone stays where it is; but who is to have its timer by a new view may hold what it ended,
 * from a node that saw that view earlier. */
static void address(struct tr_node *node, tr_ref ref, struct tr_head *record)
{
    uint16_t placed[TR_SET_MAX];
    enum tr_record_state state = tr_book_state(&node->book, ref);
    if (node->settling.view == node->cluster.view.id || state != TR_STATE_ARMED ||
        !views_agree(node))
        return;
    unsigned count =
        tr_view_place(&node->cluster, record->key.id, tr_copies(node, record->factor), placed);
    bool is_changed = false;
    for (unsigned i = 0; i < count; i++) {
        if (placed[i] == 0 || tr_is_named(record, placed[i]))
            continue;
        tr_remember(record, placed[i]);
        is_changed = true;
    }
    if (!is_changed || !tr_has_room(node, record))
        return;
    tr_cover(&node->trial, RULE_ADDRESSED);
    ref = tr_put_head(node, ref, record);
    if (ref != TR_ARENA_NONE)
        tr_tell(node, ref, TELL_DURABLE);
}

/* True: it is not where it belongs. */
static bool look_at(struct tr_node *node, tr_ref ref, struct tr_head *record, bool may_send)
{
    if ((record->flags & TR_RECORD_TOMBSTONE) != 0) {
        address(node, ref, record);
        return false;
    }
    bool is_moving = (record->flags & TR_RECORD_MOVING) != 0;
    bool is_well = tr_is_placed_well(node, record);
    bool is_settled = !is_moving && is_well && tr_is_listed(record, 0);
    uint16_t ahead = tr_moved_by(node, record);
    if (is_settled && (ahead == TR_MEMBER_NONE || ahead == 0))
        return false;
    if (!node->is_popping || tr_book_state(&node->book, ref) == TR_STATE_UNSAFE)
        return true;
    if (is_settled) {
        show_again(node, ahead, record, may_send);
        return true;
    }
    if (!views_agree(node)) {
        tr_cover(&node->trial, RULE_VIEWS_DIFFER);
        return true;
    }
    uint16_t mover = tr_find_mover(node, record);
    if (!is_moving && !tr_is_listed(record, 0) && (is_well || mover != 0))
        leave(node, ref, record, mover, may_send);
    else if (node->phase != PHASE_READY)
        return true; /* one that stops lets go, and begins and ends nothing */
    else if (mover != 0)
        offer(node, mover, record, may_send);
    else if (is_well)
        advance(node, ref, record, may_send);
    else
        begin(node, ref, record);
    return true;
}

static bool look(struct tr_node *node, tr_ref ref)
{
    struct tr_head record;
    tr_book_head(&node->book, ref, &record);
    return look_at(node, ref, &record, true);
}

void tr_settle_look(struct tr_node *node, tr_ref ref, struct tr_head *record, bool may_send)
{
    if (!look_at(node, ref, record, may_send))
        return;
    set_unsettled(node, true);
    node->settling.is_missed = true;
    if (!node->settling.is_walking && node->settling.again_ms > node->time.now_ms + AGAIN_MS)
        node->settling.again_ms = node->time.now_ms + AGAIN_MS;
}

/* ---- the walk ---- */

/* A mutant of the walk: the next record by due time. What pops meanwhile is passed over. */
static bool next_by_due(const struct tr_node *node, uint64_t *cursor, tr_ref *next)
{
    struct tr_index_walk walk = tr_index_seek(&node->book.index, 0);
    uint64_t best = UINT64_MAX;
    tr_ref ref = TR_ARENA_NONE;
    while (tr_index_next(&walk, &ref)) {
        uint64_t due_ms = tr_book_due(&node->book, ref);
        if (due_ms > *cursor && due_ms < best) {
            best = due_ms;
            *next = ref;
        }
    }
    *cursor = best;
    return best != UINT64_MAX;
}

static bool next_record(const struct tr_node *node, struct tr_index_walk *walk, uint64_t *cursor,
                        tr_ref *ref)
{
    if (tr_breaks(&node->trial, MUTANT_PAGE_BY_DUE))
        return next_by_due(node, cursor, ref);
    if (!tr_index_next(walk, ref))
        return false;
    *cursor = tr_book_hash(tr_book_id(&node->book, *ref));
    return true;
}

/* Somebody asked for it, and hears how it went: that it is done, or, once, what it waits for. */
static void report(struct tr_node *node, bool is_left, struct tr_effects *out)
{
    struct tr_settling *settling = &node->settling;
    bool is_complete = !is_left;
    for (uint32_t i = 1; settling->is_asked && i < node->cluster.member_count; i++) {
        const struct tr_peer *peer = &node->cluster.peers[i];
        const struct tr_progress *progress = &node->progress[i];
        bool is_meant = node->cluster.members[i].role != TR_ROLE_NONE;
        bool is_missing = is_meant && (!peer->is_up || peer->view != node->cluster.view.id);
        is_complete &= !is_missing && !(peer->is_up && progress->is_behind);
        if (!is_missing || settling->is_told ||
            node->time.now_ms < settling->asked_ms + PATIENCE_MS)
            continue;
        tr_note(out, peer->is_up ? TR_NOTE_UNSETTLED_VIEW : TR_NOTE_UNSETTLED_DOWN, 0, i);
        settling->is_told = true;
    }
    if (!settling->is_asked || !is_complete)
        return;
    tr_note(out, TR_NOTE_SETTLED, 0, node->stats.timers + node->stats.debts + node->stats.dead);
    settling->is_asked = false;
}

static void end_walk(struct tr_node *node, struct tr_effects *out)
{
    struct tr_settling *settling = &node->settling;
    settling->is_walking = false;
    settling->cursor = 0;
    settling->walks++;
    if (views_agree(node))
        settling->view = node->cluster.view.id;
    bool is_left = settling->found > 0 || settling->is_missed || settling->moves.count > 0;
    settling->unsettled = settling->found;
    report(node, is_left, out);
    bool is_again = is_left || (settling->is_asked && !settling->is_told);
    settling->again_ms = is_again ? node->time.now_ms + AGAIN_MS : TR_NEVER;
    if (tr_breaks(&node->trial, MUTANT_PAGE_BY_DUE))
        settling->again_ms = TR_NEVER;
    set_unsettled(node, is_left);
}

/* For a while there was nobody who would have waited for a step to end. */
static bool is_quiet(const struct tr_node *node)
{
    return node->time.now_ms > node->busy_ms + QUIET_MS;
}

/* The refs of a slice are gathered first: to look at one may change the book. */
static void walk_slice(struct tr_node *node, struct tr_effects *out)
{
    struct tr_settling *settling = &node->settling;
    tr_ref refs[WALK_SLICE];
    unsigned count = 0;
    uint64_t cursor = settling->cursor;
    struct tr_index_walk walk = tr_index_seek(&node->book.index, cursor + (cursor > 0));
    tr_ref ref = TR_ARENA_NONE;
    bool is_over = false;
    uint64_t last = cursor;
    while (!is_over) {
        is_over = !next_record(node, &walk, &cursor, &ref);
        /* All parts of a timer, which share its hash, are of one slice. */
        if (is_over || (cursor != last && count + TR_PARTS_MAX + 1 >= WALK_SLICE) ||
            count == WALK_SLICE)
            break;
        last = cursor;
        refs[count++] = ref;
    }
    settling->cursor = last;
    unsigned busy = 0;
    unsigned most = tr_slice(node, is_quiet(node) ? QUIET_SLICE : BUSY_SLICE);
    for (unsigned i = 0; i < count; i++) {
        if (!tr_arena_holds(&node->arena, refs[i]))
            continue;
        uint64_t hash = tr_book_hash(tr_book_id(&node->book, refs[i]));
        if (busy >= most && hash != settling->cursor) {
            is_over = false;
            break;
        }
        settling->cursor = hash;
        busy += look(node, refs[i]);
    }
    settling->found += busy;
    if (is_over)
        end_walk(node, out);
}

static bool is_under_way(const struct tr_node *node, tr_ref ref)
{
    struct tr_head record;
    if (!tr_arena_holds(&node->arena, ref))
        return false;
    tr_book_head(&node->book, ref, &record);
    return (record.flags & TR_RECORD_TOMBSTONE) == 0 &&
           ((record.flags & TR_RECORD_MOVING) != 0 || !tr_is_listed(&record, 0));
}

/* Moves under way: acknowledgements take them on. Those that do not come are looked at now and
 * then; and while the walk waits, those that are over make room for more. */
static void run_moves(struct tr_node *node)
{
    struct tr_settling *settling = &node->settling;
    bool is_due = node->time.now_ms >= settling->look_ms;
    bool is_full = settling->is_walking && settling->moves.count >= node->config.limits.moves;
    if (!is_due && !(is_full && node->time.now_ms >= settling->prune_ms))
        return;
    settling->prune_ms = node->time.now_ms + PRUNE_MS;
    if (is_due)
        settling->look_ms = node->time.now_ms + LOOK_MS;
    for (uint32_t count = settling->moves.count; count > 0; count--) {
        struct tr_fifo_entry entry = tr_fifo_pop(&settling->moves, &node->arena);
        if (is_due && tr_arena_holds(&node->arena, entry.ref))
            settling->is_missed |= look(node, entry.ref);
        if (is_under_way(node, entry.ref) && settling->moves.count < node->config.limits.moves)
            tr_fifo_push(&settling->moves, &node->arena, entry);
    }
}

void tr_settle_asked(struct tr_node *node)
{
    if (!tr_is_clustered(node))
        return;
    node->settling.is_asked = true;
    node->settling.is_told = false;
    node->settling.asked_ms = node->time.now_ms;
    for (uint32_t i = 1; i < node->cluster.member_count; i++)
        node->progress[i].is_behind = true;
    tr_settle_again(node);
}

void tr_settle_run(struct tr_node *node, struct tr_effects *out)
{
    struct tr_settling *settling = &node->settling;
    if (!node->is_popping)
        return;
    if (settling->moves.count > 0)
        run_moves(node);
    if (!settling->is_walking && node->time.now_ms >= settling->again_ms)
        tr_settle_again(node);
    if (settling->is_walking && settling->moves.count < node->config.limits.moves)
        walk_slice(node, out);
}

tr_mono_ms tr_settle_wake_at(const struct tr_node *node)
{
    const struct tr_settling *settling = &node->settling;
    if (!node->is_popping || node->phase != PHASE_READY)
        return TR_NEVER;
    if (settling->is_walking && settling->moves.count < node->config.limits.moves)
        return node->time.now_ms;
    tr_mono_ms wake = settling->moves.count > 0 ? settling->look_ms : TR_NEVER;
    if (settling->is_walking && settling->prune_ms < wake)
        wake = settling->prune_ms;
    return !settling->is_walking && settling->again_ms < wake ? settling->again_ms : wake;
}
