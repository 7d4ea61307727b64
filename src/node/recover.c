/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay of the log brings back: the members, and the records, each by its order. */
#include "node/internal.h"

#define ARM_SLICE   16384 /* records armed in a step */
#define RECORD_ROOM 2048  /* of a batch, beside the largest record */

static void refuse_log(struct tr_node *node, struct tr_log_check check, struct tr_effects *out)
{
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_REFUSED);
    effect->of.check = check;
    node->phase = PHASE_REFUSED;
}

void tr_recovery_start(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    TR_ASSERT(node->phase == PHASE_NEW);
    node->phase = PHASE_REPLAYING;
    struct tr_log_check check =
        tr_log_recover(&node->log, event->of.recovery.segments, event->of.recovery.count, out);
    if (check.verdict != TR_LOG_SOUND && check.verdict != TR_LOG_TORN) {
        refuse_log(node, check, out);
        return;
    }
    struct tr_time *time = &node->time;
    time->steady_base = time->wall_ms - (uint64_t)node->log.offset_ms - time->now_ms;
    time->steady_ms = time->now_ms + time->steady_base;
    tr_wheel_init(&node->wheel, &node->arena, time->steady_ms);
}

/* A log that was repaired may have lost the names of nodes: what it says of them is of no use. */
static void forget_strangers(const struct tr_node *node, struct tr_record *record)
{
    bool is_known = true;
    for (unsigned i = 0; i < record->head.replicas.count; i++)
        is_known &= tr_member_is_named(&node->cluster, record->head.replicas.members[i]);
    for (unsigned i = 0; i < record->head.from.count; i++)
        is_known &= tr_member_is_named(&node->cluster, record->head.from.members[i]);
    if (is_known)
        return;
    record->head.replicas.count = 1;
    record->head.replicas.members[0] = 0;
    record->head.from.count = 0;
    record->head.from.gone = 0;
    record->head.flags &= (uint8_t)~TR_RECORD_MOVING;
}

static void apply_record(struct tr_node *node, struct tr_record *record, uint64_t segment,
                         bool *is_full)
{
    struct tr_record held;
    tr_ref ref = tr_book_find(&node->book, &record->head.key);
    forget_strangers(node, record);
    record->head.segment = (uint32_t)(segment & 0xffffff);
    if (ref != TR_ARENA_NONE) {
        tr_book_unpack(&node->book, ref, &held);
        struct tr_order old = held.head.order;
        struct tr_order new = record->head.order;
        if (tr_order_compare(&old, &new) > 0)
            return;
        tr_store_log_dead(node, &held);
        tr_count(node, &held.head, -1);
        ref = tr_book_replace(&node->book, ref, record);
    } else {
        ref = tr_book_insert(&node->book, record);
    }
    *is_full = ref == TR_ARENA_NONE;
    if (*is_full)
        return;
    *tr_log_live_of(&node->log, segment) += 1;
    node->log.live_bytes += tr_log_size(record);
    tr_count(node, &record->head, 1);
}

/* The record held under the key of an entry, if it is not above the entry's order. */
static tr_ref find_held(struct tr_node *node, const struct tr_head *head, struct tr_record *held)
{
    tr_ref ref = tr_book_find(&node->book, &head->key);
    if (ref == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    tr_book_unpack(&node->book, ref, held);
    return tr_order_compare(&held->head.order, &head->order) > 0 ? TR_ARENA_NONE : ref;
}

static void apply_short(struct tr_node *node, const struct tr_head *head)
{
    struct tr_record held;
    tr_ref ref = find_held(node, head, &held);
    if (ref == TR_ARENA_NONE || held.head.order.version != head->order.version)
        return;
    tr_count(node, &held.head, -1);
    ref = tr_book_update(&node->book, ref, head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    held.head.flags = head->flags;
    held.head.order.attempt = head->order.attempt;
    tr_count(node, &held.head, 1);
}

static void apply_end(struct tr_node *node, const struct tr_head *head)
{
    struct tr_record held;
    tr_ref ref = find_held(node, head, &held);
    if (ref == TR_ARENA_NONE)
        return;
    tr_store_log_dead(node, &held);
    tr_count(node, &held.head, -1);
    tr_book_remove(&node->book, ref);
}

static enum tr_log_verdict apply(void *context, struct tr_log_entry *entry, uint64_t segment)
{
    struct tr_node *node = context;
    bool is_full = false;
    if (entry->type == TR_LOG_SHORT) {
        apply_short(node, &entry->record.head);
        return TR_LOG_SOUND;
    }
    if (entry->type != TR_LOG_RECORD) {
        apply_end(node, &entry->record.head);
        return TR_LOG_SOUND;
    }
    uint64_t version = entry->record.head.order.version;
    node->cluster.last_stamp =
        version > node->cluster.last_stamp ? version : node->cluster.last_stamp;
    if (tr_log_record_bound(&entry->record) + RECORD_ROOM > node->log.config.batch_cap)
        return TR_LOG_TOO_LARGE;
    apply_record(node, &entry->record, segment, &is_full);
    return is_full ? TR_LOG_NO_MEMORY : TR_LOG_SOUND;
}

static void set_member(void *context, uint16_t index, struct tr_span address)
{
    struct tr_node *node = context;
    tr_member_set(&node->cluster, index, address);
}

static uint32_t put_members(void *context, struct tr_writer *writer)
{
    const struct tr_node *node = context;
    for (uint32_t i = 0; i < node->cluster.member_count; i++)
        tr_put_span(writer, tr_member_address(&node->cluster, (uint16_t)i));
    return node->cluster.member_count;
}

static void copy_oldest(void *context, uint64_t *cursor)
{
    tr_store_copy_oldest(context, cursor);
}

void tr_recovery_hooks(struct tr_node *node)
{
    node->log.hooks = (struct tr_log_hooks){
        .context = node,
        .put_members = put_members,
        .set_member = set_member,
        .apply = apply,
        .copy_oldest = copy_oldest,
    };
}

/* Arms every record, once: only now is it known what each came to. In the order of memory, which is
 * about that of their making, and fast. False: not done yet. */
static bool arm_all(struct tr_node *node)
{
    for (unsigned i = 0; i < tr_replication_slice(&node->replication, ARM_SLICE); i++) {
        tr_ref ref = tr_arena_next_record(&node->arena, node->armed);
        if (ref == TR_ARENA_NONE)
            return true;
        tr_arm(node, ref);
        node->armed = ref;
    }
    return false;
}

/* Everything is replayed: begins the segment of this start. */
static void finish(struct tr_node *node, struct tr_effects *out)
{
    struct tr_log *log = &node->log;
    tr_members_complete(&node->cluster);
    node->cluster.last_stamp =
        node->cluster.last_stamp > log->ceiling ? node->cluster.last_stamp : log->ceiling;
    tr_log_begin(log, tr_random_next(&node->random), node->config.store_id, out);
    node->id_counter = (uint32_t)tr_random_below(&node->random, 1u << 20);
    node->cluster.members_logged =
        node->cluster.member_count; /* in the header of the segment that begins */
    node->phase = PHASE_OPENING;
}

void tr_recovery_run(struct tr_node *node, struct tr_effects *out)
{
    struct tr_log_check check = tr_log_replay(&node->log);
    if (check.verdict != TR_LOG_SOUND) {
        refuse_log(node, check, out);
        return;
    }
    if (tr_log_is_replayed(&node->log) && tr_effects_has_room(out, 8) && arm_all(node))
        finish(node, out);
}
