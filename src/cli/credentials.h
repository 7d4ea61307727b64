/* SPDX-License-Identifier: Apache-2.0 */
/* What the command shows to nodes: options that stand before or among those of any command. */
#ifndef TR_CLI_CREDENTIALS_H
#define TR_CLI_CREDENTIALS_H

#include "cli/cli.h"

#include "base/span.h"

/* Takes `--token-file FILE` and `--ca FILE` out of the arguments, else looks at TRYST_TOKEN_FILE
 * and TRYST_CA. False: a file cannot be read, which it has said. */
bool tr_credentials_take(int *argc, char **argv);

/* The token; text NULL: there is none. */
struct tr_span tr_credentials_token(void);

/* The same as a line of a request's head; empty: there is none. */
const char *tr_credentials_header(void);

/* The file of certificates by which nodes are checked; NULL: they are not asked by TLS. */
const char *tr_credentials_ca(void);

#endif
