/* SPDX-License-Identifier: Apache-2.0 */
#include "pops/flight.h"

#include "log/batch.h"
#include "pops/claim.h"

#define LIMIT_LEAST 1

static uint32_t take(struct tr_pops *pops)
{
    uint32_t index = pops->flight_free;
    TR_ASSERT(tr_pops_has_flight(pops));
    if (index == TR_POPS_NONE)
        return pops->flight_fresh++;
    pops->flight_free = pops->flights[index].next;
    return index;
}

void tr_flight_begin(struct tr_pops *pops, tr_ref ref, const struct tr_head *head,
                     uint32_t destination, struct tr_effects *out)
{
    TR_ASSERT(ref != TR_ARENA_NONE && destination < TR_DESTINATIONS_MAX);
    TR_ASSERT(head->due_ms <= pops->time->steady_ms);
    uint32_t index = take(pops);
    pops->flights[index] = (struct tr_flight){
        .ref = ref,
        .key = head->key,
        .order = head->order,
        .destination = destination,
        .is_used = true,
    };
    pops->flight_count++;
    pops->destinations[destination].flights++;
    pops->owner.set_state(pops->owner.context, ref, TR_STATE_FLYING);
    pops->replication->busy_ms = pops->time->now_ms;
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_FIRE);
    effect->of.fire.flight = index;
    effect->of.fire.ref = ref;
    effect->of.fire.due_ms = head->due_ms;
    effect->of.fire.due_mono_ms = head->due_ms - pops->time->steady_base;
}

void tr_flight_carry_on(struct tr_pops *pops, tr_ref before, tr_ref ref,
                        const struct tr_head *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    for (uint32_t i = 0; i < pops->flight_fresh; i++) {
        struct tr_flight *flight = &pops->flights[i];
        if (!flight->is_used || flight->ref != before ||
            !tr_key_equals(&flight->key, &record->key) ||
            flight->order.version != record->order.version ||
            flight->order.sequence != record->order.sequence ||
            flight->order.attempt != record->order.attempt)
            continue;
        flight->ref = ref;
        flight->order = record->order;
        pops->owner.forget_entry(pops->owner.context, ref);
        pops->owner.set_state(pops->owner.context, ref, TR_STATE_FLYING);
        tr_claim_later(pops, ref, record);
        return;
    }
}

bool tr_flight_can_begin(const struct tr_pops *pops)
{
    TR_ASSERT(pops->flight_count <= pops->config.flights_max);
    return tr_pops_has_flight(pops) && tr_log_has_room(pops->log, TR_OUTCOME_ROOM, false);
}

/* Its receiver has more than it can do: it gets less at a time. */
static bool is_overloaded(const struct tr_flight *flight)
{
    if (flight->result == TR_CALLBACK_ANSWERED)
        return flight->status == 429 || flight->status == 502 || flight->status == 503 ||
               flight->status == 504;
    return flight->result == TR_CALLBACK_TIMED_OUT;
}

void tr_flight_ended(struct tr_pops *pops, const struct tr_event *event)
{
    uint32_t index = event->of.callback.flight;
    TR_ASSERT(index < pops->config.flights_max && pops->flights[index].is_used);
    struct tr_flight *flight = &pops->flights[index];
    struct tr_destination *destination = &pops->destinations[flight->destination];
    flight->result = event->of.callback.result;
    flight->status = event->of.callback.status;
    flight->fault = event->of.callback.fault;
    flight->retry_after_ms = event->of.callback.retry_after_ms;
    flight->duration_ms = event->of.callback.duration_ms;
    if (is_overloaded(flight))
        destination->limit =
            destination->limit / 2 > LIMIT_LEAST ? destination->limit / 2 : LIMIT_LEAST;
    else if (destination->limit < pops->config.per_destination)
        destination->limit++;
    else
        destination->limit = pops->config.per_destination;
    flight->next = TR_POPS_NONE;
    if (pops->ended_last == TR_POPS_NONE)
        pops->ended_first = index;
    else
        pops->flights[pops->ended_last].next = index;
    pops->ended_last = index;
}

struct tr_flight *tr_flight_first_ended(const struct tr_pops *pops)
{
    return pops->ended_first != TR_POPS_NONE ? &pops->flights[pops->ended_first] : NULL;
}

uint32_t tr_flight_release(struct tr_pops *pops)
{
    uint32_t index = pops->ended_first;
    TR_ASSERT(index != TR_POPS_NONE && pops->flight_count > 0);
    struct tr_flight *flight = &pops->flights[index];
    TR_ASSERT(flight->is_used);
    pops->ended_first = flight->next;
    if (pops->ended_first == TR_POPS_NONE)
        pops->ended_last = TR_POPS_NONE;
    flight->is_used = false;
    flight->next = pops->flight_free;
    pops->flight_free = index;
    pops->flight_count--;
    return flight->destination;
}
