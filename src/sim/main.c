/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst-sim`: lives through as many seeds as asked, and says which of them broke something. */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: tryst-sim [--cluster] [--seeds N] [--seed S] [--writes N] [--trace]\n"
    "\n"
    "Runs a node under virtual time with faulty disks, receivers and clocks.\n"
    "  --cluster    several nodes, on a network that fails too\n"
    "  --seeds N    seeds 1 to N (or N from S on); 100 if not given\n"
    "  --seed S     this seed alone, or the first one\n"
    "  --writes N   client writes in each; 500 if not given\n"
    "  --trace      print everything that happens\n";

static bool read_number(const char *text, uint64_t *number)
{
    char *end = NULL;
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    *number = strtoull(text, &end, 10);
    return *end == '\0';
}

int main(int argc, char **argv)
{
    struct sim_options options = {.writes = 500};
    uint64_t seeds = 100;
    uint64_t first = 1;
    uint64_t writes = 500;
    bool has_seeds = false;
    bool has_first = false;
    bool is_cluster = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool is_good = true;
        if (strcmp(argv[i], "--seeds") == 0) {
            is_good = read_number(value, &seeds);
            has_seeds = true;
            i++;
        } else if (strcmp(argv[i], "--seed") == 0) {
            is_good = read_number(value, &first);
            has_first = true;
            i++;
        } else if (strcmp(argv[i], "--writes") == 0) {
            is_good = read_number(value, &writes) && writes <= UINT32_MAX;
            i++;
        } else if (strcmp(argv[i], "--trace") == 0) {
            options.is_verbose = true;
        } else if (strcmp(argv[i], "--cluster") == 0) {
            is_cluster = true;
        } else {
            is_good = false;
        }
        if (!is_good) {
            fputs(usage, stderr);
            return 2;
        }
    }
    if (has_first && !has_seeds)
        seeds = 1;
    options.writes = (uint32_t)writes;
    uint64_t passed = 0;
    struct sim_result total = {.least_lateness_ms = UINT64_MAX};
    for (uint64_t i = 0; i < seeds; i++) {
        options.seed = first + i;
        struct sim_result result = is_cluster ? sim_cluster_run(&options) : sim_world_run(&options);
        passed += result.broken == NULL;
        total.timers += result.timers;
        total.pops += result.pops;
        total.crashes += result.crashes;
        total.steps += result.steps;
        total.trace_hash = total.trace_hash * 31 + result.trace_hash;
        if (result.least_lateness_ms < total.least_lateness_ms)
            total.least_lateness_ms = result.least_lateness_ms;
    }
    printf(
        "%llu writes, %llu pops, %llu crashes, %llu steps, least lateness %llu ms, trace %016llx\n",
        (unsigned long long)total.timers, (unsigned long long)total.pops,
        (unsigned long long)total.crashes, (unsigned long long)total.steps,
        (unsigned long long)total.least_lateness_ms, (unsigned long long)total.trace_hash);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed,
           (unsigned long long)(seeds - passed));
    return passed == seeds ? 0 : 1;
}
