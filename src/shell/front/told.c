/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/told.h"

#include "shell/callback/fault.h"
#include "shell/front/connection.h"
#include "shell/front/gather.h"
#include "shell/front/http.h"
#include "shell/pops.h"
#include "wire/json.h"
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

/* The objects, with commas between them; freed by the caller. */
static char *list_own(struct tr_daemon *daemon, enum tr_pop_state state, uint32_t limit,
                      size_t *size)
{
    size_t cap = 1;
    size_t at = 0;
    const struct tr_pop_told *pop = NULL;
    for (uint32_t i = 0; i < limit && (pop = tr_pop_ring_next(daemon->pops, &at, state)); i++)
        cap += bound_of(pop);
    char *bytes = malloc(cap);
    if (bytes == NULL)
        abort();
    struct tr_writer out = tr_writer_on(bytes, cap);
    at = 0;
    for (uint32_t i = 0; i < limit && (pop = tr_pop_ring_next(daemon->pops, &at, state)); i++) {
        tr_put_text(&out, i > 0 ? "," : "");
        put_pop(&out, daemon->node, pop);
    }
    *size = out.size;
    return bytes;
}

/* ---- of all ---- */

/* What was asked of the other nodes, one after another, and merged by the instants. */
struct told {
    struct tr_server *server;
    struct tr_connection *connection; /* while `token` leads to it */
    uint64_t token;
    uint16_t number;
    uint16_t place;
    uint32_t limit;
    enum tr_pop_state state;
    char *list;
    size_t size;
};

static void answer(struct tr_server *server, struct tr_connection *connection, uint16_t number,
                   const char *list, size_t size)
{
    struct tr_span end = TR_SPAN("]}\n");
    static const char head[] = "{\"pops\":[";
    char *body = malloc(sizeof head - 1 + size);
    if (body == NULL)
        abort();
    memcpy(body, head, sizeof head - 1);
    memcpy(body + sizeof head - 1, list, size);
    tr_answer_json(&server->answer, (struct tr_span){body, sizeof head - 1 + size}, end);
    tr_http_render(connection, number);
    free(body);
}

/* The next object of a list, which may have been written by another node. False: there is none. */
static bool next_object(struct tr_span *list, struct tr_span *object)
{
    struct tr_json json;
    while (list->size > 0 && list->text[0] == ',')
        *list = tr_span_from(*list, 1);
    if (list->size < AT_SIZE + 24 || list->text[0] != '{')
        return false;
    tr_json_init(&json, (char *)(uintptr_t)list->text, list->size);
    if (!tr_json_raw(&json, object))
        return false;
    *list = tr_span_from(*list, object->size);
    return true;
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
    bool has_a = next_object(&own, &a);
    bool has_b = next_object(&other, &b);
    for (uint32_t i = 0; i < told->limit && (has_a || has_b); i++) {
        bool takes_a = has_a && (!has_b || !is_later(b, a));
        struct tr_span taken = takes_a ? a : b;
        if (i > 0)
            tr_put_text(&out, ",");
        tr_put_bytes(&out, taken.text, taken.size);
        if (takes_a)
            has_a = next_object(&own, &a);
        else
            has_b = next_object(&other, &b);
    }
    free(told->list);
    told->list = merged;
    told->size = out.size;
}

static void ask_next(struct told *told);

static void on_done(void *context, struct tr_span body)
{
    struct told *told = context;
    static const char head[] = "{\"pops\":[";
    if (body.size > sizeof head && tr_span_starts(body, (struct tr_span){head, sizeof head - 1}))
        merge(told, tr_span_from(body, sizeof head - 1));
    ask_next(told); /* of one that does not answer nothing is told */
}

static void finish(struct told *told)
{
    if (tr_connection_of(told->server, told->token) != NULL)
        answer(told->server, told->connection, told->number, told->list, told->size);
    free(told->list);
    free(told);
}

static void ask_next(struct told *told)
{
    static const char *const states[] = {"&state=delivered", "&state=failed", "&state=dead", ""};
    struct tr_gather *gather = told->server->daemon->gather;
    char line[128];
    told->place = tr_gather_next(gather, told->place);
    if (told->place == UINT16_MAX) {
        finish(told);
        return;
    }
    int size =
        snprintf(line, sizeof line, "GET /pops?limit=%u%s", told->limit, states[told->state]);
    uint16_t place = told->place++;
    if (!tr_gather_ask(gather, told->token, place, (struct tr_span){line, (size_t)size}, on_done,
                       told))
        finish(told);
}

void tr_told_begin(struct tr_connection *connection, uint16_t number)
{
    struct tr_server *server = connection->server;
    const struct tr_api_request *route = &server->route;
    enum tr_pop_state state = (enum tr_pop_state)route->pop_state;
    size_t size = 0;
    char *list = list_own(server->daemon, state, route->query.limit, &size);
    if (!route->wants_cluster || tr_node_is_alone(server->daemon->node)) {
        answer(server, connection, number, list, size);
        free(list);
        return;
    }
    struct told *told = calloc(1, sizeof *told);
    if (told == NULL)
        abort();
    *told = (struct told){
        .server = server,
        .connection = connection,
        .token = tr_connection_token(connection, number),
        .number = number,
        .limit = route->query.limit,
        .state = state,
        .list = list,
        .size = size,
    };
    ask_next(told);
}
