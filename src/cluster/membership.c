/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/membership.h"

#include "base/hash.h"
#include "cluster/change.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "cluster/ring.h"
#include "cluster/roster_log.h"

#define LOOK_MS  200
#define FIRST_MS 2000 /* for the first node to end a change */

static bool is_same(const struct tr_roster *a, const struct tr_roster *b)
{
    return a->cluster == b->cluster && a->epoch == b->epoch && a->id == b->id;
}

static struct tr_span own_address(const struct tr_membership *membership)
{
    return membership->cluster->address;
}

/* ---- a roster comes into force ---- */

void tr_membership_look_now(struct tr_membership *membership)
{
    membership->look_ms = membership->time->now_ms;
}

/* Whether the change in which this node leaves ends with this roster, and it had settled in it. */
static bool is_release(const struct tr_membership *membership, const struct tr_roster *roster)
{
    const struct tr_roster *before = membership->roster;
    bool is_out = tr_roster_role(roster, own_address(membership)) == TR_ROLE_NONE;
    bool is_next = roster->cluster == before->cluster && roster->epoch == before->epoch + 1 &&
                   tr_roster_role(before, own_address(membership)) == TR_ROLE_LEAVING;
    return is_out && (membership->is_released || (is_next && membership->is_settled));
}

void tr_membership_heed_all(struct tr_membership *membership)
{
    membership->asked_id = 0;
    if (membership->configured->epoch == 0)
        return;
    *membership->heeded = *membership->configured;
    membership->heeded_kept.is_due = true;
}

/* What the configuration asks for and the roster has, all have heard. */
static void heed_done(struct tr_membership *membership)
{
    membership->asked_id = 0;
    if (tr_change_heed(membership->roster, membership->configured, membership->heeded)) {
        tr_membership_heed_all(membership);
        return;
    }
    membership->heeded->epoch = membership->configured->epoch; /* it may be the first */
    tr_roster_seal(membership->heeded);
    membership->heeded_kept.is_due = true;
}

/* Whoever makes the next epoch has seen that all had the one before; but not if a node is lost. So
 * if that was the one which this node made for its configuration, all have heard what that asks
 * for: it is not asked for again, whatever has become of it since. */
static bool was_heard(const struct tr_membership *membership, const struct tr_roster *next)
{
    const struct tr_roster *roster = membership->roster;
    bool is_asked = membership->asked_id != 0 && membership->asked_id == roster->id;
    for (uint32_t i = 0; i < next->count; i++) {
        struct tr_span address = tr_roster_address(next, i);
        if (next->nodes[i].role == TR_ROLE_LOST && tr_roster_role(roster, address) != TR_ROLE_LOST)
            return false;
    }
    return is_asked && next->cluster == roster->cluster && next->epoch > roster->epoch;
}

void tr_membership_adopt(struct tr_membership *membership, const struct tr_roster *roster)
{
    TR_ASSERT(roster->epoch > 0 && !is_same(roster, membership->roster));
    if (was_heard(membership, roster))
        heed_done(membership);
    if (roster->cluster != membership->roster->cluster)
        membership->is_shared = membership->is_arrived = false;
    membership->is_released = is_release(membership, roster);
    *membership->roster = *roster;
    membership->roster_kept.is_due = true;
    membership->is_settled = false;
    membership->was_settled = false;
    membership->through_ms = 0;
    membership->hooks.changed(membership->hooks.context);
    tr_peers_beat_now(membership->cluster);
    tr_membership_look_now(membership);
}

void tr_membership_set_arrived(struct tr_membership *membership, bool is_arrived)
{
    if (membership->is_arrived == is_arrived)
        return;
    membership->is_arrived = is_arrived;
    membership->roster_kept.is_due = true;
    tr_peers_beat_now(membership->cluster);
    tr_membership_look_now(membership);
}

/* Whose epochs they are: nodes that begin with one configuration are one cluster without having
 * talked. Who joins is not there yet, and makes no difference. */
static uint64_t cluster_of(const struct tr_roster *list)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        struct tr_span address = tr_roster_address(list, i);
        hash = tr_hash_mix(hash ^ tr_hash_xxh3(address.text, address.size));
    }
    return hash != 0 ? hash : 1;
}

static bool has_staying(const struct tr_roster *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->nodes[i].role != TR_ROLE_JOINING)
            return true;
    }
    return false;
}

/* The nodes of the configuration as they were before anybody on its list joined or left; if there
 * is nobody to join, those who would. */
static void list_before(const struct tr_roster *configured, struct tr_roster *list)
{
    bool is_all = !has_staying(configured);
    memset(list, 0, sizeof *list);
    for (uint32_t i = 0; i < configured->count; i++) {
        if (configured->nodes[i].role != TR_ROLE_JOINING || is_all)
            tr_roster_set(list, tr_roster_address(configured, i), TR_ROLE_STAYING);
    }
}

/* Of a node by itself, so that it takes keys at once. */
static void assume_keyspace(struct tr_membership *membership, struct tr_roster *roster)
{
    roster->keys = (struct tr_definition){
        .partitions = 1024,
        .copies = 1,
        .reads = 1,
        .writes = 1,
        .positions = 16,
        .is_assumed = true,
    };
    roster->before = roster->keys;
    bool is_chosen = tr_ring_choose(membership->cluster, roster);
    TR_ASSERT(is_chosen);
}

/* Epoch 1. False: a node that its own configuration calls joining makes none, and waits to be taken
 * in. So does one that leaves before it was there, or is not on its own list. */
static bool begin(struct tr_membership *membership)
{
    TR_ASSERT(membership->configured->epoch > 0);
    struct tr_roster *roster = membership->scratch;
    enum tr_role role = tr_roster_role(membership->configured, own_address(membership));
    bool is_alone = membership->roster->epoch > 0;
    bool is_out = is_alone || membership->hooks.is_empty(membership->hooks.context);
    bool is_guest =
        role == TR_ROLE_JOINING || (is_out && (role == TR_ROLE_LEAVING || role == TR_ROLE_NONE));
    membership->is_waiting = is_guest && has_staying(membership->configured);
    if (membership->is_waiting)
        return false;
    list_before(membership->configured, roster);
    roster->cluster = cluster_of(roster);
    roster->epoch = 1;
    if (roster->count == 1)
        assume_keyspace(membership, roster);
    tr_roster_seal(roster);
    list_before(membership->configured, membership->heeded); /* the rest is asked for now */
    membership->heeded->cluster = roster->cluster;
    membership->heeded->epoch = 1;
    tr_roster_seal(membership->heeded);
    membership->heeded_kept.is_due = true;
    membership->is_shared &= membership->roster->cluster == roster->cluster;
    if (!is_same(roster, membership->roster))
        tr_membership_adopt(membership, roster);
    return true;
}

/* A node that is alone, and whose configuration names others that are there: with them it begins
 * anew. So does one that has left, holds nothing, and is to be alone. */
static bool is_to_begin(const struct tr_membership *membership)
{
    const struct tr_roster *roster = membership->roster;
    const struct tr_roster *configured = membership->configured;
    if (configured->epoch == 0)
        return false;
    if (roster->epoch == 0)
        return true;
    bool is_alone = roster->count == 1 && !membership->is_shared &&
                    tr_roster_role(roster, own_address(membership)) == TR_ROLE_STAYING;
    bool is_new = configured->id != membership->heeded->id;
    bool has_left =
        !tr_membership_is_in(membership) && membership->hooks.is_empty(membership->hooks.context);
    uint32_t others = 0;
    for (uint32_t i = 0; i < configured->count; i++)
        others += configured->nodes[i].role != TR_ROLE_JOINING &&
                  !tr_span_equals(tr_roster_address(configured, i), own_address(membership));
    return (is_alone && is_new && others > 0) || (has_left && membership->is_read && others == 0);
}

/* ---- changes ---- */

/* Whether every node that is to agree is there and has the present roster; if not, who. Nodes that
 * `next` has lost, and those that only join, are not asked. */
static enum tr_change may_change(const struct tr_membership *membership,
                                 const struct tr_roster *next, uint16_t *who)
{
    const struct tr_cluster *cluster = membership->cluster;
    const struct tr_roster *roster = membership->roster;
    for (uint32_t i = 0; i < roster->count; i++) {
        struct tr_span address = tr_roster_address(roster, i);
        uint16_t member = tr_member_find(cluster, address);
        enum tr_role role = roster->nodes[i].role;
        if (member == 0 || role == TR_ROLE_LOST || role == TR_ROLE_JOINING ||
            tr_roster_role(next, address) == TR_ROLE_LOST)
            continue;
        *who = member;
        if (member == TR_MEMBER_NONE || !tr_peer_is_up(cluster, member))
            return TR_CHANGE_DOWN;
        if (cluster->peers[member].version < TR_ROSTER_VERSION)
            return TR_CHANGE_OLDER;
        const struct tr_standing *standing = &membership->standings[member];
        if (standing->cluster != roster->cluster || standing->epoch != roster->epoch ||
            standing->id != roster->id)
            return TR_CHANGE_DOWN;
    }
    return TR_CHANGE_MADE;
}

bool tr_membership_is_agreed(const struct tr_membership *membership)
{
    uint16_t who = TR_MEMBER_NONE;
    return may_change(membership, membership->roster, &who) == TR_CHANGE_MADE;
}

enum tr_change tr_membership_make(struct tr_membership *membership, struct tr_roster *next,
                                  uint16_t *who)
{
    enum tr_role role = tr_roster_role(membership->roster, own_address(membership));
    if (role == TR_ROLE_NONE || role == TR_ROLE_LOST)
        return TR_CHANGE_GONE;
    if (tr_change_is_none(membership->roster, next))
        return TR_CHANGE_NONE;
    if (tr_change_count_left(next) == 0)
        return TR_CHANGE_LAST;
    enum tr_change change = may_change(membership, next, who);
    bool is_waived = change == TR_CHANGE_DOWN && tr_change_is_loss(membership->roster, next);
    if (change != TR_CHANGE_MADE && !is_waived) /* a loss may be told while others are down, too */
        return change;
    if (!tr_ring_choose(membership->cluster, next))
        return TR_CHANGE_NO_POSITION;
    next->epoch++;
    tr_roster_seal(next);
    tr_cover(membership->cluster->trial, RULE_CHANGE_MADE);
    tr_membership_adopt(membership, next);
    return TR_CHANGE_MADE;
}

/* It is up, and has a roster of this cluster: it may not be called lost. */
static bool is_with_us(const struct tr_membership *membership, uint16_t member)
{
    if (member == 0 || member == TR_MEMBER_NONE)
        return member == 0;
    return tr_peer_is_up(membership->cluster, member) &&
           membership->standings[member].cluster == membership->roster->cluster;
}

static bool is_taken(const struct tr_roster *roster, uint32_t position)
{
    for (uint32_t i = 0; i < roster->count; i++) {
        for (uint32_t k = 0; k < roster->nodes[i].position_count; k++) {
            if (roster->nodes[i].positions[k] == position)
                return true;
        }
    }
    return false;
}

/* The positions that were asked for. False: there are no such, or another node has one. */
static bool give_positions(struct tr_roster *next, const struct tr_view_node *asked)
{
    struct tr_roster_node *node = tr_roster_find(next, asked->address);
    if (asked->position_count == 0 || node == NULL)
        return true;
    if (asked->position_count > TR_POSITIONS_MAX || node->position_count > 0)
        return false;
    for (uint32_t i = 0; i < asked->position_count; i++) {
        if (asked->positions[i] >= next->keys.partitions || is_taken(next, asked->positions[i]))
            return false;
        node->positions[node->position_count++] = asked->positions[i];
    }
    tr_roster_sort_positions(node);
    return true;
}

enum tr_change tr_membership_ask(struct tr_membership *membership, const struct tr_view_node *nodes,
                                 uint32_t count, uint16_t *who)
{
    struct tr_roster *next = membership->scratch;
    bool has_any = false;
    *who = TR_MEMBER_NONE;
    *next = *membership->roster;
    for (uint32_t i = 0; i < count; i++) {
        enum tr_role now = tr_roster_role(next, nodes[i].address);
        enum tr_role asked = nodes[i].role == TR_ROLE_JOINING   ? tr_change_role(now, true)
                             : nodes[i].role == TR_ROLE_LEAVING ? tr_change_role(now, false)
                             : now == TR_ROLE_NONE              ? now
                                                                : TR_ROLE_LOST;
        uint16_t member = tr_member_find(membership->cluster, nodes[i].address);
        if (asked == TR_ROLE_LOST && now != asked && is_with_us(membership, member)) {
            *who = member;
            return TR_CHANGE_UP;
        }
        if (now == TR_ROLE_LOST && nodes[i].role == TR_ROLE_JOINING)
            return TR_CHANGE_BUSY; /* it has to be gone before it can be there again */
        if (asked == now)
            continue;
        if (!tr_roster_set(next, nodes[i].address, asked))
            return TR_CHANGE_FULL;
        if (!give_positions(next, &nodes[i]))
            return TR_CHANGE_NO_POSITION;
        has_any = true;
    }
    if (!has_any)
        return TR_CHANGE_NONE;
    if (!tr_change_keep_allowed(membership->roster, next))
        return TR_CHANGE_BUSY;
    return tr_membership_make(membership, next, who);
}

/* ---- the configuration ---- */

/* Asks for what the configuration wants and the roster does not have. */
static void ask_for_rest(struct tr_membership *membership)
{
    uint16_t who = TR_MEMBER_NONE;
    tr_change_keep_allowed(membership->roster, membership->scratch);
    bool is_made = tr_membership_make(membership, membership->scratch, &who) == TR_CHANGE_MADE;
    membership->asked_id = is_made ? membership->roster->id : 0;
}

/* Until all have the roster in which it is done, another one of the same epoch may win: then it is
 * asked for again. */
static void heed(struct tr_membership *membership)
{
    uint16_t who = TR_MEMBER_NONE;
    membership->is_waiting = false;
    if (is_to_begin(membership) && !begin(membership))
        return;
    membership->is_read = false;
    if (membership->roster->epoch == 0 || membership->configured->epoch == 0 ||
        membership->configured->id == membership->heeded->id)
        return;
    bool is_asked = membership->asked_id == membership->roster->id;
    if (is_asked && may_change(membership, membership->roster, &who) != TR_CHANGE_MADE)
        return;
    if (is_asked)
        heed_done(membership);
    *membership->scratch = *membership->roster;
    if (tr_change_by_lists(membership->heeded, membership->configured, membership->scratch))
        ask_for_rest(membership);
    else
        tr_membership_heed_all(membership);
}

/* A node that was to leave, and could not yet, is still to leave when its line is gone. */
static void keep_leavers(struct tr_membership *membership, const struct tr_roster *before)
{
    for (uint32_t i = 0; i < before->count; i++) {
        struct tr_span address = tr_roster_address(before, i);
        if (before->nodes[i].role == TR_ROLE_LEAVING &&
            tr_roster_role(membership->heeded, address) != TR_ROLE_LEAVING &&
            tr_roster_role(membership->configured, address) == TR_ROLE_NONE)
            tr_roster_set(membership->configured, address, TR_ROLE_LEAVING);
    }
}

void tr_membership_configure(struct tr_membership *membership, const struct tr_view_node *nodes,
                             uint32_t count)
{
    struct tr_roster *configured = membership->configured;
    struct tr_roster *before = membership->scratch;
    *before = *configured;
    memset(configured, 0, sizeof *configured);
    configured->epoch = 1;
    for (uint32_t i = 0; i < count && i < TR_VIEW_NODES_MAX; i++) {
        tr_roster_set(configured, nodes[i].address, nodes[i].role);
        tr_member_intern(membership->cluster, nodes[i].address, TR_LOG_NODES_MAX); /* to be met */
    }
    keep_leavers(membership, before);
    tr_roster_seal(configured);
    membership->is_read = true;
    membership->asked_id = 0;
    heed(membership);
    tr_membership_look_now(membership); /* what could not be done yet is tried again */
}

bool tr_membership_is_in(const struct tr_membership *membership)
{
    enum tr_role role = tr_roster_role(membership->roster, own_address(membership));
    return membership->roster->epoch == 0 || (role != TR_ROLE_NONE && role != TR_ROLE_LOST);
}

/* Nodes that came after it had left may not know of it. */
static bool sees_all(const struct tr_membership *membership)
{
    const struct tr_roster *roster = membership->roster;
    for (uint32_t i = 0; i < roster->count; i++) {
        uint16_t member = tr_member_find(membership->cluster, tr_roster_address(roster, i));
        if (roster->nodes[i].role != TR_ROLE_LOST &&
            (member == TR_MEMBER_NONE || !tr_peer_is_up(membership->cluster, member)))
            return false;
    }
    return true;
}

bool tr_membership_may_serve(const struct tr_membership *membership)
{
    enum tr_role role = tr_roster_role(membership->roster, own_address(membership));
    return tr_membership_is_in(membership) ||
           (role == TR_ROLE_NONE && membership->hooks.is_empty(membership->hooks.context) &&
            sees_all(membership));
}

bool tr_membership_is_behind(const struct tr_membership *membership)
{
    return membership->configured->epoch > 0 &&
           membership->configured->id != membership->heeded->id;
}

/* ---- each step ---- */

/* Whether a node has yet to settle in the change that is under way: `who`, TR_MEMBER_NONE if it is
 * one that this node has no number for. */
static bool is_awaited(const struct tr_membership *membership, uint32_t index, uint16_t *who)
{
    const struct tr_roster *roster = membership->roster;
    const struct tr_trial *trial = membership->cluster->trial;
    bool is_lost = roster->nodes[index].role == TR_ROLE_LOST;
    if ((is_lost && !tr_breaks(trial, MUTANT_LOST_AWAITED)) || tr_breaks(trial, MUTANT_ENDS_EARLY))
        return false;
    *who = tr_member_find(membership->cluster, tr_roster_address(roster, index));
    if (*who == 0)
        return !membership->is_settled;
    return *who == TR_MEMBER_NONE || membership->standings[*who].settled != roster->id;
}

/* One that is down is told first: the others may be waiting for it, too. */
bool tr_membership_is_waiting_for(const struct tr_membership *membership, uint16_t *who)
{
    const struct tr_roster *roster = membership->roster;
    bool is_waiting = false;
    for (uint32_t i = 0; tr_roster_is_changing(roster) && i < roster->count; i++) {
        uint16_t member = TR_MEMBER_NONE;
        if (!is_awaited(membership, i, &member))
            continue;
        bool is_down =
            member != TR_MEMBER_NONE && member != 0 && !tr_peer_is_up(membership->cluster, member);
        if (!is_waiting || is_down)
            *who = member;
        is_waiting = true;
        if (is_down)
            break;
    }
    return is_waiting;
}

/* This node has the lowest address of those that are up and do not leave. */
static bool is_first(const struct tr_membership *membership)
{
    const struct tr_roster *roster = membership->roster;
    for (uint32_t i = 0; i < roster->count; i++) {
        uint16_t member = tr_member_find(membership->cluster, tr_roster_address(roster, i));
        if (roster->nodes[i].role == TR_ROLE_LEAVING)
            continue;
        if (member == 0)
            return true;
        if (roster->nodes[i].role != TR_ROLE_LOST && member != TR_MEMBER_NONE &&
            tr_peer_is_up(membership->cluster, member))
            return false;
    }
    return false;
}

/* Whoever knows that all have settled may end the change, since all would make the same roster of
 * it. The first does; the others give it a while: it may have heard less than they have. One that
 * leaves does not: it may be stopped as soon as it knows that it has left, and others are to know
 * that before it does. */
static void finish(struct tr_membership *membership)
{
    uint16_t who = TR_MEMBER_NONE;
    bool is_leaving =
        tr_roster_role(membership->roster, own_address(membership)) == TR_ROLE_LEAVING;
    if (!tr_roster_is_changing(membership->roster) || is_leaving ||
        tr_membership_is_waiting_for(membership, &who)) {
        membership->through_ms = 0;
        return;
    }
    if (membership->through_ms == 0)
        membership->through_ms = membership->time->now_ms;
    if (!is_first(membership) && membership->time->now_ms < membership->through_ms + FIRST_MS)
        return;
    *membership->scratch = *membership->roster;
    tr_roster_finish(membership->scratch);
    tr_cover(membership->cluster->trial, RULE_CHANGE_ENDED);
    tr_membership_adopt(membership, membership->scratch);
}

void tr_membership_run(struct tr_membership *membership, bool is_settled)
{
    if (is_settled != membership->is_settled) {
        membership->is_settled = is_settled;
        membership->was_settled |= is_settled;
        tr_peers_beat_now(membership->cluster);
        tr_membership_look_now(membership);
    }
    if (membership->time->now_ms < membership->look_ms)
        return;
    heed(membership);
    finish(membership);
    bool is_logged = tr_roster_log_keep(membership);
    bool is_waiting = tr_membership_is_behind(membership) || !is_logged ||
                      (membership->roster->epoch > 0 && tr_roster_is_changing(membership->roster));
    membership->look_ms = is_waiting ? membership->time->now_ms + LOOK_MS : TR_NEVER;
}
