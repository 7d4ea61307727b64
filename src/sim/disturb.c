/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong: crashes, disks, links, clocks, receivers. */
#include "sim/world.h"

#define BETWEEN_MS       5000 /* restarts and crashes, where it is one at a time */
#define STARVED_SELDOM   25   /* of as many client writes one */
#define STARVED_LEAST_MS 20
#define STARVED_MORE_MS  900
#define OFF_MS           50 /* nodes correct their clocks by more than that, or not at all */

/* Whether a step of the clock is written down: one that is not yet is one that nobody saw. */
static bool is_step_logged(const struct world *world, const struct machine *machine)
{
    bool has_slept = machine->paused_until_ms > machine->stepped_ms;
    uint64_t seen_ms = has_slept ? machine->paused_until_ms : machine->stepped_ms;
    return machine->stepped_ms == 0 || world->now_ms >= seen_ms + 1000;
}

static void crash(struct world *world, uint32_t index, enum sim_fault fault)
{
    struct machine *machine = &world->machines[index];
    if (!machine->is_running || !is_step_logged(world, machine))
        return;
    if (fault != SIM_LOSS && fault != SIM_ROLLBACK) {
        sim_fault(world, fault);
        sim_crash(world, index, sim_draw(world, 6000));
        return;
    }
    if (world->model.lost_ms > 0 || (fault == SIM_ROLLBACK && !machine->has_snapshot))
        return;
    sim_fault(world, fault);
    sim_trace(world, "%s %s", sim_name(index),
              fault == SIM_LOSS ? "loses its disk" : "goes back to an older disk");
    world->model.lost_ms = world->now_ms;
    sim_crash(world, index, sim_draw(world, 6000));
    sim_disk_free(&machine->disk);
    if (fault == SIM_LOSS) {
        sim_disk_init(&machine->disk, &world->random);
        machine->store++;
    } else {
        machine->disk = machine->snapshot;
        machine->has_snapshot = false;
    }
}

/* Its clock was set, or it took the time of others: how far it is from the wall's is in its log. */
static bool has_other_time(const struct machine *machine)
{
    int64_t offset_ms = (int64_t)(machine->wall_ms - tr_node_steady(machine->node));
    return machine->stepped_ms > 0 || machine->was_set || offset_ms > OFF_MS || offset_ms < -OFF_MS;
}

/* A bit of what was synced flips while the node is down. Where that is of its clock, its timers are
 * of two times, and nobody can tell who does not share them. */
static void damage(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    if (!machine->is_running || world->model.lost_ms > 0 || machine->disk.is_writing ||
        has_other_time(machine) || !sim_disk_damage(&machine->disk))
        return;
    sim_fault(world, SIM_DAMAGE);
    sim_trace(world, "the log of %s is damaged", sim_name(index));
    world->model.lost_ms = world->now_ms;
    machine->is_damaged = true;
    sim_crash(world, index, sim_draw(world, 6000));
}

/* For good; and others are left. */
static void die(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    if (!machine->is_running || world->model.lost_ms > 0 ||
        sim_count_staying(sim_view(world)) < 3 || sim_view(world)->roles[index] != TR_ROLE_STAYING)
        return;
    sim_fault(world, SIM_NEVER_BACK);
    world->model.lost_ms = world->now_ms;
    machine->is_dead = true;
    sim_crash(world, index, 0);
}

static void crash_all(struct world *world)
{
    sim_fault(world, SIM_ALL_CRASH);
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        if (machine->is_running && is_step_logged(world, machine) && i != world->hostile)
            sim_crash(world, i, sim_draw(world, 3000));
    }
}

void sim_cut_power(struct world *world)
{
    if (world->power != POWER_ENDS)
        return;
    world->power = POWER_STAYS;
    crash_all(world);
}

static void snap(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    if (!world->faults[SIM_ROLLBACK] || machine->has_snapshot || !machine->is_running ||
        !is_step_logged(world, machine))
        return;
    sim_disk_copy(&machine->disk, &machine->snapshot);
    machine->has_snapshot = true;
}

static void cut(struct world *world)
{
    uint64_t until_ms = world->now_ms + sim_draw(world, 8000);
    uint64_t side = tr_random_next(&world->random);
    sim_trace(world, "the network is cut");
    sim_fault(world, SIM_PARTITION);
    for (uint32_t a = 0; a < world->machine_count; a++) {
        for (uint32_t b = a + 1; b < world->machine_count; b++) {
            if ((side >> a & 1) == (side >> b & 1))
                continue;
            sim_link(world, a, b)->cut_until_ms = until_ms;
            sim_break_link(world, a, b);
        }
    }
}

/* One at a time, and not before everything has come to rest. */
static void disturb_one(struct world *world, uint32_t index)
{
    bool is_quiet = world->now_ms > world->model.impaired_ms + BETWEEN_MS;
    uint64_t seldom = world->options->is_full ? 5 : 20; /* full disks are what such a life is for */
    bool is_running =
        world->machines[index].is_ready && world->machines[index].paused_until_ms <= world->now_ms;
    if (!is_quiet || !is_running || !sim_chance(world, seldom))
        return;
    if (world->faults[SIM_RESTART] && sim_chance(world, 2)) {
        sim_fault(world, SIM_RESTART);
        sim_drain(world, index);
    } else if (world->is_lone) {
        crash(world, index, SIM_CRASH);
    }
    world->model.impaired_ms = world->now_ms;
}

/* An older disk knows nothing of the step, and its few records may not tell. A node that started
 * on a disk that takes nothing cannot write the step down, nor can one whose log is full. */
static void step_clock(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    struct tr_node_stats stats;
    if (!world->faults[SIM_STEP] || !machine->is_running || machine->has_snapshot ||
        machine->has_filled || !sim_chance(world, 100))
        return;
    tr_node_stats(machine->node, &stats);
    if (stats.is_log_full)
        return;
    sim_fault(world, SIM_STEP);
    machine->skew_ms += sim_draw_step(world);
    machine->stepped_ms = world->now_ms;
    sim_trace(world, "%s steps its clock", sim_name(index));
}

/* A machine with a write under way, from this one on; or this one. */
static uint32_t find_writing(const struct world *world, uint32_t index)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        uint32_t other = (index + i) % world->machine_count;
        if (world->machines[other].is_running && world->machines[other].disk.is_writing)
            return other;
    }
    return index;
}

static void fill_disk(struct world *world, uint32_t index)
{
    struct sim_disk *disk = &world->machines[index].disk;
    bool stays = world->faults[SIM_FULL_LONG];
    if (disk->limit != SIZE_MAX && !stays) {
        disk->limit = SIZE_MAX;
        return;
    }
    if (disk->limit == SIZE_MAX && stays)
        sim_fault(world, SIM_FULL_LONG);
    if (disk->limit == SIZE_MAX) {
        disk->limit = disk->used + sim_draw(world, 2 * world->segment_size);
        disk->fills_up = stays && sim_chance(world, 2);
    }
}

static void disturb_wildly(struct world *world, uint32_t a, uint32_t b)
{
    static const enum sim_fault faults[] = {
        SIM_CRASH,     SIM_LOSS,      SIM_ROLLBACK, SIM_SYNC,      SIM_FULL,     SIM_PAUSE,
        SIM_BREAK,     SIM_BREAK,     SIM_STALL,    SIM_PARTITION, SIM_RECEIVER, SIM_RESTART,
        SIM_FULL_LONG, SIM_ALL_CRASH, SIM_DAMAGE,   SIM_NEVER_BACK};
    uint64_t drawn = sim_draw(world, 120);
    struct machine *machine = &world->machines[a];
    if (drawn >= sizeof faults / sizeof faults[0] || !world->faults[faults[drawn]])
        return;
    switch (drawn) {
    case 0: /* where it hurts: with something that is not synced yet */
        crash(world, find_writing(world, a), SIM_CRASH);
        return;
    case 1:
    case 2:
        crash(world, a, faults[drawn]);
        return;
    case 3: /* a sync fails, and the node does not go on */
        a = find_writing(world, a);
        if (world->machines[a].disk.is_writing)
            crash(world, a, SIM_SYNC);
        return;
    case 4:
    case 12:
        fill_disk(world, a);
        return;
    case 5:
        sim_fault(world, SIM_PAUSE);
        machine->paused_until_ms = world->now_ms + sim_draw(world, 6000);
        sim_trace(world, "%s pauses", sim_name(a));
        return;
    case 6:
    case 7:
        if (a != b && sim_link(world, a, b)->is_up)
            sim_fault(world, SIM_BREAK);
        if (a != b)
            sim_break_link(world, a, b);
        return;
    case 8:
        if (a != b)
            sim_stall(world, a, b);
        return;
    case 9:
        cut(world);
        return;
    case 10:
        sim_fault(world, SIM_RECEIVER);
        world->receiver_status[sim_draw(world, RECEIVERS)] = sim_chance(world, 2) ? 503 : 0;
        return;
    case 11:
        sim_fault(world, SIM_RESTART);
        sim_drain(world, a);
        return;
    case 13:
        if (sim_chance(world, 3))
            crash_all(world);
        return;
    case 14:
        damage(world, a);
        return;
    default:
        die(world, a);
        return;
    }
}

/* A node gets no time to run, or the whole machine does, on which all of them are. What comes
 * meanwhile waits, and it is up to chance whether the node reads that first. */
static void starve(struct world *world, uint32_t index)
{
    if (!world->faults[SIM_STARVED] || !sim_chance(world, STARVED_SELDOM))
        return;
    bool is_all = sim_chance(world, 4);
    uint64_t until_ms = world->now_ms + STARVED_LEAST_MS + sim_draw(world, STARVED_MORE_MS);
    sim_fault(world, SIM_STARVED);
    for (uint32_t i = 0; i < world->machine_count; i++) {
        struct machine *machine = &world->machines[i];
        bool is_paused = machine->paused_until_ms > world->now_ms;
        if ((i != index && !is_all) || is_paused || !machine->is_running)
            continue;
        sim_trace(world, "%s gets no time", sim_name(i));
        machine->paused_until_ms = until_ms;
        machine->starved_ms = world->now_ms;
        machine->ticks_first = sim_chance(world, 2);
    }
    world->model.impaired_ms = world->now_ms;
    sim_model_starve(&world->model, until_ms);
}

/* Its zone files become others, now and then. */
static void change_zones(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    struct tr_event event = {.kind = TR_EVENT_ZONES_CHANGED};
    if (!world->faults[SIM_ZONES] || world->is_healed || !machine->is_ready ||
        !sim_chance(world, 40))
        return;
    sim_fault(world, SIM_ZONES);
    machine->has_newer_zones = !machine->has_newer_zones;
    sim_trace(world, "%s has %s zone files", sim_name(index),
              machine->has_newer_zones ? "newer" : "older");
    sim_step(world, index, &event);
}

void sim_disturb(struct world *world)
{
    uint32_t a = (uint32_t)sim_draw(world, world->machine_count);
    uint32_t b = (uint32_t)sim_draw(world, world->machine_count);
    if (!sim_is_member(world, a) || !sim_is_member(world, b) || a == world->hostile)
        return;
    if (sim_chance(world, 30))
        world->receiver_status[sim_draw(world, RECEIVERS)] = 200;
    if (sim_chance(world, 50))
        snap(world, a);
    step_clock(world, a);
    change_zones(world, a);
    starve(world, a);
    if (world->is_sluggish && a != b && sim_chance(world, 200))
        sim_stall(world, a, b);
    else if (world->is_sluggish)
        return;
    else if (world->model.has_faults && !world->is_lone)
        disturb_wildly(world, a, b);
    else
        disturb_one(world, a);
}
