/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/alone_keys.h"

#include "base/assert.h"
#include "sim/alone_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FREED_MS 1000 /* within which what has expired is gone */

static struct tr_span name_of(const struct alone *world, uint32_t index)
{
    const char *name = world->keys.keys[index].name;
    return (struct tr_span){name, strlen(name)};
}

/* The node goes by the time of its last step, and may be late to look at what has expired. */
static void look_at_clock(struct alone *world)
{
    world->now_ms += alone_draw(world, 4) == 0 ? alone_draw(world, 20) : 0;
    alone_look_at_clock(world);
}

static void broken(struct alone *world, uint32_t index, const char *what)
{
    sim_keys_broken(&world->keys, index, what);
}

/* ---- asking ---- */

static void carry_out(struct alone *world)
{
    struct alone_key_task *task = &world->task;
    struct tr_key_result result;
    look_at_clock(world);
    task->command.expires_ms = tr_node_steady(world->node) + task->interval_ms;
    if (task->appointment != 0)
        world->model.writes[task->appointment].asked_ms = world->now_ms;
    tr_node_key(world->node, &task->command, &result);
    world->is_turn_open = true;
    alone_trace(world, "key", (uint64_t)task->index << 8 | task->command.verb, result.outcome);
    if (task->appointment != 0)
        alone_trace(world, "appointment", task->appointment, task->interval_ms);
    task->is_waiting = result.outcome == TR_KEY_AGAIN;
    if (!task->is_waiting)
        alone_judge(world, &result);
}

/* Lives in which clients send more, and larger values, than a batch takes. */
static bool is_flood(const struct alone *world)
{
    return world->seed % 8 == 5;
}

static void draw_value(struct alone *world)
{
    struct alone_key_task *task = &world->task;
    size_t size = 0;
    if (alone_draw(world, 4) == 0) {
        static const char *const edges[] = {
            "0", "-1", "9223372036854775807", "-9223372036854775808", "007", " 1", "12x"};
        size = alone_draw(world, 2) == 0
                   ? (size_t)snprintf(task->value, sizeof task->value, "%llu",
                                      (unsigned long long)alone_draw(world, 1000))
                   : (size_t)snprintf(task->value, sizeof task->value, "%s",
                                      edges[alone_draw(world, 7)]);
    } else {
        size = is_flood(world)              ? VALUE_MAX - alone_draw(world, 1000)
               : alone_draw(world, 12) == 0 ? alone_draw(world, VALUE_MAX + 8)
               : alone_draw(world, 4) == 0  ? alone_draw(world, 700)
                                            : alone_draw(world, 60);
        for (size_t i = 0; i < size; i++)
            task->value[i] = (char)('a' + (world->order + i) % 26);
        if (size >= 8) /* so that no two are alike */
            memcpy(task->value, &world->token, 8);
        world->token++;
    }
    task->command.value = (struct tr_span){task->value, size};
}

static uint64_t draw_interval(struct alone *world)
{
    switch (alone_draw(world, 10)) {
    case 0:
        return 0;
    case 8:
    case 9: /* many at one moment */
        return 64 - world->now_ms % 64;
    case 1:
    case 2:
        return 1 + alone_draw(world, 20);
    case 3:
    case 4:
        return 1 + alone_draw(world, 3000);
    case 5:
        return 60000 + alone_draw(world, 600000);
    case 6:
        return 10 * (uint64_t)YEAR_MS + alone_draw(world, 1000);
    default:
        return 1000 * (1 + alone_draw(world, 10));
    }
}

static void draw_expiry(struct alone *world)
{
    struct alone_key_task *task = &world->task;
    task->command.expiry = TR_EXPIRY_AT;
    task->interval_ms = draw_interval(world);
    if (alone_draw(world, 3) != 0)
        return;
    if (alone_draw(world, 2) == 0) /* more at one moment than a step looks at */
        task->interval_ms = 64 - world->now_ms % 64;
    task->appointment =
        sim_model_ask(&world->model, (struct sim_write){.asked_ms = world->now_ms,
                                                        .interval_ms = task->interval_ms,
                                                        .pops = 1,
                                                        .is_appointment = true});
    int size = snprintf(task->uri, sizeof task->uri, "http://receiver-0/key-%u-%u",
                        task->appointment, task->appointment % RECEIVERS);
    task->command.callback = (struct tr_span){task->uri, (size_t)size};
}

static void draw_condition(struct alone *world)
{
    struct alone_key_task *task = &world->task;
    const struct sim_key *key = &world->keys.keys[task->index];
    switch (alone_draw(world, 8)) {
    case 0:
        task->command.only_if = TR_IF_ABSENT;
        return;
    case 1:
        task->command.only_if = TR_IF_PRESENT;
        return;
    case 2:
        task->command.only_if = key->version != 0 ? TR_IF_VERSION : TR_IF_ANY;
        task->command.version = key->version;
        if (key->version % 2 == 1) {
            task->command.only_if = TR_IF_OLDER;
            task->command.version++; /* than what was read: that is older */
        }
        return;
    default:
        return;
    }
}

static void draw_command(struct alone *world)
{
    static const enum tr_key_verb verbs[] = {
        TR_KEY_READ,   TR_KEY_READ,   TR_KEY_READ,   TR_KEY_SET,   TR_KEY_SET,
        TR_KEY_SET,    TR_KEY_SET,    TR_KEY_DELETE, TR_KEY_ADD,   TR_KEY_APPEND,
        TR_KEY_EXPIRE, TR_KEY_EXPIRE, TR_KEY_SET,    TR_KEY_PATCH, TR_KEY_PERSIST,
    };
    struct alone_key_task *task = &world->task;
    task->index = (uint32_t)alone_draw(world, SIM_KEYS);
    task->command = (struct tr_key_command){
        .verb = verbs[alone_draw(world, sizeof verbs / sizeof verbs[0])],
        .key = name_of(world, task->index),
    };
    task->interval_ms = 0;
    task->appointment = 0;
    switch (task->command.verb) {
    case TR_KEY_SET:
        task->command.wants_old = alone_draw(world, 3) == 0;
        draw_value(world);
        draw_condition(world);
        if (alone_draw(world, 2) == 0)
            draw_expiry(world);
        else if (alone_draw(world, 3) == 0)
            task->command.expiry = TR_EXPIRY_KEEP;
        return;
    case TR_KEY_ADD:
        task->command.number = alone_draw(world, 8) == 0
                                   ? (int64_t)(INT64_MAX - (int64_t)alone_draw(world, 3))
                                   : (int64_t)alone_draw(world, 20) - 10;
        task->command.expiry = TR_EXPIRY_KEEP;
        return;
    case TR_KEY_APPEND:
    case TR_KEY_PATCH:
        draw_value(world);
        task->command.number = (int64_t)alone_draw(world, 300);
        task->command.expiry = TR_EXPIRY_KEEP;
        return;
    case TR_KEY_EXPIRE:
        draw_expiry(world);
        if (alone_draw(world, 3) == 0)
            task->command.expire_if = (uint8_t)(1u << alone_draw(world, 4));
        return;
    case TR_KEY_DELETE:
        task->command.wants_old = alone_draw(world, 3) == 0;
        draw_condition(world);
        return;
    case TR_KEY_READ:
    case TR_KEY_PERSIST:
        return;
    }
}

/* ---- all keys ---- */

/* Whether somebody may or may not be called for a key, as far as the model can tell. */
static bool is_unclear(struct alone *world)
{
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        const struct sim_key_state *last = sim_keys_last(&world->keys, i);
        if ((sim_keys_presence(last, world->now_ms) == SIM_EITHER && last->appointment != 0) ||
            world->keys.keys[i].count == SIM_KEY_STATES)
            return true;
    }
    return false;
}

static void flush(struct alone *world)
{
    struct tr_key_result result;
    look_at_clock(world);
    if (is_unclear(world))
        return;
    tr_node_delete_keys(world->node, &result);
    world->is_turn_open = true;
    alone_trace(world, "flushes", result.outcome, 0);
    if (result.outcome != TR_KEY_DONE) {
        if (result.outcome == TR_KEY_REFUSED && world->is_healed && !world->is_tight)
            broken(world, 0, "a flush was refused without a reason");
        return;
    }
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        const struct sim_key_state *last = sim_keys_last(&world->keys, i);
        bool was_there = sim_keys_presence(last, world->now_ms) != SIM_ABSENT;
        if (!last->is_there)
            continue; /* it was absent already: the flush need not write anything for it */
        struct sim_key_state gone = {.expires_ms = SIM_KEY_NEVER, .batch = result.batch};
        sim_keys_put(&world->keys, i, gone, was_there, world->now_ms);
    }
}

static void begin_scan(struct alone *world)
{
    world->is_scanning = true;
    world->scan_cursor = 0;
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        world->keys.keys[i].was_scanned = false;
        world->keys.keys[i].was_throughout =
            sim_keys_presence(sim_keys_last(&world->keys, i), world->now_ms) == SIM_PRESENT;
    }
}

static void note_scanned(struct alone *world, struct tr_span name)
{
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        if (!tr_span_equals(name, name_of(world, i)))
            continue;
        world->keys.keys[i].was_scanned = true;
        if (sim_keys_presence(sim_keys_last(&world->keys, i), world->now_ms) == SIM_ABSENT)
            broken(world, i, "a scan tells of a key that is not there");
        return;
    }
    broken(world, 0, "a scan tells of a key that never was");
}

static void scan(struct alone *world)
{
    struct tr_key_page *page = &world->page;
    look_at_clock(world);
    if (!world->is_scanning)
        begin_scan(world);
    tr_node_scan_keys(world->node, world->scan_cursor, 1 + (uint32_t)alone_draw(world, 8), page);
    for (uint32_t i = 0; i < page->count; i++)
        note_scanned(world, tr_node_key_name(world->node, page->refs[i]));
    world->scan_cursor = page->cursor;
    if (page->cursor != 0)
        return;
    world->is_scanning = false;
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        const struct sim_key *key = &world->keys.keys[i];
        bool is_there =
            sim_keys_presence(sim_keys_last(&world->keys, i), world->now_ms) == SIM_PRESENT;
        if (key->was_throughout && is_there && !key->was_scanned)
            broken(world, i, "a scan missed a key");
    }
}

/* ---- in the course of a life ---- */

void alone_keys_ask(struct alone *world)
{
    uint64_t count = is_flood(world) ? alone_draw(world, 30) : alone_draw(world, 6);
    for (uint64_t i = 0; i < count && world->model.broken == NULL && !world->task.is_waiting; i++) {
        if (alone_draw(world, 60) == 0) {
            flush(world);
        } else if (alone_draw(world, 10) == 0) {
            scan(world);
        } else {
            draw_command(world);
            if (world->keys.keys[world->task.index].count < SIM_KEY_STATES)
                carry_out(world);
        }
    }
}

void alone_keys_go_on(struct alone *world)
{
    if (world->task.is_waiting && world->are_keys_told && !world->is_stopped &&
        world->model.broken == NULL)
        carry_out(world);
}

/* Keys that have expired are gone by now, unless somebody is to be called and cannot be owed it:
 * the disk is full or was until just now, or memory is small. */
static void count_keys(struct alone *world)
{
    struct tr_node_stats stats;
    uint64_t most = 0;
    tr_node_stats(world->node, &stats);
    bool is_well =
        world->is_healed && !world->is_tight && world->now_ms >= world->well_ms + FREED_MS;
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        struct sim_key_state last = *sim_keys_last(&world->keys, i);
        last.late_ms += last.appointment != 0 && !is_well ? UINT64_MAX / 2 : FREED_MS;
        most += sim_keys_presence(&last, world->now_ms) != SIM_ABSENT;
    }
    if (stats.is_serving && stats.keys > most)
        broken(world, 0, "keys that have expired are not freed");
}

void alone_keys_look(struct alone *world)
{
    if (!world->are_keys_told || world->is_stopped || world->model.broken != NULL)
        return;
    sim_keys_durable(&world->keys, tr_node_durable(world->node), world->now_ms);
    if (alone_draw(world, 16) == 0 && tr_node_wake_at(world->node) > world->now_ms - world->boot_ms)
        count_keys(world);
}

uint32_t alone_keys_called(struct alone *world, const struct tr_record *record)
{
    char uri[64] = {0};
    size_t size = record->uri.size < 63 ? record->uri.size : 63;
    memcpy(uri, record->uri.text, size);
    const char *mark = strstr(uri, "/key-");
    if (mark == NULL)
        return 0;
    uint32_t number = (uint32_t)strtoul(mark + 5, NULL, 10);
    if (number < world->model.count)
        world->model.writes[number].id = record->head.key.id;
    sim_keys_post(&world->keys, number, record->opaque);
    return number;
}

void alone_keys_started(struct alone *world)
{
    static char values[SIM_KEYS][VALUE_MAX];
    struct sim_key_told told[SIM_KEYS];
    world->is_scanning = false;
    world->task.is_waiting = false;
    world->are_keys_told = true;
    if (world->model.broken != NULL)
        return;
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        struct tr_key_command command = {.verb = TR_KEY_READ, .key = name_of(world, i)};
        struct tr_key_result result;
        tr_node_key(world->node, &command, &result);
        told[i] = (struct sim_key_told){.is_there = result.was_there};
        if (!result.was_there)
            continue;
        memcpy(values[i], result.value.text, result.value.size);
        told[i].value = (struct tr_span){values[i], result.value.size};
        told[i].expires_ms = alone_true_ms(world, result.expires_ms);
        struct tr_span uri = tr_node_key_callback(world->node, command.key);
        if (uri.size > 0)
            told[i].appointment = (uint32_t)strtoul(strstr(uri.text, "/key-") + 5, NULL, 10);
    }
    sim_keys_cut(&world->keys, told, world->now_ms);
}

void alone_keys_finish(struct alone *world)
{
    struct tr_node_stats stats;
    uint64_t count = 0;
    if (world->task.is_waiting)
        broken(world, world->task.index, "a command on a key was never carried out");
    for (uint32_t i = 0; i < SIM_KEYS && world->model.broken == NULL; i++) {
        world->task = (struct alone_key_task){.index = i};
        world->task.command =
            (struct tr_key_command){.verb = TR_KEY_READ, .key = name_of(world, i)};
        carry_out(world);
        count += sim_keys_presence(sim_keys_last(&world->keys, i), world->now_ms) == SIM_PRESENT;
    }
    tr_node_stats(world->node, &stats);
    if (stats.keys != count || stats.keys_expiring != 0)
        broken(world, 0, "keys are counted wrong");
}
