/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timers of a backup. Every node that answers is asked for all that it holds: all of them walk
 * through theirs in one order, so that the copies of a timer come up together, and the newest of
 * them is kept.
 */
#include "base/hash.h"
#include "cli/backup.h"
#include "cli/channel.h"
#include "cli/credentials.h"
#include "wire/json.h"
#include "wire/timer_id.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND "backup"
#define TRIES   100 /* to ask a node that is starting */
#define CURSOR  40

struct timer {
    uint64_t hash; /* of its id: the order of pages */
    uint64_t version;
    uint64_t node;
    uint64_t sequence;
    struct tr_span id;
    struct tr_span json;
};

/* What a node holds, a page at a time. */
struct source {
    struct tr_channel channel;
    char *page;    /* as it came */
    char *scratch; /* as it is parsed, which changes it */
    struct timer *timers;
    size_t count;
    size_t cap;
    size_t at;
    char cursor[CURSOR];
    bool is_over;
};

static uint64_t whole(struct tr_span text, int base)
{
    char digits[24] = {0};
    memcpy(digits, text.text, text.size < sizeof digits - 1 ? text.size : sizeof digits - 1);
    return strtoull(digits, NULL, base);
}

static bool parse_past(struct tr_json *json, struct timer *timer)
{
    enum tr_json_token token;
    if (tr_json_next(json) != TR_JSON_OBJECT)
        return false;
    while ((token = tr_json_next(json)) == TR_JSON_KEY) {
        struct tr_span name = json->text;
        token = tr_json_next(json);
        if (tr_span_equals(name, TR_SPAN("version")) && token == TR_JSON_STRING)
            timer->version = whole(json->text, 16);
        else if (tr_span_equals(name, TR_SPAN("node")) && token == TR_JSON_NUMBER)
            timer->node = whole(json->text, 10);
        else if (tr_span_equals(name, TR_SPAN("sequence")) && token == TR_JSON_NUMBER)
            timer->sequence = whole(json->text, 10);
    }
    return token == TR_JSON_OBJECT_END;
}

/* One timer, whose object has begun. */
static bool parse_timer(struct tr_json *json, const struct source *source, struct timer *timer)
{
    struct tr_timer_text text;
    enum tr_json_token token;
    size_t start = tr_json_offset(json) - 1;
    *timer = (struct timer){0};
    while ((token = tr_json_next(json)) == TR_JSON_KEY) {
        bool is_read;
        if (tr_span_equals(json->text, TR_SPAN("restore"))) {
            is_read = parse_past(json, timer);
        } else if (tr_span_equals(json->text, TR_SPAN("id"))) {
            is_read =
                tr_json_next(json) == TR_JSON_STRING && tr_timer_text_parse(json->text, &text);
            timer->id = json->text;
            timer->hash = is_read ? tr_hash_mix(text.id) : 0;
        } else {
            is_read = tr_json_skip(json, tr_json_next(json));
        }
        if (!is_read)
            return false;
    }
    timer->json = (struct tr_span){source->page + start, tr_json_offset(json) - start};
    return token == TR_JSON_OBJECT_END && timer->id.text != NULL && timer->version > 0;
}

static bool parse_page(struct source *source, size_t size)
{
    struct tr_json json;
    enum tr_json_token token;
    bool is_good = true;
    source->count = source->at = 0;
    source->is_over = true;
    tr_json_init(&json, source->scratch, size);
    if (tr_json_next(&json) != TR_JSON_OBJECT)
        return false;
    while (is_good && (token = tr_json_next(&json)) == TR_JSON_KEY) {
        if (tr_span_equals(json.text, TR_SPAN("cursor"))) {
            is_good = tr_json_next(&json) == TR_JSON_STRING && json.text.size < CURSOR;
            source->is_over = !is_good;
            if (is_good)
                snprintf(source->cursor, CURSOR, "%.*s", (int)json.text.size, json.text.text);
            continue;
        }
        is_good = tr_json_next(&json) == TR_JSON_ARRAY;
        while (is_good && (token = tr_json_next(&json)) == TR_JSON_OBJECT) {
            if (source->count == source->cap) {
                source->cap = 2 * source->cap + 64;
                source->timers =
                    tr_reallocate(source->timers, source->cap, sizeof source->timers[0]);
            }
            is_good = parse_timer(&json, source, &source->timers[source->count++]);
        }
        is_good = is_good && token == TR_JSON_ARRAY_END;
    }
    return is_good && token == TR_JSON_OBJECT_END;
}

/* The next page of a node that has more. False: it has said why not. */
static bool fetch(struct source *source)
{
    char request[1024];
    unsigned status = 0;
    struct tr_span body;
    for (unsigned tries = 0;; tries++) {
        int size = snprintf(
            request, sizeof request,
            "GET /timers?scope=held&limit=1000%s%s HTTP/1.1\r\nHost: node\r\n%s\r\n",
            source->cursor[0] != '\0' ? "&cursor=" : "", source->cursor, tr_credentials_header());
        tr_channel_put(&source->channel, request, (size_t)size);
        if (!tr_channel_send(&source->channel) ||
            !tr_channel_answer(&source->channel, &status, &body))
            return false;
        if (status != 503 || tries == TRIES)
            break;
        tr_backup_pause();
    }
    if (status != 200) {
        tr_failure(COMMAND, "%s answers %u for its timers", source->channel.address, status);
        return false;
    }
    source->page = tr_reallocate(source->page, body.size + 1, 1);
    source->scratch = tr_reallocate(source->scratch, body.size + 1, 1);
    memcpy(source->page, body.text, body.size);
    memcpy(source->scratch, body.text, body.size);
    if (parse_page(source, body.size))
        return true;
    tr_failure(COMMAND, "%s lists its timers in a way that is not understood",
               source->channel.address);
    return false;
}

static bool is_newer(const struct timer *a, const struct timer *b)
{
    if (a->version != b->version)
        return a->version > b->version;
    return a->node != b->node ? a->node > b->node : a->sequence > b->sequence;
}

/* The newest of the copies of the timer that comes next; NULL: there is none. */
static const struct timer *find_next(const struct source *sources, size_t count)
{
    const struct timer *next = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct source *source = &sources[i];
        const struct timer *timer = source->at < source->count ? &source->timers[source->at] : NULL;
        if (timer != NULL && (next == NULL || timer->hash < next->hash ||
                              (timer->hash == next->hash && is_newer(timer, next))))
            next = timer;
    }
    return next;
}

static bool merge(struct tr_backup_out *out, struct source *sources, size_t count, uint64_t all)
{
    for (;;) {
        for (size_t i = 0; i < count; i++) {
            while (sources[i].at == sources[i].count && !sources[i].is_over) {
                if (!fetch(&sources[i]))
                    return false;
            }
        }
        const struct timer *next = find_next(sources, count);
        if (next == NULL)
            return tr_backup_flush(out, true);
        tr_backup_put_timer(out, next->id, next->json);
        uint64_t hash = next->hash;
        for (size_t i = 0; i < count; i++) {
            struct source *source = &sources[i];
            source->at += source->at < source->count && source->timers[source->at].hash == hash;
        }
        if (!tr_backup_flush(out, false))
            return false;
        tr_backup_progress("timers", out->counts.timers, all, false);
    }
}

bool tr_backup_put_timers(struct tr_backup_out *out, const struct tr_cluster_members *members)
{
    struct source *sources = tr_allocate(members->count, sizeof *sources);
    size_t count = 0;
    uint64_t all = 0;
    bool is_good = true;
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_cluster_member *member = &members->list[i];
        if (!member->told.is_reached)
            continue;
        is_good = is_good && tr_channel_open(&sources[count++].channel, COMMAND, member->address);
        all = member->told.held > all ? member->told.held : all;
    }
    is_good = is_good && merge(out, sources, count, all);
    tr_backup_progress("timers", 0, 0, true);
    for (size_t i = 0; i < count; i++) {
        tr_channel_close(&sources[i].channel);
        free(sources[i].page);
        free(sources[i].scratch);
        free(sources[i].timers);
    }
    free(sources);
    return is_good;
}
