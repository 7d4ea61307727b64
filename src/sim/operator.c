/* SPDX-License-Identifier: Apache-2.0 */
/* The operator: nodes join, leave and are given up; and whether all is well meanwhile. */
#include "sim/world.h"

#define HEARD_MS 3000 /* until two nodes have told each other what they know */

/* ---- is anything wrong? ---- */

bool sim_is_member(const struct world *world, uint32_t index)
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

/* Of two rosters, the one that holds in the end. */
static bool is_above(const struct tr_roster *a, const struct tr_roster *b)
{
    return b == NULL || tr_roster_compare(a->epoch, a->id, b->epoch, b->id) > 0;
}

const struct tr_roster *sim_roster(const struct world *world)
{
    const struct tr_roster *highest = NULL;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        if (!sim_is_member(world, i) || !machine->is_ready || i == world->hostile)
            continue;
        const struct tr_roster *roster = tr_node_roster(machine->node);
        if (roster->cluster == world->cluster && is_above(roster, highest))
            highest = roster;
    }
    return highest;
}

/* It has left, and knows of no cluster, since it has lost its disk; or of one that is none any
 * more: it waits to be taken in. */
static bool is_outsider(const struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    const struct tr_roster *roster = sim_roster(world);
    struct tr_span address = {machine->address, strlen(machine->address)};
    struct tr_node_stats stats;
    tr_node_stats(machine->node, &stats);
    return (tr_node_roster(machine->node)->epoch == 0 || stats.is_guest) && roster != NULL &&
           tr_roster_role(roster, address) == TR_ROLE_NONE;
}

bool sim_is_current(const struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    if (machine->view.number != world->view_number || !machine->is_ready)
        return false;
    const struct tr_roster *roster = sim_roster(world);
    return roster == NULL || tr_node_roster(machine->node)->id == roster->id ||
           is_outsider(world, index);
}

bool sim_is_out(const struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    struct tr_span address = {machine->address, strlen(machine->address)};
    const struct tr_roster *roster = tr_node_roster(machine->node);
    bool has_left = roster->epoch > 0 && tr_roster_role(roster, address) == TR_ROLE_NONE;
    return has_left || is_outsider(world, index);
}

/* A change ends when those who leave have nothing left. */
void sim_check_roster(struct world *world, const struct tr_roster *roster)
{
    bool is_end = roster->cluster == world->cluster && roster->epoch > world->epoch &&
                  !tr_roster_is_changing(roster) && !world->options->is_hostile;
    /* A callback of a key that expires in this very moment may be owed by who leaves, too, beside
     * those who stay. */
    unsigned most = world->pairs != NULL ? 2 : 0;
    if (roster->cluster == world->cluster && roster->epoch > world->epoch)
        world->epoch = roster->epoch;
    for (uint32_t i = 0; is_end && i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        struct tr_span address = {machine->address, strlen(machine->address)};
        if (machine->is_ready && i != world->hostile &&
            tr_roster_role(tr_node_roster(machine->node), address) == TR_ROLE_LEAVING &&
            tr_roster_role(roster, address) == TR_ROLE_NONE && !sim_is_empty(world, i, most))
            sim_break(world, "a change ends while a node that leaves has timers");
    }
}

/* One that came after the other had left has never heard of it. */
static bool are_strangers(const struct world *world, uint32_t a, uint32_t b)
{
    return sim_member(world, a, b) == TR_MEMBER_NONE || sim_member(world, b, a) == TR_MEMBER_NONE;
}

/* All nodes are there, serve, see each other and the same view. */
bool sim_is_well(struct world *world)
{
    for (uint32_t a = 0; a < world->machine_count; a++) {
        const struct machine *machine = &world->machines[a];
        struct tr_node_stats stats;
        if (!sim_is_member(world, a) || a == world->hostile)
            continue;
        if (!machine->is_ready || machine->paused_until_ms > world->now_ms)
            return false;
        tr_node_stats(machine->node, &stats);
        if ((!stats.is_serving && !sim_is_out(world, a)) || stats.is_disk_full ||
            !sim_is_current(world, a))
            return false;
        for (uint32_t b = a + 1; b < world->machine_count; b++) {
            bool is_meant = sim_is_member(world, b) && b != world->hostile;
            if (is_meant && !is_link_well(world, a, b) &&
                (!world->machines[b].is_ready || !are_strangers(world, a, b)))
                return false;
        }
    }
    return true;
}

void sim_look(struct world *world)
{
    if (!sim_is_well(world))
        world->model.impaired_ms = world->now_ms;
}

bool sim_are_all_balanced(const struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (sim_is_member(world, i) && i != world->hostile && !sim_is_balanced(world, i))
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

/* The operator writes the config files, one after the other; or keeps them for the next start, and
 * asks a node. */
static void give_view(struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        struct machine *machine = &world->machines[i];
        if (sim_is_member(world, i) && world->faults[SIM_ASKED] && machine->told_ms == 0)
            machine->view = *sim_view(world);
        else if (sim_is_member(world, i) && !world->faults[SIM_ASKED])
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

unsigned sim_count_staying(const struct sim_view *view)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < MACHINES_MAX; i++)
        count += view->roles[i] == TR_ROLE_STAYING;
    return count;
}

/* One way or both; sometimes for so long that nobody should believe what comes then. */
void sim_stall(struct world *world, uint32_t a, uint32_t b)
{
    struct link *link = sim_link(world, a, b);
    uint64_t until_ms = world->now_ms + sim_draw(world, sim_chance(world, 3) ? 40000 : 4000);
    if (world->is_sluggish)
        until_ms = world->now_ms + 25000 + sim_draw(world, sim_chance(world, 8) ? 60000 : 25000);
    uint64_t which = sim_draw(world, 3);
    sim_trace(world, "%s-%s stalls", sim_name(a), sim_name(b));
    sim_fault(world, SIM_STALL);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t *stalled_ms = &link->stalled_until_ms[i];
        bool is_later = until_ms > *stalled_ms; /* what is on its way comes no sooner */
        if (which != i && is_later)
            *stalled_ms = until_ms;
    }
}

static void tell_alone(struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        struct machine *machine = &world->machines[i];
        bool is_in = machine->is_ready && tr_node_roster(machine->node)->count > 1;
        if (machine->told_ms == TOLD_BY_OTHERS ? !is_in : world->now_ms < machine->told_ms)
            continue;
        if (machine->told_ms == 0)
            continue;
        machine->told_ms = 0;
        machine->view = *sim_view(world);
        if (machine->is_ready && !world->faults[SIM_ASKED])
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
        if (world->faults[SIM_ASKED] || sim_chance(world, 2))
            sim_begin_alone(world, i);
        if (world->faults[SIM_ASKED])
            machine->told_ms = TOLD_BY_OTHERS;
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
    const struct tr_roster *roster = sim_roster(world);
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const char *address = world->machines[i].address;
        struct tr_span name = {address, strlen(address)};
        if (view->roles[i] == TR_ROLE_JOINING &&
            (roster == NULL || tr_roster_role(roster, name) == TR_ROLE_NONE))
            continue; /* it is not there yet, and may have timers of its own */
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
        } else if (is_down && view->roles[i] == TR_ROLE_STAYING && sim_count_staying(view) > 2) {
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
        sim_stall(world, a, b); /* what is on its way then is of the old view */
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

/* The cluster is what the files say, and no change is under way. */
static bool is_through(struct world *world)
{
    const struct tr_roster *roster = sim_roster(world);
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        enum tr_role role = sim_view(world)->roles[i];
        bool is_wanted = role == TR_ROLE_STAYING || role == TR_ROLE_JOINING;
        struct tr_span address = {machine->address, strlen(machine->address)};
        enum tr_role is = roster == NULL ? TR_ROLE_NONE : tr_roster_role(roster, address);
        if (is != (is_wanted ? TR_ROLE_STAYING : TR_ROLE_NONE))
            return false;
        if (sim_is_member(world, i) && !sim_is_current(world, i))
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
        if (!is_meant || !sim_is_member(world, i))
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
        struct tr_span address = {machine->address, strlen(machine->address)};
        bool has_left = machine->is_ready && sim_view(world)->roles[i] == TR_ROLE_NONE &&
                        machine->view.roles[i] == TR_ROLE_NONE && sim_is_out(world, i);
        const struct tr_roster *roster = sim_roster(world);
        enum tr_role wanted = sim_view(world)->roles[i];
        bool is_unwanted = machine->is_ready && world->faults[SIM_ASKED] &&
                           tr_node_roster(machine->node)->count <= 1 &&
                           (wanted == TR_ROLE_NONE || wanted == TR_ROLE_LEAVING) &&
                           roster != NULL && tr_roster_role(roster, address) == TR_ROLE_NONE;
        if (sim_is_member(world, i) && !machine->is_draining && is_unwanted) {
            machine->stays_down = true; /* it was never taken in */
            machine->told_ms = 0;
            sim_drain(world, i);
            continue;
        }
        if (sim_is_member(world, i) && !machine->is_draining && has_left &&
            sim_is_empty(world, i, 0) && sim_is_balanced(world, i) && sees_all(world, i)) {
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

/* Of a node, any, that is there. */
static void ask(struct world *world, const struct tr_view_node *changes, uint32_t count)
{
    uint32_t index = (uint32_t)sim_draw(world, world->machine_count);
    struct machine *machine = &world->machines[index];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    uint16_t who = TR_MEMBER_NONE;
    if (!machine->is_ready || machine->is_draining || machine->paused_until_ms > world->now_ms ||
        machine->told_ms > 0 || tr_node_roster(machine->node)->cluster != world->cluster)
        return;
    enum tr_change result = tr_node_ask_change(machine->node, changes, count, &who);
    if (result == TR_CHANGE_MADE) {
        sim_trace(world, "operator: %s is asked for a change", sim_name(index));
        sim_fault(world, SIM_ASKED);
    }
    sim_step(world, index, &event);
}

/* A node that never comes back is said to be lost, and is taken out of the files. So is one that
 * has left and was stopped, if somebody's file that came late has named it since. */
static void bury_dead(struct world *world)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        if (!machine->is_dead && !(machine->stays_down && !machine->is_running))
            continue;
        struct tr_view_node lost = {
            .address = {world->machines[i].address, strlen(world->machines[i].address)},
            .role = TR_ROLE_LOST};
        const struct tr_roster *roster = sim_roster(world);
        if (roster == NULL)
            return;
        if (tr_roster_role(roster, lost.address) != TR_ROLE_NONE) {
            ask(world, &lost, 1);
            continue;
        }
        if (sim_view(world)->roles[i] == TR_ROLE_NONE)
            continue;
        next_view(world)->roles[i] = TR_ROLE_NONE;
        sim_trace(world, "operator: %s is gone for good", sim_name(i));
        world->scaled_ms = world->now_ms;
        give_view(world);
        return;
    }
}

/* Asks for what the cluster is to be and is not. */
static void ask_for_rest(struct world *world)
{
    struct tr_view_node changes[MACHINES_MAX];
    uint32_t count = 0;
    const struct tr_roster *roster = sim_roster(world);
    for (uint32_t i = 0; roster != NULL && i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        struct tr_span address = {machine->address, strlen(machine->address)};
        enum tr_role role = sim_view(world)->roles[i];
        enum tr_role now = tr_roster_role(roster, address);
        bool is_wanted = role == TR_ROLE_STAYING || role == TR_ROLE_JOINING;
        bool is_there = now == TR_ROLE_STAYING || now == TR_ROLE_JOINING;
        if (is_wanted != is_there && now != TR_ROLE_LOST && !machine->is_dead)
            changes[count++] = (struct tr_view_node){
                .address = address, .role = is_wanted ? TR_ROLE_JOINING : TR_ROLE_LEAVING};
    }
    if (count > 0)
        ask(world, changes, count);
}

/* Files that came too early, or never, have asked for less than they say: the operator sees that,
 * and asks for the rest. */
static void make_up(struct world *world)
{
    const struct tr_roster *roster = sim_roster(world);
    if (roster != NULL && !tr_roster_is_changing(roster) && sim_is_well(world) &&
        world->now_ms > world->scaled_ms + 5000)
        ask_for_rest(world);
}

/* Nodes that were called members too early have begun a cluster of their own, and more of those
 * that were there have taken that one, after a restart: what counts is that they agree. */
static void follow_cluster(struct world *world)
{
    bool is_one_ready = false;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        if (!sim_is_member(world, i) || !machine->is_ready || i == world->hostile ||
            tr_node_roster(machine->node)->count < 2)
            continue;
        if (tr_node_roster(machine->node)->cluster == world->cluster)
            return;
        is_one_ready = true;
    }
    for (uint32_t i = 0; is_one_ready && i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        if (sim_is_member(world, i) && machine->is_ready &&
            tr_node_roster(machine->node)->count > 1)
            world->cluster = tr_node_roster(machine->node)->cluster;
    }
}

/* Whether the cluster has heard of all that are to join. Nodes that their files call members before
 * that begin a cluster of their own, and two clusters do not become one by themselves. */
static bool are_joiners_in(const struct world *world)
{
    const struct tr_roster *roster = sim_roster(world);
    const struct sim_view *view = &world->views[world->view_number % VIEWS_MAX];
    for (uint32_t i = 0; roster != NULL && i < world->machine_count; i++) {
        const char *address = world->machines[i].address;
        if (view->roles[i] == TR_ROLE_JOINING &&
            tr_roster_role(roster, (struct tr_span){address, strlen(address)}) == TR_ROLE_NONE)
            return false;
    }
    return roster != NULL;
}

void sim_scale(struct world *world)
{
    bool can = world->faults[SIM_SCALE_UP] || world->faults[SIM_SCALE_DOWN];
    if (world->is_healed)
        follow_cluster(world);
    retire(world);
    if (world->is_healed) {
        bury_dead(world);
        make_up(world);
    }
    if (world->faults[SIM_ASKED] && sim_chance(world, 4))
        ask_for_rest(world);
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
    bool is_early = world->faults[SIM_EARLY] && !world->is_healed && sim_chance(world, 30) &&
                    are_joiners_in(world);
    bool is_done = world->now_ms > world->scaled_ms + 3000 && is_through(world) &&
                   sim_is_well(world) && sim_are_all_balanced(world);
    if (is_early)
        sim_fault(world, SIM_EARLY);
    if (is_early || is_done)
        end_scaling(world);
}
