/* SPDX-License-Identifier: Apache-2.0 */
#include "place/score.h"

enum tr_kernel tr_kernel_best(void)
{
#if defined(__aarch64__)
    return TR_KERNEL_NEON;
#elif defined(__x86_64__)
    return __builtin_cpu_supports("avx2") ? TR_KERNEL_AVX2 : TR_KERNEL_PORTABLE;
#else
    return TR_KERNEL_PORTABLE;
#endif
}

static void high_portable(struct tr_lanes lanes, size_t first, uint64_t key,
                          uint32_t high[TR_SCORE_BLOCK])
{
    for (size_t i = 0; i < TR_SCORE_BLOCK; i++)
        high[i] = (uint32_t)(tr_score(key, lanes.low[first + i], lanes.multiplier[first + i]) >> 32);
}

static void maxima_portable(struct tr_lanes lanes, size_t first, size_t blocks, uint64_t key,
                            uint32_t *maxima, uint32_t groups[4])
{
    for (size_t group = 0; group < 4; group++)
        groups[group] = 0;
    for (size_t block = 0; block < blocks; block++) {
        uint32_t high[TR_SCORE_BLOCK];
        high_portable(lanes, first + block * TR_SCORE_BLOCK, key, high);
        uint32_t largest = 0;
        for (size_t i = 0; i < TR_SCORE_BLOCK; i++)
            largest = high[i] > largest ? high[i] : largest;
        maxima[block] = largest;
        if (largest > groups[block % 4])
            groups[block % 4] = largest;
    }
}

void tr_score_high(enum tr_kernel kernel, struct tr_lanes lanes, size_t first, uint64_t key,
                   uint32_t high[TR_SCORE_BLOCK])
{
#if defined(__aarch64__)
    if (kernel == TR_KERNEL_NEON) {
        tr_score_high_neon(lanes, first, key, high);
        return;
    }
#elif defined(__x86_64__)
    if (kernel == TR_KERNEL_AVX2) {
        tr_score_high_avx2(lanes, first, key, high);
        return;
    }
#endif
    (void)kernel;
    high_portable(lanes, first, key, high);
}

void tr_score_maxima(enum tr_kernel kernel, struct tr_lanes lanes, size_t first, size_t blocks,
                     uint64_t key, uint32_t *maxima, uint32_t groups[4])
{
#if defined(__aarch64__)
    if (kernel == TR_KERNEL_NEON) {
        tr_score_maxima_neon(lanes, first, blocks, key, maxima, groups);
        return;
    }
#elif defined(__x86_64__)
    if (kernel == TR_KERNEL_AVX2) {
        tr_score_maxima_avx2(lanes, first, blocks, key, maxima, groups);
        return;
    }
#endif
    (void)kernel;
    maxima_portable(lanes, first, blocks, key, maxima, groups);
}
