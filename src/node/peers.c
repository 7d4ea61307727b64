/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers.h"

#include "cluster/gossip.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "node/parts.h"
#include "pops/claim.h"
#include "quorum/coordinate.h"
#include "quorum/exchange.h"
#include "quorum/handover.h"
#include "quorum/mail.h"
#include "quorum/replica.h"
#include "quorum/strays.h"
#include "quorum/target.h"
#include "replication/antientropy.h"
#include "replication/encode.h"
#include "replication/operation.h"
#include "replication/pending.h"
#include "replication/rebalance.h"
#include "replication/receive.h"
#include "replication/walk.h"
#include "timers/samples.h"

#define DISK_FULL 100 /* per cent */

/* ---- what heartbeats say ---- */

/* Whether this node may send another one what is pending for it, and say that there is more. A node
 * that has not caught up may not; but to one that missed something it was sent before, it may. */
static bool may_say_more(const struct tr_node *node, uint16_t index)
{
    TR_ASSERT(index != 0 && index < node->cluster.member_count);
    return tr_replication_is_popping(&node->replication) ||
           (node->replication.is_serving && node->replication.progress[index].has_missed);
}

/* Whether a node that catches up has yet to hear something from this one. */
static bool has_more_for(struct tr_node *node, uint16_t index)
{
    TR_ASSERT(index != 0 && index < node->cluster.member_count);
    const struct tr_peer *peer = &node->cluster.peers[index];
    const struct tr_progress *progress = &node->replication.progress[index];
    bool is_starting = (peer->flags & TR_BEAT_READY) == 0;
    bool has_missed = progress->has_missed && !tr_breaks(&node->trial, MUTANT_DEAF);
    bool is_early = node->time.now_ms < progress->early_until_ms;
    return progress->walk != WALK_NOT || node->pops.is_claiming_all ||
           (is_starting && (peer->count > 0 || is_early)) ||
           (has_missed && !tr_pending_is_empty(&node->replication, index));
}

static uint8_t beat_flags(struct tr_node *node, uint16_t index)
{
    TR_ASSERT(index != 0 && index < node->cluster.member_count);
    const struct tr_peer *peer = &node->cluster.peers[index];
    bool is_known = !tr_peer_knows_more(&node->cluster, index); /* else it is not counted on */
    bool is_popping =
        tr_replication_is_popping(&node->replication) && node->phase == PHASE_READY && is_known;
    bool is_serving = node->replication.is_serving && is_known;
    bool has_backlog = peer->version >= 2 && tr_claim_has_backlog(&node->pops);
    bool has_more = may_say_more(node, index) && has_more_for(node, index);
    return (uint8_t)((has_backlog ? TR_BEAT_BACKLOG : 0) | (is_popping ? TR_BEAT_POPPING : 0) |
                     (is_serving ? TR_BEAT_READY : 0) | (has_more ? TR_BEAT_PENDING : 0) |
                     (node->replication.rebalance.is_rebalancing ? TR_BEAT_REBALANCING : 0));
}

/* A node that is told so writes keys without this one. When it has room again, they compare what
 * they have. */
static void tell_full(struct tr_node *node, uint16_t index, bool is_full)
{
    struct tr_exchange *exchange = &node->quorum.exchanges[index];
    if (is_full)
        exchange->full_ms = node->time.now_ms;
    else if (exchange->full_ms > 0)
        tr_exchange_missed(&node->quorum, index);
}

static void fill_beat(void *context, uint16_t index, struct tr_frame *frame)
{
    struct tr_node *node = context;
    frame->of.beat.memory_fill = (uint8_t)(100 - tr_arena_room(&node->arena) / 10);
    frame->of.beat.disk_fill = node->log.is_refused || node->replication.has_missed ? DISK_FULL : 0;
    tell_full(node, index, frame->of.beat.disk_fill > 0 || frame->of.beat.memory_fill >= DISK_FULL);
    frame->of.beat.flags = beat_flags(node, index);
    frame->of.beat.popping_from_ms = node->replication.popping_from_ms;
    frame->of.beat.has_roster = node->cluster.peers[index].version >= 3;
    if (!frame->of.beat.has_roster)
        return;
    const struct tr_roster *roster = node->membership.roster;
    frame->of.beat.cluster = roster->cluster;
    frame->of.beat.epoch = roster->epoch;
    frame->of.beat.roster_id = roster->id;
    frame->of.beat.flags |= node->membership.is_settled ? TR_BEAT_SETTLED : 0;
    bool is_less = node->quorum.exchanges[index].is_less;
    bool is_finishing =
        (node->quorum.handover.older_count > 0 || node->quorum.roster_id != roster->id) &&
        node->cluster.peers[index].version >= 4;
    frame->of.beat.key_flags =
        (uint8_t)((node->membership.is_arrived ? TR_BEAT_KEYS_ARRIVED : 0) |
                  (is_less ? TR_BEAT_KEYS_LESS : 0) |
                  (tr_strays_are_home(&node->quorum) ? TR_BEAT_KEYS_HOME : 0) |
                  (is_finishing ? TR_BEAT_KEYS_OLDER : 0));
}

/* Whether another node takes keys: if that is otherwise than before, another may be the first of a
 * list. */
static void look_at_health(struct tr_node *node, uint16_t index)
{
    struct tr_exchange *exchange = &node->quorum.exchanges[index];
    bool is_healthy = tr_quorum_is_healthy(&node->quorum, index);
    if (is_healthy == exchange->was_healthy)
        return;
    exchange->was_healthy = is_healthy;
    tr_handover_look(&node->quorum);
    if (is_healthy)
        tr_strays_look(&node->quorum);
}

static void beat_heard(void *context, uint16_t index, const struct tr_frame *frame,
                       bool has_another_view)
{
    struct tr_node *node = context;
    const struct tr_peer *peer = &node->cluster.peers[index];
    struct tr_progress *progress = &node->replication.progress[index];
    tr_gossip_hear(&node->membership, index, frame);
    if ((peer->key_flags & TR_BEAT_KEYS_ARRIVED) == 0)
        node->quorum.exchanges[index].is_less = false;
    look_at_health(node, index);
    node->quorum.exchanges[index].is_home |= (peer->key_flags & TR_BEAT_KEYS_HOME) != 0;
    if ((peer->key_flags & TR_BEAT_KEYS_LESS) != 0 && node->membership.is_arrived) {
        tr_membership_set_arrived(&node->membership, false);
        tr_exchange_all_anew(&node->quorum);
    }
    if (node->cluster.view.count == 0)
        return;
    if (node->kv.book.index.count == 0 && tr_samples_follow(&node->timers))
        tr_wheel_clear(&node->kv.wheel, node->time.steady_ms);
    if (has_another_view)
        tr_rebalance_again(&node->replication); /* they may agree now */
    bool is_full = frame->of.beat.disk_fill == DISK_FULL;
    if (is_full && !progress->has_missed) {
        tr_walk_all(progress);
    }
    if (is_full || (peer->flags & TR_BEAT_POPPING) != 0)
        progress->has_missed = is_full;
    /* Said after it has heard that this node catches up, not before a pause of ours. */
    bool is_fresh = frame->heard_ms >= node->replication.catchup_ms;
    progress->has_said_all |= is_fresh && (peer->flags & TR_BEAT_PENDING) == 0;
    tr_claim_backlog_heard(&node->pops, index);
    if ((peer->flags & TR_BEAT_POPPING) != 0)
        node->pops.claimants[index].popped_ms = node->time.now_ms;
}

/* ---- what else the cluster tells ---- */

static void link_lost(void *context, uint16_t index)
{
    struct tr_node *node = context;
    struct tr_progress *progress = &node->replication.progress[index];
    while (progress->pending.count > 0)
        tr_fifo_pop(&progress->pending, &node->arena);
    progress->has_said_all = false;
    tr_walk_on(progress);
    progress->cursor = 0;
    progress->passed = 0;
    progress->has_missed = false;
    progress->early_until_ms = 0;
    tr_antientropy_end(&node->replication, index);
    tr_quorum_link_lost(&node->quorum, index);
    tr_exchange_link_lost(&node->quorum, index);
}

static void store_lost(void *context, uint16_t index)
{
    struct tr_node *node = context;
    tr_antientropy_forget_acks(&node->replication, index);
    node->quorum.exchanges[index].is_less = true;
}

static void greeted(void *context, uint16_t index)
{
    struct tr_node *node = context;
    tr_gossip_greeted(&node->membership, index);
    if (node->cluster.view.count == 0)
        return;
    node->pops.claimants[index].backlog_until_ms = 0;
    node->replication.progress[index].unnoted_until_ms = 0;
    if (node->replication.is_serving)
        tr_samples_send(&node->timers, index);
    tr_claim_now(&node->pops);
    tr_antientropy_begin(&node->replication, index);
}

static void up_changed(void *context, uint16_t index)
{
    struct tr_node *node = context;
    if (!node->cluster.peers[index].is_up)
        node->replication.progress[index].down_ms = node->time.now_ms;
    tr_rebalance_again(&node->replication); /* another may move a record now, or be hinted */
    tr_operations_look(&node->replication);
    tr_strays_look(&node->quorum);
    look_at_health(node, index);
}

static void put(void *context, const struct tr_message *message, uint64_t version,
                struct tr_writer *writer)
{
    struct tr_node *node = context;
    tr_encode_message(&node->replication, message, version, writer);
}

void tr_peers_hooks(struct tr_node *node)
{
    node->cluster.hooks = (struct tr_cluster_hooks){
        .context = node,
        .link_lost = link_lost,
        .store_lost = store_lost,
        .greeted = greeted,
        .beat_heard = beat_heard,
        .up_changed = up_changed,
        .fill_beat = fill_beat,
        .put = put,
    };
}

bool tr_peers_have_all(struct tr_node *node)
{
    TR_ASSERT(node->phase == PHASE_DRAINING);
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        const struct tr_peer *peer = &node->cluster.peers[i];
        bool has_heard = peer->echo_ms > peer->sent_ms;
        if (peer->is_up && (!has_heard || peer->count > 0 ||
                            !tr_pending_is_empty(&node->replication, (uint16_t)i)))
            return false;
    }
    return true;
}

/* ---- each step ---- */

/* That a node pops no more is heard after its claims of what it has begun. */
static bool has_sent_claims(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    TR_ASSERT(index != 0 && index < node->cluster.member_count);
    struct tr_cluster *cluster = &node->cluster;
    const struct tr_queue *claims = &cluster->peers[index].queues[MESSAGE_CLAIM];
    while (!tr_replication_is_popping(&node->replication) && claims->count > 0 &&
           tr_outbox_has_frame_room(cluster, out))
        tr_outbox_send_queue(cluster, index, MESSAGE_CLAIM, out);
    return (tr_replication_is_popping(&node->replication) || claims->count == 0) &&
           tr_outbox_has_frame_room(cluster, out);
}

/* At the end of a turn, when what has come by then was read: else it might be taken for silent. */
static void look(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    struct tr_cluster *cluster = &node->cluster;
    struct tr_replication *replication = &node->replication;
    const struct tr_peer *peer = &cluster->peers[index];
    tr_peer_look(cluster, index, out);
    if (peer->link == LINK_GREETED && cluster->view.count > 0) {
        tr_antientropy_run(replication, index);
        tr_walk_run(replication, index);
        tr_exchange_run(&node->quorum, index);
    }
    if (tr_peer_heeds(cluster, index) && may_say_more(node, index))
        tr_pending_run(&node->replication, index);
}

static void say(struct tr_node *node, uint16_t index, struct tr_effects *out)
{
    TR_ASSERT(index != 0 && index < node->cluster.member_count);
    struct tr_cluster *cluster = &node->cluster;
    struct tr_replication *replication = &node->replication;
    const struct tr_peer *peer = &cluster->peers[index];
    bool is_stopping = node->phase == PHASE_DRAINING;
    if (!tr_peer_greet(cluster, index, out))
        return;
    if (node->time.now_ms >= peer->beat_ms && !(is_stopping && peer->count > 0) &&
        has_sent_claims(node, index, out))
        tr_peer_beat(cluster, index, out);
    if (tr_gossip_wants_to_send(&node->membership, index) && tr_outbox_has_frame_room(cluster, out))
        tr_gossip_send(&node->membership, index, out);
    if (tr_antientropy_has_sums(replication, index) && tr_outbox_has_frame_room(cluster, out))
        tr_antientropy_send_sums(replication, index, out);
    tr_mail_put_frames(&node->quorum, index, out);
    tr_outbox_send_all(cluster, index, out);
}

/* Whether something waits to be sent that another node waits for since it became durable here. A
 * node for which there is nothing but new records would sync them by themselves, and others once
 * more at the end of the turn. */
static bool is_awaited(const struct tr_node *node, uint32_t index)
{
    const struct tr_queue *queues = node->cluster.peers[index].queues;
    return queues[MESSAGE_ANSWER].count > 0 || queues[MESSAGE_ACK].count > 0 ||
           queues[MESSAGE_DROPPED].count > 0 || node->quorum.mailboxes[index].mail.count > 0;
}

void tr_peers_run(struct tr_node *node, bool has_more, struct tr_effects *out)
{
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        if (!has_more)
            look(node, (uint16_t)i, out);
        if (!has_more || is_awaited(node, i))
            say(node, (uint16_t)i, out);
    }
    if (!has_more)
        tr_peers_note_beats(&node->cluster);
}

tr_mono_ms tr_peers_wake_at(const struct tr_node *node)
{
    tr_mono_ms wake = TR_NEVER;
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        uint16_t index = (uint16_t)i;
        const struct tr_peer *peer = &node->cluster.peers[index];
        if (peer->link == LINK_DOWN)
            continue;
        const struct tr_replication *replication = &node->replication;
        bool wants_tick = tr_antientropy_is_summing(replication, index) ||
                          tr_walk_wants_tick(replication, index) ||
                          tr_exchange_wants_tick(&node->quorum, index) ||
                          (!peer->is_sending && tr_antientropy_has_sums(replication, index));
        tr_mono_ms at = wants_tick ? node->time.now_ms : tr_peer_wake_at(&node->cluster, index);
        wake = at < wake ? at : wake;
    }
    return wake;
}

/* Before there is a view nothing is stored. But a node that lost its disk may be asked for ever to
 * drop what it does not have. */
static bool is_heeded(struct tr_node *node, const struct tr_frame *frame)
{
    bool has_view = node->cluster.view.count > 0;
    bool is_idle_guest = node->phase == PHASE_READY && frame->kind == TR_FRAME_DROPS &&
                         node->timers.store.count(node->timers.store.context) == 0;
    if (!has_view && is_idle_guest)
        tr_cover(&node->trial, RULE_GUEST_DROPS);
    return has_view || is_idle_guest;
}

void tr_frame_received(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    uint16_t peer = event->of.frame.peer;
    struct tr_reader reader;
    struct tr_frame frame;
    if (node->is_stop_logged || !tr_peer_receive(&node->cluster, event, &frame, &reader, out))
        return; /* after a clean stop nothing more is written */
    if (frame.kind == TR_FRAME_ROSTER) {
        tr_gossip_take(&node->membership, &reader);
    } else if (is_heeded(node, &frame)) {
        if (node->cluster.view.count > 0)
            tr_samples_hear(&node->timers, &frame, reader);
        if (frame.kind == TR_FRAME_KEYS)
            tr_replica_keys(&node->quorum, peer, &reader, out);
        else
            tr_receive_frame(&node->replication, peer, &frame, &reader, out);
    }
    if (reader.is_short)
        tr_peer_reset(&node->cluster, peer, out);
}
