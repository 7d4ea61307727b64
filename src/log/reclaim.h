/* SPDX-License-Identifier: Apache-2.0 */
/* Reclaim: when the log is mostly garbage, what is live in its oldest segment is appended again,
 * and the segment's file goes. */
#ifndef TR_LOG_RECLAIM_H
#define TR_LOG_RECLAIM_H

#include "log/log.h"

void tr_log_reclaim(struct tr_log *log, struct tr_effects *out);

/* For tr_log_hooks.copy_oldest: whether an entry is of the oldest segment; then, around its copy:
 * whether there is room for it, and that it was made. */
bool tr_log_is_oldest(const struct tr_log *log, uint32_t segment);
bool tr_log_begin_copy(struct tr_log *log, size_t bound);
void tr_log_end_copy(struct tr_log *log);

#endif
