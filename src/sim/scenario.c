/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scenario is a text file: what happens, a line each, then `---`, then the trace that came of it
 * when it was recorded. docs/simulator.md lists the words.
 */
#include "sim/scenario.h"

#include "base/assert.h"
#include "sim/scenario_keys.h"
#include "sim/world.h"

#include <tryst/place.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX  16
#define TEXT_MAX   65536
#define TIMERS_MAX 16
#define TRIES      1000000 /* ids looked at for one that is placed as wanted */

struct timer {
    tr_timer_id id;
    uint32_t factor;
    uint32_t write; /* the latest */
};

struct scenario {
    struct world *world;
    struct timer timers[TIMERS_MAX]; /* by number, from 1 */
    char told[TEXT_MAX];             /* the trace */
    size_t told_size;
    const char *fault;
};

/* ---- places ---- */

static uint32_t machine_of(char letter)
{
    return (uint32_t)(letter - 'A');
}

/* Where a cluster of the nodes in `set` places an id, as letters. */
static void place(const struct world *world, const char *set, tr_timer_id id, size_t want,
                  char *letters)
{
    static const struct tryst_place_config config = {.strategy = "chronos@1"};
    struct tryst_place_node nodes[26];
    uint32_t found[26];
    size_t fault = 0;
    size_t count = strlen(set);
    for (size_t i = 0; i < count; i++)
        nodes[i] = (struct tryst_place_node){.name = world->machines[machine_of(set[i])].address};
    size_t size = tryst_place_map_size(&config, nodes, count);
    struct tryst_place_map *map = malloc(size);
    TR_ASSERT(map != NULL);
    enum tryst_place_status status = tryst_place_map_init(map, size, &config, nodes, count, &fault);
    TR_ASSERT(status == TRYST_PLACE_OK);
    void *workspace = malloc(tryst_place_workspace_size(map, count));
    TR_ASSERT(workspace != NULL);
    count = tryst_place_lookup(map, tryst_place_key_of_id(map, id), want, found, workspace);
    for (size_t i = 0; i < count; i++)
        letters[i] = set[found[i]];
    letters[count] = '\0';
    free(workspace);
    free(map);
}

/* timer 1 CA in ABC [then BA in AB]: an id that these clusters place so. */
static void choose_timer(struct scenario *scenario, char **words, int count)
{
    long number = strtol(words[1], NULL, 10);
    if (number < 1 || number >= TIMERS_MAX || count < 5) {
        scenario->fault = "timer NUMBER NODES in NODES [then NODES in NODES]";
        return;
    }
    struct timer *timer = &scenario->timers[number];
    timer->factor = (uint32_t)strlen(words[2]);
    for (tr_timer_id id = 1; id < TRIES; id++) {
        char first[27] = {0};
        char second[27] = {0};
        place(scenario->world, words[4], id, timer->factor, first);
        if (strcmp(first, words[2]) != 0)
            continue;
        if (count > 8)
            place(scenario->world, words[8], id, strlen(words[6]), second);
        if (count > 8 && strcmp(second, words[6]) != 0)
            continue;
        timer->id = id;
        return;
    }
    scenario->fault = "no id is placed like that";
}

/* ---- what happens ---- */

static void run(struct scenario *scenario, uint64_t ms)
{
    struct world *world = scenario->world;
    uint64_t end_ms = world->now_ms + ms;
    while (world->now_ms < end_ms && world->model.broken == NULL) {
        uint64_t step = end_ms - world->now_ms < 50 ? end_ms - world->now_ms : 50;
        sim_advance(world, world->now_ms + step);
        sim_connect(world);
    }
}

static void set_roles(struct sim_view *view, const char *text)
{
    memset(view->roles, 0, sizeof view->roles);
    for (; *text != '\0'; text++) {
        enum tr_role role = text[1] == '+'   ? TR_ROLE_JOINING
                            : text[1] == '-' ? TR_ROLE_LEAVING
                                             : TR_ROLE_STAYING;
        view->roles[machine_of(*text)] = role;
        text += role != TR_ROLE_STAYING;
    }
}

/* view ABC- [on A]: this config file, everywhere or there. */
static void give_view(struct scenario *scenario, char **words, int count)
{
    struct world *world = scenario->world;
    world->view_number++;
    struct sim_view *view = sim_view(world);
    view->number = world->view_number;
    set_roles(view, words[1]);
    for (uint32_t i = 0; i < world->machine_count; i++) {
        struct machine *machine = &world->machines[i];
        bool is_meant = count < 4 || strchr(words[3], 'A' + (int)i) != NULL;
        if (!is_meant || (!machine->is_used && view->roles[i] == TR_ROLE_NONE))
            continue;
        machine->view = *view;
        if (machine->is_ready)
            sim_set_view(world, i);
        else if (!machine->is_used)
            sim_start(world, i);
    }
}

/* put 1 on A due 5000; cancel 1 on A */
static void ask(struct scenario *scenario, char **words, int count)
{
    struct world *world = scenario->world;
    bool is_cancel = strcmp(words[0], "cancel") == 0;
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    if (count < (is_cancel ? 4 : 6)) {
        scenario->fault = "put NUMBER on NODE due MS, or cancel NUMBER on NODE";
        return;
    }
    struct timer *timer = &scenario->timers[strtoul(words[1], NULL, 10) % TIMERS_MAX];
    uint32_t index = machine_of(words[3][0]);
    struct sim_write write = {
        .id = timer->id,
        .asked_ms = world->now_ms,
        .interval_ms = is_cancel ? 0 : strtoull(words[5], NULL, 10),
        .pops = is_cancel ? 0 : 1,
        .factor = timer->factor,
        .follows = timer->write,
    };
    uint32_t number = sim_model_ask(&world->model, write);
    sim_model_follow(&world->model, timer->write, number);
    timer->write = number;
    int size = snprintf(world->opaque, sizeof world->opaque, "%u ", number);
    world->body = (struct tr_timer_body){
        .interval_ms = write.interval_ms,
        .uri = TR_SPAN("http://receiver-1/pop"),
        .opaque = {world->opaque, (size_t)size},
        .factor = timer->factor,
    };
    event.of.request.token = ++world->token;
    event.of.request.command = is_cancel ? TR_COMMAND_CANCEL : TR_COMMAND_REPLACE;
    event.of.request.body = &world->body;
    event.of.request.timer = (struct tr_timer_text){.id = timer->id, .factor = timer->factor};
    world->open[world->open_count++] = (struct open_request){
        .token = world->token, .write = number, .machine = index, .asked_ms = world->now_ms};
    sim_trace(world, "client %s %u on %s", is_cancel ? "cancels" : "puts", number, sim_name(index));
    sim_step(world, index, &event);
}

/* join DE on A [at 17], leave C on A, lost C on A: A is asked for that. Who joins is started,
 * alone. */
static void change(struct scenario *scenario, char **words, int count)
{
    static const char *const results[] = {"made", "none", "busy", "down", "older",
                                          "up",   "full", "last", "gone", "no position"};
    struct world *world = scenario->world;
    struct tr_view_node changes[WORDS_MAX];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    uint32_t changed = 0;
    uint16_t who = TR_MEMBER_NONE;
    bool is_join = strcmp(words[0], "join") == 0;
    if (count < 4 || strlen(words[1]) > WORDS_MAX) {
        scenario->fault = "join, leave or lost NODES on NODE";
        return;
    }
    for (const char *letter = words[1]; *letter != '\0'; letter++) {
        struct machine *machine = &world->machines[machine_of(*letter)];
        changes[changed++] =
            (struct tr_view_node){.address = {machine->address, strlen(machine->address)},
                                  .role = is_join                          ? TR_ROLE_JOINING
                                          : strcmp(words[0], "leave") == 0 ? TR_ROLE_LEAVING
                                                                           : TR_ROLE_LOST};
        if (is_join && !machine->is_used) {
            sim_begin_alone(world, machine_of(*letter));
            machine->told_ms = TOLD_BY_OTHERS;
            sim_start(world, machine_of(*letter));
        }
    }
    uint32_t index = machine_of(words[3][0]);
    uint32_t position = count > 5 ? (uint32_t)strtoul(words[5], NULL, 10) : 0;
    if (count > 5) {
        changes[0].positions = &position;
        changes[0].position_count = 1;
    }
    enum tr_change result = tr_node_ask_change(world->machines[index].node, changes, changed, &who);
    sim_trace(world, "%s is asked: %s %s: %s", sim_name(index), words[0], words[1],
              results[result]);
    sim_step(world, index, &event);
}

static void cut(struct scenario *scenario, char **words, bool is_cut)
{
    struct world *world = scenario->world;
    uint32_t a = machine_of(words[1][0]);
    uint32_t b = machine_of(words[1][1]);
    sim_link(world, a, b)->cut_until_ms = is_cut ? UINT64_MAX : 0;
    if (is_cut)
        sim_break_link(world, a, b);
}

/* latency 150: what all links take, each way. */
static void set_latency(struct world *world, uint64_t ms)
{
    world->latency_ms = ms;
    for (uint32_t a = 0; a < MACHINES_MAX; a++) {
        for (uint32_t b = a + 1; b < MACHINES_MAX; b++)
            world->links[a][b].latency_ms[0] = world->links[a][b].latency_ms[1] = ms;
    }
}

/* stall AB 6000: what A sends to B takes that long. */
static void stall(struct scenario *scenario, char **words, int count)
{
    struct world *world = scenario->world;
    uint32_t a = machine_of(words[1][0]);
    uint32_t b = machine_of(words[1][1]);
    uint64_t ms = count > 2 ? strtoull(words[2], NULL, 10) : 0;
    sim_trace(world, "%s-%s stalls", sim_name(a), sim_name(b));
    sim_link(world, a, b)->stalled_until_ms[a > b] = world->now_ms + ms;
}

static void crash(struct scenario *scenario, uint32_t index, bool loses_disk)
{
    struct world *world = scenario->world;
    struct machine *machine = &world->machines[index];
    sim_crash(world, index, UINT32_MAX);
    if (!loses_disk)
        return;
    sim_trace(world, "%s loses its disk", sim_name(index));
    sim_disk_free(&machine->disk);
    sim_disk_init(&machine->disk, &world->random);
    machine->store++;
}

static void obey(struct scenario *scenario, char **words, int count)
{
    struct world *world = scenario->world;
    const char *word = words[0];
    uint32_t index = count > 1 ? machine_of(words[1][0]) : 0;
    if (count < 2)
        scenario->fault = "a word alone says nothing";
    else if (strcmp(word, "timer") == 0)
        choose_timer(scenario, words, count);
    else if (strcmp(word, "put") == 0 || strcmp(word, "cancel") == 0)
        ask(scenario, words, count);
    else if (strcmp(word, "run") == 0)
        run(scenario, strtoull(words[1], NULL, 10));
    else if (strcmp(word, "view") == 0)
        give_view(scenario, words, count);
    else if (strcmp(word, "join") == 0 || strcmp(word, "leave") == 0 || strcmp(word, "lost") == 0)
        change(scenario, words, count);
    else if (strcmp(word, "keyspace") == 0)
        scenario->fault = sim_story_keyspace(world, words, count);
    else if (strcmp(word, "set") == 0 || strcmp(word, "get") == 0)
        scenario->fault = sim_story_key(world, words, count);
    else if (strcmp(word, "table") == 0)
        scenario->fault = sim_story_table(world, words[1]);
    else if (strcmp(word, "cut") == 0 || strcmp(word, "mend") == 0)
        cut(scenario, words, strcmp(word, "cut") == 0);
    else if (strcmp(word, "stall") == 0)
        stall(scenario, words, count);
    else if (strcmp(word, "latency") == 0 && count > 1)
        set_latency(world, strtoull(words[1], NULL, 10));
    else if (strcmp(word, "crash") == 0 || strcmp(word, "lose") == 0)
        crash(scenario, index, strcmp(word, "lose") == 0);
    else if (strcmp(word, "start") == 0) {
        world->machines[index].stays_down = false;
        sim_start(world, index);
    } else if (strcmp(word, "stop") == 0) {
        world->machines[index].stays_down = true;
        sim_drain(world, index);
    } else if (strcmp(word, "pause") == 0)
        world->machines[index].paused_until_ms =
            world->now_ms + (count > 2 ? strtoull(words[2], NULL, 10) : 0);
    else if (strcmp(word, "skew") == 0)
        world->machines[index].skew_ms = count > 2 ? strtoll(words[2], NULL, 10) : 0;
    else if (strcmp(word, "receiver") == 0)
        world->receiver_status[0] = world->receiver_status[1] = world->receiver_status[2] =
            world->receiver_status[3] = (unsigned)strtoul(words[1], NULL, 10);
    else if (strcmp(word, "slow") == 0)
        world->slow_ms = strtoull(words[1], NULL, 10);
    else if (strcmp(word, "sync") == 0)
        world->sync_ms = strtoull(words[1], NULL, 10);
    else if (strcmp(word, "quiet") == 0 || strcmp(word, "aloud") == 0)
        world->is_telling = strcmp(word, "aloud") == 0;
    else
        scenario->fault = "no such word";
}

/* ---- files ---- */

/* What links say to each other when they come up is the same in every story. */
static bool is_dull(const char *line)
{
    return strstr(line, " hello") != NULL || strstr(line, " buckets") != NULL ||
           strstr(line, "segments") != NULL ||
           strcmp(line + strlen(line) - strlen(" outcomes"), " outcomes") == 0;
}

static void collect(struct scenario *scenario, uint64_t from)
{
    const struct world *world = scenario->world;
    TR_ASSERT(world->trace_count - from <= TRACE_MAX);
    for (uint64_t i = from; i < world->trace_count; i++) {
        const char *line = world->traces[i % TRACE_MAX];
        if (is_dull(line))
            continue;
        int size = snprintf(scenario->told + scenario->told_size,
                            sizeof scenario->told - scenario->told_size, "%s\n", line);
        scenario->told_size += (size_t)size;
        TR_ASSERT(scenario->told_size < sizeof scenario->told);
    }
}

static void play(struct scenario *scenario, char *script)
{
    unsigned number = 0;
    char *rest = script;
    while (rest != NULL && *rest != '\0' && scenario->fault == NULL) {
        char *words[WORDS_MAX];
        int count = 0;
        char *line = rest;
        rest = strchr(line, '\n');
        if (rest != NULL)
            *rest++ = '\0';
        number++;
        char *hash = strchr(line, '#');
        if (hash != NULL)
            *hash = '\0';
        for (char *word = strtok(line, " \t"); word != NULL && count < WORDS_MAX;
             word = strtok(NULL, " \t"))
            words[count++] = word;
        uint64_t before = scenario->world->trace_count;
        if (count > 0)
            obey(scenario, words, count);
        collect(scenario, before);
        if (scenario->world->model.broken != NULL)
            scenario->fault = scenario->world->model.broken;
    }
    if (scenario->fault != NULL)
        fprintf(stderr, "line %u: %s\n", number, scenario->fault);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, TEXT_MAX);
    TR_ASSERT(text != NULL);
    size_t size = file != NULL ? fread(text, 1, TEXT_MAX - 1, file) : 0;
    if (file == NULL)
        perror(path);
    else
        fclose(file);
    if (size > 0)
        return text;
    free(text);
    return NULL;
}

static int record(const char *path, const char *script, const char *told)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    fprintf(file, "%s---\n%s", script, told);
    return fclose(file) == 0 ? 0 : 1;
}

static int compare(const char *path, const char *told, const char *recorded)
{
    unsigned line = 1;
    if (strcmp(told, recorded) == 0)
        return 0;
    while (*told != '\0' && *told == *recorded) {
        line += *told == '\n';
        told++;
        recorded++;
    }
    fprintf(stderr, "%s: line %u of the trace differs\n", path, line);
    return 1;
}

int sim_scenario_run(const char *path, bool is_recording, enum tr_mutant mutant)
{
    struct sim_options options = {.seed = 1, .nodes = 3, .mutant = mutant};
    char *text = read_file(path);
    if (text == NULL)
        return 2;
    char *end = strstr(text, "---\n");
    char *recorded = end != NULL ? end + 4 : text + strlen(text);
    if (end != NULL)
        *end = '\0';
    char *script = strdup(text);
    struct scenario *scenario = calloc(1, sizeof *scenario);
    TR_ASSERT(script != NULL && scenario != NULL);
    scenario->world = sim_world_new(&options);
    scenario->world->machine_count = 8;
    scenario->world->is_telling = true;
    scenario->world->model.has_faults = true; /* what is late or double is the story's business */
    play(scenario, script);
    int status = scenario->fault != NULL ? 1
                 : is_recording          ? record(path, text, scenario->told)
                                         : compare(path, scenario->told, recorded);
    if (status == 0 && !is_recording)
        printf("%s: as recorded\n", path);
    sim_world_free(scenario->world);
    free(scenario);
    free(script);
    free(text);
    return status;
}
