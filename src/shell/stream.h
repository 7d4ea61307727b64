/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP connections. What is put into them gathers until tr_streams_flush(), at the end of a turn of
 * the loop, and then goes out back to back: a peer that waits for many answers is woken once for
 * all of them, and not for each. That wake-up is a good part of what a message costs.
 *
 * Owns:    the socket, and bytes that are not sent.
 * Bounds:  none of its own: who puts looks at out_size.
 */
#ifndef TR_SHELL_STREAM_H
#define TR_SHELL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#define TR_STREAM_READ   65536
#define TR_STREAM_INLINE 768

struct tr_stream;
struct tr_tls;

/* Any of them may close the stream, or put into it. */
struct tr_stream_calls {
    /* tr_stream_connect() has come to its end. NULL for accepted ones. */
    void (*on_open)(struct tr_stream *stream, bool is_open);
    void (*on_bytes)(struct tr_stream *stream, char *bytes, size_t size);
    /* The peer has closed its side, or the connection broke: nothing more will be read. */
    void (*on_end)(struct tr_stream *stream, bool is_broken);
    /* All that was put is the kernel's now. NULL: nobody wants to know. */
    void (*on_sent)(struct tr_stream *stream);
    /* After tr_stream_close(): its memory may go. */
    void (*on_gone)(struct tr_stream *stream);
    bool wants_rest; /* when sending fails: what the peer had sent before that is read first */
};

struct tr_streams {
    uv_loop_t *loop;
    void *owner;
    /* TLS did not come about, for this reason. NULL: nobody wants to know. */
    void (*on_refused)(struct tr_stream *stream, const char *why);
    struct tr_stream *dirty; /* with something to send, in the order of their first put */
    struct tr_stream **dirty_end;
    char buffer[TR_STREAM_READ]; /* bytes just read, until on_bytes returns */
};

/* The first member of whoever has one. */
struct tr_stream {
    uv_poll_t poll;
    struct tr_streams *all;
    const struct tr_stream_calls *calls;
    struct tr_stream *next_dirty;
    struct tr_stream **dirty_link; /* what points to it; NULL: not dirty */
    char *out;
    size_t out_size;
    size_t out_sent; /* of out_size */
    size_t out_cap;
    uint64_t sent;      /* bytes, ever */
    struct tr_tls *tls; /* NULL: plain; what is read and put is not what goes over the wire */
    int file;
    int watched; /* what the loop looks for */
    bool is_connecting;
    bool is_shaking; /* hands, by TLS, on a stream that was connected from here */
    bool is_reading;
    bool is_blocked; /* the kernel takes no more for now */
    bool is_closed;
    char out_inline[TR_STREAM_INLINE];
};

void tr_streams_init(struct tr_streams *streams, uv_loop_t *loop);
void tr_streams_flush(struct tr_streams *streams);

/* Takes a socket that is connected, and reads from it. False: the socket is closed, and the memory
 * may go. */
bool tr_stream_open(struct tr_stream *stream, struct tr_streams *all, int file,
                    const struct tr_stream_calls *calls);

/* Connects, from an address of this machine's or, if that is NULL, any. False as above; else
 * on_open comes, later. */
bool tr_stream_connect(struct tr_stream *stream, struct tr_streams *all,
                       const struct sockaddr *from, const struct sockaddr *to,
                       const struct tr_stream_calls *calls);

/* From here on it speaks TLS; the stream owns what it is given. Of a stream that is to be connected
 * on_open comes when hands are shaken. */
void tr_stream_secure(struct tr_stream *stream, struct tr_tls *tls);
/* Bytes off the wire that somebody has looked at, and that are TLS. */
void tr_stream_feed(struct tr_stream *stream, const char *bytes, size_t size);
/* It goes to somebody else, with the file of tr_stream_detach(). */
struct tr_tls *tr_stream_take_tls(struct tr_stream *stream);
/* What TLS had against it; NULL: nothing. */
const char *tr_stream_fault(const struct tr_stream *stream);

/* False: no memory for it. */
bool tr_stream_put(struct tr_stream *stream, const char *bytes, size_t size);

/* Sends what the socket takes of it at once. What it does not take, and what goes wrong, is found
 * by the flush at the end of the turn: nobody is called back from here. */
void tr_stream_send_now(struct tr_stream *stream);

/* Sends what was put into this one, without waiting for the end of the turn. */
void tr_stream_flush(struct tr_stream *stream);

void tr_stream_read(struct tr_stream *stream, bool is_wanted);

/* Reads what is there at this moment. */
void tr_stream_look(struct tr_stream *stream);

/* Nothing more will be sent: the peer sees the end. */
void tr_stream_shut(struct tr_stream *stream);
void tr_stream_close(struct tr_stream *stream);

/* Like closing it, but the socket, which is returned, stays open. */
int tr_stream_detach(struct tr_stream *stream);

#endif
