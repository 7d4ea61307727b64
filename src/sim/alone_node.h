/* SPDX-License-Identifier: Apache-2.0 */
/* A single node in a world of its own: its disk, its receivers, its clock. alone.c has its life. */
#ifndef TR_SIM_ALONE_NODE_H
#define TR_SIM_ALONE_NODE_H

#include "base/random.h"
#include "seam/mutant.h"
#include "sim/disk.h"
#include "sim/keys.h"
#include "sim/model.h"

#define MEMORY_SIZE  ((size_t)28 << 20)
#define OPAQUE_MAX   1024
#define VALUE_MAX    4096
#define SEGMENT_SIZE ((size_t)96 << 10)
#define FLIGHTS      64
#define RECEIVERS    5
#define TRACE_MAX    60
#define PENDING_MAX  (2 * FLIGHTS + 16)
#define OPEN_MAX     64 /* requests not yet answered */
#define STEPS_MAX    300000
#define YEAR_MS      31557600000u

enum happening {
    HAPPENS_NOTHING,
    HAPPENS_CALLBACK,
    HAPPENS_SYNC,
    HAPPENS_ALLOCATED,
    HAPPENS_REFUSED,
};

/* Something that will happen. */
struct pending {
    uint64_t at_ms;
    uint64_t order; /* ties: as they were made */
    enum happening what;
    uint32_t flight;
    enum tr_callback_result result;
    unsigned status;
    uint64_t retry_after_ms;
    uint32_t write;
    uint64_t sequence;
    uint64_t number; /* a position, or a segment */
};

struct trace {
    uint64_t at_ms;
    const char *what;
    uint64_t a;
    uint64_t b;
};

enum receiver_mode { RECEIVER_WELL, RECEIVER_SLOW, RECEIVER_BROKEN, RECEIVER_GONE, RECEIVER_MUTE };

/* A request that the node has not answered. */
struct open_request {
    uint64_t token;
    uint32_t write;
};

struct alone {
    struct tr_random random;
    struct sim_model model;
    struct sim_disk disk;
    struct tr_node *node;
    void *region;
    struct tr_effects *effects;
    struct tr_log_segment *replaying;

    uint64_t now_ms;   /* true time, since the world began */
    uint64_t boot_ms;  /* true time less the boot clock of this start */
    int64_t wall_step; /* how far the wall clock was set from true time */
    uint64_t stepped_ms;
    struct pending pending[PENDING_MAX];
    uint32_t pending_count;
    uint64_t order;
    struct open_request open[OPEN_MAX];
    uint32_t open_count;
    uint64_t token;
    enum receiver_mode receivers[RECEIVERS];
    bool has_log;
    bool is_healed;
    uint64_t well_ms; /* when it last started, or all was well again */
    bool is_ready;
    bool is_stopped;
    bool is_turn_open; /* the node was told that more comes before time goes on */
    uint32_t epoch;
    uint64_t seed;
    enum tr_mutant mutant;
    bool is_quiet;
    bool is_verbose;
    uint64_t trace_hash;
    struct trace traces[TRACE_MAX];
    uint64_t trace_count;
    uint64_t steps;
    struct tr_timer_body body;
    char uri[64];
    char opaque[OPAQUE_MAX];

    /* Of lives with keys. */
    bool has_keys;
    bool are_keys_told; /* since the last start */
    bool is_tight;      /* its memory is, */
    bool is_too_small;  /* and too small to start with, so that its operator gives it more */
    struct sim_keys keys;
    struct alone_key_task {
        bool is_waiting; /* until the log has written something */
        uint32_t index;
        struct tr_key_command command;
        uint64_t interval_ms; /* of an expiry, */
        uint32_t appointment; /* and who is called then; 0: nobody */
        char value[VALUE_MAX + 16];
        char uri[64];
    } task;
    bool is_scanning;
    uint64_t scan_cursor;
    struct tr_key_page page;
};

uint64_t alone_draw(struct alone *world, uint64_t bound);
void alone_trace(struct alone *world, const char *what, uint64_t a, uint64_t b);
void alone_print_tail(const struct alone *world);

/* One step of the node, and what it wants done in the world. */
void alone_step(struct alone *world, struct tr_event *event);
void alone_look_at_clock(struct alone *world); /* and at nothing else */
void alone_start(struct alone *world);
void alone_crash(struct alone *world);
void alone_restart(struct alone *world);
bool alone_advance(struct alone *world, uint64_t limit_ms);

#endif
