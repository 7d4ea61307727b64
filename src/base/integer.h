/* SPDX-License-Identifier: Apache-2.0 */
/* Integers as decimal text, the way Redis has them. */
#ifndef TR_BASE_INTEGER_H
#define TR_BASE_INTEGER_H

#include "base/span.h"

#include <stdint.h>

#define TR_INTEGER_MAX 20 /* digits and a sign */

/* No sign but a minus, no zeros in front, no spaces. False: it is none, or too large. */
static inline bool tr_integer_read(struct tr_span text, int64_t *number)
{
    bool is_negative = text.size > 0 && text.text[0] == '-';
    size_t at = is_negative ? 1 : 0;
    uint64_t value = 0;
    if (at == text.size || text.size - at > 19 || (text.text[at] == '0' && text.size > 1))
        return false;
    for (; at < text.size; at++) {
        unsigned digit = (unsigned)(unsigned char)text.text[at] - '0';
        if (digit > 9)
            return false;
        value = 10 * value + digit; /* 19 digits are below 2^64 */
    }
    if (value > (uint64_t)INT64_MAX + is_negative)
        return false;
    *number = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* Into the end of `text`. */
static inline struct tr_span tr_integer_write(int64_t number, char text[TR_INTEGER_MAX])
{
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t at = TR_INTEGER_MAX;
    do {
        text[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0)
        text[--at] = '-';
    return (struct tr_span){text + at, TR_INTEGER_MAX - at};
}

#endif
