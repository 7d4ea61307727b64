/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/front.h"

#include "shell/front/http.h"
#include "shell/front/resp.h"
#include "shell/tls.h"

#include <stdlib.h>
#include <string.h>

enum guess { GUESS_MORE, GUESS_HTTP, GUESS_RESP };

/* Whether a line ends as the first one of a request does, of whatever version. */
static bool is_request_line(const char *line, size_t size)
{
    static const char mark[] = " HTTP/";
    enum { MARK = sizeof mark - 1, VERSION = 3 };
    size -= size > 0 && line[size - 1] == '\r';
    return size > MARK + VERSION && memcmp(line + size - MARK - VERSION, mark, MARK) == 0;
}

/* Nobody types such a byte, and no command begins with it: it may be TLS. */
static bool is_odd(char byte)
{
    return (unsigned char)byte < ' ' && byte != '\r' && byte != '\n' && byte != '\t';
}

/* A long line that is not whole: a request begins with a method and a path. */
static bool begins_as_request(const char *line, size_t size)
{
    size_t at = 0;
    while (at < size && line[at] >= 'A' && line[at] <= 'Z')
        at++;
    return at > 0 && size - at > 2 && line[at] == ' ' && line[at + 1] == '/';
}

static enum guess guess(const char *bytes, size_t size)
{
    if (bytes[0] == '*')
        return GUESS_RESP;
    if (is_odd(bytes[0]))
        return GUESS_HTTP; /* its parser answers in words */
    const char *end = memchr(bytes, '\n', size);
    if (end == NULL && size <= TR_HTTP_TARGET_MAX)
        return GUESS_MORE;
    if (end == NULL) /* a target that is too long for HTTP, too; its parser says so */
        return begins_as_request(bytes, size) ? GUESS_HTTP : GUESS_RESP;
    return is_request_line(bytes, (size_t)(end - bytes)) ? GUESS_HTTP : GUESS_RESP;
}

/* Hands over what has come so far. */
static void hand_over(struct tr_connection *connection, char *bytes, size_t size)
{
    char *kept = connection->in;
    connection->in = NULL;
    connection->in_size = 0;
    connection->in_cap = 0;
    connection->stream.calls->on_bytes(&connection->stream, bytes, size);
    free(kept);
}

/* The first byte of what a client of TLS says. */
#define TLS_HELLO 0x16

/* Whether it is TLS, which goes on from here by itself. */
static bool is_secured(struct tr_connection *connection, const char *bytes, size_t size)
{
    struct tr_daemon *daemon = connection->server->daemon;
    struct tr_stream *stream = &connection->stream;
    if (bytes[0] != TLS_HELLO || stream->tls != NULL || daemon->certificates.server == NULL ||
        (daemon->config.tls_clients == TR_TLS_OFF && daemon->config.tls_peers == TR_TLS_OFF))
        return false;
    struct tr_tls *tls = tr_tls_accept(daemon->certificates.server);
    if (tls == NULL) {
        tr_connection_close(connection);
        return true;
    }
    tr_stream_secure(stream, tls);
    tr_stream_feed(stream, bytes, size);
    return true;
}

/* Commands without TLS where it is wanted. */
static bool is_refused(struct tr_connection *connection)
{
    static const char why[] = "-ERR this node speaks TLS: connect with --tls\r\n";
    if (connection->server->daemon->config.tls_clients != TR_TLS_REQUIRED ||
        connection->stream.tls != NULL || connection->is_own)
        return false;
    tr_connection_put(connection, why, sizeof why - 1);
    if (!connection->stream.is_closed) {
        tr_stream_flush(&connection->stream);
        tr_connection_close(connection);
    }
    return true;
}

static void on_bytes(struct tr_stream *stream, char *bytes, size_t size)
{
    struct tr_connection *connection = (struct tr_connection *)stream;
    if (connection->in_size == 0 && is_secured(connection, bytes, size))
        return;
    if (connection->in_size > 0) {
        if (!tr_connection_keep(connection, bytes, size)) {
            tr_connection_close(connection);
            return;
        }
        bytes = connection->in;
        size = connection->in_size;
    }
    enum guess what = guess(bytes, size);
    bool is_good = true;
    if (connection->speaks_resp)
        what = GUESS_RESP;
    else if (!connection->server->daemon->config.has_resp)
        what = GUESS_HTTP;
    if (what == GUESS_RESP && is_refused(connection))
        return;
    if (what == GUESS_MORE)
        is_good = connection->in_size > 0 || tr_connection_keep(connection, bytes, size);
    else if (what == GUESS_HTTP)
        stream->calls = &tr_http_calls;
    else
        is_good = tr_resp_open(connection);
    if (!is_good)
        tr_connection_close(connection);
    else if (what != GUESS_MORE)
        hand_over(connection, bytes, size);
}

static void on_end(struct tr_stream *stream, bool is_broken)
{
    (void)is_broken;
    tr_connection_close((struct tr_connection *)stream);
}

const struct tr_stream_calls tr_front_calls = {
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_gone = tr_connection_free,
};
