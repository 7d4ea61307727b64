/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A candidate worked out in full, the exact order of two, and a short list of the best so far.
 */
#ifndef TR_PLACE_ENTRY_H
#define TR_PLACE_ENTRY_H

#include "base/wide.h"
#include "place/field.h"
#include "place/logarithm.h"

struct tr_entry {
    uint64_t raw;
    uint64_t cost; /* TR_METHOD_LOGARITHMIC: -log2(raw) */
    uint64_t weight;
    uint32_t index;
};

static inline struct tr_entry tr_entry_make(const struct tr_field *field, enum tr_method method,
                                            uint64_t raw, size_t index)
{
    return (struct tr_entry){
        .raw = raw,
        .cost = method == TR_METHOD_LOGARITHMIC ? tr_logarithm_cost(raw) : 0,
        .weight = method == TR_METHOD_PLAIN ? 1 : field->weight[index],
        .index = (uint32_t)index,
    };
}

/* Does `a` come before `b`? A fraction is compared by multiplying out: nothing is rounded. */
static inline bool tr_entry_is_before(enum tr_method method, const struct tr_entry *a,
                                      const struct tr_entry *b)
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
    if (left != right)
        return left > right;
    return a->raw != b->raw ? a->raw > b->raw : a->index < b->index;
}

/* The best entries so far, in order. */
struct tr_short_list {
    struct tr_entry entries[TR_FIELD_FEW];
    size_t count;
    size_t want;
};

/* Puts `entry` in its place; false if it is not among the best. */
static inline bool tr_short_list_offer(struct tr_short_list *list, enum tr_method method,
                                       struct tr_entry entry)
{
    if (list->count < list->want)
        list->count++;
    else if (!tr_entry_is_before(method, &entry, &list->entries[list->want - 1]))
        return false;
    size_t at = list->count - 1;
    for (; at > 0 && tr_entry_is_before(method, &entry, &list->entries[at - 1]); at--)
        list->entries[at] = list->entries[at - 1];
    list->entries[at] = entry;
    return true;
}

#endif
