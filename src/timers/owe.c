/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/owe.h"

#include "log/batch.h"
#include "replication/dropped.h"
#include "replication/pending.h"
#include "timers/store.h"

/* Whether this very debt is, or was, owed here. */
static bool is_owed(const struct tr_timers *timers, tr_ref ref, const struct tr_owed *owed)
{
    struct tr_record record;
    tr_book_unpack(&timers->book, ref, &record);
    return record.head.order.version == owed->version &&
           record.head.order.version_node == owed->version_node;
}

/* An id that no timer has: a client may have given one the id that follows from the debt. False: it
 * is owed already, others have said so. */
static bool find_id(const struct tr_timers *timers, const struct tr_owed *owed, tr_timer_id *id)
{
    *id = owed->id;
    while (true) {
        tr_ref ref = *id != 0 ? tr_book_find_whole(&timers->book, *id) : TR_ARENA_NONE;
        if (*id != 0 && ref == TR_ARENA_NONE)
            return true;
        if (ref != TR_ARENA_NONE && is_owed(timers, ref, owed))
            return false;
        *id = tr_hash_mix(*id + 1);
    }
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
    };
    tr_ref ref = TR_ARENA_NONE;
    TR_ASSERT(owed->due_ms <= now_ms && owed->uri.size > 0);
    if (!tr_log_can_wait(timers->log, 1) ||
        !tr_log_has_room(timers->log, tr_log_record_bound(&record) + size, false))
        return false;
    if (!find_id(timers, owed, &record.head.key.id))
        return true;
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
