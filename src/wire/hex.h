/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits and percent-encoding, as they are read; tr_put_hex() writes them (text.h). */
#ifndef TR_WIRE_HEX_H
#define TR_WIRE_HEX_H

#include "base/span.h"

#include <stdint.h>

/* 0 to 15, or below 0: it is none. */
int tr_hex_digit(char c);

/* A number: false unless there are 1 to 16 digits, and nothing else. */
bool tr_hex_number(struct tr_span text, uint64_t *value);

/* So many bytes, of two digits each; they may take the place of the digits. False: there are other
 * letters, or more or fewer of them. */
bool tr_hex_bytes(struct tr_span text, void *bytes, size_t size);

/* `text` without its percent signs goes to `out`; a plus means what the caller says. False: it does
 * not fit, or a percent sign is not followed by two digits. */
bool tr_percent_decode(struct tr_span text, char plus, char *out, size_t cap, size_t *size);

#endif
