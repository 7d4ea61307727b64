/* SPDX-License-Identifier: Apache-2.0 */
/* What a client wants of a node that is alone. Nobody else has a part in it, so nothing is kept
 * until others have answered: what is held here is all there is, and when the log has what was
 * written, the ticket of that entry answers the client. */
#include "replication/operation.h"

#include "log/batch.h"
#include "replication/condition.h"
#include "replication/replica.h"

static void answer(const struct tr_replication *replication, const struct tr_request *request,
                   enum tr_result result, tr_ref shown, struct tr_effects *out)
{
    TR_ASSERT(result < TR_RESULTS);
    TR_ASSERT(shown == TR_ARENA_NONE || result == TR_DONE);
    const struct tr_store *store = replication->store;
    struct tr_reply reply = {.token = request->token, .result = result, .shown = shown};
    store->answer(store->context, &reply, out);
}

static void answer_durable(struct tr_replication *replication, const struct tr_request *request,
                           const struct tr_head *head, tr_ref ref, bool is_replayed)
{
    TR_ASSERT(tr_log_can_wait(replication->log, 1));
    tr_log_wait(replication->log, (struct tr_waiting){
                                      .then = THEN_ANSWER,
                                      .token = request->token,
                                      .key = head->key,
                                      .order = head->order,
                                      .ref = ref,
                                      .factor = head->factor,
                                      .has_location = true,
                                      .is_replayed = is_replayed,
                                  });
}

/* What is shown of the timer is as the request wants it. */
static bool holds(const struct tr_replication *replication, const struct tr_request *request,
                  tr_timer_id id)
{
    struct tr_head head;
    if (request->condition.when == TR_WHEN_ANY)
        return true;
    tr_ref ref = replication->store->find_shown(replication->store->context, id);
    if (ref != TR_ARENA_NONE)
        tr_store_head(replication->store, ref, &head);
    return tr_condition_holds(&request->condition, ref != TR_ARENA_NONE ? &head : NULL);
}

static void write_record(struct tr_replication *replication, const struct tr_request *request,
                         struct tr_whole *whole, struct tr_effects *out)
{
    TR_ASSERT(whole->head.replicas.count == 1 && whole->head.replicas.members[0] == 0);
    TR_ASSERT(whole->head.order.version > 0);
    const struct tr_store *store = replication->store;
    bool is_keyed = (whole->head.flags & TR_RECORD_KEYED) != 0;
    bool is_create = request->kind == OPERATION_CREATE;
    struct tr_head held;
    tr_ref ref = tr_store_find(store, &whole->head.key);
    bool is_there = ref != TR_ARENA_NONE;
    if (is_there)
        tr_store_head(store, ref, &held);
    if (is_create && is_keyed && is_there) { /* it may be the same request once more */
        bool is_other = held.fingerprint != 0 && whole->head.fingerprint != 0 &&
                        held.fingerprint != whole->head.fingerprint;
        if (is_other)
            answer(replication, request, TR_KEY_REUSED, TR_ARENA_NONE, out);
        else
            answer_durable(replication, request, &held, TR_ARENA_NONE, true);
        return;
    }
    if (!holds(replication, request, whole->head.key.id)) {
        answer(replication, request, TR_CONDITION_FAILED, TR_ARENA_NONE, out);
        return;
    }
    enum tr_write_mode mode = is_create && !is_keyed ? TR_WRITE_CREATE : TR_WRITE_REPLACE;
    enum tr_frame_result result = tr_replica_take(replication, mode, true, whole, &ref);
    bool is_restored = request->kind == OPERATION_RESTORE && result != TR_RESULT_FULL;
    /* Others are drawn, or stamped above what is there. */
    TR_ASSERT(is_restored || result == TR_RESULT_STORED || result == TR_RESULT_FULL);
    if (result != TR_RESULT_FULL)
        answer_durable(replication, request, &whole->head,
                       result == TR_RESULT_STORED ? ref : TR_ARENA_NONE, false);
    else
        answer(replication, request, TR_MEMORY_FULL, TR_ARENA_NONE, out);
}

static void read_record(const struct tr_replication *replication, const struct tr_request *request,
                        tr_timer_id id, struct tr_effects *out)
{
    TR_ASSERT(request->kind == OPERATION_READ);
    const struct tr_store *store = replication->store;
    struct tr_head head = {.flags = TR_RECORD_TOMBSTONE};
    tr_ref ref = store->find_shown(store->context, id);
    if (ref != TR_ARENA_NONE)
        tr_store_head(store, ref, &head);
    bool is_there = (head.flags & TR_RECORD_TOMBSTONE) == 0;
    answer(replication, request, is_there ? TR_DONE : TR_NOT_FOUND, is_there ? ref : TR_ARENA_NONE,
           out);
}

static void perform(const struct tr_replication *replication, const struct tr_request *request,
                    tr_timer_id id, struct tr_effects *out)
{
    const struct tr_store *store = replication->store;
    struct tr_waiting ticket = {.then = THEN_ANSWER, .token = request->token};
    TR_ASSERT(store->perform != NULL);
    if (!holds(replication, request, id)) {
        answer(replication, request, TR_CONDITION_FAILED, TR_ARENA_NONE, out);
        return;
    }
    enum tr_result none = request->performs == TR_ASK_FIRE ? TR_NOT_FOUND : TR_NO_DEAD_POP;
    if (store->perform(store->context, id, request->performs, request->argument, ticket) == 0)
        answer(replication, request, none, TR_ARENA_NONE, out);
}

void tr_operation_locally(struct tr_replication *replication, const struct tr_request *request,
                          struct tr_whole *whole, struct tr_effects *out)
{
    TR_ASSERT(tr_cluster_is_alone(replication->cluster));
    switch (request->kind) {
    case OPERATION_CREATE:
    case OPERATION_REPLACE:
    case OPERATION_RESTORE:
        write_record(replication, request, whole, out);
        return;
    case OPERATION_READ:
        read_record(replication, request, whole->head.key.id, out);
        return;
    case OPERATION_PERFORM:
        perform(replication, request, whole->head.key.id, out);
        return;
    }
}
