/* SPDX-License-Identifier: Apache-2.0 */
/* A timer as a client describes it, read and held against what the operator allows. */
#ifndef TR_SHELL_FRONT_BODY_H
#define TR_SHELL_FRONT_BODY_H

#include "shell/front/connection.h"

/* Reads it into server->body; `body` is changed, and server->body points into it. False: `problem`
 * says what is wrong. */
bool tr_body_read(struct tr_server *server, char *body, size_t size, bool is_new,
                  struct tr_problem *problem);

#endif
