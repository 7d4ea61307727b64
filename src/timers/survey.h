/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is ahead: the timers that come next, and how many fall due in each stretch of time. Records
 * are not kept in that order, so it is found by a walk over all of them, a slice at a time.
 *
 * Owns:    nothing: who walks owns what is found.
 * Bounds:  1,024 records in one go.
 */
#ifndef TR_TIMERS_SURVEY_H
#define TR_TIMERS_SURVEY_H

#include "seam/ahead.h"
#include "timers/timers.h"

/* Each takes a slice from the cursor on, which is moved; false: it was the last. */
bool tr_survey_count(struct tr_timers *timers, const struct tr_query *query, uint64_t *cursor,
                     struct tr_ahead *ahead);
bool tr_survey_next(struct tr_timers *timers, const struct tr_query *query, uint64_t *cursor,
                    struct tr_nexts *nexts);

/* After the last slice: sorts them, and forgets those above the limit. */
void tr_survey_sort(struct tr_nexts *nexts);

/* Where it is now; TR_ARENA_NONE: it is no more. */
tr_ref tr_survey_find(const struct tr_timers *timers, const struct tr_next *next);

#endif
