/* SPDX-License-Identifier: Apache-2.0 */
/* Time, chance and the trace. */
#include "sim/world.h"

#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 6000000

uint64_t sim_draw(struct world *world, uint64_t bound)
{
    return tr_random_below(&world->random, bound);
}

bool sim_chance(struct world *world, uint64_t of)
{
    return sim_draw(world, of) == 0;
}

int64_t sim_draw_step(struct world *world)
{
    uint64_t most_ms = 10000;
    if (world->faults[SIM_HOURS] && sim_chance(world, 2)) {
        sim_fault(world, SIM_HOURS);
        most_ms = (uint64_t)10 * 3600000;
    }
    return (int64_t)sim_draw(world, 2 * most_ms) - (int64_t)most_ms;
}

const char *sim_name(uint32_t machine)
{
    static const char letters[] =
        "A\0B\0C\0D\0E\0F\0G\0H\0I\0J\0K\0L\0M\0N\0O\0P\0Q\0R\0S\0T\0U\0V\0"
        "W\0X\0Y\0Z\0a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0l\0m\0n\0o\0p\0q\0r\0"
        "s\0t\0u\0v\0w\0x\0y\0z\0";
    return machine < sizeof letters / 2 ? letters + (size_t)2 * machine : "?";
}

void sim_trace(struct world *world, const char *format, ...)
{
    char *line = world->traces[world->trace_count++ % TRACE_MAX];
    int size =
        snprintf(line, TRACE_SIZE, "%9.3f ", (double)(world->now_ms - world->began_ms) / 1000.0);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + size, TRACE_SIZE - (size_t)size, format, arguments);
    va_end(arguments);
    uint64_t hash = tr_hash_xxh3(line, strlen(line));
    world->trace_hash = tr_hash_mix(world->trace_hash ^ hash);
    if (world->options->is_verbose)
        puts(line);
}

void sim_break(struct world *world, const char *what)
{
    if (world->model.broken == NULL)
        world->model.broken = what;
}

void sim_fault(struct world *world, enum sim_fault fault)
{
    world->result.faults[fault]++;
}

struct world *sim_world_new(const struct sim_options *options)
{
    struct world *world = calloc(1, sizeof *world);
    TR_ASSERT(world != NULL);
    world->options = options;
    world->random.state = options->seed;
    world->effects = malloc(sizeof *world->effects);
    TR_ASSERT(world->effects != NULL);
    world->memory_size = (size_t)32 << 20;
    world->segment_size = (size_t)96 << 10;
    world->messages_max = 4096;
    world->operations_max = 64;
    world->now_ms = 1700000000000u + sim_draw(world, (uint64_t)1 << 33);
    world->began_ms = world->now_ms;
    world->hostile = MACHINES_MAX;
    world->steps_most = STEPS_MAX;
    sim_model_init(&world->model);
    for (uint32_t i = 0; i < RECEIVERS; i++)
        world->receiver_status[i] = 200;
    for (uint32_t i = 0; i < MACHINES_MAX; i++) {
        struct machine *machine = &world->machines[i];
        snprintf(machine->address, sizeof machine->address, "10.0.0.%u:7253", i + 1);
        sim_disk_init(&machine->disk, &world->random);
        machine->wake_ms = UINT64_MAX;
    }
    return world;
}

void sim_world_free(struct world *world)
{
    sim_queue_free(&world->queue);
    for (uint32_t i = 0; i < MACHINES_MAX; i++) {
        struct machine *machine = &world->machines[i];
        sim_disk_free(&machine->disk);
        if (machine->has_snapshot)
            sim_disk_free(&machine->snapshot);
        free(machine->replaying);
        free(machine->region);
    }
    sim_model_free(&world->model);
    free(world->effects);
    free(world);
}

void sim_plan(struct world *world, uint32_t machine, struct sim_pending pending, uint64_t delay_ms)
{
    pending.at_ms = world->now_ms + delay_ms;
    pending.machine = machine;
    pending.epoch = world->machines[machine].epoch;
    sim_queue_add(&world->queue, pending);
}

/* ---- what happens to a machine ---- */

/* The new config file is there, whether anybody runs or not. */
static void happen_view(struct world *world, const struct sim_pending *pending)
{
    struct machine *machine = &world->machines[pending->machine];
    const struct sim_view *view = &world->views[pending->number % VIEWS_MAX];
    if (pending->number <= machine->view.number || view->number != pending->number)
        return;
    machine->view = *view;
    if (machine->is_ready)
        sim_set_view(world, pending->machine);
}

static bool happen_link(struct world *world, const struct sim_pending *pending,
                        struct tr_event *event)
{
    bool is_same = sim_link(world, pending->machine, pending->other)->epoch == pending->link_epoch;
    event->of.frame.peer = sim_member(world, pending->machine, pending->other);
    event->of.frame.bytes = pending->bytes;
    event->of.frame.size = pending->size;
    event->kind = pending->what == HAPPENS_FRAME     ? TR_EVENT_FRAME_RECEIVED
                  : pending->what == HAPPENS_SENT    ? TR_EVENT_FRAME_SENT
                  : pending->what == HAPPENS_LINK_UP ? TR_EVENT_LINK_UP
                                                     : TR_EVENT_LINK_DOWN;
    bool is_meant = pending->what == HAPPENS_LINK_DOWN || is_same;
    if (is_meant && pending->what == HAPPENS_FRAME)
        sim_tell_frame(world, pending->other, pending->machine, pending->bytes, pending->size);
    return is_meant && event->of.frame.peer != TR_MEMBER_NONE;
}

static void happen_callback(struct world *world, const struct sim_pending *pending,
                            struct tr_event *event)
{
    event->kind = TR_EVENT_CALLBACK_ENDED;
    event->of.callback.flight = (uint32_t)pending->number;
    event->of.callback.result = pending->result;
    event->of.callback.status = pending->status;
    event->of.callback.retry_after_ms = 0;
    bool is_success = pending->result == TR_CALLBACK_ANSWERED && pending->status / 100 == 2;
    sim_trace(world, "%s pop %u.%llu %s", sim_name(pending->machine), pending->write,
              (unsigned long long)pending->sequence, is_success ? "delivered" : "failed");
    if (is_success)
        sim_model_deliver(&world->model, pending->write, pending->sequence, world->now_ms, 0);
}

static void happen(struct world *world, const struct sim_pending *pending)
{
    struct machine *machine = &world->machines[pending->machine];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    if (pending->what == HAPPENS_VIEW)
        happen_view(world, pending);
    if (pending->what == HAPPENS_VIEW || pending->epoch != machine->epoch)
        return;
    if (pending->what == HAPPENS_START) {
        sim_start(world, pending->machine);
        return;
    }
    if (!machine->is_running)
        return;
    switch (pending->what) {
    case HAPPENS_CALLBACK:
        happen_callback(world, pending, &event);
        break;
    case HAPPENS_SYNC:
        sim_disk_sync(&machine->disk);
        event.kind = TR_EVENT_LOG_WRITTEN;
        event.of.log.written = pending->number;
        event.of.log.synced = pending->number;
        break;
    case HAPPENS_ALLOCATED:
    case HAPPENS_REFUSED:
        event.kind = pending->what == HAPPENS_ALLOCATED ? TR_EVENT_SEGMENT_ALLOCATED
                                                        : TR_EVENT_SEGMENT_REFUSED;
        event.of.segment.number = pending->number;
        break;
    case HAPPENS_FRAME:
    case HAPPENS_SENT:
    case HAPPENS_LINK_UP:
    case HAPPENS_LINK_DOWN:
        if (!happen_link(world, pending, &event))
            return;
        break;
    case HAPPENS_START:
    case HAPPENS_VIEW:
        return;
    }
    sim_step(world, pending->machine, &event);
}

/* ---- time ---- */

/* The machine that wants to be woken first. */
static uint32_t next_machine(const struct world *world, uint64_t *at_ms)
{
    uint32_t best = 0;
    *at_ms = UINT64_MAX;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        if (!machine->is_running || machine->wake_ms == UINT64_MAX)
            continue;
        uint64_t at = machine->wake_ms;
        at = at > machine->paused_until_ms ? at : machine->paused_until_ms;
        at = at > world->now_ms ? at : world->now_ms;
        if (at < *at_ms) {
            *at_ms = at;
            best = i;
        }
    }
    return best;
}

void sim_advance(struct world *world, uint64_t limit_ms)
{
    while (world->model.broken == NULL) {
        uint64_t wake_ms = 0;
        uint32_t index = next_machine(world, &wake_ms);
        uint64_t next_ms = sim_queue_next_ms(&world->queue);
        if (next_ms > limit_ms && wake_ms > limit_ms)
            break;
        if (world->result.steps > world->steps_most)
            sim_break(world, "it goes on and on");
        if (next_ms > wake_ms) {
            struct tr_event event = {.kind = TR_EVENT_TICK};
            world->now_ms = wake_ms;
            sim_step(world, index, &event);
            continue;
        }
        struct sim_pending pending = sim_queue_take(&world->queue);
        uint64_t paused = world->machines[pending.machine].paused_until_ms;
        world->now_ms = next_ms > world->now_ms ? next_ms : world->now_ms;
        if (paused > world->now_ms &&
            pending.what != HAPPENS_VIEW) { /* it waits with the machine */
            pending.at_ms = paused;
            sim_queue_add(&world->queue, pending);
            continue;
        }
        happen(world, &pending);
        free(pending.bytes);
    }
    world->now_ms = limit_ms > world->now_ms ? limit_ms : world->now_ms;
}
