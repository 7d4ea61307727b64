/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst keyspace`: the ring that nodes make, and how even it is. */
#include "cli/keyspace.h"

#include "cli/cluster.h"
#include "cli/node.h"
#include "cli/svg.h"
#include "cli/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_SVG = TR_CLUSTER_OPTIONS_END,
    OPTION_RING,
    OPTION_CLUSTER,
};

static const struct tr_option option_table[] = {
    {"--replicas", true, TR_OPTION_REPLICAS},
    {"--partitions", true, TR_OPTION_PARTITIONS},
    {"--per-node", true, TR_OPTION_PER_NODE},
    {"--node", true, TR_OPTION_NODE},
    {"--cluster", true, OPTION_CLUSTER},
    {"--svg", true, OPTION_SVG},
    {"--ring", false, OPTION_RING},
    {"--json", false, TR_OPTION_JSON},
    {"--help", false, TR_OPTION_HELP},
    {"-h", false, TR_OPTION_HELP},
    {NULL, false, 0},
};

struct request {
    struct tr_cluster_settings settings;
    struct tr_node_list nodes;
    const char *contact; /* NULL: the ring of nodes that are given */
    const char *svg_path;
    bool wants_ring;
};

static bool take_option(struct request *request, const struct tr_options *options)
{
    switch (options->id) {
    case 0:
        tr_usage_error("keyspace", "'%s': nodes are given by --node", options->value);
        return false;
    case TR_OPTION_NODE:
        return tr_node_list_add(&request->nodes, &request->settings, options->value);
    case OPTION_SVG:
        request->svg_path = options->value;
        return true;
    case OPTION_RING:
        request->wants_ring = true;
        return true;
    case OPTION_CLUSTER:
        request->contact = options->value;
        return true;
    default:
        return tr_cluster_take(&request->settings, options);
    }
}

static bool read_request(struct request *request, int argc, char **argv)
{
    struct tr_options options = tr_options_start("keyspace", option_table, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (!take_option(request, &options))
            return false;
    }
    if (step == TR_OPTIONS_BAD)
        return false;
    if (request->contact != NULL && request->nodes.count > 0) {
        tr_usage_error("keyspace", "either --cluster, or nodes by --node");
        return false;
    }
    if (request->contact == NULL && request->nodes.count == 0)
        request->contact = tr_node_address_or_default(NULL);
    return true;
}

/* ---- measuring ---- */

static int by_position(const void *a, const void *b)
{
    const struct tr_ring_stretch *one = a;
    const struct tr_ring_stretch *other = b;
    return (one->position > other->position) - (one->position < other->position);
}

static void find_stretches(struct tr_ring *ring, const struct tryst_place_map *map)
{
    for (size_t i = 0; i < ring->node_count; i++)
        ring->stretch_count += ring->nodes[i].positions;
    ring->stretches = tr_allocate(ring->stretch_count, sizeof *ring->stretches);
    size_t at = 0;
    for (size_t i = 0; i < ring->node_count; i++) {
        const uint32_t *positions = NULL;
        size_t count = tryst_place_node_positions(map, i, &positions);
        for (size_t k = 0; k < count; k++)
            ring->stretches[at++] = (struct tr_ring_stretch){positions[k], (uint32_t)i, 0};
    }
    qsort(ring->stretches, ring->stretch_count, sizeof *ring->stretches, by_position);
    uint32_t before = ring->stretches[ring->stretch_count - 1].position;
    for (size_t i = 0; i < ring->stretch_count; i++) {
        struct tr_ring_stretch *stretch = &ring->stretches[i];
        uint64_t turn = stretch->position <= before ? ring->partitions : 0;
        stretch->partitions = stretch->position + turn - before;
        before = stretch->position;
    }
}

/* All keys of a stretch have one preference list. */
static void add_up(struct tr_ring *ring, const struct tryst_place_map *map)
{
    uint32_t *list = tr_allocate(ring->list_size, sizeof *list);
    void *workspace = tr_allocate(tryst_place_workspace_size(map, ring->list_size) + 1, 1);
    for (size_t i = 0; i < ring->stretch_count; i++) {
        const struct tr_ring_stretch *stretch = &ring->stretches[i];
        struct tryst_place_key key;
        tryst_place_key_at(map, stretch->position, &key);
        size_t count = tryst_place_lookup(map, key, ring->list_size, list, workspace);
        ring->nodes[stretch->node].owned += stretch->partitions;
        for (size_t k = 0; k < count; k++)
            ring->nodes[list[k]].copies += stretch->partitions;
    }
    free(workspace);
    free(list);
}

static void measure(struct tr_ring *ring, const struct tryst_place_map *map, size_t replicas)
{
    size_t count = tryst_place_node_count(map);
    *ring = (struct tr_ring){
        .partitions = tryst_place_partitions(map),
        .list_size = replicas < count ? replicas : count,
        .nodes = tr_allocate(count, sizeof *ring->nodes),
        .node_count = count,
    };
    for (size_t i = 0; i < count; i++) {
        const uint32_t *positions = NULL;
        ring->nodes[i].name = tryst_place_node_name(map, i);
        ring->nodes[i].positions = tryst_place_node_positions(map, i, &positions);
    }
    find_stretches(ring, map);
    add_up(ring, map);
}

static double share(const struct tr_ring *ring, uint64_t partitions)
{
    return (double)partitions / (double)ring->partitions;
}

double tr_ring_evenness(const struct tr_ring *ring, const struct tr_ring_node *node)
{
    return share(ring, node->owned) * (double)ring->node_count;
}

/* ---- printing ---- */

static size_t name_width(const struct tr_ring *ring)
{
    size_t width = 4;
    for (size_t i = 0; i < ring->node_count; i++) {
        size_t size = tr_utf8_count(ring->nodes[i].name);
        width = size > width ? size : width;
    }
    return width;
}

static void print_table(const struct tr_ring *ring)
{
    size_t width = name_width(ring);
    double most = 0;
    double least = (double)ring->node_count;
    tr_utf8_print_padded(stdout, "node", width);
    puts("  positions  partitions     keys  of an even share   copies");
    for (size_t i = 0; i < ring->node_count; i++) {
        const struct tr_ring_node *node = &ring->nodes[i];
        double evenness = tr_ring_evenness(ring, node);
        most = evenness > most ? evenness : most;
        least = evenness < least ? evenness : least;
        tr_utf8_print_padded(stdout, node->name, width);
        printf("  %9zu  %10" PRIu64 "  %6.2f%%  %16.2f  %6.2f%%\n", node->positions, node->owned,
               100 * share(ring, node->owned), evenness, 100 * share(ring, node->copies));
    }
    printf("\n%" PRIu64 " partition%s, lists of %zu; the largest share is %.2f of an even one, the "
           "smallest %.2f\n",
           ring->partitions, ring->partitions == 1 ? "" : "s", ring->list_size, most, least);
}

static void print_ring(const struct tr_ring *ring)
{
    puts("\n  position         at     keys  node");
    for (size_t i = 0; i < ring->stretch_count; i++) {
        const struct tr_ring_stretch *stretch = &ring->stretches[i];
        printf("%10" PRIu32 "  %9.6f  %6.2f%%  %s\n", stretch->position,
               share(ring, stretch->position), 100 * share(ring, stretch->partitions),
               ring->nodes[stretch->node].name);
    }
}

static void print_json(const struct tr_ring *ring)
{
    printf("{\n  \"partitions\": %" PRIu64 ",\n  \"list-size\": %zu,\n  \"nodes\": [",
           ring->partitions, ring->list_size);
    for (size_t i = 0; i < ring->node_count; i++) {
        const struct tr_ring_node *node = &ring->nodes[i];
        fputs(i == 0 ? "\n    {\"name\": " : ",\n    {\"name\": ", stdout);
        tr_json_string(stdout, node->name, strlen(node->name));
        printf(", \"owned\": %" PRIu64 ", \"copies\": %" PRIu64 "}", node->owned, node->copies);
    }
    fputs("\n  ],\n  \"ring\": [", stdout);
    for (size_t i = 0; i < ring->stretch_count; i++) {
        const struct tr_ring_stretch *stretch = &ring->stretches[i];
        const char *name = ring->nodes[stretch->node].name;
        printf("%s\n    {\"position\": %" PRIu32 ", \"partitions\": %" PRIu64 ", \"node\": ",
               i == 0 ? "" : ",", stretch->position, stretch->partitions);
        tr_json_string(stdout, name, strlen(name));
        putchar('}');
    }
    fputs("\n  ]\n}\n", stdout);
}

static enum tr_exit run(const struct request *request, const struct tryst_place_map *map)
{
    FILE *svg = request->svg_path == NULL ? NULL : tr_svg_open("keyspace", request->svg_path);
    if (request->svg_path != NULL && svg == NULL)
        return TR_EXIT_FAILED;
    struct tr_ring ring;
    measure(&ring, map, (size_t)request->settings.replicas);
    if (request->settings.as_json) {
        print_json(&ring);
    } else {
        print_table(&ring);
        if (request->wants_ring)
            print_ring(&ring);
    }
    enum tr_exit status = TR_EXIT_OK;
    if (svg != NULL) {
        tr_ring_print_svg(&ring, svg);
        status = tr_svg_close("keyspace", svg, request->svg_path);
    }
    free(ring.stretches);
    free(ring.nodes);
    return status;
}

enum tr_exit tr_command_keyspace(int argc, char **argv)
{
    struct request request = {.settings = tr_cluster_defaults("keyspace")};
    enum tr_exit status = TR_EXIT_USAGE;
    struct tryst_place_map *map = NULL;
    request.settings.strategy = "keyspace@2";
    if (!read_request(&request, argc, argv)) {
        /* said */
    } else if (request.settings.wants_help) {
        tr_help_print(stdout, "keyspace");
        status = TR_EXIT_OK;
    } else if (request.contact != NULL) {
        size_t list_size = 0;
        map = tr_ring_ask(request.contact, &list_size);
        request.settings.replicas = list_size;
        status = map != NULL ? run(&request, map) : TR_EXIT_FAILED;
    } else if ((map = tr_cluster_map(&request.settings, &request.nodes)) != NULL) {
        status = run(&request, map);
    }
    free(map);
    tr_node_list_fini(&request.nodes);
    return status;
}
