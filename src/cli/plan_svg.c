/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as a picture: for primaries and for copies, the shares before on the left, those after on
 * the right, and ribbons from one to the other. What stays is grey; what moves has the colour of
 * where it goes. Beyond SLOTS_MAX nodes, those that change least are drawn as one.
 */
#include "cli/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX   16
#define PANEL_WIDTH 620
#define PANEL_LEFT  170 /* room for the names */
#define BAR_WIDTH   16
#define TOP         104
#define HEIGHT      440
#define GAP         8
#define NAME_BYTES  22

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
    struct slot slots[SLOTS_MAX + 1];
    uint64_t amount[SLOTS_MAX + 1][SLOTS_MAX + 1]; /* from -> to, what stays on the diagonal */
    size_t count;
    uint64_t total;
    uint64_t moved;
    uint64_t least;
    char others[32];
};

static const char *const palette[] = {"#2a9d62", "#3b78c4", "#d98b2b", "#9156b5",
                                      "#c8503c", "#2aa3a3", "#b5942e", "#7a6ff0"};

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
    size_t hidden = 0;
    for (size_t i = 0; i < plan->node_count; i++) {
        const struct tr_plan_node *node = &plan->nodes[i];
        struct slot *slot = &panel->slots[slot_of[i]];
        slot->name = node->name;
        slot->change = node->change;
        slot->before += pick(node->before, copies);
        slot->after += pick(node->after, copies);
        hidden += slot_of[i] + 1 == panel->count;
    }
    if (plan->node_count > SLOTS_MAX) {
        snprintf(panel->others, sizeof panel->others, "%zu others", hidden);
        panel->slots[panel->count - 1].name = panel->others;
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
    *panel = (struct panel){.title = copies ? "Copies (primaries and backups)" : "Primaries",
                            .count = count,
                            .moved = pick(plan->moved, copies),
                            .least = pick(plan->least, copies)};
    uint64_t before = pick(plan->before, copies);
    uint64_t after = pick(plan->after, copies);
    panel->total = before > after ? before : after;
    fill_slots(panel, plan, slot_of, copies);
    fill_flows(panel, plan, slot_of, copies);
}

static double scaled(const struct panel *panel, uint64_t amount)
{
    double usable = HEIGHT - GAP * (double)(panel->count - 1);
    return usable * (double)amount / (double)panel->total;
}

static const char *bar_colour(enum tr_plan_change change)
{
    switch (change) {
    case TR_PLAN_STAYS:
        return "#66758a";
    case TR_PLAN_JOINS:
        return "#1d7a49";
    case TR_PLAN_LEAVES:
        return "#b03a2e";
    case TR_PLAN_CHANGES:
        return "#b9770e";
    }
    return "#000000";
}

/* A name as XML text, cut to NAME_BYTES at a character. */
static void print_name(FILE *out, const char *name)
{
    size_t size = strlen(name);
    size_t shown = size <= NAME_BYTES ? size : NAME_BYTES;
    while (shown < size && shown > 0 && ((unsigned char)name[shown] & 0xc0) == 0x80)
        shown--;
    for (size_t i = 0; i < shown; i++) {
        if (name[i] == '<')
            fputs("&lt;", out);
        else if (name[i] == '>')
            fputs("&gt;", out);
        else if (name[i] == '&')
            fputs("&amp;", out);
        else
            fputc(name[i], out);
    }
    if (shown < size)
        fputs("…", out);
}

static void print_label(FILE *out, const struct slot *slot, double x, double y, const char *anchor,
                        double percent)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y + 4, anchor);
    print_name(out, slot->name);
    fprintf(out, " <tspan class=\"share\">%.1f%%</tspan></text>\n", percent);
}

static void print_bar(FILE *out, const struct panel *panel, struct slot *slot, double x,
                      bool is_after)
{
    uint64_t amount = is_after ? slot->after : slot->before;
    double y = is_after ? slot->after_y : slot->before_y;
    double height = scaled(panel, amount);
    bool is_there = slot->change != (is_after ? TR_PLAN_LEAVES : TR_PLAN_JOINS);
    if (!is_there)
        return;
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" rx=\"2\" fill=\"%s\"/>\n", x,
            y, BAR_WIDTH, height < 1 ? 1 : height, bar_colour(slot->change));
    print_label(out, slot, is_after ? x + BAR_WIDTH + 8 : x - 8, y + height / 2,
                is_after ? "start" : "end", tr_plan_percent(amount, panel->total));
}

/* One colour for what goes to each slot; joining nodes get the first ones. */
static const char *ribbon_colour(const struct panel *panel, size_t to)
{
    size_t rank = 0;
    bool joins = panel->slots[to].change == TR_PLAN_JOINS;
    for (size_t i = 0; i < panel->count; i++) {
        bool other_joins = panel->slots[i].change == TR_PLAN_JOINS;
        rank += (other_joins && !joins) || (other_joins == joins && i < to);
    }
    return palette[rank % (sizeof palette / sizeof palette[0])];
}

/* A ribbon from the left bars to the right ones, as wide as what goes along it. */
struct ribbon {
    double from_y;
    double to_y;
    double height;
};

static void print_ribbon(FILE *out, const struct panel *panel, size_t from, size_t to, double x,
                         struct ribbon ribbon)
{
    double left = x + PANEL_LEFT + BAR_WIDTH;
    double right = x + PANEL_WIDTH - PANEL_LEFT - BAR_WIDTH;
    double middle = (left + right) / 2;
    double from_end = ribbon.from_y + ribbon.height;
    double to_end = ribbon.to_y + ribbon.height;
    fprintf(out,
            "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1fV%.1fC%.1f %.1f %.1f %.1f %.1f "
            "%.1fZ\" fill=\"%s\" fill-opacity=\"%s\"><title>",
            left, ribbon.from_y, middle, ribbon.from_y, middle, ribbon.to_y, right, ribbon.to_y,
            to_end, middle, to_end, middle, from_end, left, from_end,
            from == to ? "#8d99a8" : ribbon_colour(panel, to), from == to ? "0.22" : "0.85");
    print_name(out, panel->slots[from].name);
    fputs(from == to ? " keeps " : " gives ", out);
    if (from != to) {
        print_name(out, panel->slots[to].name);
        fputc(' ', out);
    }
    fprintf(out, "%.2f%%</title></path>\n", tr_plan_percent(panel->amount[from][to], panel->total));
}

/* What stays is drawn first, so that what moves lies on top. */
static void print_ribbons(FILE *out, struct panel *panel, double x)
{
    struct ribbon ribbons[SLOTS_MAX + 1][SLOTS_MAX + 1];
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
                    print_ribbon(out, panel, from, to, x, ribbons[from][to]);
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

static void print_panel(FILE *out, struct panel *panel, double x)
{
    fprintf(out, "<text class=\"title\" x=\"%.1f\" y=\"62\">%s</text>\n", x + PANEL_LEFT,
            panel->title);
    fprintf(out,
            "<text class=\"note\" x=\"%.1f\" y=\"82\">%.1f%% move, the least possible is %.1f%%"
            "</text>\n",
            x + PANEL_LEFT, tr_plan_percent(panel->moved, panel->total),
            tr_plan_percent(panel->least, panel->total));
    place_bars(panel);
    for (size_t i = 0; i < panel->count; i++) {
        print_bar(out, panel, &panel->slots[i], x + PANEL_LEFT, false);
        print_bar(out, panel, &panel->slots[i], x + PANEL_WIDTH - PANEL_LEFT - BAR_WIDTH, true);
    }
    print_ribbons(out, panel, x);
}

void tr_plan_print_svg(const struct tr_plan *plan, FILE *out)
{
    size_t count;
    size_t *slot_of = tr_allocate(plan->node_count, sizeof *slot_of);
    assign_slots(plan, slot_of, &count);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n",
            2 * PANEL_WIDTH, TOP + HEIGHT + 40, 2 * PANEL_WIDTH, TOP + HEIGHT + 40);
    fputs("<style>text{fill:#1f2933}.title{font-size:17px;font-weight:600}.note,.share{fill:"
          "#66758a}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
          out);
    fprintf(out,
            "<text class=\"note\" x=\"%d\" y=\"30\">%s, %zu replica%s, from %zu to %zu node%s; "
            "left: before, right: after; grey stays, colour moves</text>\n",
            PANEL_LEFT, plan->strategy, plan->replicas, plan->replicas == 1 ? "" : "s",
            plan->before_count, plan->after_count, plan->after_count == 1 ? "" : "s");
    for (int i = 0; i < 2; i++) {
        struct panel panel;
        fill_panel(&panel, plan, slot_of, count, i == 1);
        print_panel(out, &panel, (double)i * PANEL_WIDTH);
    }
    fputs("</svg>\n", out);
    free(slot_of);
}
