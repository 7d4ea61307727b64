/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that many records share, each kept once and counted: callback URIs, content types, tags.
 *
 * Owns:    the texts, in the arena; each lives while somebody holds it.
 * Bounds:  memory only.
 */
#ifndef TR_MEMORY_STRINGS_H
#define TR_MEMORY_STRINGS_H

#include "base/span.h"
#include "memory/index.h"

struct tr_strings {
    struct tr_arena *arena;
    struct tr_index index;
};

bool tr_strings_init(struct tr_strings *strings, struct tr_arena *arena);

/* The text's reference, held once more; TR_ARENA_NONE when there is no room. */
tr_ref tr_strings_hold(struct tr_strings *strings, struct tr_span text);

/* The text's reference if it is there, not held. */
tr_ref tr_strings_find(const struct tr_strings *strings, struct tr_span text);

/* Lets go once; true when that was the last holder, and the text is gone. */
bool tr_strings_release(struct tr_strings *strings, tr_ref ref);

struct tr_span tr_strings_text(const struct tr_strings *strings, tr_ref ref);

/* A number that the owner may keep beside a text; 0 at first. */
uint64_t *tr_strings_tally(const struct tr_strings *strings, tr_ref ref);

#endif
