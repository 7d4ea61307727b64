/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of the file of tokens: who somebody is, what that one may do, and the hash by which its
 * token is known.
 *
 *   ci      read write                     sha256:6b86...
 *   shop    write tag:shop rate=100/s      sha256:d473...
 *   cache   read write keys:cache:         sha256:4e07...
 *
 * Text behind a colon is percent-encoded where it has blanks or commas.
 *
 * Bounds:  TR_NARROW_MAX tags and prefixes, as many of keys; TR_TOKEN_TEXT bytes of them.
 */
#ifndef TR_WIRE_TOKEN_H
#define TR_WIRE_TOKEN_H

#include "base/span.h"

#include <stdint.h>

#define TR_TOKEN_NAME   64
#define TR_TOKEN_HASH   32
#define TR_TOKEN_TEXT   1024
#define TR_TOKEN_SCOPES 8 /* of each kind that narrows */

/* Where a text lies in `text`. */
struct tr_token_text {
    uint16_t at;
    uint16_t size;
    bool is_prefix; /* of names; else it is a tag */
};

struct tr_token {
    char name[TR_TOKEN_NAME];
    bool reads;
    bool writes;
    bool is_admin;
    uint8_t timers_count; /* 0: all timers, unless keys are narrowed */
    uint8_t keys_count;   /* 0: all keys, unless timers are narrowed */
    struct tr_token_text timers[TR_TOKEN_SCOPES];
    struct tr_token_text keys[TR_TOKEN_SCOPES];
    uint64_t rate;    /* requests a second; 0: as many as it likes */
    uint64_t pending; /* timers of its tags; 0: likewise */
    uint16_t text_size;
    char text[TR_TOKEN_TEXT];
    uint8_t hash[TR_TOKEN_HASH];
};

/* What is wrong with a line; NULL: nothing. */
const char *tr_token_parse(struct tr_span line, struct tr_token *token);

/* The scopes alone, as a line has them before its hash. */
const char *tr_token_parse_scopes(struct tr_span words, struct tr_token *token);

#endif
