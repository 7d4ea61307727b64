/* SPDX-License-Identifier: Apache-2.0 */
/* Listening, and the connections as a whole: which are idle, which are to close. */
#include "shell/front/server.h"

#include "shell/front/allow.h"
#include "shell/front/batch.h"
#include "shell/front/bulk.h"
#include "shell/front/front.h"
#include "shell/front/http.h"
#include "shell/front/look.h"
#include "shell/front/outlook.h"
#include "shell/front/render.h"
#include "shell/front/resp.h"
#include "shell/front/resp_verbs.h"
#include "shell/front/resp_wait.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG     1024
#define ACCEPTS_MAX 64 /* in one turn */
#define SWEEP_MS    1000

/* ---- answers ---- */

void tr_server_answer(struct tr_server *server, const struct tr_effect *effect)
{
    uint64_t token = effect->kind == TR_EFFECT_ANSWER         ? effect->of.answer.token
                     : effect->kind == TR_EFFECT_ANSWER_TIMER ? effect->of.timer.token
                                                              : effect->of.page.token;
    struct tr_connection *connection = tr_connection_of(server, token);
    if (connection == NULL)
        return; /* the client is gone */
    uint16_t number = (uint16_t)(token >> 20);
    if (tr_batch_hear(connection, number, effect) || tr_bulk_hear(connection, number, effect) ||
        tr_look_hear(connection, number, effect))
        return;
    tr_http_answer(connection, number, effect);
}

bool tr_server_has(struct tr_server *server, uint64_t token)
{
    return tr_connection_of(server, token) != NULL;
}

void tr_server_answer_page(struct tr_server *server, uint64_t token, struct tr_span body,
                           struct tr_span end)
{
    struct tr_connection *connection = tr_connection_of(server, token);
    if (connection == NULL)
        return;
    tr_answer_json(&server->answer, body, end);
    tr_render(connection, (uint16_t)(token >> 20));
}

void tr_server_answer_problem(struct tr_server *server, uint64_t token,
                              const struct tr_problem *problem)
{
    struct tr_connection *connection = tr_connection_of(server, token);
    if (connection == NULL)
        return;
    tr_answer_problem(&server->answer, problem, NULL);
    tr_render(connection, (uint16_t)(token >> 20));
}

/* ---- connections ---- */

/* What a new connection speaks, as far as that is known. */
static const struct tr_stream_calls *first_calls(const struct tr_listener *listener)
{
    const struct tr_daemon *daemon = listener->server->daemon;
    bool has_choice = daemon->config.has_resp || daemon->certificates.server != NULL;
    return has_choice ? &tr_front_calls : &tr_http_calls;
}

/* NULL: there is no room for it, and it is closed. */
static struct tr_connection *take(struct tr_server *server, int file,
                                  const struct tr_stream_calls *calls)
{
    struct tr_daemon *daemon = server->daemon;
    struct tr_connection *connection = calloc(1, sizeof *connection);
    uint32_t index = connection == NULL ? TR_NO_SLOT : tr_connection_take_slot(server);
    if (index == TR_NO_SLOT) {
        daemon->metrics.connections_refused++;
        free(connection);
        close(file);
        return NULL;
    }
    if (!tr_stream_open(&connection->stream, &daemon->streams, file, calls)) {
        tr_connection_give_slot(server, index);
        free(connection);
        return NULL;
    }
    server->slots[index].connection = connection;
    connection->server = server;
    connection->slot = index;
    connection->generation = server->slots[index].generation;
    connection->next = connection;
    connection->previous = connection;
    daemon->metrics.connections++;
    tr_http_init_request(&connection->http, daemon->config.body_max);
    connection->http.lines_max = TR_BATCH_SIZE;
    tr_connection_touch(connection);
    return connection;
}

static void welcome(struct tr_listener *listener, int file)
{
    struct tr_connection *connection = take(listener->server, file, first_calls(listener));
    bool speaks_tls = listener->server->daemon->certificates.server != NULL;
    if (connection == NULL || !listener->is_resp)
        return;
    connection->speaks_resp = true;
    if (!speaks_tls && !tr_resp_open(connection))
        tr_connection_close(connection);
}

bool tr_server_take_own(struct tr_server *server, int file)
{
    struct tr_connection *connection = take(server, file, &tr_http_calls);
    if (connection != NULL)
        connection->is_own = true;
    return connection != NULL;
}

static bool take_resp(struct tr_server *server, int file, const struct tr_connection *from)
{
    struct tr_connection *connection = take(server, file, &tr_front_calls);
    if (connection == NULL)
        return false;
    connection->is_own = true;
    if (!tr_resp_open(connection)) {
        tr_connection_close(connection);
        return false;
    }
    if (from->rights != NULL) {
        tr_allow_all(connection);
        tr_rights_copy(connection->rights, from->rights);
        memcpy(connection->rights_hash, from->rights_hash, sizeof connection->rights_hash);
        connection->rights->token = 0; /* which has been asked for one request already */
    }
    return true;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct tr_listener *listener = poll->data;
    struct tr_server *server = listener->server;
    (void)status;
    (void)events;
    for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
        int file = accept4(listener->file, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (file >= 0) {
            welcome(listener, file);
            continue;
        }
        int fault = errno;
        server->is_full = fault == EMFILE || fault == ENFILE || fault == ENOBUFS || fault == ENOMEM;
        if (server->is_full) {
            tr_say(TR_WARNING, "cannot accept a connection: %s; raise the limit of open files",
                   strerror(fault));
            for (unsigned k = 0; k < server->listener_count; k++)
                uv_poll_stop(&server->listeners[k].poll);
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
        struct tr_connection *connection = server->oldest.next;
        if (connection->active_ms + limit > now)
            break;
        bool is_moving =
            connection->stream.out_size > 0 && connection->stream.sent != connection->sent_seen;
        bool is_waiting = connection->asked != connection->answered && !connection->is_closing &&
                          !tr_batch_waits_for_client(connection);
        /* Pools rely on it that an idle connection is kept. */
        bool is_kept = connection->resp != NULL && !connection->is_closing &&
                       connection->stream.out_size == 0 &&
                       (connection->rights != NULL || !server->daemon->auth.is_on);
        if (is_moving || is_waiting ||
            is_kept) { /* it reads, if slowly; or it is we who are late */
            tr_connection_touch(connection);
            continue;
        }
        if (connection->resp == NULL && connection->in_size > 0 && !connection->is_closing &&
            !connection->is_lingering) {
            uint16_t number = tr_connection_begin(connection, TR_REQUEST_KINDS | TR_KIND_CLOSE);
            tr_render_problem(connection, number, 408, "the request did not come to its end");
            tr_stream_flush(&connection->stream);
        }
        tr_connection_close(connection);
    }
    struct tr_daemon *daemon = server->daemon;
    tr_history_look(&daemon->history, (daemon->now_us + daemon->wall_base_us) / 1000,
                    &daemon->metrics, daemon->node);
    tr_resp_resume(server);
    if (server->is_full && !server->is_draining) {
        server->is_full = false;
        for (unsigned i = 0; i < server->listener_count; i++)
            uv_poll_start(&server->listeners[i].poll, UV_READABLE, on_connection);
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

static unsigned port_of(int file)
{
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } address = {.any = {0}};
    socklen_t size = sizeof address;
    if (getsockname(file, &address.any, &size) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.ipv6.sin6_port
                                                   : address.ipv4.sin_port);
}

static bool listen_on(struct tr_server *server, int port, bool is_resp)
{
    const struct tr_config *config = &server->daemon->config;
    struct tr_listener *listener = &server->listeners[server->listener_count];
    struct sockaddr_storage address;
    if (uv_ip4_addr(config->bind_address, port, (struct sockaddr_in *)&address) != 0 &&
        uv_ip6_addr(config->bind_address, port, (struct sockaddr_in6 *)&address) != 0) {
        tr_say(TR_ERROR, "bind-address %s is no IP address", config->bind_address);
        return false;
    }
    int fault = bind_to((struct sockaddr *)&address, &listener->file);
    if (fault == 0)
        fault = uv_poll_init(&server->daemon->loop, &listener->poll, listener->file);
    if (fault != 0) {
        tr_say(TR_ERROR, "cannot listen on %s:%d: %s; choose another %s", config->bind_address,
               port, uv_strerror(fault), is_resp ? "[resp] bind-port" : "address with --listen");
        return false;
    }
    listener->server = server;
    listener->is_resp = is_resp;
    listener->poll.data = listener;
    uv_poll_start(&listener->poll, UV_READABLE, on_connection);
    server->listener_count++;
    return true;
}

struct tr_server *tr_server_open(struct tr_daemon *daemon)
{
    struct tr_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return NULL;
    server->daemon = daemon;
    server->slot_free = TR_NO_SLOT;
    server->oldest.next = &server->oldest;
    server->oldest.previous = &server->oldest;
    tr_resp_index(server, tr_resp_verbs);
    if (!tr_resp_waits_open(server))
        return NULL;
    const struct tr_config *config = &daemon->config;
    if (!listen_on(server, (int)config->bind_port, false) ||
        (config->resp_port != 0 && !listen_on(server, (int)config->resp_port, true)))
        return NULL;
    server->port = port_of(server->listeners[0].file);
    uv_timer_init(&daemon->loop, &server->sweep);
    server->sweep.data = server;
    uv_timer_start(&server->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    uv_timer_init(&daemon->loop, &server->batches_again);
    uv_timer_init(&daemon->loop, &server->bulks_again);
    uv_timer_init(&daemon->loop, &server->outlooks_again);
    tr_allow_open(server);
    server->take = take_resp;
    return server;
}

unsigned tr_server_port(const struct tr_server *server)
{
    return server->port;
}

void tr_server_drain(struct tr_server *server)
{
    /* What has arrived by now is a request like any other. */
    for (unsigned k = 0; k < server->listener_count; k++) {
        struct tr_listener *listener = &server->listeners[k];
        for (unsigned i = 0; i < BACKLOG / ACCEPTS_MAX + 1; i++)
            on_connection(&listener->poll, 0, UV_READABLE);
        uv_close((uv_handle_t *)&listener->poll, NULL);
        close(listener->file);
    }
    for (uint32_t i = 0; i < server->slot_count; i++) {
        if (server->slots[i].connection != NULL)
            tr_stream_look(&server->slots[i].connection->stream);
    }
    server->is_draining = true;
    tr_streams_flush(&server->daemon->streams);
    struct tr_connection *connection = server->oldest.next;
    while (connection != &server->oldest) {
        struct tr_connection *next = connection->next;
        bool is_idle = connection->asked == connection->answered && connection->in_size == 0;
        if (is_idle && connection->stream.out_size == 0)
            tr_connection_close(connection);
        else if (is_idle)
            connection->is_closing = true;
        connection = next;
    }
}

bool tr_server_is_quiet(const struct tr_server *server)
{
    const struct tr_connection *connection = server->oldest.next;
    while (connection != &server->oldest && connection->stream.out_size == 0 &&
           (connection->asked == connection->answered || connection->is_closing))
        connection = connection->next;
    return connection == &server->oldest;
}

void tr_server_close(struct tr_server *server)
{
    tr_streams_flush(&server->daemon->streams);
    while (server->oldest.next != &server->oldest)
        tr_connection_close(server->oldest.next);
    tr_batches_run(server); /* they are over */
    tr_outlooks_close(server);
    tr_allow_close(server);
    tr_looks_close(server);
    uv_timer_stop(&server->sweep);
    uv_close((uv_handle_t *)&server->sweep, NULL);
    uv_timer_stop(&server->batches_again);
    uv_close((uv_handle_t *)&server->batches_again, NULL);
    uv_timer_stop(&server->bulks_again);
    uv_close((uv_handle_t *)&server->bulks_again, NULL);
}
