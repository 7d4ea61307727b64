/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers of a timer's body share: one function an object of the body. Each member's name
 * is kept until its object ends, so that one given twice is found, also among those that mean
 * nothing here.
 */
#ifndef TR_WIRE_BODY_READER_H
#define TR_WIRE_BODY_READER_H

#include "wire/json.h"
#include "wire/timer_body.h"

#define TR_MEMBERS_MAX 64 /* of one object */
#define TR_BODY        "the body"

struct tr_body_reader {
    struct tr_json json;
    struct tr_timer_body *out;
    struct tr_problem *problem;
    const struct tr_timer_limits *limits;
    unsigned tag; /* that is read, the first is 1; 0: none is */

    /* Of timing, which is checked when all of it is read. */
    bool has_interval;
    bool is_interval_exact;
    bool has_repeat;
    bool is_repeat_exact;
    bool is_forever;
    bool has_at;
    bool has_count;
    bool has_cron_members; /* that mean something for a cron expression alone */
    uint64_t count;        /* of pops */
    uint64_t interval_floor;
    uint64_t repeat_floor;
};

struct tr_members {
    const char *object; /* its name, for messages: the names that lead to it, with dots between */
    unsigned count;
    struct tr_span names[TR_MEMBERS_MAX]; /* only the first `count` mean anything */
};

/* Names that an object has, or that mean nothing here, but are written by the original's nodes. */
struct tr_body_names {
    const char *const *known; /* NULL is the last */
    const char *const *foreign;
};

void tr_members_init(struct tr_members *members, const char *object);

/* The next member of an object. False: at its end (`*is_done`), or at a fault. */
bool tr_body_next(struct tr_body_reader *reader, struct tr_members *members, bool *is_done);

/* Of what comes next; false, and refused: it is something else. */
bool tr_body_object(struct tr_body_reader *reader, const char *path);
bool tr_body_string(struct tr_body_reader *reader, const char *path, struct tr_span *out);
bool tr_body_skip(struct tr_body_reader *reader);

/* All of these are false. A tag is an element of an array: its place is a part of the pointer. */
bool tr_body_refuse(struct tr_body_reader *reader, const char *path, const char *what);
bool tr_body_refuse_unknown(struct tr_body_reader *reader, const char *object,
                            struct tr_body_names names); /* or true, if it is passed over */
bool tr_body_refuse_json(struct tr_body_reader *reader);
void tr_body_point(struct tr_body_reader *reader, const char *path, struct tr_span member);

/* timing_body.c */
bool tr_body_read_timing(struct tr_body_reader *reader);
bool tr_body_check_timing(struct tr_body_reader *reader);

/* callback_body.c */
bool tr_body_read_callback(struct tr_body_reader *reader);
bool tr_body_check_callback(struct tr_body_reader *reader);

#endif
