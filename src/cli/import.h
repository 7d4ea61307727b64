/* SPDX-License-Identifier: Apache-2.0 */
/* Timers of a running cluster of Chronos, as its nodes tell each other of them. */
#ifndef TR_CLI_IMPORT_H
#define TR_CLI_IMPORT_H

#include "cli/channel.h"

#define TR_IMPORT_COMMAND "import"
#define TR_IMPORT_NODES   128

struct tr_imported {
    uint64_t id;
    uint64_t sequence; /* pops that were made */
    uint64_t start_ms; /* since 1970 */
    unsigned factor;
    size_t size; /* of the body of a PUT */
    char *body;
};

struct tr_import {
    const char *nodes[TR_IMPORT_NODES];
    unsigned node_count;
    char view[24]; /* of the cluster, as its nodes write it */
    struct tr_imported *list;
    size_t count;
    size_t cap;
    uint32_t *slots; /* a hash of `list` by id: places behind 0 */
    size_t slot_count;
    unsigned missing; /* nodes that did not answer */
};

/* Reads all that one node has and another is to have. False: it has said why not. */
bool tr_import_read(struct tr_import *import, const char *from, const char *of);

#endif
