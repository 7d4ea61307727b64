/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After healing: every record is on exactly the nodes where the view places it, equal everywhere,
 * and nowhere else; and every timer that must be there is. Where a view places it is asked of the
 * placement library, not of the nodes.
 */
#include "sim/world.h"

#include "base/assert.h"

#include <tryst/place.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
    struct tryst_place_map *map;
    void *workspace;
    uint32_t machines[MACHINES_MAX];
    uint32_t count;
};

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct tryst_place_node *)a)->name,
                  ((const struct tryst_place_node *)b)->name);
}

static void make_place(struct world *world, struct place *place)
{
    static const struct tryst_place_config config = {.strategy = "chronos@1"};
    struct tryst_place_node nodes[MACHINES_MAX];
    size_t fault = 0;
    place->count = 0;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (sim_view(world)->roles[i] == TR_ROLE_STAYING)
            nodes[place->count++] = (struct tryst_place_node){.name = world->machines[i].address};
    }
    qsort(nodes, place->count, sizeof nodes[0], by_address);
    for (uint32_t i = 0; i < place->count; i++) {
        for (uint32_t k = 0; k < world->machine_count; k++) {
            if (strcmp(nodes[i].name, world->machines[k].address) == 0)
                place->machines[i] = k;
        }
    }
    size_t size = tryst_place_map_size(&config, nodes, place->count);
    place->map = malloc(size);
    TR_ASSERT(place->map != NULL);
    enum tryst_place_status status =
        tryst_place_map_init(place->map, size, &config, nodes, place->count, &fault);
    TR_ASSERT(status == TRYST_PLACE_OK);
    place->workspace = malloc(tryst_place_workspace_size(place->map, place->count));
    TR_ASSERT(place->workspace != NULL);
}

static bool find(const struct world *world, uint32_t index, const struct tr_record *like,
                 struct tr_record *record)
{
    struct tr_node_walk walk = {.hash = tr_hash_mix(like->head.key.id)};
    while (tr_node_next_record(world->machines[index].node, &walk, record)) {
        if (record->head.key.id != like->head.key.id)
            return false;
        if (record->head.key.part == like->head.key.part)
            return true;
    }
    return false;
}

static bool is_live(const struct tr_record *record)
{
    return (record->head.flags & (TR_RECORD_TOMBSTONE | TR_RECORD_DEAD)) == 0;
}

static void check_record(struct world *world, const struct place *place, uint32_t index,
                         const struct tr_record *record)
{
    uint32_t wanted[TR_SET_MAX];
    size_t count = record->head.factor < place->count ? record->head.factor : place->count;
    count = tryst_place_lookup(place->map, tryst_place_key_of_id(place->map, record->head.key.id),
                               count, wanted, place->workspace);
    bool is_mine = false;
    if (record->head.replicas.count != count || (record->head.flags & TR_RECORD_MOVING) != 0) {
        sim_break(world, "after healing a record has another list than it should");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t other = place->machines[wanted[i]];
        struct tr_span address =
            tr_node_member_address(world->machines[index].node, record->head.replicas.members[i]);
        struct tr_record copy;
        is_mine |= other == index;
        if (strlen(world->machines[other].address) != address.size ||
            memcmp(world->machines[other].address, address.text, address.size) != 0) {
            sim_break(world, "after healing a record is listed elsewhere than placed");
            return;
        }
        struct tr_order order = record->head.order;
        struct tr_order same = order;
        bool is_there = find(world, other, record, &copy);
        if (is_there)
            same = copy.head.order;
        if (!is_there)
            sim_break(world, "after healing a replica lacks a record");
        else if (tr_order_compare(&order, &same) != 0)
            sim_break(world, "after healing replicas of a record differ");
    }
    if (!is_mine)
        sim_break(world, "after healing a record is where it does not belong");
}

static void check_machine(struct world *world, const struct place *place, uint32_t index)
{
    struct tr_node_walk walk = {0};
    struct tr_record record;
    while (tr_node_next_record(world->machines[index].node, &walk, &record)) {
        if (!is_live(&record))
            continue;
        check_record(world, place, index, &record);
        if (world->model.broken != NULL && world->model.broken_write == 0) {
            world->model.broken_write = (uint32_t)strtoul(record.opaque.text, NULL, 10);
            return;
        }
    }
}

static void check_present(struct world *world, const struct place *place)
{
    for (uint32_t i = 1; i < world->model.count && world->model.broken == NULL; i++) {
        const struct sim_write *write = &world->model.writes[i];
        struct tr_record like = {.head.key.id = write->id};
        struct tr_record record;
        uint32_t wanted = 0;
        if (!write->is_long || !sim_model_is_promised(&world->model, i))
            continue;
        tryst_place_lookup(place->map, tryst_place_key_of_id(place->map, write->id), 1, &wanted,
                           place->workspace);
        if (!find(world, place->machines[wanted], &like, &record) || !is_live(&record)) {
            sim_break(world, "after healing a timer that was acknowledged is nowhere");
            world->model.broken_write = i;
        }
    }
}

/* What was cancelled is nowhere. */
static void check_cancelled(struct world *world)
{
    for (uint32_t i = 1; i < world->model.count && world->model.broken == NULL; i++) {
        struct tr_record like = {.head.key.id = world->model.writes[i].id};
        if (!sim_model_is_cancelled(&world->model, i))
            continue;
        for (uint32_t k = 0; k < world->machine_count; k++) {
            struct tr_record record;
            if (!world->machines[k].is_ready || !find(world, k, &like, &record) ||
                !is_live(&record))
                continue;
            sim_break(world, "after healing a timer that was cancelled is there");
            world->model.broken_write = i;
        }
    }
}

void sim_check_places(struct world *world)
{
    struct place place;
    make_place(world, &place);
    for (uint32_t i = 0; i < world->machine_count && world->model.broken == NULL; i++) {
        if (world->machines[i].is_ready)
            check_machine(world, &place, i);
    }
    check_present(world, &place);
    check_cancelled(world);
    free(place.map);
    free(place.workspace);
}
