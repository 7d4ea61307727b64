/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/replay.h"

#include "cluster/member.h"
#include "log/batch.h"
#include "log/reclaim.h"
#include "log/segment.h"
#include "replication/set.h"
#include "timers/store.h"
#include "wire/plan.h"

#define ARM_SLICE   16384 /* records armed in a step */
#define RECORD_ROOM 2048  /* of a batch, beside the largest record */

/* A log that was repaired may have lost the names of nodes: what it says of them is of no use. Nor
 * is what no node would have written. */
static void forget_strangers(const struct tr_timers *timers, struct tr_record *record)
{
    bool is_known = record->head.replicas.count > 0 && tr_set_is_sound(&record->head);
    for (unsigned i = 0; i < record->head.replicas.count; i++)
        is_known &= tr_member_is_named(timers->cluster, record->head.replicas.members[i]);
    for (unsigned i = 0; i < record->head.from.count; i++)
        is_known &= tr_member_is_named(timers->cluster, record->head.from.members[i]);
    if (is_known)
        return;
    record->head.replicas.count = 1;
    record->head.replicas.members[0] = 0;
    record->head.from.count = 0;
    record->head.from.gone = 0;
    record->head.flags &= (uint8_t)~TR_RECORD_MOVING;
}

/* To what a node would have written. */
static void bound_numbers(struct tr_head *head)
{
    head->factor = head->factor > 0 ? head->factor : 1;
    head->lag_ms = head->lag_ms < head->due_ms ? head->lag_ms : head->due_ms;
    head->order.moves = head->order.moves < UINT32_MAX / 2 ? head->order.moves : 0;
}

static void apply_record(struct tr_timers *timers, struct tr_record *record, uint64_t segment,
                         bool *is_full)
{
    TR_ASSERT(record->head.replicas.count <= TR_SET_MAX);
    struct tr_record held;
    tr_ref ref = tr_book_find(&timers->book, &record->head.key);
    forget_strangers(timers, record);
    bound_numbers(&record->head);
    timers->log->is_extended |= tr_record_is_extended(record);
    record->head.segment = (uint32_t)(segment & 0xffffff);
    if (ref != TR_ARENA_NONE) {
        tr_book_unpack(&timers->book, ref, &held);
        struct tr_order old = held.head.order;
        struct tr_order new = record->head.order;
        if (tr_order_compare(&old, &new) > 0)
            return;
    }
    tr_ref placed = ref != TR_ARENA_NONE ? tr_book_replace(&timers->book, ref, record)
                                         : tr_book_insert(&timers->book, record);
    *is_full = placed == TR_ARENA_NONE;
    if (*is_full)
        return;
    if (ref != TR_ARENA_NONE) {
        tr_timers_log_dead(timers, &held);
        tr_timers_count(timers, &held.head, -1);
    }
    *tr_log_live_of(timers->log, segment) += 1;
    timers->log->live_bytes += tr_log_size(record);
    tr_timers_count(timers, &record->head, 1);
}

/* The record held under the key of an entry, if it is not above the entry's order. */
static tr_ref find_held(struct tr_timers *timers, const struct tr_head *head,
                        struct tr_record *held)
{
    tr_ref ref = tr_book_find(&timers->book, &head->key);
    if (ref == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    tr_book_unpack(&timers->book, ref, held);
    return tr_order_compare(&held->head.order, &head->order) > 0 ? TR_ARENA_NONE : ref;
}

static void apply_short(struct tr_timers *timers, const struct tr_head *head)
{
    struct tr_record held;
    tr_ref ref = find_held(timers, head, &held);
    if (ref == TR_ARENA_NONE || held.head.order.version != head->order.version)
        return;
    timers->log->is_extended |= head->instant_ms != 0;
    tr_timers_count(timers, &held.head, -1);
    ref = tr_book_update(&timers->book, ref, head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    held.head.flags = head->flags;
    held.head.order.attempt = head->order.attempt;
    tr_timers_count(timers, &held.head, 1);
}

/* How its last attempt ended, and which body its key came with. */
static void apply_advice(struct tr_timers *timers, const struct tr_record *advice)
{
    struct tr_record held;
    tr_ref ref = tr_book_find(&timers->book, &advice->head.key);
    if (ref == TR_ARENA_NONE)
        return;
    tr_book_unpack(&timers->book, ref, &held);
    if (!tr_is_same_write(&held.head, &advice->head))
        return;
    if (tr_order_compare(&held.head.order, &advice->head.order) == 0)
        held.head.attempt = advice->head.attempt;
    if (advice->head.fingerprint != 0)
        held.head.fingerprint = advice->head.fingerprint;
    tr_book_replace(&timers->book, ref, &held); /* without room it is forgotten */
}

static void apply_end(struct tr_timers *timers, const struct tr_head *head)
{
    struct tr_record held;
    tr_ref ref = find_held(timers, head, &held);
    if (ref == TR_ARENA_NONE)
        return;
    tr_timers_log_dead(timers, &held);
    tr_timers_count(timers, &held.head, -1);
    tr_book_remove(&timers->book, ref);
}

enum tr_log_verdict tr_replay_entry(struct tr_timers *timers, struct tr_log_entry *entry,
                                    uint64_t segment)
{
    TR_ASSERT(entry->type != TR_LOG_MEMBER);
    bool is_full = false;
    if (entry->type == TR_LOG_SHORT) {
        apply_short(timers, &entry->record.head);
        return TR_LOG_SOUND;
    }
    if (entry->type == TR_LOG_ADVICE) {
        apply_advice(timers, &entry->record);
        return TR_LOG_SOUND;
    }
    if (entry->type != TR_LOG_RECORD) {
        apply_end(timers, &entry->record.head);
        return TR_LOG_SOUND;
    }
    uint64_t version = entry->record.head.order.version;
    struct tr_plan plan;
    struct tr_own own;
    if (!tr_plan_get(entry->record.plan, &plan) || !tr_own_get(entry->record.own, &own))
        return TR_LOG_DAMAGED;
    timers->cluster->last_stamp =
        version > timers->cluster->last_stamp ? version : timers->cluster->last_stamp;
    if (tr_log_record_bound(&entry->record) + RECORD_ROOM > timers->log->config.batch_cap)
        return TR_LOG_TOO_LARGE;
    apply_record(timers, &entry->record, segment, &is_full);
    return is_full ? TR_LOG_NO_MEMORY : TR_LOG_SOUND;
}

/* Arms every record, once: only now is it known what each came to. In the order of memory, which is
 * about that of their making, and fast. False: not done yet. */
bool tr_replay_arm(struct tr_timers *timers, bool *has_memory)
{
    TR_ASSERT(!timers->is_ready);
    *has_memory = true;
    for (unsigned i = 0; i < tr_replication_slice(timers->replication, ARM_SLICE); i++) {
        tr_ref ref = tr_arena_next_of(timers->arena, TR_ARENA_RECORD, timers->armed);
        if (ref == TR_ARENA_NONE)
            return true;
        *has_memory = tr_wheel_arm(&timers->wheel, ref, tr_book_due(&timers->book, ref));
        if (!*has_memory)
            return true;
        tr_book_set_state(&timers->book, ref, TR_STATE_ARMED);
        timers->armed = ref;
    }
    return false;
}
