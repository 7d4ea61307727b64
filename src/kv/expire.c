/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/expire.h"

#include "base/record.h"
#include "kv/store.h"

#define EXPIRE_SLICE 256 /* pairs that go in a step, so that none is long, */
#define EXPIRE_SHARE 256 /* and this share of those that are due: the crowd is kept up with */
#define EXPIRE_MOST  4096
#define STALE_MIN    65536 /* entries of the wheel that may be stale before it is swept */
#define SWEEP_SLICE  2048
#define SWEEP_SHARE  32 /* of what is stale, beside that: who makes more of it is kept up with */
#define SWEEP_MOST   16384
#define ARM_SLICE    16384 /* pairs armed in a step */
#define AGAIN_MS     20    /* until a callback that could not be owed is tried again, */
#define AGAIN_SHARE  16    /* and this share of the time since its key expired, */
#define AGAIN_MOST   1000  /* but no longer than this */
#define END_AGAIN_MS 15000 /* until a tombstone that cannot be forgotten is looked at again */
#define END_MOST_MS  86400000

void tr_kv_arm(struct tr_kv *kv, tr_ref ref, tr_steady_ms expires_ms)
{
    TR_ASSERT(ref != TR_ARENA_NONE && expires_ms != TR_NEVER);
    if (expires_ms >= TR_TIME_MAX)
        return; /* nobody will see that */
    bool is_armed = tr_wheel_arm(&kv->wheel, ref, expires_ms + 1);
    TR_ASSERT(is_armed); /* entries come from the arena's reserve */
}

/* Marks of a pair: it has expired and its callback is tried again, so that its entry of the wheel
 * is due later than it was; and the round of the sweep that has met its entry, 0 if none has. */
#define MARK_AGAIN  0x80
#define MARK_ROUND  0x3f
#define ROUNDS_MOST 0x3f

/* Whether the entry is that of the pair that is at its place now. */
static bool is_live(const struct tr_kv *kv, const struct tr_fifo_entry *entry)
{
    if (!tr_arena_holds_kind(kv->arena, entry->ref, TR_ARENA_KEY))
        return false;
    tr_steady_ms expires_ms = tr_kv_book_expires(&kv->book, entry->ref);
    bool is_again = (tr_kv_book_marks(&kv->book, entry->ref) & MARK_AGAIN) != 0;
    return is_again ? expires_ms < entry->due_ms : expires_ms + 1 == entry->due_ms;
}

/* A pair has one entry. Others that look like it are of pairs that were at its place before, and
 * expired at the same time. */
static bool is_first(struct tr_kv *kv, const struct tr_fifo_entry *entry)
{
    uint8_t marks = tr_kv_book_marks(&kv->book, entry->ref);
    if ((marks & MARK_ROUND) == kv->sweep_round)
        return false;
    tr_kv_book_set_marks(&kv->book, entry->ref,
                         (marks & (MARK_AGAIN | TR_KV_MARK_KNOWN)) | kv->sweep_round);
    return true;
}

static bool owe(struct tr_kv *kv, const struct tr_pair *pair, bool is_replaced)
{
    return kv->hooks.owe(kv->hooks.context, pair, is_replaced);
}

/* A debt is owed once: that its key is gone is logged beside it. */
static void take_out(struct tr_kv *kv, tr_ref ref, uint64_t hash, bool is_owed)
{
    if (is_owed)
        tr_kv_log_end(kv, ref, hash);
    tr_kv_forget(kv, ref, hash);
    kv->is_time_due |= !is_owed;
}

bool tr_kv_expire(struct tr_kv *kv, tr_ref ref, uint64_t hash, bool is_replaced)
{
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, ref, &pair);
    TR_ASSERT(tr_kv_has_expired(kv, pair.expires_ms) && !pair.is_end);
    bool is_owed = pair.callback.size > 0;
    if (is_owed && !owe(kv, &pair, is_replaced))
        return false;
    kv->stats.expired++;
    if (tr_kv_remembers_ends(kv) && tr_kv_bury_expired(kv, &ref, hash, is_owed)) {
        kv->is_time_due |= !is_owed;
        return true;
    }
    kv->stats.forgotten_early += tr_kv_remembers_ends(kv);
    take_out(kv, ref, hash, is_owed);
    return true;
}

bool tr_kv_is_owing(const struct tr_kv *kv, const struct tr_pair *tombstone)
{
    TR_ASSERT(tombstone->is_end);
    return kv->hooks.is_owing(kv->hooks.context, tombstone);
}

bool tr_kv_owe_too(struct tr_kv *kv, tr_ref ref)
{
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, ref, &pair);
    TR_ASSERT(!pair.is_end);
    if (pair.callback.size == 0)
        return true;
    tr_cover(kv->trial, RULE_OWED_TOO);
    return owe(kv, &pair, true);
}

/* A tombstone may be forgotten when all who hold the key know of the end, or have had a day to hear
 * of it. False: it is looked at again. */
static bool forget_end(struct tr_kv *kv, tr_ref ref, uint64_t hash)
{
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, ref, &pair);
    TR_ASSERT(pair.is_end);
    bool is_known = (tr_kv_book_marks(&kv->book, ref) & TR_KV_MARK_KNOWN) != 0;
    if (kv->time->steady_ms < pair.expires_ms + END_MOST_MS &&
        !tr_breaks(kv->trial, MUTANT_KEY_FORGOTTEN) &&
        !kv->hooks.may_forget(kv->hooks.context, &pair, is_known))
        return false;
    tr_kv_forget(kv, ref, hash);
    return true;
}

bool tr_kv_expire_flushed(struct tr_kv *kv, tr_ref ref, bool is_replaced)
{
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, ref, &pair);
    TR_ASSERT(pair.version < kv->floor);
    bool is_owed = pair.callback.size > 0 && pair.expires_ms < kv->floor_ms;
    if (is_owed && !owe(kv, &pair, is_replaced))
        return false;
    take_out(kv, ref, tr_kv_hash(pair.key), is_owed);
    return true;
}

static void sweep(struct tr_kv *kv)
{
    uint64_t live = kv->wheel.count - (kv->stale < kv->wheel.count ? kv->stale : 0);
    bool is_tight = tr_arena_is_tight(kv->arena) && kv->stale > live / 8 + SWEEP_SLICE;
    bool is_much = kv->stale > tr_kv_slice(kv, STALE_MIN) && kv->stale > live / 2;
    if (!kv->is_sweeping && (is_tight || is_much)) {
        kv->is_sweeping = true;
        kv->sweep_round = (uint8_t)(kv->sweep_round % ROUNDS_MOST + 1);
    }
    uint64_t share = kv->stale / SWEEP_SHARE < SWEEP_MOST ? kv->stale / SWEEP_SHARE : SWEEP_MOST;
    unsigned slice = tr_kv_slice(kv, SWEEP_SLICE) + (unsigned)share;
    for (unsigned i = 0; kv->is_sweeping && i < slice; i++) {
        struct tr_fifo_entry entry;
        if (!tr_wheel_sweep_take(&kv->wheel, &entry)) {
            kv->is_sweeping = false;
            kv->stale = 0;
        } else if (is_live(kv, &entry) && is_first(kv, &entry)) {
            tr_wheel_sweep_keep(&kv->wheel, entry);
        } else {
            kv->stale -= kv->stale > 0;
        }
    }
}

static uint64_t time_until_again(const struct tr_kv *kv, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_steady_ms expires_ms = tr_kv_book_expires(&kv->book, ref);
    tr_steady_ms now_ms = kv->time->steady_ms;
    uint64_t again_ms = AGAIN_MS + (now_ms > expires_ms ? now_ms - expires_ms : 0) / AGAIN_SHARE;
    return again_ms < AGAIN_MOST ? again_ms : AGAIN_MOST;
}

/* A pair has expired, or a tombstone was kept for long enough. */
static void end_of_time(struct tr_kv *kv, tr_ref ref)
{
    uint64_t hash = tr_kv_hash(tr_kv_book_key(&kv->book, ref));
    bool is_end = tr_kv_book_is_end(&kv->book, ref);
    bool is_gone = is_end ? forget_end(kv, ref, hash) : tr_kv_expire(kv, ref, hash, false);
    if (is_gone) {
        kv->stale -= kv->stale > 0; /* its entry was this one */
        return;
    }
    uint64_t again_ms = is_end ? END_AGAIN_MS : time_until_again(kv, ref);
    uint8_t known = tr_kv_book_marks(&kv->book, ref) & TR_KV_MARK_KNOWN;
    tr_kv_book_set_marks(&kv->book, ref, MARK_AGAIN | known);
    tr_kv_arm(kv, ref, kv->time->steady_ms + again_ms);
}

void tr_kv_expire_run(struct tr_kv *kv)
{
    struct tr_fifo_entry entry;
    tr_wheel_advance(&kv->wheel, kv->time->steady_ms);
    unsigned due = kv->wheel.ready.count / EXPIRE_SHARE;
    unsigned slice = tr_kv_slice(kv, EXPIRE_SLICE + (due < EXPIRE_MOST ? due : EXPIRE_MOST));
    for (unsigned i = 0; i < slice && tr_wheel_pop(&kv->wheel, &entry); i++) {
        if (!is_live(kv, &entry)) {
            kv->stale -= kv->stale > 0;
            continue;
        }
        /* What was deleted with all others is not expired, but goes with them. */
        bool is_flushed = tr_kv_book_version(&kv->book, entry.ref) < kv->floor;
        if (!tr_kv_has_expired(kv, tr_kv_book_expires(&kv->book, entry.ref))) {
            /* The clock was corrected: it is earlier than the wheel thought. */
            tr_kv_arm(kv, entry.ref, tr_kv_book_expires(&kv->book, entry.ref));
            continue;
        }
        if (!is_flushed)
            end_of_time(kv, entry.ref);
    }
    sweep(kv);
    tr_kv_tell_time(kv);
}

tr_mono_ms tr_kv_wake_at(const struct tr_kv *kv)
{
    if (!kv->log->is_running)
        return TR_NEVER;
    if (kv->is_sweeping)
        return kv->time->now_ms;
    uint64_t at = tr_wheel_wake_at(&kv->wheel);
    tr_mono_ms wake = at == TR_WHEEL_NEVER ? TR_NEVER : at - kv->time->steady_base;
    return kv->is_flushing && kv->flush_at_ms < wake ? kv->flush_at_ms : wake;
}

bool tr_kv_arm_all(struct tr_kv *kv, bool *has_memory)
{
    tr_steady_ms now_ms = kv->time->steady_ms;
    tr_steady_ms over_ms = kv->replayed_ms > now_ms ? kv->replayed_ms : now_ms;
    *has_memory = true;
    for (unsigned i = 0; i < tr_kv_slice(kv, ARM_SLICE); i++) {
        tr_ref ref = tr_arena_next_of(kv->arena, TR_ARENA_KEY, kv->armed);
        if (ref == TR_ARENA_NONE)
            return true;
        struct tr_pair pair;
        tr_kv_book_unpack(&kv->book, ref, &pair);
        kv->armed = ref;
        bool has_expired = pair.expires_ms < over_ms && pair.callback.size == 0 && !pair.is_end;
        if (has_expired && tr_kv_remembers_ends(kv) &&
            tr_kv_bury_expired(kv, &ref, tr_kv_hash(pair.key), false)) {
            kv->stale--; /* it never was in the wheel */
        } else if (has_expired) {
            tr_kv_forget(kv, ref, tr_kv_hash(pair.key));
            kv->stale--; /* it never was in the wheel */
        } else if (pair.expires_ms < TR_TIME_MAX) {
            *has_memory = tr_wheel_arm(&kv->wheel, ref, pair.expires_ms + 1);
            if (!*has_memory)
                return true;
        }
    }
    return false;
}
