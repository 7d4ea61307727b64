/* SPDX-License-Identifier: Apache-2.0 */
/* Talking to a node: a small blocking HTTP client, one connection for each request. */
#ifndef TR_CLI_NODE_H
#define TR_CLI_NODE_H

#include "cli/cli.h"
#include "wire/text.h"

struct tr_reply {
    unsigned status;
    char *bytes; /* freed by tr_reply_free */
    struct tr_span body;
    char location[128]; /* empty: none */
};

/* Where the node is: `given` (of --node), else TRYST_NODES or TRYST_NODE, else 127.0.0.1:7253. Of
 * several, parted by commas, the first that answers. */
const char *tr_node_address_or_default(const char *given);

/* Sends a request and reads the answer. False: it has said on standard error why not. */
bool tr_node_ask(const char *command, const char *address, const char *request, size_t size,
                 struct tr_reply *reply);
void tr_reply_free(struct tr_reply *reply);

/* An open connection to a node, or -1 after saying why not. */
int tr_node_connect(const char *command, const char *address);

/* Prints what the node said against it, and returns TR_EXIT_FAILED. */
enum tr_exit tr_reply_refused(const char *command, const struct tr_reply *reply);

/* Whether its body has these words. */
bool tr_reply_says(const struct tr_reply *reply, const char *words);

/* It was refused, or is not what a node of this version says: prints which, and returns
 * TR_EXIT_FAILED. */
enum tr_exit tr_reply_strange(const char *command, const char *address,
                              const struct tr_reply *reply);

/* Prints `tryst COMMAND: message`, or nothing for NULL, and returns TR_EXIT_FAILED. */
TR_PRINTF(2, 3) enum tr_exit tr_failure(const char *command, const char *format, ...);
/* The message, of the last one. */
const char *tr_failure_last(void);

#endif
