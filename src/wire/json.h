/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict JSON pull parser (RFC 8259): one token at a time, no tree, no allocation.
 *
 * Text must be UTF-8; a lone surrogate, a raw control character, a leading zero, anything after the
 * value: all are errors, told with the place. Strings are decoded in place, in the caller's
 * buffer: decoded text is never longer than what it came from.
 *
 * Bounds:  nesting of TR_JSON_DEPTH_MAX.
 */
#ifndef TR_WIRE_JSON_H
#define TR_WIRE_JSON_H

#include "base/span.h"

#include <stdint.h>

#define TR_JSON_DEPTH_MAX 64

enum tr_json_token {
    TR_JSON_OBJECT,
    TR_JSON_OBJECT_END,
    TR_JSON_ARRAY,
    TR_JSON_ARRAY_END,
    TR_JSON_KEY, /* of an object; its value comes next */
    TR_JSON_STRING,
    TR_JSON_NUMBER, /* as it was written */
    TR_JSON_TRUE,
    TR_JSON_FALSE,
    TR_JSON_NULL,
    TR_JSON_END, /* the value is over, and nothing follows it */
    TR_JSON_BAD,
};

struct tr_json {
    char *start;
    char *at;
    char *end;
    const char *fault; /* of TR_JSON_BAD: what was wrong */
    uint64_t in_object;
    unsigned depth;
    uint8_t expects;
    bool is_raw;         /* strings are checked, and left as they are written */
    struct tr_span text; /* of the key, string or number read last */
};

/* The buffer is changed as it is read. */
void tr_json_init(struct tr_json *json, char *text, size_t size);

/* After TR_JSON_END or TR_JSON_BAD it stays so. */
enum tr_json_token tr_json_next(struct tr_json *json);

/* Passes over the value whose first token was `token`; false at a fault. */
bool tr_json_skip(struct tr_json *json, enum tr_json_token token);

/* Passes over the next value, of a member, and gives it as it is written. False: at a fault. */
bool tr_json_raw(struct tr_json *json, struct tr_span *text);

/* How far it has read, in bytes. */
size_t tr_json_offset(const struct tr_json *json);

/* A number as thousandths: rounded down, and whether that lost anything. False if it is negative;
 * too large is UINT64_MAX. (-0 is 0.) */
bool tr_json_thousandths(struct tr_span number, uint64_t *floor, bool *is_exact);

/* A whole number, written in any way (`2`, `2.0`, `20e-1`), that fits; false for anything else. */
bool tr_json_whole(struct tr_span number, uint64_t most, uint64_t *value);

#endif
