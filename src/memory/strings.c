/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/strings.h"

#include "base/hash.h"

struct string {
    uint64_t tally;
    uint32_t holders;
    uint32_t size;
    char text[];
};

static struct string *string_at(const struct tr_strings *strings, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    return tr_arena_at(strings->arena, ref);
}

static uint64_t hash_of(const void *owner, tr_ref ref)
{
    const struct string *string = string_at(owner, ref);
    return tr_hash_xxh3(string->text, string->size);
}

bool tr_strings_init(struct tr_strings *strings, struct tr_arena *arena)
{
    strings->arena = arena;
    return tr_index_init(&strings->index, arena, strings, hash_of);
}

static tr_ref find(const struct tr_strings *strings, struct tr_span text, uint64_t hash)
{
    struct tr_index_walk walk = tr_index_seek(&strings->index, hash);
    tr_ref ref = TR_ARENA_NONE;
    while (tr_index_next_like(&walk, hash, &ref)) {
        if (tr_span_equals(text, tr_strings_text(strings, ref)))
            return ref;
    }
    return TR_ARENA_NONE;
}

tr_ref tr_strings_find(const struct tr_strings *strings, struct tr_span text)
{
    return find(strings, text, tr_hash_xxh3(text.text, text.size));
}

tr_ref tr_strings_hold(struct tr_strings *strings, struct tr_span text)
{
    uint64_t hash = tr_hash_xxh3(text.text, text.size);
    tr_ref ref = find(strings, text, hash);
    if (ref != TR_ARENA_NONE) {
        string_at(strings, ref)->holders++;
        return ref;
    }
    ref = tr_arena_take(strings->arena, TR_ARENA_STRING, sizeof(struct string) + text.size, false);
    if (ref == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    struct string *string = string_at(strings, ref);
    *string = (struct string){.holders = 1, .size = (uint32_t)text.size};
    if (text.size > 0)
        memcpy(string->text, text.text, text.size);
    if (!tr_index_insert(&strings->index, hash, ref)) {
        tr_arena_give(strings->arena, ref);
        return TR_ARENA_NONE;
    }
    return ref;
}

bool tr_strings_release(struct tr_strings *strings, tr_ref ref)
{
    struct string *string = string_at(strings, ref);
    TR_ASSERT(string->holders > 0);
    if (--string->holders > 0)
        return false;
    tr_index_remove(&strings->index, hash_of(strings, ref), ref);
    tr_arena_give(strings->arena, ref);
    return true;
}

struct tr_span tr_strings_text(const struct tr_strings *strings, tr_ref ref)
{
    const struct string *string = string_at(strings, ref);
    return (struct tr_span){string->text, string->size};
}

uint64_t *tr_strings_tally(const struct tr_strings *strings, tr_ref ref)
{
    return &string_at(strings, ref)->tally;
}
