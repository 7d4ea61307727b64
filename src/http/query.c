/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind the question mark. */
#include "calendar/date.h"
#include "http/route.h"
#include "wire/hex.h"
#include "wire/suggest.h"

#define CURSOR_NODE    16 /* digits */
#define CURSOR_CLUSTER 20
#define CURSOR_SORTED  48 /* when the last timer was due, the hash of its id, its part */

static bool read_number(struct tr_span text, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.text[i] < '0' || text.text[i] > '9' || *value > UINT64_MAX / 10 - 1)
            return false;
        *value = *value * 10 + (uint64_t)(text.text[i] - '0');
    }
    return text.size > 0;
}

bool tr_path_decode(struct tr_span text, char *out, size_t cap, size_t *size)
{
    return tr_percent_decode(text, '+', out, cap, size);
}

/* An instant; the plus of its offset is not always escaped. */
static bool read_instant(struct tr_span text, tr_wall_ms *at_ms)
{
    char bytes[64];
    size_t size = 0;
    return tr_percent_decode(text, '+', bytes, sizeof bytes, &size) &&
           tr_instant_parse((struct tr_span){bytes, size}, at_ms);
}

/* Versions, views and places are 16 digits, no fewer. */
static bool read_hex(struct tr_span text, uint64_t *value)
{
    return text.size == 16 && tr_hex_number(text, value);
}

static void read_limit(struct tr_span value, struct tr_api_request *out)
{
    uint64_t number = 0;
    if (!read_number(value, &number) || number == 0 || number > TR_LIST_LIMIT_MAX)
        tr_api_refuse(out, 400, "limit must be a number from 1 to 1000");
    out->query.limit = (uint32_t)number;
}

static void read_place(struct tr_span value, struct tr_api_request *out)
{
    struct tr_span due = {value.text, CURSOR_NODE};
    struct tr_span hash = {value.text + CURSOR_NODE, CURSOR_NODE};
    struct tr_span part = tr_span_from(value, (size_t)2 * CURSOR_NODE);
    out->has_place = true;
    if (!read_hex(due, &out->behind.due_ms) || !read_hex(hash, &out->behind.hash) ||
        !read_hex(part, &out->behind.part))
        tr_api_refuse(out, 400, "cursor must be one that an earlier page gave");
}

/* Of a node, or, with four digits more, of the whole cluster; of a sorted list, of either; of keys
 * a number. */
static void read_cursor(struct tr_span value, struct tr_api_request *out)
{
    if (out->kind == TR_API_KEYS) {
        if (!read_number(value, &out->query.cursor))
            tr_api_refuse(out, 400, "cursor must be one that an earlier page gave");
        return;
    }
    if (value.size == CURSOR_SORTED) {
        read_place(value, out);
        return;
    }
    size_t head = value.size == CURSOR_CLUSTER ? CURSOR_CLUSTER - CURSOR_NODE : 0;
    uint64_t place = 0;
    bool is_good = head == 0 || tr_hex_number((struct tr_span){value.text, head}, &place);
    out->query.has_cursor = true;
    out->place = (uint16_t)place;
    if (!is_good || !read_hex(tr_span_from(value, head), &out->query.cursor))
        tr_api_refuse(out, 400, "cursor must be one that an earlier page gave");
}

static void read_sort(struct tr_span value, struct tr_api_request *out)
{
    out->is_sorted = true;
    if (!tr_span_equals(value, TR_SPAN("due")))
        tr_api_refuse(out, 400, "sort must be due, or left out");
}

/* ---- filters ---- */

static void read_text(struct tr_span value, char *bytes, size_t cap, struct tr_span *text,
                      const char *rule, struct tr_api_request *out)
{
    size_t size = 0;
    if (!tr_percent_decode(value, ' ', bytes, cap, &size) || size == 0)
        tr_api_refuse(out, 400, rule);
    *text = (struct tr_span){bytes, size};
}

static void read_tag(struct tr_span value, struct tr_api_request *out)
{
    read_text(value, out->tag_bytes, sizeof out->tag_bytes, &out->query.tag,
              "tag must be 1 to 64 bytes", out);
}

static void read_uri_prefix(struct tr_span value, struct tr_api_request *out)
{
    read_text(value, out->uri_bytes, sizeof out->uri_bytes, &out->query.uri_prefix,
              "uri-prefix must be 1 to 1024 bytes", out);
}

static void read_name_prefix(struct tr_span value, struct tr_api_request *out)
{
    read_text(value, out->prefix_bytes, sizeof out->prefix_bytes, &out->query.name_prefix,
              "name-prefix must be 1 to 255 bytes", out);
}

static void read_set_before(struct tr_span value, struct tr_api_request *out)
{
    if (!read_hex(value, &out->query.set_before) || out->query.set_before == 0)
        tr_api_refuse(out, 400, "set-before must be a version, of 16 hexadecimal digits");
}

static void read_from(struct tr_span value, struct tr_api_request *out)
{
    if (!read_instant(value, &out->from_ms))
        tr_api_refuse(out, 400, "from must be an instant, as 2026-11-19T08:30:00Z");
}

static void read_pattern(struct tr_span value, struct tr_api_request *out)
{
    read_text(value, out->key_bytes, sizeof out->key_bytes, &out->pattern,
              "pattern must be 1 to 4096 bytes", out);
}

static void read_due_after(struct tr_span value, struct tr_api_request *out)
{
    if (!read_instant(value, &out->query.due_after_ms))
        tr_api_refuse(out, 400, "due-after must be an instant, as 2026-11-19T08:30:00Z");
}

static void read_due_before(struct tr_span value, struct tr_api_request *out)
{
    if (!read_instant(value, &out->query.due_before_ms))
        tr_api_refuse(out, 400, "due-before must be an instant, as 2026-11-19T08:30:00Z");
    if (out->query.due_before_ms == 0) /* which is not given; nothing is due by then */
        out->query.due_before_ms = 1;
}

static void read_pop_state(struct tr_span value, struct tr_api_request *out)
{
    static const char *const states[] = {"delivered", "failed", "dead"};
    for (uint8_t i = 0; i < 3; i++) {
        out->pop_state = i;
        if (tr_span_equals(value, (struct tr_span){states[i], strlen(states[i])}))
            return;
    }
    tr_api_refuse(out, 400, "state must be delivered, failed or dead");
}

static void read_state(struct tr_span value, struct tr_api_request *out)
{
    if (out->kind == TR_API_POPS) {
        read_pop_state(value, out);
        return;
    }
    out->has_state = true;
    out->query.wants_dead = tr_span_equals(value, TR_SPAN("dead"));
    out->query.wants_retrying = tr_span_equals(value, TR_SPAN("retrying"));
    if (!out->query.wants_dead && !out->query.wants_retrying &&
        !tr_span_equals(value, TR_SPAN("pending")))
        tr_api_refuse(out, 400, "state must be pending, retrying or dead");
}

static void read_scope(struct tr_span value, struct tr_api_request *out)
{
    out->wants_cluster = tr_span_equals(value, TR_SPAN("cluster"));
    out->wants_node = tr_span_equals(value, TR_SPAN("node"));
    out->query.wants_held = tr_span_equals(value, TR_SPAN("held"));
    if (!out->wants_cluster && !out->query.wants_held && !out->wants_node)
        tr_api_refuse(out, 400, "scope must be node, cluster or held");
}

/* ---- of bulk requests, and of one timer ---- */

static void read_flag(struct tr_span value, const char *what, bool *flag,
                      struct tr_api_request *out)
{
    *flag = tr_span_equals(value, TR_SPAN("yes"));
    if (!*flag && !tr_span_equals(value, TR_SPAN("no")))
        tr_api_refuse(out, 400, what);
}

static void read_all(struct tr_span value, struct tr_api_request *out)
{
    read_flag(value, "all must be yes or no", &out->wants_all, out);
}

static void read_dry_run(struct tr_span value, struct tr_api_request *out)
{
    read_flag(value, "dry-run must be yes or no", &out->is_dry, out);
}

static void read_now(struct tr_span value, struct tr_api_request *out)
{
    out->wants_now = tr_span_equals(value, TR_SPAN("1"));
    if (!out->wants_now && !tr_span_equals(value, TR_SPAN("0")))
        tr_api_refuse(out, 400, "now must be 0 or 1");
}

static void read_sequence(struct tr_span value, struct tr_api_request *out)
{
    if (!read_number(value, &out->query.sequence))
        tr_api_refuse(out, 400, "sequence must be a number");
}

/* ---- what nodes of the original ask each other for ---- */

static void read_node(struct tr_span value, struct tr_api_request *out)
{
    out->kind = TR_API_RESYNC_LIST;
    read_text(value, out->node_bytes, sizeof out->node_bytes, &out->query.node,
              "node-for-replicas must be the address of a node", out);
}

static void read_view(struct tr_span value, struct tr_api_request *out)
{
    out->kind = TR_API_RESYNC_LIST;
    out->query.has_view = true;
    if (!read_hex(value, &out->query.view))
        tr_api_refuse(out, 400, "cluster-view-id must be the view of GET /cluster");
}

static void read_time_from(struct tr_span value, struct tr_api_request *out)
{
    if (!read_number(value, &out->query.from_ms) || out->query.from_ms > TR_TIME_MAX)
        tr_api_refuse(out, 400, "time-from must be a number of milliseconds from now");
}

/* ---- all of them ---- */

#define OF(kind)       (UINT64_C(1) << (kind))
#define OF_LIST        OF(TR_API_LIST)
#define OF_POPS        OF(TR_API_POPS)
#define OF_AHEAD       OF(TR_API_AHEAD)
#define OF_HISTORY     OF(TR_API_HISTORY)
#define OF_KEYS        OF(TR_API_KEYS)
#define OF_READ        OF(TR_API_READ)
#define OF_REDRIVE     OF(TR_API_REDRIVE)
#define OF_DESTINATION OF(TR_API_DESTINATIONS)
#define OF_CLUSTER     OF(TR_API_CLUSTER)
#define OF_BULK        (OF(TR_API_CANCEL_ALL) | OF(TR_API_REDRIVE_ALL))
#define OF_CHOICE      (OF_LIST | OF_BULK)
#define OF_SCOPE       (OF_CHOICE | OF_POPS | OF_AHEAD | OF_HISTORY | OF_DESTINATION | OF_CLUSTER)

static const struct parameter {
    const char *name;
    uint64_t kinds; /* of requests that take it */
    void (*read)(struct tr_span value, struct tr_api_request *out);
} parameters[] = {
    {"limit", OF_LIST | OF_POPS | OF_KEYS, read_limit},
    {"cursor", OF_LIST | OF_KEYS, read_cursor},
    {"sort", OF_LIST, read_sort},
    {"from", OF_AHEAD, read_from},
    {"pattern", OF_KEYS, read_pattern},
    {"tag", OF_CHOICE, read_tag},
    {"state", OF_CHOICE | OF_POPS, read_state},
    {"uri-prefix", OF_CHOICE, read_uri_prefix},
    {"name-prefix", OF_CHOICE, read_name_prefix},
    {"due-after", OF_CHOICE, read_due_after},
    {"due-before", OF_CHOICE, read_due_before},
    {"set-before", OF_CHOICE, read_set_before},
    {"scope", OF_SCOPE, read_scope},
    {"all", OF_BULK, read_all},
    {"dry-run", OF_BULK, read_dry_run},
    {"now", OF_READ, read_now},
    {"sequence", OF_REDRIVE, read_sequence},
    {"node-for-replicas", OF_LIST, read_node},
    {"cluster-view-id", OF_LIST, read_view},
    {"time-from", OF_LIST, read_time_from},
};

enum { PARAMETERS = sizeof parameters / sizeof parameters[0] };

static void refuse_parameter(struct tr_api_request *out, struct tr_span name, uint64_t kind)
{
    const char *known[PARAMETERS + 1] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < PARAMETERS; i++) {
        if ((parameters[i].kinds & kind) != 0)
            known[count++] = parameters[i].name;
    }
    char text[33] = "";
    memcpy(text, name.text, name.size < sizeof text ? name.size : sizeof text - 1);
    const char *meant = tr_suggest(name, known);
    out->kind = TR_API_REFUSED;
    tr_problem_set(&out->problem, 400,
                   count > 0 ? "there is no parameter "
                             : "this request takes no parameters, and there is one: ",
                   text, meant != NULL ? ": did you mean " : NULL, meant, "?", NULL);
}

static void read_parameter(struct tr_span name, struct tr_span value, uint64_t kind,
                           struct tr_api_request *out)
{
    for (size_t i = 0; i < PARAMETERS; i++) {
        struct tr_span known = {parameters[i].name, strlen(parameters[i].name)};
        if ((parameters[i].kinds & kind) == 0 || !tr_span_equals(name, known))
            continue;
        parameters[i].read(value, out);
        return;
    }
    refuse_parameter(out, name, kind);
}

/* Parameters are parted by & or, as the original has it, by ; */
void tr_api_read_query(struct tr_span query, struct tr_api_request *out)
{
    uint64_t kind = OF(out->kind);
    while (query.size > 0 && out->kind != TR_API_REFUSED) {
        size_t end = 0;
        while (end < query.size && query.text[end] != '&' && query.text[end] != ';')
            end++;
        const char *equals = memchr(query.text, '=', end);
        size_t name = equals == NULL ? end : (size_t)(equals - query.text);
        struct tr_span value = {query.text + name, 0};
        if (equals != NULL)
            value = (struct tr_span){equals + 1, end - name - 1};
        read_parameter((struct tr_span){query.text, name}, value, kind, out);
        query = tr_span_from(query, end < query.size ? end + 1 : end);
    }
    const struct tr_query *asked = &out->query;
    out->is_chosen = asked->tag.text != NULL || out->has_state || asked->uri_prefix.text != NULL ||
                     asked->name_prefix.text != NULL || asked->due_after_ms > 0 ||
                     asked->due_before_ms > 0;
    if (out->kind != TR_API_REFUSED && asked->wants_held && out->is_chosen)
        tr_api_refuse(out, 400, "scope=held lists all timers: there is nothing to choose by");
}
