/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields: how they are made, and the ways to rank them that look at every candidate in full: few
 * winners on a short list, many from a heap.
 */
#include "place/field.h"

#include "base/assert.h"
#include "base/heap.h"
#include "place/entry.h"

static uint64_t raw_score(const struct tr_field *field, const struct tr_scorer *scorer,
                          uint64_t key, size_t index)
{
    if (scorer->hash == NULL)
        return tr_score(&field->lanes, key, index);
    uint64_t seed = scorer->seed != NULL
                        ? scorer->seed[index]
                        : (uint64_t)field->lanes.multiplier[index] << 32 | field->lanes.low[index];
    return scorer->hash->score(scorer->hash->context, key, seed);
}

static void rank_each(const struct tr_field *field, const struct tr_scorer *scorer, uint64_t key,
                      size_t want, uint32_t *winners)
{
    TR_ASSERT(want <= TR_FIELD_FEW);
    struct tr_short_list list;
    list.count = 0;
    list.want = want;
    for (size_t i = 0; i < field->count; i++) {
        uint64_t raw = raw_score(field, scorer, key, i);
        tr_short_list_offer(&list, field->method, tr_entry_make(field, field->method, raw, i));
    }
    TR_ASSERT(list.count == want);
    for (size_t i = 0; i < want; i++)
        winners[i] = list.entries[i].index;
}

struct ballot {
    const struct tr_field *field;
    const struct tr_entry *entries;
};

static bool entry_is_before(const void *context, uint32_t a, uint32_t b)
{
    const struct ballot *ballot = context;
    return tr_entry_is_before(ballot->field->method, &ballot->entries[a], &ballot->entries[b]);
}

size_t tr_field_scratch_size(size_t count, size_t want)
{
    return want <= TR_FIELD_FEW ? 0 : count * (sizeof(struct tr_entry) + sizeof(uint32_t));
}

static void rank_many(const struct tr_field *field, const struct tr_scorer *scorer, uint64_t key,
                      size_t want, uint32_t *winners, void *scratch)
{
    TR_ASSERT(want > TR_FIELD_FEW);
    struct tr_entry *entries = scratch;
    uint32_t *items = (uint32_t *)(void *)(entries + field->count);
    for (uint32_t i = 0; i < field->count; i++) {
        entries[i] = tr_entry_make(field, field->method, raw_score(field, scorer, key, i), i);
        items[i] = i;
    }
    const struct ballot ballot = {field, entries};
    tr_heap_take(items, field->count, entry_is_before, &ballot, want, winners);
}

void tr_field_rank(const struct tr_field *field, const struct tr_scorer *scorer, uint64_t key,
                   size_t want, uint32_t *winners, void *scratch)
{
    TR_ASSERT(want >= 1 && want <= field->count);
    if (want > TR_FIELD_FEW) {
        TR_ASSERT(scratch != NULL);
        rank_many(field, scorer, key, want, winners, scratch);
    } else if (scorer->hash != NULL || field->method == TR_METHOD_MULTIPLIED) {
        rank_each(field, scorer, key, want, winners);
    } else if (field->method == TR_METHOD_PLAIN) {
        tr_field_rank_plain(field, scorer->kernel, key, want, winners);
    } else {
        tr_field_rank_logarithmic(field, scorer->kernel, key, want, winners);
    }
}

/* The winner among the candidates whose bits are set: most often there is one, and the estimates
 * alone have told. */
static uint32_t first_of(const struct tr_field *field, uint64_t key, uint32_t possible)
{
    TR_ASSERT(possible != 0);
    uint32_t winner = (uint32_t)__builtin_ctz(possible);
    possible &= possible - 1;
    if (possible == 0)
        return winner;
    const enum tr_method method = TR_METHOD_LOGARITHMIC;
    struct tr_entry best =
        tr_entry_make(field, method, tr_score(&field->lanes, key, winner), winner);
    for (; possible != 0; possible &= possible - 1) {
        size_t index = (size_t)__builtin_ctz(possible);
        struct tr_entry entry =
            tr_entry_make(field, method, tr_score(&field->lanes, key, index), index);
        if (tr_entry_is_before(method, &entry, &best))
            best = entry;
    }
    return best.index;
}

uint32_t tr_field_first(const struct tr_field *field, const struct tr_scorer *scorer, uint64_t key)
{
    uint32_t winner;
    if (field->method == TR_METHOD_LOGARITHMIC && field->count <= TR_SCORE_BLOCK &&
        scorer->hash == NULL)
        winner = first_of(field, key,
                          tr_score_possible(scorer->kernel, &field->lanes, field->count, key,
                                            field->inverse_least));
    else
        tr_field_rank(field, scorer, key, 1, &winner, NULL);
    return winner;
}

void tr_candidates_set(const struct tr_candidates *candidates, size_t index, uint64_t seed,
                       uint64_t weight)
{
    TR_ASSERT(weight > 0);
    candidates->low[index] = tr_score_low(seed);
    candidates->multiplier[index] = tr_score_multiplier(seed);
    candidates->weight[index] = weight;
}

struct tr_field tr_field_make(const struct tr_candidates *candidates, size_t first, uint32_t count)
{
    TR_ASSERT(count >= 1);
    const uint64_t *weight = candidates->weight + first;
    uint64_t lightest = UINT64_MAX;
    uint64_t heaviest = 0;
    for (size_t i = 0; i < count; i++) {
        TR_ASSERT(weight[i] > 0);
        lightest = weight[i] < lightest ? weight[i] : lightest;
        heaviest = weight[i] > heaviest ? weight[i] : heaviest;
    }
    for (size_t i = 0; i < count; i++) {
        tr_u128 inverse = ((tr_u128)lightest << 32) / weight[i];
        candidates->inverse[first + i] = inverse > UINT32_MAX ? UINT32_MAX : (uint32_t)inverse;
    }
    TR_ASSERT(heaviest > 0);
    bool are_equal = lightest == heaviest;
    return (struct tr_field){
        .lanes = {.low = candidates->low + first,
                  .multiplier = candidates->multiplier + first,
                  .inverse = are_equal ? NULL : candidates->inverse + first},
        .weight = weight,
        .count = count,
        .inverse_least = (uint32_t)(((tr_u128)lightest << 32) / heaviest),
        .method = are_equal ? TR_METHOD_PLAIN : TR_METHOD_LOGARITHMIC,
    };
}
