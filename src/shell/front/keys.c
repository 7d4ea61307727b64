/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys over HTTP. A request becomes a few commands of RESP, which go over a pair of sockets to this
 * same node, as those of any client do; the replies are put together as JSON.
 */
#include "shell/front/connection.h"
#include "shell/front/render.h"
#include "shell/front/resp.h"
#include "shell/front/views.h"
#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY_MAX    ((size_t)80 << 20)
#define COMMAND_SIZE (2 * TR_API_KEY_MAX + 512)
#define SHOWN_MAX    4096 /* bytes of a value that are shown */

struct ask {
    struct tr_stream stream;
    struct tr_server *server;
    uint64_t token;
    uint16_t number;
    enum tr_api_kind kind;
    unsigned replies; /* that are wanted */
    char *in;
    size_t in_size;
    size_t in_cap;
    size_t key_size;
    char key[TR_API_KEY_MAX];
};

/* ---- replies ---- */

struct reply {
    char type; /* of RESP: + - : $ *, and 0 where there is none that is whole */
    bool is_null;
    int64_t number;      /* of : its value, of * how many follow */
    struct tr_span text; /* of the others */
};

/* The next reply, or part of one, is taken off the text. */
static struct reply next_reply(struct tr_span *in)
{
    struct reply none = {.type = 0};
    const char *end = in->size > 0 ? memchr(in->text, '\n', in->size) : NULL;
    if (end == NULL || end - in->text < 2)
        return none;
    struct reply reply = {.type = in->text[0],
                          .text = {in->text + 1, (size_t)(end - in->text) - 2}};
    struct tr_span rest = tr_span_from(*in, (size_t)(end - in->text) + 1);
    if (reply.type == ':' || reply.type == '$' || reply.type == '*')
        reply.number = strtoll(reply.text.text, NULL, 10);
    reply.is_null = (reply.type == '$' || reply.type == '*') && reply.number < 0;
    if (reply.type == '$' && !reply.is_null) {
        size_t size = (size_t)reply.number;
        if (rest.size < size + 2)
            return none;
        reply.text = (struct tr_span){rest.text, size};
        rest = tr_span_from(rest, size + 2);
    }
    *in = rest;
    return reply;
}

/* Passes over a whole reply; false: it is not whole. */
static bool skip_reply(struct tr_span *in)
{
    int64_t left = 1;
    while (left > 0) {
        struct reply reply = next_reply(in);
        if (reply.type == 0)
            return false;
        left += (reply.type == '*' && !reply.is_null ? reply.number : 0) - 1;
    }
    return true;
}

/* ---- answers ---- */

static void put_names(struct tr_writer *out, struct tr_span *in, int64_t count)
{
    tr_put_text(out, "[");
    for (int64_t i = 0; i < count; i++) {
        struct reply name = next_reply(in);
        tr_answer_reserve(out, 6 * name.text.size + 64);
        tr_put_text(out, i > 0 ? "," : "");
        tr_put_json_string(out, name.text);
    }
    tr_answer_reserve(out, 128);
    tr_put_text(out, "]");
}

/* SCAN: its cursor and keys; then DBSIZE. */
static void put_list(struct tr_writer *out, struct tr_span in)
{
    next_reply(&in);
    struct reply cursor = next_reply(&in);
    struct reply names = next_reply(&in);
    tr_put_text(out, "{\"keys\":");
    put_names(out, &in, names.number);
    struct reply size = next_reply(&in);
    if (size.type == ':') {
        tr_put_text(out, ",\"all\":");
        tr_put_signed(out, size.number);
    }
    if (!tr_span_equals(cursor.text, TR_SPAN("0"))) {
        tr_put_text(out, ",\"cursor\":\"");
        tr_put_bytes(out, cursor.text.text, cursor.text.size);
        tr_put_text(out, "\"");
    }
    tr_put_text(out, "}\n");
}

/* KEYSPACE READ: value, when it expires, callback, version; then KEYSPACE WHERE, if there is a
 * keyspace. */
static void put_key(struct tr_writer *out, const struct ask *ask, struct tr_span in)
{
    next_reply(&in);
    struct reply value = next_reply(&in);
    struct reply expires = next_reply(&in);
    struct reply callback = next_reply(&in);
    struct reply version = next_reply(&in);
    size_t shown = value.text.size < SHOWN_MAX ? value.text.size : SHOWN_MAX;
    tr_answer_reserve(out, 6 * (ask->key_size + shown + callback.text.size) + 512);
    tr_put_text(out, "{\"key\":");
    tr_put_json_string(out, (struct tr_span){ask->key, ask->key_size});
    tr_put_text(out, ",\"value\":");
    tr_put_json_string(out, (struct tr_span){value.text.text, shown});
    tr_put_text(out, ",\"bytes\":");
    tr_put_decimal(out, value.text.size);
    if (expires.number >= 0) {
        tr_put_text(out, ",\"expires\":\"");
        tr_put_rfc3339(out, (tr_wall_ms)expires.number);
        tr_put_text(out, "\"");
    }
    if (!callback.is_null && callback.text.size > 0) {
        tr_put_text(out, ",\"callback\":");
        tr_put_json_string(out, callback.text);
    }
    tr_put_text(out, ",\"version\":\"");
    tr_put_hex(out, (uint64_t)version.number, 16);
    tr_put_text(out, "\"");
    struct reply where = next_reply(&in);
    if (where.type == '*') {
        tr_put_text(out, ",\"nodes\":");
        put_names(out, &in, where.number);
    }
    tr_put_text(out, "}\n");
}

/* KEYSPACE RING: position, node and partitions of each part. */
static void put_ring(struct tr_writer *out, struct tr_span in)
{
    struct reply parts = next_reply(&in);
    tr_put_text(out, "{\"ring\":[");
    for (int64_t i = 0; i < parts.number; i++) {
        struct reply part = next_reply(&in);
        tr_put_text(out, i > 0 ? ",[" : "[");
        for (int64_t k = 0; k < part.number; k++) {
            struct reply field = next_reply(&in);
            tr_answer_reserve(out, 6 * field.text.size + 64);
            tr_put_text(out, k > 0 ? "," : "");
            if (field.type == ':')
                tr_put_signed(out, field.number);
            else
                tr_put_json_string(out, field.text);
        }
        tr_put_text(out, "]");
    }
    tr_answer_reserve(out, 64);
    tr_put_text(out, "]}\n");
}

/* What RESP calls an error, in HTTP's way. */
static void refuse(const struct ask *ask, struct tr_connection *connection, struct tr_span error)
{
    char detail[TR_PROBLEM_MAX];
    bool is_passing = tr_span_starts(error, TR_SPAN("UNAVAILABLE")) ||
                      tr_span_starts(error, TR_SPAN("LOADING")) ||
                      tr_span_starts(error, TR_SPAN("UNKNOWN")) ||
                      tr_span_starts(error, TR_SPAN("BUSY"));
    bool is_forbidden =
        tr_span_starts(error, TR_SPAN("NOPERM")) || tr_span_starts(error, TR_SPAN("NOAUTH"));
    bool is_none = tr_span_starts(error, TR_SPAN("ERR there is no keyspace"));
    snprintf(detail, sizeof detail, "%.*s", (int)error.size, error.text);
    tr_render_problem(connection, ask->number,
                      is_passing     ? 503
                      : is_forbidden ? 403
                      : is_none      ? 404
                                     : 400,
                      detail);
}

static void answer(struct ask *ask, struct tr_connection *connection)
{
    struct tr_span in = {ask->in, ask->in_size};
    struct tr_span rest = in;
    struct tr_answer *to = &ask->server->answer;
    struct tr_writer out = tr_writer_on(NULL, 0);
    struct reply first = next_reply(&rest);
    tr_answer_reserve(&out, 1024);
    if (first.type == '-') {
        refuse(ask, connection, first.text);
    } else if (first.is_null ||
               (ask->kind == TR_API_KEY_DELETE && first.type == ':' && first.number == 0)) {
        tr_render_problem(connection, ask->number, 404, "there is no such key");
    } else {
        if (ask->kind == TR_API_KEYS)
            put_list(&out, in);
        else if (ask->kind == TR_API_KEY)
            put_key(&out, ask, in);
        else if (ask->kind == TR_API_KEYSPACE)
            put_ring(&out, in);
        else
            tr_put_text(&out, "{\"deleted\":1}\n");
        tr_answer_json(to, (struct tr_span){(const char *)out.bytes, out.size}, TR_SPAN(""));
        tr_render(connection, ask->number);
    }
    free(out.bytes);
}

/* ---- asking ---- */

static void end(struct ask *ask, bool is_answered)
{
    struct tr_connection *connection = tr_connection_of(ask->server, ask->token);
    if (connection != NULL && !connection->stream.is_closed) {
        if (is_answered)
            answer(ask, connection);
        else
            tr_render_problem(connection, ask->number, 503,
                              "this node is stopping, or has no room");
    }
    tr_stream_close(&ask->stream);
}

static void on_bytes(struct tr_stream *stream, char *bytes, size_t size)
{
    struct ask *ask = (struct ask *)stream;
    if (ask->in_size + size > ask->in_cap) {
        size_t cap = 2 * (ask->in_size + size);
        char *larger = cap > REPLY_MAX ? NULL : realloc(ask->in, cap);
        if (larger == NULL) {
            end(ask, false);
            return;
        }
        ask->in = larger;
        ask->in_cap = cap;
    }
    memcpy(ask->in + ask->in_size, bytes, size);
    ask->in_size += size;
    struct tr_span in = {ask->in, ask->in_size};
    for (unsigned i = 0; i < ask->replies; i++) {
        if (!skip_reply(&in))
            return;
    }
    end(ask, true);
}

static void on_end(struct tr_stream *stream, bool is_broken)
{
    (void)is_broken;
    end((struct ask *)stream, false);
}

static void on_gone(struct tr_stream *stream)
{
    struct ask *ask = (struct ask *)stream;
    free(ask->in);
    free(ask);
}

static const struct tr_stream_calls calls = {
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_gone = on_gone,
};

static void put_command(struct tr_writer *out, const struct tr_span *words, unsigned count)
{
    tr_put_text(out, "*");
    tr_put_decimal(out, count);
    for (unsigned i = 0; i < count; i++) {
        tr_put_text(out, "\r\n$");
        tr_put_decimal(out, words[i].size);
        tr_put_text(out, "\r\n");
        tr_put_bytes(out, words[i].text, words[i].size);
    }
    tr_put_text(out, "\r\n");
}

static void put_scan(struct tr_writer *out, const struct tr_api_request *route)
{
    char cursor[32];
    char count[16];
    int size = snprintf(cursor, sizeof cursor, "%llu", (unsigned long long)route->query.cursor);
    int count_size = snprintf(count, sizeof count, "%u", route->query.limit);
    struct tr_span words[] = {TR_SPAN("SCAN"),  {cursor, (size_t)size},
                              TR_SPAN("COUNT"), {count, (size_t)count_size},
                              TR_SPAN("MATCH"), route->pattern};
    struct tr_span size_words[] = {TR_SPAN("DBSIZE")};
    put_command(out, words, route->pattern.text != NULL ? 6 : 4);
    put_command(out, size_words, 1);
}

static void put_commands(struct tr_writer *out, struct ask *ask, const struct tr_api_request *route)
{
    struct tr_span read[] = {TR_SPAN("KEYSPACE"), TR_SPAN("READ"), route->name};
    struct tr_span where[] = {TR_SPAN("KEYSPACE"), TR_SPAN("WHERE"), route->name};
    struct tr_span ring[] = {TR_SPAN("KEYSPACE"), TR_SPAN("RING")};
    struct tr_span del[] = {TR_SPAN("DEL"), route->name};
    ask->replies = ask->kind == TR_API_KEYS || ask->kind == TR_API_KEY ? 2 : 1;
    if (ask->kind == TR_API_KEYS) {
        put_scan(out, route);
    } else if (ask->kind == TR_API_KEY) {
        put_command(out, read, 3);
        put_command(out, where, 3);
    } else if (ask->kind == TR_API_KEYSPACE) {
        put_command(out, ring, 2);
    } else {
        put_command(out, del, 2);
    }
}

void tr_keys_begin(struct tr_connection *connection, uint16_t number)
{
    struct tr_server *server = connection->server;
    const struct tr_api_request *route = &server->route;
    char command[COMMAND_SIZE];
    struct tr_writer out = tr_writer_on(command, sizeof command);
    int files[2] = {-1, -1};
    struct ask *ask = calloc(1, sizeof *ask);
    if (ask == NULL ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, files) != 0) {
        free(ask);
        tr_render_problem(connection, number, 503, "too many requests at once");
        return;
    }
    ask->server = server;
    ask->token = tr_connection_token(connection, number);
    ask->number = number;
    ask->kind = route->kind;
    ask->key_size = route->name.size;
    if (route->name.size > 0)
        memcpy(ask->key, route->name.text, route->name.size);
    put_commands(&out, ask, route);
    bool is_open = tr_stream_open(&ask->stream, &server->daemon->streams, files[0], &calls);
    if (!is_open || !server->take(server, files[1], connection)) {
        if (is_open)
            tr_stream_close(&ask->stream);
        else
            free(ask);
        if (!is_open)
            close(files[1]);
        tr_render_problem(connection, number, 503, "too many connections");
        return;
    }
    if (!tr_stream_put(&ask->stream, command, out.size))
        end(ask, false);
}
