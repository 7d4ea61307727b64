/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/http.h"

#include "base/hash.h"
#include "http/route.h"
#include "shell/cluster.h"
#include "shell/front/allow.h"
#include "shell/front/batch.h"
#include "shell/front/body.h"
#include "shell/front/bulk.h"
#include "shell/front/gather.h"
#include "shell/front/look.h"
#include "shell/front/outlook.h"
#include "shell/front/page.h"
#include "shell/front/render.h"
#include "shell/front/resp_find.h"
#include "shell/front/told.h"
#include "shell/front/views.h"
#include "shell/front/words.h"
#include "shell/peer/links.h"
#include "shell/test_clock.h"
#include "wire/hex.h"

#include <stdlib.h>
#include <string.h>

/* What was set is shown when it is there; the node is in the middle of a step now. */
static void keep_reread(struct tr_server *server, uint64_t token, const struct tr_timer_text *timer)
{
    if (server->reread_count == server->reread_cap) {
        size_t cap = server->reread_cap * 2 > 16 ? server->reread_cap * 2 : 16;
        struct tr_reread *larger = realloc(server->rereads, cap * sizeof *larger);
        if (larger == NULL)
            abort();
        server->rereads = larger;
        server->reread_cap = cap;
    }
    server->rereads[server->reread_count++] = (struct tr_reread){token, *timer};
}

void tr_http_reread(struct tr_server *server)
{
    size_t count = server->reread_count;
    struct tr_reread *list = server->rereads;
    server->rereads = NULL;
    server->reread_count = 0;
    server->reread_cap = 0;
    for (size_t i = 0; i < count; i++) {
        struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED, .has_more = true};
        event.of.request.token = list[i].token;
        event.of.request.command = TR_COMMAND_READ;
        event.of.request.timer = list[i].timer;
        if (tr_connection_of(server, list[i].token) != NULL)
            tr_daemon_step(server->daemon, &event);
    }
    free(list);
}

/* It is as the client has seen it. */
static bool is_fresh(const struct tr_connection *connection, uint16_t number,
                     const struct tr_answer *answer)
{
    return connection->fresh_number == number && answer->etag[0] != '\0' &&
           connection->fresh_hash == tr_hash_xxh3(answer->etag, strlen(answer->etag));
}

void tr_http_answer(struct tr_connection *connection, uint16_t number,
                    const struct tr_effect *effect)
{
    struct tr_server *server = connection->server;
    struct tr_answer *answer = &server->answer;
    uint8_t *wants = &connection->wants[number % TR_UNDER_WAY_MAX];
    bool is_write = effect->kind == TR_EFFECT_ANSWER && (*wants & TR_WANT_TIMER) != 0;
    if (is_write && effect->of.answer.result == TR_DONE && effect->of.answer.has_location) {
        *wants |= TR_WANT_AGAIN;
        *wants |= effect->of.answer.is_replayed ? TR_WANT_REPLAYED : 0;
        keep_reread(server, tr_connection_token(connection, number), &effect->of.answer.location);
        return;
    }
    if (effect->kind == TR_EFFECT_ANSWER_TIMER && connection->rights != NULL &&
        !tr_node_sees(server->daemon->node, effect->of.timer.ref, &connection->rights->narrow)) {
        tr_render_problem(connection, number, 403, TR_ALLOW_NO_TIMER);
        return;
    }
    tr_answer_from_effect(answer, server->daemon->node, effect, *wants);
    if (is_write && (*wants & TR_WANT_AGAIN) != 0)
        tr_answer_status(answer, 200); /* it was set, and is over by now, or not to be shown */
    else if ((*wants & TR_WANT_FRESH) != 0 && is_fresh(connection, number, answer))
        tr_answer_not_modified(answer);
    answer->is_replayed |= (*wants & TR_WANT_REPLAYED) != 0;
    tr_render(connection, number);
}

/* `Range: 100` is how many timers the original wants at once. */
static void read_range(const struct tr_connection *connection, const char *bytes,
                       struct tr_api_request *route)
{
    struct tr_span text = tr_http_header(&connection->http, bytes, TR_HTTP_RANGE);
    uint32_t number = 0;
    for (size_t i = 0; text.text != NULL && i < text.size && i < 5; i++)
        number = text.text[i] >= '0' && text.text[i] <= '9'
                     ? number * 10 + (uint32_t)(text.text[i] - '0')
                     : 0;
    if (number > 0)
        route->query.limit = number < TR_LIST_LIMIT_MAX ? number : TR_LIST_LIMIT_MAX;
}

static enum tr_command command_of(enum tr_api_kind kind)
{
    return kind == TR_API_CREATE        ? TR_COMMAND_CREATE
           : kind == TR_API_REPLACE     ? TR_COMMAND_REPLACE
           : kind == TR_API_CANCEL      ? TR_COMMAND_CANCEL
           : kind == TR_API_READ        ? TR_COMMAND_READ
           : kind == TR_API_LIST        ? TR_COMMAND_LIST
           : kind == TR_API_RESYNC_LIST ? TR_COMMAND_RESYNC_LIST
           : kind == TR_API_FIRE        ? TR_COMMAND_FIRE
                                        : TR_COMMAND_REDRIVE;
}

/* `00-<trace>-<parent>-<flags>`, in hexadecimal. What is not sampled, or not as it should be, is as
 * if it were not there. */
static void read_trace(struct tr_connection *connection, const char *bytes, struct tr_own *own)
{
    enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, SIZE = 55 };
    struct tr_span text = tr_http_header(&connection->http, bytes, TR_HTTP_TRACEPARENT);
    struct tr_span state = tr_http_header(&connection->http, bytes, TR_HTTP_TRACESTATE);
    uint8_t *trace = connection->server->trace;
    bool has_any = false;
    bool has_capital = false; /* which there must not be */
    if (text.size < SIZE || text.text[2] != '-' || text.text[PARENT_AT - 1] != '-' ||
        text.text[FLAGS_AT - 1] != '-' || (text.size > SIZE && text.text[SIZE] != '-') ||
        memcmp(text.text, "ff", 2) == 0)
        return;
    struct tr_span ids[] = {{text.text + TRACE_AT, 32}, {text.text + PARENT_AT, 16}};
    int flags = tr_hex_digit(text.text[FLAGS_AT + 1]);
    if (!tr_hex_bytes(ids[0], trace, 16) || !tr_hex_bytes(ids[1], trace + 16, 8))
        return;
    for (size_t i = 0; i < text.size; i++) {
        has_capital |= i < SIZE && text.text[i] >= 'A' && text.text[i] <= 'F';
        has_any |= i < 16 && trace[i] != 0;
    }
    if (!has_any || has_capital || flags < 0 || (flags & 1) == 0)
        return;
    /* Its ids are put together as numbers, the first byte last. */
    for (unsigned half = 0; half < TR_TRACE_SIZE; half += 8) {
        for (unsigned i = 0; i < 4; i++) {
            uint8_t byte = trace[half + i];
            trace[half + i] = trace[half + 7 - i];
            trace[half + 7 - i] = byte;
        }
    }
    own->trace = (struct tr_span){(const char *)trace, TR_TRACE_SIZE};
    if (state.text != NULL && state.size > 0 && state.size <= TR_TRACESTATE_MAX)
        own->tracestate = state;
}

/* `*`, or an ETag that GET gave. One that it never gave is that of no timer. */
static void read_condition(struct tr_connection *connection, uint16_t number, const char *bytes,
                           struct tr_event *event)
{
    struct tr_condition *condition = &event->of.request.condition;
    struct tr_span match = tr_http_header(&connection->http, bytes, TR_HTTP_IF_MATCH);
    struct tr_span none = tr_http_header(&connection->http, bytes, TR_HTTP_IF_NONE_MATCH);
    enum tr_api_kind kind = connection->server->route.kind;
    if (none.text != NULL && kind == TR_API_READ) {
        connection->wants[number % TR_UNDER_WAY_MAX] |= TR_WANT_FRESH;
        connection->fresh_number = number;
        connection->fresh_hash = tr_hash_xxh3(none.text, none.size);
    }
    if (kind == TR_API_CREATE || kind == TR_API_READ)
        return;
    if (none.text != NULL && tr_span_equals(none, TR_SPAN("*")))
        condition->when = TR_WHEN_ABSENT;
    else if (match.text != NULL && tr_span_equals(match, TR_SPAN("*")))
        condition->when = TR_WHEN_THERE;
    else if (match.text != NULL && !tr_etag_parse(match, condition))
        *condition = (struct tr_condition){.when = TR_WHEN_SAME};
}

/* A key in quotes is the same as the bare one. */
static struct tr_span unquote(struct tr_span key)
{
    bool is_quoted = key.size >= 2 && key.text[0] == '"' && key.text[key.size - 1] == '"';
    return is_quoted ? (struct tr_span){key.text + 1, key.size - 2} : key;
}

/* A word of Accept is enough: nobody asks for more than one thing of a POST. */
static bool wants_json(struct tr_connection *connection, const char *bytes)
{
    static const char json[] = "application/json";
    struct tr_span accept = tr_http_header(&connection->http, bytes, TR_HTTP_ACCEPT);
    for (size_t i = 0; accept.text != NULL && i + sizeof json - 1 <= accept.size; i++) {
        if (memcmp(accept.text + i, json, sizeof json - 1) == 0)
            return true;
    }
    return false;
}

/* What the client wants, too, where the timer was read first. */
static bool is_met(const struct tr_condition *wanted, const struct tr_condition *found)
{
    bool is_there = found->when == TR_WHEN_SAME;
    bool is_same = wanted->version == found->version && wanted->sequence == found->sequence &&
                   wanted->attempt == found->attempt && wanted->is_dead == found->is_dead;
    return wanted->when == TR_WHEN_ANY || (wanted->when == TR_WHEN_ABSENT && !is_there) ||
           (wanted->when == TR_WHEN_THERE && is_there) ||
           (wanted->when == TR_WHEN_SAME && is_there && is_same);
}

void tr_http_ask(struct tr_connection *connection, uint16_t number, const char *bytes,
                 const struct tr_condition *condition)
{
    struct tr_server *server = connection->server;
    struct tr_api_request *route = &server->route;
    if (route->kind == TR_API_RESYNC_LIST)
        read_range(connection, bytes, route);
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED, .has_more = true};
    event.of.request.token = tr_connection_token(connection, number);
    event.of.request.command = command_of(route->kind);
    event.of.request.timer = route->timer;
    event.of.request.query = &route->query;
    read_condition(connection, number, bytes, &event);
    if (condition != NULL && !is_met(&event.of.request.condition, condition)) {
        tr_render_result(connection, number, TR_CONDITION_FAILED);
        return;
    }
    if (condition != NULL)
        event.of.request.condition = *condition;
    if (route->kind == TR_API_READ && route->wants_now)
        connection->wants[number % TR_UNDER_WAY_MAX] |= TR_WANT_NOW;
    if (route->kind == TR_API_CREATE || route->kind == TR_API_REPLACE) {
        struct tr_problem problem;
        struct tr_http_place place = connection->http.body;
        char *body = (char *)(uintptr_t)bytes + place.at;
        if (wants_json(connection, bytes))
            connection->wants[number % TR_UNDER_WAY_MAX] |= TR_WANT_TIMER;
        if (!tr_body_read(server, body, place.size, route->kind == TR_API_CREATE, &problem)) {
            tr_answer_problem(&server->answer, &problem, NULL);
            tr_render(connection, number);
            return;
        }
        read_trace(connection, bytes, &server->body.own);
        server->body.own.name = route->name.text != NULL ? route->name : server->body.own.name;
        bool is_more = condition == NULL || condition->when != TR_WHEN_SAME;
        if (!tr_allow_timer(connection, &server->body, is_more, &problem)) {
            tr_answer_problem(&server->answer, &problem, NULL);
            tr_render(connection, number);
            return;
        }
        event.of.request.body = &server->body;
        event.of.request.key = tr_http_header(&connection->http, bytes, TR_HTTP_IDEMPOTENCY_KEY);
        if (event.of.request.key.text == NULL)
            event.of.request.key = server->body.key;
        event.of.request.key = unquote(event.of.request.key);
        if (event.of.request.key.text != NULL && event.of.request.key.size == 0) {
            tr_render_problem(connection, number, 400, "Idempotency-Key must not be empty");
            return;
        }
    }
    tr_daemon_step(server->daemon, &event);
}

static void begin_batch(struct tr_connection *connection, uint16_t number, const char *bytes)
{
    struct tr_problem problem;
    struct tr_span body = tr_http_span(bytes, connection->http.body);
    if (tr_http_header(&connection->http, bytes, TR_HTTP_IDEMPOTENCY_KEY).text != NULL)
        tr_problem_set(&problem, 400,
                       "an Idempotency-Key is for one timer: give each line its own, as its member "
                       "idempotency-key",
                       NULL);
    else if (tr_batch_begin(connection, number, body, &problem))
        return;
    tr_answer_problem(&connection->server->answer, &problem, NULL);
    tr_render(connection, number);
}

static void set_cluster(struct tr_connection *connection, const char *bytes)
{
    struct tr_server *server = connection->server;
    struct tr_problem problem;
    struct tr_span proof = tr_http_header(&connection->http, bytes, TR_HTTP_PROOF);
    struct tr_span text = tr_http_span(bytes, connection->http.body);
    if (tr_cluster_apply(server->daemon, connection->stream.file, proof, text, &problem))
        tr_answer_cluster(&server->answer, server->daemon);
    else
        tr_answer_problem(&server->answer, &problem, NULL);
}

/* Another node: the connection is a link from here on. */
static void become_link(struct tr_connection *connection)
{
    struct tr_server *server = connection->server;
    tr_connection_unlink(connection);
    tr_connection_give_slot(server, connection->slot);
    server->daemon->metrics.connections--;
    struct tr_tls *tls = tr_stream_take_tls(&connection->stream);
    tr_links_accept(server->daemon->links, tr_stream_detach(&connection->stream), tls);
}

/* What TLS says by itself after its greetings goes before anything else. */
static bool is_all_sent(struct tr_stream *stream)
{
    if (stream->tls != NULL)
        tr_stream_send_now(stream);
    return stream->out_sent == stream->out_size;
}

/* Nothing is under way on it, and nothing follows before it is answered. */
static bool may_become_link(struct tr_connection *connection, const char *bytes, size_t size)
{
    struct tr_span upgrade = tr_http_header(&connection->http, bytes, TR_HTTP_UPGRADE);
    return upgrade.text != NULL && tr_span_equals_nocase(upgrade, TR_SPAN("tryst-peer")) &&
           tr_http_method(&connection->http) == TR_HTTP_GET && connection->http.used == size &&
           connection->asked == connection->answered && is_all_sent(&connection->stream) &&
           !connection->server->is_draining && !connection->server->daemon->test_clock.is_on;
}

/* What is answered elsewhere. */
static void begin_other(struct tr_connection *connection, uint16_t number, const char *bytes)
{
    struct tr_span body = tr_http_span(bytes, connection->http.body);
    enum tr_api_kind what = connection->server->route.kind;
    if (what == TR_API_POPS)
        tr_told_begin(connection, number);
    else if (what == TR_API_AHEAD)
        tr_ahead_begin(connection, number);
    else if (what == TR_API_HISTORY)
        tr_history_begin(connection, number);
    else if (what == TR_API_DESTINATIONS)
        tr_destinations_begin(connection, number);
    else if (what >= TR_API_KEYS && what <= TR_API_KEYSPACE)
        tr_keys_begin(connection, number);
    else if (what == TR_API_CLOCK)
        tr_test_clock_show(connection, number);
    else if (what == TR_API_CLOCK_SET)
        tr_test_clock_set(connection, number, body);
    else if (what == TR_API_CLOCK_ADVANCE)
        tr_test_clock_advance(connection, number, body);
    else
        tr_bulk_begin(connection, number);
}

/* TLS may be wanted of clients and of nodes, apart from each other. */
static bool may_be_plain(const struct tr_connection *connection, enum tr_api_kind what)
{
    const struct tr_config *config = &connection->server->daemon->config;
    uint64_t mode = what == TR_API_PEER ? config->tls_peers : config->tls_clients;
    return connection->stream.tls != NULL || connection->is_own || mode != TR_TLS_REQUIRED;
}

static void put_metrics(struct tr_server *server)
{
    struct tr_daemon *daemon = server->daemon;
    struct tr_writer *out = &server->answer.body;
    tr_answer_metrics(&server->answer, daemon->node, &daemon->metrics);
    tr_metrics_head(out, "tryst_auth_failures_total", "counter",
                    "Tokens that were shown and are none.");
    tr_metrics_sample(out, "tryst_auth_failures_total", NULL, daemon->auth.failures);
    if (daemon->certificates.expires_s > 0) {
        tr_metrics_head(out, "tryst_tls_expires_timestamp_seconds", "gauge",
                        "When this node's certificate expires, since 1970.");
        tr_metrics_sample(out, "tryst_tls_expires_timestamp_seconds", NULL,
                          daemon->certificates.expires_s);
    }
    tr_resp_put_counts(out, server);
}

static void resync(struct tr_server *server)
{
    tr_cluster_resync(server->daemon);
    tr_answer_text(&server->answer, 202, "rebalancing; the log tells how it went\n");
}

/* What is known at once. */
static void answer_now(struct tr_connection *connection, uint16_t number, const char *bytes)
{
    struct tr_server *server = connection->server;
    struct tr_daemon *daemon = server->daemon;
    struct tr_answer *answer = &server->answer;
    enum tr_api_kind what = server->route.kind;
    if (what == TR_API_REFERENCES) /* nodes of the original drop what they hold for others */
        tr_answer_status(answer, 202);
    else if (what == TR_API_PING)
        tr_answer_text(answer, 200, "OK");
    else if (what == TR_API_LIVE)
        tr_answer_health(answer, daemon->node, NULL, &daemon->config);
    else if (what == TR_API_READY)
        tr_answer_health(answer, daemon->node, &daemon->metrics, &daemon->config);
    else if (what == TR_API_UI)
        tr_page_answer(connection, bytes);
    else if (what == TR_API_METRICS)
        put_metrics(server);
    else if (what == TR_API_CLUSTER)
        tr_answer_cluster(answer, daemon);
    else if (what == TR_API_CLUSTER_SET)
        set_cluster(connection, bytes);
    else if (what == TR_API_CLUSTER_RESYNC)
        resync(server);
    else if (what == TR_API_PEER)
        tr_answer_upgrade(answer);
    else
        tr_answer_problem(answer, &server->route.problem, server->route.allow);
    tr_render(connection, number);
}

/* What the node is asked for, on its own or with others. */
static void ask(struct tr_connection *connection, uint16_t number, const char *bytes)
{
    struct tr_server *server = connection->server;
    struct tr_daemon *daemon = server->daemon;
    const struct tr_api_request *route = &server->route;
    bool is_list = route->kind == TR_API_LIST;
    if (route->kind == TR_API_CREATE && connection->http.has_lines)
        begin_batch(connection, number, bytes);
    else if (is_list && route->is_sorted)
        tr_sorted_begin(connection, number);
    else if (is_list && route->wants_cluster && !tr_node_is_alone(daemon->node))
        tr_gather_page(daemon->gather, tr_connection_token(connection, number), route);
    else
        tr_http_ask(connection, number, bytes, NULL);
}

/* A page of another origin may not ask, and TLS may be wanted. */
static void refuse_early(struct tr_connection *connection, const char *bytes)
{
    struct tr_api_request *route = &connection->server->route;
    const char *refusal = tr_page_refusal(connection, bytes);
    if (refusal != NULL)
        tr_api_refuse(route, 403, refusal);
    else if (!may_be_plain(connection, route->kind))
        tr_api_refuse(route, 400, "this node speaks TLS: ask by https://");
}

/* As it is counted, and how it is to be answered. */
static uint8_t kind_of(const struct tr_connection *connection)
{
    enum tr_api_kind what = connection->server->route.kind;
    uint8_t kind = TR_REQUEST_KINDS;
    if (what == TR_API_READ)
        kind = TR_REQUEST_READ;
    else if (what == TR_API_LIST || (what >= TR_API_POPS && what <= TR_API_KEYS))
        kind = TR_REQUEST_LIST;
    else if (what <= TR_API_CANCEL || (what >= TR_API_REDRIVE && what <= TR_API_REDRIVE_ALL))
        kind = TR_REQUEST_WRITE;
    kind |= tr_http_method(&connection->http) == TR_HTTP_HEAD ? TR_KIND_HEAD : 0;
    if (!connection->http.keeps_alive || connection->server->is_draining)
        kind |= TR_KIND_CLOSE;
    return kind;
}

static void handle(struct tr_connection *connection, const char *bytes, size_t size)
{
    struct tr_api_request *route = &connection->server->route;
    tr_api_route(tr_http_method(&connection->http), tr_http_span(bytes, connection->http.target),
                 route);
    refuse_early(connection, bytes);
    if (route->kind == TR_API_PEER && may_become_link(connection, bytes, size)) {
        become_link(connection);
        return;
    }
    uint16_t number = tr_connection_begin(connection, kind_of(connection));
    if (route->kind != TR_API_REFUSED && !tr_allow_request(connection, number, bytes))
        return;
    if (route->kind == TR_API_CLUSTER && route->wants_cluster)
        tr_nodes_begin(connection, number);
    else if (tr_look_is_due(connection))
        tr_look_begin(connection, number, bytes);
    else if (route->kind <= TR_API_FIRE || route->kind == TR_API_RESYNC_LIST)
        ask(connection, number, bytes);
    else if (route->kind <= TR_API_CLOCK_ADVANCE)
        begin_other(connection, number, bytes);
    else
        answer_now(connection, number, bytes);
}

/* A message that is none: answered once, then the connection closes. */
static void refuse(struct tr_connection *connection)
{
    uint16_t number = tr_connection_begin(connection, TR_REQUEST_KINDS | TR_KIND_CLOSE);
    tr_render_problem(connection, number, connection->http.fault_status, connection->http.fault);
    connection->is_lingering = true;
    connection->in_size = 0;
}

/* A client that waits to be told to send its body gets its word when all before it is answered. */
static void offer_continue(struct tr_connection *connection)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!connection->http.expects_continue || connection->http.body.size > 0 ||
        connection->asked != connection->answered)
        return;
    connection->http.expects_continue = false;
    tr_connection_put(connection, go_on, sizeof go_on - 1);
}

/* Reads whole requests out of `bytes`; returns how many bytes they took. `*fed` of the rest were
 * parsed already. */
static size_t parse_bytes(struct tr_connection *connection, char *bytes, size_t size, size_t *fed)
{
    size_t start = 0;
    size_t at = *fed;
    while (start + at < size && !tr_connection_is_paused(connection) &&
           !connection->stream.is_closed) {
        enum tr_http_state state = tr_http_feed(&connection->http, bytes + start, at, size - start);
        if (state == TR_HTTP_MORE) {
            at = size - start;
            offer_continue(connection);
            break;
        }
        if (state == TR_HTTP_BAD) {
            refuse(connection);
            return size;
        }
        size_t used = connection->http.used;
        connection->is_last = !connection->http.keeps_alive || connection->server->is_draining;
        handle(connection, bytes + start, size - start);
        if (connection->stream.is_closed)
            return size;
        tr_http_next(&connection->http);
        start += used;
        at = 0;
        if (connection->is_last) {
            connection->is_lingering |= start < size;
            return size;
        }
    }
    *fed = at;
    return start;
}

/* Goes on with what the connection has kept. */
static void parse(struct tr_connection *connection)
{
    size_t used = parse_bytes(connection, connection->in, connection->in_size, &connection->parsed);
    if (connection->stream.is_closed || used == 0)
        return;
    used = used < connection->in_size ? used : connection->in_size;
    memmove(connection->in, connection->in + used, connection->in_size - used);
    connection->in_size -= used;
    if (connection->in_size == 0) {
        free(connection->in);
        connection->in = NULL;
        connection->in_cap = 0;
        connection->parsed = 0;
    }
}

/* Goes on after a pause. Called between steps of the node, never from inside one. */
static void resume(struct tr_connection *connection)
{
    if (tr_connection_is_paused(connection))
        return;
    if (connection->in_size > connection->parsed)
        parse(connection);
    if (connection->stream.is_closed || tr_connection_is_paused(connection) || connection->is_ended)
        return;
    offer_continue(connection);
    if (!connection->stream.is_reading)
        tr_stream_read(&connection->stream, true);
}

/* Whether all that a client asked for before it ended is answered. */
static bool is_done(const struct tr_connection *connection)
{
    return connection->is_ended && connection->asked == connection->answered &&
           connection->stream.out_size == 0;
}

static void on_sent(struct tr_stream *stream)
{
    struct tr_connection *connection = (struct tr_connection *)stream;
    if (!connection->is_closing) {
        resume(connection);
        if (!stream->is_closed && is_done(connection))
            tr_connection_close(connection);
    } else if (!connection->is_lingering || connection->is_ended) {
        tr_connection_close(connection);
    } else if (!connection->is_shut) {
        connection->is_shut = true;
        tr_stream_shut(stream); /* the client closes, or the sweep does */
        tr_stream_read(stream, true);
    }
}

/* False: no memory to keep what is not whole. */
static bool take_bytes(struct tr_connection *connection, char *bytes, size_t size)
{
    if (connection->in_size > 0) {
        if (!tr_connection_keep(connection, bytes, size))
            return false;
        parse(connection);
        return true;
    }
    size_t fed = 0;
    size_t used = parse_bytes(connection, bytes, size, &fed);
    connection->parsed = fed;
    return connection->stream.is_closed || used == size ||
           tr_connection_keep(connection, bytes + used, size - used);
}

static void on_bytes(struct tr_stream *stream, char *bytes, size_t size)
{
    struct tr_connection *connection = (struct tr_connection *)stream;
    connection->is_lingering |= connection->is_last;
    if (connection->is_lingering)
        return;
    tr_connection_touch(connection);
    if (!take_bytes(connection, bytes, size))
        tr_connection_close(connection);
    else if (!stream->is_closed && tr_connection_is_paused(connection) && !connection->is_lingering)
        tr_stream_read(stream, false);
}

/* A client may close its side and still wait for its answers. */
static void on_end(struct tr_stream *stream, bool is_broken)
{
    struct tr_connection *connection = (struct tr_connection *)stream;
    connection->is_ended = true;
    if (is_broken || connection->is_shut || is_done(connection))
        tr_connection_close(connection);
    else
        tr_stream_read(stream, false);
}

const struct tr_stream_calls tr_http_calls = {
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_sent = on_sent,
    .on_gone = tr_connection_free,
};
