/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "base/random.h"
#include "place/score.h"
#include "unit.h"

#define LANES 200

static uint64_t score_of_seed(uint64_t key, uint64_t seed)
{
    return tr_score_of(key, tr_score_low(seed), tr_score_multiplier(seed));
}

/* x^-1 modulo 2^32, x odd. */
static uint32_t inverse_of(uint32_t x)
{
    uint32_t inverse = x;
    for (int i = 0; i < 5; i++)
        inverse *= 2 - x * inverse;
    return inverse;
}

static void the_score_can_be_undone(void **state)
{
    (void)state;
    struct tr_random random = {5};
    for (int i = 0; i < 100000; i++) {
        uint64_t key = tr_random_next(&random);
        uint64_t seed = tr_random_next(&random);
        uint64_t score = score_of_seed(key, seed);
        uint32_t middle = (uint32_t)score * inverse_of(TR_SCORE_CONSTANT);
        uint64_t second = (uint64_t)middle * TR_SCORE_CONSTANT;
        uint32_t first_low = (uint32_t)(score >> 32) ^ (uint32_t)(second >> 32);
        uint32_t multiplier = tr_score_multiplier(seed);
        uint32_t mixed = first_low * inverse_of(multiplier);
        uint64_t first = (uint64_t)mixed * multiplier;
        uint64_t undone =
            (uint64_t)(middle ^ (uint32_t)(first >> 32)) << 32 | (mixed ^ (uint32_t)seed);
        assert_true(undone == key);
    }
}

/* Each bit of an id, flipped, flips each bit of its score about every second time: within 4.9
 * standard deviations over all 4,096 pairs. */
static void every_bit_of_an_id_moves_every_bit_of_the_score(void **state)
{
    (void)state;
    enum { TRIALS = 20000 };
    uint64_t seed = tr_hash_xxh3("10.0.0.1:7253", 13);
    for (unsigned in = 0; in < 64; in++) {
        unsigned flips[64] = {0};
        for (uint64_t id = 0; id < TRIALS; id++) {
            uint64_t difference = score_of_seed(tr_hash_mix(id), seed) ^
                                  score_of_seed(tr_hash_mix(id ^ (uint64_t)1 << in), seed);
            for (unsigned out = 0; out < 64; out++)
                flips[out] += (unsigned)(difference >> out & 1);
        }
        for (unsigned out = 0; out < 64; out++)
            assert_in_range(flips[out], TRIALS / 2 - 347, TRIALS / 2 + 347);
    }
}

/* All 120 orders of five nodes are as likely: chi-squared with 119 degrees of freedom, for
 * sequential ids, over 20 sets of names; the sum of the twenty has 2,380 and stays within five
 * deviations. */
static void all_orders_of_five_nodes_are_as_likely(void **state)
{
    (void)state;
    enum { TRIALS = 120000 };
    double sum = 0;
    for (int set = 0; set < 20; set++) {
        uint64_t seeds[5];
        static unsigned counts[3125];
        memset(counts, 0, sizeof counts);
        for (int i = 0; i < 5; i++) {
            char name[32];
            int size = snprintf(name, sizeof name, "node-%d-%d", set, i);
            seeds[i] = tr_hash_xxh3(name, (size_t)size);
        }
        for (uint64_t id = 0; id < TRIALS; id++) {
            uint64_t score[5];
            unsigned order = 0;
            for (int i = 0; i < 5; i++)
                score[i] = score_of_seed(tr_hash_mix(id), seeds[i]);
            for (int i = 0; i < 5; i++) {
                unsigned rank = 0;
                for (int j = 0; j < 5; j++)
                    rank += score[j] > score[i];
                order = order * 5 + rank;
            }
            counts[order]++;
        }
        for (int i = 0; i < 3125; i++) {
            double expected = TRIALS / 120.0;
            if (counts[i] > 0)
                sum += (counts[i] - expected) * (counts[i] - expected) / expected;
        }
    }
    assert_true(sum > 2380 - 5 * 69 && sum < 2380 + 5 * 69);
}

struct lanes {
    uint32_t low[LANES + TR_SCORE_BLOCK];
    uint32_t multiplier[LANES + TR_SCORE_BLOCK];
    uint32_t inverse[LANES + TR_SCORE_BLOCK];
};

static void fill(struct lanes *lanes, struct tr_random *random)
{
    for (size_t i = 0; i < LANES + TR_SCORE_BLOCK; i++) {
        lanes->low[i] = (uint32_t)tr_random_next(random);
        lanes->multiplier[i] = (uint32_t)tr_random_next(random) | 0x80000001u;
        lanes->inverse[i] = (uint32_t)tr_random_next(random);
    }
}

static void compare_blocks(const struct tr_lanes *lanes, uint64_t key, struct tr_random *random)
{
    enum tr_kernel best = tr_kernel_best();
    uint32_t ours[TR_SCORE_BLOCK];
    uint32_t portable[TR_SCORE_BLOCK];
    struct tr_block block = {tr_random_below(random, LANES),
                             1 + (uint32_t)tr_random_below(random, TR_SCORE_BLOCK)};
    assert_int_equal(tr_score_estimate(best, lanes, block, key, ours),
                     tr_score_estimate(TR_KERNEL_PORTABLE, lanes, block, key, portable));
    assert_memory_equal(ours, portable, sizeof ours);
    uint32_t limit = ours[tr_random_below(random, TR_SCORE_BLOCK)];
    assert_int_equal(tr_score_mask(best, ours, limit),
                     tr_score_mask(TR_KERNEL_PORTABLE, ours, limit));
    uint32_t least = (uint32_t)tr_random_next(random);
    if (lanes->inverse != NULL)
        assert_int_equal(tr_score_possible(best, lanes, block.count, key, least),
                         tr_score_possible(TR_KERNEL_PORTABLE, lanes, block.count, key, least));
}

static uint32_t least_of(const uint32_t *numbers, size_t count)
{
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < count; i++)
        least = numbers[i] < least ? numbers[i] : least;
    return least;
}

static void compare_minima(const struct tr_lanes *lanes, uint64_t key, struct tr_random *random)
{
    uint32_t ours[LANES / TR_SCORE_BLOCK];
    uint32_t portable[LANES / TR_SCORE_BLOCK];
    uint32_t groups[4];
    uint32_t portable_groups[4];
    size_t blocks = tr_random_below(random, LANES / TR_SCORE_BLOCK + 1);
    tr_score_minima(tr_kernel_best(), lanes, 0, blocks, key, ours, groups);
    tr_score_minima(TR_KERNEL_PORTABLE, lanes, 0, blocks, key, portable, portable_groups);
    assert_memory_equal(ours, portable, blocks * sizeof ours[0]);
    assert_int_equal(least_of(groups, 4), least_of(ours, blocks));
    assert_int_equal(least_of(portable_groups, 4), least_of(ours, blocks));
}

static void the_kernels_agree(void **state)
{
    (void)state;
    struct tr_random random = {11};
    static struct lanes lanes;
    for (int round = 0; round < 20000; round++) {
        if (round % 100 == 0)
            fill(&lanes, &random);
        uint64_t key = tr_random_next(&random);
        const struct tr_lanes plain = {lanes.low, lanes.multiplier, NULL};
        const struct tr_lanes weighted = {lanes.low, lanes.multiplier, lanes.inverse};
        compare_blocks(&plain, key, &random);
        compare_blocks(&weighted, key, &random);
        compare_minima(&plain, key, &random);
        compare_minima(&weighted, key, &random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_score_can_be_undone),
        cmocka_unit_test(every_bit_of_an_id_moves_every_bit_of_the_score),
        cmocka_unit_test(all_orders_of_five_nodes_are_as_likely),
        cmocka_unit_test(the_kernels_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
