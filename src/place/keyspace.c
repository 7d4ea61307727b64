/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `keyspace`: a ring of fixed partitions, of which every node has one or more of its own. A key
 * belongs to the node of the first position at or after its partition, and to the next ones that
 * are other nodes.
 *
 *   keyspace@1  a node has one position; a key's partition is the last one before its hash
 *   keyspace@2  a node has several, taken from the node that has most; the first one after it
 *
 * While the ring is built, each position knows the one before it: a node that chooses splits a gap,
 * and nothing is moved. Then they are sorted.
 */
#include "base/assert.h"
#include "base/hash.h"
#include "base/heap.h"
#include "place/distinct.h"
#include "place/map.h"

#include <string.h>

#define BUCKETS       256  /* equal arcs whose first position is noted: a lookup need not search */
#define PER_NODE      16   /* positions of a node, unless told, */
#define SMALL_RING    1024 /* or one, where there are fewer partitions */
#define NO_PLACE      UINT32_MAX
#define ROUND_UP_MASK UINT64_C(0xffffffff)

static bool is_first_version(const struct tryst_place_map *map)
{
    return map->strategy == &tr_strategy_keyspace_1;
}

/* ---- gaps ---- */

static uint32_t gap_start(const struct tr_keyspace *ring, uint32_t at)
{
    return ring->place[ring->before[at]];
}

/* From the position before it; a single one's gap is the whole ring. */
static uint64_t gap_of(const struct tr_keyspace *ring, uint32_t at)
{
    uint64_t start = gap_start(ring, at);
    uint64_t end = ring->place[at];
    return end > start ? end - start : end + ring->partitions - start;
}

/* The widest of the gaps that end at these positions; ties to the one that starts lowest. */
static uint32_t widest(const struct tr_keyspace *ring, uint32_t from, uint32_t to)
{
    TR_ASSERT(from < to);
    uint32_t best = from;
    for (uint32_t i = from + 1; i < to; i++) {
        uint64_t gap = gap_of(ring, i);
        uint64_t most = gap_of(ring, best);
        if (gap > most || (gap == most && gap_start(ring, i) < gap_start(ring, best)))
            best = i;
    }
    return best;
}

/* ---- shares ---- */

/* The shares of the nodes that have a gap to split are the leaves of a tree; each vertex is the
 * larger of the two below it, or the one that is first in the list. */
static void set_worth(struct tr_keyspace *ring, uint32_t leaves, uint32_t node, uint64_t worth)
{
    uint32_t at = leaves + node;
    ring->worth[at] = worth;
    for (at /= 2; at >= 1; at /= 2) {
        uint64_t left = ring->worth[2 * at];
        uint64_t right = ring->worth[2 * at + 1];
        ring->worth[at] = left > right ? left : right;
    }
}

static uint32_t worthiest(const struct tr_keyspace *ring, uint32_t leaves)
{
    uint32_t at = 1;
    while (at < leaves)
        at = 2 * at + (ring->worth[2 * at] < ring->worth[2 * at + 1]);
    return at - leaves;
}

static uint32_t leaf_count(uint32_t nodes)
{
    uint32_t leaves = 1;
    while (leaves < nodes)
        leaves *= 2;
    return leaves;
}

static void weigh(struct tr_keyspace *ring, uint32_t leaves, uint32_t node)
{
    uint32_t from = ring->start[node];
    uint32_t to = ring->start[node + 1];
    bool can_split = to > from && gap_of(ring, widest(ring, from, to)) >= 2;
    uint64_t share = 0;
    for (uint32_t i = from; can_split && i < to; i++)
        share += gap_of(ring, i);
    set_worth(ring, leaves, node, share);
}

/* ---- placing ---- */

/* The positions that a node of the list is given; none: they are chosen. */
static size_t given_to(const struct tr_build *build, uint32_t node, const uint32_t **given)
{
    const struct tryst_place_positions *positions = build->positions;
    if (positions != NULL && positions->given != NULL && positions->given[node].count > 0) {
        *given = positions->given[node].positions;
        return positions->given[node].count;
    }
    *given = &build->nodes[node].position;
    return build->nodes[node].has_position != 0;
}

/* Who is placed so far. */
struct placing {
    struct tr_keyspace *ring;
    const struct tr_build *build;
    uint32_t count;  /* positions placed */
    uint32_t node;   /* whose turn it is, in the list */
    uint32_t leaves; /* of the tree of shares; 0: there is none */
};

/* The node of the list that a position is of: those of one are placed one after the other. */
static uint32_t node_of(const struct placing *placing, uint32_t at)
{
    uint32_t low = 0;
    uint32_t high = placing->node;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (placing->ring->start[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Puts the next position into the gap that ends at `next`. */
static void place(struct placing *placing, uint32_t position, uint32_t next)
{
    struct tr_keyspace *ring = placing->ring;
    uint32_t at = placing->count++;
    TR_ASSERT(position < ring->partitions && (next < at || (at == 0 && next == 0)));
    ring->place[at] = position;
    ring->before[at] = at == 0 ? 0 : ring->before[next];
    ring->before[next] = at;
    ring->start[placing->node + 1] = placing->count;
    if (placing->leaves > 0) /* a part of the gap is no longer its owner's */
        weigh(ring, placing->leaves, node_of(placing, next));
}

/* The position whose gap a chosen one splits, or NO_PLACE. */
static uint32_t gap_to_split(const struct placing *placing)
{
    const struct tr_keyspace *ring = placing->ring;
    uint32_t from = 0;
    uint32_t to = placing->count;
    if (placing->leaves > 0) {
        uint32_t node = worthiest(ring, placing->leaves);
        from = ring->start[node];
        to = ring->start[node + 1];
    }
    uint32_t at = from < to ? widest(ring, from, to) : NO_PLACE;
    return at != NO_PLACE && gap_of(ring, at) >= 2 ? at : NO_PLACE;
}

/* False: there is no free position. */
static bool choose(struct placing *placing)
{
    const struct tr_keyspace *ring = placing->ring;
    uint64_t middle = 0;
    uint32_t next = 0;
    if (placing->count > 0) {
        next = gap_to_split(placing);
        if (next == NO_PLACE)
            return false;
        middle = gap_start(ring, next) + gap_of(ring, next) / 2;
    }
    place(placing, (uint32_t)(middle % ring->partitions), next);
    return true;
}

static enum tryst_place_status take_given(struct placing *placing, uint32_t position)
{
    const struct tr_keyspace *ring = placing->ring;
    if (position >= ring->partitions)
        return TRYST_PLACE_BAD_POSITION;
    uint32_t next = 0;
    for (uint32_t i = 0; i < placing->count; i++) {
        if (ring->place[i] == position)
            return TRYST_PLACE_POSITION_TAKEN;
        uint64_t ahead = (ring->place[i] + ring->partitions - position) % ring->partitions;
        uint64_t least = (ring->place[next] + ring->partitions - position) % ring->partitions;
        next = ahead < least ? i : next;
    }
    place(placing, position, next);
    return TRYST_PLACE_OK;
}

static enum tryst_place_status place_node(struct placing *placing, uint32_t per_node)
{
    const uint32_t *given = NULL;
    size_t count = given_to(placing->build, placing->node, &given);
    for (size_t i = 0; i < count; i++) {
        enum tryst_place_status status = take_given(placing, given[i]);
        if (status != TRYST_PLACE_OK)
            return status;
    }
    for (uint32_t i = 0; count == 0 && i < per_node; i++) {
        if (!choose(placing))
            return TRYST_PLACE_NO_POSITION_LEFT;
    }
    return TRYST_PLACE_OK;
}

/* Gives each node its positions, in the order of the list. */
static enum tryst_place_status place_nodes(struct tryst_place_map *map, struct tr_build *build,
                                           uint32_t per_node)
{
    struct placing placing = {.ring = &map->keyspace, .build = build};
    if (!is_first_version(map)) {
        placing.leaves = leaf_count(map->count);
        memset(map->keyspace.worth, 0, 2 * placing.leaves * sizeof *map->keyspace.worth);
    }
    map->keyspace.start[0] = 0;
    for (placing.node = 0; placing.node < map->count; placing.node++) {
        build->fault = placing.node;
        enum tryst_place_status status = place_node(&placing, per_node);
        if (status != TRYST_PLACE_OK)
            return status;
        if (placing.leaves > 0)
            weigh(placing.ring, placing.leaves, placing.node);
    }
    TR_ASSERT(placing.count == map->keyspace.count);
    return TRYST_PLACE_OK;
}

/* ---- building ---- */

static bool is_before(const void *context, uint32_t a, uint32_t b)
{
    const uint32_t *place = context;
    return place[a] < place[b];
}

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

static void sort(struct tryst_place_map *map)
{
    struct tr_keyspace *ring = &map->keyspace;
    uint32_t *order = ring->before; /* no longer wanted for what it was */
    for (uint32_t i = 0; i < map->count; i++) {
        for (uint32_t k = ring->start[i]; k < ring->start[i + 1]; k++) {
            order[k] = k;
            ring->owner_of[k] = map->numbered[i];
        }
    }
    tr_heap_sort(order, ring->count, is_before, ring->place);
    for (uint32_t i = 0; i < ring->count; i++) {
        ring->position[i] = ring->place[order[i]];
        ring->owner[i] = ring->owner_of[order[i]];
        TR_ASSERT(i == 0 || ring->position[i - 1] < ring->position[i]);
    }
    ring->shift = 0;
    while ((ring->partitions - 1) >> ring->shift >= BUCKETS)
        ring->shift++;
    for (uint64_t i = 0; i <= BUCKETS; i++)
        ring->bucket[i] = first_from(ring->position, 0, ring->count, i << ring->shift);
}

/* Positions of a node that are not given. */
static uint32_t per_node_of(const struct tryst_place_map *map, const struct tr_build *build)
{
    if (is_first_version(map))
        return 1;
    if (build->positions != NULL && build->positions->per_node != 0)
        return build->positions->per_node;
    return map->keyspace.partitions < SMALL_RING ? 1 : PER_NODE;
}

static enum tryst_place_status build(struct tryst_place_map *map, struct tr_build *build,
                                     struct tr_room *room)
{
    struct tr_keyspace *ring = &map->keyspace;
    ring->partitions =
        build->config->partitions == 0 ? TRYST_PLACE_PARTITIONS_DEFAULT : build->config->partitions;
    uint32_t per_node = per_node_of(map, build);
    uint64_t total = 0;
    for (uint32_t i = 0; i < map->count && total <= TRYST_PLACE_POINTS_MAX; i++) {
        const uint32_t *given = NULL;
        size_t count = given_to(build, i, &given);
        total += count > 0 ? count : per_node;
    }
    if (total > TRYST_PLACE_POINTS_MAX)
        return TRYST_PLACE_TOO_MANY_POINTS;
    ring->count = (uint32_t)total;
    ring->place = tr_room_take(room, total, sizeof(uint32_t));
    ring->start = tr_room_take(room, map->count + 1, sizeof(uint32_t));
    ring->position = tr_room_take(room, total, sizeof(uint32_t));
    ring->owner = tr_room_take(room, total, sizeof(uint32_t));
    ring->bucket = tr_room_take(room, BUCKETS + 1, sizeof(uint32_t));
    ring->before = tr_room_take(room, total, sizeof(uint32_t));
    ring->owner_of = tr_room_take(room, total, sizeof(uint32_t));
    ring->worth = tr_room_take(room, 2 * (size_t)leaf_count(map->count), sizeof(uint64_t));
    if (room->base == NULL)
        return TRYST_PLACE_OK;
    enum tryst_place_status status = place_nodes(map, build, per_node);
    if (status == TRYST_PLACE_OK)
        sort(map);
    return status;
}

/* ---- keys ---- */

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

static uint64_t partition_of(const struct tryst_place_map *map, uint64_t key)
{
    const struct tr_keyspace *ring = &map->keyspace;
    uint64_t along = (uint64_t)(uint32_t)key * ring->partitions;
    if (is_first_version(map))
        return along >> 32;
    uint64_t partition = (along >> 32) + ((along & ROUND_UP_MASK) != 0);
    return partition < ring->partitions ? partition : 0;
}

/* A hash of the partition. For keyspace@1 the least: h P / 2^32 rounds down to the partition, as
 * h P exceeds partition x 2^32 by less than P. For keyspace@2 the greatest, likewise. */
uint64_t tr_keyspace_key_at(const struct tryst_place_map *map, uint64_t partition)
{
    const struct tr_keyspace *ring = &map->keyspace;
    TR_ASSERT(partition < ring->partitions);
    uint64_t beside = is_first_version(map) ? ring->partitions - 1 : 0;
    uint64_t key = ((partition << 32) + beside) / ring->partitions;
    TR_ASSERT(partition_of(map, key) == partition);
    return key;
}

static void rank(const struct tryst_place_map *map, uint64_t key, size_t want, uint32_t *numbers,
                 void *scratch)
{
    const struct tr_keyspace *ring = &map->keyspace;
    uint64_t partition = partition_of(map, key);
    const uint32_t *bucket = ring->bucket + (partition >> ring->shift);
    uint32_t at = first_from(ring->position, bucket[0], bucket[1], partition);
    struct tr_distinct distinct = tr_distinct_start(map, want, numbers, scratch);
    do
        at = at < ring->count ? at : 0;
    while (tr_distinct_take(&distinct, ring->owner[at++]));
    TR_ASSERT(distinct.found == want);
}

const struct tr_strategy tr_strategy_keyspace_1 = {
    .name = "keyspace@1",
    .uses = TR_USES_POSITION,
    .build = build,
    .key_of_id = key_of_id,
    .key_of_text = key_of_text,
    .scratch_size = tr_distinct_size,
    .rank = rank,
};

const struct tr_strategy tr_strategy_keyspace_2 = {
    .name = "keyspace@2",
    .uses = TR_USES_POSITION,
    .build = build,
    .key_of_id = key_of_id,
    .key_of_text = key_of_text,
    .scratch_size = tr_distinct_size,
    .rank = rank,
};
