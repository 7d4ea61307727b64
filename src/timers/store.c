/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/store.h"

#include "cluster/view.h"
#include "log/batch.h"
#include "log/reclaim.h"
#include "log/segment.h"
#include "replication/antientropy.h"
#include "replication/pending.h"
#include "replication/set.h"
#include "replication/tombstone.h"
#include "timers/schedule.h"

#define RECLAIM_SLICE 1024 /* records looked at in a step */

void tr_timers_arm(struct tr_timers *timers, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    bool is_armed = tr_wheel_arm(&timers->wheel, ref, tr_book_due(&timers->book, ref));
    TR_ASSERT(is_armed); /* entries come from the arena's reserve */
    tr_book_set_state(&timers->book, ref, TR_STATE_ARMED);
}

void tr_timers_forget_entry(struct tr_timers *timers, tr_ref ref)
{
    if (tr_book_state(&timers->book, ref) == TR_STATE_ARMED)
        timers->stale++;
    else if (tr_book_state(&timers->book, ref) == TR_STATE_QUEUED)
        timers->pops->stats.queued--;
}

void tr_timers_count(struct tr_timers *timers, const struct tr_head *head, int by)
{
    TR_ASSERT(by == 1 || by == -1);
    uint64_t *count = (head->flags & TR_RECORD_TOMBSTONE) != 0        ? &timers->stats.tombstones
                      : (head->flags & TR_RECORD_DEAD) != 0           ? &timers->stats.dead
                      : head->key.part > 0 || head->order.attempt > 0 ? &timers->stats.debts
                                                                      : &timers->stats.timers;
    *count += (uint64_t)(int64_t)by;
    bool is_copy = head->replicas.count > 0 && head->replicas.members[0] != 0;
    if (is_copy && (head->flags & TR_RECORD_TOMBSTONE) == 0)
        timers->stats.copies += (uint64_t)(int64_t)by;
}

void tr_timers_strip(struct tr_record *record)
{
    record->interval_ms = 0;
    record->repeat_ms = 0;
    record->tag_count = 0;
    record->head.flags &= (uint8_t)~TR_RECORD_FIRED;
    record->head.instant_ms = 0;
    record->head.attempt = (struct tr_attempt){0};
    record->plan = (struct tr_span){"", 0};
    record->own = (struct tr_span){"", 0};
    record->uri = (struct tr_span){"", 0};
    record->opaque = (struct tr_span){"", 0};
    record->content_type = (struct tr_span){"", 0};
}

/* ---- entries of the log ---- */

static void touched(struct tr_timers *timers, tr_timer_id id)
{
    tr_antientropy_touched(timers->replication, tr_book_hash(id));
}

static void log_advice(struct tr_timers *timers, const struct tr_head *head, uint64_t fingerprint)
{
    if (head->attempt.at_ms == 0 && fingerprint == 0)
        return;
    tr_log_put_advice(tr_log_writer(timers->log), head, fingerprint);
    tr_log_appended(timers->log);
}

void tr_timers_log_record(struct tr_timers *timers, tr_ref ref, const struct tr_record *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_log *log = timers->log;
    touched(timers, record->head.key.id);
    if (!log->config.has_log)
        return;
    TR_ASSERT(log->is_extended || !tr_record_is_extended(record));
    tr_log_put_record(tr_log_writer(log), record);
    log_advice(timers, &record->head, record->head.fingerprint);
    tr_book_set_segment(&timers->book, ref, tr_log_appended_live(log, tr_log_size(record)));
}

void tr_timers_log_short(struct tr_timers *timers, const struct tr_head *head)
{
    TR_ASSERT((head->flags & TR_RECORD_TOMBSTONE) == 0);
    touched(timers, head->key.id);
    if (!timers->log->config.has_log)
        return;
    TR_ASSERT(timers->log->is_extended || head->instant_ms == 0);
    tr_log_put_short(tr_log_writer(timers->log), TR_LOG_SHORT, head);
    tr_log_appended(timers->log);
    log_advice(timers, head, 0);
}

void tr_timers_log_end(struct tr_timers *timers, enum tr_log_type type, const struct tr_head *head)
{
    TR_ASSERT(type == TR_LOG_TOMBSTONE || type == TR_LOG_DROP);
    touched(timers, head->key.id);
    if (!timers->log->config.has_log)
        return;
    tr_log_put_short(tr_log_writer(timers->log), type, head);
    tr_log_appended(timers->log);
}

void tr_timers_log_dead(struct tr_timers *timers, const struct tr_record *record)
{
    tr_log_is_dead(timers->log, record->head.segment, tr_log_size(record));
}

/* In the order of the book; all parts of a timer, which share its hash, in one step. */
void tr_timers_copy_oldest(struct tr_timers *timers, uint64_t *cursor)
{
    struct tr_index_walk walk = tr_index_seek(&timers->book.index, *cursor);
    for (unsigned i = 0;; i++) {
        tr_ref ref = TR_ARENA_NONE;
        if (!tr_index_next(&walk, &ref)) {
            *cursor = 0;
            return;
        }
        uint64_t hash = tr_book_hash(tr_book_id(&timers->book, ref));
        bool is_next = hash != *cursor;
        *cursor = hash;
        if (is_next && i >= tr_replication_slice(timers->replication, RECLAIM_SLICE))
            return;
        if (!tr_log_is_oldest(timers->log, tr_book_segment(&timers->book, ref)))
            continue;
        struct tr_record record;
        tr_book_unpack(&timers->book, ref, &record);
        if (!tr_log_begin_copy(timers->log, tr_log_record_bound(&record)))
            return;
        tr_timers_log_dead(timers, &record);
        tr_timers_log_record(timers, ref, &record);
        tr_log_end_copy(timers->log);
    }
}

/* ---- changing ---- */

/* Nobody needs to know that it ended. */
static void forget(struct tr_timers *timers, tr_ref ref, struct tr_record *record,
                   const struct tr_order *order)
{
    tr_timers_forget_entry(timers, ref);
    tr_timers_log_dead(timers, record);
    tr_timers_count(timers, &record->head, -1);
    record->head.order = *order;
    tr_timers_log_end(timers, TR_LOG_TOMBSTONE, &record->head);
    tr_book_remove(&timers->book, ref);
}

tr_ref tr_timers_end(struct tr_timers *timers, tr_ref ref, const struct tr_order *order)
{
    struct tr_record record;
    tr_book_unpack(&timers->book, ref, &record);
    TR_ASSERT(tr_order_compare(order, &record.head.order) > 0);
    if (!tr_tombstone_is_needed(timers->replication, &record.head)) {
        forget(timers, ref, &record, order);
        return TR_ARENA_NONE;
    }
    tr_timers_forget_entry(timers, ref);
    tr_timers_log_dead(timers, &record);
    tr_timers_count(timers, &record.head, -1);
    record.head.order = *order;
    bool is_keyed = (record.head.flags & TR_RECORD_KEYED) != 0;
    uint64_t keep_ms = tr_breaks(timers->trial, MUTANT_FORGET_AT_ONCE) ? 0 : TR_TOMBSTONE_MS;
    tr_set_end_move(&record.head);
    record.head.flags = (uint8_t)((record.head.flags & TR_RECORD_KEYED) | TR_RECORD_TOMBSTONE);
    record.head.due_ms =
        timers->time->steady_ms + (is_keyed ? timers->config.key_keep_ms : keep_ms);
    record.head.lag_ms = 0;
    tr_timers_strip(&record);
    ref = tr_book_replace(&timers->book, ref, &record);
    TR_ASSERT(ref != TR_ARENA_NONE); /* it is smaller, and has no text */
    tr_timers_log_record(timers, ref, &record);
    tr_timers_count(timers, &record.head, 1);
    tr_timers_arm(timers, ref);
    return ref;
}

bool tr_timers_put(struct tr_timers *timers, const struct tr_record *given, tr_ref *ref)
{
    struct tr_record old;
    struct tr_record dated;
    const struct tr_record *record = given;
    if (given->head.instant_ms != 0) {
        dated = *given;
        tr_schedule_by_wall(timers, given, &dated.head);
        record = &dated;
    }
    bool is_there = *ref != TR_ARENA_NONE;
    if (is_there)
        tr_book_unpack(&timers->book, *ref, &old);
    if ((record->head.flags & TR_RECORD_TOMBSTONE) != 0 &&
        !tr_tombstone_is_needed(timers->replication, &record->head)) {
        if (is_there)
            forget(timers, *ref, &old, &record->head.order);
        *ref = TR_ARENA_NONE;
        return true;
    }
    enum tr_record_state state = is_there ? tr_book_state(&timers->book, *ref) : TR_STATE_UNSAFE;
    TR_ASSERT(!is_there || tr_order_compare(&record->head.order, &old.head.order) >= 0);
    tr_ref placed = is_there ? tr_book_replace(&timers->book, *ref, record)
                             : tr_book_insert(&timers->book, record);
    if (placed == TR_ARENA_NONE)
        return false;
    *ref = placed;
    if (is_there) {
        timers->stale += state == TR_STATE_ARMED;
        timers->pops->stats.queued -= state == TR_STATE_QUEUED;
        tr_timers_log_dead(timers, &old);
        tr_timers_count(timers, &old.head, -1);
        /* Its texts may have been those of the place it had. */
        tr_book_unpack(&timers->book, placed, &old);
        record = &old;
    }
    tr_timers_log_record(timers, placed, record);
    tr_timers_count(timers, &record->head, 1);
    return true;
}

tr_ref tr_timers_put_head(struct tr_timers *timers, tr_ref ref, const struct tr_head *head)
{
    TR_ASSERT(head->replicas.count > 0);
    struct tr_record record;
    tr_book_unpack(&timers->book, ref, &record);
    record.head = *head;
    return tr_timers_put(timers, &record, &ref) ? ref : TR_ARENA_NONE;
}

tr_ref tr_timers_change(struct tr_timers *timers, tr_ref ref, const struct tr_head *before,
                        const struct tr_head *given)
{
    TR_ASSERT(tr_order_compare(&given->order, &before->order) > 0);
    struct tr_head dated = *given;
    const struct tr_head *head = &dated;
    if (given->instant_ms != 0) {
        struct tr_record record;
        tr_book_unpack(&timers->book, ref, &record);
        tr_schedule_by_wall(timers, &record, &dated);
    }
    tr_timers_forget_entry(timers, ref);
    tr_timers_count(timers, before, -1);
    tr_timers_count(timers, head, 1);
    ref = tr_book_update(&timers->book, ref, head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_timers_log_short(timers, head);
    tr_timers_arm(timers, ref);
    return ref;
}

void tr_timers_redate(struct tr_timers *timers, tr_ref ref, const struct tr_head *head)
{
    enum tr_record_state state = tr_book_state(&timers->book, ref);
    TR_ASSERT(state == TR_STATE_ARMED || state == TR_STATE_UNSAFE);
    uint8_t acked = tr_book_acked(&timers->book, ref);
    tr_timers_forget_entry(timers, ref);
    tr_ref placed = tr_book_update(&timers->book, ref, head);
    TR_ASSERT(placed != TR_ARENA_NONE); /* there is room for its lag to grow */
    tr_book_set_acked(&timers->book, placed, acked);
    if (state == TR_STATE_ARMED)
        tr_timers_arm(timers, placed);
    if (placed != ref)
        tr_pending_add(timers->replication, placed, head);
}

/* ---- letting go ---- */

void tr_timers_remove(struct tr_timers *timers, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_record record;
    tr_timers_forget_entry(timers, ref);
    tr_book_unpack(&timers->book, ref, &record);
    tr_timers_log_end(timers, TR_LOG_DROP, &record.head);
    tr_timers_log_dead(timers, &record);
    tr_timers_count(timers, &record.head, -1);
    tr_book_remove(&timers->book, ref);
}

/* ---- ids ---- */

/* 34 bits of milliseconds, 10 of identity, 20 of a counter that runs on. One that is in use, which
 * a client can bring about by PUT, is passed over. */
tr_timer_id tr_timers_draw(struct tr_timers *timers)
{
    uint64_t time = (timers->cluster->last_stamp >> 16) & (((uint64_t)1 << 34) - 1);
    for (;;) {
        uint32_t counter = timers->id_counter++ & 0xfffff;
        tr_timer_id id = time << 30 | (uint64_t)timers->config.identity << 20 | counter;
        struct tr_index_walk walk;
        if (tr_book_first(&timers->book, id, &walk) == TR_ARENA_NONE)
            return id;
        time = (time + (counter == 0)) & (((uint64_t)1 << 34) - 1);
    }
}

struct tr_timer_text tr_timers_text(const struct tr_timers *timers, tr_timer_id id, uint32_t factor)
{
    TR_ASSERT(factor <= TR_FACTOR_MAX);
    struct tr_timer_text text = {.id = id, .factor = factor};
    uint16_t list[TR_SET_MAX] = {0};
    unsigned count =
        tr_view_place(timers->cluster, id, tr_set_copies(timers->replication, factor), list);
    for (unsigned i = 0; i < count; i++)
        text.replicas |= timers->cluster->members[list[i]].replica_bits;
    return text;
}
