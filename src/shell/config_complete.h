/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the settings that were read, and whether they go together. */
#ifndef TR_SHELL_CONFIG_COMPLETE_H
#define TR_SHELL_CONFIG_COMPLETE_H

#include "shell/config.h"

/* Each fault is said; returns how many there are. */
unsigned tr_config_complete(struct tr_config *config);

/* `host` gets the port, and a bare IPv6 address its brackets. */
void tr_config_complete_address(char address[TR_CONFIG_ADDRESS], unsigned port);

/* All of a file, in memory that the caller frees; NULL, and errno says why. */
char *tr_config_read_whole(int file, size_t *size);

#endif
