/* SPDX-License-Identifier: Apache-2.0 */
/* Receivers: what is popped, and how that is answered. */
#include "sim/plans.h"

#include "timers/book.h"

#include <stdlib.h>
#include <string.h>

#define TOMBSTONE_MS 15000 /* a tombstone is kept at least as long */
#define TOLD_MS      1500  /* its outcome is on disk and with the others by then */
#define KNOWN_MS     800   /* what one node has known for so long, those linked to it know */
#define PASSED_ON_MS 2500  /* and of a write whose outcome is unknown, for so much longer */
#define STOP_MOST_MS 15000 /* a node that stops sees through what is under way, and waits for 3 s */

/* Whether a machine has known for a while that this pop was made: the timer is over there. */
static bool is_over_at(const struct world *world, uint32_t index, const struct tr_record *popped,
                       uint64_t known_ms)
{
    const struct machine *machine = &world->machines[index];
    struct tr_node_walk walk = {.hash = tr_book_hash(popped->head.key.id)};
    struct tr_record record;
    while (machine->is_ready && tr_node_next_record(machine->node, &walk, &record) &&
           record.head.key.id == popped->head.key.id) {
        tr_steady_ms kept_ms = record.head.due_ms - record.head.lag_ms;
        bool is_old = kept_ms + known_ms < tr_node_steady(machine->node) + TOMBSTONE_MS;
        if (tr_key_equals(&record.head.key, &popped->head.key) && is_old && walk.is_safe &&
            (record.head.flags & TR_RECORD_TOMBSTONE) != 0 &&
            (record.head.flags & TR_RECORD_KEYED) == 0 &&
            tr_order_compare(&record.head.order, &popped->head.order) > 0)
            return true;
    }
    return false;
}

/* What another node knows, it must have been told, when both have been linked for a while. A
 * cancellation that is not answered is no such knowledge: it keeps its age when it is stamped
 * anew. If its outcome is unknown, since its coordinator crashed or said so, a node that has it
 * takes a while to pass it on. */
static void check_known(struct world *world, uint32_t index, uint32_t write,
                        const struct tr_record *popped)
{
    const struct sim_write *writes = world->model.writes;
    const struct sim_write *race = &writes[writes[write].races];
    const struct sim_write *next = &writes[writes[write].replaced_by];
    if (sim_write_is_open(race) || sim_write_is_open(next))
        return;
    uint64_t known_ms = KNOWN_MS + (race->is_maybe || next->is_maybe ? PASSED_ON_MS : 0);
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct link *link = &world->links[i < index ? i : index][i < index ? index : i];
        const struct machine *machine = &world->machines[i];
        bool is_heard = i != index && machine->is_running && link->is_up &&
                        world->now_ms > link->up_ms + KNOWN_MS + 4 * world->latency_ms &&
                        machine->paused_until_ms + KNOWN_MS < world->now_ms;
        if (is_heard && is_over_at(world, i, popped, known_ms))
            sim_break(world, "a pop that another node knew to be over");
    }
}

/* For how long a node has been stopping that just stops, or has just stopped. */
static uint64_t stopping_for(const struct world *world)
{
    uint64_t longest_ms = 0;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        bool is_it = machine->is_draining || machine->is_stopped || !machine->is_running;
        uint64_t for_ms = world->now_ms - machine->drained_ms;
        if (machine->drained_ms > 0 && is_it && for_ms < STOP_MOST_MS && for_ms > longest_ms)
            longest_ms = for_ms;
    }
    return longest_ms;
}

/* The node that has made this pop got no time to run after it: others could not hear of it. Or one
 * got none while the timer was set. */
static bool may_repeat(const struct world *world, uint32_t write, uint64_t sequence)
{
    const struct sim_write *made = &world->model.writes[write];
    if (write >= world->model.count || sequence < 1 || sequence > SIM_POPS_MAX)
        return false;
    const struct machine *maker = &world->machines[made->fired_by[sequence - 1]];
    uint64_t fired_ms = made->fired_ms[sequence - 1];
    uint64_t ended_ms = made->delivered_ms[sequence - 1]; /* 0: it is under way */
    bool is_told = ended_ms > 0 && maker->starved_ms > ended_ms + TOLD_MS + 4 * world->latency_ms;
    bool is_untold = maker->starved_ms >= fired_ms && !is_told;
    return is_untold || (made->is_starved && sequence == 1);
}

static void note_maker(struct world *world, uint32_t index, uint32_t write, uint64_t sequence)
{
    if (write >= world->model.count || sequence < 1 || sequence > SIM_POPS_MAX)
        return;
    world->model.writes[write].fired_by[sequence - 1] = index;
    world->model.writes[write].fired_ms[sequence - 1] = world->now_ms;
}

void sim_fire(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    struct tr_record record;
    tr_node_record(world->machines[index].node, effect->of.fire.ref, &record);
    char number[16] = {0};
    memcpy(number, record.opaque.text, record.opaque.size < 15 ? record.opaque.size : 15);
    uint32_t write = (uint32_t)strtoul(number, NULL, 10);
    uint64_t sequence = tr_record_pop(&record);
    sim_trace(world, "%s pops %u.%llu", sim_name(index), write, (unsigned long long)sequence);
    world->fired_ms = world->now_ms;
    if (write < world->model.count)
        world->model.writes[write].fired_id = record.head.key.id;
    world->model.stop_late_ms = stopping_for(world);
    world->model.may_repeat = world->faults[SIM_STARVED] && may_repeat(world, write, sequence);
    sim_model_fire(&world->model, write, sequence, world->now_ms, 0);
    note_maker(world, index, write, sequence);
    if (write < world->model.count)
        sim_plans_popped(world, write, &record);
    if (world->is_lone && !world->is_tight && !world->options->is_hostile &&
        write < world->model.count)
        check_known(world, index, write, &record);
    unsigned status = world->is_healed ? 200 : world->receiver_status[write % RECEIVERS];
    struct sim_pending pending = {
        .what = HAPPENS_CALLBACK,
        .number = effect->of.fire.flight,
        .result = status == 0 ? TR_CALLBACK_UNREACHED : TR_CALLBACK_ANSWERED,
        .status = status,
        .write = write,
        .sequence = sequence,
    };
    /* That a receiver is slow is no fault: it is called once all the same. */
    bool is_slow = !world->is_healed && sim_chance(world, 30);
    uint64_t delay = world->slow_ms + (is_slow ? sim_draw(world, 9000) : sim_draw(world, 20));
    if (is_slow)
        sim_fault(world, SIM_SLOW);
    if (world->faults[SIM_LIE] && !world->is_healed && sim_chance(world, 10)) {
        /* It has the pop, and says that it failed, or nothing. */
        sim_fault(world, SIM_LIE);
        pending.result = sim_chance(world, 2) ? TR_CALLBACK_TIMED_OUT : TR_CALLBACK_ANSWERED;
        pending.status = 500;
    }
    sim_plan(world, index, pending, 1 + delay);
}

void sim_note(struct world *world, const struct tr_effect *effect)
{
    bool is_lost =
        effect->of.note.what == TR_NOTE_DEAD || effect->of.note.what == TR_NOTE_DISCARDED;
    for (uint32_t i = 1; is_lost && i < world->model.count; i++) {
        struct sim_write *write = &world->model.writes[i];
        bool is_it = write->id == effect->of.note.id || write->fired_id == effect->of.note.id;
        if (is_it && effect->of.note.number >= 1 && effect->of.note.number <= SIM_POPS_MAX)
            write->is_dead[effect->of.note.number - 1] = true;
    }
}
