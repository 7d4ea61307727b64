/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The score in NEON: four candidates a vector. UMULL gives two 64-bit products; UZP1 and UZP2 sort
 * them into their low and high halves, four lanes each.
 */
#include "place/score.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <stdbool.h>

struct key_lanes {
    uint32x4_t low;
    uint32x4_t high;
};

static inline struct key_lanes spread_key(uint64_t key)
{
    return (struct key_lanes){vdupq_n_u32((uint32_t)key), vdupq_n_u32((uint32_t)(key >> 32))};
}

/* The low and high halves of four 64-bit products. */
struct halves {
    uint32x4_t low;
    uint32x4_t high;
};

static inline struct halves multiply(uint32x4_t a, uint32x4_t b)
{
    uint32x4_t front = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a), vget_low_u32(b)));
    uint32x4_t back = vreinterpretq_u32_u64(vmull_high_u32(a, b));
    return (struct halves){vuzp1q_u32(front, back), vuzp2q_u32(front, back)};
}

static inline uint32x4_t high_of_four(const struct tr_lanes *lanes, size_t first,
                                      struct key_lanes key)
{
    struct halves one = multiply(veorq_u32(vld1q_u32(lanes->low + first), key.low),
                                 vld1q_u32(lanes->multiplier + first));
    struct halves two = multiply(veorq_u32(key.high, one.high), vdupq_n_u32(TR_SCORE_CONSTANT));
    return veorq_u32(one.low, two.high);
}

static inline uint32x4_t estimate_four(const struct tr_lanes *lanes, size_t first,
                                       struct key_lanes key)
{
    uint32x4_t missing = vmvnq_u32(high_of_four(lanes, first, key));
    return multiply(missing, vld1q_u32(lanes->inverse + first)).high;
}

/* UINT32_MAX in the lanes that hold no candidate: `four` is the number of the vector in its block.
 */
static inline uint32x4_t beyond(uint32_t count, uint32_t four)
{
    static const uint32_t numbers[4] = {0, 1, 2, 3};
    return vcgeq_u32(vaddq_u32(vld1q_u32(numbers), vdupq_n_u32(4 * four)), vdupq_n_u32(count));
}

uint32_t tr_score_estimate_neon(const struct tr_lanes *lanes, struct tr_block block, uint64_t key,
                                uint32_t estimates[TR_SCORE_BLOCK])
{
    struct key_lanes wide = spread_key(key);
    bool is_weighted = lanes->inverse != NULL;
    uint32x4_t smallest = vdupq_n_u32(UINT32_MAX);
    for (uint32_t i = 0; i < 4; i++) {
        size_t first = block.first + 4 * (size_t)i;
        uint32x4_t found = is_weighted ? estimate_four(lanes, first, wide)
                                       : vmvnq_u32(high_of_four(lanes, first, wide));
        found = vorrq_u32(found, beyond(block.count, i));
        smallest = vminq_u32(smallest, found);
        vst1q_u32(estimates + 4 * (size_t)i, found);
    }
    return vminvq_u32(smallest);
}

/* The largest high halves of a block, in four lanes. */
static inline uint32x4_t largest_of_block(const struct tr_lanes *lanes, size_t first,
                                          struct key_lanes key)
{
    uint32x4_t a = high_of_four(lanes, first, key);
    uint32x4_t b = high_of_four(lanes, first + 4, key);
    uint32x4_t c = high_of_four(lanes, first + 8, key);
    uint32x4_t d = high_of_four(lanes, first + 12, key);
    return vmaxq_u32(vmaxq_u32(a, b), vmaxq_u32(c, d));
}

/* Looks for the largest high half and turns that over at the end: one instruction less for each
 * vector. Two blocks at a time give the pipelines enough independent work. */
static inline void minima_plain(const struct tr_lanes *lanes, size_t first, size_t blocks,
                                uint64_t key, uint32_t *minima, uint32_t groups[4])
{
    struct key_lanes wide = spread_key(key);
    uint32x4_t all = vdupq_n_u32(0);
    size_t block = 0;
    for (; block + 2 <= blocks; block += 2, first += 2 * (size_t)TR_SCORE_BLOCK) {
        uint32x4_t one = largest_of_block(lanes, first, wide);
        uint32x4_t two = largest_of_block(lanes, first + TR_SCORE_BLOCK, wide);
        uint32x4_t pairs = vpmaxq_u32(one, two);
        all = vmaxq_u32(all, vmaxq_u32(one, two));
        vst1_u32(minima + block, vmvn_u32(vget_low_u32(vpmaxq_u32(pairs, pairs))));
    }
    if (block < blocks) {
        uint32x4_t last = largest_of_block(lanes, first, wide);
        all = vmaxq_u32(all, last);
        minima[block] = ~vmaxvq_u32(last);
    }
    vst1q_u32(groups, vmvnq_u32(all));
}

static inline uint32x4_t least_of_block(const struct tr_lanes *lanes, size_t first,
                                        struct key_lanes key)
{
    uint32x4_t a = estimate_four(lanes, first, key);
    uint32x4_t b = estimate_four(lanes, first + 4, key);
    uint32x4_t c = estimate_four(lanes, first + 8, key);
    uint32x4_t d = estimate_four(lanes, first + 12, key);
    return vminq_u32(vminq_u32(a, b), vminq_u32(c, d));
}

static inline void minima_weighted(const struct tr_lanes *lanes, size_t first, size_t blocks,
                                   uint64_t key, uint32_t *minima, uint32_t groups[4])
{
    struct key_lanes wide = spread_key(key);
    uint32x4_t all = vdupq_n_u32(UINT32_MAX);
    for (size_t block = 0; block < blocks; block++, first += TR_SCORE_BLOCK) {
        uint32x4_t least = least_of_block(lanes, first, wide);
        all = vminq_u32(all, least);
        minima[block] = vminvq_u32(least);
    }
    vst1q_u32(groups, all);
}

void tr_score_minima_neon(const struct tr_lanes *lanes, size_t first, size_t blocks, uint64_t key,
                          uint32_t *minima, uint32_t groups[4])
{
    /* A copy, so that storing minima cannot be taken to change where the lanes are. */
    const struct tr_lanes kept = *lanes;
    if (kept.inverse == NULL)
        minima_plain(&kept, first, blocks, key, minima, groups);
    else
        minima_weighted(&kept, first, blocks, key, minima, groups);
}

/* A bit for each of sixteen lanes that is at most `limit`. */
static inline uint32_t mask_of(uint32x4_t a, uint32x4_t b, uint32x4_t c, uint32x4_t d,
                               uint32_t limit)
{
    static const uint32_t weights[4] = {1, 2, 4, 8};
    uint32x4_t bit = vld1q_u32(weights);
    uint32x4_t wide = vdupq_n_u32(limit);
    uint32x4_t ab = vorrq_u32(vandq_u32(vcleq_u32(a, wide), bit),
                              vandq_u32(vcleq_u32(b, wide), vshlq_n_u32(bit, 4)));
    uint32x4_t cd = vorrq_u32(vandq_u32(vcleq_u32(c, wide), vshlq_n_u32(bit, 8)),
                              vandq_u32(vcleq_u32(d, wide), vshlq_n_u32(bit, 12)));
    return vaddvq_u32(vorrq_u32(ab, cd));
}

uint32_t tr_score_mask_neon(const uint32_t estimates[TR_SCORE_BLOCK], uint32_t limit)
{
    return mask_of(vld1q_u32(estimates), vld1q_u32(estimates + 4), vld1q_u32(estimates + 8),
                   vld1q_u32(estimates + 12), limit);
}

uint32_t tr_score_possible_neon(const struct tr_lanes *lanes, uint32_t count, uint64_t key,
                                uint32_t least)
{
    struct key_lanes wide = spread_key(key);
    uint32x4_t a = estimate_four(lanes, 0, wide);
    uint32x4_t b = estimate_four(lanes, 4, wide);
    uint32x4_t c = estimate_four(lanes, 8, wide);
    uint32x4_t d = estimate_four(lanes, 12, wide);
    if (count < TR_SCORE_BLOCK) {
        a = vorrq_u32(a, beyond(count, 0));
        b = vorrq_u32(b, beyond(count, 1));
        c = vorrq_u32(c, beyond(count, 2));
        d = vorrq_u32(d, beyond(count, 3));
    }
    uint32_t smallest = vminvq_u32(vminq_u32(vminq_u32(a, b), vminq_u32(c, d)));
    return mask_of(a, b, c, d, tr_score_bar(smallest, least)) & ((1u << count) - 1);
}

#else
typedef int tr_score_neon_is_for_arm;
#endif
