/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropping what a write has replaced, before its client is answered. Those who may hold it are
 * asked to drop it: the nodes that copies of the record name, those that the client's id names,
 * and, while records may be elsewhere than placed, every node that is up. When all have, or
 * time is up, the replica set hears that the write is decided.
 */
#include "replication/operation.h"

#include "cluster/peer.h"
#include "replication/acknowledge.h"
#include "replication/dropped.h"
#include "replication/hold.h"
#include "replication/rebalance.h"
#include "replication/set.h"

/* Asks a node to drop what it may hold of an older version, and waits for its answer. */
static void ask_to_drop(struct tr_replication *replication, struct tr_operation *operation,
                        uint16_t member, const struct tr_whole *record)
{
    TR_ASSERT(operation->number != 0);
    if (member == 0 || member == TR_MEMBER_NONE || tr_operation_is_open(operation, member) ||
        tr_set_has(&record->head, member) || !tr_peer_heeds(replication->cluster, member))
        return;
    tr_operation_open(operation, member);
    tr_replication_send(replication, member,
                        (struct tr_message){
                            .kind = MESSAGE_DROP,
                            .operation = operation->number,
                            .key.id = record->head.key.id,
                            .order = record->head.order,
                        });
}

/* Drops the older version that this node, though not of the replica set, may hold itself. */
static void drop_here(struct tr_replication *replication, const struct tr_head *head)
{
    struct tr_head held;
    tr_ref ref = tr_store_find(replication->store, &(struct tr_key){.id = head->key.id});
    if (tr_set_has(head, 0) || ref == TR_ARENA_NONE)
        return;
    tr_store_head(replication->store, ref, &held);
    if (held.order.version >= head->order.version)
        return;
    if (tr_replication_has_room(replication, head))
        tr_dropped_remove(replication, ref);
    else
        tr_hold_ahead(replication, 0, head); /* it is met again when it is rebalanced */
}

/* Sends a mark to each node of the set that has the record, or is about to: which of them have it,
 * and that the write is decided. */
static void send_marks(struct tr_replication *replication, const struct tr_operation *operation,
                       const struct tr_whole *record)
{
    TR_ASSERT(operation->replica_count <= TR_SET_MAX);
    for (unsigned i = 0; i < operation->replica_count; i++) {
        if ((operation->failed & 1u << i) != 0)
            continue;
        if (operation->replicas[i] == 0) {
            tr_acknowledge_marked(replication, operation->own, &record->head, operation->done);
            tr_hold_close(replication, &record->head);
        } else
            tr_replication_send(replication, operation->replicas[i],
                                (struct tr_message){
                                    .kind = MESSAGE_MARK,
                                    .of.places = operation->done,
                                    .key = record->head.key,
                                    .order = record->head.order,
                                });
    }
}

void tr_replaced_begin(struct tr_replication *replication, struct tr_operation *operation,
                       struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_WRITING && (operation->done | operation->above) != 0);
    struct tr_whole record;
    tr_operation_unpack(replication, operation, &record);
    operation->stage = STAGE_DROPPING;
    bool is_new = operation->is_drawn;
    if (!is_new && tr_rebalance_may_be_elsewhere(replication)) {
        tr_cover(replication->trial, RULE_WIDE);
        for (uint32_t i = 1; i < replication->cluster->member_count; i++)
            ask_to_drop(replication, operation, (uint16_t)i, &record);
    }
    /* The id names the nodes that had the timer when the id was given out. */
    for (uint32_t i = 1; i < replication->cluster->member_count && operation->filter != 0; i++) {
        if ((replication->cluster->members[i].replica_bits & ~operation->filter) == 0)
            ask_to_drop(replication, operation, (uint16_t)i, &record);
    }
    if (!is_new)
        drop_here(replication, &record.head);
    if (tr_operation_has_open(replication, operation))
        return;
    send_marks(replication, operation, &record);
    tr_operation_finish(replication, operation, out);
}

/* All have answered, or time is up. A node that is up and has not said that it dropped what was
 * replaced may still have it: then the outcome is unknown. */
void tr_replaced_finish(struct tr_replication *replication, struct tr_operation *operation,
                        struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_DROPPING && (operation->done | operation->above) != 0);
    struct tr_whole record;
    tr_operation_unpack(replication, operation, &record);
    send_marks(replication, operation, &record);
    if (tr_operation_has_open(replication, operation))
        tr_operation_give_up(replication, operation, out);
    else
        tr_operation_finish(replication, operation, out);
}

/* The copy that a replica holds now names, in its `from`, nodes that may hold what the write
 * replaced: they are asked to drop it, too. */
void tr_replaced_ask_named(struct tr_replication *replication, struct tr_operation *operation,
                           const struct tr_whole *stored)
{
    TR_ASSERT(operation->number != 0);
    if (stored->head.from.count == 0)
        return;
    struct tr_whole record;
    tr_operation_unpack(replication, operation, &record);
    for (unsigned i = 0; i < stored->head.from.count; i++) {
        tr_cover(replication->trial, RULE_EXTENDED);
        ask_to_drop(replication, operation, stored->head.from.members[i], &record);
    }
}
