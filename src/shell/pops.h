/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last attempts at pops that this node made, for whoever asks what became of them: a ring in
 * memory, which a restart empties.
 *
 * Bounds:  `[limits] pops-kept` of them.
 */
#ifndef TR_SHELL_POPS_H
#define TR_SHELL_POPS_H

#include "shell/daemon.h"

enum tr_pop_state { TR_POP_DELIVERED, TR_POP_FAILED, TR_POP_DEAD, TR_POP_ANY };

/* What is told of one. Spans are copied. */
struct tr_pop_told {
    tr_timer_id id;
    uint32_t factor;
    uint64_t sequence;
    uint32_t attempts;
    tr_wall_ms at_ms; /* when it ended */
    tr_wall_ms due_ms;
    uint64_t late_ms;
    uint32_t duration_ms;
    unsigned status;     /* 0: there was none, */
    enum tr_fault fault; /* for this reason */
    enum tr_pop_state state;
    struct tr_span uri;
    struct tr_span name;
    uint8_t tag_count;
    struct tr_span tags[TR_TAGS_MAX];
};

struct tr_pop_ring *tr_pop_ring_open(size_t cap);
void tr_pop_ring_close(struct tr_pop_ring *ring);

void tr_pop_ring_add(struct tr_pop_ring *ring, const struct tr_pop_told *pop);

/* Its attempts are spent: the last one of it was added a moment ago. */
void tr_pop_ring_is_dead(struct tr_pop_ring *ring, tr_timer_id id, uint64_t sequence);

/* The newest first, of one state or of any: `at` counts how many were looked at, from 0 on. NULL:
 * there are no more. */
const struct tr_pop_told *tr_pop_ring_next(const struct tr_pop_ring *ring, size_t *at,
                                           enum tr_pop_state state);

#endif
