/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement measured: nanoseconds per lookup, balance, and movement against the least possible, for
 * every strategy, beside plain modulo and a textbook highest random weight with a binary heap.
 * Tables for people on standard output, one TSV line per figure in a file. All of it in one
 * process, one after another: compare within a run.
 *
 * usage: bench-place TSV
 */
#include "base/hash.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tryst/place.h>

#define K_MAX       5
#define RUNS        5    /* the best of which counts */
#define RUN_NS      15e6 /* about how long each is */
#define RACK        25   /* nodes of a rack, for crush */
#define SAMPLES_MAX 1000000

/* What is looked up: one of the library's maps, or one of the two to compare with. */
struct subject {
    const char *name;
    struct tryst_place_map *map;
    void *workspace;
    struct tryst_place_node *nodes;
    char (*names)[32];
    char (*zones)[32];
    uint64_t *seeds;
    size_t count;
    void (*look_up)(const struct subject *subject, uint64_t id, size_t want, uint32_t *found);
};

static void by_library(const struct subject *subject, uint64_t id, size_t want, uint32_t *found)
{
    tryst_place_lookup(subject->map, tryst_place_key_of_id(subject->map, id), want, found,
                       subject->workspace);
}

static void by_modulo(const struct subject *subject, uint64_t id, size_t want, uint32_t *found)
{
    uint64_t first = tr_hash_mix(id) % subject->count;
    for (size_t i = 0; i < want; i++)
        found[i] = (uint32_t)((first + i) % subject->count);
}

struct scored {
    uint64_t score;
    uint32_t node;
};

static void sift_down(struct scored *heap, size_t count, size_t at)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1].score < heap[child].score)
            child++;
        if (heap[at].score <= heap[child].score)
            return;
        struct scored held = heap[at];
        heap[at] = heap[child];
        heap[child] = held;
        at = child;
    }
}

/* The k largest of n scores in a heap of k, the smallest at its root. */
static void by_textbook(const struct subject *subject, uint64_t id, size_t want, uint32_t *found)
{
    struct scored heap[K_MAX];
    for (uint32_t i = 0; i < want; i++)
        heap[i] = (struct scored){tr_hash_mix(id ^ subject->seeds[i]), i};
    for (size_t i = want; i > 0; i--)
        sift_down(heap, want, i - 1);
    for (uint32_t i = (uint32_t)want; i < subject->count; i++) {
        uint64_t score = tr_hash_mix(id ^ subject->seeds[i]);
        if (score > heap[0].score) {
            heap[0] = (struct scored){score, i};
            sift_down(heap, want, 0);
        }
    }
    for (size_t left = want; left > 0; left--) {
        found[left - 1] = heap[0].node;
        heap[0] = heap[left - 1];
        sift_down(heap, left - 1, 0);
    }
}

static bool uses_weights(const char *name)
{
    return strncmp(name, "chronos", 7) != 0 && strncmp(name, "keyspace", 8) != 0 &&
           strcmp(name, "modulo") != 0 && strcmp(name, "textbook") != 0;
}

static double weight_of(size_t node, bool is_weighted)
{
    return is_weighted ? (double)(1 + node * 7 % 4) : 1;
}

static void name_nodes(struct subject *subject, bool is_weighted)
{
    for (size_t i = 0; i < subject->count; i++) {
        struct tryst_place_node *node = &subject->nodes[i];
        snprintf(subject->names[i], sizeof subject->names[i], "10.%zu.%zu.%zu:7253", i >> 16 & 255,
                 i >> 8 & 255, i & 255);
        snprintf(subject->zones[i], sizeof subject->zones[i], "rack%zu", i / RACK);
        node->name = subject->names[i];
        subject->seeds[i] = tr_hash_xxh3(node->name, strlen(node->name));
        if (is_weighted)
            node->weight = TRYST_PLACE_WEIGHT_ONE * (1 + i * 7 % 4);
        if (strncmp(subject->name, "crush", 5) == 0)
            node->zone = subject->zones[i];
    }
}

static struct subject open_subject(const char *name, size_t count, bool is_weighted)
{
    struct subject subject = {.name = name,
                              .count = count,
                              .nodes = calloc(count, sizeof *subject.nodes),
                              .names = calloc(count, sizeof *subject.names),
                              .zones = calloc(count, sizeof *subject.zones),
                              .seeds = calloc(count, sizeof *subject.seeds)};
    name_nodes(&subject, is_weighted);
    if (strcmp(name, "modulo") == 0 || strcmp(name, "textbook") == 0) {
        subject.look_up = name[0] == 'm' ? by_modulo : by_textbook;
        return subject;
    }
    struct tryst_place_config config = {.strategy = name};
    if (strncmp(name, "keyspace", 8) == 0)
        config.partitions = (uint64_t)1 << 20;
    size_t size = tryst_place_map_size(&config, subject.nodes, count);
    subject.map = malloc(size);
    enum tryst_place_status status =
        tryst_place_map_init(subject.map, size, &config, subject.nodes, count, NULL);
    if (status != TRYST_PLACE_OK) {
        fprintf(stderr, "bench-place: %s, %zu nodes: %s\n", name, count,
                tryst_place_status_text(status));
        exit(1);
    }
    subject.workspace = malloc(tryst_place_workspace_size(subject.map, K_MAX) + 1);
    subject.look_up = by_library;
    return subject;
}

static void close_subject(struct subject *subject)
{
    free(subject->map);
    free(subject->workspace);
    free(subject->nodes);
    free(subject->names);
    free(subject->zones);
    free(subject->seeds);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static volatile uint64_t sink;

/* Nanoseconds of `count` lookups, one after another. The library is called directly, as a program
 * would. */
static double time_lookups(const struct subject *subject, size_t want, uint64_t count)
{
    uint32_t found[K_MAX];
    uint64_t sum = 0;
    double started = now_ns();
    for (uint64_t id = 0; id < count; id++) {
        if (subject->map != NULL)
            by_library(subject, id, want, found);
        else
            subject->look_up(subject, id, want, found);
        sum += found[want - 1];
    }
    double taken = now_ns() - started;
    sink += sum;
    return taken;
}

static double best_ns(const struct subject *subject, size_t want)
{
    uint64_t count = 16;
    double taken = time_lookups(subject, want, count);
    while (taken < RUN_NS / 8) {
        count *= 2;
        taken = time_lookups(subject, want, count);
    }
    count = (uint64_t)((double)count * RUN_NS / taken) + 1;
    double best = INFINITY;
    for (int run = 0; run < RUNS; run++)
        best = fmin(best, time_lookups(subject, want, count) / (double)count);
    return best;
}

static const size_t sizes[] = {3, 10, 100, 1000, 10000};
static const size_t wants[] = {1, 2, 3, 5};
#define SIZES (sizeof sizes / sizeof sizes[0])
#define WANTS (sizeof wants / sizeof wants[0])

static const char *subject_name(size_t index)
{
    static const char *const others[] = {"modulo", "textbook"};
    size_t library = 0;
    while (tryst_place_strategy_name(library) != NULL)
        library++;
    if (index < library)
        return tryst_place_strategy_name(index);
    return index - library < 2 ? others[index - library] : NULL;
}

static void print_speed(FILE *tsv, const char *name, size_t size, bool is_weighted)
{
    struct subject subject = open_subject(name, size, is_weighted);
    printf("%-13s %-9s", name, is_weighted ? "weighted" : "");
    for (size_t w = 0; w < WANTS; w++) {
        if (wants[w] > size) {
            printf("%11s", "-");
            continue;
        }
        double ns = best_ns(&subject, wants[w]);
        printf("%11.1f", ns);
        fflush(stdout);
        fprintf(tsv, "lookup\t%s\t%s\tn=%zu\tk=%zu\t%.1f\tns\n", name,
                is_weighted ? "weighted" : "plain", size, wants[w], ns);
    }
    printf("\n");
    close_subject(&subject);
}

/* Samples to take so that a slow strategy is not at it for minutes. */
static uint64_t sample_count(const struct subject *subject, size_t want)
{
    double ns = time_lookups(subject, want, 64) / 64;
    double affordable = 5e8 / ns;
    return affordable < SAMPLES_MAX ? (uint64_t)affordable : SAMPLES_MAX;
}

/* What each node holds of the first `want` replicas against what is due by weight. */
static void print_balance(FILE *tsv, const char *name, size_t count, size_t want, bool is_weighted)
{
    struct subject subject = open_subject(name, count, is_weighted);
    uint64_t samples = sample_count(&subject, want);
    double *counts = calloc(count, sizeof *counts);
    for (uint64_t id = 0; id < samples; id++) {
        uint32_t found[K_MAX];
        subject.look_up(&subject, id, want, found);
        for (size_t i = 0; i < want; i++)
            counts[found[i]]++;
    }
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += weight_of(i, is_weighted);
    double peak = 0;
    double chi_squared = 0;
    for (size_t i = 0; i < count; i++) {
        double due = (double)(samples * want) * weight_of(i, is_weighted) / total;
        peak = fmax(peak, counts[i] / due);
        chi_squared += (counts[i] - due) * (counts[i] - due) / due;
    }
    const char *kind = is_weighted ? "weighted" : "plain";
    printf("%9.3f", peak);
    fprintf(tsv, "balance\t%s\t%s\tn=%zu\tk=%zu peak\t%.4f\tof its due\n", name, kind, count, want,
            peak);
    if (want == 1) {
        printf("%10.1f", chi_squared / (double)(count - 1));
        fprintf(tsv, "balance\t%s\t%s\tn=%zu\tchi-squared\t%.2f\tper degree of freedom\n", name,
                kind, count, chi_squared / (double)(count - 1));
    }
    free(counts);
    close_subject(&subject);
}

/* Primaries that move when an eleventh node joins ten, and the least that could, from the shares
 * before and after. */
static void print_movement(FILE *tsv, const char *name, bool is_weighted)
{
    enum { BEFORE = 10 };
    struct subject before = open_subject(name, BEFORE, is_weighted);
    struct subject after = open_subject(name, BEFORE + 1, is_weighted);
    uint64_t samples = sample_count(&after, 1);
    double old_counts[BEFORE + 1] = {0};
    double new_counts[BEFORE + 1] = {0};
    double moved = 0;
    for (uint64_t id = 0; id < samples; id++) {
        uint32_t old;
        uint32_t new;
        before.look_up(&before, id, 1, &old);
        after.look_up(&after, id, 1, &new);
        old_counts[old]++;
        new_counts[new]++;
        moved += old != new;
    }
    double least = 0;
    for (size_t i = 0; i <= BEFORE; i++)
        least += fmax(0, new_counts[i] - old_counts[i]);
    printf("%11.2f%% %9.2f%%", 100 * moved / (double)samples, 100 * least / (double)samples);
    fprintf(tsv, "movement\t%s\t%s\t10 to 11\tmoved\t%.3f\t%%\n", name,
            is_weighted ? "weighted" : "plain", 100 * moved / (double)samples);
    fprintf(tsv, "movement\t%s\t%s\t10 to 11\tleast\t%.3f\t%%\n", name,
            is_weighted ? "weighted" : "plain", 100 * least / (double)samples);
    close_subject(&before);
    close_subject(&after);
}

static void print_speeds(FILE *tsv)
{
    printf("nanoseconds per lookup of k nodes, best of %d; crush: racks of %d\n", RUNS, RACK);
    for (size_t s = 0; s < SIZES; s++) {
        printf("\n%-23s", "");
        for (size_t w = 0; w < WANTS; w++)
            printf("%9s%zu", "k=", wants[w]);
        printf("   of %zu nodes\n", sizes[s]);
        for (size_t i = 0; subject_name(i) != NULL; i++) {
            for (int weighted = 0; weighted <= (uses_weights(subject_name(i)) ? 1 : 0); weighted++)
                print_speed(tsv, subject_name(i), sizes[s], weighted);
        }
    }
}

static void print_qualities(FILE *tsv)
{
    printf(
        "\nup to %d keys: what the most loaded node holds against its due by weight, for one and\n"
        "for two replicas; chi-squared of the first per degree of freedom (about 1 is chance "
        "alone);\n"
        "and how many primaries move when an eleventh node joins ten, beside the least that "
        "must\n\n",
        SAMPLES_MAX);
    printf("%-23s%-19s%-9s%-19s%-9s%s\n", "", "   n=10: k=1", "  k=2", "  n=100: k=1", "  k=2",
           "     moved      least");
    printf("%-23s%9s%10s%9s%9s%10s%9s\n", "", "peak", "chi-sq.", "peak", "peak", "chi-sq.", "peak");
    for (size_t i = 0; subject_name(i) != NULL; i++) {
        for (int weighted = 0; weighted <= (uses_weights(subject_name(i)) ? 1 : 0); weighted++) {
            printf("%-13s %-9s", subject_name(i), weighted ? "weighted" : "");
            print_balance(tsv, subject_name(i), 10, 1, weighted);
            print_balance(tsv, subject_name(i), 10, 2, weighted);
            print_balance(tsv, subject_name(i), 100, 1, weighted);
            print_balance(tsv, subject_name(i), 100, 2, weighted);
            print_movement(tsv, subject_name(i), weighted);
            printf("\n");
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    FILE *tsv = argc == 2 ? fopen(argv[1], "w") : NULL;
    if (tsv == NULL) {
        fprintf(stderr, "usage: bench-place TSV\n");
        return 2;
    }
    print_speeds(tsv);
    print_qualities(tsv);
    return fclose(tsv) == 0 ? 0 : 1;
}
