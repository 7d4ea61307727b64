/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/target.h"

#include "cluster/peer.h"
#include "quorum/exchange.h"

#define NEW_RING    1
#define OLD_RING    2
#define FULL_DEGREE 100 /* per cent */

/* ---- whom to ask ---- */

bool tr_quorum_has_room(const struct tr_quorum *quorum, uint16_t member)
{
    return quorum->cluster->peers[member].fill < FULL_DEGREE;
}

bool tr_quorum_is_healthy(const struct tr_quorum *quorum, uint16_t member)
{
    const struct tr_peer *peer = &quorum->cluster->peers[member];
    if (member == 0)
        return quorum->log->is_running && !quorum->log->is_refused;
    return tr_peer_is_up(quorum->cluster, member) && peer->version >= TR_ROSTER_VERSION &&
           (peer->flags & TR_BEAT_READY) != 0 && tr_quorum_has_room(quorum, member);
}

uint16_t tr_quorum_first(const struct tr_quorum *quorum, struct tr_span key)
{
    uint16_t members[TR_RING_WANT];
    const struct tr_cluster *cluster = quorum->cluster;
    if (!tr_ring_is_there(cluster))
        return TR_MEMBER_NONE;
    /* While there are two rings the old one's list has what was written before. */
    const struct tr_ring *ring = cluster->old_ring.count > 0 ? &cluster->old_ring : &cluster->ring;
    unsigned count = tr_ring_list(cluster, ring, key, TR_RING_WANT, members);
    for (unsigned i = 0; i < count; i++) {
        if (tr_quorum_is_healthy(quorum, members[i]))
            return members[i];
    }
    return TR_MEMBER_NONE;
}

struct tr_target *tr_quorum_target(struct tr_quorum_operation *operation, uint16_t member)
{
    for (uint32_t i = 0; i < operation->target_count; i++) {
        if (operation->targets[i].member == member)
            return &operation->targets[i];
    }
    return NULL;
}

static struct tr_target *add_target(struct tr_quorum_operation *operation, uint16_t member)
{
    if (operation->target_count == TR_TARGETS_MAX)
        return NULL;
    struct tr_target *target = &operation->targets[operation->target_count++];
    *target = (struct tr_target){.member = member, .state = TARGET_FAILED};
    return target;
}

/* Nodes of a ring that count, and for whom others would have to stand in. */
static unsigned count_of(const struct tr_quorum_operation *operation, uint8_t ring)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < operation->target_count; i++)
        count += (operation->targets[i].rings & ring) != 0 &&
                 operation->targets[i].state < TARGET_SILENT;
    return count;
}

/* Stand-ins until as many of a ring are asked as its lists have nodes. A leaver never stands in:
 * what it is given it would have to pass on. */
static bool stand_in(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                     const struct tr_ring *ring, uint8_t bit, struct tr_span key)
{
    uint16_t members[TR_RING_WANT];
    bool has_any = false;
    if (ring->count == 0 || count_of(operation, bit) >= ring->copies)
        return false;
    unsigned count = tr_ring_list(quorum->cluster, ring, key, TR_RING_WANT, members);
    for (unsigned i = ring->copies; i < count && count_of(operation, bit) < ring->copies; i++) {
        struct tr_target *target = tr_quorum_target(operation, members[i]);
        if (!tr_quorum_is_healthy(quorum, members[i]) ||
            quorum->cluster->members[members[i]].role == TR_ROLE_LEAVING)
            continue;
        if (target != NULL) { /* it is asked already, and counts for this ring, too */
            target->rings |= target->state < TARGET_SILENT ? bit : 0;
            continue;
        }
        target = add_target(operation, members[i]);
        if (target == NULL)
            return has_any;
        target->state = TARGET_CHOSEN;
        target->is_hinted = true;
        target->rings = bit;
        has_any = true;
        tr_cover(quorum->trial, RULE_KEY_HINTED);
    }
    return has_any;
}

bool tr_quorum_choose_more(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                           struct tr_span key)
{
    const struct tr_cluster *cluster = quorum->cluster;
    bool is_new = stand_in(quorum, operation, &cluster->ring, NEW_RING, key);
    return stand_in(quorum, operation, &cluster->old_ring, OLD_RING, key) || is_new;
}

void tr_quorum_choose(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                      struct tr_span key)
{
    struct tr_holders holders;
    tr_ring_holders(quorum->cluster, key, &holders);
    for (uint32_t i = 0; i < operation->target_count; i++)
        operation->may_be_stored |= operation->targets[i].may_have;
    operation->target_count = 0;
    operation->roster_id = quorum->roster_id;
    for (unsigned i = 0; i < holders.count; i++) {
        struct tr_target *target = add_target(operation, holders.members[i]);
        TR_ASSERT(target != NULL);
        bool is_new = (holders.of_new >> i & 1) != 0;
        bool is_old = (holders.of_old >> i & 1) != 0;
        target->rings = (uint8_t)((is_new ? NEW_RING : 0) | (is_old ? OLD_RING : 0));
        if (tr_quorum_is_healthy(quorum, target->member))
            target->state = TARGET_CHOSEN;
        else if (tr_quorum_is_write(operation))
            tr_exchange_missed(quorum, target->member);
    }
    tr_quorum_choose_more(quorum, operation, key);
}

unsigned tr_quorum_nodes(struct tr_quorum *quorum, struct tr_span key,
                         uint16_t members[TR_TARGETS_MAX])
{
    struct tr_quorum_operation asks = {.kind = QUORUM_READ};
    tr_quorum_choose(quorum, &asks, key);
    for (uint32_t i = 0; i < asks.target_count; i++)
        members[i] = asks.targets[i].member;
    return asks.target_count;
}

/* ---- when it is enough ---- */

bool tr_target_is_open(const struct tr_target *target)
{
    return target->state != TARGET_ANSWERED && target->state < TARGET_SILENT;
}

bool tr_quorum_is_write(const struct tr_quorum_operation *operation)
{
    return operation->kind == QUORUM_WRITE ||
           (operation->kind == QUORUM_MODIFY && operation->has_changed);
}

bool tr_quorum_has_open(const struct tr_quorum_operation *operation)
{
    for (uint32_t i = 0; i < operation->target_count; i++) {
        if (tr_target_is_open(&operation->targets[i]))
            return true;
    }
    return false;
}

/* Whether a node's answer to a read counts. One that stands in says nothing by having nothing. One
 * that has not got all it should have does not either; but as long as there is an old ring, that
 * one's quorum has what was written before. */
static bool counts(const struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                   const struct tr_target *target, uint8_t ring)
{
    const struct tr_peer *peer = &quorum->cluster->peers[target->member];
    if (tr_quorum_is_write(operation))
        return true;
    if (target->is_hinted)
        return target->has_any;
    bool is_arrived = target->member == 0 ? quorum->membership->is_arrived
                                          : (peer->key_flags & TR_BEAT_KEYS_ARRIVED) != 0 &&
                                                !quorum->exchanges[target->member].is_less;
    bool is_covered = ring == NEW_RING && quorum->cluster->old_ring.count > 0;
    return is_arrived || is_covered;
}

static enum tr_enough judge_ring(const struct tr_quorum *quorum,
                                 const struct tr_quorum_operation *operation,
                                 const struct tr_ring *ring, uint8_t bit)
{
    unsigned need = tr_quorum_is_write(operation) ? ring->writes : ring->reads;
    unsigned done = 0;
    unsigned heard = 0;
    unsigned open = 0;
    for (uint32_t i = 0; i < operation->target_count; i++) {
        const struct tr_target *target = &operation->targets[i];
        if ((target->rings & bit) == 0)
            continue;
        open += tr_target_is_open(target);
        heard += target->state == TARGET_ANSWERED;
        done += target->state == TARGET_ANSWERED && counts(quorum, operation, target, bit);
    }
    if (done >= need)
        return ENOUGH;
    if (open > 0)
        return ENOUGH_NOT_YET;
    return heard > 0 && !quorum->config.is_strict ? ENOUGH : ENOUGH_NEVER;
}

enum tr_enough tr_quorum_judge(const struct tr_quorum *quorum,
                               const struct tr_quorum_operation *operation)
{
    const struct tr_cluster *cluster = quorum->cluster;
    enum tr_enough new_ring = judge_ring(quorum, operation, &cluster->ring, NEW_RING);
    bool is_early = tr_breaks(quorum->trial, MUTANT_COUNTS_EARLY) && !tr_quorum_is_write(operation);
    if (cluster->old_ring.count == 0 || new_ring == ENOUGH_NEVER || is_early)
        return new_ring;
    enum tr_enough old_ring = judge_ring(quorum, operation, &cluster->old_ring, OLD_RING);
    if (old_ring == ENOUGH_NEVER)
        return old_ring;
    return new_ring == ENOUGH && old_ring == ENOUGH ? ENOUGH : ENOUGH_NOT_YET;
}
