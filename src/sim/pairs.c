/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/pairs.h"

#include "base/assert.h"

#include <tryst/place.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS           12   /* that are written, read and deleted; */
#define COUNTERS       3    /* the last of them are added to, and nothing else */
#define WRITES_MAX     2048 /* of a life */
#define OPEN_KEYS      64
#define NEVER          UINT64_MAX
#define REST_MS        5000 /* after which what stood in for others has given it back */
#define EARLY_MS       50   /* by which a key may expire too soon, */
#define LATE_MS        3000 /* or too late: each hop takes time */
#define CANCEL_MS      1500 /* before its time, an appointment may be cancelled */
#define SPREAD_LATE_MS 2500 /* some changes of the roster, one after the other */
#define FIRST_TOKEN    ((uint64_t)1 << 40)

/* A write of a key by a client. */
struct key_write {
    uint32_t key;
    uint32_t appointment; /* of the timers' model; 0: none */
    uint64_t version;     /* known when it is answered */
    uint64_t expires_ms;  /* true time */
    bool is_end;          /* a deletion */
    bool is_acked;
    bool is_refused; /* nothing has come of it */
    unsigned copies; /* when it was acknowledged */
};

enum ask_kind { ASK_READ, ASK_WRITE, ASK_DELETE, ASK_COUNT };

struct key_open {
    uint64_t token;
    enum ask_kind kind;
    uint32_t machine;
    uint32_t key;
    uint32_t write;        /* 0: a read */
    uint64_t acknowledged; /* of a read: the highest version that was, when it was asked for */
    bool is_sure;          /* of a read: nothing was wrong then */
};

/* A client that goes through all keys, page by page. */
struct key_scan {
    uint64_t token; /* of the page that is awaited; 0: none is */
    uint32_t machine;
    uint64_t cursor;
    bool is_on;
    bool is_sure;
    bool was_throughout[KEYS]; /* it has been there since the scan began, */
    bool was_seen[KEYS];       /* and the scan has told of it */
};

struct sim_pairs {
    struct key_scan scan;
    char names[KEYS][16];
    uint64_t acked[KEYS];  /* the highest version that was acknowledged, */
    uint64_t shared[KEYS]; /* and the highest that two nodes had then */
    uint64_t floor;        /* all below it has ended */
    int64_t counted[COUNTERS];
    int64_t uncertain[COUNTERS];
    uint8_t numbers[COUNTERS][WRITES_MAX]; /* that were answered */
    struct key_write writes[WRITES_MAX];   /* [0] is none */
    uint32_t write_count;
    struct key_open open[OPEN_KEYS];
    uint32_t open_count;
    uint64_t token;
    bool has_quorums; /* of all definitions so far: any read meets any write */
    char value[OPAQUE_MAX];
    char uri[64];
};

/* ---- the operator ---- */

static struct tr_definition draw_definition(struct world *world, uint64_t partitions)
{
    struct sim_pairs *pairs = world->pairs;
    uint8_t copies = (uint8_t)(1 + sim_draw(world, 4));
    bool is_loose = sim_chance(world, 6);
    struct tr_definition keys = {
        .partitions = partitions,
        .copies = copies,
        .reads = is_loose ? 1 : (uint8_t)(copies / 2 + 1),
        .writes = is_loose ? 1 : (uint8_t)(copies / 2 + 1),
        .positions = partitions >= 1024 ? 16 : 1,
    };
    pairs->has_quorums &= !is_loose || copies == 1;
    world->model.has_single_keys |= copies == 1;
    return keys;
}

static bool knows(const struct world *world, uint32_t index, uint64_t partitions)
{
    const struct machine *machine = &world->machines[index];
    return !sim_is_member(world, index) ||
           (machine->is_ready && tr_node_roster(machine->node)->keys.partitions == partitions);
}

static uint32_t draw_machine(struct world *world)
{
    uint32_t index = (uint32_t)sim_draw(world, world->machine_count);
    const struct machine *machine = &world->machines[index];
    bool is_there = machine->is_ready && index != world->hostile && machine->told_ms == 0 &&
                    machine->paused_until_ms <= world->now_ms;
    return is_there ? index : MACHINES_MAX;
}

void sim_pairs_operate(struct world *world)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    uint16_t who = 0;
    if (world->pairs == NULL || !world->faults[SIM_SPREAD] || world->is_healed ||
        !sim_chance(world, 60))
        return;
    uint32_t index = draw_machine(world);
    if (index == MACHINES_MAX)
        return;
    struct tr_node *node = world->machines[index].node;
    uint64_t partitions = tr_node_roster(node)->keys.partitions;
    if (partitions == 0)
        return;
    sim_step(world, index, &event);
    bool had_quorums = world->pairs->has_quorums;
    struct tr_definition keys = draw_definition(world, partitions);
    keys.positions = tr_node_roster(node)->keys.positions;
    if (tr_node_spread_keys(node, &keys, &who) != TR_CHANGE_MADE) {
        world->pairs->has_quorums = had_quorums;
        return;
    }
    sim_fault(world, SIM_SPREAD);
    sim_trace(world, "KEYSPACE SET L %u R %u W %u", keys.copies, keys.reads, keys.writes);
    sim_step(world, index, &event);
}

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

/* Whether what was acknowledged must be seen: nobody failed, or stood in for another lately. */
static bool is_sure(const struct world *world)
{
    bool is_rested =
        !world->faults[SIM_RESTART] || world->now_ms > world->model.impaired_ms + REST_MS;
    return !world->model.has_faults && !world->is_tight && is_rested && !world->model.is_off &&
           world->pairs->has_quorums;
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
        .is_sure = is_sure(world),
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

/* ---- scans ---- */

static void begin_scan(struct world *world, uint32_t index)
{
    struct sim_pairs *pairs = world->pairs;
    pairs->scan = (struct key_scan){.is_on = true, .machine = index, .is_sure = is_sure(world)};
    for (uint32_t i = 0; i < KEYS; i++)
        pairs->scan.was_throughout[i] = pairs->acked[i] > 0;
    for (uint32_t i = 1; i < pairs->write_count; i++) {
        const struct key_write *write = &pairs->writes[i];
        bool may_end = write->is_end || write->expires_ms != NEVER;
        bool is_it = !write->is_refused &&
                     (!write->is_acked || write->version >= pairs->acked[write->key % KEYS]);
        if (write->key < KEYS && may_end && is_it)
            pairs->scan.was_throughout[write->key] = false;
    }
    sim_trace(world, "client scans on %s", sim_name(index));
}

static void end_scan(struct world *world)
{
    struct key_scan *scan = &world->pairs->scan;
    scan->is_on = false;
    for (uint32_t i = 0; scan->is_sure && is_sure(world) && i < KEYS; i++) {
        if (scan->was_throughout[i] && !scan->was_seen[i]) {
            sim_trace(world, "scan misses %s", world->pairs->names[i]);
            sim_break(world, "a scan misses a key that was there throughout");
        }
    }
}

static void ask_page(struct world *world)
{
    struct key_scan *scan = &world->pairs->scan;
    uint32_t index = scan->machine;
    struct machine *machine = &world->machines[index];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    if (!machine->is_ready || machine->paused_until_ms > world->now_ms) {
        scan->is_on = false;
        return;
    }
    sim_step(world, index, &event);
    if (!machine->is_ready) {
        scan->is_on = false;
        return;
    }
    scan->token = ++world->pairs->token;
    uint32_t count = 1 + (uint32_t)sim_draw(world, 6);
    if (tr_node_ask_keys(machine->node, scan->token, TR_MEMBER_NONE, scan->cursor, count) !=
        TR_DONE)
        scan->is_on = false;
    sim_step(world, index, &event);
}

static void hear_page(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    struct sim_pairs *pairs = world->pairs;
    struct tr_reader reader =
        tr_reader_on(effect->of.key_page.keys.text, effect->of.key_page.keys.size);
    if (pairs == NULL || !pairs->scan.is_on || pairs->scan.token != effect->of.key_page.token ||
        index != pairs->scan.machine)
        return;
    pairs->scan.token = 0;
    if (effect->of.key_page.refusal != TR_DONE) {
        pairs->scan.is_on = false;
        return;
    }
    for (uint32_t i = 0; i < effect->of.key_page.count; i++) {
        struct tr_span key = tr_get_span(&reader);
        for (uint32_t k = 0; k < KEYS; k++) {
            struct tr_span name = {pairs->names[k], strlen(pairs->names[k])};
            pairs->scan.was_seen[k] |= tr_span_equals(key, name);
        }
    }
    pairs->scan.cursor = effect->of.key_page.cursor;
    if (pairs->scan.cursor == 0)
        end_scan(world);
}

void sim_pairs_ask(struct world *world, uint32_t index)
{
    const struct machine *machine = &world->machines[index];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    if (world->pairs == NULL || world->pairs->open_count == OPEN_KEYS || !machine->is_ready ||
        index == world->hostile || machine->paused_until_ms > world->now_ms || machine->told_ms > 0)
        return;
    if (tr_node_roster(machine->node)->cluster != world->cluster)
        return; /* one that is alone, and has keys, would not be taken in */
    if (world->pairs->scan.is_on && world->pairs->scan.token == 0)
        ask_page(world);
    sim_step(world, index, &event);
    if (!machine->is_ready)
        return;
    if (!world->pairs->scan.is_on && sim_chance(world, 10))
        begin_scan(world, index);
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

static bool is_unanswered(const struct key_write *write)
{
    return !write->is_acked && !write->is_refused;
}

/* Whether a key may be absent, for one who knows of what was acknowledged up to a version. */
static bool may_be_absent(const struct world *world, uint32_t key, uint64_t acknowledged)
{
    const struct sim_pairs *pairs = world->pairs;
    if (acknowledged == 0)
        return true;
    for (uint32_t i = 1; i < pairs->write_count; i++) {
        const struct key_write *write = &pairs->writes[i];
        bool is_over = write->is_end || world->now_ms + EARLY_MS >= write->expires_ms;
        bool is_it = is_unanswered(write) || (write->is_acked && write->version >= acknowledged);
        if (write->key == key && is_over && is_it)
            return true;
    }
    return false;
}

/* What is there of a key, for one who knows of what was acknowledged up to a version. */
static void check_pair(struct world *world, uint32_t key, uint64_t acknowledged, bool is_there,
                       uint64_t version, struct tr_span value)
{
    const struct sim_pairs *pairs = world->pairs;
    char number[16] = {0};
    if (!is_there) {
        if (!may_be_absent(world, key, acknowledged))
            sim_break(world, "a key that was acknowledged is absent");
        return;
    }
    if (version < acknowledged)
        sim_break(world, "a key is older than what was acknowledged");
    if (key >= KEYS - COUNTERS)
        return;
    memcpy(number, value.text, value.size < 15 ? value.size : 15);
    uint32_t write = (uint32_t)strtoul(number, NULL, 10);
    if (write == 0 || write >= pairs->write_count || pairs->writes[write].key != key)
        sim_break(world, "a key has a value that nobody gave it");
    else if (pairs->writes[write].is_refused)
        sim_break(world, "a key has a value that was refused");
}

static void answer_read(struct world *world, const struct key_open *open,
                        const struct tr_key_result *result)
{
    bool is_there = result->outcome == TR_KEY_DONE;
    sim_trace(world, "%s reads %s: %s", sim_name(open->machine), world->pairs->names[open->key],
              result->outcome == TR_KEY_REFUSED ? tr_result_name(result->refusal)
              : is_there                        ? "there"
                                                : "absent");
    if (result->outcome == TR_KEY_REFUSED || !open->is_sure || !is_sure(world))
        return;
    check_pair(world, open->key, open->acknowledged, is_there, result->version, result->value);
}

static void answer_appointment(struct world *world, struct key_write *write)
{
    struct sim_write *timer = &world->model.writes[write->appointment];
    char name[24];
    name_appointment(timer->pops > 0 ? write->appointment : timer->follows, name);
    timer->is_acked = write->is_acked;
    timer->is_refused = write->is_refused;
    timer->is_maybe = is_unanswered(write);
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
    pairs->uncertain[counter] -= !is_unanswered(&pairs->writes[open->write]);
    if (result->outcome != TR_KEY_DONE)
        return;
    bool is_known = result->number > 0 && result->number < WRITES_MAX;
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
    if (open->key < KEYS && write->is_acked) {
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
    if (is_unknown && !world->model.has_faults && !world->is_tight && !world->model.is_off &&
        !world->faults[SIM_RESTART] && !world->needs_quorum)
        sim_break(world, "the outcome of a write to a key is unknown, without a fault");
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

static const struct sim_key_calls calls = {hear_answer, hear_page, forsake};

void sim_pairs_begin(struct world *world)
{
    static const uint64_t sizes[] = {20, 100, 1024, 4096};
    struct sim_pairs *pairs = calloc(1, sizeof *pairs);
    uint16_t who = 0;
    TR_ASSERT(pairs != NULL);
    world->pairs = pairs;
    world->key_calls = &calls;
    pairs->has_quorums = true;
    world->model.key_late_ms = SPREAD_LATE_MS + 20 * world->latency_ms;
    pairs->write_count = 1;
    pairs->token = FIRST_TOKEN;
    for (uint32_t i = 0; i < KEYS; i++)
        snprintf(pairs->names[i], sizeof pairs->names[i], "%s-%u",
                 i < KEYS - COUNTERS ? "key" : "counter", i);
    struct tr_definition keys = draw_definition(world, sizes[sim_draw(world, 4)]);
    struct tr_event event = {.kind = TR_EVENT_TICK};
    bool is_made = false;
    for (uint32_t i = 0; i < 200 && world->model.broken == NULL; i++) {
        bool is_known = is_made;
        sim_step(world, 0, &event);
        if (!is_made &&
            tr_node_create_keyspace(world->machines[0].node, &keys, &who) == TR_CHANGE_MADE) {
            sim_trace(world, "CREATE KEYSPACE %llu %u R %u W %u",
                      (unsigned long long)keys.partitions, keys.copies, keys.reads, keys.writes);
            is_made = true;
            sim_step(world, 0, &event);
        }
        for (uint32_t k = 0; k < world->machine_count; k++)
            is_known &= knows(world, k, keys.partitions);
        if (is_known)
            return;
        sim_advance(world, world->now_ms + 100);
        sim_connect(world);
    }
    sim_break(world, "there can be no keyspace");
}

/* ---- after healing ---- */

/* The ring by the placement library, not by the nodes. */
struct ring {
    struct tryst_place_map *map;
    void *workspace;
    unsigned copies;
    uint32_t count;
    uint32_t machines[MACHINES_MAX];
};

static uint32_t machine_at(const struct world *world, struct tr_span address)
{
    uint32_t index = 0;
    while (index < world->machine_count &&
           !tr_span_equals(address, (struct tr_span){world->machines[index].address,
                                                     strlen(world->machines[index].address)}))
        index++;
    TR_ASSERT(index < world->machine_count);
    return index;
}

static void make_ring(const struct world *world, const struct tr_roster *roster, struct ring *ring)
{
    struct tryst_place_config config = {.strategy = "keyspace@2",
                                        .partitions = roster->keys.partitions};
    struct tryst_place_node nodes[MACHINES_MAX];
    struct tryst_place_given given[MACHINES_MAX];
    struct tryst_place_positions positions = {given, roster->keys.positions};
    size_t fault = 0;
    ring->count = 0;
    for (uint32_t i = 0; i < roster->count; i++) {
        if (roster->nodes[i].role != TR_ROLE_STAYING)
            continue;
        uint32_t machine = machine_at(world, tr_roster_address(roster, i));
        ring->machines[ring->count] = machine;
        nodes[ring->count] = (struct tryst_place_node){.name = world->machines[machine].address};
        given[ring->count++] =
            (struct tryst_place_given){roster->nodes[i].positions, roster->nodes[i].position_count};
    }
    ring->copies = roster->keys.copies < ring->count ? roster->keys.copies : ring->count;
    size_t size = tryst_place_keyspace_size(&config, &positions, nodes, ring->count);
    ring->map = malloc(size);
    TR_ASSERT(ring->map != NULL);
    enum tryst_place_status status =
        tryst_place_keyspace_init(ring->map, size, &config, &positions, nodes, ring->count, &fault);
    TR_ASSERT(status == TRYST_PLACE_OK);
    ring->workspace = malloc(tryst_place_workspace_size(ring->map, ring->count));
    TR_ASSERT(ring->workspace != NULL);
}

static bool is_live(const struct world *world, uint32_t index, struct tr_span key,
                    struct tr_pair *pair)
{
    const struct machine *machine = &world->machines[index];
    return machine->is_ready && tr_node_pair(machine->node, key, pair) && !pair->is_end &&
           pair->expires_ms >= tr_node_steady(machine->node);
}

/* All who are to hold it have the same, and nobody else has anything. Returns whether it is
 * there. */
static bool check_holders(struct world *world, const struct ring *ring, struct tr_span key,
                          struct tr_pair *first)
{
    uint32_t list[MACHINES_MAX];
    bool is_mine[MACHINES_MAX] = {false};
    struct tr_pair pair;
    size_t count =
        tryst_place_lookup(ring->map, tryst_place_key_of_text(ring->map, key.text, key.size),
                           ring->copies, list, ring->workspace);
    bool is_there = is_live(world, ring->machines[list[0]], key, first);
    for (size_t i = 0; i < count; i++) {
        uint32_t machine = ring->machines[list[i]];
        is_mine[machine] = true;
        if (is_live(world, machine, key, &pair) != is_there)
            sim_break(world, "after healing a replica lacks a key");
        else if (is_there && (tr_pair_compare(tr_pair_order(first), tr_pair_order(&pair)) != 0 ||
                              !tr_span_equals(first->value, pair.value)))
            sim_break(world, "after healing replicas of a key differ");
    }
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (!is_mine[i] && is_live(world, i, key, &pair))
            sim_break(world, "after healing a key is where it does not belong");
    }
    return is_there;
}

static void check_counter(struct world *world, uint32_t counter, bool is_there,
                          struct tr_span value)
{
    const struct sim_pairs *pairs = world->pairs;
    char text[24] = {0};
    if (is_there)
        memcpy(text, value.text, value.size < 23 ? value.size : 23);
    long long number = is_there ? strtoll(text, NULL, 10) : 0;
    bool is_atomic = !world->model.has_faults && !world->faults[SIM_RESTART] && !world->is_tight;
    if (is_atomic && number < pairs->counted[counter])
        sim_break(world, "an increment was lost");
    if (is_atomic && number > pairs->counted[counter] + pairs->uncertain[counter])
        sim_break(world, "an increment was made twice");
}

bool sim_pairs_are_answered(const struct world *world)
{
    const struct tr_roster *roster = sim_roster(world);
    return world->pairs == NULL ||
           (world->pairs->open_count == 0 && roster != NULL && !tr_roster_is_changing(roster));
}

void sim_pairs_check(struct world *world)
{
    struct sim_pairs *pairs = world->pairs;
    struct ring ring;
    struct tr_pair pair;
    const struct tr_roster *roster = sim_roster(world);
    if (pairs == NULL || world->model.broken != NULL || roster == NULL)
        return;
    if (pairs->open_count > 0)
        sim_break(world, "a command on a key was never answered");
    make_ring(world, roster, &ring);
    for (uint32_t i = 0; i < KEYS && world->model.broken == NULL; i++) {
        struct tr_span key = {pairs->names[i], strlen(pairs->names[i])};
        bool is_there = check_holders(world, &ring, key, &pair);
        /* What one node had, or has again since keys have fewer copies, may be gone with its
         * disk. */
        bool is_lost = world->model.lost_ms > 0;
        bool is_single = world->faults[SIM_SPREAD] || world->model.has_single_keys;
        uint64_t acked = !is_lost ? pairs->acked[i] : is_single ? 0 : pairs->shared[i];
        check_pair(world, i, acked, is_there, is_there ? pair.version : 0, pair.value);
        if (i >= KEYS - COUNTERS)
            check_counter(world, i - (KEYS - COUNTERS), is_there, pair.value);
        if (world->model.broken != NULL)
            sim_trace(world, "%s", pairs->names[i]);
    }
    free(ring.map);
    free(ring.workspace);
}
