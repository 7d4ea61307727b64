/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/operation.h"

#include "cluster/peer.h"
#include "kv/book.h"
#include "quorum/handover.h"
#include "quorum/mail.h"

#define NONE TR_OPERATION_NONE

static const struct tr_span no_list = {NULL, 0};

/* ---- the table ---- */

static uint32_t index_of(const struct tr_quorum *quorum,
                         const struct tr_quorum_operation *operation)
{
    return (uint32_t)(operation - quorum->operations);
}

static void link_last(struct tr_quorum *quorum, uint32_t index)
{
    struct tr_quorum_operation *operation = &quorum->operations[index];
    operation->next = NONE;
    operation->previous = quorum->active_last;
    if (quorum->active_last != NONE)
        quorum->operations[quorum->active_last].next = index;
    else
        quorum->active = index;
    quorum->active_last = index;
}

static void unlink_one(struct tr_quorum *quorum, const struct tr_quorum_operation *operation)
{
    if (operation->previous != NONE)
        quorum->operations[operation->previous].next = operation->next;
    else
        quorum->active = operation->next;
    if (operation->next != NONE)
        quorum->operations[operation->next].previous = operation->previous;
    else
        quorum->active_last = operation->previous;
}

void tr_quorum_renumber(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    operation->number = (++quorum->operation_next << 16) | index_of(quorum, operation);
}

struct tr_quorum_operation *tr_quorum_new(struct tr_quorum *quorum, enum tr_quorum_kind kind)
{
    uint32_t index = quorum->operation_free;
    if (index != NONE) {
        quorum->operation_free = quorum->operations[index].next;
        tr_quorum_fetch(quorum, quorum->operation_free); /* the next command is not far */
    } else if (quorum->operation_fresh < quorum->config.operations_max) {
        index = quorum->operation_fresh++;
    } else {
        return NULL;
    }
    struct tr_quorum_operation *operation = &quorum->operations[index];
    const struct tr_log *log = quorum->log;
    if (quorum->operation_next == 0 && log->incarnation_count > 0) /* none of an earlier start */
        quorum->operation_next = (log->incarnations[log->incarnation_count - 1].number & 0xfff)
                                 << 32;
    memset(operation, 0, offsetof(struct tr_quorum_operation, targets));
    operation->kind = kind;
    tr_quorum_renumber(quorum, operation);
    operation->roster_id = quorum->roster_id;
    operation->begun_ms = quorum->time->now_ms;
    operation->asked_ms = quorum->time->now_ms;
    operation->look_ms = quorum->time->now_ms + TR_SILENT_MS + 2 * tr_peers_trip(quorum->cluster);
    operation->command = TR_ARENA_NONE;
    operation->pair = TR_ARENA_NONE;
    operation->value = TR_ARENA_NONE;
    link_last(quorum, index);
    quorum->operation_count++;
    return operation;
}

struct tr_quorum_operation *tr_quorum_find(struct tr_quorum *quorum, uint64_t number)
{
    uint64_t index = number & 0xffff;
    if (index >= quorum->operation_fresh || quorum->operations[index].number != number)
        return NULL;
    return &quorum->operations[index];
}

/* ---- those that modify one key ---- */

void tr_quorum_chain(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                     struct tr_span key)
{
    TR_ASSERT(!operation->is_chained);
    uint32_t index = index_of(quorum, operation);
    operation->is_chained = true;
    operation->hash = tr_kv_hash(key);
    uint32_t *head = &quorum->chains[operation->hash & (TR_CHAINS - 1)];
    operation->chain = *head;
    operation->chained = NONE;
    if (*head != NONE)
        quorum->operations[*head].chained = index;
    *head = index;
}

static void unchain(struct tr_quorum *quorum, const struct tr_quorum_operation *operation)
{
    TR_ASSERT(operation->is_chained);
    if (operation->chained != NONE)
        quorum->operations[operation->chained].chain = operation->chain;
    else
        quorum->chains[operation->hash & (TR_CHAINS - 1)] = operation->chain;
    if (operation->chain != NONE)
        quorum->operations[operation->chain].chained = operation->chained;
}

const struct tr_quorum_operation *tr_quorum_maker(const struct tr_quorum *quorum,
                                                  struct tr_span key, struct tr_pair_order order)
{
    uint64_t hash = tr_kv_hash(key);
    uint32_t index = quorum->chains[hash & (TR_CHAINS - 1)];
    while (index != NONE) {
        const struct tr_quorum_operation *operation = &quorum->operations[index];
        if (operation->hash == hash && operation->has_changed &&
            tr_pair_compare(operation->kept, order) == 0)
            return operation;
        index = operation->chain;
    }
    return NULL;
}

static void give(struct tr_quorum *quorum, tr_ref *piece)
{
    if (*piece != TR_ARENA_NONE)
        tr_arena_give(quorum->arena, *piece);
    *piece = TR_ARENA_NONE;
}

void tr_quorum_end(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    TR_ASSERT(operation->number != 0 && quorum->operation_count > 0);
    tr_handover_answered(quorum, operation);
    give(quorum, &operation->command);
    give(quorum, &operation->pair);
    give(quorum, &operation->value);
    unlink_one(quorum, operation);
    if (operation->is_chained) /* not if there was no memory for its command */
        unchain(quorum, operation);
    operation->number = 0;
    operation->kind = QUORUM_FREE;
    operation->next = quorum->operation_free;
    quorum->operation_free = index_of(quorum, operation);
    quorum->operation_count--;
}

/* ---- what it keeps ---- */

bool tr_quorum_keep_pair(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                         const struct tr_pair *pair)
{
    struct tr_key_entry entry = {
        .kind = TR_KEYS_WRITE, .operation = operation->number, .pair = *pair};
    tr_ref piece = tr_mail_encode(quorum, &entry, no_list);
    if (piece == TR_ARENA_NONE)
        return false;
    give(quorum, &operation->pair);
    operation->pair = piece;
    operation->is_lasting = pair->expires_ms == TR_NEVER && !pair->is_end;
    return true;
}

void tr_quorum_drop_pair(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    give(quorum, &operation->pair);
    operation->is_lasting = false;
}

/* An entry that was kept, which is of this node's own clock. */
static bool unpack(const struct tr_quorum *quorum, tr_ref piece, struct tr_key_entry *entry)
{
    struct tr_key_frame head = {.now_ms = quorum->time->steady_ms};
    if (piece == TR_ARENA_NONE)
        return false;
    struct tr_reader in = tr_mail_read(quorum, piece);
    bool is_sound = tr_keys_get(&in, &head, quorum->time->steady_ms, entry);
    TR_ASSERT(is_sound);
    return true;
}

bool tr_quorum_pair(const struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                    struct tr_pair *pair)
{
    struct tr_key_entry entry;
    if (!unpack(quorum, operation->pair, &entry))
        return false;
    *pair = entry.pair;
    return true;
}

bool tr_quorum_keep_command(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                            const struct tr_key_command *command)
{
    struct tr_key_entry entry = {.kind = TR_KEYS_CALL, .command = *command};
    operation->command = tr_mail_encode(quorum, &entry, no_list);
    return operation->command != TR_ARENA_NONE;
}

bool tr_quorum_command(const struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                       struct tr_key_command *command)
{
    struct tr_key_entry entry;
    if (!unpack(quorum, operation->command, &entry))
        return false;
    *command = entry.command;
    return true;
}

bool tr_quorum_key(const struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                   struct tr_span *key)
{
    struct tr_key_entry entry;
    tr_ref piece = operation->command != TR_ARENA_NONE ? operation->command : operation->pair;
    if (!unpack(quorum, piece, &entry))
        return false;
    *key = entry.kind == TR_KEYS_CALL ? entry.command.key : entry.pair.key;
    return true;
}

/* ---- answers ---- */

static void answer_client(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                          struct tr_effects *out)
{
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_KEY);
    effect->of.key.token = operation->token;
    effect->of.key.result = operation->result;
    if (operation->value != TR_ARENA_NONE) { /* it is good until the next step */
        TR_ASSERT(quorum->spent_count < TR_EFFECTS_MAX);
        quorum->spent[quorum->spent_count++] = operation->value;
        operation->value = TR_ARENA_NONE;
    }
}

static void answer_peer(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    struct tr_key_entry entry = {
        .kind = TR_KEYS_RESULT,
        .operation = operation->for_operation,
        .result = operation->result,
    };
    if (tr_mail_send(quorum, operation->for_peer, &entry, no_list) || entry.result.value.size == 0)
        return;
    /* There is no memory for the value. Whoever asked need not wait for nothing to come. */
    entry.result = (struct tr_key_result){
        .outcome = TR_KEY_REFUSED, .refusal = TR_UNKNOWN, .expires_ms = TR_NEVER};
    tr_mail_send(quorum, operation->for_peer, &entry, no_list);
}

void tr_quorum_answer(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                      struct tr_effects *out)
{
    TR_ASSERT(!operation->is_answered);
    operation->is_answered = true;
    operation->result.batch = 0; /* it is durable on as many as it should be */
    tr_handover_answered(quorum, operation);
    if (operation->for_peer != 0)
        answer_peer(quorum, operation);
    else
        answer_client(quorum, operation, out);
}

void tr_quorum_refuse(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                      enum tr_result refusal, struct tr_effects *out)
{
    operation->result = (struct tr_key_result){.outcome = TR_KEY_REFUSED, .refusal = refusal};
    tr_quorum_answer(quorum, operation, out);
}
