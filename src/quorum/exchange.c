/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/exchange.h"

#include "base/hash.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "kv/merge.h"
#include "kv/store.h"
#include "quorum/mail.h"
#include "quorum/operation.h"
#include "quorum/replica.h"
#include "quorum/target.h"

#define RANGE_KEYS  256   /* shared pairs of one range, */
#define LOOK_KEYS   4096  /* and pairs that are looked at for it */
#define TELL_BYTES  24576 /* of a list */
#define LISTED_ROOM 32    /* beside a key */
#define WINDOW      4096  /* pairs under way, beyond which no other range is asked about */
#define SILENT_MS   10000 /* then it begins anew */
#define AGAIN_MS    1000
#define BLOCKED_MS  100 /* until what there was no memory for is tried again */

static const struct tr_span no_list = {NULL, 0};

/* ---- what both hold ---- */

/* A walk over the pairs in [from, to] that another node is to hold, too. */
struct walk {
    const struct tr_quorum *quorum;
    uint16_t peer;
    uint64_t to;
    unsigned looked;
    uint64_t hash; /* of the pair that was seen last */
    struct tr_index_walk index;
};

static struct walk walk_from(const struct tr_quorum *quorum, uint16_t peer, uint64_t from,
                             uint64_t to)
{
    return (struct walk){.quorum = quorum,
                         .peer = peer,
                         .to = to,
                         .hash = from,
                         .index = tr_index_seek(&quorum->kv->book.index, from)};
}

static bool is_shared(const struct tr_quorum *quorum, struct tr_span key, uint16_t peer)
{
    struct tr_holders holders;
    tr_ring_holders(quorum->cluster, key, &holders);
    return tr_holders_have(&holders, 0) && tr_holders_have(&holders, peer);
}

/* The next one; false at the end of the range, or after so many looks, between two hashes. */
static bool next_shared(struct walk *walk, unsigned most, struct tr_pair *pair)
{
    const struct tr_quorum *quorum = walk->quorum;
    tr_ref ref = TR_ARENA_NONE;
    while (true) {
        struct tr_index_walk before = walk->index;
        if (!tr_index_next(&walk->index, &ref)) {
            walk->hash = walk->to;
            return false;
        }
        tr_kv_book_unpack(&quorum->kv->book, ref, pair);
        uint64_t hash = tr_kv_hash(pair->key);
        if (hash > walk->to) {
            walk->hash = walk->to;
            return false;
        }
        if (walk->looked >= most && hash != walk->hash) {
            walk->index = before;
            return false; /* walk->hash is where it stopped */
        }
        walk->looked++;
        walk->hash = hash;
        if (pair->version >= quorum->kv->floor && is_shared(quorum, pair->key, walk->peer))
            return true;
    }
}

static uint64_t digest(const struct tr_pair *pair)
{
    uint64_t node = (uint64_t)pair->version_node << 1 | pair->is_end;
    return tr_hash_mix(tr_kv_hash(pair->key) ^ tr_hash_mix(pair->version + (node << 47)));
}

/* Who never had a key need not hear that it has ended. But while a change is under way, one that is
 * to hold it from now on may be sent it by somebody who has not heard either. */
static bool is_compared(const struct tr_quorum *quorum, const struct tr_pair *pair)
{
    return !pair->is_end || quorum->cluster->old_ring.count > 0;
}

/* ---- asking ---- */

static bool is_asking(const struct tr_quorum *quorum, uint16_t peer)
{
    return tr_span_compare(quorum->cluster->address, tr_member_address(quorum->cluster, peer)) < 0;
}

/* Whether the other node is there, is of the same roster, and shares keys with this one. */
static bool may_exchange(const struct tr_quorum *quorum, uint16_t peer)
{
    const struct tr_cluster *cluster = quorum->cluster;
    const struct tr_standing *standing = &quorum->membership->standings[peer];
    return tr_ring_is_there(cluster) && cluster->members[peer].role != TR_ROLE_NONE &&
           cluster->members[0].role != TR_ROLE_NONE && tr_peer_is_up(cluster, peer) &&
           cluster->peers[peer].version >= TR_ROSTER_VERSION && standing->is_heard &&
           standing->id == quorum->roster_id && quorum->log->is_running;
}

static void ask_range(struct tr_quorum *quorum, uint16_t peer, struct tr_exchange *exchange)
{
    struct tr_key_entry entry = {.kind = TR_KEYS_RANGE, .from = exchange->cursor, .to = UINT64_MAX};
    struct walk walk = walk_from(quorum, peer, exchange->cursor, UINT64_MAX);
    struct tr_pair pair;
    unsigned most = tr_kv_slice(quorum->kv, LOOK_KEYS);
    while (next_shared(&walk, entry.count < RANGE_KEYS ? most : 0, &pair)) {
        if (!is_compared(quorum, &pair))
            continue;
        entry.sum += digest(&pair);
        entry.count++;
    }
    entry.to = walk.hash;
    if (!tr_mail_send(quorum, peer, &entry, no_list)) {
        exchange->again_ms = quorum->time->now_ms + BLOCKED_MS;
        return;
    }
    exchange->is_asked = true;
    exchange->asked_from = entry.from;
    exchange->asked_to = entry.to;
    exchange->heard_ms = quorum->time->now_ms;
}

static void begin(struct tr_quorum *quorum, struct tr_exchange *exchange)
{
    exchange->round++;
    exchange->begun_id = quorum->roster_id;
    exchange->begun_ms = quorum->time->now_ms;
    exchange->cursor = 0;
    exchange->is_missed = false;
    exchange->is_asked = false;
    exchange->is_through = false;
    exchange->has_failed = false;
    exchange->open = 0;
    exchange->heard_ms = quorum->time->now_ms;
}

/* One that began at `begun_ms` is through. */
static void done(struct tr_quorum *quorum, struct tr_exchange *exchange, tr_mono_ms begun_ms)
{
    tr_cover(quorum->trial, RULE_EXCHANGED);
    exchange->is_met = true;
    exchange->done_id = quorum->roster_id;
    exchange->done_ms = begun_ms > 0 ? begun_ms : 1;
    if (begun_ms > exchange->full_ms)
        exchange->full_ms = 0;
    tr_membership_look_now(quorum->membership);
}

static void finish(struct tr_quorum *quorum, uint16_t peer, struct tr_exchange *exchange)
{
    struct tr_key_entry entry = {.kind = TR_KEYS_DONE};
    if (exchange->has_failed) { /* something had no room: all is compared again, after a while */
        exchange->begun_id = 0;
        exchange->heard_ms = quorum->time->now_ms;
        return;
    }
    if (!tr_mail_send(quorum, peer, &entry, no_list)) {
        exchange->again_ms = quorum->time->now_ms + BLOCKED_MS;
        return;
    }
    exchange->begun_id = 0;
    done(quorum, exchange, exchange->begun_ms);
}

/* Whether this node is to begin one: it has the lower address, and it is time; or it knows that the
 * other has missed something. */
static bool is_due(const struct tr_quorum *quorum, uint16_t peer)
{
    const struct tr_exchange *exchange = &quorum->exchanges[peer];
    tr_mono_ms now_ms = quorum->time->now_ms;
    bool is_done = exchange->done_id == quorum->roster_id &&
                   now_ms < exchange->done_ms + quorum->config.exchange_ms;
    bool is_early = exchange->has_failed && now_ms < exchange->heard_ms + AGAIN_MS;
    /* Also one that is not ready yet: it has to hear of an end before it owes what is over. */
    bool is_missed = exchange->is_missed && tr_quorum_has_room(quorum, peer) &&
                     now_ms >= exchange->done_ms + AGAIN_MS;
    return !is_early && (is_missed || (is_asking(quorum, peer) && !is_done));
}

void tr_exchange_run(struct tr_quorum *quorum, uint16_t peer)
{
    struct tr_exchange *exchange = &quorum->exchanges[peer];
    tr_mono_ms now_ms = quorum->time->now_ms;
    if (!may_exchange(quorum, peer) || now_ms < exchange->again_ms)
        return;
    bool is_under_way = exchange->begun_id == quorum->roster_id;
    bool is_stuck = is_under_way && now_ms >= exchange->heard_ms + SILENT_MS;
    if (!is_under_way || is_stuck) {
        if (!is_stuck && !is_due(quorum, peer))
            return;
        begin(quorum, exchange);
    }
    if (exchange->is_through && exchange->open == 0)
        finish(quorum, peer, exchange);
    else if (!exchange->is_through && !exchange->is_asked && exchange->open < WINDOW &&
             tr_mail_has_room(quorum, peer))
        ask_range(quorum, peer, exchange);
}

bool tr_exchange_wants_tick(const struct tr_quorum *quorum, uint16_t peer)
{
    const struct tr_exchange *exchange = &quorum->exchanges[peer];
    if (!may_exchange(quorum, peer) || quorum->time->now_ms < exchange->again_ms)
        return false;
    if (exchange->begun_id != quorum->roster_id)
        return is_due(quorum, peer);
    return exchange->is_through
               ? exchange->open == 0
               : !exchange->is_asked && exchange->open < WINDOW && tr_mail_has_room(quorum, peer);
}

/* ---- telling ---- */

/* What is here of a range that the other asks about: the same, or a list, which may end before the
 * range does. */
static void tell(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *asked)
{
    struct tr_key_entry entry = {.kind = TR_KEYS_TELL, .from = asked->from, .to = asked->to};
    struct tr_writer list = tr_writer_on(quorum->scratch, quorum->scratch_size);
    struct walk walk = walk_from(quorum, peer, asked->from, asked->to);
    struct tr_pair pair;
    uint64_t sum = 0;
    uint64_t live = 0;
    unsigned most = tr_kv_slice(quorum->kv, LOOK_KEYS);
    while (next_shared(&walk, list.size < TELL_BYTES ? most : 0, &pair)) {
        sum += is_compared(quorum, &pair) ? digest(&pair) : 0;
        live += is_compared(quorum, &pair);
        if (list.cap - list.size < pair.key.size + LISTED_ROOM)
            continue; /* of one hash: the other sends what is not told */
        tr_keys_put_listed(&list, pair.key, tr_pair_order(&pair));
        entry.count++;
    }
    TR_ASSERT(!list.is_full);
    entry.to = walk.hash;
    entry.is_equal = entry.to == asked->to && sum == asked->sum && live == asked->count;
    if (entry.is_equal) {
        entry.count = 0;
        list.size = 0;
    }
    tr_mail_send(quorum, peer, &entry, (struct tr_span){(const char *)list.bytes, list.size});
}

/* ---- what differs ---- */

/* Answers to what was sent in an earlier round are told from those of this one. */
static uint64_t operation_of(const struct tr_quorum *quorum, uint16_t peer)
{
    return TR_FOR_EXCHANGE | (uint64_t)quorum->exchanges[peer].round;
}

/* A key has expired whose callback those who stay owe: whoever had the key from this node now, and
 * cannot reach them, would owe it once more. */
static bool is_left_to_others(const struct tr_quorum *quorum, const struct tr_pair *pair)
{
    return quorum->cluster->members[0].role == TR_ROLE_LEAVING && quorum->membership->was_settled &&
           !pair->is_end && pair->callback.size > 0 &&
           tr_kv_has_expired(quorum->kv, pair->expires_ms);
}

static void send_pair(struct tr_quorum *quorum, uint16_t peer, const struct tr_pair *pair,
                      uint64_t batch)
{
    struct tr_exchange *exchange = &quorum->exchanges[peer];
    struct tr_key_entry entry = {
        .kind = TR_KEYS_WRITE, .operation = operation_of(quorum, peer), .pair = *pair};
    if (is_left_to_others(quorum, pair))
        return;
    if (tr_mail_send_pair(quorum, peer, &entry, batch))
        exchange->open++;
    else
        exchange->has_failed = true;
}

static void want(struct tr_quorum *quorum, uint16_t peer, struct tr_span key)
{
    struct tr_exchange *exchange = &quorum->exchanges[peer];
    struct tr_key_entry entry = {
        .kind = TR_KEYS_WANT, .operation = operation_of(quorum, peer), .pair.key = key};
    if (tr_mail_send(quorum, peer, &entry, no_list))
        exchange->open++;
    else
        exchange->has_failed = true;
}

/* Whether a key is on a list that is in the order of hashes. `at` is where to look from. */
static bool is_listed(struct tr_reader *at, uint64_t hash, struct tr_span key)
{
    struct tr_reader look = *at;
    struct tr_span listed;
    struct tr_pair_order order;
    while (tr_keys_get_listed(&look, &listed, &order)) {
        uint64_t listed_hash = tr_kv_hash(listed);
        if (listed_hash > hash)
            return false;
        if (listed_hash == hash && tr_span_equals(listed, key))
            return true;
        if (listed_hash < hash)
            *at = look;
    }
    return false;
}

static void compare(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *told)
{
    struct tr_reader list = told->list;
    struct tr_span key;
    struct tr_pair_order order;
    struct tr_pair pair;
    uint64_t batch = 0;
    while (tr_keys_get_listed(&list, &key, &order)) {
        bool has_any = tr_kv_look(quorum->kv, key, &pair, &batch);
        int above = has_any ? tr_pair_compare(tr_pair_order(&pair), order) : -1;
        bool is_over = order.version < quorum->kv->floor;
        if (above > 0)
            send_pair(quorum, peer, &pair, batch);
        else if (above < 0 && !is_over)
            want(quorum, peer, key);
    }
    struct tr_reader at = told->list;
    struct walk walk = walk_from(quorum, peer, told->from, told->to);
    while (next_shared(&walk, UINT32_MAX, &pair)) {
        if (is_compared(quorum, &pair) && !is_listed(&at, walk.hash, pair.key))
            send_pair(quorum, peer, &pair, tr_kv_written(quorum->kv, walk.hash));
    }
}

static void told(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry)
{
    struct tr_exchange *exchange = &quorum->exchanges[peer];
    if (!exchange->is_asked || entry->from != exchange->asked_from ||
        entry->to > exchange->asked_to || exchange->begun_id != quorum->roster_id)
        return;
    exchange->is_asked = false;
    exchange->heard_ms = quorum->time->now_ms;
    if (!entry->is_equal)
        compare(quorum, peer, entry);
    exchange->is_through = entry->to == UINT64_MAX;
    exchange->cursor = entry->to + 1;
}

static void wanted(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *asked)
{
    struct tr_key_entry entry = {
        .kind = TR_KEYS_ANSWER, .operation = asked->operation, .answer = TR_ANSWER_NONE};
    uint64_t batch = 0;
    if (tr_kv_look(quorum->kv, asked->pair.key, &entry.pair, &batch) &&
        !is_left_to_others(quorum, &entry.pair)) {
        entry.answer = TR_ANSWER_HELD;
        entry.has_pair = true;
        entry.known = tr_pair_order(&entry.pair);
    }
    tr_mail_promise(quorum, peer, batch, &entry);
}

/* ---- hearing ---- */

void tr_exchange_heard(struct tr_quorum *quorum, uint16_t peer, struct tr_key_entry *entry)
{
    struct tr_exchange *exchange = &quorum->exchanges[peer];
    if (!tr_ring_is_there(quorum->cluster))
        return;
    if (entry->kind == TR_KEYS_RANGE) {
        if (entry->from == 0) {
            exchange->told_id = quorum->roster_id;
            exchange->told_ms = quorum->time->now_ms;
        }
        tell(quorum, peer, entry);
    } else if (entry->kind == TR_KEYS_TELL) {
        told(quorum, peer, entry);
    } else if (entry->kind == TR_KEYS_WANT) {
        wanted(quorum, peer, entry);
    } else if (entry->kind == TR_KEYS_DONE && exchange->told_id == quorum->roster_id) {
        exchange->told_id = 0;
        done(quorum, exchange, exchange->told_ms);
    }
}

bool tr_exchange_answered(struct tr_quorum *quorum, uint16_t peer, struct tr_key_entry *entry)
{
    struct tr_exchange *exchange = &quorum->exchanges[peer];
    uint64_t batch = 0;
    if (entry->has_pair) {
        enum tr_merge merge = tr_kv_merge(quorum->kv, &entry->pair, &batch);
        if (merge == TR_MERGE_AGAIN)
            return false;
        exchange->has_failed |= merge == TR_MERGE_FULL;
    }
    if (entry->operation != operation_of(quorum, peer))
        return true;
    exchange->has_failed |= entry->answer == TR_ANSWER_FULL || entry->answer == TR_ANSWER_EPOCH;
    exchange->open -= exchange->open > 0;
    exchange->heard_ms = quorum->time->now_ms;
    return true;
}

void tr_exchange_link_lost(struct tr_quorum *quorum, uint16_t peer)
{
    struct tr_exchange *exchange = &quorum->exchanges[peer];
    exchange->begun_id = 0;
    exchange->told_id = 0;
    exchange->is_met = false;
    exchange->is_home = false;
    exchange->done_id = 0; /* it may miss something from now on */
    exchange->has_failed = false;
    exchange->is_missed = false; /* all is compared when it is back */
    exchange->full_ms = 0;
    /* What it was writing others may have missed, and nobody tells them any more. */
    if (exchange->wrote_ms == 0 ||
        quorum->time->now_ms > exchange->wrote_ms + 2 * (tr_mono_ms)TR_GIVE_UP_MS)
        return;
    tr_cover(quorum->trial, RULE_LEFT_HALF_WRITTEN);
    for (uint32_t i = 1; i < quorum->cluster->member_count; i++)
        tr_exchange_missed(quorum, (uint16_t)i);
}

void tr_exchange_missed(struct tr_quorum *quorum, uint16_t peer)
{
    if (peer != 0 && peer != TR_MEMBER_NONE)
        quorum->exchanges[peer].is_missed |= quorum->cluster->peers[peer].link == LINK_GREETED;
}

void tr_exchange_all_anew(struct tr_quorum *quorum)
{
    for (uint32_t i = 1; i < quorum->cluster->member_count; i++) {
        quorum->exchanges[i].done_id = 0;
        quorum->exchanges[i].is_missed = true;
    }
}

/* Under this roster, and of what it is known to have missed since nothing is left to be sent. */
static bool has_all(const struct tr_quorum *quorum, uint32_t member)
{
    const struct tr_exchange *exchange = &quorum->exchanges[member];
    return exchange->done_id == quorum->roster_id && !exchange->is_missed &&
           exchange->begun_id != quorum->roster_id;
}

bool tr_exchange_is_through(const struct tr_quorum *quorum)
{
    if (quorum->cluster->members[0].role == TR_ROLE_NONE)
        return true; /* it holds nothing with others */
    for (uint32_t i = 1; i < quorum->cluster->member_count; i++) {
        if (quorum->cluster->members[i].role != TR_ROLE_NONE && !has_all(quorum, i))
            return false;
    }
    return true;
}

bool tr_exchange_is_known(const struct tr_quorum *quorum, struct tr_span key, tr_mono_ms at_ms)
{
    struct tr_holders holders;
    tr_ring_holders(quorum->cluster, key, &holders);
    for (unsigned i = 0; i < holders.count; i++) {
        uint16_t member = holders.members[i];
        if (member != 0 && quorum->exchanges[member].done_ms <= at_ms)
            return false;
    }
    return true;
}
