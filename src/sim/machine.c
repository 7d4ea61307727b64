/* SPDX-License-Identifier: Apache-2.0 */
/* Machines: starting a node, stepping it, carrying out what it wants, and taking it down. */

#include "sim/world.h"

#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLIGHTS       64
#define SHARED_LEAST  10 /* timers by which others can tell that its clock was set */
#define BACK_MOST_MS  10000
#define STEP_LEAST_MS 600 /* less may be what frames took */
#define RUSH          12  /* clients that come when keys begin to move, */
#define RUSH_MS       40  /* within so long, beside four frames */

static void write_log(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    struct machine *machine = &world->machines[index];
    struct sim_pending pending = {.what = HAPPENS_SYNC, .number = effect->of.log.end};
    sim_disk_write(&machine->disk, effect);
    bool may_be_slow = world->faults[SIM_SYNC] || world->is_lone;
    bool is_slow = may_be_slow && !world->is_healed && sim_chance(world, 40);
    sim_plan(world, index, pending, 1 + world->sync_ms + sim_draw(world, is_slow ? 400 : 4));
}

static void allocate(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    struct machine *machine = &world->machines[index];
    bool is_there =
        sim_disk_allocate(&machine->disk, effect->of.segment.number, effect->of.segment.size);
    struct sim_pending pending = {.what = is_there ? HAPPENS_ALLOCATED : HAPPENS_REFUSED,
                                  .number = effect->of.segment.number};
    if (!is_there)
        sim_fault(world, SIM_FULL);
    sim_plan(world, index, pending, 1);
}

static void count_shared(struct machine *machine)
{
    struct tr_node_walk walk = {0};
    struct tr_record record;
    machine->shared = 0;
    while (machine->is_ready && tr_node_next_record(machine->node, &walk, &record))
        machine->shared += record.head.replicas.count > 1 && record.head.key.part == 0 &&
                           (record.head.flags & (TR_RECORD_TOMBSTONE | TR_RECORD_DEAD)) == 0 &&
                           record.interval_ms > 15000;
}

/* The node is gone; its disk and its config are not. */
static void take_down(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    sim_cover(world, index);
    count_shared(machine);
    for (uint32_t other = 0; other < world->machine_count; other++) {
        if (other != index)
            sim_break_link(world, index, other);
    }
    for (uint32_t i = 0; i < world->open_count;) {
        if (world->open[i].machine != index) {
            i++;
            continue;
        }
        if (world->open[i].write != 0)
            sim_model_forsake(&world->model, world->open[i].write);
        world->open[i] = world->open[--world->open_count];
    }
    if (world->key_calls != NULL)
        world->key_calls->forsake(world, index);
    machine->epoch++;
    machine->is_running = false;
    machine->is_ready = false;
    machine->is_draining = false;
    machine->wake_ms = UINT64_MAX;
    free(machine->region);
    machine->region = NULL;
    machine->node = NULL;
}

static void stopped(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    sim_trace(world, "%s has stopped", sim_name(index));
    machine->is_stopped = true;
}

/* The operator repairs a log that was refused, and starts again: under a new store's name. */
static void repair(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    sim_trace(world, "%s refuses its log, which is repaired", sim_name(index));
    machine->is_damaged = false;
    machine->is_refused = false;
    sim_disk_repair(&machine->disk, (uint8_t)(100 + index));
}

/* What fitted, piece by piece, need not fit when it is read at once: the operator gives it more. */
static void raise_memory(struct world *world, struct machine *machine)
{
    sim_trace(world, "it wants more memory");
    world->limits.memory = 0;
    machine->is_stopped = true;
}

static void carry_out(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    struct machine *machine = &world->machines[index];
    switch (effect->kind) {
    case TR_EFFECT_ANSWER:
    case TR_EFFECT_ANSWER_TIMER:
        sim_answer(world, index, effect);
        return;
    case TR_EFFECT_KEY:
        world->key_calls->answer(world, index, effect);
        return;
    case TR_EFFECT_FIRE:
        sim_fire(world, index, effect);
        return;
    case TR_EFFECT_LOG_WRITE:
        write_log(world, index, effect);
        return;
    case TR_EFFECT_SEGMENT_ALLOCATE:
        allocate(world, index, effect);
        return;
    case TR_EFFECT_SEGMENT_REMOVE:
        sim_disk_remove(&machine->disk, effect->of.segment.number);
        return;
    case TR_EFFECT_SEGMENT_TRIM:
        sim_disk_trim(&machine->disk, effect->of.segment.number, effect->of.segment.size);
        return;
    case TR_EFFECT_RECOVERED:
        machine->is_ready = true;
        machine->is_damaged = false; /* nothing that mattered */
        return;
    case TR_EFFECT_REFUSED:
        if (effect->of.check.verdict == TR_LOG_NO_MEMORY && world->limits.memory > 0)
            raise_memory(world, machine);
        else if (machine->is_damaged)
            machine->is_refused = machine->is_stopped = true;
        else
            sim_break(world, "a log that was not damaged was refused");
        return;
    case TR_EFFECT_NOTE:
        sim_note(world, effect);
        return;
    case TR_EFFECT_FRAME_SEND:
        sim_send(world, index, effect);
        return;
    case TR_EFFECT_LINK_RESET:
        sim_reset(world, index, effect);
        return;
    case TR_EFFECT_STOPPED:
        stopped(world, index);
        return;
    case TR_EFFECT_KEY_PAGE:
        world->key_calls->scanned(world, index, effect);
        return;
    case TR_EFFECT_ANSWER_PAGE:
        return;
    }
}

/* Its own boot clock, which may run fast or slow. */
static uint64_t boot_clock(const struct world *world, const struct machine *machine)
{
    int64_t since = (int64_t)(world->now_ms - machine->boot_ms);
    return (uint64_t)(since + since * machine->drift / 1000000);
}

/* The true time at which its boot clock shows this. */
static uint64_t true_time(const struct world *world, const struct machine *machine, uint64_t mono)
{
    uint64_t now = boot_clock(world, machine);
    uint64_t left = mono > now ? mono - now : 0;
    int64_t more = (int64_t)(left < 100000000 ? left : 100000000) * -machine->drift / 1000000;
    return world->now_ms + (uint64_t)((int64_t)left + more) + (left > 0 && machine->drift < 0);
}

/* Keys move within a few frames of a change, in which hardly any client would come by itself: reads
 * then are what such a life is for. But when the keyspace is made, nodes that began just then may
 * stand in for others that they have not heard of yet. */
static void rush(struct world *world, uint32_t index)
{
    bool is_made = world->key_calls != NULL && world->model.impaired_ms > 0;
    if (!world->options->is_moving || !is_made || world->is_healed)
        return;
    for (unsigned i = 0; i < RUSH; i++)
        sim_plan(world, index, (struct sim_pending){.what = HAPPENS_ASK},
                 sim_draw(world, RUSH_MS + 4 * world->latency_ms));
}

void sim_step(struct world *world, uint32_t index, struct tr_event *event)
{
    struct machine *machine = &world->machines[index];
    bool was_ready = machine->is_ready;
    machine->ticks_first = false;
    event->now_ms = boot_clock(world, machine);
    event->wall_ms = (uint64_t)((int64_t)(machine->boot_ms + event->now_ms) + machine->skew_ms);
    machine->wall_ms = event->wall_ms;
    event->has_more = sim_chance(world, 4);
    uint64_t roster = tr_node_roster(machine->node)->id;
    tr_node_step(machine->node, event, world->effects);
    world->result.steps++;
    if (tr_node_roster(machine->node)->id != roster) {
        world->scaled_ms = world->now_ms;
        sim_check_roster(world, tr_node_roster(machine->node));
        rush(world, index);
    }
    if (world->cluster == 0)
        world->cluster = tr_node_roster(machine->node)->cluster;
    for (uint32_t i = 0; i < world->effects->count; i++)
        carry_out(world, index, &world->effects->items[i]);
    if (sim_chance(world, world->is_large ? 1000000 : 1024) && !tr_node_valid(machine->node))
        sim_break(world, "a node's structures disagree");
    if (machine->is_stopped) {
        machine->is_stopped = false;
        take_down(world, index);
        if (machine->is_refused)
            repair(world, index);
        if (!machine->stays_down)
            sim_plan(world, index, (struct sim_pending){.what = HAPPENS_START},
                     sim_draw(world, 3000));
        return;
    }
    tr_mono_ms wake = tr_node_wake_at(machine->node);
    machine->wake_ms = wake == TR_NEVER ? UINT64_MAX : true_time(world, machine, wake);
    if (event->has_more) /* a turn ends with a tick, in the daemon too */
        machine->wake_ms = world->now_ms;
    if (!was_ready && machine->is_ready)
        sim_set_view(world, index);
}

void sim_set_view(struct world *world, uint32_t index)
{
    struct tr_view_node nodes[MACHINES_MAX];
    struct machine *machine = &world->machines[index];
    struct tr_event event = {.kind = TR_EVENT_VIEW_CHANGED};
    char text[2 * MACHINES_MAX + 1] = {0};
    size_t size = 0;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const char *address = world->machines[i].address;
        enum tr_role role = machine->view.roles[i];
        if (role == TR_ROLE_NONE)
            continue;
        nodes[event.of.view.count++] =
            (struct tr_view_node){.address = {address, strlen(address)}, .role = role};
        const char *sign = role == TR_ROLE_JOINING ? "+" : role == TR_ROLE_LEAVING ? "-" : "";
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%s", sim_name(i), sign);
    }
    sim_trace(world, "%s sees %s", sim_name(index), text);
    event.of.view.nodes = nodes;
    sim_step(world, index, &event);
}

/* ---- starts and ends ---- */

/* While it was down, somebody set its clock; if others are up that share its timers, it can tell.
 * Once: after that its timers are of two times, and nobody could. */
static void step_clock(struct world *world, struct machine *machine)
{
    bool may = world->faults[SIM_STEP] && world->is_lone && !world->is_healed &&
               machine->shared >= SHARED_LEAST && !machine->was_set && !world->is_scaling &&
               world->now_ms > world->scaled_ms + 20000;
    if (!may || !sim_chance(world, 3))
        return;
    sim_fault(world, SIM_STEP);
    int64_t step_ms = sim_draw_step(world);
    if (step_ms < -BACK_MOST_MS) /* what has one copy would be late by as much */
        step_ms = -(int64_t)sim_draw(world, BACK_MOST_MS);
    int64_t least_ms = STEP_LEAST_MS + 3 * (int64_t)world->latency_ms;
    bool is_small = step_ms > 0 && step_ms < least_ms;
    machine->skew_ms += is_small ? least_ms : step_ms;
    machine->was_set = true;
    sim_trace(world, "its clock is set");
}

/* While it was down, others have used up the disk. */
static void fill_disk(struct world *world, struct machine *machine)
{
    if (!world->faults[SIM_FULL_RESTART] || world->is_healed || machine->disk.count == 0 ||
        !(world->options->is_full || sim_chance(world, 2)))
        return;
    sim_fault(world, SIM_FULL_RESTART);
    sim_disk_fill(&machine->disk);
    machine->has_filled = true;
}

void sim_begin_alone(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    machine->view = (struct sim_view){.number = 0};
    machine->view.roles[index] = TR_ROLE_STAYING;
    machine->told_ms = world->now_ms + 100 + sim_draw(world, 900);
}

/* Its file of nodes comes late. */
static void forget_others(struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    if (!world->faults[SIM_ALONE] || world->is_healed || machine->disk.count == 0 ||
        machine->view.roles[index] != TR_ROLE_STAYING || !sim_chance(world, 3))
        return;
    sim_fault(world, SIM_ALONE);
    sim_begin_alone(world, index);
}

/* One of two: by the newer file the clocks there are ahead by so many seconds. */
static const struct tr_zone *find_zone(void *context, struct tr_span name)
{
    struct machine *machine = context;
    machine->zone = tr_zone_utc();
    machine->zone.standard_s = machine->has_newer_zones ? (int32_t)(name.text[0] - '0') : 0;
    return &machine->zone;
}

static struct tr_zones zones_of(struct machine *machine)
{
    return (struct tr_zones){find_zone, machine};
}

void sim_start(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    if (machine->is_dead)
        return;
    step_clock(world, machine);
    fill_disk(world, machine);
    forget_others(world, index);
    struct tr_node_config config = {
        .address = {machine->address, strlen(machine->address)},
        .seed = tr_random_next(&world->random),
        .identity = (uint16_t)index,
        .has_log = true,
        .is_always_synced = true,
        .segment_size = world->segment_size,
        .opaque_max = OPAQUE_MAX,
        .value_max = OPAQUE_MAX,
        .flights_max = FLIGHTS,
        .messages_max = world->messages_max,
        .operations_max = world->operations_max,
        .limits = world->limits,
        .per_destination = 32,
        .attempts_max = 8,
        .backoff_ms = 100,
        .dead_keep_ms = 86400000,
        .key_keep_ms = 3600000,
        .latency_target_ms = 500,
        .tombstone_keep_ms = 86400000,
        .needs_quorum = world->needs_quorum,
        .mutant = (uint32_t)world->options->mutant,
    };
    if (world->options->has_plans)
        config.zones = zones_of(machine);
    memset(&config.store_id, (int)(index + 1), sizeof config.store_id);
    config.store_id[0] = (uint8_t)machine->store;
    machine->region = calloc(1, world->memory_size);
    TR_ASSERT(machine->region != NULL);
    struct tr_memory memory = {machine->region, world->memory_size};
    machine->node = tr_node_new(&config, &memory);
    TR_ASSERT(machine->node != NULL);
    machine->boot_ms = world->now_ms - 1000 - sim_draw(world, 100000);
    machine->is_running = true;
    machine->is_ready = false;
    machine->is_used = true;
    machine->started_ms = world->now_ms;
    struct tr_event event = {.kind = TR_EVENT_RECOVERY_STARTED};
    free(machine->replaying);
    machine->replaying = sim_disk_list(&machine->disk, &event.of.recovery.count);
    event.of.recovery.segments = machine->replaying;
    sim_trace(world, "%s starts, %zu segments", sim_name(index), event.of.recovery.count);
    sim_step(world, index, &event);
}

void sim_crash(struct world *world, uint32_t index, uint64_t down_ms)
{
    struct machine *machine = &world->machines[index];
    if (!machine->is_running)
        return;
    sim_trace(world, "%s crashes", sim_name(index));
    sim_disk_crash(&machine->disk);
    take_down(world, index);
    world->result.crashes++;
    if (!machine->stays_down) /* it was about to stop for good */
        sim_plan(world, index, (struct sim_pending){.what = HAPPENS_START}, down_ms);
}

void sim_drain(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    struct tr_event event = {.kind = TR_EVENT_DRAIN_ASKED};
    if (!machine->is_ready || machine->is_draining)
        return;
    machine->is_draining = true;
    machine->drained_ms = world->now_ms;
    sim_trace(world, "%s is asked to stop", sim_name(index));
    sim_step(world, index, &event);
}

bool sim_is_empty(const struct world *world, uint32_t index, unsigned most)
{
    struct tr_node_stats stats;
    const struct machine *machine = &world->machines[index];
    if (!machine->is_ready)
        return false;
    tr_node_stats(machine->node, &stats);
    return stats.timers + stats.debts + stats.dead <= most;
}

bool sim_is_balanced(const struct world *world, uint32_t index)
{
    struct tr_node_stats stats;
    const struct machine *machine = &world->machines[index];
    if (!machine->is_ready)
        return false;
    tr_node_stats(machine->node, &stats);
    return (stats.is_serving || sim_is_out(world, index)) && !stats.is_rebalancing &&
           (world->pairs == NULL || stats.are_keys_home);
}

void sim_cover(struct world *world, uint32_t index)
{
    const uint64_t *covered = tr_node_covered(world->machines[index].node);
    for (unsigned i = 0; i < RULE_COUNT; i++)
        world->result.rules[i] += covered[i];
}
