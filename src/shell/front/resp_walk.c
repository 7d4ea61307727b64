/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on all keys, and on two keys at once. */
#include "base/integer.h"
#include "resp/glob.h"
#include "shell/front/resp_ask.h"
#include "shell/front/resp_wait.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SCAN_COUNT 10
#define KEYS_SLICE 1000 /* keys that KEYS looks at in a turn */
#define KEY_STEPS  1024 /* of a pattern, for each key that it is held against */
#define FLOAT_MAX  5120 /* bytes of a number as Redis writes it */

#define FLOAT_TRIES 8    /* at a number that others write to, too */
#define FLUSH_MS    5000 /* for all nodes to hear that all keys have ended */

#define PATTERN_MAX ((size_t)4 * TR_KEY_MAX)

/* ---- all keys ---- */

struct filter {
    struct tr_span pattern; /* text NULL: all */
    bool is_other;          /* a type that no key has */
    uint64_t steps;         /* that the pattern may still take */
};

/* Puts out a key if it is meant. */
static bool put_key(struct tr_resp_call *call, struct tr_span key, struct filter *filter)
{
    const struct tr_rights *rights = call->connection->rights;
    if (filter->is_other || filter->steps == 0 || (rights != NULL && !tr_rights_key(rights, key)))
        return false;
    filter->steps += KEY_STEPS;
    if (filter->pattern.text != NULL && !tr_glob_matches(filter->pattern, key, &filter->steps))
        return false;
    tr_resp_put_bulk(call->out, key);
    return true;
}

/* Puts out those of a page that are meant; returns how many. */
static size_t put_page(struct tr_resp_call *call, const struct tr_key_page *page,
                       struct filter *filter)
{
    size_t count = 0;
    for (uint32_t i = 0; i < page->count; i++)
        count += put_key(call, tr_node_key_name(call->daemon->node, page->refs[i]), filter);
    return count;
}

/* ---- of several nodes ---- */

/* A page, of which the keys are those of all nodes, or of one. False: it was refused, which is
 * said, or it waits. */
static bool ask_page_of(struct tr_resp_call *call, uint16_t only, uint64_t cursor, uint32_t count,
                        struct tr_resp_asked **page)
{
    if (!tr_resp_wait_page(call, only, cursor, count, page)) {
        call->is_waiting = true;
        return false;
    }
    return tr_resp_settle(call, &(*page)->result);
}

static bool ask_page(struct tr_resp_call *call, uint64_t cursor, uint32_t count,
                     struct tr_resp_asked **page)
{
    return ask_page_of(call, TR_MEMBER_NONE, cursor, count, page);
}

static size_t put_asked(struct tr_resp_call *call, const struct tr_resp_asked *page,
                        struct filter *filter)
{
    struct tr_reader reader = tr_reader_on(page->result.value.text, page->result.value.size);
    size_t count = 0;
    for (uint32_t i = 0; i < page->count; i++)
        count += put_key(call, tr_get_span(&reader), filter);
    return count;
}

/* A pattern is held against every key: one that is much longer than any would take for ever. */
static bool is_good_pattern(struct tr_resp_call *call, struct tr_span pattern)
{
    if (pattern.size <= PATTERN_MAX)
        return true;
    tr_resp_put_error(call->out, "ERR the pattern is longer than 262144 bytes");
    return false;
}

/* False: the pattern took too long, which is said in place of what stands from `at` on. */
static bool is_in_time(struct tr_resp_call *call, const struct filter *filter, size_t at)
{
    if (filter->steps > 0)
        return true;
    call->out->size = at;
    tr_resp_put_error(call->out, "ERR the pattern takes too long");
    return false;
}

/* As Redis reads one: nothing is 0, and a negative one is taken modulo 2^64. */
static bool read_cursor(struct tr_span text, uint64_t *cursor)
{
    bool has_sign = text.size > 1 && (text.text[0] == '-' || text.text[0] == '+');
    bool is_negative = has_sign && text.text[0] == '-';
    *cursor = 0;
    for (size_t i = has_sign; i < text.size; i++) {
        unsigned digit = (unsigned)(unsigned char)text.text[i] - '0';
        if (digit > 9 || *cursor > (UINT64_MAX - digit) / 10)
            return false;
        *cursor = *cursor * 10 + digit;
    }
    *cursor = is_negative ? 0 - *cursor : *cursor;
    return true;
}

static bool read_scan_options(struct tr_resp_call *call, struct filter *filter, int64_t *count)
{
    for (uint32_t i = 2; i < call->count; i += 2) {
        struct tr_span word = call->arguments[i];
        bool has_next = i + 1 < call->count;
        if (tr_resp_is(word, "count") && has_next) {
            if (!tr_integer_read(call->arguments[i + 1], count)) {
                tr_resp_put_error(call->out, TR_RESP_NOT_INTEGER);
                return false;
            }
            if (*count < 1) {
                tr_resp_put_error(call->out, TR_RESP_SYNTAX);
                return false;
            }
        } else if (tr_resp_is(word, "match") && has_next) {
            filter->pattern = call->arguments[i + 1];
        } else if (tr_resp_is(word, "type") && has_next) {
            filter->is_other = !tr_resp_is(call->arguments[i + 1], "string");
        } else {
            tr_resp_put_error(call->out, TR_RESP_SYNTAX);
            return false;
        }
    }
    return true;
}

/* The head of an array whose size is known when its elements are there. */
static void put_array_before(struct tr_resp_out *out, size_t at, size_t count)
{
    struct tr_resp_out head = {.is_third = out->is_third};
    size_t size = out->size - at;
    tr_resp_put_array(&head, count);
    tr_resp_put_raw(out, head.bytes, head.size); /* there is room for it now */
    if (!out->is_lost && !out->is_too_large) {
        memmove(out->bytes + at + head.size, out->bytes + at, size);
        memcpy(out->bytes + at, head.bytes, head.size);
    }
    out->is_lost |= head.is_lost;
    tr_resp_out_free(&head);
}

void tr_resp_scan(struct tr_resp_call *call)
{
    struct filter filter = {.pattern = {NULL, 0}, .steps = TR_GLOB_STEPS};
    struct tr_key_page *page = &call->connection->server->page;
    int64_t count = SCAN_COUNT;
    uint64_t cursor = 0;
    char text[24];
    if (!read_cursor(call->arguments[1], &cursor)) {
        tr_resp_put_error(call->out, "ERR invalid cursor");
        return;
    }
    if (!read_scan_options(call, &filter, &count) || !is_good_pattern(call, filter.pattern))
        return;
    struct tr_resp_asked *asked = NULL;
    uint32_t most = (uint32_t)(count < 1000 ? count : 1000);
    if (call->wait != NULL && !ask_page(call, cursor, most, &asked))
        return;
    if (asked == NULL) {
        tr_node_scan_keys(call->daemon->node, cursor, most, page);
        call->batch = page->batch;
    }
    size_t start = call->out->size;
    tr_resp_put_array(call->out, 2);
    snprintf(text, sizeof text, "%llu",
             (unsigned long long)(asked != NULL ? asked->cursor : page->cursor));
    tr_resp_put_text(call->out, text);
    size_t at = call->out->size;
    size_t found = asked != NULL ? put_asked(call, asked, &filter) : put_page(call, page, &filter);
    if (is_in_time(call, &filter, start))
        put_array_before(call->out, at, found);
}

/* In one go, as Redis does: whoever has many keys uses SCAN. */
static void put_keys(struct tr_resp_call *call, struct tr_span pattern, uint16_t only)
{
    struct filter filter = {.pattern = pattern, .steps = TR_GLOB_STEPS};
    struct tr_key_page *page = &call->connection->server->page;
    size_t at = call->out->size;
    size_t count = 0;
    uint64_t cursor = 0;
    if (!is_good_pattern(call, filter.pattern))
        return;
    do {
        struct tr_resp_asked *asked = NULL;
        if (call->wait != NULL && !ask_page_of(call, only, cursor, KEYS_SLICE, &asked))
            return;
        if (asked == NULL)
            tr_node_scan_keys(call->daemon->node, cursor, KEYS_SLICE, page);
        count += asked != NULL ? put_asked(call, asked, &filter) : put_page(call, page, &filter);
        cursor = asked != NULL ? asked->cursor : page->cursor;
    } while (cursor != 0 && !call->out->is_too_large && filter.steps > 0);
    call->batch = call->wait == NULL ? page->batch : 0;
    if (is_in_time(call, &filter, at))
        put_array_before(call->out, at, count);
}

void tr_resp_keys(struct tr_resp_call *call)
{
    put_keys(call, call->arguments[1], TR_MEMBER_NONE);
}

void tr_resp_keyspace_keys(struct tr_resp_call *call)
{
    uint16_t member = tr_node_member(call->daemon->node, call->arguments[2]);
    if (member == TR_MEMBER_NONE)
        tr_resp_put_error(call->out, "ERR there is no such node: NODES lists those that there are");
    else
        put_keys(call, (struct tr_span){NULL, 0}, member);
}

/* From a place on that is drawn, or else from the beginning. */
static void put_random(struct tr_resp_call *call)
{
    struct filter filter = {.pattern = {NULL, 0}, .steps = TR_GLOB_STEPS};
    uint64_t cursor = call->wait->seed >> 11;
    for (unsigned round = 0; round < 2;) {
        struct tr_resp_asked *page = NULL;
        if (!ask_page(call, cursor, 1, &page))
            return;
        if (page->count > 0) {
            struct tr_reader reader =
                tr_reader_on(page->result.value.text, page->result.value.size);
            put_key(call, tr_get_span(&reader), &filter);
            return;
        }
        cursor = page->cursor;
        if (cursor == 0)
            round++;
    }
    tr_resp_put_null(call->out);
}

void tr_resp_randomkey(struct tr_resp_call *call)
{
    if (call->wait != NULL) {
        put_random(call);
        return;
    }
    struct tr_key_page *page = &call->connection->server->page;
    tr_node_draw_key(call->daemon->node, page);
    call->batch = page->batch;
    if (page->count > 0)
        tr_resp_put_bulk(call->out, tr_node_key_name(call->daemon->node, page->refs[0]));
    else
        tr_resp_put_null(call->out);
}

void tr_resp_dbsize(struct tr_resp_call *call)
{
    struct tr_node_stats stats;
    struct tr_resp_asked *asked = NULL;
    if (call->wait != NULL) {
        if (ask_page(call, 0, 0, &asked))
            tr_resp_put_integer(call->out, (int64_t)asked->cursor);
        return;
    }
    tr_node_stats(call->daemon->node, &stats);
    call->batch = stats.keys_batch;
    tr_resp_put_integer(call->out, (int64_t)stats.keys);
}

/* On all nodes: it is done when all have heard. */
static void flush_all(struct tr_resp_call *call)
{
    struct tr_node *node = call->daemon->node;
    struct tr_resp_wait *wait = call->wait;
    uint16_t who = TR_MEMBER_NONE;
    if (!wait->is_asked) {
        enum tr_change change = tr_node_flush_keys(node, &who);
        if (change != TR_CHANGE_MADE) {
            tr_resp_put_change(call, change, who);
            return;
        }
        tr_daemon_asked(call->daemon);
        wait->asked_us = wait->asked_us == 0 ? call->daemon->now_us : wait->asked_us;
        wait->is_asked = true;
        wait->floor = tr_node_roster(node)->floor;
    }
    wait->is_asked = tr_node_roster(node)->floor >= wait->floor; /* else another change has won */
    call->is_waiting = !wait->is_asked || !tr_node_is_agreed(node);
    if (call->is_waiting && call->daemon->now_us > wait->asked_us + (uint64_t)FLUSH_MS * 1000) {
        call->is_waiting = false;
        tr_resp_put_error(call->out, "UNKNOWN not all nodes have heard of it yet");
    } else if (!call->is_waiting) {
        tr_resp_put_simple(call->out, "OK");
    }
}

void tr_resp_flush(struct tr_resp_call *call)
{
    struct tr_key_result result;
    bool is_said = call->count == 2 && (tr_resp_is(call->arguments[1], "sync") ||
                                        tr_resp_is(call->arguments[1], "async"));
    if (call->count > 2 || (call->count == 2 && !is_said)) {
        tr_resp_put_error(call->out, TR_RESP_SYNTAX);
        return;
    }
    if (!tr_resp_may_operate(call))
        return;
    if (call->wait != NULL) {
        flush_all(call);
        return;
    }
    tr_node_delete_keys(call->daemon->node, &result);
    if (tr_resp_settle(call, &result))
        tr_resp_put_simple(call->out, "OK");
}

/* ---- two keys ---- */

static bool read_from(struct tr_resp_call *call, struct tr_key_result *result)
{
    if (call->wait == NULL)
        tr_node_expire_keys(call->daemon->node);
    return tr_resp_read_key(call, call->arguments[1], result);
}

/* What the first key has becomes the second's. False: it was refused, or waits. */
static bool copy(struct tr_resp_call *call, const struct tr_key_result *from, bool is_new)
{
    char callback[TR_URI_MAX];
    struct tr_key_command command = {
        .verb = TR_KEY_SET,
        .only_if = is_new ? TR_IF_ABSENT : TR_IF_ANY,
        .key = call->arguments[2],
        .value = from->value,
        .expiry = from->expires_ms != TR_NEVER ? TR_EXPIRY_AT : TR_EXPIRY_NONE,
        .expires_ms = from->expires_ms,
    };
    struct tr_key_result result;
    struct tr_span uri = tr_node_key_callback(call->daemon->node, call->arguments[1]);
    size_t size = from->value.size + call->arguments[1].size + call->arguments[2].size;
    /* Both in one batch, or none. */
    call->is_again = tr_node_key_room(call->daemon->node, size + uri.size, 2) == TR_ROOM_LATER;
    if (call->is_again)
        return false;
    if (uri.size > 0 && uri.size <= sizeof callback) {
        memcpy(callback, uri.text, uri.size);
        command.callback = (struct tr_span){callback, uri.size};
    }
    /* The value is in the book, which changes: it is copied out of it first. */
    char *value = malloc(from->value.size + 1);
    if (value == NULL) {
        tr_resp_put_error(call->out, TR_RESP_OOM);
        return false;
    }
    memcpy(value, from->value.text, from->value.size);
    command.value.text = value;
    tr_node_key(call->daemon->node, &command, &result);
    free(value);
    return tr_resp_settle(call, &result);
}

static void rename_key(struct tr_resp_call *call, bool is_new)
{
    struct tr_key_result from;
    struct tr_key_result result;
    struct tr_key_command to = {.verb = TR_KEY_READ, .key = call->arguments[2]};
    struct tr_key_command end = {.verb = TR_KEY_DELETE, .key = call->arguments[1]};
    bool is_same = tr_span_equals(call->arguments[1], call->arguments[2]);
    if (!tr_resp_is_on_one_node(call) || !read_from(call, &from))
        return;
    if (!from.was_there) {
        tr_resp_put_error(call->out, "ERR no such key");
        return;
    }
    if (is_new) {
        tr_node_key(call->daemon->node, &to, &result);
        if (!tr_resp_settle(call, &result))
            return;
        if (is_same || result.was_there) {
            tr_resp_put_integer(call->out, 0);
            return;
        }
    }
    if (!is_same) {
        if (!copy(call, &from, false))
            return;
        tr_node_key(call->daemon->node, &end, &result);
        if (!tr_resp_settle(call, &result))
            return;
    }
    if (is_new)
        tr_resp_put_integer(call->out, 1);
    else
        tr_resp_put_simple(call->out, "OK");
}

void tr_resp_rename(struct tr_resp_call *call)
{
    rename_key(call, false);
}

void tr_resp_renamenx(struct tr_resp_call *call)
{
    rename_key(call, true);
}

void tr_resp_copy(struct tr_resp_call *call)
{
    struct tr_key_result from;
    struct tr_key_result to;
    struct tr_key_command read = {.verb = TR_KEY_READ, .key = call->arguments[2]};
    bool replaces = false;
    if (!tr_resp_is_on_one_node(call))
        return;
    for (uint32_t i = 3; i < call->count; i++) {
        int64_t number = 0;
        bool is_base = tr_resp_is(call->arguments[i], "db") && i + 1 < call->count;
        if (tr_resp_is(call->arguments[i], "replace")) {
            replaces = true;
        } else if (is_base && !tr_integer_read(call->arguments[++i], &number)) {
            tr_resp_put_error(call->out, TR_RESP_NOT_INTEGER);
            return;
        } else if (is_base && (number > INT32_MAX || number < INT32_MIN)) {
            tr_resp_put_error(call->out, TR_RESP_NOT_INT);
            return;
        } else if (!is_base || number != 0) {
            tr_resp_put_error(call->out, is_base ? "ERR DB index is out of range" : TR_RESP_SYNTAX);
            return;
        }
    }
    if (tr_span_equals(call->arguments[1], call->arguments[2])) {
        tr_resp_put_error(call->out, "ERR source and destination objects are the same");
        return;
    }
    tr_node_key(call->daemon->node, &read, &to);
    if (!tr_resp_settle(call, &to) || !read_from(call, &from))
        return;
    if (!from.was_there || (to.was_there && !replaces))
        tr_resp_put_integer(call->out, 0);
    else if (copy(call, &from, false))
        tr_resp_put_integer(call->out, 1);
}

/* ---- numbers with a point ---- */

/* As Redis reads one: all of the text, no space before it, neither infinite nor no number. */
static bool read_float(struct tr_span text, long double *number)
{
    char copy[FLOAT_MAX];
    char *end = NULL;
    if (text.size == 0 || text.size >= sizeof copy || text.text[0] == ' ' ||
        (text.text[0] >= '\t' && text.text[0] <= '\r'))
        return false;
    memcpy(copy, text.text, text.size);
    copy[text.size] = '\0';
    errno = 0;
    *number = strtold(copy, &end);
    bool is_beyond = errno == ERANGE && (isinf(*number) || *number == 0);
    return end == copy + text.size && !isnan(*number) && !is_beyond;
}

/* As Redis writes one for people: 17 digits behind the point, without the zeros at the end. */
static struct tr_span write_float(long double number, char text[FLOAT_MAX])
{
    int size = snprintf(text, FLOAT_MAX, "%.17Lf", number);
    if (size <= 0 || size >= FLOAT_MAX)
        return (struct tr_span){NULL, 0};
    if (memchr(text, '.', (size_t)size) != NULL) {
        while (text[size - 1] == '0')
            size--;
        size -= text[size - 1] == '.';
    }
    if (size == 2 && memcmp(text, "-0", 2) == 0)
        text[0] = '0', size = 1;
    return (struct tr_span){text, (size_t)size};
}

/* Adds to what is there. UNMET: somebody else has written meanwhile. False: it was refused, which
 * is said, or waits. */
static bool add_float(struct tr_resp_call *call, char text[FLOAT_MAX], struct tr_span *sum,
                      enum tr_key_outcome *outcome)
{
    struct tr_key_result result;
    long double number = 0;
    long double by = 0;
    if (!read_from(call, &result))
        return false;
    if ((result.was_there && !read_float(result.value, &number)) ||
        !read_float(call->arguments[2], &by)) {
        tr_resp_put_error(call->out, "ERR value is not a valid float");
        return false;
    }
    number += by;
    if (isnan(number) || isinf(number)) {
        tr_resp_put_error(call->out, "ERR increment would produce NaN or Infinity");
        return false;
    }
    *sum = write_float(number, text);
    struct tr_key_command command = {
        .verb = TR_KEY_SET,
        .only_if = TR_IF_VERSION,
        .version = result.version,
        .expiry = TR_EXPIRY_KEEP,
        .key = call->arguments[1],
        .value = *sum,
    };
    bool is_done = tr_resp_ask(call, &command, &result);
    *outcome = result.outcome;
    return is_done;
}

void tr_resp_incrbyfloat(struct tr_resp_call *call)
{
    char text[FLOAT_MAX];
    struct tr_span sum = {NULL, 0};
    enum tr_key_outcome outcome = TR_KEY_UNMET;
    for (unsigned i = 0; i < FLOAT_TRIES && outcome == TR_KEY_UNMET; i++) {
        if (!add_float(call, text, &sum, &outcome))
            return;
    }
    if (outcome == TR_KEY_UNMET)
        tr_resp_put_error(call->out, "UNAVAILABLE this key is written by too many at once");
    else
        tr_resp_put_bulk(call->out, sum);
}
