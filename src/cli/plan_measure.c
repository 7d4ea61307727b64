/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "cli/plan.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_STEP 0x9e3779b97f4a7c15u /* sample key i is the mix of i times this */

/* Flows while they are counted: a hash table over (from, to), at most half full. */
struct flow_table {
    struct tr_plan_flow *slots;
    bool *is_taken;
    size_t cap;
    size_t count;
};

static size_t slot_of(const struct flow_table *table, uint32_t from, uint32_t to)
{
    size_t slot = tr_hash_mix((uint64_t)from << 32 | to) & (table->cap - 1);
    while (table->is_taken[slot] &&
           (table->slots[slot].from != from || table->slots[slot].to != to))
        slot = (slot + 1) & (table->cap - 1);
    return slot;
}

static void grow(struct flow_table *table)
{
    struct flow_table larger = {.cap = table->cap == 0 ? 1024 : 2 * table->cap};
    larger.slots = tr_allocate(larger.cap, sizeof *larger.slots);
    larger.is_taken = tr_allocate(larger.cap, sizeof *larger.is_taken);
    larger.count = table->count;
    for (size_t i = 0; i < table->cap; i++) {
        if (!table->is_taken[i])
            continue;
        size_t slot = slot_of(&larger, table->slots[i].from, table->slots[i].to);
        larger.slots[slot] = table->slots[i];
        larger.is_taken[slot] = true;
    }
    free(table->slots);
    free(table->is_taken);
    *table = larger;
}

static struct tr_plan_counts *flow(struct flow_table *table, uint32_t from, uint32_t to)
{
    if (2 * (table->count + 1) > table->cap)
        grow(table);
    size_t slot = slot_of(table, from, to);
    if (!table->is_taken[slot]) {
        table->is_taken[slot] = true;
        table->slots[slot] = (struct tr_plan_flow){.from = from, .to = to};
        table->count++;
    }
    return &table->slots[slot].moved;
}

/* One side of the change: a map, and what its nodes are called in the plan. */
struct side {
    const struct tryst_place_map *map;
    uint32_t *node; /* index in the map's list -> index in the plan */
    uint32_t *found;
    size_t count;
    void *workspace;
};

static struct side open_side(const struct tryst_place_map *map, size_t replicas)
{
    size_t nodes = tryst_place_node_count(map);
    return (struct side){
        .map = map,
        .node = tr_allocate(nodes, sizeof(uint32_t)),
        .found = tr_allocate(replicas < nodes ? replicas : nodes, sizeof(uint32_t)),
        .workspace = tr_allocate(tryst_place_workspace_size(map, replicas) + 1, 1),
    };
}

static void close_side(struct side *side)
{
    free(side->node);
    free(side->found);
    free(side->workspace);
}

static void look_up(struct side *side, uint64_t id, size_t replicas)
{
    side->count = tryst_place_lookup(side->map, tryst_place_key_of_id(side->map, id), replicas,
                                     side->found, side->workspace);
    for (size_t i = 0; i < side->count; i++)
        side->found[i] = side->node[side->found[i]];
}

static bool holds(const struct side *side, uint32_t node)
{
    for (size_t i = 0; i < side->count; i++) {
        if (side->found[i] == node)
            return true;
    }
    return false;
}

/* The next node of `side` from `*at` on that `other` does not hold; TR_PLAN_NOWHERE behind the
 * last. */
static uint32_t next_not_in(const struct side *side, const struct side *other, size_t *at)
{
    while (*at < side->count && holds(other, side->found[*at]))
        ++*at;
    return *at < side->count ? side->found[(*at)++] : TR_PLAN_NOWHERE;
}

static void count_shares(struct tr_plan *plan, const struct side *before, const struct side *after)
{
    plan->nodes[before->found[0]].before.primaries++;
    plan->nodes[after->found[0]].after.primaries++;
    for (size_t i = 0; i < before->count; i++)
        plan->nodes[before->found[i]].before.copies++;
    for (size_t i = 0; i < after->count; i++)
        plan->nodes[after->found[i]].after.copies++;
}

/* A copy that a node gains comes from the first node that loses one, and so on in order. */
static void count_moves(struct tr_plan *plan, struct flow_table *flows, const struct side *before,
                        const struct side *after)
{
    if (before->found[0] != after->found[0]) {
        flow(flows, before->found[0], after->found[0])->primaries++;
        plan->moved.primaries++;
    }
    size_t lost_at = 0;
    size_t gained_at = 0;
    for (;;) {
        uint32_t lost = next_not_in(before, after, &lost_at);
        uint32_t gained = next_not_in(after, before, &gained_at);
        if (lost == TR_PLAN_NOWHERE && gained == TR_PLAN_NOWHERE)
            return;
        flow(flows, lost, gained)->copies++;
        plan->created += lost == TR_PLAN_NOWHERE;
        plan->dropped += gained == TR_PLAN_NOWHERE;
        plan->moved.copies += lost != TR_PLAN_NOWHERE && gained != TR_PLAN_NOWHERE;
    }
}

static void draw_progress(uint64_t done, uint64_t all)
{
    const int width = 40;
    int filled = (int)(done * (uint64_t)width / all);
    fprintf(stderr, "\rlooking up sample keys [%.*s%*s] %3d%%", filled,
            "########################################", width - filled, "",
            (int)(done * 100 / all));
    if (done == all)
        fprintf(stderr, "\r%*s\r", width + 32, "");
}

static struct tr_plan_node *find_node(struct tr_plan *plan, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(plan->nodes[i].name, name) == 0)
            return &plan->nodes[i];
    }
    return NULL;
}

/* The nodes of both sides under one numbering: those from before, then the new ones. */
static void unite(struct tr_plan *plan, struct side *before, struct side *after)
{
    plan->before_count = tryst_place_node_count(before->map);
    plan->after_count = tryst_place_node_count(after->map);
    plan->nodes = tr_allocate(plan->before_count + plan->after_count, sizeof *plan->nodes);
    for (size_t i = 0; i < plan->before_count; i++) {
        before->node[i] = (uint32_t)i;
        plan->nodes[i] = (struct tr_plan_node){.name = tryst_place_node_name(before->map, i),
                                               .change = TR_PLAN_LEAVES};
    }
    plan->node_count = plan->before_count;
    for (size_t i = 0; i < plan->after_count; i++) {
        const char *name = tryst_place_node_name(after->map, i);
        struct tr_plan_node *node = find_node(plan, plan->before_count, name);
        if (node == NULL) {
            node = &plan->nodes[plan->node_count++];
            *node = (struct tr_plan_node){.name = name, .change = TR_PLAN_JOINS};
        } else {
            node->change = TR_PLAN_STAYS;
        }
        after->node[i] = (uint32_t)(node - plan->nodes);
    }
}

static int compare_flows(const void *left, const void *right)
{
    const struct tr_plan_flow *a = left;
    const struct tr_plan_flow *b = right;
    if (a->moved.primaries != b->moved.primaries)
        return a->moved.primaries < b->moved.primaries ? 1 : -1;
    if (a->moved.copies != b->moved.copies)
        return a->moved.copies < b->moved.copies ? 1 : -1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

static void collect_flows(struct tr_plan *plan, struct flow_table *table)
{
    plan->flows = tr_allocate(table->count, sizeof *plan->flows);
    for (size_t i = 0; i < table->cap; i++) {
        if (table->is_taken[i])
            plan->flows[plan->flow_count++] = table->slots[i];
    }
    qsort(plan->flows, plan->flow_count, sizeof *plan->flows, compare_flows);
    free(table->slots);
    free(table->is_taken);
}

/* Whatever goes up somewhere, and was not created, must have come from elsewhere: no way from these
 * shares to those moves less. */
static void sum_up(struct tr_plan *plan)
{
    for (size_t i = 0; i < plan->node_count; i++) {
        const struct tr_plan_node *node = &plan->nodes[i];
        plan->before.primaries += node->before.primaries;
        plan->before.copies += node->before.copies;
        plan->after.primaries += node->after.primaries;
        plan->after.copies += node->after.copies;
        if (node->after.primaries > node->before.primaries)
            plan->least.primaries += node->after.primaries - node->before.primaries;
        if (node->after.copies > node->before.copies)
            plan->least.copies += node->after.copies - node->before.copies;
    }
    plan->least.copies -= plan->created;
}

void tr_plan_measure(struct tr_plan *plan, const struct tryst_place_map *before,
                     const struct tryst_place_map *after, size_t replicas, uint64_t key_count,
                     bool progress)
{
    *plan = (struct tr_plan){
        .strategy = tryst_place_strategy(before), .replicas = replicas, .key_count = key_count};
    struct side old = open_side(before, replicas);
    struct side new = open_side(after, replicas);
    struct flow_table flows = {.cap = 0};
    unite(plan, &old, &new);
    grow(&flows);
    for (uint64_t i = 0; i < key_count; i++) {
        uint64_t id = tr_hash_mix((i + 1) * SAMPLE_STEP);
        look_up(&old, id, replicas);
        look_up(&new, id, replicas);
        count_shares(plan, &old, &new);
        count_moves(plan, &flows, &old, &new);
        if (progress && (i + 1) % 16384 == 0)
            draw_progress(i + 1, key_count);
    }
    if (progress && key_count >= 16384)
        draw_progress(key_count, key_count);
    collect_flows(plan, &flows);
    sum_up(plan);
    close_side(&old);
    close_side(&new);
}

void tr_plan_fini(struct tr_plan *plan)
{
    free(plan->nodes);
    free(plan->flows);
}
