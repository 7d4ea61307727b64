/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/alone.h"

#include "base/assert.h"
#include "sim/alone_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- clients ---- */

static uint64_t draw_interval(struct alone *world)
{
    switch (alone_draw(world, 12)) {
    case 0:
        return 0;
    case 1:
    case 2:
    case 3:
        return 1 + alone_draw(world, 50);
    case 4:
    case 5:
    case 6:
        return 1 + alone_draw(world, 5000);
    case 7:
        return 60000 + alone_draw(world, 600000);
    case 8:
        return 86400000 * (1 + alone_draw(world, 60)); /* across 32 bits of milliseconds */
    case 9:
        return ((uint64_t)1 << 32) - 2 + alone_draw(world, 4);
    case 10:
        return 10 * (uint64_t)YEAR_MS + alone_draw(world, 1000);
    default:
        return 1000 * (1 + alone_draw(world, 10));
    }
}

static void fill_body(struct alone *world, uint32_t number, uint64_t interval_ms, uint32_t pops)
{
    int size = snprintf(world->opaque, sizeof world->opaque, "%u ", number);
    size_t extra =
        alone_draw(world, 8) == 0 ? alone_draw(world, OPAQUE_MAX - 32) : alone_draw(world, 60);
    memset(world->opaque + size, 'x', extra);
    snprintf(world->uri, sizeof world->uri, "http://receiver-%u/pop%u",
             (unsigned)alone_draw(world, 1), number % RECEIVERS);
    world->uri[16] = (char)('0' + number % RECEIVERS);
    world->body = (struct tr_timer_body){
        .interval_ms = interval_ms,
        .repeat_ms = pops > 1 ? interval_ms * pops : 0,
        .uri = {world->uri, strlen(world->uri)},
        .opaque = {world->opaque, (size_t)size + extra},
    };
    if (alone_draw(world, 3) == 0) {
        world->body.tag_count = 1;
        world->body.tags[0] = (struct tr_tag){TR_SPAN("TAG"), 1};
    }
}

/* An earlier timer that was acknowledged, the latest write to its id; 0: none was found. */
static uint32_t pick_write(struct alone *world)
{
    for (unsigned i = 0; i < 8 && world->model.count > 1; i++) {
        uint32_t number = 1 + (uint32_t)alone_draw(world, world->model.count - 1);
        while (world->model.writes[number].replaced_by != 0)
            number = world->model.writes[number].replaced_by;
        const struct sim_write *write = &world->model.writes[number];
        if (write->id != 0 && !write->has_key && !write->is_appointment)
            return number;
    }
    return 0;
}

static void ask(struct alone *world)
{
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    if (world->open_count == OPEN_MAX)
        return;
    uint32_t old = alone_draw(world, 3) == 0 ? pick_write(world) : 0;
    bool is_cancel = old != 0 && alone_draw(world, 2) == 0;
    bool has_key = old == 0 && alone_draw(world, 10) == 0;
    uint64_t interval = draw_interval(world);
    uint32_t pops = interval > 0 && alone_draw(world, 4) == 0
                        ? 1 + (uint32_t)alone_draw(world, SIM_POPS_MAX)
                        : 1;
    char key[16];
    uint32_t number =
        sim_model_ask(&world->model, (struct sim_write){
                                         .id = old != 0 ? world->model.writes[old].id : 0,
                                         .asked_ms = world->now_ms,
                                         .interval_ms = interval,
                                         .pops = is_cancel ? 0 : pops,
                                         .has_key = has_key,
                                     });
    sim_model_follow(&world->model, old, number);
    fill_body(world, number, interval, pops);
    event.of.request.token = ++world->token;
    event.of.request.command = old == 0    ? TR_COMMAND_CREATE
                               : is_cancel ? TR_COMMAND_CANCEL
                                           : TR_COMMAND_REPLACE;
    event.of.request.body = &world->body;
    if (old != 0) {
        event.of.request.timer.id = world->model.writes[old].id;
        event.of.request.timer.factor = 2;
    }
    if (has_key) {
        snprintf(key, sizeof key, "key-%u", (unsigned)alone_draw(world, 50));
        event.of.request.key = (struct tr_span){key, strlen(key)};
    }
    world->open[world->open_count++] = (struct open_request){world->token, number};
    alone_trace(world, is_cancel ? "cancels" : old != 0 ? "replaces" : "creates", number, interval);
    alone_step(world, &event);
}

static void disturb(struct alone *world)
{
    switch (alone_draw(world, 40)) {
    case 0:
        if (world->has_log && world->now_ms - world->stepped_ms > 2000)
            alone_crash(world);
        return;
    case 1:
        if (world->has_log && world->now_ms - world->stepped_ms > 2000)
            alone_restart(world);
        return;
    case 2:
    case 3:
        world->receivers[alone_draw(world, RECEIVERS)] = (enum receiver_mode)alone_draw(world, 5);
        alone_trace(world, "receiver", 0, 0);
        return;
    case 4:
        world->disk.limit = world->disk.used + alone_draw(world, 3 * SEGMENT_SIZE);
        alone_trace(world, "disk limit", world->disk.limit, 0);
        return;
    case 5:
    case 6:
        world->disk.limit = SIZE_MAX;
        return;
    case 7:
        world->wall_step += (int64_t)alone_draw(world, 20000) - 10000;
        world->stepped_ms = world->now_ms;
        alone_trace(world, "wall steps", (uint64_t)world->wall_step, 0);
        return;
    default:
        return;
    }
}

static void live(struct alone *world, uint32_t writes)
{
    for (uint32_t i = 0; i < writes && world->model.broken == NULL; i++) {
        uint64_t until = world->now_ms + (alone_draw(world, 3) == 0 ? alone_draw(world, 400)
                                                                    : alone_draw(world, 5));
        while (world->model.broken == NULL && alone_advance(world, until)) {
            if (world->steps > STEPS_MAX)
                world->model.broken = "it goes on and on";
        }
        world->now_ms = until > world->now_ms ? until : world->now_ms;
        ask(world);
        if (world->has_keys)
            alone_keys_ask(world);
        disturb(world);
    }
}

/* A key's callback that there is no memory for waits until there is. The operator gives the node
 * more. False: without a log that would end all that the node holds, and the life ends here. */
static bool give_memory(struct alone *world)
{
    world->is_tight = false;
    if (world->has_log)
        alone_restart(world);
    return world->has_log;
}

/* Everything is well again: what was acknowledged must come to its end. */
static void heal(struct alone *world)
{
    world->is_healed = true;
    world->well_ms = world->now_ms;
    world->disk.limit = SIZE_MAX;
    alone_trace(world, "heals", 0, 0);
    if (alone_draw(world, 2) == 0 && world->model.broken == NULL && world->has_log)
        alone_restart(world);
    while (world->model.broken == NULL && alone_advance(world, UINT64_MAX)) {
        if (world->steps > STEPS_MAX / 2 && world->is_tight && !give_memory(world))
            return;
        if (world->steps > STEPS_MAX)
            world->model.broken = "it goes on and on";
    }
    if (world->model.broken == NULL && world->open_count > 0)
        world->model.broken = "a request was never answered";
    if (world->model.broken == NULL && !tr_node_valid(world->node))
        world->model.broken = "the node's structures disagree";
    if (world->model.broken == NULL)
        sim_model_finish(&world->model);
    if (world->model.broken == NULL && world->has_keys)
        alone_keys_finish(world);
    struct tr_node_stats stats;
    tr_node_stats(world->node, &stats);
    if (world->model.broken == NULL &&
        (stats.timers > 0 || stats.debts > 0 || stats.queued > 0 || stats.flights > 0))
        world->model.broken = "something is left over";
}

/* A byte of a synced batch flips: the node must not start as if nothing had happened. */
static void damage(struct alone *world)
{
    if (!world->has_log || alone_draw(world, 4) != 0 || world->model.broken != NULL)
        return;
    sim_disk_crash(&world->disk);
    if (!sim_disk_damage(&world->disk))
        return;
    size_t count = 0;
    struct tr_log_segment *list = sim_disk_list(&world->disk, &count);
    struct tr_log_check check = tr_log_check(list, count);
    if (check.verdict == TR_LOG_SOUND || check.verdict == TR_LOG_TORN)
        world->model.broken = "damage was not seen";
    free(list);
}

struct sim_result sim_alone_run(const struct sim_options *options)
{
    struct alone *world = calloc(1, sizeof *world);
    TR_ASSERT(world != NULL);
    world->seed = options->seed;
    world->mutant = options->mutant;
    world->is_quiet = options->is_quiet;
    world->is_verbose = options->is_verbose;
    world->random.state = options->seed;
    world->region = malloc(MEMORY_SIZE);
    world->effects = malloc(sizeof *world->effects);
    TR_ASSERT(world->region != NULL && world->effects != NULL);
    world->now_ms = 1700000000000u + alone_draw(world, (uint64_t)1 << 33);
    world->has_log = alone_draw(world, 12) != 0;
    world->has_keys = options->has_keys;
    world->is_tight = world->has_keys && alone_draw(world, 3) == 0;
    sim_model_init(&world->model);
    sim_keys_init(&world->keys, &world->model);
    sim_disk_init(&world->disk, &world->random);
    alone_start(world);
    live(world, options->writes);
    heal(world);
    damage(world);
    struct sim_result result = {
        .broken = world->model.broken,
        .trace_hash = world->trace_hash,
        .timers = world->model.count - 1,
        .pops = world->model.fires,
        .crashes = world->epoch,
        .steps = world->steps,
        .least_lateness_ms = world->model.least_lateness_ms,
    };
    if (result.broken != NULL && !world->is_quiet) {
        alone_print_tail(world);
        printf("seed %llu: %s (write %u)\n", (unsigned long long)options->seed, result.broken,
               world->model.broken_write);
    }
    sim_keys_free(&world->keys);
    sim_model_free(&world->model);
    sim_disk_free(&world->disk);
    free(world->replaying);
    free(world->effects);
    free(world->region);
    free(world);
    return result;
}
