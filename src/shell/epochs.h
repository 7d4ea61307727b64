/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of the cluster's changes: each epoch, and a change that stands still. */
#ifndef TR_SHELL_EPOCHS_H
#define TR_SHELL_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

struct tr_daemon;

/* How far the change that is under way was when it last got on. */
struct tr_epochs {
    uint64_t roster;
    uint64_t moved;
    uint16_t who; /* that it waits for */
    bool is_up;   /* whether that one is */
    uint64_t since_ms;
    bool is_said;
};

/* Another roster is in force. */
void tr_epochs_say(const struct tr_daemon *daemon);

/* Now and then. A change that has stood still for a minute is an alarm, on the nodes that can tell
 * why: where it waits for a node that is down, and on the node itself that it waits for. */
void tr_epochs_watch(struct tr_daemon *daemon);

#endif
