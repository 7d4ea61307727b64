/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/pops.h"

#include <stdlib.h>
#include <string.h>

#define DEAD_WITHIN 4096 /* attempts that may have ended since the one that was the last */

struct tr_pop_ring {
    size_t cap;
    size_t count;
    size_t next;
    struct tr_pop_told **pops; /* each with its texts behind it */
};

struct tr_pop_ring *tr_pop_ring_open(size_t cap)
{
    struct tr_pop_ring *ring = calloc(1, sizeof *ring);
    if (ring == NULL)
        return NULL;
    ring->cap = cap;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): it is pointers that are wanted
    ring->pops = calloc(cap > 0 ? cap : 1, sizeof *ring->pops);
    if (ring->pops == NULL) {
        free(ring);
        return NULL;
    }
    return ring;
}

void tr_pop_ring_close(struct tr_pop_ring *ring)
{
    for (size_t i = 0; i < ring->cap; i++)
        free(ring->pops[i]);
    free(ring->pops);
    free(ring);
}

static void copy(struct tr_span *span, char **to)
{
    memcpy(*to, span->text, span->size);
    span->text = *to;
    *to += span->size;
}

void tr_pop_ring_add(struct tr_pop_ring *ring, const struct tr_pop_told *pop)
{
    if (ring->cap == 0)
        return;
    size_t size = pop->uri.size + pop->name.size;
    for (unsigned i = 0; i < pop->tag_count; i++)
        size += pop->tags[i].size;
    struct tr_pop_told *kept = malloc(sizeof *kept + size);
    if (kept == NULL)
        return;
    char *to = (char *)(kept + 1);
    *kept = *pop;
    copy(&kept->uri, &to);
    copy(&kept->name, &to);
    for (unsigned i = 0; i < kept->tag_count; i++)
        copy(&kept->tags[i], &to);
    free(ring->pops[ring->next]);
    ring->pops[ring->next] = kept;
    ring->next = (ring->next + 1) % ring->cap;
    ring->count += ring->count < ring->cap;
}

static struct tr_pop_told *back(const struct tr_pop_ring *ring, size_t at)
{
    return at < ring->count ? ring->pops[(ring->next + ring->cap - 1 - at) % ring->cap] : NULL;
}

void tr_pop_ring_is_dead(struct tr_pop_ring *ring, tr_timer_id id, uint64_t sequence)
{
    struct tr_pop_told *pop = NULL;
    for (size_t at = 0; at < DEAD_WITHIN && (pop = back(ring, at)) != NULL; at++) {
        if (pop->id == id && pop->sequence == sequence) {
            pop->state = TR_POP_DEAD;
            return;
        }
    }
}

const struct tr_pop_told *tr_pop_ring_next(const struct tr_pop_ring *ring, size_t *at,
                                           enum tr_pop_state state)
{
    const struct tr_pop_told *pop = NULL;
    while ((pop = back(ring, *at)) != NULL) {
        (*at)++;
        if (state == TR_POP_ANY || pop->state == state)
            return pop;
    }
    return NULL;
}
