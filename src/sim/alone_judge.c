/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/alone_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISK_ASKED_MS 2000 /* after it had no room the disk is asked again within this time */

uint64_t alone_true_ms(const struct alone *world, tr_steady_ms steady_ms)
{
    if (steady_ms == TR_NEVER)
        return SIM_KEY_NEVER;
    return world->now_ms + steady_ms - tr_node_steady(world->node);
}

static void broken(struct alone *world, uint32_t index, const char *what)
{
    sim_keys_broken(&world->keys, index, what);
}

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
    case TR_IF_OLDER: /* what is newer and has expired may be in the book, or not */
        return !key->is_changed || (!verdict->is_there && verdict->result->outcome != TR_KEY_UNMET);
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
    uint64_t expires_ms = alone_true_ms(verdict->world, result->expires_ms);
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

void alone_judge(struct alone *world, const struct tr_key_result *result)
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
    bool is_asked_again = world->is_healed && world->now_ms >= world->well_ms + DISK_ASKED_MS;
    bool is_full = (result->refusal == TR_DISK_FULL && !is_asked_again) ||
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
