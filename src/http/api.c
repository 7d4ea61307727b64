/* SPDX-License-Identifier: Apache-2.0 */
#include "http/api.h"

#include "http/route.h"
#include "wire/plan.h"

#define POPS_OF_ANY_STATE 3

void tr_api_refuse(struct tr_api_request *out, unsigned status, const char *detail)
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

/* What is to be done with a timer, behind its id or name; behind `named` it is the name itself. */
static bool cut_suffix(struct tr_span *path, struct tr_span suffix)
{
    size_t size = path->size - (path->size >= suffix.size ? suffix.size : path->size);
    if (size == 0 || !tr_span_equals(tr_span_from(*path, size), suffix) ||
        tr_span_equals((struct tr_span){path->text, size}, TR_SPAN("named")))
        return false;
    path->size = size;
    return true;
}

static void route_named(struct tr_span text, struct tr_api_request *out)
{
    size_t size = 0;
    if (memchr(text.text, '/', text.size) != NULL)
        tr_api_refuse(out, 404, "there is nothing at this path: a / in a name is written as %2F");
    else if (!tr_path_decode(text, out->name_bytes, sizeof out->name_bytes, &size) || size == 0)
        tr_api_refuse(out, 400, "a name is 1 to 255 bytes, percent-encoded");
    out->name = (struct tr_span){out->name_bytes, size};
    out->timer = (struct tr_timer_text){.id = tr_name_id(out->name)};
}

static void route_timer(enum tr_http_method method, struct tr_span path, struct tr_api_request *out)
{
    static const struct tr_span named = {"named/", 6};
    out->kind = cut_suffix(&path, TR_SPAN("/redrive")) ? TR_API_REDRIVE
                : cut_suffix(&path, TR_SPAN("/fire"))  ? TR_API_FIRE
                                                       : TR_API_READ;
    enum tr_api_kind kind = out->kind;
    if (tr_span_starts(path, named))
        route_named(tr_span_from(path, named.size), out);
    else if (!tr_timer_text_parse(path, &out->timer))
        tr_api_refuse(out, 404,
                      "there is no such timer: an id is 16 hexadecimal digits, - and a factor");
    if (out->kind == TR_API_REFUSED)
        return;
    if (kind != TR_API_READ) {
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

/* What chooses nothing would end everything. */
static void check_bulk(struct tr_api_request *out)
{
    if (out->kind == TR_API_REFUSED)
        return;
    if (out->wants_all && out->is_chosen)
        tr_api_refuse(out, 400, "all=yes and a filter cannot both be given");
    else if (!out->wants_all && !out->is_chosen)
        tr_api_refuse(out, 400, "there is no filter: all=yes means every timer");
}

static void route_timers(enum tr_http_method method, struct tr_api_request *out)
{
    if (method == TR_HTTP_POST)
        out->kind = TR_API_CREATE;
    else if (method == TR_HTTP_DELETE)
        out->kind = TR_API_CANCEL_ALL;
    else if (method == TR_HTTP_GET || method == TR_HTTP_HEAD)
        out->kind = TR_API_LIST;
    else
        refuse_method(out, "GET, HEAD, POST, DELETE");
}

/* A cursor is of one order, which is that of the list. */
static void check_sort(struct tr_api_request *out)
{
    bool is_other = out->is_sorted ? out->query.has_cursor : out->has_place;
    if (out->kind != TR_API_REFUSED && is_other)
        tr_api_refuse(out, 400,
                      "the cursor is of a list in another order: sort is to be as it was");
    else if (out->kind != TR_API_REFUSED && out->is_sorted && out->query.wants_held)
        tr_api_refuse(out, 400, "scope=held cannot be sorted");
}

static void check_redrive_all(struct tr_api_request *out)
{
    check_bulk(out);
    if (out->kind != TR_API_REFUSED && out->has_state && !out->query.wants_dead)
        tr_api_refuse(out, 400, "only dead pops can be redriven: state is dead, or left out");
    out->query.wants_dead = true;
    out->query.wants_retrying = false;
}

static void route_cluster(enum tr_http_method method, struct tr_span path,
                          struct tr_api_request *out)
{
    if (tr_span_equals(path, TR_SPAN("/cluster/resync"))) {
        out->kind = TR_API_CLUSTER_RESYNC;
        if (method != TR_HTTP_POST)
            refuse_method(out, "POST");
    } else if (!tr_span_equals(path, TR_SPAN("/cluster"))) {
        tr_api_refuse(out, 404, "there is nothing at this path");
    } else if (method == TR_HTTP_GET || method == TR_HTTP_HEAD) {
        out->kind = TR_API_CLUSTER;
    } else if (method == TR_HTTP_PUT) {
        out->kind = TR_API_CLUSTER_SET;
    } else {
        refuse_method(out, "GET, HEAD, PUT");
    }
}

static void take(struct tr_api_request *out, enum tr_http_method method, enum tr_http_method taken,
                 enum tr_api_kind kind, const char *allow)
{
    bool is_taken = method == taken || (taken == TR_HTTP_GET && method == TR_HTTP_HEAD);
    out->kind = kind;
    if (!is_taken)
        refuse_method(out, allow);
}

static void route_key(enum tr_http_method method, struct tr_span text, struct tr_api_request *out)
{
    size_t size = 0;
    out->kind = method == TR_HTTP_DELETE ? TR_API_KEY_DELETE : TR_API_KEY;
    if (!tr_path_decode(text, out->key_bytes, sizeof out->key_bytes, &size) || size == 0)
        tr_api_refuse(out, 400, "a key is 1 to 4096 bytes here, percent-encoded");
    else if (method != TR_HTTP_GET && method != TR_HTTP_HEAD && method != TR_HTTP_DELETE)
        refuse_method(out, "GET, HEAD, DELETE");
    out->name = (struct tr_span){out->key_bytes, size};
}

/* What people look at, and what it is made of. */
static bool route_page(enum tr_http_method method, struct tr_span path, struct tr_api_request *out)
{
    bool is_page = tr_span_starts(path, TR_SPAN("/ui/"));
    if (!is_page && !tr_span_equals(path, TR_SPAN("/ui")) && !tr_span_equals(path, TR_SPAN("/")))
        return false;
    take(out, method, TR_HTTP_GET, TR_API_UI, "GET, HEAD");
    out->name = is_page ? tr_span_from(path, 4) : (struct tr_span){NULL, 0};
    return true;
}

static void route_clock(enum tr_http_method method, struct tr_span path, struct tr_api_request *out)
{
    if (!tr_span_equals(path, TR_SPAN("/clock")))
        take(out, method, TR_HTTP_POST, TR_API_CLOCK_ADVANCE, "POST");
    else if (method == TR_HTTP_PUT)
        out->kind = TR_API_CLOCK_SET;
    else
        take(out, method, TR_HTTP_GET, TR_API_CLOCK, "GET, HEAD, PUT");
}

/* Paths that are asked for by machines, which may add parameters of their own. */
static bool route_plain(enum tr_http_method method, struct tr_span path, struct tr_api_request *out)
{
    static const struct {
        struct tr_span path;
        enum tr_api_kind kind;
    } plain[] = {
        {{"/ping", 5}, TR_API_PING},       {{"/livez", 6}, TR_API_LIVE},
        {{"/readyz", 7}, TR_API_READY},    {{"/healthz", 8}, TR_API_READY},
        {{"/metrics", 8}, TR_API_METRICS}, {{"/peer", 5}, TR_API_PEER},
    };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (!tr_span_equals(path, plain[i].path))
            continue;
        out->kind = plain[i].kind;
        if (out->kind != TR_API_PING)
            take(out, method, TR_HTTP_GET, out->kind, "GET, HEAD");
        return true;
    }
    if (!tr_span_equals(path, TR_SPAN("/timers/references")))
        return false;
    take(out, method, TR_HTTP_DELETE, TR_API_REFERENCES, "DELETE");
    return true;
}

static void route(enum tr_http_method method, struct tr_span path, struct tr_api_request *out)
{
    if (tr_span_equals(path, TR_SPAN("/clock")) || tr_span_equals(path, TR_SPAN("/clock/advance")))
        route_clock(method, path, out);
    else if (tr_span_equals(path, TR_SPAN("/pops")))
        take(out, method, TR_HTTP_GET, TR_API_POPS, "GET, HEAD");
    else if (tr_span_equals(path, TR_SPAN("/timers/ahead")))
        take(out, method, TR_HTTP_GET, TR_API_AHEAD, "GET, HEAD");
    else if (tr_span_equals(path, TR_SPAN("/history")))
        take(out, method, TR_HTTP_GET, TR_API_HISTORY, "GET, HEAD");
    else if (tr_span_equals(path, TR_SPAN("/destinations")))
        take(out, method, TR_HTTP_GET, TR_API_DESTINATIONS, "GET, HEAD");
    else if (tr_span_equals(path, TR_SPAN("/keys")))
        take(out, method, TR_HTTP_GET, TR_API_KEYS, "GET, HEAD");
    else if (tr_span_equals(path, TR_SPAN("/keyspace")))
        take(out, method, TR_HTTP_GET, TR_API_KEYSPACE, "GET, HEAD");
    else if (tr_span_starts(path, TR_SPAN("/keys/")))
        route_key(method, tr_span_from(path, 6), out);
    else if (tr_span_starts(path, TR_SPAN("/cluster")))
        route_cluster(method, path, out);
    else if (tr_span_equals(path, TR_SPAN("/timers")) || tr_span_equals(path, TR_SPAN("/timers/")))
        route_timers(method, out);
    else if (tr_span_equals(path, TR_SPAN("/timers/redrive")))
        take(out, method, TR_HTTP_POST, TR_API_REDRIVE_ALL, "POST");
    else if (tr_span_starts(path, TR_SPAN("/timers/")))
        route_timer(method, tr_span_from(path, 8), out);
    else
        tr_api_refuse(out, 404, "there is nothing at this path");
}

void tr_api_route(enum tr_http_method method, struct tr_span target, struct tr_api_request *out)
{
    const char *mark = memchr(target.text, '?', target.size);
    struct tr_span path = {target.text, mark == NULL ? target.size : (size_t)(mark - target.text)};
    struct tr_span query = tr_span_from(target, mark == NULL ? target.size : path.size + 1);
    out->query = (struct tr_query){.limit = TR_LIST_LIMIT};
    out->place = 0;
    out->wants_cluster = false;
    out->wants_node = false;
    out->wants_now = false;
    out->wants_all = false;
    out->is_dry = false;
    out->is_sorted = false;
    out->has_place = false;
    out->behind = (struct tr_api_place){.due_ms = 0};
    out->from_ms = 0;
    out->pattern = (struct tr_span){NULL, 0};
    out->has_state = false;
    out->pop_state = POPS_OF_ANY_STATE;
    out->is_chosen = false;
    out->name = (struct tr_span){NULL, 0};
    out->allow = NULL;
    if (route_plain(method, path, out) || route_page(method, path, out))
        return;
    route(method, path, out);
    tr_api_read_query(query, out);
    if (out->kind == TR_API_LIST)
        check_sort(out);
    if (out->kind == TR_API_CANCEL_ALL)
        check_bulk(out);
    else if (out->kind == TR_API_REDRIVE_ALL)
        check_redrive_all(out);
}

void tr_api_keep(struct tr_api_request *to, const struct tr_api_request *from)
{
    struct tr_query *query = &to->query;
    *to = *from;
    if (query->tag.text != NULL)
        query->tag.text = to->tag_bytes;
    if (query->uri_prefix.text != NULL)
        query->uri_prefix.text = to->uri_bytes;
    if (query->name_prefix.text != NULL)
        query->name_prefix.text = to->prefix_bytes;
    if (query->node.text != NULL)
        query->node.text = to->node_bytes;
}
