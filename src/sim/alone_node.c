/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/alone_keys.h"

#include "base/assert.h"
#include "base/hash.h"
#include "memory/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t alone_draw(struct alone *world, uint64_t bound)
{
    return tr_random_below(&world->random, bound);
}

void alone_trace(struct alone *world, const char *what, uint64_t a, uint64_t b)
{
    uint64_t word[4] = {world->now_ms, (uint64_t)what[0] << 8 | (uint64_t)what[1], a, b};
    world->trace_hash = tr_hash_mix(world->trace_hash ^ tr_hash_xxh3(word, sizeof word));
    world->traces[world->trace_count++ % TRACE_MAX] = (struct trace){world->now_ms, what, a, b};
    if (world->is_verbose)
        printf("%12llu %-18s %llu %llu\n", (unsigned long long)world->now_ms, what,
               (unsigned long long)a, (unsigned long long)b);
}

void alone_print_tail(const struct alone *world)
{
    uint64_t from = world->trace_count > TRACE_MAX ? world->trace_count - TRACE_MAX : 0;
    for (uint64_t i = from; i < world->trace_count; i++) {
        const struct trace *line = &world->traces[i % TRACE_MAX];
        printf("%12llu %-18s %llu %llu\n", (unsigned long long)line->at_ms, line->what,
               (unsigned long long)line->a, (unsigned long long)line->b);
    }
}

static void add_pending(struct alone *world, struct pending pending, uint64_t delay_ms)
{
    TR_ASSERT(world->pending_count < PENDING_MAX);
    pending.at_ms = world->now_ms + delay_ms;
    pending.order = world->order++;
    world->pending[world->pending_count++] = pending;
}

static uint32_t next_pending(const struct alone *world)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < world->pending_count; i++) {
        const struct pending *pending = &world->pending[i];
        if (best == UINT32_MAX || pending->at_ms < world->pending[best].at_ms ||
            (pending->at_ms == world->pending[best].at_ms &&
             pending->order < world->pending[best].order))
            best = i;
    }
    return best;
}

/* ---- the node's effects ---- */

static void settle_request(struct alone *world, uint64_t token, enum tr_result result,
                           const struct tr_timer_text *location)
{
    for (uint32_t i = 0; i < world->open_count; i++) {
        if (world->open[i].token != token)
            continue;
        struct sim_write *write = &world->model.writes[world->open[i].write];
        write->is_acked = result == TR_DONE;
        write->is_refused = result != TR_DONE;
        if (result == TR_DONE && location != NULL && write->pops > 0 && write->id == 0)
            write->id = location->id;
        alone_trace(world, "answered", world->open[i].write, result);
        world->open[i] = world->open[--world->open_count];
        return;
    }
}

/* What the receiver of a callback will do. */
static void fire(struct alone *world, const struct tr_effect *effect)
{
    struct tr_record record;
    tr_node_record(world->node, effect->of.fire.ref, &record);
    char number[16] = {0};
    size_t size = record.opaque.size < 15 ? record.opaque.size : 15;
    memcpy(number, record.opaque.text, size);
    uint32_t write = alone_keys_called(world, &record);
    if (write == 0)
        write = (uint32_t)strtoul(number, NULL, 10);
    uint64_t sequence = tr_record_pop(&record);
    unsigned receiver = (unsigned)(record.uri.text[record.uri.size - 1] - '0') % RECEIVERS;
    alone_trace(world, "fires", write, sequence);
    sim_model_fire(&world->model, write, sequence, world->now_ms, world->epoch);
    struct pending pending = {.what = HAPPENS_CALLBACK,
                              .flight = effect->of.fire.flight,
                              .result = TR_CALLBACK_ANSWERED,
                              .status = 200,
                              .write = write,
                              .sequence = sequence};
    enum receiver_mode mode = world->is_healed ? RECEIVER_WELL : world->receivers[receiver];
    uint64_t delay = alone_draw(world, 20);
    switch (mode) {
    case RECEIVER_WELL:
        pending.status = alone_draw(world, 2) == 0 ? 200 : 204;
        break;
    case RECEIVER_SLOW:
        delay = 500 + alone_draw(world, 1600);
        pending.result = delay >= 2000 ? TR_CALLBACK_TIMED_OUT : TR_CALLBACK_ANSWERED;
        break;
    case RECEIVER_BROKEN:
        pending.status = alone_draw(world, 3) == 0 ? 200 : 500;
        pending.retry_after_ms = alone_draw(world, 4) == 0 ? alone_draw(world, 10000) : 0;
        break;
    case RECEIVER_GONE:
        pending.result = TR_CALLBACK_UNREACHED;
        break;
    case RECEIVER_MUTE:
        pending.result = TR_CALLBACK_TIMED_OUT;
        delay = 2000;
        break;
    }
    add_pending(world, pending, delay);
}

static void note(struct alone *world, const struct tr_effect *effect)
{
    alone_trace(world, "notes", (uint64_t)effect->of.note.what, effect->of.note.number);
    bool is_lost =
        effect->of.note.what == TR_NOTE_DEAD || effect->of.note.what == TR_NOTE_DISCARDED;
    for (uint32_t i = 1; is_lost && i < world->model.count; i++) {
        struct sim_write *write = &world->model.writes[i];
        if (write->id == effect->of.note.id && effect->of.note.number <= SIM_POPS_MAX)
            write->is_dead[effect->of.note.number - 1] = true;
    }
}

static void carry_out(struct alone *world, const struct tr_effect *effect)
{
    uint64_t delay = world->is_healed            ? 1
                     : alone_draw(world, 4) == 0 ? alone_draw(world, 300)
                                                 : alone_draw(world, 4);
    struct pending pending = {0};
    switch (effect->kind) {
    case TR_EFFECT_ANSWER:
        settle_request(world, effect->of.answer.token, effect->of.answer.result,
                       effect->of.answer.has_location ? &effect->of.answer.location : NULL);
        return;
    case TR_EFFECT_ANSWER_TIMER:
    case TR_EFFECT_KEY:
    case TR_EFFECT_KEY_PAGE:
    case TR_EFFECT_ANSWER_PAGE:
        return;
    case TR_EFFECT_FIRE:
        fire(world, effect);
        return;
    case TR_EFFECT_LOG_WRITE:
        alone_trace(world, "writes", effect->of.log.segment, effect->of.log.end);
        sim_disk_write(&world->disk, effect);
        pending.what = HAPPENS_SYNC;
        pending.number = effect->of.log.end;
        add_pending(world, pending, delay);
        return;
    case TR_EFFECT_SEGMENT_ALLOCATE:
        pending.what =
            sim_disk_allocate(&world->disk, effect->of.segment.number, effect->of.segment.size)
                ? HAPPENS_ALLOCATED
                : HAPPENS_REFUSED;
        pending.number = effect->of.segment.number;
        alone_trace(world, "allocates", pending.number, pending.what);
        add_pending(world, pending, 1);
        return;
    case TR_EFFECT_SEGMENT_REMOVE:
        alone_trace(world, "removes", effect->of.segment.number, 0);
        sim_disk_remove(&world->disk, effect->of.segment.number);
        return;
    case TR_EFFECT_SEGMENT_TRIM:
        alone_trace(world, "trims", effect->of.segment.number, effect->of.segment.size);
        sim_disk_trim(&world->disk, effect->of.segment.number, effect->of.segment.size);
        return;
    case TR_EFFECT_RECOVERED:
        alone_trace(world, "recovered", 0, 0);
        world->is_ready = true;
        world->well_ms = world->now_ms;
        return;
    case TR_EFFECT_REFUSED:
        alone_trace(world, "refuses", (uint64_t)effect->of.check.verdict, effect->of.check.offset);
        world->is_stopped = true;
        world->is_too_small = world->is_tight && effect->of.check.verdict == TR_LOG_NO_MEMORY;
        return;
    case TR_EFFECT_NOTE:
        note(world, effect);
        return;
    case TR_EFFECT_STOPPED:
        alone_trace(world, "stopped", 0, 0);
        world->is_stopped = true;
        return;
    case TR_EFFECT_FRAME_SEND:
    case TR_EFFECT_LINK_RESET:
        return; /* it is alone */
    }
}

/* Effects of one step are independent: they are carried out in any order, but for the disk's own,
 * which are a queue. */
static void step_node(struct alone *world, struct tr_event *event, bool has_more)
{
    event->now_ms = world->now_ms - world->boot_ms;
    event->wall_ms = (uint64_t)((int64_t)world->now_ms + world->wall_step);
    event->has_more = has_more;
    world->is_turn_open = has_more;
    tr_node_step(world->node, event, world->effects);
    world->steps++;
    uint32_t count = world->effects->count;
    uint32_t start = count > 0 ? (uint32_t)alone_draw(world, count) : 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            const struct tr_effect *effect = &world->effects->items[(start + i) % count];
            bool is_disk =
                effect->kind >= TR_EFFECT_LOG_WRITE && effect->kind <= TR_EFFECT_SEGMENT_TRIM;
            const struct tr_effect *in_order = &world->effects->items[i];
            bool is_disk_in_order =
                in_order->kind >= TR_EFFECT_LOG_WRITE && in_order->kind <= TR_EFFECT_SEGMENT_TRIM;
            if (pass == 0 && !is_disk)
                carry_out(world, effect);
            if (pass == 1 && is_disk_in_order)
                carry_out(world, in_order);
        }
    }
    if (alone_draw(world, 64) == 0 && !tr_node_valid(world->node))
        world->model.broken = "the node's structures disagree";
    if (world->has_keys)
        alone_keys_look(world);
}

void alone_step(struct alone *world, struct tr_event *event)
{
    step_node(world, event, alone_draw(world, 3) == 0);
}

void alone_look_at_clock(struct alone *world)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    step_node(world, &event, true);
}

static void tick(struct alone *world)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    alone_step(world, &event);
}

/* Of itself alone. Nothing comes of it but that the node runs when it has recovered. */
static void set_view(struct alone *world, struct tr_span address)
{
    struct tr_view_node self = {.address = address, .role = TR_ROLE_STAYING};
    struct tr_event event = {.kind = TR_EVENT_VIEW_CHANGED, .of.view = {&self, 1}};
    event.now_ms = world->now_ms - world->boot_ms;
    event.wall_ms = (uint64_t)((int64_t)world->now_ms + world->wall_step);
    tr_node_step(world->node, &event, world->effects);
    TR_ASSERT(world->effects->count == 0);
}

void alone_start(struct alone *world)
{
    struct tr_node_config config = {
        .address = TR_SPAN("127.0.0.1:7253"),
        .seed = tr_random_next(&world->random),
        .identity = 5,
        .has_log = world->has_log,
        .is_always_synced = true,
        .segment_size = SEGMENT_SIZE,
        .opaque_max = OPAQUE_MAX,
        .value_max = VALUE_MAX,
        .flights_max = FLIGHTS,
        .per_destination = 1 + (uint32_t)alone_draw(world, 8),
        .attempts_max = 2 + (uint32_t)alone_draw(world, 4),
        .backoff_ms = 100,
        .dead_keep_ms = 86400000,
        .key_keep_ms = 3600000,
        .latency_target_ms = 500,
        .mutant = (uint32_t)world->mutant,
    };
    if (world->has_keys && alone_draw(world, 2) == 0)
        config.limits.slice = 1 + (uint32_t)alone_draw(world, 4);
    if (world->is_tight)
        config.limits.memory = TR_ARENA_LEAST;
    struct tr_memory memory = {world->region, MEMORY_SIZE};
    memset(world->region, 0, MEMORY_SIZE);
    world->boot_ms = world->now_ms - alone_draw(world, world->now_ms);
    world->is_ready = false;
    world->are_keys_told = false;
    world->is_stopped = false;
    world->node = tr_node_new(&config, &memory);
    TR_ASSERT(world->node != NULL);
    set_view(world, config.address);
    struct tr_event event = {.kind = TR_EVENT_RECOVERY_STARTED};
    free(world->replaying);
    world->replaying = sim_disk_list(&world->disk, &event.of.recovery.count);
    event.of.recovery.segments = world->replaying;
    alone_trace(world, "starts", event.of.recovery.count, 0);
    alone_step(world, &event);
    for (unsigned i = 0; !world->is_ready && !world->is_stopped; i++) {
        TR_ASSERT(i < 100000);
        if (!alone_advance(world, UINT64_MAX))
            tick(world);
    }
    /* Pieces of each size have blocks of their own, and of the least memory a block is much: in
     * another order pieces may need one more. The operator gives it more. */
    if (world->is_too_small) {
        world->is_too_small = false;
        world->is_tight = false;
        alone_start(world);
        return;
    }
    if (world->is_stopped)
        world->model.broken = "a log that was not damaged was refused";
    else if (world->has_keys)
        alone_keys_started(world);
}

void alone_crash(struct alone *world)
{
    bool is_killed = alone_draw(world, 3) == 0;
    alone_trace(world, is_killed ? "is killed" : "crashes", world->disk.is_writing, 0);
    if (is_killed)
        sim_disk_kill(&world->disk);
    else
        sim_disk_crash(&world->disk);
    for (uint32_t i = 0; i < world->open_count; i++)
        world->model.writes[world->open[i].write].is_maybe = true;
    world->open_count = 0;
    world->pending_count = 0;
    world->epoch++;
    world->now_ms += alone_draw(world, 5000);
    alone_start(world);
}

/* A clean stop and start: nothing may pop twice for it. */
void alone_restart(struct alone *world)
{
    struct tr_event event = {.kind = TR_EVENT_DRAIN_ASKED};
    alone_trace(world, "drains", 0, 0);
    world->disk.limit = SIZE_MAX; /* a disk that stays full would hold it up */
    alone_step(world, &event);
    for (unsigned i = 0; !world->is_stopped; i++) {
        if (i > 100000 || !alone_advance(world, UINT64_MAX)) {
            world->model.broken = "a drain that does not end";
            return;
        }
    }
    if (world->open_count > 0)
        world->model.broken = "a drain left a request without an answer";
    world->pending_count = 0;
    world->now_ms += alone_draw(world, 1000);
    alone_start(world);
}

/* ---- time ---- */

static void happen(struct alone *world, uint32_t index)
{
    struct pending pending = world->pending[index];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    world->pending[index] = world->pending[--world->pending_count];
    switch (pending.what) {
    case HAPPENS_CALLBACK:
        event.kind = TR_EVENT_CALLBACK_ENDED;
        event.of.callback.flight = pending.flight;
        event.of.callback.result = pending.result;
        event.of.callback.status = pending.status;
        event.of.callback.retry_after_ms = pending.retry_after_ms;
        if (pending.result == TR_CALLBACK_ANSWERED && pending.status / 100 == 2)
            sim_model_deliver(&world->model, pending.write, pending.sequence, world->now_ms,
                              world->epoch);
        alone_trace(world, "ended", pending.write,
                    pending.result == TR_CALLBACK_ANSWERED ? pending.status : 0);
        break;
    case HAPPENS_SYNC:
        sim_disk_sync(&world->disk);
        event.kind = TR_EVENT_LOG_WRITTEN;
        event.of.log.written = pending.number;
        event.of.log.synced = pending.number;
        alone_trace(world, "synced", pending.number, 0);
        break;
    case HAPPENS_ALLOCATED:
        event.kind = TR_EVENT_SEGMENT_ALLOCATED;
        event.of.segment.number = pending.number;
        break;
    case HAPPENS_REFUSED:
        event.kind = TR_EVENT_SEGMENT_REFUSED;
        break;
    case HAPPENS_NOTHING:
        break;
    }
    alone_step(world, &event);
    if (pending.what != HAPPENS_CALLBACK)
        alone_keys_go_on(world);
}

/* Lets the next thing happen, at `limit_ms` at the latest. False: nothing before that. */
bool alone_advance(struct alone *world, uint64_t limit_ms)
{
    if (world->is_turn_open) {
        struct tr_event event = {.kind = TR_EVENT_TICK};
        step_node(world, &event, false);
        return true;
    }
    tr_mono_ms wake = tr_node_wake_at(world->node);
    uint64_t wake_ms = wake == TR_NEVER ? UINT64_MAX : wake + world->boot_ms;
    wake_ms = wake_ms > world->now_ms ? wake_ms : world->now_ms;
    uint32_t next = next_pending(world);
    uint64_t next_ms = next == UINT32_MAX ? UINT64_MAX : world->pending[next].at_ms;
    bool is_over = next_ms == UINT64_MAX && wake_ms == UINT64_MAX;
    if (is_over || (next_ms > limit_ms && wake_ms > limit_ms))
        return false;
    if (next_ms <= wake_ms) {
        world->now_ms = next_ms > world->now_ms ? next_ms : world->now_ms;
        happen(world, next);
    } else {
        world->now_ms = wake_ms;
        tick(world);
    }
    return true;
}
