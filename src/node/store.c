/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping records, changing them and letting them go: in the book, in the log, in the wheel and in
 * the counts at once.
 */
#include "node/internal.h"

#define RECLAIM_SLICE 1024 /* records looked at in a step */

void tr_arm(struct tr_node *node, tr_ref ref)
{
    bool is_armed = tr_wheel_arm(&node->wheel, ref, tr_book_due(&node->book, ref));
    TR_ASSERT(is_armed); /* entries come from the arena's reserve */
    tr_book_set_state(&node->book, ref, TR_STATE_ARMED);
}

void tr_forget_entry(struct tr_node *node, tr_ref ref)
{
    if (tr_book_state(&node->book, ref) == TR_STATE_ARMED)
        node->stale++;
    else if (tr_book_state(&node->book, ref) == TR_STATE_QUEUED)
        node->stats.queued--;
}

void tr_count(struct tr_node *node, const struct tr_head *head, int by)
{
    uint64_t *count = (head->flags & TR_RECORD_TOMBSTONE) != 0        ? &node->stats.tombstones
                      : (head->flags & TR_RECORD_DEAD) != 0           ? &node->stats.dead
                      : head->key.part > 0 || head->order.attempt > 0 ? &node->stats.debts
                                                                      : &node->stats.timers;
    *count += (uint64_t)(int64_t)by;
    bool is_copy = head->replicas.count > 0 && head->replicas.members[0] != 0;
    if (is_copy && (head->flags & TR_RECORD_TOMBSTONE) == 0)
        node->stats.copies += (uint64_t)(int64_t)by;
}

void tr_strip(struct tr_record *record)
{
    record->interval_ms = 0;
    record->repeat_ms = 0;
    record->tag_count = 0;
    record->uri = (struct tr_span){"", 0};
    record->opaque = (struct tr_span){"", 0};
    record->content_type = (struct tr_span){"", 0};
}

/* ---- entries of the log ---- */

static void touched(struct tr_node *node, tr_timer_id id)
{
    tr_antientropy_touched(&node->replication, tr_book_hash(id));
}

void tr_store_log_record(struct tr_node *node, tr_ref ref, const struct tr_record *record)
{
    struct tr_log *log = &node->log;
    touched(node, record->head.key.id);
    if (!log->config.has_log)
        return;
    tr_log_put_record(tr_log_writer(log), record);
    tr_book_set_segment(&node->book, ref, tr_log_appended_live(log, tr_log_size(record)));
}

void tr_store_log_short(struct tr_node *node, const struct tr_head *head)
{
    touched(node, head->key.id);
    if (!node->log.config.has_log)
        return;
    tr_log_put_short(tr_log_writer(&node->log), TR_LOG_SHORT, head);
    tr_log_appended(&node->log);
}

void tr_store_log_end(struct tr_node *node, enum tr_log_type type, const struct tr_head *head)
{
    TR_ASSERT(type == TR_LOG_TOMBSTONE || type == TR_LOG_DROP);
    touched(node, head->key.id);
    if (!node->log.config.has_log)
        return;
    tr_log_put_short(tr_log_writer(&node->log), type, head);
    tr_log_appended(&node->log);
}

void tr_store_log_dead(struct tr_node *node, const struct tr_record *record)
{
    tr_log_is_dead(&node->log, record->head.segment, tr_log_size(record));
}

/* In the order of the book; all parts of a timer, which share its hash, in one step. */
void tr_store_copy_oldest(struct tr_node *node, uint64_t *cursor)
{
    struct tr_index_walk walk = tr_index_seek(&node->book.index, *cursor);
    for (unsigned i = 0;; i++) {
        tr_ref ref = TR_ARENA_NONE;
        if (!tr_index_next(&walk, &ref)) {
            *cursor = 0;
            return;
        }
        uint64_t hash = tr_book_hash(tr_book_id(&node->book, ref));
        bool is_next = hash != *cursor;
        *cursor = hash;
        if (is_next && i >= tr_replication_slice(&node->replication, RECLAIM_SLICE))
            return;
        if (!tr_log_is_oldest(&node->log, tr_book_segment(&node->book, ref)))
            continue;
        struct tr_record record;
        tr_book_unpack(&node->book, ref, &record);
        if (!tr_log_begin_copy(&node->log, tr_log_record_bound(&record)))
            return;
        tr_store_log_dead(node, &record);
        tr_store_log_record(node, ref, &record);
        tr_log_end_copy(&node->log);
    }
}

/* ---- changing ---- */

tr_ref tr_end(struct tr_node *node, tr_ref ref, const struct tr_order *order)
{
    struct tr_record record;
    tr_book_unpack(&node->book, ref, &record);
    bool is_kept = tr_is_clustered(node) ||
                   (record.head.key.part == 0 && (record.head.flags & TR_RECORD_KEYED) != 0);
    tr_forget_entry(node, ref);
    tr_store_log_dead(node, &record);
    tr_count(node, &record.head, -1);
    record.head.order.version = order->version;
    record.head.order.version_node = order->version_node;
    record.head.order.sequence = order->sequence;
    record.head.order.attempt = order->attempt;
    record.head.order.moves = order->moves;
    if (!is_kept) {
        tr_store_log_end(node, TR_LOG_TOMBSTONE, &record.head);
        tr_book_remove(&node->book, ref);
        return TR_ARENA_NONE;
    }
    bool is_keyed = (record.head.flags & TR_RECORD_KEYED) != 0;
    uint64_t keep_ms = tr_breaks(&node->trial, MUTANT_FORGET_AT_ONCE) ? 0 : TR_TOMBSTONE_MS;
    tr_set_drop_others(&record.head);
    record.head.flags = (uint8_t)((record.head.flags & TR_RECORD_KEYED) | TR_RECORD_TOMBSTONE);
    record.head.due_ms = node->time.steady_ms + (is_keyed ? node->config.key_keep_ms : keep_ms);
    record.head.lag_ms = 0;
    tr_strip(&record);
    ref = tr_book_replace(&node->book, ref, &record);
    TR_ASSERT(ref != TR_ARENA_NONE); /* it is smaller, and has no text */
    tr_store_log_record(node, ref, &record);
    tr_count(node, &record.head, 1);
    tr_arm(node, ref);
    return ref;
}

tr_ref tr_put(struct tr_node *node, const struct tr_record *record, tr_ref ref)
{
    struct tr_record old;
    bool is_there = ref != TR_ARENA_NONE;
    if (is_there)
        tr_book_unpack(&node->book, ref, &old);
    enum tr_record_state state = is_there ? tr_book_state(&node->book, ref) : TR_STATE_UNSAFE;
    tr_ref placed =
        is_there ? tr_book_replace(&node->book, ref, record) : tr_book_insert(&node->book, record);
    if (placed == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    if (is_there) {
        node->stale += state == TR_STATE_ARMED;
        node->stats.queued -= state == TR_STATE_QUEUED;
        tr_store_log_dead(node, &old);
        tr_count(node, &old.head, -1);
        /* Its texts may have been those of the place it had. */
        tr_book_unpack(&node->book, placed, &old);
        record = &old;
    }
    tr_store_log_record(node, placed, record);
    tr_count(node, &record->head, 1);
    return placed;
}

tr_ref tr_put_head(struct tr_node *node, tr_ref ref, const struct tr_head *head)
{
    struct tr_record record;
    tr_book_unpack(&node->book, ref, &record);
    record.head = *head;
    return tr_put(node, &record, ref);
}

tr_ref tr_change(struct tr_node *node, tr_ref ref, const struct tr_head *before,
                 const struct tr_head *head)
{
    tr_forget_entry(node, ref);
    tr_count(node, before, -1);
    tr_count(node, head, 1);
    ref = tr_book_update(&node->book, ref, head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_store_log_short(node, head);
    tr_arm(node, ref);
    return ref;
}

/* ---- letting go ---- */

void tr_forget(struct tr_node *node, tr_ref ref)
{
    struct tr_record record;
    tr_forget_entry(node, ref);
    tr_book_unpack(&node->book, ref, &record);
    tr_store_log_end(node, TR_LOG_DROP, &record.head);
    tr_store_log_dead(node, &record);
    tr_count(node, &record.head, -1);
    tr_book_remove(&node->book, ref);
}
