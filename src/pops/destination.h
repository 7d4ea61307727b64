/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where pops go to: how many at once, and which wait for that.
 *
 * An entry of a queue is stale when its record has another state or due time. A stale entry that
 * matches a later record of the same place, state and time does no harm: that record is due then
 * too, and its own entry will find it gone.
 */
#ifndef TR_POPS_DESTINATION_H
#define TR_POPS_DESTINATION_H

#include "pops/pops.h"
#include "seam/ahead.h"

/* False: it is not known, since no pop goes there now. */
bool tr_destination_look(const struct tr_pops *pops, uint64_t hash,
                         struct tr_destination_stats *stats);

void tr_destinations_init(struct tr_pops *pops);

/* A pop whose turn has come: it is handed out, or waits for its destination. There must be a free
 * flight. */
void tr_destination_take(struct tr_pops *pops, tr_ref ref, const struct tr_head *head,
                         struct tr_effects *out);

/* What came of the first flight that has ended is booked: the next one may go. */
void tr_destination_landed(struct tr_pops *pops);

/* Hands out what waits and may go by now. */
void tr_destinations_run(struct tr_pops *pops, struct tr_effects *out);
bool tr_destinations_want_tick(const struct tr_pops *pops);

/* What waits for its destination is looked at again, as what is only due. */
void tr_destinations_recall(struct tr_pops *pops);

#endif
