/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a cluster. What may go wrong is drawn for a life as a whole, so that each kind of
 * life can be held to what it promises:
 *
 *   calm   nothing fails; nodes come, leave and restart: nothing is late, double or lost
  *   lone   one node at a time is away: timers with two copies are not late
 *   sluggish  links stall, for so long that what they deliver then is no longer true
 *   wild   anything: nothing that was acknowledged is lost
 *
 * After that everything heals, and everything must come to its end and its place.
 */
#include "sim/world.h"

#include "memory/arena.h"

#include <stdio.h>
#include <string.h>

#define KIND_SLUGGISH 5 /* of ten */
#define FORGET_MS     75000
#define FORGET_EVERY  16     /* lives */
#define HEAL_MS       240000 /* after which everything must have come to its end */
#define QUIET_MS      25000  /* for what nobody waits for: replaced timers, debts, strays */
#define CALM_LATE_MS  700    /* commits on two nodes, the slowest of frames, and a move */
#define LONE_LATE_MS  1700   /* less than a position: the dead one was not waited for */
#define STEP_LATE_MS  6500   /* three positions */
#define TIGHT_LATE_MS 12000  /* likewise, and a claim or two */
#define LATE_TRIPS    14     /* one way, each of which makes a record later by as much */
#define REPEAT_MS     20000  /* by then it is no backup that has not heard */
#define HEARD_MS      3000   /* until two nodes have told each other what they know */
#define BETWEEN_MS    5000   /* restarts and crashes, where it is one at a time */

static const char *const fault_names[] = {
#define SIM_AS_TEXT(name, what) what,
    SIM_FAULTS_LIST(SIM_AS_TEXT)
#undef SIM_AS_TEXT
};

/* ---- what kind of life ---- */

/* Tables, pools and slices of a handful: a full one is no fault. */
static void draw_limits(struct world *world)
{
    bool *faults = world->faults;
    for (unsigned i = SIM_FEW_CLAIMS; i <= SIM_SLICES; i++) {
        faults[i] = sim_chance(world, 8) && world->options->nodes == 0;
        if (faults[i])
            sim_fault(world, (enum sim_fault)i);
    }
    if (faults[SIM_FEW_CLAIMS])
        world->limits.claims = 2 + (uint32_t)sim_draw(world, 14);
    if (faults[SIM_FEW_DROPS])
        world->limits.drops = 4 + (uint32_t)sim_draw(world, 28);
    if (faults[SIM_FEW_MOVES])
        world->limits.moves = 4 + (uint32_t)sim_draw(world, 8);
    if (faults[SIM_FEW_MESSAGES])
        world->messages_max = 32 + (uint32_t)sim_draw(world, 128);
    if (faults[SIM_FEW_OPERATIONS])
        world->operations_max = 2 + (uint32_t)sim_draw(world, 6);
    if (faults[SIM_FEW_PENDING]) {
        world->limits.owed = 2 + (uint32_t)sim_draw(world, 14);
        world->limits.waiting = 128;
    }
    if (faults[SIM_SLICES])
        world->limits.slice = 1 + (uint32_t)sim_draw(world, 15);
}

/* All links are as slow as each other, or each way of each is drawn by itself. */
static void draw_latency(struct world *world)
{
    uint64_t most_ms = world->options->latency_ms;
    bool is_slow = most_ms > 0 || (world->options->nodes == 0 && sim_chance(world, 4));
    bool is_asymmetric = is_slow && sim_chance(world, 2);
    if (!is_slow)
        return;
    world->latency_ms = most_ms > 0 ? most_ms : 1 + sim_draw(world, 200);
    world->faults[SIM_LATENCY] = !is_asymmetric;
    world->faults[SIM_ASYMMETRY] = is_asymmetric;
    sim_fault(world, is_asymmetric ? SIM_ASYMMETRY : SIM_LATENCY);
    for (uint32_t a = 0; a < MACHINES_MAX; a++) {
        for (uint32_t b = a + 1; b < MACHINES_MAX; b++) {
            for (unsigned way = 0; way < 2; way++)
                world->links[a][b].latency_ms[way] =
                    is_asymmetric ? sim_draw(world, world->latency_ms + 1) : world->latency_ms;
        }
    }
}

/* What is no fault, and yet hard. */
static void draw_hardships(struct world *world)
{
    bool *faults = world->faults;
    bool is_scaled = faults[SIM_SCALE_UP] || faults[SIM_SCALE_DOWN];
    faults[SIM_RACE] = sim_chance(world, 3);
    faults[SIM_SWAP] = faults[SIM_SCALE_UP] && faults[SIM_SCALE_DOWN] && sim_chance(world, 2);
    faults[SIM_TAKEN_BACK] = is_scaled && sim_chance(world, 3);
    faults[SIM_SECOND] = is_scaled && sim_chance(world, 3);
    faults[SIM_ALONE] = faults[SIM_RESTART] && sim_chance(world, 2);
    faults[SIM_FACTORS] = sim_chance(world, 4);
    faults[SIM_ZERO] = sim_chance(world, 4);
    faults[SIM_HOURS] = faults[SIM_STEP] && sim_chance(world, 3);
    draw_limits(world);
    draw_latency(world);
}

/* One store at most is lost in a life. */
static void draw_loss(struct world *world)
{
    static const enum sim_fault losses[] = {SIM_LOSS, SIM_ROLLBACK, SIM_NEVER_BACK, SIM_DAMAGE};
    bool *faults = world->faults;
    enum sim_fault loss = losses[sim_draw(world, 4)];
    bool is_any = faults[SIM_LOSS] || faults[SIM_ROLLBACK];
    faults[SIM_LOSS] = faults[SIM_ROLLBACK] = false;
    faults[loss] = is_any;
}

static void draw_faults(struct world *world)
{
    uint64_t kind = sim_draw(world, 10);
    kind = world->options->is_sluggish ? KIND_SLUGGISH : kind;
    bool *faults = world->faults;
    bool is_calm = kind < 4 || world->options->is_calm;
    world->is_lone = kind == 4 && !is_calm;
    faults[SIM_SCALE_UP] = sim_chance(world, 2);
    faults[SIM_SCALE_DOWN] = sim_chance(world, 2);
    faults[SIM_RESTART] = sim_chance(world, 2);
    faults[SIM_SKEW] = kind != KIND_SLUGGISH && sim_chance(world, 3);
    faults[SIM_DRIFT] = sim_chance(world, 4);
    faults[SIM_STEP] = sim_chance(world, 4);
    if (world->options->is_still)
        faults[SIM_SCALE_UP] = faults[SIM_SCALE_DOWN] = faults[SIM_RESTART] = false;
    world->is_sluggish = kind == KIND_SLUGGISH && !is_calm;
    if (world->is_lone)
        faults[SIM_CRASH] = true;
    if (world->is_sluggish)
        faults[SIM_STALL] = faults[SIM_SCALE_UP] = true;
    faults[SIM_FULL_JOINER] = is_calm && faults[SIM_SCALE_UP] && sim_chance(world, 2);
    faults[SIM_FULL_RESTART] = is_calm && faults[SIM_RESTART] && sim_chance(world, 3);
    if (!is_calm && !world->is_lone && !world->is_sluggish) {
        for (unsigned i = 0; i < SIM_FAULTS; i++) {
            if (i < SIM_SKEW || i == SIM_RECEIVER || i == SIM_LIE || i == SIM_VIEWS ||
                i == SIM_EARLY)
                faults[i] = sim_chance(world, 3);
            if (i == SIM_FULL_LONG || i == SIM_FULL_RESTART || i == SIM_MEMORY ||
                i == SIM_ALL_CRASH)
                faults[i] = sim_chance(world, 6);
        }
        draw_loss(world);
    }
    if (faults[SIM_MEMORY])
        world->limits.memory = TR_ARENA_LEAST;
    /* A segment that must have room for such a batch is full soon, and a disk with it. */
    if ((faults[SIM_FULL_LONG] || faults[SIM_FULL_RESTART]) && sim_chance(world, 2))
        world->limits.batch = world->segment_size - 5120 - sim_draw(world, 5120);
    draw_hardships(world);
    bool is_apart = faults[SIM_CRASH] || faults[SIM_LOSS] || faults[SIM_ROLLBACK] ||
                    faults[SIM_SYNC] || faults[SIM_PAUSE] || faults[SIM_BREAK] ||
                    faults[SIM_STALL] || faults[SIM_PARTITION] || faults[SIM_VIEWS] ||
                    faults[SIM_EARLY] || faults[SIM_ALL_CRASH] || faults[SIM_NEVER_BACK] ||
                    faults[SIM_DAMAGE];
    world->model.has_faults = is_apart || faults[SIM_FULL] || faults[SIM_RECEIVER] ||
                              faults[SIM_LIE] || faults[SIM_FULL_LONG] || faults[SIM_MEMORY];
    world->model.is_once = !world->model.has_faults;
    world->model.is_unordered = faults[SIM_SKEW] && is_apart;
    world->model.most_early_ms = faults[SIM_DRIFT] ? 8 : 0;
    /* Who has no room for a record, or for what it is told, is waited for, too. */
    bool is_tight = faults[SIM_FULL_JOINER] || faults[SIM_FULL_RESTART];
    for (unsigned i = SIM_FEW_CLAIMS; i <= SIM_SLICES; i++)
        is_tight |= faults[i];
    world->is_tight = is_tight;
    uint64_t slow_ms = LATE_TRIPS * world->latency_ms;
    world->model.most_late_ms = slow_ms + (is_tight ? TIGHT_LATE_MS : CALM_LATE_MS);
    world->model.repeat_ms = world->is_sluggish ? REPEAT_MS : 0;
    world->model.has_restarts = faults[SIM_RESTART];
    world->model.has_steps = faults[SIM_STEP];
    /* Who has too few timers to tell that its clock was set back is waited for. */
    world->model.lone_late_ms = !world->is_lone    ? 0
                                : is_tight         ? TIGHT_LATE_MS + slow_ms
                                : faults[SIM_STEP] ? STEP_LATE_MS + slow_ms
                                                   : LONE_LATE_MS + slow_ms;
}

static void print_faults(const struct world *world)
{
    if (world->latency_ms > 0)
        printf("%llu ms, ", (unsigned long long)world->latency_ms);
    printf("%s life", world->is_lone            ? "lone"
                      : world->is_sluggish      ? "sluggish"
                      : world->model.has_faults ? "wild"
                                                : "calm");
    for (unsigned i = 0; i < SIM_FAULTS; i++) {
        if (world->faults[i])
            printf(", %s", fault_names[i]);
    }
    printf("\n");
}

/* ---- is anything wrong? ---- */

static bool is_member(const struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    return machine->is_used && !machine->stays_down && !machine->is_dead;
}

static bool is_link_well(struct world *world, uint32_t a, uint32_t b)
{
    const struct link *link = sim_link(world, a, b);
    return link->is_up && link->stalled_until_ms[0] <= world->now_ms &&
           link->stalled_until_ms[1] <= world->now_ms;
}

/* All nodes are there, serve, see each other and the same view. */
static bool is_well(struct world *world)
{
    for (uint32_t a = 0; a < world->machine_count; a++) {
        const struct machine *machine = &world->machines[a];
        struct tr_node_stats stats;
        if (!is_member(world, a) || a == world->hostile)
            continue;
        if (!machine->is_ready || machine->paused_until_ms > world->now_ms)
            return false;
        tr_node_stats(machine->node, &stats);
        if (!stats.is_serving || stats.is_disk_full ||
            machine->view.number != sim_view(world)->number)
            return false;
        for (uint32_t b = a + 1; b < world->machine_count; b++) {
            if (is_member(world, b) && b != world->hostile && !is_link_well(world, a, b))
                return false;
        }
    }
    return true;
}

static void look(struct world *world)
{
    if (!is_well(world))
        world->model.impaired_ms = world->now_ms;
}

static bool all_are_settled(const struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (is_member(world, i) && i != world->hostile && !sim_is_settled(world, i))
            return false;
    }
    return true;
}

/* ---- scaling ---- */

static uint64_t view_delay(struct world *world)
{
    if (world->faults[SIM_VIEWS] && !world->is_healed && sim_chance(world, 2)) {
        sim_fault(world, SIM_VIEWS);
        return sim_draw(world, 60000);
    }
    return sim_draw(world, 400);
}

/* The operator writes the config files, one after the other. */
static void give_view(struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (is_member(world, i))
            sim_plan(world, i,
                     (struct sim_pending){.what = HAPPENS_VIEW, .number = world->view_number},
                     view_delay(world));
    }
}

static struct sim_view *next_view(struct world *world)
{
    const struct sim_view *now = sim_view(world);
    world->view_number++;
    struct sim_view *view = sim_view(world);
    *view = *now;
    view->number = world->view_number;
    return view;
}

static unsigned count_staying(const struct sim_view *view)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < MACHINES_MAX; i++)
        count += view->roles[i] == TR_ROLE_STAYING;
    return count;
}

/* One way or both; sometimes for so long that nobody should believe what comes then. */
static void stall(struct world *world, uint32_t a, uint32_t b)
{
    struct link *link = sim_link(world, a, b);
    uint64_t until_ms = world->now_ms + sim_draw(world, sim_chance(world, 3) ? 40000 : 4000);
    if (world->is_sluggish)
        until_ms = world->now_ms + 25000 + sim_draw(world, sim_chance(world, 8) ? 60000 : 25000);
    uint64_t which = sim_draw(world, 3);
    sim_trace(world, "%s-%s stalls", sim_name(a), sim_name(b));
    sim_fault(world, SIM_STALL);
    if (which != 0)
        link->stalled_until_ms[0] = until_ms;
    if (which != 1)
        link->stalled_until_ms[1] = until_ms;
}

static void tell_alone(struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        struct machine *machine = &world->machines[i];
        if (machine->told_ms == 0 || world->now_ms < machine->told_ms)
            continue;
        machine->told_ms = 0;
        machine->view = *sim_view(world);
        if (machine->is_ready)
            sim_set_view(world, i);
    }
}

static void start_joiners(struct world *world)
{
    const struct sim_view *view = sim_view(world);
    for (uint32_t i = 0; i < world->machine_count; i++) {
        struct machine *machine = &world->machines[i];
        if (view->roles[i] != TR_ROLE_JOINING || machine->is_running || machine->is_joining)
            continue;
        machine->view = *view;
        machine->is_used = true;
        machine->is_joining = true;
        if (sim_chance(world, 2))
            sim_begin_alone(world, i);
        if (world->faults[SIM_FULL_JOINER]) {
            sim_fault(world, SIM_FULL_JOINER);
            machine->disk.limit = 0;
        }
        sim_start(world, i);
    }
}

/* What was begun is not wanted any more: who joins leaves again, who leaves stays. */
static void take_back(struct world *world)
{
    struct sim_view *view = next_view(world);
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (view->roles[i] == TR_ROLE_JOINING)
            view->roles[i] = TR_ROLE_LEAVING;
        else if (view->roles[i] == TR_ROLE_LEAVING)
            view->roles[i] = TR_ROLE_STAYING;
        world->machines[i].is_joining = false;
    }
    sim_trace(world, "operator: taken back");
    sim_fault(world, SIM_TAKEN_BACK);
    world->scaled_ms = world->now_ms;
    give_view(world);
}

/* Step 1: some join or leave. */
static void begin_scaling(struct world *world)
{
    bool is_up = world->faults[SIM_SCALE_UP] && sim_chance(world, 2);
    bool is_down = world->faults[SIM_SCALE_DOWN] && !is_up;
    struct sim_view *view = next_view(world);
    if (world->faults[SIM_SWAP] && sim_chance(world, 2)) {
        sim_fault(world, SIM_SWAP);
        is_up = is_down = true;
    }
    unsigned wanted = 1 + (unsigned)sim_draw(world, 2);
    unsigned changed = 0;
    for (uint32_t tries = 0; tries < 40 && changed < wanted; tries++) {
        uint32_t i = (uint32_t)sim_draw(world, world->machine_count);
        struct machine *machine = &world->machines[i];
        bool is_free =
            !machine->is_running && !machine->is_dead && (!machine->is_used || machine->stays_down);
        if (is_up && view->roles[i] == TR_ROLE_NONE && is_free) {
            view->roles[i] = TR_ROLE_JOINING;
            machine->stays_down = false;
            sim_fault(world, SIM_SCALE_UP);
            changed++;
        } else if (is_down && view->roles[i] == TR_ROLE_STAYING && count_staying(view) > 2) {
            view->roles[i] = TR_ROLE_LEAVING;
            sim_fault(world, SIM_SCALE_DOWN);
            changed++;
        }
    }
    sim_trace(world, "operator: step 1");
    world->is_scaling = true;
    world->scaled_ms = world->now_ms;
    give_view(world);
    start_joiners(world);
    uint32_t a = (uint32_t)sim_draw(world, world->machine_count);
    uint32_t b = (uint32_t)sim_draw(world, world->machine_count);
    if (world->is_sluggish && a != b && view->roles[a] == TR_ROLE_STAYING &&
        view->roles[b] == TR_ROLE_STAYING) {
        stall(world, a, b); /* what is on its way then is of the old view */
        for (unsigned i = 0; i < 12; i++)
            sim_ask(world, i % 2 == 0 ? a : b);
    }
}

/* Step 3: who joined stays, who leaves is gone from the files. */
static void end_scaling(struct world *world)
{
    struct sim_view *view = next_view(world);
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (view->roles[i] == TR_ROLE_JOINING)
            view->roles[i] = TR_ROLE_STAYING;
        else if (view->roles[i] == TR_ROLE_LEAVING)
            view->roles[i] = TR_ROLE_NONE;
        world->machines[i].is_joining = false;
    }
    sim_trace(world, "operator: step 3");
    world->is_scaling = false;
    world->scaled_ms = world->now_ms;
    give_view(world);
}

static bool have_view(const struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (is_member(world, i) && world->machines[i].view.number != world->view_number)
            return false;
    }
    return true;
}

/* Whether all nodes of the cluster that have ever heard of this one have heard what it knows. */
static bool sees_all(struct world *world, uint32_t index)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        bool is_meant = i != index && sim_view(world)->roles[i] != TR_ROLE_NONE;
        uint64_t heard_ms = sim_link(world, index, i)->up_ms + HEARD_MS + 10 * world->latency_ms;
        if (!is_meant || !is_member(world, i))
            continue;
        if (!world->machines[i].is_ready)
            return false;
        if (sim_member(world, i, index) != TR_MEMBER_NONE &&
            (!is_link_well(world, index, i) || world->now_ms < heard_ms))
            return false;
    }
    return true;
}

/* A machine that has left is stopped once it holds nothing. */
static void retire(struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        struct machine *machine = &world->machines[i];
        bool has_left =
            sim_view(world)->roles[i] == TR_ROLE_NONE && machine->view.roles[i] == TR_ROLE_NONE;
        if (is_member(world, i) && machine->is_ready && !machine->is_draining && has_left &&
            sim_is_empty(world, i) && sim_is_settled(world, i) && sees_all(world, i)) {
            machine->stays_down = true;
            sim_drain(world, i);
        }
    }
}

/* What is to move onto a node without room is under way for long. */
static void make_room(struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        struct machine *machine = &world->machines[i];
        bool is_joining = world->is_scaling && sim_view(world)->roles[i] == TR_ROLE_JOINING;
        bool has_waited = is_joining ? world->now_ms > world->scaled_ms + 6000
                                     : machine->has_filled && machine->is_ready &&
                                           world->now_ms > machine->started_ms + 4000;
        if (!has_waited || !sim_chance(world, 20))
            continue;
        sim_disk_empty(&machine->disk);
        machine->has_filled = false;
    }
}

/* A node that never comes back is taken out of the files. */
static void bury_dead(struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (!world->machines[i].is_dead || sim_view(world)->roles[i] == TR_ROLE_NONE)
            continue;
        next_view(world)->roles[i] = TR_ROLE_NONE;
        sim_trace(world, "operator: %s is gone for good", sim_name(i));
        world->scaled_ms = world->now_ms;
        give_view(world);
        return;
    }
}

static void scale(struct world *world)
{
    bool can = world->faults[SIM_SCALE_UP] || world->faults[SIM_SCALE_DOWN];
    retire(world);
    if (world->is_healed)
        bury_dead(world);
    tell_alone(world);
    make_room(world);
    if (!world->is_scaling) {
        bool is_over = world->now_ms > world->scaled_ms + 4000;
        if (can && !world->is_healed && is_over && sim_chance(world, 40))
            begin_scaling(world);
        return;
    }
    if (world->faults[SIM_SECOND] && !world->is_healed && sim_chance(world, 60)) {
        sim_fault(world, SIM_SECOND);
        begin_scaling(world);
        return;
    }
    if (world->faults[SIM_TAKEN_BACK] && !world->is_healed && sim_chance(world, 60)) {
        take_back(world);
        return;
    }
    bool is_early = world->faults[SIM_EARLY] && !world->is_healed && sim_chance(world, 30);
    bool is_done = world->now_ms > world->scaled_ms + 3000 && have_view(world) && is_well(world) &&
                   all_are_settled(world);
    if (is_early)
        sim_fault(world, SIM_EARLY);
    if (is_early || is_done)
        end_scaling(world);
}

/* ---- what goes wrong ---- */

static void crash(struct world *world, uint32_t index, enum sim_fault fault)
{
    struct machine *machine = &world->machines[index];
    /* A step that was not written down yet is one that nobody saw. */
    if (!machine->is_running || world->now_ms < machine->stepped_ms + 1000)
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

/* A bit of what was synced flips while the node is down. Where that is of its clock, which was set,
 * its timers are of two times, and nobody can tell. */
static void damage(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    if (!machine->is_running || world->model.lost_ms > 0 || machine->disk.is_writing ||
        machine->stepped_ms > 0 || machine->was_set || !sim_disk_damage(&machine->disk))
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
    if (!machine->is_running || world->model.lost_ms > 0 || count_staying(sim_view(world)) < 3 ||
        sim_view(world)->roles[index] != TR_ROLE_STAYING)
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
        if (machine->is_running && world->now_ms >= machine->stepped_ms + 1000 &&
            i != world->hostile)
            sim_crash(world, i, sim_draw(world, 3000));
    }
}

static void snap(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    if (!world->faults[SIM_ROLLBACK] || machine->has_snapshot || !machine->is_running ||
        world->now_ms < machine->stepped_ms + 1000)
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
    if (!is_quiet || !world->machines[index].is_ready || !sim_chance(world, 20))
        return;
    if (world->faults[SIM_RESTART] && sim_chance(world, 2)) {
        sim_fault(world, SIM_RESTART);
        sim_drain(world, index);
    } else if (world->is_lone) {
        crash(world, index, SIM_CRASH);
    }
    world->model.impaired_ms = world->now_ms;
}

/* An older disk knows nothing of the step, and its few records may not tell. */
static void step_clock(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    if (!world->faults[SIM_STEP] || !machine->is_running || machine->has_snapshot ||
        !sim_chance(world, 100))
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
            stall(world, a, b);
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

static void disturb(struct world *world)
{
    uint32_t a = (uint32_t)sim_draw(world, world->machine_count);
    uint32_t b = (uint32_t)sim_draw(world, world->machine_count);
    if (!is_member(world, a) || !is_member(world, b) || a == world->hostile)
        return;
    if (sim_chance(world, 30))
        world->receiver_status[sim_draw(world, RECEIVERS)] = 200;
    if (sim_chance(world, 50))
        snap(world, a);
    step_clock(world, a);
    if (world->is_sluggish && a != b && sim_chance(world, 200))
        stall(world, a, b);
    else if (world->is_sluggish)
        return;
    else if (world->model.has_faults && !world->is_lone)
        disturb_wildly(world, a, b);
    else
        disturb_one(world, a);
}

/* ---- the three parts of a life ---- */

static void begin(struct world *world)
{
    uint32_t used = 2 + (uint32_t)sim_draw(world, 5);
    if (world->options->nodes > 0)
        used = world->options->nodes;
    world->machine_count = used + 3 < MACHINES_MAX ? used + 3 : MACHINES_MAX;
    world->view_number = 1;
    sim_view(world)->number = 1;
    for (uint32_t i = 0; i < used; i++)
        sim_view(world)->roles[i] = TR_ROLE_STAYING;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (world->faults[SIM_SKEW]) {
            sim_fault(world, SIM_SKEW);
            world->machines[i].skew_ms = (int64_t)sim_draw(world, 4800) - 2400;
            if (world->model.is_unordered && sim_chance(world, 4))
                world->machines[i].skew_ms += 9000; /* out of its mind */
        }
        if (world->faults[SIM_DRIFT]) {
            sim_fault(world, SIM_DRIFT);
            world->machines[i].drift = (int64_t)sim_draw(world, 200) - 100;
        }
    }
    for (uint32_t i = 0; i < used; i++) {
        world->machines[i].view = *sim_view(world);
        sim_start(world, i);
    }
    for (uint32_t i = 0; i < 60 && world->model.broken == NULL && !is_well(world); i++) {
        sim_advance(world, world->now_ms + 100);
        sim_connect(world);
    }
    if (world->options->is_hostile)
        world->hostile = 0;
    world->model.is_off = world->options->is_hostile;
    world->model.impaired_ms = world->now_ms;
}

static void live(struct world *world)
{
    for (uint32_t i = 0; i < world->options->writes && world->model.broken == NULL; i++) {
        bool is_pause = sim_chance(world, 3);
        sim_advance(world, world->now_ms + sim_draw(world, is_pause ? 400 : 20));
        sim_ask(world, (uint32_t)sim_draw(world, world->machine_count));
        if (sim_chance(world, 200))
            sim_collide(world);
        disturb(world);
        scale(world);
        sim_connect(world);
        if (world->hostile != MACHINES_MAX)
            sim_hostile(world);
        look(world);
    }
}

/* A node gets more memory when it starts again. */
static void heal_all(struct world *world)
{
    world->is_healed = true;
    sim_trace(world, "everything heals");
    world->limits.memory = 0;
    for (uint32_t a = 0; a < world->machine_count; a++) {
        sim_disk_empty(&world->machines[a].disk);
        if (world->faults[SIM_MEMORY])
            sim_drain(world, a);
        for (uint32_t b = a + 1; b < world->machine_count; b++) {
            world->links[a][b].cut_until_ms = 0; /* what is stalled is on its way, and comes */
        }
    }
}

static bool is_buried(struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (world->machines[i].is_dead && sim_view(world)->roles[i] != TR_ROLE_NONE)
            return false;
    }
    return true;
}

static bool is_over(struct world *world)
{
    return !world->is_scaling && is_buried(world) && is_well(world) && all_are_settled(world) &&
           sim_model_is_done(&world->model) && world->open_count == 0;
}

static void heal(struct world *world)
{
    uint64_t end_ms = world->now_ms + (uint64_t)HEAL_MS * (world->latency_ms > 0 ? 3 : 1);
    uint64_t over_ms = UINT64_MAX;
    heal_all(world);
    while (world->now_ms < end_ms && world->model.broken == NULL) {
        sim_advance(world, world->now_ms + 500);
        sim_connect(world);
        scale(world);
        look(world);
        if (!is_over(world))
            over_ms = UINT64_MAX;
        else if (over_ms == UINT64_MAX)
            over_ms = world->now_ms + (world->is_sluggish ? 2 * QUIET_MS : QUIET_MS);
        if (world->now_ms >= over_ms)
            return;
    }
}

static bool names_one_that_left(const struct tr_node *node, const struct tr_record *record)
{
    struct tr_node_peer peer;
    bool has_left = false;
    for (unsigned i = 0; i < record->list_count + record->from_count; i++) {
        unsigned place = i - record->list_count;
        tr_node_peer(node, i < record->list_count ? record->list[i] : record->from[place], &peer);
        has_left |= peer.role == TR_ROLE_NONE;
    }
    return has_left;
}

/* A while after all is well, nothing is remembered of what has ended, but for its keys, and for
 * nodes that have left. It takes long, and is looked at in some lives. */
static void check_forgotten(struct world *world)
{
    uint64_t end_ms = world->now_ms + FORGET_MS;
    while (world->now_ms < end_ms && world->model.broken == NULL) {
        sim_advance(world, world->now_ms + 500);
        sim_connect(world);
    }
    for (uint32_t i = 0; i < world->machine_count && world->model.broken == NULL; i++) {
        struct tr_node_walk walk = {0};
        struct tr_record record;
        uint8_t mask = TR_RECORD_TOMBSTONE | TR_RECORD_KEYED;
        while (is_member(world, i) &&
               tr_node_next_record(world->machines[i].node, &walk, &record)) {
            if ((record.flags & mask) == TR_RECORD_TOMBSTONE &&
                !names_one_that_left(world->machines[i].node, &record))
                sim_break(world, "what has ended is remembered for ever");
        }
        if (world->model.broken != NULL)
            sim_tell_records(world, i, true);
    }
}

/* What came of the last pop is on its way for a moment. */
static void wait_for_outcomes(struct world *world)
{
    for (unsigned i = 0; i < 200 && world->model.broken == NULL; i++) {
        if (world->now_ms > world->fired_ms + 1000 + 4 * world->latency_ms)
            return;
        sim_advance(world, world->now_ms + 100);
        sim_connect(world);
    }
}

static bool pops(const struct world *world, uint32_t index)
{
    struct tr_node_stats stats;
    tr_node_stats(world->machines[index].node, &stats);
    return stats.is_popping;
}

static void check_end(struct world *world)
{
    wait_for_outcomes(world);
    sim_model_finish(&world->model);
    for (uint32_t i = 0; i < world->machine_count && world->model.broken == NULL; i++) {
        if (is_member(world, i) && !sim_is_settled(world, i)) {
            sim_tell_records(world, i, false);
            sim_break(world, "settling does not end");
        } else if (is_member(world, i) && !tr_node_valid(world->machines[i].node))
            sim_break(world, "a node's structures disagree");
        else if (is_member(world, i) && !pops(world, i))
            sim_break(world, "a node waits at its barrier for ever");
    }
    if (world->model.broken == NULL && world->open_count > 0)
        sim_break(world, "a request was never answered");
    if (world->model.broken == NULL && !is_well(world))
        sim_break(world, "the cluster does not heal");
    if (world->model.broken == NULL)
        sim_check_places(world);
    if (world->model.broken == NULL && world->options->seed % FORGET_EVERY == 0)
        check_forgotten(world);
}

static void report(const struct world *world)
{
    uint64_t from = world->trace_count > TRACE_MAX ? world->trace_count - TRACE_MAX : 0;
    for (uint64_t i = from; !world->options->is_verbose && i < world->trace_count; i++)
        puts(world->traces[i % TRACE_MAX]);
    printf("seed %llu: %s (write %u): ", (unsigned long long)world->options->seed,
           world->model.broken, world->model.broken_write);
    print_faults(world);
}

struct sim_result sim_life_run(const struct sim_options *options)
{
    struct world *world = sim_world_new(options);
    world->is_telling = options->is_verbose;
    draw_faults(world);
    if (options->is_verbose)
        print_faults(world);
    begin(world);
    live(world);
    if (!options->is_hostile) {
        heal(world);
        if (world->model.broken == NULL)
            check_end(world);
    }
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (world->machines[i].is_running)
            sim_cover(world, i);
    }
    if (world->model.broken != NULL && !options->is_quiet)
        report(world);
    world->result.broken = world->model.broken;
    world->result.trace_hash = world->trace_hash;
    world->result.timers = world->model.count - 1;
    world->result.pops = world->model.fires;
    world->result.least_lateness_ms = world->model.least_lateness_ms;
    struct sim_result result = world->result;
    sim_world_free(world);
    return result;
}
