/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/utf8.h"

void tr_json_string(FILE *out, const char *text, size_t size)
{
    fputc('"', out);
    for (size_t at = 0; at < size;) {
        unsigned char first = (unsigned char)text[at];
        size_t here = tr_utf8_size(text + at, size - at);
        if (here == 0)
            fputs("\\ufffd", out);
        else if (first == '"' || first == '\\')
            fprintf(out, "\\%c", first);
        else if (first < 0x20)
            fprintf(out, "\\u%04x", first);
        else
            fwrite(text + at, 1, here, out);
        at += here == 0 ? 1 : here;
    }
    fputc('"', out);
}
