/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/fire.h"

#include "log/batch.h"
#include "replication/pending.h"
#include "timers/schedule.h"
#include "timers/store.h"

/* The ticket of a change that is on its way to the log, or of one that was made before. */
static void wait_for(struct tr_timers *timers, tr_ref ref, const struct tr_head *head,
                     struct tr_waiting waiting)
{
    waiting.key = head->key;
    waiting.order = head->order;
    waiting.ref = ref;
    waiting.factor = head->factor;
    waiting.has_location = true;
    tr_log_wait(timers->log, waiting);
}

unsigned tr_fire_timer(struct tr_timers *timers, tr_timer_id id, struct tr_waiting waiting)
{
    struct tr_record record;
    tr_ref ref = tr_book_find_whole(&timers->book, id);
    if (ref == TR_ARENA_NONE)
        return 0;
    tr_book_unpack(&timers->book, ref, &record);
    if ((record.head.flags & (TR_RECORD_DEAD | TR_RECORD_TOMBSTONE)) != 0)
        return 0;
    enum tr_record_state state = tr_book_state(&timers->book, ref);
    if (state == TR_STATE_QUEUED || state == TR_STATE_FLYING ||
        record.head.due_ms <= timers->time->steady_ms) { /* it pops as it is */
        wait_for(timers, ref, &record.head, waiting);
        return 1;
    }
    struct tr_head head = record.head;
    tr_schedule_pull(timers, &record, &head);
    if (!tr_book_can_update(&timers->book, ref, &head))
        return 0;
    head.order.moves = tr_next_move(head.order.moves, timers->cluster->stamp_node);
    tr_timers_forget_entry(timers, ref);
    ref = tr_book_update(&timers->book, ref, &head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_timers_log_short(timers, &head);
    wait_for(timers, ref, &head, waiting);
    tr_pending_replicate(timers->replication, ref, REPLICATE_DURABLE);
    return 1;
}
