/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/resp_out.h"

#include "base/integer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_CAP 1024
#define ERROR_MAX 1024 /* bytes of an error, with what it echoes */

void tr_resp_out_free(struct tr_resp_out *out)
{
    if (!out->is_lent)
        free(out->bytes);
    out->is_lent = false;
    out->bytes = NULL;
    out->size = 0;
    out->cap = 0;
}

void tr_resp_out_lend(struct tr_resp_out *out, char *bytes, size_t size)
{
    out->bytes = bytes;
    out->cap = size;
    out->is_lent = true;
}

/* Room for so many more bytes; NULL: there is no memory. */
static char *reserve(struct tr_resp_out *out, size_t size)
{
    out->is_too_large |= out->limit > 0 && out->size + size > out->limit;
    if (out->is_lost || out->is_too_large)
        return NULL;
    if (out->cap - out->size < size) {
        size_t cap = out->cap * 2 > FIRST_CAP ? out->cap * 2 : FIRST_CAP;
        cap = cap - out->size < size ? out->size + size : cap;
        char *larger = realloc(out->is_lent ? NULL : out->bytes, cap);
        if (larger == NULL) {
            out->is_lost = true;
            return NULL;
        }
        if (out->is_lent)
            memcpy(larger, out->bytes, out->size);
        out->is_lent = false;
        out->bytes = larger;
        out->cap = cap;
    }
    return out->bytes + out->size;
}

void tr_resp_put_raw(struct tr_resp_out *out, const char *bytes, size_t size)
{
    char *at = reserve(out, size);
    if (at == NULL || size == 0)
        return;
    memcpy(at, bytes, size);
    out->size += size;
}

/* A mark, a number, the end of a line. */
static void put_head(struct tr_resp_out *out, char mark, int64_t number)
{
    char text[TR_INTEGER_MAX];
    struct tr_span digits = tr_integer_write(number, text);
    tr_resp_put_raw(out, &mark, 1);
    tr_resp_put_raw(out, digits.text, digits.size);
    tr_resp_put_raw(out, "\r\n", 2);
}

void tr_resp_put_simple(struct tr_resp_out *out, const char *text)
{
    tr_resp_put_raw(out, "+", 1);
    tr_resp_put_raw(out, text, strlen(text));
    tr_resp_put_raw(out, "\r\n", 2);
}

void tr_resp_put_error(struct tr_resp_out *out, const char *text)
{
    tr_resp_put_raw(out, "-", 1);
    size_t start = out->size;
    tr_resp_put_raw(out, text, strlen(text));
    for (size_t i = start; i < out->size; i++) {
        if (out->bytes[i] == '\r' || out->bytes[i] == '\n')
            out->bytes[i] = ' ';
    }
    tr_resp_put_raw(out, "\r\n", 2);
}

void tr_resp_put_error_about(struct tr_resp_out *out, const char *format, ...)
{
    char text[ERROR_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    tr_resp_put_error(out, text);
}

void tr_resp_put_integer(struct tr_resp_out *out, int64_t number)
{
    put_head(out, ':', number);
}

void tr_resp_put_bulk(struct tr_resp_out *out, struct tr_span text)
{
    put_head(out, '$', (int64_t)text.size);
    tr_resp_put_raw(out, text.text, text.size);
    tr_resp_put_raw(out, "\r\n", 2);
}

void tr_resp_put_text(struct tr_resp_out *out, const char *text)
{
    tr_resp_put_bulk(out, (struct tr_span){text, strlen(text)});
}

void tr_resp_put_null(struct tr_resp_out *out)
{
    if (out->is_third)
        tr_resp_put_raw(out, "_\r\n", 3);
    else
        tr_resp_put_raw(out, "$-1\r\n", 5);
}

void tr_resp_put_array(struct tr_resp_out *out, size_t count)
{
    put_head(out, '*', (int64_t)count);
}

void tr_resp_put_map(struct tr_resp_out *out, size_t count)
{
    put_head(out, out->is_third ? '%' : '*', (int64_t)(out->is_third ? count : 2 * count));
}

void tr_resp_put_set(struct tr_resp_out *out, size_t count)
{
    put_head(out, out->is_third ? '~' : '*', (int64_t)count);
}

void tr_resp_put_verbatim(struct tr_resp_out *out, struct tr_span text)
{
    if (!out->is_third) {
        tr_resp_put_bulk(out, text);
        return;
    }
    put_head(out, '=', (int64_t)text.size + 4);
    tr_resp_put_raw(out, "txt:", 4);
    tr_resp_put_raw(out, text.text, text.size);
    tr_resp_put_raw(out, "\r\n", 2);
}
