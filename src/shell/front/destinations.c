/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/callback/caller.h"
#include "shell/callback/fault.h"
#include "shell/front/connection.h"
#include "shell/front/render.h"
#include "shell/front/tour.h"
#include "shell/front/views.h"
#include "shell/pops.h"
#include "wire/text.h"
#include "wire/uri.h"

#include <stdlib.h>
#include <string.h>

/* An attempt, by where it went. */
struct attempt {
    struct tr_span origin;
    const struct tr_pop_told *pop; /* NULL: a connection is open, no more is known */
};

struct attempts {
    struct attempt *list;
    size_t count;
    size_t cap;
};

struct listing {
    struct tr_tour tour;
    struct tr_writer out; /* objects, with commas between them */
};

static void add(struct attempts *all, struct tr_span origin, const struct tr_pop_told *pop)
{
    if (all->count == all->cap) {
        all->cap = all->cap > 0 ? 2 * all->cap : 256;
        struct attempt *larger = realloc(all->list, all->cap * sizeof *larger);
        if (larger == NULL)
            abort();
        all->list = larger;
    }
    all->list[all->count++] = (struct attempt){origin, pop};
}

static void add_open(void *context, struct tr_span origin)
{
    add(context, origin, NULL);
}

static int by_origin(const void *a, const void *b)
{
    const struct attempt *x = a;
    const struct attempt *y = b;
    size_t least = x->origin.size < y->origin.size ? x->origin.size : y->origin.size;
    int order = memcmp(x->origin.text, y->origin.text, least);
    if (order != 0 || x->origin.size != y->origin.size)
        return order != 0 ? order : x->origin.size < y->origin.size ? -1 : 1;
    uint32_t p = x->pop == NULL ? 0 : x->pop->duration_ms;
    uint32_t q = y->pop == NULL ? 0 : y->pop->duration_ms;
    return (p > q) - (p < q);
}

static void put_last_fault(struct tr_writer *out, const struct tr_pop_told *pop)
{
    char why[160];
    tr_put_text(out, ",\"last-failure\":{\"at\":\"");
    tr_put_rfc3339(out, pop->at_ms);
    tr_put_text(out, "\"");
    if (pop->status != 0) {
        tr_put_count(out, "status", pop->status);
    } else {
        tr_fault_write(pop->fault, why, sizeof why);
        tr_put_text(out, ",\"error\":");
        tr_put_json_string(out, (struct tr_span){why, strlen(why)});
    }
    tr_put_text(out, "}");
}

/* One destination, from its attempts, the quickest first. */
static void put_destination(struct tr_writer *out, const struct tr_daemon *daemon,
                            const struct attempt *list, size_t count)
{
    struct tr_destination_stats stats = {.limit = (uint32_t)daemon->config.per_destination};
    const struct tr_pop_told *last = NULL;
    uint64_t failed = 0;
    size_t known = 0;
    tr_node_destination(daemon->node, list[0].origin, &stats);
    while (known < count && list[known].pop == NULL)
        known++; /* those of which nothing is known stand first, as if they had taken no time */
    for (size_t i = known; i < count; i++) {
        const struct tr_pop_told *pop = list[i].pop;
        failed += pop->state != TR_POP_DELIVERED;
        if (pop->state != TR_POP_DELIVERED && (last == NULL || pop->at_ms > last->at_ms))
            last = pop;
    }
    tr_answer_reserve(out, 1024 + 6 * list[0].origin.size + (size_t)6 * TR_CONFIG_ADDRESS);
    tr_put_text(out, out->size > 0 ? ",{\"origin\":" : "{\"origin\":");
    tr_put_json_string(out, list[0].origin);
    tr_put_text(out, ",\"node\":");
    tr_put_json_string(out, tr_node_address(daemon->node));
    tr_put_count(out, "in-flight", stats.flights);
    tr_put_count(out, "limit", stats.limit);
    tr_put_count(out, "queued", stats.queued);
    tr_put_count(out, "attempts", count - known);
    tr_put_count(out, "failed", failed);
    if (count > known) {
        size_t attempts = count - known;
        tr_put_count(out, "p50-ms", list[known + (attempts - 1) / 2].pop->duration_ms);
        tr_put_count(out, "p99-ms", list[known + (attempts - 1) * 99 / 100].pop->duration_ms);
        tr_put_count(out, "most-ms", list[count - 1].pop->duration_ms);
    }
    if (last != NULL)
        put_last_fault(out, last);
    tr_put_text(out, "}");
}

static void list_own(struct tr_writer *out, struct tr_daemon *daemon)
{
    struct attempts all = {.list = NULL};
    const struct tr_pop_told *pop = NULL;
    struct tr_uri uri;
    size_t at = 0;
    tr_caller_each_origin(daemon->caller, add_open, &all);
    while ((pop = tr_pop_ring_next(daemon->pops, &at, TR_POP_ANY)) != NULL)
        add(&all, tr_uri_parse(pop->uri, &uri) == NULL ? uri.origin : pop->uri, pop);
    if (all.count > 1)
        qsort(all.list, all.count, sizeof all.list[0], by_origin);
    size_t from = 0;
    for (size_t i = 1; i <= all.count; i++) {
        if (i < all.count && tr_span_equals(all.list[i].origin, all.list[from].origin))
            continue;
        put_destination(out, daemon, &all.list[from], i - from);
        from = i;
    }
    free(all.list);
}

static void hear(struct tr_tour *tour, struct tr_span body)
{
    static const char head[] = "{\"destinations\":[";
    struct tr_writer *out = &((struct listing *)tour)->out;
    struct tr_span object;
    if (!tr_span_starts(body, (struct tr_span){head, sizeof head - 1}))
        return;
    body = tr_span_from(body, sizeof head - 1);
    while (tr_tour_object(&body, &object)) {
        tr_answer_reserve(out, object.size + 1);
        tr_put_text(out, out->size > 0 ? "," : "");
        tr_put_bytes(out, object.text, object.size);
    }
}

static void finish(struct tr_tour *tour, struct tr_connection *connection)
{
    struct listing *listing = (struct listing *)tour;
    struct tr_writer whole = tr_writer_on(NULL, 0);
    if (connection != NULL) {
        tr_answer_reserve(&whole, listing->out.size + 32);
        tr_put_text(&whole, "{\"destinations\":[");
        tr_put_bytes(&whole, listing->out.bytes, listing->out.size);
        tr_answer_json(&tour->server->answer,
                       (struct tr_span){(const char *)whole.bytes, whole.size}, TR_SPAN("]}\n"));
        tr_render(connection, tour->number);
    }
    free(whole.bytes);
    free(listing->out.bytes);
    free(listing);
}

void tr_destinations_begin(struct tr_connection *connection, uint16_t number)
{
    struct tr_daemon *daemon = connection->server->daemon;
    struct listing *listing = calloc(1, sizeof *listing);
    if (listing == NULL)
        abort();
    listing->out = tr_writer_on(NULL, 0);
    list_own(&listing->out, daemon);
    tr_tour_init(&listing->tour, connection, number);
    listing->tour.line = TR_SPAN("GET /destinations?scope=node");
    listing->tour.hear = hear;
    listing->tour.finish = finish;
    tr_tour_begin(&listing->tour,
                  connection->server->route.wants_cluster && !tr_node_is_alone(daemon->node));
}
