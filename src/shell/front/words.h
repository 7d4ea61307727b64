/* SPDX-License-Identifier: Apache-2.0 */
/* What HTTP says of the core's results. */
#ifndef TR_SHELL_FRONT_WORDS_H
#define TR_SHELL_FRONT_WORDS_H

#include "seam/command.h"

struct tr_words {
    unsigned status;
    const char *detail; /* NULL: there is nothing to say */
    const char *type;   /* of a problem that a client acts on; NULL: of others */
};

struct tr_words tr_words_of(enum tr_result result);

#endif
