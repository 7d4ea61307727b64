/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping records, changing them and letting them go: in the book, in the log, in the wheel and in
 * the counts at once.
 */
#ifndef TR_TIMERS_STORE_H
#define TR_TIMERS_STORE_H

#include "timers/timers.h"

/* Stores and logs a record, in the place of `*ref` or, if that is none, as a new one; `*ref` is
 * where it is then, or none if it is a tombstone that nobody needs. False: there is no memory, and
 * nothing has changed. */
bool tr_timers_put(struct tr_timers *timers, const struct tr_record *record, tr_ref *ref);

/* The record at `ref` under another head: where it belongs has changed. */
tr_ref tr_timers_put_head(struct tr_timers *timers, tr_ref ref, const struct tr_head *head);

/* Gives a record another order and other times, and arms it. Returns where it is then. */
tr_ref tr_timers_change(struct tr_timers *timers, tr_ref ref, const struct tr_head *before,
                        const struct tr_head *head);

/* The record at `ref` is due at another time by this node's clock: nothing that others, or the log,
 * need to hear of. */
void tr_timers_redate(struct tr_timers *timers, tr_ref ref, const struct tr_head *head);

/* Ends a record at `order`: it is gone, or a tombstone that remembers its key. Returns that. */
tr_ref tr_timers_end(struct tr_timers *timers, tr_ref ref, const struct tr_order *order);

/* Removes a record whose time is over: nothing of it can be on its way any more. */
void tr_timers_remove(struct tr_timers *timers, tr_ref ref);

void tr_timers_strip(struct tr_record *record); /* of what a tombstone has no use for */

void tr_timers_arm(struct tr_timers *timers, tr_ref ref);
void tr_timers_forget_entry(struct tr_timers *timers, tr_ref ref); /* of the wheel, if any */
void tr_timers_count(struct tr_timers *timers, const struct tr_head *head, int by);

/* Entries of the log: all of a record, a change of its order and times, its end; and that its full
 * entry is of no use any more. */
void tr_timers_log_record(struct tr_timers *timers, tr_ref ref, const struct tr_record *record);
void tr_timers_log_short(struct tr_timers *timers, const struct tr_head *head);
void tr_timers_log_end(struct tr_timers *timers, enum tr_log_type type, const struct tr_head *head);
void tr_timers_log_dead(struct tr_timers *timers, const struct tr_record *record);
void tr_timers_copy_oldest(struct tr_timers *timers, uint64_t *cursor); /* for reclaim */

tr_timer_id tr_timers_draw(struct tr_timers *timers); /* an id that is not in use here */

/* How an id is written now. */
struct tr_timer_text tr_timers_text(const struct tr_timers *timers, tr_timer_id id,
                                    uint32_t factor);

#endif
