/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ring`: consistent hashing. Tokens lie on a circle of 2^64 points; a key belongs to the first
 * token at or after its own point, then to the next distinct nodes.
 *
 * The circle is cut into about as many equal arcs as there are tokens, with the first token of each
 * noted: a lookup lands within a token or two of its answer instead of searching. The same arcs
 * sort the tokens when the map is built: counted per arc, dropped into their arc, and put in order
 * there.
 */
#include "base/assert.h"
#include "place/distinct.h"
#include "place/map.h"

#include <string.h>

#define PER_UNIT 200

static void take(struct tr_ring *ring, struct tr_room *room)
{
    TR_ASSERT(ring->count >= 1);
    unsigned bits = 1;
    while (bits < 24 && (size_t)1 << bits < ring->count)
        bits++;
    ring->shift = 64 - bits;
    ring->token = tr_room_take(room, ring->count, sizeof(uint64_t));
    ring->owner = tr_room_take(room, ring->count, sizeof(uint32_t));
    ring->bucket = tr_room_take(room, ((size_t)1 << bits) + 1, sizeof(uint32_t));
}

static size_t bucket_count(const struct tr_ring *ring)
{
    return (size_t)1 << (64 - ring->shift);
}

/* Counts the tokens of each arc; afterwards bucket[b] is where those of arc b end. */
static void count_tokens(const struct tryst_place_map *map)
{
    const struct tr_ring *ring = &map->ring;
    memset(ring->bucket, 0, (bucket_count(ring) + 1) * sizeof *ring->bucket);
    for (uint32_t node = 0; node < map->count; node++) {
        uint64_t points = tr_point_count(map->weight[node], PER_UNIT);
        for (uint64_t i = 0; i < points; i++)
            ring->bucket[tr_point(map->seed[node], i) >> ring->shift]++;
    }
    uint32_t end = 0;
    for (size_t i = 0; i <= bucket_count(ring); i++) {
        end += ring->bucket[i];
        ring->bucket[i] = end;
    }
    TR_ASSERT(end == ring->count);
}

/* Drops each token into its arc, from the arc's end; afterwards bucket[b] is where arc b starts.
 * The last node comes first, so that equal tokens are in order already. */
static void drop_tokens(const struct tryst_place_map *map)
{
    const struct tr_ring *ring = &map->ring;
    for (uint32_t node = map->count; node > 0; node--) {
        uint64_t points = tr_point_count(map->weight[node - 1], PER_UNIT);
        for (uint64_t i = 0; i < points; i++) {
            uint64_t token = tr_point(map->seed[node - 1], i);
            size_t at = --ring->bucket[token >> ring->shift];
            TR_ASSERT(at < ring->count);
            ring->token[at] = token;
            ring->owner[at] = node - 1;
        }
    }
}

/* Sorts the tokens of one arc, equal ones by node. An arc has one or two: insertion is all it
 * takes. */
static void sort_arc(const struct tr_ring *ring, size_t start, size_t end)
{
    TR_ASSERT(start <= end && end <= ring->count);
    for (size_t i = start + 1; i < end; i++) {
        uint64_t token = ring->token[i];
        uint32_t owner = ring->owner[i];
        size_t at = i;
        for (; at > start && (ring->token[at - 1] > token ||
                              (ring->token[at - 1] == token && ring->owner[at - 1] > owner));
             at--) {
            ring->token[at] = ring->token[at - 1];
            ring->owner[at] = ring->owner[at - 1];
        }
        ring->token[at] = token;
        ring->owner[at] = owner;
    }
}

static enum tryst_place_status build(struct tryst_place_map *map, struct tr_build *build,
                                     struct tr_room *room)
{
    struct tr_ring *ring = &map->ring;
    uint64_t total = tr_point_total(build, map->count, PER_UNIT);
    if (total > TRYST_PLACE_POINTS_MAX)
        return TRYST_PLACE_TOO_MANY_POINTS;
    ring->count = (size_t)total;
    take(ring, room);
    if (room->base == NULL)
        return TRYST_PLACE_OK;
    count_tokens(map);
    drop_tokens(map);
    for (size_t arc = 0; arc < bucket_count(ring); arc++)
        sort_arc(ring, ring->bucket[arc], ring->bucket[arc + 1]);
    TR_ASSERT(ring->bucket[0] == 0);
    return TRYST_PLACE_OK;
}

static size_t first_token(const struct tr_ring *ring, uint64_t point)
{
    size_t at = ring->bucket[point >> ring->shift];
    while (at < ring->count && ring->token[at] < point)
        at++;
    TR_ASSERT(at == ring->count || ring->token[at] >= point);
    return at < ring->count ? at : 0;
}

static void rank(const struct tryst_place_map *map, uint64_t key, size_t want, uint32_t *numbers,
                 void *scratch)
{
    const struct tr_ring *ring = &map->ring;
    struct tr_distinct distinct = tr_distinct_start(map, want, numbers, scratch);
    size_t at = first_token(ring, key);
    while (tr_distinct_take(&distinct, ring->owner[at]))
        at = at + 1 < ring->count ? at + 1 : 0;
    TR_ASSERT(distinct.found == want);
}

const struct tr_strategy tr_strategy_ring = {
    .name = "ring@1",
    .uses = TR_USES_WEIGHT,
    .build = build,
    .scratch_size = tr_distinct_size,
    .rank = rank,
};
