/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The score in AVX2: eight candidates a vector. VPMULUDQ multiplies the even lanes; the odd ones
 * are shifted into their place for a second one, and a blend brings the halves together. Compiled
 * for AVX2 alone and called only where the machine has it.
 */
#include "place/score.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>

#define AVX2 __attribute__((target("avx2")))

struct key_lanes {
    __m256i low;
    __m256i high;
};

AVX2 static inline struct key_lanes spread_key(uint64_t key)
{
    return (struct key_lanes){_mm256_set1_epi32((int)(uint32_t)key),
                              _mm256_set1_epi32((int)(uint32_t)(key >> 32))};
}

AVX2 static inline __m256i load(const uint32_t *lanes)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)lanes);
}

/* The low and high halves of eight 64-bit products. */
struct halves {
    __m256i low;
    __m256i high;
};

AVX2 static inline struct halves multiply(__m256i a, __m256i b)
{
    __m256i even = _mm256_mul_epu32(a, b);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    return (struct halves){
        .low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa),
        .high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa),
    };
}

AVX2 static inline __m256i estimate_eight(const struct tr_lanes *lanes, size_t first,
                                          struct key_lanes key, bool is_weighted)
{
    struct halves one = multiply(_mm256_xor_si256(load(lanes->low + first), key.low),
                                 load(lanes->multiplier + first));
    struct halves two =
        multiply(_mm256_xor_si256(key.high, one.high), _mm256_set1_epi32((int)TR_SCORE_CONSTANT));
    __m256i missing = _mm256_xor_si256(_mm256_xor_si256(one.low, two.high), _mm256_set1_epi32(-1));
    return is_weighted ? multiply(missing, load(lanes->inverse + first)).high : missing;
}

AVX2 static inline void estimate(const struct tr_lanes *lanes, size_t first, struct key_lanes key,
                                 bool is_weighted, __m256i estimates[2])
{
    estimates[0] = estimate_eight(lanes, first, key, is_weighted);
    estimates[1] = estimate_eight(lanes, first + 8, key, is_weighted);
}

/* The smaller of eight and eight, in four lanes. */
AVX2 static inline __m128i least_four(__m256i a, __m256i b)
{
    __m256i eight = _mm256_min_epu32(a, b);
    return _mm_min_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
}

AVX2 static inline uint32_t least_one(__m128i four)
{
    __m128i two = _mm_min_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    __m128i one = _mm_min_epu32(two, _mm_shuffle_epi32(two, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(one);
}

/* All ones in the lanes that hold no candidate: `eight` is the number of the vector in its block.
 */
AVX2 static inline __m256i beyond(uint32_t count, int eight)
{
    __m256i number =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(8 * eight));
    return _mm256_cmpgt_epi32(number, _mm256_set1_epi32((int)count - 1));
}

AVX2 uint32_t tr_score_estimate_avx2(const struct tr_lanes *lanes, struct tr_block block,
                                     uint64_t key, uint32_t estimates[TR_SCORE_BLOCK])
{
    __m256i found[2];
    if (lanes->inverse == NULL)
        estimate(lanes, block.first, spread_key(key), false, found);
    else
        estimate(lanes, block.first, spread_key(key), true, found);
    for (int i = 0; i < 2; i++) {
        found[i] = _mm256_or_si256(found[i], beyond(block.count, i));
        _mm256_storeu_si256((__m256i *)(void *)(estimates + (ptrdiff_t)8 * i), found[i]);
    }
    return least_one(least_four(found[0], found[1]));
}

AVX2 static inline void minima(const struct tr_lanes *lanes, size_t first, size_t blocks,
                               uint64_t key, uint32_t *smallest, uint32_t groups[4],
                               bool is_weighted)
{
    struct key_lanes wide = spread_key(key);
    __m128i all = _mm_set1_epi32(-1);
    for (size_t block = 0; block < blocks; block++, first += TR_SCORE_BLOCK) {
        __m256i found[2];
        estimate(lanes, first, wide, is_weighted, found);
        __m128i four = least_four(found[0], found[1]);
        all = _mm_min_epu32(all, four);
        smallest[block] = least_one(four);
    }
    _mm_storeu_si128((__m128i *)(void *)groups, all);
}

AVX2 void tr_score_minima_avx2(const struct tr_lanes *lanes, size_t first, size_t blocks,
                               uint64_t key, uint32_t *smallest, uint32_t groups[4])
{
    /* A copy, so that storing minima cannot be taken to change where the lanes are. */
    const struct tr_lanes kept = *lanes;
    if (kept.inverse == NULL)
        minima(&kept, first, blocks, key, smallest, groups, false);
    else
        minima(&kept, first, blocks, key, smallest, groups, true);
}

/* A bit for each of sixteen lanes that is at most `limit`. */
AVX2 static inline uint32_t mask_of(__m256i a, __m256i b, uint32_t limit)
{
    __m256i wide = _mm256_set1_epi32((int)limit);
    __m256i a_is_within = _mm256_cmpeq_epi32(_mm256_min_epu32(a, wide), a);
    __m256i b_is_within = _mm256_cmpeq_epi32(_mm256_min_epu32(b, wide), b);
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(a_is_within)) |
           (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(b_is_within)) << 8;
}

AVX2 uint32_t tr_score_mask_avx2(const uint32_t estimates[TR_SCORE_BLOCK], uint32_t limit)
{
    return mask_of(load(estimates), load(estimates + 8), limit);
}

AVX2 uint32_t tr_score_possible_avx2(const struct tr_lanes *lanes, uint32_t count, uint64_t key,
                                     uint32_t least)
{
    __m256i found[2];
    estimate(lanes, 0, spread_key(key), true, found);
    found[0] = _mm256_or_si256(found[0], beyond(count, 0));
    found[1] = _mm256_or_si256(found[1], beyond(count, 1));
    uint32_t smallest = least_one(least_four(found[0], found[1]));
    return mask_of(found[0], found[1], tr_score_bar(smallest, least)) & ((1u << count) - 1);
}

#else
typedef int tr_score_avx2_is_for_x86;
#endif
