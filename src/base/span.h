/* SPDX-License-Identifier: Apache-2.0 */
/* A piece of text or bytes that belongs to someone else; not terminated. */
#ifndef TR_BASE_SPAN_H
#define TR_BASE_SPAN_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Not given: text is NULL. */
struct tr_span {
    const char *text;
    size_t size;
};

#define TR_SPAN(literal) ((struct tr_span){(literal), sizeof(literal) - 1})

static inline bool tr_span_equals(struct tr_span a, struct tr_span b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.text, b.text, a.size) == 0);
}

/* Below 0, 0 or above 0, by bytes; of two that begin alike the shorter is below. */
static inline int tr_span_compare(struct tr_span a, struct tr_span b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size == 0 ? 0 : memcmp(a.text, b.text, size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static inline bool tr_span_starts(struct tr_span span, struct tr_span with)
{
    return span.size >= with.size && memcmp(span.text, with.text, with.size) == 0;
}

static inline struct tr_span tr_span_from(struct tr_span span, size_t offset)
{
    TR_ASSERT(offset <= span.size);
    return (struct tr_span){span.text + offset, span.size - offset};
}

/* ASCII letters alike, whatever their case: header names, URI schemes. */
static inline bool tr_span_equals_nocase(struct tr_span a, struct tr_span b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++) {
        char x = a.text[i];
        char y = b.text[i];
        x = (char)(x >= 'A' && x <= 'Z' ? x + 32 : x);
        y = (char)(y >= 'A' && y <= 'Z' ? y + 32 : y);
        if (x != y)
            return false;
    }
    return true;
}

#endif
