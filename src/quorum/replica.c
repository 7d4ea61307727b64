/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/replica.h"

#include "cluster/clock.h"
#include "cluster/member.h"
#include "kv/merge.h"
#include "quorum/coordinate.h"
#include "quorum/exchange.h"
#include "quorum/mail.h"
#include "quorum/scan.h"
#include "quorum/strays.h"

#define AHEAD 16 /* entries of a frame that are read before the first of them is taken */

static const struct tr_span no_list = {NULL, 0};

/* ---- answering ---- */

static void answer(struct tr_quorum *quorum, uint16_t peer, uint64_t operation,
                   enum tr_key_answer what)
{
    struct tr_key_entry entry = {.kind = TR_KEYS_ANSWER, .operation = operation, .answer = what};
    if (operation != 0)
        tr_mail_send(quorum, peer, &entry, no_list);
}

/* With what is here of the key, when that is durable. */
static void answer_durable(struct tr_quorum *quorum, uint16_t peer, uint64_t operation,
                           enum tr_key_answer what, const struct tr_pair *held, bool has_pair,
                           uint64_t batch)
{
    struct tr_key_entry entry = {
        .kind = TR_KEYS_ANSWER,
        .operation = operation,
        .answer = what,
        .has_pair = has_pair,
    };
    if (held != NULL) {
        entry.known = tr_pair_order(held);
        entry.pair = *held;
    }
    if (tr_breaks(quorum->trial, MUTANT_KEY_UNSYNCED))
        batch = 0;
    bool is_promised = operation == 0 || tr_mail_promise(quorum, peer, batch, &entry);
    if (!is_promised && what != TR_ANSWER_STORED) /* what is stored is not said to be refused */
        answer(quorum, peer, operation, TR_ANSWER_FULL);
}

/* ---- requests ---- */

/* Whether a write on a condition finds something else here than what it was made of. */
static bool is_overtaken(const struct tr_key_entry *entry, const struct tr_pair *held)
{
    struct tr_pair_order order = tr_pair_order(held);
    bool is_of_sender = entry->since.version != 0 && order.node == entry->since.node &&
                        order.version >= entry->since.version &&
                        order.version < entry->pair.version;
    return entry->is_conditional && tr_pair_compare(order, entry->known) > 0 && !is_of_sender &&
           tr_pair_compare(order, tr_pair_order(&entry->pair)) != 0;
}

/* Somebody counts on the answer. */
static bool is_of_client(const struct tr_key_entry *entry)
{
    return entry->operation != 0 && (entry->operation & (TR_FOR_EXCHANGE | TR_FOR_STRAY)) == 0;
}

static bool is_stray(const struct tr_quorum *quorum, struct tr_span key)
{
    struct tr_holders holders;
    if (!tr_ring_is_there(quorum->cluster))
        return false;
    tr_ring_holders(quorum->cluster, key, &holders);
    return !tr_holders_have(&holders, 0);
}

/* False: the log has no room now. */
static bool hear_write(struct tr_quorum *quorum, uint16_t peer, struct tr_key_entry *entry)
{
    struct tr_pair held;
    uint64_t batch = 0;
    bool is_counted = is_of_client(entry);
    tr_clock_hear(quorum->cluster, entry->pair.version);
    struct tr_kv_place place = tr_kv_place(quorum->kv, entry->pair.key);
    bool has_any = tr_kv_look_at(quorum->kv, place, &held, &batch);
    if (has_any && is_overtaken(entry, &held)) {
        answer_durable(quorum, peer, entry->operation, TR_ANSWER_ABOVE, &held, true, batch);
        return true;
    }
    bool is_it = has_any && held.version == entry->pair.version &&
                 held.version_node == entry->pair.version_node; /* it may have ended since */
    if (has_any && is_counted && !entry->is_conditional && !is_it &&
        tr_pair_is_below(&entry->pair, &held)) {
        answer_durable(quorum, peer, entry->operation, TR_ANSWER_ABOVE, &held, false, batch);
        return true;
    }
    if (!tr_mail_can_promise(quorum))
        return false;
    enum tr_merge merge = tr_kv_merge_at(quorum->kv, place, &entry->pair, &batch);
    if (merge == TR_MERGE_AGAIN)
        return false;
    if (merge == TR_MERGE_FULL) {
        answer(quorum, peer, entry->operation, TR_ANSWER_FULL);
        return true;
    }
    if (merge == TR_MERGE_STORED && is_stray(quorum, entry->pair.key))
        quorum->strays.has_new = true;
    if (is_counted)
        quorum->exchanges[peer].wrote_ms = quorum->time->now_ms;
    answer_durable(quorum, peer, entry->operation, TR_ANSWER_STORED, &entry->pair, false, batch);
    return true;
}

static void hear_ask(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry)
{
    struct tr_pair held;
    uint64_t batch = 0;
    if (!tr_kv_look(quorum->kv, entry->pair.key, &held, &batch)) {
        answer_durable(quorum, peer, entry->operation, TR_ANSWER_NONE, NULL, false, batch);
        return;
    }
    bool has_pair = entry->is_wanted && tr_pair_compare(tr_pair_order(&held), entry->known) > 0;
    answer_durable(quorum, peer, entry->operation, TR_ANSWER_HELD, &held, has_pair, batch);
}

static void hear_offer(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry)
{
    struct tr_pair held;
    uint64_t batch = 0;
    bool has_any = tr_kv_look(quorum->kv, entry->pair.key, &held, &batch);
    if (has_any && held.is_end && tr_pair_compare(tr_pair_order(&held), entry->known) > 0)
        answer_durable(quorum, peer, entry->operation, TR_ANSWER_ABOVE, &held, true, batch);
    else if (has_any && tr_pair_compare(tr_pair_order(&held), entry->known) >= 0)
        answer_durable(quorum, peer, entry->operation, TR_ANSWER_STORED, &held, false, batch);
    else if (entry->known.version < quorum->kv->floor)
        answer(quorum, peer, entry->operation, TR_ANSWER_STORED); /* it has ended with all others */
    else
        answer(quorum, peer, entry->operation, TR_ANSWER_NONE);
}

/* ---- entries ---- */

static bool is_request(const struct tr_key_entry *entry)
{
    return entry->kind == TR_KEYS_WRITE || entry->kind == TR_KEYS_ASK ||
           entry->kind == TR_KEYS_CALL;
}

/* Requests under another roster are not heeded: whom they count on may be somebody else by now. But
 * a pair that nobody counts on is stored. */
static bool is_heeded(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                      bool is_same)
{
    bool is_counted = is_request(entry) && is_of_client(entry);
    if (is_request(entry) && entry->kind != TR_KEYS_CALL &&
        !quorum->log->is_running) { /* it stops, and takes nothing more */
        answer(quorum, peer, entry->operation, TR_ANSWER_FULL);
        return false;
    }
    if (is_same || !is_counted)
        return true;
    answer(quorum, peer, entry->operation, TR_ANSWER_EPOCH);
    return false;
}

/* False: the log has no room for it now. */
static bool take(struct tr_quorum *quorum, uint16_t peer, struct tr_key_entry *entry, bool is_same,
                 struct tr_effects *out)
{
    if (!is_heeded(quorum, peer, entry, is_same))
        return true;
    switch (entry->kind) {
    case TR_KEYS_WRITE:
        return hear_write(quorum, peer, entry);
    case TR_KEYS_ASK:
        hear_ask(quorum, peer, entry);
        return true;
    case TR_KEYS_ANSWER:
        if ((entry->operation & TR_FOR_EXCHANGE) != 0)
            return tr_exchange_answered(quorum, peer, entry);
        if ((entry->operation & TR_FOR_STRAY) != 0)
            tr_strays_answered(quorum, peer, entry);
        else if ((entry->operation & TR_FOR_SCAN) != 0)
            tr_scan_answered(quorum, peer, entry);
        else
            tr_quorum_answered(quorum, peer, entry, is_same, out);
        return true;
    case TR_KEYS_CALL:
        tr_quorum_call(quorum, peer, entry->operation, &entry->command);
        return true;
    case TR_KEYS_RESULT:
        tr_quorum_answered(quorum, peer, entry, true, out);
        return true;
    case TR_KEYS_RANGE:
    case TR_KEYS_TELL:
    case TR_KEYS_WANT:
    case TR_KEYS_DONE:
        if (is_same)
            tr_exchange_heard(quorum, peer, entry);
        return true;
    case TR_KEYS_OFFER:
        hear_offer(quorum, peer, entry);
        return true;
    case TR_KEYS_KNOWN:
        tr_kv_mark_known(quorum->kv, entry->pair.key, entry->known);
        return true;
    case TR_KEYS_MISSED:
        tr_exchange_missed(quorum, tr_member_find(quorum->cluster, entry->pair.key));
        return true;
    case TR_KEYS_SCAN:
        tr_scan_asked(quorum, peer, entry, is_same);
        return true;
    case TR_KEYS_PAGE:
        tr_scan_answered(quorum, peer, entry);
        return true;
    }
    return true;
}

/* Keeps an entry that there is no room for now, with the roster and the time of its frame. */
static void put_off(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                    bool is_same)
{
    struct tr_fifo_entry kept = {
        .ref = tr_mail_encode(quorum, entry, no_list),
        .due_ms = quorum->roster_id << 32 | (uint64_t)peer << 1 | is_same,
    };
    if (kept.ref == TR_ARENA_NONE) {
        answer(quorum, peer, entry->operation, TR_ANSWER_FULL);
        return;
    }
    if (!tr_fifo_push(&quorum->later, quorum->arena, kept)) {
        tr_arena_give(quorum->arena, kept.ref);
        answer(quorum, peer, entry->operation, TR_ANSWER_FULL);
    }
}

/* The next entries of a frame, AHEAD of them unless it has no more, or what follows is broken. */
static unsigned read_ahead(struct tr_reader *in, const struct tr_key_frame *head,
                           tr_steady_ms now_ms, struct tr_key_entry entries[AHEAD])
{
    unsigned count = 0;
    while (count < AHEAD && tr_keys_get(in, head, now_ms, &entries[count]))
        count++;
    return count;
}

/* What taking them will read is fetched while they wait. */
static void fetch(const struct tr_quorum *quorum, const struct tr_key_entry *entries,
                  unsigned count)
{
    uint64_t hashes[AHEAD];
    unsigned keys = 0;
    for (unsigned i = 0; i < count; i++) {
        if (entries[i].kind == TR_KEYS_WRITE || entries[i].kind == TR_KEYS_ASK)
            hashes[keys++] = tr_kv_hash(entries[i].pair.key);
        else if (entries[i].kind == TR_KEYS_ANSWER || entries[i].kind == TR_KEYS_RESULT)
            tr_quorum_fetch(quorum, entries[i].operation);
    }
    tr_kv_book_fetch(&quorum->kv->book, hashes, keys);
}

static void take_or_put_off(struct tr_quorum *quorum, uint16_t peer, struct tr_key_entry *entry,
                            bool is_same, struct tr_effects *out)
{
    bool is_list = entry->kind == TR_KEYS_TELL || entry->kind == TR_KEYS_PAGE; /* not put off */
    bool is_behind = (quorum->later.count > 0 && is_request(entry)) ||
                     (!is_list && !tr_effects_has_room(out, 16));
    if (is_behind || !take(quorum, peer, entry, is_same, out))
        put_off(quorum, peer, entry, is_same);
}

void tr_replica_keys(struct tr_quorum *quorum, uint16_t peer, struct tr_reader *in,
                     struct tr_effects *out)
{
    struct tr_key_frame head;
    struct tr_key_entry entries[AHEAD];
    if (!tr_keys_get_head(in, &head)) {
        in->is_short = true;
        return;
    }
    bool is_same = head.roster_id == quorum->roster_id;
    if (tr_breaks(quorum->trial, MUTANT_KEY_ARRIVAL))
        head.now_ms = quorum->time->steady_ms;
    unsigned count = 0;
    do {
        count = read_ahead(in, &head, quorum->time->steady_ms, entries);
        fetch(quorum, entries, count);
        for (unsigned i = 0; i < count; i++)
            take_or_put_off(quorum, peer, &entries[i], is_same, out);
    } while (count == AHEAD);
}

void tr_replica_run(struct tr_quorum *quorum, struct tr_effects *out)
{
    while (quorum->later.count > 0 && tr_effects_has_room(out, 16)) {
        struct tr_fifo_entry kept = tr_fifo_first(&quorum->later, quorum->arena);
        struct tr_key_frame head = {.now_ms = quorum->time->steady_ms};
        struct tr_reader in = tr_mail_read(quorum, kept.ref);
        struct tr_key_entry entry;
        bool is_sound = tr_keys_get(&in, &head, quorum->time->steady_ms, &entry);
        TR_ASSERT(is_sound);
        bool is_same = (kept.due_ms & 1) != 0 && kept.due_ms >> 32 == (uint32_t)quorum->roster_id;
        if (!take(quorum, (uint16_t)(kept.due_ms >> 1), &entry, is_same, out))
            return;
        tr_fifo_pop(&quorum->later, quorum->arena);
        tr_arena_give(quorum->arena, kept.ref);
    }
}
