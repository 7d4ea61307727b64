/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node: the deterministic core. Events in, effects out.
 *
 * A step does not block, does no I/O and reads no clock: every event carries the time. The daemon
 * drives it with real events, the simulator with drawn ones. What an event points to is borrowed
 * for the step; what an effect points to is good until the next step.
 *
 * What must wait for durability is emitted by the step that hears of it: an answer to a client
 * leaves in the step of TR_EVENT_LOG_WRITTEN that covers its entry.
 *
 * Owns:    the memory it was given, all of it, and nothing else.
 * Bounds:  that memory; the limits below. A full table is an answer to whoever asked.
 */
#ifndef TR_NODE_NODE_H
#define TR_NODE_NODE_H

#include "calendar/zone.h"
#include "node/show.h"
#include "seam/ahead.h"
#include "seam/effect.h"
#include "seam/key.h"

#define TR_NODE_MEMORY_LEAST ((size_t)32 << 20)
#define TR_NODE_WAITING_MAX  65536 /* operations that wait for the log; then 503 */

/* A region of zeros, aligned to 16 bytes. */
struct tr_memory {
    void *region;
    size_t size;
};

/* How much of something there may be at once; 0: as much as is usual for the memory. The simulator
 * draws a handful, to see what happens when they are reached. */
struct tr_node_limits {
    uint32_t claims;  /* pops of other nodes that are remembered */
    uint32_t drops;   /* records that were dropped, likewise */
    uint32_t moves;   /* records that this node moves */
    uint32_t pending; /* records that another node is to acknowledge */
    uint32_t waiting; /* entries that wait for the log; a power of two */
    uint32_t slice;   /* records that one step looks at, of each of its walks */
    size_t batch;     /* bytes of entries that the log writes at once; a segment holds more */
    size_t memory;    /* bytes for records, of the memory that is left for them */
};

struct tr_node_config {
    struct tr_span address;                 /* host:port, as clients and peers know it */
    uint64_t seed;                          /* of the node's random numbers */
    uint8_t store_id[TR_LOG_STORE_ID_SIZE]; /* for an empty store */
    uint16_t identity;                      /* 10 bits: deployment, then instance */
    bool has_log;
    bool is_always_synced; /* what was answered is on disk, also after a power loss */
    size_t segment_size;   /* bytes, at least 8 times opaque_max plus 64 KiB */
    size_t opaque_max;
    size_t value_max;        /* of a key, up to TR_VALUE_MAX */
    uint32_t flights_max;    /* callbacks under way at once */
    uint32_t messages_max;   /* that wait to be sent to other nodes; 0: there will be none */
    uint32_t operations_max; /* requests of clients under way at other nodes; 0: likewise */
    struct tr_node_limits limits;

    /* These may change while it runs. */
    uint32_t per_destination; /* of them, to one destination */
    uint32_t attempts_max;
    uint64_t backoff_ms; /* before the second attempt; then twice as long each time */
    uint64_t dead_keep_ms;
    uint64_t key_keep_ms;     /* how long an Idempotency-Key is remembered after its timer ended */
    bool needs_quorum;        /* of keys: too few answers are a failure, not made do with */
    uint64_t key_exchange_ms; /* between two comparisons of keys with a node; 0: ten minutes */
    uint64_t latency_target_ms; /* of client writes; beyond it they are refused */
    uint64_t tombstone_keep_ms; /* at most, for nodes that do not come back */
    bool has_spare;        /* it takes requests when its log has a segment to spare: the first that
                            needs one of the latest format is not refused then */
    bool is_clock_exact;   /* no part of a millisecond has gone by in a step, beyond its time */
    struct tr_zones zones; /* where the core finds them; none but UTC if that is left out */
    uint32_t mutant;       /* of enum tr_mutant; heeded in the simulator's build alone */
};

/* NULL when the memory is too small. The node is not ready before a recovery, of no segments if the
 * store is empty or there is no log. */
struct tr_node *tr_node_new(const struct tr_node_config *config, const struct tr_memory *memory);

void tr_node_step(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);

/* ---- keys ---- */

/* Whether it has replayed its log: before that it knows nothing of its keys. */
bool tr_node_is_replayed(const struct tr_node *node);

/* Whether keys are on other nodes, too. */
bool tr_node_is_spread(const struct tr_node *node);

/* A command on a key, wherever that is. True: it is over, and `result` says how; otherwise an
 * effect of a later step does. */
bool tr_node_ask_key(struct tr_node *node, uint64_t token, const struct tr_key_command *command,
                     struct tr_key_result *result);

/* About `count` keys of all nodes, or of one, from a cursor on. TR_DONE: an effect of a later step
 * has them. */
enum tr_result tr_node_ask_keys(struct tr_node *node, uint64_t token, uint16_t only,
                                uint64_t cursor, uint32_t count);

/* The nodes of a key's preference list; returns how many, 0: there is no keyspace. */
unsigned tr_node_key_list(const struct tr_node *node, struct tr_span key,
                          struct tr_span addresses[TR_COPIES_MAX]);

/* Keys that are to be set together: there is memory for what one batch of the log can take of them.
 * False: there is none. */
bool tr_node_begin_together(struct tr_node *node);
void tr_node_end_together(struct tr_node *node);

/* Carries out a command on a key at once, at the time of the last step. What it has written is on
 * its way to the log with the next one. */
void tr_node_key(struct tr_node *node, const struct tr_key_command *command,
                 struct tr_key_result *result);
void tr_node_delete_keys(struct tr_node *node, struct tr_key_result *result); /* all of them */

/* What has expired is out of the way, so that a write of several keys finds it gone. */
void tr_node_expire_keys(struct tr_node *node);

/* Whether commands that write `size` bytes of keys and values, `count` of them without callbacks,
 * will be in one batch of the log. */
enum tr_key_room tr_node_key_room(const struct tr_node *node, size_t size, uint32_t count);

/* About `count` keys from a cursor on; one at random, or none. */
void tr_node_scan_keys(const struct tr_node *node, uint64_t cursor, uint32_t count,
                       struct tr_key_page *page);
void tr_node_draw_key(struct tr_node *node, struct tr_key_page *page);
struct tr_span tr_node_key_name(const struct tr_node *node, uint32_t ref);
struct tr_span tr_node_key_callback(const struct tr_node *node, struct tr_span key);
size_t tr_node_key_memory(const struct tr_node *node, struct tr_span key); /* 0: there is none */

/* Replies that tell of this batch, or an earlier one, may go. */
uint64_t tr_node_durable(const struct tr_node *node);

/* ---- timers ---- */

/* Those that a query chooses on this node, of which each is listed by one node of the cluster: a
 * slice of all, from a cursor on, which begins at 0 and is UINT64_MAX at the end. */
unsigned tr_node_find_timers(struct tr_node *node, const struct tr_query *query, uint64_t *cursor,
                             struct tr_timer_text *out, unsigned most);

/* What is ahead of them: as tr_survey_count() and tr_survey_next(), and a timer found so, whose
 * reference is good until the next step. */
bool tr_node_count_ahead(struct tr_node *node, const struct tr_query *query, uint64_t *cursor,
                         struct tr_ahead *ahead);
bool tr_node_find_next(struct tr_node *node, const struct tr_query *query, uint64_t *cursor,
                       struct tr_nexts *nexts);
void tr_node_sort_next(struct tr_nexts *nexts); /* after the last slice */
uint32_t tr_node_next_ref(const struct tr_node *node, const struct tr_next *next);

/* Whether a client that sees only some timers sees this one, which was found so, */
bool tr_node_sees_own(const struct tr_node *node, uint32_t ref, const struct tr_narrow *narrow);
/* or is an effect's. */
bool tr_node_sees(const struct tr_node *node, uint32_t ref, const struct tr_narrow *narrow);

/* The cluster's clock, as this node knows it: what is set from now on has a higher version. */
uint64_t tr_node_version(const struct tr_node *node);

/* ---- the cluster ---- */

/* The address of a member that cannot hold what only some timers have; empty: all can. */
struct tr_span tr_node_older_member(const struct tr_node *node);

/* An operator asks for nodes to join, leave or be lost, all in one change, which goes on from the
 * next step on by itself. `who` stands in the way, if it is one node. */
enum tr_change tr_node_ask_change(struct tr_node *node, const struct tr_view_node *nodes,
                                  uint32_t count, uint16_t *who);

/* The keyspace is made, keys are spread over the nodes in another way, or all keys end: each is a
 * change of the roster. */
enum tr_change tr_node_create_keyspace(struct tr_node *node, const struct tr_definition *keys,
                                       uint16_t *who);
enum tr_change tr_node_spread_keys(struct tr_node *node, const struct tr_definition *keys,
                                   uint16_t *who);
enum tr_change tr_node_flush_keys(struct tr_node *node, uint16_t *who);

bool tr_node_is_agreed(const struct tr_node *node); /* all members are up, and have this roster */

bool tr_node_is_free(const struct tr_node *node); /* any cluster may take it in */
/* A node that it has not heard of, and that is about to be linked. TR_MEMBER_NONE: no room. */
uint16_t tr_node_meet(struct tr_node *node, struct tr_span address);

/* The nodes of the cluster, as this one has it; epoch 0: it knows of none yet. */
const struct tr_roster *tr_node_roster(const struct tr_node *node);
/* Whether the change under way waits for a node: `who`, TR_MEMBER_NONE if there is no number for
 * it. */
bool tr_node_is_waiting_for(const struct tr_node *node, uint16_t *who);
/* What the configuration asks for has yet to be done. */
bool tr_node_is_behind(const struct tr_node *node);

/* When the next TR_EVENT_TICK is wanted. */
tr_mono_ms tr_node_wake_at(const struct tr_node *node);

#endif
