/* SPDX-License-Identifier: Apache-2.0 */
/* What will happen, by time; what was planned first comes first. */
#ifndef TR_SIM_QUEUE_H
#define TR_SIM_QUEUE_H

#include "node/node.h"

enum sim_happening {
    HAPPENS_CALLBACK,
    HAPPENS_SYNC,
    HAPPENS_ALLOCATED,
    HAPPENS_REFUSED,
    HAPPENS_FRAME,
    HAPPENS_SENT,
    HAPPENS_LINK_UP,
    HAPPENS_LINK_DOWN,
    HAPPENS_START,
    HAPPENS_VIEW,
    HAPPENS_ASK, /* a client comes, since keys move */
};

struct sim_pending {
    uint64_t at_ms;
    uint64_t order;
    enum sim_happening what;
    uint32_t machine;
    uint32_t epoch; /* of the machine: what was for an earlier one is lost */
    uint32_t other; /* the other end of a link */
    uint32_t link_epoch;
    uint64_t number; /* a flight, a position, a segment or a view */
    enum tr_callback_result result;
    unsigned status;
    uint32_t write;
    uint64_t sequence;
    uint8_t *bytes;
    size_t size;
};

struct sim_queue {
    struct sim_pending *heap;
    uint32_t count;
    uint32_t cap;
    uint64_t order;
};

void sim_queue_add(struct sim_queue *queue, struct sim_pending pending);
/* One that was taken: it keeps its place among those of the same time. */
void sim_queue_put_back(struct sim_queue *queue, struct sim_pending pending);
struct sim_pending sim_queue_take(struct sim_queue *queue);
void sim_queue_free(struct sim_queue *queue);

static inline uint64_t sim_queue_next_ms(const struct sim_queue *queue)
{
    return queue->count > 0 ? queue->heap[0].at_ms : UINT64_MAX;
}

#endif
