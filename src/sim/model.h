/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be true of a node, whatever happens to it: a small model of its own, not the node's
 * code. The world tells it what clients asked, what was answered, and what was called; it says what
 * broke.
 */
#ifndef TR_SIM_MODEL_H
#define TR_SIM_MODEL_H

#include "node/node.h"

#define SIM_POPS_MAX 6     /* of one timer */
#define SIM_GRACE_MS 12000 /* to hear of a cancel, when nothing is wrong any more */

/* One client write: a create, a replacement or a cancellation. */
struct sim_write {
    tr_timer_id id;       /* of a create: known when it is answered */
    tr_timer_id fired_id; /* known when it first pops, which may be before that; 0: never did */
    uint64_t asked_ms;    /* true time */
    uint64_t interval_ms;
    uint64_t from_ms; /* of a cron expression: pops are due so long after it, at the earliest, */
    uint64_t step_ms; /* one after the other */
    uint64_t instants[SIM_POPS_MAX]; /* that they were made for */
    uint64_t wants;                  /* the version that it wants to replace; 0: any */
    tr_timer_id twin_id; /* what the same request was told by another node; 0: nothing */
    bool is_cron;
    bool has_twin;        /* another node has it, or may have */
    uint32_t pops;        /* 0: a cancellation */
    uint32_t factor;      /* copies asked for */
    uint32_t replaced_by; /* the write after it to the same id; 0: none */
    uint32_t follows;     /* the write before it; 0: none */
    uint32_t races;       /* a write at the same moment: either may be the later; 0: none */
    uint32_t namesake;    /* of a create: the write that has the id which it draws; 0: none */
    uint64_t replicas;    /* as its id says */
    unsigned copies;      /* that were promised */
    bool is_key;          /* it is the appointment of a key */
    uint64_t acked_ms;
    bool is_starved; /* a node got no time to run while it was under way: others stand in */
    bool is_rash;    /* so soon after the one before that apart nobody can tell the order */
    bool is_redriven;
    bool is_clear;    /* nothing had been wrong for a while: all had heard of what was before */
    bool is_torn;     /* its coordinator did not know all nodes yet, or did not see them; */
    bool is_outdated; /* it had not heard of the latest view */
    bool is_long;     /* it does not pop in this life */
    bool is_acked;
    bool is_maybe; /* not answered before a crash: it may have happened */
    bool is_refused;
    bool has_key;                     /* an Idempotency-Key: it may be answered by another's id */
    bool is_appointment;              /* of a key that expires */
    uint32_t delivered[SIM_POPS_MAX]; /* crash epoch + 1 of the last success, by sequence */
    uint64_t delivered_ms[SIM_POPS_MAX]; /* the first */
    uint32_t fired[SIM_POPS_MAX];
    uint64_t fired_ms[SIM_POPS_MAX]; /* the last time, */
    uint32_t fired_by[SIM_POPS_MAX]; /* and which node it was */
    bool is_dead[SIM_POPS_MAX];
};

struct sim_model {
    struct sim_write *writes; /* [0] is none */
    uint32_t count;
    uint32_t cap;
    uint64_t least_lateness_ms;
    uint64_t fires;
    uint64_t most_late_ms; /* without faults; 0: no matter */
    uint64_t key_late_ms;  /* beside that, of appointments: each roster is waited for, */
    uint64_t stop_late_ms; /* and who holds keys since then waits for a node that stops meanwhile */
    bool has_single_keys;  /* keys had one copy at some time */
    uint64_t lone_late_ms; /* of timers with several copies while one node at most is away */
    uint64_t repeat_ms;    /* a pop is not made again so long after a success; 0: no matter */
    uint64_t most_early_ms; /* since clocks drift */
    uint64_t impaired_ms;   /* when something was last wrong */
    uint64_t starved_ms;    /* until when a node gets no time to run */
    uint64_t lost_ms;       /* when a disk was lost; 0: none was */
    bool is_unordered;      /* clocks are apart, and nodes do not always meet: of two writes to one
                           * timer nobody can tell which was first */
    bool has_faults;    /* a pop may come twice, and after a cancel that a node has not heard of */
    bool has_steps;     /* of clocks, which a timer with one copy cannot tell */
    bool is_once;       /* each pop is made once: receivers do not fail */
    bool may_repeat;    /* this one: the node that made it has had no time to say so since */
    bool has_restarts;  /* what only one node has may wait for it */
    bool has_zones;     /* that differ: which occurrence is the next depends on who is asked */
    bool has_full;      /* disks: a node may refuse what splits off of a timer that it holds */
    bool is_off;        /* nothing is held to anything */
    const char *broken; /* what, or NULL */
    uint32_t broken_write;
};

void sim_model_init(struct sim_model *model);
void sim_model_free(struct sim_model *model);

/* A new write; returns its number. */
uint32_t sim_model_ask(struct sim_model *model, struct sim_write write);

/* A node gets no time to run until then. */
void sim_model_starve(struct sim_model *model, uint64_t until_ms);

/* When a pop is due, at the earliest. */
uint64_t sim_write_due(const struct sim_write *write, uint64_t sequence);

/* Whether it was asked, and is not answered yet. */
bool sim_write_is_open(const struct sim_write *write);

/* Its node crashed before it was answered. */
void sim_model_forsake(struct sim_model *model, uint32_t number);

/* Its dead pops are tried again, also those of versions that are over. */
void sim_model_redrive(struct sim_model *model, tr_timer_id id);

/* Write `next` follows `number` on the same id. */
void sim_model_follow(struct sim_model *model, uint32_t number, uint32_t next);

/* A callback of write `number` leaves. `epoch` counts crashes. */
void sim_model_fire(struct sim_model *model, uint32_t number, uint64_t sequence, uint64_t now_ms,
                    uint32_t epoch);

/* It was answered with success, and the node was told. */
void sim_model_deliver(struct sim_model *model, uint32_t number, uint64_t sequence, uint64_t now_ms,
                       uint32_t epoch);

/* Whether this timer must be there, or have popped. */
bool sim_model_is_promised(const struct sim_model *model, uint32_t number);

/* Whether this is a cancellation, and its timer must be gone. */
bool sim_model_is_cancelled(const struct sim_model *model, uint32_t number);

/* Whether everything acknowledged has happened. */
bool sim_model_is_done(const struct sim_model *model);

/* After healing, when nothing is due any more: everything acknowledged must have happened. */
void sim_model_finish(struct sim_model *model);

#endif
