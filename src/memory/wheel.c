/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At time `now`, level l holds what is due in the current window of level l + 1 but not in that of
 * level l: the windows of now. Its slot number is the due time's digit, nine bits wide, so that the
 * current window and the next never share a slot.
 *
 * The slot of level l that comes next is emptied ahead of time into the next turn of level l - 1: a
 * 64th of what is left, 64 times a turn. At the turn itself the rest follows, highest level first.
 * The sweep takes a slot's entries from the front and lays those it keeps aside, in order; they go
 * back before the rest when the slot is done, or as soon as somebody else needs it.
 */
#include "memory/wheel.h"

#include <string.h>

#define DIGIT      8u
#define SLOT_MASK  (TR_WHEEL_SLOTS - 1u)
#define SLICES     64u  /* of a turn in which the slot ahead is emptied */
#define SMALL_SLOT 256u /* not worth waking for: emptied at the turn */

void tr_wheel_init(struct tr_wheel *wheel, struct tr_arena *arena, uint64_t now_ms)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->arena = arena;
    wheel->now_ms = now_ms;
}

void tr_wheel_clear(struct tr_wheel *wheel, uint64_t now_ms)
{
    struct tr_arena *arena = wheel->arena;
    for (unsigned level = 0; level < TR_WHEEL_LEVELS; level++) {
        for (uint32_t slot = 0; slot < TR_WHEEL_SLOTS; slot++) {
            while (wheel->slots[level][slot].count > 0)
                tr_fifo_pop(&wheel->slots[level][slot], arena);
        }
    }
    while (wheel->ready.count > 0)
        tr_fifo_pop(&wheel->ready, arena);
    while (wheel->sweep_kept.count > 0)
        tr_fifo_pop(&wheel->sweep_kept, arena);
    tr_wheel_init(wheel, arena, now_ms);
}

static uint32_t slot_of(unsigned level, uint64_t due_ms)
{
    TR_ASSERT(level < TR_WHEEL_LEVELS);
    return (uint32_t)(due_ms >> DIGIT * level) & SLOT_MASK;
}

/* The lowest level whose window above holds both now and the due time. */
static unsigned level_of(uint64_t now_ms, uint64_t due_ms)
{
    unsigned level = 0;
    while (level < TR_WHEEL_LEVELS - 1 &&
           due_ms >> DIGIT * (level + 1) != now_ms >> DIGIT * (level + 1))
        level++;
    return level;
}

static bool add(struct tr_wheel *wheel, unsigned level, struct tr_fifo_entry entry)
{
    TR_ASSERT(level < TR_WHEEL_LEVELS && entry.due_ms >= wheel->now_ms);
    uint32_t slot = slot_of(level, entry.due_ms);
    if (!tr_fifo_push(&wheel->slots[level][slot], wheel->arena, entry))
        return false;
    wheel->filled[level][slot / 64] |= (uint64_t)1 << slot % 64;
    return true;
}

bool tr_wheel_arm(struct tr_wheel *wheel, tr_ref ref, uint64_t due_ms)
{
    struct tr_fifo_entry entry = {ref, due_ms};
    TR_ASSERT(due_ms >> DIGIT * TR_WHEEL_LEVELS == 0);
    bool is_added = due_ms <= wheel->now_ms ? tr_fifo_push(&wheel->ready, wheel->arena, entry)
                                            : add(wheel, level_of(wheel->now_ms, due_ms), entry);
    wheel->count += is_added;
    return is_added;
}

static void clear_bit(struct tr_wheel *wheel, unsigned level, uint32_t slot)
{
    TR_ASSERT(level < TR_WHEEL_LEVELS && slot < TR_WHEEL_SLOTS);
    if (wheel->slots[level][slot].count == 0)
        wheel->filled[level][slot / 64] &= ~((uint64_t)1 << slot % 64);
}

/* Puts back what the sweep has laid aside of a slot. */
static void end_sweep(struct tr_wheel *wheel, unsigned level, uint32_t slot)
{
    struct tr_fifo *fifo = &wheel->slots[level][slot];
    if (wheel->sweep_slot != level * TR_WHEEL_SLOTS + slot || wheel->sweep_kept.count == 0)
        return;
    tr_fifo_splice(&wheel->sweep_kept, wheel->arena, fifo);
    *fifo = wheel->sweep_kept;
    wheel->sweep_kept = (struct tr_fifo){0};
}

/* Moves up to `most` entries of a slot one level down, oldest first. The chunks that this may need
 * beyond those it frees, one a slot at most, are part of the arena's reserve. */
static void empty_slot(struct tr_wheel *wheel, unsigned level, uint32_t slot, uint32_t most)
{
    TR_ASSERT(level > 0 && level < TR_WHEEL_LEVELS);
    struct tr_fifo *fifo = &wheel->slots[level][slot];
    end_sweep(wheel, level, slot);
    for (uint32_t i = 0; i < most && fifo->count > 0; i++) {
        struct tr_fifo_entry entry = tr_fifo_pop(fifo, wheel->arena);
        bool is_added = add(wheel, level - 1, entry);
        TR_ASSERT(is_added);
    }
    clear_bit(wheel, level, slot);
}

/* What level `level` has next: the slot that becomes current when the level below has turned. */
static struct tr_fifo *slot_ahead(struct tr_wheel *wheel, unsigned level, uint32_t *slot)
{
    TR_ASSERT(level > 0 && level < TR_WHEEL_LEVELS);
    *slot = (uint32_t)((wheel->now_ms >> DIGIT * level) + 1) & SLOT_MASK;
    return &wheel->slots[level][*slot];
}

/* Empties ahead what the time since `before_ms` asks for. */
static void empty_ahead(struct tr_wheel *wheel, uint64_t before_ms)
{
    for (unsigned level = TR_WHEEL_LEVELS - 1; level > 0; level--) {
        uint64_t turn = (uint64_t)1 << DIGIT * level;
        uint64_t slice = turn / SLICES;
        uint64_t within = wheel->now_ms / slice % SLICES;
        uint64_t slices = wheel->now_ms / slice - before_ms / slice;
        slices = slices < within ? slices : within;
        uint32_t slot = 0;
        struct tr_fifo *fifo = slot_ahead(wheel, level, &slot);
        if (slices == 0 || fifo->count <= SMALL_SLOT)
            continue;
        uint64_t left = SLICES - within;
        uint64_t most = fifo->count * slices / (left + slices - 1) + 1;
        empty_slot(wheel, level, slot, most < fifo->count ? (uint32_t)most : fifo->count);
    }
}

/* At a turn: what the slots that become current still hold comes down, highest level first. */
static void turn(struct tr_wheel *wheel)
{
    TR_ASSERT((wheel->now_ms & 255) == 0);
    unsigned top = 1;
    while (top < TR_WHEEL_LEVELS - 1 &&
           (wheel->now_ms & (((uint64_t)1 << DIGIT * (top + 1)) - 1)) == 0)
        top++;
    for (unsigned level = top; level > 0; level--) {
        uint32_t slot = slot_of(level, wheel->now_ms);
        empty_slot(wheel, level, slot, UINT32_MAX);
    }
}

static void ripen(struct tr_wheel *wheel)
{
    uint32_t slot = slot_of(0, wheel->now_ms);
    end_sweep(wheel, 0, slot);
    tr_fifo_splice(&wheel->ready, wheel->arena, &wheel->slots[0][slot]);
    clear_bit(wheel, 0, slot);
}

/* The first time after now, within the window of 256 ticks of level `level`, at which a slot of
 * that level comes; the end of the window if there is none. */
static uint64_t next_filled(const struct tr_wheel *wheel, unsigned level)
{
    TR_ASSERT(level < TR_WHEEL_LEVELS);
    uint64_t digit = (wheel->now_ms >> DIGIT * level) + 1;
    uint64_t end = (digit - 1) / 256 * 256 + 256;
    while (digit < end) {
        uint64_t bits = wheel->filled[level][(digit & SLOT_MASK) / 64] >> digit % 64;
        if (bits != 0) {
            digit += (uint64_t)__builtin_ctzll(bits);
            break;
        }
        digit += 64 - digit % 64;
    }
    return (digit < end ? digit : end) << DIGIT * level;
}

/* Whether level `level` holds anything for the turn that begins with digit `digit`. */
static bool has_turn(const struct tr_wheel *wheel, unsigned level, uint64_t digit)
{
    uint32_t first = (uint32_t)(digit & SLOT_MASK) / 64;
    return (wheel->filled[level][first] | wheel->filled[level][first + 1] |
            wheel->filled[level][first + 2] | wheel->filled[level][first + 3]) != 0;
}

/* The next time at which something ripens, comes down, or wants to be emptied ahead. Lower levels
 * come first: all they hold for this turn is before anything that is above them. */
static uint64_t next_change(const struct tr_wheel *wheel)
{
    for (unsigned level = 0; level < TR_WHEEL_LEVELS; level++) {
        uint64_t at = next_filled(wheel, level);
        uint64_t turn_ms = (uint64_t)1 << DIGIT * level;
        uint64_t next_digit = ((wheel->now_ms >> DIGIT * (level + 1)) + 1) << DIGIT;
        if (at == next_digit << DIGIT * level) {
            if (has_turn(wheel, level, next_digit))
                return at;
            continue;
        }
        bool is_small = wheel->slots[level][slot_of(level, at)].count <= SMALL_SLOT;
        if (level == 0 || is_small || at - turn_ms <= wheel->now_ms)
            return at;
        return at - turn_ms;
    }
    return TR_WHEEL_NEVER;
}

void tr_wheel_advance(struct tr_wheel *wheel, uint64_t now_ms)
{
    if (wheel->count == 0 && wheel->now_ms < now_ms)
        wheel->now_ms = now_ms; /* a node without keys, or without timers */
    while (wheel->now_ms < now_ms) {
        uint64_t before_ms = wheel->now_ms;
        uint64_t next = next_change(wheel);
        wheel->now_ms = next < now_ms ? next : now_ms;
        if (before_ms >> DIGIT != wheel->now_ms >> DIGIT) {
            /* No slot lies between the two times, so only a turn at `now` itself brings any. */
            if ((wheel->now_ms & 255) == 0)
                turn(wheel);
        }
        ripen(wheel);
        empty_ahead(wheel, before_ms);
    }
}

bool tr_wheel_pop(struct tr_wheel *wheel, struct tr_fifo_entry *entry)
{
    if (wheel->ready.count == 0)
        return false;
    *entry = tr_fifo_pop(&wheel->ready, wheel->arena);
    wheel->count--;
    return true;
}

uint64_t tr_wheel_wake_at(const struct tr_wheel *wheel)
{
    if (wheel->ready.count > 0)
        return wheel->now_ms;
    if (wheel->count == 0)
        return TR_WHEEL_NEVER;
    uint64_t at = next_change(wheel);
    for (unsigned level = 1; level < TR_WHEEL_LEVELS; level++) {
        uint64_t slice = ((uint64_t)1 << DIGIT * level) / SLICES;
        uint32_t slot = (uint32_t)((wheel->now_ms >> DIGIT * level) + 1) & SLOT_MASK;
        uint64_t next_slice = (wheel->now_ms / slice + 1) * slice;
        if (wheel->slots[level][slot].count > SMALL_SLOT && next_slice < at)
            at = next_slice;
    }
    return at;
}

bool tr_wheel_sweep_take(struct tr_wheel *wheel, struct tr_fifo_entry *entry)
{
    uint32_t level = wheel->sweep_slot / TR_WHEEL_SLOTS;
    uint32_t slot = wheel->sweep_slot % TR_WHEEL_SLOTS;
    while (wheel->slots[level][slot].count == 0) {
        end_sweep(wheel, level, slot);
        clear_bit(wheel, level, slot);
        wheel->sweep_slot = (wheel->sweep_slot + 1) % (TR_WHEEL_LEVELS * TR_WHEEL_SLOTS);
        level = wheel->sweep_slot / TR_WHEEL_SLOTS;
        slot = wheel->sweep_slot % TR_WHEEL_SLOTS;
        if (wheel->sweep_slot == 0)
            return false;
    }
    *entry = tr_fifo_pop(&wheel->slots[level][slot], wheel->arena);
    wheel->count--;
    return true;
}

void tr_wheel_sweep_keep(struct tr_wheel *wheel, struct tr_fifo_entry entry)
{
    bool is_added = tr_fifo_push(&wheel->sweep_kept, wheel->arena, entry);
    TR_ASSERT(is_added);
    wheel->count++;
}

bool tr_wheel_valid(const struct tr_wheel *wheel)
{
    uint64_t count = (uint64_t)wheel->ready.count + wheel->sweep_kept.count;
    for (unsigned level = 0; level < TR_WHEEL_LEVELS; level++) {
        for (uint32_t slot = 0; slot < TR_WHEEL_SLOTS; slot++) {
            const struct tr_fifo *fifo = &wheel->slots[level][slot];
            bool is_filled = (wheel->filled[level][slot / 64] >> slot % 64 & 1) != 0;
            bool is_swept = wheel->sweep_slot == level * TR_WHEEL_SLOTS + slot;
            if ((!is_swept && is_filled != (fifo->count > 0)) ||
                (is_swept && !is_filled && fifo->count > 0) || !tr_fifo_valid(fifo, wheel->arena))
                return false;
            count += fifo->count;
        }
    }
    return tr_fifo_valid(&wheel->ready, wheel->arena) && count == wheel->count;
}
