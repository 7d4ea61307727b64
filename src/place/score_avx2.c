/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The score in AVX2: eight candidates a vector. VPMULUDQ multiplies the even lanes; the odd ones are shifted into their
 * place for a second one, and a blend brings the halves together. Compiled for AVX2 alone and called only where the
 * machine has it.
 */
#include "place/score.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

struct key_lanes {
    __m256i low;
    __m256i high;
};

AVX2 static struct key_lanes spread_key(uint64_t key)
{
    return (struct key_lanes){_mm256_set1_epi32((int)(uint32_t)key),
                              _mm256_set1_epi32((int)(uint32_t)(key >> 32))};
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

AVX2 static inline __m256i high_of_eight(struct tr_lanes lanes, size_t first, struct key_lanes key)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)(lanes.low + first));
    __m256i multiplier =
        _mm256_loadu_si256((const __m256i *)(const void *)(lanes.multiplier + first));
    struct halves one = multiply(_mm256_xor_si256(low, key.low), multiplier);
    struct halves two = multiply(_mm256_xor_si256(key.high, one.high),
                                 _mm256_set1_epi32((int)TR_SCORE_CONSTANT));
    return _mm256_xor_si256(one.low, two.high);
}

AVX2 void tr_score_high_avx2(struct tr_lanes lanes, size_t first, uint64_t key,
                             uint32_t high[TR_SCORE_BLOCK])
{
    struct key_lanes wide = spread_key(key);
    for (size_t i = 0; i < TR_SCORE_BLOCK; i += 8)
        _mm256_storeu_si256((__m256i *)(void *)(high + i), high_of_eight(lanes, first + i, wide));
}

AVX2 void tr_score_maxima_avx2(struct tr_lanes lanes, size_t first, size_t blocks, uint64_t key,
                               uint32_t *maxima, uint32_t groups[4])
{
    struct key_lanes wide = spread_key(key);
    __m128i all = _mm_setzero_si128();
    for (size_t block = 0; block < blocks; block++, first += TR_SCORE_BLOCK) {
        __m256i eight = _mm256_max_epu32(high_of_eight(lanes, first, wide),
                                         high_of_eight(lanes, first + 8, wide));
        __m128i four =
            _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
        all = _mm_max_epu32(all, four);
        __m128i two = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
        __m128i one = _mm_max_epu32(two, _mm_shuffle_epi32(two, 0xb1));
        maxima[block] = (uint32_t)_mm_cvtsi128_si32(one);
    }
    _mm_storeu_si128((__m128i *)(void *)groups, all);
}

#else
typedef int tr_score_avx2_is_for_x86;
#endif
