/* SPDX-License-Identifier: Apache-2.0 */
/* The server's answer, as it stands, put out to the request of a number. */
#ifndef TR_SHELL_FRONT_RENDER_H
#define TR_SHELL_FRONT_RENDER_H

#include "shell/front/connection.h"

void tr_render(struct tr_connection *connection, uint16_t number);

/* A problem as the answer. */
void tr_render_problem(struct tr_connection *connection, uint16_t number, unsigned status,
                       const char *detail);
/* What the node said of a command. */
void tr_render_result(struct tr_connection *connection, uint16_t number, enum tr_result result);

#endif
