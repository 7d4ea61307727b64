/* SPDX-License-Identifier: Apache-2.0 */
/* What strategies build their part of a map from: bytes of its room, lanes of scores, points. */
#include "place/map.h"

#include "base/assert.h"
#include "base/hash.h"

#include <string.h>

void *tr_room_take(struct tr_room *room, size_t count, size_t size)
{
    size_t start = (room->used + 15) & ~(size_t)15;
    TR_ASSERT(size == 0 || count <= (SIZE_MAX - start) / size);
    room->used = start + count * size;
    if (room->base == NULL)
        return NULL;
    TR_ASSERT(room->used <= room->size);
    return room->base + start;
}

uint32_t *tr_lanes_take(struct tr_room *room, size_t count)
{
    uint32_t *lanes = tr_room_take(room, count + TR_SCORE_BLOCK, sizeof *lanes);
    if (lanes != NULL)
        memset(lanes + count, 0, TR_SCORE_BLOCK * sizeof *lanes);
    return lanes;
}

struct tr_candidates tr_candidates_take(struct tr_room *room, size_t count)
{
    return (struct tr_candidates){
        .low = tr_lanes_take(room, count),
        .multiplier = tr_lanes_take(room, count),
        .inverse = tr_lanes_take(room, count),
        .weight = tr_room_take(room, count, sizeof(uint64_t)),
    };
}

void tr_map_make_field(struct tryst_place_map *map, struct tr_room *room)
{
    TR_ASSERT(map->count >= 1);
    const struct tr_candidates candidates = tr_candidates_take(room, map->count);
    if (room->base == NULL)
        return;
    for (uint32_t i = 0; i < map->count; i++)
        tr_candidates_set(&candidates, i, map->seed[i], map->weight[i]);
    map->field = tr_field_make(&candidates, 0, map->count);
    map->scorer.seed = map->seed;
}

uint64_t tr_point(uint64_t seed, uint64_t index)
{
    return tr_hash_mix(seed + (index + 1) * 0x9e3779b97f4a7c15u);
}

uint64_t tr_point_total(const struct tr_build *build, size_t count, uint64_t per_unit)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t weight = build->nodes[i].weight;
        total += tr_point_count(weight == 0 ? TRYST_PLACE_WEIGHT_ONE : weight, per_unit);
    }
    TR_ASSERT(total >= count);
    return total;
}
