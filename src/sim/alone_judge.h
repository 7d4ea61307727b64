/* SPDX-License-Identifier: Apache-2.0 */
/* What must come of a command on a key, by the model; and what the node says came of it. */
#ifndef TR_SIM_ALONE_JUDGE_H
#define TR_SIM_ALONE_JUDGE_H

#include "sim/alone_node.h"

/* The command of `world->task` was carried out: the model is told, or says what is wrong. */
void alone_judge(struct alone *world, const struct tr_key_result *result);

/* When that is by the world's own clock. */
uint64_t alone_true_ms(const struct alone *world, tr_steady_ms steady_ms);

#endif
