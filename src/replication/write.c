/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing for a client: it places the record, stamps it, sends it to every node of its replica set
 * and answers when enough of them have it on disk: as many as were asked for, or as there are nodes
 * up.
 *
 *   STALE, a higher version is there: stamped above it, sent again; when that happens once more,
 *   one of the two lets the other's write through first
 *   EXISTS, another record has the id: another id, sent again
 *   silent for a quarter of a second, down or full: another node is hinted, sent again; what
 *   replaces something is stamped anew before it goes on without a silent node
 *   enough have it, or half a second is over and one has: what was replaced is dropped (replaced.c)
 *   half a second is over and nobody has it: the outcome is unknown
 */
#include "replication/operation.h"

#include "cluster/clock.h"
#include "cluster/peer.h"
#include "replication/drop.h"
#include "replication/hold.h"
#include "replication/pending.h"
#include "replication/rebalance.h"
#include "replication/replica.h"
#include "replication/set.h"

#define REDRAWS   8
#define TRIES     8
#define FILL_MOST 90 /* per cent of a replica; the rest is for copies */

#define YIELD_BY_MS (TR_DECIDE_MS - 100) /* after a record was sent: it may pop soon then */
#define SHARES      8                    /* of the longest wait, by node and try */

static unsigned bits(uint8_t mask)
{
    unsigned count = 0;
    for (; mask != 0; mask &= (uint8_t)(mask - 1))
        count++;
    return count;
}

static unsigned nodes_up(const struct tr_replication *replication)
{
    TR_ASSERT(replication->cluster->view.count <= TR_VIEW_NODES_MAX);
    unsigned count = 0;
    for (uint32_t i = 0; i < replication->cluster->view.count; i++)
        count += tr_peer_is_up(replication->cluster, replication->cluster->view.placed[i]);
    return count;
}

/* A create with a key, and what is restored, are as well done if something higher is there. */
static bool gives_way(const struct tr_operation *operation)
{
    return operation->kind == OPERATION_RESTORE ||
           (operation->kind == OPERATION_CREATE && !operation->is_drawn);
}

/* ---- its record ---- */

/* Puts into `from` the nodes that may hold what this write replaces and cannot drop it now: they
 * are down, or their log is full. The replicas send them a drop when they can. */
static void remember_absent(const struct tr_replication *replication,
                            const struct tr_operation *operation, struct tr_whole *record)
{
    TR_ASSERT(operation->number != 0);
    bool is_wide = tr_rebalance_may_be_elsewhere(replication);
    record->head.from.count = 0;
    for (uint32_t i = 1; i < replication->cluster->member_count && !operation->is_drawn; i++) {
        const struct tr_member *member = &replication->cluster->members[i];
        bool is_meant = is_wide && member->role != TR_ROLE_NONE;
        is_meant |= operation->filter != 0 && (member->replica_bits & ~operation->filter) == 0;
        bool is_reached =
            replication->cluster->peers[i].is_up && !replication->progress[i].has_missed;
        if (is_meant && !is_reached && !tr_set_has(&record->head, (uint16_t)i))
            tr_set_remember(&record->head, (uint16_t)i);
    }
}

/* Packs the record anew: its id, version or replica set has changed. False: no memory. */
static bool repack(struct tr_replication *replication, struct tr_operation *operation,
                   struct tr_whole *record)
{
    TR_ASSERT(operation->replica_count > 0 && operation->replica_count <= TR_SET_MAX);
    record->head.key.id = operation->id;
    record->head.order.version = operation->version;
    if (operation->kind != OPERATION_RESTORE)
        record->head.order.version_node = replication->cluster->stamp_node;
    record->head.replicas.count = operation->replica_count;
    memcpy(record->head.replicas.members, operation->replicas, sizeof operation->replicas);
    remember_absent(replication, operation, record);
    TR_ASSERT(tr_set_is_sound(&record->head));
    return tr_operation_keep(replication, operation, record);
}

static void make_set(const struct tr_replication *replication, struct tr_operation *operation)
{
    TR_ASSERT(operation->factor > 0);
    operation->replica_count = (uint8_t)tr_set_want(replication, operation->id, operation->factor,
                                                    NULL, 0, true, operation->replicas);
    if (tr_breaks(replication->trial, MUTANT_NO_HINT))
        operation->replica_count = (uint8_t)tr_set_copies(replication, operation->factor);
}

/* Adds hinted nodes for those that failed. A node that has the record stays in the set, also when
 * the view has changed meanwhile. */
static void add_hints(const struct tr_replication *replication, struct tr_operation *operation,
                      const uint16_t *failed, unsigned failed_count)
{
    TR_ASSERT(failed_count <= operation->replica_count);
    uint16_t wanted[TR_SET_MAX];
    unsigned count = tr_set_want(replication, operation->id, operation->factor, failed,
                                 failed_count, true, wanted);
    for (unsigned i = 0; i < count && !tr_breaks(replication->trial, MUTANT_NO_HINT); i++) {
        bool is_there = false;
        for (unsigned k = 0; k < operation->replica_count; k++)
            is_there |= operation->replicas[k] == wanted[i];
        if (!is_there && operation->replica_count < TR_SET_MAX)
            operation->replicas[operation->replica_count++] = wanted[i];
    }
    TR_ASSERT(operation->replica_count <= TR_SET_MAX);
}

/* ---- enough have it ---- */

/* A replica that was down when the record was sent may have been linked since, and have been sent
 * what was pending for it then, without this record, which was not durable yet: it is sent now.
 * Also to a replica that was full, and may have room by now. */
static void send_to_returned(struct tr_replication *replication,
                             const struct tr_operation *operation)
{
    struct tr_head record = {.key.id = operation->id};
    for (unsigned i = 0; i < operation->replica_count; i++) {
        uint16_t member = operation->replicas[i];
        bool has_failed = (operation->failed & 1u << i) != 0;
        if (!has_failed || member == 0 || !tr_peer_is_up(replication->cluster, member))
            continue;
        tr_cover(replication->trial, RULE_RETURNED);
        tr_pending_send_copy(replication, member, &record);
    }
}

/* Answers when enough have it, or when there is nothing more to wait for. */
void tr_write_conclude(struct tr_replication *replication, struct tr_operation *operation,
                       bool is_over, struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_WRITING);
    unsigned done = bits(operation->done | operation->above);
    unsigned up = nodes_up(replication);
    TR_ASSERT(done <= operation->replica_count);
    unsigned wanted = tr_set_copies(replication, operation->factor);
    wanted = wanted < up ? wanted : up;
    if (tr_breaks(replication->trial, MUTANT_ONE_COPY))
        wanted = 1;
    bool is_enough = done >= wanted && done > 0;
    uint8_t all = (uint8_t)((1u << operation->replica_count) - 1);
    bool is_left = (uint8_t)(operation->done | operation->above | operation->failed) != all;
    /* A replica that is up may hold a higher version of what is replaced, whichever node is hinted
     * for it: its answer is waited for. */
    bool is_asked = operation->mode == TR_WRITE_REPLACE && !operation->is_late;
    if ((!is_enough || is_asked) && is_left && !is_over)
        return;
    if (!is_enough && !is_over && !operation->is_late)
        return; /* a node will be hinted */
    if (done == 0) {
        tr_operation_give_up(replication, operation, out);
        return;
    }
    send_to_returned(replication, operation);
    tr_replaced_begin(replication, operation, out);
}

/* ---- beginning again ---- */

/* What was stored of a create whose id is taken elsewhere must not stay. */
static void take_back(struct tr_replication *replication, struct tr_operation *operation,
                      const struct tr_whole *record)
{
    TR_ASSERT(operation->is_drawn);
    for (unsigned i = 0; i < operation->replica_count; i++) {
        if (operation->replicas[i] != 0)
            tr_pending_send_take_back(replication, operation->replicas[i], &record->head);
        else
            tr_drop_take_back(replication, &record->head);
    }
}

/* Makes a changed record ready to be sent once more. False: that cannot be, and is answered. */
static bool renew(struct tr_replication *replication, struct tr_operation *operation,
                  struct tr_whole *record, struct tr_effects *out)
{
    TR_ASSERT(operation->number != 0);
    if (++operation->tries > TRIES || !repack(replication, operation, record)) {
        tr_operation_give_up(replication, operation, out);
        return false;
    }
    tr_operation_renumber(replication, operation);
    return true;
}

/* Two writes of one record at the same moment, on two nodes, would each be stamped above the other
 * again and again. One that was sent again already, and meets a higher version, waits for as long
 * as the other's write takes: one of the two, by what tells equal stamps apart. If the answer does
 * not say whose version it is, either waits for a share of that, which differs by node and try.
 * What was sent last must not pop meanwhile: the wait ends before replicas stop holding it back. */
static uint64_t time_to_yield(const struct tr_replication *replication,
                              const struct tr_operation *operation, const struct tr_whole *held)
{
    TR_ASSERT(operation->sent_ms <= replication->time->now_ms);
    uint32_t node = replication->cluster->stamp_node;
    uint64_t sent_ago_ms = replication->time->now_ms - operation->sent_ms;
    uint64_t most_ms = operation->patience_ms / 2;
    if (operation->tries == 0 || operation->tries >= TRIES || sent_ago_ms >= YIELD_BY_MS)
        return 0;
    most_ms = most_ms < YIELD_BY_MS - sent_ago_ms ? most_ms : YIELD_BY_MS - sent_ago_ms;
    if (held == NULL)
        return most_ms * ((node >> operation->tries) % SHARES) / SHARES;
    return held->head.order.version_node > node ? most_ms : 0;
}

static void yield(struct tr_replication *replication, struct tr_operation *operation,
                  const struct tr_whole *held, uint64_t wait_ms)
{
    TR_ASSERT(operation->stage != STAGE_YIELDING && wait_ms > 0);
    tr_cover(replication->trial, RULE_YIELDED);
    if (held != NULL && held->head.order.version > operation->version)
        operation->version = held->head.order.version;
    operation->stage = STAGE_YIELDING;
    operation->again_ms = replication->time->now_ms + wait_ms;
    tr_operation_renumber(replication, operation);
    if (operation->again_ms < replication->operations_ms)
        replication->operations_ms = operation->again_ms;
}

/* Gives the record a stamp above what was found, and another id if it is taken. False: it yields
 * first; or that cannot be, and is answered. */
static bool restart(struct tr_replication *replication, struct tr_operation *operation,
                    enum tr_frame_result found, const struct tr_whole *held, struct tr_effects *out)
{
    TR_ASSERT(found == TR_RESULT_EXISTS || found == TR_RESULT_STALE);
    uint64_t wait_ms = time_to_yield(replication, operation, held);
    if (found == TR_RESULT_STALE && operation->stage != STAGE_YIELDING && wait_ms > 0) {
        yield(replication, operation, held, wait_ms);
        return false;
    }
    bool is_taken = found == TR_RESULT_EXISTS && operation->is_drawn;
    struct tr_whole record;
    tr_operation_unpack(replication, operation, &record);
    tr_cover(replication->trial, is_taken ? RULE_EXISTS : RULE_STALE);
    if (is_taken) {
        take_back(replication, operation, &record);
        operation->id = replication->store->draw(replication->store->context);
    }
    operation->version = tr_clock_stamp(
        replication->cluster, held != NULL ? held->head.order.version : operation->version);
    make_set(replication, operation);
    return renew(replication, operation, &record, out);
}

/* Notes what the node at a place of the set has answered. False: something higher is there, or
 * another record has the id, and all begins again. */
static bool note_answer(struct tr_replication *replication, struct tr_operation *operation,
                        unsigned place, enum tr_frame_result result, const struct tr_whole *held)
{
    TR_ASSERT(place < operation->replica_count);
    uint8_t bit = (uint8_t)(1u << place);
    switch (result) {
    case TR_RESULT_STORED:
        operation->done |= bit;
        if (held != NULL)
            tr_replaced_ask_named(replication, operation, held);
        return true;
    case TR_RESULT_STALE:
    case TR_RESULT_EXISTS:
        if (!gives_way(operation))
            return false;
        operation->above |= bit;
        return true;
    case TR_RESULT_FULL:
    case TR_RESULT_NONE:
    case TR_RESULT_HELD:
    case TR_RESULT_REPLAYED:
    case TR_RESULT_FAILED:
    case TR_RESULT_REUSED:
    case TR_RESULT_BUSY:
    case TR_RESULT_UNKNOWN:
        operation->failed |= bit;
        return true;
    }
    TR_UNREACHABLE("no such answer");
}

/* ---- sending ---- */

/* This node's own copy. True: all begins again, and is to be sent. */
static bool store_here(struct tr_replication *replication, struct tr_operation *operation,
                       unsigned place, struct tr_effects *out)
{
    TR_ASSERT(place < operation->replica_count && operation->replicas[place] == 0);
    struct tr_whole record;
    tr_operation_unpack(replication, operation, &record);
    if (record.head.due_ms <
        replication->time->steady_ms) { /* as for a replica that hears of it now */
        record.head.lag_ms += replication->time->steady_ms - record.head.due_ms;
        record.head.due_ms = replication->time->steady_ms;
    }
    bool is_create = operation->mode == TR_WRITE_CREATE;
    bool has_room = tr_replication_has_room_for(replication, &record);
    if (!is_create)
        tr_hold_prepare(replication, 0, &record.head);
    enum tr_frame_result result =
        tr_replica_take(replication, operation->mode, has_room, &record, &operation->own);
    if (result == TR_RESULT_STORED && !is_create)
        tr_hold_open(replication, 0, &record.head);
    if (result == TR_RESULT_STORED || result == TR_RESULT_HELD) {
        tr_replaced_ask_named(replication, operation, &record);
        tr_replication_wait(replication, &record.head, operation->own, THEN_OPERATION, 0,
                            operation->number);
        return false;
    }
    if (result == TR_RESULT_FULL) {
        operation->failed |= (uint8_t)(1u << place);
        return false;
    }
    const struct tr_store *store = replication->store;
    struct tr_whole found;
    tr_ref ref = tr_store_find(store, &(struct tr_key){.id = record.head.key.id});
    if (ref != TR_ARENA_NONE)
        store->whole(store->context, ref, &found);
    const struct tr_whole *held = ref != TR_ARENA_NONE ? &found : NULL;
    if (!note_answer(replication, operation, place, result, held))
        return restart(replication, operation, result, held, out);
    tr_write_conclude(replication, operation, false, out);
    return false;
}

/* True: this node's own copy has shown that all begins again. */
static bool send_once(struct tr_replication *replication, struct tr_operation *operation,
                      struct tr_effects *out)
{
    TR_ASSERT(operation->replica_count > 0 && operation->record != TR_ARENA_NONE);
    uint64_t number = operation->number;
    unsigned own = operation->replica_count;
    operation->stage = STAGE_WRITING;
    operation->sent_ms = replication->time->now_ms;
    operation->done = 0;
    operation->above = 0;
    operation->failed = 0;
    memset(operation->open, 0, sizeof operation->open);
    for (unsigned i = 0; i < operation->replica_count; i++) {
        uint16_t member = operation->replicas[i];
        if (member == 0)
            own = i;
        else if (tr_peer_is_up(replication->cluster, member))
            tr_replication_send(replication, member,
                                (struct tr_message){.kind = MESSAGE_WRITE, .operation = number});
        else
            operation->failed |= (uint8_t)(1u << i);
    }
    /* Last: it may find at once that all begins again. */
    if (own < operation->replica_count && store_here(replication, operation, own, out))
        return true;
    bool is_sent = operation->failed != (uint8_t)((1u << operation->replica_count) - 1);
    if (operation->number == number && !is_sent && operation->tries == 0) {
        tr_operation_refuse(replication, operation, TR_NO_NODE_UP, out);
        tr_operation_end(replication, operation);
    }
    return false;
}

static void send(struct tr_replication *replication, struct tr_operation *operation,
                 struct tr_effects *out)
{
    TR_ASSERT(operation->tries <= TRIES);
    while (send_once(replication, operation, out))
        TR_ASSERT(operation->tries <= TRIES); /* each time is a try */
}

/* A node that was down or full when the record was sent may have come back, or have room. */
static void try_failed(struct tr_replication *replication, struct tr_operation *operation,
                       struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_WRITING);
    uint64_t number = operation->number;
    for (unsigned i = 0; i < operation->replica_count; i++) {
        uint16_t member = operation->replicas[i];
        bool has_failed = (operation->failed & 1u << i) != 0;
        if (!has_failed || !tr_peer_is_up(replication->cluster, member) ||
            operation->number != number)
            continue;
        operation->failed &= (uint8_t) ~(1u << i);
        if (member == 0 && store_here(replication, operation, i, out))
            send(replication, operation, out);
        else if (member != 0)
            tr_replication_send(
                replication, member,
                (struct tr_message){.kind = MESSAGE_WRITE, .operation = operation->number});
    }
}

/* Whether a write that replaces something is about to go on without a node that it was sent to.
 * That node may hold a version that it gave out just before the request came, and no answer has
 * said so: stamped anew, by this node's clock of now, the write is above it. One that gives way to
 * what is there stays as it is. */
static bool has_silent(const struct tr_operation *operation)
{
    TR_ASSERT(operation->replica_count > 0 && operation->replica_count <= TR_SET_MAX);
    bool is_replacing = operation->mode == TR_WRITE_REPLACE && !gives_way(operation);
    uint8_t answered = operation->done | operation->above | operation->failed;
    return is_replacing && answered != (uint8_t)((1u << operation->replica_count) - 1);
}

/* Whether a replica may have stopped holding back what was sent, and popped it: under another stamp
 * it would pop once more. */
static bool may_have_popped(const struct tr_replication *replication,
                            const struct tr_operation *operation)
{
    struct tr_whole record;
    tr_operation_unpack(replication, operation, &record);
    return replication->time->now_ms >= operation->sent_ms + YIELD_BY_MS &&
           record.head.due_ms <= replication->time->steady_ms;
}

/* Other nodes are hinted for those that are silent, down or full. */
void tr_write_hint(struct tr_replication *replication, struct tr_operation *operation,
                   struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_WRITING && !operation->is_late);
    uint16_t failed[TR_SET_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < operation->replica_count; i++) {
        if (((operation->done | operation->above) & 1u << i) == 0)
            failed[count++] = operation->replicas[i];
    }
    uint8_t before = operation->replica_count;
    bool is_anew = has_silent(operation) && !may_have_popped(replication, operation);
    add_hints(replication, operation, failed, count);
    operation->is_late = true;
    bool is_hinted = operation->replica_count > before;
    if (!is_hinted && !is_anew) {
        uint64_t number = operation->number;
        try_failed(replication, operation, out);
        if (operation->number == number && operation->stage == STAGE_WRITING)
            tr_write_conclude(replication, operation, false, out);
        return;
    }
    if (is_hinted)
        tr_cover(replication->trial, RULE_HINTED);
    replication->stats.hinted += is_hinted;

    struct tr_whole record;
    tr_operation_unpack(replication, operation, &record);
    record.head.order.moves =
        tr_next_move(record.head.order.moves, replication->cluster->stamp_node);
    if (is_anew)
        operation->version = tr_clock_stamp(replication->cluster, operation->version);
    if (is_anew && !is_hinted) /* those that were sent it before have as long once more */
        operation->started_ms += operation->patience_ms;
    if (renew(replication, operation, &record, out))
        send(replication, operation, out);
}

/* Whether a replica is so full that the rest of its memory is kept for copies of what there is
 * already. */
static bool is_full(const struct tr_replication *replication, const struct tr_operation *operation)
{
    TR_ASSERT(operation->replica_count <= TR_SET_MAX);
    for (unsigned i = 0; i < operation->replica_count; i++) {
        const struct tr_peer *peer = &replication->cluster->peers[operation->replicas[i]];
        bool is_popping = (peer->flags & TR_BEAT_POPPING) != 0; /* else another one is hinted */
        if (operation->replicas[i] != 0 && peer->is_up && is_popping && peer->fill > FILL_MOST)
            return true;
    }
    return false;
}

void tr_write_begin(struct tr_replication *replication, struct tr_operation *operation,
                    struct tr_whole *record, struct tr_effects *out)
{
    TR_ASSERT(operation->number != 0 && operation->kind != OPERATION_READ);
    for (unsigned i = 0; i < REDRAWS; i++) {
        make_set(replication, operation);
        bool is_good = true;
        for (unsigned k = 0; k < operation->replica_count; k++)
            is_good &= tr_peer_is_serving(replication->cluster, operation->replicas[k]);
        if (is_good || !operation->is_drawn || i + 1 == REDRAWS)
            break; /* the last one stays, with the replica set that was made for it */
        tr_cover(replication->trial, RULE_REDRAWN);
        operation->id = replication->store->draw(replication->store->context);
    }
    bool is_tombstone = (record->head.flags & TR_RECORD_TOMBSTONE) != 0;
    bool has_no_room = !is_tombstone && is_full(replication, operation);
    if (has_no_room)
        tr_cover(replication->trial, RULE_ADMISSION);
    if (has_no_room || !repack(replication, operation, record)) {
        tr_operation_refuse(replication, operation, has_no_room ? TR_REPLICA_FULL : TR_MEMORY_FULL,
                            out);
        tr_operation_end(replication, operation);
        return;
    }
    operation->started_ms = replication->time->now_ms; /* asking may have taken long */
    tr_mono_ms next_ms = operation->started_ms + operation->patience_ms;
    replication->operations_ms =
        next_ms < replication->operations_ms ? next_ms : replication->operations_ms;
    send(replication, operation, out);
}

/* ---- what comes back ---- */

void tr_write_answered(struct tr_replication *replication, struct tr_operation *operation,
                       uint16_t member, enum tr_frame_result result, const struct tr_whole *held,
                       struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_WRITING);
    unsigned place = 0;
    while (place < operation->replica_count && operation->replicas[place] != member)
        place++;
    if (place == operation->replica_count)
        return;
    if (note_answer(replication, operation, place, result, held))
        tr_write_conclude(replication, operation, false, out);
    else if (restart(replication, operation, result, held, out))
        send(replication, operation, out);
}

void tr_write_again(struct tr_replication *replication, struct tr_operation *operation,
                    struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_YIELDING);
    tr_mono_ms now_ms = replication->time->now_ms;
    if (now_ms > operation->started_ms + operation->patience_ms)
        operation->started_ms = now_ms - operation->patience_ms; /* time for an answer is left */
    if (restart(replication, operation, TR_RESULT_STALE, NULL, out))
        send(replication, operation, out);
}

void tr_write_late(struct tr_operation *operation, uint16_t member)
{
    TR_ASSERT(operation->stage == STAGE_DROPPING);
    for (unsigned i = 0; i < operation->replica_count; i++)
        operation->done |= (uint8_t)((operation->replicas[i] == member) << i);
}

void tr_write_contested(struct tr_replication *replication, struct tr_operation *operation,
                        uint16_t member, const struct tr_whole *held, struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_DROPPING);
    if (!tr_operation_is_open(operation, member))
        return;
    if (gives_way(operation))
        tr_operation_dropped(replication, operation->number, member, out);
    else if (restart(replication, operation, TR_RESULT_STALE, held, out))
        send(replication, operation, out);
}
