/* SPDX-License-Identifier: Apache-2.0 */
/* Records out of the log at a start, each by its order; and then the wheel. */
#ifndef TR_TIMERS_REPLAY_H
#define TR_TIMERS_REPLAY_H

#include "timers/timers.h"

/* An entry of the log. TR_LOG_SOUND, or why it cannot be applied. */
enum tr_log_verdict tr_replay_entry(struct tr_timers *timers, struct tr_log_entry *entry,
                                    uint64_t segment);

/* Arms every record, once: only then is it known what each came to. False: not done yet. */
bool tr_replay_arm(struct tr_timers *timers, bool *has_memory);

#endif
