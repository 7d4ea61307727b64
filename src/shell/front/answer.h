/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the HTTP interface as bytes. */
#ifndef TR_SHELL_FRONT_ANSWER_H
#define TR_SHELL_FRONT_ANSWER_H

#include "shell/config.h"
#include "shell/front/show.h"
#include "shell/metrics.h"

struct tr_daemon;

/* One at a time: what is rendered is good until the next. */
struct tr_answer {
    unsigned status;
    const char *content_type; /* NULL: no body */
    const char *allow;
    const char *upgrade;
    const char *headers; /* lines of them; NULL: no more */
    unsigned retry_after_s;
    bool has_location;
    bool is_replayed;
    char etag[TR_ETAG_MAX]; /* empty: none */
    bool is_head;           /* the head of an answer alone */
    bool closes;
    struct tr_timer_text location;
    bool has_range; /* of a page of a resync: how many timers it has, */
    uint32_t range;
    bool has_cursor; /* and where the next one begins */
    uint64_t cursor;
    struct tr_writer body; /* grown as needed, kept */
    struct tr_writer bytes;
    char date[32];
    uint64_t date_s;
};

/* What the client has asked for besides, in a request whose answer comes later. */
enum tr_want {
    TR_WANT_NOW = 1,       /* what changes by itself, too */
    TR_WANT_TIMER = 2,     /* of a write: the timer, as it is then */
    TR_WANT_FRESH = 4,     /* nothing, if it is as the client has seen it */
    TR_WANT_AGAIN = 8,     /* the timer was set, and is read to be shown; */
    TR_WANT_REPLAYED = 16, /* it had been set before */
};

/* Grows a writer, whose bytes are the caller's to free, so that `size` more fit. */
void tr_answer_reserve(struct tr_writer *writer, size_t size);

void tr_answer_from_effect(struct tr_answer *answer, const struct tr_node *node,
                           const struct tr_effect *effect, uint8_t wants);
void tr_answer_problem(struct tr_answer *answer, const struct tr_problem *problem,
                       const char *allow);
void tr_answer_cluster(struct tr_answer *answer, struct tr_daemon *daemon);
void tr_answer_upgrade(struct tr_answer *answer); /* what /peer says to clients */
void tr_answer_json(struct tr_answer *answer, struct tr_span body, struct tr_span end);
void tr_answer_status(struct tr_answer *answer, unsigned status); /* without a body */
void tr_answer_not_modified(struct tr_answer *answer); /* in place of what it was to be */
void tr_answer_file(struct tr_answer *answer, const char *content_type, const void *bytes,
                    size_t size);
void tr_answer_text(struct tr_answer *answer, unsigned status, const char *text);

/* Readiness, or, without `metrics`, that the process lives. */
void tr_answer_health(struct tr_answer *answer, const struct tr_node *node,
                      const struct tr_metrics *metrics, const struct tr_config *config);
void tr_answer_metrics(struct tr_answer *answer, const struct tr_node *node,
                       const struct tr_metrics *metrics);

struct tr_span tr_answer_render(struct tr_answer *answer);

#endif
