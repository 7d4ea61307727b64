/* SPDX-License-Identifier: Apache-2.0 */
/* What drivers may see of a node: its counts, its records, the other nodes as it sees them. */
#ifndef TR_NODE_SHOW_H
#define TR_NODE_SHOW_H

#include "base/pair.h"
#include "seam/ahead.h"
#include "seam/effect.h"

struct tr_node;

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
    uint64_t keys_tombstones;
    uint64_t keys_forgotten_early; /* of them, for want of memory */
    uint64_t keys_operations;      /* commands under way at other nodes */
    bool are_keys_home; /* it has compared its keys with all others, and none belong elsewhere */
    bool is_ready;
    bool is_disk_full;   /* new timers are refused, */
    bool is_log_full;    /* and pops wait */
    bool is_guest;       /* it is no member of the cluster: it waits to be taken in, or has left */
    bool is_serving;     /* it takes requests, */
    bool is_popping;     /* and makes pops: it has caught up */
    bool is_rebalancing; /* it may hold records that belong elsewhere */
    bool is_ahead;       /* its clock is, of most others': it takes no writes */
};

/* A record by the reference in an effect, until the next step. */
void tr_node_record(const struct tr_node *node, uint32_t ref, struct tr_record *record);

/* The nodes where the view places a record, at most TR_SET_MAX, in the order in which they pop
 * it. */
unsigned tr_node_placed(const struct tr_node *node, uint32_t ref, uint16_t *members);

/* When its next pops are due, of a record that is not dead: at most `most` of them. */
unsigned tr_node_ahead(const struct tr_node *node, uint32_t ref, tr_wall_ms *instants,
                       unsigned most);

/* When the pop of a record was due, by the wall clock, whatever was tried since. */
tr_wall_ms tr_node_nominal(const struct tr_node *node, const struct tr_record *record);

/* The address of the node whose hash stands in an attempt; empty: it is not known here. */
struct tr_span tr_node_address_of(const struct tr_node *node, uint16_t hash);

/* How the id of a record is written now. */
struct tr_timer_text tr_node_text(const struct tr_node *node, tr_timer_id id, uint32_t factor);

tr_steady_ms tr_node_steady(const struct tr_node *node);
tr_wall_ms tr_node_wall(const struct tr_node *node, tr_steady_ms at_ms);

void tr_node_stats(const struct tr_node *node, struct tr_node_stats *stats);

/* A scheme, host and port that pops go to now; false: none does, and what was learned of it is
 * forgotten. */
bool tr_node_destination(const struct tr_node *node, struct tr_span origin,
                         struct tr_destination_stats *stats);

/* The tags and how many timers count under each, one at a time: start with *cursor = 0. */
bool tr_node_next_tag(const struct tr_node *node, uint64_t *cursor, struct tr_tag *tag);

/* How many of them count under one tag. */
uint64_t tr_node_tag_count(const struct tr_node *node, struct tr_span name);

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

/* What it has of a key, a tombstone and what has expired counted; false: nothing. */
bool tr_node_pair(const struct tr_node *node, struct tr_span key, struct tr_pair *pair);

#ifdef TR_MUTANTS
/* How often each branch was taken, by enum tr_rule. */
const uint64_t *tr_node_covered(const struct tr_node *node);
#endif

const uint8_t *tr_node_store_id(const struct tr_node *node);

/* True when all structures agree. O(n). */
bool tr_node_valid(const struct tr_node *node);

#endif
