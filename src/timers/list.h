/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of timers, for clients and for nodes of the original. */
#ifndef TR_TIMERS_LIST_H
#define TR_TIMERS_LIST_H

#include "timers/timers.h"

/* Whether a page for another node can be answered: TR_DONE, or why not. */
enum tr_result tr_list_check_resync(const struct tr_timers *timers, const struct tr_query *query);

/* Whether a record is one that a query chooses, and this node is to list; `record` is it then. And
 * when it is due, or, of one that is dead, was. */
bool tr_list_has(const struct tr_timers *timers, tr_ref ref, const struct tr_query *query,
                 struct tr_record *record);
tr_wall_ms tr_list_due(const struct tr_timers *timers, const struct tr_head *head);

/* Whether a client that sees only some timers sees this one. */
bool tr_list_sees(const struct tr_record *record, const struct tr_narrow *narrow);

/* Timers that a query chooses, from a cursor on, which is moved: a slice of all. Returns how many,
 * at most `most`; the cursor is UINT64_MAX when all have been looked at. */
unsigned tr_list_find(struct tr_timers *timers, const struct tr_query *query, uint64_t *cursor,
                      struct tr_timer_text *out, unsigned most);

void tr_list_page(struct tr_timers *timers, const struct tr_event *event, struct tr_effects *out);

#endif
