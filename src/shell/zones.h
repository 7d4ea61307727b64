/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time zones that timers go by: each file is read when its zone is first asked for, and kept.
 * Whether one has changed is looked at once a minute, and at a reload; then the node is told.
 *
 * Bounds:  the zones that the tz database has.
 */
#ifndef TR_SHELL_ZONES_H
#define TR_SHELL_ZONES_H

#include "shell/daemon.h"

struct tr_zone_cache *tr_zone_cache_open(struct tr_daemon *daemon);
void tr_zone_cache_close(struct tr_zone_cache *cache);
struct tr_zones tr_zone_cache_as_zones(struct tr_zone_cache *cache);
void tr_zone_cache_look(struct tr_zone_cache *cache); /* now */

#endif
