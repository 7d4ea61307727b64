/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From three nodes to four, with as many timers as asked: how many primaries move, where to, and
 * what goes over the links for it. Rendezvous hashing promises a quarter, all onto the new node.
 */
#include "sim/scale.h"

#include "base/assert.h"
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FACTOR      2
#define SHARE_MIN   0.248
#define SHARE_MAX   0.252
#define SETTLE_MS   3600000
#define BUSY        48 /* requests at once */
#define INTERVAL_MS 86400000

struct places {
    uint8_t *primary; /* by write: the machine that is first in the list, plus one */
    uint64_t *lists;  /* by write: a hash of the list */
};

static void create(struct world *world, uint32_t index)
{
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    struct sim_write write = {.asked_ms = world->now_ms,
                              .interval_ms = INTERVAL_MS,
                              .pops = 1,
                              .is_long = true,
                              .factor = FACTOR};
    uint32_t number = sim_model_ask(&world->model, write);
    int size = snprintf(world->opaque, sizeof world->opaque, "%u ", number);
    world->body = (struct tr_timer_body){
        .interval_ms = INTERVAL_MS,
        .uri = TR_SPAN("http://receiver-1/pop"),
        .opaque = {world->opaque, (size_t)size},
        .factor = FACTOR,
    };
    event.of.request.token = ++world->token;
    event.of.request.command = TR_COMMAND_CREATE;
    event.of.request.body = &world->body;
    world->open[world->open_count++] = (struct open_request){
        .token = world->token, .write = number, .machine = index, .asked_ms = world->now_ms};
    sim_step(world, index, &event);
}

static void fill(struct world *world, uint64_t timers)
{
    bool is_watched = isatty(STDERR_FILENO) == 1;
    for (uint64_t i = 0; i < timers && world->model.broken == NULL;) {
        while (world->open_count < BUSY && i < timers)
            create(world, (uint32_t)(i++ % 3));
        sim_advance(world, world->now_ms + 1);
        sim_connect(world);
        if (is_watched && i % 65536 < BUSY)
            fprintf(stderr, "\r%llu of %llu timers", (unsigned long long)i,
                    (unsigned long long)timers);
    }
    for (unsigned i = 0; i < 5000 && world->open_count > 0; i++)
        sim_advance(world, world->now_ms + 1);
    if (is_watched)
        fprintf(stderr, "\r%40s\r", "");
}

static void look(const struct world *world, struct places *places)
{
    struct tr_record record;
    for (uint32_t i = 0; i < 4; i++) {
        struct tr_node_walk walk = {0};
        const struct tr_node *node = world->machines[i].node;
        while (node != NULL && tr_node_next_record(node, &walk, &record)) {
            uint32_t number = (uint32_t)strtoul(record.opaque.text, NULL, 10);
            if (number >= world->model.count || record.head.replicas.members[0] != 0)
                continue;
            places->primary[number] = (uint8_t)(i + 1);
            uint64_t hash = 0;
            for (unsigned k = 0; k < record.head.replicas.count; k++) {
                struct tr_span address =
                    tr_node_member_address(node, record.head.replicas.members[k]);
                hash = tr_hash_mix(hash + tr_hash_xxh3(address.text, address.size));
            }
            places->lists[number] = hash;
        }
    }
}

static struct places new_places(const struct world *world)
{
    struct places places = {
        .primary = calloc(world->model.count, 1),
        .lists = calloc(world->model.count, sizeof(uint64_t)),
    };
    TR_ASSERT(places.primary != NULL && places.lists != NULL);
    return places;
}

static void free_places(struct places *places)
{
    free(places->primary);
    free(places->lists);
}

bool sim_scale_join(struct world *world, bool (*is_done)(const struct world *world, uint32_t index))
{
    uint64_t end_ms = world->now_ms + SETTLE_MS;
    for (unsigned step = 1; step <= 2; step++) {
        struct sim_view view = *sim_view(world);
        world->view_number++;
        view.number = world->view_number;
        view.roles[3] = step == 1 ? TR_ROLE_JOINING : TR_ROLE_STAYING;
        *sim_view(world) = view;
        for (uint32_t i = 0; i < 4; i++) {
            world->machines[i].view = view;
            if (world->machines[i].is_ready)
                sim_set_view(world, i);
        }
        if (step == 1)
            sim_start(world, 3);
        bool is_balanced = false;
        while (!is_balanced && world->now_ms < end_ms && world->model.broken == NULL) {
            sim_advance(world, world->now_ms + 100);
            sim_connect(world);
            is_balanced = true;
            for (uint32_t i = 0; i < 4; i++)
                is_balanced &= is_done(world, i);
        }
        if (!is_balanced)
            return false;
    }
    return true;
}

static int report(const struct world *world, const struct places *before,
                  const struct places *after, uint64_t frames, uint64_t bytes)
{
    uint64_t timers = world->model.count - 1;
    uint64_t moved = 0;
    uint64_t elsewhere = 0;
    uint64_t changed = 0;
    uint64_t lost = 0;
    for (uint32_t i = 1; i < world->model.count; i++) {
        bool is_moved = before->primary[i] != after->primary[i];
        lost += after->primary[i] == 0;
        moved += is_moved;
        elsewhere += is_moved && after->primary[i] != 4;
        changed += before->lists[i] != after->lists[i];
    }
    double share = (double)moved / (double)timers;
    printf("%llu timers, %d copies each, from 3 to 4 nodes\n", (unsigned long long)timers, FACTOR);
    printf("%.2f%% of primaries moved, %llu of them elsewhere than onto the new node; %llu lost\n",
           100 * share, (unsigned long long)elsewhere, (unsigned long long)lost);
    printf("%.2f%% of timers have another list\n", 100 * (double)changed / (double)timers);
    printf("%.3f frames and %.0f bytes for each of those\n", (double)frames / (double)changed,
           (double)bytes / (double)changed);
    return share >= SHARE_MIN && share <= SHARE_MAX && elsewhere == 0 && lost == 0 ? 0 : 1;
}

struct world *sim_scale_open(uint64_t records)
{
    static const struct sim_options options = {.seed = 1, .nodes = 3};
    struct world *world = sim_world_new(&options);
    world->is_large = true;
    world->memory_size = ((size_t)64 << 20) + records * 400;
    world->segment_size = (size_t)16 << 20;
    world->messages_max = 65536;
    world->steps_most = UINT64_MAX;
    world->machine_count = 4;
    world->view_number = 1;
    sim_view(world)->number = 1;
    for (uint32_t i = 0; i < 3; i++)
        sim_view(world)->roles[i] = TR_ROLE_STAYING;
    for (uint32_t i = 0; i < 3; i++) {
        world->machines[i].view = *sim_view(world);
        sim_start(world, i);
    }
    for (unsigned i = 0; i < 40; i++) {
        sim_advance(world, world->now_ms + 100);
        sim_connect(world);
    }
    return world;
}

int sim_scale_run(uint64_t timers)
{
    struct world *world = sim_scale_open(timers);
    fill(world, timers);
    struct places before = new_places(world);
    struct places after = new_places(world);
    look(world, &before);
    uint64_t frames = world->result.frames;
    uint64_t bytes = world->frame_bytes;
    bool is_balanced = sim_scale_join(world, sim_is_balanced);
    look(world, &after);
    int status =
        report(world, &before, &after, world->result.frames - frames, world->frame_bytes - bytes);
    if (!is_balanced || world->model.broken != NULL) {
        printf("%s\n", world->model.broken != NULL ? world->model.broken : "it does not end");
        status = 1;
    }
    free_places(&before);
    free_places(&after);
    sim_world_free(world);
    return status;
}
