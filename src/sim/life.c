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
#include "sim/pairs.h"

#include "memory/arena.h"

#include <stdio.h>
#include <string.h>

#define FORGET_MS    75000
#define FORGET_EVERY 16     /* lives */
#define HEAL_MS      240000 /* after which everything must have come to its end */
#define POWER_WRITES 60     /* between two moments at which all nodes lose their power */
#define QUIET_MS     25000  /* for what nobody waits for: replaced timers, debts, strays */

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
    world->needs_quorum = world->options->has_keys && sim_chance(world, 4);
    for (uint32_t i = 0; i < used; i++) {
        world->machines[i].view = *sim_view(world);
        sim_start(world, i);
    }
    for (uint32_t i = 0; i < 60 && world->model.broken == NULL && !sim_is_well(world); i++) {
        sim_advance(world, world->now_ms + 100);
        sim_connect(world);
    }
    if (world->options->is_hostile)
        world->hostile = 0;
    if (world->options->has_keys)
        sim_pairs_begin(world);
    world->model.is_off = world->options->is_hostile;
    world->model.impaired_ms = world->now_ms;
}

static void live(struct world *world)
{
    for (uint32_t i = 0; i < world->options->writes && world->model.broken == NULL; i++) {
        bool is_pause = sim_chance(world, 3);
        sim_advance(world, world->now_ms + sim_draw(world, is_pause ? 400 : 20));
        sim_cut_power(world);
        sim_ask(world, (uint32_t)sim_draw(world, world->machine_count));
        if (world->pairs != NULL)
            sim_pairs_ask(world, (uint32_t)sim_draw(world, world->machine_count));
        if (sim_chance(world, 200))
            sim_collide(world);
        bool ends = world->faults[SIM_ALL_CRASH] && world->pairs != NULL;
        if (ends && i % POWER_WRITES == world->options->seed % POWER_WRITES)
            world->power = POWER_ENDS_NEXT;
        sim_disturb(world);
        sim_scale(world);
        sim_pairs_operate(world);
        sim_connect(world);
        if (world->hostile != MACHINES_MAX)
            sim_hostile(world);
        sim_look(world);
    }
}

/* A node gets more memory when it starts again. */
static void heal_all(struct world *world)
{
    world->is_healed = true;
    world->power = POWER_STAYS;
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
    const struct tr_roster *roster = sim_roster(world);
    if (roster == NULL)
        return false;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        struct tr_span address = {world->machines[i].address, strlen(world->machines[i].address)};
        if (world->machines[i].is_dead && (sim_view(world)->roles[i] != TR_ROLE_NONE ||
                                           tr_roster_role(roster, address) != TR_ROLE_NONE))
            return false;
    }
    return true;
}

static bool is_over(struct world *world)
{
    return !world->is_scaling && is_buried(world) && sim_is_well(world) &&
           sim_are_all_balanced(world) && sim_model_is_done(&world->model) &&
           world->open_count == 0 && sim_pairs_are_answered(world);
}

static void heal(struct world *world)
{
    uint64_t end_ms = world->now_ms + (uint64_t)HEAL_MS * (world->latency_ms > 0 ? 3 : 1);
    uint64_t over_ms = UINT64_MAX;
    heal_all(world);
    while (world->now_ms < end_ms && world->model.broken == NULL) {
        sim_advance(world, world->now_ms + 500);
        sim_connect(world);
        sim_scale(world);
        sim_look(world);
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
    for (unsigned i = 0; i < record->head.replicas.count + record->head.from.count; i++) {
        unsigned place = i - record->head.replicas.count;
        tr_node_peer(node,
                     i < record->head.replicas.count ? record->head.replicas.members[i]
                                                     : record->head.from.members[place],
                     &peer);
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
        while (sim_is_member(world, i) &&
               tr_node_next_record(world->machines[i].node, &walk, &record)) {
            if ((record.head.flags & mask) == TR_RECORD_TOMBSTONE &&
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

/* The operator took it off the list before it was empty, and there is a node by now that has never
 * heard of it: what that one is to have it cannot be given. */
static bool is_cut_off(struct world *world, uint32_t index)
{
    bool is_unknown = false;
    for (uint32_t i = 0; i < world->machine_count; i++)
        is_unknown |= sim_is_member(world, i) && sim_view(world)->roles[i] != TR_ROLE_NONE &&
                      sim_member(world, i, index) == TR_MEMBER_NONE;
    return sim_view(world)->roles[index] == TR_ROLE_NONE && is_unknown;
}

static void check_end(struct world *world)
{
    wait_for_outcomes(world);
    sim_model_finish(&world->model);
    for (uint32_t i = 0; i < world->machine_count && world->model.broken == NULL; i++) {
        if (sim_is_member(world, i) && !sim_is_balanced(world, i) && !is_cut_off(world, i)) {
            sim_tell_records(world, i, false);
            sim_break(world, "rebalancing does not end");
        } else if (sim_is_member(world, i) && !tr_node_valid(world->machines[i].node))
            sim_break(world, "a node's structures disagree");
        else if (sim_is_member(world, i) && !pops(world, i))
            sim_break(world, "a node catches up for ever");
    }
    if (world->model.broken == NULL && world->open_count > 0)
        sim_break(world, "a request was never answered");
    if (world->model.broken == NULL && !sim_is_well(world))
        sim_break(world, "the cluster does not heal");
    if (world->model.broken == NULL)
        sim_check_places(world);
    sim_pairs_check(world);
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
    sim_print_faults(world);
}

struct sim_result sim_life_run(const struct sim_options *options)
{
    struct world *world = sim_world_new(options);
    world->is_telling = options->is_verbose;
    sim_draw_faults(world);
    if (options->is_verbose)
        sim_print_faults(world);
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
