/* SPDX-License-Identifier: Apache-2.0 */
/* What clients ask for: create, replace, cancel, read, list, redrive. */
#ifndef TR_TIMERS_REQUEST_H
#define TR_TIMERS_REQUEST_H

#include "timers/timers.h"

/* It is answered in this step, or when it is durable. */
void tr_request_received(struct tr_timers *timers, const struct tr_event *event,
                         struct tr_effects *out);

#endif
