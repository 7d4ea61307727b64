/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: the newest of what the nodes of the list have. One of them is asked for the pair, the
 * others for its order; where that is higher, the pair is fetched. Who has less is sent the newest.
 */
#include "kv/merge.h"
#include "quorum/mail.h"
#include "quorum/operation.h"
#include "quorum/target.h"

static const struct tr_span no_list = {NULL, 0};

/* ---- asking ---- */

static void send_ask(struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                     struct tr_target *target, bool is_wanted)
{
    struct tr_key_entry entry = {
        .kind = TR_KEYS_ASK,
        .operation = operation->number,
        .is_wanted = is_wanted,
        .known = operation->kept,
    };
    target->is_wanted = is_wanted;
    if (!tr_quorum_key(quorum, operation, &entry.pair.key) ||
        !tr_mail_send(quorum, target->member, &entry, no_list))
        target->state = TARGET_FAILED;
}

/* A pair that is newer than the one that is kept. False: there is no memory for it. */
static bool take(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                 const struct tr_pair *pair)
{
    struct tr_pair_order order = tr_pair_order(pair);
    if (tr_pair_compare(order, operation->kept) <= 0)
        return true;
    if (!tr_quorum_keep_pair(quorum, operation, pair))
        return false;
    operation->kept = order;
    if (tr_pair_compare(order, operation->best) > 0)
        operation->best = order;
    return true;
}

static void look_here(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                      struct tr_target *target)
{
    struct tr_pair pair;
    struct tr_span key;
    uint64_t batch = 0;
    bool has_key = tr_quorum_key(quorum, operation, &key);
    TR_ASSERT(has_key);
    target->has_any = tr_kv_look(quorum->kv, key, &pair, &batch);
    if (target->has_any)
        target->order = tr_pair_order(&pair);
    if ((target->has_any && !take(quorum, operation, &pair)) ||
        !tr_mail_promise_own(quorum, operation, batch))
        target->state = TARGET_FAILED;
}

void tr_read_ask_target(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                        struct tr_target *target)
{
    if (target->member == 0) {
        look_here(quorum, operation, target);
        return;
    }
    /* Whoever is asked first has the pair with it, unless this node is one of the list. */
    bool is_first = true;
    for (uint32_t i = 0; i < operation->target_count; i++) {
        const struct tr_target *other = &operation->targets[i];
        is_first &= other == target || (other->member != 0 && (other->state == TARGET_CHOSEN ||
                                                               other->state == TARGET_FAILED));
    }
    bool has_own = tr_quorum_target(operation, 0) != NULL;
    send_ask(quorum, operation, target, is_first || has_own);
}

/* ---- hearing ---- */

static struct tr_pair_order best_of(const struct tr_quorum_operation *operation)
{
    struct tr_pair_order best = operation->kept;
    for (uint32_t i = 0; i < operation->target_count; i++) {
        if (tr_pair_compare(operation->targets[i].order, best) > 0)
            best = operation->targets[i].order;
    }
    return best;
}

void tr_read_heard(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                   struct tr_target *target, const struct tr_key_entry *entry)
{
    struct tr_pair_order none = {0};
    struct tr_span key;
    bool is_told = entry->answer == TR_ANSWER_HELD || entry->answer == TR_ANSWER_NONE;
    bool is_other = entry->has_pair && (!tr_quorum_key(quorum, operation, &key) ||
                                        !tr_span_equals(entry->pair.key, key));
    target->state = is_told && !is_other ? TARGET_ANSWERED : TARGET_FAILED;
    target->has_any = target->state == TARGET_ANSWERED && entry->answer == TR_ANSWER_HELD;
    if (!target->has_any) { /* any more */
        bool was_best = tr_pair_compare(target->order, operation->best) == 0;
        target->order = none;
        operation->best = was_best ? best_of(operation) : operation->best;
        return;
    }
    target->order = entry->known;
    if (tr_pair_compare(target->order, operation->best) > 0)
        operation->best = target->order;
    if (entry->has_pair && !take(quorum, operation, &entry->pair))
        target->state = TARGET_FAILED;
}

/* Somebody has something newer than the pair that is kept, and nobody is about to send it: it is
 * asked for. */
static void fetch(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    struct tr_target *newest = NULL;
    if (tr_pair_compare(operation->kept, operation->best) >= 0)
        return;
    for (uint32_t i = 0; i < operation->target_count; i++) {
        struct tr_target *target = &operation->targets[i];
        if (target->state == TARGET_ASKED && target->is_wanted)
            return;
        if (target->state == TARGET_ANSWERED && target->member != 0 &&
            tr_pair_compare(target->order, operation->best) == 0)
            newest = target;
    }
    if (newest == NULL)
        return;
    newest->state = TARGET_ASKED;
    send_ask(quorum, operation, newest, true);
    operation->has_failed |= newest->state == TARGET_FAILED;
}

/* ---- answering ---- */

/* What the client hears. False: there is no memory for it. */
static bool fill_result(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    struct tr_key_result *result = &operation->result;
    struct tr_pair pair;
    *result = (struct tr_key_result){.outcome = TR_KEY_ABSENT, .expires_ms = TR_NEVER};
    if (!tr_quorum_pair(quorum, operation, &pair) || pair.is_end ||
        pair.version < quorum->kv->floor || tr_kv_has_expired(quorum->kv, pair.expires_ms))
        return true;
    operation->value = tr_arena_take(quorum->arena, TR_ARENA_CHUNK,
                                     pair.value.size + pair.callback.size + 1, false);
    if (operation->value == TR_ARENA_NONE)
        return false;
    char *copy = tr_arena_at(quorum->arena, operation->value);
    if (pair.value.size > 0)
        memcpy(copy, pair.value.text, pair.value.size);
    if (pair.callback.size > 0)
        memcpy(copy + pair.value.size, pair.callback.text, pair.callback.size);
    result->callback = (struct tr_span){copy + pair.value.size, pair.callback.size};
    result->outcome = TR_KEY_DONE;
    result->was_there = true;
    result->value = (struct tr_span){copy, pair.value.size};
    result->expires_ms = pair.expires_ms;
    result->version = pair.version;
    return true;
}

/* Sends the newest to those of the list who have less. */
static void repair(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    struct tr_key_entry entry = {.kind = TR_KEYS_WRITE};
    uint64_t batch = 0;
    if (!tr_quorum_pair(quorum, operation, &entry.pair))
        return;
    for (uint32_t i = 0; i < operation->target_count; i++) {
        const struct tr_target *target = &operation->targets[i];
        bool is_older = tr_pair_compare(target->order, operation->kept) < 0;
        if (target->state != TARGET_ANSWERED || target->is_hinted || !is_older)
            continue;
        tr_cover(quorum->trial, RULE_READ_REPAIR);
        if (target->member == 0)
            tr_kv_merge(quorum->kv, &entry.pair, &batch);
        else
            tr_mail_send(quorum, target->member, &entry, no_list);
    }
}

void tr_read_go_on(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                   struct tr_effects *out)
{
    TR_ASSERT(operation->kind == QUORUM_READ);
    fetch(quorum, operation);
    enum tr_enough enough = tr_quorum_judge(quorum, operation);
    bool has_best = tr_pair_compare(operation->kept, operation->best) >= 0;
    bool is_over = !tr_quorum_has_open(operation);
    if (!operation->is_answered && enough == ENOUGH && (has_best || is_over)) {
        bool is_late = quorum->time->now_ms >= operation->begun_ms + TR_GIVE_UP_MS;
        if (has_best && operation->is_first_read && !is_late) {
            tr_modify_has_read(quorum, operation);
            return;
        }
        has_best &= !operation->is_first_read; /* nothing was done, and will not be */
        if (!has_best || !fill_result(quorum, operation))
            tr_quorum_refuse(quorum, operation, TR_NO_ANSWER, out);
        else
            tr_quorum_answer(quorum, operation, out);
    } else if (!operation->is_answered && enough == ENOUGH_NEVER) {
        tr_quorum_refuse(quorum, operation, TR_NO_NODE_UP, out);
    }
    if (operation->is_answered && is_over)
        repair(quorum, operation);
}
