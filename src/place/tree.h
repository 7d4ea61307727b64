/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of fields, for the strategies that choose level by level: `skeleton` (clusters by name) and
 * `crush` (zones).
 *
 * A vertex's arrays lie side by side, so that a step down the tree touches a few neighbouring cache
 * lines.
 */
#ifndef TR_PLACE_TREE_H
#define TR_PLACE_TREE_H

#include "place/map.h"

/* Takes memory for a tree over `node_count` nodes with at most `child_max` children and
 * `vertex_max` vertices in all. */
void tr_tree_take(struct tr_tree *tree, struct tr_room *room, size_t node_count, size_t child_max,
                  size_t vertex_max);

/* A child of the vertex under construction. */
struct tr_tree_child {
    uint64_t seed;
    uint64_t weight;
    uint32_t child; /* a node, or TR_CHILD_VERTEX and the number of a vertex */
};

/* Starts vertex `number` with room for `child_count` children; one vertex at a time. */
void tr_tree_open(struct tr_tree *tree, uint32_t number, size_t child_count);
void tr_tree_add(struct tr_tree *tree, struct tr_tree_child child);
/* Ends it, once it has all its children; `leaves` nodes are below it. */
void tr_tree_close(struct tr_tree *tree, uint32_t leaves);

/* The sum of the weights of the nodes order[first] to order[end]. */
uint64_t tr_tree_weight(const struct tryst_place_map *map, size_t first, size_t end);

/* Nodes below a child. */
static inline uint32_t tr_tree_leaves(const struct tr_tree *tree, uint32_t child)
{
    TR_ASSERT((child & ~TR_CHILD_VERTEX) < tree->vertex_count || !(child & TR_CHILD_VERTEX));
    return child & TR_CHILD_VERTEX ? tree->vertices[child & ~TR_CHILD_VERTEX].leaves : 1;
}

#endif
