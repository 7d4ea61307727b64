/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies in RESP, version 2 or 3, one after the other.
 *
 * Owns:    the bytes.
 * Bounds:  memory: when there is none the replies are lost, and their connection must close.
 */
#ifndef TR_SHELL_FRONT_RESP_OUT_H
#define TR_SHELL_FRONT_RESP_OUT_H

#include "base/span.h"

#include <stdint.h>

struct tr_resp_out {
    char *bytes;
    size_t size;
    size_t cap;
    bool is_lent;  /* somebody else's bytes, until they are too few */
    bool is_third; /* version 3 */
    bool is_lost;
    size_t limit;      /* of `size`; 0: none. What would go beyond it is not put, */
    bool is_too_large; /* nor is anything after it */
};

void tr_resp_out_free(struct tr_resp_out *out);

/* Puts what comes into these bytes for as long as they are enough, instead of its own. `out` has
 * nothing yet. */
void tr_resp_out_lend(struct tr_resp_out *out, char *bytes, size_t size);

void tr_resp_put_raw(struct tr_resp_out *out, const char *bytes, size_t size);
void tr_resp_put_simple(struct tr_resp_out *out, const char *text); /* OK, PONG, string … */
/* With its code: "ERR syntax error". Ends of lines in it become spaces. */
void tr_resp_put_error(struct tr_resp_out *out, const char *text);
void tr_resp_put_error_about(struct tr_resp_out *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void tr_resp_put_integer(struct tr_resp_out *out, int64_t number);
void tr_resp_put_bulk(struct tr_resp_out *out, struct tr_span text);
void tr_resp_put_text(struct tr_resp_out *out, const char *text); /* a bulk string */
void tr_resp_put_null(struct tr_resp_out *out);

/* So many elements follow; of a map, twice as many. */
void tr_resp_put_array(struct tr_resp_out *out, size_t count);
void tr_resp_put_map(struct tr_resp_out *out, size_t count);
void tr_resp_put_set(struct tr_resp_out *out, size_t count);

/* A text for people, of version 3 marked as one. */
void tr_resp_put_verbatim(struct tr_resp_out *out, struct tr_span text);

#endif
