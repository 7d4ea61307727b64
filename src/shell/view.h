/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which nodes there are: what the configuration says, or what `tryst cluster apply` has set since.
 *
 * What was applied is kept in the data directory, and holds until the nodes in the configuration
 * change: of the two the later word counts.
 */
#ifndef TR_SHELL_VIEW_H
#define TR_SHELL_VIEW_H

#include "shell/config.h"
#include "wire/text.h"

#define TR_VIEW_TEXT_MAX 131072

/* Replaces the nodes of a configuration just read by those that were applied, if they hold: those
 * in the data directory, or, where there is none, those in force `now` (NULL: nothing is). */
void tr_view_choose(struct tr_config *config, const struct tr_config *now);

/* Reads nodes, as the configuration has them, into `config`, and keeps them. False: `problem` says
 * why not, and nothing has changed. Nor has it if *is_check: they would be taken. */
bool tr_view_apply(struct tr_config *config, const struct tr_node *node, struct tr_span text,
                   bool *is_check, struct tr_problem *problem);

#endif
