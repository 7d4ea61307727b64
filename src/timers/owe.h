/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks that others than clients want made: once, now, with all that a timer's pop has. */
#ifndef TR_TIMERS_OWE_H
#define TR_TIMERS_OWE_H

#include "timers/timers.h"

struct tr_owed {
    tr_timer_id id; /* that it is to have, if no timer has it */
    struct tr_span uri;
    struct tr_span opaque;
    tr_steady_ms due_ms; /* when it was due; now, at the latest */
    uint64_t version;    /* of what it is owed for, */
    uint16_t version_node;
    struct tr_set by; /* and by whom: each of them does this by itself */
};

/* False: there is no room for it, in memory or in the log, beside `size` more bytes there. */
bool tr_timers_owe(struct tr_timers *timers, const struct tr_owed *owed, size_t size);

/* Whether what was owed under this id, for this version, is still to be made, and others should owe
 * it, too: it is not just being made here, fewer nodes are known to have the debt than should, and
 * none of these comes before this one. */
bool tr_timers_are_owing(const struct tr_timers *timers, tr_timer_id id, uint64_t version,
                         uint16_t version_node);

#endif
