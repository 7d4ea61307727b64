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

/* Whether the callback of a key that has ended is owed here, and not made yet. */
bool tr_kv_is_owing(const struct tr_kv *kv, const struct tr_pair *tombstone);

/* Another node owes the callback of the pair at `ref`, as one that has expired: this node owes it,
 * too, under the same id, since the other one may be lost before it has made it, or has told
 * anybody. False: that cannot be written down now. */
bool tr_kv_owe_too(struct tr_kv *kv, tr_ref ref);

/* What has expired by now, a slice of it in each step; then stale entries of the wheel. */
void tr_kv_expire_run(struct tr_kv *kv);
tr_mono_ms tr_kv_wake_at(const struct tr_kv *kv);

/* After a replay. False: not done yet. */
bool tr_kv_arm_all(struct tr_kv *kv, bool *has_memory);

#endif
