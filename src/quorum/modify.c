/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that read and write: INCR, SETNX, DEL and such. They are carried out on the first node
 * of the list that is there, over what that node has. What comes of it is sent to the others on the
 * condition that they have nothing newer than what it was made of; who has says so with its pair,
 * and the command is carried out again over that. Where nothing was to be written, that is
 * confirmed by reading.
 *
 * Two such commands on one key meet on one node as long as the nodes agree who is there. Across a
 * split they do not, and the higher order stays.
 */
#include "cluster/clock.h"
#include "cluster/peer.h"
#include "kv/command.h"
#include "kv/merge.h"
#include "kv/store.h"
#include "quorum/exchange.h"
#include "quorum/mail.h"
#include "quorum/operation.h"
#include "quorum/target.h"

#define ATTEMPTS_MAX 32
#define YIELD_AFTER  2
#define YIELD_MS     5 /* beside two round trips */

/* What a result points to is in the book, or in one buffer for all commands. */
static bool keep_value(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                       bool is_wanted)
{
    struct tr_span *value = &operation->result.value;
    if (operation->value != TR_ARENA_NONE)
        tr_arena_give(quorum->arena, operation->value);
    operation->value = TR_ARENA_NONE;
    if (value->size == 0 || !is_wanted)
        *value = (struct tr_span){NULL, 0};
    if (value->size == 0)
        return true;
    operation->value = tr_arena_take(quorum->arena, TR_ARENA_CHUNK, value->size, false);
    if (operation->value == TR_ARENA_NONE)
        return false;
    memcpy(tr_arena_at(quorum->arena, operation->value), value->text, value->size);
    value->text = tr_arena_at(quorum->arena, operation->value);
    return true;
}

static struct tr_pair_order order_here(const struct tr_quorum *quorum, struct tr_span key,
                                       struct tr_pair *pair, uint64_t *batch)
{
    struct tr_pair_order none = {0};
    return tr_kv_look(quorum->kv, key, pair, batch) ? tr_pair_order(pair) : none;
}

static void look_at(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                    tr_mono_ms look_ms)
{
    operation->look_ms = look_ms;
    if (look_ms < quorum->look_ms)
        quorum->look_ms = look_ms;
}

/* Whether this attempt, or one before, has stored something that others may have by now. */
static bool may_be_done(const struct tr_quorum_operation *operation)
{
    return operation->has_changed || operation->has_tried;
}

/* What the command is about to be carried out over: others may have it, or what is older. But what
 * this node has made of it itself, and is under way, they may lack: then they may have what that
 * was made over, or any of those that were made since. */
static void set_base(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                     struct tr_span key, struct tr_pair_order base)
{
    const struct tr_quorum_operation *maker = tr_quorum_maker(quorum, key, base);
    if (maker == NULL || maker == operation || maker->is_answered) {
        operation->known = base;
        return;
    }
    struct tr_pair_order since = maker->since.version != 0 ? maker->since : maker->kept;
    operation->known = maker->known;
    if (operation->since.version == 0 || since.version < operation->since.version)
        operation->since = since;
}

/* Whether what is here was written by another node, over what this command has made. */
static bool is_of_another(const struct tr_quorum_operation *operation, struct tr_pair_order here)
{
    return here.node != operation->kept.node && tr_pair_compare(here, operation->kept) > 0;
}

/* Carries the command out over what is here. False: it is to be tried again when the log has
 * room. */
static bool carry_out(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                      const struct tr_key_command *command)
{
    struct tr_pair pair;
    uint64_t batch = 0;
    struct tr_pair_order before = order_here(quorum, command->key, &pair, &batch);
    if (operation->attempts == 0)
        set_base(quorum, operation, command->key, before);
    else if (is_of_another(operation, before) && tr_pair_compare(before, operation->known) > 0)
        operation->known = before;
    uint64_t tried = operation->result.version;
    tr_kv_command(quorum->kv, command, &operation->result);
    if (operation->result.outcome == TR_KEY_AGAIN) {
        operation->result.version = tried;
        return false;
    }
    if (operation->result.outcome == TR_KEY_REFUSED && operation->has_tried)
        operation->result.refusal = TR_UNKNOWN;
    bool is_kept = keep_value(quorum, operation, command->wants_old);
    struct tr_pair_order after = order_here(quorum, command->key, &pair, &batch);
    operation->has_changed = tr_pair_compare(before, after) != 0;
    operation->kept = after;
    operation->best = after;
    bool is_gone = command->verb == TR_KEY_DELETE && operation->result.outcome == TR_KEY_ABSENT;
    /* An attempt before has deleted it; the end may have been a stray, and be gone by now. */
    if (is_gone && operation->has_tried)
        operation->result.outcome = TR_KEY_DONE;
    if (operation->has_changed || (is_gone && operation->has_tried))
        operation->result.version = after.version != 0 ? after.version : tried;
    operation->batch = batch;
    if (after.version != 0)
        is_kept &= tr_quorum_keep_pair(quorum, operation, &pair);
    else
        is_kept &= !operation->has_changed; /* there was no memory for its end */
    if (!is_kept) { /* what was written here others hear of by an exchange */
        operation->result.outcome = TR_KEY_REFUSED;
        operation->result.refusal = may_be_done(operation) ? TR_UNKNOWN : TR_MEMORY_FULL;
    }
    return true;
}

/* ---- reading first ---- */

/* Whether what is here may be older than what others have: this node is the first of the list by a
 * change, or since another one is not there, or has just come back. What it would make of the older
 * might reach others before it has heard of the newer. */
static bool may_be_behind(const struct tr_quorum *quorum,
                          const struct tr_quorum_operation *operation, struct tr_span key)
{
    const struct tr_cluster *cluster = quorum->cluster;
    uint16_t members[TR_COPIES_MAX];
    if (operation->has_waited || cluster->old_ring.count > 0 || !quorum->membership->is_arrived)
        return true;
    unsigned count = tr_ring_list(cluster, &cluster->ring, key, cluster->ring.copies, members);
    for (unsigned i = 0; i < count; i++) {
        bool is_met = members[i] == 0 || quorum->exchanges[members[i]].is_met;
        if (!is_met && tr_quorum_is_healthy(quorum, members[i]))
            return true;
    }
    return count == 0 || members[0] != 0;
}

static void read_first(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                       struct tr_span key)
{
    tr_cover(quorum->trial, RULE_MODIFIER_READ);
    operation->kind = QUORUM_READ;
    operation->is_first_read = true;
    operation->kept = operation->best = (struct tr_pair_order){0};
    operation->result.outcome = TR_KEY_DONE;
    tr_quorum_choose(quorum, operation, key);
}

void tr_modify_has_read(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    TR_ASSERT(operation->kind == QUORUM_READ && operation->is_first_read);
    const struct tr_target *own = tr_quorum_target(operation, 0);
    struct tr_pair pair;
    uint64_t batch = 0;
    enum tr_merge merge = tr_quorum_pair(quorum, operation, &pair)
                              ? tr_kv_merge(quorum->kv, &pair, &batch)
                              : TR_MERGE_HELD;
    if (merge == TR_MERGE_AGAIN) {
        look_at(quorum, operation, quorum->time->now_ms + 1);
        return;
    }
    quorum->strays.has_new |= (own == NULL || own->is_hinted) && merge == TR_MERGE_STORED;
    tr_quorum_drop_pair(quorum, operation);
    operation->kind = QUORUM_MODIFY;
    operation->is_first_read = false;
    operation->has_read = true;
    operation->is_late = false;
    operation->has_failed = false;
    operation->kept = (struct tr_pair_order){0};
    operation->target_count = 0;
    if (merge == TR_MERGE_FULL) {
        operation->result.outcome = TR_KEY_REFUSED;
        operation->result.refusal = TR_MEMORY_FULL;
    } else {
        tr_modify_begin(quorum, operation);
    }
    look_at(quorum, operation, quorum->time->now_ms); /* it goes on in the next step */
}

/* ---- beginning ---- */

void tr_modify_begin(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    struct tr_key_command command;
    bool has_command = tr_quorum_command(quorum, operation, &command);
    TR_ASSERT(has_command);
    operation->target_count = 0;
    if (operation->attempts == 0 && quorum->handover.is_on) {
        tr_cover(quorum->trial, RULE_MODIFIER_AWAITED);
        operation->has_waited = true;
        operation->result.outcome = TR_KEY_AGAIN;
        look_at(quorum, operation, quorum->handover.until_ms);
        return;
    }
    if (operation->attempts == 0 && !operation->has_read &&
        may_be_behind(quorum, operation, command.key)) {
        read_first(quorum, operation, command.key);
        return;
    }
    /* What is here may be another's pair under a stamp of now: its own order tells its age. */
    if (operation->attempts > 0 && command.only_if == TR_IF_OLDER) {
        bool is_older = operation->known.version < command.version;
        command.only_if = is_older ? TR_IF_ANY : TR_IF_OLDER;
        command.version = 0;
    }
    if (!carry_out(quorum, operation, &command)) {
        look_at(quorum, operation, quorum->time->now_ms + 1);
        return;
    }
    operation->attempts++;
    if (operation->result.outcome == TR_KEY_REFUSED)
        return;
    tr_quorum_choose(quorum, operation, command.key);
    struct tr_target *own = tr_quorum_target(operation, 0);
    quorum->strays.has_new |= (own == NULL || own->is_hinted) && operation->has_changed;
    if (own == NULL)
        return; /* whoever called it took it for one that stands in: it counts for nothing here */
    own->order = operation->kept;
    own->has_any = own->order.version != 0;
    own->state =
        tr_mail_promise_own(quorum, operation, operation->batch) ? TARGET_ASKED : TARGET_FAILED;
}

/* Others have what this node wrote over, or the other way round: they compare what they have. */
static void give_up(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    for (uint32_t i = 0; i < operation->target_count; i++) {
        if (!operation->targets[i].is_hinted)
            tr_exchange_missed(quorum, operation->targets[i].member);
    }
    operation->result = (struct tr_key_result){
        .outcome = TR_KEY_REFUSED,
        .refusal = may_be_done(operation) ? TR_UNKNOWN : TR_TOO_MANY_WRITES,
    };
    operation->target_count = 0;
}

/* Whether what is here now was made over the newer pair already, by another command. */
static bool is_included(const struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                        const struct tr_pair *newer)
{
    struct tr_pair here;
    uint64_t batch = 0;
    struct tr_pair_order order = order_here(quorum, newer->key, &here, &batch);
    if (!operation->has_changed || tr_pair_compare(order, operation->kept) == 0 ||
        order.node != operation->kept.node)
        return false;
    const struct tr_quorum_operation *maker = tr_quorum_maker(quorum, newer->key, order);
    return maker == NULL ? order.version > operation->kept.version
                         : tr_pair_compare(maker->known, tr_pair_order(newer)) >= 0;
}

/* While the roster changes two nodes may carry out commands on one key, and each would find what
 * the other has written meanwhile, again and again. The one with the lower number gives the other
 * the time to be through. */
static void yield(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    tr_cover(quorum->trial, RULE_MODIFIER_YIELDED);
    operation->target_count = 0; /* what is still said of this attempt counts for nothing */
    operation->result.outcome = TR_KEY_AGAIN;
    operation->again_ms = quorum->time->now_ms + 2 * tr_peers_trip(quorum->cluster) + YIELD_MS;
    look_at(quorum, operation, operation->again_ms);
}

/* Writes what another node has over what this command has stored here, under a higher order; if the
 * other is let through, under none that is higher than need be, which would overtake it again. */
static enum tr_merge write_over(struct tr_quorum *quorum,
                                const struct tr_quorum_operation *operation,
                                const struct tr_pair *newer, bool is_yielding)
{
    uint64_t batch = 0;
    struct tr_pair pair = *newer;
    bool is_below = tr_pair_compare(tr_pair_order(newer), operation->kept) < 0;
    if (operation->has_changed && (is_below || !is_yielding)) {
        pair.version = is_yielding ? operation->kept.version + 1
                                   : tr_clock_stamp(quorum->cluster, operation->kept.version);
        pair.version_node = quorum->cluster->stamp_node;
        tr_clock_hear(quorum->cluster, pair.version);
    }
    return tr_kv_merge(quorum->kv, &pair, &batch);
}

/* Another node has something newer than what the command was carried out over. If that was stored
 * here already, under a higher order, what the other has is written over it first. */
static void carry_out_again(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                            const struct tr_pair *newer)
{
    uint64_t batch = 0;
    enum tr_merge merge = TR_MERGE_STORED;
    bool is_yielding =
        operation->attempts >= YIELD_AFTER && newer->version_node > quorum->cluster->stamp_node;
    tr_cover(quorum->trial, RULE_CARRIED_OUT_AGAIN);
    operation->has_tried |= operation->has_changed;
    if (operation->has_changed && operation->since.version == 0)
        operation->since = operation->kept;
    if (is_included(quorum, operation, newer)) {
        struct tr_pair here;
        set_base(quorum, operation, newer->key, order_here(quorum, newer->key, &here, &batch));
    } else {
        operation->known = tr_pair_order(newer);
        merge = write_over(quorum, operation, newer, is_yielding);
    }
    if (operation->attempts >= ATTEMPTS_MAX || merge == TR_MERGE_FULL || merge == TR_MERGE_AGAIN)
        give_up(quorum, operation);
    else if (is_yielding)
        yield(quorum, operation);
    else
        tr_modify_begin(quorum, operation);
}

void tr_modify_heard(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                     struct tr_target *target, const struct tr_key_entry *entry)
{
    bool is_newer = entry->has_pair && tr_pair_compare(entry->known, operation->known) > 0 &&
                    tr_pair_compare(entry->known, operation->kept) != 0;
    /* What this node has made of it since, another command has: it holds what this one did. */
    bool is_later = operation->has_changed && entry->known.node == operation->kept.node &&
                    entry->known.version > operation->kept.version;
    bool is_above = (entry->answer == TR_ANSWER_ABOVE && !is_later) ||
                    (entry->answer == TR_ANSWER_HELD && !operation->has_changed);
    if (is_above && is_newer && !operation->is_answered) {
        struct tr_pair newer = entry->pair;
        carry_out_again(quorum, operation, &newer);
        return;
    }
    target->has_any = entry->answer == TR_ANSWER_HELD;
    tr_write_heard(quorum, operation, target, entry);
}

void tr_modify_go_on(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                     struct tr_effects *out)
{
    TR_ASSERT(operation->kind == QUORUM_MODIFY);
    if (operation->is_answered || quorum->time->now_ms < operation->again_ms)
        return;
    if (operation->attempts == 0 && operation->has_waited && quorum->handover.is_on) {
        look_at(quorum, operation, quorum->handover.until_ms);
        return;
    }
    if (operation->result.outcome == TR_KEY_AGAIN) {
        tr_modify_begin(quorum, operation);
        if (operation->target_count > 0)
            look_at(quorum, operation, quorum->time->now_ms); /* they are asked in the next step */
        if (operation->kind == QUORUM_READ)
            return;
        if (operation->result.outcome == TR_KEY_AGAIN &&
            quorum->time->now_ms < operation->begun_ms + TR_GIVE_UP_MS)
            return;
        if (operation->result.outcome == TR_KEY_AGAIN) {
            tr_quorum_refuse(quorum, operation,
                             operation->has_tried ? TR_UNKNOWN : TR_TOO_MANY_WRITES, out);
            return;
        }
    }
    if (operation->result.outcome == TR_KEY_REFUSED) {
        tr_quorum_answer(quorum, operation, out);
        return;
    }
    enum tr_enough enough = tr_quorum_judge(quorum, operation);
    if (enough == ENOUGH)
        tr_quorum_answer(quorum, operation, out);
    else if (enough == ENOUGH_NEVER)
        tr_quorum_refuse(quorum, operation, may_be_done(operation) ? TR_UNKNOWN : TR_NO_NODE_UP,
                         out);
}
