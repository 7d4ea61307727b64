/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include "base/assert.h"

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

/* The 32-bit lanes of MurmurHash3 x86_128. */
struct lanes {
    uint32_t h[4];
};

static const uint32_t lane_factors[4] = {0x239b961bu, 0xab0e9789u, 0x38b34ae5u, 0xa1e38b93u};

static uint32_t lane_scramble(uint32_t block, unsigned lane)
{
    TR_ASSERT(lane < 4);
    static const unsigned turns[4] = {15, 16, 17, 18};
    block = tr_hash_murmur3_rotate(block * lane_factors[lane], turns[lane]);
    return block * lane_factors[(lane + 1) % 4];
}

static void lanes_absorb(struct lanes *lanes, const uint8_t *block)
{
    static const unsigned turns[4] = {19, 17, 15, 13};
    static const uint32_t sums[4] = {0x561ccd1bu, 0x0bcaa747u, 0x96cd1c35u, 0x32ac3b17u};
    for (unsigned i = 0; i < 4; i++) {
        const uint8_t *at = block + (size_t)4 * i;
        uint32_t word =
            (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        uint32_t mixed = tr_hash_murmur3_rotate(lanes->h[i] ^ lane_scramble(word, i), turns[i]);
        lanes->h[i] = (mixed + lanes->h[(i + 1) % 4]) * 5 + sums[i];
    }
}

static void lanes_sum(struct lanes *lanes)
{
    lanes->h[0] += lanes->h[1] + lanes->h[2] + lanes->h[3];
    for (unsigned i = 1; i < 4; i++)
        lanes->h[i] += lanes->h[0];
}

void tr_hash_murmur3_128(const void *bytes, size_t size, uint32_t seed, uint64_t halves[2])
{
    struct lanes lanes = {{seed, seed, seed, seed}};
    const uint8_t *at = bytes;
    size_t left = size;
    for (; left >= 16; left -= 16, at += 16)
        lanes_absorb(&lanes, at);
    TR_ASSERT(left < 16);
    for (unsigned i = 0; (size_t)i * 4 < left; i++) {
        uint32_t word = 0;
        for (unsigned j = 0; j < 4 && (size_t)i * 4 + j < left; j++)
            word |= (uint32_t)at[(size_t)i * 4 + j] << 8 * j;
        lanes.h[i] ^= lane_scramble(word, i);
    }
    for (unsigned i = 0; i < 4; i++)
        lanes.h[i] ^= (uint32_t)size;
    lanes_sum(&lanes);
    for (unsigned i = 0; i < 4; i++)
        lanes.h[i] = tr_hash_murmur3_finish(lanes.h[i], 0);
    lanes_sum(&lanes);
    halves[0] = (uint64_t)lanes.h[1] << 32 | lanes.h[0];
    halves[1] = (uint64_t)lanes.h[3] << 32 | lanes.h[2];
}
