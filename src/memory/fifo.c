/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/fifo.h"

#define CHUNK_ENTRIES 20

/* Twelve bytes, not sixteen: the due time is kept in two halves. */
struct entry {
    tr_ref ref;
    uint32_t due_low;
    uint32_t due_high;
};

struct chunk {
    tr_ref next;
    uint16_t begin;
    uint16_t end;
    struct entry entries[CHUNK_ENTRIES];
};

bool tr_fifo_push(struct tr_fifo *fifo, struct tr_arena *arena, struct tr_fifo_entry entry)
{
    TR_ASSERT(entry.ref != TR_ARENA_NONE);
    struct chunk *tail = fifo->tail == TR_ARENA_NONE ? NULL : tr_arena_at(arena, fifo->tail);
    if (tail == NULL || tail->end == CHUNK_ENTRIES) {
        tr_ref ref = tr_arena_take(arena, TR_ARENA_CHUNK, sizeof(struct chunk), true);
        if (ref == TR_ARENA_NONE)
            return false;
        if (tail == NULL)
            fifo->head = ref;
        else
            tail->next = ref;
        fifo->tail = ref;
        tail = tr_arena_at(arena, ref);
        tail->next = TR_ARENA_NONE;
        tail->begin = 0;
        tail->end = 0;
    }
    tail->entries[tail->end++] =
        (struct entry){entry.ref, (uint32_t)entry.due_ms, (uint32_t)(entry.due_ms >> 32)};
    fifo->count++;
    return true;
}

struct tr_fifo_entry tr_fifo_first(const struct tr_fifo *fifo, const struct tr_arena *arena)
{
    TR_ASSERT(fifo->count > 0);
    const struct chunk *head = tr_arena_at(arena, fifo->head);
    TR_ASSERT(head->begin < head->end);
    struct entry entry = head->entries[head->begin];
    return (struct tr_fifo_entry){entry.ref, (uint64_t)entry.due_high << 32 | entry.due_low};
}

struct tr_fifo_entry tr_fifo_pop(struct tr_fifo *fifo, struct tr_arena *arena)
{
    TR_ASSERT(fifo->count > 0);
    tr_ref ref = fifo->head;
    struct chunk *head = tr_arena_at(arena, ref);
    TR_ASSERT(head->begin < head->end);
    struct entry entry = head->entries[head->begin++];
    fifo->count--;
    if (head->begin == head->end) {
        fifo->head = head->next;
        if (fifo->head == TR_ARENA_NONE)
            fifo->tail = TR_ARENA_NONE;
        tr_arena_give(arena, ref);
    }
    return (struct tr_fifo_entry){entry.ref, (uint64_t)entry.due_high << 32 | entry.due_low};
}

void tr_fifo_splice(struct tr_fifo *fifo, struct tr_arena *arena, struct tr_fifo *from)
{
    TR_ASSERT(fifo != from);
    if (from->count == 0)
        return;
    if (fifo->count == 0) {
        *fifo = *from;
        *from = (struct tr_fifo){0};
        return;
    }
    struct chunk *tail = tr_arena_at(arena, fifo->tail);
    if (from->count + tail->end <= CHUNK_ENTRIES) { /* else each would keep a chunk of its own */
        while (from->count > 0)
            tr_fifo_push(fifo, arena, tr_fifo_pop(from, arena));
        return;
    }
    tail->next = from->head;
    fifo->tail = from->tail;
    fifo->count += from->count;
    *from = (struct tr_fifo){0};
}

bool tr_fifo_valid(const struct tr_fifo *fifo, const struct tr_arena *arena)
{
    uint64_t count = 0;
    tr_ref last = TR_ARENA_NONE;
    for (tr_ref ref = fifo->head; ref != TR_ARENA_NONE;) {
        const struct chunk *chunk = tr_arena_at(arena, ref);
        if (chunk->begin >= chunk->end || chunk->end > CHUNK_ENTRIES)
            return false;
        count += (uint64_t)(chunk->end - chunk->begin);
        if (count > fifo->count)
            return false;
        last = ref;
        ref = chunk->next;
    }
    return count == fifo->count && last == fifo->tail;
}
