/* SPDX-License-Identifier: Apache-2.0 */
/* GET /cluster?scope=cluster: what each node says of itself and of the others. */
#include "shell/front/connection.h"
#include "shell/front/render.h"
#include "shell/front/tour.h"
#include "shell/front/views.h"
#include "wire/text.h"

#include <stdlib.h>

struct nodes {
    struct tr_tour tour;
    struct tr_writer out;
};

static void hear(struct tr_tour *tour, struct tr_span body)
{
    struct tr_writer *out = &((struct nodes *)tour)->out;
    struct tr_span object;
    if (!tr_tour_object(&body, &object)) {
        tour->unheard++;
        return;
    }
    tr_answer_reserve(out, object.size + 64);
    tr_put_text(out, ",");
    tr_put_bytes(out, object.text, object.size);
}

static void finish(struct tr_tour *tour, struct tr_connection *connection)
{
    struct nodes *nodes = (struct nodes *)tour;
    struct tr_writer *out = &nodes->out;
    if (connection != NULL) {
        tr_put_text(out, "],\"nodes-unheard\":");
        tr_put_decimal(out, tour->unheard);
        tr_answer_json(&tour->server->answer, (struct tr_span){(const char *)out->bytes, out->size},
                       TR_SPAN("}\n"));
        tr_render(connection, tour->number);
    }
    free(out->bytes);
    free(nodes);
}

void tr_nodes_begin(struct tr_connection *connection, uint16_t number)
{
    struct tr_server *server = connection->server;
    struct nodes *nodes = calloc(1, sizeof *nodes);
    if (nodes == NULL)
        abort();
    tr_tour_init(&nodes->tour, connection, number);
    nodes->tour.line = TR_SPAN("GET /cluster?scope=node");
    nodes->tour.hear = hear;
    nodes->tour.finish = finish;
    nodes->out = tr_writer_on(NULL, 0);
    tr_answer_cluster(&server->answer, server->daemon);
    struct tr_span own = {(const char *)server->answer.body.bytes, server->answer.body.size};
    struct tr_span object;
    tr_answer_reserve(&nodes->out, own.size + 64);
    tr_put_text(&nodes->out, "{\"clusters\":[");
    if (tr_tour_object(&own, &object))
        tr_put_bytes(&nodes->out, object.text, object.size);
    tr_tour_begin(&nodes->tour, !tr_node_is_alone(server->daemon->node));
}
