/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster as the command line tells it: a strategy, its settings, a list of nodes; and the map
 * made of them.
 */
#ifndef TR_CLI_CLUSTER_H
#define TR_CLI_CLUSTER_H

#include "cli/options.h"
#include "wire/node_spec.h"

#include <tryst/place.h>

/* The options that `place` and `plan` share; a command's own start at TR_CLUSTER_OPTIONS_END. */
enum {
    TR_OPTION_STRATEGY = 1,
    TR_OPTION_REPLICAS,
    TR_OPTION_LEVELS,
    TR_OPTION_SPREAD,
    TR_OPTION_PARTITIONS,
    TR_OPTION_PER_NODE,
    TR_OPTION_NODE,
    TR_OPTION_JSON,
    TR_OPTION_HELP,
    TR_CLUSTER_OPTIONS_END,
};

/* clang-format off */
#define TR_CLUSTER_OPTIONS                                                                         \
    {"--strategy", true, TR_OPTION_STRATEGY}, {"--replicas", true, TR_OPTION_REPLICAS},            \
    {"--levels", true, TR_OPTION_LEVELS}, {"--spread", true, TR_OPTION_SPREAD},                    \
    {"--partitions", true, TR_OPTION_PARTITIONS}, {"--per-node", true, TR_OPTION_PER_NODE},        \
    {"--node", true, TR_OPTION_NODE}, {"--json", false, TR_OPTION_JSON},                           \
    {"--help", false, TR_OPTION_HELP}, {"-h", false, TR_OPTION_HELP}
/* clang-format on */

/* What was asked for, before it is checked as a whole. */
struct tr_cluster_settings {
    const char *command;
    const char *strategy;
    const char *levels; /* NULL: not named */
    const char *spread; /* NULL: the outermost */
    uint64_t replicas;
    uint64_t partitions; /* 0: not given */
    uint64_t per_node;   /* positions that are chosen; 0: not given */
    bool as_json;
    bool wants_help;
};

struct tr_cluster_settings tr_cluster_defaults(const char *command);

/* Takes one of the shared options but --node; false if it was wrong, and said so. */
bool tr_cluster_take(struct tr_cluster_settings *settings, const struct tr_options *options);

/* The nodes, as specs and as the library wants them. Each has `count` entries. */
struct tr_node_list {
    struct tr_node_spec *specs;
    struct tryst_place_node *nodes;
    struct tryst_place_given *given; /* positions, in a map's memory */
    size_t count;
    size_t cap;
};

/* Adds a node from its text; false if it was wrong, and said so. */
bool tr_node_list_add(struct tr_node_list *list, const struct tr_cluster_settings *settings,
                      const char *text);
/* Adds a copy of another list's node. */
void tr_node_list_copy(struct tr_node_list *list, const struct tr_node_list *from, size_t index);
void tr_node_list_fini(struct tr_node_list *list);

/* Builds the map, which the caller frees; NULL if the cluster was wrong, and said so. */
struct tryst_place_map *tr_cluster_map(const struct tr_cluster_settings *settings,
                                       struct tr_node_list *list);

/* Partitions in force. */
uint64_t tr_cluster_partitions(const struct tr_cluster_settings *settings);

#endif
