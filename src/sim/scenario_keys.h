/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a scenario that are about keys. Each returns what is wrong with it; NULL: nothing.
 * */
#ifndef TR_SIM_SCENARIO_KEYS_H
#define TR_SIM_SCENARIO_KEYS_H

#include "sim/world.h"

/* keyspace 20 2 on A: with R and W of 1. */
const char *sim_story_keyspace(struct world *world, char **words, int count);

/* set .20 on A, get .20 on A: a key whose hash is at that part of the circle, or just before. */
const char *sim_story_key(struct world *world, char **words, int count);

/* table ABC: which of those keys these nodes hold. */
const char *sim_story_table(struct world *world, const char *letters);

#endif
