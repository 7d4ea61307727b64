/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What SIGHUP does: the configuration, tokens and certificates are read anew, and all of them are
 * in force, or none.
 */
#ifndef TR_SHELL_RELOAD_H
#define TR_SHELL_RELOAD_H

struct tr_daemon;

void tr_daemon_reload(struct tr_daemon *daemon);

#endif
