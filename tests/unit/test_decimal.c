/* SPDX-License-Identifier: Apache-2.0 */
#include "base/decimal.h"
#include "base/random.h"
#include "unit.h"

static bool parses(const char *text)
{
    struct tr_decimal decimal;
    return tr_decimal_parse(text, strlen(text), &decimal);
}

static uint64_t fraction(const char *text, tr_u128 scale)
{
    struct tr_decimal decimal;
    assert_true(tr_decimal_parse(text, strlen(text), &decimal));
    return tr_decimal_fraction(&decimal, scale);
}

static void digits_with_at_most_one_point_are_a_decimal(void **state)
{
    (void)state;
    const char *good[] = {"0", "12", ".5", "5.", "0.25", "007.700", "0.0"};
    const char *bad[] = {"",      ".",  "-1", "+1",  "1e3", "0x1",
                         "1.2.3", " 1", "1 ", "nan", "1,5", "inf"};
    for (size_t i = 0; i < UNIT_COUNT(good); i++)
        assert_true(parses(good[i]));
    for (size_t i = 0; i < UNIT_COUNT(bad); i++)
        assert_false(parses(bad[i]));
}

static void a_fraction_is_scaled_exactly(void **state)
{
    (void)state;
    assert_int_equal(fraction(".1", 10), 1);
    assert_int_equal(fraction(".3", 10), 3);
    assert_int_equal(fraction(".7", 1000), 700);
    assert_int_equal(fraction(".85", 1024), 870);
    assert_int_equal(fraction("7.25", 4), 1);
    assert_int_equal(fraction(".999999999999999999999999999999", 1), 0);
    assert_true(fraction(".5", (tr_u128)1 << 64) == (uint64_t)1 << 63);
    assert_true(fraction(".99999999999999999999999999999999", (tr_u128)1 << 64) == UINT64_MAX);
}

static void a_fraction_agrees_with_integer_division(void **state)
{
    (void)state;
    struct tr_random random = {1};
    for (int i = 0; i < 10000; i++) {
        uint64_t numerator = tr_random_below(&random, 1000000000);
        uint64_t scale = 1 + tr_random_below(&random, (uint64_t)1 << 32);
        char text[16];
        snprintf(text, sizeof text, "0.%09u", (unsigned)numerator);
        assert_true(fraction(text, scale) == (uint64_t)((tr_u128)numerator * scale / 1000000000));
    }
}

static void the_whole_part_saturates(void **state)
{
    (void)state;
    struct tr_decimal decimal;
    const char *text = "18446744073709551615.5";
    assert_true(tr_decimal_parse(text, strlen(text), &decimal));
    assert_true(tr_decimal_whole(&decimal) == UINT64_MAX);
    text = "99999999999999999999999999";
    assert_true(tr_decimal_parse(text, strlen(text), &decimal));
    assert_true(tr_decimal_whole(&decimal) == UINT64_MAX);
    text = "00042";
    assert_true(tr_decimal_parse(text, strlen(text), &decimal));
    assert_int_equal(tr_decimal_whole(&decimal), 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_with_at_most_one_point_are_a_decimal),
        cmocka_unit_test(a_fraction_is_scaled_exactly),
        cmocka_unit_test(a_fraction_agrees_with_integer_division),
        cmocka_unit_test(the_whole_part_saturates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
