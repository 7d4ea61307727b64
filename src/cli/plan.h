/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change of nodes would move, measured on sample keys before anyone moves anything.
 */
#ifndef TR_CLI_PLAN_H
#define TR_CLI_PLAN_H

#include "cli/cli.h"

#include <tryst/place.h>

/* The source of a copy that is created, the end of one that is dropped. */
#define TR_PLAN_NOWHERE UINT32_MAX

enum tr_plan_change {
    TR_PLAN_STAYS,
    TR_PLAN_JOINS,
    TR_PLAN_LEAVES,
    TR_PLAN_CHANGES, /* leaves and joins again: another weight, zone or position */
};

/* Primaries, and copies: primaries and backups together. */
struct tr_plan_counts {
    uint64_t primaries;
    uint64_t copies;
};

struct tr_plan_node {
    const char *name;
    enum tr_plan_change change;
    struct tr_plan_counts before;
    struct tr_plan_counts after;
};

/* What goes from one node to another. Nodes are indexes into the plan's. */
struct tr_plan_flow {
    uint32_t from;
    uint32_t to;
    struct tr_plan_counts moved;
};

struct tr_plan {
    const char *strategy;
    size_t replicas;
    uint64_t key_count;
    size_t before_count; /* nodes */
    size_t after_count;
    struct tr_plan_node *nodes;
    size_t node_count;
    struct tr_plan_flow *flows; /* largest first */
    size_t flow_count;
    struct tr_plan_counts before; /* in all */
    struct tr_plan_counts after;
    struct tr_plan_counts moved;
    uint64_t created; /* copies that come from nowhere: keys get more replicas than they had */
    uint64_t dropped; /* copies that go nowhere: fewer */
    struct tr_plan_counts least; /* that any way from these shares to those must move */
};

/* Looks up `key_count` sample keys in both maps. `progress` draws a bar on standard error. */
void tr_plan_measure(struct tr_plan *plan, const struct tryst_place_map *before,
                     const struct tryst_place_map *after, size_t replicas, uint64_t key_count,
                     bool progress);
void tr_plan_fini(struct tr_plan *plan);

void tr_plan_print_table(const struct tr_plan *plan, FILE *out);
void tr_plan_print_json(const struct tr_plan *plan, FILE *out);
void tr_plan_print_svg(const struct tr_plan *plan, FILE *out);

/* `part` of `whole` in percent. */
double tr_plan_percent(uint64_t part, uint64_t whole);

/* Are there backups to tell of? */
bool tr_plan_has_backups(const struct tr_plan *plan);

const char *tr_plan_change_text(enum tr_plan_change change);

#endif
