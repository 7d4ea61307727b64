/* SPDX-License-Identifier: Apache-2.0 */
/* Text into a writer: numbers, quoted strings, times, and problems as RFC 9457 has them. */
#ifndef TR_WIRE_TEXT_H
#define TR_WIRE_TEXT_H

#include "base/bytes.h"
#include "base/record.h"

#define TR_PROBLEM_MAX 256 /* bytes of a detail; more is cut, */
#define TR_POINTER_MAX 128 /* and of a pointer */

void tr_put_text(struct tr_writer *writer, const char *text);
void tr_put_decimal(struct tr_writer *writer, uint64_t value);
void tr_put_signed(struct tr_writer *writer, int64_t value);
void tr_put_hex(struct tr_writer *writer, uint64_t value, unsigned digits);

/* Seconds from milliseconds: `30`, `0.25`. */
void tr_put_seconds(struct tr_writer *writer, uint64_t ms);

/* In quotes, escaped; bytes that are not UTF-8 become U+FFFD. */
void tr_put_json_string(struct tr_writer *writer, struct tr_span text);

/* Members of an object behind others: a comma, the name, which has no letters to be escaped, and
 * the value. */
void tr_put_member(struct tr_writer *writer, const char *name, const char *value);
void tr_put_count(struct tr_writer *writer, const char *name, uint64_t value);
void tr_put_counts(struct tr_writer *writer, const char *name, const uint64_t *values,
                   size_t count);
void tr_put_flag(struct tr_writer *writer, const char *name, bool value);

/* `2026-11-15T04:20:44.000Z`. */
void tr_put_rfc3339(struct tr_writer *writer, tr_wall_ms at_ms);

/* Types of problems that a client acts on; docs/problems.md has a word on each. */
#define TR_PROBLEM_MEMORY_FULL     "urn:tryst:problem:memory-full"
#define TR_PROBLEM_DISK_FULL       "urn:tryst:problem:disk-full"
#define TR_PROBLEM_PRECONDITION    "urn:tryst:problem:precondition-failed"
#define TR_PROBLEM_KEY_REUSED      "urn:tryst:problem:idempotency-key-reused"
#define TR_PROBLEM_UNKNOWN_OUTCOME "urn:tryst:problem:unknown-outcome"

/* Why a request was refused. */
struct tr_problem {
    unsigned status; /* of HTTP */
    unsigned retry_after_s;
    const char *type;             /* NULL: the status says it all. docs/problems.md has them */
    char detail[TR_PROBLEM_MAX];  /* ends with a NUL, */
    char pointer[TR_POINTER_MAX]; /* as this does: to what is wrong in the body; "": to nothing */
};

/* The pieces in a row; NULL ends them. */
void tr_problem_set(struct tr_problem *problem, unsigned status, const char *first, ...)
    __attribute__((sentinel));

/* Points to what is wrong, as RFC 6901 has it: the names of members with dots between them, then
 * those of which one may have any letters. */
void tr_problem_point(struct tr_problem *problem, const char *path, struct tr_span member);

/* application/problem+json. */
void tr_put_problem(struct tr_writer *writer, const struct tr_problem *problem);

/* What HTTP calls a status. */
const char *tr_status_phrase(unsigned status);

#endif
