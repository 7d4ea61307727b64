/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/plans.h"

#include "timers/book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_MS 1000

/* ---- timers ---- */

/* Every second, fourth or sixth second. Where files differ the other zone's occurrences are half
 * way between. */
static void fill_cron(struct world *world, struct sim_write *write)
{
    static const char *const every[] = {"*/2 * * * * *", "*/4 * * * * *", "*/6 * * * * *"};
    static const char *const zones[] = {"1", "2", "3"};
    struct tr_timer_body *body = &world->body;
    uint64_t kind = sim_draw(world, 3);
    uint64_t period_ms = (kind + 1) * 2 * SECOND_MS;
    body->plan.timing = TR_TIMING_CRON;
    body->plan.cron = (struct tr_span){every[kind], strlen(every[kind])};
    body->plan.zone = (struct tr_span){zones[kind], 1};
    body->plan.missed = TR_MISSED_ALL;
    body->interval_ms = body->repeat_ms = 0;
    write->is_cron = true;
    write->is_long = false;
    write->interval_ms = period_ms;
    write->from_ms = world->now_ms / period_ms * period_ms;
    write->step_ms = period_ms;
    if (world->faults[SIM_ZONES]) { /* any of both is next */
        write->step_ms = period_ms / 2;
        write->from_ms = world->now_ms / write->step_ms * write->step_ms;
    }
    sim_fault(world, SIM_CRON);
}

/* The wall clock is right on all machines of such a life: what goes by it is due when an interval
 * would be. */
void sim_plans_fill(struct world *world, uint32_t number)
{
    static const char headers[] = "X-Kind: planned\r\n";
    struct tr_timer_body *body = &world->body;
    struct sim_write *write = &world->model.writes[number];
    if (number % 4 == 1 && write->pops > 0) {
        fill_cron(world, write);
    } else if (number % 2 == 0 && body->interval_ms > 0) {
        body->plan.timing = TR_TIMING_AT;
        body->at_ms = world->now_ms + body->interval_ms;
    }
    if (number % 3 == 0)
        body->plan.headers = (struct tr_span){headers, sizeof headers - 1};
    if (number % 5 == 0)
        body->own.name = body->uri;
}

/* By the same files everywhere the instant is known; else it is one of those that are, and later
 * than the one before. */
void sim_plans_popped(struct world *world, uint32_t number, const struct tr_record *record)
{
    struct sim_write *write = &world->model.writes[number];
    uint64_t sequence = tr_record_pop(record);
    uint64_t instant_ms = record->head.instant_ms;
    if (!write->is_cron || sequence > SIM_POPS_MAX)
        return;
    uint64_t before_ms = sequence > 1 ? write->instants[sequence - 2] : 0;
    bool is_exact = instant_ms == write->from_ms + sequence * write->step_ms;
    if (instant_ms > world->now_ms + world->model.most_early_ms)
        sim_break(world, "an occurrence before its instant");
    if (!world->faults[SIM_ZONES] && !is_exact)
        sim_break(world, "an occurrence at another instant");
    if (instant_ms % write->step_ms != 0)
        sim_break(world, "a pop at no occurrence");
    if (!world->model.has_faults && before_ms > 0 && instant_ms <= before_ms)
        sim_break(world, "an occurrence twice, or out of order");
    write->instants[sequence - 1] = instant_ms;
}

/* ---- conditions ---- */

void sim_plans_want(struct world *world, uint32_t number, struct tr_condition *condition)
{
    struct sim_write *write = &world->model.writes[number];
    struct tr_record record;
    for (uint32_t i = 0; i < world->machine_count && condition->when == TR_WHEN_ANY; i++) {
        const struct machine *machine = &world->machines[i];
        struct tr_node_walk walk = {.hash = tr_book_hash(write->id)};
        while (machine->is_ready && tr_node_next_record(machine->node, &walk, &record) &&
               walk.hash == tr_book_hash(write->id)) {
            if (record.head.key.id != write->id || record.head.key.part > 0 ||
                (record.head.flags & (TR_RECORD_TOMBSTONE | TR_RECORD_DEAD)) != 0)
                continue;
            *condition = (struct tr_condition){.when = TR_WHEN_SAME,
                                               .version = record.head.order.version,
                                               .sequence = record.head.order.sequence,
                                               .attempt = record.head.order.attempt};
            break;
        }
    }
    write->wants = condition->when == TR_WHEN_SAME ? condition->version : 0;
    if (write->wants != 0)
        sim_fault(world, SIM_CONDITION);
}

/* ---- twins ---- */

bool sim_plans_twin(struct world *world, uint32_t number, struct tr_event *again, uint32_t *on)
{
    uint32_t index = (uint32_t)sim_draw(world, world->machine_count);
    const struct machine *machine = &world->machines[index];
    if (world->open_count == OPEN_MAX || !machine->is_ready || index == world->hostile ||
        machine->paused_until_ms > world->now_ms || machine->told_ms > 0)
        return false;
    again->of.request.token = ++world->token;
    struct sim_write *write = &world->model.writes[number];
    write->has_twin = true;
    write->is_maybe |= write->is_refused; /* by that node, and perhaps not by this one */
    world->open[world->open_count++] = (struct open_request){
        .token = world->token, .machine = index, .twin = number, .asked_ms = world->now_ms};
    sim_fault(world, SIM_TWIN);
    sim_trace(world, "client creates %u on %s, too", number, sim_name(index));
    *on = index;
    return true;
}

void sim_plans_twin_answered(struct world *world, const struct open_request *request,
                             const struct tr_effect *effect, bool is_settled)
{
    struct sim_write *write = &world->model.writes[request->twin];
    bool is_done = effect->of.answer.result == TR_DONE;
    sim_trace(world, "%s answers the twin of %u: %s", sim_name(request->machine), request->twin,
              tr_result_name(effect->of.answer.result));
    if (!effect->of.answer.has_location)
        return;
    if (is_done)
        write->twin_id = effect->of.answer.location.id;
    sim_plans_answered(world, request->twin, is_settled);
}

void sim_plans_answered(struct world *world, uint32_t number, bool is_settled)
{
    struct sim_write *write = &world->model.writes[number];
    const struct sim_write *other = &world->model.writes[write->races];
    write->is_maybe |= write->is_refused && write->has_twin;
    if (world->model.has_faults || world->is_tight || write->is_torn || !write->is_clear ||
        !write->is_acked || !is_settled)
        return;
    if (write->wants != 0 && other->is_acked && other->wants == write->wants && !other->is_torn)
        sim_break(world, "two writes won that wanted the same state");
    if (write->twin_id != 0 && write->id != write->twin_id)
        sim_break(world, "one key has made two timers");
}
