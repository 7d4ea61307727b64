/* SPDX-License-Identifier: Apache-2.0 */
/* Going through all keys, a page at a time, in the order of their hashes; and one at random. */
#ifndef TR_KV_SCAN_H
#define TR_KV_SCAN_H

#include "kv/kv.h"

/* It has ended neither by itself nor with all others. */
bool tr_kv_is_there(const struct tr_kv *kv, tr_ref ref);

/* Looks at about `count` keys from `cursor` on, all of one place in one page. */
void tr_kv_scan(const struct tr_kv *kv, uint64_t cursor, uint32_t count, struct tr_key_page *page);

/* A page of one key, drawn at random; or of none, if none was found. */
void tr_kv_draw(struct tr_kv *kv, struct tr_key_page *page);

#endif
