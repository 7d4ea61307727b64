/* SPDX-License-Identifier: Apache-2.0 */
/* The rooms below replication, each by itself: what a test fills in to drive one by hand. */
#ifndef TESTS_UNIT_ROOMS_H
#define TESTS_UNIT_ROOMS_H

#include "unit.h"

#include "cluster/member.h"
#include "cluster/outbox.h"
#include "cluster/ring.h"
#include "cluster/view.h"
#include "node/node.h"

static inline void *unit_zeros(size_t size)
{
    void *region = calloc(1, size);
    assert_non_null(region);
    return region;
}

/* A second has passed since the machine was booted, five since its steady time began. */
static inline struct tr_time unit_time(void)
{
    struct tr_time time = {.now_ms = 1000, .wall_ms = 5000, .steady_ms = 5000};
    time.steady_base = time.steady_ms - time.now_ms;
    return time;
}

static inline void unit_pass(struct tr_time *time, uint64_t ms)
{
    time->now_ms += ms;
    time->wall_ms += ms;
    time->steady_ms += ms;
}

/* A log that is in memory alone, and always durable. */
static inline void unit_set_log(struct tr_log *log, const struct tr_time *time,
                                const struct tr_trial *trial, uint32_t waiting)
{
    log->config.waiting_cap = waiting;
    log->waiting = unit_zeros(waiting * sizeof *log->waiting);
    log->time = time;
    log->trial = trial;
    log->number = 1;
    log->is_running = true;
    log->incarnations[0].number = 1;
    log->incarnation_count = 1;
}

/* A cluster that knows of itself alone; its hooks, time, trial and log are the caller's. */
static inline void unit_set_cluster(struct tr_cluster *cluster, const char *address,
                                    uint32_t messages)
{
    cluster->address = (struct tr_span){address, strlen(address)};
    cluster->entry_max = 1024;
    cluster->members = unit_zeros(TR_LOG_NODES_MAX * sizeof *cluster->members);
    cluster->peers = unit_zeros(TR_LOG_NODES_MAX * sizeof *cluster->peers);
    cluster->view.map_size = tr_view_map_size();
    cluster->view.map = unit_zeros(cluster->view.map_size);
    cluster->view.workspace_size = (size_t)64 << 10;
    cluster->view.workspace = unit_zeros(cluster->view.workspace_size);
    cluster->ring_map_size = tr_ring_map_size();
    cluster->ring.map = unit_zeros(cluster->ring_map_size);
    cluster->old_ring.map = unit_zeros(cluster->ring_map_size);
    cluster->ring_scratch = unit_zeros(cluster->ring_map_size);
    cluster->messages_max = messages;
    cluster->messages = unit_zeros(messages * sizeof *cluster->messages);
    cluster->message_free = TR_QUEUE_END;
    cluster->frames = unit_zeros(TR_FRAMES_SIZE);
    tr_member_set(cluster, 0, cluster->address);
    cluster->stamp_node = (uint16_t)cluster->members[0].hash;
}

static inline void unit_free_cluster(struct tr_cluster *cluster)
{
    free(cluster->members);
    free(cluster->peers);
    free(cluster->view.map);
    free(cluster->view.workspace);
    free(cluster->ring.map);
    free(cluster->old_ring.map);
    free(cluster->ring_scratch);
    free(cluster->messages);
    free(cluster->frames);
}

/* What the nodes of tests have in common; each sets what it is about. */
static inline struct tr_node_config unit_node_config(void)
{
    return (struct tr_node_config){
        .address = TR_SPAN("127.0.0.1:7253"),
        .seed = 1,
        .segment_size = (size_t)64 << 10,
        .flights_max = 64,
        .per_destination = 64,
        .attempts_max = 3,
        .backoff_ms = 100,
        .dead_keep_ms = 86400000,
        .latency_target_ms = 500,
    };
}

/* A node in a region of its own, which the caller frees. */
static inline struct tr_node *unit_node(const struct tr_node_config *config, size_t size,
                                        void **region)
{
    *region = aligned_alloc(16, size);
    assert_non_null(*region);
    memset(*region, 0, size);
    struct tr_node *node = tr_node_new(config, &(struct tr_memory){*region, size});
    assert_non_null(node);
    return node;
}

#endif
