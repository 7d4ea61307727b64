/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/channel.h"

#include "base/assert.h"
#include "cli/credentials.h"
#include "cli/secure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE ((size_t)256 << 10)
#define LINE_MAX  65536

void tr_channel_close(struct tr_channel *channel)
{
    if (channel->file >= 0)
        tr_secure_close(channel->file);
    free(channel->out);
    free(channel->in);
    *channel = (struct tr_channel){.file = -1};
}

/* ---- sending ---- */

void tr_channel_put(struct tr_channel *channel, const void *bytes, size_t size)
{
    if (channel->out_cap - channel->out_size < size) {
        channel->out_cap = 2 * (channel->out_cap + size);
        channel->out = tr_reallocate(channel->out, channel->out_cap, 1);
    }
    if (size > 0)
        memcpy(channel->out + channel->out_size, bytes, size);
    channel->out_size += size;
}

static void put_count(struct tr_channel *channel, char kind, size_t count)
{
    char text[32];
    int size = snprintf(text, sizeof text, "%c%zu\r\n", kind, count);
    tr_channel_put(channel, text, (size_t)size);
}

void tr_channel_begin(struct tr_channel *channel, unsigned words)
{
    put_count(channel, '*', words);
}

void tr_channel_put_word(struct tr_channel *channel, struct tr_span word)
{
    put_count(channel, '$', word.size);
    tr_channel_put(channel, word.text, word.size);
    tr_channel_put(channel, "\r\n", 2);
}

/* False, after saying so: it was asked and does not answer, or cannot be asked. */
static bool break_off(const struct tr_channel *channel)
{
    tr_failure(channel->command, "%s does not answer any more: %s", channel->address,
               errno == EAGAIN ? "it takes too long" : "the connection broke");
    return false;
}

bool tr_channel_send(struct tr_channel *channel)
{
    size_t at = 0;
    while (at < channel->out_size) {
        ssize_t sent = tr_secure_send(channel->file, channel->out + at, channel->out_size - at);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return break_off(channel);
        at += (size_t)sent;
    }
    channel->out_size = 0;
    return true;
}

/* ---- receiving ---- */

/* Receives until so many bytes are there that have not been read. */
static bool fill(struct tr_channel *channel, size_t size)
{
    if (channel->in_at > 0) {
        TR_ASSERT(channel->in != NULL);
        channel->in_size -= channel->in_at;
        memmove(channel->in, channel->in + channel->in_at, channel->in_size);
        channel->in_at = 0;
    }
    while (channel->in_size < size) {
        size_t wanted = size - channel->in_size > READ_SIZE ? size - channel->in_size : READ_SIZE;
        if (channel->in_cap - channel->in_size < wanted) {
            channel->in_cap = channel->in_size + wanted;
            channel->in = tr_reallocate(channel->in, channel->in_cap, 1);
        }
        ssize_t got = tr_secure_receive(channel->file, channel->in + channel->in_size,
                                        channel->in_cap - channel->in_size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return break_off(channel);
        channel->in_size += (size_t)got;
    }
    return true;
}

/* So many bytes, and what ends them. */
static bool read_bytes(struct tr_channel *channel, size_t size, size_t end, struct tr_span *bytes)
{
    if (channel->in_size - channel->in_at < size + end && !fill(channel, size + end))
        return false;
    *bytes = (struct tr_span){channel->in + channel->in_at, size};
    channel->in_at += size + end;
    return true;
}

/* A line, without what ends it. */
static bool read_line(struct tr_channel *channel, struct tr_span *line)
{
    for (;;) {
        size_t size = channel->in_size - channel->in_at;
        const char *at = channel->in != NULL ? channel->in + channel->in_at : NULL;
        const char *end = at != NULL ? memchr(at, '\n', size) : NULL;
        if (end != NULL) {
            size_t length = (size_t)(end - at);
            channel->in_at += length + 1;
            *line = (struct tr_span){at, length - (length > 0 && at[length - 1] == '\r')};
            return true;
        }
        if (size > LINE_MAX) {
            tr_failure(channel->command, "%s answers what is not understood", channel->address);
            return false;
        }
        if (!fill(channel, size + 1))
            return false;
    }
}

static int64_t number_of(struct tr_span text)
{
    char digits[32] = {0};
    memcpy(digits, text.text, text.size < sizeof digits - 1 ? text.size : sizeof digits - 1);
    return strtoll(digits, NULL, 10);
}

bool tr_channel_reply(struct tr_channel *channel, struct tr_channel_reply *reply)
{
    struct tr_span line;
    *reply = (struct tr_channel_reply){0};
    if (!read_line(channel, &line))
        return false;
    if (line.size > 0)
        reply->kind = line.text[0];
    reply->text = tr_span_from(line, line.size > 0);
    if (reply->kind == '+' || reply->kind == '-' || reply->kind == TR_CHANNEL_HTTP)
        return true;
    if (reply->kind == '\0' || strchr(":$*", reply->kind) == NULL) {
        tr_failure(channel->command, "%s answers what is not understood", channel->address);
        return false;
    }
    reply->number = number_of(reply->text);
    reply->is_null = reply->kind != ':' && reply->number < 0;
    return reply->kind != '$' || reply->is_null ||
           read_bytes(channel, (size_t)reply->number, 2, &reply->text);
}

bool tr_channel_answer(struct tr_channel *channel, unsigned *status, struct tr_span *body)
{
    static const char length_name[] = "content-length:";
    struct tr_span line;
    size_t size = 0;
    if (!read_line(channel, &line))
        return false;
    *status = line.size > 12 ? (unsigned)number_of(tr_span_from(line, 9)) : 0;
    do {
        if (!read_line(channel, &line))
            return false;
        if (line.size >= sizeof length_name &&
            strncasecmp(line.text, length_name, sizeof length_name - 1) == 0)
            size = (size_t)number_of(tr_span_from(line, sizeof length_name - 1));
    } while (line.size > 0);
    return read_bytes(channel, size, 0, body);
}

/* ---- opening ---- */

bool tr_channel_open(struct tr_channel *channel, const char *command, const char *address)
{
    *channel = (struct tr_channel){.command = command, .address = address, .file = -1};
    channel->file = tr_node_connect(command, address);
    return channel->file >= 0;
}

bool tr_channel_login(struct tr_channel *channel)
{
    struct tr_span token = tr_credentials_token();
    struct tr_channel_reply reply;
    if (token.text == NULL)
        return true;
    tr_channel_begin(channel, 2);
    tr_channel_put_word(channel, TR_SPAN("AUTH"));
    tr_channel_put_word(channel, token);
    if (!tr_channel_send(channel) || !tr_channel_reply(channel, &reply))
        return false;
    if (reply.kind != '-')
        return true;
    tr_failure(channel->command, "%s does not take this token", channel->address);
    return false;
}
