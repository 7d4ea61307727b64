/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decimal text (`12`, `0.25`, `.5`, `3.`) taken exactly, at any length: digits are never rounded on
 * the way in, so that 0.1 of ten partitions is partition 1.
 */
#ifndef TR_BASE_DECIMAL_H
#define TR_BASE_DECIMAL_H

#include "base/wide.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_decimal {
    const char *whole;    /* digits before the point, leading zeros gone */
    const char *fraction; /* digits after it, trailing zeros gone */
    size_t whole_size;
    size_t fraction_size;
};

/* Reads digits with at most one point and at least one digit; nothing else. The text must outlive
 * `out`. */
bool tr_decimal_parse(const char *text, size_t size, struct tr_decimal *out);

/* The digits before the point, or UINT64_MAX if they exceed it. */
uint64_t tr_decimal_whole(const struct tr_decimal *decimal);

/* floor(fraction x scale), exactly, for a scale up to 2^64. */
uint64_t tr_decimal_fraction(const struct tr_decimal *decimal, tr_u128 scale);

/* The same, rounded up; it may be the scale. */
uint64_t tr_decimal_fraction_up(const struct tr_decimal *decimal, uint64_t scale);

#endif
