/* SPDX-License-Identifier: Apache-2.0 */
/* Clients, on whatever node they find. */
#include "sim/plans.h"

#include "timers/book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RASH_MS     500
#define PATIENCE_MS 400
#define FULL_MS     250  /* after which a node without room is tried once more */
#define VIEW_MS     1000 /* in which all hear of a view, and act on it */
#define CLEAR_MS    3000
#define LONG_MS     3600000 /* a timer that is still there when the life is over */

static uint64_t draw_interval(struct world *world)
{
    if (world->is_sluggish && sim_chance(world, 2))
        return LONG_MS + sim_draw(world, LONG_MS);
    if (world->faults[SIM_ZERO] && sim_chance(world, 6)) {
        sim_fault(world, SIM_ZERO);
        return 0;
    }
    switch (sim_draw(world, 8)) {
    case 0:
        return 1 + sim_draw(world, 50);
    case 1:
        return 20000 + sim_draw(world, 20000);
    case 2:
        return LONG_MS + sim_draw(world, LONG_MS);
    case 3:
        return 100 + sim_draw(world, 1500);
    default:
        return 1 + sim_draw(world, 6000);
    }
}

static void fill_body(struct world *world, uint32_t number)
{
    const struct sim_write *write = &world->model.writes[number];
    int size = snprintf(world->opaque, sizeof world->opaque, "%u ", number);
    /* Of all sizes, where something is to be full of them. */
    bool is_large = sim_chance(world, 30) || world->faults[SIM_MEMORY] ||
                    world->faults[SIM_FULL_LONG] || world->options->is_full;
    size_t extra = is_large ? sim_draw(world, 900) : sim_draw(world, 60);
    memset(world->opaque + size, 'x', extra);
    snprintf(world->uri, sizeof world->uri, "http://receiver-%u/pop", number % RECEIVERS);
    world->body = (struct tr_timer_body){
        .interval_ms = write->interval_ms,
        .repeat_ms = write->pops > 1 ? write->interval_ms * write->pops : 0,
        .uri = {world->uri, strlen(world->uri)},
        .opaque = {world->opaque, (size_t)size + extra},
        .factor = write->factor,
        .plan = {.cron = {"", 0}, .zone = {"", 0}, .headers = {"", 0}, .ce_type = {"", 0}},
        .own = {{"", 0}, {"", 0}, {"", 0}},
        .pops = write->pops > 1 ? write->pops : 1,
    };
    if (world->options->has_plans)
        sim_plans_fill(world, number);
}

/* The latest write to the id of an earlier timer; 0: none was found. */
static uint32_t pick_write(struct world *world)
{
    for (unsigned i = 0; i < 8 && world->model.count > 1; i++) {
        uint32_t number = 1 + (uint32_t)sim_draw(world, world->model.count - 1);
        uint32_t back = (uint32_t)sim_draw(world, 40);
        if (world->is_sluggish && back < world->model.count - 1)
            number = world->model.count - 1 - back;
        else if (sim_chance(world, 3) && world->recent != 0)
            number = world->recent; /* at once, before all clocks have heard of it */
        while (world->model.writes[number].replaced_by != 0)
            number = world->model.writes[number].replaced_by;
        const struct sim_write *write = &world->model.writes[number];
        bool is_free =
            !sim_write_is_open(write) && !sim_write_is_open(&world->model.writes[write->races]);
        if (write->id != 0 && is_free && !write->has_key)
            return number;
    }
    return 0;
}

static uint32_t new_write(struct world *world, uint32_t old, bool is_cancel)
{
    uint64_t interval = draw_interval(world);
    bool is_repeated =
        interval > 0 && interval < 10000 && sim_chance(world, interval < 1600 ? 2 : 4);
    uint32_t pops = is_repeated ? 1 + (uint32_t)sim_draw(world, SIM_POPS_MAX) : 1;
    struct sim_write write = {
        .id = old != 0 ? world->model.writes[old].id : 0,
        .replicas = old != 0 ? world->model.writes[old].replicas : 0,
        .asked_ms = world->now_ms,
        .interval_ms = interval,
        .pops = is_cancel ? 0 : pops,
        .is_long = interval >= LONG_MS,
        .follows = old,
        .is_clear = world->now_ms > world->model.impaired_ms + CLEAR_MS &&
                    world->now_ms > world->broken_ms + CLEAR_MS,
        .is_rash = world->model.has_faults && old != 0 &&
                   world->now_ms < world->model.writes[old].acked_ms + RASH_MS,
        .factor = old != 0 ? world->model.writes[old].factor
                           : 1 + (uint32_t)sim_draw(world, world->faults[SIM_FACTORS] ? 8 : 3),
    };
    if (write.factor > 3 && old == 0)
        sim_fault(world, SIM_FACTORS);
    uint32_t number = sim_model_ask(&world->model, write);
    sim_model_follow(&world->model, old, number);
    return number;
}

static void read_one(struct world *world, uint32_t index, struct tr_event *event)
{
    uint32_t old = pick_write(world);
    if (old == 0)
        return;
    const struct sim_write *write = &world->model.writes[old];
    static const struct tr_query query;
    event->of.request.command = sim_chance(world, 5) ? TR_COMMAND_REDRIVE : TR_COMMAND_READ;
    event->of.request.query = &query;
    event->of.request.token = ++world->token;
    event->of.request.timer = (struct tr_timer_text){
        .id = write->id, .factor = write->factor, .replicas = write->replicas};
    world->open[world->open_count++] = (struct open_request){
        .token = world->token,
        .machine = index,
        .subject = event->of.request.command == TR_COMMAND_READ ? old : 0,
        .asked_ms = world->now_ms,
    };
    if (event->of.request.command == TR_COMMAND_REDRIVE)
        sim_model_redrive(&world->model, write->id);
    sim_trace(world, "client reads %u on %s", old, sim_name(index));
    sim_step(world, index, event);
}

static bool is_outdated(const struct world *world, uint32_t index)
{
    return !sim_is_current(world, index);
}

/* It is of no cluster yet, or of another one: nobody else hears what it is told. */
static bool is_stranger(const struct world *world, uint32_t index)
{
    const struct tr_roster *roster = sim_roster(world);
    return roster != NULL &&
           tr_node_roster(world->machines[index].node)->cluster != roster->cluster;
}

/* It has not heard of the latest view, or does not see everybody. */
static bool is_torn(const struct world *world, uint32_t index)
{
    if (is_outdated(world, index))
        return true;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        const struct link *link = index < i ? &world->links[index][i] : &world->links[i][index];
        if (i != index && machine->is_used && !machine->stays_down &&
            (!link->is_up || world->now_ms < link->up_ms + 500 + 4 * world->latency_ms ||
             is_outdated(world, i)))
            return true;
    }
    return false;
}

/* Another client, on another node, writes to the same timer before the first is answered. */
static void race(struct world *world, uint32_t first, struct tr_condition condition)
{
    uint32_t index = (uint32_t)sim_draw(world, world->machine_count);
    const struct machine *machine = &world->machines[index];
    bool is_cancel = sim_chance(world, 2);
    if (world->open_count == OPEN_MAX || !machine->is_ready || index == world->hostile ||
        machine->paused_until_ms > world->now_ms || machine->told_ms > 0)
        return;
    uint32_t number = new_write(world, first, is_cancel);
    struct sim_write *write = &world->model.writes[number];
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    write->races = first;
    world->model.writes[first].races = number;
    write->copies = sim_reach(world, index);
    write->is_torn = is_torn(world, index);
    write->is_outdated = is_outdated(world, index);
    write->is_rash |= is_stranger(world, index);
    fill_body(world, number);
    event.of.request.token = ++world->token;
    event.of.request.command = is_cancel ? TR_COMMAND_CANCEL : TR_COMMAND_REPLACE;
    event.of.request.body = &world->body;
    event.of.request.condition = condition;
    write->wants = world->model.writes[first].wants;
    event.of.request.timer = (struct tr_timer_text){
        .id = write->id, .factor = write->factor, .replicas = write->replicas};
    world->open[world->open_count++] = (struct open_request){
        .token = world->token, .write = number, .machine = index, .asked_ms = world->now_ms};
    sim_fault(world, SIM_RACE);
    sim_trace(world, "client %s %u on %s, due in %llu ms, beside %u",
              is_cancel ? "cancels" : "replaces", number, sim_name(index),
              (unsigned long long)write->interval_ms, first);
    sim_step(world, index, &event);
}

void sim_ask(struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    bool is_stranger = machine->told_ms > 0; /* no client knows it yet */
    if (world->open_count == OPEN_MAX || !machine->is_ready || index == world->hostile ||
        machine->paused_until_ms > world->now_ms || is_stranger)
        return;
    if (sim_chance(world, 8)) {
        read_one(world, index, &event);
        return;
    }
    uint32_t old = sim_chance(world, 3) ? pick_write(world) : 0;
    bool is_cancel = old != 0 && sim_chance(world, 2);
    bool is_keyed = old == 0 && sim_chance(world, 12);
    uint32_t number = new_write(world, old, is_cancel);
    struct sim_write *write = &world->model.writes[number];
    fill_body(world, number);
    event.of.request.token = ++world->token;
    event.of.request.command = old == 0    ? TR_COMMAND_CREATE
                               : is_cancel ? TR_COMMAND_CANCEL
                                           : TR_COMMAND_REPLACE;
    event.of.request.body = &world->body;
    bool has_twin = is_keyed && world->options->has_plans && sim_chance(world, 2);
    if (is_keyed) {
        unsigned key = has_twin ? 1000 + number : (unsigned)sim_draw(world, 20);
        snprintf(world->key, sizeof world->key, "key %u", key);
        event.of.request.key = (struct tr_span){world->key, strlen(world->key)};
        write->has_key = true;
    }
    if (old != 0)
        event.of.request.timer = (struct tr_timer_text){
            .id = write->id, .factor = write->factor, .replicas = write->replicas};
    world->open[world->open_count++] = (struct open_request){
        .token = world->token, .write = number, .machine = index, .asked_ms = world->now_ms};
    write->copies = sim_reach(world, index);
    write->is_torn = is_torn(world, index);
    write->is_outdated = is_outdated(world, index);
    world->result.operations++;
    sim_trace(world, "client %s %u on %s, due in %llu ms%s%u",
              is_cancel  ? "cancels"
              : old != 0 ? "replaces"
                         : "creates",
              number, sim_name(index), (unsigned long long)write->interval_ms,
              old != 0 ? ", over " : ", copies ", old != 0 ? old : write->factor);
    if (world->options->has_plans && old != 0 && sim_chance(world, 2))
        sim_plans_want(world, number, &event.of.request.condition);
    sim_step(world, index, &event);
    if (world->faults[SIM_RACE] && old != 0 && sim_chance(world, 2))
        race(world, number, event.of.request.condition);
    if (has_twin && sim_plans_twin(world, number, &event, &index))
        sim_step(world, index, &event);
}

static void create_on(struct world *world, uint32_t index, uint32_t namesake)
{
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    uint32_t number = new_write(world, 0, false);
    world->model.writes[number].copies = sim_reach(world, index);
    world->model.writes[number].namesake = namesake;
    fill_body(world, number);
    event.of.request.token = ++world->token;
    event.of.request.command = TR_COMMAND_CREATE;
    event.of.request.body = &world->body;
    world->open[world->open_count++] = (struct open_request){
        .token = world->token, .write = number, .machine = index, .asked_ms = world->now_ms};
    sim_trace(world, "client creates %u on %s", number, sim_name(index));
    sim_step(world, index, &event);
}

/* A client that gives a timer, by PUT, the very id that another node is about to draw. While nodes
 * do not hear each other that one may not find out. */
void sim_collide(struct world *world)
{
    bool is_clear = world->now_ms > world->model.impaired_ms + CLEAR_MS;
    if (world->recent == 0 || world->faults[SIM_SKEW] || world->model.lost_ms > 0 || !is_clear ||
        world->is_scaling || world->now_ms < world->scaled_ms + 5000)
        return;
    struct sim_write made = world->model.writes[world->recent];
    uint32_t index = (uint32_t)(made.id >> 20 & 0x3ff);
    uint32_t other = (uint32_t)sim_draw(world, world->machine_count);
    uint64_t at_ms = world->now_ms + 20;
    if (made.has_key || made.follows != 0 || index == other || index >= world->machine_count ||
        !world->machines[index].is_ready || !world->machines[other].is_ready ||
        world->machines[index].told_ms > 0 || world->machines[other].told_ms > 0 ||
        world->open_count + 2 > OPEN_MAX)
        return;
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    uint32_t number = new_write(world, 0, false);
    struct sim_write *write = &world->model.writes[number];
    write->id = (at_ms & (((uint64_t)1 << 34) - 1)) << 30 | (made.id & 0x3fffffff);
    write->id = (write->id & ~(uint64_t)0xfffff) | ((made.id + 1) & 0xfffff);
    write->copies = sim_reach(world, other);
    fill_body(world, number);
    event.of.request.token = ++world->token;
    event.of.request.command = TR_COMMAND_REPLACE;
    event.of.request.body = &world->body;
    event.of.request.timer = (struct tr_timer_text){.id = write->id, .factor = write->factor};
    world->open[world->open_count++] = (struct open_request){
        .token = world->token, .write = number, .machine = other, .asked_ms = world->now_ms};
    sim_trace(world, "client puts %u on %s, at an id to come", number, sim_name(other));
    sim_step(world, other, &event);
    sim_advance(world, at_ms);
    /* If it is not there yet, which of the two is first is anybody's guess: the moment passes. */
    if (world->machines[index].is_ready && world->machines[index].told_ms == 0 &&
        world->model.writes[number].is_acked)
        create_on(world, index, number);
    else
        sim_advance(world, at_ms + 2);
}

/* ---- answers ---- */

bool sim_is_settled(const struct world *world, uint64_t since_ms)
{
    return world->scaled_ms + VIEW_MS + 4 * world->latency_ms <= since_ms;
}

/* Machines that hold this write, durably, or may: those that are down, and those on which it has
 * begun to move since. */
static unsigned count_copies(const struct world *world, uint32_t number)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        struct tr_node_walk walk = {.hash = tr_book_hash(world->model.writes[number].id)};
        struct tr_record record;
        bool is_there = machine->is_used && !machine->is_ready;
        while (machine->is_ready && !is_there &&
               tr_node_next_record(machine->node, &walk, &record) &&
               walk.hash == tr_book_hash(world->model.writes[number].id))
            is_there = strtoul(record.opaque.text, NULL, 10) == number &&
                       (walk.is_safe || record.head.order.moves > 0);
        count += is_there;
    }
    return count;
}

/* A create that drew an id which somebody was given: while nodes do not hear each other, either may
 * be the later. */
static void meet_namesake(struct world *world, uint32_t number)
{
    struct sim_write *write = &world->model.writes[number];
    for (uint32_t i = 1; i < number && write->follows == 0 && !write->has_key; i++) {
        struct sim_write *other = &world->model.writes[i];
        if (other->id == write->id && other->follows == 0 && !other->has_key &&
            world->model.impaired_ms >= other->asked_ms) {
            other->races = number;
            write->races = i;
        }
    }
}

static void answer_write(struct world *world, const struct open_request *request,
                         const struct tr_effect *effect)
{
    struct sim_write *write = &world->model.writes[request->write];
    unsigned reach = sim_reach(world, request->machine);
    write->is_acked = effect->of.answer.result == TR_DONE;
    write->is_refused = !write->is_acked;
    write->is_maybe = !write->is_acked && effect->of.answer.has_location;
    write->acked_ms = world->now_ms;
    write->is_torn |= is_torn(world, request->machine);
    write->is_outdated |= is_outdated(world, request->machine);
    write->copies = reach < write->copies ? reach : write->copies;
    write->copies = write->factor < write->copies ? write->factor : write->copies;
    bool may_be_full = world->faults[SIM_MEMORY] || world->faults[SIM_FULL] ||
                       world->faults[SIM_FULL_LONG] || world->faults[SIM_FULL_RESTART] ||
                       world->faults[SIM_FULL_JOINER] || world->is_tight;
    /* A coordinator waits for half a second, or four round trips, of which one way may be fast. */
    uint64_t slow_ms = 4 * world->latency_ms;
    uint64_t patience_ms = may_be_full ? FULL_MS : slow_ms > PATIENCE_MS ? slow_ms : PATIENCE_MS;
    if (world->now_ms >= request->asked_ms + patience_ms)
        write->copies = 1; /* somebody was silent or full: it was answered with what there was */
    if (write->is_acked && effect->of.answer.has_location) {
        write->id = effect->of.answer.location.id;
        write->replicas = effect->of.answer.location.replicas;
        world->recent = request->write;
        meet_namesake(world, request->write);
        bool is_pending = write->pops > 0 && !write->has_key && write->replaced_by == 0 &&
                          write->races == 0 && sim_write_due(write, 1) > world->now_ms;
        /* Else, who knows who sees whom; or, between two changes, where it is to be: a view that
         * is taken back at once may have had fewer nodes than it has copies. */
        bool is_changing = (world->faults[SIM_SECOND] || world->faults[SIM_TAKEN_BACK]) &&
                           !sim_is_settled(world, request->asked_ms);
        bool is_sure = (world->is_lone || !world->model.has_faults) && !is_changing;
        if (is_pending && is_sure && !world->model.is_off &&
            count_copies(world, request->write) < write->copies)
            sim_break(world, "a write was answered with too few copies");
    }
    /* Two writes of one timer that moves meanwhile, or one of them on a node that stops, may hold
     * each other up for too long. */
    bool is_changed = !sim_is_settled(world, request->asked_ms);
    bool is_stopping = world->machines[request->machine].is_draining;
    bool is_contested = write->races > 0 && (world->is_scaling || is_changed || is_stopping);
    bool is_starved =
        world->faults[SIM_STARVED] && world->now_ms < world->model.impaired_ms + SIM_GRACE_MS;
    if (write->is_maybe && !write->is_torn && !is_contested && !world->model.has_faults &&
        !is_starved && !world->is_tight && !world->options->is_hostile)
        sim_break(world, "the outcome of a write is unknown, without a fault");
    if (effect->of.answer.result == TR_MEMORY_FULL)
        sim_fault(world, SIM_MEMORY);
    sim_trace(world, "%s answers %u: %s", sim_name(request->machine), request->write,
              tr_result_name(effect->of.answer.result));
    if (world->options->has_plans)
        sim_plans_answered(world, request->write, sim_is_settled(world, request->asked_ms));
}

/* Without faults a read tells what was acknowledged. */
static void answer_read(struct world *world, const struct open_request *request, bool is_there)
{
    const struct sim_write *write = &world->model.writes[request->subject];
    uint64_t end_ms = sim_write_due(write, write->pops);
    bool is_sure = write->is_acked && write->replaced_by == 0 && write->races == 0 &&
                   !world->model.has_faults && write->acked_ms < request->asked_ms;
    /* A node that has not heard of a view yet, and to which what others say of theirs is on its
     * way, looks where the view before places it. */
    bool has_not_heard = world->latency_ms > 0 && is_outdated(world, request->machine) &&
                         !sim_is_settled(world, request->asked_ms);
    /* Nor has a node that got no time heard what others were told meanwhile. */
    bool has_missed =
        world->faults[SIM_STARVED] && world->now_ms < world->model.impaired_ms + SIM_GRACE_MS;
    sim_trace(world, "%s reads %u: %s", sim_name(request->machine), request->subject,
              is_there ? "there" : "not there");
    if (world->model.is_off || has_not_heard || has_missed)
        return;
    if (is_sure && write->pops > 0 && end_ms > world->now_ms + 1000 && !is_there)
        sim_break(world, "a timer that was acknowledged is not there");
    if (is_sure && write->pops == 0 && is_there)
        sim_break(world, "a timer that was cancelled is there");
}

void sim_answer(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    bool is_timer = effect->kind == TR_EFFECT_ANSWER_TIMER;
    uint64_t token = is_timer ? effect->of.timer.token : effect->of.answer.token;
    for (uint32_t i = 0; i < world->open_count; i++) {
        struct open_request request = world->open[i];
        if (request.token != token)
            continue;
        world->open[i] = world->open[--world->open_count];
        if (is_timer) {
            struct tr_record record;
            tr_node_record(world->machines[index].node, effect->of.timer.ref, &record);
            if (record.uri.size == 0)
                sim_break(world, "a timer that is read has no URI");
        }
        if (request.twin != 0)
            sim_plans_twin_answered(world, &request, effect,
                                    sim_is_settled(world, request.asked_ms));
        else if (request.write != 0)
            answer_write(world, &request, effect);
        else if (request.subject != 0 && (is_timer || effect->of.answer.result == TR_NOT_FOUND))
            answer_read(world, &request, is_timer);
        return;
    }
    sim_break(world, "an answer to nobody");
}
