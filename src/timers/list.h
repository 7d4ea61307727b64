/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of timers, for clients and for nodes of the original. */
#ifndef TR_TIMERS_LIST_H
#define TR_TIMERS_LIST_H

#include "timers/timers.h"

/* Why a page cannot be answered; NULL: it can. */
const char *tr_list_fault(const struct tr_timers *timers, const struct tr_api_request *query);

void tr_list_page(struct tr_timers *timers, uint64_t token, const struct tr_api_request *query,
                  struct tr_effects *out);

#endif
