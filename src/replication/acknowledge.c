/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/acknowledge.h"

#include "cluster/peer.h"
#include "replication/hold.h"
#include "replication/pending.h"
#include "replication/rebalance.h"
#include "replication/set.h"
#include "replication/tombstone.h"

#define SILENT_MS 2000 /* a link on which nothing comes for so long is given up */

/* All replicas have acknowledged the record to this node, which has sent it to them: each hears
 * that the others have it, too, or it would send them the record itself. */
static void send_marks(struct tr_replication *replication, tr_ref ref, const struct tr_head *record)
{
    TR_ASSERT(tr_set_is_known(replication, ref, record));
    unsigned others = record->replicas.count - tr_set_has(record, 0);
    unsigned place = tr_set_place_of(record, 0);
    uint8_t own = (uint8_t)(place < record->replicas.count ? 1u << place : 0u);
    for (unsigned i = 0; others > 1 && i < record->replicas.count; i++) {
        if (record->replicas.members[i] != 0)
            tr_replication_send(replication, record->replicas.members[i],
                                (struct tr_message){
                                    .kind = MESSAGE_MARK,
                                    .of.places = tr_store_acked(replication->store, ref) | own,
                                    .key = record->key,
                                    .order = record->order,
                                });
    }
}

/* Whether a node that was away has heard only now that this timer has ended, and the view has
 * changed meanwhile: that node may have moved the timer to any other. */
static bool is_late_end(const struct tr_replication *replication, uint16_t peer,
                        const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    if ((record->flags & TR_RECORD_TOMBSTONE) == 0)
        return false;
    tr_steady_ms ended_ms = tr_tombstone_ended_at(replication, record);
    tr_steady_ms base_ms = replication->time->steady_base;
    return ended_ms < replication->rebalance.changed_ms + base_ms &&
           ended_ms < replication->cluster->peers[peer].up_ms + base_ms;
}

/* Nodes that are up are sent a drop at once; the others when they come: until then the tombstone
 * names them in `from`. Returns where the tombstone is. */
static tr_ref spread_end(struct tr_replication *replication, tr_ref ref, struct tr_head *record)
{
    TR_ASSERT((record->flags & TR_RECORD_TOMBSTONE) != 0);
    const struct tr_cluster *cluster = replication->cluster;
    uint8_t count = record->from.count;
    tr_cover(replication->trial, RULE_END_SPREAD);
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        uint16_t member = (uint16_t)i;
        if (tr_set_has(record, member))
            continue;
        if (tr_peer_is_up(cluster, member))
            tr_pending_send_drop(replication, member, record);
        else if (cluster->members[i].role != TR_ROLE_NONE)
            tr_set_remember(record, member);
    }
    if (record->from.count == count || !tr_replication_has_room(replication, record))
        return ref;
    tr_ref placed = tr_store_put_head(replication->store, ref, record);
    if (placed == TR_ARENA_NONE)
        return ref;
    tr_pending_replicate(replication, placed, REPLICATE_DURABLE);
    return placed;
}

void tr_acknowledge_heard(struct tr_replication *replication, uint16_t peer,
                          const struct tr_head *named)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_head held;
    tr_ref ref = tr_store_find_exactly(replication->store, named, &held);
    if (ref == TR_ARENA_NONE)
        return;
    bool is_balanced = (held.flags & TR_RECORD_MOVING) == 0 && tr_set_has(&held, 0);
    bool was_enough = is_balanced || tr_set_has_enough(replication, ref, &held);
    bool was_known = tr_set_is_known(replication, ref, &held);
    tr_pending_mark(replication, ref, &held, peer);
    if (!was_known && is_late_end(replication, peer, &held))
        ref = spread_end(replication, ref, &held);
    if (!was_known && tr_set_is_known(replication, ref, &held))
        send_marks(replication, ref, &held);
    if (!is_balanced)
        tr_rebalance_look(replication, ref, &held,
                          !was_enough && tr_set_has_enough(replication, ref, &held));
}

/* It is up, or has only just fallen silent, and its link is there: it may get no time to run, and
 * reads what it is sent before it pops again. */
static bool is_reading(const struct tr_replication *replication, uint16_t member)
{
    const struct tr_peer *peer = &replication->cluster->peers[member];
    bool is_new = replication->time->now_ms < peer->up_ms + SILENT_MS;
    return tr_peer_is_up(replication->cluster, member) || (peer->link == LINK_GREETED && is_new);
}

/* Of the nodes that a write's coordinator says have the record, the first sends it at once to those
 * that do not: they were not up for the coordinator, which may have only just met them. */
static void send_to_unmarked(struct tr_replication *replication, const struct tr_head *record,
                             uint8_t mask)
{
    unsigned own = tr_set_place_of(record, 0);
    uint8_t before = (uint8_t)((1u << own) - 1);
    if (own == record->replicas.count || (mask & 1u << own) == 0 || (mask & before) != 0)
        return;
    for (unsigned i = 0; i < record->replicas.count; i++) {
        uint16_t member = record->replicas.members[i];
        if ((mask & 1u << i) != 0 || !is_reading(replication, member))
            continue;
        tr_cover(replication->trial, RULE_UNMARKED);
        tr_pending_send_decided(replication, member, record);
    }
}

void tr_acknowledge_marked(struct tr_replication *replication, tr_ref ref,
                           const struct tr_head *named, uint8_t mask)
{
    struct tr_head held;
    ref = tr_store_find_near(replication->store, replication->arena, ref, named, &held);
    if (ref == TR_ARENA_NONE)
        return;
    TR_ASSERT(tr_key_equals(&held.key, &named->key));
    uint16_t ahead = tr_hold_who_is_ahead(replication, &held);
    if (ahead != TR_MEMBER_NONE && tr_set_has(&held, ahead)) {
        /* A write came here after the record had moved on: that node has a higher state, and does
         * not know that this node holds the lower one. Its place stays unmarked, so that it is sent
         * this copy and answers with its own. */
        tr_cover(replication->trial, RULE_MOVED_BEFORE);
        mask &= (uint8_t) ~(1u << tr_set_place_of(&held, ahead));
    }
    mask |= tr_store_acked(replication->store, ref);
    tr_store_set_acked(replication->store, ref, mask);
    send_to_unmarked(replication, &held, mask);
}
