/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst-sim`: lives through as many seeds as asked, and says which of them broke something. */
#include "sim/alone.h"
#include "sim/scale.h"
#include "sim/scenario.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUTANT_SEEDS 1000 /* within which a mutant must be found */
#define LIFE_SECONDS 600
#define SLOW_MS      200 /* one way, in calm lives that are slow */

static const char usage[] =
    "usage: tryst-sim [OPTION...]\n"
    "\n"
    "Runs clusters of nodes under virtual time, on networks, disks, clocks and receivers that "
    "fail.\n"
    "Everything is drawn from the seed: the same one gives the same life.\n"
    "  --seeds N        seeds 1 to N (or N from S on); 100 if not given\n"
    "  --seed S         this seed alone, or the first one\n"
    "  --replay S       this seed alone, and print everything that happens\n"
    "  --writes N       client writes in each; 300 if not given\n"
    "  --nodes N        a cluster of so many nodes, up to 60; drawn if not given\n"
    "  --latency MS     links that take so long one way, or up to that; drawn if not given\n"
    "  --calm           lives without faults: nodes come, leave and restart\n"
    "  --still          nor that: nothing changes at all\n"
    "  --full           calm lives in which nodes restart onto disks that are full\n"
    "  --sluggish       lives in which links stall, for long, and nothing else fails\n"
    "  --starved        calm lives in which nodes get no time to run, for a moment\n"
    "  --hostile        one node sends whatever it likes\n"
    "  --alone          lives of a single node\n"
    "  --keys           likewise, with keys beside the timers\n"
    "  --keyspace       lives of a cluster with keys beside the timers\n"
    "  --flushes        likewise, and all keys are ended now and then\n"
    "  --plans          lives with timers that go by the wall clock, and have headers and names\n"
    "  --moving         calm lives with keys that are read while they move\n"
    "  --cover          print how often each fault and each rule was exercised; 1 if any never "
    "was\n"
    "  --mutant NAME    break a rule on purpose\n"
    "  --mutants        break one rule after the other, and say how soon it is found\n"
    "  --scale N        from 3 to 4 nodes with N timers, or keys: what moves, and what that takes\n"
    "  --scenario FILE  play a scenario, and compare its trace with the one recorded in it\n"
    "  --record FILE    play a scenario, and record its trace\n";

struct mutant {
    const char *name;
    const char *what;
    const char *lives; /* that it is looked for in; "": as they are drawn */
};

static const struct mutant mutants[] = {{"none", "nothing", ""},
#define SIM_AS_MUTANT(name, text, what, lives) {text, what, lives},
                                        TR_MUTANTS_LIST(SIM_AS_MUTANT)
#undef SIM_AS_MUTANT
};

static const char *const rules[] = {
#define SIM_AS_RULE(name, what) what,
    TR_RULES_LIST(SIM_AS_RULE)
#undef SIM_AS_RULE
};

static const char *const faults[] = {
#define SIM_AS_TEXT(name, what) what,
    SIM_FAULTS_LIST(SIM_AS_TEXT)
#undef SIM_AS_TEXT
};

struct arguments {
    struct sim_options options;
    uint64_t seeds;
    uint64_t first;
    uint64_t scale;
    bool has_seeds;
    bool has_first;
    bool is_alone;
    bool wants_cover;
    bool wants_mutants;
    bool wants_record;
    const char *scenario;
};

static bool read_number(const char *text, uint64_t *number)
{
    char *end = NULL;
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    *number = strtoull(text, &end, 10);
    return *end == '\0';
}

static bool read_mutant(const char *text, enum tr_mutant *mutant)
{
    for (unsigned i = 1; text != NULL && i < MUTANT_COUNT; i++) {
        if (strcmp(text, mutants[i].name) == 0) {
            *mutant = (enum tr_mutant)i;
            return true;
        }
    }
    fprintf(stderr, "tryst-sim: no mutant is called %s; there are:\n", text != NULL ? text : "");
    for (unsigned i = 1; i < MUTANT_COUNT; i++)
        fprintf(stderr, "  %-18s %s\n", mutants[i].name, mutants[i].what);
    return false;
}

/* An option that stands for itself. */
static bool read_flag(struct arguments *arguments, const char *name)
{
    if (strcmp(name, "--calm") == 0)
        arguments->options.is_calm = true;
    else if (strcmp(name, "--still") == 0)
        arguments->options.is_calm = arguments->options.is_still = true;
    else if (strcmp(name, "--full") == 0)
        arguments->options.is_full = arguments->options.is_calm = true;
    else if (strcmp(name, "--starved") == 0)
        arguments->options.is_calm = arguments->options.is_starved = true;
    else if (strcmp(name, "--sluggish") == 0)
        arguments->options.is_sluggish = true;
    else if (strcmp(name, "--hostile") == 0)
        arguments->options.is_hostile = true;
    else if (strcmp(name, "--alone") == 0)
        arguments->is_alone = true;
    else if (strcmp(name, "--keys") == 0)
        arguments->is_alone = arguments->options.has_keys = true;
    else if (strcmp(name, "--keyspace") == 0)
        arguments->options.has_keys = true;
    else if (strcmp(name, "--flushes") == 0)
        arguments->options.has_keys = arguments->options.has_flushes = true;
    else if (strcmp(name, "--plans") == 0)
        arguments->options.has_plans = true;
    else if (strcmp(name, "--moving") == 0)
        arguments->options.has_keys = arguments->options.is_calm = arguments->options.is_moving =
            true;
    else if (strcmp(name, "--cover") == 0)
        arguments->wants_cover = true;
    else if (strcmp(name, "--mutants") == 0)
        arguments->wants_mutants = true;
    else
        return false;
    return true;
}

/* An option with a value after it. */
static bool read_option(struct arguments *arguments, const char *name, const char *value)
{
    uint64_t number = 0;
    if (strcmp(name, "--mutant") == 0)
        return read_mutant(value, &arguments->options.mutant);
    if (strcmp(name, "--scenario") == 0 || strcmp(name, "--record") == 0) {
        arguments->scenario = value;
        arguments->wants_record = strcmp(name, "--record") == 0;
        return value != NULL;
    }
    if (!read_number(value, &number))
        return false;
    if (strcmp(name, "--seeds") == 0) {
        arguments->seeds = number;
        arguments->has_seeds = true;
    } else if (strcmp(name, "--seed") == 0 || strcmp(name, "--replay") == 0) {
        arguments->first = number;
        arguments->has_first = true;
        arguments->options.is_verbose = strcmp(name, "--replay") == 0;
    } else if (strcmp(name, "--writes") == 0 && number <= UINT32_MAX) {
        arguments->options.writes = (uint32_t)number;
    } else if (strcmp(name, "--nodes") == 0 && number >= 1 && number <= 60) {
        arguments->options.nodes = (uint32_t)number;
    } else if (strcmp(name, "--latency") == 0 && number <= 10000) {
        arguments->options.latency_ms = (uint32_t)number;
    } else if (strcmp(name, "--scale") == 0) {
        arguments->scale = number;
    } else {
        return false;
    }
    return true;
}

static bool read_arguments(struct arguments *arguments, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (read_flag(arguments, argv[i]))
            continue;
        if (!read_option(arguments, argv[i], i + 1 < argc ? argv[i + 1] : NULL))
            return false;
        i++;
    }
    if (arguments->has_first && !arguments->has_seeds)
        arguments->seeds = 1;
    return true;
}

static void add_up(struct sim_result *total, const struct sim_result *result)
{
    total->timers += result->timers;
    total->pops += result->pops;
    total->crashes += result->crashes;
    total->steps += result->steps;
    total->frames += result->frames;
    total->messages += result->messages;
    total->operations += result->operations;
    total->trace_hash = total->trace_hash * 31 + result->trace_hash;
    if (result->least_lateness_ms < total->least_lateness_ms)
        total->least_lateness_ms = result->least_lateness_ms;
    for (unsigned i = 0; i < SIM_FAULTS; i++)
        total->faults[i] += result->faults[i];
    for (unsigned i = 0; i < RULE_COUNT; i++)
        total->rules[i] += result->rules[i];
}

/* Whether such lives are to have it: those of keys and of plans are the last ones. */
static bool is_drawn(enum sim_fault fault, const struct sim_options *options)
{
    if (options->has_plans &&
        (fault == SIM_SKEW || fault == SIM_DRIFT || fault == SIM_STEP || fault == SIM_HOURS))
        return false;
    return fault < SIM_SPREAD     ? true
           : fault == SIM_SPREAD  ? options->has_keys
           : fault == SIM_FLUSH   ? options->has_flushes
           : fault == SIM_STARVED ? options->is_starved
                                  : options->has_plans;
}

/* False: something was never tried. */
static bool print_cover(const struct sim_result *total, const struct sim_options *options)
{
    unsigned missing = 0;
    unsigned fault_count = 0;
    unsigned rule_count = options->has_flushes ? RULE_COUNT
                          : options->has_keys  ? RULE_FLOOR_AGAIN
                                               : RULE_KEY_HINTED;
    for (unsigned i = 0; i < SIM_FAULTS; i++) {
        if (!is_drawn((enum sim_fault)i, options))
            continue;
        fault_count++;
        missing += total->faults[i] == 0;
        printf("%12llu  %s\n", (unsigned long long)total->faults[i], faults[i]);
    }
    printf("\n");
    for (unsigned i = 0; i < rule_count; i++) {
        missing += total->rules[i] == 0;
        printf("%12llu  %s\n", (unsigned long long)total->rules[i], rules[i]);
    }
    printf("\n%u of %u were never tried\n", missing, fault_count + rule_count);
    return missing == 0;
}

/* The fewest writes after which this life still fails. */
static void shorten(const struct sim_options *failed)
{
    struct sim_options options = *failed;
    uint32_t most = failed->writes;
    uint32_t least = 0;
    options.is_quiet = true;
    options.is_verbose = false;
    while (most - least > 1) {
        options.writes = least + (most - least) / 2;
        struct sim_result result = sim_life_run(&options);
        if (result.broken != NULL)
            most = options.writes;
        else
            least = options.writes;
    }
    printf("shortest found: tryst-sim --replay %llu --writes %u%s%s%s",
           (unsigned long long)failed->seed, most,
           failed->is_still  ? " --still"
           : failed->is_calm ? " --calm"
                             : "",
           failed->is_starved    ? " --starved"
           : failed->is_sluggish ? " --sluggish"
                                 : "",
           failed->is_hostile ? " --hostile" : "");
    if (failed->has_plans)
        printf(" --plans");
    if (failed->is_moving)
        printf(" --moving");
    else if (failed->has_keys)
        printf(failed->has_flushes ? " --flushes" : " --keyspace");
    if (failed->nodes > 0)
        printf(" --nodes %u", failed->nodes);
    if (failed->latency_ms > 0)
        printf(" --latency %u", failed->latency_ms);
    printf("\n");
}

/* What is said if a life takes much longer than any does, on the slowest build. */
static struct {
    char text[64];
    size_t size;
} stuck;

static void on_alarm(int number)
{
    (void)number;
    _exit(write(STDOUT_FILENO, stuck.text, stuck.size) < 0 ? 2 : 1);
}

static void watch(uint64_t seed)
{
    stuck.size = (size_t)snprintf(stuck.text, sizeof stuck.text, "seed %llu: a step does not end\n",
                                  (unsigned long long)seed);
    alarm(LIFE_SECONDS);
}

static int run_seeds(struct arguments *arguments)
{
    struct sim_options *options = &arguments->options;
    struct sim_result total = {.least_lateness_ms = UINT64_MAX};
    uint64_t passed = 0;
    for (uint64_t i = 0; i < arguments->seeds; i++) {
        options->seed = arguments->first + i;
        watch(options->seed);
        struct sim_result result =
            arguments->is_alone ? sim_alone_run(options) : sim_life_run(options);
        passed += result.broken == NULL;
        add_up(&total, &result);
        if (result.broken != NULL && !arguments->is_alone)
            shorten(options);
    }
    alarm(0);
    bool is_covered = !arguments->wants_cover || print_cover(&total, options);
    printf("%llu writes, %llu pops, %llu crashes, %llu steps, least lateness %llu ms, "
           "trace %016llx\n",
           (unsigned long long)total.timers, (unsigned long long)total.pops,
           (unsigned long long)total.crashes, (unsigned long long)total.steps,
           (unsigned long long)total.least_lateness_ms, (unsigned long long)total.trace_hash);
    if (total.operations > 0)
        printf("%.2f messages an operation, %.2f frames in all\n",
               (double)total.messages / (double)total.operations,
               (double)total.frames / (double)total.operations);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed,
           (unsigned long long)(arguments->seeds - passed));
    return passed == arguments->seeds && is_covered ? 0 : 1;
}

/* Tries one seed after the other, in a process of its own: a broken rule may fail an assertion too.
 * The seed that is being tried is known from what the process has printed before. */
static bool find_mutant(const struct arguments *arguments, enum tr_mutant mutant)
{
    struct sim_options options = arguments->options;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct mutant *broken = &mutants[mutant];
        bool is_alone = strcmp(broken->lives, "keys") == 0 || strcmp(broken->lives, "alone") == 0;
        options.is_moving |= strcmp(broken->lives, "moving") == 0;
        options.has_keys = strcmp(broken->lives, "keys") == 0 ||
                           strcmp(broken->lives, "keyspace") == 0 || options.is_moving;
        options.mutant = mutant;
        options.is_quiet = true;
        bool is_slow = strcmp(broken->lives, "slow") == 0;
        options.is_full |= strcmp(broken->lives, "full") == 0;
        options.is_calm |=
            is_slow || options.is_full || options.is_moving || strcmp(broken->lives, "calm") == 0;
        options.is_sluggish |= strcmp(broken->lives, "sluggish") == 0;
        options.is_starved |= strcmp(broken->lives, "starved") == 0;
        options.is_calm |= options.is_starved;
        if (is_slow)
            options.latency_ms = SLOW_MS;
        for (options.seed = 1; options.seed <= MUTANT_SEEDS; options.seed++) {
            struct sim_result result = is_alone ? sim_alone_run(&options) : sim_life_run(&options);
            if (result.broken == NULL)
                continue;
            printf("found by %s%sseed %llu: %s\n", broken->lives,
                   broken->lives[0] != '\0' ? " " : "", (unsigned long long)options.seed,
                   result.broken);
            exit(0);
        }
        exit(1);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (WIFSIGNALED(status))
        printf("found: an assertion failed\n");
    else if (WEXITSTATUS(status) != 0)
        printf("NOT FOUND in %d seeds\n", MUTANT_SEEDS);
    return WIFSIGNALED(status) || WEXITSTATUS(status) == 0;
}

static int run_mutants(const struct arguments *arguments)
{
    unsigned missed = 0;
    for (unsigned i = 1; i < MUTANT_COUNT; i++) {
        printf("%-18s %s\n%18s ", mutants[i].name, mutants[i].what, "");
        missed += !find_mutant(arguments, (enum tr_mutant)i);
        fflush(stdout);
    }
    printf("%u of %u mutants were not found\n", missed, (unsigned)MUTANT_COUNT - 1);
    return missed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.options = {.writes = 300}, .seeds = 100, .first = 1};
    if (!read_arguments(&arguments, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    if (arguments.scale > 0)
        return arguments.options.has_keys ? sim_scale_keys_run(arguments.scale)
                                          : sim_scale_run(arguments.scale);
    if (arguments.scenario != NULL)
        return sim_scenario_run(arguments.scenario, arguments.wants_record,
                                arguments.options.mutant);
    if (arguments.wants_mutants)
        return run_mutants(&arguments);
    signal(SIGALRM, on_alarm);
    return run_seeds(&arguments);
}
