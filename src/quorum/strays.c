/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/strays.h"

#include "cluster/member.h"
#include "cluster/peer.h"
#include "kv/merge.h"
#include "kv/store.h"
#include "log/batch.h"
#include "quorum/mail.h"
#include "quorum/replica.h"
#include "quorum/target.h"

#define LOOK_KEYS  2048
#define AGAIN_MS   15000 /* until what could not be handed over is offered again, */
#define NEW_MS     1000  /* until those that have come since are, if all others were, */
#define SILENT_MS  3000  /* and until who does not answer is counted out */
#define DROP_ROOM  64    /* bytes of the log for an end, beside the key */
#define BLOCKED_MS 100   /* until what there was no room for is tried again */

static const struct tr_span no_list = {NULL, 0};

/* ---- one of them ---- */

static uint64_t operation_of(const struct tr_strays *strays, const struct tr_stray *stray)
{
    return TR_FOR_STRAY | strays->round << 16 | (uint64_t)(stray - strays->items);
}

/* The pair, if it is still here as it was when it was offered. */
static tr_ref find(const struct tr_quorum *quorum, const struct tr_stray *stray,
                   struct tr_pair *pair)
{
    struct tr_index_walk walk = tr_index_seek(&quorum->kv->book.index, stray->hash);
    tr_ref ref = TR_ARENA_NONE;
    while (tr_index_next_like(&walk, stray->hash, &ref)) {
        tr_kv_book_unpack(&quorum->kv->book, ref, pair);
        if (tr_pair_compare(tr_pair_order(pair), stray->order) == 0)
            return ref;
    }
    return TR_ARENA_NONE;
}

/* All who are to hold it have it. False: the log has no room to say so. */
static bool drop(struct tr_quorum *quorum, const struct tr_stray *stray)
{
    struct tr_pair pair;
    struct tr_kv *kv = quorum->kv;
    tr_ref ref = find(quorum, stray, &pair);
    if (ref == TR_ARENA_NONE)
        return true; /* it was written since, and is met again */
    if (!tr_log_has_room(quorum->log, pair.key.size + DROP_ROOM, false)) {
        quorum->strays.blocked_ms = quorum->time->now_ms + BLOCKED_MS;
        return false;
    }
    tr_cover(quorum->trial, RULE_STRAY_DROPPED);
    tr_kv_drop(kv, ref, stray->hash);
    return true;
}

/* A node that the roster does not name may never be linked to nodes that came after it. The next
 * ones of the ring that it is linked to stand in for those, and pass on what they are given. */
static void stand_in(const struct tr_quorum *quorum, struct tr_span key, struct tr_holders *holders)
{
    uint16_t members[TR_RING_WANT];
    const struct tr_cluster *cluster = quorum->cluster;
    struct tr_holders reached = {0};
    if (tr_membership_is_in(quorum->membership))
        return;
    for (unsigned i = 0; i < holders->count; i++) {
        if (tr_quorum_is_healthy(quorum, holders->members[i]))
            reached.members[reached.count++] = holders->members[i];
    }
    if (reached.count == holders->count)
        return;
    unsigned count = tr_ring_list(cluster, &cluster->ring, key, TR_RING_WANT, members);
    for (unsigned i = 0; i < count && reached.count < holders->count; i++) {
        if (tr_quorum_is_healthy(quorum, members[i]) && !tr_holders_have(&reached, members[i]))
            reached.members[reached.count++] = members[i];
    }
    if (reached.count == 0)
        return;
    *holders = reached;
    tr_cover(quorum->trial, RULE_STRAY_PASSED);
}

/* Holders that a pair cannot be sent to are named to one that it is sent to. */
static void tell_missing(struct tr_quorum *quorum, const struct tr_stray *stray, struct tr_span key,
                         uint16_t told)
{
    struct tr_holders holders;
    tr_ring_holders(quorum->cluster, key, &holders);
    for (unsigned i = 0; i < holders.count; i++) {
        struct tr_key_entry entry = {
            .kind = TR_KEYS_MISSED,
            .pair.key = tr_member_address(quorum->cluster, holders.members[i]),
        };
        if (!tr_holders_have(&stray->holders, holders.members[i]))
            tr_mail_send(quorum, told, &entry, no_list);
    }
}

static void offer(struct tr_quorum *quorum, struct tr_stray *stray, const struct tr_pair *pair)
{
    struct tr_strays *strays = &quorum->strays;
    struct tr_key_entry entry = {
        .kind = TR_KEYS_OFFER,
        .operation = operation_of(strays, stray),
        .pair.key = pair->key,
        .known = stray->order,
    };
    for (unsigned i = 0; i < stray->holders.count; i++) {
        uint16_t member = stray->holders.members[i];
        stray->waits |= (uint16_t)(1u << i);
        if (tr_quorum_is_healthy(quorum, member) && tr_mail_send(quorum, member, &entry, no_list))
            stray->asked |= (uint16_t)(1u << i);
    }
}

/* ---- the walk ---- */

static void begin(struct tr_quorum *quorum)
{
    struct tr_strays *strays = &quorum->strays;
    strays->begun_id = quorum->roster_id;
    strays->passed_id = 0;
    strays->cursor = 0;
    strays->is_walking = true;
    strays->is_ended = false;
    strays->is_whole = true;
    strays->has_new = false;
    strays->count = 0;
    strays->round++;
}

/* Offers the next ones, up to as many as may be on offer at once. */
static void walk_on(struct tr_quorum *quorum)
{
    struct tr_strays *strays = &quorum->strays;
    struct tr_index_walk walk = tr_index_seek(&quorum->kv->book.index, strays->cursor);
    tr_ref ref = TR_ARENA_NONE;
    unsigned most = tr_kv_slice(quorum->kv, LOOK_KEYS);
    for (unsigned looked = 0; tr_index_next(&walk, &ref); looked++) {
        struct tr_pair pair;
        tr_kv_book_unpack(&quorum->kv->book, ref, &pair);
        uint64_t hash = tr_kv_hash(pair.key);
        bool is_enough = looked >= most || strays->count == TR_STRAYS_MAX;
        if (is_enough && hash != strays->cursor) {
            strays->cursor = hash;
            return;
        }
        strays->cursor = hash;
        struct tr_stray stray = {.hash = hash, .order = tr_pair_order(&pair)};
        if (quorum->membership->is_released) {
            if (!drop(quorum, &stray))
                return;
            walk = tr_index_seek(&quorum->kv->book.index, hash); /* the index has changed */
            continue;
        }
        tr_ring_holders(quorum->cluster, pair.key, &stray.holders);
        if (tr_holders_have(&stray.holders, 0) || strays->count == TR_STRAYS_MAX)
            continue;
        stand_in(quorum, pair.key, &stray.holders);
        strays->items[strays->count] = stray;
        offer(quorum, &strays->items[strays->count++], &pair);
        strays->sent_ms = quorum->time->now_ms;
    }
    strays->is_ended = true;
}

/* All who could be asked have answered, and nobody knows that it has ended: who lacks it gets
 * it. */
static void send(struct tr_quorum *quorum, struct tr_stray *stray)
{
    struct tr_key_entry entry = {.kind = TR_KEYS_WRITE,
                                 .operation = operation_of(&quorum->strays, stray)};
    bool is_there = find(quorum, stray, &entry.pair) != TR_ARENA_NONE;
    for (unsigned i = 0; i < stray->holders.count; i++) {
        bool is_meant = (stray->lacks >> i & 1) != 0 && is_there;
        if (!is_meant || tr_breaks(quorum->trial, MUTANT_HINT_KEPT) ||
            !tr_mail_send_pair(quorum, stray->holders.members[i], &entry,
                               tr_kv_written(quorum->kv, stray->hash)))
            continue;
        stray->asked |= (uint16_t)(1u << i);
        tell_missing(quorum, stray, entry.pair.key, stray->holders.members[i]);
    }
    stray->lacks = 0;
}

/* Whether nobody is waited for any more, of those that are on offer; what all have is dropped. */
static bool settle(struct tr_quorum *quorum)
{
    struct tr_strays *strays = &quorum->strays;
    bool is_over = quorum->time->now_ms >= strays->sent_ms + SILENT_MS;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < strays->count; i++) {
        struct tr_stray *stray = &strays->items[i];
        if (stray->is_gone)
            continue;
        if (stray->waits == 0 && drop(quorum, stray)) {
            stray->is_gone = true;
            continue;
        }
        if (stray->asked == 0 && stray->lacks != 0)
            send(quorum, stray);
        bool is_left = is_over || stray->asked == 0; /* some cannot be told now */
        strays->is_whole &= !is_left;
        stray->is_gone = is_left;
        kept += !is_left;
    }
    if (kept > 0)
        return false;
    strays->count = 0;
    strays->round++;
    return true;
}

void tr_strays_run(struct tr_quorum *quorum)
{
    struct tr_strays *strays = &quorum->strays;
    tr_mono_ms now_ms = quorum->time->now_ms;
    if (!tr_ring_is_there(quorum->cluster) || !quorum->log->is_running ||
        now_ms < strays->blocked_ms)
        return;
    bool is_due =
        !strays->is_walking && (strays->has_new || !strays->is_whole) && now_ms >= strays->next_ms;
    if (strays->begun_id != quorum->roster_id || is_due)
        begin(quorum);
    if (!strays->is_walking || (strays->count > 0 && !settle(quorum)))
        return;
    if (!strays->is_ended) {
        walk_on(quorum);
        return;
    }
    strays->is_walking = false;
    strays->next_ms = now_ms + (strays->is_whole ? NEW_MS : AGAIN_MS);
    if (strays->is_whole && strays->begun_id == quorum->roster_id) {
        strays->passed_id = quorum->roster_id;
        tr_membership_look_now(quorum->membership);
    }
}

tr_mono_ms tr_strays_wake_at(const struct tr_quorum *quorum)
{
    const struct tr_strays *strays = &quorum->strays;
    if (!tr_ring_is_there(quorum->cluster) || !quorum->log->is_running)
        return TR_NEVER;
    if (quorum->time->now_ms < strays->blocked_ms)
        return strays->blocked_ms;
    if (strays->begun_id != quorum->roster_id)
        return quorum->time->now_ms;
    if (strays->is_walking)
        return strays->count > 0 ? strays->sent_ms + SILENT_MS : quorum->time->now_ms;
    return strays->has_new || !strays->is_whole ? strays->next_ms : TR_NEVER;
}

void tr_strays_look(struct tr_quorum *quorum)
{
    quorum->strays.next_ms = quorum->time->now_ms;
}

/* The key has ended meanwhile: that is what the others are offered from now on. */
static void hear_end(struct tr_quorum *quorum, struct tr_stray *stray, const struct tr_pair *end)
{
    uint64_t batch = 0;
    tr_kv_merge(quorum->kv, end, &batch);
    stray->asked = stray->lacks = 0;
    quorum->strays.has_new = true;
    tr_strays_look(quorum);
}

void tr_strays_answered(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry)
{
    struct tr_strays *strays = &quorum->strays;
    uint64_t index = entry->operation & 0xffff;
    if (index >= strays->count || entry->operation != operation_of(strays, &strays->items[index]))
        return;
    struct tr_stray *stray = &strays->items[index];
    for (unsigned i = 0; i < stray->holders.count; i++) {
        uint16_t bit = (uint16_t)(1u << i);
        if (stray->holders.members[i] != peer || (stray->asked & bit) == 0)
            continue;
        stray->asked &= (uint16_t)~bit;
        if (entry->answer == TR_ANSWER_STORED)
            stray->waits &= (uint16_t)~bit;
        else if (entry->answer == TR_ANSWER_ABOVE && entry->has_pair)
            hear_end(quorum, stray, &entry->pair);
        else if (entry->answer == TR_ANSWER_NONE)
            stray->lacks |= bit;
    }
}

bool tr_strays_are_home(const struct tr_quorum *quorum)
{
    return quorum->strays.passed_id == quorum->roster_id && !quorum->strays.has_new;
}

bool tr_strays_are_all_home(const struct tr_quorum *quorum)
{
    const struct tr_cluster *cluster = quorum->cluster;
    if (!tr_strays_are_home(quorum) || tr_roster_is_changing(quorum->membership->roster))
        return false;
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        const struct tr_standing *standing = &quorum->membership->standings[i];
        bool is_home = tr_peer_is_up(cluster, (uint16_t)i) && standing->is_heard &&
                       standing->id == quorum->roster_id &&
                       (cluster->peers[i].key_flags & TR_BEAT_KEYS_HOME) != 0;
        if (cluster->members[i].role != TR_ROLE_NONE && !is_home)
            return false;
    }
    return true;
}
