/* SPDX-License-Identifier: Apache-2.0 */
/* The body as a whole, and its smaller objects; timing_body.c and callback_body.c have the two that
 * are large. */
#include "wire/timer_body.h"

#include "base/assert.h"
#include "wire/body_reader.h"
#include "wire/hex.h"

static bool read_reliability(struct tr_body_reader *reader)
{
    static const char *const known[] = {"replication-factor", NULL};
    static const char *const foreign[] = {"cluster-view-id", "sites", NULL};
    struct tr_members members;
    tr_members_init(&members, "reliability");
    bool is_done = false;
    if (!tr_body_object(reader, "reliability"))
        return false;
    while (tr_body_next(reader, &members, &is_done)) {
        if (tr_span_equals(reader->json.text, TR_SPAN("replicas"))) {
            tr_problem_set(reader->problem, 403,
                           "reliability.replicas is for nodes, not for clients", NULL);
            tr_body_point(reader, "reliability.replicas", (struct tr_span){0});
            return false;
        }
        if (!tr_span_equals(reader->json.text, TR_SPAN("replication-factor"))) {
            if (!tr_body_refuse_unknown(reader, "reliability",
                                        (struct tr_body_names){known, foreign}))
                return false;
            continue;
        }
        enum tr_json_token token = tr_json_next(&reader->json);
        uint64_t factor = 0;
        if (token == TR_JSON_BAD)
            return tr_body_refuse_json(reader);
        if (token != TR_JSON_NUMBER || !tr_json_whole(reader->json.text, TR_FACTOR_MAX, &factor) ||
            factor == 0)
            return tr_body_refuse(reader, "reliability.replication-factor",
                                  " must be a whole number from 1 to 255");
        reader->out->factor = (uint32_t)factor;
    }
    return is_done;
}

/* Equal types are summed. */
static bool add_tag(struct tr_body_reader *reader, struct tr_span name, uint64_t count)
{
    struct tr_timer_body *out = reader->out;
    for (unsigned i = 0; i < out->tag_count; i++) {
        if (tr_span_equals(out->tags[i].name, name)) {
            out->tags[i].count += count;
            return true;
        }
    }
    if (out->tag_count == TR_TAGS_MAX)
        return tr_body_refuse(reader, "statistics.tag-info", " has more than 15 types");
    TR_ASSERT(out->tag_count < TR_TAGS_MAX);
    out->tags[out->tag_count++] = (struct tr_tag){name, count};
    return true;
}

static bool read_tag(struct tr_body_reader *reader)
{
    static const char *const known[] = {"type", "count", NULL};
    struct tr_members members;
    tr_members_init(&members, "statistics.tag-info");
    bool is_done = false;
    uint64_t count = 1;
    struct tr_span name = {0};
    while (tr_body_next(reader, &members, &is_done)) {
        if (tr_span_equals(reader->json.text, TR_SPAN("type"))) {
            if (!tr_body_string(reader, "statistics.tag-info.type", &name))
                return false;
        } else if (tr_span_equals(reader->json.text, TR_SPAN("count"))) {
            enum tr_json_token token = tr_json_next(&reader->json);
            if (token == TR_JSON_BAD)
                return tr_body_refuse_json(reader);
            if (token != TR_JSON_NUMBER || !tr_json_whole(reader->json.text, UINT32_MAX, &count))
                return tr_body_refuse(reader, "statistics.tag-info.count",
                                      " must be a whole number from 0 to 4294967295");
        } else if (!tr_body_refuse_unknown(reader, "statistics.tag-info",
                                           (struct tr_body_names){known, NULL})) {
            return false;
        }
    }
    if (!is_done)
        return false;
    if (name.text == NULL || name.size == 0 || name.size > TR_TAG_SIZE)
        return tr_body_refuse(reader, "statistics.tag-info.type",
                              " must be a string of 1 to 64 bytes");
    return add_tag(reader, name, count);
}

static bool read_tags(struct tr_body_reader *reader)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    if (token != TR_JSON_ARRAY)
        return tr_body_refuse(reader, "statistics.tag-info", " must be an array");
    while ((token = tr_json_next(&reader->json)) == TR_JSON_OBJECT) {
        reader->tag++;
        if (!read_tag(reader))
            return false;
    }
    reader->tag = 0;
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    return token == TR_JSON_ARRAY_END ||
           tr_body_refuse(reader, "statistics.tag-info", " must hold objects");
}

static bool read_statistics(struct tr_body_reader *reader)
{
    static const char *const known[] = {"tag-info", NULL};
    struct tr_members members;
    tr_members_init(&members, "statistics");
    bool is_done = false;
    if (!tr_body_object(reader, "statistics"))
        return false;
    while (tr_body_next(reader, &members, &is_done)) {
        bool is_tags = tr_span_equals(reader->json.text, TR_SPAN("tag-info"));
        if (is_tags ? !read_tags(reader)
                    : !tr_body_refuse_unknown(reader, "statistics",
                                              (struct tr_body_names){known, NULL}))
            return false;
    }
    return is_done;
}

static bool read_version(struct tr_body_reader *reader)
{
    struct tr_span text = {NULL, 0};
    if (!tr_body_string(reader, "restore.version", &text))
        return false;
    uint64_t version = 0;
    bool is_good = text.size == 16 && tr_hex_number(text, &version);
    reader->out->past.version = version;
    return (is_good && version > 0 && version <= INT64_MAX) ||
           tr_body_refuse(reader, "restore.version", " must be a version of 16 hexadecimal digits");
}

static bool read_past_number(struct tr_body_reader *reader, const char *path, uint64_t most,
                             uint64_t *number)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    return (token == TR_JSON_NUMBER && tr_json_whole(reader->json.text, most, number)) ||
           tr_body_refuse(reader, path, " must be a whole number, as a backup has it");
}

/* Bytes that are no text, in hexadecimal digits: the value of a key that has expired. They take
 * the place of their digits. */
static bool read_past_opaque(struct tr_body_reader *reader)
{
    struct tr_span text = {NULL, 0};
    if (!tr_body_string(reader, "restore.opaque", &text))
        return false;
    char *bytes = (char *)(uintptr_t)text.text;
    bool is_good = tr_hex_bytes(text, bytes, text.size / 2);
    reader->out->past.opaque = (struct tr_span){bytes, text.size / 2};
    return is_good || tr_body_refuse(reader, "restore.opaque", " must be hexadecimal digits");
}

/* What GET /timers?scope=held shows: a timer is to go on from there. */
static bool read_past(struct tr_body_reader *reader)
{
    struct tr_timer_past *past = &reader->out->past;
    struct tr_members members;
    tr_members_init(&members, "restore");
    bool is_done = false;
    uint64_t node = 0;
    uint64_t keyed = 0;
    if (!tr_body_object(reader, "restore"))
        return false;
    while (tr_body_next(reader, &members, &is_done)) {
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
        else if (tr_span_equals(name, TR_SPAN("instant")))
            is_read = read_past_number(reader, "restore.instant", TR_TIME_MAX, &past->instant_ms);
        else if (tr_span_equals(name, TR_SPAN("name")))
            is_read = tr_body_string(reader, "restore.name", &reader->out->own.name) &&
                      (reader->out->own.name.size <= TR_NAME_MAX ||
                       tr_body_refuse(reader, "restore.name", " must be at most 255 bytes"));
        else
            is_read = tr_body_skip(reader);
        if (!is_read)
            return false;
    }
    past->version_node = (uint16_t)node;
    past->is_keyed = keyed != 0;
    if (!is_done)
        return false;
    if (past->version == 0)
        return tr_body_refuse(reader, "restore.version", " is missing");
    return past->due_ms > 0 || tr_body_refuse(reader, "restore.due", " is missing");
}

/* What a header says of a body by itself, for one that is a line of many. */
static bool read_key(struct tr_body_reader *reader)
{
    return tr_body_string(reader, "idempotency-key", &reader->out->key) &&
           (reader->out->key.size > 0 ||
            tr_body_refuse(reader, "idempotency-key", " must not be empty"));
}

static bool read_root(struct tr_body_reader *reader)
{
    static const struct {
        struct tr_span name;
        bool (*read)(struct tr_body_reader *reader);
    } objects[] = {
        {{"timing", 6}, tr_body_read_timing},
        {{"callback", 8}, tr_body_read_callback},
        {{"reliability", 11}, read_reliability},
        {{"statistics", 10}, read_statistics},
        {{"restore", 7}, read_past},
        {{"idempotency-key", 15}, read_key},
    };
    const unsigned count = sizeof objects / sizeof objects[0];
    struct tr_members members;
    tr_members_init(&members, TR_BODY);
    bool is_done = false;
    unsigned seen = 0;
    if (!tr_body_object(reader, TR_BODY))
        return false;
    while (tr_body_next(reader, &members, &is_done)) {
        unsigned i = 0;
        while (i < count && !tr_span_equals(reader->json.text, objects[i].name))
            i++;
        seen |= 1u << i;
        if (i < count ? !objects[i].read(reader) : !tr_body_skip(reader))
            return false;
    }
    if (!is_done)
        return false;
    if (tr_json_next(&reader->json) != TR_JSON_END)
        return tr_body_refuse_json(reader);
    if ((seen & 1) == 0)
        return tr_body_refuse(reader, "timing", " is missing");
    return (seen & 2) != 0 || tr_body_refuse(reader, "callback", " is missing");
}

static bool check_past(struct tr_body_reader *reader)
{
    const struct tr_timer_body *out = reader->out;
    uint64_t pops = out->pops > 0 ? out->pops : 1;
    return out->past.version == 0 || (out->past.sequence > 0 && out->past.sequence <= pops) ||
           tr_body_refuse(reader, "restore.sequence", " must be that of one of its pops");
}

bool tr_timer_body_parse(char *body, size_t size, const struct tr_timer_limits *limits,
                         struct tr_timer_body *out, struct tr_problem *problem)
{
    TR_ASSERT(size == 0 || body != NULL);
    static const struct tr_plan usual = {
        .cron = {"", 0}, .zone = {"", 0}, .headers = {"", 0}, .ce_type = {"", 0}};
    struct tr_body_reader reader = {.out = out, .problem = problem, .limits = limits};
    out->interval_ms = 0;
    out->repeat_ms = 0;
    out->pops = 1;
    out->at_ms = 0;
    out->plan = usual;
    out->own = (struct tr_own){{"", 0}, {"", 0}, {"", 0}};
    out->factor = 0;
    out->tag_count = 0;
    out->uri = (struct tr_span){0};
    out->opaque = (struct tr_span){0};
    out->content_type = (struct tr_span){0};
    out->past = (struct tr_timer_past){0};
    out->key = (struct tr_span){0};
    tr_json_init(&reader.json, body, size);
    return read_root(&reader) && tr_body_check_timing(&reader) && check_past(&reader) &&
           tr_body_check_callback(&reader);
}
