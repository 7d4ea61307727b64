/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/coordinate.h"

#include "cluster/clock.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "kv/merge.h"
#include "log/batch.h"
#include "quorum/exchange.h"
#include "quorum/handover.h"
#include "quorum/mail.h"
#include "quorum/operation.h"
#include "quorum/scan.h"
#include "quorum/target.h"

#define NONE       TR_OPERATION_NONE
#define LOOK_MS    25
#define ENTRY_ROOM 128

static const struct tr_span no_list = {NULL, 0};

/* ---- going on ---- */

static void ask_target(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                       struct tr_target *target, const struct tr_written *written)
{
    target->state = TARGET_ASKED;
    operation->asked_ms = quorum->time->now_ms;
    if (tr_quorum_is_write(operation))
        tr_write_ask(quorum, operation, target, written);
    else
        tr_read_ask_target(quorum, operation, target);
    operation->has_failed |= target->state == TARGET_FAILED;
}

static bool has_chosen(const struct tr_quorum_operation *operation)
{
    for (uint32_t i = 0; i < operation->target_count; i++) {
        if (operation->targets[i].state == TARGET_CHOSEN)
            return true;
    }
    return false;
}

/* `written` may be NULL: it is what the operation has kept. */
static void ask_once(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                     const struct tr_written *written)
{
    struct tr_written kept;
    if (written == NULL && tr_quorum_is_write(operation)) {
        bool has_pair = tr_quorum_pair(quorum, operation, &kept.pair);
        TR_ASSERT(has_pair);
        kept.has_place = false;
        written = &kept;
    }
    for (uint32_t i = 0; i < operation->target_count; i++) {
        if (operation->targets[i].state == TARGET_CHOSEN)
            ask_target(quorum, operation, &operation->targets[i], written);
    }
}

/* Asks those who were chosen, and others for those who cannot be asked. */
static void ask_chosen(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                       const struct tr_written *written)
{
    struct tr_span key;
    do {
        operation->has_failed = false;
        if (!has_chosen(operation))
            continue;
        ask_once(quorum, operation, written);
        written = NULL; /* the book may have changed */
    } while (operation->has_failed && tr_quorum_key(quorum, operation, &key) &&
             tr_quorum_choose_more(quorum, operation, key));
}

/* Nodes of the list that lack what was written, less those for whom others stand in. */
static unsigned count_missing(const struct tr_quorum_operation *operation)
{
    unsigned missing = 0;
    unsigned hinted = 0;
    for (uint32_t i = 0; i < operation->target_count; i++) {
        const struct tr_target *target = &operation->targets[i];
        missing += !target->is_hinted && target->state != TARGET_ANSWERED;
        hinted += target->is_hinted && target->state == TARGET_ANSWERED;
    }
    return missing > hinted ? missing - hinted : 0;
}

/* Somebody of the list has not heard of a write, and nobody stands in for it. If this node is not
 * of the list, those that are, and have it, are to see to that. */
static void tell_missing(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    const struct tr_target *own = tr_quorum_target(operation, 0);
    bool is_own = own != NULL && !own->is_hinted && own->state == TARGET_ANSWERED;
    if (is_own || !tr_quorum_is_write(operation) || count_missing(operation) == 0)
        return;
    tr_cover(quorum->trial, RULE_MISSING_TOLD);
    for (uint32_t i = 0; i < operation->target_count * operation->target_count; i++) {
        const struct tr_target *missing = &operation->targets[i / operation->target_count];
        const struct tr_target *holder = &operation->targets[i % operation->target_count];
        if (missing->is_hinted || missing->state == TARGET_ANSWERED || missing->member == 0 ||
            holder->is_hinted || holder->state != TARGET_ANSWERED || holder->member == 0)
            continue;
        struct tr_key_entry entry = {
            .kind = TR_KEYS_MISSED,
            .pair.key = tr_member_address(quorum->cluster, missing->member),
        };
        tr_mail_send(quorum, holder->member, &entry, no_list);
    }
}

static void go_on(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                  struct tr_effects *out)
{
    uint64_t number = operation->number;
    if (!tr_effects_has_room(out, 8)) { /* in the next step */
        operation->look_ms = quorum->time->now_ms;
        quorum->look_ms = quorum->time->now_ms;
        return;
    }
    struct tr_span key;
    if (operation->has_failed && tr_quorum_key(quorum, operation, &key))
        tr_quorum_choose_more(quorum, operation, key);
    ask_chosen(quorum, operation, NULL);
    switch (operation->kind) {
    case QUORUM_WRITE:
        tr_write_go_on(quorum, operation, out);
        break;
    case QUORUM_READ:
        tr_read_go_on(quorum, operation, out);
        break;
    case QUORUM_MODIFY:
        tr_modify_go_on(quorum, operation, out);
        break;
    case QUORUM_CALL:
    case QUORUM_FREE:
        break;
    }
    if (operation->number == number && operation->is_answered && !tr_quorum_has_open(operation)) {
        tell_missing(quorum, operation);
        if (operation->kind == QUORUM_MODIFY && operation->has_changed)
            tr_write_tell_known(quorum, operation);
        tr_quorum_end(quorum, operation);
    }
}

/* ---- beginning ---- */

static bool is_plain_write(const struct tr_key_command *command)
{
    return command->verb == TR_KEY_SET && command->only_if == TR_IF_ANY && !command->wants_old &&
           command->expiry != TR_EXPIRY_KEEP;
}

static enum tr_result may_begin(const struct tr_quorum *quorum,
                                const struct tr_key_command *command)
{
    bool is_read = command->verb == TR_KEY_READ;
    if (!quorum->log->is_running)
        return quorum->kv->is_stopping ? TR_STOPPING : TR_STARTING;
    if (!tr_ring_is_there(quorum->cluster))
        return TR_NO_KEYSPACE;
    if (!tr_membership_may_serve(quorum->membership))
        return TR_NO_MEMBER;
    if (!is_read && tr_clock_is_ahead(quorum->cluster))
        return TR_CLOCK_AHEAD;
    if (quorum->operation_free == NONE && quorum->operation_fresh == quorum->config.operations_max)
        return TR_TOO_MANY_REQUESTS;
    return TR_DONE;
}

/* `written` is what it writes, until the book changes. */
static bool begin_write(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                        const struct tr_key_command *command, struct tr_written *written)
{
    TR_ASSERT(written != NULL);
    struct tr_pair held;
    uint64_t batch = 0;
    written->place = tr_kv_place(quorum->kv, command->key);
    written->has_place = true;
    bool has_any = tr_kv_look_at(quorum->kv, written->place, &held, &batch);
    uint64_t above = has_any && held.version > quorum->kv->floor ? held.version : quorum->kv->floor;
    bool is_past = command->expiry == TR_EXPIRY_AT && command->callback.size == 0 &&
                   command->expires_ms <= quorum->time->steady_ms;
    struct tr_pair pair = {
        .key = command->key,
        .value = command->value,
        .version = tr_clock_stamp(quorum->cluster, above),
        .version_node = quorum->cluster->stamp_node,
        .expires_ms = command->expiry == TR_EXPIRY_AT ? command->expires_ms : TR_NEVER,
        .callback = command->callback,
    };
    if (is_past) {
        pair.is_end = true;
        pair.value.size = 0;
        pair.expires_ms = quorum->time->steady_ms + TR_KV_END_MS;
    }
    operation->result.version = pair.version;
    operation->result.expires_ms = is_past ? TR_NEVER : pair.expires_ms;
    written->pair = pair;
    /* What ends is encoded with what is owed for it, and no time is encoded beyond the last one. */
    written->is_whole =
        !pair.is_end && (pair.expires_ms == TR_NEVER || pair.expires_ms <= TR_TIME_MAX);
    return tr_quorum_keep_pair(quorum, operation, &pair);
}

/* False: there is no memory for it. */
static bool begin(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                  const struct tr_key_command *command, struct tr_written *written)
{
    bool is_kept = operation->kind == QUORUM_WRITE
                       ? begin_write(quorum, operation, command, written)
                       : tr_quorum_keep_command(quorum, operation, command);
    if (!is_kept)
        return false;
    if (operation->kind == QUORUM_MODIFY) {
        tr_quorum_chain(quorum, operation, command->key);
        tr_modify_begin(quorum, operation);
        return true;
    }
    tr_quorum_choose(quorum, operation, command->key);
    return true;
}

static bool send_call(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                      const struct tr_key_command *command, uint16_t member)
{
    struct tr_key_entry entry = {
        .kind = TR_KEYS_CALL, .operation = operation->number, .command = *command};
    operation->target_count = 1;
    operation->targets[0] = (struct tr_target){.member = member, .state = TARGET_ASKED};
    return tr_mail_send(quorum, member, &entry, no_list);
}

static bool refuse(struct tr_key_result *result, enum tr_result refusal)
{
    result->outcome = TR_KEY_REFUSED;
    result->refusal = refusal;
    return true;
}

bool tr_quorum_ask(struct tr_quorum *quorum, uint64_t token, const struct tr_key_command *command,
                   struct tr_key_result *result)
{
    *result = (struct tr_key_result){.expires_ms = TR_NEVER};
    enum tr_result refusal = may_begin(quorum, command);
    if (refusal != TR_DONE)
        return refuse(result, refusal);
    if (command->value.size > quorum->kv->config.value_max) {
        result->outcome = TR_KEY_TOO_LONG;
        return true;
    }
    size_t size = command->key.size + command->value.size + command->callback.size + ENTRY_ROOM;
    if (command->verb != TR_KEY_READ && !quorum->log->is_refused &&
        !tr_log_has_room(quorum->log, size, true)) {
        result->outcome = TR_KEY_AGAIN;
        return true;
    }
    enum tr_quorum_kind kind = command->verb == TR_KEY_READ ? QUORUM_READ
                               : is_plain_write(command)    ? QUORUM_WRITE
                                                            : QUORUM_MODIFY;
    uint16_t first = kind == QUORUM_MODIFY ? tr_quorum_first(quorum, command->key) : 0;
    if (first == TR_MEMBER_NONE)
        return refuse(result, TR_NO_NODE_UP);
    struct tr_quorum_operation *operation = tr_quorum_new(quorum, first != 0 ? QUORUM_CALL : kind);
    TR_ASSERT(operation != NULL);
    operation->token = token;
    operation->result = *result;
    struct tr_written written = {.is_whole = false};
    bool is_begun = begin(quorum, operation, command, &written) &&
                    (first == 0 || send_call(quorum, operation, command, first));
    if (!is_begun) {
        tr_quorum_end(quorum, operation);
        return refuse(result, TR_MEMORY_FULL);
    }
    if (kind != QUORUM_CALL)
        /* In this step, so that what follows comes after it. */
        ask_chosen(quorum, operation, written.is_whole ? &written : NULL);
    /* A write that all were sent goes on when they answer; all others may go on at once. */
    bool is_sent =
        operation->kind == QUORUM_WRITE && operation->target_count > 0 && !operation->has_failed;
    tr_mono_ms look_ms = is_sent ? operation->look_ms : quorum->time->now_ms;
    quorum->look_ms = look_ms < quorum->look_ms ? look_ms : quorum->look_ms;
    return false;
}

void tr_quorum_call(struct tr_quorum *quorum, uint16_t peer, uint64_t number,
                    const struct tr_key_command *command)
{
    struct tr_quorum_operation *operation = NULL;
    enum tr_result refusal = may_begin(quorum, command);
    if (refusal == TR_DONE) {
        operation = tr_quorum_new(quorum, QUORUM_MODIFY);
        operation->for_peer = peer;
        operation->for_operation = number;
        if (begin(quorum, operation, command, NULL)) {
            ask_chosen(quorum, operation, NULL);
            quorum->look_ms = quorum->time->now_ms;
            return;
        }
        tr_quorum_end(quorum, operation);
        refusal = TR_MEMORY_FULL;
    }
    struct tr_key_entry entry = {
        .kind = TR_KEYS_RESULT,
        .operation = number,
        .result = {.outcome = TR_KEY_REFUSED, .refusal = refusal, .expires_ms = TR_NEVER},
    };
    tr_mail_send(quorum, peer, &entry, no_list);
}

/* ---- hearing ---- */

static void result_heard(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                         const struct tr_key_entry *entry, struct tr_effects *out)
{
    operation->result = entry->result;
    if (entry->result.value.size > 0) {
        operation->value =
            tr_arena_take(quorum->arena, TR_ARENA_CHUNK, entry->result.value.size, false);
        if (operation->value == TR_ARENA_NONE) {
            tr_quorum_refuse(quorum, operation, TR_UNKNOWN, out);
            tr_quorum_end(quorum, operation);
            return;
        }
        char *copy = tr_arena_at(quorum->arena, operation->value);
        memcpy(copy, entry->result.value.text, entry->result.value.size);
        operation->result.value.text = copy;
    }
    tr_quorum_answer(quorum, operation, out);
    tr_quorum_end(quorum, operation);
}

/* The node that was called has another roster, and has done nothing: it is called again, or
 * another one is. */
static void call_again(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                       struct tr_effects *out)
{
    struct tr_key_command command;
    if (!tr_quorum_command(quorum, operation, &command))
        return;
    uint16_t first = tr_quorum_first(quorum, command.key);
    quorum->look_ms = quorum->time->now_ms;
    if (first == 0) {
        operation->look_ms = quorum->time->now_ms;
        operation->kind = QUORUM_MODIFY;
        operation->target_count = 0;
        if (!operation->is_chained)
            tr_quorum_chain(quorum, operation, command.key);
        tr_modify_begin(quorum, operation);
        ask_chosen(quorum, operation, NULL);
    } else if (first == TR_MEMBER_NONE || !send_call(quorum, operation, &command, first)) {
        tr_quorum_refuse(quorum, operation, TR_NO_NODE_UP, out);
        tr_quorum_end(quorum, operation);
    }
}

/* A node did not take what was to be written on a condition, and what it has is older than what was
 * written and answered: the newer stays there, too. */
static void send_newer(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *refused)
{
    struct tr_key_entry entry = {.kind = TR_KEYS_WRITE};
    uint64_t batch = 0;
    if (tr_kv_look(quorum->kv, refused->pair.key, &entry.pair, &batch) &&
        tr_pair_compare(tr_pair_order(&entry.pair), refused->known) > 0)
        tr_mail_send(quorum, peer, &entry, no_list);
}

void tr_quorum_answered(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                        bool is_same_roster, struct tr_effects *out)
{
    struct tr_quorum_operation *operation = tr_quorum_find(quorum, entry->operation);
    struct tr_target *target = operation != NULL ? tr_quorum_target(operation, peer) : NULL;
    if (target == NULL && entry->answer == TR_ANSWER_FULL)
        tr_exchange_missed(quorum, peer);
    if (entry->kind == TR_KEYS_ANSWER && entry->answer == TR_ANSWER_ABOVE && entry->has_pair &&
        (operation == NULL || operation->is_answered))
        send_newer(quorum, peer, entry);
    if (target == NULL)
        return;
    bool is_refused = entry->kind == TR_KEYS_ANSWER && entry->answer == TR_ANSWER_EPOCH;
    if ((entry->kind == TR_KEYS_RESULT) != (operation->kind == QUORUM_CALL) && !is_refused)
        return; /* nobody was asked for that */
    bool is_away = entry->kind == TR_KEYS_RESULT && entry->result.outcome == TR_KEY_REFUSED &&
                   (entry->result.refusal == TR_STOPPING || entry->result.refusal == TR_STARTING);
    if (entry->kind == TR_KEYS_RESULT && !is_away) {
        result_heard(quorum, operation, entry, out);
        return;
    }
    if (is_refused || is_away || !is_same_roster) {
        tr_cover(quorum->trial, RULE_OTHER_EPOCH);
        target->state = TARGET_AGAIN;
        operation->look_ms = quorum->time->now_ms + LOOK_MS;
        quorum->look_ms =
            operation->look_ms < quorum->look_ms ? operation->look_ms : quorum->look_ms;
        return;
    }
    if (operation->kind == QUORUM_WRITE)
        tr_write_heard(quorum, operation, target, entry);
    else if (operation->kind == QUORUM_READ)
        tr_read_heard(quorum, operation, target, entry);
    else if (operation->kind == QUORUM_MODIFY)
        tr_modify_heard(quorum, operation, target, entry);
    operation->has_failed |= target->state == TARGET_FAILED;
    go_on(quorum, operation, out);
}

static void own_is_durable(struct tr_quorum *quorum, uint64_t number, uint64_t batch,
                           struct tr_effects *out)
{
    struct tr_quorum_operation *operation = tr_quorum_find(quorum, number);
    struct tr_target *target = operation != NULL ? tr_quorum_target(operation, 0) : NULL;
    if (target == NULL || target->state != TARGET_ASKED || batch < operation->own_batch)
        return; /* or it is that of an attempt before */
    target->state = TARGET_ANSWERED;
    go_on(quorum, operation, out);
}

/* ---- each step ---- */

static uint64_t patience_ms(const struct tr_quorum *quorum)
{
    return TR_SILENT_MS + 2 * tr_peers_trip(quorum->cluster);
}

static void count_out(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    bool is_over = quorum->time->now_ms >= operation->begun_ms + TR_GIVE_UP_MS;
    bool is_late = quorum->time->now_ms >= operation->asked_ms + patience_ms(quorum);
    for (uint32_t i = 0; i < operation->target_count; i++) {
        struct tr_target *target = &operation->targets[i];
        bool is_silent = target->member != 0 && target->state == TARGET_ASKED;
        if (is_over && tr_target_is_open(target))
            target->state = TARGET_FAILED;
        else if (is_silent && is_late)
            target->state = TARGET_SILENT;
        else if (target->state == TARGET_AGAIN)
            target->state = TARGET_CHOSEN;
        operation->has_failed |= target->state >= TARGET_SILENT;
    }
}

static void look(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                 struct tr_effects *out)
{
    bool is_over = quorum->time->now_ms >= operation->begun_ms + TR_GIVE_UP_MS;
    operation->look_ms = quorum->time->now_ms + patience_ms(quorum);
    if (operation->kind == QUORUM_CALL) {
        if (is_over) {
            tr_quorum_refuse(quorum, operation, TR_UNKNOWN, out);
            tr_quorum_end(quorum, operation);
        } else if (operation->targets[0].state == TARGET_AGAIN) {
            call_again(quorum, operation, out);
        }
        return;
    }
    count_out(quorum, operation);
    go_on(quorum, operation, out);
}

void tr_quorum_run(struct tr_quorum *quorum, struct tr_effects *out)
{
    uint64_t number = 0;
    uint64_t batch = 0;
    while (tr_effects_has_room(out, 16) && tr_mail_next_durable(quorum, &number, &batch))
        own_is_durable(quorum, number, batch, out);
    tr_scan_run(quorum, out);
    tr_handover_run(quorum);
    if (quorum->time->now_ms < quorum->look_ms)
        return;
    quorum->look_ms = TR_NEVER;
    uint32_t next = NONE;
    for (uint32_t i = quorum->active; i != NONE; i = next) {
        struct tr_quorum_operation *operation = &quorum->operations[i];
        next = operation->next;
        if (quorum->time->now_ms >= operation->look_ms && tr_effects_has_room(out, 16))
            look(quorum, operation, out);
        else if (operation->target_count == 0 || operation->has_failed)
            go_on(quorum, operation, out);
        if (operation->number != 0 && operation->look_ms < quorum->look_ms)
            quorum->look_ms = operation->look_ms;
    }
}

tr_mono_ms tr_quorum_wake_at(const struct tr_quorum *quorum)
{
    tr_mono_ms scans = tr_scan_wake_at(quorum);
    tr_mono_ms handover = tr_handover_wake_at(quorum);
    tr_mono_ms first = scans < handover ? scans : handover;
    return first < quorum->look_ms ? first : quorum->look_ms;
}

void tr_quorum_link_lost(struct tr_quorum *quorum, uint16_t peer)
{
    tr_mail_clear(quorum, peer);
    tr_scan_link_lost(quorum, peer);
    for (uint32_t i = quorum->active; i != NONE; i = quorum->operations[i].next) {
        struct tr_quorum_operation *operation = &quorum->operations[i];
        struct tr_target *target = tr_quorum_target(operation, peer);
        if (target == NULL || target->state == TARGET_ANSWERED)
            continue;
        if (operation->kind == QUORUM_CALL) {
            operation->begun_ms = 0; /* what has become of it nobody will say */
        } else {
            target->state = TARGET_FAILED;
            operation->has_failed = true;
        }
        operation->look_ms = quorum->time->now_ms;
        quorum->look_ms = quorum->time->now_ms;
    }
}

/* Whoever called it calls again, by the roster as it is by then. */
static void tell_epoch(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    struct tr_key_entry entry = {
        .kind = TR_KEYS_ANSWER,
        .operation = operation->for_operation,
        .answer = TR_ANSWER_EPOCH,
    };
    tr_mail_send(quorum, operation->for_peer, &entry, no_list);
    tr_quorum_end(quorum, operation);
}

static void begin_anew(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    struct tr_span key;
    bool is_waiting = tr_handover_holds(operation);
    bool is_refused =
        operation->kind == QUORUM_MODIFY && operation->result.outcome == TR_KEY_REFUSED;
    operation->roster_id = quorum->roster_id;
    operation->look_ms = quorum->time->now_ms;
    if (is_refused) /* whoever asked is about to hear so */
        return;
    if (is_waiting && operation->for_peer != 0)
        tell_epoch(quorum, operation);
    else if (is_waiting)
        tr_handover_pass_on(quorum, operation);
    else if (operation->kind != QUORUM_CALL && tr_ring_is_there(quorum->cluster) &&
             tr_quorum_key(quorum, operation, &key))
        tr_quorum_choose(quorum, operation, key);
}

/* All begin anew; those that were answered are left to the exchanges. */
void tr_quorum_roster_changed(struct tr_quorum *quorum)
{
    uint32_t next = NONE;
    quorum->roster_id = quorum->membership->roster->id;
    quorum->look_ms = quorum->time->now_ms;
    for (uint32_t i = quorum->active; i != NONE; i = next) {
        struct tr_quorum_operation *operation = &quorum->operations[i];
        next = operation->next;
        if (operation->is_answered)
            tr_quorum_end(quorum, operation);
        else
            begin_anew(quorum, operation);
    }
    tr_handover_begin(quorum);
}
