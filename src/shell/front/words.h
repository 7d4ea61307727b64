/* SPDX-License-Identifier: Apache-2.0 */
/* What HTTP says of the core's results. */
#ifndef TR_SHELL_FRONT_WORDS_H
#define TR_SHELL_FRONT_WORDS_H

#include "seam/command.h"

struct tr_words {
    unsigned status;
    const char *detail; /* NULL: there is nothing to say */
};

struct tr_words tr_words_of(enum tr_result result);

#endif
