/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a map: which strategy, are the nodes sound, in which order, and then the strategy's own
 * part. The same code runs twice, first without memory to count the bytes, then to fill them.
 */
#include "place/map.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/heap.h"

#include <string.h>

static const struct tr_strategy *const strategies[] = {
    &tr_strategy_chronos, &tr_strategy_rendezvous, &tr_strategy_carp,
    &tr_strategy_virtual, &tr_strategy_skeleton,   &tr_strategy_crush,
    &tr_strategy_ring,    &tr_strategy_keyspace_1, &tr_strategy_keyspace_2,
};

#define STRATEGY_COUNT (sizeof strategies / sizeof strategies[0])

const char *tryst_place_strategy_name(size_t index)
{
    return index < STRATEGY_COUNT ? strategies[index]->name : NULL;
}

/* The names in the table carry their version, older ones first; a caller may leave it out to get
 * the newest. */
static enum tryst_place_status find_strategy(const char *text, const struct tr_strategy **found)
{
    if (text == NULL)
        return TRYST_PLACE_UNKNOWN_STRATEGY;
    size_t bare = strcspn(text, "@");
    enum tryst_place_status status = TRYST_PLACE_UNKNOWN_STRATEGY;
    for (size_t i = 0; i < STRATEGY_COUNT; i++) {
        const char *name = strategies[i]->name;
        if (strcspn(name, "@") != bare || memcmp(name, text, bare) != 0)
            continue;
        bool is_it = text[bare] == '\0' || strcmp(text + bare, name + bare) == 0;
        if (is_it)
            *found = strategies[i];
        if (is_it || status != TRYST_PLACE_OK)
            status = is_it ? TRYST_PLACE_OK : TRYST_PLACE_UNKNOWN_VERSION;
    }
    return status;
}

/* Levels of a zone path, or 0 if one of them is empty or the path is too long. */
static size_t zone_depth(const char *zone)
{
    size_t depth = 1;
    size_t size = strlen(zone);
    for (size_t i = 0; i < size; i++) {
        if (zone[i] == '/' && (i == 0 || zone[i - 1] == '/'))
            return 0;
        depth += zone[i] == '/';
    }
    return size == 0 || size > TRYST_PLACE_NAME_MAX || zone[size - 1] == '/' ? 0 : depth;
}

static enum tryst_place_status check_zone(const char *zone, struct tr_build *build)
{
    size_t depth = zone == NULL ? 0 : zone_depth(zone);
    if (zone != NULL && (depth == 0 || depth > TRYST_PLACE_DEPTH_MAX))
        return TRYST_PLACE_BAD_ZONE;
    if (build->fault == 0)
        build->depth = depth;
    return depth == build->depth ? TRYST_PLACE_OK : TRYST_PLACE_ZONE_DEPTH;
}

/* Node `build->fault` of the list, apart from what only all of them together can tell. */
static enum tryst_place_status check_node(const struct tr_strategy *strategy,
                                          struct tr_build *build)
{
    const struct tryst_place_node *node = &build->nodes[build->fault];
    size_t name_size = node->name == NULL ? 0 : strlen(node->name);
    if (name_size == 0 || name_size > TRYST_PLACE_NAME_MAX)
        return TRYST_PLACE_BAD_NAME;
    if (node->weight != 0 && !(strategy->uses & TR_USES_WEIGHT))
        return TRYST_PLACE_WEIGHT_UNUSED;
    if (node->zone != NULL && !(strategy->uses & TR_USES_ZONE))
        return TRYST_PLACE_ZONE_UNUSED;
    if (node->has_position && !(strategy->uses & TR_USES_POSITION))
        return TRYST_PLACE_POSITION_UNUSED;
    if (node->weight != 0 &&
        (node->weight < TRYST_PLACE_WEIGHT_MIN || node->weight > TRYST_PLACE_WEIGHT_MAX))
        return TRYST_PLACE_BAD_WEIGHT;
    return check_zone(node->zone, build);
}

static enum tryst_place_status check_config(const struct tr_strategy *strategy,
                                            const struct tryst_place_config *config,
                                            size_t node_count)
{
    if (node_count == 0)
        return TRYST_PLACE_NO_NODES;
    if (node_count > TRYST_PLACE_NODES_MAX)
        return TRYST_PLACE_TOO_MANY_NODES;
    if (config->flags & ~TRYST_PLACE_PORTABLE)
        return TRYST_PLACE_BAD_FLAGS;
    if (config->spread != 0 && !(strategy->uses & TR_USES_ZONE))
        return TRYST_PLACE_SPREAD_UNUSED;
    if (config->partitions != 0 && !(strategy->uses & TR_USES_POSITION))
        return TRYST_PLACE_PARTITIONS_UNUSED;
    if (config->partitions > TRYST_PLACE_PARTITIONS_MAX)
        return TRYST_PLACE_BAD_PARTITIONS;
    return TRYST_PLACE_OK;
}

static enum tryst_place_status check(const struct tr_strategy *strategy, struct tr_build *build,
                                     size_t node_count)
{
    build->fault = node_count;
    enum tryst_place_status status = check_config(strategy, build->config, node_count);
    if (status == TRYST_PLACE_OK && build->positions != NULL && strategy != &tr_strategy_keyspace_2)
        status = TRYST_PLACE_POSITION_UNUSED;
    if (status != TRYST_PLACE_OK)
        return status;
    for (size_t i = 0; i < node_count; i++) {
        build->fault = i;
        status = check_node(strategy, build);
        if (status != TRYST_PLACE_OK)
            return status;
    }
    build->fault = node_count;
    return build->config->spread <= build->depth ? TRYST_PLACE_OK : TRYST_PLACE_BAD_SPREAD;
}

static bool name_is_before(const void *context, uint32_t a, uint32_t b)
{
    const struct tryst_place_node *nodes = context;
    int order = strcmp(nodes[a].name, nodes[b].name);
    return order != 0 ? order < 0 : a < b;
}

static void copy_names(struct tryst_place_map *map, const struct tr_build *build,
                       struct tr_room *room)
{
    for (uint32_t i = 0; i < map->count; i++) {
        const char *name = build->nodes[map->listed[i]].name;
        size_t size = strlen(name) + 1;
        TR_ASSERT(size > 1 && size <= TRYST_PLACE_NAME_MAX + 1);
        char *copy = tr_room_take(room, size, 1);
        memcpy(copy, name, size);
        map->name[i] = copy;
    }
}

static uint64_t seed_of(const struct tryst_place_map *map, const char *name)
{
    if (map->hash != NULL && map->hash->node != NULL)
        return map->hash->node(map->hash->context, name, strlen(name));
    return tr_hash_xxh3(name, strlen(name));
}

/* Numbers the nodes and copies what the map keeps of them. */
static enum tryst_place_status number_nodes(struct tryst_place_map *map, struct tr_build *build,
                                            struct tr_room *room)
{
    for (uint32_t i = 0; i < map->count; i++)
        map->listed[i] = i;
    tr_heap_sort(map->listed, map->count, name_is_before, build->nodes);
    for (uint32_t i = 1; i < map->count; i++) {
        build->fault = map->listed[i];
        if (strcmp(build->nodes[map->listed[i - 1]].name, build->nodes[map->listed[i]].name) == 0)
            return TRYST_PLACE_DUPLICATE_NAME;
    }
    build->fault = map->count;
    for (uint32_t i = 0; i < map->count && map->strategy->uses & TR_KEEPS_THE_ORDER; i++)
        map->listed[i] = i;
    copy_names(map, build, room);
    for (uint32_t i = 0; i < map->count; i++) {
        uint64_t weight = build->nodes[map->listed[i]].weight;
        map->numbered[map->listed[i]] = i;
        map->seed[i] = seed_of(map, map->name[i]);
        map->weight[i] = weight == 0 ? TRYST_PLACE_WEIGHT_ONE : weight;
    }
    return TRYST_PLACE_OK;
}

/* Counts or fills, as the room has a base or not. The nodes were checked. */
static enum tryst_place_status lay_out(struct tryst_place_map *map, struct tr_build *build,
                                       struct tr_room *room)
{
    tr_room_take(room, 1, sizeof *map);
    map->listed = tr_room_take(room, map->count, sizeof *map->listed);
    map->numbered = tr_room_take(room, map->count, sizeof *map->numbered);
    map->name = tr_room_take(room, map->count, sizeof *map->name);
    map->seed = tr_room_take(room, map->count, sizeof *map->seed);
    map->weight = tr_room_take(room, map->count, sizeof *map->weight);
    if (room->base == NULL) {
        for (uint32_t i = 0; i < map->count; i++)
            tr_room_take(room, strlen(build->nodes[i].name) + 1, 1);
    } else {
        enum tryst_place_status status = number_nodes(map, build, room);
        if (status != TRYST_PLACE_OK)
            return status;
    }
    return map->strategy->build(map, build, room);
}

/* A map with nothing in it yet. */
static struct tryst_place_map empty_map(const struct tr_strategy *strategy,
                                        const struct tryst_place_config *config, size_t node_count)
{
    bool has_score = config->hash != NULL && config->hash->score != NULL;
    TR_ASSERT(node_count >= 1 && node_count <= TRYST_PLACE_NODES_MAX);
    return (struct tryst_place_map){
        .strategy = strategy,
        .hash = config->hash,
        .scorer = {.hash = has_score ? config->hash : NULL,
                   .kernel = config->flags & TRYST_PLACE_PORTABLE ? TR_KERNEL_PORTABLE
                                                                  : tr_kernel_best()},
        .count = (uint32_t)node_count,
    };
}

size_t tryst_place_map_size(const struct tryst_place_config *config,
                            const struct tryst_place_node *nodes, size_t node_count)
{
    return tryst_place_keyspace_size(config, NULL, nodes, node_count);
}

size_t tryst_place_keyspace_size(const struct tryst_place_config *config,
                                 const struct tryst_place_positions *positions,
                                 const struct tryst_place_node *nodes, size_t node_count)
{
    TR_ASSERT(config != NULL);
    const struct tr_strategy *strategy = NULL;
    struct tr_build build = {.config = config, .nodes = nodes, .positions = positions};
    if (find_strategy(config->strategy, &strategy) != TRYST_PLACE_OK ||
        check(strategy, &build, node_count) != TRYST_PLACE_OK)
        return sizeof(struct tryst_place_map);
    struct tryst_place_map map = empty_map(strategy, config, node_count);
    struct tr_room room = {.base = NULL};
    if (lay_out(&map, &build, &room) != TRYST_PLACE_OK)
        return sizeof(struct tryst_place_map);
    TR_ASSERT(room.used >= sizeof map);
    return room.used;
}

enum tryst_place_status tryst_place_map_init(struct tryst_place_map *map, size_t size,
                                             const struct tryst_place_config *config,
                                             const struct tryst_place_node *nodes,
                                             size_t node_count, size_t *fault)
{
    return tryst_place_keyspace_init(map, size, config, NULL, nodes, node_count, fault);
}

enum tryst_place_status tryst_place_keyspace_init(struct tryst_place_map *map, size_t size,
                                                  const struct tryst_place_config *config,
                                                  const struct tryst_place_positions *positions,
                                                  const struct tryst_place_node *nodes,
                                                  size_t node_count, size_t *fault)
{
    TR_ASSERT(config != NULL);
    const struct tr_strategy *strategy = NULL;
    struct tr_build build = {
        .config = config, .nodes = nodes, .positions = positions, .fault = node_count};
    enum tryst_place_status status = find_strategy(config->strategy, &strategy);
    if (status == TRYST_PLACE_OK)
        status = check(strategy, &build, node_count);
    if (status == TRYST_PLACE_OK) {
        /* Counted first: it also finds what must not be filled, too many points say. */
        struct tryst_place_map counted = empty_map(strategy, config, node_count);
        struct tr_room counter = {.base = NULL};
        status = lay_out(&counted, &build, &counter);
        if (status == TRYST_PLACE_OK && size < counter.used)
            status = TRYST_PLACE_MEMORY_TOO_SMALL;
    }
    if (status == TRYST_PLACE_OK) {
        TR_ASSERT(map != NULL);
        *map = empty_map(strategy, config, node_count);
        struct tr_room room = {.base = (unsigned char *)map, .size = size};
        status = lay_out(map, &build, &room);
    }
    if (fault != NULL && status != TRYST_PLACE_OK)
        *fault = build.fault;
    return status;
}

size_t tryst_place_node_count(const struct tryst_place_map *map)
{
    return map->count;
}

const char *tryst_place_node_name(const struct tryst_place_map *map, size_t node)
{
    TR_ASSERT(node < map->count);
    return map->name[map->numbered[node]];
}

uint64_t tryst_place_node_weight(const struct tryst_place_map *map, size_t node)
{
    TR_ASSERT(node < map->count);
    return map->weight[map->numbered[node]];
}

size_t tryst_place_node_positions(const struct tryst_place_map *map, size_t node,
                                  const uint32_t **positions)
{
    TR_ASSERT(node < map->count);
    if (!tr_map_is_keyspace(map))
        return 0;
    const struct tr_keyspace *ring = &map->keyspace;
    *positions = ring->place + ring->start[node];
    return ring->start[node + 1] - ring->start[node];
}

uint32_t tryst_place_node_position(const struct tryst_place_map *map, size_t node)
{
    const uint32_t *positions = NULL;
    return tryst_place_node_positions(map, node, &positions) > 0 ? positions[0] : 0;
}

uint64_t tryst_place_node_hash(const struct tryst_place_map *map, size_t node)
{
    TR_ASSERT(node < map->count);
    if (map->strategy == &tr_strategy_chronos)
        return map->chronos.server[map->numbered[node]];
    return map->seed[map->numbered[node]];
}

uint64_t tryst_place_partitions(const struct tryst_place_map *map)
{
    return tr_map_is_keyspace(map) ? map->keyspace.partitions : 0;
}

const char *tryst_place_strategy(const struct tryst_place_map *map)
{
    return map->strategy->name;
}
