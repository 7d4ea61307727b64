/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rendezvous`: highest random weight over all nodes, weighted by the logarithmic method. `carp` is
 * the same with load factors in place of weights (carp_factors.c makes them).
 */
#include "place/carp_factors.h"
#include "place/map.h"

static enum tryst_place_status build_rendezvous(struct tryst_place_map *map, struct tr_build *build,
                                                struct tr_room *room)
{
    (void)build;
    tr_map_make_field(map, room);
    return TRYST_PLACE_OK;
}

static enum tryst_place_status build_carp(struct tryst_place_map *map, struct tr_build *build,
                                          struct tr_room *room)
{
    (void)build;
    tr_map_make_field(map, room);
    uint64_t *factor = tr_room_take(room, map->count, sizeof *factor);
    uint32_t *by_weight = tr_room_take(room, map->count, sizeof *by_weight);
    if (room->base == NULL || map->field.method == TR_METHOD_PLAIN)
        return TRYST_PLACE_OK;
    tr_carp_factors(map->weight, map->count, by_weight, factor);
    map->field.weight = factor;
    map->field.method = TR_METHOD_MULTIPLIED;
    return TRYST_PLACE_OK;
}

static size_t scratch_size(const struct tryst_place_map *map, size_t want)
{
    return tr_field_scratch_size(map->count, want);
}

static void rank(const struct tryst_place_map *map, uint64_t key, size_t want, uint32_t *numbers,
                 void *scratch)
{
    tr_field_rank(&map->field, &map->scorer, key, want, numbers, scratch);
}

const struct tr_strategy tr_strategy_rendezvous = {
    .name = "rendezvous@1",
    .uses = TR_USES_WEIGHT,
    .build = build_rendezvous,
    .scratch_size = scratch_size,
    .rank = rank,
};

const struct tr_strategy tr_strategy_carp = {
    .name = "carp@1",
    .uses = TR_USES_WEIGHT,
    .build = build_carp,
    .scratch_size = scratch_size,
    .rank = rank,
};
