/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/owe.h"

#include "cluster/clock.h"
#include "log/batch.h"
#include "timers/store.h"

#define STAMP_ROOM 64 /* bytes of the log for two ceilings of stamps */

/* An id that no timer has: a client may have given one the id that follows from the debt. */
static tr_timer_id free_id(const struct tr_timers *timers, tr_timer_id id)
{
    while (id == 0 || tr_book_find_whole(&timers->book, id) != TR_ARENA_NONE)
        id = tr_hash_mix(id + 1);
    return id;
}

bool tr_timers_owe(struct tr_timers *timers, const struct tr_owed *owed, size_t size)
{
    struct tr_record record = {
        .head.key.id = free_id(timers, owed->id),
        .head.order.sequence = 1,
        .head.order.version_node = timers->cluster->stamp_node,
        .head.replicas.count = 1,
        .head.factor = 1,
        .head.due_ms = owed->due_ms,
        .uri = owed->uri,
        .opaque = owed->opaque,
        .content_type = {"", 0},
    };
    tr_ref ref = TR_ARENA_NONE;
    TR_ASSERT(owed->due_ms <= timers->time->steady_ms && owed->uri.size > 0);
    if (!tr_log_can_wait(timers->log, 1) ||
        !tr_log_has_room(timers->log, tr_log_record_bound(&record) + size + STAMP_ROOM, false))
        return false;
    record.head.order.version = tr_clock_stamp(timers->cluster, 0);
    bool is_lent = timers->arena->lent > 0; /* for keys that are set together */
    if (!is_lent)
        tr_arena_lend(timers->arena);
    bool is_there = tr_timers_put(timers, &record, &ref);
    if (!is_lent)
        tr_arena_give_back(timers->arena);
    if (!is_there)
        return false;
    tr_log_wait(timers->log, (struct tr_waiting){
                                 .then = THEN_ANSWER,
                                 .key = record.head.key,
                                 .order = record.head.order,
                                 .ref = ref,
                             });
    return true;
}
