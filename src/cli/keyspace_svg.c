/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring as a picture: the circle from the top, clockwise, each stretch in the colour of the node
 * that owns it, and beside it the nodes with their shares. Where there are few positions, each has
 * its place and its node written at it.
 */
#include "cli/keyspace.h"
#include "cli/svg.h"
#include "cli/utf8.h"

#include <inttypes.h>
#include <math.h>

#define CENTRE     300.0
#define OUTER      200.0
#define INNER      150.0
#define LABELS_MAX 40 /* positions that are written at the circle */
#define LEFT       620
#define ROW        22
#define NAME_MOST  24
#define LETTER     7.5
#define BAR        140.0 /* an even share, in the list beside the circle */
#define TURN       6.283185307179586

/* Colours go round by the golden angle: neighbours in the list differ most. */
static double hue(size_t node)
{
    return fmod(210.0 + 137.508 * (double)node, 360.0);
}

static double angle_of(const struct tr_ring *ring, uint64_t position)
{
    return TURN * (double)position / (double)ring->partitions - TURN / 4;
}

static void print_title(const struct tr_ring *ring, const struct tr_ring_stretch *stretch,
                        FILE *out)
{
    fputs("<title>", out);
    tr_svg_name(out, ring->nodes[stretch->node].name, SIZE_MAX);
    fprintf(out, ": %" PRIu64 " partition%s up to %" PRIu32 "</title>", stretch->partitions,
            stretch->partitions == 1 ? "" : "s", stretch->position);
}

/* A whole circle has no two ends that an arc could lie between. */
static void print_whole(const struct tr_ring *ring, FILE *out)
{
    const struct tr_ring_stretch *only = &ring->stretches[0];
    fprintf(out,
            "<circle cx=\"%.0f\" cy=\"%.0f\" r=\"%.1f\" fill=\"none\" stroke-width=\"%.1f\" "
            "stroke=\"hsl(%.0f 55%% 52%%)\">",
            CENTRE, CENTRE, (OUTER + INNER) / 2, OUTER - INNER, hue(only->node));
    print_title(ring, only, out);
    fputs("</circle>\n", out);
}

static void print_stretch(const struct tr_ring *ring, const struct tr_ring_stretch *stretch,
                          FILE *out)
{
    double end = angle_of(ring, stretch->position);
    double start = end - TURN * (double)stretch->partitions / (double)ring->partitions;
    int is_large = 2 * stretch->partitions > ring->partitions;
    fprintf(out,
            "<path d=\"M%.2f %.2fA%.0f %.0f 0 %d 1 %.2f %.2fL%.2f %.2fA%.0f %.0f 0 %d 0 %.2f "
            "%.2fZ\" fill=\"hsl(%.0f 55%% 52%%)\" stroke=\"#ffffff\" stroke-width=\"%s\">",
            CENTRE + OUTER * cos(start), CENTRE + OUTER * sin(start), OUTER, OUTER, is_large,
            CENTRE + OUTER * cos(end), CENTRE + OUTER * sin(end), CENTRE + INNER * cos(end),
            CENTRE + INNER * sin(end), INNER, INNER, is_large, CENTRE + INNER * cos(start),
            CENTRE + INNER * sin(start), hue(stretch->node),
            ring->stretch_count > (size_t)4 * LABELS_MAX ? "0.3" : "1");
    print_title(ring, stretch, out);
    fputs("</path>\n", out);
}

/* At the end of its stretch, where the position is. */
static void print_label(const struct tr_ring *ring, const struct tr_ring_stretch *stretch,
                        FILE *out)
{
    double angle = angle_of(ring, stretch->position);
    double x = CENTRE + (OUTER + 16) * cos(angle);
    double y = CENTRE + (OUTER + 16) * sin(angle);
    const char *anchor = cos(angle) > 0.2 ? "start" : cos(angle) < -0.2 ? "end" : "middle";
    fprintf(out, "<path d=\"M%.2f %.2fL%.2f %.2f\" stroke=\"#1f2933\"/>",
            CENTRE + OUTER * cos(angle), CENTRE + OUTER * sin(angle),
            CENTRE + (OUTER + 10) * cos(angle), CENTRE + (OUTER + 10) * sin(angle));
    fprintf(out, "<text font-size=\"11\" x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\">", x, y + 4,
            anchor);
    tr_svg_name(out, ring->nodes[stretch->node].name, 12);
    fprintf(out, " <tspan class=\"note\">%.3g</tspan></text>\n",
            (double)stretch->position / (double)ring->partitions);
}

static double most_even(const struct tr_ring *ring)
{
    double most = 1;
    for (size_t i = 0; i < ring->node_count; i++) {
        double evenness = tr_ring_evenness(ring, &ring->nodes[i]);
        most = evenness > most ? evenness : most;
    }
    return most;
}

static size_t longest_name(const struct tr_ring *ring)
{
    size_t longest = 4;
    for (size_t i = 0; i < ring->node_count; i++) {
        size_t size = tr_utf8_count(ring->nodes[i].name);
        longest = size > longest ? size : longest;
    }
    return longest < NAME_MOST ? longest : NAME_MOST;
}

/* Where the list beside the circle has its columns and its first row. */
struct list {
    double bars;
    double figures;
    double top;
};

static struct list make_list(const struct tr_ring *ring)
{
    double half = ROW * (double)ring->node_count / 2;
    double bars = LEFT + 32 + LETTER * (double)longest_name(ring);
    return (struct list){
        .bars = bars,
        .figures = bars + BAR * most_even(ring) + 12,
        .top = CENTRE - half > 60 ? CENTRE - half : 60,
    };
}

static void print_node(const struct tr_ring *ring, const struct list *list, size_t index, FILE *out)
{
    const struct tr_ring_node *node = &ring->nodes[index];
    double evenness = tr_ring_evenness(ring, node);
    double y = list->top + ROW * (double)index;
    fprintf(out,
            "<rect x=\"%d\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\" "
            "fill=\"hsl(%.0f 55%% 52%%)\"/><text x=\"%d\" y=\"%.1f\"><title>",
            LEFT, y, hue(index), LEFT + 20, y + 10);
    tr_svg_name(out, node->name, SIZE_MAX);
    fputs("</title>", out);
    tr_svg_name(out, node->name, NAME_MOST);
    fprintf(out,
            "</text><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"12\" rx=\"2\" "
            "fill=\"hsl(%.0f 55%% 52%% / 0.45)\"/><text class=\"note\" x=\"%.1f\" y=\"%.1f\">"
            "%.2f%%, %.2f of an even share</text>\n",
            list->bars, y, BAR * evenness, hue(index), list->figures, y + 10,
            100 * evenness / (double)ring->node_count, evenness);
}

static void print_list(const struct tr_ring *ring, const struct list *list, FILE *out)
{
    double even = list->bars + BAR;
    for (size_t i = 0; i < ring->node_count; i++)
        print_node(ring, list, i, out);
    fprintf(out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#66758a\" stroke-dasharray=\"3 3\"/>\n",
            even, list->top - 10, list->top + ROW * (double)ring->node_count);
    fprintf(out,
            "<text class=\"note\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">an even share"
            "</text>\n",
            even, list->top - 16);
}

void tr_ring_print_svg(const struct tr_ring *ring, FILE *out)
{
    struct list list = make_list(ring);
    double width = list.figures + 215;
    double below = list.top + ROW * (double)ring->node_count + 20;
    double height = below > 2 * CENTRE ? below : 2 * CENTRE;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
            "height=\"%.0f\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n",
            width, height, width, height);
    fputs("<title>A ring and its shares</title>\n<style>text{fill:#1f2933}.note{fill:#66758a}"
          "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
          out);
    if (ring->stretch_count == 1)
        print_whole(ring, out);
    for (size_t i = 0; ring->stretch_count > 1 && i < ring->stretch_count; i++)
        print_stretch(ring, &ring->stretches[i], out);
    for (size_t i = 0; ring->stretch_count <= LABELS_MAX && i < ring->stretch_count; i++)
        print_label(ring, &ring->stretches[i], out);
    fprintf(out,
            "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" font-size=\"22\">%" PRIu64 "</text>"
            "<text class=\"note\" x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">partitions on %zu "
            "node%s, lists of %zu</text>\n",
            CENTRE, CENTRE, ring->partitions, CENTRE, CENTRE + 22, ring->node_count,
            ring->node_count == 1 ? "" : "s", ring->list_size);
    print_list(ring, &list, out);
    fputs("</svg>\n", out);
}
