/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/history.h"

#include "shell/front/connection.h"
#include "shell/front/render.h"
#include "shell/front/tour.h"
#include "shell/front/views.h"
#include "wire/text.h"

#include <stdlib.h>

#define BODY_SIZE 32768
#define MINUTE_MS 60000u

static const char *const names[] = {"created", "delivered", "failed", "dead"};

struct hour {
    struct tr_tour tour;
    bool asks_others;
    tr_wall_ms from_ms; /* of its first minute */
    struct tr_hour hour;
};

static void put_late(struct tr_writer *out, const char *name, uint64_t us)
{
    tr_put_text(out, name);
    tr_put_decimal(out, us);
}

/* Its numbers stand in the order of the struct's; what follows from them comes last. */
static void put_hour(struct tr_writer *out, const struct hour *all)
{
    const struct tr_hour *hour = &all->hour;
    tr_put_text(out, "{\"from\":\"");
    tr_put_rfc3339(out, all->from_ms);
    tr_put_text(out, "\",\"since-start\":{");
    for (unsigned k = 0; k < 4; k++) {
        tr_put_text(out, k > 0 ? ",\"" : "\"");
        tr_put_text(out, names[k]);
        tr_put_text(out, "\":");
        tr_put_decimal(out, hour->total[k]);
    }
    tr_put_text(out, "}");
    for (unsigned k = 0; k < 4; k++)
        tr_put_counts(out, names[k], hour->minutes[k], TR_HISTORY_MINUTES);
    tr_put_counts(out, "lateness-most-us", hour->late_most_us, TR_HISTORY_MINUTES);
    tr_put_counts(out, "lateness-us", hour->late_us, TR_HISTOGRAM_BUCKETS + 1);
    put_late(out, ",\"lateness\":{\"p50-us\":", tr_hour_late_us(hour, 500));
    put_late(out, ",\"p99-us\":", tr_hour_late_us(hour, 990));
    put_late(out, ",\"most-us\":", tr_hour_late_us(hour, 1001));
    tr_put_text(out, "}");
    if (all->asks_others) {
        tr_put_text(out, ",\"nodes-unheard\":");
        tr_put_decimal(out, all->tour.unheard);
    }
    tr_put_text(out, "}\n");
}

static void hear(struct tr_tour *tour, struct tr_span body)
{
    struct tr_hour other;
    if (tr_tour_numbers(body, other.total, TR_HOUR_NUMBERS))
        tr_hour_add(&((struct hour *)tour)->hour, &other);
    else
        tour->unheard++;
}

static void finish(struct tr_tour *tour, struct tr_connection *connection)
{
    struct hour *all = (struct hour *)tour;
    uint8_t body[BODY_SIZE];
    struct tr_writer out = tr_writer_on(body, sizeof body);
    if (connection != NULL) {
        put_hour(&out, all);
        tr_answer_json(&tour->server->answer, (struct tr_span){(const char *)body, out.size},
                       TR_SPAN(""));
        tr_render(connection, tour->number);
    }
    free(all);
}

void tr_history_begin(struct tr_connection *connection, uint16_t number)
{
    struct tr_daemon *daemon = connection->server->daemon;
    struct hour *all = calloc(1, sizeof *all);
    if (all == NULL)
        abort();
    tr_wall_ms now_ms = (daemon->now_us + daemon->wall_base_us) / 1000;
    tr_history_look(&daemon->history, now_ms, &daemon->metrics, daemon->node);
    tr_history_tell(&daemon->history, &daemon->metrics, daemon->node, &all->hour);
    all->from_ms = (daemon->history.minute + 1 - TR_HISTORY_MINUTES) * MINUTE_MS;
    tr_tour_init(&all->tour, connection, number);
    all->tour.line = TR_SPAN("GET /history?scope=node");
    all->tour.hear = hear;
    all->tour.finish = finish;
    all->asks_others = connection->server->route.wants_cluster && !tr_node_is_alone(daemon->node);
    tr_tour_begin(&all->tour, all->asks_others);
}
