/* SPDX-License-Identifier: Apache-2.0 */
/* What `tryst timer` is asked for, and the body that follows from it. */
#ifndef TR_CLI_TIMER_H
#define TR_CLI_TIMER_H

#include "cli/cli.h"
#include "wire/plan.h"
#include "wire/text.h"

#define TR_TIMER_OPERANDS 1024

struct tr_timer_asked {
    const char *node;
    const char *verb;
    const char *in;
    const char *at;
    const char *cron;
    const char *zone;
    const char *until;
    const char *missed;
    const char *jitter;
    const char *method;
    const char *timeout;
    const char *headers[TR_HEADERS_MAX];
    unsigned header_count;
    const char *prefix; /* of names */
    const char *to;
    const char *repeat;
    const char *count;
    const char *tags[TR_TAGS_MAX];
    unsigned tag_count;
    const char *factor;
    const char *key;
    const char *content_type;
    bool is_json;
    bool is_cluster;
    bool is_dead;
    bool are_named; /* operands are names */
    bool is_all;
    bool is_dry;
    bool must_exist;     /* what is cancelled */
    struct tr_span text; /* of add and set */
    const char *operands[TR_TIMER_OPERANDS];
    unsigned operand_count;
};

/* A duration as people write it (`30`, `1.5s`, `250ms`, `1h30m`, `1w`), as seconds in decimal.
 * False: it is none. */
bool tr_write_seconds(const char *text, char *out, size_t size);

/* False: it was said what is wrong. */
bool tr_timer_put_body(struct tr_writer *out, const struct tr_timer_asked *asked);

#endif
