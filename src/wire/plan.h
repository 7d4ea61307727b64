/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a timer may have beyond an interval and a URI, as bytes in a record.
 *
 * Its plan: when it pops and how it calls. Many timers have the same one, so it is a shared text.
 * Its own: what tells it from others with that plan.
 *
 * Both are members one after another, in the order of their numbers: a number, then a varint or a
 * span. A member that is as usual is left out, so equal plans are equal bytes, and the usual plan
 * is empty. To add a member, give it the next number, and raise the version of the frames and of
 * the log: a version that does not know it refuses it.
 */
#ifndef TR_WIRE_PLAN_H
#define TR_WIRE_PLAN_H

#include "base/bytes.h"
#include "base/record.h"
#include "calendar/cron.h"

#define TR_NAME_MAX          255  /* bytes of a timer's name */
#define TR_HEADERS_MAX       16   /* that a callback has besides ours */
#define TR_HEADERS_SIZE_MAX  4096 /* bytes of them */
#define TR_TRACE_SIZE        24   /* bytes: a trace's id, and its parent's */
#define TR_TRACESTATE_MAX    512
#define TR_CE_TYPE_MAX       128
#define TR_CALL_TIMEOUT_MOST 60000      /* ms */
#define TR_BACKOFF_MOST      86400000   /* ms */
#define TR_GIVE_UP_MOST      2592000000 /* ms: 30 days */

enum tr_timing {
    TR_TIMING_INTERVAL, /* by a clock that nobody sets */
    TR_TIMING_AT,       /* first at an instant of the wall clock, and then every interval */
    TR_TIMING_CRON,
};

/* What becomes of pops that fell due while nobody could make them. */
enum tr_missed {
    TR_MISSED_USUAL, /* of intervals all are made, of a cron expression the last */
    TR_MISSED_ALL,
    TR_MISSED_LAST,
    TR_MISSED_NONE,
};

enum tr_method {
    TR_METHOD_POST,
    TR_METHOD_PUT,
    TR_METHOD_PATCH,
    TR_METHOD_GET,
    TR_METHOD_DELETE,
    TR_METHODS,
};

struct tr_plan {
    enum tr_timing timing;
    enum tr_missed missed;
    enum tr_cron_gap gap;
    enum tr_cron_overlap overlap;
    enum tr_method method;
    bool is_json;            /* the opaque text is a JSON value */
    uint64_t jitter_ms;      /* each pop is later by a part of it */
    tr_wall_ms until_ms;     /* no pop after it; 0: not given, as the numbers below */
    uint64_t timeout_ms;     /* of a call */
    uint64_t attempts;       /* at a pop */
    uint64_t backoff_ms;     /* before the second of them */
    uint64_t backoff_max_ms; /* between two of them */
    uint64_t give_up_ms;     /* none after that */
    struct tr_span cron;     /* the expression, */
    struct tr_span zone;     /* and by whose clocks; empty: UTC */
    struct tr_span headers;  /* as they are sent, each with its end of line */
    struct tr_span ce_type;
};

struct tr_own {
    struct tr_span name;
    struct tr_span trace; /* TR_TRACE_SIZE bytes; empty: none */
    struct tr_span tracestate;
};

/* Nothing, of the usual plan. */
void tr_plan_put(struct tr_writer *writer, const struct tr_plan *plan);
void tr_own_put(struct tr_writer *writer, const struct tr_own *own);

/* Spans point into the bytes. False: this version does not know such a one. */
bool tr_plan_get(struct tr_span bytes, struct tr_plan *plan);
bool tr_own_get(struct tr_span bytes, struct tr_own *own);

/* The id that a name stands for. */
tr_timer_id tr_name_id(struct tr_span name);

const char *tr_method_name(enum tr_method method);

#endif
