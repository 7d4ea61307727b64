/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include "base/assert.h"

static const struct tr_span header_names[TR_HTTP_HEADERS] = {
    [TR_HTTP_ACCEPT] = {"accept", 6},
    [TR_HTTP_ACCEPT_ENCODING] = {"accept-encoding", 15},
    [TR_HTTP_AUTHORIZATION] = {"authorization", 13},
    [TR_HTTP_CONTENT_TYPE] = {"content-type", 12},
    [TR_HTTP_EXPECT] = {"expect", 6},
    [TR_HTTP_HOST] = {"host", 4},
    [TR_HTTP_IDEMPOTENCY_KEY] = {"idempotency-key", 15},
    [TR_HTTP_IF_MATCH] = {"if-match", 8},
    [TR_HTTP_IF_NONE_MATCH] = {"if-none-match", 13},
    [TR_HTTP_ORIGIN] = {"origin", 6},
    [TR_HTTP_PROOF] = {"tryst-proof", 11},
    [TR_HTTP_RANGE] = {"range", 5},
    [TR_HTTP_RETRY_AFTER] = {"retry-after", 11},
    [TR_HTTP_SEQUENCE] = {"x-sequence-number", 17},
    [TR_HTTP_TIMER_ID] = {"x-timer-id", 10},
    [TR_HTTP_TRACEPARENT] = {"traceparent", 11},
    [TR_HTTP_TRACESTATE] = {"tracestate", 10},
    [TR_HTTP_UPGRADE] = {"upgrade", 7},
    [TR_HTTP_WEBHOOK_ID] = {"webhook-id", 10},
    [TR_HTTP_WEBHOOK_SIGNATURE] = {"webhook-signature", 17},
    [TR_HTTP_WEBHOOK_TIMESTAMP] = {"webhook-timestamp", 17},
};

static struct tr_http *http_of(llhttp_t *parser)
{
    return parser->data;
}

/* Ends the message with a status to answer. */
static int refuse(struct tr_http *http, unsigned status, const char *fault)
{
    http->fault_status = status;
    http->fault = fault;
    llhttp_set_error_reason(&http->parser, fault);
    return HPE_USER;
}

/* Lengthens a place by bytes that follow it; the first bytes set it. */
static void extend(const struct tr_http *http, struct tr_http_place *place, const char *at,
                   size_t size)
{
    if (place->size == 0)
        place->at = (uint32_t)(at - http->base);
    place->size = (uint32_t)((size_t)(at - http->base) + size - place->at);
}

static int on_target(llhttp_t *parser, const char *at, size_t size)
{
    struct tr_http *http = http_of(parser);
    extend(http, &http->target, at, size);
    return http->target.size > TR_HTTP_TARGET_MAX ? refuse(http, 414, "the target is too long") : 0;
}

static int on_field(llhttp_t *parser, const char *at, size_t size)
{
    struct tr_http *http = http_of(parser);
    extend(http, &http->field, at, size);
    return 0;
}

static int on_field_complete(llhttp_t *parser)
{
    struct tr_http *http = http_of(parser);
    struct tr_span name = tr_http_span(http->base, http->field);
    http->current = -1;
    for (int i = 0; i < TR_HTTP_HEADERS; i++) {
        if (tr_span_equals_nocase(name, header_names[i]))
            http->current = (int8_t)i;
    }
    http->field.size = 0;
    if (http->current >= 0)
        http->headers[http->current].size = 0;
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t size)
{
    struct tr_http *http = http_of(parser);
    if (http->current >= 0)
        extend(http, &http->headers[http->current], at, size);
    return 0;
}

static int on_value_complete(llhttp_t *parser)
{
    struct tr_http *http = http_of(parser);
    if (http->current >= 0)
        http->seen |= 1u << http->current;
    return 0;
}

/* Whether the body has many things, one a line. It may be larger than that of one. */
static bool has_lines(const struct tr_http *http)
{
    static const struct tr_span lines = {"application/x-ndjson", 20};
    struct tr_span type = tr_http_header(http, http->base, TR_HTTP_CONTENT_TYPE);
    if (http->lines_max == 0 || http->parser.method != HTTP_POST || type.size < lines.size)
        return false;
    bool is_whole =
        type.size == lines.size || type.text[lines.size] == ';' || type.text[lines.size] == ' ';
    type.size = lines.size;
    return is_whole && tr_span_equals_nocase(type, lines);
}

static int refuse_size(struct tr_http *http)
{
    return refuse(http, 413,
                  http->has_lines ? "the lines are over 16 MiB"
                                  : "the body is over the limit; [limits] body sets it");
}

static int on_headers_complete(llhttp_t *parser)
{
    struct tr_http *http = http_of(parser);
    http->is_head_done = true;
    http->has_lines = parser->type == HTTP_REQUEST && has_lines(http);
    http->most = http->has_lines ? http->lines_max : http->body_max;
    if (parser->content_length > http->most && (parser->flags & F_CONTENT_LENGTH) != 0)
        return refuse_size(http);
    struct tr_span expect = tr_http_header(http, http->base, TR_HTTP_EXPECT);
    if (expect.text != NULL && parser->type == HTTP_REQUEST) {
        if (!tr_span_equals_nocase(expect, TR_SPAN("100-continue")))
            return refuse(http, 417, "only Expect: 100-continue is known");
        http->expects_continue = true;
    }
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t size)
{
    struct tr_http *http = http_of(parser);
    if (http->body.size + size > http->most)
        return refuse_size(http);
    if (http->body.size == 0)
        http->body.at = (uint32_t)(at - http->base);
    char *to = (char *)(uintptr_t)http->base + http->body.at + http->body.size;
    if (to != at)
        memmove(to, at, size);
    http->body.size += (uint32_t)size;
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    struct tr_http *http = http_of(parser);
    http->is_complete = true;
    http->keeps_alive = llhttp_should_keep_alive(parser) != 0;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_target,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

static void init(struct tr_http *http, llhttp_type_t type, size_t body_max)
{
    memset(http, 0, sizeof *http);
    llhttp_init(&http->parser, type, &settings);
    http->parser.data = http;
    http->body_max = body_max;
    http->current = -1;
}

void tr_http_init_request(struct tr_http *http, size_t body_max)
{
    init(http, HTTP_REQUEST, body_max);
}

void tr_http_init_response(struct tr_http *http, size_t body_max)
{
    init(http, HTTP_RESPONSE, body_max);
}

void tr_http_next(struct tr_http *http)
{
    TR_ASSERT(http->is_complete);
    llhttp_resume(&http->parser);
    http->target = (struct tr_http_place){0};
    http->field = (struct tr_http_place){0};
    http->body = (struct tr_http_place){0};
    http->seen = 0;
    http->current = -1;
    http->is_head_done = false;
    http->is_complete = false;
    http->expects_continue = false;
}

enum tr_http_state tr_http_feed(struct tr_http *http, char *buffer, size_t from, size_t size)
{
    TR_ASSERT(!http->is_complete && from <= size);
    http->base = buffer;
    llhttp_errno_t result = llhttp_execute(&http->parser, buffer + from, size - from);
    if (result == HPE_PAUSED && http->is_complete) {
        http->used = (size_t)(llhttp_get_error_pos(&http->parser) - buffer);
        return TR_HTTP_COMPLETE;
    }
    if (result == HPE_OK) {
        /* Chunks may triple a body, and no more; extensions and trailers count too. */
        size_t most =
            http->is_head_done ? 3 * http->most + (size_t)2 * TR_HTTP_HEAD_MAX : TR_HTTP_HEAD_MAX;
        if (size <= most)
            return TR_HTTP_MORE;
        http->fault_status = http->is_head_done ? 413 : 431;
        http->fault = http->is_head_done ? "the body is over the limit; [limits] body sets it"
                                         : "the headers are over 16384 bytes";
        return TR_HTTP_BAD;
    }
    if (result == HPE_PAUSED_UPGRADE) {
        http->fault_status = 501;
        http->fault = "no such upgrade";
    } else if (http->fault_status == 0) {
        http->fault_status = 400;
        http->fault = llhttp_get_error_reason(&http->parser);
    }
    return TR_HTTP_BAD;
}

enum tr_http_method tr_http_method(const struct tr_http *http)
{
    llhttp_method_t method = (llhttp_method_t)http->parser.method;
    return method == HTTP_GET      ? TR_HTTP_GET
           : method == HTTP_HEAD   ? TR_HTTP_HEAD
           : method == HTTP_POST   ? TR_HTTP_POST
           : method == HTTP_PUT    ? TR_HTTP_PUT
           : method == HTTP_DELETE ? TR_HTTP_DELETE
                                   : TR_HTTP_OTHER;
}

unsigned tr_http_status(const struct tr_http *http)
{
    return http->parser.status_code;
}

struct tr_span tr_http_span(const char *buffer, struct tr_http_place place)
{
    return (struct tr_span){buffer + place.at, place.size};
}

struct tr_span tr_http_header(const struct tr_http *http, const char *buffer,
                              enum tr_http_header header)
{
    if ((http->seen >> header & 1) == 0)
        return (struct tr_span){0};
    struct tr_span value = tr_http_span(buffer, http->headers[header]);
    while (value.size > 0 &&
           (value.text[value.size - 1] == ' ' || value.text[value.size - 1] == '\t'))
        value.size--;
    return value;
}
