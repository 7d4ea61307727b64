/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replication: one record on several nodes, whatever it is a record of.
 *
 *   set          the nodes of a record: who holds it, who acts first, where the view wants it
 *   recent       notes of keys that run out
 *   dropped      which records were dropped here lately
 *   hold         which records are held back, since another node acts or has yet to decide
 *   pending      what other nodes are to have, and have not acknowledged
 *   rebalance    brings records to where the view places them
 *   acknowledge  another node has a record
 *   antientropy  compares what two nodes share when a link comes up
 *   walk         goes through the store for what a node is not known to have, and sends it
 *   catchup      a node that starts, or stood still, hears what it missed before it acts
 *   replica      stores what other nodes send
 *   drop         drops what belongs elsewhere, and hears that others have
 *   tombstone    when the memory of what has ended may go
 *   operation    a client's request: read reads, write writes, replaced drops what was replaced;
 *                local does it all on a node alone
 *   ticket       what is said to other nodes when the log has an entry
 *   encode       a message as an entry of a frame; receive takes frames apart
 *
 * Owns:    what is known of each other node's progress, the operations, the notes.
 * Bounds:  of its config; a table that is full makes something late and nothing wrong.
 */
#ifndef TR_REPLICATION_REPLICATION_H
#define TR_REPLICATION_REPLICATION_H

#include "cluster/cluster.h"
#include "memory/fifo.h"
#include "replication/recent.h"
#include "replication/store.h"
#include "seam/mutant.h"

#define TR_POSITION_MS  2000  /* each place of a replica set acts this much after the one before */
#define TR_TOMBSTONE_MS 15000 /* a tombstone is kept at least as long: three lives of a frame */
#define TR_READS_MAX    64    /* records of other nodes that the answers of one step refer to */

_Static_assert(TR_TOMBSTONE_MS >= 3 * TR_FRAME_LIFE_MS,
               "a tombstone outlives what may bring back what it ended");

/* What is said when the log has an entry, besides that its record counts as durable: `then` of a
 * ticket. */
enum tr_then {
    THEN_ANSWER,    /* answer a client; token 0: nobody. Its store does that */
    THEN_OPERATION, /* this node's own copy of a client's write is there: token = the operation */
    THEN_REPLY,     /* answer another node's WRITE: token = its operation */
    THEN_ACK,       /* acknowledge to another node that this order is here */
    THEN_SEND,      /* send it to the replica set: token = of enum tr_replicate */
    THEN_PENDING,   /* it was sent, and is to be acknowledged */
    THEN_DROPPED,   /* say to another node that the record is dropped here */
};

/* How far anti-entropy with another node has got. */
enum tr_compare {
    COMPARE_NOT, /* nothing is known: all that it may lack is sent */
    COMPARE_SUMMING,
    COMPARE_SUMMED,
    COMPARE_DONE,
};

/* Whether the store is walked for records that another node may lack. */
enum tr_walk {
    WALK_NOT,
    WALK_ON,    /* it is, from the cursor on */
    WALK_TWICE, /* and then once more: what the node may lack may be before the cursor */
};

/* What is known of another node: what is pending for it, and what it has said. By member. */
struct tr_progress {
    /* The walk through the store, for what is pending for it (walk.c). */
    enum tr_walk walk;
    uint64_t cursor;           /* all records with a lower hash were looked at */
    unsigned passed;           /* how many records with exactly this hash were looked at, too */
    tr_ref passed_ref;         /* the last of these */
    tr_mono_ms early_until_ms; /* a record that was met, whose write may be under way, is sent by
                                  then, or before */

    /* The queue of what it has not acknowledged (pending.c). */
    struct tr_fifo pending; /* records that it must have acknowledged by a time */
    tr_mono_ms pending_ms;  /* when these are looked at next */
    bool has_missed;        /* its disk was full: it may have stored nothing of what it was sent */

    bool has_said_all;           /* it has nothing pending for this node (catchup.c) */
    tr_mono_ms down_ms;          /* when it went down last (antientropy.c) */
    tr_mono_ms unnoted_until_ms; /* a claim of it found no room: until then all is left to it
                                    (hold.c) */

    /* The comparison of sums with it (antientropy.c). */
    enum tr_compare compare;
    bool has_sent_sums;
    tr_mono_ms compare_ms; /* since when */
    tr_ref own_sums;       /* this node's sums, one for each bucket */
    tr_ref their_sums;     /* the other node's, once they have come */
    uint64_t sum_cursor;
    uint64_t equal[TR_BUCKETS / 64]; /* bits: these buckets are */
    uint64_t dirty[TR_BUCKETS / 64]; /* these have changed since they were summed */
};

/* How far this node has got with hearing what it missed. */
enum tr_catchup {
    CATCHUP_HEARING,   /* of others; or it waits for a view that says who they are */
    CATCHUP_ANNOUNCED, /* it has said from when on it pops, which all have yet to hear */
    CATCHUP_OVER,      /* it pops */
};

/* Bringing records to where the view places them. */
struct tr_rebalance {
    bool is_rebalancing; /* something may be held that is not where it belongs */
    bool is_walking;
    uint64_t view;         /* the last view that a whole walk applied to tombstones */
    tr_mono_ms changed_ms; /* when the view did */
    bool is_asked;         /* by the operator, who wants to hear how it went, */
    tr_mono_ms asked_ms;   /* and when */
    bool is_reported;      /* the operator has heard what the walk waits for */
    bool is_behind;        /* the configuration asks for nodes that are not yet those of the view */
    uint64_t found;        /* records that are not where they belong, so far in this walk */
    uint64_t to_rebalance; /* `found` of the walk before */
    bool is_missed;        /* outside the walk a record was found out of place: walk again */
    uint32_t offers;       /* so far in this walk */
    uint32_t walks;
    uint64_t cursor;      /* records with this hash or a lower one were looked at */
    tr_mono_ms again_ms;  /* when the next walk begins */
    struct tr_fifo moves; /* under way here */
    tr_mono_ms look_ms;   /* when these are looked at */
    tr_mono_ms prune_ms;  /* when moves that are over are next taken out of `moves` */
};

struct tr_replication_config {
    uint32_t operations_max;    /* of clients, under way at once */
    uint32_t moves;             /* records that this node moves at once */
    uint32_t pending;           /* records that one node is to acknowledge; beyond, a walk */
    uint32_t slice;             /* records that one step looks at, of each of its walks */
    uint64_t keyed_keep_ms;     /* how long the tombstone of a keyed record is kept */
    uint64_t tombstone_keep_ms; /* of any, at most, for nodes that do not come back */
};

/* Counts since the start. */
struct tr_replication_stats {
    uint64_t moved;
    uint64_t hinted;
    uint64_t records_in;
    uint64_t drops;
    uint64_t catchups;
    uint64_t forgotten_early;
};

struct tr_replication {
    struct tr_replication_config config;
    const struct tr_store *store;
    struct tr_cluster *cluster;
    struct tr_log *log;
    struct tr_arena *arena;
    const struct tr_time *time;
    const struct tr_trial *trial;

    struct tr_progress *progress; /* by member */
    uint32_t comparing;           /* how many of them are in anti-entropy */
    uint64_t split_batch;         /* of the log: the last with a part of a record */
    struct tr_recent held;        /* records that another node acts on */
    struct tr_recent dropped;     /* what is on its way must not bring them back */

    struct tr_operation *operations;
    uint32_t operation_count;
    uint64_t operation_number;
    tr_mono_ms operations_ms; /* when they are looked at */
    tr_ref read[TR_READS_MAX];
    size_t read_size[TR_READS_MAX];
    uint32_t read_count;

    struct tr_rebalance rebalance;
    tr_mono_ms busy_ms; /* of the last request, or pop */

    enum tr_catchup catchup;
    bool is_serving;          /* it has caught up once: clients are served, */
    bool is_closed;           /* unless it came back with records and is no member */
    bool was_exhausted;       /* its log, when it was looked at last: */
    bool has_missed;          /* what others said meanwhile was not kept */
    tr_mono_ms catchup_ms;    /* since when it waits to hear what it missed */
    tr_mono_ms caught_up_ms;  /* when it caught up last */
    tr_mono_ms refused_ms;    /* until when its disk had refused a segment */
    tr_mono_ms announced_ms;  /* when it said from when on it pops */
    uint64_t ahead_least_ms;  /* how far ahead that was */
    uint64_t popping_from_ms; /* pops with a nominal time below are left to others */
    tr_mono_ms wake_ms;       /* as it asked in the last step */

    struct tr_replication_stats stats;
};

/* How many records a walk looks at in one step, where `usual` is what it would. */
static inline uint32_t tr_replication_slice(const struct tr_replication *replication,
                                            uint32_t usual)
{
    return usual < replication->config.slice ? usual : replication->config.slice;
}

/* It has caught up, and makes pops. */
static inline bool tr_replication_is_popping(const struct tr_replication *replication)
{
    return replication->catchup == CATCHUP_OVER;
}

/* Clients are served. */
static inline bool tr_replication_is_open(const struct tr_replication *replication)
{
    return replication->is_serving && !replication->is_closed;
}

/* For assertions: it is another node, and a member. */
static inline bool tr_is_other(const struct tr_replication *replication, uint16_t member)
{
    return member != 0 && member < replication->cluster->member_count;
}

/* Whether the log takes as many tickets as one record, with its parts, may need. */
bool tr_replication_can_wait(const struct tr_replication *replication);

/* Whether a record of another node can be taken now: the log, and what waits for it, have room. */
bool tr_replication_has_room(const struct tr_replication *replication, const struct tr_head *head);
bool tr_replication_has_room_for(const struct tr_replication *replication,
                                 const struct tr_whole *whole); /* all of it */

/* Queues a message for `peer`. False: it has not greeted, or too many messages wait for it. If the
 * message carried a record or a drop, the store is then walked for what `peer` lacks. */
bool tr_replication_send(struct tr_replication *replication, uint16_t peer,
                         struct tr_message message);

/* Answers an operation of another node. */
void tr_replication_answer(struct tr_replication *replication, uint16_t peer, uint64_t operation,
                           const struct tr_head *head, enum tr_frame_result result);

/* Appends an entry to the log's tickets: what is to be said of this record once it is durable. */
void tr_replication_wait(struct tr_replication *replication, const struct tr_head *head, tr_ref ref,
                         enum tr_then then, uint16_t peer, uint64_t operation);

#endif
