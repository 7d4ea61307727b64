/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/pairs_parts.h"

#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_MS   100  /* one way, of links that take long */
#define CANCEL_MS 1500 /* before its time, an appointment may be cancelled */

/* ---- asking ---- */

static uint32_t new_write(struct sim_pairs *pairs, struct key_write write)
{
    if (pairs->write_count == WRITES_MAX)
        return 0;
    if (write.key < KEYS && (write.is_end || write.expires_ms != NEVER))
        pairs->scan.was_throughout[write.key] = false;
    pairs->writes[pairs->write_count] = write;
    return pairs->write_count++;
}

static void fill_value(struct world *world, struct tr_key_command *command, uint32_t number)
{
    struct sim_pairs *pairs = world->pairs;
    int size = snprintf(pairs->value, sizeof pairs->value, "%u ", number);
    size_t extra = sim_chance(world, 20) ? sim_draw(world, 900) : sim_draw(world, 60);
    memset(pairs->value + size, 'y', extra);
    command->value = (struct tr_span){pairs->value, (size_t)size + extra};
}

static void hear_answer(struct world *world, uint32_t index, const struct tr_effect *effect);

static void send(struct world *world, struct key_open open, const struct tr_key_command *command)
{
    struct sim_pairs *pairs = world->pairs;
    struct tr_event event = {.kind = TR_EVENT_TICK};
    struct tr_key_result result;
    struct machine *machine = &world->machines[open.machine];
    open.token = ++pairs->token;
    open.epoch = world->epoch;
    pairs->open[pairs->open_count++] = open;
    bool is_over = tr_node_ask_key(machine->node, open.token, command, &result);
    if (is_over && result.outcome == TR_KEY_REFUSED && result.refusal == TR_STARTING)
        sim_trace(world, "%s starts", sim_name(open.machine));
    if (is_over) {
        struct tr_effect effect = {.kind = TR_EFFECT_KEY};
        effect.of.key.token = open.token;
        effect.of.key.result = result;
        hear_answer(world, open.machine, &effect);
    }
    sim_step(world, open.machine, &event);
}

static void ask_read(struct world *world, uint32_t index, uint32_t key)
{
    const struct sim_pairs *pairs = world->pairs;
    struct key_open open = {
        .kind = ASK_READ,
        .machine = index,
        .key = key,
        .acknowledged = pairs->acked[key],
        .is_sure = sim_pairs_are_sure(world),
    };
    struct tr_key_command command = {.verb = TR_KEY_READ,
                                     .key = {pairs->names[key], strlen(pairs->names[key])}};
    sim_trace(world, "client reads %s on %s", pairs->names[key], sim_name(index));
    send(world, open, &command);
}

static void ask_set(struct world *world, uint32_t index, uint32_t key)
{
    struct sim_pairs *pairs = world->pairs;
    uint64_t life_ms = sim_chance(world, 4) ? 50 + sim_draw(world, 6000) : 0;
    uint32_t write = new_write(
        pairs, (struct key_write){.key = key,
                                  .expires_ms = life_ms > 0 ? world->now_ms + life_ms : NEVER});
    if (write == 0)
        return;
    struct tr_key_command command = {
        .verb = TR_KEY_SET,
        .key = {pairs->names[key], strlen(pairs->names[key])},
        .expiry = life_ms > 0 ? TR_EXPIRY_AT : TR_EXPIRY_NONE,
        .expires_ms = tr_node_steady(world->machines[index].node) + life_ms,
    };
    fill_value(world, &command, write);
    sim_trace(world, "client sets %s to %u on %s, for %llu ms", pairs->names[key], write,
              sim_name(index), (unsigned long long)life_ms);
    send(world, (struct key_open){.kind = ASK_WRITE, .machine = index, .key = key, .write = write},
         &command);
}

static void ask_delete(struct world *world, uint32_t index, uint32_t key)
{
    struct sim_pairs *pairs = world->pairs;
    uint32_t write =
        new_write(pairs, (struct key_write){.key = key, .is_end = true, .expires_ms = NEVER});
    if (write == 0)
        return;
    struct tr_key_command command = {.verb = TR_KEY_DELETE,
                                     .key = {pairs->names[key], strlen(pairs->names[key])}};
    sim_trace(world, "client deletes %s (%u) on %s", pairs->names[key], write, sim_name(index));
    send(world, (struct key_open){.kind = ASK_DELETE, .machine = index, .key = key, .write = write},
         &command);
}

static void ask_count(struct world *world, uint32_t index, uint32_t key)
{
    struct sim_pairs *pairs = world->pairs;
    uint32_t write = new_write(pairs, (struct key_write){.key = key, .expires_ms = NEVER});
    if (write == 0)
        return;
    struct tr_key_command command = {
        .verb = TR_KEY_ADD,
        .number = 1,
        .expiry = TR_EXPIRY_KEEP,
        .key = {pairs->names[key], strlen(pairs->names[key])},
    };
    sim_trace(world, "client adds to %s (%u) on %s", pairs->names[key], write, sim_name(index));
    pairs->uncertain[key - (KEYS - COUNTERS)]++;
    send(world, (struct key_open){.kind = ASK_COUNT, .machine = index, .key = key, .write = write},
         &command);
}

/* ---- appointments: keys that are called when they expire ---- */

static void name_appointment(uint32_t number, char name[24])
{
    snprintf(name, 24, "appointment-%u", number);
}

static void ask_appointment(struct world *world, uint32_t index)
{
    struct sim_pairs *pairs = world->pairs;
    uint64_t life_ms = 50 + sim_draw(world, sim_chance(world, 4) ? 20000 : 4000);
    char name[24];
    struct sim_write timer = {
        .asked_ms = world->now_ms,
        .interval_ms = life_ms,
        .pops = 1,
        .factor = 1,
        .is_appointment = true,
    };
    uint32_t number = sim_model_ask(&world->model, timer);
    uint32_t write = new_write(pairs, (struct key_write){.key = KEYS, .appointment = number});
    if (write == 0) {
        world->model.writes[number].is_refused = true;
        return;
    }
    name_appointment(number, name);
    struct tr_key_command command = {
        .verb = TR_KEY_SET,
        .key = {name, strlen(name)},
        .expiry = TR_EXPIRY_AT,
        .expires_ms = tr_node_steady(world->machines[index].node) + life_ms,
    };
    fill_value(world, &command, number);
    snprintf(pairs->uri, sizeof pairs->uri, "http://receiver-%u/pop", number % RECEIVERS);
    command.callback = (struct tr_span){pairs->uri, strlen(pairs->uri)};
    sim_trace(world, "client sets %s on %s, for %llu ms", name, sim_name(index),
              (unsigned long long)life_ms);
    send(world, (struct key_open){.kind = ASK_WRITE, .machine = index, .key = KEYS, .write = write},
         &command);
}

/* One that is not due for a while; 0: none was found. */
static uint32_t pick_appointment(struct world *world)
{
    for (unsigned i = 0; i < 8 && world->model.count > 1; i++) {
        uint32_t number = 1 + (uint32_t)sim_draw(world, world->model.count - 1);
        const struct sim_write *write = &world->model.writes[number];
        if (write->is_appointment && write->is_acked && write->pops > 0 &&
            write->replaced_by == 0 &&
            write->asked_ms + write->interval_ms > world->now_ms + CANCEL_MS)
            return number;
    }
    return 0;
}

static void cancel_appointment(struct world *world, uint32_t index)
{
    struct sim_pairs *pairs = world->pairs;
    uint32_t old = pick_appointment(world);
    char name[24];
    if (old == 0)
        return;
    struct sim_write timer = {
        .asked_ms = world->now_ms,
        .follows = old,
        .factor = 1,
        .is_appointment = true,
    };
    uint32_t number = sim_model_ask(&world->model, timer);
    sim_model_follow(&world->model, old, number);
    uint32_t write = new_write(pairs, (struct key_write){.key = KEYS, .appointment = number});
    if (write == 0) {
        world->model.writes[number].is_maybe = true;
        return;
    }
    name_appointment(old, name);
    struct tr_key_command command = {.verb = TR_KEY_DELETE, .key = {name, strlen(name)}};
    sim_trace(world, "client deletes %s (%u) on %s", name, number, sim_name(index));
    send(world,
         (struct key_open){.kind = ASK_DELETE, .machine = index, .key = KEYS, .write = write},
         &command);
}

static bool may_ask(const struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    if (world->pairs == NULL || world->pairs->open_count == OPEN_KEYS || !machine->is_ready ||
        index == world->hostile || machine->paused_until_ms > world->now_ms || machine->told_ms > 0)
        return false;
    /* One that is alone, and has keys, would not be taken in. */
    return tr_node_roster(machine->node)->cluster == world->cluster;
}

/* Most of it reads: a key that is read too early has not come yet. Some of it counts: what another
 * node has begun to count is not there yet either. */
static void rush(struct world *world, uint32_t index)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    if (sim_chance(world, 4)) {
        sim_pairs_ask(world, index);
        return;
    }
    if (!may_ask(world, index))
        return;
    sim_step(world, index, &event);
    if (!world->machines[index].is_ready)
        return;
    if (sim_chance(world, 8))
        ask_count(world, index, KEYS - COUNTERS + (uint32_t)sim_draw(world, COUNTERS));
    else
        ask_read(world, index, (uint32_t)sim_draw(world, KEYS - COUNTERS));
}

void sim_pairs_ask(struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    if (!may_ask(world, index))
        return;
    if (world->pairs->scan.is_on && world->pairs->scan.token == 0)
        sim_pairs_scan_on(world);
    sim_step(world, index, &event);
    if (!machine->is_ready)
        return;
    if (!world->pairs->scan.is_on && sim_chance(world, 10))
        sim_pairs_scan_begin(world, index);
    uint32_t key = (uint32_t)sim_draw(world, KEYS - COUNTERS);
    switch (sim_draw(world, 10)) {
    case 0:
        ask_delete(world, index, key);
        return;
    case 1:
    case 2:
        ask_count(world, index, KEYS - COUNTERS + (uint32_t)sim_draw(world, COUNTERS));
        return;
    case 3:
    case 4:
    case 5:
        ask_read(world, index, key);
        return;
    case 6:
        if (sim_chance(world, 4))
            cancel_appointment(world, index);
        else
            ask_appointment(world, index);
        return;
    default:
        ask_set(world, index, key);
    }
}

/* ---- answers ---- */

/* Machines that hold a pair of this version. */
static unsigned count_copies(const struct world *world, struct tr_span key, uint64_t version)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        struct tr_pair pair;
        if (machine->is_ready)
            count += tr_node_pair(machine->node, key, &pair) && pair.version >= version;
    }
    return count;
}

static void answer_read(struct world *world, const struct key_open *open,
                        const struct tr_key_result *result)
{
    bool is_there = result->outcome == TR_KEY_DONE;
    sim_trace(world, "%s reads %s: %s", sim_name(open->machine), world->pairs->names[open->key],
              result->outcome == TR_KEY_REFUSED ? tr_result_name(result->refusal)
              : is_there                        ? "there"
                                                : "absent");
    if (result->outcome == TR_KEY_REFUSED || !open->is_sure || !sim_pairs_are_sure(world))
        return;
    bool is_flushed = open->acknowledged < world->pairs->floor;
    sim_pairs_check_one(world, open->key, is_flushed ? 0 : open->acknowledged, is_there,
                        result->version, result->value);
}

static void answer_appointment(struct world *world, struct key_write *write)
{
    struct sim_write *timer = &world->model.writes[write->appointment];
    char name[24];
    name_appointment(timer->pops > 0 ? write->appointment : timer->follows, name);
    bool is_flushed = write->is_acked && write->version < world->pairs->floor && timer->pops > 0;
    timer->is_acked = write->is_acked && !is_flushed;
    timer->is_refused = write->is_refused;
    timer->is_maybe = sim_pairs_is_unanswered(write) || is_flushed;
    timer->acked_ms = world->now_ms;
    timer->is_key = true;
    timer->copies = count_copies(world, (struct tr_span){name, strlen(name)}, write->version);
}

static void answer_count(struct world *world, const struct key_open *open,
                         const struct tr_key_result *result)
{
    struct sim_pairs *pairs = world->pairs;
    uint32_t counter = open->key - (KEYS - COUNTERS);
    pairs->counted[counter] += result->outcome == TR_KEY_DONE;
    pairs->uncertain[counter] -= !sim_pairs_is_unanswered(&pairs->writes[open->write]);
    if (result->outcome != TR_KEY_DONE)
        return;
    sim_trace(world, "%s has counted to %lld", pairs->names[open->key], (long long)result->number);
    bool is_known = result->number > 0 && result->number < WRITES_MAX && pairs->floor == 0;
    if (is_known && pairs->numbers[counter][result->number]++ > 0 && !world->model.has_faults &&
        !world->faults[SIM_RESTART] && !world->is_tight && !world->model.is_off)
        sim_break(world, "two increments have the same result");
}

static void answer_write(struct world *world, const struct key_open *open,
                         const struct tr_key_result *result)
{
    struct sim_pairs *pairs = world->pairs;
    struct key_write *write = &pairs->writes[open->write];
    bool is_unknown = result->outcome == TR_KEY_REFUSED && result->refusal == TR_UNKNOWN;
    /* A node that is alone has yet to write it to its log. */
    bool is_early = result->outcome == TR_KEY_DONE && result->batch > 0;
    write->is_acked = result->outcome == TR_KEY_DONE && !is_early;
    write->is_refused = !write->is_acked && !is_unknown && !is_early;
    if (write->is_acked && world->power == POWER_ENDS_NEXT)
        world->power = POWER_ENDS;
    write->version = result->version;
    sim_trace(world, "%s answers %u: %s, %llx", sim_name(open->machine), open->write,
              result->outcome == TR_KEY_REFUSED ? tr_result_name(result->refusal)
              : result->outcome == TR_KEY_DONE  ? "done"
                                                : "not done",
              (unsigned long long)result->version);
    if (open->key < KEYS && write->is_acked && write->version >= pairs->floor) {
        const char *name = pairs->names[open->key];
        write->copies = count_copies(world, (struct tr_span){name, strlen(name)}, result->version);
        if (result->version > pairs->acked[open->key])
            pairs->acked[open->key] = result->version;
        if (result->version > pairs->shared[open->key] && write->copies >= 2)
            pairs->shared[open->key] = result->version;
        if (result->version == 0)
            sim_break(world, "a write has no version");
    }
    if (write->appointment != 0)
        answer_appointment(world, write);
    if (open->kind == ASK_COUNT)
        answer_count(world, open, result);
    /* A change begins a command anew, perhaps on two nodes at once, for which links that take long
     * leave little time. */
    bool is_hurried = world->latency_ms >= SLOW_MS && world->epoch > open->epoch;
    if (is_unknown && !is_hurried && !world->model.has_faults && !world->is_tight &&
        !world->model.is_off && !world->faults[SIM_RESTART] && !world->needs_quorum)
        sim_break(world, "the outcome of a write to a key is unknown, without a fault");
}

void sim_pairs_flushed(struct world *world, uint64_t floor)
{
    struct sim_pairs *pairs = world->pairs;
    pairs->floor = floor > pairs->floor ? floor : pairs->floor;
    for (uint32_t i = 0; i < KEYS; i++) {
        pairs->acked[i] = pairs->acked[i] < floor ? 0 : pairs->acked[i];
        pairs->shared[i] = pairs->shared[i] < floor ? 0 : pairs->shared[i];
        pairs->scan.was_throughout[i] = false;
    }
    for (uint32_t i = 1; i < pairs->write_count; i++) {
        const struct key_write *write = &pairs->writes[i];
        struct sim_write *timer = &world->model.writes[write->appointment];
        if (write->appointment == 0 || timer->pops == 0 || !write->is_acked ||
            write->version >= floor)
            continue;
        timer->is_acked = false;
        timer->is_maybe = true;
    }
}

static void hear_answer(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    struct sim_pairs *pairs = world->pairs;
    for (uint32_t i = 0; pairs != NULL && i < pairs->open_count; i++) {
        struct key_open open = pairs->open[i];
        if (open.token != effect->of.key.token)
            continue;
        if (open.machine != index)
            sim_break(world, "an answer from another machine");
        pairs->open[i] = pairs->open[--pairs->open_count];
        if (open.kind == ASK_READ)
            answer_read(world, &open, &effect->of.key.result);
        else
            answer_write(world, &open, &effect->of.key.result);
        return;
    }
    sim_break(world, "an answer about a key to nobody");
}

static void forsake(struct world *world, uint32_t index)
{
    struct sim_pairs *pairs = world->pairs;
    if (pairs != NULL && pairs->scan.machine == index)
        pairs->scan.is_on = false;
    for (uint32_t i = 0; pairs != NULL && i < pairs->open_count;) {
        if (pairs->open[i].machine != index) {
            i++;
            continue;
        }
        uint32_t appointment = pairs->writes[pairs->open[i].write].appointment;
        if (appointment != 0)
            sim_model_forsake(&world->model, appointment);
        pairs->open[i] = pairs->open[--pairs->open_count];
    }
}

const struct sim_key_calls sim_pairs_calls = {hear_answer, sim_pairs_scan_hear, forsake, rush};
