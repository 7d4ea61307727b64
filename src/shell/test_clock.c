/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/test_clock.h"

#include "calendar/date.h"
#include "shell/front/connection.h"
#include "shell/front/render.h"
#include "wire/json.h"
#include "wire/text.h"

#include <stdio.h>
#include <string.h>

#define BODY_MAX 512

void tr_test_clock_start(struct tr_daemon *daemon)
{
    daemon->test_clock.is_on = true;
    daemon->metrics.has_test_clock = true;
    daemon->test_clock.is_frozen = true;
    daemon->test_clock.frozen_us = tr_boot_us();
}

/* ---- showing ---- */

static tr_wall_ms now_of(const struct tr_daemon *daemon)
{
    return (tr_daemon_clock_us(daemon) + daemon->wall_base_us) / 1000;
}

static void answer(struct tr_connection *connection, uint16_t number, const uint64_t *pops)
{
    struct tr_server *server = connection->server;
    const struct tr_daemon *daemon = server->daemon;
    char body[128];
    struct tr_writer out = tr_writer_on(body, sizeof body);
    tr_put_text(&out, "{\"now\":\"");
    tr_put_rfc3339(&out, now_of(daemon));
    tr_put_text(&out,
                daemon->test_clock.is_frozen ? "\",\"mode\":\"frozen\"" : "\",\"mode\":\"real\"");
    if (pops != NULL) {
        tr_put_text(&out, ",\"pops\":");
        tr_put_decimal(&out, *pops);
    }
    tr_put_text(&out, "}\n");
    tr_answer_json(&server->answer, (struct tr_span){body, out.size}, TR_SPAN(""));
    tr_render(connection, number);
}

void tr_test_clock_show(struct tr_connection *connection, uint16_t number)
{
    answer(connection, number, NULL);
}

/* ---- setting ---- */

/* One member of an object: its name, and its value as the token that it is. False: it is none. */
static bool read_member(struct tr_span body, char *copy, struct tr_span *name,
                        struct tr_span *value, enum tr_json_token *token)
{
    struct tr_json json;
    if (body.size >= BODY_MAX)
        return false;
    memcpy(copy, body.text, body.size);
    tr_json_init(&json, copy, body.size);
    enum tr_json_token tokens[3];
    tokens[0] = tr_json_next(&json);
    tokens[1] = tr_json_next(&json);
    *name = json.text;
    *token = tr_json_next(&json);
    *value = json.text;
    tokens[2] = tr_json_next(&json);
    return tokens[0] == TR_JSON_OBJECT && tokens[1] == TR_JSON_KEY &&
           (*token == TR_JSON_STRING || *token == TR_JSON_NUMBER) &&
           tokens[2] == TR_JSON_OBJECT_END && tr_json_next(&json) == TR_JSON_END;
}

static bool is_refused(struct tr_connection *connection, uint16_t number)
{
    const struct tr_test_clock *clock = &connection->server->daemon->test_clock;
    if (!clock->is_on)
        tr_render_problem(connection, number, 409,
                          "time goes by itself here: trystd --test-clock lets a test move it");
    else if (clock->is_advancing)
        tr_render_problem(connection, number, 409, "time is being moved by another request");
    return !clock->is_on || clock->is_advancing;
}

void tr_test_clock_set(struct tr_connection *connection, uint16_t number, struct tr_span body)
{
    struct tr_daemon *daemon = connection->server->daemon;
    struct tr_test_clock *clock = &daemon->test_clock;
    char copy[BODY_MAX];
    struct tr_span name;
    struct tr_span value;
    enum tr_json_token token;
    if (is_refused(connection, number))
        return;
    bool is_read = read_member(body, copy, &name, &value, &token) && token == TR_JSON_STRING &&
                   tr_span_equals(name, TR_SPAN("mode"));
    bool is_real = is_read && tr_span_equals(value, TR_SPAN("real"));
    if (!is_real && !(is_read && tr_span_equals(value, TR_SPAN("frozen")))) {
        tr_render_problem(connection, number, 400,
                          "the body must be {\"mode\": \"real\"} or \"frozen\"");
        return;
    }
    uint64_t now_us = tr_daemon_clock_us(daemon);
    clock->is_frozen = !is_real;
    clock->frozen_us = now_us;
    clock->skew_us = now_us - tr_boot_us();
    daemon->clock_at_ms = 0; /* the node's wish is by another clock now */
    daemon->has_events = true;
    answer(connection, number, NULL);
}

/* By so many seconds, or to an instant. False: the body says neither. */
static bool read_target(const struct tr_daemon *daemon, struct tr_span body, uint64_t *target_us)
{
    char copy[BODY_MAX];
    struct tr_span name;
    struct tr_span value;
    enum tr_json_token token;
    uint64_t ms = 0;
    bool is_exact = false;
    if (!read_member(body, copy, &name, &value, &token))
        return false;
    if (tr_span_equals(name, TR_SPAN("by")) && token == TR_JSON_NUMBER &&
        tr_json_thousandths(value, &ms, &is_exact) && ms < TR_INTERVAL_MAX) {
        *target_us = tr_daemon_clock_us(daemon) + ms * 1000;
        return (*target_us + daemon->wall_base_us) / 1000 <= TR_TIME_MAX / 2;
    }
    if (!tr_span_equals(name, TR_SPAN("to")) || token != TR_JSON_STRING ||
        !tr_instant_parse(value, &ms) || ms > TR_TIME_MAX)
        return false;
    *target_us = ms * 1000 - daemon->wall_base_us;
    return true;
}

void tr_test_clock_advance(struct tr_connection *connection, uint16_t number, struct tr_span body)
{
    struct tr_daemon *daemon = connection->server->daemon;
    struct tr_test_clock *clock = &daemon->test_clock;
    struct tr_node_stats stats;
    uint64_t target_us = 0;
    if (is_refused(connection, number))
        return;
    if (!clock->is_frozen) {
        tr_render_problem(connection, number, 409,
                          "time goes by itself: PUT /clock {\"mode\": \"frozen\"} stops it");
        return;
    }
    if (!read_target(daemon, body, &target_us)) {
        tr_render_problem(
            connection, number, 400,
            "the body must be {\"by\": seconds} or {\"to\": \"2027-01-01T00:00:00Z\"}");
        return;
    }
    if ((int64_t)(target_us - clock->frozen_us) < 0) {
        tr_render_problem(connection, number, 400, "time does not go back");
        return;
    }
    tr_node_stats(daemon->node, &stats);
    clock->is_advancing = true;
    clock->target_us = target_us;
    clock->token = tr_connection_token(connection, number);
    clock->number = number;
    clock->pops_before = stats.pops_delivered + stats.pops_failed;
    daemon->has_events = true;
}

/* ---- going on ---- */

static void arrive(struct tr_daemon *daemon, const struct tr_node_stats *stats)
{
    struct tr_test_clock *clock = &daemon->test_clock;
    uint64_t pops = stats->pops_delivered + stats->pops_failed - clock->pops_before;
    struct tr_connection *connection = tr_connection_of(daemon->server, clock->token);
    clock->is_advancing = false;
    if (connection != NULL)
        answer(connection, clock->number, &pops);
}

bool tr_test_clock_run(struct tr_daemon *daemon)
{
    struct tr_test_clock *clock = &daemon->test_clock;
    struct tr_node_stats stats;
    if (!clock->is_advancing)
        return false;
    tr_node_stats(daemon->node, &stats);
    if (stats.flights > 0 || stats.queued > 0 || stats.waiting > 0)
        return false; /* what ends brings a turn */
    tr_mono_ms wake_ms = tr_node_wake_at(daemon->node);
    if (wake_ms * 1000 <= clock->frozen_us)
        return true;
    if (clock->frozen_us >= clock->target_us) {
        arrive(daemon, &stats);
        return false;
    }
    bool is_within = wake_ms != TR_NEVER && wake_ms < clock->target_us / 1000;
    clock->frozen_us = is_within ? wake_ms * 1000 : clock->target_us;
    return true;
}
