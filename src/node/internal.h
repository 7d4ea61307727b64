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
#include "node/node.h"
#include "node/recent.h"
#include "seam/mutant.h"

#include "memory/wheel.h"
#include "timers/book.h"

#define DESTINATIONS_MAX 32768 /* more than there can be flights */
#define BUCKETS          4096  /* of the table that finds them; a power of two */
#define NONE             UINT32_MAX
#define READS_MAX        64
#define SAMPLES_MAX      64
#define POSITION_MS      2000   /* each place of a list pops this much later than the one before */
#define TOMBSTONE_MS     15000  /* a tombstone is kept at least as long: three lives of a frame */
#define MOVES_MAX        4096   /* of records, under way here at once */
#define OWED_MAX         262144 /* to one node; of more than that the book is walked for the rest */
#define AGAIN_OWED_MS    1000   /* a node that was told has this long to say so */
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

/* When and how the list of a record hears of a change. */
enum tr_telling {
    TELL_AT_ONCE, /* what came of a pop: it has happened, whatever becomes of this node's disk */
    TELL_DURABLE, /* what stands or falls with other records that are written with it */
    TELL_WHOLE,   /* a record that is new to the list, when it is durable */
    TELL_PART,    /* likewise, one without which what is told after it must not be known */
};

/* How far two nodes have got with telling what they share. */
enum tr_compare {
    COMPARE_NOT, /* nothing is known: all that it may lack is sent */
    COMPARE_SUMMING,
    COMPARE_SUMMED,
    COMPARE_DONE,
};

/* How far another node has got with what this one is to tell it. By member. */
struct tr_progress {
    bool is_behind;  /* it may lack records: the book is walked for them */
    bool is_passed;  /* and the walk must come again */
    bool has_told;   /* since the link is up it has said what it owes */
    bool has_missed; /* its disk was full, so it may have kept nothing of what it was told */
    uint64_t cursor; /* of that walk: records up to this hash were looked at, */
    unsigned passed; /* and of this hash so many, up to that one */
    tr_ref passed_ref;
    struct tr_fifo owed; /* records that it must have acknowledged by a time */
    tr_mono_ms owed_ms;  /* when these are looked at next */
    tr_mono_ms
        early_until_ms; /* the walk has met a write that was under way: not sent until then */

    enum tr_compare compare;
    bool has_sent_sums;
    tr_mono_ms compare_ms; /* since when */
    tr_ref own_sums;       /* TR_BUCKETS of them */
    tr_ref their_sums;     /* if they came too early */
    uint64_t sum_cursor;
    uint64_t equal[TR_BUCKETS / 64]; /* bits: these buckets are */
    uint64_t dirty[TR_BUCKETS / 64]; /* these have changed since they were summed */
};

/* What another node has said of the pops that it makes. By member. */
struct tr_claimant {
    tr_mono_ms backlog_until_ms; /* what is due before this node's turn is left to it; */
    tr_mono_ms unnoted_until_ms; /* likewise, since it claims more than can be noted */
    tr_mono_ms popped_ms;        /* when it last said that it pops */
};

enum tr_stage {
    STAGE_ASKING,  /* other nodes what they hold */
    STAGE_WRITING, /* to the list */
    STAGE_TELLING, /* those who may hold what was replaced */
};

/* A client's request under way in the cluster. */
struct tr_operation {
    uint64_t number; /* 0: free */
    uint64_t token;
    enum tr_stage stage;
    enum tr_api_kind kind;
    enum tr_write_mode mode;
    tr_ref record; /* as a log entry: to be written, or the highest that was heard of */
    size_t record_size;
    tr_ref own; /* where this node's own copy was put */
    tr_mono_ms started_ms;
    uint64_t patience_ms; /* after which somebody stands in for who is silent */
    uint8_t factor;       /* copies wanted */
    uint8_t list_count;
    uint16_t list[TR_SET_MAX];
    uint8_t done;   /* places of the list that have it */
    uint8_t above;  /* that have a higher version, which is as good */
    uint8_t failed; /* that will not */
    uint8_t tries;
    bool is_late;     /* stand-ins for the silent were asked; or all, once more */
    bool is_drawn;    /* its id, which may be drawn again */
    bool is_found;    /* somebody holds it */
    bool is_complete; /* everybody was asked who has it, if anybody has */
    tr_timer_id id;
    uint64_t version;
    uint64_t sequence; /* of a redrive */
    uint64_t filter;   /* of the id that the client gave */
    uint64_t
        open[TR_LOG_NODES_MAX / 64]; /* bits: members that were asked or told, and are silent */
};

/* Bringing records to where the view places them. */
struct tr_settling {
    bool is_unsettled; /* something may be held that is not where it belongs */
    bool is_walking;
    uint64_t view;         /* that tombstones were brought to */
    tr_mono_ms changed_ms; /* when the view did */
    bool is_asked;         /* by the operator, who wants to hear how it went, */
    tr_mono_ms asked_ms;   /* and when */
    bool is_told;          /* what it waits for */
    uint64_t found;        /* records that are not where they belong, so far in this walk */
    uint64_t unsettled;    /* and in the one before */
    bool is_missed;        /* there may be some that this walk had passed by then */
    uint32_t offers;       /* so far in this walk */
    uint32_t walks;
    uint64_t cursor;      /* records up to this hash were looked at */
    tr_mono_ms again_ms;  /* when the next walk begins */
    struct tr_fifo moves; /* under way here */
    tr_mono_ms look_ms;   /* when these are looked at */
    tr_mono_ms prune_ms;  /* when those that are over make room */
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
    uint64_t split_batch; /* of the log: the last with a failed pop that split off */
    uint64_t stale;       /* entries of the wheel, at most, whose record is gone */
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
    struct tr_progress *progress; /* by member */
    struct tr_claimant *claimants;
    struct tr_operation *operations;
    uint32_t operation_count;
    uint64_t operation_number;
    tr_mono_ms operations_ms;     /* when they are looked at */
    tr_mono_ms busy_ms;           /* of the last request, or pop */
    struct tr_recent claims;      /* pops that other nodes are making */
    struct tr_recent dropped;     /* records that were let go here: what is on its way must not */
                                  /* bring them back */
    struct tr_fifo claiming;      /* pops under way here, and when each is claimed next */
    tr_mono_ms claim_ms;          /* when these are looked at */
    bool is_claiming_all;         /* then, whether their time has come or not, */
    tr_steady_ms claimed_from_ms; /* but for those that are due from then on: they have been */
    bool is_claim_blocked;        /* one could not be sent: too much waits */
    tr_mono_ms backlog_ms;        /* when there was a backlog of them last */
    bool is_popping;
    bool was_exhausted;      /* its log, when it was looked at last: */
    bool has_missed;         /* what others said meanwhile was not kept */
    bool is_serving;         /* it has passed the barrier once */
    tr_mono_ms barrier_ms;   /* since when it waits to hear what it missed */
    tr_mono_ms announced_ms; /* when it said from when on it pops; 0: not yet */
    uint64_t ahead_least_ms; /* how far ahead that was */
    tr_mono_ms drain_ms;
    tr_mono_ms wake_ms;           /* as it asked in the last step */
    int64_t samples[SAMPLES_MAX]; /* how much later others say that a shared record is due */
    uint32_t sample_count;
    bool is_clock_checked;
    bool is_clock_used; /* something that others sent was stored by it since the start */
    struct tr_settling settling;
    uint32_t comparing;     /* peers */
    tr_ref read[READS_MAX]; /* records of other nodes that answers of this step refer to */
    size_t read_size[READS_MAX];
    uint32_t read_count;
    uint64_t popping_from_ms; /* pops with a nominal time below are left to others */

    struct tr_log log;
    tr_ref armed; /* after a replay: records up to this one, in the order of memory, are armed */

    uint32_t page[TR_LIST_LIMIT_MAX + TR_PARTS_MAX + 1];
    struct tr_node_stats stats;
    bool is_memory_noted;
};

/* How many records a walk looks at in one step, where `usual` is what it would. */
static inline uint32_t tr_slice(const struct tr_node *node, uint32_t usual)
{
    return usual < node->config.limits.slice ? usual : node->config.limits.slice;
}

/* node.c */
tr_timer_id tr_new_id(struct tr_node *node);

/* keep.c */
void tr_arm(struct tr_node *node, tr_ref ref);
void tr_forget_entry(struct tr_node *node,
                     tr_ref ref); /* its entry in the wheel, if any, is stale */
void tr_count(struct tr_node *node, const struct tr_head *head, int by);

/* What a tombstone has no use for. */
void tr_strip(struct tr_record *record);
void tr_let_others_go(struct tr_head *head);

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

/* Whether a record of another node can be taken now: the log, and what waits for it, have room. */
bool tr_has_room(const struct tr_node *node, const struct tr_head *head);
bool tr_can_wait(const struct tr_node *node); /* what waits has, and nothing is logged */

void tr_drop(struct tr_node *node, tr_ref ref); /* lets a record go, here alone */
/* Likewise one whose time is over: nothing of it can be on its way any more. */
void tr_forget(struct tr_node *node, tr_ref ref);
/* Whether it will be remembered that it was let go. If not, and it can wait, it is not yet. */
bool tr_can_drop(const struct tr_node *node, const struct tr_key *key);
/* That what is at its order, or below, was let go; or that this write alone was taken back. */
void tr_note_dropped(struct tr_node *node, const struct tr_head *head);
void tr_note_taken_back(struct tr_node *node, const struct tr_head *head);
bool tr_is_taken_back(const struct tr_node *node, const struct tr_head *head);
/* The order that was let go here lately, if it is this one or a higher one. */
const struct tr_order *tr_find_dropped(const struct tr_node *node, const struct tr_head *head);

/* barrier.c */
void tr_barrier_begin(struct tr_node *node);
void tr_barrier_notice(struct tr_node *node, struct tr_effects *out); /* that it stood still */
void tr_barrier_run(struct tr_node *node);
tr_mono_ms tr_barrier_wake_at(const struct tr_node *node);
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

/* There are other nodes: what follows is for that. */
static inline bool tr_is_clustered(const struct tr_node *node)
{
    return node->cluster.view.count > 0;
}

/* The place of a node in a record's list, or list_count. */
static inline unsigned tr_place_of(const struct tr_head *head, uint16_t member)
{
    unsigned i = 0;
    while (i < head->replicas.count && head->replicas.members[i] != member)
        i++;
    return i;
}

/* peers.c */
void tr_peers_hooks(struct tr_node *node); /* what the cluster asks of this node */
void tr_peers_run(struct tr_node *node, struct tr_effects *out);
tr_mono_ms tr_peers_wake_at(const struct tr_node *node);
bool tr_all_are_told(struct tr_node *node);
/* For a node that has greeted; else, and when there are too many, it is behind. False: it is. */
bool tr_send(struct tr_node *node, uint16_t peer, struct tr_message message);

/* encode.c */
void tr_encode(struct tr_node *node, const struct tr_message *message, struct tr_writer *writer);

/* receive.c */
void tr_frame_received(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);

/* list.c */
#define TR_NAMES_MAX (TR_SET_MAX + TR_FROM_MAX)
bool tr_is_listed(const struct tr_head *head, uint16_t member);
bool tr_is_named(const struct tr_head *head, uint16_t member); /* by its list, or by `from` */
void tr_remember(struct tr_head *head, uint16_t member);       /* in `from` */
unsigned tr_names(const struct tr_head *head, uint16_t *names);
unsigned tr_others(const struct tr_head *head); /* how many of them are not this node */
/* Who makes an attempt to pop it, and, as for the first attempt, who moves it: one after the
 * other; TR_MEMBER_NONE for one that has let go. */
unsigned tr_turns(const struct tr_node *node, const struct tr_head *head, uint32_t attempt,
                  uint16_t *turns);
uint32_t tr_list_check(const struct tr_node *node, const struct tr_head *head);
unsigned tr_copies(const struct tr_node *node, uint32_t factor);
/* Replicas in their order, then a stand-in for each of them that is not up or failed; for a new
 * record also for those that are only starting. */
unsigned tr_want(const struct tr_node *node, tr_timer_id id, uint32_t factor,
                 const uint16_t *failed, unsigned failed_count, bool is_new, uint16_t *list);
bool tr_is_placed_well(const struct tr_node *node, const struct tr_head *head);
/* All of its list have it. */
bool tr_is_known(const struct tr_node *node, tr_ref ref, const struct tr_head *head);
/* As many of its list have it as there should be copies. */
bool tr_has_enough(const struct tr_node *node, tr_ref ref, const struct tr_head *head);

/* tell.c */
/* Once durable, to all who are named: of a new record all of it. */
void tr_tell(struct tr_node *node, tr_ref ref, enum tr_telling telling);
void tr_told(struct tr_node *node, const struct tr_waiting *waiting, struct tr_effects *out);
void tr_acked(struct tr_node *node, uint16_t peer, const struct tr_head *head);
/* `ref` is where it was, if that is known. */
void tr_marked(struct tr_node *node, tr_ref ref, const struct tr_head *head, uint8_t mask);
void tr_mark(struct tr_node *node, tr_ref ref, const struct tr_head *head, uint16_t member);
/* The record of this key, if it has exactly this order. */
tr_ref tr_find_exactly(const struct tr_node *node, const struct tr_head *named,
                       struct tr_head *held);
void tr_owe(struct tr_node *node, tr_ref ref, const struct tr_head *head);
bool tr_is_owed(const struct tr_node *node, tr_ref ref, uint16_t peer, struct tr_head *head);
void tr_send_copy(struct tr_node *node, uint16_t peer, const struct tr_head *head);
void tr_send_drop(struct tr_node *node, uint16_t peer, const struct tr_head *head);
void tr_send_take_back(struct tr_node *node, uint16_t peer, const struct tr_head *head);
void tr_send_owed(struct tr_node *node, uint16_t peer, const struct tr_head *head);
bool tr_is_owed_drop(const struct tr_head *head, uint16_t peer);
/* Its write may still be under way, and be taken back: nobody else passes it on. */
bool tr_is_fresh(const struct tr_node *node, const struct tr_head *head);
void tr_owed_run(struct tr_node *node, uint16_t peer);
bool tr_owes_nothing(struct tr_node *node, uint16_t peer);

/* replica.c */
/* Stores a client's write. HELD: it is here, or has moved on already; or why it may not be. */
enum tr_frame_result tr_replica_take(struct tr_node *node, enum tr_write_mode mode, bool has_room,
                                     struct tr_record *record, tr_ref *ref);
void tr_replica_write(struct tr_node *node, uint16_t peer, struct tr_frame_write *write);
void tr_replica_copy(struct tr_node *node, uint16_t peer, struct tr_frame_record *record);
void tr_replica_outcome(struct tr_node *node, uint16_t peer, const struct tr_head *outcome,
                        int64_t due_in_ms, uint32_t check);
/* When a record that is only looked at is due, by our clock. */
void tr_localize_due(const struct tr_node *node, struct tr_frame_record *frame);
void tr_replica_drop(struct tr_node *node, uint16_t peer, const struct tr_head *named,
                     uint64_t operation);
void tr_replica_take_back(struct tr_node *node, const struct tr_head *named);
/* It is gone there; or, if it is wanted, it has not come yet. */
void tr_replica_dropped(struct tr_node *node, uint16_t peer, const struct tr_head *named,
                        uint64_t operation, bool is_wanted, struct tr_effects *out);
void tr_replica_ask(struct tr_node *node, uint16_t peer, const struct tr_frame_ask *ask);
/* What a reader of this timer is shown: its live part, or what remains of it. */
tr_ref tr_replica_find(const struct tr_node *node, tr_timer_id id);
void tr_to_frame(const struct tr_node *node, const struct tr_record *record,
                 struct tr_frame_record *frame);

/* compare.c */
void tr_compare_begin(struct tr_node *node, uint16_t peer);
void tr_compare_end(struct tr_node *node, uint16_t peer);
void tr_compare_heard(struct tr_node *node, uint16_t peer, const uint8_t *sums);
void tr_compare_run(struct tr_node *node, uint16_t peer);
bool tr_compare_wants_tick(const struct tr_node *node, uint16_t peer);
void tr_compare_touched(struct tr_node *node, tr_timer_id id); /* a record of it has changed */
void tr_forget_acks(struct tr_node *node, uint16_t peer);      /* it may have lost them all */

/* settle.c */
void tr_settle_again(struct tr_node *node); /* who is up, or the view, has changed */
uint16_t tr_find_mover(const struct tr_node *node, const struct tr_head *head); /* 0: this */
void tr_settle_look(struct tr_node *node, tr_ref ref, struct tr_head *head, bool may_send);
void tr_settle_asked(struct tr_node *node); /* by the operator */
void tr_settle_run(struct tr_node *node, struct tr_effects *out);
tr_mono_ms tr_settle_wake_at(const struct tr_node *node);
bool tr_is_wide(const struct tr_node *node);     /* records may be elsewhere than placed */
bool tr_view_is_new(const struct tr_node *node); /* others may have yet to come */

/* claim.c */
/* A pop is handed out, or waits for its destination: claimed unless it is settled by then. */
void tr_claim_later(struct tr_node *node, tr_ref ref, const struct tr_head *head);
void tr_claims_run(struct tr_node *node);
void tr_claim_flights(struct tr_node *node); /* at once: it stops */
void tr_claim_now(struct tr_node *node);     /* all: somebody has come */
tr_mono_ms tr_claims_wake_at(const struct tr_node *node);
bool tr_has_backlog(const struct tr_node *node);
void tr_claim_heard(struct tr_node *node, uint16_t peer, const struct tr_head *head);
/* An outcome, by a record that is not here: what comes before it has been popped. */
void tr_claim_past(struct tr_node *node, uint16_t peer, const struct tr_head *outcome);
/* A move, by a record that is not here: what comes of before it is popped by others. */
void tr_claim_moved(struct tr_node *node, uint16_t peer, const struct tr_head *head);
/* Who has shown that it moved, beyond this state of it; or TR_MEMBER_NONE. */
uint16_t tr_moved_by(const struct tr_node *node, const struct tr_head *head);
void tr_backlog_heard(struct tr_node *node, uint16_t peer); /* that it has one, or has none */
bool tr_is_claimed(const struct tr_node *node, const struct tr_head *head);
/* When a claim, or a backlog, has last held it back; 0: none has. From then on turns count anew. */
tr_steady_ms tr_held_until(const struct tr_node *node, const struct tr_head *head);
/* A write that its coordinator, this node if it is 0, may stamp anew is held back until that has
 * decided: prepared before it is stored, opened after. Where there is no room to remember that, it
 * is due when that must have been. */
void tr_claim_prepare(const struct tr_node *node, uint16_t peer, struct tr_head *head);
void tr_claim_open(struct tr_node *node, uint16_t peer, const struct tr_head *head);
void tr_claim_close(struct tr_node *node, const struct tr_head *head);
bool tr_claim_is_open(const struct tr_node *node, const struct tr_head *head);

/* operation.c */
void tr_operation_begin(struct tr_node *node, const struct tr_event *event,
                        struct tr_record *record, struct tr_effects *out);
void tr_operation_answered(struct tr_node *node, uint64_t number, uint16_t member,
                           enum tr_frame_result result, const struct tr_record *held,
                           struct tr_effects *out);
void tr_operation_dropped(struct tr_node *node, uint64_t number, uint16_t member,
                          struct tr_effects *out);
bool tr_operation_record(const struct tr_node *node, uint64_t number, struct tr_record *record,
                         enum tr_write_mode *mode);
void tr_operation_read(const struct tr_node *node, uint32_t index, struct tr_record *record);
void tr_operations_run(struct tr_node *node, struct tr_effects *out);
void tr_operations_look(struct tr_node *node); /* at all of them, in the next step */
tr_mono_ms tr_operations_wake_at(const struct tr_node *node);

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
