/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a node, for the files of this layer. */
#ifndef TR_NODE_INTERNAL_H
#define TR_NODE_INTERNAL_H

#include "base/random.h"
#include "cluster/clock.h"
#include "cluster/member.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/view.h"
#include "log/batch.h"
#include "log/reclaim.h"
#include "log/recovery.h"
#include "log/segment.h"
#include "memory/wheel.h"
#include "node/node.h"
#include "replication/acknowledge.h"
#include "replication/antientropy.h"
#include "replication/catchup.h"
#include "replication/dropped.h"
#include "replication/encode.h"
#include "replication/hold.h"
#include "replication/operation.h"
#include "replication/pending.h"
#include "replication/rebalance.h"
#include "replication/receive.h"
#include "replication/set.h"
#include "replication/ticket.h"
#include "replication/tombstone.h"
#include "seam/mutant.h"
#include "timers/book.h"

#define DESTINATIONS_MAX 32768 /* more than there can be flights */
#define BUCKETS          4096  /* of the table that finds them; a power of two */
#define NONE             UINT32_MAX
#define SAMPLES_MAX      64
#define MOVES_MAX        4096   /* of records, under way here at once */
#define OWED_MAX         262144 /* to one node; of more than that the book is walked for the rest */
#define BACKLOG_MAX      4096   /* pops under way that are claimed one by one */

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

/* What another node has said of the pops that it makes. By member. */
struct tr_claimant {
    tr_mono_ms backlog_until_ms; /* what is due before this node's turn is left to it; */
    tr_mono_ms popped_ms;        /* when it last said that it pops */
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

struct tr_node {
    struct tr_node_config config;
    char address[TR_LOG_ADDRESS_MAX];
    struct tr_random random;
    enum tr_phase phase;
    bool is_stop_logged;

    struct tr_trial trial;
    struct tr_time time;
    bool has_clock;
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

    struct tr_cluster cluster;
    struct tr_store store; /* the timers, for replication */
    struct tr_replication replication;
    struct tr_claimant *claimants;
    struct tr_fifo claiming;      /* pops under way here, and when each is claimed next */
    tr_mono_ms claim_ms;          /* when these are looked at */
    bool is_claiming_all;         /* then, whether their time has come or not, */
    tr_steady_ms claimed_from_ms; /* but for those that are due from then on: they have been */
    bool is_claim_blocked;        /* one could not be sent: too much waits */
    tr_mono_ms backlog_ms;        /* when there was a backlog of them last */
    tr_mono_ms drain_ms;
    int64_t samples[SAMPLES_MAX]; /* how much later others say that a shared record is due */
    uint32_t sample_count;
    bool is_clock_checked;
    bool is_clock_used; /* something that others sent was stored by it since the start */

    struct tr_log log;
    tr_ref armed; /* after a replay: records up to this one, in the order of memory, are armed */

    uint32_t page[TR_LIST_LIMIT_MAX + TR_PARTS_MAX + 1];
    struct tr_node_stats stats;
    bool is_memory_noted;
};

/* There are other nodes. */
static inline bool tr_is_clustered(const struct tr_node *node)
{
    return node->cluster.view.count > 0;
}

/* node.c */
tr_timer_id tr_new_id(struct tr_node *node);

/* store.c */
void tr_arm(struct tr_node *node, tr_ref ref);
void tr_forget_entry(struct tr_node *node,
                     tr_ref ref); /* its entry in the wheel, if any, is stale */
void tr_count(struct tr_node *node, const struct tr_head *head, int by);

/* What a tombstone has no use for. */
void tr_strip(struct tr_record *record);

/* Ends a record at `order`: it is gone, or a tombstone that remembers its key. Returns that. */
tr_ref tr_end(struct tr_node *node, tr_ref ref, const struct tr_order *order);

/* Entries of the log: all of a record, a change of its order and times, its end; and that its full
 * entry is of no use any more. */
void tr_store_log_record(struct tr_node *node, tr_ref ref, const struct tr_record *record);
void tr_store_log_short(struct tr_node *node, const struct tr_head *head);
void tr_store_log_end(struct tr_node *node, enum tr_log_type type, const struct tr_head *head);
void tr_store_log_dead(struct tr_node *node, const struct tr_record *record);
void tr_store_copy_oldest(struct tr_node *node, uint64_t *cursor); /* for reclaim */

/* Keeps and logs a record, in the place of `ref` or, if that is none, as a new one. Returns where
 * it is, or TR_ARENA_NONE: no memory, and nothing has changed. */
tr_ref tr_put(struct tr_node *node, const struct tr_record *record, tr_ref ref);

/* Keeps and logs the record at `ref` under another head: where it belongs has changed. */
tr_ref tr_put_head(struct tr_node *node, tr_ref ref, const struct tr_head *head);

/* Gives a record another order and other times, and arms it. Returns where it is then. */
tr_ref tr_change(struct tr_node *node, tr_ref ref, const struct tr_head *before,
                 const struct tr_head *head);

/* Lets a record go whose time is over: nothing of it can be on its way any more. */
void tr_forget(struct tr_node *node, tr_ref ref);

/* replicated.c */
struct tr_store tr_timers_as_store(struct tr_node *node); /* what replication asks of them */
void tr_record_to_whole(const struct tr_record *record, struct tr_whole *whole);
void tr_record_from_whole(const struct tr_whole *whole, struct tr_record *record);

/* samples.c */
void tr_send_samples(struct tr_node *node, uint16_t peer);
void tr_hear_sample(struct tr_node *node, const struct tr_head *outcome, int64_t due_in_ms);
void tr_correct_clock(struct tr_node *node, int64_t age_ms); /* by what others say */

/* request.c */
void tr_request(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);

/* pop.c */
/* Lets the oldest failed pop of a timer go if it has too many. */
void tr_limit_parts(struct tr_node *node, tr_timer_id id, uint64_t newest, struct tr_effects *out);
bool tr_entry_is_live(const struct tr_node *node, const struct tr_fifo_entry *entry);
void tr_fly_on(struct tr_node *node, tr_ref before, tr_ref ref, const struct tr_head *record);
void tr_pops_init(struct tr_node *node);
/* What waits for its destination is looked at again, as what is only due. */
void tr_pops_recall(struct tr_node *node);
void tr_pops_run(struct tr_node *node, struct tr_effects *out);
void tr_callback_ended(struct tr_node *node, const struct tr_event *event);
bool tr_pops_can_run(const struct tr_node *node);
bool tr_pops_wait(const struct tr_node *node); /* due ones, for a free flight */
void tr_look_again(struct tr_node *node, tr_ref ref, tr_steady_ms at_ms);
bool tr_pops_want_tick(const struct tr_node *node);
void tr_pops_finish(struct tr_node *node, struct tr_effects *out); /* books what has ended */

/* durable.c */
/* Arms and answers what has become durable. */
void tr_durable_run(struct tr_node *node, struct tr_effects *out);

/* peers.c */
void tr_peers_hooks(struct tr_node *node); /* what the cluster asks of this node */
void tr_peers_run(struct tr_node *node, struct tr_effects *out);
tr_mono_ms tr_peers_wake_at(const struct tr_node *node);
bool tr_all_are_told(struct tr_node *node);

/* receive.c */
void tr_frame_received(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);

/* claim.c */
/* A pop is handed out, or waits for its destination: claimed unless it is settled by then. */
void tr_claim_later(struct tr_node *node, tr_ref ref, const struct tr_head *head);
void tr_claims_run(struct tr_node *node);
void tr_claim_flights(struct tr_node *node); /* at once: it stops */
void tr_claim_now(struct tr_node *node);     /* all: somebody has come */
tr_mono_ms tr_claims_wake_at(const struct tr_node *node);
bool tr_has_backlog(const struct tr_node *node);
void tr_backlog_heard(struct tr_node *node, uint16_t peer); /* that it has one, or has none */
bool tr_is_claimed(const struct tr_node *node, const struct tr_head *head);
/* When a claim, or a backlog, has last held it back; 0: none has. From then on turns count anew. */
tr_steady_ms tr_held_until(const struct tr_node *node, const struct tr_head *head);

/* request.c */
/* Tries the dead pops of a timer again; returns how many. The last one waits for `waiting`. */
unsigned tr_redrive(struct tr_node *node, tr_timer_id id, uint64_t sequence,
                    struct tr_waiting waiting);
bool tr_has_parts_room(const struct tr_node *node);

/* recover.c */
void tr_recovery_hooks(struct tr_node *node); /* what the log asks of this node */
void tr_recovery_start(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);
void tr_recovery_run(struct tr_node *node, struct tr_effects *out);

#endif
