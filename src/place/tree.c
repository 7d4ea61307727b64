/* SPDX-License-Identifier: Apache-2.0 */
#include "place/tree.h"

#include "base/assert.h"

#include <string.h>

/* Four 32-bit arrays and one of 64 bits. */
#define CHILD_SIZE (4 * sizeof(uint32_t) + sizeof(uint64_t))

void tr_tree_take(struct tr_tree *tree, struct tr_room *room, size_t node_count, size_t child_max,
                  size_t vertex_max)
{
    TR_ASSERT(vertex_max >= 1 && vertex_max < TR_CHILD_VERTEX);
    tree->vertices = tr_room_take(room, vertex_max, sizeof *tree->vertices);
    tree->order = tr_room_take(room, node_count, sizeof *tree->order);
    tree->pool = tr_room_take(room, child_max, CHILD_SIZE);
    /* A kernel reads whole blocks: the last vertex's go on into here. */
    void *spare = tr_room_take(room, TR_SCORE_BLOCK, CHILD_SIZE);
    if (spare != NULL)
        memset(spare, 0, TR_SCORE_BLOCK * CHILD_SIZE);
}

void tr_tree_open(struct tr_tree *tree, uint32_t number, size_t child_count)
{
    TR_ASSERT(child_count >= 1);
    TR_ASSERT(number < tree->vertex_count);
    uint64_t *weight = (uint64_t *)(void *)(tree->pool + tree->pool_used);
    uint32_t *lanes = (uint32_t *)(void *)(weight + child_count);
    tree->pool_used += child_count * CHILD_SIZE;
    tree->open = (struct tr_candidates){.weight = weight,
                                        .low = lanes,
                                        .multiplier = lanes + child_count,
                                        .inverse = lanes + 2 * child_count};
    tree->open_child = lanes + 3 * child_count;
    tree->open_vertex = number;
    tree->open_count = 0;
}

/* Where the next child of the open vertex is noted, and where the arrays of that vertex end. */
static const void *next_child(const struct tr_tree *tree)
{
    return tree->open_child + tree->open_count;
}

static const void *pool_end(const struct tr_tree *tree)
{
    return tree->pool + tree->pool_used;
}

void tr_tree_add(struct tr_tree *tree, struct tr_tree_child child)
{
    TR_ASSERT(next_child(tree) < pool_end(tree) && child.weight > 0);
    tr_candidates_set(&tree->open, tree->open_count, child.seed, child.weight);
    tree->open_child[tree->open_count++] = child.child;
}

void tr_tree_close(struct tr_tree *tree, uint32_t leaves)
{
    TR_ASSERT(next_child(tree) == pool_end(tree));
    TR_ASSERT(leaves >= tree->open_count);
    tree->vertices[tree->open_vertex] = (struct tr_vertex){
        .field = tr_field_make(&tree->open, 0, tree->open_count),
        .child = tree->open_child,
        .leaves = leaves,
    };
}

uint64_t tr_tree_weight(const struct tryst_place_map *map, size_t first, size_t end)
{
    TR_ASSERT(first < end && end <= map->count);
    uint64_t weight = 0;
    for (size_t i = first; i < end; i++)
        weight += map->weight[map->tree.order[i]];
    return weight;
}
