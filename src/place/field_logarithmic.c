/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weighted highest random weight by the logarithmic method: weight / -log(u) decides, u = score /
 * 2^64.
 *
 * A logarithm and an exact comparison are spent only on candidates whose estimate does not settle
 * the matter. With x = 1 - u and cost = -log2(u):
 *
 *     x / ln 2 <= cost <= x / ln 2 (1 + x / (2 (1 - x)))
 *
 * and an estimate is x / weight in other units, so a candidate is at least as bad as its estimate
 * says, and at most so much worse (tr_score_bar). Every rounding is to the safe side: estimates
 * save time, they decide nothing that the exact order would not.
 */
#include "base/assert.h"
#include "place/entry.h"

#define METHOD       TR_METHOD_LOGARITHMIC
#define HANDFUL      3     /* worked out in full, all of them */
#define COST_SLOPE   23636 /* 2^14 / ln 2, less a little more than the error of the cost */
#define CHUNK_BLOCKS 64    /* blocks between two looks at the bar */

struct race {
    const struct tr_field *field;
    enum tr_kernel kernel;
    uint64_t key;
    struct tr_short_list list;
    uint32_t limit; /* what an estimate may be at most */
};

/* The largest estimate of a candidate that could still beat the last of the list. */
static uint32_t limit_of(const struct race *race)
{
    if (race->list.count < race->list.want)
        return UINT32_MAX;
    const struct tr_entry *last = &race->list.entries[race->list.want - 1];
    uint64_t inverse = (uint64_t)race->field->lanes.inverse[last->index] + 1;
    uint64_t limit = (uint64_t)((tr_u128)last->cost * inverse >> 32) / COST_SLOPE + 1;
    return limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
}

static void offer(struct race *race, size_t index)
{
    uint64_t raw = tr_score(&race->field->lanes, race->key, index);
    if (tr_short_list_offer(&race->list, METHOD, tr_entry_make(race->field, METHOD, raw, index))) {
        uint32_t limit = limit_of(race);
        race->limit = limit < race->limit ? limit : race->limit;
    }
}

static void offer_mask(struct race *race, size_t first, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1)
        offer(race, first + (size_t)__builtin_ctz(mask));
}

/* Looks into a block: while places are free, as many of the most promising as there are places;
 * then all that could still beat them. */
static void open_block(struct race *race, struct tr_block block)
{
    TR_ASSERT(block.count <= TR_SCORE_BLOCK && block.first + block.count <= race->field->count);
    TR_ASSERT(race->list.count <= race->list.want);
    uint32_t estimates[TR_SCORE_BLOCK];
    uint32_t all = (1u << block.count) - 1;
    uint32_t promising =
        tr_score_estimate(race->kernel, &race->field->lanes, block, race->key, estimates);
    size_t missing = race->list.want - race->list.count;
    uint32_t offered = 0;
    if (missing > 0 && missing < block.count) {
        if (missing > 1)
            promising = tr_score_smallest(estimates, block.count, missing);
        offered = tr_score_mask(race->kernel, estimates, promising) & all;
        offer_mask(race, block.first, offered);
    }
    uint32_t possible = tr_score_mask(race->kernel, estimates, race->limit) & all;
    offer_mask(race, block.first, possible & ~offered);
}

static void scan_chunk(struct race *race, size_t first, size_t blocks)
{
    TR_ASSERT(blocks >= 1 && blocks <= CHUNK_BLOCKS);
    uint32_t minima[CHUNK_BLOCKS];
    uint32_t groups[4];
    tr_score_minima(race->kernel, &race->field->lanes, first, blocks, race->key, minima, groups);
    size_t want = race->list.want;
    uint32_t within = UINT32_MAX;
    if (want <= 4)
        within = tr_score_smallest(groups, 4, want);
    else if (want <= blocks)
        within = tr_score_smallest(minima, blocks, want);
    uint32_t bar = tr_score_bar(within, race->field->inverse_least);
    race->limit = bar < race->limit ? bar : race->limit;
    for (size_t i = 0; i < blocks; i++) {
        if (minima[i] <= race->limit)
            open_block(race, (struct tr_block){first + i * TR_SCORE_BLOCK, TR_SCORE_BLOCK});
    }
}

static void scan(struct race *race)
{
    size_t blocks = race->field->count / TR_SCORE_BLOCK;
    size_t done = 0;
    while (blocks > 1 && done < blocks) {
        size_t here = blocks - done < CHUNK_BLOCKS ? blocks - done : CHUNK_BLOCKS;
        scan_chunk(race, done * TR_SCORE_BLOCK, here);
        done += here;
    }
    struct tr_block block = {done * TR_SCORE_BLOCK, TR_SCORE_BLOCK};
    for (; block.first < race->field->count; block.first += TR_SCORE_BLOCK) {
        if (race->field->count - block.first < TR_SCORE_BLOCK)
            block.count = race->field->count - (uint32_t)block.first;
        open_block(race, block);
    }
}

/* Who beats whom, counted: no branch to guess. Inlined with a constant count, it unrolls to
 * straight code. */
static inline void rank_by_counting(const struct tr_field *field, uint64_t key, size_t count,
                                    size_t want, uint32_t *winners)
{
    TR_ASSERT(count <= HANDFUL && want <= count);
    struct tr_entry entries[HANDFUL];
    uint32_t beaten_by[HANDFUL] = {0};
    uint32_t order[HANDFUL] = {0};
    for (size_t i = 0; i < count; i++) {
        entries[i] = tr_entry_make(field, METHOD, tr_score(&field->lanes, key, i), i);
        for (size_t earlier = 0; earlier < i; earlier++) {
            uint32_t is_before = tr_entry_is_before(METHOD, &entries[i], &entries[earlier]);
            beaten_by[earlier] += is_before;
            beaten_by[i] += 1 - is_before;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        order[beaten_by[i]] = i;
    for (size_t i = 0; i < want; i++)
        winners[i] = order[i];
}

void tr_field_rank_logarithmic(const struct tr_field *field, enum tr_kernel kernel, uint64_t key,
                               size_t want, uint32_t *winners)
{
    if (field->count == 2) {
        rank_by_counting(field, key, 2, want, winners);
        return;
    }
    if (field->count == HANDFUL) {
        rank_by_counting(field, key, HANDFUL, want, winners);
        return;
    }
    TR_ASSERT(want >= 1 && want <= TR_FIELD_FEW && want <= field->count);
    struct race race;
    race.field = field;
    race.kernel = kernel;
    race.key = key;
    race.list.count = 0;
    race.list.want = want;
    race.limit = UINT32_MAX;
    scan(&race);
    TR_ASSERT(race.list.count == want);
    for (size_t i = 0; i < want; i++)
        winners[i] = race.list.entries[i].index;
}
