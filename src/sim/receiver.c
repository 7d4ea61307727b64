/* SPDX-License-Identifier: Apache-2.0 */
/* Receivers: what is popped, and how that is answered. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

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
    sim_model_fire(&world->model, write, sequence, world->now_ms, 0);
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
