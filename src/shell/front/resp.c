/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/resp.h"

#include "shell/front/resp_find.h"
#include "shell/front/resp_verbs.h"
#include "shell/front/resp_wait.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define UNREAD_MAX   ((size_t)64 << 20)  /* bytes of replies, so that a long pipeline may be sent */
#define UNREAD_ALL   ((size_t)256 << 20) /* of all clients; beyond it each may have */
#define UNREAD_EACH  ((size_t)64 << 10)  /* no more than this */
#define REPLY_MAX    ((size_t)256 << 20) /* of one command */
#define LINGER_MAX   ((size_t)64 << 10)  /* read from a client that was told of its error */
#define IN_MAX       ((size_t)128 << 20) /* of a command that is not whole */
#define STRANGER_MAX ((size_t)64 << 10)  /* of somebody who has shown no token yet */
#define KEPT_MAX     ((size_t)256 << 20) /* of those of all clients */
#define KEEPALIVE_S  300 /* of silence, until a client is asked whether it is there */

/* ---- replies that are held ---- */

static void unlink_held(struct tr_resp_session *session)
{
    if (session->link == NULL)
        return;
    *session->link = session->next;
    if (session->next != NULL)
        session->next->resp->link = session->link;
    session->link = NULL;
}

static void link_held(struct tr_connection *connection)
{
    struct tr_resp_session *session = connection->resp;
    struct tr_server *server = connection->server;
    if (session->link != NULL)
        return;
    session->next = server->held;
    session->link = &server->held;
    if (session->next != NULL)
        session->next->resp->link = &session->next;
    server->held = connection;
}

/* Lets go what is durable. */
static void let_go(struct tr_connection *connection, uint64_t durable)
{
    struct tr_resp_session *session = connection->resp;
    size_t size = 0;
    unsigned gone = 0;
    struct tr_daemon *daemon = connection->server->daemon;
    uint64_t now_us = tr_boot_us();
    for (; gone < session->mark_count && session->marks[gone].batch <= durable; gone++) {
        size = session->marks[gone].size;
        tr_histogram_add(&daemon->metrics.command_us, now_us - session->marks[gone].asked_us);
    }
    if (gone == 0) {
        if (session->mark_count == 0 && !session->is_again)
            unlink_held(session);
        return;
    }
    session->mark_count -= gone;
    memmove(session->marks, session->marks + gone, session->mark_count * sizeof session->marks[0]);
    for (unsigned i = 0; i < session->mark_count; i++)
        session->marks[i].size -= size;
    bool has_more = session->mark_count > 0 || session->waits != NULL;
    connection->answered = (uint16_t)(connection->asked - has_more);
    tr_connection_put(connection, session->out.bytes, size);
    if (connection->stream.is_closed)
        return;
    session->out.size -= size;
    memmove(session->out.bytes, session->out.bytes + size, session->out.size);
    if (session->out.size == 0)
        tr_resp_out_free(&session->out);
    if (session->mark_count > 0)
        return;
    if (!session->is_again)
        unlink_held(session);
    connection->is_closing |= session->closes;
}

/* Marks what was rendered since, and lets it go if it may. */
static void mark(struct tr_connection *connection, uint64_t batch)
{
    struct tr_resp_session *session = connection->resp;
    uint64_t durable = tr_node_durable(connection->server->daemon->node);
    struct tr_resp_mark *last = &session->marks[session->mark_count];
    size_t before = session->mark_count > 0 ? last[-1].size : 0;
    if (session->out.size == before)
        return;
    if (session->mark_count > 0 && batch < last[-1].batch)
        batch = last[-1].batch;
    bool is_same = session->mark_count > 0 && batch == last[-1].batch;
    if (is_same || session->mark_count == TR_RESP_MARKS) {
        last[-1].size = session->out.size;
        last[-1].batch = batch;
    } else {
        uint64_t now_us = connection->server->daemon->now_us;
        *last = (struct tr_resp_mark){session->out.size, batch, now_us};
        session->mark_count++;
    }
    connection->asked = (uint16_t)(connection->answered + 1);
    link_held(connection);
    let_go(connection, durable);
}

/* ---- commands ---- */

/* The connection closes when all its replies are sent; what the client may still be sending is read
 * first, so that it sees them. */
static void close_after(struct tr_connection *connection, bool has_more)
{
    connection->resp->closes = true;
    connection->is_lingering |= has_more;
}

/* What the client has not read yet, as far as is known here. */
static size_t unread(const struct tr_connection *connection)
{
    return connection->resp->out.size + connection->stream.out_size;
}

static void count_unread(struct tr_connection *connection)
{
    size_t now = connection->stream.is_closed ? 0 : unread(connection);
    connection->server->unread += now - connection->resp->unread;
    connection->server->is_unread |= connection->server->unread > UNREAD_ALL;
    connection->resp->unread = now;
}

static bool is_paused(const struct tr_connection *connection)
{
    size_t most = connection->server->unread > UNREAD_ALL ? UNREAD_EACH : UNREAD_MAX;
    return connection->is_closing || connection->resp->is_again || connection->resp->is_blocked ||
           connection->is_slowed || unread(connection) > most;
}

/* In Redis's words. */
static void refuse(struct tr_connection *connection, const struct tr_resp_command *command)
{
    static const char *const faults[] = {
        [TR_RESP_COUNT_LINE] = "too big mbulk count string",
        [TR_RESP_COUNT] = "invalid multibulk length",
        [TR_RESP_LENGTH_LINE] = "too big bulk count string",
        [TR_RESP_LENGTH] = "invalid bulk length",
        [TR_RESP_INLINE_LINE] = "too big inline request",
        [TR_RESP_INLINE_QUOTES] = "unbalanced quotes in request",
    };
    struct tr_resp_out *out = &connection->resp->out;
    if (command->fault == TR_RESP_NO_FAULT || connection->resp->mode != TR_RESP_ANSWERS)
        return; /* no memory for its arguments, or nothing is to be said */
    if (command->fault == TR_RESP_NO_LENGTH)
        tr_resp_put_error_about(out, "ERR Protocol error: expected '$', got '%c'", command->found);
    else
        tr_resp_put_error_about(out, "ERR Protocol error: %s", faults[command->fault]);
}

void tr_resp_run(struct tr_resp_call *call)
{
    struct tr_resp_out *out = call->out;
    struct tr_resp_session *session = call->session;
    size_t before = out->size;
    bool was_skipping = session->mode == TR_RESP_SKIPS && call->wait == NULL;
    call->batch = session->batch;
    out->limit = before + REPLY_MAX;
    tr_resp_call(call);
    out->limit = 0;
    session->batch = call->is_again ? call->batch : 0;
    if (call->is_again)
        return;
    if (call->is_waiting) { /* it is run again, from its beginning */
        out->size = before;
        out->is_too_large = false;
        session->at = 0;
        session->sum = 0;
        return;
    }
    struct tr_server *server = call->connection->server;
    if (call->verb != NULL)
        server->verb_counts[call->verb - server->verb_list]++;
    if (out->size > before && out->bytes[before] == '-')
        call->daemon->metrics.command_errors++;
    if (out->is_too_large) {
        out->is_too_large = false;
        out->size = before;
        tr_resp_put_error(out, "ERR the reply is too large");
    }
    /* RESET ends what was said about replies, but not of its own. */
    bool is_skipped = was_skipping && call->verb != NULL && call->verb->run == tr_resp_reset;
    bool is_silent = call->wait != NULL ? call->wait->is_silent : session->mode != TR_RESP_ANSWERS;
    if (is_silent || is_skipped)
        out->size = before;
    if (was_skipping && session->mode == TR_RESP_SKIPS && !call->sets_mode)
        session->mode = TR_RESP_ANSWERS;
    session->at = 0;
    session->sum = 0;
}

/* False: no memory. */
static bool make_room(struct tr_server *server, uint32_t count)
{
    struct tr_resp_command *command = &server->command;
    uint32_t cap = command->cap * 2 > count ? command->cap * 2 : count;
    struct tr_span *larger = realloc(command->arguments, cap * sizeof *larger);
    if (larger == NULL)
        return false;
    command->arguments = larger;
    command->cap = cap;
    return true;
}

/* Reads one command. A line of words is read in a copy, since its quotes are taken off in place,
 * and it may have to be read again. */
static enum tr_resp_state read_one(struct tr_server *server, struct tr_resp_session *session,
                                   char *bytes, size_t size)
{
    struct tr_resp_command *command = &server->command;
    command->done = session->done;
    command->done_at = session->done_at;
    char *from = bytes;
    if (bytes[0] != '*') {
        const char *end = tr_resp_line_end(bytes, size, '\n');
        size = end != NULL ? (size_t)(end - bytes) + 1 : size;
        size = size <= TR_RESP_LINE_MAX ? size : TR_RESP_LINE_MAX + 1;
        memcpy(server->line, bytes, size);
        from = server->line;
    }
    enum tr_resp_state state = tr_resp_read(command, from, size);
    while (state == TR_RESP_ROOM && make_room(server, command->count))
        state = tr_resp_read(command, from, size);
    session->done = state == TR_RESP_MORE ? command->done : 0;
    session->done_at = command->done_at;
    return state;
}

/* Carries out the whole commands in `bytes`; returns how many bytes they took. */
static size_t take_commands(struct tr_connection *connection, char *bytes, size_t size)
{
    struct tr_server *server = connection->server;
    struct tr_resp_session *session = connection->resp;
    uint64_t batch = 0;
    size_t start = 0;
    session->need = 0;
    while (start < size && !is_paused(connection) && !connection->stream.is_closed) {
        enum tr_resp_state state = read_one(server, session, bytes + start, size - start);
        if (state == TR_RESP_MORE) {
            session->need = server->command.need;
            break;
        }
        if (state != TR_RESP_COMMAND) {
            refuse(connection, &server->command);
            close_after(connection, true);
            start = size;
            break;
        }
        struct tr_resp_call call = {
            .connection = connection,
            .session = session,
            .daemon = server->daemon,
            .arguments = server->command.arguments,
            .count = server->command.count,
            .out = &session->out,
        };
        session->asking = server->command.used;
        bool may_wait = call.count > 0 && (session->waits != NULL || tr_resp_is_spread(server));
        if (may_wait)
            call.verb = tr_resp_find(server, call.arguments, call.count);
        enum tr_resp_begun begun =
            may_wait ? tr_resp_wait_begin(connection, call.verb) : TR_BEGUN_NOWHERE;
        if (begun == TR_BEGUN_LATER || begun == TR_BEGUN_LOST) {
            session->is_blocked = begun == TR_BEGUN_LATER;
            session->out.is_lost |= begun == TR_BEGUN_LOST;
            break;
        }
        if (begun == TR_BEGUN)
            tr_resp_put_replies(connection);
        else if (call.count > 0)
            tr_resp_run(&call);
        session->asking = 0;
        batch = call.batch > batch ? call.batch : batch;
        session->is_again = call.is_again;
        if (!call.is_again)
            start += server->command.used;
        if (call.closes) {
            close_after(connection, start < size);
            start = size;
            break;
        }
    }
    if (session->out.is_lost) {
        tr_connection_close(connection);
        return size;
    }
    mark(connection, batch);
    count_unread(connection);
    if (session->waits != NULL)
        connection->asked = (uint16_t)(connection->answered + 1);
    if (session->closes && session->mark_count == 0 && !connection->is_closing) {
        connection->is_closing = true; /* nothing was to be said */
        if (connection->stream.out_size == 0)
            tr_connection_close(connection);
    }
    if (session->is_again && !connection->stream.is_closed)
        link_held(connection); /* it goes on when the log has written something */
    return start;
}

/* Keeps what is not whole. False: no memory, or more than clients may have there. */
static bool keep(struct tr_connection *connection, const char *bytes, size_t size)
{
    struct tr_server *server = connection->server;
    size_t before = connection->in_cap;
    bool is_stranger = server->daemon->auth.is_on && connection->rights == NULL;
    if (connection->in_size + size > (is_stranger ? STRANGER_MAX : IN_MAX) ||
        server->kept + size > KEPT_MAX)
        return false;
    bool is_kept = tr_connection_keep(connection, bytes, size);
    server->kept += connection->in_cap - before;
    return is_kept;
}

static void drop_kept(struct tr_connection *connection)
{
    connection->server->kept -= connection->in_cap;
    free(connection->in);
    connection->in = NULL;
    connection->in_cap = 0;
    connection->in_size = 0;
}

/* Goes on with what the connection has kept. */
static void go_on(struct tr_connection *connection)
{
    struct tr_resp_session *session = connection->resp;
    if (connection->in_size == 0 || connection->in_size < session->need || is_paused(connection))
        return;
    tr_daemon_look_at_clock(connection->server->daemon);
    size_t used = take_commands(connection, connection->in, connection->in_size);
    if (connection->stream.is_closed)
        return;
    connection->in_size -= used;
    memmove(connection->in, connection->in + used, connection->in_size);
    if (connection->in_size == 0)
        drop_kept(connection);
}

/* False: what is not whole cannot be kept. */
static bool take_bytes(struct tr_connection *connection, char *bytes, size_t size)
{
    if (connection->in_size > 0) {
        if (!keep(connection, bytes, size))
            return false;
        go_on(connection);
        return true;
    }
    size_t used = take_commands(connection, bytes, size);
    return connection->stream.is_closed || used == size ||
           keep(connection, bytes + used, size - used);
}

/* Reads, or does not: while much is under way the client has to wait. */
static void watch(struct tr_connection *connection)
{
    struct tr_stream *stream = &connection->stream;
    if (stream->is_closed || connection->is_ended)
        return;
    bool is_wanted = connection->is_lingering || !is_paused(connection);
    if (stream->is_reading != is_wanted)
        tr_stream_read(stream, is_wanted);
}

/* ---- what happens on the connection ---- */

static void on_bytes(struct tr_stream *stream, char *bytes, size_t size)
{
    struct tr_connection *connection = (struct tr_connection *)stream;
    if (connection->is_lingering || connection->resp->closes) {
        connection->resp->lingered += size;
        if (connection->is_shut && connection->resp->lingered > LINGER_MAX)
            tr_connection_close(connection); /* it goes on and on */
        return;
    }
    tr_connection_touch(connection);
    connection->resp->asked_ms = connection->active_ms;
    tr_daemon_look_at_clock(connection->server->daemon);
    if (!take_bytes(connection, bytes, size))
        tr_connection_close(connection);
    watch(connection);
}

/* Whether all that a client asked for before it ended is answered. */
static bool is_done(const struct tr_connection *connection)
{
    return connection->resp->mark_count == 0 && !connection->resp->is_again &&
           connection->resp->waits == NULL && connection->stream.out_size == 0;
}

static void on_sent(struct tr_stream *stream)
{
    struct tr_connection *connection = (struct tr_connection *)stream;
    count_unread(connection);
    if (!connection->is_closing) {
        go_on(connection);
        watch(connection);
        if (!stream->is_closed && connection->is_ended && is_done(connection))
            tr_connection_close(connection);
    } else if (!connection->is_lingering || connection->is_ended) {
        tr_connection_close(connection);
    } else if (!connection->is_shut) {
        connection->is_shut = true;
        tr_stream_shut(stream); /* the client closes, or the sweep does */
        tr_stream_read(stream, true);
    }
}

/* A client may close its side and still wait for its replies. */
static void on_end(struct tr_stream *stream, bool is_broken)
{
    struct tr_connection *connection = (struct tr_connection *)stream;
    connection->is_ended = true;
    if (is_broken || connection->is_shut || is_done(connection))
        tr_connection_close(connection);
    else
        tr_stream_read(stream, false);
}

static void on_gone(struct tr_stream *stream)
{
    struct tr_connection *connection = (struct tr_connection *)stream;
    struct tr_resp_session *session = connection->resp;
    drop_kept(connection);
    unlink_held(session);
    tr_resp_waits_forsake(connection);
    connection->server->unread -= session->unread;
    tr_resp_out_free(&session->out);
    free(session->name);
    free(session);
    tr_connection_free(stream);
}

const struct tr_stream_calls tr_resp_calls = {
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_sent = on_sent,
    .on_gone = on_gone,
};

bool tr_resp_open(struct tr_connection *connection)
{
    struct tr_resp_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return false;
    static const int yes = 1;
    static const int idle_s = KEEPALIVE_S;
    setsockopt(connection->stream.file, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(connection->stream.file, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    session->id = ++connection->server->session_id;
    session->since_ms = uv_now(&connection->server->daemon->loop);
    session->asked_ms = session->since_ms;
    connection->resp = session;
    connection->stream.calls = &tr_resp_calls;
    return true;
}

void tr_resp_replied(struct tr_connection *connection)
{
    struct tr_resp_session *session = connection->resp;
    if (session->out.is_lost) {
        tr_connection_close(connection);
        return;
    }
    session->is_blocked = false;
    connection->asked = (uint16_t)(connection->answered + (session->waits != NULL));
    mark(connection, 0);
    count_unread(connection);
    if (!connection->stream.is_closed)
        go_on(connection);
    watch(connection);
    if (!connection->stream.is_closed && connection->is_ended && is_done(connection))
        tr_connection_close(connection); /* there was no reply whose end would be heard of */
}

void tr_resp_release(struct tr_server *server)
{
    uint64_t durable = tr_node_durable(server->daemon->node);
    struct tr_connection *next = NULL;
    for (struct tr_connection *connection = server->held; connection != NULL; connection = next) {
        next = connection->resp->next;
        if (connection->stream.is_closed)
            continue;
        connection->resp->is_again = false;
        let_go(connection, durable);
        if (!connection->stream.is_closed)
            go_on(connection);
        watch(connection);
    }
}

void tr_resp_resume(struct tr_server *server)
{
    struct tr_connection *next = NULL;
    if (!server->is_unread || server->unread > UNREAD_ALL)
        return;
    server->is_unread = false;
    for (struct tr_connection *connection = server->oldest.next; connection != &server->oldest;
         connection = next) {
        next = connection->next;
        if (connection->resp == NULL || connection->stream.is_closed || connection->is_closing)
            continue;
        go_on(connection);
        watch(connection);
    }
}
