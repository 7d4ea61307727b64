/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers: what clients ask for them, when they are due, and what comes of their pops.
 *
 *   book        every timer that this node holds, packed
 *   store       keeping records and changing them: in the book, the log, the wheel and the counts
 *   replicated  the timers as replication and pops see them: tables of functions
 *   request     what clients ask for: create, replace, cancel, read, redrive
 *   list        pages of timers
 *   schedule    when each pops: the next one, those passed over, clocks and zones that change
 *   due         the wheel: what is due is handed to pops, or goes
 *   outcome     what came of a pop: the next one, another attempt, a dead pop
 *   redrive     dead pops are tried again
 *   replay      records out of the log at a start
 *   samples     a clock that was set while the node was down
 *
 * Owns:    the book, the wheel, the counts.
 * Bounds:  the arena; TR_PARTS_MAX failed pops of a timer.
 */
#ifndef TR_TIMERS_TIMERS_H
#define TR_TIMERS_TIMERS_H

#include "base/random.h"
#include "calendar/zone.h"
#include "memory/wheel.h"
#include "pops/pops.h"
#include "replication/replication.h"
#include "timers/book.h"

#define TR_SAMPLES_MAX 64

struct tr_timers_config {
    size_t opaque_max;
    uint16_t identity; /* 10 bits: of the ids that this node draws */
    uint32_t attempts_max;
    uint64_t backoff_ms; /* before the second attempt; then twice as long each time */
    uint64_t dead_keep_ms;
    uint64_t key_keep_ms;
    uint64_t latency_target_ms;
    struct tr_zones zones;
    uint64_t begun_ms; /* the millisecond that has begun counts as a whole one: never early */
};

/* Counts: of what is held now, and of what has happened since the start. */
struct tr_timers_stats {
    uint64_t timers;
    uint64_t debts;
    uint64_t dead;
    uint64_t tombstones;
    uint64_t copies;
    uint64_t created;
    uint64_t replaced;
    uint64_t cancelled;
    uint64_t refused;
    uint64_t pops_delivered;
    uint64_t pops_failed;
    uint64_t pops_dead;
    uint64_t pops_discarded;
    uint64_t redriven;
    uint64_t swept;
};

struct tr_timers {
    struct tr_timers_config config;
    struct tr_store store; /* for replication */
    struct tr_replication *replication;
    struct tr_pops *pops;
    struct tr_cluster *cluster;
    struct tr_log *log;
    struct tr_arena *arena;
    struct tr_time *time;
    struct tr_random *random;
    const struct tr_trial *trial;
    bool is_ready;    /* the log was replayed */
    bool is_stopping; /* nothing new is begun */

    struct tr_book book;
    struct tr_wheel wheel;
    uint64_t stale; /* entries of the wheel, at most, whose record is gone */
    bool is_sweeping;
    tr_ref armed; /* after a replay: records up to this one, in the order of memory, are armed */
    uint32_t id_counter;
    bool is_memory_noted;

    struct tr_zone utc;
    bool is_looking; /* at all records, since a clock was set or zone files have changed */
    bool are_zones_new;
    tr_mono_ms look_ms;   /* when the next of them are */
    uint64_t look_cursor; /* records with this hash or a lower one were looked at */
    uint64_t rescheduled; /* of them, so many are due at another time */

    int64_t samples[TR_SAMPLES_MAX]; /* how much later others say that a shared record is due */
    uint32_t sample_count;
    bool is_clock_checked;
    bool is_clock_used; /* something that others sent was stored by it since the start */

    uint32_t page[TR_LIST_LIMIT_MAX + TR_PARTS_MAX + 1];
    struct tr_timers_stats stats;
};

#endif
