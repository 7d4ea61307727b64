/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling with many timers, or keys: from three nodes to four. */
#ifndef TR_SIM_SCALE_H
#define TR_SIM_SCALE_H

#include "sim/world.h"

/* Prints what moved and what that took; 1 if it is not what it should be. */
int sim_scale_run(uint64_t timers);
int sim_scale_keys_run(uint64_t keys);

/* Three nodes, with room for so many records on each. */
struct world *sim_scale_open(uint64_t records);
/* A fourth one joins, by the steps of the original, each until it is done on all. */
bool sim_scale_join(struct world *world,
                    bool (*is_done)(const struct world *world, uint32_t index));

#endif
