/* SPDX-License-Identifier: Apache-2.0 */
#include "pops/destination.h"

#include "pops/claim.h"
#include "pops/flight.h"

static uint32_t find(struct tr_pops *pops, uint64_t hash)
{
    uint32_t *bucket = &pops->buckets[hash % TR_DESTINATION_BUCKETS];
    for (uint32_t i = *bucket; i != TR_POPS_NONE; i = pops->destinations[i].next) {
        if (pops->destinations[i].hash == hash)
            return i;
    }
    uint32_t index = pops->destination_free;
    if (index == TR_POPS_NONE)
        index = pops->destination_fresh++;
    else
        pops->destination_free = pops->destinations[index].next;
    TR_ASSERT(index < TR_DESTINATIONS_MAX); /* each has a flight, and there are fewer of those */
    struct tr_destination *destination = &pops->destinations[index];
    *destination = (struct tr_destination){
        .hash = hash, .next = *bucket, .limit = pops->config.per_destination};
    *bucket = index;
    return index;
}

bool tr_destination_look(const struct tr_pops *pops, uint64_t hash,
                         struct tr_destination_stats *stats)
{
    for (uint32_t i = pops->buckets[hash % TR_DESTINATION_BUCKETS]; i != TR_POPS_NONE;
         i = pops->destinations[i].next) {
        const struct tr_destination *destination = &pops->destinations[i];
        if (destination->hash != hash)
            continue;
        *stats = (struct tr_destination_stats){.flights = destination->flights,
                                               .limit = destination->limit,
                                               .queued = destination->queue.count};
        return true;
    }
    return false;
}

static void release(struct tr_pops *pops, uint32_t index)
{
    TR_ASSERT(index < TR_DESTINATIONS_MAX);
    struct tr_destination *destination = &pops->destinations[index];
    if (destination->flights > 0 || destination->queue.count > 0 || destination->is_held)
        return;
    uint32_t *link = &pops->buckets[destination->hash % TR_DESTINATION_BUCKETS];
    while (*link != index)
        link = &pops->destinations[*link].next;
    *link = destination->next;
    destination->next = pops->destination_free;
    pops->destination_free = index;
}

static void run_queue(struct tr_pops *pops, uint32_t index, struct tr_effects *out)
{
    TR_ASSERT(index < TR_DESTINATIONS_MAX);
    struct tr_destination *destination = &pops->destinations[index];
    struct tr_head head;
    while (pops->log->is_running && destination->queue.count > 0 &&
           destination->flights < destination->limit && tr_flight_can_begin(pops) &&
           tr_effects_has_room(out, 8)) {
        struct tr_fifo_entry entry = tr_fifo_pop(&destination->queue, pops->arena);
        if (!pops->owner.matches(pops->owner.context, entry.ref, TR_STATE_QUEUED, entry.due_ms))
            continue;
        pops->stats.queued--;
        pops->owner.head(pops->owner.context, entry.ref, &head);
        tr_flight_begin(pops, entry.ref, &head, index, out);
    }
}

/* A queue that may fire is looked at when pops are handed out; one that then cannot, for want of
 * effects or of room in the log, in the next step: no answer of its own may be there to do so. */
static void hold(struct tr_pops *pops, uint32_t index)
{
    TR_ASSERT(index < TR_DESTINATIONS_MAX);
    struct tr_destination *destination = &pops->destinations[index];
    if (destination->is_held || destination->queue.count == 0 ||
        destination->flights >= destination->limit)
        return;
    destination->is_held = true;
    destination->next_held = pops->held_first;
    pops->held_first = index;
}

void tr_destinations_run(struct tr_pops *pops, struct tr_effects *out)
{
    uint32_t index = pops->held_first;
    pops->held_first = TR_POPS_NONE;
    while (index != TR_POPS_NONE) {
        uint32_t next = pops->destinations[index].next_held;
        pops->destinations[index].is_held = false;
        run_queue(pops, index, out);
        hold(pops, index);
        release(pops, index);
        index = next;
    }
}

void tr_destinations_recall(struct tr_pops *pops)
{
    for (uint32_t bucket = 0; bucket < TR_DESTINATION_BUCKETS; bucket++) {
        for (uint32_t i = pops->buckets[bucket]; i != TR_POPS_NONE;) {
            struct tr_destination *destination = &pops->destinations[i];
            uint32_t next = destination->next;
            while (destination->queue.count > 0) {
                struct tr_fifo_entry entry = tr_fifo_pop(&destination->queue, pops->arena);
                if (!pops->owner.matches(pops->owner.context, entry.ref, TR_STATE_QUEUED,
                                         entry.due_ms))
                    continue;
                pops->stats.queued--;
                pops->owner.arm(pops->owner.context, entry.ref);
            }
            release(pops, i);
            i = next;
        }
    }
}

bool tr_destinations_want_tick(const struct tr_pops *pops)
{
    return pops->log->is_running && pops->held_first != TR_POPS_NONE && tr_flight_can_begin(pops);
}

void tr_destinations_init(struct tr_pops *pops)
{
    pops->ended_first = TR_POPS_NONE;
    pops->ended_last = TR_POPS_NONE;
    pops->flight_free = TR_POPS_NONE;
    pops->held_first = TR_POPS_NONE;
    pops->destination_free = TR_POPS_NONE;
    for (uint32_t i = 0; i < TR_DESTINATION_BUCKETS; i++)
        pops->buckets[i] = TR_POPS_NONE;
}

void tr_destination_take(struct tr_pops *pops, tr_ref ref, const struct tr_head *head,
                         struct tr_effects *out)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    uint32_t index = find(pops, pops->owner.origin(pops->owner.context, ref));
    struct tr_destination *destination = &pops->destinations[index];
    tr_claim_later(pops, ref, head);
    bool is_free = destination->flights < destination->limit && destination->queue.count == 0;
    struct tr_fifo_entry entry = {ref, head->due_ms};
    /* Without memory to wait in it goes at once, whatever the limit. */
    if (is_free || !tr_fifo_push(&destination->queue, pops->arena, entry)) {
        tr_flight_begin(pops, ref, head, index, out);
        return;
    }
    pops->owner.set_state(pops->owner.context, ref, TR_STATE_QUEUED);
    pops->stats.queued++;
}

/* Not when it ended: of two that wait to be booked the first would take the destination along. */
void tr_destination_landed(struct tr_pops *pops)
{
    uint32_t index = tr_flight_release(pops);
    TR_ASSERT(pops->destinations[index].flights > 0);
    pops->destinations[index].flights--;
    hold(pops, index);
    release(pops, index);
}
