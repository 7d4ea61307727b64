/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timer record, unpacked: what the book keeps packed, the log writes and the node reasons about.
 *
 * Key = (id, part). Part 0 is the timer; part s is the pop with sequence s that failed and split
 * off: a debt, later dead. Order = (version, sequence, attempt, moves), for a part above 0
 * (version, redrives, attempt, moves): the higher record wins, whatever the order of arrival.
 */
#ifndef TR_BASE_RECORD_H
#define TR_BASE_RECORD_H

#include "base/assert.h"
#include "base/span.h"
#include "base/time.h"

#include <stdint.h>

typedef uint64_t tr_timer_id;

#define TR_SET_MAX     8                         /* nodes of a replica set */
#define TR_FROM_MAX    16                        /* other nodes that may hold a copy */
#define TR_TAGS_MAX    15                        /* tags of a timer */
#define TR_TAG_SIZE    64                        /* bytes of a tag's name */
#define TR_PARTS_MAX   16                        /* failed pops kept for one timer */
#define TR_URI_MAX     2048                      /* bytes of a callback URI */
#define TR_TYPE_MAX    255                       /* bytes of a content type */
#define TR_TIME_MAX    (((uint64_t)1 << 48) - 1) /* milliseconds that six bytes hold */
#define TR_REPEAT_EVER TR_TIME_MAX               /* for repeat_ms: it does not end */
#define TR_FACTOR_MAX  255                       /* replicas that can be asked for */
#define TR_ATTEMPT_MAX 255
#define TR_MEMBER_NONE UINT16_MAX /* for the index of a member: none */
#define TR_TAG_BESIDE  20         /* bytes of the log that a tag takes beside its name, at most */
#define TR_REST_BESIDE 16         /* likewise, of a plan or what is a timer's own */
#define TR_ADVICE_SIZE 112        /* and of what is noted beside a record in an entry of its own */
#define TR_PLAN_MAX    6144       /* bytes of a plan */
#define TR_OWN_MAX     896        /* bytes of what is a timer's own */

enum tr_record_flag {
    TR_RECORD_KEYED = 1,     /* its id came from an Idempotency-Key */
    TR_RECORD_DEAD = 2,      /* its attempts are spent; due is when it is forgotten */
    TR_RECORD_TOMBSTONE = 4, /* nothing but the key and the order; due is when it is forgotten */
    TR_RECORD_MOVING = 8, /* on its way from `from` to its replica set; those of `from` pop first */
    TR_RECORD_FIRED = 16, /* its pop was pulled forward; when it was due by itself is its instant */
    TR_RECORD_FLAGS = 31,
};

_Static_assert(TR_RECORD_FLAGS == 2 * TR_RECORD_FIRED - 1, "all of them, and no other bit");

/* Where a record stands between its pops. Not logged: it follows from what has happened since. */
enum tr_record_state {
    TR_STATE_UNSAFE, /* not durable yet: not armed */
    TR_STATE_ARMED,  /* in the wheel */
    TR_STATE_QUEUED, /* due, and waiting for its destination */
    TR_STATE_FLYING, /* its callback is under way */
};

struct tr_tag {
    struct tr_span name;
    uint64_t count;
};

/* What a record is found by. */
struct tr_key {
    tr_timer_id id;
    uint64_t part;
};

static inline bool tr_key_equals(const struct tr_key *a, const struct tr_key *b)
{
    return a->id == b->id && a->part == b->part;
}

/* Which of two states of a record is the later one, wherever and in whatever order they arrive. */
struct tr_order {
    uint64_t version;      /* a stamp: 48 bits of milliseconds, 16 of a counter */
    uint16_t version_node; /* a hash of who gave it: equal stamps of two nodes differ */
    uint64_t sequence;     /* of the pop to come, from 1; of a part above 0: how often redriven */
    uint32_t attempt;      /* how often it failed */
    uint32_t moves;        /* how often its replica set changed, and who changed it last */
};

/* The nodes that are to hold a record: replicas, then hinted ones. By their index in the table of
 * members. */
struct tr_set {
    uint8_t count;
    uint16_t members[TR_SET_MAX];
};

/* How the last attempt at a pop ended. It is kept as advice: who cannot keep it forgets it. */
struct tr_attempt {
    tr_wall_ms at_ms;     /* 0: there was none */
    uint16_t result;      /* an HTTP status, or TR_ATTEMPT_FAULT and what was wrong */
    uint16_t node;        /* a hash of who made it */
    uint32_t duration_ms; /* of it */
};

#define TR_ATTEMPT_FAULT 1000

/* Nodes beside the replica set that may hold an older copy, and have to drop it. */
struct tr_from {
    uint8_t count;
    uint16_t members[TR_FROM_MAX];
    uint16_t gone; /* places that those who have dropped it had here; they follow the others */
};

_Static_assert(TR_FROM_MAX <= 16, "a bit of `gone` for each place");

/* What replication knows of a record, whatever it is a record of. */
struct tr_head {
    struct tr_key key;
    struct tr_order order;
    tr_steady_ms due_ms; /* of the next attempt; of a tombstone: when it may be forgotten */
    uint64_t lag_ms;     /* how far that is behind the pop's own time */
    uint32_t factor;     /* replicas asked for */
    uint32_t segment;    /* of the log, where its full entry is; 24 bits */
    uint8_t flags;       /* of enum tr_record_flag */
    /* Of a timer that goes by the wall clock: when its pop is due by it. Of one that was pulled
     * forward: when it would have been. 0: of none of these. */
    tr_wall_ms instant_ms;
    struct tr_attempt attempt;
    uint64_t fingerprint; /* of the body that came with its Idempotency-Key; 0: none */
    struct tr_set replicas;
    struct tr_from from;

    /* These follow from the rest of the record: whoever unpacks or decodes it fills them in. */
    uint64_t nominal_ms; /* when its pop is due by the cluster's clock, the same on every holder */
    uint32_t body_bound; /* bytes that its body takes in the log, at most */
};

/* A timer. Spans point into whatever the record was unpacked or decoded from. */
struct tr_record {
    struct tr_head head;
    uint64_t interval_ms; /* of one with a cron expression: so that repeat_ms counts its pops */
    uint64_t repeat_ms;   /* 0: as long as the interval, so one pop; TR_REPEAT_EVER */
    uint8_t tag_count;
    struct tr_span
        plan;           /* how it is timed and called beyond that (wire/plan.h); empty: it is not */
    struct tr_span own; /* what no other timer shares with it (likewise) */
    struct tr_span uri;
    struct tr_span opaque;
    struct tr_span content_type; /* empty: the default */
    struct tr_tag tags[TR_TAGS_MAX];
};

/* The nodes that a record comes from, with those that have dropped it, each in its place. */
static inline unsigned tr_from_places(const struct tr_from *from, uint16_t *places)
{
    TR_ASSERT(from->count <= TR_FROM_MAX);
    unsigned held = 0;
    unsigned gone = from->count;
    unsigned count = 0;
    for (; held < from->count || from->gone >> count != 0; count++) {
        bool is_gone = (from->gone >> count & 1) != 0;
        places[count] = from->members[is_gone ? gone++ : held++];
    }
    TR_ASSERT(count <= TR_FROM_MAX);
    return count;
}

/* How many pops a timer makes in all. */
static inline uint64_t tr_record_pops(const struct tr_record *record)
{
    if (record->interval_ms == 0 || record->repeat_ms == 0)
        return 1;
    return record->repeat_ms / record->interval_ms;
}

/* The sequence number of the pop that a record stands for. */
static inline uint64_t tr_record_pop(const struct tr_record *record)
{
    return record->head.key.part == 0 ? record->head.order.sequence : record->head.key.part;
}

/* Bytes that the texts of a record take in the log, at most. */
static inline uint32_t tr_record_body_bound(const struct tr_record *record)
{
    TR_ASSERT(record->tag_count <= TR_TAGS_MAX);
    size_t bound = record->uri.size + record->content_type.size + record->opaque.size;
    bound += record->plan.size > 0 ? record->plan.size + TR_REST_BESIDE : 0;
    bound += record->own.size > 0 ? record->own.size + TR_REST_BESIDE : 0;
    bound += record->head.fingerprint != 0 || record->head.attempt.at_ms != 0 ? TR_ADVICE_SIZE : 0;
    for (unsigned i = 0; i < record->tag_count; i++)
        bound += record->tags[i].name.size + TR_TAG_BESIDE;
    return (uint32_t)bound;
}

/* When the pop that a record stands for is due by the cluster's clock: the same number on every
 * holder. */
static inline uint64_t tr_head_nominal(const struct tr_head *head, uint64_t interval_ms)
{
    if (head->instant_ms != 0)
        return head->instant_ms;
    uint64_t pop = head->key.part == 0 ? head->order.sequence : head->key.part;
    return (head->order.version >> 16) + pop * interval_ms;
}

/* What must hold of a record for a request to be done with it. */
enum tr_when {
    TR_WHEN_ANY,
    TR_WHEN_ABSENT,
    TR_WHEN_THERE,
    TR_WHEN_SAME, /* in exactly this state */
};

struct tr_condition {
    enum tr_when when;
    uint64_t version;
    uint64_t sequence;
    uint32_t attempt;
    bool is_dead;
};

/* Whether a version before this one cannot hold it: format 5 of the log and version 4 of frames
 * can. */
static inline bool tr_record_is_extended(const struct tr_record *record)
{
    return record->plan.size > 0 || record->own.size > 0 || record->head.instant_ms != 0;
}

/* They are the same client's request, whatever has become of it since. */
static inline bool tr_is_same_write(const struct tr_head *a, const struct tr_head *b)
{
    return a->order.version == b->order.version && a->order.version_node == b->order.version_node;
}

#define TR_MOVER_BITS 12

/* Above what it was, and not the same on two nodes that move it at once. */
static inline uint32_t tr_next_move(uint32_t moves, uint16_t mover)
{
    uint32_t count = moves >> TR_MOVER_BITS;
    return (count + 1) << TR_MOVER_BITS | (mover & ((1u << TR_MOVER_BITS) - 1));
}

/* Below 0, 0 or above 0, as `a` is lower than, equal to or higher than `b`. */
static inline int tr_order_compare(const struct tr_order *a, const struct tr_order *b)
{
    if (a->version != b->version)
        return a->version < b->version ? -1 : 1;
    if (a->version_node != b->version_node)
        return a->version_node < b->version_node ? -1 : 1;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    if (a->attempt != b->attempt)
        return a->attempt < b->attempt ? -1 : 1;
    if (a->moves != b->moves)
        return a->moves < b->moves ? -1 : 1;
    return 0;
}

#endif
