/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a command by its name, and carrying it out. */
#ifndef TR_SHELL_FRONT_RESP_FIND_H
#define TR_SHELL_FRONT_RESP_FIND_H

#include "shell/front/resp.h"

struct tr_resp_verb {
    const char *name;  /* in small letters; of a subcommand with its container: "client|id" */
    int arity;         /* words in all; below 0: so many at least */
    const char *flags; /* as COMMAND shows them, with spaces between */
    int first;         /* place of the first key; 0: none */
    int last;          /* of the last; below 0: from the end */
    int step;
    const char *group;
    const char *since;
    const char *summary;
    void (*run)(struct tr_resp_call *call);
};

/* Makes them known to the server: a list, whose last has no name. */
void tr_resp_index(struct tr_server *server, const struct tr_resp_verb *list);

/* The verb that these words begin with, of a container its subcommand; NULL: there is none. */
const struct tr_resp_verb *tr_resp_find(const struct tr_server *server, const struct tr_span *words,
                                        uint32_t count);
bool tr_resp_is_container(const struct tr_resp_verb *verb);
const struct tr_resp_traits *tr_resp_traits(const struct tr_server *server,
                                            const struct tr_resp_verb *verb);

/* Finds the verb, if the call has none yet, and carries it out, or says why not. */
void tr_resp_call(struct tr_resp_call *call);

/* Commands carried out, by kind, as metrics. */
void tr_resp_put_counts(struct tr_writer *out, const struct tr_server *server);

#endif
