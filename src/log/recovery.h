/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery: the log is looked at as a whole, then replayed in slices, so that the node can say
 * meanwhile that it is starting. Entries are applied by order, not by their place; each start ends
 * the segment before and begins a new one, so that no position is ever used twice.
 */
#ifndef TR_LOG_RECOVERY_H
#define TR_LOG_RECOVERY_H

#include "log/log.h"

/* Looks at the segments, in the order of their numbers, which must stay readable until all is
 * replayed; reads the headers, and when the clock was set last. The verdict is TR_LOG_SOUND,
 * TR_LOG_TORN, or why the log cannot be used. */
struct tr_log_check tr_log_recover(struct tr_log *log, struct tr_log_segment *segments,
                                   size_t count, struct tr_effects *out);

/* Replays a slice. TR_LOG_SOUND, or why it cannot go on, and where. */
struct tr_log_check tr_log_replay(struct tr_log *log);
bool tr_log_is_replayed(const struct tr_log *log);

/* Everything is replayed: begins the segment of this start. `incarnation` is a random number. */
void tr_log_begin(struct tr_log *log, uint64_t incarnation, const uint8_t *new_store_id,
                  struct tr_effects *out);

#endif
