/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libuv watches the sockets; reading and writing them is done here, by recv() and send(), which are
 * cheaper than the read() and write() of its streams and leave the moment of sending to us.
 */
#include "shell/stream.h"

#include "base/assert.h"
#include "shell/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD_SIZE  17408 /* what a record of TLS takes at most, about */
#define DISCARDS_MAX 16    /* reads: who sends more than this after the end is not listening */

static void on_ready(uv_poll_t *poll, int status, int events);

static void watch(struct tr_stream *stream)
{
    bool is_writing = stream->is_blocked || stream->is_connecting;
    int events = (stream->is_reading ? UV_READABLE : 0) | (is_writing ? UV_WRITABLE : 0);
    if (events == stream->watched || stream->is_closed)
        return;
    stream->watched = events;
    if (events == 0)
        uv_poll_stop(&stream->poll);
    else
        uv_poll_start(&stream->poll, events, on_ready);
}

/* ---- sending ---- */

static void mark_dirty(struct tr_stream *stream)
{
    struct tr_streams *all = stream->all;
    if (stream->dirty_link != NULL)
        return;
    stream->next_dirty = NULL;
    stream->dirty_link = all->dirty_end;
    *all->dirty_end = stream;
    all->dirty_end = &stream->next_dirty;
}

static void unmark_dirty(struct tr_stream *stream)
{
    if (stream->dirty_link == NULL)
        return;
    *stream->dirty_link = stream->next_dirty;
    if (stream->next_dirty != NULL)
        stream->next_dirty->dirty_link = stream->dirty_link;
    else
        stream->all->dirty_end = stream->dirty_link;
    stream->dirty_link = NULL;
}

static void release_out(struct tr_stream *stream)
{
    if (stream->out != stream->out_inline)
        free(stream->out);
    stream->out = stream->out_inline;
    stream->out_cap = TR_STREAM_INLINE;
    stream->out_size = 0;
    stream->out_sent = 0;
}

static bool reserve_out(struct tr_stream *stream, size_t size)
{
    size_t wanted = stream->out_size + size;
    if (wanted <= stream->out_cap)
        return true;
    size_t cap = stream->out_cap * 2 > wanted ? stream->out_cap * 2 : wanted;
    bool is_inline = stream->out == stream->out_inline;
    char *larger = realloc(is_inline ? NULL : stream->out, cap);
    if (larger == NULL)
        return false;
    if (is_inline)
        memcpy(larger, stream->out, stream->out_size);
    stream->out = larger;
    stream->out_cap = cap;
    return true;
}

static bool put_raw(struct tr_stream *stream, const char *bytes, size_t size)
{
    if (!reserve_out(stream, size))
        return false;
    memcpy(stream->out + stream->out_size, bytes, size);
    stream->out_size += size;
    mark_dirty(stream);
    return true;
}

/* What TLS wants on the wire. */
static bool put_tls(struct tr_stream *stream)
{
    char bytes[RECORD_SIZE];
    size_t size = 0;
    while ((size = tr_tls_output(stream->tls, bytes, sizeof bytes)) > 0) {
        if (!put_raw(stream, bytes, size))
            return false;
    }
    return true;
}

bool tr_stream_put(struct tr_stream *stream, const char *bytes, size_t size)
{
    TR_ASSERT(!stream->is_closed);
    if (stream->tls == NULL)
        return put_raw(stream, bytes, size);
    return size == 0 || (tr_tls_write(stream->tls, bytes, size) && put_tls(stream));
}

static bool receive(struct tr_stream *stream);

/* The connection takes nothing any more; but an answer may have come before it broke. */
static void break_off(struct tr_stream *stream)
{
    release_out(stream);
    while (stream->calls->wants_rest && !stream->is_closed && stream->is_reading && receive(stream))
        ;
    if (!stream->is_closed)
        stream->calls->on_end(stream, true);
}

static void send_out(struct tr_stream *stream)
{
    while (stream->out_sent < stream->out_size) {
        ssize_t sent = send(stream->file, stream->out + stream->out_sent,
                            stream->out_size - stream->out_sent, MSG_NOSIGNAL);
        if (sent >= 0) {
            stream->out_sent += (size_t)sent;
            stream->sent += (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            stream->is_blocked = true;
            watch(stream);
            return;
        } else if (errno != EINTR) {
            break_off(stream);
            return;
        }
    }
    release_out(stream);
    if (stream->is_blocked) {
        stream->is_blocked = false;
        watch(stream);
    }
    if (stream->calls->on_sent != NULL)
        stream->calls->on_sent(stream);
}

void tr_stream_send_now(struct tr_stream *stream)
{
    if (stream->is_blocked || stream->is_closed || stream->out_sent == stream->out_size)
        return;
    ssize_t sent = send(stream->file, stream->out + stream->out_sent,
                        stream->out_size - stream->out_sent, MSG_NOSIGNAL);
    if (sent > 0) {
        stream->out_sent += (size_t)sent;
        stream->sent += (size_t)sent;
    }
}

void tr_stream_flush(struct tr_stream *stream)
{
    unmark_dirty(stream);
    if (!stream->is_blocked && !stream->is_closed)
        send_out(stream);
}

void tr_streams_flush(struct tr_streams *streams)
{
    while (streams->dirty != NULL)
        tr_stream_flush(streams->dirty);
}

/* ---- what the loop sees ---- */

static void refuse_tls(struct tr_stream *stream)
{
    put_tls(stream); /* what is wrong, for the other end */
    tr_stream_send_now(stream);
    if (stream->all->on_refused != NULL)
        stream->all->on_refused(stream, tr_tls_fault(stream->tls));
    if (stream->is_shaking)
        stream->calls->on_open(stream, false);
    else
        stream->calls->on_end(stream, true);
}

void tr_stream_feed(struct tr_stream *stream, const char *bytes, size_t size)
{
    enum tr_tls_state state = tr_tls_input(stream->tls, bytes, size);
    if (state == TR_TLS_FAILED) {
        refuse_tls(stream);
        return;
    }
    if (!put_tls(stream)) {
        stream->calls->on_end(stream, true);
        return;
    }
    if (state == TR_TLS_READY && stream->is_shaking) {
        stream->is_shaking = false;
        stream->calls->on_open(stream, true);
    }
    /* What has come is read to its end, though the reader may have asked for a pause: the kernel
     * has handed it over already, so that nothing would wake the stream for it later. */
    char *buffer = stream->all->buffer;
    size_t got = 0;
    while (state == TR_TLS_READY && !stream->is_closed && stream->tls != NULL &&
           (got = tr_tls_read(stream->tls, buffer, TR_STREAM_READ)) > 0)
        stream->calls->on_bytes(stream, buffer, got);
    if (!stream->is_closed && stream->tls != NULL && tr_tls_is_broken(stream->tls))
        refuse_tls(stream);
    else if (!stream->is_closed && stream->tls != NULL && tr_tls_is_ended(stream->tls))
        stream->calls->on_end(stream, false);
}

void tr_stream_secure(struct tr_stream *stream, struct tr_tls *tls)
{
    stream->tls = tls;
    stream->is_shaking = stream->is_connecting;
}

struct tr_tls *tr_stream_take_tls(struct tr_stream *stream)
{
    struct tr_tls *tls = stream->tls;
    stream->tls = NULL;
    return tls;
}

const char *tr_stream_fault(const struct tr_stream *stream)
{
    const char *fault = stream->tls != NULL ? tr_tls_fault(stream->tls) : "";
    return fault[0] != '\0' ? fault : NULL;
}

/* True: there was something, and there may be more. */
static bool receive(struct tr_stream *stream)
{
    char *buffer = stream->all->buffer;
    ssize_t size = recv(stream->file, buffer, TR_STREAM_READ, 0);
    if (size > 0 && stream->tls != NULL)
        tr_stream_feed(stream, buffer, (size_t)size);
    else if (size > 0)
        stream->calls->on_bytes(stream, buffer, (size_t)size);
    else if (size == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        stream->calls->on_end(stream, size < 0);
    return size > 0;
}

static void end_connect(struct tr_stream *stream)
{
    int fault = 0;
    socklen_t size = sizeof fault;
    if (getsockopt(stream->file, SOL_SOCKET, SO_ERROR, &fault, &size) != 0)
        fault = errno;
    stream->is_connecting = false;
    stream->is_reading = fault == 0;
    watch(stream);
    if (fault == 0 && stream->is_shaking)
        tr_stream_feed(stream, NULL, 0);
    else
        stream->calls->on_open(stream, fault == 0);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct tr_stream *stream = (struct tr_stream *)poll;
    if (status < 0) {
        /* The connection is broken, and libuv looks no more; but an answer may have come first. */
        stream->watched = 0;
        events = UV_READABLE | UV_WRITABLE;
    }
    if (stream->is_connecting) {
        end_connect(stream);
        return;
    }
    if (stream->is_reading && (events & UV_READABLE) != 0)
        receive(stream);
    if (!stream->is_closed && stream->is_blocked && (events & UV_WRITABLE) != 0)
        send_out(stream);
    watch(stream);
}

void tr_stream_read(struct tr_stream *stream, bool is_wanted)
{
    stream->is_reading = is_wanted;
    watch(stream);
}

void tr_stream_look(struct tr_stream *stream)
{
    if (stream->is_reading && !stream->is_connecting)
        receive(stream);
}

/* ---- from beginning to end ---- */

static bool begin(struct tr_stream *stream, struct tr_streams *all, int file,
                  const struct tr_stream_calls *calls)
{
    int on = 1;
    stream->all = all;
    stream->calls = calls;
    stream->file = file;
    stream->out = stream->out_inline;
    stream->out_cap = TR_STREAM_INLINE;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return uv_poll_init(all->loop, &stream->poll, file) == 0;
}

bool tr_stream_open(struct tr_stream *stream, struct tr_streams *all, int file,
                    const struct tr_stream_calls *calls)
{
    if (!begin(stream, all, file, calls)) {
        close(file);
        return false;
    }
    tr_stream_read(stream, true);
    return true;
}

static socklen_t size_of(const struct sockaddr *address)
{
    bool is_ipv6 = address->sa_family == AF_INET6;
    return is_ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

bool tr_stream_connect(struct tr_stream *stream, struct tr_streams *all,
                       const struct sockaddr *from, const struct sockaddr *to,
                       const struct tr_stream_calls *calls)
{
    int file = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (file < 0)
        return false;
    bool is_bound = from == NULL || bind(file, from, size_of(from)) == 0;
    bool is_begun = is_bound && (connect(file, to, size_of(to)) == 0 || errno == EINPROGRESS);
    if (!is_begun || !begin(stream, all, file, calls)) {
        close(file);
        return false;
    }
    stream->is_connecting = true;
    watch(stream);
    return true;
}

/* The other end is told that this one ends. */
static void end_tls(struct tr_stream *stream)
{
    if (stream->tls == NULL)
        return;
    tr_tls_end(stream->tls);
    put_tls(stream);
    tr_stream_send_now(stream);
}

void tr_stream_shut(struct tr_stream *stream)
{
    end_tls(stream);
    shutdown(stream->file, SHUT_WR);
}

static void on_closed(uv_handle_t *handle)
{
    struct tr_stream *stream = (struct tr_stream *)handle;
    release_out(stream);
    if (stream->tls != NULL)
        tr_tls_free(stream->tls);
    stream->tls = NULL;
    stream->calls->on_gone(stream);
}

/* To close with unread bytes is to reset the connection, and what the kernel has not sent yet is
 * gone with it. */
static void discard_unread(struct tr_stream *stream)
{
    /* Not into the buffer: somebody may be reading in it. */
    for (unsigned i = 0; i < DISCARDS_MAX; i++) {
        if (recv(stream->file, NULL, TR_STREAM_READ, MSG_DONTWAIT | MSG_TRUNC) <= 0)
            return;
    }
}

int tr_stream_detach(struct tr_stream *stream)
{
    TR_ASSERT(!stream->is_closed);
    stream->is_closed = true;
    unmark_dirty(stream);
    uv_close((uv_handle_t *)&stream->poll, on_closed);
    return stream->file;
}

void tr_stream_close(struct tr_stream *stream)
{
    if (stream->is_closed)
        return;
    end_tls(stream);
    tr_stream_detach(stream);
    discard_unread(stream);
    close(stream->file);
}

void tr_streams_init(struct tr_streams *streams, uv_loop_t *loop)
{
    streams->loop = loop;
    streams->dirty = NULL;
    streams->dirty_end = &streams->dirty;
}
