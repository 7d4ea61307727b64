/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/condition.h"

#include "cluster/peer.h"
#include "cluster/view.h"
#include "replication/set.h"

/* The timer before its failed pops, and of one of them the higher state. */
static bool is_above(const struct tr_head *a, const struct tr_head *b)
{
    if ((a->key.part == 0) != (b->key.part == 0))
        return a->key.part == 0;
    return tr_order_compare(&a->order, &b->order) > 0;
}

void tr_condition_hear(struct tr_operation *operation, const struct tr_head *held)
{
    TR_ASSERT(tr_condition_is_due(operation));
    if (operation->has_best && !is_above(held, &operation->best))
        return;
    operation->has_best = true;
    operation->best = *held;
}

bool tr_condition_is_busy(const struct tr_replication *replication,
                          const struct tr_operation *operation)
{
    uint32_t left = replication->operation_count;
    for (uint32_t i = 0; left > 0 && i < replication->config.operations_max; i++) {
        const struct tr_operation *other = &replication->operations[i];
        left -= other->number != 0;
        if (other->number != 0 && other != operation && other->id == operation->id &&
            other->stage != STAGE_PASSED && tr_condition_is_due(other))
            return true;
    }
    return false;
}

uint16_t tr_condition_place(const struct tr_replication *replication, tr_timer_id id,
                            uint32_t factor)
{
    uint16_t list[TR_SET_MAX];
    unsigned count =
        tr_view_place(replication->cluster, id, tr_set_copies(replication, factor), list);
    for (unsigned i = 0; i < count; i++) {
        if (list[i] == 0 || tr_peer_is_serving(replication->cluster, list[i]))
            return list[i];
    }
    return 0; /* whoever is asked decides, with the nodes that are hinted */
}

/* ---- results between nodes ---- */

enum tr_frame_result tr_condition_tell(enum tr_result result, bool is_replayed)
{
    switch ((int)result) {
    case TR_DONE:
        return is_replayed ? TR_RESULT_REPLAYED : TR_RESULT_STORED;
    case TR_CONDITION_FAILED:
        return TR_RESULT_FAILED;
    case TR_KEY_REUSED:
        return TR_RESULT_REUSED;
    case TR_KEY_BUSY:
        return TR_RESULT_BUSY;
    case TR_UNKNOWN:
        return TR_RESULT_UNKNOWN;
    default:
        return TR_RESULT_FULL; /* nothing has happened, and it may be asked again */
    }
}

enum tr_result tr_condition_hear_result(enum tr_frame_result result)
{
    switch ((int)result) {
    case TR_RESULT_STORED:
    case TR_RESULT_REPLAYED:
        return TR_DONE;
    case TR_RESULT_FAILED:
        return TR_CONDITION_FAILED;
    case TR_RESULT_REUSED:
        return TR_KEY_REUSED;
    case TR_RESULT_BUSY:
        return TR_KEY_BUSY;
    case TR_RESULT_FULL:
        return TR_TOO_MANY_REQUESTS;
    default:
        return TR_UNKNOWN;
    }
}
