/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs out of the log at a start: each by its version, whatever the order of entries. */
#ifndef TR_KV_REPLAY_H
#define TR_KV_REPLAY_H

#include "kv/kv.h"

/* TR_LOG_SOUND, or why an entry about keys cannot be applied. */
enum tr_log_verdict tr_kv_replay(struct tr_kv *kv, const struct tr_log_entry *entry,
                                 uint64_t segment);

/* Makes room: what had expired by the time that the log told of last was gone then. False: that was
 * done before. */
bool tr_kv_drop_expired(struct tr_kv *kv);

#endif
