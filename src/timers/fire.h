/* SPDX-License-Identifier: Apache-2.0 */
/* A timer's next pop is made now, under its sequence number; those after it stay where they are. */
#ifndef TR_TIMERS_FIRE_H
#define TR_TIMERS_FIRE_H

#include "timers/timers.h"

/* Returns how many: 1, or 0 if there is no such timer here, or no memory to remember when it was
 * due. The log must take what only the latest format has. */
unsigned tr_fire_timer(struct tr_timers *timers, tr_timer_id id, struct tr_waiting waiting);

#endif
