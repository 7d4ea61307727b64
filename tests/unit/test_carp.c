/* SPDX-License-Identifier: Apache-2.0 */
#include "place/carp_factors.h"
#include "unit.h"

#define ONE TRYST_PLACE_WEIGHT_ONE

/* cmocka's own compares as float. */
static void assert_near(double a, double b)
{
    assert_true(a - b < 1e-6 && b - a < 1e-6);
}

static double number(uint64_t factor)
{
    return (double)factor / 4294967296.0;
}

/* Shares .4, .4, .2: X_1 = .6^(1/3), X_2 = X_3 = sqrt(.4 / X_1 + X_1^2), by hand with a calculator.
 */
static void the_factors_of_three_nodes(void **state)
{
    (void)state;
    const uint64_t weight[] = {2 * ONE, 2 * ONE, ONE};
    uint64_t factor[3];
    uint32_t order[3];
    tr_carp_factors(weight, 3, order, factor);
    assert_near(number(factor[2]), 0.8434327);
    assert_near(number(factor[0]), 1.0888669);
    assert_true(factor[0] == factor[1]);
}

/* Two nodes: X_1 = sqrt(2 P_1), X_2 = (P_2 - P_1) / X_1 + X_1. The heavier wins with probability 1
 * - X_1 / (2 X_2) = P_2. */
static void two_nodes_get_their_shares(void **state)
{
    (void)state;
    for (uint64_t times = 2; times <= 1024; times *= 2) {
        const uint64_t weight[] = {ONE, times * ONE};
        uint64_t factor[2];
        uint32_t order[2];
        tr_carp_factors(weight, 2, order, factor);
        double share = 1 - number(factor[0]) / (2 * number(factor[1]));
        assert_near(share, (double)times / (double)(times + 1));
    }
}

/* To the last bit, as the reference computes them from the text. */
static void the_factors_are_frozen(void **state)
{
    (void)state;
    const uint64_t weight[] = {5 * ONE, ONE, ONE, 5 * ONE / 2, 100 * ONE};
    const uint64_t expected[] = {0xd34bc47e, 0x8a162334, 0x8a162334, 0xab075943, 0x63ba61b62};
    uint64_t factor[5];
    uint32_t order[5];
    tr_carp_factors(weight, 5, order, factor);
    assert_memory_equal(factor, expected, sizeof factor);
}

static void the_most_unequal_weights_fit(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static uint64_t weight[COUNT];
    static uint64_t factor[COUNT];
    static uint32_t order[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        weight[i] = i == 500 ? TRYST_PLACE_WEIGHT_MAX : TRYST_PLACE_WEIGHT_MIN;
    tr_carp_factors(weight, COUNT, order, factor);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(factor[i] > 0 && factor[i] < UINT64_MAX);
    assert_true(factor[500] > factor[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_factors_of_three_nodes),
        cmocka_unit_test(two_nodes_get_their_shares),
        cmocka_unit_test(the_factors_are_frozen),
        cmocka_unit_test(the_most_unequal_weights_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
