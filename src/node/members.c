/* SPDX-License-Identifier: Apache-2.0 */
#include "node/members.h"

#include "cluster/clock.h"
#include "cluster/define.h"
#include "cluster/gossip.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "cluster/ring.h"
#include "cluster/view.h"
#include "kv/store.h"
#include "log/batch.h"
#include "quorum/coordinate.h"
#include "quorum/exchange.h"
#include "quorum/strays.h"
#include "replication/catchup.h"
#include "replication/operation.h"
#include "replication/rebalance.h"

#define FLOOR_ROOM     64  /* of an entry that says that keys have ended */
#define FLOOR_AGAIN_MS 200 /* until a floor that others do not have is asked for again */

static void changed(void *context)
{
    struct tr_node *node = context;
    node->is_view_due = true;
}

static bool is_empty(void *context)
{
    const struct tr_node *node = context;
    return node->timers.store.count(node->timers.store.context) == 0;
}

static bool has_keys(void *context)
{
    const struct tr_node *node = context;
    return node->kv.stats.keys > 0;
}

void tr_members_hooks(struct tr_node *node)
{
    node->membership.hooks = (struct tr_membership_hooks){
        .context = node,
        .changed = changed,
        .is_empty = is_empty,
        .has_keys = has_keys,
    };
}

/* Others were there before: this one has come to them, whatever it is called by now. */
static bool has_joined(const struct tr_node *node)
{
    TR_ASSERT(node->cluster.view.count > 0);
    bool has_others = false;
    for (uint32_t i = 1; i < node->cluster.member_count; i++)
        has_others |= node->cluster.members[i].role == TR_ROLE_STAYING ||
                      node->cluster.members[i].role == TR_ROLE_LEAVING;
    bool is_joining = node->cluster.members[0].role == TR_ROLE_JOINING;
    if (has_others && !is_joining)
        tr_cover(&node->trial, RULE_JOINED_LATE);
    return is_joining || has_others;
}

/* The view has the nodes of the roster but for those that are lost. */
static bool set_view(struct tr_node *node)
{
    struct tr_view_node nodes[TR_VIEW_NODES_MAX];
    const struct tr_roster *roster = node->membership.roster;
    uint32_t count = 0;
    for (uint32_t i = 0; i < roster->count; i++) {
        if (roster->nodes[i].role != TR_ROLE_LOST)
            nodes[count++] = (struct tr_view_node){.address = tr_roster_address(roster, i),
                                                   .role = roster->nodes[i].role};
    }
    return tr_view_set(&node->cluster, nodes, count) && tr_ring_set(&node->cluster, roster);
}

/* What was said on links before there was a view was not heeded: they begin anew. */
static void reset_links(struct tr_node *node, struct tr_effects *out)
{
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        if (node->cluster.peers[i].link == LINK_GREETED)
            tr_peer_begin_anew(&node->cluster, (uint16_t)i, out);
    }
}

/* All keys of a lower version have ended. One that is taken in, and had ended its own, has those of
 * the others. False: that cannot be done, or logged, now. */
static bool set_floor(struct tr_node *node)
{
    uint64_t floor = node->membership.roster->floor;
    bool is_lower = node->kv.floor > floor && node->membership.roster->count > 1 &&
                    !node->membership.is_arrived && node->kv.stats.keys == 0;
    if (!is_lower && floor <= node->kv.floor)
        return true;
    /* What is to be called before it ends would be there again below a lower floor. */
    bool is_flushed = tr_kv_flush_finish(&node->kv);
    if (is_lower && !is_flushed)
        return false;
    bool is_starting = node->phase != PHASE_DRAINING && !node->log.is_running;
    if (!is_starting && !tr_log_has_room(&node->log, FLOOR_ROOM, false))
        return false;
    if (is_lower)
        tr_kv_lower_floor(&node->kv, floor);
    else
        tr_kv_set_floor(&node->kv, floor);
    return true;
}

static void change_view(struct tr_node *node, struct tr_effects *out)
{
    bool is_first = node->cluster.view.count == 0;
    bool was_alone = !tr_view_has_others(&node->cluster);
    if (!set_floor(node))
        return; /* it is due yet */
    node->is_view_due = false;
    if (!set_view(node)) {
        tr_note(out, TR_NOTE_VIEW_REFUSED, 0, 0);
        return;
    }
    node->viewed_id = node->membership.roster->id;
    node->viewed_ms = node->time.now_ms;
    tr_quorum_roster_changed(&node->quorum);
    tr_note(out, TR_NOTE_ROSTER, 0, node->membership.roster->epoch);
    if (tr_cluster_is_alone(&node->cluster)) { /* it missed nothing, and all is where it belongs */
        tr_catchup_end(&node->replication);
        return;
    }
    if (is_first)
        reset_links(node, out);
    /* One that was alone and to which others come has missed nothing. One that joins them has. */
    bool is_joining = was_alone && has_joined(node);
    if (is_joining || (is_first && !node->replication.is_serving)) {
        node->timers.is_clock_checked |=
            node->replication.is_serving; /* there are timers by its clock as it is */
        node->replication.is_serving = false;
        tr_catchup_begin(&node->replication);
    }
    node->replication.rebalance.is_rebalancing = true;
    node->replication.rebalance.changed_ms = node->time.now_ms;
    tr_rebalance_again(&node->replication);
    tr_peers_beat_now(&node->cluster);
}

/* All that this node has is where the roster places it, and nothing that it began under an earlier
 * one is under way. */
static bool is_settled(struct tr_node *node)
{
    const struct tr_replication *replication = &node->replication;
    const struct tr_rebalance *rebalance = &replication->rebalance;
    uint64_t id = node->membership.roster->id;
    if (node->viewed_id != id) /* it has yet to be placed by, or cannot be */
        return false;
    if (tr_cluster_is_alone(&node->cluster))
        return true;
    bool is_leaving = node->cluster.members[0].role != TR_ROLE_STAYING &&
                      node->cluster.members[0].role != TR_ROLE_JOINING;
    bool is_balanced = tr_replication_is_popping(replication) && !rebalance->is_rebalancing &&
                       rebalance->moves.count == 0 && rebalance->view == node->cluster.view.id;
    bool has_left = !is_leaving || replication->store->count(replication->store->context) == 0;
    bool are_keys_home =
        !tr_ring_is_there(&node->cluster) ||
        (tr_exchange_is_through(&node->quorum) && tr_strays_are_home(&node->quorum));
    if (!is_balanced || !has_left || !are_keys_home)
        return false;
    if (node->quiet_id != id && !tr_operations_are_older(replication, node->viewed_ms))
        node->quiet_id = id;
    return node->quiet_id == id;
}

enum tr_change tr_node_ask_change(struct tr_node *node, const struct tr_view_node *nodes,
                                  uint32_t count, uint16_t *who)
{
    return tr_membership_ask(&node->membership, nodes, count, who);
}

enum tr_change tr_node_create_keyspace(struct tr_node *node, const struct tr_definition *keys,
                                       uint16_t *who)
{
    return tr_define_keyspace(&node->membership, keys, who);
}

enum tr_change tr_node_spread_keys(struct tr_node *node, const struct tr_definition *keys,
                                   uint16_t *who)
{
    return tr_define_spread(&node->membership, keys, who);
}

enum tr_change tr_node_flush_keys(struct tr_node *node, uint16_t *who)
{
    uint64_t floor = node->membership.roster->floor;
    floor = node->kv.floor > floor ? node->kv.floor : floor;
    return tr_define_floor(&node->membership, tr_clock_stamp(&node->cluster, floor), who);
}

bool tr_node_is_agreed(const struct tr_node *node)
{
    return tr_membership_is_agreed(&node->membership);
}

bool tr_node_is_free(const struct tr_node *node)
{
    return tr_gossip_is_free(&node->membership) && node->kv.stats.keys == 0; /* they do not move */
}

uint16_t tr_node_meet(struct tr_node *node, struct tr_span address)
{
    return tr_member_intern(&node->cluster, address, TR_LOG_NODES_MAX);
}

const struct tr_roster *tr_node_roster(const struct tr_node *node)
{
    return node->membership.roster;
}

bool tr_node_is_waiting_for(const struct tr_node *node, uint16_t *who)
{
    return tr_membership_is_waiting_for(&node->membership, who);
}

bool tr_node_is_behind(const struct tr_node *node)
{
    return tr_membership_is_behind(&node->membership);
}

/* What a guest were given now might be older, by its clock, than what its hosts have. */
static void mind_guests(struct tr_node *node)
{
    bool is_guest = tr_gossip_is_guest(&node->membership);
    if (is_guest && node->replication.is_serving)
        node->replication.is_serving = false;
    else if (!is_guest && node->is_guest && tr_replication_is_popping(&node->replication))
        node->replication.is_serving = true;
    node->is_guest = is_guest;
    node->replication.rebalance.is_behind = tr_membership_is_behind(&node->membership);
    node->replication.is_closed = !tr_membership_may_serve(&node->membership);
}

/* What it lacks others have, and it has heard of all of that. */
static void mind_arrival(struct tr_node *node)
{
    if (!node->membership.is_arrived && tr_ring_is_there(&node->cluster) &&
        node->viewed_id == node->membership.roster->id && tr_membership_is_in(&node->membership) &&
        tr_exchange_is_through(&node->quorum))
        tr_membership_set_arrived(&node->membership, true);
}

/* What has ended here by a flush that lost against another change of the same epoch, or by one
 * from before there were other nodes, ends everywhere: this node takes it back from nobody. */
static void mind_floor(struct tr_node *node)
{
    struct tr_membership *membership = &node->membership;
    const struct tr_roster *roster = membership->roster;
    uint16_t who = TR_MEMBER_NONE;
    bool is_above = node->kv.floor > roster->floor && roster->count > 1 &&
                    roster->keys.partitions > 0 && membership->is_arrived &&
                    node->viewed_id == roster->id;
    if (!is_above)
        return;
    if (node->time.now_ms >= node->floor_ms) {
        tr_cover(&node->trial, RULE_FLOOR_AGAIN);
        node->floor_ms = node->time.now_ms + FLOOR_AGAIN_MS;
        tr_define_floor(membership, node->kv.floor, &who);
    }
    if (node->floor_ms < membership->look_ms)
        membership->look_ms = node->floor_ms;
}

void tr_members_run(struct tr_node *node, struct tr_effects *out)
{
    if (node->is_stop_logged)
        return; /* after a clean stop nothing more is written */
    if (node->is_view_due && tr_effects_has_room(out, 4))
        change_view(node, out);
    mind_guests(node);
    mind_arrival(node);
    tr_membership_run(&node->membership, is_settled(node));
    mind_floor(node);
    if (node->is_view_due && tr_effects_has_room(out, 4))
        change_view(node, out);
}
