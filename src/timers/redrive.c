/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/redrive.h"

#include "log/batch.h"
#include "replication/pending.h"
#include "timers/store.h"

bool tr_redrive_has_room(const struct tr_timers *timers)
{
    return tr_replication_can_wait(timers->replication) &&
           tr_log_has_room(timers->log, TR_REDRIVE_ROOM, false);
}

static void redrive_one(struct tr_timers *timers, tr_ref ref, struct tr_record *record,
                        struct tr_waiting waiting)
{
    TR_ASSERT((record->head.flags & TR_RECORD_DEAD) != 0);
    tr_timers_count(timers, &record->head, -1);
    tr_timers_forget_entry(timers, ref);
    record->head.flags &= (uint8_t)~TR_RECORD_DEAD;
    /* A part counts its redrives; a timer that died in its place stays behind its attempts. */
    record->head.order.sequence += record->head.key.part > 0;
    if (record->head.key.part == 0)
        record->head.order.moves =
            tr_next_move(record->head.order.moves, timers->cluster->stamp_node);
    record->head.order.attempt = record->head.key.part > 0 ? 0 : record->head.order.attempt;
    tr_steady_ms own_ms = record->head.due_ms - record->head.lag_ms;
    tr_steady_ms now_ms = timers->time->steady_ms;
    record->head.lag_ms = now_ms > own_ms ? now_ms - own_ms : 0;
    record->head.due_ms = now_ms;
    ref = tr_book_update(&timers->book, ref, &record->head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_timers_log_short(timers, &record->head);
    tr_timers_count(timers, &record->head, 1);
    timers->stats.redriven++;
    waiting.key = record->head.key;
    waiting.order = record->head.order;
    waiting.ref = ref;
    waiting.factor = record->head.factor;
    waiting.has_location = true;
    tr_log_wait(timers->log, waiting);
    tr_pending_replicate(timers->replication, ref, REPLICATE_DURABLE);
}

/* Tries the dead pops of a timer again, all of them or the one asked for. */
unsigned tr_redrive_timer(struct tr_timers *timers, tr_timer_id id, uint64_t sequence,
                          struct tr_waiting waiting)
{
    tr_ref dead[TR_PARTS_MAX + 1];
    unsigned count = 0;
    struct tr_index_walk walk;
    struct tr_record record;
    for (tr_ref ref = tr_book_first(&timers->book, id, &walk); ref != TR_ARENA_NONE;
         ref = tr_book_next(&walk, id)) {
        tr_book_unpack(&timers->book, ref, &record);
        bool is_asked = sequence == 0 || sequence == tr_record_pop(&record);
        if ((record.head.flags & TR_RECORD_DEAD) != 0 && is_asked && count <= TR_PARTS_MAX)
            dead[count++] = ref;
    }
    for (unsigned i = 0; i < count; i++) {
        struct tr_waiting nobody = {.token = 0};
        tr_book_unpack(&timers->book, dead[i], &record);
        redrive_one(timers, dead[i], &record, i + 1 == count ? waiting : nobody);
    }
    return count;
}
