/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of keys: every key the node holds with its value, packed, found by the key's bytes.
 *
 * A key takes 17 bytes beside itself and its value, and about 12 in the index. One that expires
 * takes eight more, and one with a callback four: most have neither.
 *
 * Owns:    the keys and values, and the callbacks' texts, in the arena.
 * Bounds:  the arena; TR_KEY_MAX and TR_VALUE_MAX bytes.
 * Order:   a walk follows tr_kv_hash(key).
 */
#ifndef TR_KV_BOOK_H
#define TR_KV_BOOK_H

#include "base/hash.h"
#include "base/pair.h"
#include "memory/strings.h"

struct tr_kv_book {
    struct tr_arena *arena;
    struct tr_index index;
    struct tr_strings callbacks;
};

bool tr_kv_book_init(struct tr_kv_book *book, struct tr_arena *arena);

static inline uint64_t tr_kv_hash(struct tr_span key)
{
    return tr_hash_xxh3(key.text, key.size);
}

/* TR_ARENA_NONE if there is none. */
tr_ref tr_kv_book_find(const struct tr_kv_book *book, struct tr_span key, uint64_t hash);

/* Has the cache fetch what finding each of these keys reads: for a crowd of them the processor
 * waits for memory a few times, and not a few times for each. */
void tr_kv_book_fetch(const struct tr_kv_book *book, const uint64_t *hashes, unsigned count);

/* Packs a pair into the place of `ref`, which is of the same key, or, if that is none, as a new
 * one. Returns where it is then; or TR_ARENA_NONE when there is no room, and nothing has changed.
 * Neither its value nor its callback may be in the book. */
tr_ref tr_kv_book_put(struct tr_kv_book *book, tr_ref ref, uint64_t hash,
                      const struct tr_pair *pair);

/* Makes the value of a pair `size` bytes long: what it has more is zero, and may be written to.
 * Likewise. */
tr_ref tr_kv_book_resize(struct tr_kv_book *book, tr_ref ref, uint64_t hash, size_t size);

/* Another time to expire, and another callback. Likewise. */
tr_ref tr_kv_book_expire(struct tr_kv_book *book, tr_ref ref, uint64_t hash,
                         tr_steady_ms expires_ms, struct tr_span callback);

/* A pair becomes a tombstone, of the same version, without its value. Likewise. */
tr_ref tr_kv_book_end(struct tr_kv_book *book, tr_ref ref, uint64_t hash, tr_steady_ms until_ms);

void tr_kv_book_remove(struct tr_kv_book *book, tr_ref ref, uint64_t hash);

/* Spans point into the book, until it changes. */
void tr_kv_book_unpack(const struct tr_kv_book *book, tr_ref ref, struct tr_pair *pair);

/* Single fields, without unpacking. */
struct tr_span tr_kv_book_key(const struct tr_kv_book *book, tr_ref ref);
struct tr_span tr_kv_book_value(const struct tr_kv_book *book, tr_ref ref);
struct tr_span tr_kv_book_callback(const struct tr_kv_book *book, tr_ref ref); /* may be empty */
uint8_t *tr_kv_book_value_bytes(struct tr_kv_book *book, tr_ref ref);
uint64_t tr_kv_book_version(const struct tr_kv_book *book, tr_ref ref);
bool tr_kv_book_is_end(const struct tr_kv_book *book, tr_ref ref); /* it is a tombstone */
tr_steady_ms tr_kv_book_expires(const struct tr_kv_book *book, tr_ref ref);
uint32_t tr_kv_book_segment(const struct tr_kv_book *book, tr_ref ref);
void tr_kv_book_set_segment(struct tr_kv_book *book, tr_ref ref, uint32_t segment);
/* A byte for the owner of the book to mark a pair with; whoever writes the pair sets it to 0. */
uint8_t tr_kv_book_marks(const struct tr_kv_book *book, tr_ref ref);
void tr_kv_book_set_marks(struct tr_kv_book *book, tr_ref ref, uint8_t marks);
void tr_kv_book_set_version(struct tr_kv_book *book, tr_ref ref, uint64_t version, uint16_t node);

/* Bytes of memory that a pair takes, its share of the index counted. */
size_t tr_kv_book_memory(const struct tr_kv_book *book, tr_ref ref);

bool tr_kv_book_valid(const struct tr_kv_book *book);

#endif
