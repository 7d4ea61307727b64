/* SPDX-License-Identifier: Apache-2.0 */
#include "place/tree.h"

#include "base/assert.h"

void tr_tree_take(struct tr_tree *tree, struct tr_arena *arena, size_t node_count,
                  size_t candidate_max, size_t vertex_max)
{
    tree->candidates = tr_candidates_take(arena, candidate_max);
    tree->child = tr_arena_take(arena, candidate_max, sizeof *tree->child);
    tree->leaves = tr_arena_take(arena, candidate_max, sizeof *tree->leaves);
    tree->vertices = tr_arena_take(arena, vertex_max, sizeof *tree->vertices);
    tree->order = tr_arena_take(arena, node_count, sizeof *tree->order);
}

void tr_tree_set(struct tr_tree *tree, size_t at, const struct tr_tree_child *child)
{
    tr_candidates_set(&tree->candidates, at, child->seed, child->weight);
    tree->leaves[at] = child->leaves;
    tree->child[at] = child->child;
}

void tr_tree_close(struct tr_tree *tree, uint32_t number, size_t first, uint32_t count)
{
    TR_ASSERT(count >= 1);
    tree->vertices[number] = (struct tr_vertex){
        .field = tr_field_make(&tree->candidates, first, count),
        .child = tree->child + first,
        .leaves = tree->leaves + first,
    };
}

uint64_t tr_tree_weight(const struct tryst_place_map *map, size_t first, size_t end)
{
    uint64_t weight = 0;
    for (size_t i = first; i < end; i++)
        weight += map->weight[map->tree.order[i]];
    return weight;
}
