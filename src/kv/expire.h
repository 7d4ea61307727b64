/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that expire: the wheel hands them out when they do, and they go. One with a callback leaves
 * a debt behind, which is logged in the same batch as its end. */
#ifndef TR_KV_EXPIRE_H
#define TR_KV_EXPIRE_H

#include "kv/kv.h"

void tr_kv_arm(struct tr_kv *kv, tr_ref ref, tr_steady_ms expires_ms);

/* Takes a pair that has expired out of the book; `is_replaced`: since something is written over it,
 * so that its callback cannot wait for what others know. False: its callback cannot be owed now,
 * and the pair stays, as one that is absent. */
bool tr_kv_expire(struct tr_kv *kv, tr_ref ref, uint64_t hash, bool is_replaced);

/* Takes a pair out of the book that ended with all others. If it had expired by then its callback
 * is owed. `is_replaced`, and false: likewise. */
bool tr_kv_expire_flushed(struct tr_kv *kv, tr_ref ref, bool is_replaced);

/* What has expired by now, a slice of it in each step; then stale entries of the wheel. */
void tr_kv_expire_run(struct tr_kv *kv);
tr_mono_ms tr_kv_wake_at(const struct tr_kv *kv);

/* After a replay. False: not done yet. */
bool tr_kv_arm_all(struct tr_kv *kv, bool *has_memory);

#endif
