/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/ticket.h"

#include "replication/operation.h"
#include "replication/pending.h"
#include "replication/rebalance.h"
#include "replication/set.h"

static struct tr_message message_of(const struct tr_waiting *waiting, enum tr_message_kind kind)
{
    TR_ASSERT(kind < MESSAGE_KINDS);
    return (struct tr_message){
        .kind = kind,
        .result = TR_RESULT_STORED,
        .operation = waiting->token,
        .key = waiting->key,
        .order = waiting->order,
    };
}

static enum tr_message_kind message_kind_of(enum tr_replicate how)
{
    TR_ASSERT(how <= REPLICATE_PART);
    return how == REPLICATE_WHOLE  ? MESSAGE_COPY
           : how == REPLICATE_PART ? MESSAGE_PART
                                   : MESSAGE_OUTCOME;
}

/* Stored; with the record if that names others that may hold what it replaced. */
static void reply(struct tr_replication *replication, const struct tr_waiting *waiting,
                  const struct tr_head *held)
{
    TR_ASSERT(tr_is_other(replication, waiting->peer));
    struct tr_message answer = message_of(waiting, MESSAGE_ANSWER);
    answer.of.has_record =
        held == NULL || (held->from.count > 0 && (held->flags & TR_RECORD_MOVING) == 0);
    tr_replication_send(replication, waiting->peer, answer);
}

/* A node that the record does not name may be unable to reach all of its replica set: if they all
 * have the record, this node says so, and the other can drop its copy. */
static void acknowledge(struct tr_replication *replication, const struct tr_waiting *waiting,
                        tr_ref ref, const struct tr_head *held)
{
    TR_ASSERT(tr_is_other(replication, waiting->peer));
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_replication_send(replication, waiting->peer, message_of(waiting, MESSAGE_ACK));
    bool is_stray = !tr_set_is_named(held, waiting->peer) && tr_set_has(held, 0);
    if (!is_stray || held->replicas.count == 1 || !tr_set_is_known(replication, ref, held))
        return;
    tr_cover(replication->trial, RULE_MARKED_STRAY);
    struct tr_message mark = message_of(waiting, MESSAGE_MARK);
    mark.of.places = (uint8_t)((1u << held->replicas.count) - 1);
    tr_replication_send(replication, waiting->peer, mark);
}

void tr_ticket_due(struct tr_replication *replication, const struct tr_waiting *waiting,
                   struct tr_effects *out)
{
    TR_ASSERT(waiting->then != THEN_ANSWER && waiting->then <= THEN_DROPPED);
    struct tr_head named = {
        .key = waiting->key,
        .order = waiting->order,
    };
    struct tr_head held;
    tr_ref ref =
        tr_store_find_near(replication->store, replication->arena, waiting->ref, &named, &held);
    if (waiting->then == THEN_OPERATION)
        tr_operation_answered(replication, waiting->token, 0, TR_RESULT_STORED, NULL, out);
    else if (waiting->then == THEN_REPLY)
        reply(replication, waiting, ref != TR_ARENA_NONE ? &held : NULL);
    else if (waiting->then == THEN_ACK && ref != TR_ARENA_NONE)
        acknowledge(replication, waiting, ref, &held);
    else if (waiting->then == THEN_SEND && ref != TR_ARENA_NONE)
        tr_pending_send_all(replication, &held, message_kind_of((enum tr_replicate)waiting->token));
    else if (waiting->then == THEN_DROPPED)
        tr_replication_send(replication, waiting->peer, message_of(waiting, MESSAGE_DROPPED));
    if (ref == TR_ARENA_NONE)
        return;
    TR_ASSERT(tr_order_compare(&held.order, &waiting->order) == 0);
    tr_pending_add(replication, ref, &held);
    tr_rebalance_look(replication, ref, &held, waiting->then == THEN_SEND);
}
