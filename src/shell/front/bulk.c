/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/bulk.h"

#include "base/assert.h"
#include "shell/front/gather.h"
#include "shell/front/render.h"
#include "shell/front/words.h"
#include "wire/json.h"
#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNDER_WAY_MAX 256
#define AGAIN_MS      10   /* until what found no room is tried again */
#define WAIT_MS       5000 /* for room: then the run ends */

enum slot_state { SLOT_FREE, SLOT_ASKED, SLOT_AGAIN };

struct slot {
    enum slot_state state;
    struct tr_timer_text timer;
};

struct tr_bulk {
    struct tr_server *server;
    struct tr_connection *connection; /* while `token` leads to it */
    uint64_t token;
    struct tr_bulk *next; /* of all */
    uint16_t number;      /* of the request */
    bool is_redrive;
    struct tr_api_request route; /* what chooses; its spans point into it */
    struct tr_rights rights;     /* of the client */
    uint64_t cursor;
    uint32_t under_way;
    uint32_t again;
    uint64_t count; /* of what was done, or matched */
    uint64_t moved_ms;
    uint64_t again_ms;
    uint64_t nodes; /* which were up at the beginning */
    uint16_t place; /* of the next node that is asked */
    bool is_asking; /* one is */
    bool is_over;
    struct tr_problem problem; /* why it ends early; status 0: it does not */
    struct slot slots[UNDER_WAY_MAX];
};

static void stop(struct tr_bulk *bulk, unsigned status, const char *why)
{
    if (bulk->problem.status == 0)
        tr_problem_set(&bulk->problem, status, why, NULL);
    bulk->cursor = UINT64_MAX;
    bulk->place = UINT16_MAX;
}

/* ---- timers of this node ---- */

static void ask(struct tr_bulk *bulk, uint32_t index)
{
    struct slot *slot = &bulk->slots[index];
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED, .has_more = true};
    event.of.request.token =
        tr_connection_token(bulk->connection, (uint16_t)(bulk->number + 1 + index));
    event.of.request.command = bulk->is_redrive ? TR_COMMAND_REDRIVE : TR_COMMAND_CANCEL;
    event.of.request.timer = slot->timer;
    event.of.request.query = &bulk->route.query;
    slot->state = SLOT_ASKED;
    bulk->under_way++;
    tr_daemon_step(bulk->server->daemon, &event);
}

static bool is_passing(enum tr_result result)
{
    return result == TR_TOO_MANY_WRITES || result == TR_TOO_MANY_REQUESTS || result == TR_DISK_SLOW;
}

bool tr_bulk_hear(struct tr_connection *connection, uint16_t number, const struct tr_effect *effect)
{
    struct tr_bulk *bulk = connection->bulk;
    uint16_t index = bulk != NULL ? (uint16_t)(number - bulk->number - 1) : 0;
    if (bulk == NULL || index >= UNDER_WAY_MAX)
        return false;
    TR_ASSERT(effect->kind == TR_EFFECT_ANSWER && bulk->slots[index].state == SLOT_ASKED);
    enum tr_result result = effect->of.answer.result;
    uint64_t now_ms = uv_now(&bulk->server->daemon->loop);
    bulk->under_way--;
    if (is_passing(result) && now_ms < bulk->moved_ms + WAIT_MS) {
        bulk->slots[index].state = SLOT_AGAIN;
        bulk->again++;
        bulk->again_ms = now_ms + AGAIN_MS;
        return true;
    }
    bulk->slots[index].state = SLOT_FREE;
    bulk->moved_ms = now_ms;
    bulk->count += result == TR_DONE;
    if (result != TR_DONE && result != TR_NOT_FOUND && result != TR_NO_DEAD_POP) {
        struct tr_words words = tr_words_of(result);
        stop(bulk, words.status, words.detail);
        bulk->problem.type = words.type;
    }
    return true;
}

static void ask_again(struct tr_bulk *bulk)
{
    uint32_t left = bulk->again;
    bulk->again = 0;
    for (uint32_t i = 0; left > 0 && i < UNDER_WAY_MAX; i++) {
        if (bulk->slots[i].state != SLOT_AGAIN)
            continue;
        left--;
        ask(bulk, i);
    }
}

/* The next slice of what this node lists. */
static void walk(struct tr_bulk *bulk)
{
    struct tr_timer_text found[UNDER_WAY_MAX];
    unsigned room = bulk->route.is_dry ? UNDER_WAY_MAX : UNDER_WAY_MAX - bulk->under_way;
    unsigned count = tr_node_find_timers(bulk->server->daemon->node, &bulk->route.query,
                                         &bulk->cursor, found, room);
    if (bulk->route.is_dry) {
        bulk->count += count;
        return;
    }
    uint32_t slot = 0;
    for (unsigned i = 0; i < count; i++) {
        while (bulk->slots[slot].state != SLOT_FREE)
            slot++;
        bulk->slots[slot].timer = found[i];
        ask(bulk, slot);
    }
}

/* ---- other nodes ---- */

static void on_done(void *context, struct tr_span body)
{
    struct tr_bulk *bulk = context;
    char text[128];
    struct tr_json json;
    uint64_t count = 0;
    bulk->is_asking = false;
    if (body.text == NULL || body.size >= sizeof text) {
        stop(bulk, 503,
             "a node of the cluster did not answer, or could not do its part: ask again");
        return;
    }
    memcpy(text, body.text, body.size);
    tr_json_init(&json, text, body.size);
    enum tr_json_token token = TR_JSON_NULL;
    for (unsigned i = 0; i < 3; i++) /* an object, a key, and its value */
        token = tr_json_next(&json);
    bool is_read = token == TR_JSON_NUMBER && tr_json_whole(json.text, UINT64_MAX / 2, &count);
    if (is_read)
        bulk->count += count;
    else
        stop(bulk, 503, "a node of the cluster has answered something else: ask again");
}

static void ask_next_node(struct tr_bulk *bulk)
{
    struct tr_gather *gather = bulk->server->daemon->gather;
    uint8_t line[7680];
    struct tr_writer out = tr_writer_on(line, sizeof line);
    const struct tr_query *query = &bulk->route.query;
    if (tr_gather_nodes(gather) !=
        bulk->nodes) { /* those that are up list for those that are not */
        stop(bulk, 503, "a node of the cluster has come or gone meanwhile: ask again");
        return;
    }
    uint16_t place = tr_gather_next(gather, bulk->place);
    bulk->place = place;
    if (place == UINT16_MAX)
        return;
    tr_put_text(&out,
                bulk->is_redrive ? "POST /timers/redrive?scope=node" : "DELETE /timers?scope=node");
    if (bulk->route.wants_all)
        tr_put_text(&out, "&all=yes");
    if (bulk->route.has_state)
        tr_put_text(&out, query->wants_dead       ? "&state=dead"
                          : query->wants_retrying ? "&state=retrying"
                                                  : "&state=pending");
    tr_put_text(&out, bulk->route.is_dry ? "&dry-run=yes" : "");
    tr_gather_put_filters(&out, &bulk->route);
    bulk->place++;
    bulk->is_asking = !out.is_full;
    if (out.is_full ||
        !tr_gather_ask(gather, bulk->token, place, (struct tr_span){(const char *)line, out.size},
                       &bulk->rights.narrow, true, on_done, bulk)) {
        bulk->is_asking = false;
        stop(bulk, 503, "too many requests at once");
    }
}

/* ---- a run ---- */

static void answer(struct tr_bulk *bulk)
{
    struct tr_connection *connection = bulk->connection;
    struct tr_server *server = bulk->server;
    const char *what = bulk->route.is_dry ? "matched" : bulk->is_redrive ? "redriven" : "cancelled";
    connection->bulk = NULL;
    bulk->is_over = true;
    if (bulk->problem.status != 0) {
        struct tr_problem problem;
        char before[64];
        snprintf(before, sizeof before, "; %llu were %s before", (unsigned long long)bulk->count,
                 what);
        tr_problem_set(&problem, bulk->problem.status, bulk->problem.detail, before, NULL);
        problem.type = bulk->problem.type;
        problem.retry_after_s = 1;
        tr_answer_problem(&server->answer, &problem, NULL);
    } else {
        char body[64];
        int size =
            snprintf(body, sizeof body, "{\"%s\":%llu}\n", what, (unsigned long long)bulk->count);
        tr_answer_json(&server->answer, (struct tr_span){body, (size_t)size}, TR_SPAN(""));
    }
    tr_render(connection, bulk->number);
}

/* One slice of one run in a turn: what is due goes before it. */
static void run(struct tr_bulk *bulk, bool may_walk)
{
    struct tr_daemon *daemon = bulk->server->daemon;
    if (bulk->again > 0 && uv_now(&daemon->loop) >= bulk->again_ms)
        ask_again(bulk);
    if (may_walk && bulk->cursor != UINT64_MAX && bulk->again == 0 &&
        bulk->under_way < UNDER_WAY_MAX)
        walk(bulk);
    if (bulk->cursor != UINT64_MAX || bulk->under_way > 0 || bulk->again > 0 || bulk->is_asking)
        return;
    if (bulk->place != UINT16_MAX)
        ask_next_node(bulk);
    if (!bulk->is_asking && bulk->place == UINT16_MAX)
        answer(bulk);
}

static bool is_gone(const struct tr_bulk *bulk)
{
    return tr_connection_of(bulk->server, bulk->token) == NULL ||
           bulk->connection->stream.is_closed;
}

static void on_again(uv_timer_t *timer)
{
    (void)timer; /* the turn that follows goes on with them */
}

void tr_bulks_run(struct tr_server *server)
{
    struct tr_bulk **link = &server->bulks;
    bool is_walking = false;
    bool is_waiting = false;
    while (*link != NULL) {
        struct tr_bulk *bulk = *link;
        bool is_walk = bulk->cursor != UINT64_MAX && bulk->under_way < UNDER_WAY_MAX;
        if (!is_gone(bulk))
            run(bulk, !is_walking);
        is_walking |= is_walk && !is_gone(bulk);
        is_waiting |= bulk->again > 0;
        /* One whose client has gone ends when no other node is asked for it. */
        if (bulk->is_over || (is_gone(bulk) && !bulk->is_asking)) {
            *link = bulk->next;
            free(bulk);
        } else {
            link = &bulk->next;
        }
    }
    if ((is_walking || is_waiting) && !uv_is_active((uv_handle_t *)&server->bulks_again))
        uv_timer_start(&server->bulks_again, on_again, is_walking ? 1 : AGAIN_MS, 0);
}

void tr_bulk_begin(struct tr_connection *connection, uint16_t number)
{
    struct tr_server *server = connection->server;
    struct tr_daemon *daemon = server->daemon;
    struct tr_node_stats stats;
    struct tr_bulk *bulk = calloc(1, sizeof *bulk);
    tr_node_stats(daemon->node, &stats);
    if (bulk == NULL || !stats.is_serving) {
        free(bulk);
        tr_render_problem(connection, number, 503, "the node is starting or stopping");
        return;
    }
    tr_api_keep(&bulk->route, &server->route);
    tr_rights_all(&bulk->rights);
    if (connection->rights != NULL)
        tr_rights_copy(&bulk->rights, connection->rights);
    bulk->route.query.narrow = &bulk->rights.narrow;
    bulk->server = server;
    bulk->connection = connection;
    bulk->token = tr_connection_token(connection, number);
    bulk->number = number;
    bulk->is_redrive = server->route.kind == TR_API_REDRIVE_ALL;
    bulk->moved_ms = uv_now(&daemon->loop);
    bulk->place = bulk->route.wants_node || tr_node_is_alone(daemon->node) ? UINT16_MAX : 0;
    bulk->nodes = tr_gather_nodes(daemon->gather);
    bulk->route.query.wants_any = !bulk->is_redrive && !bulk->route.has_state;
    bulk->route.query.wants_whole = !bulk->is_redrive && bulk->route.has_state;
    bulk->route.query.sequence = 0;
    if (bulk->route.query.set_before == 0)
        bulk->route.query.set_before = tr_node_version(daemon->node);
    bulk->next = server->bulks;
    server->bulks = bulk;
    connection->bulk = bulk;
}
