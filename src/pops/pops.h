/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pops: a callback that is due, whoever it is due for, from its turn until it has ended.
 *
 *   turn         when it is this node's turn to make a pop
 *   destination  where pops go to, how many at once, and which wait for that
 *   flight       callbacks under way, and how they ended
 *   claim        telling other nodes of pops that take long, and leaving theirs to them
 *
 * A slow receiver holds back nobody else's pops, and a pop is handed out only into a free slot:
 * what a client cancels meanwhile is still here. What came of a pop is booked by its owner.
 *
 * Owns:    flights, destinations and their queues, claims.
 * Bounds:  `flights_max` callbacks at once, `per_destination` of them to one destination;
 *          TR_BACKLOG_MAX pops claimed one by one.
 */
#ifndef TR_POPS_POPS_H
#define TR_POPS_POPS_H

#include "memory/fifo.h"
#include "memory/wheel.h"
#include "replication/replication.h"

#define TR_DESTINATIONS_MAX    32768 /* more than there can be flights */
#define TR_DESTINATION_BUCKETS 4096  /* of the table that finds them; a power of two */
#define TR_BACKLOG_MAX         4096  /* pops under way that are claimed one by one */
#define TR_POPS_NONE           UINT32_MAX
#define TR_OUTCOME_ROOM        512 /* bytes of the log that the outcome of a pop takes at most, */
                                   /* besides a record that splits off */

/* One callback under way. */
struct tr_flight {
    tr_ref ref; /* where its record was */
    struct tr_key key;
    struct tr_order order;
    uint32_t destination;
    uint32_t next; /* of the free ones, or of the ended ones */
    bool is_used;
    enum tr_callback_result result; /* once it has ended */
    unsigned status;
    enum tr_fault fault;
    uint64_t retry_after_ms;
    uint32_t duration_ms;
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

/* What another node has said of the pops that it makes. By member. */
struct tr_claimant {
    tr_mono_ms backlog_until_ms; /* what is due before this node's turn is left to it; */
    tr_mono_ms popped_ms;        /* when it last said that it pops */
};

/* Whose records pop. A reference may be stale where that is said. */
struct tr_pops_owner {
    void *context;
    void (*head)(void *context, tr_ref ref, struct tr_head *head);
    enum tr_record_state (*state)(void *context, tr_ref ref);
    void (*set_state)(void *context, tr_ref ref, enum tr_record_state state);
    /* Whether a reference that may be stale is a record of this state and due time. */
    bool (*matches)(void *context, tr_ref ref, enum tr_record_state state, tr_steady_ms due_ms);
    uint64_t (*origin)(void *context, tr_ref ref);   /* a hash of where its pop goes */
    void (*arm)(void *context, tr_ref ref);          /* it waits for its due time again */
    void (*forget_entry)(void *context, tr_ref ref); /* that it waits for its due time */
};

struct tr_pops_config {
    uint32_t flights_max;
    uint32_t per_destination;
    uint32_t claims; /* that a node remembers of others */
};

/* Counts since the start, but for `queued`, which wait for their destination now. */
struct tr_pops_stats {
    uint64_t queued;
    uint64_t takeovers;
    uint64_t late_turns;
    uint64_t claims;
    uint64_t held_back;
};

struct tr_pops {
    struct tr_pops_config config;
    struct tr_pops_owner owner;
    struct tr_replication *replication;
    struct tr_cluster *cluster;
    struct tr_log *log;
    struct tr_arena *arena;
    const struct tr_wheel *wheel; /* where pops wait for their due times */
    const struct tr_time *time;
    const struct tr_trial *trial;

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

    struct tr_claimant *claimants; /* by member */
    struct tr_fifo claiming;       /* pops under way here, and when each is claimed next */
    tr_mono_ms claim_ms;           /* when these are looked at */
    bool is_claiming_all;          /* then, whether their time has come or not, */
    tr_steady_ms claimed_from_ms;  /* but for those that are due after then: they have been */
    bool is_claim_blocked;         /* one could not be sent: too much waits */
    tr_mono_ms backlog_ms;         /* when there was a backlog of them last */

    struct tr_pops_stats stats;
};

static inline bool tr_pops_has_flight(const struct tr_pops *pops)
{
    return pops->flight_free != TR_POPS_NONE || pops->flight_fresh < pops->config.flights_max;
}

#endif
