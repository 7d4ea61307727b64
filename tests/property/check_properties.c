/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The properties of placement on random clusters: 2 to 200 nodes, random weights, zones and
 * positions. What a strategy cannot hold by its nature is replaced by what it does hold;
 * docs/placement.md has the table. Speaks TAP.
 *
 * usage: check-properties CLUSTERS KEYS [SEED]
 */
#include "base/random.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/place.h>

#define NODES_MAX 201
#define FEW       12

enum kind {
    CHRONOS,
    RENDEZVOUS,
    CARP,
    VIRTUAL,
    SKELETON,
    CRUSH,
    RING,
    KEYSPACE_1,
    KEYSPACE,
    KINDS
};

static const char *const names_of_kinds[KINDS] = {"chronos", "rendezvous", "carp",
                                                  "virtual", "skeleton",   "crush",
                                                  "ring",    "keyspace@1", "keyspace"};

static bool is_keyspace(enum kind kind)
{
    return kind == KEYSPACE || kind == KEYSPACE_1;
}

struct cluster {
    enum kind kind;
    struct tryst_place_config config;
    struct tryst_place_node nodes[NODES_MAX];
    char names[NODES_MAX][48];
    char zones[NODES_MAX][64];
    size_t count;
    bool has_weights;
};

static struct tryst_place_map *build(const struct cluster *cluster,
                                     const struct tryst_place_node *nodes, size_t count)
{
    size_t size = tryst_place_map_size(&cluster->config, nodes, count);
    struct tryst_place_map *map = malloc(size);
    enum tryst_place_status status =
        tryst_place_map_init(map, size, &cluster->config, nodes, count, NULL);
    if (status == TRYST_PLACE_OK)
        return map;
    printf("Bail out! %s: %s\n", cluster->config.strategy, tryst_place_status_text(status));
    exit(1);
}

static uint64_t draw_weight(struct tr_random *random, enum kind kind)
{
    uint64_t eighths = kind == VIRTUAL || kind == RING ? 16 : 64;
    return TRYST_PLACE_WEIGHT_ONE / 8 * (1 + tr_random_below(random, eighths));
}

/* Draws a cluster and one node more, which is not counted. */
static void draw(struct cluster *cluster, struct tr_random *random, enum kind kind)
{
    memset(cluster, 0, sizeof *cluster);
    cluster->kind = kind;
    cluster->config.strategy = names_of_kinds[kind];
    cluster->count = 2 + tr_random_below(random, NODES_MAX - 2);
    cluster->has_weights = kind != CHRONOS && !is_keyspace(kind) && tr_random_below(random, 4) > 0;
    size_t depth = kind == CRUSH ? tr_random_below(random, 3) : 0;
    size_t zones = 2 + tr_random_below(random, 8);
    uint64_t step = (uint64_t)1 << (is_keyspace(kind) ? tr_random_below(random, 20) : 0);
    if (is_keyspace(kind))
        cluster->config.partitions = NODES_MAX * step + tr_random_below(random, 1000);
    if (depth > 0)
        cluster->config.spread = (uint32_t)tr_random_below(random, depth + 1);
    for (size_t i = 0; i <= cluster->count; i++) {
        struct tryst_place_node *node = &cluster->nodes[i];
        snprintf(cluster->names[i], sizeof cluster->names[i], "%08x:%zu",
                 (unsigned)tr_random_below(random, UINT32_MAX), i);
        node->name = cluster->names[i];
        if (cluster->has_weights)
            node->weight = draw_weight(random, kind);
        if (depth > 0) {
            int used = snprintf(cluster->zones[i], sizeof cluster->zones[i], "z%zu",
                                (size_t)tr_random_below(random, zones));
            if (depth == 2)
                snprintf(cluster->zones[i] + used, sizeof cluster->zones[i] - (size_t)used, "/y%zu",
                         (size_t)tr_random_below(random, 3));
            node->zone = cluster->zones[i];
        }
        if (is_keyspace(kind)) {
            node->has_position = 1;
            node->position =
                (uint32_t)((i * 97 % NODES_MAX) * step + tr_random_below(random, step));
        }
    }
}

/* A map with what a lookup needs around it. */
struct view {
    struct tryst_place_map *map;
    void *workspace;
    uint32_t order[NODES_MAX];
    size_t count;
};

static struct view open_view(const struct cluster *cluster, const struct tryst_place_node *nodes,
                             size_t count)
{
    struct view view = {.map = build(cluster, nodes, count)};
    view.workspace = malloc(tryst_place_workspace_size(view.map, count) + 1);
    return view;
}

static void close_view(struct view *view)
{
    free(view->map);
    free(view->workspace);
}

static void look_up(struct view *view, uint64_t id, size_t want)
{
    view->count = tryst_place_lookup(view->map, tryst_place_key_of_id(view->map, id), want,
                                     view->order, view->workspace);
}

static size_t draw_want(struct tr_random *random, size_t count)
{
    size_t most = tr_random_below(random, 50) == 0 ? count : FEW;
    size_t want = 1 + tr_random_below(random, most);
    return want < count ? want : count;
}

/* 1. The order of the list does not matter. (For `chronos` a clash of two server hashes would show:
 * about one cluster in 640,000 has one, and those of the seed in use have none.) */
static bool holds_agreement(struct cluster *cluster, struct tr_random *random, size_t keys)
{
    static struct tryst_place_node shuffled[NODES_MAX];
    uint32_t from[NODES_MAX];
    for (uint32_t i = 0; i < cluster->count; i++)
        from[i] = i;
    for (size_t i = cluster->count; i > 1; i--) {
        size_t other = tr_random_below(random, i);
        uint32_t held = from[i - 1];
        from[i - 1] = from[other];
        from[other] = held;
    }
    for (size_t i = 0; i < cluster->count; i++)
        shuffled[i] = cluster->nodes[from[i]];
    struct view a = open_view(cluster, cluster->nodes, cluster->count);
    struct view b = open_view(cluster, shuffled, cluster->count);
    bool holds = true;
    for (size_t k = 0; k < keys && holds; k++) {
        uint64_t id = tr_random_next(random);
        size_t want = draw_want(random, cluster->count);
        look_up(&a, id, want);
        look_up(&b, id, want);
        for (size_t i = 0; i < want; i++)
            holds = holds && a.order[i] == from[b.order[i]];
    }
    close_view(&a);
    close_view(&b);
    return holds;
}

/* Digits that two seeds of `skeleton` share. */
static unsigned shared_digits(uint64_t a, uint64_t b)
{
    return a == b ? 16 : (unsigned)__builtin_clzll(a ^ b) / 4;
}

/* Is `a` in the failure domain of `b`? */
static bool share_domain(const struct cluster *cluster, uint32_t a, uint32_t b)
{
    const char *left = cluster->nodes[a].zone;
    const char *right = cluster->nodes[b].zone;
    if (left == NULL)
        return a == b;
    size_t levels = cluster->config.spread == 2 ? 2 : 1;
    for (size_t i = 0; left[i] == right[i]; i++) {
        if (left[i] == '\0')
            return true;
        levels -= left[i] == '/';
        if (levels == 0)
            return true;
    }
    return false;
}

/* The order without `node`. */
static void without(struct view *view, uint32_t node)
{
    size_t kept = 0;
    for (size_t i = 0; i < view->count; i++) {
        if (view->order[i] != node)
            view->order[kept++] = view->order[i];
    }
    view->count = kept;
}

static bool same_start(const struct view *a, const struct view *b)
{
    size_t count = a->count < b->count ? a->count : b->count;
    return memcmp(a->order, b->order, count * sizeof a->order[0]) == 0;
}

/* `before` with its first node moved to the end. */
static bool is_displaced(const struct view *before, const struct view *after)
{
    size_t count = before->count - 1 < after->count ? before->count - 1 : after->count;
    return memcmp(before->order + 1, after->order, count * sizeof before->order[0]) == 0;
}

/* What stays of the order when `node` comes (or, the other way round, goes, or gets heavier). */
static bool moves_little(const struct cluster *cluster, struct view *before, struct view *after,
                         uint32_t node)
{
    uint32_t old_first = before->order[0];
    uint32_t new_first = after->order[0];
    if (cluster->kind == SKELETON) {
        uint64_t seed = tryst_place_node_hash(after->map, node);
        return old_first == new_first ||
               shared_digits(tryst_place_node_hash(after->map, new_first), seed) >
                   shared_digits(tryst_place_node_hash(after->map, old_first), seed);
    }
    if (cluster->kind == CRUSH && cluster->nodes[0].zone != NULL)
        return old_first == new_first || share_domain(cluster, new_first, node);
    without(before, node);
    without(after, node);
    if (cluster->kind == CHRONOS)
        return same_start(before, after) || is_displaced(before, after);
    return same_start(before, after);
}

/* 2. A node that comes takes keys, and nothing else moves; read backwards, one that goes gives only
 * its own. */
static bool holds_minimal_movement(struct cluster *cluster, struct tr_random *random, size_t keys)
{
    if (cluster->kind == CARP && cluster->has_weights)
        return true; /* the factors of all depend on all: see the table */
    struct view before = open_view(cluster, cluster->nodes, cluster->count);
    struct view after = open_view(cluster, cluster->nodes, cluster->count + 1);
    bool holds = true;
    for (size_t k = 0; k < keys && holds; k++) {
        uint64_t id = tr_random_next(random);
        size_t want = draw_want(random, cluster->count);
        look_up(&before, id, want);
        look_up(&after, id, want + 1);
        holds = moves_little(cluster, &before, &after, (uint32_t)cluster->count);
    }
    close_view(&before);
    close_view(&after);
    return holds;
}

/* 4. The first k of k + 1 are the answer for k. */
static bool holds_k_agreement(struct cluster *cluster, struct tr_random *random, size_t keys)
{
    struct view shorter = open_view(cluster, cluster->nodes, cluster->count);
    struct view longer = open_view(cluster, cluster->nodes, cluster->count);
    bool holds = true;
    for (size_t k = 0; k < keys && holds; k++) {
        uint64_t id = tr_random_next(random);
        size_t want = draw_want(random, cluster->count - 1);
        look_up(&shorter, id, want);
        look_up(&longer, id, want + 1);
        bool is_seen[NODES_MAX] = {false};
        for (size_t i = 0; i < longer.count; i++) {
            holds = holds && longer.order[i] < cluster->count && !is_seen[longer.order[i]];
            is_seen[longer.order[i]] = true;
        }
        holds = holds && shorter.count == want && longer.count == want + 1 &&
                same_start(&shorter, &longer);
    }
    close_view(&shorter);
    close_view(&longer);
    return holds;
}

/* 5. A node that gets heavier takes keys, and nothing else moves. */
static bool holds_weights(struct cluster *cluster, struct tr_random *random, size_t keys)
{
    if (!cluster->has_weights || cluster->kind == CARP)
        return true;
    uint32_t node = (uint32_t)tr_random_below(random, cluster->count);
    struct view before = open_view(cluster, cluster->nodes, cluster->count);
    cluster->nodes[node].weight += draw_weight(random, cluster->kind);
    struct view after = open_view(cluster, cluster->nodes, cluster->count);
    bool holds = true;
    for (size_t k = 0; k < keys && holds; k++) {
        uint64_t id = tr_random_next(random);
        size_t want = draw_want(random, cluster->count);
        look_up(&before, id, want);
        look_up(&after, id, want);
        if (cluster->kind != SKELETON &&
            (cluster->kind != CRUSH || cluster->nodes[0].zone == NULL)) {
            /* It may only have come forward. */
            size_t old_place = 0;
            size_t new_place = 0;
            while (old_place < before.count && before.order[old_place] != node)
                old_place++;
            while (new_place < after.count && after.order[new_place] != node)
                new_place++;
            holds = new_place <= old_place;
        }
        holds = holds && moves_little(cluster, &before, &after, node);
    }
    close_view(&before);
    close_view(&after);
    return holds;
}

/* 6. Among the first k, no domain has two nodes more than another that has any left. */
static bool holds_domains(struct cluster *cluster, struct tr_random *random, size_t keys)
{
    if (cluster->kind != CRUSH)
        return true;
    uint32_t domain[NODES_MAX];
    uint32_t size[NODES_MAX] = {0};
    for (uint32_t i = 0; i < cluster->count; i++) {
        domain[i] = 0;
        while (!share_domain(cluster, i, domain[i]))
            domain[i]++;
        size[domain[i]]++;
    }
    struct view view = open_view(cluster, cluster->nodes, cluster->count);
    bool holds = true;
    for (size_t k = 0; k < keys && holds; k++) {
        uint32_t used[NODES_MAX] = {0};
        look_up(&view, tr_random_next(random), draw_want(random, cluster->count));
        uint32_t most = 0;
        for (size_t i = 0; i < view.count; i++) {
            uint32_t here = ++used[domain[view.order[i]]];
            most = here > most ? here : most;
        }
        for (size_t i = 0; i < cluster->count; i++)
            holds = holds && (size[i] == 0 || used[i] + 1 >= most || used[i] == size[i]);
    }
    close_view(&view);
    return holds;
}

typedef bool property(struct cluster *cluster, struct tr_random *random, size_t keys);

static int tests_run;

static bool report(bool holds, const char *what, const char *strategy, const char *note)
{
    printf("%s %d - %s: %s%s\n", holds ? "ok" : "not ok", ++tests_run, strategy, what, note);
    fflush(stdout);
    return holds;
}

static bool check(property *holds, const char *what, enum kind kind, size_t clusters, size_t keys,
                  uint64_t seed)
{
    static struct cluster cluster;
    for (size_t i = 0; i < clusters; i++) {
        struct tr_random random = {seed + i * KINDS + (uint64_t)kind};
        draw(&cluster, &random, kind);
        if (!holds(&cluster, &random, keys)) {
            printf("# cluster %zu of seed %llu: %zu nodes\n", i, (unsigned long long)seed,
                   cluster.count);
            return report(false, what, names_of_kinds[kind], "");
        }
    }
    return report(true, what, names_of_kinds[kind], "");
}

/* 3. Shares of ten nodes over a million keys against what they should be: chi-squared with nine
 * degrees of freedom, below 33.7 (one in ten thousand). For `ring`, whose shares are random, only
 * that the largest is less than half above its due. */
static bool check_balance(enum kind kind, bool is_weighted)
{
    enum { COUNT = 10, KEYS = 1000000 };
    struct cluster cluster = {.kind = kind, .config = {.strategy = names_of_kinds[kind]}};
    double due[COUNT];
    double total = 0;
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(cluster.names[i], sizeof cluster.names[i], "10.0.0.%zu:7253", i + 1);
        cluster.nodes[i].name = cluster.names[i];
        due[i] = is_weighted ? (double)(1 + i % 4) : 1;
        if (is_weighted)
            cluster.nodes[i].weight = TRYST_PLACE_WEIGHT_ONE * (1 + i % 4);
        if (is_keyspace(kind)) {
            cluster.nodes[i].has_position = 1;
            cluster.nodes[i].position = (uint32_t)(100 * i);
            due[i] = i == 0 ? 124 : 100; /* of 1,024 partitions, up to and with its own */
        }
        total += due[i];
    }
    struct view view = open_view(&cluster, cluster.nodes, COUNT);
    double counts[COUNT] = {0};
    for (uint64_t id = 0; id < KEYS; id++) {
        look_up(&view, id, 1);
        counts[view.order[0]]++;
    }
    double chi_squared = 0;
    double peak = 0;
    for (size_t i = 0; i < COUNT; i++) {
        double expected = KEYS * due[i] / total;
        chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
        peak = fmax(peak, counts[i] / expected);
    }
    close_view(&view);
    char note[96];
    snprintf(note, sizeof note, " (chi-squared %.1f, peak %.3f of its due)", chi_squared, peak);
    return report(kind == RING ? peak < 1.5 : chi_squared < 33.7,
                  is_weighted ? "balance by weights" : "balance", names_of_kinds[kind], note);
}

int main(int argc, char **argv)
{
    static const struct {
        property *holds;
        const char *what;
    } properties[] = {
        {holds_agreement, "agreement"},     {holds_minimal_movement, "minimal movement"},
        {holds_k_agreement, "k-agreement"}, {holds_weights, "weights"},
        {holds_domains, "failure domains"},
    };
    if (argc < 3) {
        fprintf(stderr, "usage: check-properties CLUSTERS KEYS [SEED]\n");
        return 2;
    }
    size_t clusters = strtoull(argv[1], NULL, 10);
    size_t keys = strtoull(argv[2], NULL, 10);
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    bool all_hold = true;
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
            bool applies = (properties[i].holds != holds_domains || kind == CRUSH) &&
                           (properties[i].holds != holds_weights ||
                            (kind != CHRONOS && !is_keyspace((enum kind)kind) && kind != CARP));
            if (applies)
                all_hold &= check(properties[i].holds, properties[i].what, (enum kind)kind,
                                  clusters, keys, seed);
        }
        all_hold &= check_balance((enum kind)kind, false);
        if (kind != CHRONOS && !is_keyspace((enum kind)kind))
            all_hold &= check_balance((enum kind)kind, true);
    }
    printf("1..%d\n", tests_run);
    return all_hold ? 0 : 1;
}
