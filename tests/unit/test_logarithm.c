/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "base/wide.h"
#include "place/logarithm.h"
#include "unit.h"

/* 2^46 log2(numerator / denominator) to the nearest, for 1 <= numerator / denominator < 2, bit by
 * bit: squaring doubles a logarithm. 62 bits of fraction are kept, of which squaring eats about one
 * a step: 46 + 8 steps leave enough to round. */
static uint64_t log2_by_squaring(uint64_t numerator, uint64_t denominator)
{
    tr_u128 x = ((tr_u128)numerator << 62) / denominator;
    uint64_t digits = 0;
    for (int i = 0; i < 46 + 8; i++) {
        x = x * x >> 62;
        digits <<= 1;
        if (x >= (tr_u128)2 << 62) {
            digits |= 1;
            x >>= 1;
        }
    }
    return (digits + 128) >> 8;
}

static void the_table_is_the_logarithm(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 256; i++) {
        uint64_t at = log2_by_squaring(256 + i, 256);
        uint64_t middle = log2_by_squaring(513 + 2 * i, 512);
        uint64_t next = i == 255 ? (uint64_t)1 << 46 : log2_by_squaring(257 + i, 256);
        assert_true(tr_logarithm_at[i] == at);
        assert_true(tr_logarithm_bow[i] == (2 * middle - at - next) >> 15);
    }
    assert_true(tr_logarithm_at[256] == (uint64_t)1 << 46);
}

/* Within an interval the curve is ((D t + C q) >> 24), q = t (2^24 - t) >> 8. From t to t + 1 the
 * first term gains D and q loses at most 2^16 + 1: D >= C (2^16 + 1) makes it monotone. At the ends
 * of an interval q is 0: no jump down. */
static void the_curve_never_falls(void **state)
{
    (void)state;
    for (size_t i = 0; i < 256; i++) {
        uint64_t chord = tr_logarithm_at[i + 1] - tr_logarithm_at[i];
        assert_true(chord >= (uint64_t)tr_logarithm_bow[i] * ((1u << 16) + 1));
    }
}

static void the_cost_never_rises_with_the_score(void **state)
{
    (void)state;
    struct tr_random random = {3};
    for (int i = 0; i < 1000000; i++) {
        uint64_t score = tr_random_next(&random) >> tr_random_below(&random, 64);
        uint64_t step = tr_random_next(&random) >> tr_random_below(&random, 64);
        uint64_t larger = score > UINT64_MAX - step ? UINT64_MAX : score + step;
        assert_true(tr_logarithm_cost(larger) <= tr_logarithm_cost(score));
    }
}

static void powers_of_two_cost_whole_numbers(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++)
        assert_true(tr_logarithm_cost((uint64_t)1 << bit) == (uint64_t)(64 - bit) << 46);
    assert_true(tr_logarithm_cost(0) == (uint64_t)64 << 46);
    assert_true(tr_logarithm_cost(UINT64_MAX) == 0x2e2b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_the_logarithm),
        cmocka_unit_test(the_curve_never_falls),
        cmocka_unit_test(the_cost_never_rises_with_the_score),
        cmocka_unit_test(powers_of_two_cost_whole_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
