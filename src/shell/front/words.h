/* SPDX-License-Identifier: Apache-2.0 */
/* What HTTP says of the core's results. */
#ifndef TR_SHELL_FRONT_WORDS_H
#define TR_SHELL_FRONT_WORDS_H

#include "seam/command.h"
#include "wire/text.h"

struct tr_node;

struct tr_words {
    unsigned status;
    const char *detail; /* NULL: there is nothing to say */
    const char *type;   /* of a problem that a client acts on; NULL: of others */
};

struct tr_words tr_words_of(enum tr_result result);

/* Likewise, with the node that stands in the way. There must be something to say. */
void tr_words_problem(struct tr_problem *problem, const struct tr_node *node,
                      enum tr_result result);

#endif
