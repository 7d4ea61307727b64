/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/tombstone.h"

#include "cluster/peer.h"
#include "replication/rebalance.h"
#include "replication/set.h"

#define TOMBSTONE_SIZE 128 /* bytes, with its entries in the wheel and the index */
#define KNOWN_SHARE    32  /* of the memory, for tombstones that are where they should be; */
#define PENDING_SHARE  2   /* for all of them */

tr_steady_ms tr_tombstone_ended_at(const struct tr_replication *replication,
                                   const struct tr_head *head)
{
    bool is_keyed = (head->flags & TR_RECORD_KEYED) != 0;
    tr_steady_ms kept_ms = head->due_ms - head->lag_ms;
    TR_ASSERT((head->flags & TR_RECORD_TOMBSTONE) != 0);
    return kept_ms - (is_keyed ? replication->config.keyed_keep_ms : TR_TOMBSTONE_MS);
}

bool tr_tombstone_is_needed(const struct tr_replication *replication, const struct tr_head *head)
{
    TR_ASSERT(tr_set_is_bounded(head));
    bool is_keyed = head->key.part == 0 && (head->flags & TR_RECORD_KEYED) != 0;
    return is_keyed || !tr_cluster_is_alone(replication->cluster);
}

/* A node that is away may come back with a record that nobody here has heard of, and needs a while
 * to send it. */
static bool are_all_up(const struct tr_replication *replication)
{
    for (uint32_t i = 1; i < replication->cluster->member_count; i++) {
        const struct tr_peer *peer = &replication->cluster->peers[i];
        bool is_there = peer->is_up && replication->time->now_ms >= peer->up_ms + TR_TOMBSTONE_MS;
        if (replication->cluster->members[i].role != TR_ROLE_NONE && !is_there)
            return false;
    }
    return true;
}

/* Whether tombstones take more than one part in `share` of the memory, which is for timers. */
static bool are_many(const struct tr_replication *replication, uint64_t tombstones, unsigned share)
{
    TR_ASSERT(share > 0);
    uint64_t room = (uint64_t)replication->arena->block_count * TR_ARENA_BLOCK / share;
    return tombstones > room / TOMBSTONE_SIZE;
}

/* The node is not in the view any more, and does not answer: it will never acknowledge the
 * tombstone. */
static bool has_left(const struct tr_replication *replication, uint16_t member)
{
    TR_ASSERT(member < replication->cluster->member_count);
    return replication->cluster->members[member].role == TR_ROLE_NONE && member != 0 &&
           !replication->cluster->peers[member].is_up;
}

/* Every node that is to have the tombstone has it, but for those that have left. */
static bool has_reached_all(const struct tr_replication *replication, tr_ref ref,
                            const struct tr_head *record)
{
    TR_ASSERT((record->flags & TR_RECORD_TOMBSTONE) != 0);
    uint8_t acked = tr_store_acked(replication->store, ref);
    for (unsigned i = 0; i < record->replicas.count; i++) {
        bool has_it = record->replicas.members[i] == 0 || (acked & (uint8_t)(1u << i)) != 0;
        if (!has_it && !has_left(replication, record->replicas.members[i]))
            return false;
    }
    for (unsigned i = 0; i < record->from.count; i++) {
        if (!has_left(replication, record->from.members[i]))
            return false;
    }
    return true;
}

/* Another node has yet to hear of the end. */
static bool has_yet_to_reach(const struct tr_head *record)
{
    TR_ASSERT((record->flags & TR_RECORD_TOMBSTONE) != 0);
    for (unsigned i = 0; i < record->from.count; i++) {
        if (record->from.members[i] != 0)
            return true;
    }
    return false;
}

/* A tombstone may go when every node that could bring the record back has heard of the end (while
 * records may be elsewhere than placed, nobody knows which those are), or after tombstone_keep_ms.
 * If tombstones take more than a 32nd of the memory, one goes that all its nodes have or have left;
 * if they take half of it, any. */
bool tr_tombstone_may_forget(struct tr_replication *replication, tr_ref ref,
                             const struct tr_head *record, uint64_t tombstones)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    TR_ASSERT((record->flags & TR_RECORD_TOMBSTONE) != 0);
    bool is_safe = tr_set_is_known(replication, ref, record) && !has_yet_to_reach(record) &&
                   !tr_rebalance_may_be_elsewhere(replication) && are_all_up(replication);
    bool is_old = replication->time->steady_ms >=
                  record->due_ms - record->lag_ms + replication->config.tombstone_keep_ms;
    bool is_early = !is_safe && !is_old &&
                    (are_many(replication, tombstones, PENDING_SHARE) ||
                     (are_many(replication, tombstones, KNOWN_SHARE) &&
                      has_reached_all(replication, ref, record)));
    bool may =
        is_safe || is_old || is_early || tr_breaks(replication->trial, MUTANT_FORGET_AT_ONCE);
    replication->stats.forgotten_early += is_early;
    tr_cover(replication->trial, may ? RULE_TOMBSTONE_GONE : RULE_TOMBSTONE_KEPT);
    return may;
}
