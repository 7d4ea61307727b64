/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/utf8.h"

#include <stdbool.h>
#include <string.h>

/* Overlong forms, surrogates, what is beyond U+10FFFF, and the non-characters U+FFFE and U+FFFF. */
static bool is_refused(const unsigned char *at)
{
    return (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90) ||
           (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f) ||
           (at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe);
}

size_t tr_utf8_size(const char *text, size_t left)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80)
        return 1;
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    return is_refused(at) ? 0 : size;
}

size_t tr_utf8_count(const char *text)
{
    size_t left = strlen(text);
    size_t count = 0;
    for (; left > 0; count++) {
        size_t size = tr_utf8_size(text, left);
        size += size == 0;
        text += size;
        left -= size;
    }
    return count;
}

void tr_utf8_print_padded(FILE *out, const char *text, size_t width)
{
    size_t size = tr_utf8_count(text);
    fprintf(out, "%s%*s", text, size < width ? (int)(width - size) : 0, "");
}
