/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timing wheel: holds armed records and hands back those that are due.
 *
 * Six levels of 256 slots: a slot of level 0 is one millisecond, of level 1 a whole turn of level
 * 0, and so on: 8,900 years in all. Each level has a second set of slots for its next turn, into
 * which the slot above is emptied little by little during the turn before: a million timers due in
 * the same minute never stall a tick. Slots are queues, and what is armed late joins the end of the
 * queue that its elders still stand in, so equal deadlines come out in the order of arming.
 *
 * The wheel is told the time and never asks for it. It calls nobody back: the owner advances it and
 * pops due entries one by one.
 *
 * Cancelling is the owner's: an entry whose record is gone or has another due time is *stale*, and
 * is passed over when it comes out. The owner counts stale entries and sweeps when there are many.
 *
 * Owns:    its entries, in chunks of the arena.
 * Bounds:  memory only; arming fails when the arena is full.
 * Order:   by deadline, then by arming. Never early, late by less than one tick.
 */
#ifndef TR_MEMORY_WHEEL_H
#define TR_MEMORY_WHEEL_H

#include "memory/fifo.h"

#define TR_WHEEL_LEVELS 6
#define TR_WHEEL_SLOTS  512 /* two turns of 256 */
#define TR_WHEEL_NEVER  UINT64_MAX

struct tr_wheel {
    struct tr_arena *arena;
    uint64_t now_ms; /* everything due up to it is in `ready` */
    uint64_t count;  /* entries, stale ones too */
    struct tr_fifo ready;
    struct tr_fifo slots[TR_WHEEL_LEVELS][TR_WHEEL_SLOTS];
    uint64_t filled[TR_WHEEL_LEVELS][TR_WHEEL_SLOTS / 64]; /* a bit for each slot with entries */

    uint32_t sweep_slot;       /* where the sweep is: level x slots + slot */
    struct tr_fifo sweep_kept; /* the entries of that slot it has seen: they go before the rest */
};

void tr_wheel_init(struct tr_wheel *wheel, struct tr_arena *arena, uint64_t now_ms);

/* Takes everything out; the time may be an earlier one then. */
void tr_wheel_clear(struct tr_wheel *wheel, uint64_t now_ms);

/* Adds an entry that falls due at `due_ms`, at once if that is past. False when memory is out. */
bool tr_wheel_arm(struct tr_wheel *wheel, tr_ref ref, uint64_t due_ms);

/* Moves the time forward; a time before the wheel's own is ignored. */
void tr_wheel_advance(struct tr_wheel *wheel, uint64_t now_ms);

/* Takes the next due entry, stale or not; false when there is none. */
bool tr_wheel_pop(struct tr_wheel *wheel, struct tr_fifo_entry *entry);

/* When to advance next: the first deadline, or sooner when slots want emptying. */
uint64_t tr_wheel_wake_at(const struct tr_wheel *wheel);

/* The sweep looks at every entry that is not due, a few at a time: take the next one, and put it
 * back unless it is stale. False at the end of the round. */
bool tr_wheel_sweep_take(struct tr_wheel *wheel, struct tr_fifo_entry *entry);
void tr_wheel_sweep_keep(struct tr_wheel *wheel, struct tr_fifo_entry entry);

/* True when every queue, bit and count agrees. O(entries). */
bool tr_wheel_valid(const struct tr_wheel *wheel);

#endif
