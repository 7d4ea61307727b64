/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/body.h"

#include "shell/peer/neighbours.h"

bool tr_body_read(struct tr_server *server, char *body, size_t size, bool is_new,
                  struct tr_problem *problem)
{
    const struct tr_config *config = &server->daemon->config;
    const struct tr_timer_limits limits = {
        .opaque_max = config->opaque_max,
        .attempts_max = config->attempts,
        .ignores_unknown = config->ignores_unknown,
    };
    if (!tr_timer_body_parse(body, size, &limits, &server->body, problem))
        return false;
    bool is_at_node = !config->may_call_nodes &&
                      tr_neighbours_have_uri(server->daemon->node, &server->body.parts);
    if (is_at_node)
        tr_problem_set(problem, 403,
                       "callback.http.uri is at a node of this cluster; [callback] to-nodes allows "
                       "that",
                       NULL);
    else if (is_new && server->body.past.version != 0)
        tr_problem_set(problem, 400, "restore is for PUT: the timer has its id", NULL);
    else
        return true;
    return false;
}
