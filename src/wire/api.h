/* SPDX-License-Identifier: Apache-2.0 */
/* What a request asks for: its method and target, as a command. */
#ifndef TR_WIRE_API_H
#define TR_WIRE_API_H

#include "wire/http.h"
#include "wire/text.h"
#include "wire/timer_id.h"

#define TR_LIST_LIMIT     100 /* timers of a page, unless asked otherwise */
#define TR_LIST_LIMIT_MAX 1000

enum tr_api_kind {
    TR_API_CREATE,
    TR_API_REPLACE,
    TR_API_CANCEL,
    TR_API_READ,
    TR_API_LIST,
    TR_API_REDRIVE,
    TR_API_RESYNC_LIST, /* GET /timers?node-for-replicas=... */
    TR_API_REFERENCES,  /* DELETE /timers/references */
    TR_API_PING,
    TR_API_LIVE,
    TR_API_READY,
    TR_API_METRICS,
    TR_API_CLUSTER,        /* GET /cluster */
    TR_API_CLUSTER_SET,    /* PUT /cluster */
    TR_API_CLUSTER_RESYNC, /* POST /cluster/resync */
    TR_API_PEER,           /* another node calls */
    TR_API_REFUSED,        /* `problem` says why, `allow` what would do */
};

struct tr_api_request {
    enum tr_api_kind kind;
    struct tr_timer_text timer; /* of a path that names one */
    bool has_cursor;
    bool wants_dead;     /* ?state=dead */
    bool wants_retrying; /* ?state=retrying */
    bool wants_cluster;  /* ?scope=cluster */
    bool has_sequence;
    bool has_view;
    uint64_t view;    /* ?cluster-view-id= */
    uint64_t from_ms; /* ?time-from= */
    uint64_t cursor;
    uint16_t place; /* of the node that a cursor of the whole cluster is for */
    uint64_t sequence;
    uint32_t limit;
    const char *allow;  /* of a 405 */
    struct tr_span tag; /* ?tag=, decoded; text is NULL when not given */
    char tag_bytes[TR_TAG_SIZE];
    struct tr_span node; /* ?node-for-replicas=, decoded; text is NULL when not given */
    char node_bytes[256];
    struct tr_problem problem;
};

/* Always gives an answer: a command, or a refusal. */
void tr_api_route(enum tr_http_method method, struct tr_span target, struct tr_api_request *out);

#endif
