/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection reads into the server's one buffer. What is a whole request there is parsed in
 * place; what is not is kept in a buffer of the connection's own until the rest comes, so that an
 * idle connection costs a few hundred bytes.
 *
 * The node's token names a slot, its generation and the request's number on the connection. Answers
 * may come out of order (a refusal overtakes a write that waits for the disk): one that is early is
 * kept until those before it are there.
 */
#include "shell/server.h"

#include "shell/answer.h"
#include "wire/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define READ_SIZE     65536
#define UNDER_WAY_MAX 128 /* requests of one connection */
#define BACKLOG       1024
#define SWEEP_MS      1000
#define OUT_INLINE    512
#define OUT_HELD_MAX  ((size_t)4 << 20) /* unsent answers; beyond it the client is not reading */

struct early {
    struct early *next;
    uint16_t number;
    bool closes;
    size_t size;
    char bytes[];
};

struct connection {
    uv_tcp_t tcp;
    struct tr_server *server;
    uint32_t slot;
    uint32_t generation;
    struct connection *next_dirty;
    struct connection *next; /* of all, by last activity */
    struct connection *previous;
    uint64_t active_ms;

    struct tr_http http;
    char *in; /* an incomplete request, and what follows a paused one */
    size_t in_size;
    size_t in_cap;
    size_t parsed; /* of `in`, fed to the parser already */

    char *out;
    size_t out_size;
    size_t out_cap;
    char out_inline[OUT_INLINE];
    bool is_writing; /* libuv has bytes of ours */

    uint16_t asked;    /* requests handed on, modulo 2^16 */
    uint16_t answered; /* answers put out, likewise */
    struct early *early;
    size_t early_size;
    uint64_t asked_us[UNDER_WAY_MAX]; /* when, by number modulo */
    uint8_t kinds[UNDER_WAY_MAX];     /* what; bit 7: HEAD, bit 6: close afterwards */
    bool is_dirty;
    bool is_reading;
    bool is_closing; /* after what is in `out` */
    bool
        is_lingering; /* refused in the middle of a request: the rest is read and thrown away, so */
                      /* that the client sees the answer and not a reset */
    bool is_shut;
    uv_shutdown_t shutdown;
    bool is_closed;
    bool is_parsing;
};

struct slot {
    struct connection *connection;
    uint32_t generation;
    uint32_t next_free;
};

struct write {
    uv_write_t request;
    struct connection *connection;
    char *bytes;
};

struct tr_server {
    struct tr_daemon *daemon;
    uv_tcp_t listener;
    uv_timer_t sweep;
    struct slot *slots;
    uint32_t slot_count;
    uint32_t slot_free;
    struct connection *dirty;
    struct connection oldest; /* the ring of all, least recently active first */
    char buffer[READ_SIZE];
    struct tr_api_request route;
    struct tr_timer_body body;
    struct tr_answer answer;
    bool is_draining;
};

#define NO_SLOT    UINT32_MAX
#define KIND_HEAD  0x80
#define KIND_CLOSE 0x40
#define KIND_MASK  0x3f

static void resume(struct connection *connection);

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
    unlink_connection(connection);
    connection->previous = ring->previous;
    connection->next = ring;
    ring->previous->next = connection;
    ring->previous = connection;
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    while (connection->early != NULL) {
        struct early *early = connection->early;
        connection->early = early->next;
        free(early);
    }
    free(connection->in);
    if (connection->out != connection->out_inline)
        free(connection->out);
    free(connection);
}

static void close_connection(struct connection *connection)
{
    struct tr_server *server = connection->server;
    if (connection->is_closed)
        return;
    connection->is_closed = true;
    unlink_connection(connection);
    struct slot *slot = &server->slots[connection->slot];
    slot->connection = NULL;
    slot->generation = (slot->generation & 0xfffffff) == 0xfffffff ? 1 : slot->generation + 1;
    slot->next_free = server->slot_free;
    server->slot_free = connection->slot;
    server->daemon->metrics.connections--;
    if (connection->is_dirty) {
        struct connection **link = &server->dirty;
        while (*link != connection)
            link = &(*link)->next_dirty;
        *link = connection->next_dirty;
    }
    uv_close((uv_handle_t *)&connection->tcp, on_closed);
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

/* ---- writing ---- */

static bool reserve_out(struct connection *connection, size_t size)
{
    size_t wanted = connection->out_size + size;
    if (wanted <= connection->out_cap)
        return true;
    size_t cap = connection->out_cap * 2 > wanted ? connection->out_cap * 2 : wanted;
    bool is_inline = connection->out == connection->out_inline;
    char *larger = realloc(is_inline ? NULL : connection->out, cap);
    if (larger == NULL)
        return false;
    if (is_inline)
        memcpy(larger, connection->out, connection->out_size);
    connection->out = larger;
    connection->out_cap = cap;
    return true;
}

static void mark_dirty(struct connection *connection)
{
    if (connection->is_dirty)
        return;
    connection->is_dirty = true;
    connection->next_dirty = connection->server->dirty;
    connection->server->dirty = connection;
}

static void put_out(struct connection *connection, const char *bytes, size_t size)
{
    if (!reserve_out(connection, size)) {
        close_connection(connection);
        return;
    }
    memcpy(connection->out + connection->out_size, bytes, size);
    connection->out_size += size;
    mark_dirty(connection);
}

static void on_written(uv_write_t *request, int status)
{
    struct write *write = (struct write *)request;
    struct connection *connection = write->connection;
    free(write->bytes);
    free(write);
    connection->is_writing = false;
    if (status < 0) {
        close_connection(connection);
        return;
    }
    if (connection->is_closed)
        return;
    touch(connection);
    mark_dirty(connection);
    tr_server_flush(connection->server);
}

/* What does not go out at once is libuv's from here on. */
static void write_rest(struct connection *connection, size_t sent)
{
    struct write *write = malloc(sizeof *write);
    size_t size = connection->out_size - sent;
    if (write == NULL || (write->bytes = malloc(size)) == NULL) {
        free(write);
        close_connection(connection);
        return;
    }
    memcpy(write->bytes, connection->out + sent, size);
    write->connection = connection;
    uv_buf_t buffer = uv_buf_init(write->bytes, (unsigned)size);
    connection->is_writing = true;
    if (uv_write(&write->request, (uv_stream_t *)&connection->tcp, &buffer, 1, on_written) != 0) {
        free(write->bytes);
        free(write);
        connection->is_writing = false;
        close_connection(connection);
    }
}

static void on_shut(uv_shutdown_t *request, int status)
{
    (void)request; /* the client closes, or the sweep does */
    (void)status;
}

static void flush(struct connection *connection)
{
    if (connection->out_size > 0 && !connection->is_writing) {
        uv_buf_t buffer = uv_buf_init(connection->out, (unsigned)connection->out_size);
        int sent = uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1);
        if (sent < 0 && sent != UV_EAGAIN) {
            close_connection(connection);
            return;
        }
        sent = sent < 0 ? 0 : sent;
        if ((size_t)sent < connection->out_size)
            write_rest(connection, (size_t)sent);
        if (connection->is_closed)
            return;
        connection->out_size = 0;
        if (connection->out != connection->out_inline) {
            free(connection->out);
            connection->out = connection->out_inline;
            connection->out_cap = OUT_INLINE;
        }
    }
    if (!connection->is_closing || connection->out_size > 0 || connection->is_writing) {
        resume(connection);
    } else if (!connection->is_lingering) {
        close_connection(connection);
    } else if (!connection->is_shut) {
        connection->is_shut = true;
        uv_shutdown(&connection->shutdown, (uv_stream_t *)&connection->tcp, on_shut);
    }
}

void tr_server_flush(struct tr_server *server)
{
    while (server->dirty != NULL) {
        struct connection *connection = server->dirty;
        server->dirty = connection->next_dirty;
        connection->is_dirty = false;
        flush(connection);
    }
}

/* ---- answers ---- */

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
    while (*link != NULL && !connection->is_closed && !connection->is_closing) {
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
                         tr_boot_us() - connection->asked_us[place]);
    if (connection->is_closing)
        return;
    if (number != connection->answered) {
        keep_early(connection, number, bytes, size, closes);
        return;
    }
    connection->answered++;
    connection->is_closing |= closes;
    put_out(connection, bytes, size);
    if (!connection->is_closed)
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

static void ask_node(struct connection *connection, uint16_t number, const char *bytes)
{
    struct tr_server *server = connection->server;
    const struct tr_api_request *route = &server->route;
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
        event.of.request.body = &server->body;
        event.of.request.key = tr_http_header(&connection->http, bytes, TR_HTTP_IDEMPOTENCY_KEY);
        if (event.of.request.key.text != NULL && event.of.request.key.size == 0) {
            answer_here(connection, number, 400, "Idempotency-Key must not be empty");
            return;
        }
    }
    tr_daemon_step(server->daemon, &event);
}

static void handle(struct connection *connection, const char *bytes)
{
    struct tr_server *server = connection->server;
    struct tr_daemon *daemon = server->daemon;
    enum tr_http_method method = tr_http_method(&connection->http);
    tr_api_route(method, tr_http_span(bytes, connection->http.target), &server->route);
    uint8_t kind = TR_REQUEST_KINDS;
    enum tr_api_kind what = server->route.kind;
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
        ask_node(connection, number, bytes);
        return;
    case TR_API_PING:
        tr_answer_text(&server->answer, 200, "OK");
        break;
    case TR_API_LIVE:
        tr_answer_health(&server->answer, daemon->node, NULL);
        break;
    case TR_API_READY:
        tr_answer_health(&server->answer, daemon->node, &daemon->metrics);
        break;
    case TR_API_METRICS:
        tr_answer_metrics(&server->answer, daemon->node, &daemon->metrics);
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
           connection->out_size + connection->early_size > OUT_HELD_MAX || connection->is_closing;
}

/* Reads whole requests out of `bytes`; returns how many bytes they took. `*fed` of the rest were
 * parsed already. */
static size_t parse_bytes(struct connection *connection, char *bytes, size_t size, size_t *fed)
{
    size_t start = 0;
    size_t at = *fed;
    while (start + at < size && !is_paused(connection) && !connection->is_closed) {
        enum tr_http_state state = tr_http_feed(&connection->http, bytes + start, at, size - start);
        if (state == TR_HTTP_MORE) {
            at = size - start;
            if (connection->http.expects_continue && connection->http.body.size == 0) {
                static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
                connection->http.expects_continue = false;
                if (connection->asked == connection->answered)
                    put_out(connection, go_on, sizeof go_on - 1);
            }
            break;
        }
        if (state == TR_HTTP_BAD) {
            refuse(connection);
            return size;
        }
        size_t used = connection->http.used;
        handle(connection, bytes + start);
        if (connection->is_closed)
            return size;
        tr_http_next(&connection->http);
        start += used;
        at = 0;
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
    connection->is_parsing = true;
    size_t used = parse_bytes(connection, connection->in, connection->in_size, &connection->parsed);
    connection->is_parsing = false;
    if (connection->is_closed || used == 0)
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

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    struct connection *connection = handle->data;
    (void)size;
    *buffer = uv_buf_init(connection->server->buffer, READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer);

/* Goes on after a pause. Called between steps of the node, never from inside one. */
static void resume(struct connection *connection)
{
    if (is_paused(connection))
        return;
    if (connection->in_size > connection->parsed)
        parse(connection);
    if (connection->is_closed || is_paused(connection) || connection->is_reading)
        return;
    connection->is_reading = uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read) == 0;
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    if (size < 0) {
        close_connection(connection);
        return;
    }
    if (size == 0 || connection->is_lingering)
        return;
    touch(connection);
    bool is_kept = true;
    if (connection->in_size == 0) {
        size_t fed = 0;
        connection->is_parsing = true;
        size_t used = parse_bytes(connection, buffer->base, (size_t)size, &fed);
        connection->is_parsing = false;
        if (!connection->is_closed && used < (size_t)size) {
            is_kept = keep_in(connection, buffer->base + used, (size_t)size - used);
            connection->parsed = fed;
        }
    } else {
        is_kept = keep_in(connection, buffer->base, (size_t)size);
        if (is_kept)
            parse(connection);
    }
    if (connection->is_closed)
        return;
    if (!is_kept) {
        close_connection(connection);
        return;
    }
    if (is_paused(connection) && connection->is_reading && !connection->is_lingering) {
        uv_read_stop(stream);
        connection->is_reading = false;
    }
    tr_server_flush(connection->server);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct tr_server *server = listener->data;
    struct connection *connection = status == 0 ? calloc(1, sizeof *connection) : NULL;
    if (connection == NULL)
        return;
    connection->server = server;
    connection->tcp.data = connection;
    uv_tcp_init(&server->daemon->loop, &connection->tcp);
    connection->out = connection->out_inline;
    connection->out_cap = OUT_INLINE;
    connection->next = connection;
    connection->previous = connection;
    bool is_open = uv_accept(listener, (uv_stream_t *)&connection->tcp) == 0;
    connection->slot = is_open ? take_slot(server) : NO_SLOT;
    if (connection->slot == NO_SLOT) {
        server->daemon->metrics.connections_refused += is_open;
        connection->is_closed = true;
        uv_close((uv_handle_t *)&connection->tcp, on_closed);
        return;
    }
    struct slot *slot = &server->slots[connection->slot];
    slot->connection = connection;
    connection->generation = slot->generation;
    server->daemon->metrics.connections++;
    uv_tcp_nodelay(&connection->tcp, 1);
    tr_http_init_request(&connection->http, server->daemon->config.body_max);
    touch(connection);
    connection->is_reading = uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read) == 0;
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
        if (connection->asked != connection->answered) {
            touch(connection); /* it is we who are late */
            continue;
        }
        if (connection->in_size > 0 && !connection->is_closing && !connection->is_lingering) {
            uint16_t number = begin_request(connection, TR_REQUEST_KINDS | KIND_CLOSE);
            answer_here(connection, number, 408, "the request did not come to its end");
            tr_server_flush(server);
        }
        close_connection(connection);
    }
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
    uv_tcp_init(&server->daemon->loop, &server->listener);
    server->listener.data = server;
    int fault = uv_tcp_bind(&server->listener, (struct sockaddr *)&address, 0);
    if (fault == 0)
        fault = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
    if (fault != 0)
        tr_say(TR_ERROR, "cannot listen on %s:%d: %s; choose another address with --listen",
               config->bind_address, port, uv_strerror(fault));
    return fault == 0;
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
    struct sockaddr_storage address;
    int size = sizeof address;
    uv_tcp_getsockname(&server->listener, (struct sockaddr *)&address, &size);
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

void tr_server_drain(struct tr_server *server)
{
    server->is_draining = true;
    uv_close((uv_handle_t *)&server->listener, NULL);
    struct connection *connection = server->oldest.next;
    while (connection != &server->oldest) {
        struct connection *next = connection->next;
        if (connection->asked == connection->answered && connection->in_size == 0)
            close_connection(connection);
        connection = next;
    }
}

void tr_server_close(struct tr_server *server)
{
    tr_server_flush(server);
    while (server->oldest.next != &server->oldest)
        close_connection(server->oldest.next);
    uv_timer_stop(&server->sweep);
    uv_close((uv_handle_t *)&server->sweep, NULL);
}
