/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: one loop, one node, and what connects them. It turns what happens into events, steps
 * the node, and carries out the effects; it decides nothing that the node could.
 */
#ifndef TR_SHELL_DAEMON_H
#define TR_SHELL_DAEMON_H

#include "shell/auth.h"
#include "shell/certificates.h"
#include "shell/config.h"
#include "shell/epochs.h"
#include "shell/history.h"
#include "shell/metrics.h"
#include "shell/rest.h"
#include "shell/say.h"
#include "shell/stream.h"

#include <time.h>

struct tr_server;
struct tr_caller;
struct tr_links;
struct tr_zone_cache;
struct tr_pop_ring;

/* Time as a test moves it (test_clock.h). */
struct tr_test_clock {
    bool is_on;
    bool is_frozen;
    uint64_t frozen_us; /* of the boot clock, while it stands */
    uint64_t skew_us;   /* how far it is from the real one, while it goes; modulo 2^64 */
    bool is_advancing;  /* for this request: */
    uint64_t token;
    uint16_t number;
    uint64_t target_us;
    uint64_t pops_before;
};

struct tr_daemon {
    uv_loop_t loop;
    struct tr_config config;
    struct tr_config_sources sources;
    struct tr_metrics metrics;
    struct tr_history history;
    struct tr_auth auth;
    struct tr_certificates certificates;
    struct tr_node *node;
    struct tr_effects *effects;
    void (*carry_out)(struct tr_daemon *daemon, const struct tr_effect *effect);
    struct tr_streams streams;
    struct tr_server *server;
    struct tr_caller *caller;
    struct tr_links *links;
    struct tr_gather *gather;
    struct tr_zone_cache *zones;
    struct tr_pop_ring *pops;
    struct tr_disk *disk; /* NULL: data-dir = none */
    struct tr_test_clock test_clock;
    struct tr_say_limit dead_lines;
    struct tr_say_limit discarded_lines;
    struct tr_say_limit failed_lines;
    struct tr_say_limit tls_lines;
    uv_timer_t watchdog;
    uv_timer_t lines; /* looks at how many were left out */
    struct tr_epochs epochs;

    int clock_file; /* a timerfd: wakes at the node's time, to the microsecond */
    uv_poll_t clock;
    uint64_t clock_at_ms; /* what it is set to; UINT64_MAX: nothing */
    uv_prepare_t turn;
    uv_signal_t signals[4];
    uv_timer_t drain_limit;
    bool has_events; /* since the node's last tick, so the log may have something to write */
    struct tr_rest rest;
    uv_idle_t again;         /* active: the loop only looks, and does not wait */
    uint64_t now_us;         /* boot clock, when it was last looked at */
    uint64_t stepped_ms;     /* and at the last step */
    uint64_t wall_base_us;   /* wall less boot clock, at the last turn */
    uint64_t wall_offset_us; /* added to the wall clock, modulo 2^64 */
    bool is_stepping;
    bool is_recovered;
    bool has_view;
    bool is_announced; /* that it is ready */

    bool is_draining;
    bool is_drained; /* it stops when the last answers are sent */
    bool is_stopped;
    uint64_t started_us;
    uint64_t resynced_ms; /* when somebody last asked for it */
    bool is_waiting;      /* that it waits to be taken in was said */
    uint64_t challenge;   /* for who sets the nodes; 0: not drawn yet */
    void *region;
    size_t region_size;
    int exit_status;
};

/* Runs until it is told to stop; returns the exit status. */
int tr_daemon_run(const struct tr_config *config, const struct tr_config_sources *sources);

/* Steps the node and carries out the effects. The clocks are set here. */
void tr_daemon_step(struct tr_daemon *daemon, struct tr_event *event);

/* The node was asked for something without a step; somebody waits for it. */
void tr_daemon_asked(struct tr_daemon *daemon);

/* The node is told the time, if that has changed since it last was. */
void tr_daemon_look_at_clock(struct tr_daemon *daemon);

/* A line of the log for what the node has noted. */
void tr_daemon_say_note(struct tr_daemon *daemon, const struct tr_effect *effect);

/* What the node is told of the configuration. */
void tr_daemon_configure_node(const struct tr_config *config, struct tr_node_config *node);

/* For tests of clocks that are wrong, or are set: milliseconds, read at the start and by SIGHUP. */
void tr_daemon_read_wall_offset(struct tr_daemon *daemon);

/* The time that the node is told: the boot clock's, unless a test moves it. */
uint64_t tr_daemon_clock_us(const struct tr_daemon *daemon);

/* Microseconds of the boot clock, which counts while the machine sleeps. */
uint64_t tr_boot_us(void);
uint64_t tr_clock_us(clockid_t clock);

#endif
