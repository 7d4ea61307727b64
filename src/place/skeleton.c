/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `skeleton`: hierarchical rendezvous. The digits of a node's seed, four bits each from the top,
 * are its path in a virtual tree; at each cluster the key picks a branch by weighted rendezvous,
 * until one node is left: about log16(n) fields of 16 instead of one of n.
 *
 * A branch is named by its digits alone, so a new node lengthens paths and adds weight, and renames
 * nothing. Branches with one child are passed through without a choice. Nodes whose seeds are equal
 * to the last digit cannot be told apart by their paths: they stand in a cluster of fixed order,
 * heaviest first, then by name.
 */
#include "base/assert.h"
#include "base/hash.h"
#include "base/heap.h"
#include "place/tree.h"

#define DIGIT_BITS 4
#define DIGITS     (64 / DIGIT_BITS)
#define FAN        16

/* The seed of the branch that shares the first `digits` digits of `seed`. */
static uint64_t branch_seed(uint64_t seed, unsigned digits)
{
    TR_ASSERT(digits >= 1 && digits <= DIGITS);
    uint64_t prefix = seed >> (64 - DIGIT_BITS * digits) << (64 - DIGIT_BITS * digits);
    return tr_hash_mix(tr_hash_mix(digits) ^ prefix);
}

static unsigned digit(uint64_t seed, unsigned index)
{
    TR_ASSERT(index < DIGITS);
    return (unsigned)(seed >> (64 - DIGIT_BITS * (index + 1))) & (FAN - 1);
}

/* By seed; equal seeds by falling weight, then by name. */
static bool is_before(const void *context, uint32_t a, uint32_t b)
{
    const struct tryst_place_map *map = context;
    if (map->seed[a] != map->seed[b])
        return map->seed[a] < map->seed[b];
    if (map->weight[a] != map->weight[b])
        return map->weight[a] > map->weight[b];
    return a < b;
}

/* A cluster to be made: its nodes are order[first] to order[end]. */
struct pending {
    uint32_t first;
    uint32_t end;
    uint32_t vertex;
};

struct builder {
    struct tryst_place_map *map;
    struct pending *pending; /* a stack */
    size_t pending_count;
};

static uint64_t seed_at(const struct builder *builder, size_t index)
{
    return builder->map->seed[builder->map->tree.order[index]];
}

/* Adds the nodes order[first] to order[end] as a branch; more than one become a cluster of their
 * own. */
static void add_branch(struct builder *builder, uint64_t seed, uint32_t first, uint32_t end)
{
    TR_ASSERT(first < end);
    struct tr_tree *tree = &builder->map->tree;
    uint32_t child = tree->order[first];
    if (end - first > 1) {
        uint32_t vertex = tree->vertex_count++;
        builder->pending[builder->pending_count++] = (struct pending){first, end, vertex};
        child = TR_CHILD_VERTEX | vertex;
    }
    uint64_t weight = tr_tree_weight(builder->map, first, end);
    tr_tree_add(tree, (struct tr_tree_child){.seed = seed, .weight = weight, .child = child});
}

/* The end of the branch at `level` that starts at order[first]. */
static uint32_t branch_end(const struct builder *builder, uint32_t first, uint32_t end,
                           unsigned level)
{
    unsigned shared = digit(seed_at(builder, first), level);
    uint32_t at = first + 1;
    while (at < end && digit(seed_at(builder, at), level) == shared)
        at++;
    return at;
}

static void make_fixed_cluster(struct builder *builder, struct pending cluster)
{
    struct tr_tree *tree = &builder->map->tree;
    tr_tree_open(tree, cluster.vertex, cluster.end - cluster.first);
    for (uint32_t i = cluster.first; i < cluster.end; i++)
        add_branch(builder, seed_at(builder, i), i, i + 1);
    tr_tree_close(tree, cluster.end - cluster.first);
    tree->vertices[cluster.vertex].is_fixed = true;
}

static void make_cluster(struct builder *builder, struct pending cluster)
{
    uint64_t differing = seed_at(builder, cluster.first) ^ seed_at(builder, cluster.end - 1);
    if (differing == 0) {
        make_fixed_cluster(builder, cluster);
        return;
    }
    unsigned level = (unsigned)__builtin_clzll(differing) / DIGIT_BITS;
    size_t branches = 0;
    for (uint32_t at = cluster.first; at < cluster.end; branches++)
        at = branch_end(builder, at, cluster.end, level);
    TR_ASSERT(branches >= 2 && branches <= FAN);
    tr_tree_open(&builder->map->tree, cluster.vertex, branches);
    for (uint32_t first = cluster.first; first < cluster.end;) {
        uint32_t end = branch_end(builder, first, cluster.end, level);
        add_branch(builder, branch_seed(seed_at(builder, first), level + 1), first, end);
        first = end;
    }
    tr_tree_close(&builder->map->tree, cluster.end - cluster.first);
}

static enum tryst_place_status build(struct tryst_place_map *map, struct tr_build *build,
                                     struct tr_room *room)
{
    (void)build;
    struct tr_tree *tree = &map->tree;
    /* Every cluster but a lone node's has two branches or more: fewer clusters than nodes. */
    tr_tree_take(tree, room, map->count, 2 * (size_t)map->count, map->count);
    struct builder builder = {.map = map};
    builder.pending = tr_room_take(room, map->count, sizeof *builder.pending);
    if (room->base == NULL)
        return TRYST_PLACE_OK;
    for (uint32_t i = 0; i < map->count; i++)
        tree->order[i] = i;
    tr_heap_sort(tree->order, map->count, is_before, map);
    tree->vertex_count = 1;
    builder.pending[builder.pending_count++] = (struct pending){0, map->count, 0};
    while (builder.pending_count > 0)
        make_cluster(&builder, builder.pending[--builder.pending_count]);
    TR_ASSERT(tree->vertex_count <= map->count);
    return TRYST_PLACE_OK;
}

/* One cluster on the way down, and the branches of it that may still be needed, in order. */
struct frame {
    const struct tr_vertex *vertex;
    uint32_t ranked[FAN];
    uint32_t next;
    uint32_t count;
};

static uint32_t child_at(const struct frame *frame, uint32_t place)
{
    TR_ASSERT(place < frame->vertex->field.count);
    return frame->vertex->child[frame->vertex->is_fixed ? place : frame->ranked[place]];
}

/* Ranks as many branches as `want` nodes can take. Most often the best one has them all, and of
 * unequal branches, which are dear to rank, no more are looked for. */
static void enter(struct frame *frame, const struct tryst_place_map *map, uint32_t vertex,
                  uint64_t key, size_t want)
{
    TR_ASSERT(want >= 1 && vertex < map->tree.vertex_count);
    const struct tr_field *field = &map->tree.vertices[vertex].field;
    frame->vertex = &map->tree.vertices[vertex];
    frame->next = 0;
    frame->count = field->count;
    if (frame->vertex->is_fixed)
        return;
    frame->count = want < field->count ? (uint32_t)want : field->count;
    if (field->method == TR_METHOD_LOGARITHMIC) {
        frame->ranked[0] = tr_field_first(field, &map->scorer, key);
        if (tr_tree_leaves(&map->tree, child_at(frame, 0)) >= want) {
            frame->count = 1;
            return;
        }
    }
    tr_field_rank(field, &map->scorer, key, frame->count, frame->ranked, NULL);
}

/* Depth first: a cluster's nodes all come before those of its next best sibling. */
static void rank(const struct tryst_place_map *map, uint64_t key, size_t want, uint32_t *numbers,
                 void *scratch)
{
    (void)scratch;
    struct frame frames[DIGITS + 1];
    size_t depth = 0;
    size_t found = 0;
    enter(&frames[0], map, 0, key, want);
    while (found < want) {
        struct frame *frame = &frames[depth];
        if (frame->next == frame->count) {
            TR_ASSERT(depth > 0);
            depth--;
            continue;
        }
        uint32_t child = child_at(frame, frame->next++);
        if (child & TR_CHILD_VERTEX)
            enter(&frames[++depth], map, child & ~TR_CHILD_VERTEX, key, want - found);
        else
            numbers[found++] = child;
    }
}

const struct tr_strategy tr_strategy_skeleton = {
    .name = "skeleton@1",
    .uses = TR_USES_WEIGHT,
    .build = build,
    .rank = rank,
};
