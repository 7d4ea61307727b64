/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of fields, for the strategies that choose level by level: `skeleton` (clusters by name) and `crush` (zones).
 */
#ifndef TR_PLACE_TREE_H
#define TR_PLACE_TREE_H

#include "place/map.h"

/* Takes memory for a tree over `node_count` nodes with at most `candidate_max` candidates and `vertex_max` vertices. */
void tr_tree_take(struct tr_tree *tree, struct tr_arena *arena, size_t node_count,
                  size_t candidate_max, size_t vertex_max);

/* A vertex under construction: a run of nodes in tree order, and where its children start. */
struct tr_tree_child {
    uint64_t seed;
    uint64_t weight;
    uint32_t leaves;
    uint32_t child; /* a node, or TR_CHILD_VERTEX and the number of a vertex */
};

/* Writes candidate `at` of the tree. */
void tr_tree_set(struct tr_tree *tree, size_t at, const struct tr_tree_child *child);

/* Makes vertex `number` of the `count` candidates from `first` on. */
void tr_tree_close(struct tr_tree *tree, uint32_t number, size_t first, uint32_t count);

/* The sum of the weights of the nodes order[first] to order[end]. */
uint64_t tr_tree_weight(const struct tryst_place_map *map, size_t first, size_t end);

#endif
