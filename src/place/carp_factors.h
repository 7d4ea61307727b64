/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load factors of the 1998 CARP draft: what each node's score is multiplied by, so that its
 * share of the keys is its share of the weights. In integers that any language can follow:
 * docs/placement.md, "carp".
 */
#ifndef TR_PLACE_CARP_FACTORS_H
#define TR_PLACE_CARP_FACTORS_H

#include <stddef.h>
#include <stdint.h>

/* Writes the factor of each node, 32.32. `by_weight` is room for `count` numbers. Not all weights
 * may be equal. */
void tr_carp_factors(const uint64_t *weight, size_t count, uint32_t *by_weight, uint64_t *factor);

#endif
