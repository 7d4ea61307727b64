/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node.h"

#include "cli/credentials.h"
#include "cli/secure.h"

#include "http/http.h"
#include "wire/json.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PATIENCE_S   10
#define ANSWER_MAX   ((size_t)256 << 20)
#define DEFAULT_NODE "127.0.0.1:7253"

#define LIST_PATIENCE_S 2 /* with one of several nodes, before the next is tried */
#define ADDRESS_MAX     300

static char last_failure[4096];

const char *tr_failure_last(void)
{
    return last_failure;
}

enum tr_exit tr_failure(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_failure, sizeof last_failure, format, arguments);
    va_end(arguments);
    if (command == NULL)
        return TR_EXIT_FAILED;
    fflush(stdout); /* what it is about comes first, also in a pipe for both */
    fprintf(stderr, "tryst %s: %s\n", command, last_failure);
    return TR_EXIT_FAILED;
}

static int connect_to(const char *command, const char *address, time_t patience_s)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    size_t size = colon == NULL ? strlen(address) : (size_t)(colon - address);
    const char *start = address;
    if (size >= 2 && address[0] == '[' && address[size - 1] == ']') {
        start++;
        size -= 2;
    }
    if (size == 0 || size >= sizeof host) {
        tr_failure(command, "the node must be HOST:PORT, not '%s'", address);
        return -1;
    }
    memcpy(host, start, size);
    host[size] = '\0';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int fault = getaddrinfo(host, colon == NULL ? "7253" : colon + 1, &hints, &found);
    if (fault != 0) {
        tr_failure(command, "%s cannot be looked up: %s", address, gai_strerror(fault));
        return -1;
    }
    int file = -1;
    struct timeval patience = {.tv_sec = patience_s};
    for (struct addrinfo *at = found; at != NULL && file < 0; at = at->ai_next) {
        file = socket(at->ai_family, SOCK_STREAM, 0);
        if (file < 0)
            continue;
        setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (connect(file, at->ai_addr, at->ai_addrlen) != 0) {
            fault = errno;
            close(file);
            file = -1;
        }
    }
    freeaddrinfo(found);
    const char *why = NULL;
    if (file >= 0 && tr_credentials_ca() != NULL &&
        !tr_secure_begin(file, host, tr_credentials_ca(), &why)) {
        tr_failure(command, "no TLS with %s: %s (checked by %s)", address, why,
                   tr_credentials_ca());
        close(file);
        return -1;
    }
    if (file < 0)
        tr_failure(command, "cannot reach %s: %s; is trystd running there? (--node, TRYST_NODE)",
                   address, strerror(fault));
    return file;
}

int tr_node_connect(const char *command, const char *address)
{
    return connect_to(command, address, PATIENCE_S);
}

static bool send_all(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = tr_secure_send(file, bytes, size);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* The value of Location, which the parser does not keep. */
static void read_location(struct tr_reply *reply, size_t head)
{
    static const char name[] = "\r\nLocation: ";
    for (size_t i = 0; i + sizeof name < head; i++) {
        if (memcmp(reply->bytes + i, name, sizeof name - 1) != 0)
            continue;
        const char *value = reply->bytes + i + sizeof name - 1;
        size_t size = strcspn(value, "\r\n");
        if (size < sizeof reply->location) {
            memcpy(reply->location, value, size);
            reply->location[size] = '\0';
        }
        return;
    }
}

static bool read_reply(int file, struct tr_reply *reply)
{
    struct tr_http http;
    size_t size = 0;
    size_t cap = 0;
    enum tr_http_state state = TR_HTTP_MORE;
    tr_http_init_response(&http, ANSWER_MAX);
    while (state == TR_HTTP_MORE) {
        if (cap - size < 65536) {
            cap = cap * 2 + 65536;
            reply->bytes = tr_reallocate(reply->bytes, cap, 1);
        }
        ssize_t got = tr_secure_receive(file, reply->bytes + size, cap - size - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        state = tr_http_feed(&http, reply->bytes, size, size + (size_t)got);
        size += (size_t)got;
        reply->bytes[size] = '\0';
    }
    if (state != TR_HTTP_COMPLETE)
        return false;
    reply->status = tr_http_status(&http);
    reply->body = tr_http_span(reply->bytes, http.body);
    read_location(reply, http.body.size > 0 ? http.body.at : size);
    return true;
}

/* The token stands in a header of its own, behind the first line. */
static bool send_request(int file, const char *request, size_t size)
{
    static const char name[] = "Authorization: Bearer ";
    struct tr_span token = tr_credentials_token();
    const char *end = token.text != NULL ? memchr(request, '\n', size) : NULL;
    size_t line = end == NULL ? 0 : (size_t)(end - request) + 1;
    return (end == NULL ||
            (send_all(file, request, line) && send_all(file, name, sizeof name - 1) &&
             send_all(file, token.text, token.size) && send_all(file, "\r\n", 2))) &&
           send_all(file, request + line, size - line);
}

bool tr_node_ask(const char *command, const char *address, const char *request, size_t size,
                 struct tr_reply *reply)
{
    *reply = (struct tr_reply){0};
    int file = tr_node_connect(command, address);
    if (file < 0)
        return false;
    bool is_answered = send_request(file, request, size) && read_reply(file, reply);
    if (!is_answered)
        tr_failure(command, "%s did not answer: %s", address,
                   errno == EAGAIN ? "it takes too long" : "the connection broke");
    if (!is_answered)
        tr_reply_free(reply);
    tr_secure_close(file);
    return is_answered;
}

void tr_reply_free(struct tr_reply *reply)
{
    free(reply->bytes);
    reply->bytes = NULL;
}

/* ---- which node ---- */

static bool answers(const char *address)
{
    static const char request[] = "GET /livez HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    char byte;
    int file = connect_to(NULL, address, LIST_PATIENCE_S);
    bool is_there = file >= 0 && send_all(file, request, sizeof request - 1) &&
                    tr_secure_receive(file, &byte, 1) == 1;
    if (file >= 0)
        tr_secure_close(file);
    return is_there;
}

/* Of several, parted by commas, the first that answers; if none does, the first of them, which is
 * then said not to. */
static const char *first_that_answers(const char *list)
{
    static char first[ADDRESS_MAX]; /* it is told to callers for as long as the process lives */
    static char tried[ADDRESS_MAX];
    for (const char *at = list; *at != '\0';) {
        size_t size = strcspn(at, ",");
        char *into = at == list ? first : tried;
        snprintf(into, ADDRESS_MAX, "%.*s", (int)(size < ADDRESS_MAX ? size : ADDRESS_MAX - 1), at);
        if (size > 0 && answers(into))
            return into;
        at += size + (at[size] == ',');
    }
    return first;
}

const char *tr_node_address_or_default(const char *given)
{
    static const char *const variables[] = {"TRYST_NODES", "TRYST_NODE"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0] && given == NULL; i++) {
        const char *value = getenv(variables[i]);
        given = value != NULL && value[0] != '\0' ? value : NULL;
    }
    if (given == NULL)
        return DEFAULT_NODE;
    return strchr(given, ',') != NULL ? first_that_answers(given) : given;
}

/* ---- what it says ---- */

bool tr_reply_says(const struct tr_reply *reply, const char *words)
{
    return reply->body.size > 0 && strstr(reply->body.text, words) != NULL; /* it ends with a 0 */
}

/* What the command lacks, behind what the node says. */
static const char *way_out(const struct tr_reply *reply)
{
    return reply->status == 401 ? "; --token-file, TRYST_TOKEN_FILE"
           : reply->status == 400 && tr_reply_says(reply, "speaks TLS") ? "; --ca, TRYST_CA"
                                                                        : "";
}

enum tr_exit tr_reply_refused(const char *command, const struct tr_reply *reply)
{
    struct tr_json json;
    enum tr_json_token token = TR_JSON_OBJECT;
    tr_json_init(&json, (char *)(uintptr_t)reply->body.text, reply->body.size);
    while (token != TR_JSON_END && token != TR_JSON_BAD) {
        token = tr_json_next(&json);
        if (token == TR_JSON_KEY && tr_span_equals(json.text, TR_SPAN("detail")) &&
            tr_json_next(&json) == TR_JSON_STRING)
            return tr_failure(command, "%.*s (%u%s)", (int)json.text.size, json.text.text,
                              reply->status, way_out(reply));
    }
    return tr_failure(command, "the node answered %u %s", reply->status,
                      tr_status_phrase(reply->status));
}

enum tr_exit tr_reply_strange(const char *command, const char *address,
                              const struct tr_reply *reply)
{
    if (reply->status >= 400)
        return tr_reply_refused(command, reply);
    return tr_failure(command, "%s does not answer as a node of this version would", address);
}
