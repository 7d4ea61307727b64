/* SPDX-License-Identifier: Apache-2.0 */
/* The timers as replication and pops see them: tables of functions. */
#ifndef TR_TIMERS_REPLICATED_H
#define TR_TIMERS_REPLICATED_H

#include "timers/timers.h"

struct tr_store tr_timers_as_store(struct tr_timers *timers);
struct tr_pops_owner tr_timers_as_owner(struct tr_timers *timers);

/* A timer as replication carries it, and back. */
void tr_record_to_whole(const struct tr_record *record, struct tr_whole *whole);
void tr_record_from_whole(const struct tr_whole *whole, struct tr_record *record);

#endif
