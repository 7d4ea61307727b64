/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world for a cluster: machines with nodes, disks and clocks, links between them, clients and
 * receivers; for the files of this layer.
 */
#ifndef TR_SIM_WORLD_H
#define TR_SIM_WORLD_H

#include "base/hash.h"
#include "sim/disk.h"
#include "sim/life.h"
#include "sim/queue.h"
#include "wire/frame.h"

#define MACHINES_MAX 64
#define OPAQUE_MAX   1024
#define RECEIVERS    4
#define TRACE_MAX    200
#define TRACE_SIZE   176
#define OPEN_MAX     64
#define VIEWS_MAX    32

/* A list of machines and their roles, as a config file has it. */
struct sim_view {
    uint64_t number; /* views that are given out later have higher ones */
    enum tr_role roles[MACHINES_MAX];
};

#define TOLD_BY_OTHERS UINT64_MAX /* its file never does: others take it in */

struct machine {
    struct tr_node *node;
    void *region;
    struct sim_disk disk;
    struct sim_disk snapshot; /* to be rolled back to */
    bool has_snapshot;
    struct tr_log_segment *replaying;
    char address[32];
    struct sim_view view;
    uint64_t boot_ms;
    int64_t skew_ms;  /* how far its wall clock is from true time */
    int64_t drift;    /* of its boot clock, millionths */
    uint64_t told_ms; /* when its file tells it of the cluster; 0: it has heard of it */
    uint64_t started_ms;
    uint64_t stepped_ms;
    bool was_set;    /* its clock, while it was down */
    uint32_t shared; /* timers that others have too, when it went down */
    uint64_t paused_until_ms;
    uint64_t starved_ms; /* when it last got no time, for a moment */
    bool ticks_first;    /* after that: before it reads what has come meanwhile */
    uint64_t wake_ms;    /* true time */
    uint64_t wall_ms;    /* its own, in its last step */
    uint32_t epoch;
    uint32_t store; /* how often its disk was new */
    bool is_used;   /* it has been part of a cluster */
    bool is_running;
    bool is_ready;
    bool is_draining;
    uint64_t drained_ms; /* when it was last asked to stop */
    bool is_stopped;
    bool stays_down; /* after that: it has left */
    bool is_joining; /* it was started to join */
    bool is_dead;    /* it never comes back */
    bool is_damaged; /* its log is: it refuses to start, */
    bool is_refused; /* and is repaired */
    bool has_filled; /* its disk, when it started */
    bool has_newer_zones;
    struct tr_zone zone; /* that it was last asked for */
};

struct link {
    bool is_up;
    uint64_t up_ms;
    uint32_t epoch;
    uint32_t met_epoch[2];        /* that the lower, and the higher, has heard is there */
    uint64_t cut_until_ms;        /* no connection before */
    uint64_t stalled_until_ms[2]; /* by direction: from the lower, from the higher */
    uint64_t last_ms[2];          /* frames of one direction keep their order */
    uint64_t latency_ms[2];       /* what each takes */
};

struct open_request {
    uint64_t token;
    uint32_t write; /* 0: a read */
    uint32_t machine;
    uint32_t subject; /* of a read: the write that it looks for */
    uint32_t twin;    /* a write that is asked for on another node, too; 0: it is none */
    uint64_t asked_ms;
};

struct world;

/* Who asks for keys, and hears what comes of it. */
struct sim_key_calls {
    void (*answer)(struct world *world, uint32_t index, const struct tr_effect *effect);
    void (*scanned)(struct world *world, uint32_t index, const struct tr_effect *effect);
    void (*forsake)(struct world *world, uint32_t index); /* its node is gone */
    void (*rush)(struct world *world, uint32_t index);    /* somebody asks while keys move */
};

/* Of all nodes at once. */
enum sim_power {
    POWER_STAYS,
    POWER_ENDS_NEXT, /* where it hurts: when a write of a key is acknowledged next */
    POWER_ENDS,      /* now */
};

struct world {
    const struct sim_options *options;
    struct tr_random random;
    struct sim_model model;
    struct machine machines[MACHINES_MAX];
    uint32_t machine_count;                        /* that there can be */
    struct link links[MACHINES_MAX][MACHINES_MAX]; /* [lower][higher] */
    bool faults[SIM_FAULTS];
    struct sim_view views[VIEWS_MAX]; /* by number, the latest ones */
    uint64_t view_number;             /* as the operator wants it now */
    uint64_t cluster;                 /* that the first machines are; 0: it has not begun */
    uint64_t epoch;                   /* of it, the highest that any machine has had */
    bool is_scaling;
    uint64_t scaled_ms; /* when step 1 was made */
    struct tr_effects *effects;
    uint64_t latency_ms; /* of the slowest link, one way */
    struct tr_node_limits limits;
    uint32_t messages_max;
    uint32_t operations_max;
    bool is_large; /* so many timers that not everything can be looked at */
    size_t memory_size;
    size_t segment_size;
    uint64_t now_ms;
    uint64_t began_ms;
    uint64_t steps_most;
    struct sim_queue queue;
    struct open_request open[OPEN_MAX];
    uint32_t open_count;
    uint64_t token;
    uint32_t recent;                     /* the write that was acknowledged last */
    unsigned receiver_status[RECEIVERS]; /* 0: nobody listens */
    uint64_t slow_ms;                    /* what they take, in a scenario; */
    uint64_t sync_ms;                    /* and what a write to disk takes */
    uint64_t fired_ms;                   /* when the last callback was made */
    bool is_healed;
    bool is_lone;       /* one node at a time may be away */
    bool is_sluggish;   /* links stall, for long */
    bool is_tight;      /* there may be no room for what is sent */
    uint64_t broken_ms; /* when a link broke last */
    uint64_t trace_hash;
    char traces[TRACE_MAX][TRACE_SIZE];
    uint64_t trace_count;
    bool is_telling;  /* frames are traced too */
    uint32_t hostile; /* a machine; MACHINES_MAX: none is */
    uint64_t frame_count[TR_FRAMES];
    uint64_t frame_bytes;
    struct sim_result result;
    struct tr_timer_body body;
    char uri[64];
    char key[32];
    char opaque[OPAQUE_MAX];
    struct sim_pairs *pairs; /* keys beside the timers; NULL: there are none */
    enum sim_power power;
    const struct sim_key_calls *key_calls; /* whom answers about keys are for; NULL: nobody asks */
    bool needs_quorum;                     /* commands on keys that too few answer are refused */
};

static inline struct sim_view *sim_view(struct world *world)
{
    return &world->views[world->view_number % VIEWS_MAX];
}

/* world.c */
uint64_t sim_draw(struct world *world, uint64_t bound);
bool sim_chance(struct world *world, uint64_t of); /* one of so many */
__attribute__((format(printf, 2, 3), nonnull(2))) void sim_trace(struct world *world,
                                                                 const char *format, ...);
void sim_break(struct world *world, const char *what);
void sim_fault(struct world *world, enum sim_fault fault); /* it happens */
struct world *sim_world_new(const struct sim_options *options);
void sim_world_free(struct world *world);
void sim_plan(struct world *world, uint32_t machine, struct sim_pending pending, uint64_t delay_ms);
const char *sim_name(uint32_t machine); /* A, B, C... */

int64_t sim_draw_step(struct world *world); /* of a clock */

/* time.c */
void sim_advance(struct world *world, uint64_t limit_ms);

/* machine.c */
void sim_start(struct world *world, uint32_t index);
void sim_begin_alone(struct world *world,
                     uint32_t index); /* for a moment it knows of itself alone */
void sim_crash(struct world *world, uint32_t index, uint64_t down_ms);
void sim_drain(struct world *world, uint32_t index);
void sim_step(struct world *world, uint32_t index, struct tr_event *event);
void sim_set_view(struct world *world, uint32_t index);
/* It has so many timers at most. */
bool sim_is_empty(const struct world *world, uint32_t index,
                  unsigned most); /* timers that it holds */
bool sim_is_balanced(const struct world *world, uint32_t index);
void sim_cover(struct world *world, uint32_t index); /* adds up what its node has been through */

/* network.c */
struct link *sim_link(struct world *world, uint32_t a, uint32_t b);
uint16_t sim_member(const struct world *world, uint32_t machine, uint32_t other);
void sim_break_link(struct world *world, uint32_t a, uint32_t b);
void sim_connect(struct world *world);
void sim_send(struct world *world, uint32_t from, const struct tr_effect *effect);
void sim_reset(struct world *world, uint32_t from, const struct tr_effect *effect);
unsigned sim_reach(const struct world *world, uint32_t index); /* nodes of its view, itself too */

/* client.c */
void sim_ask(struct world *world, uint32_t index);
bool sim_is_settled(const struct world *world, uint64_t since_ms); /* no nodes come or go */
void sim_collide(struct world *world);
void sim_answer(struct world *world, uint32_t index, const struct tr_effect *effect);

/* receiver.c */
void sim_fire(struct world *world, uint32_t index, const struct tr_effect *effect);
void sim_note(struct world *world, const struct tr_effect *effect);

/* tell.c */
void sim_tell_frame(struct world *world, uint32_t from, uint32_t to, const uint8_t *bytes,
                    size_t size);

/* Those that are not where they belong, or those that are over. */
void sim_tell_records(struct world *world, uint32_t index, bool are_over);

/* check.c */
void sim_check_places(struct world *world);

/* kind.c */
void sim_draw_faults(struct world *world);
void sim_print_faults(const struct world *world);

/* operator.c */
bool sim_is_member(const struct world *world, uint32_t index);
const struct tr_roster *sim_roster(const struct world *world);  /* the highest; NULL: none */
bool sim_is_current(const struct world *world, uint32_t index); /* it has that, and its file */
void sim_check_roster(struct world *world, const struct tr_roster *roster); /* a node has it now */
bool sim_is_out(const struct world *world, uint32_t index); /* it is no member, and serves nobody */
bool sim_is_well(struct world *world); /* all are there, serve, and see the same */
void sim_look(struct world *world);    /* whether they do, for what is held to it */
bool sim_are_all_balanced(const struct world *world);
unsigned sim_count_staying(const struct sim_view *view);
void sim_stall(struct world *world, uint32_t a, uint32_t b);
void sim_scale(struct world *world);

/* disturb.c */
void sim_disturb(struct world *world);
void sim_cut_power(struct world *world); /* if it is to be now */

/* hostile.c */
void sim_hostile(struct world *world);

#endif
