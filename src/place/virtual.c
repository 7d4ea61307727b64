/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `virtual`: weights by several virtual locations per node; a node is worth its best location. A
 * lookup scores every location, so this is the dearest of the strategies: it is here because people
 * have it and want to move off it.
 */
#include "base/assert.h"
#include "base/heap.h"
#include "place/map.h"

#include <string.h>

#define PER_UNIT     64
#define CHUNK_BLOCKS 64

static enum tryst_place_status build(struct tryst_place_map *map, struct tr_build *build,
                                     struct tr_room *room)
{
    struct tr_virtual *virtuals = &map->virtuals;
    uint64_t total = tr_point_total(build, map->count, PER_UNIT);
    if (total > TRYST_PLACE_POINTS_MAX)
        return TRYST_PLACE_TOO_MANY_POINTS;
    virtuals->count = (size_t)total;
    virtuals->low = tr_lanes_take(room, virtuals->count);
    virtuals->multiplier = tr_lanes_take(room, virtuals->count);
    virtuals->owner = tr_room_take(room, virtuals->count, sizeof(uint32_t));
    if (room->base == NULL)
        return TRYST_PLACE_OK;
    size_t at = 0;
    for (uint32_t node = 0; node < map->count; node++) {
        uint64_t points = tr_point_count(map->weight[node], PER_UNIT);
        for (uint64_t i = 0; i < points; i++, at++) {
            uint64_t seed = tr_point(map->seed[node], i);
            virtuals->low[at] = tr_score_low(seed);
            virtuals->multiplier[at] = tr_score_multiplier(seed);
            virtuals->owner[at] = node;
        }
    }
    TR_ASSERT(at == virtuals->count);
    return TRYST_PLACE_OK;
}

static uint64_t raw_score(const struct tryst_place_map *map, uint64_t key, size_t location)
{
    const struct tr_virtual *virtuals = &map->virtuals;
    const struct tryst_place_hash *hash = map->scorer.hash;
    uint32_t low = virtuals->low[location];
    uint32_t multiplier = virtuals->multiplier[location];
    if (hash != NULL)
        return hash->score(hash->context, key, (uint64_t)multiplier << 32 | low);
    return tr_score_of(key, low, multiplier);
}

struct winner {
    uint64_t raw;
    uint32_t node;
};

struct winners {
    struct winner entries[TR_FIELD_FEW];
    size_t count;
    size_t want;
};

/* What a location must exceed, or equal from a node of lower number, to count. */
static uint64_t bar(const struct winners *winners)
{
    return winners->count < winners->want ? 0 : winners->entries[winners->want - 1].raw;
}

static bool is_before(struct winner a, struct winner b)
{
    return a.raw != b.raw ? a.raw > b.raw : a.node < b.node;
}

/* Takes a location into account: its node moves up, comes in, or stays as it is. */
static void offer(struct winners *winners, struct winner new)
{
    TR_ASSERT(winners->count <= winners->want);
    size_t at = 0;
    while (at < winners->count && winners->entries[at].node != new.node)
        at++;
    if (at == winners->count) {
        if (winners->count < winners->want)
            winners->count++;
        else if (!is_before(new, winners->entries[--at]))
            return;
    } else if (!is_before(new, winners->entries[at])) {
        return;
    }
    for (; at > 0 && is_before(new, winners->entries[at - 1]); at--)
        winners->entries[at] = winners->entries[at - 1];
    winners->entries[at] = new;
}

static void offer_range(struct winners *winners, const struct tryst_place_map *map, uint64_t key,
                        size_t first, size_t end)
{
    TR_ASSERT(end <= map->virtuals.count);
    for (size_t i = first; i < end; i++) {
        uint64_t raw = raw_score(map, key, i);
        if (raw >= bar(winners))
            offer(winners, (struct winner){raw, map->virtuals.owner[i]});
    }
}

/* Chunks double in size, so that the bar is high before much was looked at. */
static size_t scan_blocks(struct winners *winners, const struct tryst_place_map *map, uint64_t key)
{
    const struct tr_lanes lanes = {map->virtuals.low, map->virtuals.multiplier, NULL};
    size_t blocks = map->virtuals.count / TR_SCORE_BLOCK;
    size_t chunk = 1;
    for (size_t block = 0; block < blocks; chunk = chunk < CHUNK_BLOCKS ? 2 * chunk : chunk) {
        size_t here = blocks - block < chunk ? blocks - block : chunk;
        uint32_t minima[CHUNK_BLOCKS];
        uint32_t groups[4];
        tr_score_minima(map->scorer.kernel, &lanes, block * TR_SCORE_BLOCK, here, key, minima,
                        groups);
        for (size_t i = 0; i < here; i++, block++) {
            size_t first = block * TR_SCORE_BLOCK;
            if (minima[i] <= ~(uint32_t)(bar(winners) >> 32))
                offer_range(winners, map, key, first, first + TR_SCORE_BLOCK);
        }
    }
    return blocks * TR_SCORE_BLOCK;
}

static void rank_few(const struct tryst_place_map *map, uint64_t key, size_t want,
                     uint32_t *numbers)
{
    TR_ASSERT(want >= 1);
    TR_ASSERT(want <= TR_FIELD_FEW && want <= map->count);
    struct winners winners;
    winners.count = 0;
    winners.want = want;
    size_t scanned = map->scorer.hash == NULL ? scan_blocks(&winners, map, key) : 0;
    offer_range(&winners, map, key, scanned, map->virtuals.count);
    TR_ASSERT(winners.count == want);
    for (size_t i = 0; i < want; i++)
        numbers[i] = winners.entries[i].node;
}

static bool scores_more(const void *context, uint32_t a, uint32_t b)
{
    const uint64_t *best = context;
    return best[a] != best[b] ? best[a] > best[b] : a < b;
}

static size_t scratch_size(const struct tryst_place_map *map, size_t want)
{
    return want <= TR_FIELD_FEW ? 0 : map->count * (sizeof(uint64_t) + sizeof(uint32_t));
}

static void rank(const struct tryst_place_map *map, uint64_t key, size_t want, uint32_t *numbers,
                 void *scratch)
{
    if (want <= TR_FIELD_FEW) {
        rank_few(map, key, want, numbers);
        return;
    }
    TR_ASSERT(scratch != NULL && want <= map->count);
    uint64_t *best = scratch;
    uint32_t *items = (uint32_t *)(void *)(best + map->count);
    memset(best, 0, map->count * sizeof *best);
    for (size_t i = 0; i < map->virtuals.count; i++) {
        uint64_t raw = raw_score(map, key, i);
        uint32_t node = map->virtuals.owner[i];
        best[node] = raw > best[node] ? raw : best[node];
    }
    for (uint32_t i = 0; i < map->count; i++)
        items[i] = i;
    tr_heap_take(items, map->count, scores_more, best, want, numbers);
}

const struct tr_strategy tr_strategy_virtual = {
    .name = "virtual@1",
    .uses = TR_USES_WEIGHT,
    .build = build,
    .scratch_size = scratch_size,
    .rank = rank,
};
