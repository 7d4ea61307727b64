/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is due: it waits in the wheel until a flight is free, and its turn has come. A tombstone, or
 * a dead pop, goes when its time is over.
 *
 * An entry of the wheel is stale when its record has another state or due time; when there are many
 * of those they are swept out.
 */
#ifndef TR_TIMERS_DUE_H
#define TR_TIMERS_DUE_H

#include "timers/timers.h"

void tr_due_run(struct tr_timers *timers, struct tr_effects *out);
tr_mono_ms tr_due_wake_at(const struct tr_timers *timers);

/* Takes stale entries out of the wheel when they are many, a slice at a time. */
void tr_due_sweep(struct tr_timers *timers);

/* A record that is armed is looked at then, too. */
void tr_due_look_again(struct tr_timers *timers, tr_ref ref, tr_steady_ms at_ms);

#endif
