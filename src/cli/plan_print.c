/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as a table and as JSON. */
#include "cli/plan.h"
#include "cli/utf8.h"

#include <inttypes.h>
#include <string.h>

#define FLOWS_SHOWN 24 /* in the table; JSON has all */

double tr_plan_percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

bool tr_plan_has_backups(const struct tr_plan *plan)
{
    return plan->before.copies > plan->before.primaries ||
           plan->after.copies > plan->after.primaries;
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

static size_t name_width(const struct tr_plan *plan)
{
    size_t width = plan->created + plan->dropped > 0 ? strlen("(dropped)") : 4;
    for (size_t i = 0; i < plan->node_count; i++) {
        size_t size = tr_utf8_count(plan->nodes[i].name);
        width = size > width ? size : width;
    }
    return width;
}

static void print_share(FILE *out, bool is_there, uint64_t part, uint64_t whole)
{
    if (is_there)
        fprintf(out, "  %6.2f%%", tr_plan_percent(part, whole));
    else
        fprintf(out, "  %7s", "-");
}

static void print_nodes(const struct tr_plan *plan, FILE *out, size_t width)
{
    bool has_backups = tr_plan_has_backups(plan);
    fprintf(out, "%*s%s\n", (int)width + 23, "primaries", has_backups ? "        all copies" : "");
    tr_utf8_print_padded(out, "node", width);
    fprintf(out, "  %-8s  %7s  %7s", "", "before", "after");
    fprintf(out, has_backups ? "  %7s  %7s\n" : "\n", "before", "after");
    for (size_t i = 0; i < plan->node_count; i++) {
        const struct tr_plan_node *node = &plan->nodes[i];
        bool was_there = node->change != TR_PLAN_JOINS;
        bool is_there = node->change != TR_PLAN_LEAVES;
        tr_utf8_print_padded(out, node->name, width);
        fprintf(out, "  %-8s", tr_plan_change_text(node->change));
        print_share(out, was_there, node->before.primaries, plan->before.primaries);
        print_share(out, is_there, node->after.primaries, plan->after.primaries);
        if (has_backups) {
            print_share(out, was_there, node->before.copies, plan->before.copies);
            print_share(out, is_there, node->after.copies, plan->after.copies);
        }
        fputc('\n', out);
    }
}

static void print_flow(const struct tr_plan *plan, FILE *out, size_t width,
                       const struct tr_plan_flow *flow)
{
    bool is_new = flow->from == TR_PLAN_NOWHERE;
    bool is_dropped = flow->to == TR_PLAN_NOWHERE;
    uint64_t whole = is_dropped ? plan->before.copies : plan->after.copies;
    tr_utf8_print_padded(out, is_new ? "(new)" : plan->nodes[flow->from].name, width);
    fputs(" -> ", out);
    tr_utf8_print_padded(out, is_dropped ? "(dropped)" : plan->nodes[flow->to].name, width);
    if (is_new || is_dropped)
        fprintf(out, "%11s", "-");
    else
        fprintf(out, "%10.2f%%", tr_plan_percent(flow->moved.primaries, plan->after.primaries));
    if (tr_plan_has_backups(plan))
        fprintf(out, "%11.2f%%", tr_plan_percent(flow->moved.copies, whole));
    fputc('\n', out);
}

static void print_flows(const struct tr_plan *plan, FILE *out, size_t width)
{
    if (plan->flow_count == 0)
        return;
    fputc('\n', out);
    tr_utf8_print_padded(out, "from", width);
    fputs("    ", out);
    tr_utf8_print_padded(out, "to", width);
    fprintf(out, "%11s%s\n", "primaries", tr_plan_has_backups(plan) ? "  all copies" : "");
    for (size_t i = 0; i < plan->flow_count && i < FLOWS_SHOWN; i++)
        print_flow(plan, out, width, &plan->flows[i]);
    if (plan->flow_count > FLOWS_SHOWN)
        fprintf(out, "and %zu smaller ones: --json lists them all\n",
                plan->flow_count - FLOWS_SHOWN);
}

static void print_total(FILE *out, const char *what, uint64_t moved, uint64_t least, uint64_t all)
{
    fprintf(out, "%.2f%% of the %s move; any way from these shares to those moves %.2f%% or more\n",
            tr_plan_percent(moved, all), what, tr_plan_percent(least, all));
}

void tr_plan_print_table(const struct tr_plan *plan, FILE *out)
{
    size_t width = name_width(plan);
    fprintf(out, "%s, %zu replica%s, from %zu to %zu node%s, by %" PRIu64 " sample key%s\n\n",
            plan->strategy, plan->replicas, plan->replicas == 1 ? "" : "s", plan->before_count,
            plan->after_count, plan->after_count == 1 ? "" : "s", plan->key_count,
            plan->key_count == 1 ? "" : "s");
    print_nodes(plan, out, width);
    print_flows(plan, out, width);
    fputc('\n', out);
    print_total(out, "primaries", plan->moved.primaries, plan->least.primaries,
                plan->after.primaries);
    if (tr_plan_has_backups(plan))
        print_total(out, "copies", plan->moved.copies, plan->least.copies, plan->after.copies);
    if (plan->created > 0)
        fprintf(out, "%.2f%% of the copies are new: keys get more replicas than they had\n",
                tr_plan_percent(plan->created, plan->after.copies));
    if (plan->dropped > 0)
        fprintf(out, "%.2f%% of the copies are dropped: keys get fewer replicas than they had\n",
                tr_plan_percent(plan->dropped, plan->before.copies));
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

static void json_nodes(const struct tr_plan *plan, FILE *out)
{
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
}

static void json_flows(const struct tr_plan *plan, FILE *out)
{
    for (size_t i = 0; i < plan->flow_count; i++) {
        const struct tr_plan_flow *flow = &plan->flows[i];
        fputs(i == 0 ? "\n    {" : ",\n    {", out);
        json_name(out, "from", plan, flow->from);
        fputs(", ", out);
        json_name(out, "to", plan, flow->to);
        fprintf(out, ", \"primaries\": %" PRIu64 ", \"copies\": %" PRIu64 "}",
                flow->moved.primaries, flow->moved.copies);
    }
}

void tr_plan_print_json(const struct tr_plan *plan, FILE *out)
{
    fprintf(out, "{\n  \"strategy\": \"%s\",\n  \"replicas\": %zu,\n  \"keys\": %" PRIu64 ",\n  ",
            plan->strategy, plan->replicas, plan->key_count);
    json_counts(out, "total", plan->after);
    fputs(",\n  ", out);
    json_counts(out, "moved", plan->moved);
    fputs(",\n  ", out);
    json_counts(out, "least", plan->least);
    fprintf(out, ",\n  \"created\": %" PRIu64 ",\n  \"dropped\": %" PRIu64, plan->created,
            plan->dropped);
    fputs(",\n  \"nodes\": [", out);
    json_nodes(plan, out);
    fputs("\n  ],\n  \"moves\": [", out);
    json_flows(plan, out);
    fputs("\n  ]\n}\n", out);
}
