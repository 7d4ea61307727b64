/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of small entries in chunks of the arena: a slot of the wheel, or the pops that wait for
 * a destination. A whole queue is appended to another in constant time.
 *
 * Bounds:  memory only. 12.8 bytes an entry, twice that at most of many queues that were appended
 *          to each other; a chunk of 256 bytes at least while it is not empty.
 */
#ifndef TR_MEMORY_FIFO_H
#define TR_MEMORY_FIFO_H

#include "memory/arena.h"

struct tr_fifo_entry {
    tr_ref ref;
    uint64_t due_ms; /* 48 bits */
};

struct tr_fifo {
    tr_ref head;
    tr_ref tail;
    uint32_t count;
};

/* False, and nothing has changed, when the arena is full. */
bool tr_fifo_push(struct tr_fifo *fifo, struct tr_arena *arena, struct tr_fifo_entry entry);

/* The oldest entry; the queue must not be empty. */
struct tr_fifo_entry tr_fifo_first(const struct tr_fifo *fifo, const struct tr_arena *arena);

/* Takes the oldest entry; the queue must not be empty. */
struct tr_fifo_entry tr_fifo_pop(struct tr_fifo *fifo, struct tr_arena *arena);

/* Appends all of `from`, which is empty then. */
void tr_fifo_splice(struct tr_fifo *fifo, struct tr_arena *arena, struct tr_fifo *from);

bool tr_fifo_valid(const struct tr_fifo *fifo, const struct tr_arena *arena);

#endif
