/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/owe.h"

#include "cluster/peer.h"
#include "log/batch.h"
#include "replication/dropped.h"
#include "replication/pending.h"
#include "replication/set.h"
#include "timers/store.h"

/* Whether this very debt is, or was, owed here. */
static bool is_it(const struct tr_timers *timers, tr_ref ref, uint64_t version,
                  uint16_t version_node)
{
    struct tr_head head;
    tr_book_head(&timers->book, ref, &head);
    return head.order.version == version && head.order.version_node == version_node;
}

/* A client may have given a timer the id that follows from a debt, which has the next one then.
 * Returns its record, or TR_ARENA_NONE: it is not here, and `id` is the one that it is to have. */
static tr_ref find(const struct tr_timers *timers, uint64_t version, uint16_t version_node,
                   tr_timer_id *id)
{
    while (true) {
        tr_ref ref = *id != 0 ? tr_book_find_whole(&timers->book, *id) : TR_ARENA_NONE;
        if (*id != 0 && (ref == TR_ARENA_NONE || is_it(timers, ref, version, version_node)))
            return ref;
        *id = tr_hash_mix(*id + 1);
    }
}

/* Whether a node that comes before this one in turn, and pops, is known to have the debt: it may be
 * just making the callback. */
static bool is_left_to_another(const struct tr_timers *timers, tr_ref ref,
                               const struct tr_head *head)
{
    uint16_t turns[TR_NAMES_MAX];
    unsigned count = tr_set_turns(timers->replication, head, head->order.attempt, turns);
    uint8_t acked = tr_store_acked(&timers->store, ref);
    for (unsigned i = 0; i < count && turns[i] != 0; i++) {
        unsigned place = tr_set_place_of(head, turns[i]);
        if (place < head->replicas.count && (acked >> place & 1) != 0 &&
            tr_peer_is_popping(timers->cluster, turns[i]))
            return true;
    }
    return false;
}

bool tr_timers_are_owing(const struct tr_timers *timers, tr_timer_id id, uint64_t version,
                         uint16_t version_node)
{
    struct tr_head head;
    tr_ref ref = find(timers, version, version_node, &id);
    if (ref == TR_ARENA_NONE)
        return false;
    tr_book_head(&timers->book, ref, &head);
    return (head.flags & (TR_RECORD_DEAD | TR_RECORD_TOMBSTONE)) == 0 &&
           tr_book_state(&timers->book, ref) != TR_STATE_FLYING &&
           !tr_set_has_enough(timers->replication, ref, &head) &&
           !is_left_to_another(timers, ref, &head);
}

/* What becomes of it when it is durable: others that owe it, too, are sent it. */
static void leave_ticket(struct tr_timers *timers, const struct tr_record *record, tr_ref ref)
{
    if (record->head.replicas.count > 1) {
        tr_pending_replicate(timers->replication, ref, REPLICATE_WHOLE);
        return;
    }
    tr_log_wait(timers->log, (struct tr_waiting){
                                 .then = THEN_ANSWER,
                                 .key = record->head.key,
                                 .order = record->head.order,
                                 .ref = ref,
                             });
}

bool tr_timers_owe(struct tr_timers *timers, const struct tr_owed *owed, size_t size)
{
    bool is_shared = owed->by.count > 1;
    tr_steady_ms now_ms = timers->time->steady_ms;
    struct tr_record record = {
        .head.order.sequence = 1,
        .head.order.version = owed->version,
        .head.order.version_node = owed->version_node,
        .head.replicas = owed->by,
        .head.factor = owed->by.count,
        .head.due_ms = is_shared ? now_ms : owed->due_ms,
        .head.lag_ms = is_shared ? now_ms - owed->due_ms : 0,
        .uri = owed->uri,
        .opaque = owed->opaque,
        .content_type = {"", 0},
        .plan = {"", 0},
        .own = {"", 0},
    };
    tr_ref ref = TR_ARENA_NONE;
    TR_ASSERT(owed->due_ms <= now_ms && owed->uri.size > 0);
    if (!tr_log_can_wait(timers->log, 1) ||
        !tr_log_has_room(timers->log, tr_log_record_bound(&record) + size, false))
        return false;
    record.head.key.id = owed->id;
    if (find(timers, owed->version, owed->version_node, &record.head.key.id) != TR_ARENA_NONE)
        return true; /* it is owed already, others have said so */
    if (tr_dropped_find(timers->replication, &record.head) != NULL)
        return true; /* others owed it, and have moved it to where it belongs */
    bool is_lent = timers->arena->lent > 0; /* for keys that are set together */
    if (!is_lent)
        tr_arena_lend(timers->arena);
    bool is_there = tr_timers_put(timers, &record, &ref);
    if (!is_lent)
        tr_arena_give_back(timers->arena);
    if (is_there)
        leave_ticket(timers, &record, ref);
    return is_there;
}
