/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/page.h"

#include "shell/front/connection.h"
#include "wire/text.h"

#include <string.h>

#ifndef TRYST_VERSION
#define TRYST_VERSION "unknown"
#endif

#define POLICY                                                                                     \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "           \
    "connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "          \
    "form-action 'none'\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"    \
    "Cross-Origin-Opener-Policy: same-origin\r\n"

static const char *const headers[2][2] = {
    {POLICY "Cache-Control: no-cache\r\nVary: Accept-Encoding\r\n",
     POLICY "Cache-Control: no-cache\r\nVary: Accept-Encoding\r\nContent-Encoding: gzip\r\n"},
    {POLICY "Cache-Control: public, max-age=31536000, immutable\r\nVary: Accept-Encoding\r\n",
     POLICY "Cache-Control: public, max-age=31536000, immutable\r\nVary: Accept-Encoding\r\n"
            "Content-Encoding: gzip\r\n"},
};

static const struct tr_page_file *find(struct tr_span name)
{
    const struct tr_page_file *file = tr_page_files;
    if (name.size == 0)
        name = TR_SPAN("index.html");
    while (file->name != NULL &&
           !tr_span_equals(name, (struct tr_span){file->name, strlen(file->name)}))
        file++;
    return file->name != NULL ? file : NULL;
}

/* A word of a header that lists some, with commas between them. */
static bool has_word(struct tr_span list, struct tr_span word)
{
    while (list.size >= word.size && list.text != NULL) {
        if (tr_span_starts(list, word))
            return true;
        list = tr_span_from(list, 1);
    }
    return false;
}

/* What the page is to know before it asks for anything else. */
static void put_settings(struct tr_answer *answer, const struct tr_daemon *daemon)
{
    uint8_t body[512];
    struct tr_writer out = tr_writer_on(body, sizeof body);
    if (!daemon->auth.is_on) { /* else that is for those who are known */
        tr_put_text(&out, "{\"version\":\"" TRYST_VERSION "\",\"node\":");
        tr_put_json_string(&out, tr_node_address(daemon->node));
        tr_put_text(&out, ",");
    } else {
        tr_put_text(&out, "{");
    }
    tr_put_text(&out, "\"wants-token\":");
    tr_put_text(&out, daemon->auth.is_on ? "true" : "false");
    tr_put_text(&out, ",\"read-only\":");
    tr_put_text(&out, daemon->config.is_page_read_only ? "true}\n" : "false}\n");
    tr_answer_json(answer, (struct tr_span){(const char *)body, out.size}, TR_SPAN(""));
    answer->headers = "Cache-Control: no-store\r\n";
}

static void refuse(struct tr_answer *answer, unsigned status, const char *why)
{
    struct tr_problem problem;
    tr_problem_set(&problem, status, why, NULL);
    tr_answer_problem(answer, &problem, NULL);
}

void tr_page_answer(struct tr_connection *connection, const char *bytes)
{
    struct tr_server *server = connection->server;
    struct tr_answer *answer = &server->answer;
    struct tr_span name = server->route.name;
    const struct tr_http *http = &connection->http;
    if (!server->daemon->config.has_page) {
        refuse(answer, 404, "the page is switched off: [ui] enabled = yes");
        return;
    }
    bool is_root =
        name.text == NULL && !tr_span_starts(tr_http_span(bytes, http->target), TR_SPAN("/ui"));
    if (is_root && !has_word(tr_http_header(http, bytes, TR_HTTP_ACCEPT), TR_SPAN("text/html"))) {
        refuse(answer, 404, "there is nothing at this path"); /* no browser asks */
        return;
    }
    if (name.text == NULL) { /* files lie below /ui/ */
        tr_answer_status(answer, 302);
        answer->headers = "Location: /ui/\r\n";
        return;
    }
    if (tr_span_equals(name, TR_SPAN("settings.json"))) {
        put_settings(answer, server->daemon);
        return;
    }
    const struct tr_page_file *file = find(name);
    if (file == NULL) {
        refuse(answer, 404, "the page has no such file; /ui/ is where it begins");
        return;
    }
    struct tr_span accepted = tr_http_header(http, bytes, TR_HTTP_ACCEPT_ENCODING);
    struct tr_span seen = tr_http_header(http, bytes, TR_HTTP_IF_NONE_MATCH);
    bool is_packed = has_word(accepted, TR_SPAN("gzip"));
    bool is_named_by_hash = strcmp(file->name, "index.html") != 0;
    tr_answer_file(answer, file->type, is_packed ? file->packed : file->raw,
                   is_packed ? file->packed_size : file->raw_size);
    memcpy(answer->etag, file->etag, strlen(file->etag) + 1);
    if (has_word(seen, (struct tr_span){file->etag, strlen(file->etag)}))
        tr_answer_not_modified(answer);
    answer->headers = headers[is_named_by_hash][is_packed];
}

/* `scheme://host:port`, of which a server behind something else may know another scheme. */
static bool is_own(struct tr_span origin, struct tr_span host)
{
    const char *mark = memchr(origin.text, ':', origin.size);
    if (mark == NULL || host.text == NULL || (size_t)(mark - origin.text) + 3 > origin.size)
        return false;
    return tr_span_equals_nocase(tr_span_from(origin, (size_t)(mark - origin.text) + 3), host);
}

/* An address, or a name by which this node itself is known: any other name may be one that somebody
 * else has let lead here, for a page of his own. */
static bool is_safe(const struct tr_config *config, struct tr_span host)
{
    size_t size = host.size;
    bool is_address = size > 0 && host.text[0] == '[';
    while (size > 0 && host.text[size - 1] != ':')
        size--;
    struct tr_span name = {host.text, size > 0 ? size - 1 : host.size};
    struct tr_span own = {config->localhost, strcspn(config->localhost, ":")};
    bool is_numbers = name.size > 0;
    for (size_t i = 0; i < name.size; i++)
        is_numbers &= name.text[i] == '.' || (name.text[i] >= '0' && name.text[i] <= '9');
    return is_address || is_numbers || tr_span_equals_nocase(name, TR_SPAN("localhost")) ||
           tr_span_equals_nocase(name, own);
}

const char *tr_page_refusal(const struct tr_connection *connection, const char *bytes)
{
    const struct tr_http *http = &connection->http;
    const struct tr_config *config = &connection->server->daemon->config;
    struct tr_span origin = tr_http_header(http, bytes, TR_HTTP_ORIGIN);
    enum tr_http_method method = tr_http_method(http);
    if (origin.text == NULL)
        return NULL;
    if (!is_own(origin, tr_http_header(http, bytes, TR_HTTP_HOST)))
        return "a page of another origin may not ask this node";
    bool is_change = method != TR_HTTP_GET && method != TR_HTTP_HEAD;
    if (is_change && !connection->server->daemon->auth.is_on &&
        !is_safe(config, tr_http_header(http, bytes, TR_HTTP_HOST)))
        return "without tokens, a page may change something only by the node's address, not by a "
               "name that is not [cluster] localhost";
    if (config->is_page_read_only && is_change)
        return "the page may only read: [ui] read-only = yes";
    return NULL;
}
