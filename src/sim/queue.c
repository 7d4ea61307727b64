/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/queue.h"

#include "base/assert.h"

#include <stdlib.h>

static bool is_before(const struct sim_pending *a, const struct sim_pending *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

void sim_queue_add(struct sim_queue *queue, struct sim_pending pending)
{
    pending.order = queue->order++;
    sim_queue_put_back(queue, pending);
}

void sim_queue_put_back(struct sim_queue *queue, struct sim_pending pending)
{
    if (queue->count == queue->cap) {
        queue->cap = queue->cap * 2 > 256 ? queue->cap * 2 : 256;
        queue->heap = realloc(queue->heap, queue->cap * sizeof *queue->heap);
        TR_ASSERT(queue->heap != NULL);
    }
    uint32_t at = queue->count++;
    while (at > 0 && is_before(&pending, &queue->heap[(at - 1) / 2])) {
        queue->heap[at] = queue->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->heap[at] = pending;
}

struct sim_pending sim_queue_take(struct sim_queue *queue)
{
    struct sim_pending first = queue->heap[0];
    struct sim_pending last = queue->heap[--queue->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= queue->count)
            break;
        if (child + 1 < queue->count && is_before(&queue->heap[child + 1], &queue->heap[child]))
            child++;
        if (!is_before(&queue->heap[child], &last))
            break;
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    if (queue->count > 0)
        queue->heap[at] = last;
    return first;
}

void sim_queue_free(struct sim_queue *queue)
{
    for (uint32_t i = 0; i < queue->count; i++)
        free(queue->heap[i].bytes);
    free(queue->heap);
}
