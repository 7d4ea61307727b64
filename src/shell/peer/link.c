/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/peer/link.h"

#include "base/assert.h"
#include "proof/proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIZE_SIZE   4
#define BUFFER_SIZE 262144 /* of the kernel, each way: what waits there is late, heartbeats too */
#define HEAD_MAX    16384  /* of HTTP's word */

static void fail(struct tr_link *link, const char *reason)
{
    if (link->stream.is_closed)
        return;
    link->calls->on_failed(link, reason);
    tr_link_close(link);
}

/* ---- greetings ---- */

static void put_message(struct tr_link *link, const uint8_t *bytes, size_t size)
{
    uint8_t head[SIZE_SIZE];
    tr_store(head, size, SIZE_SIZE);
    if (!tr_stream_put(&link->stream, (const char *)head, SIZE_SIZE) ||
        !tr_stream_put(&link->stream, (const char *)bytes, size))
        fail(link, "nothing more can be sent on it");
}

static void greet(struct tr_link *link, const struct tr_greeting *greeting)
{
    uint8_t bytes[TR_GREETING_MAX];
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    tr_greeting_put(&out, greeting);
    TR_ASSERT(!out.is_full);
    put_message(link, bytes, out.size);
}

static struct tr_span text_of(const char *text)
{
    return (struct tr_span){text, strlen(text)};
}

static void prove(const struct tr_link *link, enum tr_greeting_role role,
                  uint8_t proof[TR_PROOF_SIZE])
{
    uint8_t bytes[TR_OATH_MAX];
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    struct tr_oath oath = {.version = link->version};
    bool is_dialler = link->is_dialled;
    oath.dialler = text_of(is_dialler ? link->own : link->other);
    oath.acceptor = text_of(is_dialler ? link->other : link->own);
    memcpy(oath.dialler_nonce, is_dialler ? link->own_nonce : link->other_nonce, TR_NONCE_SIZE);
    memcpy(oath.acceptor_nonce, is_dialler ? link->other_nonce : link->own_nonce, TR_NONCE_SIZE);
    tr_greeting_oath(&out, role, &oath);
    TR_ASSERT(!out.is_full);
    tr_proof(link->secret, (struct tr_span){(const char *)bytes, out.size}, proof);
}

static bool is_proven(const struct tr_link *link, enum tr_greeting_role role,
                      const uint8_t proof[TR_PROOF_SIZE])
{
    uint8_t expected[TR_PROOF_SIZE];
    prove(link, role, expected);
    return tr_proof_equals(expected, proof);
}

static void call(struct tr_link *link)
{
    struct tr_greeting greeting = {
        .kind = TR_GREETING_CALL,
        .version = TR_FRAME_VERSION,
        .from = text_of(link->own),
        .to = text_of(link->other),
    };
    memcpy(greeting.nonce, link->own_nonce, TR_NONCE_SIZE);
    link->stage = TR_LINK_CALLING;
    greet(link, &greeting);
}

/* A node speaks its own version of the frames and the one before. */
static bool can_speak(uint64_t version)
{
    return version >= 1 && version <= TR_FRAME_VERSION && version + 1 >= TR_FRAME_VERSION;
}

static void hear_call(struct tr_link *link, const struct tr_greeting *greeting)
{
    if (greeting->kind != TR_GREETING_CALL) {
        fail(link, "it sent something that is no greeting");
        return;
    }
    memcpy(link->other, greeting->from.text, greeting->from.size);
    link->other[greeting->from.size] = '\0';
    memcpy(link->other_nonce, greeting->nonce, TR_NONCE_SIZE);
    link->version = greeting->version < TR_FRAME_VERSION ? greeting->version : TR_FRAME_VERSION;
    if (!can_speak(link->version))
        tr_link_refuse(link, "it speaks a version of the protocol that is unknown here");
    else if (!tr_span_equals(greeting->to, text_of(link->own)))
        tr_link_refuse(link, "it calls another address than [cluster] localhost here");
    else
        link->calls->on_call(link);
}

void tr_link_reply(struct tr_link *link)
{
    struct tr_greeting greeting = {.kind = TR_GREETING_REPLY, .version = link->version};
    memcpy(greeting.nonce, link->own_nonce, TR_NONCE_SIZE);
    prove(link, TR_ACCEPTOR, greeting.proof);
    link->stage = TR_LINK_PROVING;
    greet(link, &greeting);
}

static void become_proven(struct tr_link *link)
{
    link->stage = TR_LINK_PROVEN;
    link->calls->on_proven(link);
}

static void hear_reply(struct tr_link *link, const struct tr_greeting *greeting)
{
    struct tr_greeting answer = {.kind = TR_GREETING_PROOF};
    if (greeting->kind == TR_GREETING_REFUSAL) {
        char reason[TR_REFUSAL_MAX + 32];
        snprintf(reason, sizeof reason, "it refuses: %.*s", (int)greeting->reason.size,
                 greeting->reason.text);
        fail(link, reason);
        return;
    }
    link->version = greeting->version;
    memcpy(link->other_nonce, greeting->nonce, TR_NONCE_SIZE);
    if (greeting->kind != TR_GREETING_REPLY || !can_speak(greeting->version)) {
        fail(link, "it speaks a version of the protocol that is unknown here");
        return;
    }
    if (!is_proven(link, TR_ACCEPTOR, greeting->proof)) {
        fail(link, "it does not have the same secret");
        return;
    }
    prove(link, TR_DIALLER, answer.proof);
    greet(link, &answer);
    become_proven(link);
}

static void hear_proof(struct tr_link *link, const struct tr_greeting *greeting)
{
    if (greeting->kind != TR_GREETING_PROOF || !is_proven(link, TR_DIALLER, greeting->proof))
        fail(link, "it does not have the same secret");
    else
        become_proven(link);
}

static void hear_greeting(struct tr_link *link, const uint8_t *bytes, size_t size)
{
    struct tr_reader in = tr_reader_on(bytes, size);
    struct tr_greeting greeting;
    if (!tr_greeting_get(&in, &greeting) || link->stage == TR_LINK_CHECKING)
        fail(link, "it sent something that is no greeting");
    else if (link->stage == TR_LINK_LISTENING)
        hear_call(link, &greeting);
    else if (link->stage == TR_LINK_CALLING)
        hear_reply(link, &greeting);
    else
        hear_proof(link, &greeting);
}

/* ---- bytes ---- */

/* HTTP's word on the upgrade. Returns how many bytes it took; 0: it is not whole. */
static size_t take_upgrade(struct tr_link *link, char *bytes, size_t size)
{
    enum tr_http_state state = tr_http_feed(&link->http, bytes, 0, size);
    if (state == TR_HTTP_MORE) {
        tr_http_init_response(&link->http, HEAD_MAX); /* it is fed from the beginning again */
        return 0;
    }
    if (state == TR_HTTP_COMPLETE && tr_http_status(&link->http) == 101) {
        call(link);
        return link->http.used;
    }
    char reason[80];
    snprintf(reason, sizeof reason, "it answers with HTTP status %u, and not as a node would",
             tr_http_status(&link->http));
    fail(link, reason);
    return size;
}

/* Returns how many bytes it took; 0: the next message is not whole. */
static size_t take_message(struct tr_link *link, char *bytes, size_t size)
{
    if (link->stage == TR_LINK_UPGRADING)
        return take_upgrade(link, bytes, size);
    if (size < SIZE_SIZE)
        return 0;
    size_t message = (size_t)tr_load((const uint8_t *)bytes, SIZE_SIZE);
    size_t most = link->stage == TR_LINK_PROVEN ? TR_FRAME_MAX : TR_GREETING_MAX;
    if (message == 0 || message > most) {
        fail(link, "it sent a message of a size that none has");
        return size;
    }
    if (size < SIZE_SIZE + message)
        return 0;
    const uint8_t *body = (const uint8_t *)bytes + SIZE_SIZE;
    if (link->stage == TR_LINK_PROVEN)
        link->calls->on_frame(link, body, message);
    else
        hear_greeting(link, body, message);
    return SIZE_SIZE + message;
}

static bool keep(struct tr_link *link, const char *bytes, size_t size)
{
    if (link->in_size + size > link->in_cap) {
        size_t cap = 2 * link->in_cap > link->in_size + size ? 2 * link->in_cap
                                                             : link->in_size + size + 1024;
        char *larger = realloc(link->in, cap);
        if (larger == NULL)
            return false;
        link->in = larger;
        link->in_cap = cap;
    }
    memcpy(link->in + link->in_size, bytes, size);
    link->in_size += size;
    return true;
}

static size_t take_messages(struct tr_link *link, char *bytes, size_t size)
{
    size_t used = 0;
    while (used < size && !link->stream.is_closed) {
        size_t taken = take_message(link, bytes + used, size - used);
        if (taken == 0)
            break;
        used += taken;
    }
    return used;
}

static void on_bytes(struct tr_stream *stream, char *bytes, size_t size)
{
    struct tr_link *link = (struct tr_link *)stream;
    if (link->in_size == 0) {
        size_t used = take_messages(link, bytes, size);
        bytes += used;
        size -= used;
    }
    if (stream->is_closed || size == 0)
        return;
    if (!keep(link, bytes, size)) {
        fail(link, "there is no memory for what it sent");
        return;
    }
    size_t used = take_messages(link, link->in, link->in_size);
    if (stream->is_closed)
        return;
    memmove(link->in, link->in + used, link->in_size - used);
    link->in_size -= used;
    if (link->in_size == 0 && link->in_cap > (size_t)2 * TR_STREAM_READ) {
        free(link->in);
        link->in = NULL;
        link->in_cap = 0;
    }
}

/* ---- the connection ---- */

static void on_open(struct tr_stream *stream, bool is_open)
{
    struct tr_link *link = (struct tr_link *)stream;
    char request[TR_GREETING_NAME + 128];
    if (!is_open) {
        const char *fault = tr_stream_fault(stream);
        fail(link, fault != NULL ? fault : "it cannot be reached");
        return;
    }
    int size = snprintf(request, sizeof request,
                        "GET /peer HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\n"
                        "Upgrade: tryst-peer\r\n\r\n",
                        link->other);
    link->stage = TR_LINK_UPGRADING;
    if (!tr_stream_put(stream, request, (size_t)size))
        fail(link, "nothing can be sent on it");
}

static void on_end(struct tr_stream *stream, bool is_broken)
{
    struct tr_link *link = (struct tr_link *)stream;
    bool is_proving = link->stage == TR_LINK_CALLING || link->stage == TR_LINK_PROVING;
    const char *fault = tr_stream_fault(stream);
    fail(link, fault != NULL ? fault
               : is_proving  ? "it ended the connection in the middle of greeting; do the secrets "
                               "differ?"
               : is_broken   ? "the connection broke"
                             : "it ended the connection");
}

static void on_sent(struct tr_stream *stream)
{
    struct tr_link *link = (struct tr_link *)stream;
    if (!link->is_sending)
        return;
    link->is_sending = false;
    link->calls->on_sent(link);
}

static void on_gone(struct tr_stream *stream)
{
    struct tr_link *link = (struct tr_link *)stream;
    free(link->in);
    link->calls->on_gone(link);
}

static const struct tr_stream_calls stream_calls = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_sent = on_sent,
    .on_gone = on_gone,
};

static void limit_buffers(int file)
{
    int size = BUFFER_SIZE;
    setsockopt(file, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(file, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

static bool draw_nonce(struct tr_link *link)
{
    return getrandom(link->own_nonce, TR_NONCE_SIZE, 0) == TR_NONCE_SIZE;
}

bool tr_link_dial(struct tr_link *link, struct tr_streams *all, const struct sockaddr *from,
                  const struct sockaddr *to, const struct tr_link_calls *calls)
{
    link->calls = calls;
    link->is_dialled = true;
    link->stage = TR_LINK_CONNECTING;
    tr_http_init_response(&link->http, HEAD_MAX);
    if (!draw_nonce(link) || !tr_stream_connect(&link->stream, all, from, to, &stream_calls))
        return false;
    limit_buffers(link->stream.file);
    return true;
}

bool tr_link_accept(struct tr_link *link, struct tr_streams *all, int file, struct tr_tls *tls,
                    const struct tr_link_calls *calls)
{
    static const char word[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                               "Upgrade: tryst-peer\r\n\r\n";
    link->calls = calls;
    link->stage = TR_LINK_LISTENING;
    limit_buffers(file);
    if (!draw_nonce(link)) {
        close(file);
        return false;
    }
    if (!tr_stream_open(&link->stream, all, file, &stream_calls))
        return false;
    if (tls != NULL)
        tr_stream_secure(&link->stream, tls);
    if (!tr_stream_put(&link->stream, word, sizeof word - 1))
        abort();
    return true;
}

void tr_link_refuse(struct tr_link *link, const char *reason)
{
    struct tr_greeting greeting = {.kind = TR_GREETING_REFUSAL, .reason = text_of(reason)};
    TR_ASSERT(greeting.reason.size <= TR_REFUSAL_MAX);
    greet(link, &greeting);
    tr_stream_flush(&link->stream);
    fail(link, reason);
}

void tr_link_send(struct tr_link *link, const uint8_t *bytes, size_t size)
{
    TR_ASSERT(link->stage == TR_LINK_PROVEN && size <= TR_FRAME_MAX);
    link->is_sending = true;
    put_message(link, bytes, size);
}

void tr_link_close(struct tr_link *link)
{
    tr_stream_close(&link->stream);
}
