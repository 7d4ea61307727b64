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

#include "base/record.h"
#include "wire/api.h"
#include "wire/log.h"
#include "wire/timer_body.h"

#define TR_NODE_MEMORY_LEAST ((size_t)32 << 20)
#define TR_NODE_WAITING_MAX  65536 /* operations that wait for the log; then 503 */
#define TR_NODE_EFFECTS_MAX  4096  /* of one step; what is left follows in the next */
#define TR_NODE_SEGMENTS_MAX 65536 /* of the log */
#define TR_VIEW_NODES_MAX    256   /* of a view */
#define TR_NODE_NEVER        UINT64_MAX

struct tr_node;

/* A region of zeros, aligned to 16 bytes. */
struct tr_memory {
    void *region;
    size_t size;
};

/* The new cluster is what stays and what joins; the old one is what stays and what leaves. */
enum tr_role { TR_ROLE_NONE, TR_ROLE_STAYING, TR_ROLE_JOINING, TR_ROLE_LEAVING };

struct tr_view_node {
    struct tr_span address;
    enum tr_role role;
};

/* How much of something there may be at once; 0: as much as is usual for the memory. The simulator
 * draws a handful, to see what happens when they are reached. */
struct tr_node_limits {
    uint32_t claims;  /* pops of other nodes that are remembered */
    uint32_t drops;   /* records that were let go, likewise */
    uint32_t moves;   /* records that this node moves */
    uint32_t owed;    /* records that another node is to acknowledge */
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
    uint32_t flights_max;    /* callbacks under way at once */
    uint32_t messages_max;   /* that wait to be sent to other nodes; 0: there are none */
    uint32_t operations_max; /* client writes under way in the cluster; 0: likewise */
    struct tr_node_limits limits;

    /* These may change while it runs. */
    uint32_t per_destination; /* of them, to one destination */
    uint32_t attempts_max;
    uint64_t backoff_ms; /* before the second attempt; then twice as long each time */
    uint64_t dead_keep_ms;
    uint64_t key_keep_ms; /* how long an Idempotency-Key is remembered after its timer ended */
    uint64_t latency_target_ms; /* of client writes; beyond it they are refused */
    uint64_t tombstone_keep_ms; /* at most, for nodes that do not come back */
    uint32_t twin;              /* of enum tr_twin; heeded in the simulator's build alone */
};

enum tr_event_kind {
    TR_EVENT_TICK,
    TR_EVENT_RECOVERY_STARTED,
    TR_EVENT_REQUEST_RECEIVED,
    TR_EVENT_CALLBACK_ENDED,
    TR_EVENT_LOG_WRITTEN,
    TR_EVENT_SEGMENT_ALLOCATED,
    TR_EVENT_SEGMENT_REFUSED, /* no space */
    TR_EVENT_DRAIN_ASKED,
    TR_EVENT_SETTLE_ASKED, /* now; a note tells how it went */
    TR_EVENT_CONFIGURED,
    TR_EVENT_VIEW_CHANGED,
    TR_EVENT_LINK_UP, /* a connection to another node is there, and proven */
    TR_EVENT_LINK_DOWN,
    TR_EVENT_FRAME_RECEIVED,
    TR_EVENT_FRAME_SENT, /* all that were to be sent on that link are on their way */
};

enum tr_callback_result {
    TR_CALLBACK_ANSWERED,  /* with an HTTP status */
    TR_CALLBACK_UNREACHED, /* no connection, no name, a broken answer */
    TR_CALLBACK_TIMED_OUT,
};

struct tr_event {
    enum tr_event_kind kind;
    tr_mono_ms now_ms;
    tr_wall_ms wall_ms;
    bool has_more; /* events of this turn: let the log gather their entries */
    union {
        /* The segments must stay readable until TR_EFFECT_RECOVERED or TR_EFFECT_REFUSED. */
        struct {
            struct tr_log_segment *segments; /* by number, ascending */
            size_t count;
        } recovery;
        struct {
            uint64_t token;
            enum tr_api_kind kind;
            struct tr_timer_text timer;
            const struct tr_timer_body *body;   /* of CREATE and REPLACE */
            struct tr_span key;                 /* the Idempotency-Key; text NULL: none */
            const struct tr_api_request *query; /* of LIST and REDRIVE */
        } request;
        struct {
            uint32_t flight;
            enum tr_callback_result result;
            unsigned status;
            uint64_t retry_after_ms; /* 0: not given */
        } callback;
        struct {
            uint64_t written; /* everything below this position is as safe as the operator wants */
            uint64_t synced;  /* everything below this one is on disk */
        } log;
        struct {
            uint64_t number;
        } segment;
        const struct tr_node_config *config;
        struct {
            const struct tr_view_node *nodes;
            uint32_t count;
        } view;
        struct {
            uint16_t peer; /* by tr_node_member */
            const uint8_t *bytes;
            size_t size;
        } frame;
    } of;
};

enum tr_effect_kind {
    TR_EFFECT_ANSWER,       /* to a request, without a body */
    TR_EFFECT_ANSWER_TIMER, /* to READ */
    TR_EFFECT_ANSWER_PAGE,  /* to LIST */
    TR_EFFECT_FIRE,         /* call a URI */
    TR_EFFECT_LOG_WRITE,
    TR_EFFECT_SEGMENT_ALLOCATE,
    TR_EFFECT_SEGMENT_REMOVE,
    TR_EFFECT_SEGMENT_TRIM, /* cut the file to its size */
    TR_EFFECT_RECOVERED,
    TR_EFFECT_REFUSED, /* the log cannot be replayed: `check` says where */
    TR_EFFECT_NOTE,    /* for the operator */
    TR_EFFECT_STOPPED, /* drained and durable */
    TR_EFFECT_FRAME_SEND,
    TR_EFFECT_LINK_RESET, /* close the link and connect again */
};

enum tr_note {
    TR_NOTE_DEAD,      /* a pop is dead: id, number = its sequence */
    TR_NOTE_DISCARDED, /* a failed pop was given up for a newer one: id, number = its sequence */
    TR_NOTE_DISK_FULL,
    TR_NOTE_DISK_HEALED,
    TR_NOTE_LOG_EXHAUSTED, /* not even the reserve is left: pops wait */
    TR_NOTE_TAIL_CUT,      /* number = bytes */
    TR_NOTE_TAIL_DAMAGED,  /* likewise; its batch was all there, so it may have been acknowledged */
    TR_NOTE_PEER_LESS,     /* a node comes back with less than it had: number = which */
    TR_NOTE_CLOCK_STEPPED, /* number = wall less steady time, ms, signed */
    TR_NOTE_MEMORY_FULL,
    TR_NOTE_PEER_UP,        /* number = which */
    TR_NOTE_PEER_DOWN,      /* likewise */
    TR_NOTE_SETTLED,        /* everything is where it belongs: number = records held */
    TR_NOTE_VIEW_REFUSED,   /* too many nodes were ever heard of: the view before stays */
    TR_NOTE_UNSETTLED_DOWN, /* not all, since a node is down: number = which */
    TR_NOTE_UNSETTLED_VIEW, /* not all, since a node has another view: number = which */
    TR_NOTE_STOOD_STILL,    /* it had no time to run for as long: number = ms */
};

struct tr_effect {
    enum tr_effect_kind kind;
    union {
        struct {
            uint64_t token;
            unsigned status;
            bool has_location;
            struct tr_timer_text location;
            const char *detail; /* of a refusal */
            unsigned retry_after_s;
        } answer;
        struct {
            uint64_t token;
            uint32_t ref;
        } timer;
        struct {
            uint64_t token;
            const uint32_t *refs;
            uint32_t count;
            bool has_more;
            bool is_resync; /* as nodes of the original want it */
            uint64_t cursor;
        } page;
        struct {
            uint32_t flight;
            uint32_t ref;
            tr_steady_ms due_ms;
            tr_mono_ms due_mono_ms;
        } fire;
        struct {
            uint64_t segment;
            uint64_t offset;
            const uint8_t *head; /* the segment's header, when this is its first write; or NULL */
            size_t head_size;
            const uint8_t *bytes;
            size_t size;
            uint64_t end; /* the position after it */
        } log;
        struct {
            uint64_t number;
            uint64_t size;
        } segment;
        struct tr_log_check check;
        struct {
            enum tr_note what;
            tr_timer_id id;
            uint64_t number;
            uint32_t factor;                /* of DEAD and DISCARDED */
            enum tr_callback_result result; /* of DEAD: how its last attempt ended, */
            unsigned status;                /* and the HTTP status if there was one */
        } note;
        struct {
            uint16_t peer;
            const uint8_t *bytes;
            size_t size;
        } frame;
    } of;
};

struct tr_effects {
    uint32_t count;
    struct tr_effect items[TR_NODE_EFFECTS_MAX];
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
    uint64_t unsettled;   /* records that the last walk found where they do not belong */
    uint64_t moving;      /* records that this node is moving */
    uint64_t settle_walk; /* how far the walk is, of 65,535 */
    uint64_t copies;      /* of timers, debts and dead: those of which another node is the first */
    uint64_t moved;       /* records that this node has brought to where they belong */
    uint64_t stand_ins;   /* writes for which another node stood in */
    uint64_t takeovers;   /* pops made for a node that is down */
    uint64_t late_turns;  /* pops made for one that is up and did not make them in time */
    uint64_t claims;      /* of pops under way here that others were told of */
    uint64_t held_back;   /* looks at a due pop that another node has claimed */
    uint64_t records_in;  /* that other nodes sent */
    uint64_t drops;       /* records let go because they belong elsewhere */
    uint64_t barriers;    /* times that it waited to hear what it missed */
    uint64_t forgotten_early; /* tombstones let go for want of memory */
    uint64_t operations;      /* clients' requests under way in the cluster */
    bool is_ready;
    bool is_disk_full; /* new timers are refused, */
    bool is_log_full;  /* and pops wait */
    bool is_serving;   /* it takes requests, */
    bool is_popping;   /* and makes pops: it waits for no barrier */
    bool is_unsettled; /* it may hold records that belong elsewhere */
    bool is_ahead;     /* its clock is, of most others': it takes no writes */
};

/* NULL when the memory is too small. The node is not ready before a recovery, of no segments if the
 * store is empty or there is no log. */
struct tr_node *tr_node_new(const struct tr_node_config *config, const struct tr_memory *memory);

void tr_node_step(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);

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
#define TR_MEMBER_NONE UINT16_MAX
uint16_t tr_node_member(const struct tr_node *node, struct tr_span address);

/* Another node, as this one sees it. */
struct tr_node_peer {
    struct tr_span address;
    enum tr_role role;
    bool is_linked;
    bool is_up;
    bool is_serving;   /* it says that it takes requests and pops, */
    bool is_unsettled; /* and that it may hold records that belong elsewhere */
    bool has_same_view;
    bool is_behind;    /* it may lack records, which are being looked for */
    uint64_t heard_ms; /* how long ago */
    int64_t clock_ms;  /* its clock less ours */
    uint32_t queued;   /* messages that wait to be sent */
    uint64_t owed;     /* records that it was told of lately, and may not have acknowledged */
    uint8_t fill;      /* of its memory or disk, per cent */
};

/* How many nodes it has ever heard of, itself the first. */
uint32_t tr_node_members(const struct tr_node *node);
void tr_node_peer(const struct tr_node *node, uint16_t member, struct tr_node_peer *peer);
uint64_t tr_node_view(const struct tr_node *node); /* its id; 0: it is alone */

/* Whether another node was heard of lately. */
bool tr_node_is_up(const struct tr_node *node, uint16_t member);
struct tr_span tr_node_member_address(const struct tr_node *node, uint16_t member);

/* The records it holds, one at a time, by the hash of their id: start with *cursor = 0. All parts
 * of a timer come together: `skip` counts those of one hash. */
struct tr_node_walk {
    uint64_t hash;
    uint32_t skip;
};
bool tr_node_next_record(const struct tr_node *node, struct tr_node_walk *walk,
                         struct tr_record *record);

#ifdef TR_TWINS
/* How often each branch was taken, by enum tr_rule. */
const uint64_t *tr_node_covered(const struct tr_node *node);
#endif

const uint8_t *tr_node_store_id(const struct tr_node *node);

/* True when all structures agree. O(n). */
bool tr_node_valid(const struct tr_node *node);

#endif
