/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes out of an order in which each comes many times, each of them once. */
#ifndef TR_PLACE_DISTINCT_H
#define TR_PLACE_DISTINCT_H

#include "place/map.h"

#include <string.h>

struct tr_distinct {
    uint32_t *numbers;
    size_t want;
    size_t found;
    uint8_t *marks; /* a bit for each node; NULL: they are so few that looking is quicker */
};

/* Bytes of scratch that it needs for `want` nodes. */
static inline size_t tr_distinct_size(const struct tryst_place_map *map, size_t want)
{
    return want <= TR_FIELD_FEW ? 0 : (map->count + 7) / 8;
}

static inline struct tr_distinct tr_distinct_start(const struct tryst_place_map *map, size_t want,
                                                   uint32_t *numbers, void *scratch)
{
    size_t size = tr_distinct_size(map, want);
    TR_ASSERT(want <= map->count && (size == 0 || scratch != NULL));
    if (size > 0)
        memset(scratch, 0, size);
    return (struct tr_distinct){numbers, want, 0, size > 0 ? scratch : NULL};
}

static inline bool tr_distinct_is_new(const struct tr_distinct *distinct, uint32_t node)
{
    if (distinct->marks != NULL)
        return (distinct->marks[node / 8] & 1u << node % 8) == 0;
    for (size_t i = 0; i < distinct->found; i++) {
        if (distinct->numbers[i] == node)
            return false;
    }
    return true;
}

/* Takes the node if it is new. False: there are enough. */
static inline bool tr_distinct_take(struct tr_distinct *distinct, uint32_t node)
{
    if (tr_distinct_is_new(distinct, node)) {
        if (distinct->marks != NULL)
            distinct->marks[node / 8] |= (uint8_t)(1u << node % 8);
        distinct->numbers[distinct->found++] = node;
    }
    return distinct->found < distinct->want;
}

#endif
