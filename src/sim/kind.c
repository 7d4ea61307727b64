/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of life it is: what may go wrong in it, and what it is held to. */
#include "sim/world.h"

#include "memory/arena.h"

#include <stdio.h>

#define KIND_SLUGGISH  5     /* of ten */
#define CALM_LATE_MS   700   /* commits on two nodes, the slowest of frames, and a move */
#define LONE_LATE_MS   1700  /* less than a position: the dead one was not waited for */
#define STEP_LATE_MS   6500  /* three positions */
#define TIGHT_LATE_MS  12000 /* likewise, and a claim or two */
#define PENDING_ENOUGH 64    /* records at once, for a node that has missed some */
#define LATE_TRIPS     14    /* one way, each of which makes a record later by as much */
#define REPEAT_MS      20000 /* by then it is no backup that has not heard */

static const char *const fault_names[] = {
#define SIM_AS_TEXT(name, what) what,
    SIM_FAULTS_LIST(SIM_AS_TEXT)
#undef SIM_AS_TEXT
};

/* Tables, pools and slices of a handful: a full one is no fault. */
static void draw_limits(struct world *world)
{
    bool *faults = world->faults;
    for (unsigned i = SIM_FEW_CLAIMS; i <= SIM_SLICES; i++) {
        /* What a hostile node fills them with is too much to go through bit by bit. */
        faults[i] =
            sim_chance(world, 8) && world->options->nodes == 0 && !world->options->is_hostile;
        /* Notes of claims would tell a node what its full disk does not keep. */
        faults[i] |= i == SIM_FEW_CLAIMS && world->options->is_full;
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
        world->limits.pending = 2 + (uint32_t)sim_draw(world, 14);
        world->limits.waiting = 128;
        /* One whose disk was full must hear all that it missed in the ten seconds that it waits. */
        if (faults[SIM_FULL_JOINER] || faults[SIM_FULL_RESTART])
            world->limits.pending += PENDING_ENOUGH;
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
    faults[SIM_ASKED] = is_scaled && sim_chance(world, 3);
    faults[SIM_ALONE] = faults[SIM_RESTART] && sim_chance(world, 2);
    faults[SIM_FACTORS] = sim_chance(world, 4);
    faults[SIM_ZERO] = sim_chance(world, 4);
    faults[SIM_HOURS] = faults[SIM_STEP] && sim_chance(world, 3);
    if (!world->options->is_moving) /* what a read tells is held to nothing where pools are small */
        draw_limits(world);
    draw_latency(world);
    if (world->options->has_keys)
        faults[SIM_SPREAD] = sim_chance(world, world->options->is_moving ? 2 : 3);
    faults[SIM_FLUSH] = world->options->has_flushes;
    faults[SIM_STARVED] = world->options->is_starved;
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

void sim_draw_faults(struct world *world)
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
    if (world->options->has_plans) {
        faults[SIM_SKEW] = faults[SIM_DRIFT] = faults[SIM_STEP] = false;
        faults[SIM_ZONES] = world->model.has_zones = sim_chance(world, 2);
    }
    if (world->options->is_still)
        faults[SIM_SCALE_UP] = faults[SIM_SCALE_DOWN] = faults[SIM_RESTART] = false;
    if (world->options->is_moving) {
        faults[SIM_SCALE_UP] = faults[SIM_SCALE_DOWN] = true;
        faults[SIM_RESTART] = false;
    }
    world->is_sluggish = kind == KIND_SLUGGISH && !is_calm;
    if (world->is_lone)
        faults[SIM_CRASH] = true;
    if (world->is_sluggish)
        faults[SIM_STALL] = faults[SIM_SCALE_UP] = true;
    bool may_be_full = is_calm && !world->options->is_moving;
    faults[SIM_FULL_JOINER] = may_be_full && faults[SIM_SCALE_UP] && sim_chance(world, 2);
    faults[SIM_FULL_RESTART] = is_calm && faults[SIM_RESTART] && sim_chance(world, 3);
    if (world->options->is_full)
        faults[SIM_RESTART] = faults[SIM_FULL_RESTART] = true;
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
    bool is_full = faults[SIM_FULL_LONG] || faults[SIM_FULL_RESTART];
    if (is_full && (world->options->is_full || sim_chance(world, 2)))
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
    is_tight |= faults[SIM_STARVED]; /* it catches up, and others may, too */
    uint64_t slow_ms = LATE_TRIPS * world->latency_ms;
    world->model.most_late_ms = slow_ms + (is_tight ? TIGHT_LATE_MS : CALM_LATE_MS);
    world->model.repeat_ms = world->is_sluggish ? REPEAT_MS : 0;
    world->model.has_restarts = faults[SIM_RESTART];
    world->model.has_full = faults[SIM_FULL] || faults[SIM_FULL_LONG] || faults[SIM_FULL_RESTART];
    world->model.has_steps = faults[SIM_STEP];
    /* Who has too few timers to tell that its clock was set back is waited for. */
    world->model.lone_late_ms = !world->is_lone    ? 0
                                : is_tight         ? TIGHT_LATE_MS + slow_ms
                                : faults[SIM_STEP] ? STEP_LATE_MS + slow_ms
                                                   : LONE_LATE_MS + slow_ms;
}

void sim_print_faults(const struct world *world)
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
