/* SPDX-License-Identifier: Apache-2.0 */
/* What all pictures share: names as XML text, and a file that is opened before the work begins. */
#ifndef TR_CLI_SVG_H
#define TR_CLI_SVG_H

#include "cli/cli.h"

#include <stdio.h>

/* A name as XML text of `most` characters; if it is longer, without its middle: names differ at
 * their ends. */
void tr_svg_name(FILE *out, const char *name, size_t most);

/* A file to draw to, or NULL, and it was said why. */
FILE *tr_svg_open(const char *command, const char *path);
/* Ends it; TR_EXIT_FAILED if not all was written, and it was said why. */
enum tr_exit tr_svg_close(const char *command, FILE *file, const char *path);

#endif
