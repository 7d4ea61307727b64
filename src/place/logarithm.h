/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a raw score: -log2(score / 2^64) in units of 2^-46, in integers, the same on every
 * machine.
 *
 * Never increasing in the score, and within 2e-9 of the true value: between the 257 points of a
 * table the curve is the chord plus a parabola that meets it at both ends, whose slope the table
 * keeps positive (the unit tests prove it for every interval). A library logarithm was refused: its
 * last bits differ between machines.
 */
#ifndef TR_PLACE_LOGARITHM_H
#define TR_PLACE_LOGARITHM_H

#include <stdint.h>

#define TR_LOGARITHM_BITS 46

extern const uint64_t tr_logarithm_at[257];
extern const uint16_t tr_logarithm_bow[256];

/* log2(1 + fraction / 2^32), in units of 2^-46. */
static inline uint64_t tr_logarithm_of_fraction(uint32_t fraction)
{
    const uint64_t *at = tr_logarithm_at + (fraction >> 24);
    uint64_t offset = fraction & 0xffffff;
    uint64_t parabola = (offset * ((1u << 24) - offset)) >> 8;
    return at[0] + (((at[1] - at[0]) * offset + tr_logarithm_bow[fraction >> 24] * parabola) >> 24);
}

/* Above 0, at most 64 x 2^46. A score of 0 costs as much as 1. */
static inline uint64_t tr_logarithm_cost(uint64_t score)
{
    score |= score == 0;
    unsigned zeros = (unsigned)__builtin_clzll(score);
    uint32_t fraction = (uint32_t)((score << zeros << 1) >> 32);
    return ((uint64_t)(zeros + 1) << TR_LOGARITHM_BITS) - tr_logarithm_of_fraction(fraction);
}

#endif
