/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the library to the frozen vectors, with SIMD and without, and the two to each other on
 * random clusters. Needs nothing but the library, so that it also runs on another architecture
 * under emulation. Speaks TAP.
 *
 * A line of the file: strategy, settings (partitions=P, spread=L, or -), nodes
 * (NAME;weight;zone;position, - where not given, separated by spaces), key (text:..., id:hex or
 * at:decimal number), and all nodes in order, by index; with tabs between.
 */
#include "base/random.h"
#include "place/score.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/place.h>

#define NODES_MAX 128
#define LINE_MAX_ 16384

struct cluster {
    struct tryst_place_config config;
    struct tryst_place_node nodes[NODES_MAX];
    size_t count;
};

static struct tryst_place_map *build(struct cluster *cluster, uint32_t flags)
{
    cluster->config.flags = flags;
    size_t size = tryst_place_map_size(&cluster->config, cluster->nodes, cluster->count);
    struct tryst_place_map *map = malloc(size);
    enum tryst_place_status status =
        tryst_place_map_init(map, size, &cluster->config, cluster->nodes, cluster->count, NULL);
    if (status == TRYST_PLACE_OK)
        return map;
    printf("Bail out! a cluster cannot be built: %s\n", tryst_place_status_text(status));
    exit(1);
}

/* Cuts the text at the next `separator` and returns its beginning; NULL when nothing is left. */
static char *cut(char **text, char separator)
{
    char *start = *text;
    if (start == NULL)
        return NULL;
    char *end = strchr(start, separator);
    *text = end == NULL ? NULL : end + 1;
    if (end != NULL)
        *end = '\0';
    return start;
}

static bool is_given(const char *field)
{
    return field != NULL && strcmp(field, "-") != 0;
}

static void read_nodes(struct cluster *cluster, char *text)
{
    cluster->count = 0;
    for (char *one = cut(&text, ' '); one != NULL && cluster->count < NODES_MAX;
         one = cut(&text, ' ')) {
        struct tryst_place_node node = {.name = cut(&one, ';')};
        char *weight = cut(&one, ';');
        char *zone = cut(&one, ';');
        char *position = cut(&one, ';');
        if (is_given(weight))
            node.weight = strtoull(weight, NULL, 10);
        if (is_given(zone))
            node.zone = zone;
        if (is_given(position)) {
            node.has_position = 1;
            node.position = (uint32_t)strtoull(position, NULL, 10);
        }
        cluster->nodes[cluster->count++] = node;
    }
}

static void read_settings(struct cluster *cluster, const char *text)
{
    if (strncmp(text, "partitions=", 11) == 0)
        cluster->config.partitions = strtoull(text + 11, NULL, 10);
    if (strncmp(text, "spread=", 7) == 0)
        cluster->config.spread = (uint32_t)strtoul(text + 7, NULL, 10);
}

static struct tryst_place_key read_key(const struct tryst_place_map *map, const char *text)
{
    struct tryst_place_key key = {0};
    if (strncmp(text, "text:", 5) == 0)
        return tryst_place_key_of_text(map, text + 5, strlen(text + 5));
    if (strncmp(text, "id:", 3) == 0)
        return tryst_place_key_of_id(map, strtoull(text + 3, NULL, 16));
    tryst_place_key_at(map, strtoull(text + 3, NULL, 10), &key);
    return key;
}

/* Are the first k nodes for every k those of the vector? */
static bool agrees(const struct tryst_place_map *map, struct tryst_place_key key,
                   const char *expected)
{
    uint32_t order[NODES_MAX];
    size_t count = 0;
    char *end = NULL;
    for (const char *at = expected; *at != '\0' && *at != '\n' && count < NODES_MAX;
         at = end + (*end == ' '))
        order[count++] = (uint32_t)strtoul(at, &end, 10);
    void *workspace = malloc(tryst_place_workspace_size(map, count) + 1);
    bool is_right = count == tryst_place_node_count(map);
    for (size_t want = 1; want <= count; want++) {
        uint32_t found[NODES_MAX];
        size_t given = tryst_place_lookup(map, key, want, found, workspace);
        is_right = is_right && given == want && memcmp(found, order, want * sizeof order[0]) == 0;
    }
    free(workspace);
    return is_right;
}

static bool check_line(char *line, uint32_t flags)
{
    struct cluster cluster = {.count = 0};
    cluster.config.strategy = cut(&line, '\t');
    read_settings(&cluster, cut(&line, '\t'));
    read_nodes(&cluster, cut(&line, '\t'));
    const char *key = cut(&line, '\t');
    struct tryst_place_map *map = build(&cluster, flags);
    bool is_right = agrees(map, read_key(map, key), line);
    free(map);
    return is_right;
}

/* Counts the lines that fail; -1 if the file cannot be read. */
static long check_file(const char *path, uint32_t flags, long *lines)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    static char line[LINE_MAX_];
    long failed = 0;
    *lines = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        ++*lines;
        if (!check_line(line, flags)) {
            printf("# line %ld is not as frozen\n", *lines);
            failed++;
        }
    }
    fclose(file);
    return failed;
}

static void draw_cluster(struct cluster *cluster, char (*names)[48], struct tr_random *random,
                         const char *strategy)
{
    *cluster = (struct cluster){.config = {.strategy = strategy}};
    if (strncmp(strategy, "keyspace", 8) == 0)
        cluster->config.partitions = (uint64_t)1 << 20; /* room for all of them */
    cluster->count = 1 + tr_random_below(random, NODES_MAX);
    bool has_weights = strncmp(strategy, "chronos", 7) != 0 &&
                       strncmp(strategy, "keyspace", 8) != 0 && tr_random_below(random, 2) == 1;
    for (size_t i = 0; i < cluster->count; i++) {
        snprintf(names[i], sizeof names[i], "n%zu-%x", i, (unsigned)tr_random_below(random, 65536));
        cluster->nodes[i] = (struct tryst_place_node){.name = names[i]};
        if (has_weights)
            cluster->nodes[i].weight =
                TRYST_PLACE_WEIGHT_ONE / 8 * (1 + tr_random_below(random, 16));
    }
}

/* SIMD and portable lookups of one random cluster; counts the keys on which they differ. */
static long compare_paths(const char *strategy, struct tr_random *random)
{
    static char names[NODES_MAX][48];
    struct cluster cluster;
    draw_cluster(&cluster, names, random, strategy);
    struct tryst_place_map *fast = build(&cluster, 0);
    struct tryst_place_map *portable = build(&cluster, TRYST_PLACE_PORTABLE);
    void *workspace = malloc(tryst_place_workspace_size(fast, NODES_MAX) + 1);
    long differing = 0;
    for (int i = 0; i < 50; i++) {
        uint64_t id = tr_random_next(random);
        uint32_t a[NODES_MAX];
        uint32_t b[NODES_MAX];
        size_t want = 1 + tr_random_below(random, i % 5 == 0 ? cluster.count : 5);
        size_t given =
            tryst_place_lookup(fast, tryst_place_key_of_id(fast, id), want, a, workspace);
        tryst_place_lookup(portable, tryst_place_key_of_id(portable, id), want, b, workspace);
        differing += memcmp(a, b, given * sizeof a[0]) != 0;
    }
    free(workspace);
    free(fast);
    free(portable);
    return differing;
}

static bool report(int number, bool is_right, const char *what, long count)
{
    printf("%s %d - %s (%ld)\n", is_right ? "ok" : "not ok", number, what, count);
    return is_right;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: check-vectors FILE\n");
        return 2;
    }
    static const char *const kernels[] = {"portable", "NEON", "AVX2"};
    printf("# this machine's kernel: %s\n1..3\n", kernels[tr_kernel_best()]);
    bool is_right = true;
    long lines = 0;
    long failed = check_file(argv[1], 0, &lines);
    is_right &= report(1, failed == 0 && lines > 0, "frozen vectors", lines);
    failed = check_file(argv[1], TRYST_PLACE_PORTABLE, &lines);
    is_right &= report(2, failed == 0 && lines > 0, "frozen vectors without SIMD", lines);
    struct tr_random random = {23};
    long differing = 0;
    long clusters = 0;
    for (int round = 0; round < 40; round++) {
        for (size_t s = 0; tryst_place_strategy_name(s) != NULL; s++, clusters++)
            differing += compare_paths(tryst_place_strategy_name(s), &random);
    }
    is_right &= report(3, differing == 0, "random clusters with SIMD and without", clusters);
    return is_right ? 0 : 1;
}
