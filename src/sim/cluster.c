/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world for a cluster: several nodes, each with its disk and its clock, and links between them
 * that are slow, stall or break. Faults are drawn for a life as a whole, so that some lives have
 * none: there nothing may be late, double or lost.
 */
#include "base/assert.h"
#include "sim/disk.h"
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINES_MAX 7
#define MEMORY_SIZE  ((size_t)32 << 20)
#define SEGMENT_SIZE ((size_t)96 << 10)
#define OPAQUE_MAX   1024
#define FLIGHTS      64
#define RECEIVERS    4
#define TRACE_MAX    200
#define OPEN_MAX     64
#define STEPS_MAX    3000000
#define HEAL_MS      200000 /* after which everything must have come to its end */
#define CLEAR_MS     90000  /* for what nobody waits for: replaced timers, debts */

enum happening {
    HAPPENS_CALLBACK,
    HAPPENS_SYNC,
    HAPPENS_ALLOCATED,
    HAPPENS_FRAME,
    HAPPENS_SENT,
    HAPPENS_LINK_UP,
    HAPPENS_LINK_DOWN,
    HAPPENS_START,
};

struct pending {
    uint64_t at_ms;
    uint64_t order; /* ties: as they were made */
    enum happening what;
    uint32_t machine;
    uint32_t epoch; /* of the machine: what was for an earlier one is lost */
    uint32_t other; /* the other end of a link */
    uint32_t link_epoch;
    uint64_t number; /* a flight, a position, or a segment */
    enum tr_callback_result result;
    unsigned status;
    uint32_t write;
    uint64_t sequence;
    uint8_t *bytes;
    size_t size;
};

struct trace {
    uint64_t at_ms;
    const char *what;
    uint64_t a;
    uint64_t b;
    uint64_t c;
};

struct machine {
    struct tr_node *node;
    void *region;
    struct sim_disk disk;
    struct tr_log_segment *replaying;
    char address[32];
    uint64_t boot_ms;
    int64_t skew_ms; /* how far its wall clock is from true time */
    uint64_t paused_until_ms;
    uint32_t epoch;
    bool is_running;
    bool is_ready;
};

struct link {
    bool is_up;
    uint32_t epoch;
    uint64_t stalled_until_ms;
    uint64_t last_ms[2]; /* frames of one direction keep their order */
};

struct open_request {
    uint64_t token;
    uint32_t write;
    uint32_t machine;
};

/* What may go wrong in a life. */
struct faults {
    bool crashes;
    bool pauses;
    bool breaks;
    bool stalls;
    bool receivers;
};

struct world {
    struct tr_random random;
    struct sim_model model;
    struct machine machines[MACHINES_MAX];
    uint32_t machine_count;
    struct link links[MACHINES_MAX][MACHINES_MAX]; /* [lower][higher] */
    struct faults faults;
    struct tr_effects *effects;
    uint64_t now_ms;
    struct pending *heap;
    uint32_t heap_count;
    uint32_t heap_cap;
    uint64_t order;
    struct open_request open[OPEN_MAX];
    uint32_t open_count;
    uint64_t token;
    unsigned receiver_status[RECEIVERS]; /* 0: nobody listens */
    bool is_healed;
    bool is_verbose;
    uint64_t trace_hash;
    struct trace traces[TRACE_MAX];
    uint64_t trace_count;
    uint64_t steps;
    uint64_t crashes;
    uint64_t frames;
    struct tr_timer_body body;
    char uri[64];
    char opaque[OPAQUE_MAX];
};

static uint64_t draw(struct world *world, uint64_t bound)
{
    return tr_random_below(&world->random, bound);
}

static void print_line(const struct trace *line)
{
    printf("%10llu %-10s %llu %llu %llu\n", (unsigned long long)(line->at_ms % 1000000000),
           line->what, (unsigned long long)line->a, (unsigned long long)line->b,
           (unsigned long long)line->c);
}

static void trace(struct world *world, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
    struct trace line = {world->now_ms, what, a, b, c};
    uint64_t words[5] = {line.at_ms, (uint64_t)what[0] << 8 | (uint64_t)what[1], a, b, c};
    world->trace_hash = tr_hash_mix(world->trace_hash ^ tr_hash_xxh3(words, sizeof words));
    world->traces[world->trace_count++ % TRACE_MAX] = line;
    if (world->is_verbose)
        print_line(&line);
}

/* ---- what will happen ---- */

static bool is_before(const struct pending *a, const struct pending *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void add_pending(struct world *world, struct pending pending)
{
    if (world->heap_count == world->heap_cap) {
        world->heap_cap = world->heap_cap * 2 > 256 ? world->heap_cap * 2 : 256;
        world->heap = realloc(world->heap, world->heap_cap * sizeof *world->heap);
        TR_ASSERT(world->heap != NULL);
    }
    pending.order = world->order++;
    uint32_t at = world->heap_count++;
    while (at > 0 && is_before(&pending, &world->heap[(at - 1) / 2])) {
        world->heap[at] = world->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->heap[at] = pending;
}

static struct pending take_pending(struct world *world)
{
    struct pending first = world->heap[0];
    struct pending last = world->heap[--world->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= world->heap_count)
            break;
        if (child + 1 < world->heap_count &&
            is_before(&world->heap[child + 1], &world->heap[child]))
            child++;
        if (!is_before(&world->heap[child], &last))
            break;
        world->heap[at] = world->heap[child];
        at = child;
    }
    if (world->heap_count > 0)
        world->heap[at] = last;
    return first;
}

static void plan(struct world *world, uint32_t machine, struct pending pending, uint64_t delay_ms)
{
    pending.at_ms = world->now_ms + delay_ms;
    pending.machine = machine;
    pending.epoch = world->machines[machine].epoch;
    add_pending(world, pending);
}

/* ---- links ---- */

static struct link *link_of(struct world *world, uint32_t a, uint32_t b)
{
    return a < b ? &world->links[a][b] : &world->links[b][a];
}

static uint16_t member_of(const struct world *world, uint32_t machine, uint32_t other)
{
    const char *address = world->machines[other].address;
    return tr_node_member(world->machines[machine].node,
                          (struct tr_span){address, strlen(address)});
}

static uint32_t machine_of(const struct world *world, uint32_t machine, uint16_t member)
{
    uint32_t other = 0;
    while (other < world->machine_count && member_of(world, machine, other) != member)
        other++;
    TR_ASSERT(other < world->machine_count);
    return other;
}

/* Each end hears of it in its own time. */
static void break_link(struct world *world, uint32_t a, uint32_t b)
{
    struct link *link = link_of(world, a, b);
    if (!link->is_up)
        return;
    trace(world, "breaks", a, b, 0);
    link->is_up = false;
    link->epoch++;
    struct pending down = {.what = HAPPENS_LINK_DOWN};
    down.other = b;
    plan(world, a, down, draw(world, 5));
    down.other = a;
    plan(world, b, down, draw(world, 5));
}

static void connect_links(struct world *world)
{
    for (uint32_t a = 0; a < world->machine_count; a++) {
        for (uint32_t b = a + 1; b < world->machine_count; b++) {
            struct link *link = link_of(world, a, b);
            bool is_possible = world->machines[a].is_ready && world->machines[b].is_ready;
            if (link->is_up || !is_possible || draw(world, 4) != 0)
                continue;
            link->is_up = true;
            link->epoch++;
            link->last_ms[0] = link->last_ms[1] = world->now_ms;
            struct pending up = {.what = HAPPENS_LINK_UP, .link_epoch = link->epoch};
            up.other = b;
            plan(world, a, up, 10);
            up.other = a;
            plan(world, b, up, 10);
        }
    }
}

static void send_frame(struct world *world, uint32_t from, const struct tr_effect *effect)
{
    uint32_t to = machine_of(world, from, effect->of.frame.peer);
    struct link *link = link_of(world, from, to);
    struct pending pending = {.link_epoch = link->epoch};
    uint64_t delay = draw(world, 20) == 0 ? draw(world, 60) : draw(world, 3);
    uint64_t at = world->now_ms + 1 + delay;
    uint64_t *last = &link->last_ms[from < to];
    at = at > link->stalled_until_ms ? at : link->stalled_until_ms;
    at = at > *last ? at : *last;
    *last = at;
    world->frames++;
    pending.what = HAPPENS_SENT;
    pending.other = to;
    plan(world, from, pending, draw(world, 2));
    if (!link->is_up)
        return; /* the sender has not heard of it yet */
    pending.what = HAPPENS_FRAME;
    pending.other = from;
    pending.bytes = malloc(effect->of.frame.size);
    pending.size = effect->of.frame.size;
    TR_ASSERT(pending.bytes != NULL);
    memcpy(pending.bytes, effect->of.frame.bytes, pending.size);
    plan(world, to, pending, at - world->now_ms);
}

/* ---- a node's effects ---- */

static void settle_request(struct world *world, const struct tr_effect *effect)
{
    for (uint32_t i = 0; i < world->open_count; i++) {
        if (world->open[i].token != effect->of.answer.token)
            continue;
        struct sim_write *write = &world->model.writes[world->open[i].write];
        write->is_acked = effect->of.answer.status == 200;
        write->is_refused = !write->is_acked;
        write->is_maybe = !write->is_acked && effect->of.answer.has_location;
        if (write->is_acked && effect->of.answer.has_location)
            write->id = effect->of.answer.location.id;
        trace(world, "answered", world->open[i].write, effect->of.answer.status, write->id);
        world->open[i] = world->open[--world->open_count];
        return;
    }
}

static void fire(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    struct machine *machine = &world->machines[index];
    struct tr_record record;
    tr_node_record(machine->node, effect->of.fire.ref, &record);
    char number[16] = {0};
    memcpy(number, record.opaque.text, record.opaque.size < 15 ? record.opaque.size : 15);
    uint32_t write = (uint32_t)strtoul(number, NULL, 10);
    uint64_t sequence = tr_record_pop(&record);
    trace(world, "fires", index, write, sequence);
    sim_model_fire(&world->model, write, sequence, world->now_ms, 0);
    unsigned status = world->is_healed ? 200 : world->receiver_status[write % RECEIVERS];
    struct pending pending = {
        .what = HAPPENS_CALLBACK,
        .number = effect->of.fire.flight,
        .result = status == 0 ? TR_CALLBACK_UNREACHED : TR_CALLBACK_ANSWERED,
        .status = status,
        .write = write,
        .sequence = sequence,
    };
    /* That a receiver is slow is no fault: it is called once all the same. */
    uint64_t delay = draw(world, 30) == 0 ? draw(world, 9000) : draw(world, 20);
    plan(world, index, pending, 1 + (world->is_healed ? draw(world, 20) : delay));
}

static void note(struct world *world, const struct tr_effect *effect)
{
    trace(world, "notes", (uint64_t)effect->of.note.what, effect->of.note.id,
          effect->of.note.number);
    bool is_lost =
        effect->of.note.what == TR_NOTE_DEAD || effect->of.note.what == TR_NOTE_DISCARDED;
    for (uint32_t i = 1; is_lost && i < world->model.count; i++) {
        struct sim_write *write = &world->model.writes[i];
        if (write->id == effect->of.note.id && effect->of.note.number <= SIM_POPS_MAX)
            write->is_dead[effect->of.note.number - 1] = true;
    }
}

static void carry_out(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    struct machine *machine = &world->machines[index];
    struct pending pending = {0};
    switch (effect->kind) {
    case TR_EFFECT_ANSWER:
        settle_request(world, effect);
        return;
    case TR_EFFECT_FIRE:
        fire(world, index, effect);
        return;
    case TR_EFFECT_LOG_WRITE:
        sim_disk_write(&machine->disk, effect);
        pending.what = HAPPENS_SYNC;
        pending.number = effect->of.log.end;
        plan(world, index, pending, 1 + draw(world, 4));
        return;
    case TR_EFFECT_SEGMENT_ALLOCATE:
        sim_disk_allocate(&machine->disk, effect->of.segment.number, effect->of.segment.size);
        pending.what = HAPPENS_ALLOCATED;
        pending.number = effect->of.segment.number;
        plan(world, index, pending, 1);
        return;
    case TR_EFFECT_SEGMENT_REMOVE:
        sim_disk_remove(&machine->disk, effect->of.segment.number);
        return;
    case TR_EFFECT_SEGMENT_TRIM:
        sim_disk_trim(&machine->disk, effect->of.segment.number, effect->of.segment.size);
        return;
    case TR_EFFECT_RECOVERED:
        machine->is_ready = true;
        return;
    case TR_EFFECT_REFUSED:
        trace(world, "refuses", index, (uint64_t)effect->of.check.verdict, effect->of.check.offset);
        world->model.broken = "a log that was not damaged was refused";
        return;
    case TR_EFFECT_NOTE:
        note(world, effect);
        return;
    case TR_EFFECT_FRAME_SEND:
        send_frame(world, index, effect);
        return;
    case TR_EFFECT_LINK_RESET:
        break_link(world, index, machine_of(world, index, effect->of.frame.peer));
        return;
    case TR_EFFECT_ANSWER_TIMER:
    case TR_EFFECT_ANSWER_PAGE:
    case TR_EFFECT_STOPPED:
        return;
    }
}

static void set_view(struct world *world, uint32_t index);

static void step(struct world *world, uint32_t index, struct tr_event *event)
{
    struct machine *machine = &world->machines[index];
    bool was_ready = machine->is_ready;
    event->now_ms = world->now_ms - machine->boot_ms;
    event->wall_ms = (uint64_t)((int64_t)world->now_ms + machine->skew_ms);
    event->has_more = draw(world, 4) == 0;
    tr_node_step(machine->node, event, world->effects);
    world->steps++;
    for (uint32_t i = 0; i < world->effects->count; i++)
        carry_out(world, index, &world->effects->items[i]);
    if (draw(world, 512) == 0 && !tr_node_valid(machine->node))
        world->model.broken = "a node's structures disagree";
    if (!was_ready && machine->is_ready)
        set_view(world, index);
}

static void set_view(struct world *world, uint32_t index)
{
    struct tr_view_node nodes[MACHINES_MAX];
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const char *address = world->machines[i].address;
        nodes[i] = (struct tr_view_node){{address, strlen(address)}, TR_ROLE_STAYING};
    }
    struct tr_event event = {.kind = TR_EVENT_VIEW_CHANGED};
    event.of.view.nodes = nodes;
    event.of.view.count = world->machine_count;
    step(world, index, &event);
}

/* ---- starts and ends ---- */

static void start_machine(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    struct tr_node_config config = {
        .address = {machine->address, strlen(machine->address)},
        .seed = tr_random_next(&world->random),
        .identity = (uint16_t)index,
        .has_log = true,
        .is_always_synced = true,
        .segment_size = SEGMENT_SIZE,
        .opaque_max = OPAQUE_MAX,
        .flights_max = FLIGHTS,
        .messages_max = 4096,
        .operations_max = 64,
        .per_destination = 32,
        .attempts_max = 8,
        .backoff_ms = 100,
        .dead_keep_ms = 86400000,
        .key_keep_ms = 3600000,
        .latency_target_ms = 500,
    };
    memset(&config.store_id, (int)(index + 1), sizeof config.store_id);
    machine->region = calloc(1, MEMORY_SIZE);
    TR_ASSERT(machine->region != NULL);
    struct tr_memory memory = {machine->region, MEMORY_SIZE};
    machine->node = tr_node_new(&config, &memory);
    TR_ASSERT(machine->node != NULL);
    machine->boot_ms = world->now_ms - 1000 - draw(world, 100000);
    machine->is_running = true;
    machine->is_ready = false;
    struct tr_event event = {.kind = TR_EVENT_RECOVERY_STARTED};
    free(machine->replaying);
    machine->replaying = sim_disk_list(&machine->disk, &event.of.recovery.count);
    event.of.recovery.segments = machine->replaying;
    trace(world, "starts", index, event.of.recovery.count, 0);
    step(world, index, &event);
}

static void crash(struct world *world, uint32_t index)
{
    struct machine *machine = &world->machines[index];
    if (!machine->is_running)
        return;
    trace(world, "crashes", index, 0, 0);
    for (uint32_t other = 0; other < world->machine_count; other++) {
        if (other != index)
            break_link(world, index, other);
    }
    sim_disk_crash(&machine->disk);
    for (uint32_t i = 0; i < world->open_count;) {
        if (world->open[i].machine != index) {
            i++;
            continue;
        }
        world->model.writes[world->open[i].write].is_maybe = true;
        world->open[i] = world->open[--world->open_count];
    }
    machine->epoch++;
    machine->is_running = false;
    machine->is_ready = false;
    free(machine->region);
    machine->region = NULL;
    machine->node = NULL;
    world->crashes++;
    plan(world, index, (struct pending){.what = HAPPENS_START}, draw(world, 6000));
}

/* ---- clients ---- */

static uint64_t draw_interval(struct world *world)
{
    switch (draw(world, 6)) {
    case 0:
        return 1 + draw(world, 50);
    case 1:
        return 20000 + draw(world, 20000);
    default:
        return 1 + draw(world, 6000);
    }
}

static void fill_body(struct world *world, uint32_t number, uint64_t interval_ms, uint32_t pops)
{
    int size = snprintf(world->opaque, sizeof world->opaque, "%u ", number);
    size_t extra = draw(world, 60);
    memset(world->opaque + size, 'x', extra);
    snprintf(world->uri, sizeof world->uri, "http://receiver-%u/pop", number % RECEIVERS);
    world->body = (struct tr_timer_body){
        .interval_ms = interval_ms,
        .repeat_ms = pops > 1 ? interval_ms * pops : 0,
        .uri = {world->uri, strlen(world->uri)},
        .opaque = {world->opaque, (size_t)size + extra},
        .factor = world->model.writes[number].factor,
    };
}

/* An earlier timer that was acknowledged, the latest write to its id; 0: none was found. */
static uint32_t pick_write(struct world *world)
{
    for (unsigned i = 0; i < 8 && world->model.count > 1; i++) {
        uint32_t number = 1 + (uint32_t)draw(world, world->model.count - 1);
        while (world->model.writes[number].replaced_by != 0)
            number = world->model.writes[number].replaced_by;
        const struct sim_write *write = &world->model.writes[number];
        bool is_open = !write->is_acked && !write->is_refused && !write->is_maybe;
        if (write->id != 0 && !is_open)
            return number;
    }
    return 0;
}

static void ask(struct world *world)
{
    uint32_t index = (uint32_t)draw(world, world->machine_count);
    struct machine *machine = &world->machines[index];
    if (world->open_count == OPEN_MAX || !machine->is_ready ||
        machine->paused_until_ms > world->now_ms)
        return;
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    uint32_t old = draw(world, 3) == 0 ? pick_write(world) : 0;
    bool is_cancel = old != 0 && draw(world, 2) == 0;
    uint64_t interval = draw_interval(world);
    bool is_repeated = interval < 10000 && draw(world, 4) == 0;
    uint32_t pops = is_repeated ? 1 + (uint32_t)draw(world, SIM_POPS_MAX) : 1;
    uint32_t number =
        sim_model_ask(&world->model, (struct sim_write){
                                         .id = old != 0 ? world->model.writes[old].id : 0,
                                         .asked_ms = world->now_ms,
                                         .interval_ms = interval,
                                         .pops = is_cancel ? 0 : pops,
                                         .factor = old != 0 ? world->model.writes[old].factor
                                                            : 1 + (uint32_t)draw(world, 3),
                                     });
    sim_model_follow(&world->model, old, number);
    fill_body(world, number, interval, pops);
    event.of.request.token = ++world->token;
    event.of.request.kind = old == 0 ? TR_API_CREATE : is_cancel ? TR_API_CANCEL : TR_API_REPLACE;
    event.of.request.body = &world->body;
    if (old != 0)
        event.of.request.timer = (struct tr_timer_text){
            .id = world->model.writes[old].id,
            .factor = world->model.writes[old].factor,
        };
    world->open[world->open_count++] = (struct open_request){world->token, number, index};
    trace(world,
          is_cancel  ? "cancels"
          : old != 0 ? "replaces"
                     : "creates",
          index, number, interval);
    step(world, index, &event);
}

/* ---- time ---- */

static void happen(struct world *world, const struct pending *pending)
{
    struct machine *machine = &world->machines[pending->machine];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    bool is_link = pending->what >= HAPPENS_FRAME && pending->what <= HAPPENS_LINK_DOWN;
    if (pending->epoch != machine->epoch)
        return;
    if (pending->what == HAPPENS_START) {
        start_machine(world, pending->machine);
        return;
    }
    if (!machine->is_running)
        return;
    if (is_link) {
        event.of.frame.peer = member_of(world, pending->machine, pending->other);
        bool is_same =
            link_of(world, pending->machine, pending->other)->epoch == pending->link_epoch;
        if (pending->what != HAPPENS_LINK_DOWN && !is_same)
            return;
        if (event.of.frame.peer == TR_MEMBER_NONE)
            return;
    }
    switch (pending->what) {
    case HAPPENS_CALLBACK:
        event.kind = TR_EVENT_CALLBACK_ENDED;
        event.of.callback.flight = (uint32_t)pending->number;
        event.of.callback.result = pending->result;
        event.of.callback.status = pending->status;
        trace(world, "ended", pending->machine, pending->write,
              pending->result == TR_CALLBACK_ANSWERED ? pending->status : 0);
        if (pending->result == TR_CALLBACK_ANSWERED && pending->status / 100 == 2)
            sim_model_deliver(&world->model, pending->write, pending->sequence, 0);
        break;
    case HAPPENS_SYNC:
        sim_disk_sync(&machine->disk);
        event.kind = TR_EVENT_LOG_WRITTEN;
        event.of.log.written = pending->number;
        event.of.log.synced = pending->number;
        break;
    case HAPPENS_ALLOCATED:
        event.kind = TR_EVENT_SEGMENT_ALLOCATED;
        event.of.segment.number = pending->number;
        break;
    case HAPPENS_FRAME:
        event.kind = TR_EVENT_FRAME_RECEIVED;
        event.of.frame.bytes = pending->bytes;
        event.of.frame.size = pending->size;
        break;
    case HAPPENS_SENT:
        event.kind = TR_EVENT_FRAME_SENT;
        break;
    case HAPPENS_LINK_UP:
        event.kind = TR_EVENT_LINK_UP;
        break;
    case HAPPENS_LINK_DOWN:
        event.kind = TR_EVENT_LINK_DOWN;
        break;
    case HAPPENS_START:
        break;
    }
    step(world, pending->machine, &event);
}

/* The machine that wants to be woken first, and when. */
static uint64_t next_wake(const struct world *world, uint32_t *index)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];
        if (!machine->is_running)
            continue;
        tr_mono_ms wake = tr_node_wake_at(machine->node);
        if (wake == TR_NODE_NEVER)
            continue;
        uint64_t at = wake + machine->boot_ms;
        at = at > machine->paused_until_ms ? at : machine->paused_until_ms;
        at = at > world->now_ms ? at : world->now_ms;
        if (at < best) {
            best = at;
            *index = i;
        }
    }
    return best;
}

/* Lets things happen until `limit_ms`. */
static void advance(struct world *world, uint64_t limit_ms)
{
    while (world->model.broken == NULL) {
        uint32_t index = 0;
        uint64_t wake_ms = next_wake(world, &index);
        uint64_t next_ms = world->heap_count > 0 ? world->heap[0].at_ms : UINT64_MAX;
        if (next_ms > limit_ms && wake_ms > limit_ms)
            break;
        if (world->steps > STEPS_MAX) {
            world->model.broken = "it goes on and on";
            break;
        }
        if (next_ms > wake_ms) {
            struct tr_event event = {.kind = TR_EVENT_TICK};
            world->now_ms = wake_ms;
            step(world, index, &event);
            continue;
        }
        struct pending pending = take_pending(world);
        uint64_t paused = world->machines[pending.machine].paused_until_ms;
        world->now_ms = next_ms > world->now_ms ? next_ms : world->now_ms;
        if (paused > world->now_ms) { /* it waits with the machine */
            pending.at_ms = paused;
            add_pending(world, pending);
            continue;
        }
        happen(world, &pending);
        free(pending.bytes);
    }
    world->now_ms = limit_ms > world->now_ms ? limit_ms : world->now_ms;
}

static void disturb(struct world *world)
{
    uint32_t a = (uint32_t)draw(world, world->machine_count);
    uint32_t b = (uint32_t)draw(world, world->machine_count);
    switch (draw(world, 60)) {
    case 0:
        if (world->faults.crashes)
            crash(world, a);
        return;
    case 1:
        if (world->faults.pauses) {
            world->machines[a].paused_until_ms = world->now_ms + draw(world, 4000);
            trace(world, "pauses", a, 0, 0);
        }
        return;
    case 2:
    case 3:
        if (world->faults.breaks && a != b)
            break_link(world, a, b);
        return;
    case 4:
        if (world->faults.stalls && a != b) {
            link_of(world, a, b)->stalled_until_ms = world->now_ms + draw(world, 4000);
            trace(world, "stalls", a, b, 0);
        }
        return;
    case 5:
        if (world->faults.receivers)
            world->receiver_status[draw(world, RECEIVERS)] = draw(world, 2) == 0 ? 503 : 0;
        return;
    case 6:
    case 7:
        world->receiver_status[draw(world, RECEIVERS)] = 200;
        return;
    default:
        return;
    }
}

static void live(struct world *world, uint32_t writes)
{
    for (uint32_t i = 0; i < 20 && world->model.broken == NULL; i++) { /* all come up first */
        advance(world, world->now_ms + 200);
        connect_links(world);
    }
    for (uint32_t i = 0; i < writes && world->model.broken == NULL; i++) {
        advance(world, world->now_ms + (draw(world, 3) == 0 ? draw(world, 400) : draw(world, 20)));
        ask(world);
        disturb(world);
        connect_links(world);
    }
}

static void check_end(struct world *world)
{
    sim_model_finish(&world->model);
    for (uint32_t i = 0; i < world->machine_count && world->model.broken == NULL; i++) {
        struct tr_node_stats stats;
        tr_node_stats(world->machines[i].node, &stats);
        if (!tr_node_valid(world->machines[i].node))
            world->model.broken = "a node's structures disagree";
        else if (stats.timers > 0 || stats.debts > 0 || stats.queued > 0 || stats.flights > 0)
            world->model.broken = "something is left over";
    }
    if (world->model.broken == NULL && world->open_count > 0)
        world->model.broken = "a request was never answered";
}

static void heal(struct world *world)
{
    world->is_healed = true;
    trace(world, "heals", 0, 0, 0);
    uint64_t end_ms = world->now_ms + HEAL_MS;
    while (world->now_ms < end_ms && world->model.broken == NULL) {
        advance(world, world->now_ms + 1000);
        connect_links(world);
        if (world->now_ms + CLEAR_MS < end_ms && sim_model_is_done(&world->model))
            end_ms = world->now_ms + CLEAR_MS;
    }
    if (world->model.broken == NULL)
        check_end(world);
}

static void draw_faults(struct world *world)
{
    if (draw(world, 3) == 0)
        return;
    world->faults = (struct faults){
        .crashes = draw(world, 2) == 0,
        .pauses = draw(world, 3) == 0,
        .breaks = draw(world, 2) == 0,
        .stalls = draw(world, 3) == 0,
        .receivers = draw(world, 3) == 0,
    };
    world->model.has_faults = world->faults.crashes || world->faults.pauses ||
                              world->faults.breaks || world->faults.stalls ||
                              world->faults.receivers;
}

static void end_world(struct world *world)
{
    /* The analyzer does not see that a frame leaves the heap when it is taken. */
    while (world->heap_count > 0)
        free(take_pending(world).bytes); // NOLINT(clang-analyzer-unix.Malloc)
    for (uint32_t i = 0; i < world->machine_count; i++) {
        sim_disk_free(&world->machines[i].disk);
        free(world->machines[i].replaying);
        free(world->machines[i].region);
    }
    sim_model_free(&world->model);
    free(world->heap);
    free(world->effects);
    free(world);
}

struct sim_result sim_cluster_run(const struct sim_options *options)
{
    struct world *world = calloc(1, sizeof *world);
    TR_ASSERT(world != NULL);
    world->is_verbose = options->is_verbose;
    world->random.state = options->seed;
    world->effects = malloc(sizeof *world->effects);
    TR_ASSERT(world->effects != NULL);
    world->now_ms = 1700000000000u + draw(world, (uint64_t)1 << 33);
    sim_model_init(&world->model);
    draw_faults(world);
    world->model.most_late_ms = 400; /* commits on two nodes and the slowest of frames */
    world->machine_count = 2 + (uint32_t)draw(world, MACHINES_MAX - 1);
    /* While all nodes hear of each other nobody may notice it. If not, writes to one timer on nodes
     * that never met are told apart by their clocks alone, and nothing can be promised. */
    const struct faults *faults = &world->faults;
    bool is_apart = faults->crashes || faults->pauses || faults->breaks || faults->stalls;
    bool has_skew = !is_apart && draw(world, 2) == 0;
    for (uint32_t i = 0; i < RECEIVERS; i++)
        world->receiver_status[i] = 200;
    for (uint32_t i = 0; i < world->machine_count; i++) {
        snprintf(world->machines[i].address, sizeof world->machines[i].address, "10.0.0.%u:7253",
                 i + 1);
        sim_disk_init(&world->machines[i].disk, &world->random);
        if (has_skew)
            world->machines[i].skew_ms = (int64_t)draw(world, 4800) - 2400;
        start_machine(world, i);
    }
    live(world, options->writes);
    heal(world);
    struct sim_result result = {
        .broken = world->model.broken,
        .trace_hash = world->trace_hash,
        .timers = world->model.count - 1,
        .pops = world->model.fires,
        .crashes = world->crashes,
        .steps = world->steps,
        .least_lateness_ms = world->model.least_lateness_ms,
    };
    if (result.broken != NULL) {
        uint64_t from = world->trace_count > TRACE_MAX ? world->trace_count - TRACE_MAX : 0;
        for (uint64_t i = from; !options->is_verbose && i < world->trace_count; i++)
            print_line(&world->traces[i % TRACE_MAX]);
        printf("seed %llu: %s (write %u), %u nodes%s%s%s%s%s\n", (unsigned long long)options->seed,
               result.broken, world->model.broken_write, world->machine_count,
               world->faults.crashes ? ", crashes" : "", world->faults.pauses ? ", pauses" : "",
               world->faults.breaks ? ", breaks" : "", world->faults.stalls ? ", stalls" : "",
               world->faults.receivers ? ", receivers" : "");
    }
    end_world(world);
    return result;
}
