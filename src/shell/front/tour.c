/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/tour.h"

#include "shell/front/connection.h"
#include "shell/front/gather.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

struct tr_connection *tr_tour_client(const struct tr_tour *tour)
{
    struct tr_connection *connection = tr_connection_of(tour->server, tour->token);
    return connection != NULL && !connection->stream.is_closed ? connection : NULL;
}

static void ask_next(struct tr_tour *tour);

static void on_done(void *context, struct tr_span body)
{
    struct tr_tour *tour = context;
    if (body.text != NULL)
        tour->hear(tour, body);
    else
        tour->unheard++;
    ask_next(tour);
}

static void ask_next(struct tr_tour *tour)
{
    struct tr_gather *gather = tour->server->daemon->gather;
    if (tr_tour_client(tour) == NULL)
        tour->place = UINT16_MAX;
    while (tour->place != UINT16_MAX) {
        uint16_t place = tr_gather_next(gather, tour->place);
        tour->place = place == UINT16_MAX ? place : (uint16_t)(place + 1);
        if (place == UINT16_MAX)
            break;
        if (tr_gather_ask(gather, tour->token, place, tour->line, &tour->rights.narrow, false,
                          on_done, tour))
            return;
        tour->unheard++;
    }
    /* Those that are up list for those that are not: what of that has changed is missing. */
    tour->unheard += tour->asks_others && tr_gather_nodes(gather) != tour->nodes;
    tour->finish(tour, tr_tour_client(tour));
}

void tr_tour_init(struct tr_tour *tour, struct tr_connection *connection, uint16_t number)
{
    tour->server = connection->server;
    tour->token = tr_connection_token(connection, number);
    tour->number = number;
    tour->nodes = tr_gather_nodes(connection->server->daemon->gather);
    tr_rights_all(&tour->rights);
    if (connection->rights != NULL)
        tr_rights_copy(&tour->rights, connection->rights);
}

void tr_tour_begin(struct tr_tour *tour, bool asks_others)
{
    tour->place = asks_others ? 0 : UINT16_MAX;
    tour->asks_others = asks_others;
    ask_next(tour);
}

bool tr_tour_object(struct tr_span *list, struct tr_span *object)
{
    struct tr_json json;
    while (list->size > 0 && list->text[0] == ',')
        *list = tr_span_from(*list, 1);
    if (list->size < 2 || list->text[0] != '{')
        return false;
    tr_json_init(&json, (char *)(uintptr_t)list->text, list->size);
    if (!tr_json_raw(&json, object))
        return false;
    *list = tr_span_from(*list, object->size);
    return true;
}

bool tr_tour_numbers(struct tr_span text, uint64_t *numbers, size_t count)
{
    struct tr_json json;
    enum tr_json_token token = TR_JSON_NULL;
    size_t found = 0;
    tr_json_init(&json, (char *)(uintptr_t)text.text, text.size);
    while (found < count && (token = tr_json_next(&json)) < TR_JSON_END) {
        if (token == TR_JSON_NUMBER && !tr_json_whole(json.text, UINT64_MAX / 2, &numbers[found++]))
            return false;
    }
    return found == count;
}
