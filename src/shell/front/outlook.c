/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/outlook.h"

#include "shell/front/connection.h"
#include "shell/front/gather.h"
#include "shell/front/render.h"
#include "shell/front/tour.h"
#include "wire/hex.h"
#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_MS     60000u
#define AGE_MS        1000    /* younger counts are told again in any case, */
#define AGE_TIMES     400     /* and so are those that are as many times younger than they took, */
#define AGE_MOST_MS   180000u /* up to here */
#define LIST_MAX      ((size_t)1 << 20)
#define PLACE_SIZE    48 /* hexadecimal digits */
#define LINE_SIZE     8192
#define OUTLOOKS_MOST 128 /* under way, or to come */
#define NODES_MOST    256 /* bodies that are kept until all are there */

/* A timer of a list, and where it stands. */
struct piece {
    struct tr_next at;
    struct tr_span text;
};

struct tr_outlook {
    struct tr_tour tour;
    struct tr_outlook *next;
    bool is_list;
    bool asks_others;
    uint64_t cursor;
    struct tr_query query;
    struct tr_api_request route; /* its spans are the query's */
    char line[LINE_SIZE];
    struct tr_ahead ahead;
    uint64_t took_us;
    /* Of a list. */
    struct tr_nexts *nexts;
    char *bodies[NODES_MOST]; /* this node's first */
    uint32_t body_count;
    struct piece *pieces;
    size_t piece_count;
    size_t piece_cap;
    bool has_more;
    bool has_bound; /* one node's page ended here: */
    struct tr_next bound;
};

static void free_outlook(struct tr_outlook *outlook)
{
    outlook->tour.server->outlook_count--;
    free(outlook->nexts);
    for (uint32_t i = 0; i < outlook->body_count; i++)
        free(outlook->bodies[i]);
    free(outlook->pieces);
    free(outlook);
}

static struct tr_outlook *begin(struct tr_connection *connection, uint16_t number)
{
    struct tr_server *server = connection->server;
    struct tr_node_stats stats;
    struct tr_outlook *outlook = calloc(1, sizeof *outlook);
    tr_node_stats(server->daemon->node, &stats);
    bool is_full = server->outlook_count >= OUTLOOKS_MOST;
    if (outlook == NULL || is_full || !stats.is_serving) {
        free(outlook);
        tr_render_problem(connection, number, 503,
                          is_full ? "too many look at what is ahead at once"
                                  : "the node is starting or stopping");
        return NULL;
    }
    server->outlook_count++;
    tr_tour_init(&outlook->tour, connection, number);
    tr_api_keep(&outlook->route, &server->route);
    outlook->query = outlook->route.query;
    outlook->query.narrow = &outlook->tour.rights.narrow;
    outlook->asks_others = server->route.wants_cluster && !tr_node_is_alone(server->daemon->node);
    return outlook;
}

static void refuse_unheard(struct tr_connection *connection, uint16_t number)
{
    tr_render_problem(connection, number, 503, "a node of the cluster did not answer, ask again");
}

/* ---- how many, and when ---- */

/* Its numbers stand in the order of the struct's. */
static void put_ahead(struct tr_writer *out, const struct tr_ahead *ahead)
{
    tr_put_text(out, "{\"from\":\"");
    tr_put_rfc3339(out, ahead->from_ms);
    tr_put_text(out, "\"");
    tr_put_count(out, "pending", ahead->pending);
    tr_put_count(out, "retrying", ahead->retrying);
    tr_put_count(out, "dead", ahead->dead);
    tr_put_count(out, "overdue", ahead->overdue);
    tr_put_counts(out, "minutes", ahead->minutes, TR_AHEAD_MINUTES);
    tr_put_counts(out, "hours", ahead->hours, TR_AHEAD_HOURS);
    tr_put_counts(out, "days", ahead->days, TR_AHEAD_DAYS);
    tr_put_count(out, "later", ahead->later);
}

static void finish_ahead(struct tr_tour *tour, struct tr_connection *connection)
{
    struct tr_outlook *outlook = (struct tr_outlook *)tour;
    uint8_t body[8192];
    struct tr_writer out = tr_writer_on(body, sizeof body);
    if (connection != NULL) {
        put_ahead(&out, &outlook->ahead);
        if (outlook->asks_others)
            tr_put_count(&out, "nodes-unheard", tour->unheard);
        tr_answer_json(&tour->server->answer, (struct tr_span){(const char *)body, out.size},
                       TR_SPAN("}\n"));
        tr_render(connection, tour->number);
    }
    free_outlook(outlook);
}

static void hear_ahead(struct tr_tour *tour, struct tr_span body)
{
    struct tr_outlook *outlook = (struct tr_outlook *)tour;
    uint64_t numbers[TR_AHEAD_COUNTS] = {0};
    uint64_t *counts = &outlook->ahead.pending;
    if (!tr_tour_numbers(body, numbers, TR_AHEAD_COUNTS)) {
        tour->unheard++;
        return;
    }
    for (size_t i = 0; i < TR_AHEAD_COUNTS; i++)
        counts[i] += numbers[i];
}

static void ask_others_ahead(struct tr_outlook *outlook)
{
    struct tr_writer out = tr_writer_on(outlook->line, sizeof outlook->line);
    tr_put_text(&out, "GET /timers/ahead?scope=node&from=");
    tr_put_rfc3339(&out, outlook->ahead.from_ms);
    outlook->tour.line = (struct tr_span){outlook->line, out.size};
    tr_tour_begin(&outlook->tour, outlook->asks_others);
}

/* Whether what was counted last is not too old to be told again. */
static bool is_fresh(const struct tr_server *server)
{
    const struct tr_counted *counted = &server->counted;
    uint64_t age_ms = uv_now(&server->daemon->loop) - counted->at_ms;
    return counted->at_ms > 0 && age_ms < AGE_MOST_MS &&
           (age_ms < AGE_MS || age_ms * 1000 < AGE_TIMES * counted->took_us);
}

/* It is of the same stretches of time, and of all timers. */
static bool is_known(const struct tr_server *server, const struct tr_outlook *outlook)
{
    return outlook->tour.rights.narrow.count == 0 && is_fresh(server) &&
           server->counted.ahead.from_ms == outlook->ahead.from_ms;
}

/* Unless it is asked for, from this minute on, or from the one in which it was counted last: a new
 * minute alone is no reason to count anew. */
static tr_wall_ms choose_from(const struct tr_server *server)
{
    tr_wall_ms now_ms = (server->daemon->now_us + server->daemon->wall_base_us) / 1000;
    tr_wall_ms wanted_ms = server->route.from_ms;
    tr_wall_ms counted_ms = server->counted.ahead.from_ms;
    if (wanted_ms == 0 && is_fresh(server) && counted_ms <= now_ms &&
        now_ms - counted_ms < MINUTE_MS + AGE_MOST_MS)
        return counted_ms;
    wanted_ms = wanted_ms > 0 ? wanted_ms : now_ms;
    return wanted_ms - wanted_ms % MINUTE_MS;
}

static void on_again(uv_timer_t *timer)
{
    (void)timer; /* the turn that follows goes on */
}

static void enqueue(struct tr_server *server, struct tr_outlook *outlook)
{
    struct tr_outlook **link = &server->outlooks;
    while (*link != NULL)
        link = &(*link)->next;
    *link = outlook;
    if (!uv_is_active((uv_handle_t *)&server->outlooks_again))
        uv_timer_start(&server->outlooks_again, on_again, 0, 0);
}

void tr_ahead_begin(struct tr_connection *connection, uint16_t number)
{
    struct tr_server *server = connection->server;
    struct tr_outlook *outlook = begin(connection, number);
    if (outlook == NULL)
        return;
    outlook->tour.hear = hear_ahead;
    outlook->tour.finish = finish_ahead;
    outlook->ahead.from_ms = choose_from(server);
    outlook->query.wants_any = true;
    enqueue(server, outlook);
}

/* ---- sorted lists ---- */

static void put_place(struct tr_writer *out, const struct tr_next *at)
{
    tr_put_hex(out, at->due_ms, 16);
    tr_put_hex(out, at->hash, 16);
    tr_put_hex(out, at->part, 16);
}

static bool read_place(struct tr_span text, struct tr_next *at)
{
    enum { DIGITS = PLACE_SIZE / 3 };
    return text.size >= PLACE_SIZE &&
           tr_hex_number((struct tr_span){text.text, DIGITS}, &at->due_ms) &&
           tr_hex_number((struct tr_span){text.text + DIGITS, DIGITS}, &at->hash) &&
           tr_hex_number((struct tr_span){text.text + (size_t)2 * DIGITS, DIGITS}, &at->part);
}

static void add_piece(struct tr_outlook *outlook, const struct tr_next *at, struct tr_span text)
{
    if (outlook->piece_count == outlook->piece_cap) {
        size_t cap = outlook->piece_cap > 0 ? 2 * outlook->piece_cap : 128;
        struct piece *larger = realloc(outlook->pieces, cap * sizeof *larger);
        if (larger == NULL)
            abort();
        outlook->pieces = larger;
        outlook->piece_cap = cap;
    }
    outlook->pieces[outlook->piece_count++] = (struct piece){*at, text};
}

/* There is more behind this one, which its node has not told. */
static void note_end(struct tr_outlook *outlook, const struct tr_next *last)
{
    outlook->has_more = true;
    if (!outlook->has_bound || tr_next_compare(last, &outlook->bound) < 0)
        outlook->bound = *last;
    outlook->has_bound = true;
}

/* What this node has found: as text, while the records are where they are. */
static void render_own(struct tr_outlook *outlook)
{
    const struct tr_node *node = outlook->tour.server->daemon->node;
    struct tr_nexts *nexts = outlook->nexts;
    struct tr_writer out = tr_writer_on(NULL, 0);
    size_t *ends = calloc(nexts->count + 1, sizeof *ends);
    if (ends == NULL)
        abort();
    tr_node_sort_next(nexts);
    uint32_t count = 0;
    for (; count < nexts->count && out.size < LIST_MAX; count++) {
        uint32_t ref = tr_node_next_ref(node, &nexts->list[count]);
        /* Else it has ended meanwhile, or is somebody else's by now. */
        if (ref != 0 && tr_node_sees_own(node, ref, &outlook->tour.rights.narrow)) {
            tr_answer_reserve(&out, tr_show_bound(node, ref));
            tr_show_timer(&out, node, ref, TR_SHOW_LISTED);
        }
        ends[count] = out.size;
    }
    outlook->bodies[outlook->body_count++] = (char *)out.bytes;
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (ends[i] > at)
            add_piece(outlook, &nexts->list[i],
                      (struct tr_span){(const char *)out.bytes + at, ends[i] - at});
        at = ends[i];
    }
    if (count > 0 && (nexts->has_more || count < nexts->count))
        note_end(outlook, &nexts->list[count - 1]);
    free(ends);
}

/* `{"timers":[...],"order":["..",".."]`, and perhaps a cursor. */
static bool read_list(struct tr_outlook *outlook, struct tr_span text)
{
    static const char head[] = "{\"timers\":[";
    static const char middle[] = "],\"order\":[";
    static const char tail[] = "],\"cursor\":\"";
    struct tr_next at = {.due_ms = 0};
    struct tr_span object;
    size_t first = outlook->piece_count;
    if (!tr_span_starts(text, (struct tr_span){head, sizeof head - 1}))
        return false;
    text = tr_span_from(text, sizeof head - 1);
    while (tr_tour_object(&text, &object))
        add_piece(outlook, &at, object);
    if (!tr_span_starts(text, (struct tr_span){middle, sizeof middle - 1}))
        return false;
    text = tr_span_from(text, sizeof middle - 1);
    for (size_t i = first; i < outlook->piece_count; i++) {
        text = tr_span_from(text, text.size > 0 && text.text[0] == ',');
        if (text.size < PLACE_SIZE + 2 || !read_place(tr_span_from(text, 1), &at))
            return false;
        outlook->pieces[i].at = at;
        text = tr_span_from(text, PLACE_SIZE + 2);
    }
    if (tr_span_starts(text, (struct tr_span){tail, sizeof tail - 1})) {
        if (!read_place(tr_span_from(text, sizeof tail - 1), &at))
            return false;
        note_end(outlook, &at);
    }
    return true;
}

static void hear_list(struct tr_tour *tour, struct tr_span body)
{
    struct tr_outlook *outlook = (struct tr_outlook *)tour;
    char *copy = outlook->body_count < NODES_MOST ? malloc(body.size + 1) : NULL;
    size_t before = outlook->piece_count;
    if (copy == NULL) {
        tour->unheard++;
        return;
    }
    memcpy(copy, body.text, body.size);
    outlook->bodies[outlook->body_count++] = copy;
    if (read_list(outlook, (struct tr_span){copy, body.size}))
        return;
    outlook->piece_count = before;
    tour->unheard++;
}

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a;
    const struct piece *y = b;
    return tr_next_compare(&x->at, &y->at);
}

static void put_list(struct tr_writer *out, const struct tr_outlook *outlook, size_t count)
{
    size_t size = 256;
    for (size_t i = 0; i < count; i++)
        size += outlook->pieces[i].text.size + PLACE_SIZE + 4;
    tr_answer_reserve(out, size);
    tr_put_text(out, "{\"timers\":[");
    for (size_t i = 0; i < count; i++) {
        tr_put_text(out, i > 0 ? "," : "");
        tr_put_bytes(out, outlook->pieces[i].text.text, outlook->pieces[i].text.size);
    }
    tr_put_text(out, "],\"order\":[");
    for (size_t i = 0; i < count; i++) {
        tr_put_text(out, i > 0 ? ",\"" : "\"");
        put_place(out, &outlook->pieces[i].at);
        tr_put_text(out, "\"");
    }
    tr_put_text(out, "]");
}

static void finish_list(struct tr_tour *tour, struct tr_connection *connection)
{
    struct tr_outlook *outlook = (struct tr_outlook *)tour;
    struct tr_writer out = tr_writer_on(NULL, 0);
    size_t count = 0;
    if (connection != NULL && tour->unheard > 0) {
        refuse_unheard(connection, tour->number);
    } else if (connection != NULL) {
        if (outlook->piece_count > 1)
            qsort(outlook->pieces, outlook->piece_count, sizeof outlook->pieces[0], by_place);
        while (count < outlook->piece_count && count < outlook->nexts->limit &&
               (!outlook->has_bound ||
                tr_next_compare(&outlook->pieces[count].at, &outlook->bound) <= 0))
            count++;
        put_list(&out, outlook, count);
        bool has_more = outlook->has_more || count < outlook->piece_count;
        if (has_more) {
            bool is_full = count > 0 && count == outlook->nexts->limit;
            tr_put_text(&out, ",\"cursor\":\"");
            put_place(&out, is_full || !outlook->has_bound ? &outlook->pieces[count - 1].at
                                                           : &outlook->bound);
            tr_put_text(&out, "\"");
        }
        tr_answer_json(&tour->server->answer, (struct tr_span){(const char *)out.bytes, out.size},
                       TR_SPAN("}\n"));
        tr_render(connection, tour->number);
    }
    free(out.bytes);
    free_outlook(outlook);
}

static void ask_others_list(struct tr_outlook *outlook)
{
    struct tr_writer out = tr_writer_on(outlook->line, sizeof outlook->line);
    const struct tr_api_request *route = &outlook->route;
    render_own(outlook);
    tr_put_text(&out, "GET /timers?scope=node&sort=due&limit=");
    tr_put_decimal(&out, outlook->nexts->limit);
    tr_put_text(&out, route->query.wants_dead       ? "&state=dead"
                      : route->query.wants_retrying ? "&state=retrying"
                                                    : "&state=pending");
    if (outlook->nexts->has_after) {
        tr_put_text(&out, "&cursor=");
        put_place(&out, &outlook->nexts->after);
    }
    tr_gather_put_filters(&out, route);
    outlook->tour.line = (struct tr_span){outlook->line, out.size};
    tr_tour_begin(&outlook->tour, outlook->asks_others);
}

void tr_sorted_begin(struct tr_connection *connection, uint16_t number)
{
    struct tr_outlook *outlook = begin(connection, number);
    if (outlook == NULL)
        return;
    const struct tr_api_request *route = &connection->server->route;
    outlook->is_list = true;
    outlook->tour.hear = hear_list;
    outlook->tour.finish = finish_list;
    outlook->nexts = calloc(1, sizeof *outlook->nexts);
    if (outlook->nexts == NULL)
        abort();
    outlook->nexts->limit = route->query.limit;
    outlook->nexts->has_after = route->has_place;
    outlook->nexts->after = (struct tr_next){
        .due_ms = route->behind.due_ms, .hash = route->behind.hash, .part = route->behind.part};
    enqueue(connection->server, outlook);
}

/* ---- walks ---- */

/* Whoever asked for the same is answered by it. */
static void end_count(struct tr_server *server, const struct tr_outlook *counted)
{
    server->counted = (struct tr_counted){.ahead = counted->ahead,
                                          .at_ms = uv_now(&server->daemon->loop),
                                          .took_us = counted->took_us};
}

/* A slice of the first walk: what is due goes before it. True: there is more to do. */
static bool run_first(struct tr_server *server)
{
    struct tr_outlook *outlook = server->outlooks;
    struct tr_node *node = server->daemon->node;
    if (tr_tour_client(&outlook->tour) == NULL) {
        server->outlooks = outlook->next;
        free_outlook(outlook);
        return server->outlooks != NULL;
    }
    bool is_known_already = !outlook->is_list && is_known(server, outlook);
    bool goes_on = false;
    if (is_known_already) {
        outlook->ahead = server->counted.ahead;
    } else {
        uint64_t before_us = tr_clock_us(CLOCK_MONOTONIC);
        goes_on =
            outlook->is_list
                ? tr_node_find_next(node, &outlook->query, &outlook->cursor, outlook->nexts)
                : tr_node_count_ahead(node, &outlook->query, &outlook->cursor, &outlook->ahead);
        outlook->took_us += tr_clock_us(CLOCK_MONOTONIC) - before_us;
        if (!goes_on && !outlook->is_list && outlook->tour.rights.narrow.count == 0)
            end_count(server, outlook);
    }
    if (!goes_on) {
        server->outlooks = outlook->next;
        if (outlook->is_list)
            ask_others_list(outlook);
        else
            ask_others_ahead(outlook);
    }
    return server->outlooks != NULL;
}

void tr_outlooks_run(struct tr_server *server)
{
    if (server->outlooks == NULL)
        return;
    if (run_first(server) && !uv_is_active((uv_handle_t *)&server->outlooks_again))
        uv_timer_start(&server->outlooks_again, on_again, 1, 0);
}

void tr_outlooks_close(struct tr_server *server)
{
    while (server->outlooks != NULL) {
        struct tr_outlook *outlook = server->outlooks;
        server->outlooks = outlook->next;
        free_outlook(outlook);
    }
    uv_timer_stop(&server->outlooks_again);
    uv_close((uv_handle_t *)&server->outlooks_again, NULL);
}
