/* SPDX-License-Identifier: Apache-2.0 */
/* Sending and receiving on a connection to a node: by TLS where --ca was given, else plainly. */
#ifndef TR_CLI_SECURE_H
#define TR_CLI_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Shakes hands with the node of this name or address. False: `why` says why not, until the next
 * call. */
bool tr_secure_begin(int file, const char *host, const char *ca_file, const char **why);

/* As send() and recv(), and close(). */
ssize_t tr_secure_send(int file, const void *bytes, size_t size);
ssize_t tr_secure_receive(int file, void *bytes, size_t size);
void tr_secure_close(int file);

#endif
