/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/frame.h"

#define HAS_EXPIRY   1
#define HAS_CALLBACK 2
#define IS_END       4
#define IS_OWED      8

#define IS_WANTED      1
#define IS_CONDITIONAL 2
#define HAS_PAIR       4
#define IS_EQUAL       8

#define ENTRY_ROOM  160              /* bytes of an entry beside its texts, at most */
#define VERSION_MAX (UINT64_MAX / 2) /* a higher one is nonsense */

/* ---- head ---- */

void tr_keys_put_head(struct tr_writer *out, const struct tr_key_frame *head)
{
    tr_put_varint(out, head->epoch);
    tr_put_number(out, head->roster_id, 8);
    tr_put_number(out, head->now_ms, 8);
}

bool tr_keys_get_head(struct tr_reader *in, struct tr_key_frame *head)
{
    head->epoch = tr_get_varint(in);
    head->roster_id = tr_get_number(in, 8);
    head->now_ms = tr_get_number(in, 8);
    return !in->is_short && head->now_ms <= TR_TIME_MAX;
}

/* ---- parts ---- */

static void put_order(struct tr_writer *out, struct tr_pair_order order)
{
    tr_put_number(out, order.version, 8);
    tr_put_number(out, order.node, 2);
    tr_put_number(out, order.is_end, 1);
}

static struct tr_pair_order get_order(struct tr_reader *in)
{
    struct tr_pair_order order = {.version = tr_get_number(in, 8)};
    in->is_short |= order.version > VERSION_MAX;
    order.node = (uint16_t)tr_get_number(in, 2);
    order.is_end = tr_get_number(in, 1) != 0;
    return order;
}

static struct tr_span get_key(struct tr_reader *in)
{
    struct tr_span key = tr_get_span(in);
    in->is_short |= key.size > TR_KEY_MAX;
    return key;
}

/* A time of the sender's clock, by the clock here: what is left of it is the same. */
static tr_steady_ms get_time(struct tr_reader *in, const struct tr_key_frame *head,
                             tr_steady_ms now_ms)
{
    uint64_t at_ms = tr_get_number(in, 8);
    if (at_ms > TR_TIME_MAX) {
        in->is_short = true;
        return TR_TIME_MAX;
    }
    int64_t left_ms = (int64_t)at_ms - (int64_t)head->now_ms;
    int64_t here_ms = (int64_t)now_ms + left_ms;
    return here_ms < 0 ? 0 : here_ms > (int64_t)TR_TIME_MAX ? TR_TIME_MAX : (tr_steady_ms)here_ms;
}

static void put_pair(struct tr_writer *out, const struct tr_pair *pair)
{
    bool has_expiry = pair->expires_ms != TR_NEVER && !pair->is_end;
    tr_put_span(out, pair->key);
    put_order(out, tr_pair_order(pair));
    tr_put_number(out,
                  (has_expiry ? HAS_EXPIRY : 0u) | (pair->callback.size > 0 ? HAS_CALLBACK : 0u) |
                      (pair->is_end ? IS_END : 0u) | (pair->is_end && pair->is_owed ? IS_OWED : 0u),
                  1);
    if (has_expiry)
        tr_put_number(out, pair->expires_ms < TR_TIME_MAX ? pair->expires_ms : TR_TIME_MAX, 8);
    if (pair->callback.size > 0)
        tr_put_span(out, pair->callback);
    if (!pair->is_end)
        tr_put_span(out, pair->value);
}

/* Of a tombstone it is said by whoever stores it how long it is remembered. */
static void get_pair(struct tr_reader *in, const struct tr_key_frame *head, tr_steady_ms now_ms,
                     struct tr_pair *pair)
{
    *pair = (struct tr_pair){.expires_ms = TR_NEVER};
    pair->key = get_key(in);
    struct tr_pair_order order = get_order(in);
    pair->version = order.version;
    pair->version_node = order.node;
    uint64_t flags = tr_get_number(in, 1);
    pair->is_end = (flags & IS_END) != 0;
    pair->is_owed = (flags & IS_OWED) != 0;
    if ((flags & HAS_EXPIRY) != 0)
        pair->expires_ms = get_time(in, head, now_ms);
    if ((flags & HAS_CALLBACK) != 0)
        pair->callback = tr_get_span(in);
    if (!pair->is_end)
        pair->value = tr_get_span(in);
    bool is_flagged_well = flags <= (HAS_EXPIRY | HAS_CALLBACK | IS_END | IS_OWED) &&
                           (!pair->is_end || (flags & ~(uint64_t)IS_OWED) == IS_END) &&
                           (!pair->is_owed || pair->is_end) &&
                           ((flags & HAS_CALLBACK) == 0 || (flags & HAS_EXPIRY) != 0);
    in->is_short |= !is_flagged_well || pair->version == 0 || pair->value.size > TR_VALUE_MAX ||
                    pair->callback.size > TR_URI_MAX;
}

static void put_command(struct tr_writer *out, const struct tr_key_command *command)
{
    tr_put_number(out, (uint64_t)command->verb, 1);
    tr_put_number(out, (uint64_t)command->only_if, 1);
    tr_put_number(out, (uint64_t)command->expiry, 1);
    tr_put_number(out, command->expire_if, 1);
    tr_put_number(out, command->wants_old, 1);
    tr_put_span(out, command->key);
    tr_put_span(out, command->value);
    tr_put_span(out, command->callback);
    tr_put_number(out, command->expires_ms < TR_TIME_MAX ? command->expires_ms : TR_TIME_MAX, 8);
    tr_put_number(out, (uint64_t)command->number, 8);
    tr_put_number(out, command->version, 8);
}

static void get_command(struct tr_reader *in, const struct tr_key_frame *head, tr_steady_ms now_ms,
                        struct tr_key_command *command)
{
    uint64_t verb = tr_get_number(in, 1);
    uint64_t only_if = tr_get_number(in, 1);
    uint64_t expiry = tr_get_number(in, 1);
    uint64_t expire_if = tr_get_number(in, 1);
    command->wants_old = tr_get_number(in, 1) != 0;
    command->key = get_key(in);
    command->value = tr_get_span(in);
    command->callback = tr_get_span(in);
    command->expires_ms = get_time(in, head, now_ms);
    command->number = (int64_t)tr_get_number(in, 8);
    command->version = tr_get_number(in, 8);
    in->is_short |= command->version > VERSION_MAX;
    in->is_short |=
        verb > TR_KEY_PERSIST || only_if > TR_IF_OLDER || expiry > TR_EXPIRY_AT ||
        expire_if > (TR_EXPIRE_NONE | TR_EXPIRE_SOME | TR_EXPIRE_LATER | TR_EXPIRE_SOONER) ||
        command->value.size > TR_VALUE_MAX || command->callback.size > TR_URI_MAX;
    if (in->is_short)
        return;
    command->verb = (enum tr_key_verb)verb;
    command->only_if = (enum tr_key_if)only_if;
    command->expiry = (enum tr_key_expiry)expiry;
    command->expire_if = (uint8_t)expire_if;
}

static void put_result(struct tr_writer *out, const struct tr_key_result *result)
{
    tr_put_number(out, (uint64_t)result->outcome, 1);
    tr_put_number(out, (uint64_t)result->refusal, 1);
    tr_put_number(out, result->was_there, 1);
    tr_put_number(out, result->expires_ms != TR_NEVER, 1);
    tr_put_number(out, result->expires_ms < TR_TIME_MAX ? result->expires_ms : TR_TIME_MAX, 8);
    tr_put_number(out, (uint64_t)result->number, 8);
    tr_put_number(out, result->version, 8);
    tr_put_span(out, result->value);
}

static void get_result(struct tr_reader *in, const struct tr_key_frame *head, tr_steady_ms now_ms,
                       struct tr_key_result *result)
{
    uint64_t outcome = tr_get_number(in, 1);
    uint64_t refusal = tr_get_number(in, 1);
    result->was_there = tr_get_number(in, 1) != 0;
    bool expires = tr_get_number(in, 1) != 0;
    tr_steady_ms at_ms = get_time(in, head, now_ms);
    result->expires_ms = expires ? at_ms : TR_NEVER;
    result->number = (int64_t)tr_get_number(in, 8);
    result->version = tr_get_number(in, 8);
    in->is_short |= result->version > VERSION_MAX;
    result->value = tr_get_span(in);
    in->is_short |= outcome > TR_KEY_REFUSED || outcome == TR_KEY_AGAIN || refusal >= TR_RESULTS ||
                    result->value.size > TR_VALUE_MAX;
    if (in->is_short)
        return;
    result->outcome = (enum tr_key_outcome)outcome;
    result->refusal = (enum tr_result)refusal;
}

/* ---- lists ---- */

void tr_keys_put_listed(struct tr_writer *out, struct tr_span key, struct tr_pair_order order)
{
    tr_put_span(out, key);
    put_order(out, order);
}

bool tr_keys_get_listed(struct tr_reader *in, struct tr_span *key, struct tr_pair_order *order)
{
    if (in->at == in->end)
        return false;
    *key = get_key(in);
    *order = get_order(in);
    return !in->is_short;
}

static void put_list(struct tr_writer *out, const struct tr_key_entry *entry, struct tr_span list)
{
    tr_put_varint(out, entry->count);
    tr_put_span(out, list);
}

/* Its keys are looked at here, so that whoever uses them need not. */
static void get_list(struct tr_reader *in, struct tr_key_entry *entry)
{
    entry->count = tr_get_varint(in);
    struct tr_span bytes = tr_get_span(in);
    if (in->is_short)
        return;
    entry->list = tr_reader_on(bytes.text, bytes.size);
    struct tr_reader look = entry->list;
    struct tr_span key;
    struct tr_pair_order order;
    uint64_t count = 0;
    while (tr_keys_get_listed(&look, &key, &order))
        count++;
    in->is_short |= look.is_short || count != entry->count;
}

/* ---- entries ---- */

static uint64_t flags_of(const struct tr_key_entry *entry)
{
    return (entry->is_wanted ? IS_WANTED : 0u) | (entry->is_conditional ? IS_CONDITIONAL : 0u) |
           (entry->has_pair ? HAS_PAIR : 0u) | (entry->is_equal ? IS_EQUAL : 0u);
}

size_t tr_keys_bound(const struct tr_key_entry *entry, struct tr_span list)
{
    const struct tr_pair *pair = &entry->pair;
    const struct tr_key_command *command = &entry->command;
    size_t size = ENTRY_ROOM + pair->key.size + list.size;
    if (entry->kind == TR_KEYS_WRITE || entry->has_pair)
        size += pair->value.size + pair->callback.size;
    if (entry->kind == TR_KEYS_CALL)
        size += command->key.size + command->value.size + command->callback.size;
    if (entry->kind == TR_KEYS_RESULT)
        size += entry->result.value.size;
    return size;
}

void tr_keys_put(struct tr_writer *out, const struct tr_key_entry *entry, struct tr_span list)
{
    tr_put_number(out, (uint64_t)entry->kind, 1);
    tr_put_varint(out, entry->operation);
    tr_put_number(out, flags_of(entry), 1);
    switch (entry->kind) {
    case TR_KEYS_WRITE:
        if (entry->is_conditional) {
            put_order(out, entry->known);
            put_order(out, entry->since);
        }
        put_pair(out, &entry->pair);
        return;
    case TR_KEYS_ASK:
    case TR_KEYS_WANT:
    case TR_KEYS_OFFER:
    case TR_KEYS_KNOWN:
    case TR_KEYS_MISSED:
        tr_put_span(out, entry->pair.key);
        put_order(out, entry->known);
        return;
    case TR_KEYS_ANSWER:
        tr_put_number(out, (uint64_t)entry->answer, 1);
        put_order(out, entry->known);
        if (entry->has_pair)
            put_pair(out, &entry->pair);
        return;
    case TR_KEYS_CALL:
        put_command(out, &entry->command);
        return;
    case TR_KEYS_RESULT:
        put_result(out, &entry->result);
        return;
    case TR_KEYS_RANGE:
        tr_put_number(out, entry->from, 8);
        tr_put_number(out, entry->to, 8);
        tr_put_number(out, entry->sum, 8);
        tr_put_varint(out, entry->count);
        return;
    case TR_KEYS_TELL:
        tr_put_number(out, entry->from, 8);
        tr_put_number(out, entry->to, 8);
        put_list(out, entry, list);
        return;
    case TR_KEYS_DONE:
        return;
    case TR_KEYS_SCAN:
        tr_put_number(out, entry->from, 8);
        tr_put_varint(out, entry->count);
        return;
    case TR_KEYS_PAGE:
        tr_put_number(out, entry->to, 8);
        put_list(out, entry, list);
        return;
    }
}

static void get_range(struct tr_reader *in, struct tr_key_entry *entry)
{
    entry->from = tr_get_number(in, 8);
    entry->to = tr_get_number(in, 8);
    in->is_short |= entry->from > entry->to;
}

static void get_answer(struct tr_reader *in, const struct tr_key_frame *head, tr_steady_ms now_ms,
                       struct tr_key_entry *entry)
{
    uint64_t answer = tr_get_number(in, 1);
    entry->known = get_order(in);
    if (entry->has_pair)
        get_pair(in, head, now_ms, &entry->pair);
    in->is_short |= answer < TR_ANSWER_STORED || answer > TR_ANSWER_EPOCH;
    if (!in->is_short)
        entry->answer = (enum tr_key_answer)answer;
}

static void get_body(struct tr_reader *in, const struct tr_key_frame *head, tr_steady_ms now_ms,
                     struct tr_key_entry *entry)
{
    switch (entry->kind) {
    case TR_KEYS_WRITE:
        if (entry->is_conditional) {
            entry->known = get_order(in);
            entry->since = get_order(in);
        }
        get_pair(in, head, now_ms, &entry->pair);
        return;
    case TR_KEYS_ASK:
    case TR_KEYS_WANT:
    case TR_KEYS_OFFER:
    case TR_KEYS_KNOWN:
    case TR_KEYS_MISSED:
        entry->pair.key = get_key(in);
        entry->known = get_order(in);
        return;
    case TR_KEYS_ANSWER:
        get_answer(in, head, now_ms, entry);
        return;
    case TR_KEYS_CALL:
        get_command(in, head, now_ms, &entry->command);
        return;
    case TR_KEYS_RESULT:
        get_result(in, head, now_ms, &entry->result);
        return;
    case TR_KEYS_RANGE:
        get_range(in, entry);
        entry->sum = tr_get_number(in, 8);
        entry->count = tr_get_varint(in);
        return;
    case TR_KEYS_TELL:
        get_range(in, entry);
        get_list(in, entry);
        return;
    case TR_KEYS_DONE:
        return;
    case TR_KEYS_SCAN:
        entry->from = tr_get_number(in, 8);
        entry->count = tr_get_varint(in);
        return;
    case TR_KEYS_PAGE:
        entry->to = tr_get_number(in, 8);
        get_list(in, entry);
        return;
    }
}

bool tr_keys_get(struct tr_reader *in, const struct tr_key_frame *head, tr_steady_ms now_ms,
                 struct tr_key_entry *entry)
{
    if (in->is_short || in->at == in->end)
        return false;
    memset(entry, 0, sizeof *entry);
    uint64_t kind = tr_get_number(in, 1);
    entry->operation = tr_get_varint(in);
    uint64_t flags = tr_get_number(in, 1);
    if (in->is_short || kind < TR_KEYS_WRITE || kind > TR_KEYS_MISSED ||
        flags > (IS_WANTED | IS_CONDITIONAL | HAS_PAIR | IS_EQUAL)) {
        in->is_short = true;
        return false;
    }
    entry->kind = (enum tr_key_entry_kind)kind;
    entry->is_wanted = (flags & IS_WANTED) != 0;
    entry->is_conditional = (flags & IS_CONDITIONAL) != 0;
    entry->has_pair = (flags & HAS_PAIR) != 0;
    entry->is_equal = (flags & IS_EQUAL) != 0;
    get_body(in, head, now_ms, entry);
    return !in->is_short;
}
