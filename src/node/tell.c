/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling other nodes what changes here, and seeing to it that each node of a record's list has it.
 *
 * A record is owed to every node of its list that is not known to have exactly its order: one that
 * was told and does not say so is sent the whole record. Who is no longer of the list and may
 * hold an older copy is owed a drop.
 */
#include "node/internal.h"

#define OWED_WALK_MS 500
#define OWED_WINDOW  1024 /* messages that wait, beyond which nothing is sent again */
#define FRESH_MS     800  /* less than until it is owed again */
#define OWED_LONG    8192

/* ---- who has what ---- */

/* Whether the node that made a write may still be busy with it: it may find that the id is taken,
 * and take it back. Until then nobody else passes it on; who lacks it later is sent it then. */
bool tr_is_fresh(const struct tr_node *node, const struct tr_head *record)
{
    uint64_t clock_ms = tr_clock_now(&node->cluster) >> 16;
    uint64_t stamp_ms = record->order.version >> 16;
    return record->order.moves == 0 && record->order.sequence == 1 && record->order.attempt == 0 &&
           stamp_ms + FRESH_MS > clock_ms && stamp_ms < clock_ms + FRESH_MS &&
           (record->flags & TR_RECORD_TOMBSTONE) == 0;
}

void tr_mark(struct tr_node *node, tr_ref ref, const struct tr_head *record, uint16_t member)
{
    unsigned place = tr_place_of(record, member);
    if (place < record->replicas.count)
        tr_book_set_acked(&node->book, ref,
                          tr_book_acked(&node->book, ref) | (uint8_t)(1u << place));
}

static bool is_exactly(const struct tr_node *node, tr_ref ref, const struct tr_head *named,
                       struct tr_head *held)
{
    tr_book_head(&node->book, ref, held);
    return tr_order_compare(&held->order, &named->order) == 0;
}

tr_ref tr_find_exactly(const struct tr_node *node, const struct tr_head *named,
                       struct tr_head *held)
{
    tr_ref ref = tr_book_find(&node->book, &named->key);
    return ref != TR_ARENA_NONE && is_exactly(node, ref, named, held) ? ref : TR_ARENA_NONE;
}

/* Likewise, where it is known where it was: it moves only when it changes. */
static tr_ref find_near(const struct tr_node *node, tr_ref ref, const struct tr_head *named,
                        struct tr_head *held)
{
    bool is_there = tr_arena_holds(&node->arena, ref) &&
                    tr_book_id(&node->book, ref) == named->key.id &&
                    is_exactly(node, ref, named, held) && held->key.part == named->key.part;
    return is_there ? ref : tr_find_exactly(node, named, held);
}

/* Who told them all lets them know of each other, or each would send it to each. */
static void spread(struct tr_node *node, tr_ref ref, const struct tr_head *record)
{
    unsigned others = record->replicas.count - tr_is_listed(record, 0);
    unsigned place = tr_place_of(record, 0);
    uint8_t own = (uint8_t)(place < record->replicas.count ? 1u << place : 0u);
    for (unsigned i = 0; others > 1 && i < record->replicas.count; i++) {
        if (record->replicas.members[i] != 0)
            tr_send(node, record->replicas.members[i],
                    (struct tr_message){
                        .kind = MESSAGE_MARK,
                        .mask = tr_book_acked(&node->book, ref) | own,
                        .key = record->key,
                        .order = record->order,
                    });
    }
}

/* Whether one that was away has heard only now that this is over, and the view has changed before:
 * it may have moved the timer to anybody meanwhile. */
static bool is_late_end(const struct tr_node *node, uint16_t peer, const struct tr_head *record)
{
    bool is_keyed = (record->flags & TR_RECORD_KEYED) != 0;
    tr_steady_ms kept_ms = record->due_ms - record->lag_ms;
    tr_steady_ms ended_ms = kept_ms - (is_keyed ? node->config.key_keep_ms : TOMBSTONE_MS);
    return (record->flags & TR_RECORD_TOMBSTONE) != 0 &&
           ended_ms < node->settling.changed_ms + node->time.steady_base &&
           ended_ms < node->cluster.peers[peer].up_ms + node->time.steady_base;
}

static void tell_everybody(struct tr_node *node, const struct tr_head *record)
{
    tr_cover(&node->trial, RULE_END_SPREAD);
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        if (tr_peer_is_up(&node->cluster, (uint16_t)i) && !tr_is_listed(record, (uint16_t)i))
            tr_send_drop(node, (uint16_t)i, record);
    }
}

void tr_acked(struct tr_node *node, uint16_t peer, const struct tr_head *named)
{
    struct tr_head held;
    tr_ref ref = tr_find_exactly(node, named, &held);
    if (ref == TR_ARENA_NONE)
        return;
    bool is_settled = (held.flags & TR_RECORD_MOVING) == 0 && tr_is_listed(&held, 0);
    bool was_enough = is_settled || tr_has_enough(node, ref, &held);
    bool was_known = tr_is_known(node, ref, &held);
    tr_mark(node, ref, &held, peer);
    if (!was_known && is_late_end(node, peer, &held))
        tell_everybody(node, &held);
    if (!was_known && tr_is_known(node, ref, &held))
        spread(node, ref, &held);
    if (!is_settled)
        tr_settle_look(node, ref, &held, !was_enough && tr_has_enough(node, ref, &held));
}

void tr_marked(struct tr_node *node, tr_ref ref, const struct tr_head *named, uint8_t mask)
{
    struct tr_head held;
    ref = find_near(node, ref, named, &held);
    if (ref == TR_ARENA_NONE)
        return;
    uint16_t mover = tr_moved_by(node, &held);
    if (mover != TR_MEMBER_NONE && tr_is_listed(&held, mover)) {
        /* That one has more than this, and does not know that it came here: it is shown it. */
        tr_cover(&node->trial, RULE_MOVED_BEFORE);
        mask &= (uint8_t) ~(1u << tr_place_of(&held, mover));
    }
    tr_book_set_acked(&node->book, ref, tr_book_acked(&node->book, ref) | mask);
}

/* Not one that moves and comes from there: who moves it tells it to let go. */
bool tr_is_owed_drop(const struct tr_head *record, uint16_t peer)
{
    return !tr_is_listed(record, peer) && tr_is_named(record, peer) &&
           (record->flags & TR_RECORD_MOVING) == 0;
}

static bool is_owed(const struct tr_node *node, tr_ref ref, uint16_t peer,
                    const struct tr_head *record)
{
    if (tr_book_state(&node->book, ref) == TR_STATE_UNSAFE)
        return false; /* when it is durable, the list is told */
    unsigned place = tr_place_of(record, peer);
    if (place ==
        record->replicas.count) /* of those it comes from who moves it knows who has let go */
        return tr_is_named(record, peer) &&
               (tr_is_owed_drop(record, peer) ||
                (node->phase == PHASE_READY && tr_find_mover(node, record) == 0));
    return (tr_book_acked(&node->book, ref) & (uint8_t)(1u << place)) == 0;
}

bool tr_is_owed(const struct tr_node *node, tr_ref ref, uint16_t peer, struct tr_head *record)
{
    if (tr_book_all_acked(&node->book, ref))
        return false;
    tr_book_head(&node->book, ref, record);
    return is_owed(node, ref, peer, record);
}

void tr_send_copy(struct tr_node *node, uint16_t peer, const struct tr_head *record)
{
    tr_send(node, peer, (struct tr_message){.kind = MESSAGE_COPY, .key = record->key});
}

void tr_send_drop(struct tr_node *node, uint16_t peer, const struct tr_head *record)
{
    tr_send(node, peer,
            (struct tr_message){
                .kind = MESSAGE_DROP,
                .key = record->key,
                .order = record->order,
            });
}

void tr_send_take_back(struct tr_node *node, uint16_t peer, const struct tr_head *record)
{
    tr_send(node, peer,
            (struct tr_message){
                .kind = MESSAGE_DROP,
                .mask = 1,
                .key = record->key,
                .order = record->order,
            });
}

void tr_send_owed(struct tr_node *node, uint16_t peer, const struct tr_head *record)
{
    if (tr_is_owed_drop(record, peer))
        tr_send_drop(node, peer, record);
    else
        tr_send_copy(node, peer, record);
}

/* Each node that is named has a moment to say that it has it. */
void tr_owe(struct tr_node *node, tr_ref ref, const struct tr_head *record)
{
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_names(record, names);
    for (unsigned i = 0; i < count; i++) {
        struct tr_fifo_entry entry = {ref, node->time.now_ms + AGAIN_OWED_MS};
        if (names[i] == 0 || !is_owed(node, ref, names[i], record))
            continue;
        struct tr_peer *peer = &node->cluster.peers[names[i]];
        struct tr_progress *progress = &node->progress[names[i]];
        if (peer->is_greeted && progress->owed.count < node->config.limits.owed &&
            !tr_arena_is_tight(&node->arena) && tr_fifo_push(&progress->owed, &node->arena, entry))
            continue;
        progress->is_passed |=
            progress->cursor > 0; /* the walk that is under way may be beyond it */
        progress->is_behind = true;
    }
}

/* What is owed longest; what is no longer owed falls out. False: nothing is. */
static bool owed_longest(struct tr_node *node, uint16_t index, struct tr_fifo_entry *entry,
                         struct tr_head *record)
{
    struct tr_fifo *owed = &node->progress[index].owed;
    for (; owed->count > 0; tr_fifo_pop(owed, &node->arena)) {
        *entry = tr_fifo_first(owed, &node->arena);
        if (tr_arena_holds(&node->arena, entry->ref) && tr_is_owed(node, entry->ref, index, record))
            return true;
    }
    return false;
}

/* Those who were told and have not said that they have it. The queue is in the order of due times:
 * behind one that is not due none is. */
void tr_owed_run(struct tr_node *node, uint16_t index)
{
    struct tr_peer *peer = &node->cluster.peers[index];
    struct tr_progress *progress = &node->progress[index];
    struct tr_head record;
    struct tr_fifo_entry entry;
    if (progress->owed.count == 0 || node->time.now_ms < progress->owed_ms)
        return;
    bool is_long = progress->owed.count > OWED_LONG; /* most of it is acknowledged by now */
    progress->owed_ms = node->time.now_ms + (is_long ? OWED_WALK_MS / 8 : OWED_WALK_MS);
    while (owed_longest(node, index, &entry, &record) && entry.due_ms <= node->time.now_ms &&
           peer->count < OWED_WINDOW) {
        tr_fifo_pop(&progress->owed, &node->arena);
        /* Who moves a record from there tells it to let go when others have it; but one that has
         * missed something must not go on with what it has until then. */
        bool is_sent =
            tr_is_listed(&record, index) || tr_is_owed_drop(&record, index) || progress->has_missed;
        if (!is_sent)
            continue;
        tr_cover(&node->trial, RULE_OWED);
        tr_send_owed(node, index, &record);
        entry.due_ms = node->time.now_ms + AGAIN_OWED_MS;
        if (!tr_fifo_push(&progress->owed, &node->arena, entry)) {
            progress->is_passed |= progress->cursor > 0;
            progress->is_behind = true;
        }
    }
}

bool tr_owes_nothing(struct tr_node *node, uint16_t index)
{
    struct tr_fifo_entry entry;
    struct tr_head record;
    return !owed_longest(node, index, &entry, &record);
}

/* ---- what happens here ---- */

static struct tr_message message_of(const struct tr_waiting *waiting, enum tr_message_kind kind)
{
    return (struct tr_message){
        .kind = kind,
        .result = TR_RESULT_STORED,
        .operation = waiting->token,
        .key = waiting->key,
        .order = waiting->order,
    };
}

/* A new record goes whole; of a change, its order and times. While it moves its old list hears the
 * same, since it pops; else who is not listed is to let go. */
static void tell(struct tr_node *node, const struct tr_head *record, enum tr_message_kind kind)
{
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_names(record, names);
    for (unsigned i = 0; i < count; i++) {
        bool is_told = tr_is_listed(record, names[i]) || !tr_breaks(&node->trial, MUTANT_ONE_LIST);
        if (names[i] == 0 || !is_told)
            continue;
        if (tr_is_owed_drop(record, names[i]))
            tr_send_drop(node, names[i], record);
        else
            tr_send(node, names[i], (struct tr_message){.kind = kind, .key = record->key});
    }
}

void tr_tell(struct tr_node *node, tr_ref ref, enum tr_telling telling)
{
    struct tr_head record;
    if (!tr_is_clustered(node))
        return;
    tr_book_head(&node->book, ref, &record);
    /* Beyond a pop that has failed nobody is told before the failed one is safe here. */
    if (telling == TELL_AT_ONCE && node->split_batch > node->log.durable)
        telling = TELL_DURABLE;
    if (telling == TELL_PART)
        node->split_batch = node->log.number;
    if (telling == TELL_AT_ONCE)
        tell(node, &record, MESSAGE_OUTCOME);
    tr_log_wait(&node->log, (struct tr_waiting){
                                .then = telling == TELL_AT_ONCE ? THEN_OWE : THEN_TELL,
                                .token = (uint64_t)telling,
                                .key = record.key,
                                .ref = ref,
                                .order = record.order,
                            });
}

static enum tr_message_kind message_kind_of(enum tr_telling telling)
{
    return telling == TELL_WHOLE  ? MESSAGE_COPY
           : telling == TELL_PART ? MESSAGE_PART
                                  : MESSAGE_OUTCOME;
}

/* Stored; with the record if that names others that may hold what it replaced. */
static void reply(struct tr_node *node, const struct tr_waiting *waiting,
                  const struct tr_head *held)
{
    struct tr_message answer = message_of(waiting, MESSAGE_ANSWER);
    answer.mask = held == NULL || (held->from.count > 0 && (held->flags & TR_RECORD_MOVING) == 0);
    tr_send(node, waiting->peer, answer);
}

/* One that is not of the list may be unable to reach all of it: if all have the record, it hears
 * so, and can let its copy go. */
static void acknowledge(struct tr_node *node, const struct tr_waiting *waiting, tr_ref ref,
                        const struct tr_head *held)
{
    tr_send(node, waiting->peer, message_of(waiting, MESSAGE_ACK));
    bool is_stray = !tr_is_named(held, waiting->peer) && tr_is_listed(held, 0);
    if (!is_stray || held->replicas.count == 1 || !tr_is_known(node, ref, held))
        return;
    tr_cover(&node->trial, RULE_TOLD_A_STRAY);
    struct tr_message mark = message_of(waiting, MESSAGE_MARK);
    mark.mask = (uint8_t)((1u << held->replicas.count) - 1);
    tr_send(node, waiting->peer, mark);
}

void tr_told(struct tr_node *node, const struct tr_waiting *waiting, struct tr_effects *out)
{
    struct tr_head named = {
        .key = waiting->key,
        .order = waiting->order,
    };
    struct tr_head held;
    tr_ref ref = find_near(node, waiting->ref, &named, &held);
    if (waiting->then == THEN_OPERATION)
        tr_operation_answered(node, waiting->token, 0, TR_RESULT_STORED, NULL, out);
    else if (waiting->then == THEN_REPLY)
        reply(node, waiting, ref != TR_ARENA_NONE ? &held : NULL);
    else if (waiting->then == THEN_ACK && ref != TR_ARENA_NONE)
        acknowledge(node, waiting, ref, &held);
    else if (waiting->then == THEN_TELL && ref != TR_ARENA_NONE)
        tell(node, &held, message_kind_of((enum tr_telling)waiting->token));
    else if (waiting->then == THEN_DROPPED)
        tr_send(node, waiting->peer, message_of(waiting, MESSAGE_DROPPED));
    if (ref == TR_ARENA_NONE)
        return;
    tr_owe(node, ref, &held);
    tr_settle_look(node, ref, &held, waiting->then == THEN_TELL);
}
