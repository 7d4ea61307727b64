/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/pairs_parts.h"

#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_TOKEN    ((uint64_t)1 << 40)
#define SPREAD_LATE_MS 2500 /* some changes of the roster, one after the other */

static struct tr_definition draw_definition(struct world *world, uint64_t partitions)
{
    struct sim_pairs *pairs = world->pairs;
    uint8_t copies = (uint8_t)(1 + sim_draw(world, 4));
    bool is_loose = !world->options->is_moving && sim_chance(world, 6);
    struct tr_definition keys = {
        .partitions = partitions,
        .copies = copies,
        .reads = is_loose ? 1 : (uint8_t)(copies / 2 + 1),
        .writes = is_loose ? 1 : (uint8_t)(copies / 2 + 1),
        .positions = partitions >= 1024 ? 16 : 1,
    };
    pairs->has_quorums &= !is_loose || copies == 1;
    world->model.has_single_keys |= copies == 1;
    return keys;
}

/* A machine whose node knows of the keyspace; MACHINES_MAX: the one that was drawn does not. */
static uint32_t draw_machine(struct world *world)
{
    uint32_t index = (uint32_t)sim_draw(world, world->machine_count);
    const struct machine *machine = &world->machines[index];
    bool is_there = machine->is_ready && index != world->hostile && machine->told_ms == 0 &&
                    machine->paused_until_ms <= world->now_ms &&
                    tr_node_roster(machine->node)->keys.partitions > 0;
    return is_there ? index : MACHINES_MAX;
}

static void spread(struct world *world)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    uint16_t who = 0;
    uint32_t index = draw_machine(world);
    if (index == MACHINES_MAX)
        return;
    struct tr_node *node = world->machines[index].node;
    sim_step(world, index, &event);
    bool had_quorums = world->pairs->has_quorums;
    struct tr_definition keys = draw_definition(world, tr_node_roster(node)->keys.partitions);
    keys.positions = tr_node_roster(node)->keys.positions;
    if (tr_node_spread_keys(node, &keys, &who) != TR_CHANGE_MADE) {
        world->pairs->has_quorums = had_quorums;
        return;
    }
    sim_fault(world, SIM_SPREAD);
    sim_trace(world, "KEYSPACE SET L %u R %u W %u", keys.copies, keys.reads, keys.writes);
    sim_step(world, index, &event);
}

/* The node that is asked may crash before anybody has heard: nothing that was there before has to
 * be there any more, and nothing has to be gone before the roster says so. */
static void flush(struct world *world)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    uint16_t who = 0;
    uint32_t index = draw_machine(world);
    if (index == MACHINES_MAX)
        return;
    struct tr_node *node = world->machines[index].node;
    sim_step(world, index, &event);
    if (tr_node_flush_keys(node, &who) != TR_CHANGE_MADE)
        return;
    sim_fault(world, SIM_FLUSH);
    sim_trace(world, "FLUSHALL on %s", sim_name(index));
    sim_pairs_flushed(world, tr_node_roster(node)->floor);
    sim_step(world, index, &event);
}

void sim_pairs_operate(struct world *world)
{
    if (world->pairs == NULL || world->is_healed)
        return;
    if (world->faults[SIM_SPREAD] && sim_chance(world, 60))
        spread(world);
    if (world->faults[SIM_FLUSH] && sim_chance(world, 60))
        flush(world);
}

static bool knows(const struct world *world, uint32_t index, uint64_t partitions)
{
    const struct machine *machine = &world->machines[index];
    return !sim_is_member(world, index) ||
           (machine->is_ready && tr_node_roster(machine->node)->keys.partitions == partitions);
}

void sim_pairs_begin(struct world *world)
{
    static const uint64_t sizes[] = {20, 100, 1024, 4096};
    struct sim_pairs *pairs = calloc(1, sizeof *pairs);
    uint16_t who = 0;
    TR_ASSERT(pairs != NULL);
    world->pairs = pairs;
    world->key_calls = &sim_pairs_calls;
    pairs->has_quorums = true;
    world->model.key_late_ms = SPREAD_LATE_MS + 20 * world->latency_ms;
    pairs->write_count = 1;
    pairs->token = FIRST_TOKEN;
    for (uint32_t i = 0; i < KEYS; i++)
        snprintf(pairs->names[i], sizeof pairs->names[i], "%s-%u",
                 i < KEYS - COUNTERS ? "key" : "counter", i);
    struct tr_definition keys = draw_definition(world, sizes[sim_draw(world, 4)]);
    struct tr_event event = {.kind = TR_EVENT_TICK};
    bool is_made = false;
    for (uint32_t i = 0; i < 200 && world->model.broken == NULL; i++) {
        bool is_known = is_made;
        sim_step(world, 0, &event);
        if (!is_made &&
            tr_node_create_keyspace(world->machines[0].node, &keys, &who) == TR_CHANGE_MADE) {
            sim_trace(world, "CREATE KEYSPACE %llu %u R %u W %u",
                      (unsigned long long)keys.partitions, keys.copies, keys.reads, keys.writes);
            is_made = true;
            sim_step(world, 0, &event);
        }
        for (uint32_t k = 0; k < world->machine_count; k++)
            is_known &= knows(world, k, keys.partitions);
        if (is_known)
            return;
        sim_advance(world, world->now_ms + 100);
        sim_connect(world);
    }
    sim_break(world, "there can be no keyspace");
}
