/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timer_show.h"

#include "cli/facts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SORTED_MAX  20000 /* of more than these nobody reads all */
#define CELL_MAX    64
#define URI_MAX     200
#define TEXT_SHOWN  2000
#define LABEL_WIDTH 13

/* ---- words ---- */

/* `2d 3h`, `15m 4s`, `250ms`: the two largest units. */
static void write_duration(char *out, size_t size, uint64_t ms)
{
    static const struct {
        uint64_t ms;
        const char *unit;
    } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (ms < units[i].ms)
            continue;
        uint64_t rest = i < 3 ? ms % units[i].ms / units[i + 1].ms : 0;
        int at = snprintf(out, size, "%" PRIu64 "%s", ms / units[i].ms, units[i].unit);
        if (rest > 0)
            snprintf(out + at, size - (size_t)at, " %" PRIu64 "%s", rest, units[i + 1].unit);
        return;
    }
    snprintf(out, size, "%" PRIu64 "ms", ms);
}

/* Bytes that would talk to the terminal do not reach it. */
static void print_text(struct tr_span text, size_t most)
{
    for (size_t i = 0; i < text.size && i < most; i++) {
        unsigned char byte = (unsigned char)text.text[i];
        if (byte == '\n')
            printf("\n%-*s", LABEL_WIDTH, "");
        else
            putchar(byte < 0x20 || byte == 0x7f ? '?' : byte);
    }
    if (text.size > most)
        printf(" ... and %zu bytes more", text.size - most);
}

static void print_label(const char *label)
{
    printf("%-*s", LABEL_WIDTH, label);
}

static void print_one(const struct tr_facts *facts, const char *label, const char *path)
{
    struct tr_span value = tr_fact_value(facts, path);
    if (value.size == 0)
        return;
    print_label(label);
    print_text(value, TEXT_SHOWN);
    putchar('\n');
}

/* All values of one path, from the `from`th on. */
static void print_all(const struct tr_facts *facts, const char *label, const char *path,
                      unsigned from)
{
    const char *before = label;
    unsigned seen = 0;
    for (unsigned i = 0; i < facts->count; i++) {
        if (strcmp(facts->list[i].path, path) != 0 || seen++ < from)
            continue;
        if (before == label)
            print_label(label);
        else
            fputs(", ", stdout);
        before = NULL;
        print_text(facts->list[i].value, URI_MAX);
    }
    if (before == NULL)
        putchar('\n');
}

/* ---- one timer ---- */

static void print_schedule(const struct tr_facts *facts)
{
    static const struct {
        const char *path;
        const char *words;
        const char *unit;
    } parts[] = {
        {"timing.at", "at ", ""},
        {"timing.cron", "cron ", ""},
        {"timing.zone", "by the clocks of ", ""},
        {"timing.interval", "every ", " s"},
        {"timing.gap", "and then ", " s after each"},
        {"timing.repeat-for", "for ", " s"},
        {"timing.count", "", " times"},
        {"timing.until", "until ", ""},
        {"timing.jitter", "later by up to ", " s"},
        {"timing.missed", "of missed ones: ", ""},
        {"timing.overlap", "when one is under way: ", ""},
    };
    struct tr_span interval = tr_fact_value(facts, "timing.interval");
    struct tr_span repeats = tr_fact_value(facts, "timing.repeat-for");
    bool is_once = interval.size > 0 && tr_span_equals(interval, repeats);
    bool is_forever = tr_span_equals(repeats, TR_SPAN("forever"));
    const char *before = "";
    print_label("schedule");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct tr_span value = tr_fact_value(facts, parts[i].path);
        bool is_repeat = strcmp(parts[i].path, "timing.repeat-for") == 0;
        bool is_interval = strcmp(parts[i].path, "timing.interval") == 0;
        if (value.size == 0 || (is_repeat && is_once))
            continue;
        printf("%s%s", before, is_interval && is_once ? "once, after " : parts[i].words);
        print_text(value, URI_MAX);
        fputs(is_repeat && is_forever ? "" : parts[i].unit, stdout);
        before = ", ";
    }
    putchar('\n');
}

static void print_next(const struct tr_facts *facts)
{
    char in[CELL_MAX];
    bool is_dead = tr_fact_find(facts, "forgotten-at") != NULL;
    struct tr_span at = tr_fact_value(facts, is_dead ? "forgotten-at" : "next-pop");
    write_duration(in, sizeof in,
                   tr_fact_number(facts, is_dead ? "forgotten-in-ms" : "next-pop-in-ms"));
    print_label(is_dead ? "kept until" : "next pop");
    printf("%.*s, in %s, number ", (int)at.size, at.text, in);
    print_text(tr_fact_value(facts, "sequence-number"), CELL_MAX);
    if (tr_fact_number(facts, "attempts") > 0)
        printf(", after %" PRIu64 " attempt%s", tr_fact_number(facts, "attempts"),
               tr_fact_number(facts, "attempts") == 1 ? "" : "s");
    putchar('\n');
    if (!is_dead)
        print_all(facts, "and then", "next-pops", 1);
}

static void print_attempt(const struct tr_facts *facts)
{
    if (tr_fact_find(facts, "last-attempt.at") == NULL)
        return;
    print_label("last attempt");
    print_text(tr_fact_value(facts, "last-attempt.at"), CELL_MAX);
    bool is_answered = tr_fact_find(facts, "last-attempt.status") != NULL;
    fputs(is_answered ? ": HTTP status " : ": ", stdout);
    print_text(tr_fact_value(facts, is_answered ? "last-attempt.status" : "last-attempt.error"),
               URI_MAX);
    printf(", after %" PRIu64 " ms, by ", tr_fact_number(facts, "last-attempt.duration-ms"));
    print_text(tr_fact_value(facts, "last-attempt.node"), URI_MAX);
    putchar('\n');
}

static void print_call(const struct tr_facts *facts)
{
    static const char headers[] = "callback.http.headers.";
    struct tr_span method = tr_fact_value(facts, "callback.http.method");
    print_label("calls");
    print_text(method.size > 0 ? method : TR_SPAN("POST"), CELL_MAX);
    putchar(' ');
    print_text(tr_fact_value(facts, "callback.http.uri"), TEXT_SHOWN);
    putchar('\n');
    for (unsigned i = 0; i < facts->count; i++) {
        const struct tr_fact *fact = &facts->list[i];
        if (strncmp(fact->path, headers, sizeof headers - 1) != 0)
            continue;
        print_label("header");
        printf("%s: ", fact->path + sizeof headers - 1);
        print_text(fact->value, URI_MAX);
        putchar('\n');
    }
    print_one(facts, "text", "callback.http.opaque");
    print_one(facts, "content type", "callback.http.content-type");
}

void tr_timer_show(struct tr_reply *reply)
{
    struct tr_json json;
    struct tr_facts *facts = tr_allocate(1, sizeof *facts);
    tr_json_init(&json, (char *)(uintptr_t)reply->body.text, reply->body.size);
    if (tr_json_next(&json) == TR_JSON_OBJECT)
        tr_facts_read(&json, facts);
    print_one(facts, "id", "id");
    print_one(facts, "name", "name");
    print_one(facts, "state", "state");
    print_schedule(facts);
    print_next(facts);
    print_call(facts);
    print_attempt(facts);
    print_all(facts, "tags", "statistics.tag-info.type", 0);
    print_all(facts, "nodes", "replicas", 0);
    print_all(facts, "moving from", "moving-from", 0);
    print_one(facts, "version", "version");
    free(facts);
}

/* ---- many ---- */

struct tr_timer_row {
    uint64_t in_ms;
    char id[CELL_MAX];
    char state[16];
    char at[32];
    char name[CELL_MAX];
    char tag[CELL_MAX];
    char uri[URI_MAX];
    char why[CELL_MAX]; /* of a dead one */
};

static void keep(char *out, size_t size, struct tr_span text)
{
    size_t count = text.size < size ? text.size : size - 1;
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)text.text[i];
        out[i] = text.text[i];
        if (byte < 0x20 || byte == 0x7f)
            out[i] = '?';
    }
    out[count] = '\0';
}

/* What the last attempt came to: a status, or what was wrong. */
static struct tr_span why(const struct tr_facts *facts)
{
    struct tr_span status = tr_fact_value(facts, "last-attempt.status");
    struct tr_span error = tr_fact_value(facts, "last-attempt.error");
    return status.size > 0 ? status : error.size > 0 ? error : TR_SPAN("-");
}

static void fill_row(struct tr_timer_row *row, const struct tr_facts *facts, bool is_dead)
{
    struct tr_span name = tr_fact_value(facts, "name");
    struct tr_span tag = tr_fact_value(facts, "statistics.tag-info.type");
    row->in_ms = tr_fact_number(facts, is_dead ? "forgotten-in-ms" : "next-pop-in-ms");
    keep(row->id, sizeof row->id, tr_fact_value(facts, "id"));
    keep(row->state, sizeof row->state, tr_fact_value(facts, "state"));
    keep(row->at, sizeof row->at, tr_fact_value(facts, is_dead ? "forgotten-at" : "next-pop"));
    keep(row->name, sizeof row->name, name.size > 0 ? name : TR_SPAN("-"));
    keep(row->tag, sizeof row->tag, tag.size > 0 ? tag : TR_SPAN("-"));
    keep(row->uri, sizeof row->uri, tr_fact_value(facts, "callback.http.uri"));
    keep(row->why, sizeof row->why, is_dead ? why(facts) : TR_SPAN(""));
}

static int by_due(const void *a, const void *b)
{
    const struct tr_timer_row *x = a;
    const struct tr_timer_row *y = b;
    int order = (x->in_ms > y->in_ms) - (x->in_ms < y->in_ms);
    return order != 0 ? order : strcmp(x->id, y->id);
}

static size_t wider(size_t width, const char *text)
{
    size_t size = strlen(text);
    return size > width ? size : width;
}

static void print_rows(struct tr_timer_rows *rows)
{
    size_t name = 4;
    size_t tag = 3;
    size_t uri = 3;
    for (size_t i = 0; i < rows->count; i++) {
        name = wider(name, rows->list[i].name);
        tag = wider(tag, rows->list[i].tag);
        uri = wider(uri, rows->list[i].uri);
    }
    if (!rows->are_many)
        qsort(rows->list, rows->count, sizeof rows->list[0], by_due);
    printf("%-35s  %-8s  %-24s  %-9s  %-*s  %-*s  %-*s%s\n", "ID", "STATE",
           rows->are_dead ? "KEPT UNTIL" : "NEXT POP", "IN", (int)name, "NAME", (int)tag, "TAG",
           rows->are_dead ? (int)uri : 0, "URI", rows->are_dead ? "  WHY" : "");
    for (size_t i = 0; i < rows->count; i++) {
        const struct tr_timer_row *row = &rows->list[i];
        char in[CELL_MAX];
        write_duration(in, sizeof in, row->in_ms);
        printf("%-35s  %-8s  %-24s  %-9s  %-*s  %-*s  %-*s%s%s\n", row->id, row->state, row->at, in,
               (int)name, row->name, (int)tag, row->tag, rows->are_dead ? (int)uri : 0, row->uri,
               rows->are_dead ? "  " : "", row->why);
    }
    rows->count = 0;
}

static struct tr_timer_row *add_row(struct tr_timer_rows *rows)
{
    if (rows->count == rows->cap) {
        rows->cap = rows->cap * 2 + 256;
        rows->list = tr_reallocate(rows->list, rows->cap, sizeof rows->list[0]);
    }
    return &rows->list[rows->count++];
}

bool tr_timer_rows_take(struct tr_timer_rows *rows, struct tr_reply *page,
                        char cursor[TR_CURSOR_MAX + 1])
{
    struct tr_json json;
    struct tr_facts *facts = tr_allocate(1, sizeof *facts);
    enum tr_json_token token;
    cursor[0] = '\0';
    tr_json_init(&json, (char *)(uintptr_t)page->body.text, page->body.size);
    while ((token = tr_json_next(&json)) != TR_JSON_END && token != TR_JSON_BAD) {
        if (token == TR_JSON_OBJECT && json.depth == 3) {
            tr_facts_read(&json, facts);
            fill_row(add_row(rows), facts, rows->are_dead);
        } else if (token == TR_JSON_KEY && tr_span_equals(json.text, TR_SPAN("cursor")) &&
                   tr_json_next(&json) == TR_JSON_STRING && json.text.size <= TR_CURSOR_MAX) {
            memcpy(cursor, json.text.text, json.text.size);
            cursor[json.text.size] = '\0';
        }
    }
    free(facts);
    rows->are_many |= rows->count > SORTED_MAX && cursor[0] != '\0';
    if (rows->are_many)
        print_rows(rows);
    return cursor[0] != '\0';
}

void tr_timer_rows_end(struct tr_timer_rows *rows)
{
    if (rows->count > 0 || !rows->are_many)
        print_rows(rows);
    free(rows->list);
    if (rows->are_many)
        fprintf(stderr, "tryst timer: these are more than %u, and in no order\n", SORTED_MAX);
}
