/* SPDX-License-Identifier: Apache-2.0 */
/* Time: what is planned happens when it is due, and machines are woken when they want to be. */
#include "sim/world.h"

#include <stdlib.h>

/* ---- what happens to a machine ---- */

/* The new config file is there, whether anybody runs or not. */
static void happen_view(struct world *world, const struct sim_pending *pending)
{
    struct machine *machine = &world->machines[pending->machine];
    const struct sim_view *view = &world->views[pending->number % VIEWS_MAX];
    if (pending->number <= machine->view.number || view->number != pending->number)
        return;
    machine->view = *view;
    if (machine->is_ready)
        sim_set_view(world, pending->machine);
}

static bool happen_link(struct world *world, const struct sim_pending *pending,
                        struct tr_event *event)
{
    struct link *link = sim_link(world, pending->machine, pending->other);
    uint32_t *met = &link->met_epoch[pending->machine > pending->other];
    bool is_same = link->epoch == pending->link_epoch;
    event->of.frame.peer = sim_member(world, pending->machine, pending->other);
    event->of.frame.bytes = pending->bytes;
    event->of.frame.size = pending->size;
    event->kind = pending->what == HAPPENS_FRAME     ? TR_EVENT_FRAME_RECEIVED
                  : pending->what == HAPPENS_SENT    ? TR_EVENT_FRAME_SENT
                  : pending->what == HAPPENS_LINK_UP ? TR_EVENT_LINK_UP
                                                     : TR_EVENT_LINK_DOWN;
    if (is_same && pending->what == HAPPENS_LINK_UP)
        *met = pending->link_epoch;
    /* A node that stood still does not hear that a link broke after it has heard of the next. */
    bool is_meant = pending->what == HAPPENS_LINK_DOWN ? *met <= pending->link_epoch : is_same;
    if (is_meant && pending->what == HAPPENS_FRAME)
        sim_tell_frame(world, pending->other, pending->machine, pending->bytes, pending->size);
    return is_meant && event->of.frame.peer != TR_MEMBER_NONE;
}

static void happen_callback(struct world *world, const struct sim_pending *pending,
                            struct tr_event *event)
{
    event->kind = TR_EVENT_CALLBACK_ENDED;
    event->of.callback.flight = (uint32_t)pending->number;
    event->of.callback.result = pending->result;
    event->of.callback.status = pending->status;
    event->of.callback.retry_after_ms = 0;
    bool is_success = pending->result == TR_CALLBACK_ANSWERED && pending->status / 100 == 2;
    sim_trace(world, "%s pop %u.%llu %s", sim_name(pending->machine), pending->write,
              (unsigned long long)pending->sequence, is_success ? "delivered" : "failed");
    if (is_success)
        sim_model_deliver(&world->model, pending->write, pending->sequence, world->now_ms, 0);
}

static void happen(struct world *world, const struct sim_pending *pending)
{
    struct machine *machine = &world->machines[pending->machine];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    if (pending->what == HAPPENS_VIEW)
        happen_view(world, pending);
    if (pending->what == HAPPENS_VIEW || pending->epoch != machine->epoch)
        return;
    if (pending->what == HAPPENS_START) {
        sim_start(world, pending->machine);
        return;
    }
    if (!machine->is_running)
        return;
    if (pending->what == HAPPENS_ASK) {
        world->key_calls->rush(world, pending->machine);
        return;
    }
    switch (pending->what) {
    case HAPPENS_CALLBACK:
        happen_callback(world, pending, &event);
        break;
    case HAPPENS_SYNC:
        sim_disk_sync(&machine->disk);
        event.kind = TR_EVENT_LOG_WRITTEN;
        event.of.log.written = pending->number;
        event.of.log.synced = pending->number;
        break;
    case HAPPENS_ALLOCATED:
    case HAPPENS_REFUSED:
        event.kind = pending->what == HAPPENS_ALLOCATED ? TR_EVENT_SEGMENT_ALLOCATED
                                                        : TR_EVENT_SEGMENT_REFUSED;
        event.of.segment.number = pending->number;
        break;
    case HAPPENS_FRAME:
    case HAPPENS_SENT:
    case HAPPENS_LINK_UP:
    case HAPPENS_LINK_DOWN:
        if (!happen_link(world, pending, &event))
            return;
        break;
    case HAPPENS_START:
    case HAPPENS_VIEW:
    case HAPPENS_ASK:
        return;
    }
    sim_step(world, pending->machine, &event);
}

/* ---- time ---- */

/* The machine that wants to be woken first. */
static uint32_t next_machine(const struct world *world, uint64_t *at_ms)
{
    uint32_t best = 0;
    *at_ms = UINT64_MAX;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        if (!machine->is_running || machine->wake_ms == UINT64_MAX)
            continue;
        uint64_t at = machine->wake_ms;
        at = at > machine->paused_until_ms ? at : machine->paused_until_ms;
        at = at > world->now_ms ? at : world->now_ms;
        if (at < *at_ms) {
            *at_ms = at;
            best = i;
        }
    }
    return best;
}

/* The machine for which something has come looks at its clock before it reads that. */
static bool ticks_first(const struct world *world, uint64_t next_ms)
{
    if (world->queue.count == 0)
        return false;
    const struct machine *machine = &world->machines[world->queue.heap[0].machine];
    return machine->is_running && machine->ticks_first && machine->paused_until_ms <= next_ms &&
           machine->wake_ms <= next_ms;
}

void sim_advance(struct world *world, uint64_t limit_ms)
{
    while (world->model.broken == NULL && world->power != POWER_ENDS) {
        uint64_t wake_ms = 0;
        uint32_t index = next_machine(world, &wake_ms);
        uint64_t next_ms = sim_queue_next_ms(&world->queue);
        if (next_ms > limit_ms && wake_ms > limit_ms)
            break;
        if (world->result.steps > world->steps_most)
            sim_break(world, "it goes on and on");
        if (next_ms <= wake_ms && ticks_first(world, next_ms)) {
            index = world->queue.heap[0].machine;
            wake_ms = next_ms > world->now_ms ? next_ms : world->now_ms;
            next_ms = UINT64_MAX;
        }
        if (next_ms > wake_ms) {
            struct tr_event event = {.kind = TR_EVENT_TICK};
            world->now_ms = wake_ms;
            sim_step(world, index, &event);
            continue;
        }
        struct sim_pending pending = sim_queue_take(&world->queue);
        uint64_t paused = world->machines[pending.machine].paused_until_ms;
        world->now_ms = next_ms > world->now_ms ? next_ms : world->now_ms;
        bool is_file = pending.what == HAPPENS_VIEW && !world->faults[SIM_STARVED];
        if (paused > world->now_ms && !is_file) { /* it waits with the machine */
            pending.at_ms = paused;
            if (world->faults[SIM_STARVED])
                sim_queue_put_back(&world->queue, pending);
            else
                sim_queue_add(&world->queue, pending);
            continue;
        }
        happen(world, &pending);
        free(pending.bytes);
    }
    if (world->power != POWER_ENDS)
        world->now_ms = limit_ms > world->now_ms ? limit_ms : world->now_ms;
}
