/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is ahead, as a walk over all timers finds it: how many there are and fall due in each
 * stretch of time, and which come next; and where pops go.
 *
 * Owns:    nothing.
 * Bounds:  TR_LIST_LIMIT_MAX timers of a page.
 */
#ifndef TR_SEAM_AHEAD_H
#define TR_SEAM_AHEAD_H

#include "seam/command.h"

#define TR_AHEAD_MINUTES 60
#define TR_AHEAD_HOURS   24
#define TR_AHEAD_DAYS    31

/* Each timer once, at its next pop. An hour's timers are those of its minutes, too. */
struct tr_ahead {
    uint64_t pending;
    uint64_t retrying; /* some of them, and failed pops of others */
    uint64_t dead;
    uint64_t overdue; /* due before `from_ms` */
    uint64_t minutes[TR_AHEAD_MINUTES];
    uint64_t hours[TR_AHEAD_HOURS];
    uint64_t days[TR_AHEAD_DAYS];
    uint64_t later;
    tr_wall_ms from_ms;
};

#define TR_AHEAD_COUNTS (offsetof(struct tr_ahead, from_ms) / sizeof(uint64_t))

/* Where a timer stands among those sorted by when they are due. The wall clock would move it a
 * little between two pages. */
struct tr_next {
    tr_steady_ms due_ms;
    uint64_t hash; /* of its id, as the book has it */
    uint64_t part;
};

/* The first `limit` timers behind `after`, by when they are due. */
struct tr_nexts {
    uint32_t limit;
    bool has_after;
    struct tr_next after;
    uint32_t count;
    bool has_more; /* some were left out */
    struct tr_next list[2 * TR_LIST_LIMIT_MAX];
    uint32_t order[2 * TR_LIST_LIMIT_MAX];   /* while they are sorted, */
    struct tr_next first[TR_LIST_LIMIT_MAX]; /* likewise */
};

/* Pops to one scheme, host and port. */
struct tr_destination_stats {
    uint32_t flights;
    uint32_t limit;
    uint64_t queued; /* entries, some of which may be stale */
};

static inline int tr_next_compare(const struct tr_next *a, const struct tr_next *b)
{
    if (a->due_ms != b->due_ms)
        return a->due_ms < b->due_ms ? -1 : 1;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return (a->part > b->part) - (a->part < b->part);
}

#endif
