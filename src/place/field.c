/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Few winners are kept in a small sorted array, and nearly all candidates are thrown out by a comparison of 32 bits before
 * their score or its logarithm is worked out in full:
 *
 *   - plain: a kernel gives the largest high half of each block of 16; only blocks that reach the worst winner so far
 *     are looked into. The worst of four groups' maxima tells that bar in advance.
 *   - logarithmic: -log2(u) >= (1 - u) / ln 2, so a candidate whose 1 - u is too large for its weight has lost already.
 *
 * Neither changes an answer: what passes is compared exactly. Many winners (more than TR_FIELD_FEW) are taken from a
 * heap of all candidates.
 */
#include "place/field.h"

#include "base/assert.h"
#include "base/heap.h"
#include "base/wide.h"
#include "place/logarithm.h"

#include <string.h>

/* floor(2^14 / ln 2), less one: below the slope of the cost at 1 by more than its error. */
#define COST_SLOPE 23636u

#define CHUNK_BLOCKS 64 /* blocks between two looks at the bar */

struct entry {
    uint64_t raw;
    uint64_t cost; /* logarithmic: -log2(raw) */
    uint64_t weight;
    uint32_t index;
};

struct winners {
    struct entry entries[TR_FIELD_FEW];
    size_t count;
    size_t want;
};

static uint64_t raw_score(const struct tr_field *field, const struct tr_scorer *scorer,
                          uint64_t key, size_t index)
{
    if (scorer->hash != NULL)
        return scorer->hash->score(scorer->hash->context, key, field->seed[index]);
    return tr_score(key, field->lanes.low[index], field->lanes.multiplier[index]);
}

/* -1, 0 or 1 as a is before, level with or behind b by the field's method. */
static int compare_by_method(enum tr_method method, const struct entry *a, const struct entry *b)
{
    tr_u128 left = 0;
    tr_u128 right = 0;
    switch (method) {
    case TR_METHOD_PLAIN:
        break;
    case TR_METHOD_LOGARITHMIC:
        left = (tr_u128)b->cost * a->weight;
        right = (tr_u128)a->cost * b->weight;
        break;
    case TR_METHOD_MULTIPLIED:
        left = (tr_u128)a->raw * a->weight;
        right = (tr_u128)b->raw * b->weight;
        break;
    }
    return left > right ? -1 : left < right;
}

static bool is_before(enum tr_method method, const struct entry *a, const struct entry *b)
{
    int by_method = compare_by_method(method, a, b);
    if (by_method != 0)
        return by_method < 0;
    if (a->raw != b->raw)
        return a->raw > b->raw;
    return a->index < b->index;
}

static struct entry make_entry(const struct tr_field *field, uint64_t raw, size_t index)
{
    struct entry entry = {.raw = raw, .index = (uint32_t)index};
    if (field->method != TR_METHOD_PLAIN)
        entry.weight = field->weight[index];
    if (field->method == TR_METHOD_LOGARITHMIC)
        entry.cost = tr_logarithm_cost(raw);
    return entry;
}

/* Inserts `entry` in its place; true if it is among the winners. */
static inline bool offer(struct winners *winners, enum tr_method method, struct entry entry)
{
    if (winners->count == winners->want) {
        if (!is_before(method, &entry, &winners->entries[winners->want - 1]))
            return false;
    } else {
        winners->count++;
    }
    size_t at = winners->count - 1;
    for (; at > 0 && is_before(method, &entry, &winners->entries[at - 1]); at--)
        winners->entries[at] = winners->entries[at - 1];
    winners->entries[at] = entry;
    return true;
}

/* The high half that a candidate needs at least; 0 while not all places are taken. */
static uint32_t plain_bar(const struct winners *winners)
{
    return winners->count < winners->want ? 0
                                          : (uint32_t)(winners->entries[winners->want - 1].raw >> 32);
}

/* Offers candidates `first` to `end`; those whose high half is under `bar` are known to lose. */
static void offer_plain(struct winners *winners, const struct tr_field *field, uint64_t key,
                        size_t first, size_t end, uint32_t bar)
{
    for (size_t i = first; i < end; i++) {
        uint64_t raw = tr_score(key, field->lanes.low[i], field->lanes.multiplier[i]);
        uint32_t high = (uint32_t)(raw >> 32);
        if (high >= bar && high >= plain_bar(winners))
            offer(winners, TR_METHOD_PLAIN, (struct entry){.raw = raw, .index = (uint32_t)i});
    }
}

/* The worst of the best `want` of four groups: at least `want` candidates reach it. */
static uint32_t bar_of_groups(const uint32_t groups[4], size_t want)
{
    uint32_t sorted[4];
    for (size_t i = 0; i < 4; i++) {
        size_t at = i;
        for (; at > 0 && groups[i] > sorted[at - 1]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = groups[i];
    }
    return want <= 4 ? sorted[want - 1] : 0;
}

static void rank_plain(struct winners *winners, const struct tr_field *field,
                       enum tr_kernel kernel, uint64_t key)
{
    size_t blocks = field->count / TR_SCORE_BLOCK;
    if (blocks < 2)
        blocks = 0;
    for (size_t block = 0; block < blocks;) {
        size_t here = blocks - block < CHUNK_BLOCKS ? blocks - block : CHUNK_BLOCKS;
        uint32_t maxima[CHUNK_BLOCKS];
        uint32_t groups[4];
        tr_score_maxima(kernel, field->lanes, block * TR_SCORE_BLOCK, here, key, maxima, groups);
        uint32_t bar = bar_of_groups(groups, winners->want);
        for (size_t i = 0; i < here; i++) {
            if (maxima[i] < bar || maxima[i] < plain_bar(winners))
                continue;
            size_t first = (block + i) * TR_SCORE_BLOCK;
            offer_plain(winners, field, key, first, first + TR_SCORE_BLOCK, bar);
        }
        block += here;
    }
    offer_plain(winners, field, key, blocks * TR_SCORE_BLOCK, field->count, 0);
}

/* What 1 - u may be at most, as a multiple of the coarse weight: (multiple x coarse weight) >> shift. */
struct filter {
    uint64_t multiple;
    unsigned shift;
    bool is_open; /* everything passes */
};

/* A candidate loses if COST_SLOPE x (1 - u) / weight exceeds the worst winner's cost / weight. Every rounding below widens
 * the filter. */
static struct filter make_filter(const struct winners *winners, const struct tr_field *field)
{
    const struct entry *worst = &winners->entries[winners->want - 1];
    uint64_t worst_weight = worst->weight >> field->coarse_shift;
    if (winners->count < winners->want || worst_weight == 0)
        return (struct filter){.is_open = true};
    unsigned shift = (unsigned)__builtin_clzll(worst->cost);
    uint64_t multiple = (worst->cost << shift) / (COST_SLOPE * worst_weight) + 1;
    unsigned bits = 64 - (unsigned)__builtin_clzll(multiple);
    unsigned excess = bits > 32 ? bits - 32 : 0;
    if (excess > shift)
        return (struct filter){.is_open = true};
    return (struct filter){.multiple = (multiple >> excess) + 1, .shift = shift - excess};
}

static inline bool passes(struct filter filter, uint32_t high, uint32_t weight_coarse)
{
    return filter.is_open || (uint32_t)~high <= filter.multiple * weight_coarse >> filter.shift;
}

static void rank_logarithmic(struct winners *winners, const struct tr_field *field,
                             enum tr_kernel kernel, uint64_t key)
{
    struct filter filter = {.is_open = true};
    for (size_t first = 0; first < field->count; first += TR_SCORE_BLOCK) {
        uint32_t high[TR_SCORE_BLOCK];
        size_t here = field->count - first;
        if (here >= TR_SCORE_BLOCK) {
            here = TR_SCORE_BLOCK;
            tr_score_high(kernel, field->lanes, first, key, high);
        } else {
            for (size_t i = 0; i < here; i++)
                high[i] = (uint32_t)(tr_score(key, field->lanes.low[first + i],
                                              field->lanes.multiplier[first + i]) >>
                                     32);
        }
        for (size_t i = 0; i < here; i++) {
            size_t index = first + i;
            if (!passes(filter, high[i], field->weight_coarse[index]))
                continue;
            uint64_t raw = tr_score(key, field->lanes.low[index], field->lanes.multiplier[index]);
            if (offer(winners, TR_METHOD_LOGARITHMIC, make_entry(field, raw, index)))
                filter = make_filter(winners, field);
        }
    }
}

/* For injected scores and for factors: every candidate in full. */
static void rank_each(struct winners *winners, const struct tr_field *field,
                      const struct tr_scorer *scorer, uint64_t key)
{
    for (size_t i = 0; i < field->count; i++)
        offer(winners, field->method, make_entry(field, raw_score(field, scorer, key, i), i));
}

static void rank_few(const struct tr_field *field, const struct tr_scorer *scorer, uint64_t key,
                     size_t want, uint32_t *numbers)
{
    struct winners winners;
    winners.count = 0;
    winners.want = want;
    if (scorer->hash != NULL || field->method == TR_METHOD_MULTIPLIED)
        rank_each(&winners, field, scorer, key);
    else if (field->method == TR_METHOD_PLAIN)
        rank_plain(&winners, field, scorer->kernel, key);
    else
        rank_logarithmic(&winners, field, scorer->kernel, key);
    TR_ASSERT(winners.count == want);
    for (size_t i = 0; i < want; i++)
        numbers[i] = winners.entries[i].index;
}

struct ballot {
    const struct tr_field *field;
    const struct entry *entries;
};

static bool entry_is_before(const void *context, uint32_t a, uint32_t b)
{
    const struct ballot *ballot = context;
    return is_before(ballot->field->method, &ballot->entries[a], &ballot->entries[b]);
}

size_t tr_field_scratch_size(size_t count, size_t want)
{
    return want <= TR_FIELD_FEW ? 0 : count * (sizeof(struct entry) + sizeof(uint32_t));
}

static void rank_many(const struct tr_field *field, const struct tr_scorer *scorer, uint64_t key,
                      size_t want, uint32_t *numbers, void *scratch)
{
    struct entry *entries = scratch;
    uint32_t *items = (uint32_t *)(void *)(entries + field->count);
    for (uint32_t i = 0; i < field->count; i++) {
        entries[i] = make_entry(field, raw_score(field, scorer, key, i), i);
        items[i] = i;
    }
    const struct ballot ballot = {field, entries};
    tr_heap_take(items, field->count, entry_is_before, &ballot, want, numbers);
}

void tr_field_rank(const struct tr_field *field, const struct tr_scorer *scorer, uint64_t key,
                   size_t want, uint32_t *winners, void *scratch)
{
    TR_ASSERT(want >= 1 && want <= field->count);
    if (want <= TR_FIELD_FEW)
        rank_few(field, scorer, key, want, winners);
    else
        rank_many(field, scorer, key, want, winners, scratch);
}

void tr_candidates_set(const struct tr_candidates *candidates, size_t index, uint64_t seed,
                       uint64_t weight)
{
    candidates->low[index] = tr_score_low(seed);
    candidates->multiplier[index] = tr_score_multiplier(seed);
    candidates->seed[index] = seed;
    candidates->weight[index] = weight;
}

struct tr_field tr_field_make(const struct tr_candidates *candidates, size_t first, uint32_t count)
{
    const uint64_t *weight = candidates->weight + first;
    uint64_t largest = 0;
    bool are_equal = true;
    for (size_t i = 0; i < count; i++) {
        TR_ASSERT(weight[i] > 0);
        largest = weight[i] > largest ? weight[i] : largest;
        are_equal = are_equal && weight[i] == weight[0];
    }
    unsigned bits = 64 - (unsigned)__builtin_clzll(largest);
    unsigned shift = bits > 31 ? bits - 31 : 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t rest = weight[i] & (((uint64_t)1 << shift) - 1);
        candidates->weight_coarse[first + i] = (uint32_t)(weight[i] >> shift) + (rest != 0);
    }
    return (struct tr_field){
        .lanes = {candidates->low + first, candidates->multiplier + first},
        .seed = candidates->seed + first,
        .weight = weight,
        .weight_coarse = candidates->weight_coarse + first,
        .count = count,
        .coarse_shift = (uint8_t)shift,
        .method = are_equal ? TR_METHOD_PLAIN : TR_METHOD_LOGARITHMIC,
    };
}
