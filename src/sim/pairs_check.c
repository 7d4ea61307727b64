/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/pairs_parts.h"

#include "base/assert.h"

#include <tryst/place.h>

#include <stdlib.h>
#include <string.h>

#define EARLY_MS 50   /* by which a key may expire too soon */
#define REST_MS  5000 /* after which what stood in for others has given it back */

/* ---- at any time ---- */

uint32_t sim_pairs_machine(const struct world *world, struct tr_span address)
{
    uint32_t index = 0;
    while (index < world->machine_count &&
           !tr_span_equals(address, (struct tr_span){world->machines[index].address,
                                                     strlen(world->machines[index].address)}))
        index++;
    TR_ASSERT(index < world->machine_count);
    return index;
}

bool sim_pairs_are_sure(const struct world *world)
{
    bool is_rested =
        !world->faults[SIM_RESTART] || world->now_ms > world->model.impaired_ms + REST_MS;
    return !world->model.has_faults && !world->is_tight && is_rested && !world->model.is_off &&
           world->pairs->has_quorums;
}

bool sim_pairs_is_unanswered(const struct key_write *write)
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
        bool is_it =
            sim_pairs_is_unanswered(write) || (write->is_acked && write->version >= acknowledged);
        if (write->key == key && is_over && is_it)
            return true;
    }
    return false;
}

void sim_pairs_check_one(struct world *world, uint32_t key, uint64_t acknowledged, bool is_there,
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

/* ---- after healing ---- */

/* The ring by the placement library, not by the nodes. */
struct ring {
    struct tryst_place_map *map;
    void *workspace;
    unsigned copies;
    uint32_t count;
    uint32_t machines[MACHINES_MAX];
};

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
        uint32_t machine = sim_pairs_machine(world, tr_roster_address(roster, i));
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
    bool is_atomic = !world->model.has_faults && !world->faults[SIM_RESTART] && !world->is_tight &&
                     pairs->floor == 0;
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
    if (ring.copies == 0)
        sim_break(world, "after healing there is no keyspace");
    for (uint32_t i = 0; i < KEYS && world->model.broken == NULL; i++) {
        struct tr_span key = {pairs->names[i], strlen(pairs->names[i])};
        bool is_there = check_holders(world, &ring, key, &pair);
        if (is_there && pair.version < roster->floor)
            sim_break(world, "after healing a key is there that was flushed");
        /* What one node had, or has again since keys have fewer copies, may be gone with its
         * disk. */
        bool is_lost = world->model.lost_ms > 0;
        bool is_single = world->faults[SIM_SPREAD] || world->model.has_single_keys;
        uint64_t acked = !is_lost ? pairs->acked[i] : is_single ? 0 : pairs->shared[i];
        sim_pairs_check_one(world, i, acked, is_there, is_there ? pair.version : 0, pair.value);
        if (i >= KEYS - COUNTERS)
            check_counter(world, i - (KEYS - COUNTERS), is_there, pair.value);
        if (world->model.broken != NULL)
            sim_trace(world, "%s", pairs->names[i]);
    }
    free(ring.map);
    free(ring.workspace);
}
