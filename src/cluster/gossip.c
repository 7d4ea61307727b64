/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/gossip.h"

#include "cluster/member.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"

#define SEND_MS 500

/* Whether another node is to be sent the roster: it has an older one, or belongs to it and has one
 * of another cluster. */
static bool is_to_be_told(const struct tr_membership *membership, uint16_t peer)
{
    const struct tr_roster *roster = membership->roster;
    const struct tr_standing *standing = &membership->standings[peer];
    if (roster->epoch == 0 || membership->cluster->peers[peer].version < TR_ROSTER_VERSION ||
        !standing->is_heard || !tr_peer_is_up(membership->cluster, peer))
        return false;
    if (standing->cluster == roster->cluster)
        return tr_roster_compare(standing->epoch, standing->id, roster->epoch, roster->id) < 0;
    enum tr_role role = tr_roster_role(roster, tr_member_address(membership->cluster, peer));
    return role != TR_ROLE_NONE && role != TR_ROLE_LOST;
}

void tr_gossip_hear(struct tr_membership *membership, uint16_t peer, const struct tr_frame *beat)
{
    TR_ASSERT(beat->kind == TR_FRAME_BEAT);
    struct tr_standing *standing = &membership->standings[peer];
    if (!beat->of.beat.has_roster)
        return;
    bool is_settled = (beat->of.beat.flags & TR_BEAT_SETTLED) != 0;
    bool is_news = !standing->is_heard || standing->id != beat->of.beat.roster_id ||
                   (is_settled && standing->settled != standing->id);
    standing->is_heard = true;
    standing->cluster = beat->of.beat.cluster;
    standing->epoch = beat->of.beat.epoch;
    standing->id = beat->of.beat.roster_id;
    standing->settled = is_settled ? standing->id : 0;
    membership->cluster->peers[peer].is_apart = membership->roster->epoch > 0 &&
                                                !membership->is_waiting &&
                                                standing->cluster != membership->roster->cluster;
    if (membership->roster->epoch > 0 && standing->cluster == membership->roster->cluster &&
        !membership->is_shared) {
        membership->is_shared = true;
        membership->roster_kept.is_due = true; /* that is kept, too */
        tr_membership_look_now(membership);
    }
    if (is_news)
        tr_membership_look_now(membership);
}

void tr_gossip_greeted(struct tr_membership *membership, uint16_t peer)
{
    membership->standings[peer].is_heard = false;
    membership->standings[peer].sent_ms = 0;
    membership->cluster->peers[peer].is_apart = false;
}

/* Of the nodes that this one's roster names, or another one does, how many have one of this
 * cluster, as far as they were heard. */
static uint32_t count_of(const struct tr_membership *membership, const struct tr_roster *other,
                         uint64_t cluster_id)
{
    const struct tr_cluster *cluster = membership->cluster;
    uint32_t count = membership->roster->cluster == cluster_id;
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        struct tr_span address = tr_member_address(cluster, (uint16_t)i);
        bool is_named = tr_roster_role(membership->roster, address) != TR_ROLE_NONE ||
                        (other != NULL && tr_roster_role(other, address) != TR_ROLE_NONE);
        count += is_named && membership->standings[i].is_heard &&
                 membership->standings[i].cluster == cluster_id;
    }
    return count;
}

/* Members of the roster here that are there, and have it. */
static uint32_t count_there(const struct tr_membership *membership)
{
    const struct tr_cluster *cluster = membership->cluster;
    uint32_t count = 0;
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        struct tr_span address = tr_member_address(cluster, (uint16_t)i);
        const struct tr_standing *standing = &membership->standings[i];
        count += tr_roster_role(membership->roster, address) != TR_ROLE_NONE &&
                 standing->is_heard && standing->cluster == membership->roster->cluster &&
                 tr_peer_is_up(cluster, (uint16_t)i);
    }
    return count;
}

static bool has_left(const struct tr_membership *membership)
{
    const struct tr_roster *roster = membership->roster;
    return roster->epoch > 0 &&
           tr_roster_role(roster, membership->cluster->address) == TR_ROLE_NONE;
}

bool tr_gossip_is_free(const struct tr_membership *membership)
{
    return has_left(membership) || (!membership->is_shared && membership->roster->count <= 1);
}

/* One that somebody has asked for. */
static bool has_keyspace(const struct tr_roster *roster)
{
    return roster->keys.partitions > 0 && !roster->keys.is_assumed;
}

/* A node takes a higher roster of its own cluster. One of another cluster it takes if that names it
 * and nobody shares the one that it has; of two that nobody shares, the higher. Where nodes that
 * came at once share one, since their configurations name nodes that were there before them, it
 * takes the one that more of those have, unless only one of the two clusters has keys. One that
 * has left, and holds nothing, takes any; but where that is the configuration of a node that has
 * lost its disk, say, it goes by what more nodes have, too. */
static bool is_to_take(const struct tr_membership *membership, const struct tr_roster *roster,
                       bool is_shared)
{
    const struct tr_roster *now = membership->roster;
    bool is_higher = tr_roster_compare(roster->epoch, roster->id, now->epoch, now->id) > 0;
    if (tr_breaks(membership->cluster->trial, MUTANT_LOWER_ROSTER))
        is_higher = roster->epoch > now->epoch;
    if (roster->cluster == now->cluster)
        return is_higher;
    enum tr_role role = tr_roster_role(roster, membership->cluster->address);
    if (role == TR_ROLE_NONE || role == TR_ROLE_LOST)
        return false;
    uint32_t theirs = count_of(membership, roster, roster->cluster);
    uint32_t ours = count_of(membership, roster, now->cluster);
    if (has_left(membership))
        return (role == TR_ROLE_JOINING || is_shared || theirs >= count_there(membership)) &&
               membership->hooks.is_empty(membership->hooks.context);
    if (!membership->is_shared)
        return is_shared || is_higher || now->count <= 1;
    if (has_keyspace(now) != has_keyspace(roster))
        return has_keyspace(roster);
    return theirs > ours || (theirs == ours && roster->epoch > now->epoch);
}

void tr_gossip_take(struct tr_membership *membership, struct tr_reader *reader)
{
    struct tr_roster *roster = membership->scratch;
    bool is_shared = tr_get_number(reader, 1) != 0;
    if (!tr_roster_get(reader, roster) || roster->epoch == 0 || reader->at != reader->end) {
        reader->is_short = true;
        return;
    }
    if (!is_to_take(membership, roster, is_shared))
        return;
    tr_cover(membership->cluster->trial, RULE_ROSTER_TAKEN);
    if (roster->cluster != membership->roster->cluster)
        tr_membership_heed_all(membership);
    tr_membership_adopt(membership, roster);
}

/* A node that is to join others, or finds that more of them are of another cluster, takes no
 * requests: it is about to be taken in. */
bool tr_gossip_is_guest(const struct tr_membership *membership)
{
    const struct tr_cluster *cluster = membership->cluster;
    const struct tr_roster *roster = membership->roster;
    if (membership->is_waiting || roster->count <= 1)
        return membership->is_waiting;
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        const struct tr_standing *standing = &membership->standings[i];
        bool is_other =
            standing->is_heard && standing->cluster != 0 && standing->cluster != roster->cluster;
        if (cluster->members[i].role != TR_ROLE_NONE && tr_peer_is_up(cluster, (uint16_t)i) &&
            is_other &&
            count_of(membership, NULL, standing->cluster) >=
                count_of(membership, NULL, roster->cluster))
            return true;
    }
    return false;
}

bool tr_gossip_wants_to_send(const struct tr_membership *membership, uint16_t peer)
{
    const struct tr_standing *standing = &membership->standings[peer];
    return is_to_be_told(membership, peer) &&
           (standing->sent_ms == 0 || standing->sent_id != membership->roster->id ||
            membership->time->now_ms >= standing->sent_ms + SEND_MS);
}

void tr_gossip_send(struct tr_membership *membership, uint16_t peer, struct tr_effects *out)
{
    TR_ASSERT(tr_gossip_wants_to_send(membership, peer));
    struct tr_cluster *cluster = membership->cluster;
    struct tr_frame frame = {.kind = TR_FRAME_ROSTER, .heard_ms = cluster->peers[peer].tick_ms};
    struct tr_writer writer = tr_outbox_begin_frame(cluster);
    tr_frame_put(&writer, &frame);
    tr_put_number(&writer, membership->is_shared, 1);
    tr_roster_put(&writer, membership->roster);
    tr_outbox_end_frame(cluster, peer, &writer, out);
    membership->standings[peer].sent_ms = membership->time->now_ms;
    membership->standings[peer].sent_id = membership->roster->id;
}
