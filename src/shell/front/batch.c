/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/batch.h"

#include "base/assert.h"
#include "shell/front/allow.h"
#include "shell/front/body.h"
#include "shell/front/words.h"
#include "wire/text.h"

#include <stdlib.h>
#include <string.h>

#define UNDER_WAY_MAX 1024 /* lines */
#define WAIT_MS       5000 /* for room: then a line is refused as a request is */
#define AGAIN_MS      20   /* until lines that found no room are tried again */
#define UNSENT_MAX    ((size_t)1 << 20)
#define ALL_SIZE      ((size_t)256 << 20) /* of the bodies of all batches */
#define CHUNK_SIZE    32768
#define CHUNK_HEAD    6    /* four digits and the end of the line */
#define ANSWER_MAX    8192 /* of an answer: each letter of a problem may become six, twice */

enum line_state {
    LINE_NEW,
    LINE_ASKED,
    LINE_AGAIN, /* the node had no room for it */
    LINE_SET,
    LINE_REFUSED,
};

struct line {
    uint32_t at;
    uint32_t size;
    enum line_state state;
    struct tr_timer_text location; /* of one that is set */
    char *problem;                 /* of one that is refused: the whole line */
};

struct tr_batch {
    struct tr_connection *connection; /* while `token` leads to it */
    uint64_t token;
    struct tr_batch *next; /* of all */
    uint16_t number;       /* of the request */
    bool is_chunked;       /* a client of HTTP/1.0 knows the end when the connection closes */
    bool has_head;         /* the answer has begun */
    uint32_t count;
    uint32_t asked;     /* lines before this one were */
    uint32_t again;     /* lines that are to be tried again */
    uint32_t answered;  /* lines before this one are answered */
    uint32_t under_way; /* lines that the node has */
    size_t size;        /* of the body */
    uint64_t moved_ms;  /* when a timer was last set */
    uint64_t again_ms;
    char *body;
    char *scratch; /* a line as it is read, which changes it */
    struct line lines[];
};

bool tr_batch_waits_for_client(const struct tr_connection *connection)
{
    return connection->batch != NULL && connection->stream.out_size >= UNSENT_MAX;
}

static void release(struct tr_batch *batch, struct tr_server *server)
{
    server->batches_size -= batch->size;
    for (uint32_t i = 0; i < batch->count; i++)
        free(batch->lines[i].problem);
    free(batch->body);
    free(batch->scratch);
    free(batch);
}

/* ---- lines ---- */

/* The next line that is not empty; false: there is none. */
static bool next_line(struct tr_span body, size_t *at, struct tr_span *line)
{
    static const char blanks[] = {' ', '\t', '\r'};
    while (*at < body.size) {
        const char *start = body.text + *at;
        const char *end = memchr(start, '\n', body.size - *at);
        *line = (struct tr_span){start, end != NULL ? (size_t)(end - start) : body.size - *at};
        *at += line->size + 1;
        while (line->size > 0 && memchr(blanks, line->text[line->size - 1], sizeof blanks) != NULL)
            line->size--;
        if (line->size > 0)
            return true;
    }
    return false;
}

static uint32_t count_lines(struct tr_span body, size_t *longest)
{
    struct tr_span line;
    size_t at = 0;
    uint32_t count = 0;
    *longest = 0;
    for (; count <= TR_BATCH_LINES && next_line(body, &at, &line); count++)
        *longest = line.size > *longest ? line.size : *longest;
    return count;
}

static void find_lines(struct tr_batch *batch, struct tr_span body)
{
    struct tr_span line;
    size_t at = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        bool is_there = next_line(body, &at, &line);
        TR_ASSERT(is_there);
        batch->lines[i] =
            (struct line){.at = (uint32_t)(line.text - body.text), .size = (uint32_t)line.size};
    }
}

static void refuse_line(struct tr_batch *batch, struct line *line, const struct tr_problem *problem,
                        const struct tr_timer_text *location)
{
    uint8_t bytes[ANSWER_MAX];
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    tr_put_problem(&out, problem);
    out.size -= 2; /* } and the end of the line */
    if (location != NULL) {
        tr_put_text(&out, ",\"location\":\"/timers/");
        tr_put_timer_text(&out, location);
        tr_put_text(&out, "\"");
    }
    tr_put_text(&out, "}\n");
    TR_ASSERT(!out.is_full);
    line->state = LINE_REFUSED;
    line->problem = malloc(out.size + 1);
    if (line->problem == NULL) {
        tr_connection_close(batch->connection);
        return;
    }
    memcpy(line->problem, bytes, out.size);
    line->problem[out.size] = '\0';
}

/* ---- asking ---- */

static void ask(struct tr_batch *batch, uint32_t index)
{
    struct tr_server *server = batch->connection->server;
    struct line *line = &batch->lines[index];
    struct tr_problem problem;
    bool is_long = line->size > server->daemon->config.body_max;
    if (is_long)
        tr_problem_set(&problem, 413, "the line is over the limit; [limits] body sets it", NULL);
    else
        memcpy(batch->scratch, batch->body + line->at, line->size);
    if (is_long || !tr_body_read(server, batch->scratch, line->size, true, &problem) ||
        !tr_allow_timer(batch->connection, &server->body, true, &problem) ||
        !tr_allow_line(batch->connection, &problem)) {
        server->daemon->metrics.requests_bad++;
        refuse_line(batch, line, &problem, NULL);
        return;
    }
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED, .has_more = true};
    event.of.request.token =
        tr_connection_token(batch->connection, (uint16_t)(batch->number + 1 + index));
    event.of.request.command = TR_COMMAND_CREATE;
    event.of.request.body = &server->body;
    event.of.request.key = server->body.key;
    line->state = LINE_ASKED;
    batch->under_way++;
    tr_daemon_step(server->daemon, &event);
}

/* It may be tried again: nothing has happened, and there will be room. */
static bool is_passing(const struct tr_batch *batch, enum tr_result result)
{
    uint64_t now_ms = uv_now(&batch->connection->server->daemon->loop);
    return (result == TR_TOO_MANY_WRITES || result == TR_TOO_MANY_REQUESTS ||
            result == TR_DISK_SLOW) &&
           now_ms < batch->moved_ms + WAIT_MS;
}

bool tr_batch_hear(struct tr_connection *connection, uint16_t number,
                   const struct tr_effect *effect)
{
    struct tr_batch *batch = connection->batch;
    uint16_t index = batch != NULL ? (uint16_t)(number - batch->number - 1) : 0;
    if (batch == NULL || index >= batch->count)
        return false;
    struct line *line = &batch->lines[index];
    TR_ASSERT(effect->kind == TR_EFFECT_ANSWER && line->state == LINE_ASKED);
    enum tr_result result = effect->of.answer.result;
    struct tr_words words = tr_words_of(result);
    struct tr_problem problem;
    batch->under_way--;
    if (is_passing(batch, result)) {
        line->state = LINE_AGAIN;
        batch->again++;
        batch->again_ms = uv_now(&connection->server->daemon->loop) + AGAIN_MS;
        return true;
    }
    line->location = effect->of.answer.location;
    if (words.detail == NULL) {
        batch->moved_ms = uv_now(&connection->server->daemon->loop);
        line->state = LINE_SET;
        return true;
    }
    tr_words_problem(&problem, connection->server->daemon->node, result);
    refuse_line(batch, line, &problem, effect->of.answer.has_location ? &line->location : NULL);
    return true;
}

static bool may_ask(const struct tr_batch *batch)
{
    return batch->under_way < UNDER_WAY_MAX && !batch->connection->stream.is_closed;
}

/* Those that found no room come first; when they find none again, no others are asked. */
static void ask_lines(struct tr_batch *batch)
{
    uint64_t now_ms = uv_now(&batch->connection->server->daemon->loop);
    if (batch->again > 0 && now_ms < batch->again_ms)
        return;
    uint32_t waiting = batch->again;
    batch->again = 0;
    for (uint32_t i = batch->answered; waiting > 0 && i < batch->asked && may_ask(batch); i++) {
        if (batch->lines[i].state != LINE_AGAIN)
            continue;
        waiting--;
        ask(batch, i);
        if (batch->again > 0)
            break;
    }
    batch->again += waiting;
    for (uint32_t i = 0; i < UNDER_WAY_MAX && batch->again == 0 && may_ask(batch); i++) {
        if (batch->asked == batch->count)
            return;
        ask(batch, batch->asked++);
    }
}

/* ---- answering ---- */

static void put_head(struct tr_batch *batch)
{
    uint8_t bytes[256];
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    const struct tr_connection *connection = batch->connection;
    bool closes = (connection->kinds[batch->number % TR_UNDER_WAY_MAX] & TR_KIND_CLOSE) != 0;
    batch->has_head = true;
    tr_put_text(&out, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n");
    tr_put_text(&out, batch->is_chunked ? "Transfer-Encoding: chunked\r\n" : "");
    tr_put_text(&out, closes ? "Connection: close\r\n\r\n" : "\r\n");
    tr_connection_put(batch->connection, (const char *)bytes, out.size);
}

static void put_line(struct tr_writer *out, const struct line *line)
{
    if (line->state == LINE_REFUSED) {
        tr_put_text(out, line->problem);
        return;
    }
    tr_put_text(out, "{\"location\":\"/timers/");
    tr_put_timer_text(out, &line->location);
    tr_put_text(out, "\"}\n");
}

/* A chunk of lines whose turn it is, as many as it holds. False: there are none. */
static bool put_chunk(struct tr_batch *batch)
{
    uint8_t bytes[CHUNK_HEAD + CHUNK_SIZE + ANSWER_MAX + 2];
    struct tr_writer out = tr_writer_on(bytes + CHUNK_HEAD, CHUNK_SIZE + ANSWER_MAX + 2);
    while (batch->answered < batch->count && out.size < CHUNK_SIZE &&
           batch->lines[batch->answered].state >= LINE_SET)
        put_line(&out, &batch->lines[batch->answered++]);
    if (out.size == 0)
        return false;
    if (!batch->is_chunked) {
        tr_connection_put(batch->connection, (const char *)bytes + CHUNK_HEAD, out.size);
        return true;
    }
    struct tr_writer head = tr_writer_on(bytes, CHUNK_HEAD);
    tr_put_hex(&head, out.size, 4);
    tr_put_text(&head, "\r\n");
    tr_put_text(&out, "\r\n");
    TR_ASSERT(!out.is_full && head.size == CHUNK_HEAD);
    tr_connection_put(batch->connection, (const char *)bytes, CHUNK_HEAD + out.size);
    return true;
}

/* Its turn comes when all that was asked before it is answered. */
static void put_answers(struct tr_batch *batch)
{
    struct tr_connection *connection = batch->connection;
    if (connection->stream.is_closed || connection->answered != batch->number)
        return;
    if (!batch->has_head)
        put_head(batch);
    while (!connection->stream.is_closed && connection->stream.out_size < UNSENT_MAX &&
           put_chunk(batch)) {
    }
}

/* True: it is over, or its client is gone. */
static bool run(struct tr_batch *batch, struct tr_server *server)
{
    struct tr_connection *connection = batch->connection;
    if (tr_connection_of(server, batch->token) == NULL || connection->stream.is_closed)
        return true;
    ask_lines(batch);
    put_answers(batch);
    if (connection->stream.is_closed || batch->answered < batch->count)
        return false;
    connection->batch = NULL;
    tr_connection_answer(connection, batch->number, "0\r\n\r\n", batch->is_chunked ? 5 : 0);
    return true;
}

static void on_again(uv_timer_t *timer)
{
    (void)timer; /* the turn that follows goes on with them */
}

void tr_batches_run(struct tr_server *server)
{
    struct tr_batch **link = &server->batches;
    bool is_waiting = false;
    bool has_more = false;
    while (*link != NULL) {
        struct tr_batch *batch = *link;
        bool is_over = run(batch, server);
        is_waiting |= !is_over && batch->again > 0;
        has_more |= !is_over && batch->under_way == 0 && batch->asked < batch->count;
        if (is_over) {
            *link = batch->next;
            release(batch, server);
        } else {
            link = &batch->next;
        }
    }
    if ((is_waiting || has_more) && !uv_is_active((uv_handle_t *)&server->batches_again))
        uv_timer_start(&server->batches_again, on_again, has_more ? 1 : AGAIN_MS, 0);
}

/* ---- beginning ---- */

static struct tr_batch *make(struct tr_connection *connection, struct tr_span body, uint32_t count,
                             size_t longest)
{
    TR_ASSERT(body.size >= longest && longest > 0);
    struct tr_batch *batch = calloc(1, sizeof *batch + count * sizeof batch->lines[0]);
    if (batch == NULL)
        return NULL;
    batch->connection = connection;
    batch->token = tr_connection_token(connection, 0);
    batch->count = count;
    batch->size = body.size;
    connection->server->batches_size += body.size;
    batch->body = malloc(body.size);
    batch->scratch = malloc(longest);
    if (batch->body == NULL || batch->scratch == NULL) {
        release(batch, connection->server);
        return NULL;
    }
    memcpy(batch->body, body.text, body.size);
    find_lines(batch, (struct tr_span){batch->body, body.size});
    return batch;
}

bool tr_batch_begin(struct tr_connection *connection, uint16_t number, struct tr_span body,
                    struct tr_problem *problem)
{
    struct tr_server *server = connection->server;
    size_t longest = 0;
    uint32_t count = count_lines(body, &longest);
    if (count == 0 || count > TR_BATCH_LINES) {
        tr_problem_set(problem, count == 0 ? 400 : 413,
                       count == 0 ? "the body has no lines: there is one for each timer"
                                  : "the body has more than 10000 lines",
                       NULL);
        return false;
    }
    bool has_room = server->batches_size + body.size <= ALL_SIZE;
    struct tr_batch *batch = has_room ? make(connection, body, count, longest) : NULL;
    if (batch == NULL) {
        tr_problem_set(problem, 503, "too many lines at once, of all clients", NULL);
        return false;
    }
    batch->number = number;
    batch->is_chunked = connection->http.parser.http_minor > 0;
    batch->moved_ms = uv_now(&server->daemon->loop);
    if (!batch->is_chunked)
        connection->kinds[number % TR_UNDER_WAY_MAX] |= TR_KIND_CLOSE;
    batch->next = server->batches;
    server->batches = batch;
    connection->batch = batch;
    tr_batches_run(server);
    return true;
}
