/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a node, for the files of this layer. */
#ifndef TR_NODE_INTERNAL_H
#define TR_NODE_INTERNAL_H

#include "base/random.h"
#include "node/node.h"
#include "timer/book.h"
#include "timer/wheel.h"

#define DESTINATIONS_MAX 32768 /* more than there can be flights */
#define BUCKETS          4096  /* of the table that finds them; a power of two */
#define LOG_BATCH_MAX    ((size_t)4 << 20)
#define NONE             UINT32_MAX
#define RETRY_LOG_MS     1000 /* after the disk refused a segment */

/* One callback under way. */
struct tr_flight {
    tr_ref ref; /* where its record was */
    tr_timer_id id;
    uint64_t part;
    struct tr_order order;
    uint32_t destination;
    uint32_t next; /* of the free ones, or of the ended ones */
    bool is_used;
    enum tr_callback_result result; /* once it has ended */
    unsigned status;
    uint64_t retry_after_ms;
};

/* A scheme, host and port that pops go to. Kept while pops fly to it or wait for it. */
struct tr_destination {
    uint64_t hash; /* of its origin; two origins that share one share their limit too */
    uint32_t next; /* of its bucket, or of the free ones */
    uint32_t flights;
    uint32_t limit;     /* halved by each timeout, raised by each answer */
    uint32_t next_held; /* of those that could fire but had to wait for effects or the log */
    bool is_held;
    struct tr_fifo queue;
};

/* An operation that is answered, or a record that is armed, when the log has its entry. */
struct tr_waiting {
    uint64_t token; /* 0: nobody is to be answered */
    uint64_t batch; /* set by tr_wait */
    tr_mono_ms since_ms;
    tr_timer_id id;
    uint64_t version;
    tr_ref ref; /* TR_ARENA_NONE: nothing is to be armed */
    uint32_t factor;
    bool has_location;
};

struct tr_log_state {
    /* The batch being filled, bound to `segment`. */
    uint8_t *buffer; /* TR_LOG_BATCH_HEAD first */
    struct tr_writer batch;
    size_t batch_cap;
    uint64_t number;  /* of the batch being filled, from 1 */
    uint64_t durable; /* batches up to this number may be answered */

    uint64_t segment;   /* the current one's number */
    uint64_t offset;    /* in its file, where the batch will go */
    uint64_t first;     /* its first position */
    bool is_begun;      /* its header was written */
    uint64_t allocated; /* segments up to this number are there */
    bool is_asked;      /* for the one after */
    bool is_refused;
    bool is_exhausted; /* and not even a spare is left */
    tr_mono_ms retry_at_ms;
    uint64_t previous_end;

    bool is_writing;
    uint64_t writing_end; /* the position after the write under way */
    uint64_t synced;      /* everything below this position is on disk */

    uint8_t *header; /* scratch for a segment's header */
    uint64_t oldest;
    uint32_t *live;  /* records by segment, modulo TR_NODE_SEGMENTS_MAX */
    uint64_t *sizes; /* bytes of segments, likewise */
    uint64_t bytes;  /* of all segments but the current one */
    uint64_t live_bytes;

    bool is_reclaiming;
    uint64_t reclaim_cursor; /* hash of the record to look at next */
    bool is_removing;        /* the oldest goes when `remove_after` is durable */
    uint64_t remove_after;   /* a batch */

    struct tr_log_incarnation incarnations[TR_LOG_INCARNATIONS_MAX];
    uint32_t incarnation_count;
    int64_t offset_ms; /* as logged last */
    uint64_t ceiling;
};

enum tr_phase {
    PHASE_NEW,
    PHASE_REPLAYING,
    PHASE_OPENING, /* replayed; waiting for a segment to write to */
    PHASE_READY,
    PHASE_DRAINING,
    PHASE_STOPPED,
    PHASE_REFUSED
};

struct tr_replay {
    struct tr_log_segment *segments;
    size_t count;
    size_t index;
    size_t offset; /* of the next batch in that segment; 0: its header comes first */
    size_t spares; /* allocated segments that follow, never used */
    bool is_clean; /* the last entry was a clean stop */
    tr_ref armed;  /* records up to this one, in the order of memory, are armed */
};

struct tr_node {
    struct tr_node_config config;
    char address[TR_LOG_ADDRESS_MAX];
    uint8_t store_id[TR_LOG_STORE_ID_SIZE];
    uint64_t replica_bits;
    struct tr_random random;
    enum tr_phase phase;
    bool is_stop_logged;

    tr_mono_ms now_ms;
    tr_wall_ms wall_ms;
    tr_steady_ms steady_ms;
    uint64_t steady_base; /* steady less boot time, modulo 2^64 */
    bool has_clock;
    uint64_t last_stamp;
    uint32_t id_counter;

    struct tr_arena arena;
    struct tr_book book;
    struct tr_wheel wheel;
    uint64_t stale; /* entries of the wheel, at most, whose record is gone */
    bool is_sweeping;

    struct tr_flight *flights;
    uint32_t flight_free;
    uint32_t flight_fresh; /* from here on they were never used */
    uint32_t flight_count;
    uint32_t ended_first; /* flights whose outcome is not booked yet: the log may have no room */
    uint32_t ended_last;
    struct tr_destination *destinations;
    uint32_t *buckets;
    uint32_t destination_free;
    uint32_t destination_fresh;
    uint32_t held_first;

    struct tr_log_state log;
    struct tr_waiting *waiting; /* a ring */
    uint64_t waiting_head;
    uint64_t waiting_tail;
    struct tr_replay replay;

    uint32_t page[TR_LIST_LIMIT_MAX + TR_PARTS_MAX + 1];
    struct tr_node_stats stats;
    bool is_memory_noted;
};

/* node.c */
struct tr_effect *tr_effects_push(struct tr_effects *out, enum tr_effect_kind kind);
bool tr_effects_has_room(const struct tr_effects *out, uint32_t count);
struct tr_effect *tr_note(struct tr_effects *out, enum tr_note what, tr_timer_id id,
                          uint64_t number);
uint64_t tr_stamp(struct tr_node *node, uint64_t above);
tr_timer_id tr_new_id(struct tr_node *node);
void tr_arm(struct tr_node *node, tr_ref ref);
void tr_forget_entry(struct tr_node *node,
                     tr_ref ref); /* its entry in the wheel, if any, is stale */
void tr_count(struct tr_node *node, const struct tr_record *record, int by);

/* Ends a record at `order`: it is gone, or a tombstone that remembers its key. */
void tr_end(struct tr_node *node, tr_ref ref, const struct tr_order *order);

/* request.c */
void tr_request(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);

/* pop.c */
void tr_pops_init(struct tr_node *node);
void tr_pops_run(struct tr_node *node, struct tr_effects *out);
void tr_callback_ended(struct tr_node *node, const struct tr_event *event);
bool tr_pops_can_run(const struct tr_node *node);
bool tr_pops_want_tick(const struct tr_node *node);
void tr_pops_finish(struct tr_node *node, struct tr_effects *out); /* books what has ended */

/* commit.c */
/* Whether entries of `size` bytes fit into the open batch; a client's must leave a quarter of it to
 * the pops. */
bool tr_log_has_room(const struct tr_node *node, size_t size, bool is_client);
void tr_log_record(struct tr_node *node, tr_ref ref, const struct tr_record *record);
void tr_log_short(struct tr_node *node, const struct tr_record *record);
void tr_log_end(struct tr_node *node, enum tr_log_type type, const struct tr_record *record);
bool tr_log_number(struct tr_node *node, enum tr_log_type type, uint64_t number);
void tr_log_dropped(struct tr_node *node, const struct tr_record *record); /* it leaves the book */
uint64_t tr_log_size(const struct tr_record *record); /* about what its full entry takes */
void tr_wait(struct tr_node *node, struct tr_waiting waiting);
bool tr_log_is_idle(const struct tr_node *node); /* nothing waits, nothing is under way */
void tr_log_open(struct tr_node *node, uint64_t segment, uint64_t first, uint64_t previous_end);
void tr_log_written(struct tr_node *node, const struct tr_event *event);
void tr_log_segment_allocated(struct tr_node *node, uint64_t number, struct tr_effects *out);
void tr_log_segment_refused(struct tr_node *node, struct tr_effects *out);
void tr_log_run(struct tr_node *node, bool may_write, struct tr_effects *out);
bool tr_log_wants_tick(const struct tr_node *node);
void tr_reclaim(struct tr_node *node, struct tr_effects *out);

/* recover.c */
void tr_recovery_start(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);
void tr_recovery_run(struct tr_node *node, struct tr_effects *out);

#endif
