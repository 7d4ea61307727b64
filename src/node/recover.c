/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay of the log brings back: the members, and the records, each by its order. */
#include "node/recover.h"

#include "cluster/member.h"
#include "cluster/roster_log.h"
#include "kv/expire.h"
#include "kv/replay.h"
#include "kv/store.h"
#include "log/batch.h"
#include "log/recovery.h"
#include "node/parts.h"
#include "timers/replay.h"
#include "timers/store.h"

static void refuse_log(struct tr_node *node, struct tr_log_check check, struct tr_effects *out)
{
    TR_ASSERT(check.verdict != TR_LOG_SOUND);
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
    tr_wheel_init(&node->timers.wheel, &node->arena, time->steady_ms);
    tr_wheel_init(&node->kv.wheel, &node->arena, time->steady_ms);
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

static enum tr_log_verdict apply_once(struct tr_node *node, struct tr_log_entry *entry,
                                      uint64_t segment)
{
    if (entry->type == TR_LOG_ROSTER || entry->type == TR_LOG_HEEDED)
        return tr_roster_log_restore(&node->membership, entry, segment) ? TR_LOG_SOUND
                                                                        : TR_LOG_DAMAGED;
    if (entry->type >= TR_LOG_KEY)
        return tr_kv_replay(&node->kv, entry, segment);
    return tr_replay_entry(&node->timers, entry, segment);
}

/* What ran in this memory is to start in it: keys that had expired by then make room; then half of
 * the arena's reserve serves, as it did for callbacks of keys that expired when memory was full. */
static enum tr_log_verdict apply(void *context, struct tr_log_entry *entry, uint64_t segment)
{
    struct tr_node *node = context;
    enum tr_log_verdict verdict = apply_once(node, entry, segment);
    if (verdict == TR_LOG_NO_MEMORY && tr_kv_drop_expired(&node->kv))
        verdict = apply_once(node, entry, segment);
    if (verdict == TR_LOG_NO_MEMORY) {
        tr_arena_lend(&node->arena);
        verdict = apply_once(node, entry, segment);
        tr_arena_give_back(&node->arena);
    }
    return verdict;
}

static void copy_oldest(void *context, uint64_t *cursor)
{
    struct tr_node *node = context;
    if (!tr_roster_log_copy(&node->membership))
        return;
    if (!node->is_copying_keys) {
        tr_timers_copy_oldest(&node->timers, cursor);
        node->is_copying_keys = *cursor == 0;
    } else {
        node->is_copying_keys = !tr_kv_copy_oldest(&node->kv, cursor);
    }
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

/* Everything is replayed: begins the segment of this start. */
static void finish(struct tr_node *node, struct tr_effects *out)
{
    TR_ASSERT(node->phase == PHASE_REPLAYING && tr_log_is_replayed(&node->log));
    struct tr_log *log = &node->log;
    tr_members_complete(&node->cluster);
    node->cluster.last_stamp =
        node->cluster.last_stamp > log->ceiling ? node->cluster.last_stamp : log->ceiling;
    tr_log_begin(log, tr_random_next(&node->random), node->config.store_id, out);
    tr_kv_begin(&node->kv);
    node->timers.id_counter = (uint32_t)tr_random_below(&node->random, 1u << 20);
    node->cluster.members_logged =
        node->cluster.member_count; /* in the header of the segment that begins */
    node->is_view_due = node->membership.roster->epoch > 0;
    node->phase = PHASE_OPENING;
}

/* Keys first: those that have expired go, and timers must have the memory to be armed. */
static void arm(struct tr_node *node, struct tr_effects *out)
{
    bool has_memory = true;
    bool is_armed = tr_kv_arm_all(&node->kv, &has_memory);
    if (is_armed && has_memory)
        is_armed = tr_replay_arm(&node->timers, &has_memory);
    if (!has_memory)
        refuse_log(node, (struct tr_log_check){.verdict = TR_LOG_NO_MEMORY}, out);
    else if (is_armed)
        finish(node, out);
}

void tr_recovery_run(struct tr_node *node, struct tr_effects *out)
{
    TR_ASSERT(node->phase == PHASE_REPLAYING);
    struct tr_log_check check = tr_log_replay(&node->log);
    if (check.verdict != TR_LOG_SOUND) {
        refuse_log(node, check, out);
        return;
    }
    if (tr_log_is_replayed(&node->log) && tr_effects_has_room(out, 8))
        arm(node, out);
}
