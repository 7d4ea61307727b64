/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be true of the keys of one node: a small model of its own, not the node's code.
 *
 * A write is there when it is answered; before that it may be lost by a crash, but only together
 * with all that came after it. So each key has a list of states, from the last one that is durable
 * on, and a crash cuts all lists at one batch of the log.
 *
 * A key that is called when it expires is an appointment, and that is a write of the timers' model:
 * made, ended and popped by its rules.
 */
#ifndef TR_SIM_KEYS_H
#define TR_SIM_KEYS_H

#include "sim/model.h"

#define SIM_KEYS       24
#define SIM_KEY_STATES 64 /* of one key that are not durable */
#define SIM_KEY_NEVER  UINT64_MAX
#define SIM_START_MS   4 /* by which a start may make what expires later */

struct sim_key_state {
    uint64_t batch; /* of the log, with the write that made it */
    bool is_there;
    char *value; /* its own */
    size_t size;
    uint64_t expires_ms;  /* true time; SIM_KEY_NEVER: it does not */
    uint64_t late_ms;     /* it may be later by as much, after starts */
    uint32_t appointment; /* the write of the timers' model; 0: nobody is called */
    uint32_t write;       /* that is acknowledged with this state; 0: none */
};

struct sim_key {
    char name[16];
    struct sim_key_state states[SIM_KEY_STATES];
    uint32_t count;      /* the first is durable */
    uint64_t version;    /* that a client has read last; 0: none */
    bool is_changed;     /* since */
    bool was_throughout; /* it has been there since a scan began, */
    bool was_scanned;    /* and the scan has told of it */
};

struct sim_keys {
    struct sim_key keys[SIM_KEYS];
    struct sim_model *model;
    uint64_t
        *expected; /* by write of the timers' model: a hash of the value that is to be posted */
    uint32_t expected_cap;
};

/* What a node says of a key after a crash. */
struct sim_key_told {
    bool is_there;
    struct tr_span value;
    uint64_t expires_ms; /* true time */
    uint32_t appointment;
};

enum sim_presence { SIM_ABSENT, SIM_PRESENT, SIM_EITHER };

void sim_keys_init(struct sim_keys *keys, struct sim_model *model);
void sim_keys_free(struct sim_keys *keys);

struct sim_key_state *sim_keys_last(struct sim_keys *keys, uint32_t index);

/* Whether a key in this state must be there. */
enum sim_presence sim_keys_presence(const struct sim_key_state *state, uint64_t now_ms);

/* A write was carried out on a key that was there, or was not. The state's value is copied. An
 * appointment that was there ends, unless it is kept. */
void sim_keys_put(struct sim_keys *keys, uint32_t index, struct sim_key_state state, bool was_there,
                  uint64_t now_ms);

/* Batches up to this one are durable: what they wrote is answered. */
void sim_keys_durable(struct sim_keys *keys, uint64_t batch, uint64_t now_ms);

/* After a start, of which every key tells: there must be a batch at which all were so. */
void sim_keys_cut(struct sim_keys *keys, const struct sim_key_told told[SIM_KEYS], uint64_t now_ms);

/* What is posted for an appointment. */
void sim_keys_post(struct sim_keys *keys, uint32_t appointment, struct tr_span value);

void sim_keys_broken(struct sim_keys *keys, uint32_t index, const char *what);

#endif
