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

#include "seam/effect.h"
#include "seam/key.h"

#define TR_NODE_MEMORY_LEAST ((size_t)32 << 20)
#define TR_NODE_WAITING_MAX  65536 /* operations that wait for the log; then 503 */

struct tr_node;

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
    uint64_t key_keep_ms; /* how long an Idempotency-Key is remembered after its timer ended */
    uint64_t latency_target_ms; /* of client writes; beyond it they are refused */
    uint64_t tombstone_keep_ms; /* at most, for nodes that do not come back */
    uint32_t mutant;            /* of enum tr_mutant; heeded in the simulator's build alone */
};

struct tr_node_stats {
    uint64_t timers; /* pending, and not failed so far */
    uint64_t debts;  /* pops that failed and are tried again */
    uint64_t dead;
    uint64_t tombstones;
    uint64_t created;
    uint64_t replaced;
    uint64_t cancelled;
    uint64_t refused;
    uint64_t pops_delivered;
    uint64_t pops_failed; /* attempts */
    uint64_t pops_dead;
    uint64_t pops_discarded;
    uint64_t redriven;
    uint64_t due_waiting; /* due, and not yet handed to a destination's queue */
    uint64_t queued;      /* waiting for their destination */
    uint64_t flights;
    uint64_t log_bytes;
    uint64_t log_live_bytes;
    uint64_t log_segments;
    uint64_t log_batches;
    uint64_t log_entries;
    uint64_t reclaimed;
    uint64_t memory_used;
    uint64_t memory_room; /* thousandths left before new timers are refused */
    uint64_t waiting;
    uint64_t swept;
    uint64_t to_rebalance;   /* records that the last walk found where they do not belong */
    uint64_t moving;         /* records that this node is moving */
    uint64_t rebalance_walk; /* how far the walk is, of 65,535 */
    uint64_t copies;     /* of timers, debts and dead: those of which another node is the first */
    uint64_t moved;      /* records that this node has brought to where they belong */
    uint64_t hinted;     /* writes for which another node stood in */
    uint64_t takeovers;  /* pops made for a node that is down */
    uint64_t late_turns; /* pops made for one that is up and did not make them in time */
    uint64_t claims;     /* pops under way here that were claimed */
    uint64_t held_back;  /* looks at a due pop that another node has claimed */
    uint64_t records_in; /* that other nodes sent */
    uint64_t drops;      /* records dropped because they belong elsewhere */
    uint64_t catchups;   /* times that it waited to hear what it missed */
    uint64_t forgotten_early; /* tombstones forgotten for want of memory */
    uint64_t operations;      /* clients' requests under way in the cluster */
    uint64_t keys;
    uint64_t keys_expiring; /* of them */
    uint64_t keys_expired;
    uint64_t keys_bytes; /* of keys and values */
    uint64_t keys_batch; /* these counts tell of it */
    bool is_ready;
    bool is_disk_full;   /* new timers are refused, */
    bool is_log_full;    /* and pops wait */
    bool is_serving;     /* it takes requests, */
    bool is_popping;     /* and makes pops: it has caught up */
    bool is_rebalancing; /* it may hold records that belong elsewhere */
    bool is_ahead;       /* its clock is, of most others': it takes no writes */
};

/* NULL when the memory is too small. The node is not ready before a recovery, of no segments if the
 * store is empty or there is no log. */
struct tr_node *tr_node_new(const struct tr_node_config *config, const struct tr_memory *memory);

void tr_node_step(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);

/* ---- keys ---- */

/* Whether it has replayed its log: before that it knows nothing of its keys. */
bool tr_node_is_replayed(const struct tr_node *node);

/* Whether it has keys at all: a node with others has none yet. */
bool tr_node_keeps_keys(const struct tr_node *node);

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

/* When the next TR_EVENT_TICK is wanted. */
tr_mono_ms tr_node_wake_at(const struct tr_node *node);

/* A record by the reference in an effect, until the next step. */
void tr_node_record(const struct tr_node *node, uint32_t ref, struct tr_record *record);

/* How the id of a record is written now. */
struct tr_timer_text tr_node_text(const struct tr_node *node, tr_timer_id id, uint32_t factor);

tr_steady_ms tr_node_steady(const struct tr_node *node);
tr_wall_ms tr_node_wall(const struct tr_node *node, tr_steady_ms at_ms);

void tr_node_stats(const struct tr_node *node, struct tr_node_stats *stats);

/* The tags and how many timers count under each, one at a time: start with *cursor = 0. */
bool tr_node_next_tag(const struct tr_node *node, uint64_t *cursor, struct tr_tag *tag);

struct tr_span tr_node_address(const struct tr_node *node);

/* A node of the cluster by its address; TR_MEMBER_NONE: this one has never heard of it. */
uint16_t tr_node_member(const struct tr_node *node, struct tr_span address);

/* Another node, as this one sees it. */
struct tr_node_peer {
    struct tr_span address;
    enum tr_role role;
    bool is_linked;
    bool is_up;
    bool is_serving;     /* it says that it takes requests and pops, */
    bool is_rebalancing; /* and that it may hold records that belong elsewhere */
    bool has_same_view;
    bool is_behind;    /* it may lack records, which are being looked for */
    uint64_t heard_ms; /* how long ago */
    int64_t clock_ms;  /* its clock less ours */
    uint32_t queued;   /* messages that wait to be sent */
    uint64_t pending;  /* records that it was sent lately, and may not have acknowledged */
    uint8_t fill;      /* of its memory or disk, per cent */
};

/* How many nodes it has ever heard of, itself the first. */
uint32_t tr_node_members(const struct tr_node *node);
void tr_node_peer(const struct tr_node *node, uint16_t member, struct tr_node_peer *peer);
bool tr_node_is_alone(const struct tr_node *node); /* it has never known another node */
uint64_t tr_node_view(const struct tr_node *node); /* its id; 0: it has none yet */

/* Whether another node was heard of lately. */
bool tr_node_is_up(const struct tr_node *node, uint16_t member);
struct tr_span tr_node_member_address(const struct tr_node *node, uint16_t member);

/* The records it holds, one at a time, by the hash of their id: start with *cursor = 0. All parts
 * of a timer come together: `skip` counts those of one hash. */
struct tr_node_walk {
    uint64_t hash;
    uint32_t skip;
    bool is_safe; /* the record that was sent last is durable here */
};
bool tr_node_next_record(const struct tr_node *node, struct tr_node_walk *walk,
                         struct tr_record *record);

#ifdef TR_MUTANTS
/* How often each branch was taken, by enum tr_rule. */
const uint64_t *tr_node_covered(const struct tr_node *node);
#endif

const uint8_t *tr_node_store_id(const struct tr_node *node);

/* True when all structures agree. O(n). */
bool tr_node_valid(const struct tr_node *node);

#endif
