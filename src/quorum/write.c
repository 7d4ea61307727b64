/* SPDX-License-Identifier: Apache-2.0 */
/* Storing a pair: on all of the key's list, or on who stands in for one of it. */
#include "cluster/clock.h"
#include "kv/merge.h"
#include "quorum/exchange.h"
#include "quorum/mail.h"
#include "quorum/operation.h"
#include "quorum/target.h"

#define STAMPS_MAX 4 /* then one that overtakes it again and again is let pass */

static const struct tr_span no_list = {NULL, 0};

static void store_here(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                       struct tr_target *target, const struct tr_written *written)
{
    uint64_t batch = 0;
    enum tr_merge merge = written->has_place
                              ? tr_kv_merge_at(quorum->kv, written->place, &written->pair, &batch)
                              : tr_kv_merge(quorum->kv, &written->pair, &batch);
    bool is_here = merge == TR_MERGE_STORED || merge == TR_MERGE_HELD || merge == TR_MERGE_ABOVE;
    if (!is_here || !tr_mail_promise_own(quorum, operation, batch))
        target->state = TARGET_FAILED;
    target->may_have |= is_here;
    quorum->strays.has_new |= is_here && target->is_hinted;
}

static bool send(struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                 const struct tr_target *target, const struct tr_pair *pair)
{
    /* What is kept is what is sent, but for a condition, and what is said of a callback by then. */
    if (operation->kind == QUORUM_WRITE && !pair->is_end)
        return tr_mail_send_again(quorum, target->member, operation->pair);
    struct tr_key_entry entry = {
        .kind = TR_KEYS_WRITE,
        .operation = operation->number,
        .is_conditional = operation->kind == QUORUM_MODIFY,
        .pair = *pair,
        .known = operation->known,
        .since = operation->since,
    };
    return tr_mail_send(quorum, target->member, &entry, no_list);
}

void tr_write_ask(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                  struct tr_target *target, const struct tr_written *written)
{
    if (target->member == 0)
        store_here(quorum, operation, target, written);
    else if (!send(quorum, operation, target, &written->pair))
        target->state = TARGET_FAILED;
    target->may_have |= target->state != TARGET_FAILED;
    if (target->state == TARGET_FAILED && !target->is_hinted)
        tr_exchange_missed(quorum, target->member);
}

/* The clock here is behind that of whoever wrote last: what was asked for later is to be the later.
 * False: there is no memory. */
static bool stamp_again(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                        uint64_t above)
{
    struct tr_pair pair;
    bool has_pair = tr_quorum_pair(quorum, operation, &pair);
    TR_ASSERT(has_pair);
    tr_clock_hear(quorum->cluster, above);
    pair.version = tr_clock_stamp(quorum->cluster, above);
    pair.version_node = quorum->cluster->stamp_node;
    if (!tr_quorum_keep_pair(quorum, operation, &pair))
        return false;
    tr_cover(quorum->trial, RULE_STAMPED_AGAIN);
    operation->attempts++;
    operation->result.version = pair.version;
    for (uint32_t i = 0; i < operation->target_count; i++) {
        if (operation->targets[i].state != TARGET_FAILED)
            operation->targets[i].state = TARGET_CHOSEN;
    }
    return true;
}

/* Whether an answer is about an attempt before, in which a pair of another order was written, or
 * none. */
static bool is_stale(const struct tr_quorum_operation *operation, const struct tr_key_entry *entry)
{
    bool is_write = tr_quorum_is_write(operation);
    if (operation->kind == QUORUM_WRITE)
        return entry->answer != TR_ANSWER_FULL && entry->known.version < operation->result.version;
    if (entry->answer == TR_ANSWER_ABOVE)
        return !is_write || tr_pair_compare(entry->known, operation->kept) < 0;
    if (entry->answer == TR_ANSWER_STORED)
        return !is_write || tr_pair_compare(entry->known, operation->kept) != 0;
    return is_write && (entry->answer == TR_ANSWER_HELD || entry->answer == TR_ANSWER_NONE);
}

void tr_write_heard(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                    struct tr_target *target, const struct tr_key_entry *entry)
{
    TR_ASSERT(operation->kind == QUORUM_WRITE || operation->kind == QUORUM_MODIFY);
    if (is_stale(operation, entry))
        return;
    target->state = entry->answer == TR_ANSWER_FULL ? TARGET_FAILED : TARGET_ANSWERED;
    target->may_have = target->state == TARGET_ANSWERED;
    target->order = entry->known;
    if (target->state == TARGET_FAILED && !target->is_hinted)
        tr_exchange_missed(quorum, target->member);
    bool is_overtaken = entry->answer == TR_ANSWER_ABOVE && operation->kind == QUORUM_WRITE &&
                        entry->known.version >= operation->result.version;
    if (is_overtaken && !operation->is_answered && operation->attempts < STAMPS_MAX)
        stamp_again(quorum, operation, entry->known.version);
}

/* All who are to have a pair that ends, or will, have it: its end may be forgotten in time. */
void tr_write_tell_known(struct tr_quorum *quorum, const struct tr_quorum_operation *operation)
{
    struct tr_pair pair;
    if (operation->is_lasting)
        return;
    for (uint32_t i = 0; i < operation->target_count; i++) {
        if (operation->targets[i].state != TARGET_ANSWERED || operation->targets[i].is_hinted)
            return;
    }
    if (!tr_quorum_pair(quorum, operation, &pair))
        return;
    struct tr_key_entry entry = {
        .kind = TR_KEYS_KNOWN, .pair.key = pair.key, .known = tr_pair_order(&pair)};
    for (uint32_t i = 0; i < operation->target_count; i++) {
        if (operation->targets[i].member != 0)
            tr_mail_send(quorum, operation->targets[i].member, &entry, no_list);
        else
            tr_kv_mark_known(quorum->kv, pair.key, tr_pair_order(&pair));
    }
}

void tr_write_go_on(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                    struct tr_effects *out)
{
    TR_ASSERT(operation->kind == QUORUM_WRITE);
    enum tr_enough enough = tr_quorum_judge(quorum, operation);
    if (!operation->is_answered && enough == ENOUGH) {
        operation->result.outcome = TR_KEY_DONE;
        tr_quorum_answer(quorum, operation, out);
    } else if (!operation->is_answered && enough == ENOUGH_NEVER) {
        bool is_anywhere = operation->may_be_stored;
        for (uint32_t i = 0; i < operation->target_count; i++)
            is_anywhere |= operation->targets[i].may_have;
        tr_quorum_refuse(quorum, operation, is_anywhere ? TR_UNKNOWN : TR_NO_NODE_UP, out);
    }
    if (operation->is_answered && !tr_quorum_has_open(operation))
        tr_write_tell_known(quorum, operation);
}
