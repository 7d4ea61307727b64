/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands out of a stream of bytes, as clients of Redis send them: an array of bulk strings, or a
 * line of words that somebody typed.
 *
 * The reader keeps nothing between two calls: a command that is not whole is read again from its
 * first byte, when as much is there as it must have at least. That is known from its lengths, so a
 * large command is not read often.
 *
 * Owns:    nothing. Arguments point into the caller's bytes; words of a line are unquoted there.
 * Bounds:  TR_RESP_BULK_MAX bytes of an argument, TR_RESP_ARGUMENTS_MAX arguments, TR_RESP_LINE_MAX
 *          bytes without the end of a line. Beyond them the protocol is broken, in Redis's words.
 */
#ifndef TR_RESP_RESP_H
#define TR_RESP_RESP_H

#include "base/span.h"

#include <stdint.h>

#define TR_RESP_LINE_MAX      65536
#define TR_RESP_BULK_MAX      ((size_t)64 << 20)
#define TR_RESP_ARGUMENTS_MAX (1u << 20)

enum tr_resp_state {
    TR_RESP_MORE,    /* it is not whole: it has `need` bytes at least */
    TR_RESP_ROOM,    /* there must be room for `count` arguments first */
    TR_RESP_COMMAND, /* `used` bytes were its own; without arguments it is to be ignored */
    TR_RESP_BAD,     /* answer with `fault`, and close */
};

struct tr_resp_command {
    struct tr_span *arguments; /* the caller's */
    uint32_t cap;
    uint32_t count;
    size_t used;
    size_t need;
    enum tr_resp_fault {
        TR_RESP_NO_FAULT,
        TR_RESP_COUNT_LINE,   /* too long */
        TR_RESP_COUNT,        /* no number, or too large */
        TR_RESP_LENGTH_LINE,  /* too long */
        TR_RESP_LENGTH,       /* no number, or too large */
        TR_RESP_NO_LENGTH,    /* `found` stands where $ should */
        TR_RESP_INLINE_LINE,  /* too long */
        TR_RESP_INLINE_QUOTES /* that are not closed */
    } fault;
    char found;

    /* Of a command that is not whole, if it is an array: how many arguments are, and where the next
     * one begins. With these set the reading goes on there. */
    uint32_t done;
    size_t done_at;
};

/* Where a line ends; NULL: nowhere yet. As in Redis, one with a zero byte in it never does, and is
 * too long some time. */
const char *tr_resp_line_end(const char *bytes, size_t size, char last);

/* Reads a command at the start of `size` bytes, of which there is one at least. */
enum tr_resp_state tr_resp_read(struct tr_resp_command *command, char *bytes, size_t size);

/* Whether an argument is this word, whatever the case of its letters. */
bool tr_resp_is(struct tr_span argument, const char *word);

#endif
