/* SPDX-License-Identifier: Apache-2.0 */
/* A life: what is asked for, and what came of it. */
#ifndef TR_SIM_LIFE_H
#define TR_SIM_LIFE_H

#include "seam/mutant.h"
#include "sim/model.h"

/* What may go wrong. */
#define SIM_FAULTS_LIST(X)                                                                         \
    X(CRASH, "crashes")                                                                            \
    X(LOSS, "lost disks")                                                                          \
    X(ROLLBACK, "rolled-back disks")                                                               \
    X(SYNC, "failed syncs")                                                                        \
    X(FULL, "full disks")                                                                          \
    X(PAUSE, "pauses")                                                                             \
    X(BREAK, "broken links")                                                                       \
    X(STALL, "stalled links")                                                                      \
    X(PARTITION, "partitions")                                                                     \
    X(SKEW, "skewed clocks")                                                                       \
    X(DRIFT, "drifting clocks")                                                                    \
    X(STEP, "stepping clocks")                                                                     \
    X(RECEIVER, "failing receivers")                                                               \
    X(LIE, "lying receivers")                                                                      \
    X(SLOW, "slow receivers")                                                                      \
    X(VIEWS, "views that differ")                                                                  \
    X(EARLY, "step 3 too early")                                                                   \
    X(SCALE_UP, "scale-ups")                                                                       \
    X(SCALE_DOWN, "scale-downs")                                                                   \
    X(RESTART, "clean restarts")                                                                   \
    X(FULL_JOINER, "full disks of nodes that join")                                                \
    X(FULL_LONG, "disks that stay full")                                                           \
    X(FULL_RESTART, "restarts onto full disks")                                                    \
    X(MEMORY, "memory at its limit")                                                               \
    X(ALONE, "nodes that start before they hear of the others")                                    \
    X(LATENCY, "slow links")                                                                       \
    X(ASYMMETRY, "links that are slower one way")                                                  \
    X(FEW_CLAIMS, "a handful of claims")                                                           \
    X(FEW_DROPS, "a handful of drops that are remembered")                                         \
    X(FEW_MOVES, "a handful of moves")                                                             \
    X(FEW_MESSAGES, "a handful of messages")                                                       \
    X(FEW_OPERATIONS, "a handful of operations")                                                   \
    X(FEW_PENDING, "a handful of records that are pending")                                        \
    X(SLICES, "slices of a handful")                                                               \
    X(RACE, "two writes of one timer at once")                                                     \
    X(SWAP, "joins and leaves in one view")                                                        \
    X(TAKEN_BACK, "changes that are taken back")                                                   \
    X(ASKED, "changes that a node is asked for, by no file")                                       \
    X(SECOND, "second changes before the first is through")                                        \
    X(FACTORS, "more copies than nodes")                                                           \
    X(ZERO, "intervals of 0")                                                                      \
    X(ALL_CRASH, "crashes of all nodes at once")                                                   \
    X(NEVER_BACK, "nodes that never come back")                                                    \
    X(HOURS, "clocks set by hours")                                                                \
    X(DAMAGE, "damaged logs")                                                                      \
    X(SPREAD, "keys that are spread in another way")                                               \
    X(FLUSH, "keys that are all ended at once")                                                    \
    X(CRON, "cron expressions")                                                                    \
    X(ZONES, "zone files that differ")                                                             \
    X(CONDITION, "writes that want the timer as it was")                                           \
    X(TWIN, "requests that are sent to two nodes")                                                 \
    X(STARVED, "nodes that get no time to run")

#define SIM_AS_FAULT(name, what) SIM_##name,
enum sim_fault { SIM_FAULTS_LIST(SIM_AS_FAULT) SIM_FAULTS };
#undef SIM_AS_FAULT

struct sim_options {
    uint64_t seed;
    uint32_t writes;
    uint32_t nodes;      /* 0: drawn */
    uint32_t latency_ms; /* of all links, one way, at most; 0: drawn */
    bool is_calm;        /* no faults; scaling and clean restarts are none */
    bool is_still;       /* nor scaling, nor restarts */
    bool is_sluggish;    /* links that stall, and nothing else that fails */
    bool is_starved;     /* calm, and nodes get no time to run for a moment, one or all of them */
    bool is_full;        /* nodes restart onto disks that are full */
    bool is_hostile;     /* one node sends whatever it likes */
    bool has_keys;       /* keys beside the timers, */
    bool has_flushes;    /* and FLUSHALL */
    bool has_plans;      /* timers by the wall clock, with headers, with names; clocks are right */
    bool is_moving;      /* calm, and keys are read while they move */
    bool is_verbose;     /* print the trace as it goes */
    bool is_quiet;       /* print nothing */
    enum tr_mutant mutant;
};

struct sim_result {
    const char *broken; /* NULL: all was well */
    uint64_t trace_hash;
    uint64_t timers;
    uint64_t pops;
    uint64_t crashes;
    uint64_t steps;
    uint64_t least_lateness_ms;
    uint64_t frames;   /* heartbeats aside */
    uint64_t messages; /* of client operations: writes, answers, questions, marks */
    uint64_t operations;
    uint64_t faults[SIM_FAULTS];
    uint64_t rules[RULE_COUNT];
};

/* The life of a cluster: several nodes on a network that fails too. */
struct sim_result sim_life_run(const struct sim_options *options);

#endif
