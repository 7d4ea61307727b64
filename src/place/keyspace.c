/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `keyspace`: a ring of fixed partitions. Every node has one of its own; a key belongs to the first
 * node at or after its partition, and to the ones after it.
 */
#include "base/assert.h"
#include "base/hash.h"
#include "place/map.h"

#include <string.h>

#define BUCKETS 256 /* equal arcs whose first node is noted, so that a lookup need not search */

/* The index of the first position at or after `partition`, among those from `low` to `high`; or
 * `high`. */
static uint32_t first_from(const uint32_t *position, uint32_t low, uint32_t high,
                           uint64_t partition)
{
    TR_ASSERT(low <= high);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (position[middle] < partition)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The middle of the widest gap; ties to the one that starts lowest. False if it has no free
 * partition. */
static bool middle_of_widest_gap(const struct tr_keyspace *ring, uint32_t placed, uint32_t *middle)
{
    if (placed == 0) {
        *middle = 0;
        return true;
    }
    uint64_t widest = 0;
    uint64_t start = 0;
    for (uint32_t i = 0; i < placed; i++) {
        uint64_t next =
            i + 1 < placed ? ring->position[i + 1] : ring->position[0] + ring->partitions;
        if (next - ring->position[i] > widest) {
            widest = next - ring->position[i];
            start = ring->position[i];
        }
    }
    *middle = (uint32_t)((start + widest / 2) % ring->partitions);
    return widest >= 2;
}

static void insert(struct tr_keyspace *ring, uint32_t placed, uint32_t at, uint32_t position,
                   uint32_t node)
{
    TR_ASSERT(at <= placed);
    TR_ASSERT(at == placed || ring->position[at] > position);
    TR_ASSERT(at == 0 || ring->position[at - 1] < position);
    memmove(ring->position + at + 1, ring->position + at, (placed - at) * sizeof *ring->position);
    memmove(ring->owner + at + 1, ring->owner + at, (placed - at) * sizeof *ring->owner);
    ring->position[at] = position;
    ring->owner[at] = node;
    ring->of_node[node] = position;
}

/* Gives each node its partition, in the order of the list. */
static enum tryst_place_status place_nodes(struct tryst_place_map *map, struct tr_build *build)
{
    struct tr_keyspace *ring = &map->keyspace;
    for (uint32_t placed = 0; placed < map->count; placed++) {
        const struct tryst_place_node *node = &build->nodes[placed];
        uint32_t position = node->position;
        build->fault = placed;
        if (node->has_position && position >= ring->partitions)
            return TRYST_PLACE_BAD_POSITION;
        if (!node->has_position && !middle_of_widest_gap(ring, placed, &position))
            return TRYST_PLACE_NO_POSITION_LEFT;
        uint32_t at = first_from(ring->position, 0, placed, position);
        if (at < placed && ring->position[at] == position)
            return TRYST_PLACE_POSITION_TAKEN;
        TR_ASSERT(position < ring->partitions);
        insert(ring, placed, at, position, map->numbered[placed]);
    }
    return TRYST_PLACE_OK;
}

static enum tryst_place_status build(struct tryst_place_map *map, struct tr_build *build,
                                     struct tr_room *room)
{
    struct tr_keyspace *ring = &map->keyspace;
    ring->partitions =
        build->config->partitions == 0 ? TRYST_PLACE_PARTITIONS_DEFAULT : build->config->partitions;
    ring->position = tr_room_take(room, map->count, sizeof(uint32_t));
    ring->owner = tr_room_take(room, map->count, sizeof(uint32_t));
    ring->of_node = tr_room_take(room, map->count, sizeof(uint32_t));
    ring->bucket = tr_room_take(room, BUCKETS + 1, sizeof(uint32_t));
    if (room->base == NULL)
        return TRYST_PLACE_OK;
    enum tryst_place_status status = place_nodes(map, build);
    if (status != TRYST_PLACE_OK)
        return status;
    ring->shift = 0;
    while ((ring->partitions - 1) >> ring->shift >= BUCKETS)
        ring->shift++;
    TR_ASSERT((ring->partitions - 1) >> ring->shift < BUCKETS);
    for (uint64_t i = 0; i <= BUCKETS; i++)
        ring->bucket[i] = first_from(ring->position, 0, map->count, i << ring->shift);
    return TRYST_PLACE_OK;
}

/* A key is the 32-bit hash, whatever the number of partitions: one map's keys are good for
 * another's. */
static uint64_t key_of_text(const struct tryst_place_map *map, const void *text, size_t size)
{
    (void)map;
    return tr_hash_jenkins(text, size);
}

static uint64_t key_of_id(const struct tryst_place_map *map, uint64_t id)
{
    uint8_t bytes[8];
    tr_hash_id_bytes(id, bytes);
    return key_of_text(map, bytes, sizeof bytes);
}

/* The least hash of a partition: h P / 2^32 rounds down to it, as h P exceeds partition x 2^32 by
 * less than P. */
uint64_t tr_keyspace_key_at(const struct tr_keyspace *ring, uint64_t partition)
{
    TR_ASSERT(partition < ring->partitions);
    return ((partition << 32) + ring->partitions - 1) / ring->partitions;
}

static void rank(const struct tryst_place_map *map, uint64_t key, size_t want, uint32_t *numbers,
                 void *scratch)
{
    (void)scratch;
    const struct tr_keyspace *ring = &map->keyspace;
    uint64_t partition = (uint64_t)(uint32_t)key * ring->partitions >> 32;
    TR_ASSERT(partition < ring->partitions && want <= map->count);
    const uint32_t *bucket = ring->bucket + (partition >> ring->shift);
    uint32_t at = first_from(ring->position, bucket[0], bucket[1], partition);
    for (size_t i = 0; i < want; i++, at++) {
        at = at < map->count ? at : 0;
        numbers[i] = ring->owner[at];
    }
}

const struct tr_strategy tr_strategy_keyspace = {
    .name = "keyspace@1",
    .uses = TR_USES_POSITION,
    .build = build,
    .key_of_id = key_of_id,
    .key_of_text = key_of_text,
    .rank = rank,
};
