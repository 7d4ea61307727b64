/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys: what clients do with them, when they expire, and what is left of them in the log.
 *
 *   book     every key that this node holds, packed
 *   store    keeping pairs and changing them: in the book, the log, the wheel and the counts
 *   command  what clients ask for
 *   expire   the wheel: what has expired goes, and its callback is owed
 *   scan     pages of keys, and one at random
 *   replay   pairs out of the log at a start
 *
 * Owns:    the book, the wheel, the counts.
 * Bounds:  the arena; `value_max` bytes of a value.
 */
#ifndef TR_KV_KV_H
#define TR_KV_KV_H

#include "base/random.h"
#include "cluster/cluster.h"
#include "kv/book.h"
#include "log/log.h"
#include "memory/wheel.h"
#include "seam/key.h"

#define TR_KV_WRITTEN    4096  /* buckets by hash, for what is not durable yet */
#define TR_KV_MARK_KNOWN 0x40  /* of a pair: all who are to hold it have it */
#define TR_KV_END_MS     15000 /* for as long a tombstone is remembered, at least */

struct tr_kv_config {
    size_t value_max;
    uint32_t slice; /* pairs that one step looks at, of each of its walks, at most */
};

/* Counts: of what is held now, and of what has happened since the start. */
struct tr_kv_stats {
    uint64_t keys;
    uint64_t expiring; /* of them, those that will */
    uint64_t bytes;    /* of keys and values */
    uint64_t expired;
    uint64_t tombstones;
    uint64_t forgotten_early; /* tombstones, for want of memory */
};

/* A key has expired, and its callback is to be made: the pair is good for the call. `is_replaced`:
 * another one takes its place, which was written after it had expired. False: it cannot be owed
 * now, and is tried again. */
struct tr_kv_hooks {
    void *context;
    bool (*owe)(void *context, const struct tr_pair *pair, bool is_replaced);
    /* Whether the callback of a key that has ended is owed here, and not made yet. */
    bool (*is_owing)(void *context, const struct tr_pair *tombstone);
    /* Whether nobody can have a key any more that has ended. `is_known`: all who are to hold it
     * are known to know. */
    bool (*may_forget)(void *context, const struct tr_pair *tombstone, bool is_known);
};

struct tr_kv {
    struct tr_kv_config config;
    struct tr_kv_hooks hooks;
    struct tr_cluster *cluster;
    struct tr_log *log;
    struct tr_arena *arena;
    const struct tr_time *time;
    struct tr_random *random;
    const struct tr_trial *trial;
    bool is_stopping; /* nothing new is begun */

    struct tr_kv_book book;
    struct tr_wheel wheel;
    uint64_t stale; /* entries of the wheel, at most, whose pair is gone or expires later */
    bool is_sweeping;
    uint8_t sweep_round; /* 1 to 63 */
    tr_ref armed; /* after a replay: pairs up to this one, in the order of memory, are armed */

    /* Keys of a lower version have ended. They are taken out of the book by and by. */
    uint64_t floor;
    tr_steady_ms floor_ms; /* when they did */
    bool is_flushing;
    bool is_blocked;        /* of this round, some that could not be owed were left out */
    uint64_t flush_cursor;  /* hash of the key to look at next */
    tr_mono_ms flush_at_ms; /* not before */

    /* Of keys that are not called the log is not told when they expire, but now and then up to when
     * they have: a start must not need memory for what was gone long before. */
    bool is_time_due;         /* some have, since it was told */
    tr_mono_ms told_ms;       /* when that was */
    tr_steady_ms replayed_ms; /* of a start: up to when the log says so, */
    tr_steady_ms dropped_ms;  /* and by which of these times they were dropped */

    uint64_t written[TR_KV_WRITTEN]; /* by hash: the last batch with a change of such a key */
    uint64_t written_last;           /* of any key */
    uint8_t *old;                    /* what was there: TR_VALUE_MAX bytes */
    struct tr_kv_stats stats;
};

/* How many pairs one step looks at, of a walk that is given `usual`. */
static inline unsigned tr_kv_slice(const struct tr_kv *kv, unsigned usual)
{
    return kv->config.slice < usual ? kv->config.slice : usual;
}

/* Whether there are, or were, other nodes that have to hear of a key's end. */
static inline bool tr_kv_remembers_ends(const struct tr_kv *kv)
{
    return !tr_cluster_is_alone(kv->cluster);
}

/* The millisecond in which a key expires had begun when it was set: it counts as a whole one. */
static inline bool tr_kv_has_expired(const struct tr_kv *kv, tr_steady_ms expires_ms)
{
    return expires_ms < kv->time->steady_ms;
}

#endif
