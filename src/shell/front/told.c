/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/told.h"

#include "shell/callback/fault.h"
#include "shell/front/connection.h"
#include "shell/front/render.h"
#include "shell/front/tour.h"
#include "shell/pops.h"
#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT_SIZE (sizeof "{\"at\":\"" - 1) /* bytes before an instant, with which each begins */

/* ---- of this node ---- */

static size_t bound_of(const struct tr_pop_told *pop)
{
    size_t size = pop->uri.size + pop->name.size;
    for (unsigned i = 0; i < pop->tag_count; i++)
        size += pop->tags[i].size + 8;
    return 1024 + 6 * size;
}

static void put_pop(struct tr_writer *out, const struct tr_node *node,
                    const struct tr_pop_told *pop)
{
    static const char *const states[] = {"delivered", "failed", "dead"};
    char why[160];
    struct tr_timer_text text = tr_node_text(node, pop->id, pop->factor);
    tr_put_text(out, "{\"at\":\"");
    tr_put_rfc3339(out, pop->at_ms);
    tr_put_text(out, "\",\"id\":\"");
    tr_put_timer_text(out, &text);
    tr_put_text(out, "\",\"sequence-number\":");
    tr_put_decimal(out, pop->sequence);
    tr_put_text(out, ",\"state\":\"");
    tr_put_text(out, states[pop->state]);
    tr_put_text(out, "\",\"name\":");
    tr_put_json_string(out, pop->name);
    tr_put_text(out, ",\"tags\":[");
    for (unsigned i = 0; i < pop->tag_count; i++) {
        tr_put_text(out, i > 0 ? "," : "");
        tr_put_json_string(out, pop->tags[i]);
    }
    tr_put_text(out, "],\"uri\":");
    tr_put_json_string(out, pop->uri);
    tr_put_text(out, ",\"due\":\"");
    tr_put_rfc3339(out, pop->due_ms);
    tr_put_text(out, "\",\"lateness-ms\":");
    tr_put_decimal(out, pop->late_ms);
    tr_put_text(out, ",\"attempts\":");
    tr_put_decimal(out, pop->attempts);
    if (pop->status != 0) {
        tr_put_text(out, ",\"status\":");
        tr_put_decimal(out, pop->status);
    } else {
        tr_fault_write(pop->fault, why, sizeof why);
        tr_put_text(out, ",\"error\":");
        tr_put_json_string(out, (struct tr_span){why, strlen(why)});
    }
    tr_put_text(out, ",\"duration-ms\":");
    tr_put_decimal(out, pop->duration_ms);
    tr_put_text(out, ",\"node\":");
    tr_put_json_string(out, tr_node_address(node));
    tr_put_text(out, "}");
}

/* The next that the client may see. */
static const struct tr_pop_told *next_seen(const struct tr_daemon *daemon, size_t *at,
                                           enum tr_pop_state state, const struct tr_rights *rights)
{
    const struct tr_pop_told *pop = NULL;
    struct tr_tag tags[TR_TAGS_MAX];
    while ((pop = tr_pop_ring_next(daemon->pops, at, state)) != NULL) {
        for (unsigned i = 0; i < pop->tag_count; i++)
            tags[i] = (struct tr_tag){.name = pop->tags[i]};
        if (tr_rights_timer(rights, tags, pop->tag_count, pop->name))
            return pop;
    }
    return NULL;
}

/* The objects, with commas between them; freed by the caller. */
static char *list_own(struct tr_daemon *daemon, enum tr_pop_state state, uint32_t limit,
                      const struct tr_rights *rights, size_t *size)
{
    size_t cap = 1;
    size_t at = 0;
    const struct tr_pop_told *pop = NULL;
    for (uint32_t i = 0; i < limit && (pop = next_seen(daemon, &at, state, rights)); i++)
        cap += bound_of(pop);
    char *bytes = malloc(cap);
    if (bytes == NULL)
        abort();
    struct tr_writer out = tr_writer_on(bytes, cap);
    at = 0;
    for (uint32_t i = 0; i < limit && (pop = next_seen(daemon, &at, state, rights)); i++) {
        tr_put_text(&out, i > 0 ? "," : "");
        put_pop(&out, daemon->node, pop);
    }
    *size = out.size;
    return bytes;
}

/* ---- of all ---- */

/* What was asked of the other nodes, one after another, and merged by the instants. */
struct told {
    struct tr_tour tour;
    uint32_t limit;
    char line[128];
    char *list;
    size_t size;
};

static void answer(struct tr_connection *connection, const struct told *told)
{
    struct tr_server *server = connection->server;
    static const char head[] = "{\"pops\":[";
    char *body = malloc(sizeof head + told->size);
    char end[64] = "]}\n";
    if (body == NULL)
        abort();
    memcpy(body, head, sizeof head - 1);
    memcpy(body + sizeof head - 1, told->list, told->size);
    if (told->tour.asks_others)
        snprintf(end, sizeof end, "],\"nodes-unheard\":%u}\n", told->tour.unheard);
    tr_answer_json(&server->answer, (struct tr_span){body, sizeof head - 1 + told->size},
                   (struct tr_span){end, strlen(end)});
    tr_render(connection, told->tour.number);
    free(body);
}

/* Of what another node may have written. */
static bool next_pop(struct tr_span *list, struct tr_span *object)
{
    return tr_tour_object(list, object) && object->size >= AT_SIZE + 24;
}

static bool is_later(struct tr_span a, struct tr_span b)
{
    return memcmp(a.text + AT_SIZE, b.text + AT_SIZE, 24) > 0;
}

/* Both are newest first, and so is what comes of them, no longer than was asked for. */
static void merge(struct told *told, struct tr_span other)
{
    struct tr_span own = {told->list, told->size};
    struct tr_span a = {NULL, 0};
    struct tr_span b = {NULL, 0};
    char *merged = malloc(own.size + other.size + 2);
    struct tr_writer out = tr_writer_on(merged, own.size + other.size + 2);
    if (merged == NULL)
        abort();
    bool has_a = next_pop(&own, &a);
    bool has_b = next_pop(&other, &b);
    for (uint32_t i = 0; i < told->limit && (has_a || has_b); i++) {
        bool takes_a = has_a && (!has_b || !is_later(b, a));
        struct tr_span taken = takes_a ? a : b;
        if (i > 0)
            tr_put_text(&out, ",");
        tr_put_bytes(&out, taken.text, taken.size);
        if (takes_a)
            has_a = next_pop(&own, &a);
        else
            has_b = next_pop(&other, &b);
    }
    free(told->list);
    told->list = merged;
    told->size = out.size;
}

static void hear(struct tr_tour *tour, struct tr_span body)
{
    static const char head[] = "{\"pops\":[";
    if (body.size > sizeof head && tr_span_starts(body, (struct tr_span){head, sizeof head - 1}))
        merge((struct told *)tour, tr_span_from(body, sizeof head - 1));
}

static void finish(struct tr_tour *tour, struct tr_connection *connection)
{
    struct told *told = (struct told *)tour;
    if (connection != NULL)
        answer(connection, told);
    free(told->list);
    free(told);
}

void tr_told_begin(struct tr_connection *connection, uint16_t number)
{
    static const char *const states[] = {"&state=delivered", "&state=failed", "&state=dead", ""};
    struct tr_server *server = connection->server;
    const struct tr_api_request *route = &server->route;
    enum tr_pop_state state = (enum tr_pop_state)route->pop_state;
    struct told *told = calloc(1, sizeof *told);
    if (told == NULL)
        abort();
    tr_tour_init(&told->tour, connection, number);
    told->tour.hear = hear;
    told->tour.finish = finish;
    told->limit = route->query.limit;
    told->list =
        list_own(server->daemon, state, route->query.limit, &told->tour.rights, &told->size);
    int size =
        snprintf(told->line, sizeof told->line, "GET /pops?limit=%u%s", told->limit, states[state]);
    told->tour.line = (struct tr_span){told->line, (size_t)size};
    tr_tour_begin(&told->tour, route->wants_cluster && !tr_node_is_alone(server->daemon->node));
}
