/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair, packed:
 *
 *    0  1  0x80 | flags, never 0          12  3  segment
 *    1  1  marks                          15     varints: size of the key, size of the value; when
 *    2  8  version                               it expires, 8 bytes, and its callback, a text of 4
 *   10  2  version node                          bytes, if flagged; key; value
 *
 * It exists in memory alone.
 */
#include "kv/book.h"

#include "base/bytes.h"

#define AT_MARKS   1
#define AT_VERSION 2
#define AT_NODE    10
#define AT_SEGMENT 12
#define FIXED      15

#define LIVE         0x80
#define HAS_EXPIRY   0x01
#define HAS_CALLBACK 0x02
#define IS_END       0x04

#define HEAD_MAX   (FIXED + 2 * TR_VARINT_MAX + 8 + 4)
#define INDEX_SLOT 12 /* bytes of a slot, in pages that are two thirds full */

/* Where the parts of a pair are. */
struct layout {
    size_t key_size;
    size_t value_size;
    size_t expires_at;  /* 0: it does not */
    size_t callback_at; /* 0: there is none */
    size_t key_at;
    size_t value_at;
};

static uint8_t *bytes_at(const struct tr_kv_book *book, tr_ref ref)
{
    return tr_arena_at(book->arena, ref);
}

static struct layout lay_out(uint8_t flags, size_t key_size, size_t value_size)
{
    struct layout layout = {.key_size = key_size, .value_size = value_size};
    size_t at = FIXED + tr_varint_size(key_size) + tr_varint_size(value_size);
    if ((flags & HAS_EXPIRY) != 0) {
        layout.expires_at = at;
        at += 8;
    }
    if ((flags & HAS_CALLBACK) != 0) {
        layout.callback_at = at;
        at += 4;
    }
    layout.key_at = at;
    layout.value_at = at + key_size;
    return layout;
}

static struct layout layout_of(const uint8_t *bytes)
{
    TR_ASSERT((bytes[0] & LIVE) != 0);
    struct tr_reader in = tr_reader_on(bytes + FIXED, (size_t)2 * TR_VARINT_MAX);
    size_t key_size = (size_t)tr_get_varint(&in);
    size_t value_size = (size_t)tr_get_varint(&in);
    return lay_out(bytes[0], key_size, value_size);
}

static uint64_t hash_of(const void *owner, tr_ref ref)
{
    return tr_kv_hash(tr_kv_book_key(owner, ref));
}

bool tr_kv_book_init(struct tr_kv_book *book, struct tr_arena *arena)
{
    book->arena = arena;
    return tr_index_init(&book->index, arena, book, hash_of) &&
           tr_strings_init(&book->callbacks, arena);
}

/* ---- fields ---- */

struct tr_span tr_kv_book_key(const struct tr_kv_book *book, tr_ref ref)
{
    const uint8_t *bytes = bytes_at(book, ref);
    struct layout layout = layout_of(bytes);
    return (struct tr_span){(const char *)bytes + layout.key_at, layout.key_size};
}

struct tr_span tr_kv_book_value(const struct tr_kv_book *book, tr_ref ref)
{
    const uint8_t *bytes = bytes_at(book, ref);
    struct layout layout = layout_of(bytes);
    return (struct tr_span){(const char *)bytes + layout.value_at, layout.value_size};
}

uint8_t *tr_kv_book_value_bytes(struct tr_kv_book *book, tr_ref ref)
{
    uint8_t *bytes = bytes_at(book, ref);
    return bytes + layout_of(bytes).value_at;
}

tr_steady_ms tr_kv_book_expires(const struct tr_kv_book *book, tr_ref ref)
{
    const uint8_t *bytes = bytes_at(book, ref);
    if ((bytes[0] & HAS_EXPIRY) == 0)
        return TR_NEVER;
    return tr_load(bytes + layout_of(bytes).expires_at, 8);
}

uint64_t tr_kv_book_version(const struct tr_kv_book *book, tr_ref ref)
{
    return tr_load(bytes_at(book, ref) + AT_VERSION, 8);
}

bool tr_kv_book_is_end(const struct tr_kv_book *book, tr_ref ref)
{
    return (bytes_at(book, ref)[0] & IS_END) != 0;
}

uint8_t tr_kv_book_marks(const struct tr_kv_book *book, tr_ref ref)
{
    return bytes_at(book, ref)[AT_MARKS];
}

void tr_kv_book_set_marks(struct tr_kv_book *book, tr_ref ref, uint8_t marks)
{
    bytes_at(book, ref)[AT_MARKS] = marks;
}

static tr_ref callback_of(const uint8_t *bytes)
{
    if ((bytes[0] & HAS_CALLBACK) == 0)
        return TR_ARENA_NONE;
    return (tr_ref)tr_load(bytes + layout_of(bytes).callback_at, 4);
}

struct tr_span tr_kv_book_callback(const struct tr_kv_book *book, tr_ref ref)
{
    tr_ref callback = callback_of(bytes_at(book, ref));
    return callback != TR_ARENA_NONE ? tr_strings_text(&book->callbacks, callback)
                                     : (struct tr_span){NULL, 0};
}

uint32_t tr_kv_book_segment(const struct tr_kv_book *book, tr_ref ref)
{
    return (uint32_t)tr_load(bytes_at(book, ref) + AT_SEGMENT, 3);
}

void tr_kv_book_set_segment(struct tr_kv_book *book, tr_ref ref, uint32_t segment)
{
    TR_ASSERT(segment <= 0xffffff);
    tr_store(bytes_at(book, ref) + AT_SEGMENT, segment, 3);
}

void tr_kv_book_set_version(struct tr_kv_book *book, tr_ref ref, uint64_t version, uint16_t node)
{
    uint8_t *bytes = bytes_at(book, ref);
    TR_ASSERT(version >= tr_load(bytes + AT_VERSION, 8));
    tr_store(bytes + AT_VERSION, version, 8);
    tr_store(bytes + AT_NODE, node, 2);
}

void tr_kv_book_unpack(const struct tr_kv_book *book, tr_ref ref, struct tr_pair *pair)
{
    const uint8_t *bytes = bytes_at(book, ref);
    struct layout layout = layout_of(bytes);
    tr_ref callback = callback_of(bytes);
    *pair = (struct tr_pair){
        .key = {(const char *)bytes + layout.key_at, layout.key_size},
        .value = {(const char *)bytes + layout.value_at, layout.value_size},
        .version = tr_load(bytes + AT_VERSION, 8),
        .version_node = (uint16_t)tr_load(bytes + AT_NODE, 2),
        .is_end = (bytes[0] & IS_END) != 0,
        .expires_ms = layout.expires_at != 0 ? tr_load(bytes + layout.expires_at, 8) : TR_NEVER,
        .segment = (uint32_t)tr_load(bytes + AT_SEGMENT, 3),
    };
    if (callback != TR_ARENA_NONE)
        pair->callback = tr_strings_text(&book->callbacks, callback);
}

size_t tr_kv_book_memory(const struct tr_kv_book *book, tr_ref ref)
{
    return tr_arena_capacity(book->arena, ref) + INDEX_SLOT;
}

/* ---- finding ---- */

tr_ref tr_kv_book_find(const struct tr_kv_book *book, struct tr_span key, uint64_t hash)
{
    struct tr_index_walk walk = tr_index_seek_like(&book->index, hash);
    tr_ref ref = TR_ARENA_NONE;
    while (tr_index_next_like(&walk, hash, &ref)) {
        if (tr_span_equals(tr_kv_book_key(book, ref), key))
            return ref;
    }
    return TR_ARENA_NONE;
}

static void fetch_pair(const struct tr_kv_book *book, uint64_t hash)
{
    struct tr_index_walk walk = tr_index_seek_like(&book->index, hash);
    tr_ref ref = TR_ARENA_NONE;
    if (!tr_index_next_like(&walk, hash, &ref))
        return;
    __builtin_prefetch(bytes_at(book, ref));
    __builtin_prefetch(bytes_at(book, ref) + TR_CACHE_LINE);
}

void tr_kv_book_fetch(const struct tr_kv_book *book, const uint64_t *hashes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        tr_index_fetch_page(&book->index, hashes[i]);
    for (unsigned i = 0; i < count; i++)
        tr_index_fetch_slot(&book->index, hashes[i]);
    for (unsigned i = 0; i < count; i++)
        fetch_pair(book, hashes[i]);
}

/* ---- changing ---- */

static void write_head(uint8_t *bytes, uint8_t flags, const struct tr_pair *pair,
                       const struct layout *layout, tr_ref callback)
{
    TR_ASSERT(pair->segment <= 0xffffff);
    struct tr_writer out = tr_writer_on(bytes, HEAD_MAX);
    tr_put_number(&out, (uint64_t)LIVE | flags, 1);
    tr_put_number(&out, 0, 1);
    tr_put_number(&out, pair->version, 8);
    tr_put_number(&out, pair->version_node, 2);
    tr_put_number(&out, pair->segment, 3);
    tr_put_varint(&out, layout->key_size);
    tr_put_varint(&out, layout->value_size);
    if (layout->expires_at != 0)
        tr_put_number(&out, pair->expires_ms, 8);
    if (layout->callback_at != 0)
        tr_put_number(&out, callback, 4);
    TR_ASSERT(!out.is_full && out.size == layout->key_at);
}

static bool has_right_size(const struct tr_kv_book *book, tr_ref ref, size_t size)
{
    size_t capacity = tr_arena_capacity(book->arena, ref);
    return size <= capacity && tr_arena_rounded(size) >= capacity;
}

/* A piece of the right size for a pair that is at `ref`, or nowhere yet: that one, or a new one,
 * or, where none is to be had, one that is larger than needed. */
static tr_ref take_piece(struct tr_kv_book *book, tr_ref ref, size_t size)
{
    TR_ASSERT(size > FIXED);
    bool is_there = ref != TR_ARENA_NONE;
    if (is_there && has_right_size(book, ref, size))
        return ref;
    tr_ref piece = tr_arena_take(book->arena, TR_ARENA_KEY, size, false);
    bool is_enough = is_there && size <= tr_arena_capacity(book->arena, ref);
    return piece == TR_ARENA_NONE && is_enough ? ref : piece;
}

/* The pair at `ref`, if there was one, is at `piece` now. False: the index has no room. */
static bool move_in(struct tr_kv_book *book, tr_ref ref, tr_ref piece, uint64_t hash)
{
    TR_ASSERT(piece != TR_ARENA_NONE);
    if (ref == piece)
        return true;
    if (ref == TR_ARENA_NONE)
        return tr_index_insert(&book->index, hash, piece);
    tr_index_replace(&book->index, hash, ref, piece);
    tr_arena_give(book->arena, ref);
    return true;
}

tr_ref tr_kv_book_put(struct tr_kv_book *book, tr_ref ref, uint64_t hash,
                      const struct tr_pair *pair)
{
    TR_ASSERT(pair->key.size <= TR_KEY_MAX && pair->value.size <= TR_VALUE_MAX);
    TR_ASSERT(!pair->is_end || (pair->value.size == 0 && pair->expires_ms != TR_NEVER));
    tr_ref before = ref != TR_ARENA_NONE ? callback_of(bytes_at(book, ref)) : TR_ARENA_NONE;
    tr_ref callback = TR_ARENA_NONE;
    uint8_t flags = 0;
    if (pair->expires_ms != TR_NEVER)
        flags |= HAS_EXPIRY;
    if (pair->is_end)
        flags |= IS_END;
    if (pair->callback.size > 0) {
        flags |= HAS_CALLBACK;
        callback = tr_strings_hold(&book->callbacks, pair->callback);
        if (callback == TR_ARENA_NONE)
            return TR_ARENA_NONE;
    }
    struct layout layout = lay_out(flags, pair->key.size, pair->value.size);
    tr_ref piece = take_piece(book, ref, layout.value_at + pair->value.size);
    if (piece != TR_ARENA_NONE) {
        uint8_t *bytes = bytes_at(book, piece);
        write_head(bytes, flags, pair, &layout, callback);
        if (pair->key.size > 0)
            memcpy(bytes + layout.key_at, pair->key.text, pair->key.size);
        if (pair->value.size > 0)
            memcpy(bytes + layout.value_at, pair->value.text, pair->value.size);
        if (!move_in(book, ref, piece, hash)) {
            tr_arena_give(book->arena, piece);
            piece = TR_ARENA_NONE;
        }
    }
    tr_ref released = piece != TR_ARENA_NONE ? before : callback;
    if (released != TR_ARENA_NONE)
        tr_strings_release(&book->callbacks, released);
    return piece;
}

/* The same pair with other flags and another size of its value. Its key and what its value keeps
 * are moved last to first, or first to last, since old and new place may overlap. */
static tr_ref repack(struct tr_kv_book *book, tr_ref ref, uint64_t hash, const struct tr_pair *pair,
                     tr_ref callback, size_t value_size)
{
    const uint8_t *old = bytes_at(book, ref);
    struct layout from = layout_of(old);
    uint8_t flags =
        (uint8_t)((pair->expires_ms != TR_NEVER ? HAS_EXPIRY : 0) |
                  (callback != TR_ARENA_NONE ? HAS_CALLBACK : 0) | (pair->is_end ? IS_END : 0));
    struct layout to = lay_out(flags, from.key_size, value_size);
    size_t kept = value_size < from.value_size ? value_size : from.value_size;
    tr_ref piece = take_piece(book, ref, to.value_at + value_size);
    if (piece == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    uint8_t *bytes = bytes_at(book, piece);
    /* Key and value follow each other in both. */
    memmove(bytes + to.key_at, old + from.key_at, from.key_size + kept);
    memset(bytes + to.value_at + kept, 0, value_size - kept);
    write_head(bytes, flags, pair, &to, callback);
    bool is_in = move_in(book, ref, piece, hash);
    TR_ASSERT(is_in); /* it was in the index before */
    return piece;
}

tr_ref tr_kv_book_resize(struct tr_kv_book *book, tr_ref ref, uint64_t hash, size_t size)
{
    TR_ASSERT(ref != TR_ARENA_NONE && size <= TR_VALUE_MAX);
    struct tr_pair pair;
    tr_kv_book_unpack(book, ref, &pair);
    return repack(book, ref, hash, &pair, callback_of(bytes_at(book, ref)), size);
}

tr_ref tr_kv_book_expire(struct tr_kv_book *book, tr_ref ref, uint64_t hash,
                         tr_steady_ms expires_ms, struct tr_span callback)
{
    TR_ASSERT(ref != TR_ARENA_NONE && (expires_ms != TR_NEVER || callback.size == 0));
    struct tr_pair pair;
    tr_kv_book_unpack(book, ref, &pair);
    tr_ref before = callback_of(bytes_at(book, ref));
    tr_ref text = TR_ARENA_NONE;
    if (callback.size > 0) {
        text = tr_strings_hold(&book->callbacks, callback);
        if (text == TR_ARENA_NONE)
            return TR_ARENA_NONE;
    }
    pair.expires_ms = expires_ms;
    tr_ref piece = repack(book, ref, hash, &pair, text, pair.value.size);
    tr_ref released = piece != TR_ARENA_NONE ? before : text;
    if (released != TR_ARENA_NONE)
        tr_strings_release(&book->callbacks, released);
    return piece;
}

tr_ref tr_kv_book_end(struct tr_kv_book *book, tr_ref ref, uint64_t hash, tr_steady_ms until_ms)
{
    TR_ASSERT(ref != TR_ARENA_NONE && until_ms != TR_NEVER);
    struct tr_pair pair;
    tr_kv_book_unpack(book, ref, &pair);
    tr_ref before = callback_of(bytes_at(book, ref));
    pair.is_end = true;
    pair.expires_ms = until_ms;
    tr_ref piece = repack(book, ref, hash, &pair, TR_ARENA_NONE, 0);
    if (piece != TR_ARENA_NONE && before != TR_ARENA_NONE)
        tr_strings_release(&book->callbacks, before);
    return piece;
}

void tr_kv_book_remove(struct tr_kv_book *book, tr_ref ref, uint64_t hash)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_ref callback = callback_of(bytes_at(book, ref));
    tr_index_remove(&book->index, hash, ref);
    tr_arena_give(book->arena, ref);
    if (callback != TR_ARENA_NONE)
        tr_strings_release(&book->callbacks, callback);
}

bool tr_kv_book_valid(const struct tr_kv_book *book)
{
    return tr_index_valid(&book->index) && tr_index_valid(&book->callbacks.index);
}
