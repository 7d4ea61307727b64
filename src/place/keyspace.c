/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `keyspace`: a ring of fixed partitions, of which every node has one or more of its own. A key
 * belongs to the node of the first position at or after its partition, and to the next ones that
 * are other nodes.
 *
 *   keyspace@1  a node has one position. The partition of a key is the last one at or before the
 *               key's place on the circle.
 *   keyspace@2  a node has several positions, chosen so that the shares are even. The partition of
 *               a key is the first one at or after its place.
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

#define BUCKETS    256  /* equal arcs whose first position is noted: a lookup need not search */
#define PER_NODE   16   /* positions that are chosen for a node, unless told, */
#define SMALL_RING 1024 /* or one, where there are fewer partitions */
#define NO_PLACE   UINT32_MAX

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

/* The widest of the gaps that end at these places; ties to the one that starts lowest. */
static uint32_t widest(const struct tr_keyspace *ring, uint32_t from, uint32_t to)
{
    TR_ASSERT(from < to);
    uint32_t best = from;
    uint64_t most = gap_of(ring, from);
    for (uint32_t i = from + 1; i < to; i++) {
        uint64_t gap = gap_of(ring, i);
        if (gap > most || (gap == most && gap_start(ring, i) < gap_start(ring, best))) {
            best = i;
            most = gap;
        }
    }
    return best;
}

/* ---- shares ---- */

/* The shares of the nodes that have a gap to split are the leaves of a tree; each vertex is the
 * larger of the two below it, or the one that is first in the list. */
static void set_worth(struct tr_keyspace *ring, uint32_t leaves, uint32_t node, uint64_t worth)
{
    size_t at = (size_t)leaves + node;
    ring->worth[at] = worth;
    for (at /= 2; at >= 1; at /= 2) {
        uint64_t left = ring->worth[2 * at];
        uint64_t right = ring->worth[2 * at + 1];
        ring->worth[at] = left > right ? left : right;
    }
}

static uint32_t worthiest(const struct tr_keyspace *ring, uint32_t leaves)
{
    size_t at = 1;
    while (at < leaves)
        at = 2 * at + (ring->worth[2 * at] < ring->worth[2 * at + 1]);
    return (uint32_t)(at - leaves);
}

static uint32_t leaf_count(uint32_t nodes)
{
    uint32_t leaves = 1;
    while (leaves < nodes)
        leaves *= 2;
    return leaves;
}

/* Of a node that has all its positions. */
static void weigh(struct tr_keyspace *ring, uint32_t leaves, uint32_t node)
{
    uint32_t from = ring->start[node];
    uint32_t to = ring->start[node + 1];
    bool can_split = gap_of(ring, widest(ring, from, to)) >= 2;
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

/* The node of the list that a place is of. */
static uint32_t node_of(const struct tr_keyspace *ring, uint32_t nodes, uint32_t at)
{
    uint32_t low = 0;
    uint32_t high = nodes - 1;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (ring->start[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Puts a position into the gap that ends at the place `next`; or, if that is itself, as the first
 * of all. */
static void link(struct tr_keyspace *ring, uint32_t at, uint64_t position, uint32_t next)
{
    TR_ASSERT(position < ring->partitions);
    ring->place[at] = (uint32_t)position;
    ring->before[at] = next == at ? at : ring->before[next];
    ring->before[next] = at;
}

static uint64_t middle_of(const struct tr_keyspace *ring, uint32_t at)
{
    return (gap_start(ring, at) + gap_of(ring, at) / 2) % ring->partitions;
}

/* ---- in the order of the list, as keyspace@1 does ---- */

static enum tryst_place_status place_given(struct tr_keyspace *ring, uint32_t at, uint32_t position)
{
    uint32_t next = at;
    uint64_t least = UINT64_MAX;
    if (position >= ring->partitions)
        return TRYST_PLACE_BAD_POSITION;
    for (uint32_t i = 0; i < at; i++) {
        uint64_t other = ring->place[i];
        uint64_t ahead = other >= position ? other - position : other + ring->partitions - position;
        if (ahead == 0)
            return TRYST_PLACE_POSITION_TAKEN;
        next = ahead < least ? i : next;
        least = ahead < least ? ahead : least;
    }
    link(ring, at, position, next);
    return TRYST_PLACE_OK;
}

static enum tryst_place_status place_in_order(struct tryst_place_map *map, struct tr_build *build)
{
    struct tr_keyspace *ring = &map->keyspace;
    for (uint32_t i = 0; i < map->count; i++) {
        const uint32_t *given = NULL;
        enum tryst_place_status status = TRYST_PLACE_OK;
        build->fault = i;
        if (given_to(build, i, &given) > 0) {
            status = place_given(ring, i, *given);
        } else {
            uint32_t next = i > 0 ? widest(ring, 0, i) : 0;
            if (i > 0 && gap_of(ring, next) < 2)
                status = TRYST_PLACE_NO_POSITION_LEFT;
            else
                link(ring, i, i > 0 ? middle_of(ring, next) : 0, next);
        }
        if (status != TRYST_PLACE_OK)
            return status;
    }
    return TRYST_PLACE_OK;
}

/* ---- those that are given first, as keyspace@2 does ---- */

static bool is_before(const void *context, uint32_t a, uint32_t b)
{
    const uint32_t *place = context;
    return place[a] != place[b] ? place[a] < place[b] : a < b;
}

/* Links the places in `order`, which is sorted. The node at fault is the first of the list that has
 * a position which is none, or which one before it has. */
static enum tryst_place_status link_sorted(struct tryst_place_map *map, struct tr_build *build,
                                           const uint32_t *order, uint32_t count)
{
    struct tr_keyspace *ring = &map->keyspace;
    enum tryst_place_status status = TRYST_PLACE_OK;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = node_of(ring, map->count, order[i]);
        bool is_outside = ring->place[order[i]] >= ring->partitions;
        bool is_taken = i > 0 && ring->place[order[i]] == ring->place[order[i - 1]];
        if ((is_outside || is_taken) && (status == TRYST_PLACE_OK || node < build->fault)) {
            status = is_outside ? TRYST_PLACE_BAD_POSITION : TRYST_PLACE_POSITION_TAKEN;
            build->fault = node;
        }
        ring->before[order[i]] = order[i > 0 ? i - 1 : count - 1];
    }
    return status;
}

static enum tryst_place_status place_all_given(struct tryst_place_map *map, struct tr_build *build,
                                               bool *has_any)
{
    struct tr_keyspace *ring = &map->keyspace;
    uint32_t *order = ring->position; /* which is made when all are placed */
    uint32_t count = 0;
    for (uint32_t i = 0; i < map->count; i++) {
        const uint32_t *given = NULL;
        size_t given_count = given_to(build, i, &given);
        for (uint32_t k = 0; k < given_count; k++) {
            ring->place[ring->start[i] + k] = given[k];
            order[count++] = ring->start[i] + k;
        }
    }
    *has_any = count > 0;
    tr_heap_sort(order, count, is_before, ring->place);
    return link_sorted(map, build, order, count);
}

/* The place whose gap the next position of a node splits, or NO_PLACE. It is taken from the node
 * that has most; but when the node would have more than that one then, it splits a gap of its
 * own. */
static uint32_t gap_to_split(const struct tr_keyspace *ring, uint32_t leaves, uint32_t node,
                             uint32_t at, uint64_t share)
{
    uint32_t own = at > ring->start[node] ? widest(ring, ring->start[node], at) : NO_PLACE;
    if (own != NO_PLACE && gap_of(ring, own) < 2)
        own = NO_PLACE;
    if (ring->worth[1] == 0)
        return own;
    uint32_t most = worthiest(ring, leaves);
    uint32_t next = widest(ring, ring->start[most], ring->start[most + 1]);
    uint64_t taken = gap_of(ring, next) / 2;
    bool is_too_much = share + taken > ring->worth[leaves + most] - taken;
    return is_too_much && own != NO_PLACE ? own : next;
}

/* False: there is no free position. */
static bool choose_all(struct tryst_place_map *map, uint32_t leaves, uint32_t node, bool *has_any)
{
    struct tr_keyspace *ring = &map->keyspace;
    uint64_t share = 0;
    for (uint32_t at = ring->start[node]; at < ring->start[node + 1]; at++) {
        if (!*has_any) {
            link(ring, at, 0, at);
            *has_any = true;
            continue;
        }
        uint32_t next = gap_to_split(ring, leaves, node, at, share);
        if (next == NO_PLACE)
            return false;
        uint32_t other = node_of(ring, map->count, next);
        share += other != node ? gap_of(ring, next) / 2 : 0;
        link(ring, at, middle_of(ring, next), next);
        if (other != node)
            weigh(ring, leaves, other);
    }
    weigh(ring, leaves, node);
    return true;
}

static enum tryst_place_status place_evenly(struct tryst_place_map *map, struct tr_build *build)
{
    struct tr_keyspace *ring = &map->keyspace;
    uint32_t leaves = leaf_count(map->count);
    const uint32_t *given = NULL;
    bool has_any = false;
    memset(ring->worth, 0, 2 * (size_t)leaves * sizeof *ring->worth);
    enum tryst_place_status status = place_all_given(map, build, &has_any);
    if (status != TRYST_PLACE_OK)
        return status;
    for (uint32_t i = 0; i < map->count; i++) {
        if (given_to(build, i, &given) > 0)
            weigh(ring, leaves, i);
    }
    for (uint32_t i = 0; i < map->count; i++) {
        build->fault = i;
        if (given_to(build, i, &given) == 0 && !choose_all(map, leaves, i, &has_any))
            return TRYST_PLACE_NO_POSITION_LEFT;
    }
    return TRYST_PLACE_OK;
}

/* ---- building ---- */

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
    for (uint32_t i = 0; i < ring->count; i++)
        order[i] = i;
    tr_heap_sort(order, ring->count, is_before, ring->place);
    for (uint32_t i = 0; i < ring->count; i++) {
        ring->position[i] = ring->place[order[i]];
        ring->owner[i] = map->numbered[node_of(ring, map->count, order[i])];
        TR_ASSERT(i == 0 || ring->position[i - 1] < ring->position[i]);
    }
    ring->shift = 0;
    while ((ring->partitions - 1) >> ring->shift >= BUCKETS)
        ring->shift++;
    for (uint64_t i = 0; i <= BUCKETS; i++)
        ring->bucket[i] = first_from(ring->position, 0, ring->count, i << ring->shift);
}

/* Positions that are chosen for a node to which none are given. */
static uint32_t per_node_of(const struct tryst_place_map *map, const struct tr_build *build)
{
    if (is_first_version(map))
        return 1;
    if (build->positions != NULL && build->positions->per_node != 0)
        return build->positions->per_node;
    return map->keyspace.partitions < SMALL_RING ? 1 : PER_NODE;
}

/* How many positions the nodes of the list have up to this one. */
static uint64_t add_positions(const struct tryst_place_map *map, const struct tr_build *build,
                              uint32_t node, uint64_t sum)
{
    const uint32_t *given = NULL;
    size_t count = given_to(build, node, &given);
    if (count > TRYST_PLACE_POINTS_MAX || sum > TRYST_PLACE_POINTS_MAX)
        return TRYST_PLACE_POINTS_MAX + (uint64_t)1;
    return sum + (count > 0 ? count : per_node_of(map, build));
}

static enum tryst_place_status build(struct tryst_place_map *map, struct tr_build *build,
                                     struct tr_room *room)
{
    struct tr_keyspace *ring = &map->keyspace;
    bool is_first = is_first_version(map);
    uint64_t total = 0;
    ring->partitions =
        build->config->partitions == 0 ? TRYST_PLACE_PARTITIONS_DEFAULT : build->config->partitions;
    for (uint32_t i = 0; i < map->count; i++)
        total = add_positions(map, build, i, total);
    if (total > TRYST_PLACE_POINTS_MAX)
        return TRYST_PLACE_TOO_MANY_POINTS;
    ring->count = (uint32_t)total;
    ring->place = tr_room_take(room, total, sizeof(uint32_t));
    ring->start = tr_room_take(room, map->count + (size_t)1, sizeof(uint32_t));
    ring->position = tr_room_take(room, total, sizeof(uint32_t));
    ring->owner = tr_room_take(room, total, sizeof(uint32_t));
    ring->bucket = tr_room_take(room, BUCKETS + 1, sizeof(uint32_t));
    ring->before = tr_room_take(room, total, sizeof(uint32_t));
    if (!is_first)
        ring->worth = tr_room_take(room, 2 * (size_t)leaf_count(map->count), sizeof(uint64_t));
    if (room->base == NULL)
        return TRYST_PLACE_OK;
    ring->start[0] = 0;
    for (uint32_t i = 0; i < map->count; i++)
        ring->start[i + 1] = (uint32_t)add_positions(map, build, i, ring->start[i]);
    enum tryst_place_status status =
        is_first ? place_in_order(map, build) : place_evenly(map, build);
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
    uint64_t partition = (along >> 32) + ((uint32_t)along != 0);
    return partition < ring->partitions ? partition : 0;
}

/* A hash of the partition. For keyspace@1 the first one: h P / 2^32 rounds down to the partition,
 * as h P exceeds partition x 2^32 by less than P. For keyspace@2 the last one before the circle
 * ends, likewise. */
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
