/* SPDX-License-Identifier: Apache-2.0 */
/* Tells systemd how the daemon is, if systemd asked: sd_notify(3) without its library. */
#ifndef TR_SHELL_NOTIFY_H
#define TR_SHELL_NOTIFY_H

void tr_notify(const char *state);

#endif
