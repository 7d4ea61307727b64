/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as a table and as JSON. */
#include "cli/plan.h"

#include <inttypes.h>
#include <string.h>

#define FLOWS_SHOWN 24 /* in the table; JSON has all */

double tr_plan_percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

const char *tr_plan_change_text(enum tr_plan_change change)
{
    switch (change) {
    case TR_PLAN_STAYS:
        return "stays";
    case TR_PLAN_JOINS:
        return "joins";
    case TR_PLAN_LEAVES:
        return "leaves";
    case TR_PLAN_CHANGES:
        return "changes";
    }
    return "";
}

static const char *name_of(const struct tr_plan *plan, uint32_t node)
{
    return node == TR_PLAN_NOWHERE ? "-" : plan->nodes[node].name;
}

static int name_width(const struct tr_plan *plan)
{
    size_t width = 4;
    for (size_t i = 0; i < plan->node_count; i++) {
        size_t size = strlen(plan->nodes[i].name);
        width = size > width ? size : width;
    }
    return (int)width;
}

static void print_share(FILE *out, bool is_there, uint64_t part, uint64_t whole)
{
    if (is_there)
        fprintf(out, "  %7.3f%%", tr_plan_percent(part, whole));
    else
        fprintf(out, "  %8s", "-");
}

static void print_nodes(const struct tr_plan *plan, FILE *out, int width)
{
    fprintf(out, "%-*s  %-8s %19s %20s\n", width, "", "", "primaries", "copies");
    fprintf(out, "%-*s  %-8s  %8s  %8s  %8s  %8s\n", width, "node", "", "before", "after", "before",
            "after");
    for (size_t i = 0; i < plan->node_count; i++) {
        const struct tr_plan_node *node = &plan->nodes[i];
        bool was_there = node->change != TR_PLAN_JOINS;
        bool is_there = node->change != TR_PLAN_LEAVES;
        fprintf(out, "%-*s  %-8s", width, node->name, tr_plan_change_text(node->change));
        print_share(out, was_there, node->before.primaries, plan->before.primaries);
        print_share(out, is_there, node->after.primaries, plan->after.primaries);
        print_share(out, was_there, node->before.copies, plan->before.copies);
        print_share(out, is_there, node->after.copies, plan->after.copies);
        fputc('\n', out);
    }
}

static void print_flows(const struct tr_plan *plan, FILE *out, int width)
{
    if (plan->flow_count == 0)
        return;
    fprintf(out, "\n%-*s    %-*s  %9s  %9s\n", width, "from", width, "to", "primaries", "copies");
    for (size_t i = 0; i < plan->flow_count && i < FLOWS_SHOWN; i++) {
        const struct tr_plan_flow *flow = &plan->flows[i];
        fprintf(out, "%-*s -> %-*s  %8.3f%%  %8.3f%%\n", width, name_of(plan, flow->from), width,
                name_of(plan, flow->to),
                tr_plan_percent(flow->moved.primaries, plan->after.primaries),
                tr_plan_percent(flow->moved.copies, plan->after.copies));
    }
    if (plan->flow_count > FLOWS_SHOWN)
        fprintf(out, "and %zu smaller ones: --json lists them all\n",
                plan->flow_count - FLOWS_SHOWN);
}

static void print_total(FILE *out, const char *what, uint64_t moved, uint64_t least, uint64_t all)
{
    fprintf(out, "%-9s  %7.3f%% move; the least that could is %.3f%%\n", what,
            tr_plan_percent(moved, all), tr_plan_percent(least, all));
}

void tr_plan_print_table(const struct tr_plan *plan, FILE *out)
{
    int width = name_width(plan);
    fprintf(out, "%s, %zu replica%s, from %zu to %zu node%s, by %" PRIu64 " sample keys\n\n",
            plan->strategy, plan->replicas, plan->replicas == 1 ? "" : "s", plan->before_count,
            plan->after_count, plan->after_count == 1 ? "" : "s", plan->key_count);
    print_nodes(plan, out, width);
    print_flows(plan, out, width);
    fputc('\n', out);
    print_total(out, "primaries", plan->moved.primaries, plan->least.primaries,
                plan->after.primaries);
    print_total(out, "copies", plan->moved.copies, plan->least.copies, plan->after.copies);
}

static void json_counts(FILE *out, const char *name, struct tr_plan_counts counts)
{
    fprintf(out, "\"%s\": {\"primaries\": %" PRIu64 ", \"copies\": %" PRIu64 "}", name,
            counts.primaries, counts.copies);
}

static void json_name(FILE *out, const char *member, const struct tr_plan *plan, uint32_t node)
{
    fprintf(out, "\"%s\": ", member);
    if (node == TR_PLAN_NOWHERE)
        fputs("null", out);
    else
        tr_json_string(out, plan->nodes[node].name, strlen(plan->nodes[node].name));
}

void tr_plan_print_json(const struct tr_plan *plan, FILE *out)
{
    fprintf(out, "{\n  \"strategy\": \"%s\",\n  \"replicas\": %zu,\n  \"keys\": %" PRIu64 ",\n",
            plan->strategy, plan->replicas, plan->key_count);
    fputs("  ", out);
    json_counts(out, "total", plan->after);
    fputs(",\n  ", out);
    json_counts(out, "moved", plan->moved);
    fputs(",\n  ", out);
    json_counts(out, "least", plan->least);
    fputs(",\n  \"nodes\": [", out);
    for (size_t i = 0; i < plan->node_count; i++) {
        const struct tr_plan_node *node = &plan->nodes[i];
        fputs(i == 0 ? "\n    {" : ",\n    {", out);
        json_name(out, "name", plan, (uint32_t)i);
        fprintf(out, ", \"change\": \"%s\", ", tr_plan_change_text(node->change));
        json_counts(out, "before", node->before);
        fputs(", ", out);
        json_counts(out, "after", node->after);
        fputc('}', out);
    }
    fputs("\n  ],\n  \"moves\": [", out);
    for (size_t i = 0; i < plan->flow_count; i++) {
        const struct tr_plan_flow *flow = &plan->flows[i];
        fputs(i == 0 ? "\n    {" : ",\n    {", out);
        json_name(out, "from", plan, flow->from);
        fputs(", ", out);
        json_name(out, "to", plan, flow->to);
        fprintf(out, ", \"primaries\": %" PRIu64 ", \"copies\": %" PRIu64 "}",
                flow->moved.primaries, flow->moved.copies);
    }
    fputs("\n  ]\n}\n", out);
}
