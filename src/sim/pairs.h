/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of a cluster: what clients do with them, and what must be true of it.
 *
 *   always  after healing all who are to hold a key have the same of it, nobody else has anything,
 *           and it is the newest that was acknowledged or something newer
 *   calm    a read tells of what was acknowledged before it was asked for, or of something newer;
 *           each increment counts once
 *
 * A key that is called when it expires is a write of the timers' model.
 */
#ifndef TR_SIM_PAIRS_H
#define TR_SIM_PAIRS_H

#include "sim/world.h"

/* The keyspace is made, and known to all. */
void sim_pairs_begin(struct world *world);

/* A client asks something of a key, on a machine. */
void sim_pairs_ask(struct world *world, uint32_t index);

/* The operator has keys spread in another way, or ends all of them. */
void sim_pairs_operate(struct world *world);

/* After healing. */
bool sim_pairs_are_answered(const struct world *world);
void sim_pairs_check(struct world *world);

#endif
