/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeded random numbers (splitmix64): the same seed gives the same sequence, everywhere.
 */
#ifndef TR_BASE_RANDOM_H
#define TR_BASE_RANDOM_H

#include "base/assert.h"
#include "base/hash.h"

struct tr_random {
    uint64_t state;
};

static inline uint64_t tr_random_next(struct tr_random *random)
{
    random->state += 0x9e3779b97f4a7c15u;
    return tr_hash_mix(random->state);
}

/* A number below `bound`, which is at least 1. The bias of the modulo is under bound / 2^64. */
static inline uint64_t tr_random_below(struct tr_random *random, uint64_t bound)
{
    TR_ASSERT(bound > 0);
    return tr_random_next(random) % bound;
}

#endif
