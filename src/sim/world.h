/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world for one node: virtual time, a faulty disk, faulty receivers, clients, crashes; everything
 * drawn from one seed. First faults everywhere, then healing, then everything owed must be paid.
 */
#ifndef TR_SIM_WORLD_H
#define TR_SIM_WORLD_H

#include "sim/model.h"

struct sim_options {
    uint64_t seed;
    uint32_t writes;
    bool is_verbose; /* print the trace as it goes */
};

struct sim_result {
    const char *broken; /* NULL: all was well */
    uint64_t trace_hash;
    uint64_t timers;
    uint64_t pops;
    uint64_t crashes;
    uint64_t steps;
    uint64_t least_lateness_ms;
};

/* Runs a whole life; on failure the trace's tail goes to standard output. */
struct sim_result sim_world_run(const struct sim_options *options);

/* The same for a cluster of several nodes, on a network that fails too. */
struct sim_result sim_cluster_run(const struct sim_options *options);

#endif
