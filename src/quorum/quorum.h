/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys on several nodes: whoever gets a command coordinates it, asks every node of the key's list,
 * and answers when enough of them have.
 *
 *   frame      what nodes say to each other about keys
 *   mail       entries that wait for a node, and those that wait for the log
 *   coordinate a command from its beginning to its end
 *   operation  those that are under way, and what each keeps
 *   target     whom it asks, and when enough have answered
 *   write      a value that is given: to all of the list, or to who stands in
 *   read       the newest of what the list has; who has less is sent it
 *   modify     what reads and writes: on the first node of the list, over what that has
 *   handover   while nodes come and go: such commands are begun when the node before has finished
 *   replica    what other nodes ask of this one
 *   exchange   two nodes compare what they share, range by range, and send what differs
 *   strays     pairs that belong to others: hints, and what has moved away
 *   scan       pages of the keys of all nodes
 *
 * A pair's holders follow from the roster and its key alone. Of two pairs with one key the one with
 * the higher order stays, on every node: so whatever comes twice or late does no harm, and nobody
 * has to note who has what.
 *
 * Owns:    the operations under way, mail, how far exchanges are.
 * Bounds:  `operations_max` operations; a share of the arena for mail.
 */
#ifndef TR_QUORUM_QUORUM_H
#define TR_QUORUM_QUORUM_H

#include "cluster/membership.h"
#include "cluster/ring.h"
#include "kv/kv.h"
#include "memory/fifo.h"
#include "quorum/frame.h"
#include "seam/effect.h"

#define TR_TARGETS_MAX (2 * TR_COPIES_MAX + 4) /* nodes of both lists, and some that stand in */

enum tr_target_state {
    TARGET_CHOSEN, /* it is to be asked */
    TARGET_ASKED,
    TARGET_ANSWERED, /* of a write: it has it, durably */
    TARGET_AGAIN,    /* its roster was another one: it is asked again */
    TARGET_SILENT,   /* it was asked, and another one since in its place; it may answer yet */
    TARGET_FAILED,   /* it is down, or full */
};

/* A node that was asked. */
struct tr_target {
    uint16_t member;
    enum tr_target_state state;
    bool is_hinted; /* it is on no list, and stands in for one that is */
    bool has_any;   /* of a read: it has something of the key */
    bool is_wanted; /* likewise: it was asked for the pair, too */
    bool may_have;  /* of a write: it was sent, and it was not said that there was no room */
    uint8_t rings;  /* bits: it counts for the new ring, 1, or the old one, 2 */
    struct tr_pair_order order; /* of what it has */
};

enum tr_quorum_kind {
    QUORUM_FREE,
    QUORUM_READ,
    QUORUM_WRITE,
    QUORUM_MODIFY,
    QUORUM_CALL, /* another node modifies */
};

struct tr_quorum_operation {
    enum tr_quorum_kind kind;
    uint64_t number;   /* 0: it is free */
    uint64_t token;    /* of the client here; 0: there is none, */
    uint16_t for_peer; /* but this node asked, */
    uint64_t for_operation;
    uint64_t roster_id; /* under which they were asked */
    tr_mono_ms begun_ms;
    tr_mono_ms asked_ms; /* when somebody was asked last */
    tr_mono_ms look_ms;  /* when it is looked at next */
    tr_mono_ms again_ms; /* until when it lets another node's command through */
    uint64_t batch;      /* of the log: what was stored here */
    uint64_t own_batch;  /* that is to be durable before this node counts */
    tr_ref command;      /* the command, encoded */
    tr_ref pair;         /* encoded: of a write, what is written; of a read, the newest so far */
    tr_ref value;        /* of `result` */
    bool is_lasting;     /* `pair` neither ends a key nor will end */
    bool is_answered;    /* whoever asked has heard */
    bool is_late;        /* it has waited for the silent once */
    bool has_failed;     /* a node has, since others were chosen in place of those that had */
    bool has_changed;    /* of a modification: something was stored here */
    bool may_be_stored;  /* by somebody who was asked under an earlier roster */
    uint8_t attempts;    /* likewise */
    bool has_waited;     /* likewise: for what another node had begun */
    bool is_first_read;  /* of a read: for a modification, which begins when it is through */
    bool has_read;       /* of a modification: it is */
    bool is_older;       /* likewise: it was begun before the last handover, and is not answered */
    bool has_tried;      /* likewise: an attempt before has changed something */
    struct tr_pair_order known; /* likewise: others may have this, or what is older, */
    struct tr_pair_order since; /* or what this node has made of it from this one on */
    bool is_chained;            /* modifications of one key find each other: */
    uint64_t hash;              /* of their key, */
    uint32_t chain;             /* the next one, */
    uint32_t chained;           /* and the one before */
    struct tr_pair_order best;  /* of a read: the newest that was heard of, */
    struct tr_pair_order kept;  /* and the order of the pair that is kept */
    struct tr_key_result result;
    uint32_t next; /* of those under way, or of the free ones */
    uint32_t previous;
    uint32_t target_count;
    struct tr_target targets[TR_TARGETS_MAX]; /* the last: what is not used is not touched */
};

/* How far this node is with another one. By member. */
struct tr_exchange {
    uint64_t done_id;    /* the roster under which they last exchanged all */
    tr_mono_ms done_ms;  /* and when that began: what was here then, the other has */
    bool is_met;         /* they have, under any roster, since they are linked */
    bool is_home;        /* since then the other has said that it has no strays */
    bool was_healthy;    /* the other, when it was last heard of */
    bool is_missed;      /* the other could not be sent something since */
    tr_mono_ms wrote_ms; /* when something was last stored here that the other wrote for a client */
    tr_mono_ms full_ms;  /* when it last heard that this node is full, and may have left it out; 0:
                          * they have exchanged since */
    bool is_less;        /* its store had more before, and it has yet to hear so */
    uint64_t told_id;    /* the one that the other has begun: its roster, */
    tr_mono_ms told_ms;  /* and when */
    tr_mono_ms begun_ms; /* the one that this node has begun */
    uint64_t begun_id;   /* its roster; 0: there is none under way */
    uint32_t round;      /* how many were begun */
    uint64_t cursor;     /* hash of the next key to compare */
    uint64_t asked_from; /* of the range that was asked about, */
    uint64_t asked_to;   /* and its end */
    bool is_asked;       /* a range is */
    bool is_through;     /* all ranges were: what was sent is to be acknowledged */
    bool has_failed;     /* the other could not store something: it is done again */
    tr_mono_ms again_ms; /* nothing is done before */
    uint32_t open;       /* pairs that were sent or wanted, and have not come to their end */
    tr_mono_ms heard_ms; /* when the other last said something of it */
};

/* A pair here that belongs to others, and was offered to them. */
struct tr_stray {
    uint64_t hash;
    struct tr_pair_order order;
    struct tr_holders holders;
    uint16_t waits; /* a bit for each of its holders that has yet to say that it has the pair, */
    uint16_t asked; /* that was asked, and has not answered, */
    uint16_t lacks; /* and that has said that it lacks it */
    bool is_gone;   /* it is waited for no more */
};

#define TR_STRAYS_MAX 256 /* offered at once */

struct tr_strays {
    uint64_t passed_id; /* the roster under which all of them were handed over */
    uint64_t begun_id;  /* the one of the walk that is under way, or was the last */
    uint64_t round;     /* to tell late answers from those that are awaited */
    uint64_t cursor;    /* hash of the next pair to look at */
    bool is_walking;
    bool is_ended;         /* all were looked at */
    bool is_whole;         /* so far, all to whom this walk offered pairs have them */
    bool has_new;          /* one has come since the walk began */
    tr_mono_ms next_ms;    /* no other walk before */
    tr_mono_ms blocked_ms; /* the log had no room: nothing is done before */
    tr_mono_ms sent_ms;    /* when those on offer were offered */
    uint32_t count;
    struct tr_stray items[TR_STRAYS_MAX];
};

#define TR_CHAINS 256 /* a power of two */

#define TR_SCANS_MAX  64  /* pages under way; a power of two */
#define TR_SCAN_LISTS 128 /* of nodes that have keys, of one page in two rounds */

/* A page of keys that is gathered. */
struct tr_scan {
    uint64_t number;                      /* 0: it is free */
    uint64_t token;                       /* of the client */
    uint16_t only;                        /* the node whose keys are wanted; TR_MEMBER_NONE: all */
    uint64_t from;                        /* hash of the first key, */
    uint64_t to;                          /* and up to which one all who have answered have told */
    uint32_t count;                       /* of keys that are wanted; 0: only how many there are, */
    uint64_t sum;                         /* which is this so far */
    uint32_t waiting;                     /* nodes that have yet to answer, */
    uint64_t open[TR_LOG_NODES_MAX / 64]; /* a bit for each */
    tr_mono_ms begun_ms;
    tr_mono_ms look_ms;
    bool is_again;   /* one had another roster: all are asked again */
    bool is_second;  /* all have told, and are asked once more since keys may move */
    bool has_failed; /* there was no memory for a list */
    uint32_t list_count;
    tr_ref lists[TR_SCAN_LISTS];
};

struct tr_mailbox {
    struct tr_fifo mail; /* pieces: encoded entries, each piece under one roster */
    size_t bytes;
    tr_ref open;      /* the last piece, if it may take more: */
    size_t open_room; /* so many bytes in all, */
    uint64_t open_roster_id;
};

/* An answer, or an own copy, that is to be durable first. */
struct tr_promise {
    uint64_t batch;
    uint64_t operation;
    uint16_t peer;      /* 0: this node itself */
    uint64_t roster_id; /* under which it is answered */
    tr_ref piece;       /* the answer, encoded; or, of one without a pair, */
    enum tr_key_answer answer;
    struct tr_pair_order known;
};

/* Of who carries out the commands that read and write: quorum/handover.h. */
struct tr_handover {
    bool is_on; /* none is begun */
    tr_mono_ms begun_ms;
    tr_mono_ms until_ms;  /* at the latest */
    uint32_t older_count; /* of those that were begun before it, and are not answered */
};

struct tr_quorum_config {
    uint32_t operations_max;
    uint32_t promises_max; /* a power of two */
    bool is_strict;        /* too few answers are a failure, not a reason to make do with them */
    uint64_t exchange_ms;  /* between two exchanges with a node */
};

struct tr_quorum {
    struct tr_quorum_config config;
    struct tr_kv *kv;
    struct tr_cluster *cluster;
    struct tr_membership *membership;
    struct tr_log *log;
    struct tr_arena *arena;
    const struct tr_time *time;
    const struct tr_trial *trial;

    struct tr_quorum_operation *operations;
    uint32_t operation_fresh;
    uint32_t operation_free;
    uint32_t active; /* the first of those under way, in the order in which they began */
    uint32_t active_last;
    uint32_t operation_count;
    uint64_t operation_next;
    uint32_t chains[TR_CHAINS]; /* modifications by the hashes of their keys, the latest first */
    uint64_t roster_id;         /* that all of them are under */
    struct tr_handover handover;
    tr_mono_ms look_ms;

    struct tr_mailbox *mailboxes; /* by member */
    struct tr_exchange *exchanges;
    struct tr_strays strays;
    struct tr_scan scans[TR_SCANS_MAX];
    uint32_t scan_count;
    struct tr_promise *promises; /* a ring */
    uint64_t promise_head;
    uint64_t promise_tail;
    struct tr_fifo later; /* entries that came while the log had no room: pieces */
    uint8_t *scratch;     /* for one entry */
    size_t scratch_size;
    tr_ref spent[TR_EFFECTS_MAX]; /* what effects of the last step point to */
    uint32_t spent_count;
};

/* Has the cache fetch an operation that is to be begun, or that an answer will be about; by the low
 * bits of its number. */
static inline void tr_quorum_fetch(const struct tr_quorum *quorum, uint64_t number)
{
    uint64_t index = number & 0xffff;
    const char *bytes = (const char *)&quorum->operations[index];
    if (index >= quorum->operation_fresh)
        return;
    for (size_t at = 0; at < offsetof(struct tr_quorum_operation, targets[2]); at += TR_CACHE_LINE)
        __builtin_prefetch(bytes + at);
}

/* Whether commands on keys go to more nodes than this one. */
static inline bool tr_quorum_is_needed(const struct tr_quorum *quorum)
{
    const struct tr_cluster *cluster = quorum->cluster;
    bool is_alone = cluster->ring.count == 1 && cluster->ring.placed[0] == 0;
    return !is_alone || cluster->old_ring.count > 0 || quorum->handover.is_on;
}

#endif
