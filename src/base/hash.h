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

/* MurmurHash3 x86_32 of the eight little-endian bytes of `id`. */
uint32_t tr_hash_murmur3_id(uint64_t id, uint32_t seed);

/* Jenkins one-at-a-time, 32 bits. */
uint32_t tr_hash_jenkins(const void *bytes, size_t size);

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
