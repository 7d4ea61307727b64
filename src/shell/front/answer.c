/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/answer.h"

#include "shell/cluster.h"
#include "shell/front/show.h"
#include "shell/front/words.h"
#include "timers/book.h"
#include "wire/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEAD_MAX    2048
#define BODY_FIRST  4096
#define METRICS_MAX ((size_t)1 << 20)
#define PAGE_MAX    ((size_t)1 << 20) /* bytes of a page; one timer may pass it */

static void put_header(struct tr_writer *out, const char *name, const char *value)
{
    if (value == NULL)
        return;
    tr_put_text(out, name);
    tr_put_text(out, ": ");
    tr_put_text(out, value);
    tr_put_text(out, "\r\n");
}

void tr_answer_reserve(struct tr_writer *writer, size_t size)
{
    size_t wanted = writer->size + size;
    if (writer->cap >= wanted)
        return;
    size_t cap = writer->cap * 2 > wanted ? writer->cap * 2 : wanted;
    uint8_t *larger = realloc(writer->bytes, cap);
    if (larger == NULL)
        abort();
    writer->bytes = larger;
    writer->cap = cap;
}

static void reset(struct tr_answer *answer, unsigned status, const char *content_type)
{
    answer->status = status;
    answer->content_type = content_type;
    answer->allow = NULL;
    answer->upgrade = NULL;
    answer->headers = NULL;
    answer->retry_after_s = 0;
    answer->has_location = false;
    answer->is_replayed = false;
    answer->etag[0] = '\0';
    answer->has_range = false;
    answer->has_cursor = false;
    answer->body.size = 0;
    answer->body.is_full = false;
    if (content_type != NULL)
        tr_answer_reserve(&answer->body, BODY_FIRST);
}

void tr_answer_problem(struct tr_answer *answer, const struct tr_problem *problem,
                       const char *allow)
{
    reset(answer, problem->status, "application/problem+json");
    answer->allow = allow;
    answer->retry_after_s = problem->retry_after_s;
    tr_put_problem(&answer->body, problem);
}

void tr_answer_cluster(struct tr_answer *answer, struct tr_daemon *daemon)
{
    struct tr_event now = {.kind = TR_EVENT_TICK, .has_more = true};
    tr_daemon_step(daemon, &now); /* before: it may have answers of its own, which are made here */
    reset(answer, 200, "application/json");
    tr_answer_reserve(&answer->body, TR_CLUSTER_TEXT_MAX);
    tr_cluster_describe(daemon, &answer->body);
}

void tr_answer_json(struct tr_answer *answer, struct tr_span body, struct tr_span end)
{
    reset(answer, 200, "application/json");
    tr_answer_reserve(&answer->body, body.size + end.size);
    tr_put_bytes(&answer->body, body.text, body.size);
    tr_put_bytes(&answer->body, end.text, end.size);
}

void tr_answer_upgrade(struct tr_answer *answer)
{
    struct tr_problem problem;
    tr_problem_set(&problem, 426, "here nodes of the cluster talk to each other, after an upgrade",
                   NULL);
    tr_answer_problem(answer, &problem, NULL);
    answer->upgrade = "tryst-peer";
}

void tr_answer_status(struct tr_answer *answer, unsigned status)
{
    reset(answer, status, NULL);
}

void tr_answer_not_modified(struct tr_answer *answer)
{
    char etag[TR_ETAG_MAX];
    memcpy(etag, answer->etag, sizeof etag);
    reset(answer, 304, NULL);
    memcpy(answer->etag, etag, sizeof etag);
}

void tr_answer_file(struct tr_answer *answer, const char *content_type, const void *bytes,
                    size_t size)
{
    reset(answer, 200, content_type);
    tr_answer_reserve(&answer->body, size);
    tr_put_bytes(&answer->body, bytes, size);
}

void tr_answer_text(struct tr_answer *answer, unsigned status, const char *text)
{
    reset(answer, status, "text/plain");
    tr_put_text(&answer->body, text);
}

static void put_page(struct tr_answer *answer, const struct tr_node *node,
                     const struct tr_effect *effect)
{
    struct tr_writer *out = &answer->body;
    bool is_resync = effect->of.page.is_resync;
    uint32_t put = 0;
    bool has_more = effect->of.page.has_more;
    uint64_t cursor = effect->of.page.cursor;
    tr_timer_id last = 0;
    tr_put_text(out, is_resync ? "{\"Timers\":[" : "{\"timers\":[");
    for (uint32_t i = 0; i < effect->of.page.count; i++) {
        struct tr_record record;
        tr_node_record(node, effect->of.page.refs[i], &record);
        if (out->size > PAGE_MAX && record.head.key.id != last) {
            has_more = true;
            cursor = tr_book_hash(last);
            break;
        }
        last = record.head.key.id;
        tr_answer_reserve(out, tr_show_bound(node, effect->of.page.refs[i]));
        if (i > 0)
            tr_put_text(out, ",");
        if (is_resync)
            tr_show_resync(out, node, effect->of.page.refs[i]);
        else
            tr_show_timer(out, node, effect->of.page.refs[i],
                          effect->of.page.is_held ? TR_SHOW_HELD : TR_SHOW_LISTED);
        put++;
    }
    if (is_resync) {
        answer->status = has_more ? 206 : 200;
        answer->has_range = true;
        answer->range = put;
        answer->has_cursor = has_more;
        answer->cursor = cursor;
        has_more = false; /* it stands in a header */
    }
    tr_answer_reserve(out, 64);
    tr_put_text(out, "]");
    if (has_more) {
        tr_put_text(out, ",\"cursor\":\"");
        tr_put_hex(out, cursor, 16);
        tr_put_text(out, "\"");
    }
    tr_put_text(out, "}\n");
}

static void answer_result(struct tr_answer *answer, const struct tr_node *node,
                          enum tr_result result)
{
    struct tr_problem problem;
    struct tr_words words = tr_words_of(result);
    if (words.detail == NULL) {
        reset(answer, words.status, NULL);
        return;
    }
    tr_words_problem(&problem, node, result);
    tr_answer_problem(answer, &problem, NULL);
}

static void answer_timer(struct tr_answer *answer, const struct tr_node *node, uint32_t ref,
                         uint8_t wants)
{
    struct tr_record record;
    reset(answer, 200, "application/json");
    tr_answer_reserve(&answer->body, tr_show_bound(node, ref));
    tr_show_timer(&answer->body, node, ref, (wants & TR_WANT_NOW) != 0 ? TR_SHOW_NOW : TR_SHOW_ONE);
    tr_put_text(&answer->body, "\n");
    if ((wants & TR_WANT_NOW) == 0)
        tr_show_etag(node, ref, answer->etag);
    if ((wants & TR_WANT_TIMER) == 0)
        return;
    tr_node_record(node, ref, &record);
    answer->has_location = true;
    answer->location = tr_node_text(node, record.head.key.id, record.head.factor);
}

void tr_answer_from_effect(struct tr_answer *answer, const struct tr_node *node,
                           const struct tr_effect *effect, uint8_t wants)
{
    if (effect->kind == TR_EFFECT_ANSWER_TIMER) {
        answer_timer(answer, node, effect->of.timer.ref, wants);
    } else if (effect->kind == TR_EFFECT_ANSWER_PAGE) {
        reset(answer, 200, "application/json");
        put_page(answer, node, effect);
    } else {
        answer_result(answer, node, effect->of.answer.result);
    }
    if (effect->kind == TR_EFFECT_ANSWER)
        answer->is_replayed = effect->of.answer.is_replayed;
    if (effect->kind == TR_EFFECT_ANSWER && effect->of.answer.has_location) {
        answer->has_location = true; /* also where the outcome is not known: to try again there */
        answer->location = effect->of.answer.location;
    }
}

/* Why new timers are not taken, and what to do; NULL: they are. */
static const char *find_hindrance(const struct tr_node_stats *stats)
{
    if (stats->is_guest)
        return "the node is no member of the cluster: take it in, or stop it";
    if (!stats->is_serving)
        return "the node is starting or stopping";
    if (stats->is_ahead)
        return "its clock is more than 5 s ahead of the others': it takes no writes until that is "
               "set right";
    if (stats->is_log_full)
        return "the disk is full, and so is the log: nothing is written and pops wait; free some "
               "space and it heals by itself";
    if (stats->is_disk_full)
        return "the disk is full: new timers are refused with 507, pops and cancellations go on; "
               "free some space and it heals by itself";
    if (stats->memory_room == 0)
        return "the memory budget is used up: new timers are refused; raise [storage] "
               "memory-budget";
    return NULL;
}

void tr_answer_health(struct tr_answer *answer, const struct tr_node *node,
                      const struct tr_metrics *metrics, const struct tr_config *config)
{
    struct tr_node_stats stats;
    tr_node_stats(node, &stats);
    const char *hindrance = metrics == NULL ? NULL : find_hindrance(&stats);
    reset(answer, hindrance == NULL ? 200 : 503, "application/json");
    struct tr_writer *out = &answer->body;
    tr_put_text(out, hindrance == NULL ? "{\"status\":\"ok\"" : "{\"status\":\"unavailable\"");
    if (hindrance != NULL) {
        tr_put_text(out, ",\"reason\":\"");
        tr_put_text(out, hindrance);
        tr_put_text(out, "\"");
    }
    if (metrics != NULL && stats.is_disk_full)
        tr_put_text(out, ",\"disk\":\"full\"");
    if (metrics != NULL && metrics->config_faults > 0)
        tr_put_text(out, ",\"config\":\"the last reload had faults; the one before is in force\"");
    if (metrics != NULL && tr_node_is_behind(node))
        tr_put_text(
            out, ",\"change\":\"what the configuration asks for waits: a member is down or of an "
                 "older version, another change is under way, or nobody would stay\"");
    if (metrics != NULL && metrics->changes_still > 0)
        tr_put_text(out,
                    ",\"change-still\":\"a change of the cluster has stood still for a minute: "
                    "GET /cluster says whom it waits for\"");
    if (metrics != NULL && metrics->has_test_clock)
        tr_put_text(out, ",\"clock\":\"--test-clock: time goes on when a test moves it\"");
    if (metrics != NULL && tr_config_is_open(config, tr_node_roster(node)->count))
        tr_put_text(out, ",\"cluster\":\"serves beyond loopback without a secret\"");
    if (metrics != NULL && tr_config_has_no_tokens(config))
        tr_put_text(out, ",\"tokens\":\"serves beyond loopback without [auth] tokens-file\"");
    tr_put_text(out, "}\n");
}

void tr_answer_metrics(struct tr_answer *answer, const struct tr_node *node,
                       const struct tr_metrics *metrics)
{
    reset(answer, 200, "text/plain; version=0.0.4; charset=utf-8");
    tr_answer_reserve(&answer->body, METRICS_MAX);
    tr_metrics_put(&answer->body, metrics, node);
}

/* RFC 9110 wants a date; it is written once a second. */
static void put_date(struct tr_answer *answer, struct tr_writer *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if ((uint64_t)now.tv_sec != answer->date_s) {
        struct tm at;
        gmtime_r(&now.tv_sec, &at);
        strftime(answer->date, sizeof answer->date, "%a, %d %b %Y %H:%M:%S GMT", &at);
        answer->date_s = (uint64_t)now.tv_sec;
    }
    tr_put_text(out, "Date: ");
    tr_put_bytes(out, answer->date, 29);
    tr_put_text(out, "\r\n");
}

struct tr_span tr_answer_render(struct tr_answer *answer)
{
    struct tr_writer *out = &answer->bytes;
    out->size = 0;
    tr_answer_reserve(out, HEAD_MAX + answer->body.size);
    tr_put_text(out, "HTTP/1.1 ");
    tr_put_decimal(out, answer->status);
    tr_put_text(out, " ");
    tr_put_text(out, tr_status_phrase(answer->status));
    tr_put_text(out, "\r\n");
    put_date(answer, out);
    if (answer->etag[0] != '\0')
        put_header(out, "ETag", answer->etag);
    if (answer->is_replayed)
        put_header(out, "Idempotent-Replayed", "true");
    if (answer->has_location) {
        tr_put_text(out, "Location: /timers/");
        tr_put_timer_text(out, &answer->location);
        tr_put_text(out, "\r\n");
    }
    put_header(out, "Content-Type", answer->content_type);
    put_header(out, "Allow", answer->allow);
    put_header(out, "Upgrade", answer->upgrade);
    if (answer->headers != NULL)
        tr_put_text(out, answer->headers);
    if (answer->has_range) {
        tr_put_text(out, "Content-Range: ");
        tr_put_decimal(out, answer->range);
        tr_put_text(out, "\r\n");
    }
    if (answer->has_cursor) {
        tr_put_text(out, "X-Tryst-Cursor: ");
        tr_put_hex(out, answer->cursor, 16);
        tr_put_text(out, "\r\n");
    }
    if (answer->retry_after_s > 0) {
        tr_put_text(out, "Retry-After: ");
        tr_put_decimal(out, answer->retry_after_s);
        tr_put_text(out, "\r\n");
    }
    tr_put_text(out, "Content-Length: ");
    tr_put_decimal(out, answer->body.size);
    tr_put_text(out, answer->closes ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n");
    if (!answer->is_head)
        tr_put_bytes(out, answer->body.bytes, answer->body.size);
    return (struct tr_span){(const char *)out->bytes, out->size};
}
