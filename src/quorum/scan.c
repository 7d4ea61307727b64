/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/scan.h"

#include "cluster/member.h"
#include "cluster/peer.h"
#include "kv/book.h"
#include "kv/scan.h"
#include "quorum/mail.h"
#include "quorum/replica.h"
#include "quorum/strays.h"

#define PAGE_BYTES  24576 /* of one node's keys */
#define LOOK_KEYS   8192  /* that a node looks at for a page */
#define LISTED_ROOM 32    /* beside a key; those of one place that do not fit are left out */
#define AGAIN_MS    25    /* until one with another roster is asked again */
#define GIVE_UP_MS  5000
#define CURSOR_BITS 53 /* clients take a cursor for a number with a point */

static const struct tr_span no_list = {NULL, 0};

/* ---- places ---- */

static uint64_t place_of(uint64_t hash)
{
    return hash >> (64 - CURSOR_BITS);
}

static uint64_t first_hash(uint64_t place)
{
    return place << (64 - CURSOR_BITS);
}

/* ---- the table ---- */

static struct tr_scan *find(struct tr_quorum *quorum, uint64_t operation)
{
    uint64_t index = operation & (TR_SCANS_MAX - 1);
    struct tr_scan *scan = &quorum->scans[index];
    return scan->number != 0 && (scan->number | TR_FOR_SCAN) == operation ? scan : NULL;
}

static uint64_t next_number(struct tr_quorum *quorum, const struct tr_scan *scan)
{
    return ++quorum->operation_next * TR_SCANS_MAX + (uint64_t)(scan - quorum->scans);
}

static void give_lists(struct tr_quorum *quorum, struct tr_scan *scan)
{
    for (uint32_t i = 0; i < scan->list_count; i++)
        tr_arena_give(quorum->arena, scan->lists[i]);
    scan->list_count = 0;
}

static void end(struct tr_quorum *quorum, struct tr_scan *scan)
{
    give_lists(quorum, scan);
    scan->number = 0;
    quorum->scan_count--;
}

/* ---- what a node has ---- */

/* Its keys from a place on, all of one place in one page; returns up to which hash it has told. */
static uint64_t list_keys(struct tr_quorum *quorum, uint64_t from, uint32_t count,
                          struct tr_writer *list, uint64_t *listed)
{
    const struct tr_kv *kv = quorum->kv;
    struct tr_index_walk walk = tr_index_seek(&kv->book.index, from);
    unsigned most = tr_kv_slice(kv, LOOK_KEYS);
    tr_ref ref = TR_ARENA_NONE;
    uint64_t last = place_of(from);
    *listed = 0;
    for (unsigned looked = 0; tr_index_next(&walk, &ref); looked++) {
        struct tr_pair pair;
        tr_kv_book_unpack(&kv->book, ref, &pair);
        uint64_t place = place_of(tr_kv_hash(pair.key));
        bool is_enough = *listed >= count || list->size >= PAGE_BYTES || looked >= most;
        if (is_enough && place != last)
            return first_hash(last) | (((uint64_t)1 << (64 - CURSOR_BITS)) - 1);
        last = place;
        if (!tr_kv_is_there(kv, ref) || list->cap - list->size < pair.key.size + LISTED_ROOM)
            continue;
        tr_keys_put_listed(list, pair.key, tr_pair_order(&pair));
        (*listed)++;
    }
    return UINT64_MAX;
}

void tr_scan_asked(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                   bool is_same_roster)
{
    struct tr_key_entry page = {.kind = TR_KEYS_PAGE, .operation = entry->operation};
    struct tr_writer list = tr_writer_on(quorum->scratch, quorum->scratch_size);
    if (!is_same_roster || !quorum->log->is_running) {
        page = (struct tr_key_entry){
            .kind = TR_KEYS_ANSWER, .operation = entry->operation, .answer = TR_ANSWER_EPOCH};
        tr_mail_send(quorum, peer, &page, no_list);
        return;
    }
    page.to = entry->count == 0
                  ? quorum->kv->stats.keys
                  : list_keys(quorum, entry->from, (uint32_t)entry->count, &list, &page.count);
    TR_ASSERT(!list.is_full);
    tr_mail_send(quorum, peer, &page, (struct tr_span){(const char *)list.bytes, list.size});
}

/* ---- asking ---- */

static void set_open(struct tr_scan *scan, uint32_t member, bool is_open)
{
    uint64_t bit = (uint64_t)1 << member % 64;
    bool was_open = (scan->open[member / 64] & bit) != 0;
    if (was_open == is_open)
        return;
    scan->open[member / 64] ^= bit;
    scan->waiting = is_open ? scan->waiting + 1 : scan->waiting - 1;
}

/* Keeps a list until all are there. False: no memory. */
static bool keep_list(struct tr_quorum *quorum, struct tr_scan *scan, const void *bytes,
                      size_t size)
{
    if (size == 0)
        return true;
    if (scan->list_count == TR_SCAN_LISTS)
        return false;
    tr_ref piece = tr_arena_take(quorum->arena, TR_ARENA_CHUNK, size + 4, false);
    if (piece == TR_ARENA_NONE)
        return false;
    uint8_t *copy = tr_arena_at(quorum->arena, piece);
    tr_store(copy, size, 4);
    memcpy(copy + 4, bytes, size);
    scan->lists[scan->list_count++] = piece;
    return true;
}

static struct tr_reader read_list(const struct tr_quorum *quorum, tr_ref piece)
{
    const uint8_t *bytes = tr_arena_at(quorum->arena, piece);
    return tr_reader_on(bytes + 4, (size_t)tr_load(bytes, 4));
}

/* Whether some list of nodes may have nobody who tells of its keys: so many are away, or have yet
 * to get what they are to hold. */
static bool may_miss(const struct tr_quorum *quorum, const struct tr_scan *scan)
{
    const struct tr_cluster *cluster = quorum->cluster;
    const struct tr_ring *ring = cluster->old_ring.count > 0 ? &cluster->old_ring : &cluster->ring;
    unsigned absent = 0;
    for (uint32_t i = 0; i < ring->count; i++) {
        uint16_t member = ring->placed[i];
        bool is_asked = member == 0 || (scan->open[member / 64] >> member % 64 & 1) != 0;
        bool has_all = member == 0 ? quorum->membership->is_arrived
                                   : (cluster->peers[member].key_flags & TR_BEAT_KEYS_ARRIVED) != 0;
        absent += !is_asked || !has_all;
    }
    /* What was acknowledged as many have as are to store it; if that is one, others hear later. */
    return absent >= (ring->writes > 1 ? ring->writes : ring->copies);
}

/* Adds what this node has, and asks the others. Each round has a number of its own: a page that
 * was made before it is none of it. */
static void ask_all(struct tr_quorum *quorum, struct tr_scan *scan)
{
    scan->number = next_number(quorum, scan);
    struct tr_key_entry entry = {
        .kind = TR_KEYS_SCAN,
        .operation = scan->number | TR_FOR_SCAN,
        .from = scan->from,
        .count = scan->count,
    };
    struct tr_writer list = tr_writer_on(quorum->scratch, quorum->scratch_size);
    uint64_t listed = 0;
    memset(scan->open, 0, sizeof scan->open);
    scan->waiting = 0;
    scan->is_again = false;
    scan->look_ms = scan->begun_ms + GIVE_UP_MS;
    bool is_own = scan->only == TR_MEMBER_NONE || scan->only == 0;
    scan->sum = is_own ? quorum->kv->stats.keys : 0;
    if (is_own && scan->count > 0) {
        uint64_t to = list_keys(quorum, scan->from, scan->count, &list, &listed);
        scan->to = to < scan->to ? to : scan->to;
    }
    scan->has_failed |= !keep_list(quorum, scan, list.bytes, list.size);
    for (uint32_t i = 1; i < quorum->cluster->member_count; i++) {
        bool is_meant = scan->only == TR_MEMBER_NONE
                            ? quorum->cluster->members[i].role != TR_ROLE_NONE
                            : scan->only == i;
        if (is_meant && tr_peer_is_up(quorum->cluster, (uint16_t)i) &&
            tr_mail_send(quorum, (uint16_t)i, &entry, no_list))
            set_open(scan, i, true);
        else if (scan->only == i)
            scan->is_again = true; /* until it is up, or given up */
    }
    if (scan->only == TR_MEMBER_NONE && may_miss(quorum, scan)) {
        scan->is_again = true;
        scan->look_ms = quorum->time->now_ms + AGAIN_MS;
    }
}

static void begin(struct tr_quorum *quorum, struct tr_scan *scan)
{
    give_lists(quorum, scan);
    scan->has_failed = false;
    scan->is_second = false;
    scan->to = UINT64_MAX;
    ask_all(quorum, scan);
}

/* A key may move while pages are made: from one that tells of its keys after that to one that has
 * told before. Whoever has it then tells of it in a second round, or the other did in the first. */
static bool wants_second(const struct tr_quorum *quorum, const struct tr_scan *scan)
{
    return !scan->is_second && scan->only == TR_MEMBER_NONE && scan->count > 0 &&
           !tr_strays_are_all_home(quorum);
}

enum tr_result tr_scan_ask(struct tr_quorum *quorum, uint64_t token, uint16_t only, uint64_t cursor,
                           uint32_t count)
{
    if (!quorum->log->is_running)
        return quorum->kv->is_stopping ? TR_STOPPING : TR_STARTING;
    if (!tr_ring_is_there(quorum->cluster))
        return TR_NO_KEYSPACE;
    if (!tr_membership_may_serve(quorum->membership))
        return TR_NO_MEMBER;
    uint32_t index = 0;
    while (index < TR_SCANS_MAX && quorum->scans[index].number != 0)
        index++;
    if (index == TR_SCANS_MAX)
        return TR_TOO_MANY_REQUESTS;
    struct tr_scan *scan = &quorum->scans[index];
    *scan = (struct tr_scan){
        .token = token,
        .only = only,
        .from = first_hash(cursor),
        .count = count,
        .begun_ms = quorum->time->now_ms,
    };
    quorum->scan_count++;
    begin(quorum, scan);
    return TR_DONE;
}

/* ---- hearing ---- */

void tr_scan_answered(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry)
{
    struct tr_scan *scan = find(quorum, entry->operation);
    if (scan == NULL || (scan->open[peer / 64] >> peer % 64 & 1) == 0)
        return;
    set_open(scan, peer, false);
    if (entry->kind != TR_KEYS_PAGE) {
        scan->is_again = true;
        scan->look_ms = quorum->time->now_ms + AGAIN_MS;
        return;
    }
    if (scan->count == 0) {
        scan->sum += entry->to;
        return;
    }
    scan->to = entry->to < scan->to ? entry->to : scan->to;
    size_t size = (size_t)(entry->list.end - entry->list.at);
    scan->has_failed |= !keep_list(quorum, scan, entry->list.at, size);
}

void tr_scan_link_lost(struct tr_quorum *quorum, uint16_t peer)
{
    for (uint32_t i = 0; quorum->scan_count > 0 && i < TR_SCANS_MAX; i++) {
        struct tr_scan *scan = &quorum->scans[i];
        if (scan->number != 0 && (scan->open[peer / 64] >> peer % 64 & 1) != 0) {
            set_open(scan, peer, false);
            scan->is_again = true;
            scan->look_ms = quorum->time->now_ms;
        }
    }
}

/* ---- putting together ---- */

/* Whether one of the lists before has the key, too. Both are in the order of hashes, so each is
 * gone through once: `at` is how far. */
static bool is_told(struct tr_reader *at, uint32_t count, uint64_t hash, struct tr_span key)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tr_reader look = at[i];
        struct tr_span other;
        struct tr_pair_order order;
        while (tr_keys_get_listed(&look, &other, &order)) {
            uint64_t other_hash = tr_kv_hash(other);
            if (other_hash > hash)
                break;
            if (other_hash == hash && tr_span_equals(other, key))
                return true;
            if (other_hash < hash)
                at[i] = look;
        }
    }
    return false;
}

/* All keys that were told of, up to where all have told. */
static uint32_t put_together(struct tr_quorum *quorum, const struct tr_scan *scan,
                             struct tr_writer *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < scan->list_count; i++) {
        struct tr_reader at[TR_SCAN_LISTS];
        struct tr_reader list = read_list(quorum, scan->lists[i]);
        struct tr_span key;
        struct tr_pair_order order;
        for (uint32_t k = 0; k < i; k++)
            at[k] = read_list(quorum, scan->lists[k]);
        while (tr_keys_get_listed(&list, &key, &order)) {
            uint64_t hash = tr_kv_hash(key);
            if (hash > scan->to || is_told(at, i, hash, key))
                continue;
            tr_put_span(out, key);
            count++;
        }
    }
    return count;
}

static void answer(struct tr_quorum *quorum, struct tr_scan *scan, struct tr_effects *out)
{
    size_t size = 16;
    for (uint32_t i = 0; i < scan->list_count; i++)
        size += (size_t)tr_load(tr_arena_at(quorum->arena, scan->lists[i]), 4);
    tr_ref piece = tr_arena_take(quorum->arena, TR_ARENA_CHUNK, size, false);
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_KEY_PAGE);
    effect->of.key_page.token = scan->token;
    effect->of.key_page.refusal = TR_DONE;
    if (piece == TR_ARENA_NONE || scan->has_failed) {
        if (piece != TR_ARENA_NONE)
            tr_arena_give(quorum->arena, piece);
        effect->of.key_page.refusal = TR_MEMORY_FULL;
        end(quorum, scan);
        return;
    }
    struct tr_writer keys = tr_writer_on(tr_arena_at(quorum->arena, piece), size);
    effect->of.key_page.count = put_together(quorum, scan, &keys);
    TR_ASSERT(!keys.is_full);
    effect->of.key_page.cursor = scan->to == UINT64_MAX ? 0 : place_of(scan->to) + 1;
    if (scan->count == 0) /* each key is on so many nodes */
        effect->of.key_page.cursor =
            (scan->sum + quorum->cluster->ring.copies / 2u) / quorum->cluster->ring.copies;
    effect->of.key_page.keys = (struct tr_span){(const char *)keys.bytes, keys.size};
    TR_ASSERT(quorum->spent_count < TR_EFFECTS_MAX);
    quorum->spent[quorum->spent_count++] = piece; /* it is good until the next step */
    end(quorum, scan);
}

static void refuse(struct tr_quorum *quorum, struct tr_scan *scan, struct tr_effects *out)
{
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_KEY_PAGE);
    effect->of.key_page.token = scan->token;
    effect->of.key_page.refusal = TR_NO_ANSWER;
    end(quorum, scan);
}

void tr_scan_run(struct tr_quorum *quorum, struct tr_effects *out)
{
    for (uint32_t i = 0; quorum->scan_count > 0 && i < TR_SCANS_MAX; i++) {
        struct tr_scan *scan = &quorum->scans[i];
        bool is_over = quorum->time->now_ms >= scan->begun_ms + GIVE_UP_MS;
        if (scan->number == 0 || !tr_effects_has_room(out, 16))
            continue;
        if (is_over)
            refuse(quorum, scan, out);
        else if (scan->is_again && quorum->time->now_ms >= scan->look_ms)
            begin(quorum, scan);
        if (scan->number == 0 || scan->is_again || scan->waiting > 0)
            continue;
        if (wants_second(quorum, scan)) {
            tr_cover(quorum->trial, RULE_SCAN_TWICE);
            scan->is_second = true;
            ask_all(quorum, scan);
        }
        if (!scan->is_again && scan->waiting == 0)
            answer(quorum, scan, out);
    }
}

tr_mono_ms tr_scan_wake_at(const struct tr_quorum *quorum)
{
    tr_mono_ms wake = TR_NEVER;
    for (uint32_t i = 0; quorum->scan_count > 0 && i < TR_SCANS_MAX; i++) {
        const struct tr_scan *scan = &quorum->scans[i];
        if (scan->number != 0 && scan->look_ms < wake)
            wake = scan->look_ms;
        if (scan->number != 0 && !scan->is_again && scan->waiting == 0)
            wake = quorum->time->now_ms;
    }
    return wake;
}
