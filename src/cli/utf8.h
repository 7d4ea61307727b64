/* SPDX-License-Identifier: Apache-2.0 */
/* Names come as bytes; where they are shown, they had better be text. */
#ifndef TR_CLI_UTF8_H
#define TR_CLI_UTF8_H

#include <stddef.h>
#include <stdio.h>

#define TR_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of the character at `text`, which has `left` bytes, at least one; 0 if they are no UTF-8,
 * or one of the characters that XML refuses. */
size_t tr_utf8_size(const char *text, size_t left);

/* Characters of a text; a byte that is none counts as one. */
size_t tr_utf8_count(const char *text);

/* A text, and spaces up to a width in characters. */
void tr_utf8_print_padded(FILE *out, const char *text, size_t width);

#endif
