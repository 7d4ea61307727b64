/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

/* Inlined, so that the library needs no other at run time. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t tr_hash_xxh3(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

static uint32_t little_endian_32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

uint32_t tr_hash_murmur3(const void *bytes, size_t size, uint32_t seed)
{
    const uint8_t *at = bytes;
    uint32_t state = seed;
    for (size_t block = 0; block < size / 4; block++, at += 4)
        state = tr_hash_murmur3_absorb(state, little_endian_32(at));
    uint32_t tail = 0;
    for (size_t i = size % 4; i > 0; i--)
        tail = tail << 8 | at[i - 1];
    if (size % 4 != 0)
        state ^= tr_hash_murmur3_scramble(tail);
    return tr_hash_murmur3_finish(state, size);
}

uint32_t tr_hash_jenkins(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint32_t state = 0;
    for (size_t i = 0; i < size; i++) {
        state += at[i];
        state += state << 10;
        state ^= state >> 6;
    }
    state += state << 3;
    state ^= state >> 11;
    return state + (state << 15);
}
