/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between machines. A link is a stream: what it carries arrives in order and once. It may be
 * slow, stall in one direction, or break, and then what was on its way is lost; each end hears of
 * that in its own time. A partition is links that break and cannot be made again for a while.
 */
#include "sim/world.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define MEET_MS 300 /* after they could, two machines have found each other */

struct link *sim_link(struct world *world, uint32_t a, uint32_t b)
{
    return a < b ? &world->links[a][b] : &world->links[b][a];
}

uint16_t sim_member(const struct world *world, uint32_t machine, uint32_t other)
{
    const char *address = world->machines[other].address;
    return tr_node_member(world->machines[machine].node,
                          (struct tr_span){address, strlen(address)});
}

static uint32_t machine_of(const struct world *world, uint32_t machine, uint16_t member)
{
    struct tr_span address = tr_node_member_address(world->machines[machine].node, member);
    uint32_t other = 0;
    while (other < world->machine_count &&
           (strlen(world->machines[other].address) != address.size ||
            memcmp(world->machines[other].address, address.text, address.size) != 0))
        other++;
    TR_ASSERT(other < world->machine_count);
    return other;
}

void sim_break_link(struct world *world, uint32_t a, uint32_t b)
{
    struct link *link = sim_link(world, a, b);
    if (!link->is_up)
        return;
    sim_trace(world, "%s-%s breaks", sim_name(a), sim_name(b));
    link->is_up = false;
    link->epoch++;
    world->broken_ms = world->now_ms;
    struct sim_pending down = {.what = HAPPENS_LINK_DOWN, .link_epoch = link->epoch};
    down.other = b;
    sim_plan(world, a, down, sim_draw(world, 5));
    down.other = a;
    sim_plan(world, b, down, sim_draw(world, 5));
}

void sim_reset(struct world *world, uint32_t from, const struct tr_effect *effect)
{
    if (!world->model.has_faults && !world->model.is_off && !world->is_healed &&
        !effect->of.frame.is_anew)
        sim_break(world, "a node gives up a link, without a fault");
    sim_break_link(world, from, machine_of(world, from, effect->of.frame.peer));
}

static bool is_possible(const struct world *world, uint32_t a, uint32_t b)
{
    const struct machine *x = &world->machines[a];
    const struct machine *y = &world->machines[b];
    return x->is_ready && y->is_ready && x->paused_until_ms <= world->now_ms &&
           y->paused_until_ms <= world->now_ms && sim_member(world, a, b) != TR_MEMBER_NONE &&
           sim_member(world, b, a) != TR_MEMBER_NONE;
}

/* A node that knows of nobody lets a node of the cluster in that calls it. */
static void introduce(struct world *world, uint32_t a, uint32_t b)
{
    const struct machine *host = &world->machines[a];
    const struct machine *guest = &world->machines[b];
    bool is_waiting = guest->told_ms == TOLD_BY_OTHERS || world->faults[SIM_ASKED];
    if (host->is_ready && guest->is_ready && is_waiting && tr_node_is_free(guest->node) &&
        sim_member(world, a, b) != TR_MEMBER_NONE)
        tr_node_meet(guest->node, (struct tr_span){host->address, strlen(host->address)});
}

void sim_connect(struct world *world)
{
    for (uint32_t a = 0; a < world->machine_count; a++) {
        for (uint32_t b = a + 1; b < world->machine_count; b++) {
            struct link *link = sim_link(world, a, b);
            introduce(world, a, b);
            introduce(world, b, a);
            if (link->is_up || link->cut_until_ms > world->now_ms || !is_possible(world, a, b) ||
                (world->model.has_faults && !world->is_lone && !sim_chance(world, 3)))
                continue;
            link->is_up = true;
            link->up_ms = world->now_ms;

            link->epoch++;
            link->last_ms[0] = link->last_ms[1] = world->now_ms;
            struct sim_pending up = {.what = HAPPENS_LINK_UP, .link_epoch = link->epoch};
            up.other = b;
            uint64_t delay_ms = 10 + sim_draw(world, MEET_MS) + link->latency_ms[0] +
                                link->latency_ms[1]; /* one after the other */
            sim_plan(world, a, up, delay_ms);
            up.other = a;
            sim_plan(world, b, up, delay_ms);
        }
    }
}

static void count_frame(struct world *world, const uint8_t *bytes, size_t size)
{
    enum tr_frame_kind kind = (enum tr_frame_kind)bytes[0];
    world->frame_count[bytes[0] % TR_FRAMES]++;
    if (kind == TR_FRAME_BEAT || kind == TR_FRAME_HELLO)
        return;
    world->frame_bytes += size;
    world->result.frames++;
    world->result.messages += kind == TR_FRAME_WRITES || kind == TR_FRAME_ANSWERS ||
                              kind == TR_FRAME_MARKS || kind == TR_FRAME_ASKS;
}

void sim_send(struct world *world, uint32_t from, const struct tr_effect *effect)
{
    uint32_t to = machine_of(world, from, effect->of.frame.peer);
    struct link *link = sim_link(world, from, to);
    struct sim_pending pending = {.link_epoch = link->epoch};
    bool is_slow = world->options->nodes == 0 && sim_chance(world, 20);
    uint64_t delay = is_slow ? sim_draw(world, 60) : sim_draw(world, 3);
    unsigned direction = from > to;
    uint64_t at = world->now_ms + 1 + delay + link->latency_ms[direction];
    uint64_t *last = &link->last_ms[direction];
    at = at > link->stalled_until_ms[direction] ? at : link->stalled_until_ms[direction];
    at = at > *last ? at : *last;
    *last = at;
    count_frame(world, effect->of.frame.bytes, effect->of.frame.size);
    pending.what = HAPPENS_SENT;
    pending.other = to;
    sim_plan(world, from, pending, sim_draw(world, 2));
    if (!link->is_up)
        return; /* the sender has not heard of it yet */
    pending.what = HAPPENS_FRAME;
    pending.other = from;
    pending.bytes = malloc(effect->of.frame.size);
    pending.size = effect->of.frame.size;
    TR_ASSERT(pending.bytes != NULL);
    memcpy(pending.bytes, effect->of.frame.bytes, pending.size);
    sim_plan(world, to, pending, at - world->now_ms);
}

/* It has caught up: one that has not takes no writes. */
static bool is_serving(const struct machine *machine)
{
    struct tr_node_stats stats;
    if (!machine->is_ready || machine->is_draining)
        return false;
    tr_node_stats(machine->node, &stats);
    return stats.is_serving;
}

unsigned sim_reach(const struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    const struct tr_roster *roster = tr_node_roster(machine->node);
    uint64_t meet_ms = 500 + 4 * world->latency_ms; /* until they know each other again */
    bool is_awake = machine->paused_until_ms + meet_ms < world->now_ms;
    unsigned count = 0;
    unsigned absent = 0;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *other = &world->machines[i];
        const struct link *link = index < i ? &world->links[index][i] : &world->links[i][index];
        enum tr_role role =
            tr_roster_role(roster, (struct tr_span){other->address, strlen(other->address)});
        bool is_wanted = role == TR_ROLE_STAYING || role == TR_ROLE_JOINING;
        bool is_there = is_serving(other) &&
                        other->started_ms + 3000 + 10 * world->latency_ms < world->now_ms &&
                        is_awake && other->paused_until_ms + meet_ms < world->now_ms &&
                        link->is_up && link->up_ms + meet_ms < world->now_ms &&
                        link->stalled_until_ms[0] <= world->now_ms &&
                        link->stalled_until_ms[1] <= world->now_ms;
        count += is_wanted && (i == index || is_there);
        absent += is_wanted && i != index && !is_there;
    }
    /* Those who stand in have their places beside those they stand in for. */
    unsigned most = absent < TR_SET_MAX ? TR_SET_MAX - absent : 1;
    return count < most ? count : most;
}
