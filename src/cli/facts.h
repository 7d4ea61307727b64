/* SPDX-License-Identifier: Apache-2.0 */
/* What an object of JSON says, as a list: each value that is neither object nor array, and where it
 * stands, as `callback.http.uri`. */
#ifndef TR_CLI_FACTS_H
#define TR_CLI_FACTS_H

#include "cli/cli.h"
#include "wire/json.h"

#define TR_FACTS_MAX 512
#define TR_FACT_PATH 96

struct tr_fact {
    char path[TR_FACT_PATH];
    struct tr_span value;
};

struct tr_facts {
    struct tr_fact list[TR_FACTS_MAX];
    unsigned count;
};

/* Reads an object whose opening brace was read, to its end. What is more than there is room for is
 * left out. */
void tr_facts_read(struct tr_json *json, struct tr_facts *facts);

/* The first of this path; NULL: it says nothing of that. */
const struct tr_fact *tr_fact_find(const struct tr_facts *facts, const char *path);
/* Empty, or 0, if it says nothing of that. */
struct tr_span tr_fact_value(const struct tr_facts *facts, const char *path);
uint64_t tr_fact_number(const struct tr_facts *facts, const char *path);

#endif
