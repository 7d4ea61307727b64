/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each change of a pair: in the book, the log, the wheel and the counts at once. Whoever changes
 * one has asked before whether the log has room for it.
 */
#ifndef TR_KV_STORE_H
#define TR_KV_STORE_H

#include "kv/kv.h"

/* A version above what is held at `ref`, which may be none. */
uint64_t tr_kv_stamp(struct tr_kv *kv, tr_ref ref);

/* Stores and logs a pair in the place of `*ref`, or, if that is none, as a new one; `*ref` is where
 * it is then. False: there is no memory, and nothing has changed. */
bool tr_kv_put(struct tr_kv *kv, tr_ref *ref, uint64_t hash, const struct tr_pair *pair);

/* Likewise: writes `part` into the value from byte `at` on; what lies between is zero. */
bool tr_kv_patch(struct tr_kv *kv, tr_ref *ref, uint64_t hash, size_t at, struct tr_span part);

/* Likewise: another time to expire, or TR_NEVER, and another callback. */
bool tr_kv_set_expiry(struct tr_kv *kv, tr_ref *ref, uint64_t hash, tr_steady_ms expires_ms,
                      struct tr_span callback);

/* It has ended: the book remembers that, if there are others who have to hear of it. */
void tr_kv_end(struct tr_kv *kv, tr_ref ref, uint64_t hash);

/* That it has ended is logged, and nothing else; it is to be forgotten then. */
void tr_kv_log_end(struct tr_kv *kv, tr_ref ref, uint64_t hash);

/* A pair that has expired becomes a tombstone, at another place. `is_logged`: that is to be logged.
 * False: there is no memory, and nothing has changed. */
bool tr_kv_bury_expired(struct tr_kv *kv, tr_ref *ref, uint64_t hash, bool is_logged);

/* Others hold it, and this node is not to: it goes, and leaves nothing behind. */
void tr_kv_drop(struct tr_kv *kv, tr_ref ref, uint64_t hash);

/* Its end need not be logged: it has expired, or was deleted with all others. */
void tr_kv_forget(struct tr_kv *kv, tr_ref ref, uint64_t hash);

/* Now and then, if keys have expired: the log is told up to when. */
void tr_kv_tell_time(struct tr_kv *kv);

/* At a start, when all is replayed: the first entry about keys, if there must be one. */
void tr_kv_begin(struct tr_kv *kv);

/* At a start: a pair, or its expiry, as the log has it. It is armed later. False: no memory. */
bool tr_kv_restore(struct tr_kv *kv, tr_ref ref, uint64_t hash, const struct tr_pair *pair);
bool tr_kv_restore_expiry(struct tr_kv *kv, tr_ref ref, uint64_t hash, const struct tr_pair *pair);

/* All keys end, of which the log must have room to tell; they are taken out of the book later, a
 * few in each step. Only when one such end is through may the next begin: finish it before. False:
 * a callback that is owed from then cannot be written down now. */
void tr_kv_flush(struct tr_kv *kv);
/* Likewise: keys below a version have ended, on all nodes of the cluster. */
void tr_kv_set_floor(struct tr_kv *kv, uint64_t floor);
/* A node without keys is taken in by others, who have not ended theirs when it did. */
void tr_kv_lower_floor(struct tr_kv *kv, uint64_t floor);
/* Counts all keys anew. */
void tr_kv_recount(struct tr_kv *kv);
void tr_kv_flush_run(struct tr_kv *kv);
bool tr_kv_flush_finish(struct tr_kv *kv);

/* The log: writes pairs of its oldest segment again, from the key with this hash on. True: all of
 * them, and the cursor is 0. */
bool tr_kv_copy_oldest(struct tr_kv *kv, uint64_t *cursor);

/* The last batch with a change of a key that has this hash, or of another one in its bucket. */
uint64_t tr_kv_written(const struct tr_kv *kv, uint64_t hash);

#endif
