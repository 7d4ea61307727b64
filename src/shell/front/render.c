/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/render.h"

#include "shell/front/words.h"

void tr_render(struct tr_connection *connection, uint16_t number)
{
    struct tr_answer *answer = &connection->server->answer;
    uint8_t kind = connection->kinds[number % TR_UNDER_WAY_MAX];
    answer->is_head = (kind & TR_KIND_HEAD) != 0;
    answer->closes = (kind & TR_KIND_CLOSE) != 0;
    if (answer->status >= 400 && answer->status < 500)
        connection->server->daemon->metrics.requests_bad++;
    struct tr_span bytes = tr_answer_render(answer);
    tr_connection_answer(connection, number, bytes.text, bytes.size);
}

void tr_render_problem(struct tr_connection *connection, uint16_t number, unsigned status,
                       const char *detail)
{
    struct tr_problem problem;
    tr_problem_set(&problem, status, detail, NULL);
    tr_answer_problem(&connection->server->answer, &problem, NULL);
    tr_render(connection, number);
}

void tr_render_result(struct tr_connection *connection, uint16_t number, enum tr_result result)
{
    struct tr_problem problem;
    struct tr_answer *answer = &connection->server->answer;
    struct tr_words words = tr_words_of(result);
    tr_words_problem(&problem, connection->server->daemon->node, result);
    if (words.detail == NULL)
        tr_answer_status(answer, words.status);
    else
        tr_answer_problem(answer, &problem, NULL);
    tr_render(connection, number);
}
