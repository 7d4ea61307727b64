/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/keys.h"

#include "base/assert.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANY_VALUE 0 /* as a hash: it is not known */

void sim_keys_init(struct sim_keys *keys, struct sim_model *model)
{
    *keys = (struct sim_keys){.model = model};
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        snprintf(keys->keys[i].name, sizeof keys->keys[i].name, "key:%u", i);
        keys->keys[i].states[0].expires_ms = SIM_KEY_NEVER;
        keys->keys[i].count = 1;
    }
}

void sim_keys_free(struct sim_keys *keys)
{
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        for (uint32_t k = 0; k < keys->keys[i].count; k++)
            free(keys->keys[i].states[k].value);
    }
    free(keys->expected);
}

void sim_keys_broken(struct sim_keys *keys, uint32_t index, const char *what)
{
    if (keys->model->broken != NULL)
        return;
    keys->model->broken = what;
    keys->model->broken_write = index;
}

struct sim_key_state *sim_keys_last(struct sim_keys *keys, uint32_t index)
{
    return &keys->keys[index].states[keys->keys[index].count - 1];
}

enum sim_presence sim_keys_presence(const struct sim_key_state *state, uint64_t now_ms)
{
    if (!state->is_there)
        return SIM_ABSENT;
    if (now_ms <= state->expires_ms) /* the millisecond in which it expires counts as a whole one */
        return SIM_PRESENT;
    return now_ms - state->expires_ms > state->late_ms ? SIM_ABSENT : SIM_EITHER;
}

/* ---- appointments ---- */

static void expect(struct sim_keys *keys, const struct sim_key_state *state)
{
    uint32_t number = state->appointment;
    if (number == 0)
        return;
    if (number >= keys->expected_cap) {
        keys->expected_cap = 2 * number + 64;
        keys->expected = realloc(keys->expected, keys->expected_cap * sizeof *keys->expected);
        TR_ASSERT(keys->expected != NULL);
    }
    keys->expected[number] = tr_hash_xxh3(state->value, state->size);
}

void sim_keys_post(struct sim_keys *keys, uint32_t appointment, struct tr_span value)
{
    if (appointment < keys->expected_cap && keys->expected[appointment] != ANY_VALUE &&
        keys->expected[appointment] != tr_hash_xxh3(value.text, value.size))
        sim_keys_broken(keys, appointment, "a key's callback has another value than the key had");
}

/* An appointment that is not kept any more: a cancellation in the timers' model. */
static uint32_t end_appointment(struct sim_keys *keys, uint32_t appointment, uint64_t now_ms)
{
    uint32_t number = sim_model_ask(keys->model, (struct sim_write){.asked_ms = now_ms});
    sim_model_follow(keys->model, appointment, number);
    return number;
}

/* ---- writing ---- */

void sim_keys_put(struct sim_keys *keys, uint32_t index, struct sim_key_state state, bool was_there,
                  uint64_t now_ms)
{
    struct sim_key *key = &keys->keys[index];
    const struct sim_key_state *last = sim_keys_last(keys, index);
    uint32_t before = was_there ? last->appointment : 0;
    TR_ASSERT(key->count < SIM_KEY_STATES);
    if (before != 0 && before != state.appointment) {
        if (state.appointment != 0)
            sim_model_follow(keys->model, before, state.appointment);
        else
            state.write = end_appointment(keys, before, now_ms);
    }
    char *copy = malloc(state.size + 1);
    TR_ASSERT(copy != NULL);
    if (state.size > 0)
        memcpy(copy, state.value, state.size);
    state.value = copy;
    key->states[key->count++] = state;
    key->is_changed = true;
    key->was_throughout &= was_there && state.is_there;
    expect(keys, &state);
}

static void acknowledge(struct sim_keys *keys, uint32_t write, uint64_t now_ms)
{
    if (write == 0)
        return;
    keys->model->writes[write].is_acked = true;
    keys->model->writes[write].acked_ms = now_ms;
}

/* States before `first` are over. */
static void forget_before(struct sim_key *key, uint32_t first)
{
    for (uint32_t i = 0; i < first; i++)
        free(key->states[i].value);
    key->count -= first;
    memmove(key->states, key->states + first, key->count * sizeof key->states[0]);
}

void sim_keys_durable(struct sim_keys *keys, uint64_t batch, uint64_t now_ms)
{
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        struct sim_key *key = &keys->keys[i];
        uint32_t first = 0;
        while (first + 1 < key->count && key->states[first + 1].batch <= batch)
            acknowledge(keys, key->states[++first].write, now_ms);
        forget_before(key, first);
    }
}

/* ---- a crash ---- */

static bool is_as_told(const struct sim_key_state *state, const struct sim_key_told *told,
                       uint64_t now_ms)
{
    enum sim_presence presence = sim_keys_presence(state, now_ms);
    if (!told->is_there)
        return presence != SIM_PRESENT;
    if (presence == SIM_ABSENT || told->value.size != state->size ||
        memcmp(told->value.text, state->value, state->size) != 0)
        return false;
    bool is_same_time = state->expires_ms == SIM_KEY_NEVER
                            ? told->expires_ms == SIM_KEY_NEVER
                            : told->expires_ms != SIM_KEY_NEVER &&
                                  told->expires_ms >= state->expires_ms &&
                                  told->expires_ms - state->expires_ms <= state->late_ms;
    return is_same_time && told->appointment == state->appointment;
}

/* The place of a key's state when everything up to this batch had happened. */
static uint32_t place_at(const struct sim_key *key, uint64_t batch)
{
    uint32_t place = 0;
    while (place + 1 < key->count && key->states[place + 1].batch <= batch)
        place++;
    return place;
}

static bool is_cut_at(const struct sim_keys *keys, const struct sim_key_told told[SIM_KEYS],
                      uint64_t batch, uint64_t now_ms)
{
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        const struct sim_key *key = &keys->keys[i];
        if (!is_as_told(&key->states[place_at(key, batch)], &told[i], now_ms))
            return false;
    }
    return true;
}

/* What was carried out and is lost has never been. */
static void lose(struct sim_keys *keys, const struct sim_key_state *state)
{
    if (state->write == 0)
        return;
    struct sim_write *write = &keys->model->writes[state->write];
    write->is_refused = true;
    for (uint32_t i = 1; i < keys->model->count; i++) {
        if (keys->model->writes[i].replaced_by == state->write)
            keys->model->writes[i].replaced_by = 0;
    }
}

static void cut(struct sim_keys *keys, uint64_t batch, uint64_t now_ms)
{
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        struct sim_key *key = &keys->keys[i];
        uint32_t place = place_at(key, batch);
        bool is_lost = key->count > place + 1;
        for (uint32_t k = key->count - 1; k > place; k--) {
            lose(keys, &key->states[k]);
            free(key->states[k].value);
        }
        key->count = place + 1;
        /* What was not answered, and has expired by now, may as well be lost. */
        for (uint32_t k = 1; k <= place; k++)
            keys->model->writes[key->states[k].write].is_maybe = true;
        bool is_unknown =
            place > 0 && sim_keys_presence(&key->states[place], now_ms) != SIM_PRESENT;
        uint32_t appointment = key->states[place].appointment;
        if (is_lost && appointment != 0 && keys->expected[appointment] != ANY_VALUE)
            expect(keys, &key->states[place]);
        for (uint32_t k = 0; is_unknown && k <= place; k++) {
            if (key->states[k].appointment != 0)
                keys->expected[key->states[k].appointment] = ANY_VALUE;
        }
        forget_before(key, place);
        key->states[0].batch = 0;
        key->version = 0;
    }
}

void sim_keys_cut(struct sim_keys *keys, const struct sim_key_told told[SIM_KEYS], uint64_t now_ms)
{
    uint64_t highest = 0;
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        for (uint32_t k = 0; k < keys->keys[i].count; k++) {
            struct sim_key_state *state = &keys->keys[i].states[k];
            highest = state->batch > highest && k > 0 ? state->batch : highest;
            state->late_ms += SIM_START_MS;
        }
    }
    /* From the last batch down, each that wrote something; then none of them. */
    for (uint64_t batch = highest;;) {
        uint64_t lower = 0;
        if (is_cut_at(keys, told, batch, now_ms)) {
            cut(keys, batch, now_ms);
            return;
        }
        if (batch == 0)
            break;
        for (uint32_t i = 0; i < SIM_KEYS; i++) {
            for (uint32_t k = 1; k < keys->keys[i].count; k++) {
                uint64_t other = keys->keys[i].states[k].batch;
                lower = other < batch && other > lower ? other : lower;
            }
        }
        batch = lower;
    }
    sim_keys_broken(keys, 0, "after a start the keys are as they never were together");
}
