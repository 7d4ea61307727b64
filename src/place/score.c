/* SPDX-License-Identifier: Apache-2.0 */
/* The portable kernel, and the choice between it and the others. */
#include "place/score.h"

#include "base/assert.h"

_Static_assert(TR_SCORE_BLOCK < 32, "a mask has a bit for each candidate of a block");
#if defined(__aarch64__)
#define SIMD             TR_KERNEL_NEON
#define SIMD_NAMED(verb) tr_score_##verb##_neon
#elif defined(__x86_64__)
#define SIMD             TR_KERNEL_AVX2
#define SIMD_NAMED(verb) tr_score_##verb##_avx2
#endif

enum tr_kernel tr_kernel_best(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") ? TR_KERNEL_AVX2 : TR_KERNEL_PORTABLE;
#elif defined(__aarch64__)
    return TR_KERNEL_NEON;
#else
    return TR_KERNEL_PORTABLE;
#endif
}

static uint32_t estimate_one(const struct tr_lanes *lanes, size_t index, uint64_t key)
{
    uint32_t missing = ~(uint32_t)(tr_score(lanes, key, index) >> 32);
    if (lanes->inverse == NULL)
        return missing;
    return (uint32_t)((uint64_t)missing * lanes->inverse[index] >> 32);
}

static uint32_t estimate_portable(const struct tr_lanes *lanes, struct tr_block block, uint64_t key,
                                  uint32_t estimates[TR_SCORE_BLOCK])
{
    uint32_t smallest = UINT32_MAX;
    for (size_t i = 0; i < TR_SCORE_BLOCK; i++) {
        estimates[i] = i < block.count ? estimate_one(lanes, block.first + i, key) : UINT32_MAX;
        smallest = estimates[i] < smallest ? estimates[i] : smallest;
    }
    return smallest;
}

static void minima_portable(const struct tr_lanes *lanes, size_t first, size_t blocks, uint64_t key,
                            uint32_t *minima, uint32_t groups[4])
{
    for (size_t group = 0; group < 4; group++)
        groups[group] = UINT32_MAX;
    for (size_t block = 0; block < blocks; block++) {
        uint32_t estimates[TR_SCORE_BLOCK];
        struct tr_block whole = {first + block * TR_SCORE_BLOCK, TR_SCORE_BLOCK};
        uint32_t smallest = estimate_portable(lanes, whole, key, estimates);
        minima[block] = smallest;
        if (smallest < groups[block % 4])
            groups[block % 4] = smallest;
    }
}

static uint32_t mask_portable(const uint32_t estimates[TR_SCORE_BLOCK], uint32_t limit)
{
    uint32_t mask = 0;
    for (size_t i = 0; i < TR_SCORE_BLOCK; i++)
        mask |= (uint32_t)(estimates[i] <= limit) << i;
    return mask;
}

uint32_t tr_score_estimate(enum tr_kernel kernel, const struct tr_lanes *lanes,
                           struct tr_block block, uint64_t key, uint32_t estimates[TR_SCORE_BLOCK])
{
    TR_ASSERT(block.count <= TR_SCORE_BLOCK);
#ifdef SIMD
    if (kernel == SIMD)
        return SIMD_NAMED(estimate)(lanes, block, key, estimates);
#endif
    (void)kernel;
    return estimate_portable(lanes, block, key, estimates);
}

void tr_score_minima(enum tr_kernel kernel, const struct tr_lanes *lanes, size_t first,
                     size_t blocks, uint64_t key, uint32_t *minima, uint32_t groups[4])
{
#ifdef SIMD
    if (kernel == SIMD) {
        SIMD_NAMED(minima)(lanes, first, blocks, key, minima, groups);
        return;
    }
#endif
    (void)kernel;
    minima_portable(lanes, first, blocks, key, minima, groups);
}

uint32_t tr_score_mask(enum tr_kernel kernel, const uint32_t estimates[TR_SCORE_BLOCK],
                       uint32_t limit)
{
#ifdef SIMD
    if (kernel == SIMD)
        return SIMD_NAMED(mask)(estimates, limit);
#endif
    (void)kernel;
    return mask_portable(estimates, limit);
}

static uint32_t possible_portable(const struct tr_lanes *lanes, uint32_t count, uint64_t key,
                                  uint32_t least)
{
    uint32_t estimates[TR_SCORE_BLOCK];
    uint32_t smallest = estimate_portable(lanes, (struct tr_block){0, count}, key, estimates);
    return mask_portable(estimates, tr_score_bar(smallest, least)) & ((1u << count) - 1);
}

uint32_t tr_score_possible(enum tr_kernel kernel, const struct tr_lanes *lanes, uint32_t count,
                           uint64_t key, uint32_t least)
{
    TR_ASSERT(count >= 1 && count <= TR_SCORE_BLOCK);
#ifdef SIMD
    if (kernel == SIMD)
        return SIMD_NAMED(possible)(lanes, count, key, least);
#endif
    (void)kernel;
    return possible_portable(lanes, count, key, least);
}

/* Each place takes the smaller and hands the larger on: no branch to guess. Inlined with a constant
 * `want`. */
static inline uint32_t smallest_of(const uint32_t *estimates, size_t count, size_t want)
{
    uint32_t smallest[TR_SCORE_BLOCK];
    for (size_t i = 0; i < want; i++)
        smallest[i] = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        uint32_t carried = estimates[i];
        for (size_t place = 0; place < want; place++) {
            uint32_t kept = smallest[place];
            smallest[place] = carried < kept ? carried : kept;
            carried = carried < kept ? kept : carried;
        }
    }
    return smallest[want - 1];
}

uint32_t tr_score_smallest(const uint32_t *estimates, size_t count, size_t want)
{
    TR_ASSERT(want >= 1 && want <= count && want <= TR_SCORE_BLOCK);
    switch (want) {
    case 1:
        return smallest_of(estimates, count, 1);
    case 2:
        return smallest_of(estimates, count, 2);
    case 3:
        return smallest_of(estimates, count, 3);
    default:
        return smallest_of(estimates, count, want);
    }
}
