/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole request is parsed where it was read, in the one buffer of all streams; what is not whole
 * is kept in a buffer of the connection's own until the rest comes, so that an idle connection
 * costs little.
 *
 * The node's token names a slot, its generation and the request's number on the connection. Answers
 * may come out of order (a refusal overtakes a write that waits for the disk): one that is early is
 * kept until those before it are there.
 */
#include "shell/server.h"

#include "shell/answer.h"
#include "shell/cluster.h"
#include "shell/gather.h"
#include "shell/links.h"
#include "wire/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNDER_WAY_MAX 128 /* requests of one connection */
#define BACKLOG       1024
#define ACCEPTS_MAX   64 /* in one turn */
#define SWEEP_MS      1000
#define OUT_HELD_MAX  ((size_t)4 << 20) /* unsent answers; beyond it the client is not reading */

struct early {
    struct early *next;
    uint16_t number;
    bool closes;
    size_t size;
    char bytes[];
};

struct connection {
    struct tr_stream stream;
    struct tr_server *server;
    uint32_t slot;
    uint32_t generation;
    struct connection *next; /* of all, by last activity */
    struct connection *previous;
    uint64_t active_ms;

    struct tr_http http;
    char *in; /* an incomplete request, and what follows a paused one */
    size_t in_size;
    size_t in_cap;
    size_t parsed; /* of `in`, fed to the parser already */

    uint16_t asked;    /* requests handed on, modulo 2^16 */
    uint16_t answered; /* answers put out, likewise */
    struct early *early;
    size_t early_size;
    uint64_t asked_us[UNDER_WAY_MAX]; /* when, by number modulo */
    uint8_t kinds[UNDER_WAY_MAX];     /* what; bit 7: HEAD, bit 6: close afterwards */
    bool is_closing;                  /* after what is put out */
    bool is_ended;                    /* the client sends no more, but may be reading */
    bool is_last; /* it asked to close after the request under way: what follows is not read */
    uint64_t sent_seen; /* what the last sweep saw of its answers' bytes */
    bool is_shut;
    /* Refused in the middle of a request: the rest is read and thrown away, so that the client sees
     * the answer and not a reset. */
    bool is_lingering;
};

struct slot {
    struct connection *connection;
    uint32_t generation;
    uint32_t next_free;
};

struct tr_server {
    struct tr_daemon *daemon;
    uv_poll_t listener;
    int listener_file;
    bool is_full; /* of files: it does not accept until the next sweep */
    uv_timer_t sweep;
    struct slot *slots;
    uint32_t slot_count;
    uint32_t slot_free;
    struct connection oldest; /* the ring of all, least recently active first */
    struct tr_api_request route;
    struct tr_timer_body body;
    struct tr_answer answer;
    bool is_draining;
};

#define NO_SLOT    UINT32_MAX
#define KIND_HEAD  0x80
#define KIND_CLOSE 0x40
#define KIND_MASK  0x3f

/* ---- connections ---- */

static void unlink_connection(struct connection *connection)
{
    connection->previous->next = connection->next;
    connection->next->previous = connection->previous;
}

static void touch(struct connection *connection)
{
    struct connection *ring = &connection->server->oldest;
    connection->active_ms = uv_now(&connection->server->daemon->loop);
    connection->sent_seen = connection->stream.sent;
    unlink_connection(connection);
    connection->previous = ring->previous;
    connection->next = ring;
    ring->previous->next = connection;
    ring->previous = connection;
}

static void on_gone(struct tr_stream *stream)
{
    struct connection *connection = (struct connection *)stream;
    while (connection->early != NULL) {
        struct early *early = connection->early;
        connection->early = early->next;
        free(early);
    }
    free(connection->in);
    free(connection);
}

static void give_slot(struct tr_server *server, uint32_t index)
{
    struct slot *slot = &server->slots[index];
    slot->connection = NULL;
    slot->generation = (slot->generation & 0xfffffff) == 0xfffffff ? 1 : slot->generation + 1;
    slot->next_free = server->slot_free;
    server->slot_free = index;
}

static void close_connection(struct connection *connection)
{
    struct tr_server *server = connection->server;
    if (connection->stream.is_closed)
        return;
    unlink_connection(connection);
    give_slot(server, connection->slot);
    server->daemon->metrics.connections--;
    tr_stream_close(&connection->stream);
}

static uint32_t take_slot(struct tr_server *server)
{
    uint32_t index = server->slot_free;
    if (index != NO_SLOT) {
        server->slot_free = server->slots[index].next_free;
        return index;
    }
    if (server->slot_count == server->daemon->config.connections_max)
        return NO_SLOT;
    uint32_t count = server->slot_count * 2 > 64 ? server->slot_count * 2 : 64;
    if (count > server->daemon->config.connections_max)
        count = (uint32_t)server->daemon->config.connections_max;
    struct slot *larger = realloc(server->slots, count * sizeof *larger);
    if (larger == NULL)
        return NO_SLOT;
    server->slots = larger;
    for (uint32_t i = count; i > server->slot_count; i--) {
        /* From 1: no token is 0, which means nobody. */
        server->slots[i - 1] = (struct slot){.generation = 1, .next_free = server->slot_free};
        server->slot_free = i - 1;
    }
    server->slot_count = count;
    return take_slot(server);
}

/* ---- answers ---- */

static void put_out(struct connection *connection, const char *bytes, size_t size)
{
    if (!tr_stream_put(&connection->stream, bytes, size))
        close_connection(connection);
}

static uint64_t token_of(const struct connection *connection, uint16_t number)
{
    return (uint64_t)connection->slot | (uint64_t)number << 20 |
           (uint64_t)(connection->generation & 0xfffffff) << 36;
}

static struct connection *connection_of(struct tr_server *server, uint64_t token)
{
    uint32_t slot = (uint32_t)(token & 0xfffff);
    struct connection *connection = server->slots[slot].connection;
    bool is_same = connection != NULL && (connection->generation & 0xfffffff) == token >> 36;
    return is_same ? connection : NULL;
}

static void keep_early(struct connection *connection, uint16_t number, const char *bytes,
                       size_t size, bool closes)
{
    struct early *early = malloc(sizeof *early + size);
    if (early == NULL) {
        close_connection(connection);
        return;
    }
    *early =
        (struct early){.next = connection->early, .number = number, .closes = closes, .size = size};
    memcpy(early->bytes, bytes, size);
    connection->early = early;
    connection->early_size += size;
}

/* The answer with the next number is out: what it held up follows. */
static void put_kept(struct connection *connection)
{
    struct early **link = &connection->early;
    while (*link != NULL && !connection->stream.is_closed && !connection->is_closing) {
        struct early *early = *link;
        if (early->number != connection->answered) {
            link = &early->next;
            continue;
        }
        *link = early->next;
        connection->early_size -= early->size;
        connection->answered++;
        connection->is_closing |= early->closes;
        put_out(connection, early->bytes, early->size);
        free(early);
        link = &connection->early;
    }
}

/* Puts out the answer to request `number`, in its turn. */
static void put_answer(struct connection *connection, uint16_t number, const char *bytes,
                       size_t size)
{
    unsigned place = number % UNDER_WAY_MAX;
    uint8_t kind = connection->kinds[place];
    bool closes = (kind & KIND_CLOSE) != 0;
    struct tr_metrics *metrics = &connection->server->daemon->metrics;
    if ((kind & KIND_MASK) < TR_REQUEST_KINDS)
        tr_histogram_add(&metrics->request_us[kind & KIND_MASK],
                         connection->server->daemon->now_us - connection->asked_us[place]);
    if (connection->is_closing)
        return;
    if (number != connection->answered) {
        keep_early(connection, number, bytes, size, closes);
        return;
    }
    connection->answered++;
    connection->is_closing |= closes;
    put_out(connection, bytes, size);
    if (!connection->stream.is_closed)
        put_kept(connection);
}

/* Renders the server's answer and puts it out. */
static void render(struct connection *connection, uint16_t number)
{
    struct tr_answer *answer = &connection->server->answer;
    uint8_t kind = connection->kinds[number % UNDER_WAY_MAX];
    answer->is_head = (kind & KIND_HEAD) != 0;
    answer->closes = (kind & KIND_CLOSE) != 0;
    if (answer->status >= 400 && answer->status < 500)
        connection->server->daemon->metrics.requests_bad++;
    struct tr_span bytes = tr_answer_render(answer);
    put_answer(connection, number, bytes.text, bytes.size);
}

void tr_server_answer(struct tr_server *server, const struct tr_effect *effect)
{
    uint64_t token = effect->kind == TR_EFFECT_ANSWER         ? effect->of.answer.token
                     : effect->kind == TR_EFFECT_ANSWER_TIMER ? effect->of.timer.token
                                                              : effect->of.page.token;
    struct connection *connection = connection_of(server, token);
    if (connection == NULL)
        return; /* the client is gone */
    uint16_t number = (uint16_t)(token >> 20);
    tr_answer_from_effect(&server->answer, server->daemon->node, effect);
    render(connection, number);
}

bool tr_server_has(struct tr_server *server, uint64_t token)
{
    return connection_of(server, token) != NULL;
}

void tr_server_answer_page(struct tr_server *server, uint64_t token, struct tr_span body,
                           struct tr_span end)
{
    struct connection *connection = connection_of(server, token);
    if (connection == NULL)
        return;
    tr_answer_json(&server->answer, body, end);
    render(connection, (uint16_t)(token >> 20));
}

void tr_server_answer_problem(struct tr_server *server, uint64_t token,
                              const struct tr_problem *problem)
{
    struct connection *connection = connection_of(server, token);
    if (connection == NULL)
        return;
    tr_answer_problem(&server->answer, problem, NULL);
    render(connection, (uint16_t)(token >> 20));
}

/* ---- requests ---- */

static void answer_here(struct connection *connection, uint16_t number, unsigned status,
                        const char *detail)
{
    struct tr_problem problem;
    tr_problem_set(&problem, status, detail, NULL);
    tr_answer_problem(&connection->server->answer, &problem, NULL);
    render(connection, number);
}

static uint16_t begin_request(struct connection *connection, uint8_t kind)
{
    uint16_t number = connection->asked++;
    connection->server->daemon->now_us = tr_boot_us();
    connection->asked_us[number % UNDER_WAY_MAX] = connection->server->daemon->now_us;
    connection->kinds[number % UNDER_WAY_MAX] = kind;
    return number;
}

/* `Range: 100` is how many timers the original wants at once. */
static void read_range(const struct connection *connection, const char *bytes,
                       struct tr_api_request *route)
{
    struct tr_span text = tr_http_header(&connection->http, bytes, TR_HTTP_RANGE);
    uint32_t number = 0;
    for (size_t i = 0; text.text != NULL && i < text.size && i < 5; i++)
        number = text.text[i] >= '0' && text.text[i] <= '9'
                     ? number * 10 + (uint32_t)(text.text[i] - '0')
                     : 0;
    if (number > 0)
        route->limit = number < TR_LIST_LIMIT_MAX ? number : TR_LIST_LIMIT_MAX;
}

static void ask_node(struct connection *connection, uint16_t number, const char *bytes)
{
    struct tr_server *server = connection->server;
    struct tr_api_request *route = &server->route;
    if (route->kind == TR_API_RESYNC_LIST)
        read_range(connection, bytes, route);
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED, .has_more = true};
    event.of.request.token = token_of(connection, number);
    event.of.request.kind = route->kind;
    event.of.request.timer = route->timer;
    event.of.request.query = route;
    if (route->kind == TR_API_CREATE || route->kind == TR_API_REPLACE) {
        struct tr_problem problem;
        struct tr_http_place place = connection->http.body;
        char *body = (char *)(uintptr_t)bytes + place.at;
        if (!tr_timer_body_parse(body, place.size, server->daemon->config.opaque_max, &server->body,
                                 &problem)) {
            tr_answer_problem(&server->answer, &problem, NULL);
            render(connection, number);
            return;
        }
        if (!server->daemon->config.may_call_nodes &&
            tr_links_is_node(server->daemon->links, &server->body.parts)) {
            answer_here(connection, number, 403,
                        "callback.http.uri is at a node of this cluster; [callback] to-nodes "
                        "allows that");
            return;
        }
        event.of.request.body = &server->body;

        event.of.request.key = tr_http_header(&connection->http, bytes, TR_HTTP_IDEMPOTENCY_KEY);
        if (event.of.request.key.text != NULL && event.of.request.key.size == 0) {
            answer_here(connection, number, 400, "Idempotency-Key must not be empty");
            return;
        }
    }
    tr_daemon_step(server->daemon, &event);
}

static void set_cluster(struct connection *connection, const char *bytes)
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
static void become_link(struct connection *connection)
{
    struct tr_server *server = connection->server;
    unlink_connection(connection);
    give_slot(server, connection->slot);
    server->daemon->metrics.connections--;
    tr_links_accept(server->daemon->links, tr_stream_detach(&connection->stream));
}

/* Nothing is under way on it, and nothing follows before it is answered. */
static bool may_become_link(const struct connection *connection, const char *bytes, size_t size)
{
    struct tr_span upgrade = tr_http_header(&connection->http, bytes, TR_HTTP_UPGRADE);
    return upgrade.text != NULL && tr_span_equals_nocase(upgrade, TR_SPAN("tryst-peer")) &&
           tr_http_method(&connection->http) == TR_HTTP_GET && connection->http.used == size &&
           connection->asked == connection->answered && connection->stream.out_size == 0 &&
           !connection->server->is_draining;
}

static void handle(struct connection *connection, const char *bytes, size_t size)
{
    struct tr_server *server = connection->server;
    struct tr_daemon *daemon = server->daemon;
    enum tr_http_method method = tr_http_method(&connection->http);
    tr_api_route(method, tr_http_span(bytes, connection->http.target), &server->route);
    uint8_t kind = TR_REQUEST_KINDS;
    enum tr_api_kind what = server->route.kind;
    if (what == TR_API_PEER && may_become_link(connection, bytes, size)) {
        become_link(connection);
        return;
    }
    if (what == TR_API_READ)
        kind = TR_REQUEST_READ;
    else if (what == TR_API_LIST)
        kind = TR_REQUEST_LIST;
    else if (what <= TR_API_CANCEL || what == TR_API_REDRIVE)
        kind = TR_REQUEST_WRITE;
    kind |= method == TR_HTTP_HEAD ? KIND_HEAD : 0;
    if (!connection->http.keeps_alive || server->is_draining)
        kind |= KIND_CLOSE;
    uint16_t number = begin_request(connection, kind);
    switch (what) {
    case TR_API_CREATE:
    case TR_API_REPLACE:
    case TR_API_CANCEL:
    case TR_API_READ:
    case TR_API_LIST:
    case TR_API_REDRIVE:
    case TR_API_RESYNC_LIST:
    case TR_API_REFERENCES:
        if (what == TR_API_LIST && server->route.wants_cluster && tr_node_view(daemon->node) != 0)
            tr_gather_page(daemon->gather, token_of(connection, number), &server->route);
        else
            ask_node(connection, number, bytes);
        return;
    case TR_API_PING:
        tr_answer_text(&server->answer, 200, "OK");
        break;
    case TR_API_LIVE:
        tr_answer_health(&server->answer, daemon->node, NULL, &daemon->config);
        break;
    case TR_API_READY:
        tr_answer_health(&server->answer, daemon->node, &daemon->metrics, &daemon->config);
        break;
    case TR_API_METRICS:
        tr_answer_metrics(&server->answer, daemon->node, &daemon->metrics);
        break;
    case TR_API_CLUSTER:
        tr_answer_cluster(&server->answer, daemon);
        break;
    case TR_API_CLUSTER_SET:
        set_cluster(connection, bytes);
        break;
    case TR_API_CLUSTER_RESYNC:
        tr_cluster_resync(daemon);
        tr_answer_text(&server->answer, 202, "settling; the log tells how it went\n");
        break;
    case TR_API_PEER:
        tr_answer_upgrade(&server->answer);
        break;
    case TR_API_REFUSED:
        tr_answer_problem(&server->answer, &server->route.problem, server->route.allow);
        break;
    }
    render(connection, number);
}

/* A message that is none: answered once, then the connection closes. */
static void refuse(struct connection *connection)
{
    uint16_t number = begin_request(connection, TR_REQUEST_KINDS | KIND_CLOSE);
    answer_here(connection, number, connection->http.fault_status, connection->http.fault);
    connection->is_lingering = true;
    connection->in_size = 0;
}

static bool is_paused(const struct connection *connection)
{
    return (uint16_t)(connection->asked - connection->answered) >= UNDER_WAY_MAX ||
           connection->stream.out_size + connection->early_size > OUT_HELD_MAX ||
           connection->is_closing;
}

/* A client that waits to be told to send its body gets its word when all before it is answered. */
static void offer_continue(struct connection *connection)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!connection->http.expects_continue || connection->http.body.size > 0 ||
        connection->asked != connection->answered)
        return;
    connection->http.expects_continue = false;
    put_out(connection, go_on, sizeof go_on - 1);
}

/* Reads whole requests out of `bytes`; returns how many bytes they took. `*fed` of the rest were
 * parsed already. */
static size_t parse_bytes(struct connection *connection, char *bytes, size_t size, size_t *fed)
{
    size_t start = 0;
    size_t at = *fed;
    while (start + at < size && !is_paused(connection) && !connection->stream.is_closed) {
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

static bool keep_in(struct connection *connection, const char *bytes, size_t size)
{
    if (connection->in_size + size > connection->in_cap) {
        size_t cap = connection->in_cap * 2;
        cap = cap > connection->in_size + size ? cap : connection->in_size + size + 1024;
        char *larger = realloc(connection->in, cap);
        if (larger == NULL)
            return false;
        connection->in = larger;
        connection->in_cap = cap;
    }
    memcpy(connection->in + connection->in_size, bytes, size);
    connection->in_size += size;
    return true;
}

/* Goes on with what the connection has kept. */
static void parse(struct connection *connection)
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
static void resume(struct connection *connection)
{
    if (is_paused(connection))
        return;
    if (connection->in_size > connection->parsed)
        parse(connection);
    if (connection->stream.is_closed || is_paused(connection) || connection->is_ended)
        return;
    offer_continue(connection);
    if (!connection->stream.is_reading)
        tr_stream_read(&connection->stream, true);
}

/* Whether all that a client asked for before it ended is answered. */
static bool is_done(const struct connection *connection)
{
    return connection->is_ended && connection->asked == connection->answered &&
           connection->stream.out_size == 0;
}

static void on_sent(struct tr_stream *stream)
{
    struct connection *connection = (struct connection *)stream;
    if (!connection->is_closing) {
        resume(connection);
        if (!stream->is_closed && is_done(connection))
            close_connection(connection);
    } else if (!connection->is_lingering || connection->is_ended) {
        close_connection(connection);
    } else if (!connection->is_shut) {
        connection->is_shut = true;
        tr_stream_shut(stream); /* the client closes, or the sweep does */
        tr_stream_read(stream, true);
    }
}

/* False: no memory to keep what is not whole. */
static bool take_bytes(struct connection *connection, char *bytes, size_t size)
{
    if (connection->in_size > 0) {
        if (!keep_in(connection, bytes, size))
            return false;
        parse(connection);
        return true;
    }
    size_t fed = 0;
    size_t used = parse_bytes(connection, bytes, size, &fed);
    connection->parsed = fed;
    return connection->stream.is_closed || used == size ||
           keep_in(connection, bytes + used, size - used);
}

static void on_bytes(struct tr_stream *stream, char *bytes, size_t size)
{
    struct connection *connection = (struct connection *)stream;
    connection->is_lingering |= connection->is_last;
    if (connection->is_lingering)
        return;
    touch(connection);
    if (!take_bytes(connection, bytes, size))
        close_connection(connection);
    else if (!stream->is_closed && is_paused(connection) && !connection->is_lingering)
        tr_stream_read(stream, false);
}

/* A client may close its side and still wait for its answers. */
static void on_end(struct tr_stream *stream, bool is_broken)
{
    struct connection *connection = (struct connection *)stream;
    connection->is_ended = true;
    if (is_broken || connection->is_shut || is_done(connection))
        close_connection(connection);
    else
        tr_stream_read(stream, false);
}

static const struct tr_stream_calls stream_calls = {
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_sent = on_sent,
    .on_gone = on_gone,
};

static void welcome(struct tr_server *server, int file)
{
    struct tr_daemon *daemon = server->daemon;
    struct connection *connection = calloc(1, sizeof *connection);
    uint32_t index = connection == NULL ? NO_SLOT : take_slot(server);
    if (index == NO_SLOT) {
        daemon->metrics.connections_refused++;
        free(connection);
        close(file);
        return;
    }
    if (!tr_stream_open(&connection->stream, &daemon->streams, file, &stream_calls)) {
        give_slot(server, index);
        free(connection);
        return;
    }
    server->slots[index].connection = connection;
    connection->server = server;
    connection->slot = index;
    connection->generation = server->slots[index].generation;
    connection->next = connection;
    connection->previous = connection;
    daemon->metrics.connections++;
    tr_http_init_request(&connection->http, daemon->config.body_max);
    touch(connection);
}

static void on_connection(uv_poll_t *listener, int status, int events)
{
    struct tr_server *server = listener->data;
    (void)status;
    (void)events;
    for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
        int file = accept4(server->listener_file, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (file >= 0) {
            welcome(server, file);
            continue;
        }
        int fault = errno;
        server->is_full = fault == EMFILE || fault == ENFILE || fault == ENOBUFS || fault == ENOMEM;
        if (server->is_full) {
            tr_say(TR_WARNING, "cannot accept a connection: %s; raise the limit of open files",
                   strerror(fault));
            uv_poll_stop(listener);
        }
        if (fault != EINTR && fault != ECONNABORTED)
            return;
    }
}

/* Closes what has been silent for too long; who is in the middle of a request is told. */
static void on_sweep(uv_timer_t *timer)
{
    struct tr_server *server = timer->data;
    uint64_t now = uv_now(&server->daemon->loop);
    uint64_t limit = server->daemon->config.idle_timeout_s * 1000;
    while (server->oldest.next != &server->oldest) {
        struct connection *connection = server->oldest.next;
        if (connection->active_ms + limit > now)
            break;
        bool is_moving =
            connection->stream.out_size > 0 && connection->stream.sent != connection->sent_seen;
        bool is_waiting = connection->asked != connection->answered && !connection->is_closing;
        if (is_moving || is_waiting) { /* it reads, if slowly; or it is we who are late */
            touch(connection);
            continue;
        }
        if (connection->in_size > 0 && !connection->is_closing && !connection->is_lingering) {
            uint16_t number = begin_request(connection, TR_REQUEST_KINDS | KIND_CLOSE);
            answer_here(connection, number, 408, "the request did not come to its end");
            tr_stream_flush(&connection->stream);
        }
        close_connection(connection);
    }
    if (server->is_full && !server->is_draining) {
        server->is_full = false;
        uv_poll_start(&server->listener, UV_READABLE, on_connection);
    }
}

/* 0, or what libuv calls the fault. */
static int bind_to(const struct sockaddr *address, int *file)
{
    int on = 1;
    bool is_ipv6 = address->sa_family == AF_INET6;
    socklen_t size = is_ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    *file = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*file >= 0 && setsockopt(*file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(*file, address, size) == 0 && listen(*file, BACKLOG) == 0)
        return 0;
    int fault = uv_translate_sys_error(errno);
    if (*file >= 0)
        close(*file);
    return fault;
}

static bool listen_on(struct tr_server *server)
{
    const struct tr_config *config = &server->daemon->config;
    struct sockaddr_storage address;
    int port = (int)config->bind_port;
    if (uv_ip4_addr(config->bind_address, port, (struct sockaddr_in *)&address) != 0 &&
        uv_ip6_addr(config->bind_address, port, (struct sockaddr_in6 *)&address) != 0) {
        tr_say(TR_ERROR, "bind-address %s is no IP address", config->bind_address);
        return false;
    }
    int fault = bind_to((struct sockaddr *)&address, &server->listener_file);
    if (fault == 0)
        fault = uv_poll_init(&server->daemon->loop, &server->listener, server->listener_file);
    if (fault != 0) {
        tr_say(TR_ERROR, "cannot listen on %s:%d: %s; choose another address with --listen",
               config->bind_address, port, uv_strerror(fault));
        return false;
    }
    server->listener.data = server;
    uv_poll_start(&server->listener, UV_READABLE, on_connection);
    return true;
}

struct tr_server *tr_server_open(struct tr_daemon *daemon)
{
    struct tr_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return NULL;
    server->daemon = daemon;
    server->slot_free = NO_SLOT;
    server->oldest.next = &server->oldest;
    server->oldest.previous = &server->oldest;
    if (!listen_on(server))
        return NULL;
    uv_timer_init(&daemon->loop, &server->sweep);
    server->sweep.data = server;
    uv_timer_start(&server->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    return server;
}

unsigned tr_server_port(const struct tr_server *server)
{
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } address = {.any = {0}};
    socklen_t size = sizeof address;
    if (getsockname(server->listener_file, &address.any, &size) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.ipv6.sin6_port
                                                   : address.ipv4.sin_port);
}

void tr_server_drain(struct tr_server *server)
{
    /* What has arrived by now is a request like any other. */
    for (unsigned i = 0; i < BACKLOG / ACCEPTS_MAX + 1; i++)
        on_connection(&server->listener, 0, UV_READABLE);
    uv_close((uv_handle_t *)&server->listener, NULL);
    close(server->listener_file);
    for (uint32_t i = 0; i < server->slot_count; i++) {
        if (server->slots[i].connection != NULL)
            tr_stream_look(&server->slots[i].connection->stream);
    }
    server->is_draining = true;
    tr_streams_flush(&server->daemon->streams);
    struct connection *connection = server->oldest.next;
    while (connection != &server->oldest) {
        struct connection *next = connection->next;
        bool is_idle = connection->asked == connection->answered && connection->in_size == 0;
        if (is_idle && connection->stream.out_size == 0)
            close_connection(connection);
        else if (is_idle)
            connection->is_closing = true;
        connection = next;
    }
}

bool tr_server_is_quiet(const struct tr_server *server)
{
    const struct connection *connection = server->oldest.next;
    while (connection != &server->oldest && connection->stream.out_size == 0 &&
           (connection->asked == connection->answered || connection->is_closing))
        connection = connection->next;
    return connection == &server->oldest;
}

void tr_server_close(struct tr_server *server)
{
    tr_streams_flush(&server->daemon->streams);
    while (server->oldest.next != &server->oldest)
        close_connection(server->oldest.next);
    uv_timer_stop(&server->sweep);
    uv_close((uv_handle_t *)&server->sweep, NULL);
}
