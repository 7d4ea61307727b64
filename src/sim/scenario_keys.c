/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/scenario_keys.h"

#include "base/assert.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_SIZE 16
#define TRIES         100000
#define HUNDREDTHS    100

/* The partition of a key, on a ring of a hundred. */
static unsigned place_of(const char *name)
{
    uint64_t hash = tr_hash_jenkins(name, strlen(name));
    return (unsigned)((hash * HUNDREDTHS + UINT32_MAX) >> 32) % HUNDREDTHS;
}

/* A key at so many hundredths of the circle. False: there is none. */
static bool find_name(unsigned place, char name[NAME_MAX_SIZE])
{
    for (unsigned i = 0; i < TRIES; i++) {
        snprintf(name, NAME_MAX_SIZE, "key%u", i);
        if (place_of(name) == place)
            return true;
    }
    return false;
}

static void hear_answer(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    const struct tr_key_result *result = &effect->of.key.result;
    bool has_value = result->outcome == TR_KEY_DONE && result->value.size > 0;
    sim_trace(world, "%s answers the client: %.*s", sim_name(index),
              has_value ? (int)result->value.size : 4,
              has_value                          ? result->value.text
              : result->outcome == TR_KEY_DONE   ? "done"
              : result->outcome == TR_KEY_ABSENT ? "none"
                                                 : "no..");
}

static void hear_page(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    (void)world;
    (void)index;
    (void)effect;
}

static void forsake(struct world *world, uint32_t index)
{
    (void)world;
    (void)index;
}

static const struct sim_key_calls calls = {hear_answer, hear_page, forsake, NULL};

const char *sim_story_keyspace(struct world *world, char **words, int count)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    uint16_t who = TR_MEMBER_NONE;
    if (count < 5)
        return "keyspace PARTITIONS COPIES on NODE";
    struct tr_definition keys = {
        .partitions = strtoull(words[1], NULL, 10),
        .copies = (uint8_t)strtoul(words[2], NULL, 10),
        .reads = 1,
        .writes = 1,
        .positions = 1,
    };
    uint32_t index = (uint32_t)(words[4][0] - 'A');
    world->key_calls = &calls;
    if (tr_node_create_keyspace(world->machines[index].node, &keys, &who) != TR_CHANGE_MADE)
        return "no keyspace was made";
    sim_trace(world, "CREATE KEYSPACE %s %s R 1 W 1 on %s", words[1], words[2], sim_name(index));
    sim_step(world, index, &event);
    return NULL;
}

const char *sim_story_key(struct world *world, char **words, int count)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    struct tr_key_result result;
    char name[NAME_MAX_SIZE];
    bool is_set = strcmp(words[0], "set") == 0;
    if (count < 4 || words[1][0] != '.')
        return "set or get .HUNDREDTHS on NODE";
    if (!find_name((unsigned)strtoul(words[1] + 1, NULL, 10), name))
        return "no key is there";
    struct tr_key_command command = {
        .verb = is_set ? TR_KEY_SET : TR_KEY_READ,
        .key = {name, strlen(name)},
        .value = {words[1], is_set ? strlen(words[1]) : 0},
    };
    uint32_t index = (uint32_t)(words[3][0] - 'A');
    sim_trace(world, "client %s %s, which is at %s, on %s", is_set ? "sets" : "gets", name,
              words[1], sim_name(index));
    sim_step(world, index, &event);
    if (tr_node_ask_key(world->machines[index].node, 1, &command, &result))
        return "it was refused";
    sim_step(world, index, &event);
    return NULL;
}

const char *sim_story_table(struct world *world, const char *letters)
{
    for (; *letters != '\0'; letters++) {
        uint32_t index = (uint32_t)(*letters - 'A');
        const struct tr_node *node = world->machines[index].node;
        bool is_here[HUNDREDTHS] = {false};
        char row[512];
        size_t size = 0;
        struct tr_key_page page = {0};
        do {
            tr_node_scan_keys(node, page.cursor, 16, &page);
            for (uint32_t i = 0; i < page.count; i++) {
                struct tr_span key = tr_node_key_name(node, page.refs[i]);
                char name[NAME_MAX_SIZE];
                snprintf(name, sizeof name, "%.*s", (int)key.size, key.text);
                is_here[place_of(name)] = true;
            }
        } while (page.cursor != 0);
        row[0] = '\0';
        for (unsigned i = 0; i < HUNDREDTHS; i++) {
            if (is_here[i] && size + 5 < sizeof row)
                size += (size_t)snprintf(row + size, sizeof row - size, " .%02u", i);
        }
        sim_trace(world, "%s holds%s", sim_name(index), row);
    }
    return NULL;
}
