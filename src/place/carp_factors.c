/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With K nodes in ascending order of weight, P their shares, X their factors:
 *
 *     X_1 = (K P_1) ^ (1/K)
 *     X_k = ((K-k+1) (P_k - P_(k-1)) / (X_1 ... X_(k-1)) + X_(k-1) ^ (K-k+1)) ^ (1/(K-k+1))
 *
 * Numbers are 64 bits of mantissa and an exponent, and each operation cuts off what does not fit:
 * so little is lost that thousands of nodes come out to 32.32, and there is exactly one way to be
 * right. A root is the largest 32.32 number whose power does not exceed the value, found by
 * bisection: the power of a cut-off product never decreases in its base.
 */
#include "place/carp_factors.h"

#include "base/assert.h"
#include "base/heap.h"
#include "base/wide.h"

/* mantissa x 2^exponent, with the mantissa's top bit set. There is no zero. */
struct real {
    uint64_t mantissa;
    int exponent;
};

static struct real normalised(tr_u128 value, int exponent)
{
    TR_ASSERT(value != 0);
    uint64_t high = (uint64_t)(value >> 64);
    if (high != 0) {
        int excess = 64 - __builtin_clzll(high);
        return (struct real){(uint64_t)(value >> excess), exponent + excess};
    }
    int missing = __builtin_clzll((uint64_t)value);
    return (struct real){(uint64_t)value << missing, exponent - missing};
}

static struct real from_integer(uint64_t value)
{
    return normalised(value, 0);
}

static struct real multiply(struct real a, struct real b)
{
    return normalised((tr_u128)a.mantissa * b.mantissa, a.exponent + b.exponent);
}

static struct real divide(struct real a, struct real b)
{
    TR_ASSERT(b.mantissa >> 63 == 1);
    tr_u128 quotient = ((tr_u128)a.mantissa << 64) / b.mantissa;
    return normalised(quotient, a.exponent - 64 - b.exponent);
}

static bool is_at_most(struct real a, struct real b)
{
    return a.exponent != b.exponent ? a.exponent < b.exponent : a.mantissa <= b.mantissa;
}

static struct real add(struct real a, struct real b)
{
    struct real larger = is_at_most(a, b) ? b : a;
    struct real smaller = is_at_most(a, b) ? a : b;
    int shift = larger.exponent - smaller.exponent;
    TR_ASSERT(shift >= 0);
    uint64_t aligned = shift < 64 ? smaller.mantissa >> shift : 0;
    return normalised((tr_u128)larger.mantissa + aligned, larger.exponent);
}

/* By squaring, from the exponent's highest bit down. */
static struct real power(struct real base, size_t exponent)
{
    TR_ASSERT(exponent >= 1);
    struct real result = base;
    for (int bit = 62 - __builtin_clzll(exponent); bit >= 0; bit--) {
        result = multiply(result, result);
        if (exponent >> bit & 1)
            result = multiply(result, base);
    }
    return result;
}

/* A factor as a number: 32.32. */
static struct real from_factor(uint64_t factor)
{
    struct real real = from_integer(factor);
    real.exponent -= 32;
    return real;
}

/* The largest factor whose `degree`th power is at most `value`; at least 2^-32. */
static uint64_t root(struct real value, size_t degree)
{
    TR_ASSERT(degree >= 1);
    uint64_t low = 1;
    uint64_t high = UINT64_MAX;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2 + 1;
        if (is_at_most(power(from_factor(middle), degree), value))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static bool weighs_less(const void *context, uint32_t a, uint32_t b)
{
    const uint64_t *weight = context;
    return weight[a] != weight[b] ? weight[a] < weight[b] : a < b;
}

void tr_carp_factors(const uint64_t *weight, size_t count, uint32_t *by_weight, uint64_t *factor)
{
    TR_ASSERT(count >= 2);
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        by_weight[i] = i;
        total += weight[i];
        TR_ASSERT(total >= weight[i]);
    }
    tr_heap_sort(by_weight, count, weighs_less, weight);

    struct real whole = from_integer(total);
    uint32_t lightest = by_weight[0];
    struct real lightest_share = divide(from_integer(weight[lightest]), whole);
    factor[lightest] = root(multiply(from_integer(count), lightest_share), count);

    struct real product = from_factor(factor[lightest]);
    for (size_t k = 1; k < count; k++) {
        uint32_t node = by_weight[k];
        uint32_t before = by_weight[k - 1];
        size_t left = count - k;
        factor[node] = factor[before]; /* equal weights, equal factors: no rounding may part them */
        if (weight[node] > weight[before]) {
            struct real step = divide(from_integer(weight[node] - weight[before]), whole);
            struct real gain = divide(multiply(from_integer(left), step), product);
            factor[node] = root(add(gain, power(from_factor(factor[before]), left)), left);
        }
        product = multiply(product, from_factor(factor[node]));
    }
}
