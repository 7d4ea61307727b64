/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

/* Inlined, so that the library needs no other at run time. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t tr_hash_xxh3(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

static uint32_t little_endian_32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static uint32_t murmur3_scramble(uint32_t block)
{
    return rotate(block * 0xcc9e2d51u, 15) * 0x1b873593u;
}

static uint32_t murmur3_absorb(uint32_t state, uint32_t block)
{
    return rotate(state ^ murmur3_scramble(block), 13) * 5 + 0xe6546b64u;
}

static uint32_t murmur3_finish(uint32_t state, size_t size)
{
    state ^= (uint32_t)size;
    state = (state ^ state >> 16) * 0x85ebca6bu;
    state = (state ^ state >> 13) * 0xc2b2ae35u;
    return state ^ state >> 16;
}

uint32_t tr_hash_murmur3(const void *bytes, size_t size, uint32_t seed)
{
    const uint8_t *at = bytes;
    uint32_t state = seed;
    for (size_t block = 0; block < size / 4; block++, at += 4)
        state = murmur3_absorb(state, little_endian_32(at));
    uint32_t tail = 0;
    for (size_t i = size % 4; i > 0; i--)
        tail = tail << 8 | at[i - 1];
    if (size % 4 != 0)
        state ^= murmur3_scramble(tail);
    return murmur3_finish(state, size);
}

uint32_t tr_hash_murmur3_id(uint64_t id, uint32_t seed)
{
    uint32_t state = murmur3_absorb(seed, (uint32_t)id);
    return murmur3_finish(murmur3_absorb(state, (uint32_t)(id >> 32)), 8);
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
