/* SPDX-License-Identifier: Apache-2.0 */
/* Tells systemd how the daemon is, if systemd asked: sd_notify(3) without its library. */
#ifndef TR_SHELL_NOTIFY_H
#define TR_SHELL_NOTIFY_H

#include <uv.h>

void tr_notify(const char *state);

/* Tells the service manager that the loop still turns, as often as it wants to hear so; never, if
 * it does not. The timer keeps no loop alive. */
void tr_notify_watch(uv_loop_t *loop, uv_timer_t *timer);

#endif
