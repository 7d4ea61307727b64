/* SPDX-License-Identifier: Apache-2.0 */
/* The body of POST and PUT /timers, read straight into a struct. */
#ifndef TR_WIRE_TIMER_BODY_H
#define TR_WIRE_TIMER_BODY_H

#include "base/record.h"
#include "wire/plan.h"
#include "wire/text.h"
#include "wire/uri.h"

#define TR_INTERVAL_MAX ((uint64_t)1 << 45) /* milliseconds; 1,115 years */

/* How a timer stood in a backup, to go on from there. */
struct tr_timer_past {
    uint64_t version; /* 0: not given */
    uint16_t version_node;
    bool is_keyed;
    uint64_t sequence;
    tr_wall_ms due_ms;
    tr_wall_ms instant_ms; /* of one that goes by the wall clock; 0: of none */
    struct tr_span opaque; /* text NULL: that of the body is all */
};

/* Spans point into the body. */
struct tr_timer_body {
    uint64_t interval_ms;
    uint64_t repeat_ms; /* 0: not given, or as long as the interval; TR_REPEAT_EVER */
    uint64_t pops;      /* how many it makes; TR_REPEAT_EVER */
    tr_wall_ms at_ms;   /* of the first; 0: not given */
    struct tr_plan plan;
    struct tr_own own;
    uint32_t factor; /* 0: not given */
    uint8_t tag_count;
    struct tr_span uri;
    struct tr_uri parts; /* of it */
    struct tr_span opaque;
    struct tr_span content_type; /* empty: not given */
    struct tr_tag tags[TR_TAGS_MAX];
    struct tr_timer_past past;
    struct tr_span key; /* of idempotency; text NULL: not given */

    char headers[TR_HEADERS_SIZE_MAX]; /* that the plan points to */
};

/* What the operator allows. */
struct tr_timer_limits {
    size_t opaque_max;
    uint64_t attempts_max; /* at a pop */
    bool ignores_unknown;  /* members that mean nothing; at the top they always are */
};

/* Reads and checks a body, which is changed as it is read. False: `problem` says what is wrong. */
bool tr_timer_body_parse(char *body, size_t size, const struct tr_timer_limits *limits,
                         struct tr_timer_body *out, struct tr_problem *problem);

#endif
