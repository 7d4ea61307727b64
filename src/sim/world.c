/* SPDX-License-Identifier: Apache-2.0 */
/* What all of the simulator shares: chance, the trace, what is planned. */
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
    /* Most of what many nodes do is that each says to each that it is alive. */
    world->steps_most = STEPS_MAX * (1 + (uint64_t)options->nodes * options->nodes / 100);
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
    free(world->pairs);
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
