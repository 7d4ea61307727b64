/* SPDX-License-Identifier: Apache-2.0 */
/* What came of a pop: the timer goes on, is tried again, or the pop is dead. */
#ifndef TR_TIMERS_OUTCOME_H
#define TR_TIMERS_OUTCOME_H

#include "replication/pending.h"
#include "timers/timers.h"

/* Books what has ended, as far as there is room for it. */
void tr_outcome_run(struct tr_timers *timers, struct tr_effects *out);

/* The record goes on with the pop that `next` stands for, or is over if that is NULL. */
void tr_outcome_go_on(struct tr_timers *timers, tr_ref ref, struct tr_record *record,
                      const struct tr_head *next, enum tr_replicate how);

/* Drops the oldest failed pop of a timer if it has too many. */
void tr_outcome_limit_parts(struct tr_timers *timers, tr_timer_id id, uint64_t newest,
                            struct tr_effects *out);

#endif
