/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash functions that placement is made of. Each is a wire contract: its values never change.
 */
#ifndef TR_BASE_HASH_H
#define TR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH3, 64 bits, no seed. */
uint64_t tr_hash_xxh3(const void *bytes, size_t size);

/* MurmurHash3 x86_32. */
uint32_t tr_hash_murmur3(const void *bytes, size_t size, uint32_t seed);

/* MurmurHash3 x86_128, as two numbers of 64 bits. */
void tr_hash_murmur3_128(const void *bytes, size_t size, uint32_t seed, uint64_t halves[2]);

/* Jenkins one-at-a-time, 32 bits. */
uint32_t tr_hash_jenkins(const void *bytes, size_t size);

/* The steps of MurmurHash3 x86_32: take in four bytes, finish after `size` of them. */
static inline uint32_t tr_hash_murmur3_rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

static inline uint32_t tr_hash_murmur3_scramble(uint32_t block)
{
    return tr_hash_murmur3_rotate(block * 0xcc9e2d51u, 15) * 0x1b873593u;
}

static inline uint32_t tr_hash_murmur3_absorb(uint32_t state, uint32_t block)
{
    return tr_hash_murmur3_rotate(state ^ tr_hash_murmur3_scramble(block), 13) * 5 + 0xe6546b64u;
}

static inline uint32_t tr_hash_murmur3_finish(uint32_t state, size_t size)
{
    state ^= (uint32_t)size;
    state = (state ^ state >> 16) * 0x85ebca6bu;
    state = (state ^ state >> 13) * 0xc2b2ae35u;
    return state ^ state >> 16;
}

/* MurmurHash3 x86_32 of the eight little-endian bytes of `id`. */
static inline uint32_t tr_hash_murmur3_id(uint64_t id, uint32_t seed)
{
    uint32_t state = tr_hash_murmur3_absorb(seed, (uint32_t)id);
    return tr_hash_murmur3_finish(tr_hash_murmur3_absorb(state, (uint32_t)(id >> 32)), 8);
}

/* A bijective mix of 64 bits (Stafford's variant 13): every input bit moves every output bit. */
static inline uint64_t tr_hash_mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* The eight bytes of `id`, little-endian on every machine. */
static inline void tr_hash_id_bytes(uint64_t id, uint8_t bytes[8])
{
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(id >> 8 * i);
}

#endif
