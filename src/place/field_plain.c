/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain highest random weight: the largest raw scores win.
 *
 * A handful of candidates are ranked by counting who beats whom, some more by picking the best
 * again and again; neither has a branch that depends on the scores, which no predictor could guess.
 * Many are scanned in blocks, and only a block whose smallest estimate is within the bar is looked
 * into.
 */
#include "base/assert.h"
#include "place/field.h"

#define HANDFUL      6                    /* ranked by counting */
#define DOZEN        10                   /* ranked by counting if more than a few are wanted */
#define SOME         (2 * TR_SCORE_BLOCK) /* ranked by picking, if not many are wanted */
#define CHUNK_BLOCKS 64                   /* blocks between two looks at the bar */

/* Inlined with a constant count, it unrolls to straight code. */
static inline void rank_by_counting(const struct tr_field *field, uint64_t key, size_t count,
                                    size_t want, uint32_t *winners)
{
    TR_ASSERT(count <= DOZEN && want <= count);
    uint64_t raw[DOZEN];
    uint32_t beaten_by[DOZEN] = {0};
    uint32_t order[DOZEN] = {0};
    for (size_t i = 0; i < count; i++) {
        raw[i] = tr_score(&field->lanes, key, i);
        for (size_t earlier = 0; earlier < i; earlier++) {
            uint32_t is_larger = raw[i] > raw[earlier];
            beaten_by[earlier] += is_larger;
            beaten_by[i] += 1 - is_larger;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        order[beaten_by[i]] = i;
    for (size_t i = 0; i < want; i++)
        winners[i] = order[i];
}

static void rank_handful(const struct tr_field *field, uint64_t key, size_t want, uint32_t *winners)
{
    switch (field->count) {
    case 2:
        rank_by_counting(field, key, 2, want, winners);
        break;
    case 3:
        rank_by_counting(field, key, 3, want, winners);
        break;
    case 4:
        rank_by_counting(field, key, 4, want, winners);
        break;
    default:
        rank_by_counting(field, key, field->count, want, winners);
        break;
    }
}

static void rank_some(const struct tr_field *field, uint64_t key, size_t want, uint32_t *winners)
{
    TR_ASSERT(field->count <= SOME && want <= field->count);
    uint64_t raw[SOME];
    for (size_t i = 0; i < field->count; i++)
        raw[i] = tr_score(&field->lanes, key, i);
    uint64_t last = UINT64_MAX;
    for (size_t place = 0; place < want; place++) {
        /* The largest below the last winner; at equal scores, the next in number. */
        uint64_t best = 0;
        uint32_t best_index = UINT32_MAX;
        for (uint32_t i = 0; i < field->count; i++) {
            bool is_after =
                raw[i] < last || (raw[i] == last && place > 0 && i > winners[place - 1]);
            bool is_better =
                (is_after || place == 0) && (raw[i] > best || best_index == UINT32_MAX);
            best = is_better ? raw[i] : best;
            best_index = is_better ? i : best_index;
        }
        last = best;
        winners[place] = best_index;
    }
}

/* The best so far, in order. Candidates come in the order of their numbers, so an equal score is a
 * loss. */
struct podium {
    uint64_t raw[TR_FIELD_FEW];
    uint32_t index[TR_FIELD_FEW];
    size_t count;
    size_t want;
};

static inline void offer(struct podium *podium, uint64_t raw, uint32_t index)
{
    if (podium->count < podium->want)
        podium->count++;
    else if (raw <= podium->raw[podium->want - 1])
        return;
    size_t at = podium->count - 1;
    for (; at > 0 && raw > podium->raw[at - 1]; at--) {
        podium->raw[at] = podium->raw[at - 1];
        podium->index[at] = podium->index[at - 1];
    }
    podium->raw[at] = raw;
    podium->index[at] = index;
}

/* What an estimate may be at most. */
static uint32_t bar(const struct podium *podium)
{
    if (podium->count < podium->want)
        return UINT32_MAX;
    return ~(uint32_t)(podium->raw[podium->want - 1] >> 32);
}

/* Looks into one block: offers what is within the limit. */
static void open_block(struct podium *podium, const struct tr_field *field, enum tr_kernel kernel,
                       uint64_t key, struct tr_block block, uint32_t limit)
{
    TR_ASSERT(block.count <= TR_SCORE_BLOCK && block.first + block.count <= field->count);
    uint32_t estimates[TR_SCORE_BLOCK];
    tr_score_estimate(kernel, &field->lanes, block, key, estimates);
    uint32_t mask = tr_score_mask(kernel, estimates, limit) & ((1u << block.count) - 1);
    for (; mask != 0; mask &= mask - 1) {
        size_t index = block.first + (size_t)__builtin_ctz(mask);
        offer(podium, tr_score(&field->lanes, key, index), (uint32_t)index);
    }
}

/* As many candidates as are wanted are within this estimate. */
static uint32_t bar_of_chunk(const uint32_t *minima, size_t blocks, const uint32_t groups[4],
                             size_t want)
{
    TR_ASSERT(want >= 1 && blocks <= CHUNK_BLOCKS);
    if (want <= 4)
        return tr_score_smallest(groups, 4, want);
    return want <= blocks ? tr_score_smallest(minima, blocks, want) : UINT32_MAX;
}

static void rank_many_blocks(struct podium *podium, const struct tr_field *field,
                             enum tr_kernel kernel, uint64_t key)
{
    size_t blocks = field->count / TR_SCORE_BLOCK;
    for (size_t done = 0; done < blocks;) {
        size_t here = blocks - done < CHUNK_BLOCKS ? blocks - done : CHUNK_BLOCKS;
        uint32_t minima[CHUNK_BLOCKS];
        uint32_t groups[4];
        tr_score_minima(kernel, &field->lanes, done * TR_SCORE_BLOCK, here, key, minima, groups);
        uint32_t limit = bar_of_chunk(minima, here, groups, podium->want);
        limit = bar(podium) < limit ? bar(podium) : limit;
        for (size_t i = 0; i < here; i++) {
            if (minima[i] > limit)
                continue;
            struct tr_block block = {(done + i) * TR_SCORE_BLOCK, TR_SCORE_BLOCK};
            open_block(podium, field, kernel, key, block, limit);
            limit = bar(podium) < limit ? bar(podium) : limit;
        }
        done += here;
    }
    struct tr_block rest = {blocks * TR_SCORE_BLOCK, field->count % TR_SCORE_BLOCK};
    if (rest.count > 0)
        open_block(podium, field, kernel, key, rest, bar(podium));
}

void tr_field_rank_plain(const struct tr_field *field, enum tr_kernel kernel, uint64_t key,
                         size_t want, uint32_t *winners)
{
    if (field->count <= HANDFUL || (field->count <= DOZEN && want > 3)) {
        rank_handful(field, key, want, winners);
    } else if (field->count < SOME && want <= 6) {
        rank_some(field, key, want, winners);
    } else {
        TR_ASSERT(want >= 1);
        TR_ASSERT(want <= TR_FIELD_FEW && want <= field->count);
        struct podium podium;
        podium.count = 0;
        podium.want = want;
        rank_many_blocks(&podium, field, kernel, key);
        TR_ASSERT(podium.count == want);
        for (size_t i = 0; i < want; i++)
            winners[i] = podium.index[i];
    }
}
