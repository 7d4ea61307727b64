/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From three nodes to four, with as many keys as asked: which copies move, and where to. The ring
 * gives the new node its partitions; each copy that it gets is one that another node drops, and
 * nothing else moves.
 */
#include "sim/scale.h"

#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPIES     2
#define PARTITIONS 4096
#define POSITIONS  16
#define BUSY       48   /* writes at once */
#define SHARE_MOST 1.25 /* times an even one, for the new node */

static uint32_t open_count; /* writes that are not answered */
static uint64_t refused;

static void hear_answer(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    (void)world;
    (void)index;
    open_count--;
    refused += effect->of.key.result.outcome != TR_KEY_DONE;
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

static struct tr_span name_of(uint64_t number, char text[24])
{
    int size = snprintf(text, 24, "key-%llu", (unsigned long long)number);
    return (struct tr_span){text, (size_t)size};
}

static void set(struct world *world, uint32_t index, uint64_t number)
{
    char text[24];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    struct tr_key_command command = {
        .verb = TR_KEY_SET, .key = name_of(number, text), .value = TR_SPAN("a value of a key")};
    struct tr_key_result result;
    sim_step(world, index, &event);
    open_count++;
    if (tr_node_ask_key(world->machines[index].node, number + 1, &command, &result)) {
        open_count--;
        refused += result.outcome != TR_KEY_DONE;
    }
    sim_step(world, index, &event);
}

static void fill(struct world *world, uint64_t keys)
{
    for (uint64_t i = 0; i < keys && world->model.broken == NULL;) {
        while (open_count < BUSY && i < keys) {
            set(world, (uint32_t)(i % 3), i);
            i++;
        }
        sim_advance(world, world->now_ms + 1);
        sim_connect(world);
    }
    for (unsigned i = 0; i < 10000 && open_count > 0; i++)
        sim_advance(world, world->now_ms + 1);
}

static bool make_keyspace(struct world *world)
{
    struct tr_definition keys = {.partitions = PARTITIONS,
                                 .copies = COPIES,
                                 .reads = COPIES,
                                 .writes = COPIES,
                                 .positions = POSITIONS};
    struct tr_event event = {.kind = TR_EVENT_TICK};
    uint16_t who = 0;
    bool is_made = false;
    for (unsigned i = 0; i < 200; i++) {
        sim_step(world, 0, &event);
        is_made = is_made ||
                  tr_node_create_keyspace(world->machines[0].node, &keys, &who) == TR_CHANGE_MADE;
        sim_advance(world, world->now_ms + 100);
        sim_connect(world);
        bool is_known = is_made;
        for (uint32_t k = 0; k < 3; k++)
            is_known &= tr_node_roster(world->machines[k].node)->keys.partitions == PARTITIONS;
        if (is_known)
            return true;
    }
    return false;
}

/* Which machines have a key: a bit for each. */
static void look(const struct world *world, uint64_t keys, uint8_t *holders)
{
    for (uint64_t i = 0; i < keys; i++) {
        char text[24];
        struct tr_span key = name_of(i, text);
        holders[i] = 0;
        for (uint32_t k = 0; k < 4; k++) {
            struct tr_pair pair;
            const struct tr_node *node = world->machines[k].node;
            bool has_it = node != NULL && tr_node_pair(node, key, &pair) && !pair.is_end;
            holders[i] |= (uint8_t)(has_it << k);
        }
    }
}

static bool has_joined(const struct world *world, uint32_t index)
{
    struct tr_node_stats stats;
    const struct machine *machine = &world->machines[index];
    if (!machine->is_ready)
        return false;
    tr_node_stats(machine->node, &stats);
    return stats.is_serving && !stats.is_rebalancing && stats.are_keys_home &&
           !tr_roster_is_changing(tr_node_roster(machine->node)) &&
           tr_node_roster(machine->node)->count == 4;
}

/* Which nodes are to have a key, as one of them says. */
static uint8_t list_of(const struct world *world, uint64_t number)
{
    char text[24];
    struct tr_span addresses[TR_COPIES_MAX];
    uint8_t list = 0;
    unsigned count = tr_node_key_list(world->machines[0].node, name_of(number, text), addresses);
    for (unsigned i = 0; i < count; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            struct tr_span address = {world->machines[k].address,
                                      strlen(world->machines[k].address)};
            list |= (uint8_t)(tr_span_equals(addresses[i], address) << k);
        }
    }
    return list;
}

static int report(const struct world *world, uint64_t keys, const uint8_t *before,
                  const uint8_t *after, uint64_t bytes)
{
    uint64_t onto_new = 0;
    uint64_t elsewhere = 0;
    uint64_t misplaced = 0;
    for (uint64_t i = 0; i < keys; i++) {
        uint8_t gained = after[i] & (uint8_t)~before[i];
        onto_new += gained >> 3 & 1;
        elsewhere += (gained & 7) != 0;
        misplaced += after[i] != list_of(world, i);
    }
    double share = (double)onto_new / (double)keys / COPIES;
    printf("%llu keys, %d copies each, from 3 to 4 nodes: %llu writes refused\n",
           (unsigned long long)keys, COPIES, (unsigned long long)refused);
    printf("%.2f%% of copies moved onto the new node, %llu elsewhere; %llu keys are not exactly "
           "where they belong\n",
           100 * share, (unsigned long long)elsewhere, (unsigned long long)misplaced);
    printf("%.0f bytes on links for each\n", (double)bytes / (double)onto_new);
    return refused == 0 && elsewhere == 0 && misplaced == 0 && share * 4 < SHARE_MOST &&
                   share * 4 * SHARE_MOST > 1
               ? 0
               : 1;
}

int sim_scale_keys_run(uint64_t keys)
{
    struct world *world = sim_scale_open(keys);
    uint8_t *before = calloc(keys, 1);
    uint8_t *after = calloc(keys, 1);
    TR_ASSERT(before != NULL && after != NULL);
    world->key_calls = &calls;
    bool is_good = make_keyspace(world);
    if (is_good)
        fill(world, keys);
    look(world, keys, before);
    uint64_t bytes = world->frame_bytes;
    is_good = is_good && sim_scale_join(world, has_joined) && world->model.broken == NULL;
    int status = 1;
    if (is_good) {
        look(world, keys, after);
        status = report(world, keys, before, after, world->frame_bytes - bytes);
    } else {
        printf("%s\n", world->model.broken != NULL ? world->model.broken : "it does not end");
    }
    free(before);
    free(after);
    sim_world_free(world);
    return status;
}
