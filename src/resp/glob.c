/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A star takes as little as it can; when what follows does not fit, the last star takes one byte
 * more. To go back to an earlier one would find nothing that the last one does not.
 *
 * As in Redis nothing matches a pattern behind its thousandth star.
 */
#include "resp/glob.h"

#define STARS_MAX 1000

static unsigned char folded(char byte, bool is_nocase)
{
    return (unsigned char)(is_nocase && byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
}

/* Whether a byte is of the set that begins behind a bracket at `at`; `at` is behind the set then.
 * One that is not closed ends with the pattern. */
static bool is_of_set(struct tr_span pattern, size_t *at, char text, bool is_nocase)
{
    unsigned char byte = folded(text, is_nocase);
    TR_ASSERT(*at > 0 && pattern.text[*at - 1] == '[');
    bool is_not = *at < pattern.size && pattern.text[*at] == '^';
    bool is_of = false;
    *at += is_not;
    while (*at < pattern.size && pattern.text[*at] != ']') {
        bool is_escaped = pattern.text[*at] == '\\' && pattern.size - *at >= 2;
        *at += is_escaped;
        unsigned char low = folded(pattern.text[*at], is_nocase);
        unsigned char high = low;
        if (!is_escaped && pattern.size - *at >= 3 && pattern.text[*at + 1] == '-') {
            *at += 2;
            high = folded(pattern.text[*at], is_nocase);
        }
        if (low > high) {
            unsigned char lower = high;
            high = low;
            low = lower;
        }
        is_of |= byte >= low && byte <= high;
        ++*at;
    }
    *at += *at < pattern.size;
    return is_of != is_not;
}

/* Whether one byte fits what stands at `at`, which is no star; `at` is behind that then. */
static bool fits(struct tr_span pattern, size_t *at, char byte, bool is_nocase)
{
    TR_ASSERT(*at < pattern.size);
    char wanted = pattern.text[(*at)++];
    if (wanted == '?')
        return true;
    if (wanted == '[')
        return is_of_set(pattern, at, byte, is_nocase);
    if (wanted == '\\' && *at < pattern.size)
        wanted = pattern.text[(*at)++];
    return folded(wanted, is_nocase) == folded(byte, is_nocase);
}

static bool matches(struct tr_span pattern, struct tr_span text, bool is_nocase, uint64_t *steps)
{
    size_t at = 0;
    size_t read = 0;
    size_t star = 0; /* behind the last one; 0: there was none */
    size_t taken = 0;
    unsigned stars = 0;
    if (text.size == 0) /* in Redis a star that is not alone takes one byte at least of nothing */
        return pattern.size == 0 || tr_span_equals(pattern, TR_SPAN("*"));
    while (read < text.size) {
        if (at < pattern.size && pattern.text[at] == '*') {
            while (at < pattern.size && pattern.text[at] == '*')
                at++;
            stars++;
            star = at;
            taken = read;
            if (at == pattern.size)
                return true;
            if (stars > STARS_MAX)
                return false;
            continue;
        }
        size_t before = at;
        bool is_fit = at < pattern.size && fits(pattern, &at, text.text[read], is_nocase);
        *steps -= *steps < at - before + 1 ? *steps : at - before + 1;
        if (*steps == 0)
            return false;
        if (is_fit) {
            read++;
            continue;
        }
        if (star == 0)
            return false;
        at = star;
        read = ++taken;
    }
    while (at < pattern.size && pattern.text[at] == '*')
        at++;
    return at == pattern.size;
}

bool tr_glob_matches(struct tr_span pattern, struct tr_span text, uint64_t *steps)
{
    return matches(pattern, text, false, steps);
}

bool tr_glob_matches_nocase(struct tr_span pattern, struct tr_span text)
{
    uint64_t steps = TR_GLOB_STEPS;
    return matches(pattern, text, true, &steps);
}
