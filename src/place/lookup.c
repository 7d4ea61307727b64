/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking up: keys in, list indexes out. A strategy only ranks; taking nodes out of its order is
 * done here, the same way for all: rank as many more as are excluded, and skip those.
 */
#include "base/assert.h"
#include "base/hash.h"
#include "place/map.h"

#include <string.h>

struct tryst_place_key tryst_place_key_of_id(const struct tryst_place_map *map, uint64_t id)
{
    if (map->strategy->key_of_id == NULL)
        return (struct tryst_place_key){tr_hash_mix(id)};
    return (struct tryst_place_key){map->strategy->key_of_id(map, id)};
}

struct tryst_place_key tryst_place_key_of_text(const struct tryst_place_map *map, const void *text,
                                               size_t text_size)
{
    if (map->strategy->key_of_text == NULL)
        return (struct tryst_place_key){tr_hash_mix(tr_hash_xxh3(text, text_size))};
    return (struct tryst_place_key){map->strategy->key_of_text(map, text, text_size)};
}

enum tryst_place_status tryst_place_key_at(const struct tryst_place_map *map, uint64_t position,
                                           struct tryst_place_key *key)
{
    if (map->strategy == &tr_strategy_ring) {
        key->bits = position;
        return TRYST_PLACE_OK;
    }
    if (!tr_map_is_keyspace(map))
        return TRYST_PLACE_POSITION_UNUSED;
    if (position >= map->keyspace.partitions)
        return TRYST_PLACE_BAD_POSITION;
    key->bits = tr_keyspace_key_at(map, position);
    return TRYST_PLACE_OK;
}

static size_t at_most_all(const struct tryst_place_map *map, size_t want)
{
    return want < map->count ? want : map->count;
}

static size_t round_up(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static size_t scratch_size(const struct tryst_place_map *map, size_t want)
{
    return map->strategy->scratch_size == NULL ? 0 : map->strategy->scratch_size(map, want);
}

/* Behind a strategy's own scratch: the longer order of a lookup with exclusions, and a bit per
 * node. */
static size_t except_size(const struct tryst_place_map *map, size_t want)
{
    return want <= TR_FIELD_FEW ? 0 : round_up(want * sizeof(uint32_t)) + (map->count + 7) / 8;
}

size_t tryst_place_workspace_size(const struct tryst_place_map *map, size_t want)
{
    want = at_most_all(map, want);
    return round_up(scratch_size(map, want)) + except_size(map, want);
}

size_t tryst_place_lookup(const struct tryst_place_map *map, struct tryst_place_key key,
                          size_t want, uint32_t *nodes, void *workspace)
{
    want = at_most_all(map, want);
    if (want == 0)
        return 0;
    TR_ASSERT(want <= TR_FIELD_FEW || workspace != NULL);
    map->strategy->rank(map, key.bits, want, nodes, workspace);
    for (size_t i = 0; i < want; i++)
        nodes[i] = map->listed[nodes[i]];
    return want;
}

size_t tryst_place_lookup_many(const struct tryst_place_map *map,
                               const struct tryst_place_key *keys, size_t key_count, size_t want,
                               uint32_t *nodes, void *workspace)
{
    want = at_most_all(map, want);
    for (size_t i = 0; i < key_count; i++)
        tryst_place_lookup(map, keys[i], want, nodes + i * want, workspace);
    return want;
}

/* Is `node` one of a handful? */
static bool is_listed(const struct tryst_place_except *except, uint32_t node)
{
    for (size_t i = 0; i < except->count; i++) {
        if (except->nodes[i] == node)
            return true;
    }
    return false;
}

static size_t keep_few(const uint32_t *order, size_t ordered, size_t want, uint32_t *nodes,
                       const struct tryst_place_except *except)
{
    size_t kept = 0;
    for (size_t i = 0; i < ordered && kept < want; i++) {
        if (!is_listed(except, order[i]))
            nodes[kept++] = order[i];
    }
    TR_ASSERT(kept <= want);
    return kept;
}

static void mark(const struct tryst_place_map *map, const struct tryst_place_except *except,
                 uint8_t *marks)
{
    memset(marks, 0, (map->count + 7) / 8);
    for (size_t i = 0; i < except->count; i++) {
        if (except->nodes[i] < map->count)
            marks[except->nodes[i] / 8] |= (uint8_t)(1u << except->nodes[i] % 8);
    }
}

size_t tryst_place_lookup_except(const struct tryst_place_map *map, struct tryst_place_key key,
                                 size_t want, uint32_t *nodes,
                                 const struct tryst_place_except *except, void *workspace)
{
    if (except == NULL || except->count == 0)
        return tryst_place_lookup(map, key, want, nodes, workspace);
    want = at_most_all(map, want);
    size_t ranked = at_most_all(map, want + at_most_all(map, except->count));
    TR_ASSERT(ranked >= want);
    if (want == 0)
        return 0;
    if (ranked <= TR_FIELD_FEW) {
        uint32_t order[TR_FIELD_FEW];
        tryst_place_lookup(map, key, ranked, order, workspace);
        return keep_few(order, ranked, want, nodes, except);
    }
    TR_ASSERT(workspace != NULL);
    unsigned char *behind = (unsigned char *)workspace + round_up(scratch_size(map, ranked));
    uint32_t *order = (uint32_t *)(void *)behind;
    uint8_t *marks = behind + round_up(ranked * sizeof *order);
    tryst_place_lookup(map, key, ranked, order, workspace);
    mark(map, except, marks);
    size_t kept = 0;
    for (size_t i = 0; i < ranked && kept < want; i++) {
        if (!(marks[order[i] / 8] >> order[i] % 8 & 1))
            nodes[kept++] = order[i];
    }
    return kept;
}
