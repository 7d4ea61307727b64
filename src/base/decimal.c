/* SPDX-License-Identifier: Apache-2.0 */
#include "base/decimal.h"

#include "base/assert.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool tr_decimal_parse(const char *text, size_t size, struct tr_decimal *out)
{
    size_t whole = 0;
    while (whole < size && is_digit(text[whole]))
        whole++;
    size_t fraction_at = whole < size && text[whole] == '.' ? whole + 1 : whole;
    size_t end = fraction_at;
    while (fraction_at > whole && end < size && is_digit(text[end]))
        end++;
    if (end != size || whole + (end - fraction_at) == 0)
        return false;

    size_t zeros = 0;
    while (zeros < whole && text[zeros] == '0')
        zeros++;
    while (end > fraction_at && text[end - 1] == '0')
        end--;
    TR_ASSERT(zeros <= whole && fraction_at <= end && end <= size);
    *out = (struct tr_decimal){.whole = text + zeros,
                               .whole_size = whole - zeros,
                               .fraction = text + fraction_at,
                               .fraction_size = end - fraction_at};
    return true;
}

uint64_t tr_decimal_whole(const struct tr_decimal *decimal)
{
    uint64_t value = 0;
    for (size_t i = 0; i < decimal->whole_size; i++) {
        uint64_t digit = (uint64_t)(decimal->whole[i] - '0');
        TR_ASSERT(digit <= 9);
        if (value > (UINT64_MAX - digit) / 10)
            return UINT64_MAX;
        value = value * 10 + digit;
    }
    return value;
}

/* From the last digit backwards: floor((a + y) / 10) = floor((a + floor(y)) / 10) for a whole a, so
 * nothing is lost by flooring at each step. */
static uint64_t scale_fraction(const struct tr_decimal *decimal, tr_u128 scale, bool *is_more)
{
    TR_ASSERT(scale <= (tr_u128)1 << 64);
    tr_u128 value = 0;
    *is_more = false;
    for (size_t i = decimal->fraction_size; i > 0; i--) {
        value = (tr_u128)(decimal->fraction[i - 1] - '0') * scale + value;
        *is_more |= value % 10 != 0;
        value /= 10;
    }
    TR_ASSERT(value == 0 || value < scale);
    return (uint64_t)value;
}

uint64_t tr_decimal_fraction(const struct tr_decimal *decimal, tr_u128 scale)
{
    bool is_more = false;
    return scale_fraction(decimal, scale, &is_more);
}

uint64_t tr_decimal_fraction_up(const struct tr_decimal *decimal, uint64_t scale)
{
    bool is_more = false;
    uint64_t value = scale_fraction(decimal, scale, &is_more);
    return value + is_more;
}
