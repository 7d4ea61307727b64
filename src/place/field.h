/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A field of candidates, and who wins it: highest random weight.
 *
 * Every strategy that hashes a key against candidates (nodes, zones, clusters) asks a field for its
 * first few in order. Candidates are numbered from 0 in the order that settles ties.
 *
 * Owns:   nothing; the arrays belong to the map.
 * Order:  by the field's method, then the larger raw score, then the lower number.
 */
#ifndef TR_PLACE_FIELD_H
#define TR_PLACE_FIELD_H

#include "place/score.h"

#include <stdbool.h>
#include <tryst/place.h>

#define TR_FIELD_FEW 16 /* winners that fit on the stack: more want a workspace */

enum tr_method {
    TR_METHOD_PLAIN,       /* the raw score alone: all weights are equal */
    TR_METHOD_LOGARITHMIC, /* weight / -log(score), as an exact fraction */
    TR_METHOD_MULTIPLIED,  /* score x factor, in 128 bits */
};

/* How raw scores are made. */
struct tr_scorer {
    const struct tryst_place_hash *hash; /* NULL, or one with a `score` to use instead of ours */
    const uint64_t *seed; /* what it gets for each candidate; NULL: put together from the lanes */
    enum tr_kernel kernel;
};

struct tr_field {
    struct tr_lanes lanes;  /* with inverses if the method is TR_METHOD_LOGARITHMIC */
    const uint64_t *weight; /* weights, or factors; unused by TR_METHOD_PLAIN */
    uint32_t count;
    uint32_t inverse_least;
    enum tr_method method;
};

/* The arrays of several fields, one after another, while a map is being built. */
struct tr_candidates {
    uint32_t *low;
    uint32_t *multiplier;
    uint32_t *inverse;
    uint64_t *weight;
};

/* Writes seed and weight of candidate `index`. */
void tr_candidates_set(const struct tr_candidates *candidates, size_t index, uint64_t seed,
                       uint64_t weight);

/* Makes a field of `count` candidates from `first` on: logarithmic, or plain if their weights are
 * equal. */
struct tr_field tr_field_make(const struct tr_candidates *candidates, size_t first, uint32_t count);

/* Bytes of scratch to rank `want` of `count` candidates. */
size_t tr_field_scratch_size(size_t count, size_t want);

/* Writes the numbers of the first `want` candidates, `want` <= count. */
void tr_field_rank(const struct tr_field *field, const struct tr_scorer *scorer, uint64_t key,
                   size_t want, uint32_t *winners, void *scratch);

/* The number of the first candidate alone. */
uint32_t tr_field_first(const struct tr_field *field, const struct tr_scorer *scorer, uint64_t key);

/* Two of the methods have a file of their own: at most TR_FIELD_FEW winners, our own score. */
void tr_field_rank_plain(const struct tr_field *field, enum tr_kernel kernel, uint64_t key,
                         size_t want, uint32_t *winners);
void tr_field_rank_logarithmic(const struct tr_field *field, enum tr_kernel kernel, uint64_t key,
                               size_t want, uint32_t *winners);

#endif
