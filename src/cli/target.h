/* SPDX-License-Identifier: Apache-2.0 */
/* What `tryst cluster apply` is given: the nodes that a cluster shall have, and its secret. */
#ifndef TR_CLI_TARGET_H
#define TR_CLI_TARGET_H

#include "cli/members.h"

#define TR_TARGET_TEXT   131072
#define TR_TARGET_SECRET 1024

struct tr_target {
    const char *path;
    char (*list)[TR_MEMBER_NAME];
    size_t count;
};

/* False: it was said why not. */
bool tr_target_read(const char *command, struct tr_target *target);
void tr_target_free(struct tr_target *target);
bool tr_target_has(const struct tr_target *target, const char *address);

/* The secret in a file (NULL: that of the environment, or none). False: it was said why not. */
bool tr_secret_read(const char *command, const char *path, char secret[TR_TARGET_SECRET]);

#endif
