/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs that other nodes send: of two with one key the one with the higher version stays, whatever
 * the order of their arrival.
 */
#ifndef TR_KV_MERGE_H
#define TR_KV_MERGE_H

#include "kv/kv.h"

enum tr_merge {
    TR_MERGE_STORED,
    TR_MERGE_HELD,  /* it is here already, */
    TR_MERGE_ABOVE, /* or a higher version is */
    TR_MERGE_FULL,  /* there is no room for it, in memory or on disk */
    TR_MERGE_AGAIN, /* there is, when the log has written what gathers now */
};

/* Where the book has a key, until the book changes: whoever looks first and writes then need not
 * look for it twice. */
struct tr_kv_place {
    uint64_t hash;
    tr_ref ref; /* TR_ARENA_NONE: it has nothing */
};

struct tr_kv_place tr_kv_place(const struct tr_kv *kv, struct tr_span key);

/* `batch` is the one of the log that has what is here now. */
enum tr_merge tr_kv_merge(struct tr_kv *kv, const struct tr_pair *pair, uint64_t *batch);
enum tr_merge tr_kv_merge_at(struct tr_kv *kv, struct tr_kv_place place, const struct tr_pair *pair,
                             uint64_t *batch);

/* All who are to hold this pair have it. */
void tr_kv_mark_known(struct tr_kv *kv, struct tr_span key, struct tr_pair_order order);

/* What is here of a key, its tombstone and what has expired counted; false: nothing. */
bool tr_kv_look(const struct tr_kv *kv, struct tr_span key, struct tr_pair *pair, uint64_t *batch);
bool tr_kv_look_at(const struct tr_kv *kv, struct tr_kv_place place, struct tr_pair *pair,
                   uint64_t *batch);

#endif
