/* SPDX-License-Identifier: Apache-2.0 */
/* A client that reads and writes keys of a single node, and holds what it is told to the model. */
#ifndef TR_SIM_ALONE_KEYS_H
#define TR_SIM_ALONE_KEYS_H

#include "sim/alone_node.h"

/* A few commands. */
void alone_keys_ask(struct alone *world);

/* The disk has done something: what waited for the log is tried again. */
void alone_keys_go_on(struct alone *world);

/* After a step: what is durable by now is answered. */
void alone_keys_look(struct alone *world);

/* After a start: whatever the crash left was there once, all together. */
void alone_keys_started(struct alone *world);

/* The appointment that a callback is for; 0: it is a timer's. */
uint32_t alone_keys_called(struct alone *world, const struct tr_record *record);

/* After healing: what is there is what must be. */
void alone_keys_finish(struct alone *world);

#endif
