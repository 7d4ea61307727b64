/* SPDX-License-Identifier: Apache-2.0 */
/* What a request asks for: its method and target, as a command. */
#ifndef TR_HTTP_API_H
#define TR_HTTP_API_H

#include "http/http.h"
#include "seam/command.h"
#include "wire/plan.h"
#include "wire/text.h"
#include "wire/timer_id.h"

enum tr_api_kind {
    TR_API_CREATE,
    TR_API_REPLACE,
    TR_API_CANCEL,
    TR_API_READ,
    TR_API_LIST,
    TR_API_REDRIVE,
    TR_API_FIRE,
    TR_API_CANCEL_ALL,    /* DELETE /timers?... */
    TR_API_REDRIVE_ALL,   /* POST /timers/redrive?... */
    TR_API_RESYNC_LIST,   /* GET /timers?node-for-replicas=... */
    TR_API_POPS,          /* GET /pops */
    TR_API_AHEAD,         /* GET /timers/ahead */
    TR_API_HISTORY,       /* GET /history */
    TR_API_DESTINATIONS,  /* GET /destinations */
    TR_API_KEYS,          /* GET /keys */
    TR_API_KEY,           /* GET /keys/... */
    TR_API_KEY_DELETE,    /* DELETE /keys/... */
    TR_API_KEYSPACE,      /* GET /keyspace */
    TR_API_CLOCK,         /* GET /clock */
    TR_API_CLOCK_SET,     /* PUT /clock */
    TR_API_CLOCK_ADVANCE, /* POST /clock/advance */
    TR_API_REFERENCES,    /* DELETE /timers/references */
    TR_API_PING,
    TR_API_LIVE,
    TR_API_READY,
    TR_API_METRICS,
    TR_API_UI,             /* GET /ui/... */
    TR_API_CLUSTER,        /* GET /cluster */
    TR_API_CLUSTER_SET,    /* PUT /cluster */
    TR_API_CLUSTER_RESYNC, /* POST /cluster/resync */
    TR_API_PEER,           /* another node calls */
    TR_API_REFUSED,        /* `problem` says why, `allow` what would do */
    TR_API_KINDS,
};

#define TR_URI_PREFIX_MAX 1024
#define TR_API_KEY_MAX    4096

/* Where a page of a sorted list begins: behind the timer that stands there. */
struct tr_api_place {
    uint64_t due_ms;
    uint64_t hash;
    uint64_t part;
};

struct tr_api_request {
    enum tr_api_kind kind;
    struct tr_timer_text timer; /* of a path that names one, by its id */
    struct tr_span name;        /* or by its name; text NULL: it does not */
    struct tr_query query;      /* of a list; its spans point into this struct */
    bool wants_cluster;         /* ?scope=cluster */
    bool wants_node;            /* ?scope=node */
    bool wants_now;             /* ?now=1: what changes by itself, too */
    bool wants_all;             /* ?all=yes */
    bool is_sorted;             /* ?sort=due, */
    bool has_place;             /* and a cursor: */
    struct tr_api_place behind; /* the page begins there */
    tr_wall_ms from_ms;         /* ?from= */
    struct tr_span pattern;     /* of keys; text NULL: all */
    bool is_dry;                /* ?dry-run=yes */
    bool has_state;
    uint8_t pop_state; /* of POPS: delivered 0, failed 1, dead 2, any 3 */
    bool is_chosen;    /* a filter was given */
    uint16_t place;    /* of the node that a cursor of the whole cluster is for */
    const char *allow; /* of a 405 */
    char tag_bytes[TR_TAG_SIZE];
    char uri_bytes[TR_URI_PREFIX_MAX];
    char node_bytes[256];
    char prefix_bytes[TR_NAME_MAX];
    char name_bytes[TR_NAME_MAX];
    char key_bytes[TR_API_KEY_MAX];
    struct tr_problem problem;
};

/* Always gives an answer: a command, or a refusal. */
void tr_api_route(enum tr_http_method method, struct tr_span target, struct tr_api_request *out);

/* A copy, whose query lies in its own bytes. */
void tr_api_keep(struct tr_api_request *to, const struct tr_api_request *from);

#endif
