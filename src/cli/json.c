/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

/* The bytes of the UTF-8 sequence at `text`, or 0 if there is none: overlong forms, surrogates and
 * what lies beyond U+10FFFF are not UTF-8. */
static size_t utf8_size(const unsigned char *text, size_t left)
{
    if (text[0] < 0x80)
        return 1;
    size_t size = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    bool is_overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    bool is_outside = (text[0] == 0xed && text[1] > 0x9f) || (text[0] == 0xf4 && text[1] > 0x8f);
    return is_overlong || is_outside ? 0 : size;
}

void tr_json_string(FILE *out, const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    fputc('"', out);
    for (size_t at = 0; at < size;) {
        size_t here = utf8_size(bytes + at, size - at);
        if (here == 0)
            fputs("\\ufffd", out);
        else if (bytes[at] == '"' || bytes[at] == '\\')
            fprintf(out, "\\%c", bytes[at]);
        else if (bytes[at] < 0x20)
            fprintf(out, "\\u%04x", bytes[at]);
        else
            fwrite(bytes + at, 1, here, out);
        at += here == 0 ? 1 : here;
    }
    fputc('"', out);
}
