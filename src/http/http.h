/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 messages out of a stream of bytes, by llhttp: requests on the server's side, responses
 * on the client's.
 *
 * The caller keeps the bytes of one message in one buffer, from its first byte on, and feeds what
 * was added. Places are kept as offsets, so the buffer may move between feeds. The pieces of a
 * chunked body are pushed together inside the buffer.
 *
 * Bounds:  the limits given; beyond them the message is refused with the status to answer.
 */
#ifndef TR_HTTP_HTTP_H
#define TR_HTTP_HTTP_H

#include "base/span.h"

#include <llhttp/llhttp.h>
#include <stdint.h>

#define TR_HTTP_HEAD_MAX   16384 /* bytes of a message before its body */
#define TR_HTTP_TARGET_MAX 8192

enum tr_http_method {
    TR_HTTP_OTHER,
    TR_HTTP_GET,
    TR_HTTP_HEAD,
    TR_HTTP_POST,
    TR_HTTP_PUT,
    TR_HTTP_DELETE,
};

enum tr_http_state {
    TR_HTTP_MORE,     /* the message is not complete */
    TR_HTTP_COMPLETE, /* it is; `used` bytes of the buffer were its own */
    TR_HTTP_BAD,      /* refuse it with `fault_status`, and close */
};

/* Headers that anybody here looks at. */
enum tr_http_header {
    TR_HTTP_ACCEPT,
    TR_HTTP_ACCEPT_ENCODING,
    TR_HTTP_AUTHORIZATION,
    TR_HTTP_CONTENT_TYPE,
    TR_HTTP_EXPECT,
    TR_HTTP_HOST,
    TR_HTTP_IDEMPOTENCY_KEY,
    TR_HTTP_IF_MATCH,
    TR_HTTP_IF_NONE_MATCH,
    TR_HTTP_ORIGIN,
    TR_HTTP_PROOF,
    TR_HTTP_RANGE,
    TR_HTTP_RETRY_AFTER,
    TR_HTTP_SEQUENCE,
    TR_HTTP_TIMER_ID,
    TR_HTTP_TRACEPARENT,
    TR_HTTP_TRACESTATE,
    TR_HTTP_UPGRADE,
    TR_HTTP_WEBHOOK_ID,
    TR_HTTP_WEBHOOK_SIGNATURE,
    TR_HTTP_WEBHOOK_TIMESTAMP,
    TR_HTTP_HEADERS,
};

struct tr_http_place {
    uint32_t at;
    uint32_t size;
};

struct tr_http {
    llhttp_t parser;
    const char *base; /* of the buffer, during a feed */
    size_t body_max;
    size_t lines_max; /* of a body of lines; 0: there is none */
    size_t most;      /* of the body that comes */
    size_t used;
    struct tr_http_place target;
    struct tr_http_place field; /* the name of the header being read */
    struct tr_http_place headers[TR_HTTP_HEADERS];
    struct tr_http_place body;
    uint32_t seen;  /* headers that were there, a bit each */
    int8_t current; /* the header whose value comes, or -1 */
    bool is_head_done;
    bool has_lines; /* a POST with a body of lines */
    bool is_complete;
    bool keeps_alive;
    bool expects_continue;
    unsigned fault_status;
    const char *fault;
};

void tr_http_init_request(struct tr_http *http, size_t body_max);

/* Bodies of responses are passed over, up to `body_max`. */
void tr_http_init_response(struct tr_http *http, size_t body_max);

/* Reads the buffer from `from` to `size`; before it lies what was fed already. */
enum tr_http_state tr_http_feed(struct tr_http *http, char *buffer, size_t from, size_t size);

/* Makes ready for the next message of the same connection. */
void tr_http_next(struct tr_http *http);

enum tr_http_method tr_http_method(const struct tr_http *http);
unsigned tr_http_status(const struct tr_http *http);
struct tr_span tr_http_span(const char *buffer, struct tr_http_place place);

/* A header's value; text is NULL when it was not there. */
struct tr_span tr_http_header(const struct tr_http *http, const char *buffer,
                              enum tr_http_header header);

#endif
