/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as a picture: for primaries and for all copies, the shares before on the left, those after
 * on the right, and ribbons from one to the other. What stays is grey; what moves has the colour of
 * its reason. Beyond SLOTS_MAX nodes, those that change least are drawn as one.
 */
#include "cli/plan.h"
#include "cli/svg.h"
#include "cli/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX   16
#define FLOW_WIDTH  250 /* between the two columns of bars */
#define BAR_WIDTH   16
#define TOP         104
#define HEIGHT      440
#define GAP         8
#define NAME_MOST   24 /* characters of a name that are shown */
#define LETTER      7.5
#define SHARE_WIDTH 60 /* of " 33.3%", and some air */

#define STAYS_COLOUR   "#66758a"
#define JOINS_COLOUR   "#2a9d62"
#define LEAVES_COLOUR  "#c8503c"
#define CHANGES_COLOUR "#d08a1d"

struct slot {
    const char *name;
    enum tr_plan_change change;
    uint64_t before;
    uint64_t after;
    double before_y; /* top of its bar, then of what is left of it to connect */
    double after_y;
};

struct panel {
    const char *title;
    struct slot slots[SLOTS_MAX];
    uint64_t amount[SLOTS_MAX][SLOTS_MAX]; /* from -> to; what stays is on the diagonal */
    size_t count;
    uint64_t before;
    uint64_t after;
    uint64_t moved;
    uint64_t least;
    double left;   /* where it starts */
    double margin; /* on both sides, for the names */
};

static uint64_t pick(struct tr_plan_counts counts, bool copies)
{
    return copies ? counts.copies : counts.primaries;
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* The slot of each node: its own for those whose copies change most, the last for the rest. */
static void assign_slots(const struct tr_plan *plan, size_t *slot_of, size_t *count)
{
    size_t shown = plan->node_count <= SLOTS_MAX ? plan->node_count : SLOTS_MAX - 1;
    bool *is_shown = tr_allocate(plan->node_count, sizeof *is_shown);
    for (size_t round = 0; round < shown; round++) {
        size_t best = plan->node_count;
        uint64_t most = 0;
        for (size_t i = 0; i < plan->node_count; i++) {
            uint64_t change =
                1 + difference(plan->nodes[i].before.copies, plan->nodes[i].after.copies);
            if (!is_shown[i] && change > most) {
                most = change;
                best = i;
            }
        }
        is_shown[best] = true;
    }
    *count = 0;
    for (size_t i = 0; i < plan->node_count; i++)
        slot_of[i] = is_shown[i] ? (*count)++ : shown;
    *count += plan->node_count > shown;
    free(is_shown);
}

static void fill_slots(struct panel *panel, const struct tr_plan *plan, const size_t *slot_of,
                       bool copies)
{
    for (size_t i = 0; i < plan->node_count; i++) {
        const struct tr_plan_node *node = &plan->nodes[i];
        struct slot *slot = &panel->slots[slot_of[i]];
        slot->name = node->name;
        slot->change = node->change;
        slot->before += pick(node->before, copies);
        slot->after += pick(node->after, copies);
    }
    if (plan->node_count > SLOTS_MAX) {
        panel->slots[panel->count - 1].name = "all others";
        panel->slots[panel->count - 1].change = TR_PLAN_STAYS;
    }
    for (size_t i = 0; i < panel->count; i++)
        panel->amount[i][i] = panel->slots[i].before;
}

static void fill_flows(struct panel *panel, const struct tr_plan *plan, const size_t *slot_of,
                       bool copies)
{
    for (size_t i = 0; i < plan->flow_count; i++) {
        const struct tr_plan_flow *flow = &plan->flows[i];
        uint64_t amount = pick(flow->moved, copies);
        if (flow->from == TR_PLAN_NOWHERE)
            continue;
        size_t from = slot_of[flow->from];
        if (flow->to != TR_PLAN_NOWHERE && slot_of[flow->to] == from)
            continue; /* within the others */
        panel->amount[from][from] -= amount;
        if (flow->to != TR_PLAN_NOWHERE)
            panel->amount[from][slot_of[flow->to]] += amount;
    }
}

static void fill_panel(struct panel *panel, const struct tr_plan *plan, const size_t *slot_of,
                       size_t count, bool copies)
{
    *panel = (struct panel){.title = copies ? "All copies (primaries and backups)" : "Primaries",
                            .count = count,
                            .before = pick(plan->before, copies),
                            .after = pick(plan->after, copies),
                            .moved = pick(plan->moved, copies),
                            .least = pick(plan->least, copies)};
    fill_slots(panel, plan, slot_of, copies);
    fill_flows(panel, plan, slot_of, copies);
}

static double scaled(const struct panel *panel, uint64_t amount)
{
    double usable = HEIGHT - GAP * (double)(panel->count - 1);
    uint64_t larger = panel->before > panel->after ? panel->before : panel->after;
    return usable * (double)amount / (double)larger;
}

static const char *bar_colour(enum tr_plan_change change)
{
    switch (change) {
    case TR_PLAN_STAYS:
        return STAYS_COLOUR;
    case TR_PLAN_JOINS:
        return JOINS_COLOUR;
    case TR_PLAN_LEAVES:
        return LEAVES_COLOUR;
    case TR_PLAN_CHANGES:
        return CHANGES_COLOUR;
    }
    return STAYS_COLOUR;
}

/* Why it moves: to a node that joins, from one that leaves, or because something else changed. */
static const char *ribbon_colour(const struct panel *panel, size_t from, size_t to)
{
    if (from == to)
        return STAYS_COLOUR;
    if (panel->slots[to].change == TR_PLAN_JOINS)
        return JOINS_COLOUR;
    return panel->slots[from].change == TR_PLAN_LEAVES ? LEAVES_COLOUR : CHANGES_COLOUR;
}

static void print_bar(FILE *out, const struct panel *panel, const struct slot *slot, bool is_after)
{
    uint64_t amount = is_after ? slot->after : slot->before;
    uint64_t whole = is_after ? panel->after : panel->before;
    double y = is_after ? slot->after_y : slot->before_y;
    double x = panel->left + panel->margin + (is_after ? BAR_WIDTH + FLOW_WIDTH : 0);
    double height = scaled(panel, amount);
    if (slot->change == (is_after ? TR_PLAN_LEAVES : TR_PLAN_JOINS))
        return;
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" rx=\"2\" fill=\"%s\"/>\n", x,
            y, BAR_WIDTH, height < 1 ? 1 : height, bar_colour(slot->change));
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
            is_after ? x + BAR_WIDTH + 8 : x - 8, y + height / 2 + 4, is_after ? "start" : "end");
    fputs("<title>", out);
    tr_svg_name(out, slot->name, SIZE_MAX);
    fputs("</title>", out);
    tr_svg_name(out, slot->name, NAME_MOST);
    fprintf(out, " <tspan class=\"share\">%.1f%%</tspan></text>\n", tr_plan_percent(amount, whole));
}

/* A ribbon from the left bars to the right ones, as wide as what goes along it. */
struct ribbon {
    double from_y;
    double to_y;
    double height;
};

static void print_ribbon(FILE *out, const struct panel *panel, size_t from, size_t to,
                         struct ribbon ribbon)
{
    double left = panel->left + panel->margin + BAR_WIDTH;
    double right = left + FLOW_WIDTH;
    double middle = (left + right) / 2;
    double from_end = ribbon.from_y + ribbon.height;
    double to_end = ribbon.to_y + ribbon.height;
    fprintf(out,
            "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1fV%.1fC%.1f %.1f %.1f %.1f %.1f "
            "%.1fZ\" fill=\"%s\" fill-opacity=\"%s\"><title>",
            left, ribbon.from_y, middle, ribbon.from_y, middle, ribbon.to_y, right, ribbon.to_y,
            to_end, middle, to_end, middle, from_end, left, from_end,
            ribbon_colour(panel, from, to), from == to ? "0.18" : "0.85");
    tr_svg_name(out, panel->slots[from].name, SIZE_MAX);
    fputs(from == to ? " keeps " : " gives ", out);
    if (from != to) {
        tr_svg_name(out, panel->slots[to].name, SIZE_MAX);
        fputc(' ', out);
    }
    fprintf(out, "%.2f%%</title></path>\n", tr_plan_percent(panel->amount[from][to], panel->after));
}

/* What stays is drawn first, so that what moves lies on top. */
static void print_ribbons(FILE *out, struct panel *panel)
{
    struct ribbon ribbons[SLOTS_MAX][SLOTS_MAX];
    for (size_t from = 0; from < panel->count; from++) {
        for (size_t to = 0; to < panel->count; to++) {
            double height = scaled(panel, panel->amount[from][to]);
            ribbons[from][to] =
                (struct ribbon){panel->slots[from].before_y, panel->slots[to].after_y, height};
            panel->slots[from].before_y += height;
            panel->slots[to].after_y += height;
        }
    }
    for (int moves = 0; moves <= 1; moves++) {
        for (size_t from = 0; from < panel->count; from++) {
            for (size_t to = 0; to < panel->count; to++) {
                if (panel->amount[from][to] > 0 && (from != to) == (moves == 1))
                    print_ribbon(out, panel, from, to, ribbons[from][to]);
            }
        }
    }
}

static void place_bars(struct panel *panel)
{
    double before = TOP;
    double after = TOP;
    for (size_t i = 0; i < panel->count; i++) {
        struct slot *slot = &panel->slots[i];
        slot->before_y = before;
        slot->after_y = after;
        before += scaled(panel, slot->before) + (slot->change == TR_PLAN_JOINS ? 0 : GAP);
        after += scaled(panel, slot->after) + (slot->change == TR_PLAN_LEAVES ? 0 : GAP);
    }
}

static void print_panel(FILE *out, struct panel *panel, const struct tr_plan *plan, bool copies)
{
    double x = panel->left + panel->margin;
    fprintf(out, "<text class=\"title\" x=\"%.1f\" y=\"62\">%s</text>\n", x, panel->title);
    fprintf(out, "<text class=\"note\" x=\"%.1f\" y=\"82\">%.1f%% move, at least %.1f%% must", x,
            tr_plan_percent(panel->moved, panel->after),
            tr_plan_percent(panel->least, panel->after));
    if (copies && plan->created > 0)
        fprintf(out, "; %.1f%% are new", tr_plan_percent(plan->created, plan->after.copies));
    if (copies && plan->dropped > 0)
        fprintf(out, "; %.1f%% are dropped", tr_plan_percent(plan->dropped, plan->before.copies));
    fputs("</text>\n", out);
    place_bars(panel);
    for (size_t i = 0; i < panel->count; i++) {
        print_bar(out, panel, &panel->slots[i], false);
        print_bar(out, panel, &panel->slots[i], true);
    }
    print_ribbons(out, panel);
}

static void print_key(FILE *out, double x, double y)
{
    static const struct {
        const char *colour;
        const char *text;
    } entries[] = {{STAYS_COLOUR, "stays"},
                   {JOINS_COLOUR, "joins, or goes to a node that joins"},
                   {LEAVES_COLOUR, "leaves, or comes from a node that leaves"},
                   {CHANGES_COLOUR, "changes, or moves for another reason"}};
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\"/>", x,
                y - 10, entries[i].colour);
        fprintf(out, "<text class=\"note\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + 18, y,
                entries[i].text);
        y += 20;
    }
}

/* Room for the longest name and its share, beside a column of bars. */
static double margin_for(const struct tr_plan *plan)
{
    size_t longest = 10;
    for (size_t i = 0; i < plan->node_count; i++) {
        size_t size = tr_utf8_count(plan->nodes[i].name);
        longest = size > longest ? size : longest;
    }
    return SHARE_WIDTH + LETTER * (double)(longest < NAME_MOST ? longest : NAME_MOST);
}

void tr_plan_print_svg(const struct tr_plan *plan, FILE *out)
{
    size_t count;
    size_t *slot_of = tr_allocate(plan->node_count, sizeof *slot_of);
    assign_slots(plan, slot_of, &count);
    double margin = margin_for(plan);
    double panel_width = 2 * margin + 2 * BAR_WIDTH + FLOW_WIDTH;
    int panels = tr_plan_has_backups(plan) ? 2 : 1;
    double width = panel_width * panels < 620 ? 620 : panel_width * panels;
    int height = TOP + HEIGHT + 120;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %d\" width=\"%.0f\" "
            "height=\"%d\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n",
            width, height, width, height);
    fputs("<title>What moves</title>\n<style>text{fill:#1f2933}.title{font-size:17px;font-weight:"
          "600}.note,.share{fill:#66758a}</style>\n"
          "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
          out);
    fprintf(out,
            "<text class=\"note\" x=\"%.1f\" y=\"30\">%s, %zu replica%s, from %zu to %zu node%s, "
            "by %" PRIu64 " sample keys%s</text>\n",
            margin, plan->strategy, plan->replicas, plan->replicas == 1 ? "" : "s",
            plan->before_count, plan->after_count, plan->after_count == 1 ? "" : "s",
            plan->key_count,
            plan->node_count > SLOTS_MAX ? "; the nodes that change most, and all others" : "");
    for (int i = 0; i < panels; i++) {
        struct panel panel;
        fill_panel(&panel, plan, slot_of, count, i == 1);
        panel.left = i * panel_width;
        panel.margin = margin;
        print_panel(out, &panel, plan, i == 1);
    }
    print_key(out, margin, TOP + HEIGHT + 34);
    fputs("</svg>\n", out);
    free(slot_of);
}
