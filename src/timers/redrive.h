/* SPDX-License-Identifier: Apache-2.0 */
/* Dead pops are tried again. */
#ifndef TR_TIMERS_REDRIVE_H
#define TR_TIMERS_REDRIVE_H

#include "timers/timers.h"

/* Bytes of the log that a change of all failed pops of a timer takes. */
#define TR_REDRIVE_ROOM ((size_t)(TR_PARTS_MAX + 1) * 192)

bool tr_redrive_has_room(const struct tr_timers *timers);

/* The dead pops of a timer, or, of a sequence that is not 0, one. Returns how many it were; the
 * last one has the ticket. */
unsigned tr_redrive_timer(struct tr_timers *timers, tr_timer_id id, uint64_t sequence,
                          struct tr_waiting ticket);

#endif
