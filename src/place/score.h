/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The raw score of a key on a candidate: 64 bits, the largest wins.
 *
 * For one candidate it is a bijection of the (mixed) key, so every candidate's scores are exactly
 * uniform. Its two steps are 32 x 32 -> 64 bit multiplications, which NEON and AVX2 have; the high
 * half alone, which is all that a comparison nearly always needs, comes out of 32-bit lanes without
 * a shift.
 *
 * Kernels look at blocks of 16 candidates and give *estimates*: how far the high half is from the
 * best one there is (~high), for weighted fields in proportion to the lightest weight (~high x
 * lightest / weight, rounded down). The smaller, the better. An estimate decides who is worth an
 * exact comparison, never who wins. Every kernel gives the same numbers; the portable one is what
 * the others are tested against.
 */
#ifndef TR_PLACE_SCORE_H
#define TR_PLACE_SCORE_H

#include <stddef.h>
#include <stdint.h>

#define TR_SCORE_BLOCK 16 /* arrays of lanes have as many spare entries at their end */

enum tr_kernel {
    TR_KERNEL_PORTABLE,
    TR_KERNEL_NEON,
    TR_KERNEL_AVX2,
};

/* The seeds of candidates, side by side. */
struct tr_lanes {
    const uint32_t *low;
    const uint32_t *multiplier;
    const uint32_t *inverse; /* lightest weight / weight, in units of 2^-32; NULL: all are equal */
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

static inline uint64_t tr_score_of(uint64_t key, uint32_t low, uint32_t multiplier)
{
    uint64_t first = (uint64_t)((uint32_t)key ^ low) * multiplier;
    uint32_t middle = (uint32_t)(key >> 32) ^ (uint32_t)(first >> 32);
    uint64_t second = (uint64_t)middle * TR_SCORE_CONSTANT;
    return (uint64_t)((uint32_t)first ^ (uint32_t)(second >> 32)) << 32 | (uint32_t)second;
}

static inline uint64_t tr_score(const struct tr_lanes *lanes, uint64_t key, size_t index)
{
    return tr_score_of(key, lanes->low[index], lanes->multiplier[index]);
}

/* The largest estimate of a candidate that could beat one of estimate `within` in a weighted field
 * whose smallest inverse is `least`: field_logarithmic.c says why. The 4 is for all that was
 * rounded. */
static inline uint32_t tr_score_bar(uint32_t within, uint32_t least)
{
    unsigned shift = within < least / 16 ? 4 : within < least / 4 ? 2 : 1;
    return least >= 1024 && within < least / 2 ? within + (within >> shift) + 4 : UINT32_MAX;
}

/* The fastest kernel of this machine. */
enum tr_kernel tr_kernel_best(void);

/* A block, or the part of it that holds candidates: `count` of them from `first` on. */
struct tr_block {
    size_t first;
    uint32_t count;
};

/* The estimates of a block, UINT32_MAX behind the last candidate. Returns the smallest. */
uint32_t tr_score_estimate(enum tr_kernel kernel, const struct tr_lanes *lanes,
                           struct tr_block block, uint64_t key, uint32_t estimates[TR_SCORE_BLOCK]);

/* A bit for each candidate of a weighted field of one block that could win: within the bar of the
 * smallest estimate. */
uint32_t tr_score_possible(enum tr_kernel kernel, const struct tr_lanes *lanes, uint32_t count,
                           uint64_t key, uint32_t least);

/* The smallest estimate of each of `blocks` blocks from candidate `first` on. `groups` gets the
 * smallest of each of four disjoint groups that together are all of them (UINT32_MAX for an empty
 * one); which ones is the kernel's choice. */
void tr_score_minima(enum tr_kernel kernel, const struct tr_lanes *lanes, size_t first,
                     size_t blocks, uint64_t key, uint32_t *minima, uint32_t groups[4]);

/* A bit for each estimate that is at most `limit`. */
uint32_t tr_score_mask(enum tr_kernel kernel, const uint32_t estimates[TR_SCORE_BLOCK],
                       uint32_t limit);

/* The `want`th smallest of `count` estimates, 1 <= want <= count, want <= TR_SCORE_BLOCK. */
uint32_t tr_score_smallest(const uint32_t *estimates, size_t count, size_t want);

/* The kernels, one file each; a machine has the ones its compiler could make. */
uint32_t tr_score_estimate_neon(const struct tr_lanes *lanes, struct tr_block block, uint64_t key,
                                uint32_t estimates[TR_SCORE_BLOCK]);
void tr_score_minima_neon(const struct tr_lanes *lanes, size_t first, size_t blocks, uint64_t key,
                          uint32_t *minima, uint32_t groups[4]);
uint32_t tr_score_possible_neon(const struct tr_lanes *lanes, uint32_t count, uint64_t key,
                                uint32_t least);
uint32_t tr_score_mask_neon(const uint32_t estimates[TR_SCORE_BLOCK], uint32_t limit);
uint32_t tr_score_estimate_avx2(const struct tr_lanes *lanes, struct tr_block block, uint64_t key,
                                uint32_t estimates[TR_SCORE_BLOCK]);
void tr_score_minima_avx2(const struct tr_lanes *lanes, size_t first, size_t blocks, uint64_t key,
                          uint32_t *minima, uint32_t groups[4]);
uint32_t tr_score_possible_avx2(const struct tr_lanes *lanes, uint32_t count, uint64_t key,
                                uint32_t least);
uint32_t tr_score_mask_avx2(const uint32_t estimates[TR_SCORE_BLOCK], uint32_t limit);

#endif
