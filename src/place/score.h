/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The raw score of a key on a node: 64 bits, the largest wins.
 *
 * For one node it is a bijection of the (mixed) key, so every node's scores are exactly uniform. Its two steps are 32 x 32
 * -> 64 bit multiplications, which NEON and AVX2 have; the high half alone, which is all that a comparison nearly
 * always needs, comes out of 32-bit lanes without a shift.
 *
 * Lanes: seeds are kept apart as `low` and `multiplier`, so that a vector loads four or eight of each.
 * Kernels: every one gives the same numbers; the portable twin is what they are tested against.
 */
#ifndef TR_PLACE_SCORE_H
#define TR_PLACE_SCORE_H

#include <stddef.h>
#include <stdint.h>

#define TR_SCORE_BLOCK 16 /* candidates that a kernel looks at together */

enum tr_kernel {
    TR_KERNEL_PORTABLE,
    TR_KERNEL_NEON,
    TR_KERNEL_AVX2,
};

#define TR_SCORE_CONSTANT 0x9e3779b1u

static inline uint32_t tr_score_low(uint64_t seed)
{
    return (uint32_t)seed;
}

/* Odd, so that it can be undone; at least 2^31, so that the product reaches the high half. */
static inline uint32_t tr_score_multiplier(uint64_t seed)
{
    return (uint32_t)(seed >> 32) | 0x80000001u;
}

static inline uint64_t tr_score(uint64_t key, uint32_t low, uint32_t multiplier)
{
    uint64_t first = (uint64_t)((uint32_t)key ^ low) * multiplier;
    uint32_t middle = (uint32_t)(key >> 32) ^ (uint32_t)(first >> 32);
    uint64_t second = (uint64_t)middle * TR_SCORE_CONSTANT;
    return (uint64_t)((uint32_t)first ^ (uint32_t)(second >> 32)) << 32 | (uint32_t)second;
}

/* The seeds of candidates, side by side. */
struct tr_lanes {
    const uint32_t *low;
    const uint32_t *multiplier;
};

/* The fastest kernel of this machine. */
enum tr_kernel tr_kernel_best(void);

/* The high halves of the scores of the block that starts at candidate `first`. */
void tr_score_high(enum tr_kernel kernel, struct tr_lanes lanes, size_t first, uint64_t key,
                   uint32_t high[TR_SCORE_BLOCK]);

/* The largest high half of each of `blocks` blocks from candidate `first` on. `groups` gets the largest of each of four
 * disjoint groups that together are all of them (or 0 for an empty group); which ones is the kernel's choice. */
void tr_score_maxima(enum tr_kernel kernel, struct tr_lanes lanes, size_t first, size_t blocks,
                     uint64_t key, uint32_t *maxima, uint32_t groups[4]);

/* The kernels, one file each; a machine has the ones its compiler could make. */
void tr_score_high_neon(struct tr_lanes lanes, size_t first, uint64_t key,
                        uint32_t high[TR_SCORE_BLOCK]);
void tr_score_maxima_neon(struct tr_lanes lanes, size_t first, size_t blocks, uint64_t key,
                          uint32_t *maxima, uint32_t groups[4]);
void tr_score_high_avx2(struct tr_lanes lanes, size_t first, uint64_t key,
                        uint32_t high[TR_SCORE_BLOCK]);
void tr_score_maxima_avx2(struct tr_lanes lanes, size_t first, size_t blocks, uint64_t key,
                          uint32_t *maxima, uint32_t groups[4]);

#endif
