/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/alone_keys.h"

#include "base/assert.h"

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

static uint64_t true_ms(const struct alone *world, tr_steady_ms steady_ms)
{
    if (steady_ms == TR_NEVER)
        return SIM_KEY_NEVER;
    return world->now_ms + steady_ms - tr_node_steady(world->node);
}

static void broken(struct alone *world, uint32_t index, const char *what)
{
    sim_keys_broken(&world->keys, index, what);
}

/* ---- what must come of a command ---- */

/* A command, what the model has, and what the node says. */
struct verdict {
    struct alone *world;
    const struct alone_key_task *task;
    const struct tr_key_command *command;
    const struct tr_key_result *result;
    const struct sim_key_state *last;
    bool is_there;
    struct sim_key_state next; /* if it is done */
    bool changes;
};

static bool read_number(const struct sim_key_state *state, int64_t *number)
{
    char text[32];
    char again[32];
    char *end = NULL;
    if (state->size == 0 || state->size > 20)
        return false;
    memcpy(text, state->value, state->size);
    text[state->size] = '\0';
    *number = strtoll(text, &end, 10);
    snprintf(again, sizeof again, "%lld", (long long)*number);
    return strlen(again) == state->size && memcmp(again, text, state->size) == 0;
}

static bool is_met(const struct verdict *verdict)
{
    const struct sim_key *key = &verdict->world->keys.keys[verdict->task->index];
    switch (verdict->command->only_if) {
    case TR_IF_ANY:
        return true;
    case TR_IF_ABSENT:
        return !verdict->is_there;
    case TR_IF_PRESENT:
        return verdict->is_there;
    case TR_IF_VERSION:
        return verdict->is_there && !key->is_changed;
    }
    return false;
}

/* When the key expires if the command is done, and who is called. */
static void set_expiry(struct verdict *verdict)
{
    struct sim_key_state *next = &verdict->next;
    next->expires_ms = SIM_KEY_NEVER;
    next->late_ms = 0;
    next->appointment = 0;
    if (verdict->command->expiry == TR_EXPIRY_AT) {
        next->expires_ms = verdict->world->now_ms + verdict->task->interval_ms;
        next->appointment = verdict->task->appointment;
        next->write = next->appointment;
    } else if (verdict->command->expiry == TR_EXPIRY_KEEP && verdict->is_there) {
        next->expires_ms = verdict->last->expires_ms;
        next->late_ms = verdict->last->late_ms;
        next->appointment = verdict->last->appointment;
    }
}

static bool is_past(const struct verdict *verdict)
{
    return verdict->task->interval_ms == 0 && verdict->task->appointment == 0;
}

static enum tr_key_outcome want_set(struct verdict *verdict)
{
    const struct tr_key_command *command = verdict->command;
    if (!is_met(verdict))
        return TR_KEY_UNMET;
    if (command->value.size > VALUE_MAX)
        return TR_KEY_TOO_LONG;
    verdict->changes = true;
    verdict->next.value = (char *)(uintptr_t)command->value.text;
    verdict->next.size = command->value.size;
    verdict->next.is_there = command->expiry != TR_EXPIRY_AT || !is_past(verdict);
    set_expiry(verdict);
    return TR_KEY_DONE;
}

static enum tr_key_outcome want_add(struct verdict *verdict, char text[32])
{
    int64_t number = 0;
    int64_t by = verdict->command->number;
    if (verdict->is_there && !read_number(verdict->last, &number))
        return TR_KEY_NO_INTEGER;
    if (__builtin_add_overflow(number, by, &number))
        return TR_KEY_OVERFLOW;
    verdict->changes = true;
    verdict->next.is_there = true;
    verdict->next.size = (size_t)snprintf(text, 32, "%lld", (long long)number);
    verdict->next.value = text;
    set_expiry(verdict);
    if (verdict->result->outcome == TR_KEY_DONE && verdict->result->number != number)
        broken(verdict->world, verdict->task->index, "a sum is wrong");
    return TR_KEY_DONE;
}

static enum tr_key_outcome want_patch(struct verdict *verdict, char *text)
{
    const struct tr_key_command *command = verdict->command;
    size_t size = verdict->is_there ? verdict->last->size : 0;
    size_t at = command->verb == TR_KEY_APPEND ? size : (size_t)command->number;
    size_t after = at + command->value.size > size ? at + command->value.size : size;
    if (command->value.size == 0 && (verdict->is_there || command->verb == TR_KEY_PATCH))
        return TR_KEY_DONE;
    if (after > VALUE_MAX)
        return TR_KEY_TOO_LONG;
    memset(text, 0, after);
    if (size > 0)
        memcpy(text, verdict->last->value, size);
    memcpy(text + at, command->value.text, command->value.size);
    verdict->changes = true;
    verdict->next.is_there = true;
    verdict->next.value = text;
    verdict->next.size = after;
    set_expiry(verdict);
    return TR_KEY_DONE;
}

static enum tr_key_outcome want_expire(struct verdict *verdict)
{
    uint64_t before = verdict->last->expires_ms;
    uint64_t after = verdict->world->now_ms + verdict->task->interval_ms;
    uint8_t only_if = verdict->command->expire_if;
    if (!verdict->is_there)
        return TR_KEY_ABSENT;
    /* What a start has made later is not compared to the millisecond. */
    bool is_wanted = (only_if & TR_EXPIRE_NONE) != 0     ? before == SIM_KEY_NEVER
                     : (only_if & TR_EXPIRE_SOME) != 0   ? before != SIM_KEY_NEVER
                     : (only_if & TR_EXPIRE_LATER) != 0  ? after > before
                     : (only_if & TR_EXPIRE_SOONER) != 0 ? after < before
                                                         : true;
    bool is_close = verdict->last->late_ms > 0 && after >= before && after - before < 100;
    if (is_close)
        is_wanted = verdict->result->outcome == TR_KEY_DONE;
    if (!is_wanted)
        return TR_KEY_UNMET;
    verdict->changes = true;
    verdict->next = *verdict->last;
    verdict->next.write = 0;
    verdict->next.is_there = !is_past(verdict);
    set_expiry(verdict);
    return TR_KEY_DONE;
}

static enum tr_key_outcome want(struct verdict *verdict, char *text)
{
    switch (verdict->command->verb) {
    case TR_KEY_READ:
        return verdict->is_there ? TR_KEY_DONE : TR_KEY_ABSENT;
    case TR_KEY_SET:
        return want_set(verdict);
    case TR_KEY_DELETE:
        if (!verdict->is_there || !is_met(verdict))
            return verdict->is_there ? TR_KEY_UNMET : TR_KEY_ABSENT;
        verdict->changes = true;
        return TR_KEY_DONE;
    case TR_KEY_ADD:
        return want_add(verdict, text);
    case TR_KEY_APPEND:
    case TR_KEY_PATCH:
        return want_patch(verdict, text);
    case TR_KEY_EXPIRE:
        return want_expire(verdict);
    case TR_KEY_PERSIST:
        if (!verdict->is_there || verdict->last->expires_ms == SIM_KEY_NEVER)
            return verdict->is_there ? TR_KEY_UNMET : TR_KEY_ABSENT;
        verdict->changes = true;
        verdict->next = *verdict->last;
        verdict->next.write = 0;
        verdict->next.appointment = 0;
        verdict->next.expires_ms = SIM_KEY_NEVER;
        return TR_KEY_DONE;
    }
    return TR_KEY_REFUSED;
}

static bool is_told_well(const struct verdict *verdict)
{
    const struct tr_key_result *result = verdict->result;
    const struct sim_key_state *last = verdict->last;
    if (verdict->command->verb != TR_KEY_READ || !verdict->is_there)
        return true;
    uint64_t expires_ms = true_ms(verdict->world, result->expires_ms);
    bool is_in_time =
        last->expires_ms == SIM_KEY_NEVER
            ? expires_ms == SIM_KEY_NEVER
            : expires_ms >= last->expires_ms && expires_ms - last->expires_ms <= last->late_ms;
    return is_in_time && result->value.size == last->size &&
           memcmp(result->value.text, last->value, last->size) == 0;
}

/* Whether what was there is told where that is wanted. */
static bool is_old_told(const struct verdict *verdict)
{
    const struct tr_key_result *result = verdict->result;
    if (!verdict->command->wants_old || result->outcome != TR_KEY_DONE || !verdict->is_there)
        return true;
    return result->value.size == verdict->last->size &&
           memcmp(result->value.text, verdict->last->value, verdict->last->size) == 0;
}

static void settle(struct alone *world, const struct tr_key_result *result)
{
    static char text[2 * VALUE_MAX + 64];
    const struct alone_key_task *task = &world->task;
    struct sim_key *key = &world->keys.keys[task->index];
    struct sim_key_state *last = sim_keys_last(&world->keys, task->index);
    enum sim_presence presence = sim_keys_presence(last, world->now_ms);
    struct verdict verdict = {
        .world = world,
        .task = task,
        .command = &task->command,
        .result = result,
        .last = last,
        .is_there = presence == SIM_EITHER ? result->was_there : presence == SIM_PRESENT,
        .next = {.expires_ms = SIM_KEY_NEVER, .batch = result->batch},
    };
    enum tr_key_outcome wanted = want(&verdict, text);
    bool is_refused = result->outcome == TR_KEY_REFUSED;
    verdict.next.batch = result->batch;
    bool is_full = (result->refusal == TR_DISK_FULL && !world->is_healed) ||
                   (result->refusal == TR_MEMORY_FULL && world->is_tight) ||
                   result->refusal == TR_STOPPING; /* it waited for the log, and it stops now */
    if (is_refused && !is_full)
        broken(world, task->index, "a command on a key was refused without a reason");
    else if (!is_refused && result->outcome != wanted)
        broken(world, task->index, "a command on a key has another outcome");
    else if (!is_refused && (!is_told_well(&verdict) || !is_old_told(&verdict)))
        broken(world, task->index, "a key is told as it is not");
    else if (!is_refused && key->count > 1 && result->batch < last->batch)
        broken(world, task->index, "a key is told of before it is durable");
    bool is_done = result->outcome == TR_KEY_DONE && verdict.changes &&
                   (verdict.is_there || verdict.next.is_there);
    if (is_done && world->has_log && result->batch <= tr_node_durable(world->node))
        broken(world, task->index, "a write of a key is answered before it is on disk");
    if (!is_done && task->appointment != 0)
        world->model.writes[task->appointment].is_refused = true;
    if (is_done && world->model.broken == NULL)
        sim_keys_put(&world->keys, task->index, verdict.next, verdict.is_there, world->now_ms);
    if (task->command.verb == TR_KEY_READ && result->was_there) {
        key->version = result->version;
        key->is_changed = false;
    }
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
        settle(world, &result);
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
        size = alone_draw(world, 12) == 0  ? alone_draw(world, VALUE_MAX + 8)
               : alone_draw(world, 4) == 0 ? alone_draw(world, 700)
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
    uint64_t count = alone_draw(world, 6);
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

/* Keys that have expired are gone by now, unless somebody is to be called and cannot be owed it. */
static void count_keys(struct alone *world)
{
    struct tr_node_stats stats;
    uint64_t most = 0;
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        struct sim_key_state last = *sim_keys_last(&world->keys, i);
        last.late_ms += last.appointment != 0 && !world->is_healed ? UINT64_MAX / 2 : FREED_MS;
        most += sim_keys_presence(&last, world->now_ms) != SIM_ABSENT;
    }
    tr_node_stats(world->node, &stats);
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
        told[i].expires_ms = true_ms(world, result.expires_ms);
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
