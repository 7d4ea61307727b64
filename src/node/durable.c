/* SPDX-License-Identifier: Apache-2.0 */
/* What has become durable: a record is armed, a client answered, another node told. */
#include "node/durable.h"

#include "log/batch.h"
#include "node/parts.h"
#include "replication/ticket.h"
#include "timers/store.h"

/* The record that a ticket is about, if it is the one that was logged. */
static bool is_there(const struct tr_node *node, const struct tr_waiting *waiting)
{
    TR_ASSERT(waiting->ref == TR_ARENA_NONE || waiting->batch <= node->log.durable);
    return waiting->ref != TR_ARENA_NONE && tr_arena_holds(&node->arena, waiting->ref) &&
           tr_book_state(&node->timers.book, waiting->ref) == TR_STATE_UNSAFE &&
           tr_book_id(&node->timers.book, waiting->ref) == waiting->key.id &&
           tr_book_version(&node->timers.book, waiting->ref) == waiting->order.version;
}

static void answer(const struct tr_node *node, const struct tr_waiting *waiting,
                   struct tr_effects *out)
{
    TR_ASSERT(waiting->token != 0);
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_ANSWER);
    effect->of.answer.token = waiting->token;
    effect->of.answer.result = TR_DONE;
    effect->of.answer.is_replayed = waiting->is_replayed;
    effect->of.answer.has_location = waiting->has_location;
    effect->of.answer.location = tr_timers_text(&node->timers, waiting->key.id, waiting->factor);
}

void tr_durable_run(struct tr_node *node, struct tr_effects *out)
{
    struct tr_waiting waiting;
    while (tr_effects_has_room(out, 4) && tr_log_next_durable(&node->log, &waiting)) {
        if (is_there(node, &waiting))
            tr_timers_arm(&node->timers, waiting.ref);
        if (waiting.then != THEN_ANSWER)
            tr_ticket_due(&node->replication, &waiting, out);
        else if (waiting.token != 0)
            answer(node, &waiting, out);
    }
}
