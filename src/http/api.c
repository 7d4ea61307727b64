/* SPDX-License-Identifier: Apache-2.0 */
#include "http/api.h"

#include "calendar/date.h"
#include "wire/suggest.h"

#define CURSOR_NODE    16 /* digits */
#define CURSOR_CLUSTER 20

static void refuse(struct tr_api_request *out, unsigned status, const char *detail)
{
    out->kind = TR_API_REFUSED;
    tr_problem_set(&out->problem, status, detail, NULL);
}

static void refuse_method(struct tr_api_request *out, const char *allow)
{
    out->kind = TR_API_REFUSED;
    out->allow = allow;
    tr_problem_set(&out->problem, 405, "this path takes ", allow, NULL);
}

static bool read_number(struct tr_span text, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.text[i] < '0' || text.text[i] > '9' || *value > UINT64_MAX / 10 - 1)
            return false;
        *value = *value * 10 + (uint64_t)(text.text[i] - '0');
    }
    return text.size > 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Percent-decoded into `out`; a plus is a blank, or, where that means nothing, itself. False: it
 * does not fit or is badly written. */
static bool decode_with(struct tr_span text, char plus, char *out, size_t cap, size_t *size)
{
    size_t n = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.text[i];
        if (c == '+')
            c = plus;
        if (c == '%') {
            int high = i + 2 < text.size ? hex_digit(text.text[i + 1]) : -1;
            int low = i + 2 < text.size ? hex_digit(text.text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (n == cap)
            return false;
        out[n++] = c;
    }
    *size = n;
    return true;
}

static bool decode(struct tr_span text, char *out, size_t cap, size_t *size)
{
    return decode_with(text, ' ', out, cap, size);
}

/* An instant; the plus of its offset is not always escaped. */
static bool read_instant(struct tr_span text, tr_wall_ms *at_ms)
{
    char bytes[64];
    size_t size = 0;
    return decode_with(text, '+', bytes, sizeof bytes, &size) &&
           tr_instant_parse((struct tr_span){bytes, size}, at_ms);
}

static bool read_hex(struct tr_span text, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < text.size; i++) {
        int digit = hex_digit(text.text[i]);
        if (digit < 0 || text.size != 16)
            return false;
        *value = *value << 4 | (uint64_t)digit;
    }
    return text.size == 16;
}

/* Of a node, or, with four digits more, of the whole cluster. */
static bool read_cursor(struct tr_span text, struct tr_api_request *out)
{
    size_t head = text.size == CURSOR_CLUSTER ? CURSOR_CLUSTER - CURSOR_NODE : 0;
    uint64_t place = 0;
    for (size_t i = 0; i < head; i++) {
        int digit = hex_digit(text.text[i]);
        if (digit < 0)
            return false;
        place = place << 4 | (uint64_t)digit;
    }
    out->query.has_cursor = true;
    out->place = (uint16_t)place;
    return read_hex(tr_span_from(text, head), &out->query.cursor);
}

static void refuse_parameter(struct tr_api_request *out, struct tr_span name)
{
    static const char *const known[] = {"limit",
                                        "cursor",
                                        "tag",
                                        "state",
                                        "scope",
                                        "sequence",
                                        "time-from",
                                        "node-for-replicas",
                                        "cluster-view-id",
                                        "uri-prefix",
                                        "due-after",
                                        "due-before",
                                        NULL};
    char text[33] = "";
    memcpy(text, name.text, name.size < sizeof text ? name.size : sizeof text - 1);
    const char *meant = tr_suggest(name, known);
    out->kind = TR_API_REFUSED;
    tr_problem_set(&out->problem, 400, "there is no parameter ", text,
                   meant != NULL ? ": did you mean " : NULL, meant, "?", NULL);
}

/* What nodes of the original ask each other for. */
static void read_resync_parameter(struct tr_span name, struct tr_span value,
                                  struct tr_api_request *out)
{
    size_t size = 0;
    if (tr_span_equals(name, TR_SPAN("node-for-replicas"))) {
        out->kind = TR_API_RESYNC_LIST;
        if (!decode(value, out->node_bytes, sizeof out->node_bytes, &size) || size == 0)
            refuse(out, 400, "node-for-replicas must be the address of a node");
        out->query.node = (struct tr_span){out->node_bytes, size};
    } else if (tr_span_equals(name, TR_SPAN("cluster-view-id"))) {
        out->kind = TR_API_RESYNC_LIST;
        out->query.has_view = true;
        if (!read_hex(value, &out->query.view))
            refuse(out, 400, "cluster-view-id must be the view of GET /cluster");
    } else if (tr_span_equals(name, TR_SPAN("time-from"))) {
        if (!read_number(value, &out->query.from_ms) || out->query.from_ms > TR_TIME_MAX)
            refuse(out, 400, "time-from must be a number of milliseconds from now");
    } else {
        refuse_parameter(out, name);
    }
}

static void read_parameter(struct tr_span name, struct tr_span value, struct tr_api_request *out)
{
    uint64_t number = 0;
    if (tr_span_equals(name, TR_SPAN("limit"))) {
        if (!read_number(value, &number) || number == 0 || number > TR_LIST_LIMIT_MAX)
            refuse(out, 400, "limit must be a number from 1 to 1000");
        out->query.limit = (uint32_t)number;
    } else if (tr_span_equals(name, TR_SPAN("cursor"))) {
        if (!read_cursor(value, out))
            refuse(out, 400, "cursor must be one that an earlier page gave");
    } else if (tr_span_equals(name, TR_SPAN("tag"))) {
        size_t size = 0;
        if (!decode(value, out->tag_bytes, sizeof out->tag_bytes, &size) || size == 0)
            refuse(out, 400, "tag must be 1 to 64 bytes");
        out->query.tag = (struct tr_span){out->tag_bytes, size};
    } else if (tr_span_equals(name, TR_SPAN("uri-prefix"))) {
        size_t size = 0;
        if (!decode(value, out->uri_bytes, sizeof out->uri_bytes, &size) || size == 0)
            refuse(out, 400, "uri-prefix must be 1 to 1024 bytes");
        out->query.uri_prefix = (struct tr_span){out->uri_bytes, size};
    } else if (tr_span_equals(name, TR_SPAN("due-after"))) {
        if (!read_instant(value, &out->query.due_after_ms))
            refuse(out, 400, "due-after must be an instant, as 2026-11-19T08:30:00Z");
    } else if (tr_span_equals(name, TR_SPAN("due-before"))) {
        if (!read_instant(value, &out->query.due_before_ms))
            refuse(out, 400, "due-before must be an instant, as 2026-11-19T08:30:00Z");
        if (out->query.due_before_ms == 0) /* which is not given; nothing is due by then */
            out->query.due_before_ms = 1;
    } else if (tr_span_equals(name, TR_SPAN("state"))) {
        out->query.wants_dead = tr_span_equals(value, TR_SPAN("dead"));
        out->query.wants_retrying = tr_span_equals(value, TR_SPAN("retrying"));
        if (!out->query.wants_dead && !out->query.wants_retrying &&
            !tr_span_equals(value, TR_SPAN("pending")))
            refuse(out, 400, "state must be pending, retrying or dead");
    } else if (tr_span_equals(name, TR_SPAN("scope"))) {
        out->wants_cluster = tr_span_equals(value, TR_SPAN("cluster"));
        out->query.wants_held = tr_span_equals(value, TR_SPAN("held"));
        if (!out->wants_cluster && !out->query.wants_held &&
            !tr_span_equals(value, TR_SPAN("node")))
            refuse(out, 400, "scope must be node, cluster or held");
    } else if (tr_span_equals(name, TR_SPAN("sequence"))) {
        if (!read_number(value, &out->query.sequence))
            refuse(out, 400, "sequence must be a number");
    } else {
        read_resync_parameter(name, value, out);
    }
}

/* Parameters are parted by & or, as the original has it, by ; */
static void read_query(struct tr_span query, struct tr_api_request *out)
{
    while (query.size > 0 && out->kind != TR_API_REFUSED) {
        size_t end = 0;
        while (end < query.size && query.text[end] != '&' && query.text[end] != ';')
            end++;
        const char *equals = memchr(query.text, '=', end);
        size_t name = equals == NULL ? end : (size_t)(equals - query.text);
        struct tr_span value = {query.text + name, 0};
        if (equals != NULL)
            value = (struct tr_span){equals + 1, end - name - 1};
        read_parameter((struct tr_span){query.text, name}, value, out);
        query = tr_span_from(query, end < query.size ? end + 1 : end);
    }
    const struct tr_query *asked = &out->query;
    bool is_chosen = asked->tag.text != NULL || asked->wants_dead || asked->wants_retrying ||
                     asked->uri_prefix.text != NULL || asked->due_after_ms > 0 ||
                     asked->due_before_ms > 0;
    if (out->kind != TR_API_REFUSED && asked->wants_held && is_chosen)
        refuse(out, 400, "scope=held lists all timers: there is nothing to choose by");
}

static void route_timer(enum tr_http_method method, struct tr_span path, struct tr_api_request *out)
{
    static const struct tr_span redrive = {"/redrive", 8};
    bool is_redrive = path.size > redrive.size &&
                      tr_span_equals(tr_span_from(path, path.size - redrive.size), redrive);
    struct tr_span text = path;
    text.size -= is_redrive ? redrive.size : 0;
    if (!tr_timer_text_parse(text, &out->timer)) {
        refuse(out, 404, "there is no such timer: an id is 16 hexadecimal digits, - and a factor");
        return;
    }
    if (is_redrive) {
        out->kind = TR_API_REDRIVE;
        if (method != TR_HTTP_POST)
            refuse_method(out, "POST");
        return;
    }
    switch (method) {
    case TR_HTTP_GET:
    case TR_HTTP_HEAD:
        out->kind = TR_API_READ;
        return;
    case TR_HTTP_PUT:
        out->kind = TR_API_REPLACE;
        return;
    case TR_HTTP_DELETE:
        out->kind = TR_API_CANCEL;
        return;
    case TR_HTTP_POST:
    case TR_HTTP_OTHER:
        refuse_method(out, "GET, HEAD, PUT, DELETE");
    }
}

static void route_timers(enum tr_http_method method, struct tr_api_request *out)
{
    if (method == TR_HTTP_POST)
        out->kind = TR_API_CREATE;
    else if (method == TR_HTTP_GET || method == TR_HTTP_HEAD)
        out->kind = TR_API_LIST;
    else
        refuse_method(out, "GET, HEAD, POST");
}

static void route_cluster(enum tr_http_method method, struct tr_span path,
                          struct tr_api_request *out)
{
    if (tr_span_equals(path, TR_SPAN("/cluster/resync"))) {
        out->kind = TR_API_CLUSTER_RESYNC;
        if (method != TR_HTTP_POST)
            refuse_method(out, "POST");
    } else if (!tr_span_equals(path, TR_SPAN("/cluster"))) {
        refuse(out, 404, "there is nothing at this path");
    } else if (method == TR_HTTP_GET || method == TR_HTTP_HEAD) {
        out->kind = TR_API_CLUSTER;
    } else if (method == TR_HTTP_PUT) {
        out->kind = TR_API_CLUSTER_SET;
    } else {
        refuse_method(out, "GET, HEAD, PUT");
    }
}

void tr_api_route(enum tr_http_method method, struct tr_span target, struct tr_api_request *out)
{
    static const struct {
        struct tr_span path;
        enum tr_api_kind kind;
    } plain[] = {
        {{"/ping", 5}, TR_API_PING},       {{"/livez", 6}, TR_API_LIVE},
        {{"/readyz", 7}, TR_API_READY},    {{"/healthz", 8}, TR_API_READY},
        {{"/metrics", 8}, TR_API_METRICS}, {{"/peer", 5}, TR_API_PEER},
    };
    const char *mark = memchr(target.text, '?', target.size);
    struct tr_span path = {target.text, mark == NULL ? target.size : (size_t)(mark - target.text)};
    struct tr_span query = tr_span_from(target, mark == NULL ? target.size : path.size + 1);
    out->query = (struct tr_query){.limit = TR_LIST_LIMIT};
    out->place = 0;
    out->wants_cluster = false;
    out->allow = NULL;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (!tr_span_equals(path, plain[i].path))
            continue;
        out->kind = plain[i].kind;
        if (method != TR_HTTP_GET && method != TR_HTTP_HEAD && out->kind != TR_API_PING)
            refuse_method(out, "GET, HEAD");
        return;
    }
    if (tr_span_starts(path, TR_SPAN("/cluster"))) {
        route_cluster(method, path, out);
        return;
    }
    if (tr_span_equals(path, TR_SPAN("/timers")) || tr_span_equals(path, TR_SPAN("/timers/"))) {
        route_timers(method, out);
        if (out->kind == TR_API_LIST)
            read_query(query, out);
    } else if (tr_span_equals(path, TR_SPAN("/timers/references"))) {
        out->kind = TR_API_REFERENCES;
        if (method != TR_HTTP_DELETE)
            refuse_method(out, "DELETE");
    } else if (tr_span_starts(path, TR_SPAN("/timers/"))) {
        route_timer(method, tr_span_from(path, 8), out);
        if (out->kind == TR_API_REDRIVE)
            read_query(query, out);
    } else {
        refuse(out, 404, "there is nothing at this path");
    }
}
