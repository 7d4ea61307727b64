/* SPDX-License-Identifier: Apache-2.0 */
/* The shortcuts of a field against an order that works out every candidate and sorts them all. */
#include "base/hash.h"
#include "base/random.h"
#include "place/entry.h"
#include "unit.h"

#define MOST 300

struct fixture {
    uint32_t low[MOST + TR_SCORE_BLOCK];
    uint32_t multiplier[MOST + TR_SCORE_BLOCK];
    uint32_t inverse[MOST + TR_SCORE_BLOCK];
    uint64_t weight[MOST];
    struct tr_field field;
};

/* Weights as different as can be, alike, or equal. */
static uint64_t draw_weight(struct tr_random *random, unsigned kind)
{
    switch (kind % 4) {
    case 0:
        return TRYST_PLACE_WEIGHT_ONE;
    case 1:
        return TRYST_PLACE_WEIGHT_ONE * (1 + tr_random_below(random, 5));
    case 2:
        return TRYST_PLACE_WEIGHT_ONE + tr_random_below(random, 1000);
    default:
        return (uint64_t)1 << (16 + tr_random_below(random, 33));
    }
}

static void fill(struct fixture *fixture, struct tr_random *random, uint32_t count)
{
    const struct tr_candidates candidates = {.low = fixture->low,
                                             .multiplier = fixture->multiplier,
                                             .inverse = fixture->inverse,
                                             .weight = fixture->weight};
    unsigned kind = (unsigned)tr_random_below(random, 4);
    bool has_twins = tr_random_below(random, 8) == 0; /* equal seeds: ties to settle */
    for (uint32_t i = 0; i < count; i++) {
        uint64_t seed = has_twins ? tr_hash_mix(i / 3) : tr_random_next(random);
        tr_candidates_set(&candidates, i, seed, draw_weight(random, kind));
    }
    fixture->field = tr_field_make(&candidates, 0, count);
}

/* The model: the place of each candidate is the number of those before it. */
static void check(const struct fixture *fixture, const struct tr_scorer *scorer, uint64_t key,
                  size_t want)
{
    const struct tr_field *field = &fixture->field;
    struct tr_entry entries[MOST];
    uint32_t winners[MOST];
    void *scratch = malloc(tr_field_scratch_size(field->count, want) + 1);
    tr_field_rank(field, scorer, key, want, winners, scratch);
    for (size_t i = 0; i < field->count; i++)
        entries[i] =
            tr_entry_make(field, TR_METHOD_LOGARITHMIC, tr_score(&field->lanes, key, i), i);
    for (size_t place = 0; place < want; place++) {
        size_t before = 0;
        for (size_t i = 0; i < field->count; i++)
            before +=
                tr_entry_is_before(TR_METHOD_LOGARITHMIC, &entries[i], &entries[winners[place]]);
        assert_int_equal(before, place);
    }
    assert_int_equal(tr_field_first(field, scorer, key), winners[0]);
    free(scratch);
}

static void shortcuts_give_the_exact_order(void **state)
{
    (void)state;
    static struct fixture fixture;
    struct tr_random random = {17};
    for (int round = 0; round < 3000; round++) {
        uint32_t most = round % 3 == 0 ? MOST : round % 3 == 1 ? 40 : 8;
        uint32_t count = 1 + (uint32_t)tr_random_below(&random, most);
        fill(&fixture, &random, count);
        size_t want = 1 + tr_random_below(&random, count < 6 || round % 10 == 0 ? count : 5);
        const struct tr_scorer best = {.kernel = tr_kernel_best()};
        const struct tr_scorer portable = {.kernel = TR_KERNEL_PORTABLE};
        for (int i = 0; i < 4; i++) {
            uint64_t key = tr_random_next(&random);
            check(&fixture, &best, key, want);
            check(&fixture, &portable, key, want);
        }
    }
}

struct scored {
    uint64_t seed;
    uint64_t score;
};

static int by_score(const void *left, const void *right)
{
    const struct scored *a = left;
    const struct scored *b = right;
    return a->score < b->score ? -1 : a->score > b->score;
}

/* Two candidates whose scores differ in the low half only, the later one ahead, and nobody else
 * near: estimates cannot tell them apart, and must not try. */
static void equal_high_halves_are_told_apart(void **state)
{
    (void)state;
    enum { SEEDS = 1 << 19, KEY = 12345 };
    struct scored *drawn = calloc(SEEDS, sizeof *drawn);
    static struct fixture fixture;
    struct tr_random random = {29};
    for (size_t i = 0; i < SEEDS; i++) {
        drawn[i].seed = tr_random_next(&random);
        drawn[i].score =
            tr_score_of(KEY, tr_score_low(drawn[i].seed), tr_score_multiplier(drawn[i].seed));
    }
    qsort(drawn, SEEDS, sizeof *drawn, by_score);
    int pairs = 0;
    for (size_t i = SEEDS - 1; i > SEEDS / 2; i--) {
        if (drawn[i].score >> 32 != drawn[i - 1].score >> 32 ||
            drawn[i].score == drawn[i - 1].score)
            continue;
        pairs++;
        const struct tr_candidates candidates = {.low = fixture.low,
                                                 .multiplier = fixture.multiplier,
                                                 .inverse = fixture.inverse,
                                                 .weight = fixture.weight};
        for (size_t at = 0; at < 100; at++)
            tr_candidates_set(&candidates, at, drawn[at * 100].seed, TRYST_PLACE_WEIGHT_ONE);
        tr_candidates_set(&candidates, 20, drawn[i - 1].seed, TRYST_PLACE_WEIGHT_ONE);
        tr_candidates_set(&candidates, 70, drawn[i].seed, TRYST_PLACE_WEIGHT_ONE);
        fixture.field = tr_field_make(&candidates, 0, 100);
        for (size_t want = 1; want <= 3; want++) {
            check(&fixture, &(struct tr_scorer){.kernel = tr_kernel_best()}, KEY, want);
            check(&fixture, &(struct tr_scorer){.kernel = TR_KERNEL_PORTABLE}, KEY, want);
        }
    }
    assert_true(pairs > 0);
    free(drawn);
}

static void the_smallest_are_found(void **state)
{
    (void)state;
    struct tr_random random = {19};
    for (int round = 0; round < 2000; round++) {
        uint32_t numbers[64];
        size_t count = 1 + tr_random_below(&random, 64);
        size_t want = 1 + tr_random_below(&random, count < 16 ? count : 16);
        for (size_t i = 0; i < count; i++)
            numbers[i] = (uint32_t)tr_random_below(&random, 50);
        uint32_t found = tr_score_smallest(numbers, count, want);
        size_t below = 0;
        size_t equal = 0;
        for (size_t i = 0; i < count; i++) {
            below += numbers[i] < found;
            equal += numbers[i] == found;
        }
        assert_true(below < want && want <= below + equal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shortcuts_give_the_exact_order),
        cmocka_unit_test(equal_high_halves_are_told_apart),
        cmocka_unit_test(the_smallest_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
