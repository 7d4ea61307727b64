/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks under way, and how they ended. */
#ifndef TR_POPS_FLIGHT_H
#define TR_POPS_FLIGHT_H

#include "pops/pops.h"

/* Whether there is a free flight, and room in the log for what will come of it. */
bool tr_flight_can_begin(const struct tr_pops *pops);
void tr_flight_begin(struct tr_pops *pops, tr_ref ref, const struct tr_head *head,
                     uint32_t destination, struct tr_effects *out);

/* A pop under way goes on, whatever becomes of the replica set of its record. */
void tr_flight_carry_on(struct tr_pops *pops, tr_ref before, tr_ref ref,
                        const struct tr_head *head);

/* The callback has ended. It waits until what came of it is booked: the first that waits, or NULL;
 * and that it waits no more: returns its destination. */
void tr_flight_ended(struct tr_pops *pops, const struct tr_event *event);
struct tr_flight *tr_flight_first_ended(const struct tr_pops *pops);
uint32_t tr_flight_release(struct tr_pops *pops);

#endif
