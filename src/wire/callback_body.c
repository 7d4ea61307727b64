/* SPDX-License-Identifier: Apache-2.0 */
/* `callback` of a timer's body: what a pop calls, and how. */
#include "base/assert.h"
#include "wire/body_reader.h"

/* Those that a pop has anyway, those that frame a message, and those of a connection. */
static bool is_ours(struct tr_span name)
{
    static const char *const ours[] = {
        "Host",        "Content-Length",    "Transfer-Encoding",
        "Connection",  "Keep-Alive",        "Proxy-Connection",
        "TE",          "Trailer",           "Upgrade",
        "Expect",      "Content-Type",      "X-Sequence-Number",
        "X-Timer-ID",  "X-Timer-Version",   "X-Timer-Name",
        "webhook-id",  "webhook-timestamp", "webhook-signature",
        "traceparent", "tracestate",
    };
    for (unsigned i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (tr_span_equals_nocase(name, (struct tr_span){ours[i], strlen(ours[i])}))
            return true;
    }
    return name.size >= 3 && tr_span_equals_nocase((struct tr_span){name.text, 3}, TR_SPAN("ce-"));
}

/* A token of HTTP. */
static bool is_header_name(struct tr_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.text[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_letter && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
            return false;
    }
    return text.size > 0;
}

/* What may stand in a header of HTTP: nothing that could end it. */
static bool is_header_value(struct tr_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.text[i];
        if ((c < 0x20 && c != '\t') || c >= 0x7f)
            return false;
    }
    return text.size > 0 && text.text[0] != ' ';
}

static bool read_uri(struct tr_body_reader *reader)
{
    return tr_body_string(reader, "callback.http.uri", &reader->out->uri);
}

static bool read_opaque(struct tr_body_reader *reader)
{
    if (reader->out->plan.is_json)
        return tr_body_refuse(reader, "callback.http.opaque", " and json cannot both be given");
    return tr_body_string(reader, "callback.http.opaque", &reader->out->opaque);
}

static bool read_type(struct tr_body_reader *reader)
{
    struct tr_span *type = &reader->out->content_type;
    return tr_body_string(reader, "callback.http.content-type", type) &&
           ((is_header_value(*type) && type->size <= TR_TYPE_MAX) ||
            tr_body_refuse(reader, "callback.http.content-type",
                           " must be printable ASCII of 1 to 255 bytes"));
}

/* Any value, which is sent as it is written. */
static bool read_json(struct tr_body_reader *reader)
{
    struct tr_timer_body *out = reader->out;
    if (out->opaque.text != NULL)
        return tr_body_refuse(reader, "callback.http.json", " and opaque cannot both be given");
    out->plan.is_json = true;
    return tr_json_raw(&reader->json, &out->opaque) || tr_body_refuse_json(reader);
}

static bool read_method(struct tr_body_reader *reader)
{
    struct tr_span text = {NULL, 0};
    if (!tr_body_string(reader, "callback.http.method", &text))
        return false;
    for (unsigned i = 0; i < TR_METHODS; i++) {
        const char *name = tr_method_name((enum tr_method)i);
        reader->out->plan.method = (enum tr_method)i;
        if (tr_span_equals(text, (struct tr_span){name, strlen(name)}))
            return true;
    }
    return tr_body_refuse(reader, "callback.http.method",
                          " must be POST, PUT, PATCH, GET or DELETE");
}

static bool put_header(struct tr_body_reader *reader, struct tr_writer *lines, struct tr_span name)
{
    static const char path[] = "callback.http.headers";
    struct tr_span value = {NULL, 0};
    if (!is_header_name(name))
        return tr_body_refuse(reader, path, " has a name that no header can have");
    if (is_ours(name))
        return tr_body_refuse(reader, path, " has one that a pop has by itself, or may not have");
    if (!tr_body_string(reader, path, &value))
        return false;
    if (!is_header_value(value))
        return tr_body_refuse(reader, path, " must have values of printable ASCII");
    tr_put_bytes(lines, name.text, name.size);
    tr_put_text(lines, ": ");
    tr_put_bytes(lines, value.text, value.size);
    tr_put_text(lines, "\r\n");
    return true;
}

static bool read_headers(struct tr_body_reader *reader)
{
    static const char path[] = "callback.http.headers";
    struct tr_timer_body *out = reader->out;
    struct tr_writer lines = tr_writer_on(out->headers, sizeof out->headers);
    struct tr_members members;
    tr_members_init(&members, path);
    bool is_done = false;
    if (!tr_body_object(reader, path))
        return false;
    while (tr_body_next(reader, &members, &is_done)) {
        if (!put_header(reader, &lines, reader->json.text))
            return false;
    }
    if (!is_done)
        return false;
    if (lines.is_full || members.count > TR_HEADERS_MAX)
        return tr_body_refuse(reader, path, " may be 16, of 4 KiB in all");
    out->plan.headers = (struct tr_span){out->headers, lines.size};
    return true;
}

/* Seconds, as milliseconds from 1 on. */
static bool read_seconds(struct tr_body_reader *reader, const char *path, uint64_t most_ms,
                         const char *what, uint64_t *ms)
{
    bool is_exact = false;
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    bool is_good = token == TR_JSON_NUMBER && tr_json_thousandths(reader->json.text, ms, &is_exact);
    return (is_good && *ms > 0 && *ms <= most_ms) || tr_body_refuse(reader, path, what);
}

static bool read_timeout(struct tr_body_reader *reader)
{
    return read_seconds(reader, "callback.http.timeout", TR_CALL_TIMEOUT_MOST,
                        " must be seconds, above 0 and up to 60", &reader->out->plan.timeout_ms);
}

static bool read_attempts(struct tr_body_reader *reader)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    uint64_t *attempts = &reader->out->plan.attempts;
    bool is_good = token == TR_JSON_NUMBER &&
                   tr_json_whole(reader->json.text, TR_ATTEMPT_MAX, attempts) && *attempts > 0;
    if (!is_good)
        return tr_body_refuse(reader, "callback.http.retry.attempts",
                              " must be a whole number from 1 on");
    return *attempts <= reader->limits->attempts_max ||
           tr_body_refuse(reader, "callback.http.retry.attempts",
                          " is more than [callback] attempts allows");
}

static bool read_retry(struct tr_body_reader *reader)
{
    static const char *const known[] = {"attempts", "backoff", "backoff-max", "give-up-after",
                                        NULL};
    static const char day[] = " must be seconds, above 0 and up to a day";
    struct tr_plan *plan = &reader->out->plan;
    struct tr_members members;
    tr_members_init(&members, "callback.http.retry");
    bool is_done = false;
    if (!tr_body_object(reader, "callback.http.retry"))
        return false;
    while (tr_body_next(reader, &members, &is_done)) {
        struct tr_span name = reader->json.text;
        bool is_read;
        if (tr_span_equals(name, TR_SPAN("attempts")))
            is_read = read_attempts(reader);
        else if (tr_span_equals(name, TR_SPAN("backoff")))
            is_read = read_seconds(reader, "callback.http.retry.backoff", TR_BACKOFF_MOST, day,
                                   &plan->backoff_ms);
        else if (tr_span_equals(name, TR_SPAN("backoff-max")))
            is_read = read_seconds(reader, "callback.http.retry.backoff-max", TR_BACKOFF_MOST, day,
                                   &plan->backoff_max_ms);
        else if (tr_span_equals(name, TR_SPAN("give-up-after")))
            is_read =
                read_seconds(reader, "callback.http.retry.give-up-after", TR_GIVE_UP_MOST,
                             " must be seconds, above 0 and up to 30 days", &plan->give_up_ms);
        else
            is_read = tr_body_refuse_unknown(reader, "callback.http.retry",
                                             (struct tr_body_names){known, NULL});
        if (!is_read)
            return false;
    }
    return is_done;
}

static bool read_ce_type(struct tr_body_reader *reader)
{
    struct tr_span *type = &reader->out->plan.ce_type;
    if (!tr_body_string(reader, "callback.http.ce-type", type))
        return false;
    bool is_good = type->size > 0 && type->size <= TR_CE_TYPE_MAX;
    for (size_t i = 0; i < type->size && is_good; i++)
        is_good = type->text[i] > 0x20 && type->text[i] < 0x7f && type->text[i] != '"' &&
                  type->text[i] != '%';
    return is_good || tr_body_refuse(reader, "callback.http.ce-type",
                                     " must be 1 to 128 characters of ASCII without blanks");
}

static bool read_http(struct tr_body_reader *reader)
{
    static const char *const known[] = {"uri",     "opaque",  "content-type", "json",    "method",
                                        "headers", "timeout", "retry",        "ce-type", NULL};
    static bool (*const read[])(struct tr_body_reader *) = {
        read_uri,     read_opaque,  read_type,  read_json,   read_method,
        read_headers, read_timeout, read_retry, read_ce_type};
    struct tr_members members;
    tr_members_init(&members, "callback.http");
    bool is_done = false;
    if (!tr_body_object(reader, "callback.http"))
        return false;
    while (tr_body_next(reader, &members, &is_done)) {
        struct tr_span name = reader->json.text;
        unsigned i = 0;
        while (known[i] != NULL &&
               !tr_span_equals(name, (struct tr_span){known[i], strlen(known[i])}))
            i++;
        bool is_read = known[i] != NULL
                           ? read[i](reader)
                           : tr_body_refuse_unknown(reader, "callback.http",
                                                    (struct tr_body_names){known, NULL});
        if (!is_read)
            return false;
    }
    return is_done;
}

/* The original takes no other either. */
static bool refuse_callback(struct tr_body_reader *reader)
{
    struct tr_span name = reader->json.text;
    tr_problem_set(reader->problem, 400, "callback may only have the member http", NULL);
    tr_body_point(reader, "callback", name);
    return false;
}

bool tr_body_read_callback(struct tr_body_reader *reader)
{
    struct tr_members members;
    tr_members_init(&members, "callback");
    bool is_done = false;
    bool has_http = false;
    if (!tr_body_object(reader, "callback"))
        return false;
    while (tr_body_next(reader, &members, &is_done)) {
        if (!tr_span_equals(reader->json.text, TR_SPAN("http")))
            return refuse_callback(reader);
        has_http = true;
        if (!read_http(reader))
            return false;
    }
    return is_done && (has_http || tr_body_refuse(reader, "callback.http", " is missing"));
}

static bool refuse_uri(struct tr_body_reader *reader, const char *fault)
{
    tr_problem_set(reader->problem, 400, "callback.http.uri ", fault, NULL);
    tr_body_point(reader, "callback.http.uri", (struct tr_span){0});
    return false;
}

bool tr_body_check_callback(struct tr_body_reader *reader)
{
    struct tr_timer_body *out = reader->out;
    const char *path = out->plan.is_json ? "callback.http.json" : "callback.http.opaque";
    if (out->uri.text == NULL)
        return tr_body_refuse(reader, "callback.http.uri", " is missing");
    if (out->opaque.text == NULL)
        return tr_body_refuse(reader, "callback.http.opaque", " is missing");
    if (out->past.opaque.text != NULL && out->plan.is_json)
        return tr_body_refuse(reader, "restore.opaque", " is not for a timer with json");
    if (out->past.opaque.text != NULL)
        out->opaque = out->past.opaque;
    const char *fault = tr_uri_parse(out->uri, &out->parts);
    if (fault != NULL)
        return refuse_uri(reader, fault);
    if (out->opaque.size > reader->limits->opaque_max) {
        tr_problem_set(reader->problem, 413, path, " is over the limit; [limits] opaque sets it",
                       NULL);
        tr_body_point(reader, path, (struct tr_span){0});
        return false;
    }
    return true;
}
