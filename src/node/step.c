/* SPDX-License-Identifier: Apache-2.0 */
/* The step: an event goes to the room that it is for, and then each room does what is to be
 * done. */
#include "cluster/clock.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "cluster/view.h"
#include "kv/expire.h"
#include "kv/store.h"
#include "log/batch.h"
#include "log/reclaim.h"
#include "log/segment.h"
#include "node/durable.h"
#include "node/members.h"
#include "node/parts.h"
#include "node/peers.h"
#include "node/recover.h"
#include "pops/claim.h"
#include "pops/destination.h"
#include "pops/flight.h"
#include "quorum/coordinate.h"
#include "quorum/handover.h"
#include "quorum/replica.h"
#include "quorum/strays.h"
#include "quorum/target.h"
#include "replication/catchup.h"
#include "replication/operation.h"
#include "replication/rebalance.h"
#include "timers/due.h"
#include "timers/outcome.h"
#include "timers/request.h"
#include "timers/schedule.h"

#define CLOCK_STEP_MS 2    /* wall and steady time differ by less through rounding alone */
#define DRAIN_MS      3000 /* others have this long to hear the last */

static void set_clock(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    TR_ASSERT(event->wall_ms <= TR_TIME_MAX);
    if (!node->has_clock) {
        node->has_clock = true;
        node->time.steady_base = event->wall_ms - event->now_ms;
    }
    node->time.now_ms = event->now_ms > node->time.now_ms ? event->now_ms : node->time.now_ms;
    node->time.wall_ms = event->wall_ms;
    node->time.steady_ms = node->time.now_ms + node->time.steady_base;
    if (node->phase != PHASE_READY && node->phase != PHASE_DRAINING)
        return;
    int64_t offset = (int64_t)(node->time.wall_ms - node->time.steady_ms);
    int64_t change = offset - node->log.offset_ms;
    if ((change <= -CLOCK_STEP_MS || change >= CLOCK_STEP_MS) &&
        tr_log_number(&node->log, TR_LOG_OFFSET, (uint64_t)offset)) {
        node->log.offset_ms = offset;
        tr_note(out, TR_NOTE_CLOCK_STEPPED, 0, (uint64_t)offset);
        tr_schedule_clock_set(&node->timers);
    }
}

static void drain(struct tr_node *node, struct tr_effects *out)
{
    TR_ASSERT(node->phase == PHASE_DRAINING && !node->log.is_running);
    bool is_done = node->replication.operation_count == 0 && node->quorum.operation_count == 0 &&
                   tr_peers_have_all(node);
    if (node->pops.flight_count > 0)
        node->drain_ms = node->time.now_ms; /* their outcomes are yet to be sent */
    if (node->pops.flight_count > 0 || !tr_log_is_idle(&node->log) || !tr_effects_has_room(out, 1))
        return;
    if (!is_done && node->time.now_ms < node->drain_ms + DRAIN_MS)
        return;
    if (!node->is_stop_logged && node->config.has_log) {
        node->is_stop_logged = true;
        tr_log_number(&node->log, TR_LOG_CLEAN_STOP, 0);
        tr_log_run(&node->log, true, out);
        return;
    }
    node->phase = PHASE_STOPPED;
    tr_cover(&node->trial, RULE_DRAINED);
    tr_effects_push(out, TR_EFFECT_STOPPED);
}

/* Ready when there is a segment to write to, or the disk has said that there will be none. */
static void open_log(struct tr_node *node, struct tr_effects *out)
{
    TR_ASSERT(node->phase == PHASE_OPENING);
    tr_log_run(&node->log, true, out);
    bool is_open =
        !node->config.has_log || node->log.allocated >= node->log.segment + node->config.has_spare;
    if (!tr_effects_has_room(out, 1) || (!is_open && !node->log.is_refused))
        return;
    node->phase = PHASE_READY;
    node->ready_ms = node->time.now_ms;
    node->had_keys = node->kv.book.index.count > 0;
    node->timers.is_ready = true;
    tr_schedule_clock_set(&node->timers); /* it may have been set meanwhile */
    node->log.is_running = true;
    node->log.started = node->log.segment;
    tr_effects_push(out, TR_EFFECT_RECOVERED);
}

static void configure(struct tr_node *node, const struct tr_node_config *config)
{
    TR_ASSERT(config->per_destination > 0);
    struct tr_timers_config *timers = &node->timers.config;
    timers->attempts_max = config->attempts_max;
    timers->backoff_ms = config->backoff_ms;
    timers->dead_keep_ms = config->dead_keep_ms;
    timers->key_keep_ms = config->key_keep_ms;
    timers->latency_target_ms = config->latency_target_ms;
    node->pops.config.per_destination = config->per_destination;
    node->replication.config.keyed_keep_ms = config->key_keep_ms;
    node->replication.config.tombstone_keep_ms = config->tombstone_keep_ms;
}

static void run_cluster(struct tr_node *node, struct tr_effects *out)
{
    TR_ASSERT(node->phase == PHASE_READY || node->phase == PHASE_DRAINING);
    tr_members_run(node, out);
    if (node->cluster.view.count == 0)
        return; /* whom it is to hear from is not known yet */
    tr_members_log(&node->cluster);
    tr_catchup_mind_log(&node->replication);
    if (!tr_replication_is_popping(&node->replication) && node->phase == PHASE_READY &&
        !node->log.is_exhausted)
        tr_catchup_run(&node->replication);
    tr_operations_run(&node->replication, out);
    tr_claim_run(&node->pops);
    if (node->phase == PHASE_READY) {
        tr_rebalance_run(&node->replication, out);
        tr_strays_run(&node->quorum);
    }
}

/* Others hear of the pops under way here before they hear that it makes no more of them. */
static void ask_drain(struct tr_node *node, struct tr_effects *out)
{
    if (node->phase < PHASE_READY) { /* nothing has begun that could be left undone */
        node->phase = PHASE_STOPPED;
        tr_effects_push(out, TR_EFFECT_STOPPED);
    } else if (node->phase == PHASE_READY) {
        node->phase = PHASE_DRAINING;
        node->timers.is_stopping = true;
        node->kv.is_stopping = true;
        node->log.is_running = false;
        node->drain_ms = node->time.now_ms;
        tr_claim_flights(&node->pops);
        tr_destinations_recall(&node->pops); /* nobody waits for what is not made any more */
        tr_peers_beat_now(&node->cluster);
    }
    node->timers.is_sweeping = false;
    node->timers.is_looking = false;
    node->log.is_reclaiming = false;
    node->log.is_removing = false;
}

static void run_pops(struct tr_node *node, struct tr_effects *out)
{
    TR_ASSERT(node->phase == PHASE_READY && node->log.is_running);
    tr_destinations_run(&node->pops, out);
    tr_schedule_run(&node->timers, out);
    tr_due_run(&node->timers, out);
}

static void handle(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    switch (event->kind) {
    case TR_EVENT_TICK:
        return;
    case TR_EVENT_RECOVERY_STARTED:
        tr_recovery_start(node, event, out);
        return;
    case TR_EVENT_REQUEST_RECEIVED:
        tr_request_received(&node->timers, event, out);
        return;
    case TR_EVENT_CALLBACK_ENDED:
        tr_flight_ended(&node->pops, event);
        return;
    case TR_EVENT_LOG_WRITTEN:
        tr_log_written(&node->log, event->of.log.written, event->of.log.synced);
        return;
    case TR_EVENT_SEGMENT_ALLOCATED:
        tr_log_segment_allocated(&node->log, event->of.segment.number, out);
        return;
    case TR_EVENT_SEGMENT_REFUSED:
        tr_log_segment_refused(&node->log, out);
        return;
    case TR_EVENT_DRAIN_ASKED:
        ask_drain(node, out);
        return;
    case TR_EVENT_REBALANCE_ASKED:
        tr_rebalance_asked(&node->replication);
        return;
    case TR_EVENT_CONFIGURED:
        configure(node, event->of.config);
        return;
    case TR_EVENT_ZONES_CHANGED:
        tr_schedule_zones_changed(&node->timers);
        return;
    case TR_EVENT_VIEW_CHANGED:
        tr_membership_configure(&node->membership, event->of.view.nodes, event->of.view.count);
        return;
    case TR_EVENT_LINK_UP:
        tr_peer_link_up(&node->cluster, event->of.frame.peer);
        return;
    case TR_EVENT_LINK_DOWN:
        tr_peer_link_down(&node->cluster, event->of.frame.peer);
        return;
    case TR_EVENT_FRAME_RECEIVED:
        tr_frame_received(node, event, out);
        return;
    case TR_EVENT_FRAME_SENT:
        tr_peer_frame_sent(&node->cluster, event->of.frame.peer);
        return;
    }
}

/* What answers of the step before referred to. */
static void give_reads(struct tr_node *node)
{
    TR_ASSERT(node->replication.read_count <= TR_READS_MAX);
    while (node->replication.read_count > 0)
        tr_arena_give(&node->arena, node->replication.read[--node->replication.read_count]);
    while (node->quorum.spent_count > 0)
        tr_arena_give(&node->arena, node->quorum.spent[--node->quorum.spent_count]);
}

/* What comes many times in a turn. */
static bool is_short_work(enum tr_event_kind kind)
{
    return kind == TR_EVENT_REQUEST_RECEIVED || kind == TR_EVENT_FRAME_RECEIVED ||
           kind == TR_EVENT_FRAME_SENT;
}

/* Others count on this node for keys, or do so no more: another may be the first of a list. */
static void look_at_own_health(struct tr_node *node)
{
    bool is_taking = node->replication.is_serving && tr_quorum_is_healthy(&node->quorum, 0);
    if (is_taking == node->was_taking_keys)
        return;
    node->was_taking_keys = is_taking;
    tr_handover_look(&node->quorum);
}

void tr_node_step(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    out->count = 0;
    node->cluster.frames_size = 0;
    give_reads(node);
    set_clock(node, event, out);
    tr_catchup_notice(&node->replication, out);
    handle(node, event, out);
    if (node->phase == PHASE_REPLAYING)
        tr_recovery_run(node, out);
    if (node->phase == PHASE_OPENING)
        open_log(node, out);
    /* In the middle of a turn the rest of the work is left to the turn's end. */
    bool is_brief = event->has_more && is_short_work(event->kind);
    bool is_running = node->phase == PHASE_READY || node->phase == PHASE_DRAINING;
    if (is_running && !is_brief) {
        tr_outcome_run(&node->timers, out);
        run_cluster(node, out);
    }
    if (is_running) {
        look_at_own_health(node);
        tr_durable_run(node, out);
        tr_replica_run(&node->quorum, out);
        tr_quorum_run(&node->quorum, out);
    }
    /* After all that may replace a record: what is handed out must still be there. */
    if (node->phase == PHASE_READY && !is_brief) {
        run_pops(node, out);
        tr_due_sweep(&node->timers);
        tr_kv_expire_run(&node->kv);
        tr_kv_flush_run(&node->kv);
        tr_log_reclaim(&node->log, out);
    }
    if (is_running) {
        /* The batch that is handed out here must not be written to any more in this step. */
        tr_log_run(&node->log, !event->has_more, out);
        /* Others wait for what has become durable; the rest goes with the turn's end. */
        if (!event->has_more || event->kind == TR_EVENT_LOG_WRITTEN)
            tr_peers_run(node, event->has_more, out);
    }
    if (node->phase == PHASE_DRAINING)
        drain(node, out);
    tr_mono_ms wake = event->has_more ? node->time.now_ms : tr_node_wake_at(node);
    node->replication.wake_ms = wake > node->time.now_ms ? wake : node->time.now_ms;
}

static tr_mono_ms cluster_wake_at(const struct tr_node *node)
{
    tr_mono_ms peers = tr_peers_wake_at(node);
    tr_mono_ms operations = tr_operations_wake_at(&node->replication);
    tr_mono_ms catchup = tr_catchup_wake_at(&node->replication);
    tr_mono_ms claims = tr_claim_wake_at(&node->pops);
    tr_mono_ms wake = peers < operations ? peers : operations;
    wake = claims < wake ? claims : wake;
    if (!node->is_stop_logged && node->membership.look_ms < wake)
        wake = node->membership.look_ms;
    tr_mono_ms keys = tr_quorum_wake_at(&node->quorum);
    wake = keys < wake ? keys : wake;
    tr_mono_ms strays = tr_strays_wake_at(&node->quorum);
    wake = strays < wake ? strays : wake;
    tr_mono_ms rebalance = tr_rebalance_wake_at(&node->replication);
    wake = rebalance < wake ? rebalance : wake;
    return wake < catchup ? wake : catchup;
}

tr_mono_ms tr_node_wake_at(const struct tr_node *node)
{
    if (node->phase == PHASE_REPLAYING)
        return node->time.now_ms;
    if (node->phase != PHASE_READY && node->phase != PHASE_DRAINING)
        return TR_NEVER;
    if (node->timers.is_sweeping || tr_log_wants_tick(&node->log) ||
        tr_destinations_want_tick(&node->pops))
        return node->time.now_ms;
    tr_mono_ms wake = tr_due_wake_at(&node->timers);
    tr_mono_ms schedule = tr_schedule_wake_at(&node->timers);
    wake = schedule < wake ? schedule : wake;
    tr_mono_ms cluster = cluster_wake_at(node);
    wake = cluster < wake ? cluster : wake;
    tr_mono_ms keys = tr_kv_wake_at(&node->kv);
    wake = keys < wake ? keys : wake;
    tr_mono_ms log = tr_log_wake_at(&node->log);
    return log < wake ? log : wake;
}
