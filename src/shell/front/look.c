/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/look.h"

#include "shell/front/allow.h"
#include "shell/front/http.h"
#include "shell/front/render.h"

#include <stdlib.h>
#include <string.h>

enum look { LOOK_ASKED, LOOK_SEEN, LOOK_ABSENT, LOOK_HIDDEN, LOOK_FAILED };

struct tr_look {
    struct tr_look *next;
    uint64_t token;
    uint16_t number;
    enum look look;
    struct tr_condition condition;
    enum tr_result result; /* why it failed */
    struct tr_http http;
    char bytes[];
};

bool tr_look_is_due(const struct tr_connection *connection)
{
    enum tr_api_kind kind = connection->server->route.kind;
    bool is_narrow = connection->rights != NULL && connection->rights->narrow.count > 0;
    bool changes_one = kind == TR_API_REPLACE || kind == TR_API_CANCEL || kind == TR_API_FIRE ||
                       kind == TR_API_REDRIVE;
    return is_narrow && changes_one;
}

void tr_look_begin(struct tr_connection *connection, uint16_t number, const char *bytes)
{
    struct tr_server *server = connection->server;
    size_t size = connection->http.used;
    struct tr_look *one = malloc(sizeof *one + size);
    if (one == NULL)
        abort();
    *one = (struct tr_look){.next = server->looks,
                            .token = tr_connection_token(connection, number),
                            .number = number,
                            .http = connection->http};
    memcpy(one->bytes, bytes, size);
    server->looks = one;
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED, .has_more = true};
    event.of.request.token = one->token;
    event.of.request.command = TR_COMMAND_READ;
    event.of.request.timer = server->route.timer;
    tr_daemon_step(server->daemon, &event);
}

static void on_again(uv_timer_t *timer)
{
    (void)timer; /* the turn that follows goes on with it */
}

bool tr_look_hear(struct tr_connection *connection, uint16_t number, const struct tr_effect *effect)
{
    struct tr_server *server = connection->server;
    uint64_t token = tr_connection_token(connection, number);
    struct tr_look *one = server->looks;
    while (one != NULL && (one->token != token || one->look != LOOK_ASKED))
        one = one->next;
    if (one == NULL)
        return false;
    char etag[TR_ETAG_MAX];
    if (effect->kind == TR_EFFECT_ANSWER_TIMER) {
        const struct tr_node *node = server->daemon->node;
        tr_show_etag(node, effect->of.timer.ref, etag);
        bool is_seen = tr_node_sees(node, effect->of.timer.ref, &connection->rights->narrow) &&
                       tr_etag_parse((struct tr_span){etag, strlen(etag)}, &one->condition);
        one->look = is_seen ? LOOK_SEEN : LOOK_HIDDEN;
    } else {
        one->result = effect->of.answer.result;
        one->look = one->result == TR_NOT_FOUND ? LOOK_ABSENT : LOOK_FAILED;
        one->condition.when = TR_WHEN_ABSENT;
    }
    if (!uv_is_active((uv_handle_t *)&server->outlooks_again))
        uv_timer_start(&server->outlooks_again, on_again, 0, 0);
    return true;
}

static void go_on(struct tr_connection *connection, struct tr_look *one)
{
    struct tr_http http = connection->http;
    struct tr_api_request *route = &connection->server->route;
    connection->http = one->http;
    tr_api_route(tr_http_method(&connection->http),
                 tr_http_span(one->bytes, connection->http.target), route);
    bool is_change = route->kind != TR_API_REPLACE; /* of what is there */
    if (one->look == LOOK_FAILED)
        tr_render_result(connection, one->number, one->result);
    else if (one->look == LOOK_HIDDEN)
        tr_render_problem(connection, one->number, 403, TR_ALLOW_NO_TIMER);
    else if (one->look == LOOK_ABSENT && is_change)
        tr_render_result(connection, one->number,
                         route->kind == TR_API_CANCEL ? TR_DONE : TR_NOT_FOUND);
    else
        tr_http_ask(connection, one->number, one->bytes, &one->condition);
    connection->http = http;
}

void tr_looks_run(struct tr_server *server)
{
    struct tr_look **link = &server->looks;
    while (*link != NULL) {
        struct tr_look *one = *link;
        struct tr_connection *connection = tr_connection_of(server, one->token);
        bool is_gone = connection == NULL || connection->stream.is_closed;
        if (one->look == LOOK_ASKED && !is_gone) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        if (!is_gone)
            go_on(connection, one);
        free(one);
        link = &server->looks; /* others may have come */
    }
}

void tr_looks_close(struct tr_server *server)
{
    while (server->looks != NULL) {
        struct tr_look *one = server->looks;
        server->looks = one->next;
        free(one);
    }
}
