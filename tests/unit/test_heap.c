/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"
#include "base/random.h"
#include "unit.h"

static bool is_less(const void *context, uint32_t a, uint32_t b)
{
    const uint32_t *values = context;
    return values[a] != values[b] ? values[a] < values[b] : a < b;
}

/* The model: how many come before it is its place. */
static uint32_t place_of(const uint32_t *values, uint32_t count, uint32_t item)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < count; i++)
        place += is_less(values, i, item);
    return place;
}

static void sorting_and_taking_agree_with_counting(void **state)
{
    (void)state;
    struct tr_random random = {7};
    for (int round = 0; round < 500; round++) {
        uint32_t values[64];
        uint32_t items[64];
        uint32_t first[64];
        uint32_t count = (uint32_t)tr_random_below(&random, 65);
        for (uint32_t i = 0; i < count; i++) {
            values[i] = (uint32_t)tr_random_below(&random, 20);
            items[i] = i;
        }
        tr_heap_sort(items, count, is_less, values);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(place_of(values, count, items[i]), i);
        size_t want = count == 0 ? 0 : tr_random_below(&random, count + 1);
        tr_heap_take(items, count, is_less, values, want, first);
        for (uint32_t i = 0; i < want; i++)
            assert_int_equal(place_of(values, count, first[i]), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorting_and_taking_agree_with_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
