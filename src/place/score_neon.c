/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The score in NEON: four candidates a vector. UMULL gives two 64-bit products; UZP1 and UZP2 sort them into their low
 * and high halves, four lanes each.
 */
#include "place/score.h"

#if defined(__aarch64__)

#include <arm_neon.h>

struct key_lanes {
    uint32x4_t low;
    uint32x4_t high;
};

static struct key_lanes spread_key(uint64_t key)
{
    return (struct key_lanes){vdupq_n_u32((uint32_t)key), vdupq_n_u32((uint32_t)(key >> 32))};
}

static inline uint32x4_t high_of_four(struct tr_lanes lanes, size_t first, struct key_lanes key)
{
    uint32x4_t low = veorq_u32(vld1q_u32(lanes.low + first), key.low);
    uint32x4_t multiplier = vld1q_u32(lanes.multiplier + first);
    uint32x4_t first_01 =
        vreinterpretq_u32_u64(vmull_u32(vget_low_u32(low), vget_low_u32(multiplier)));
    uint32x4_t first_23 = vreinterpretq_u32_u64(vmull_high_u32(low, multiplier));
    uint32x4_t middle = veorq_u32(key.high, vuzp2q_u32(first_01, first_23));
    uint32x4_t second_01 =
        vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(middle), TR_SCORE_CONSTANT));
    uint32x4_t second_23 = vreinterpretq_u32_u64(vmull_high_n_u32(middle, TR_SCORE_CONSTANT));
    return veorq_u32(vuzp1q_u32(first_01, first_23), vuzp2q_u32(second_01, second_23));
}

void tr_score_high_neon(struct tr_lanes lanes, size_t first, uint64_t key,
                        uint32_t high[TR_SCORE_BLOCK])
{
    struct key_lanes wide = spread_key(key);
    for (size_t i = 0; i < TR_SCORE_BLOCK; i += 4)
        vst1q_u32(high + i, high_of_four(lanes, first + i, wide));
}

void tr_score_maxima_neon(struct tr_lanes lanes, size_t first, size_t blocks, uint64_t key,
                          uint32_t *maxima, uint32_t groups[4])
{
    struct key_lanes wide = spread_key(key);
    uint32x4_t all = vdupq_n_u32(0);
    for (size_t block = 0; block < blocks; block++, first += TR_SCORE_BLOCK) {
        uint32x4_t a = high_of_four(lanes, first, wide);
        uint32x4_t b = high_of_four(lanes, first + 4, wide);
        uint32x4_t c = high_of_four(lanes, first + 8, wide);
        uint32x4_t d = high_of_four(lanes, first + 12, wide);
        uint32x4_t largest = vmaxq_u32(vmaxq_u32(a, b), vmaxq_u32(c, d));
        all = vmaxq_u32(all, largest);
        maxima[block] = vmaxvq_u32(largest);
    }
    vst1q_u32(groups, all);
}

#else
typedef int tr_score_neon_is_for_arm;
#endif
