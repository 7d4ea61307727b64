/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Little-endian numbers and varints in byte buffers: what packed records and the log are made of.
 *
 * A writer that runs out of room, and a reader that runs out of bytes, say so once, in a flag: the
 * caller looks at it at the end instead of after every field.
 */
#ifndef TR_BASE_BYTES_H
#define TR_BASE_BYTES_H

#include "base/assert.h"
#include "base/span.h"

#include <stdint.h>

#define TR_VARINT_MAX 10 /* bytes of a 64-bit varint */

#define TR_IS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

_Static_assert(7 * (TR_VARINT_MAX - 1) < 64 && 7 * TR_VARINT_MAX >= 64, "seven bits a byte");

struct tr_writer {
    uint8_t *bytes;
    size_t size;
    size_t cap;
    bool is_full; /* something did not fit, and nothing after it was written */
};

struct tr_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool is_short; /* something was missing or no varint; everything read since is 0 */
};

/* Fixed fields at a known place. What most of them are is one access of memory, which compilers do
 * not make of a loop over its bytes. */
static inline uint64_t tr_load(const uint8_t *bytes, size_t size)
{
    TR_ASSERT(size <= sizeof(uint64_t));
    uint64_t value = 0;
    if (TR_IS_LITTLE && size == sizeof value) {
        memcpy(&value, bytes, sizeof value);
        return value;
    }
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

static inline void tr_store(uint8_t *bytes, uint64_t value, size_t size)
{
    TR_ASSERT(size <= sizeof value);
    if (TR_IS_LITTLE && size == sizeof value) {
        memcpy(bytes, &value, sizeof value);
        return;
    }
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

static inline struct tr_writer tr_writer_on(void *bytes, size_t cap)
{
    return (struct tr_writer){.bytes = bytes, .cap = cap};
}

static inline struct tr_reader tr_reader_on(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    return (struct tr_reader){.at = at, .end = at + size};
}

static inline void tr_put_bytes(struct tr_writer *writer, const void *bytes, size_t size)
{
    TR_ASSERT(writer->size <= writer->cap);
    if (writer->is_full || writer->cap - writer->size < size) {
        writer->is_full = true;
        return;
    }
    if (size > 0)
        memcpy(writer->bytes + writer->size, bytes, size);
    writer->size += size;
}

/* The low `size` bytes of `value`. */
static inline void tr_put_number(struct tr_writer *writer, uint64_t value, size_t size)
{
    TR_ASSERT(size <= sizeof value);
    if (writer->is_full || writer->cap - writer->size < size) {
        writer->is_full = true;
        return;
    }
    tr_store(writer->bytes + writer->size, value, size);
    writer->size += size;
}

static inline size_t tr_varint_size(uint64_t value)
{
    size_t size = 1;
    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

/* Byte by byte to where it belongs: one that is put together elsewhere and copied in one piece
 * makes the processor wait until all of its bytes are in the cache. */
static inline void tr_put_varint(struct tr_writer *writer, uint64_t value)
{
    size_t size = writer->size;
    if (writer->is_full || writer->cap - size < tr_varint_size(value)) {
        writer->is_full = true;
        return;
    }
    for (; value >= 0x80; value >>= 7)
        writer->bytes[size++] = (uint8_t)(value | 0x80);
    writer->bytes[size++] = (uint8_t)value;
    writer->size = size;
}

static inline void tr_put_span(struct tr_writer *writer, struct tr_span span)
{
    tr_put_varint(writer, span.size);
    tr_put_bytes(writer, span.text, span.size);
}

static inline const uint8_t *tr_get_bytes(struct tr_reader *reader, size_t size)
{
    TR_ASSERT(reader->at <= reader->end);
    if (reader->is_short || (size_t)(reader->end - reader->at) < size) {
        reader->is_short = true;
        return NULL;
    }
    const uint8_t *bytes = reader->at;
    reader->at += size;
    return bytes;
}

static inline uint64_t tr_get_number(struct tr_reader *reader, size_t size)
{
    TR_ASSERT(size <= sizeof(uint64_t));
    const uint8_t *bytes = tr_get_bytes(reader, size);
    return bytes != NULL ? tr_load(bytes, size) : 0;
}

static inline uint64_t tr_get_varint(struct tr_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (reader->at == NULL || reader->at == reader->end)
            break;
        uint8_t byte = *reader->at++;
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    reader->is_short = true;
    reader->at = reader->end;
    return 0;
}

static inline struct tr_span tr_get_span(struct tr_reader *reader)
{
    uint64_t size = tr_get_varint(reader);
    if (size > (uint64_t)(reader->end - reader->at))
        reader->is_short = true;
    const uint8_t *bytes = reader->is_short ? NULL : tr_get_bytes(reader, (size_t)size);
    return (struct tr_span){(const char *)bytes, bytes == NULL ? 0 : (size_t)size};
}

#endif
