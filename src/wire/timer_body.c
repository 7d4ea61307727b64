/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function an object of the body. Each member's name is kept until its object ends, so that one
 * given twice is found, also among those that mean nothing here.
 */
#include "wire/timer_body.h"

#include "base/assert.h"
#include "wire/json.h"
#include "wire/suggest.h"
#include "wire/uri.h"

#define MEMBERS_MAX 64 /* of one object */
#define BODY        "the body"

struct body_reader {
    struct tr_json json;
    struct tr_timer_body *out;
    struct tr_problem *problem;
    bool ignores_unknown;
    unsigned tag; /* that is read, the first is 1; 0: none is */
    bool has_interval;
    bool is_interval_exact;
    bool has_repeat;
    bool is_repeat_exact;
    bool is_forever;
    bool has_count;
    uint64_t count; /* of pops */
    uint64_t interval_floor;
    uint64_t repeat_floor;
};

struct members {
    const char *object; /* its name, for messages: the names that lead to it, with dots between */
    unsigned count;
    struct tr_span names[MEMBERS_MAX];
};

/* The names are not cleared: only the first `count` mean anything. */
static void members_init(struct members *members, const char *object)
{
    members->object = object;
    members->count = 0;
}

/* A tag is an element of an array: its place is a part of the pointer. */
static void point(struct body_reader *reader, const char *path, struct tr_span member)
{
    static const char tags[] = "statistics.tag-info.";
    char with_place[TR_POINTER_MAX];
    if (strcmp(path, BODY) == 0)
        path = "";
    if (reader->tag > 0 && strncmp(path, tags, sizeof tags - 2) == 0) {
        struct tr_writer writer = tr_writer_on(with_place, sizeof with_place - 1);
        tr_put_text(&writer, tags);
        tr_put_decimal(&writer, reader->tag - 1);
        if (strlen(path) >= sizeof tags - 1) {
            tr_put_text(&writer, ".");
            tr_put_text(&writer, path + sizeof tags - 1);
        }
        with_place[writer.size] = '\0';
        path = with_place;
    }
    tr_problem_point(reader->problem, path, member);
}

static bool refuse(struct body_reader *reader, const char *path, const char *what)
{
    tr_problem_set(reader->problem, 400, path, what, NULL);
    point(reader, path, (struct tr_span){0});
    return false;
}

/* The beginning of a name that a client has given. */
struct shown {
    char text[33];
};

static struct shown shorten(struct tr_span name)
{
    struct shown shown = {""};
    memcpy(shown.text, name.text,
           name.size < sizeof shown.text ? name.size : sizeof shown.text - 1);
    return shown;
}

static bool refuse_twice(struct body_reader *reader, const char *object, struct tr_span name)
{
    tr_problem_set(reader->problem, 400, object, " has a member twice: ", shorten(name).text, NULL);
    point(reader, object, name);
    return false;
}

/* Names that an object has, or that mean nothing here, but are written by the original's nodes. */
struct names {
    const char *const *known; /* NULL is the last */
    const char *const *foreign;
};

static bool skip_member(struct body_reader *reader);

static bool refuse_unknown(struct body_reader *reader, const char *object, struct names names)
{
    struct tr_span name = reader->json.text;
    for (unsigned i = 0; names.foreign != NULL && names.foreign[i] != NULL; i++) {
        if (tr_span_equals(name, (struct tr_span){names.foreign[i], strlen(names.foreign[i])}))
            return skip_member(reader);
    }
    if (reader->ignores_unknown)
        return skip_member(reader);
    const char *meant = tr_suggest(name, names.known);
    tr_problem_set(reader->problem, 400, object, " has no member ", shorten(name).text,
                   meant != NULL ? ": did you mean " : NULL, meant, "?", NULL);
    point(reader, object, name);
    return false;
}

static bool refuse_json(struct body_reader *reader)
{
    TR_ASSERT(reader->json.fault != NULL);
    char offset[21];
    struct tr_writer writer = tr_writer_on(offset, sizeof offset - 1);
    tr_put_decimal(&writer, tr_json_offset(&reader->json));
    offset[writer.size] = '\0';
    tr_problem_set(reader->problem, 400, "the body is not JSON: ", reader->json.fault, " at byte ",
                   offset, NULL);
    return false;
}

/* The next member of an object. False: at its end (`*is_done`), or at a fault. */
static bool next_member(struct body_reader *reader, struct members *members, bool *is_done)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    *is_done = token == TR_JSON_OBJECT_END;
    if (*is_done)
        return false;
    if (token != TR_JSON_KEY)
        return refuse_json(reader);
    struct tr_span name = reader->json.text;
    for (unsigned i = 0; i < members->count; i++) {
        if (tr_span_equals(members->names[i], name))
            return refuse_twice(reader, members->object, name);
    }
    if (members->count == MEMBERS_MAX)
        return refuse(reader, members->object, " has more than 64 members");
    TR_ASSERT(members->count < MEMBERS_MAX);
    members->names[members->count++] = name;
    return true;
}

static bool expect_object(struct body_reader *reader, const char *path)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return refuse_json(reader);
    return token == TR_JSON_OBJECT || refuse(reader, path, " must be an object");
}

static bool expect_string(struct body_reader *reader, const char *path, struct tr_span *out)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return refuse_json(reader);
    if (token != TR_JSON_STRING)
        return refuse(reader, path, " must be a string");
    *out = reader->json.text;
    return true;
}

static bool skip_member(struct body_reader *reader)
{
    return tr_json_skip(&reader->json, tr_json_next(&reader->json)) || refuse_json(reader);
}

static bool read_duration(struct body_reader *reader, const char *path, uint64_t *floor,
                          bool *is_exact)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return refuse_json(reader);
    if (token != TR_JSON_NUMBER || !tr_json_thousandths(reader->json.text, floor, is_exact))
        return refuse(reader, path, " must be a number >= 0");
    return *floor < TR_INTERVAL_MAX || refuse(reader, path, " must be less than 1115 years");
}

/* A duration, or that it does not end. */
static bool read_repeat(struct body_reader *reader)
{
    static const char path[] = "timing.repeat-for";
    reader->has_repeat = true;
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return refuse_json(reader);
    reader->is_forever =
        token == TR_JSON_STRING && tr_span_equals(reader->json.text, TR_SPAN("forever"));
    if (reader->is_forever)
        return true;
    if (token != TR_JSON_NUMBER ||
        !tr_json_thousandths(reader->json.text, &reader->repeat_floor, &reader->is_repeat_exact))
        return refuse(reader, path, " must be a number >= 0, or \"forever\"");
    return reader->repeat_floor < TR_INTERVAL_MAX ||
           refuse(reader, path, " must be less than 1115 years, or \"forever\"");
}

static bool read_count(struct body_reader *reader)
{
    reader->has_count = true;
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return refuse_json(reader);
    return (token == TR_JSON_NUMBER &&
            tr_json_whole(reader->json.text, UINT32_MAX, &reader->count) && reader->count > 0) ||
           refuse(reader, "timing.count", " must be a whole number from 1 to 4294967295");
}

static bool read_timing(struct body_reader *reader)
{
    static const char *const known[] = {"interval", "repeat-for", "count", NULL};
    static const char *const foreign[] = {"start-time", "start-time-delta", "sequence-number",
                                          NULL};
    struct members members;
    members_init(&members, "timing");
    bool is_done = false;
    if (!expect_object(reader, "timing"))
        return false;
    while (next_member(reader, &members, &is_done)) {
        bool is_read;
        if (tr_span_equals(reader->json.text, TR_SPAN("interval"))) {
            is_read = read_duration(reader, "timing.interval", &reader->interval_floor,
                                    &reader->is_interval_exact);
            reader->has_interval = true;
        } else if (tr_span_equals(reader->json.text, TR_SPAN("repeat-for"))) {
            is_read = read_repeat(reader);
        } else if (tr_span_equals(reader->json.text, TR_SPAN("count"))) {
            is_read = read_count(reader);
        } else {
            is_read = refuse_unknown(reader, "timing", (struct names){known, foreign});
        }
        if (!is_read)
            return false;
    }
    return is_done;
}

/* What may stand in a header of HTTP: nothing that could end it. */
static bool is_header_value(struct tr_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.text[i];
        if ((c < 0x20 && c != '\t') || c >= 0x7f)
            return false;
    }
    return text.size > 0 && text.size <= TR_TYPE_MAX && text.text[0] != ' ';
}

static bool read_http(struct body_reader *reader)
{
    static const char *const known[] = {"uri", "opaque", "content-type", NULL};
    struct tr_timer_body *out = reader->out;
    struct members members;
    members_init(&members, "callback.http");
    bool is_done = false;
    if (!expect_object(reader, "callback.http"))
        return false;
    while (next_member(reader, &members, &is_done)) {
        bool is_read;
        if (tr_span_equals(reader->json.text, TR_SPAN("uri")))
            is_read = expect_string(reader, "callback.http.uri", &out->uri);
        else if (tr_span_equals(reader->json.text, TR_SPAN("opaque")))
            is_read = expect_string(reader, "callback.http.opaque", &out->opaque);
        else if (tr_span_equals(reader->json.text, TR_SPAN("content-type")))
            is_read = expect_string(reader, "callback.http.content-type", &out->content_type) &&
                      (is_header_value(out->content_type) ||
                       refuse(reader, "callback.http.content-type",
                              " must be printable ASCII of 1 to 255 bytes"));
        else
            is_read = refuse_unknown(reader, "callback.http", (struct names){known, NULL});
        if (!is_read)
            return false;
    }
    return is_done;
}

/* The original takes no other either. */
static bool refuse_callback(struct body_reader *reader)
{
    struct tr_span name = reader->json.text;
    tr_problem_set(reader->problem, 400, "callback may only have the member http", NULL);
    point(reader, "callback", name);
    return false;
}

static bool read_callback(struct body_reader *reader)
{
    struct members members;
    members_init(&members, "callback");
    bool is_done = false;
    bool has_http = false;
    if (!expect_object(reader, "callback"))
        return false;
    while (next_member(reader, &members, &is_done)) {
        if (!tr_span_equals(reader->json.text, TR_SPAN("http")))
            return refuse_callback(reader);
        has_http = true;
        if (!read_http(reader))
            return false;
    }
    return is_done && (has_http || refuse(reader, "callback.http", " is missing"));
}

static bool read_reliability(struct body_reader *reader)
{
    static const char *const known[] = {"replication-factor", NULL};
    static const char *const foreign[] = {"cluster-view-id", "sites", NULL};
    struct members members;
    members_init(&members, "reliability");
    bool is_done = false;
    if (!expect_object(reader, "reliability"))
        return false;
    while (next_member(reader, &members, &is_done)) {
        if (tr_span_equals(reader->json.text, TR_SPAN("replicas"))) {
            tr_problem_set(reader->problem, 403,
                           "reliability.replicas is for nodes, not for clients", NULL);
            point(reader, "reliability.replicas", (struct tr_span){0});
            return false;
        }
        if (!tr_span_equals(reader->json.text, TR_SPAN("replication-factor"))) {
            if (!refuse_unknown(reader, "reliability", (struct names){known, foreign}))
                return false;
            continue;
        }
        enum tr_json_token token = tr_json_next(&reader->json);
        uint64_t factor = 0;
        if (token == TR_JSON_BAD)
            return refuse_json(reader);
        if (token != TR_JSON_NUMBER || !tr_json_whole(reader->json.text, TR_FACTOR_MAX, &factor) ||
            factor == 0)
            return refuse(reader, "reliability.replication-factor",
                          " must be a whole number from 1 to 255");
        reader->out->factor = (uint32_t)factor;
    }
    return is_done;
}

/* Equal types are summed. */
static bool add_tag(struct body_reader *reader, struct tr_span name, uint64_t count)
{
    struct tr_timer_body *out = reader->out;
    for (unsigned i = 0; i < out->tag_count; i++) {
        if (tr_span_equals(out->tags[i].name, name)) {
            out->tags[i].count += count;
            return true;
        }
    }
    if (out->tag_count == TR_TAGS_MAX)
        return refuse(reader, "statistics.tag-info", " has more than 15 types");
    TR_ASSERT(out->tag_count < TR_TAGS_MAX);
    out->tags[out->tag_count++] = (struct tr_tag){name, count};
    return true;
}

static bool read_tag(struct body_reader *reader)
{
    static const char *const known[] = {"type", "count", NULL};
    struct members members;
    members_init(&members, "statistics.tag-info");
    bool is_done = false;
    uint64_t count = 1;
    struct tr_span name = {0};
    while (next_member(reader, &members, &is_done)) {
        if (tr_span_equals(reader->json.text, TR_SPAN("type"))) {
            if (!expect_string(reader, "statistics.tag-info.type", &name))
                return false;
        } else if (tr_span_equals(reader->json.text, TR_SPAN("count"))) {
            enum tr_json_token token = tr_json_next(&reader->json);
            if (token == TR_JSON_BAD)
                return refuse_json(reader);
            if (token != TR_JSON_NUMBER || !tr_json_whole(reader->json.text, UINT32_MAX, &count))
                return refuse(reader, "statistics.tag-info.count",
                              " must be a whole number from 0 to 4294967295");
        } else if (!refuse_unknown(reader, "statistics.tag-info", (struct names){known, NULL})) {
            return false;
        }
    }
    if (!is_done)
        return false;
    if (name.text == NULL || name.size == 0 || name.size > TR_TAG_SIZE)
        return refuse(reader, "statistics.tag-info.type", " must be a string of 1 to 64 bytes");
    return add_tag(reader, name, count);
}

static bool read_tags(struct body_reader *reader)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return refuse_json(reader);
    if (token != TR_JSON_ARRAY)
        return refuse(reader, "statistics.tag-info", " must be an array");
    while ((token = tr_json_next(&reader->json)) == TR_JSON_OBJECT) {
        reader->tag++;
        if (!read_tag(reader))
            return false;
    }
    reader->tag = 0;
    if (token == TR_JSON_BAD)
        return refuse_json(reader);
    return token == TR_JSON_ARRAY_END ||
           refuse(reader, "statistics.tag-info", " must hold objects");
}

static bool read_statistics(struct body_reader *reader)
{
    static const char *const known[] = {"tag-info", NULL};
    struct members members;
    members_init(&members, "statistics");
    bool is_done = false;
    if (!expect_object(reader, "statistics"))
        return false;
    while (next_member(reader, &members, &is_done)) {
        bool is_tags = tr_span_equals(reader->json.text, TR_SPAN("tag-info"));
        if (is_tags ? !read_tags(reader)
                    : !refuse_unknown(reader, "statistics", (struct names){known, NULL}))
            return false;
    }
    return is_done;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_version(struct body_reader *reader)
{
    struct tr_span text = {NULL, 0};
    if (!expect_string(reader, "restore.version", &text))
        return false;
    uint64_t version = 0;
    bool is_good = text.size == 16;
    for (size_t i = 0; i < text.size && is_good; i++) {
        int digit = hex_digit(text.text[i]);
        is_good = digit >= 0;
        version = version << 4 | (uint64_t)(is_good ? digit : 0);
    }
    reader->out->past.version = version;
    return (is_good && version > 0 && version <= INT64_MAX) ||
           refuse(reader, "restore.version", " must be a version of 16 hexadecimal digits");
}

static bool read_past_number(struct body_reader *reader, const char *path, uint64_t most,
                             uint64_t *number)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return refuse_json(reader);
    return (token == TR_JSON_NUMBER && tr_json_whole(reader->json.text, most, number)) ||
           refuse(reader, path, " must be a whole number, as a backup has it");
}

/* Bytes that are no text, in hexadecimal digits: the value of a key that has expired. They take
 * the place of their digits. */
static bool read_past_opaque(struct body_reader *reader)
{
    struct tr_span text = {NULL, 0};
    if (!expect_string(reader, "restore.opaque", &text))
        return false;
    char *bytes = (char *)(uintptr_t)text.text;
    bool is_good = text.size % 2 == 0;
    for (size_t i = 0; i < text.size / 2 && is_good; i++) {
        int high = hex_digit(text.text[2 * i]);
        int low = hex_digit(text.text[2 * i + 1]);
        is_good = high >= 0 && low >= 0;
        bytes[i] = (char)(high * 16 + low);
    }
    reader->out->past.opaque = (struct tr_span){bytes, text.size / 2};
    return is_good || refuse(reader, "restore.opaque", " must be hexadecimal digits");
}

/* What GET /timers?scope=held shows: a timer is to go on from there. */
static bool read_past(struct body_reader *reader)
{
    struct tr_timer_past *past = &reader->out->past;
    struct members members;
    members_init(&members, "restore");
    bool is_done = false;
    uint64_t node = 0;
    uint64_t keyed = 0;
    if (!expect_object(reader, "restore"))
        return false;
    while (next_member(reader, &members, &is_done)) {
        struct tr_span name = reader->json.text;
        bool is_read;
        if (tr_span_equals(name, TR_SPAN("version")))
            is_read = read_version(reader);
        else if (tr_span_equals(name, TR_SPAN("node")))
            is_read = read_past_number(reader, "restore.node", UINT16_MAX, &node);
        else if (tr_span_equals(name, TR_SPAN("keyed")))
            is_read = read_past_number(reader, "restore.keyed", 1, &keyed);
        else if (tr_span_equals(name, TR_SPAN("sequence")))
            is_read = read_past_number(reader, "restore.sequence", UINT32_MAX - 1, &past->sequence);
        else if (tr_span_equals(name, TR_SPAN("opaque")))
            is_read = read_past_opaque(reader);
        else if (tr_span_equals(name, TR_SPAN("due")))
            is_read = read_past_number(reader, "restore.due", TR_TIME_MAX, &past->due_ms);
        else
            is_read = skip_member(reader);
        if (!is_read)
            return false;
    }
    past->version_node = (uint16_t)node;
    past->is_keyed = keyed != 0;
    if (!is_done)
        return false;
    if (past->version == 0)
        return refuse(reader, "restore.version", " is missing");
    return past->due_ms > 0 || refuse(reader, "restore.due", " is missing");
}

/* What a header says of a body by itself, for one that is a line of many. */
static bool read_key(struct body_reader *reader)
{
    return expect_string(reader, "idempotency-key", &reader->out->key) &&
           (reader->out->key.size > 0 || refuse(reader, "idempotency-key", " must not be empty"));
}

static bool read_root(struct body_reader *reader)
{
    static const struct {
        struct tr_span name;
        bool (*read)(struct body_reader *reader);
    } objects[] = {
        {{"timing", 6}, read_timing},
        {{"callback", 8}, read_callback},
        {{"reliability", 11}, read_reliability},
        {{"statistics", 10}, read_statistics},
        {{"restore", 7}, read_past},
        {{"idempotency-key", 15}, read_key},
    };
    const unsigned count = sizeof objects / sizeof objects[0];
    struct members members;
    members_init(&members, BODY);
    bool is_done = false;
    unsigned seen = 0;
    if (!expect_object(reader, BODY))
        return false;
    while (next_member(reader, &members, &is_done)) {
        unsigned i = 0;
        while (i < count && !tr_span_equals(reader->json.text, objects[i].name))
            i++;
        seen |= 1u << i;
        if (i < count ? !objects[i].read(reader) : !skip_member(reader))
            return false;
    }
    if (!is_done)
        return false;
    if (tr_json_next(&reader->json) != TR_JSON_END)
        return refuse_json(reader);
    if ((seen & 1) == 0)
        return refuse(reader, "timing", " is missing");
    return (seen & 2) != 0 || refuse(reader, "callback", " is missing");
}

/* So many pops are as long a time of repeating. */
static bool repeat_by_count(struct body_reader *reader)
{
    struct tr_timer_body *out = reader->out;
    if (reader->has_repeat)
        return refuse(reader, "timing.count", " and timing.repeat-for cannot both be given");
    if (reader->count > 1 && out->interval_ms == 0)
        return refuse(reader, "timing.count", " must be 1 when timing.interval is 0");
    if (reader->count > 1 && reader->count > TR_INTERVAL_MAX / out->interval_ms)
        return refuse(reader, "timing.count", " must end within 1115 years");
    out->repeat_ms = reader->count > 1 ? reader->count * out->interval_ms : 0;
    return true;
}

static bool check_timing(struct body_reader *reader)
{
    struct tr_timer_body *out = reader->out;
    if (!reader->has_interval)
        return refuse(reader, "timing.interval", " is missing");
    TR_ASSERT(reader->interval_floor < TR_INTERVAL_MAX);
    /* Up, so that it is never early; the end of the repeats down, so that none is after it. */
    out->interval_ms = reader->interval_floor + !reader->is_interval_exact;
    if (reader->has_count)
        return repeat_by_count(reader);
    if (!reader->has_repeat)
        return true;
    if (reader->is_forever && out->interval_ms == 0)
        return refuse(reader, "timing.repeat-for", " must be 0 when timing.interval is 0");
    if (reader->is_forever) {
        out->repeat_ms = TR_REPEAT_EVER;
        return true;
    }
    out->repeat_ms = reader->repeat_floor;
    if (out->interval_ms == 0) {
        if (out->repeat_ms > 0 || !reader->is_repeat_exact)
            return refuse(reader, "timing.repeat-for", " must be 0 when timing.interval is 0");
        return true;
    }
    if (out->repeat_ms <= out->interval_ms) /* one pop, as the original makes it */
        out->repeat_ms = 0;
    TR_ASSERT(out->repeat_ms == 0 || out->repeat_ms > out->interval_ms);
    return true;
}

static bool check_past(struct body_reader *reader)
{
    const struct tr_timer_body *out = reader->out;
    uint64_t pops =
        out->interval_ms > 0 && out->repeat_ms > 0 ? out->repeat_ms / out->interval_ms : 1;
    return out->past.version == 0 || (out->past.sequence > 0 && out->past.sequence <= pops) ||
           refuse(reader, "restore.sequence", " must be that of one of its pops");
}

static bool refuse_uri(struct body_reader *reader, const char *fault)
{
    tr_problem_set(reader->problem, 400, "callback.http.uri ", fault, NULL);
    point(reader, "callback.http.uri", (struct tr_span){0});
    return false;
}

static bool check_callback(struct body_reader *reader, size_t opaque_max)
{
    struct tr_timer_body *out = reader->out;
    if (out->uri.text == NULL)
        return refuse(reader, "callback.http.uri", " is missing");
    if (out->opaque.text == NULL)
        return refuse(reader, "callback.http.opaque", " is missing");
    if (out->past.opaque.text != NULL)
        out->opaque = out->past.opaque;
    const char *fault = tr_uri_parse(out->uri, &out->parts);
    if (fault != NULL)
        return refuse_uri(reader, fault);
    if (out->opaque.size > opaque_max) {
        tr_problem_set(reader->problem, 413,
                       "callback.http.opaque is over the limit; [limits] opaque sets it", NULL);
        point(reader, "callback.http.opaque", (struct tr_span){0});
        return false;
    }
    return true;
}

bool tr_timer_body_parse(char *body, size_t size, const struct tr_timer_limits *limits,
                         struct tr_timer_body *out, struct tr_problem *problem)
{
    TR_ASSERT(size == 0 || body != NULL);
    struct body_reader reader = {
        .out = out, .problem = problem, .ignores_unknown = limits->ignores_unknown};
    out->repeat_ms = 0;
    out->factor = 0;
    out->tag_count = 0;
    out->uri = (struct tr_span){0};
    out->opaque = (struct tr_span){0};
    out->content_type = (struct tr_span){0};
    out->past = (struct tr_timer_past){0};
    out->key = (struct tr_span){0};
    tr_json_init(&reader.json, body, size);
    return read_root(&reader) && check_timing(&reader) && check_past(&reader) &&
           check_callback(&reader, limits->opaque_max);
}
