/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/alone.h"

#include "base/assert.h"
#include "sim/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_SIZE  ((size_t)24 << 20)
#define OPAQUE_MAX   1024
#define SEGMENT_SIZE ((size_t)96 << 10)
#define FLIGHTS      64
#define RECEIVERS    5
#define TRACE_MAX    60
#define PENDING_MAX  (2 * FLIGHTS + 16)
#define OPEN_MAX     64 /* requests not yet answered */
#define STEPS_MAX    300000
#define YEAR_MS      31557600000u

enum happening {
    HAPPENS_NOTHING,
    HAPPENS_CALLBACK,
    HAPPENS_SYNC,
    HAPPENS_ALLOCATED,
    HAPPENS_REFUSED,
};

/* Something that will happen. */
struct pending {
    uint64_t at_ms;
    uint64_t order; /* ties: as they were made */
    enum happening what;
    uint32_t flight;
    enum tr_callback_result result;
    unsigned status;
    uint64_t retry_after_ms;
    uint32_t write;
    uint64_t sequence;
    uint64_t number; /* a position, or a segment */
};

struct trace {
    uint64_t at_ms;
    const char *what;
    uint64_t a;
    uint64_t b;
};

enum receiver_mode { RECEIVER_WELL, RECEIVER_SLOW, RECEIVER_BROKEN, RECEIVER_GONE, RECEIVER_MUTE };

/* A request that the node has not answered. */
struct open_request {
    uint64_t token;
    uint32_t write;
};

struct world {
    struct tr_random random;
    struct sim_model model;
    struct sim_disk disk;
    struct tr_node *node;
    void *region;
    struct tr_effects *effects;
    struct tr_log_segment *replaying;

    uint64_t now_ms;   /* true time, since the world began */
    uint64_t boot_ms;  /* true time less the boot clock of this start */
    int64_t wall_step; /* how far the wall clock was set from true time */
    uint64_t stepped_ms;
    struct pending pending[PENDING_MAX];
    uint32_t pending_count;
    uint64_t order;
    struct open_request open[OPEN_MAX];
    uint32_t open_count;
    uint64_t token;
    enum receiver_mode receivers[RECEIVERS];
    bool has_log;
    bool is_healed;
    bool is_ready;
    bool is_stopped;
    uint32_t epoch;
    uint64_t seed;
    enum tr_mutant mutant;
    bool is_quiet;
    bool is_verbose;
    uint64_t trace_hash;
    struct trace traces[TRACE_MAX];
    uint64_t trace_count;
    uint64_t steps;
    struct tr_timer_body body;
    char uri[64];
    char opaque[OPAQUE_MAX];
    uint32_t last_write_of[4096]; /* the latest write to each known id, by the write that made it */
};

static uint64_t draw(struct world *world, uint64_t bound)
{
    return tr_random_below(&world->random, bound);
}

static void trace(struct world *world, const char *what, uint64_t a, uint64_t b)
{
    uint64_t word[4] = {world->now_ms, (uint64_t)what[0] << 8 | (uint64_t)what[1], a, b};
    world->trace_hash = tr_hash_mix(world->trace_hash ^ tr_hash_xxh3(word, sizeof word));
    world->traces[world->trace_count++ % TRACE_MAX] = (struct trace){world->now_ms, what, a, b};
    if (world->is_verbose)
        printf("%12llu %-18s %llu %llu\n", (unsigned long long)world->now_ms, what,
               (unsigned long long)a, (unsigned long long)b);
}

static void print_tail(const struct world *world)
{
    uint64_t from = world->trace_count > TRACE_MAX ? world->trace_count - TRACE_MAX : 0;
    for (uint64_t i = from; i < world->trace_count; i++) {
        const struct trace *line = &world->traces[i % TRACE_MAX];
        printf("%12llu %-18s %llu %llu\n", (unsigned long long)line->at_ms, line->what,
               (unsigned long long)line->a, (unsigned long long)line->b);
    }
}

static void add_pending(struct world *world, struct pending pending, uint64_t delay_ms)
{
    TR_ASSERT(world->pending_count < PENDING_MAX);
    pending.at_ms = world->now_ms + delay_ms;
    pending.order = world->order++;
    world->pending[world->pending_count++] = pending;
}

static uint32_t next_pending(const struct world *world)
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

static void settle_request(struct world *world, uint64_t token, enum tr_result result,
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
        trace(world, "answered", world->open[i].write, result);
        world->open[i] = world->open[--world->open_count];
        return;
    }
}

/* What the receiver of a callback will do. */
static void fire(struct world *world, const struct tr_effect *effect)
{
    struct tr_record record;
    tr_node_record(world->node, effect->of.fire.ref, &record);
    char number[16] = {0};
    size_t size = record.opaque.size < 15 ? record.opaque.size : 15;
    memcpy(number, record.opaque.text, size);
    uint32_t write = (uint32_t)strtoul(number, NULL, 10);
    uint64_t sequence = tr_record_pop(&record);
    unsigned receiver = (unsigned)(record.uri.text[record.uri.size - 1] - '0') % RECEIVERS;
    trace(world, "fires", write, sequence);
    sim_model_fire(&world->model, write, sequence, world->now_ms, world->epoch);
    struct pending pending = {.what = HAPPENS_CALLBACK,
                              .flight = effect->of.fire.flight,
                              .result = TR_CALLBACK_ANSWERED,
                              .status = 200,
                              .write = write,
                              .sequence = sequence};
    enum receiver_mode mode = world->is_healed ? RECEIVER_WELL : world->receivers[receiver];
    uint64_t delay = draw(world, 20);
    switch (mode) {
    case RECEIVER_WELL:
        pending.status = draw(world, 2) == 0 ? 200 : 204;
        break;
    case RECEIVER_SLOW:
        delay = 500 + draw(world, 1600);
        pending.result = delay >= 2000 ? TR_CALLBACK_TIMED_OUT : TR_CALLBACK_ANSWERED;
        break;
    case RECEIVER_BROKEN:
        pending.status = draw(world, 3) == 0 ? 200 : 500;
        pending.retry_after_ms = draw(world, 4) == 0 ? draw(world, 10000) : 0;
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

static void note(struct world *world, const struct tr_effect *effect)
{
    trace(world, "notes", (uint64_t)effect->of.note.what, effect->of.note.number);
    bool is_lost =
        effect->of.note.what == TR_NOTE_DEAD || effect->of.note.what == TR_NOTE_DISCARDED;
    for (uint32_t i = 1; is_lost && i < world->model.count; i++) {
        struct sim_write *write = &world->model.writes[i];
        if (write->id == effect->of.note.id && effect->of.note.number <= SIM_POPS_MAX)
            write->is_dead[effect->of.note.number - 1] = true;
    }
}

static void carry_out(struct world *world, const struct tr_effect *effect)
{
    uint64_t delay = world->is_healed ? 1 : draw(world, 4) == 0 ? draw(world, 300) : draw(world, 4);
    struct pending pending = {0};
    switch (effect->kind) {
    case TR_EFFECT_ANSWER:
        settle_request(world, effect->of.answer.token, effect->of.answer.result,
                       effect->of.answer.has_location ? &effect->of.answer.location : NULL);
        return;
    case TR_EFFECT_ANSWER_TIMER:
    case TR_EFFECT_ANSWER_PAGE:
        return;
    case TR_EFFECT_FIRE:
        fire(world, effect);
        return;
    case TR_EFFECT_LOG_WRITE:
        trace(world, "writes", effect->of.log.segment, effect->of.log.end);
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
        trace(world, "allocates", pending.number, pending.what);
        add_pending(world, pending, 1);
        return;
    case TR_EFFECT_SEGMENT_REMOVE:
        trace(world, "removes", effect->of.segment.number, 0);
        sim_disk_remove(&world->disk, effect->of.segment.number);
        return;
    case TR_EFFECT_SEGMENT_TRIM:
        trace(world, "trims", effect->of.segment.number, effect->of.segment.size);
        sim_disk_trim(&world->disk, effect->of.segment.number, effect->of.segment.size);
        return;
    case TR_EFFECT_RECOVERED:
        trace(world, "recovered", 0, 0);
        world->is_ready = true;
        return;
    case TR_EFFECT_REFUSED:
        trace(world, "refuses", (uint64_t)effect->of.check.verdict, effect->of.check.offset);
        world->is_stopped = true;
        return;
    case TR_EFFECT_NOTE:
        note(world, effect);
        return;
    case TR_EFFECT_STOPPED:
        trace(world, "stopped", 0, 0);
        world->is_stopped = true;
        return;
    case TR_EFFECT_FRAME_SEND:
    case TR_EFFECT_LINK_RESET:
        return; /* it is alone */
    }
}

/* Effects of one step are independent: they are carried out in any order, but for the disk's own,
 * which are a queue. */
static void step(struct world *world, struct tr_event *event)
{
    event->now_ms = world->now_ms - world->boot_ms;
    event->wall_ms = (uint64_t)((int64_t)world->now_ms + world->wall_step);
    event->has_more = draw(world, 3) == 0;
    tr_node_step(world->node, event, world->effects);
    world->steps++;
    uint32_t count = world->effects->count;
    uint32_t start = count > 0 ? (uint32_t)draw(world, count) : 0;
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
    if (draw(world, 64) == 0 && !tr_node_valid(world->node))
        world->model.broken = "the node's structures disagree";
}

static void tick(struct world *world)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    step(world, &event);
}

/* ---- starts and ends ---- */

static bool advance(struct world *world, uint64_t limit_ms);

static void start_node(struct world *world)
{
    struct tr_node_config config = {
        .address = TR_SPAN("127.0.0.1:7253"),
        .seed = tr_random_next(&world->random),
        .identity = 5,
        .has_log = world->has_log,
        .is_always_synced = true,
        .segment_size = SEGMENT_SIZE,
        .opaque_max = OPAQUE_MAX,
        .flights_max = FLIGHTS,
        .per_destination = 1 + (uint32_t)draw(world, 8),
        .attempts_max = 2 + (uint32_t)draw(world, 4),
        .backoff_ms = 100,
        .dead_keep_ms = 86400000,
        .key_keep_ms = 3600000,
        .latency_target_ms = 500,
        .mutant = (uint32_t)world->mutant,
    };
    struct tr_memory memory = {world->region, MEMORY_SIZE};
    memset(world->region, 0, MEMORY_SIZE);
    world->boot_ms = world->now_ms - draw(world, world->now_ms);
    world->is_ready = false;
    world->is_stopped = false;
    world->node = tr_node_new(&config, &memory);
    TR_ASSERT(world->node != NULL);
    struct tr_event event = {.kind = TR_EVENT_RECOVERY_STARTED};
    free(world->replaying);
    world->replaying = sim_disk_list(&world->disk, &event.of.recovery.count);
    event.of.recovery.segments = world->replaying;
    trace(world, "starts", event.of.recovery.count, 0);
    step(world, &event);
    for (unsigned i = 0; !world->is_ready && !world->is_stopped; i++) {
        TR_ASSERT(i < 100000);
        if (!advance(world, UINT64_MAX))
            tick(world);
    }
    if (world->is_stopped)
        world->model.broken = "a log that was not damaged was refused";
}

static void crash(struct world *world)
{
    trace(world, "crashes", world->disk.is_writing, 0);
    sim_disk_crash(&world->disk);
    for (uint32_t i = 0; i < world->open_count; i++)
        world->model.writes[world->open[i].write].is_maybe = true;
    world->open_count = 0;
    world->pending_count = 0;
    world->epoch++;
    world->now_ms += draw(world, 5000);
    start_node(world);
}

/* A clean stop and start: nothing may pop twice for it. */
static void restart(struct world *world)
{
    struct tr_event event = {.kind = TR_EVENT_DRAIN_ASKED};
    trace(world, "drains", 0, 0);
    world->disk.limit = SIZE_MAX; /* a disk that stays full would hold it up */
    step(world, &event);
    for (unsigned i = 0; !world->is_stopped; i++) {
        if (i > 100000 || !advance(world, UINT64_MAX)) {
            world->model.broken = "a drain that does not end";
            return;
        }
    }
    if (world->open_count > 0)
        world->model.broken = "a drain left a request without an answer";
    world->pending_count = 0;
    world->now_ms += draw(world, 1000);
    start_node(world);
}

/* ---- clients ---- */

static uint64_t draw_interval(struct world *world)
{
    switch (draw(world, 12)) {
    case 0:
        return 0;
    case 1:
    case 2:
    case 3:
        return 1 + draw(world, 50);
    case 4:
    case 5:
    case 6:
        return 1 + draw(world, 5000);
    case 7:
        return 60000 + draw(world, 600000);
    case 8:
        return 86400000 * (1 + draw(world, 60)); /* across 32 bits of milliseconds */
    case 9:
        return ((uint64_t)1 << 32) - 2 + draw(world, 4);
    case 10:
        return 10 * (uint64_t)YEAR_MS + draw(world, 1000);
    default:
        return 1000 * (1 + draw(world, 10));
    }
}

static void fill_body(struct world *world, uint32_t number, uint64_t interval_ms, uint32_t pops)
{
    int size = snprintf(world->opaque, sizeof world->opaque, "%u ", number);
    size_t extra = draw(world, 8) == 0 ? draw(world, OPAQUE_MAX - 32) : draw(world, 60);
    memset(world->opaque + size, 'x', extra);
    snprintf(world->uri, sizeof world->uri, "http://receiver-%u/pop%u", (unsigned)draw(world, 1),
             number % RECEIVERS);
    world->uri[16] = (char)('0' + number % RECEIVERS);
    world->body = (struct tr_timer_body){
        .interval_ms = interval_ms,
        .repeat_ms = pops > 1 ? interval_ms * pops : 0,
        .uri = {world->uri, strlen(world->uri)},
        .opaque = {world->opaque, (size_t)size + extra},
    };
    if (draw(world, 3) == 0) {
        world->body.tag_count = 1;
        world->body.tags[0] = (struct tr_tag){TR_SPAN("TAG"), 1};
    }
}

/* An earlier timer that was acknowledged, the latest write to its id; 0: none was found. */
static uint32_t pick_write(struct world *world)
{
    for (unsigned i = 0; i < 8 && world->model.count > 1; i++) {
        uint32_t number = 1 + (uint32_t)draw(world, world->model.count - 1);
        while (world->model.writes[number].replaced_by != 0)
            number = world->model.writes[number].replaced_by;
        const struct sim_write *write = &world->model.writes[number];
        if (write->id != 0 && !write->has_key)
            return number;
    }
    return 0;
}

static void ask(struct world *world)
{
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    if (world->open_count == OPEN_MAX)
        return;
    uint32_t old = draw(world, 3) == 0 ? pick_write(world) : 0;
    bool is_cancel = old != 0 && draw(world, 2) == 0;
    bool has_key = old == 0 && draw(world, 10) == 0;
    uint64_t interval = draw_interval(world);
    uint32_t pops =
        interval > 0 && draw(world, 4) == 0 ? 1 + (uint32_t)draw(world, SIM_POPS_MAX) : 1;
    char key[16];
    uint32_t number =
        sim_model_ask(&world->model, (struct sim_write){
                                         .id = old != 0 ? world->model.writes[old].id : 0,
                                         .asked_ms = world->now_ms,
                                         .interval_ms = interval,
                                         .pops = is_cancel ? 0 : pops,
                                         .has_key = has_key,
                                     });
    sim_model_follow(&world->model, old, number);
    fill_body(world, number, interval, pops);
    event.of.request.token = ++world->token;
    event.of.request.command = old == 0    ? TR_COMMAND_CREATE
                               : is_cancel ? TR_COMMAND_CANCEL
                                           : TR_COMMAND_REPLACE;
    event.of.request.body = &world->body;
    if (old != 0) {
        event.of.request.timer.id = world->model.writes[old].id;
        event.of.request.timer.factor = 2;
    }
    if (has_key) {
        snprintf(key, sizeof key, "key-%u", (unsigned)draw(world, 50));
        event.of.request.key = (struct tr_span){key, strlen(key)};
    }
    world->open[world->open_count++] = (struct open_request){world->token, number};
    trace(world, is_cancel ? "cancels" : old != 0 ? "replaces" : "creates", number, interval);
    step(world, &event);
}

/* ---- time ---- */

static void happen(struct world *world, uint32_t index)
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
        trace(world, "ended", pending.write,
              pending.result == TR_CALLBACK_ANSWERED ? pending.status : 0);
        break;
    case HAPPENS_SYNC:
        sim_disk_sync(&world->disk);
        event.kind = TR_EVENT_LOG_WRITTEN;
        event.of.log.written = pending.number;
        event.of.log.synced = pending.number;
        trace(world, "synced", pending.number, 0);
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
    step(world, &event);
}

/* Lets the next thing happen, at `limit_ms` at the latest. False: nothing before that. */
static bool advance(struct world *world, uint64_t limit_ms)
{
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

static void disturb(struct world *world)
{
    switch (draw(world, 40)) {
    case 0:
        if (world->has_log && world->now_ms - world->stepped_ms > 2000)
            crash(world);
        return;
    case 1:
        if (world->has_log && world->now_ms - world->stepped_ms > 2000)
            restart(world);
        return;
    case 2:
    case 3:
        world->receivers[draw(world, RECEIVERS)] = (enum receiver_mode)draw(world, 5);
        trace(world, "receiver", 0, 0);
        return;
    case 4:
        world->disk.limit = world->disk.used + draw(world, 3 * SEGMENT_SIZE);
        trace(world, "disk limit", world->disk.limit, 0);
        return;
    case 5:
    case 6:
        world->disk.limit = SIZE_MAX;
        return;
    case 7:
        world->wall_step += (int64_t)draw(world, 20000) - 10000;
        world->stepped_ms = world->now_ms;
        trace(world, "wall steps", (uint64_t)world->wall_step, 0);
        return;
    default:
        return;
    }
}

static void live(struct world *world, uint32_t writes)
{
    for (uint32_t i = 0; i < writes && world->model.broken == NULL; i++) {
        uint64_t until = world->now_ms + (draw(world, 3) == 0 ? draw(world, 400) : draw(world, 5));
        while (world->model.broken == NULL && advance(world, until)) {
            if (world->steps > STEPS_MAX)
                world->model.broken = "it goes on and on";
        }
        world->now_ms = until > world->now_ms ? until : world->now_ms;
        ask(world);
        disturb(world);
    }
}

/* Everything is well again: what was acknowledged must come to its end. */
static void heal(struct world *world)
{
    world->is_healed = true;
    world->disk.limit = SIZE_MAX;
    trace(world, "heals", 0, 0);
    if (draw(world, 2) == 0 && world->model.broken == NULL && world->has_log)
        restart(world);
    while (world->model.broken == NULL && advance(world, UINT64_MAX)) {
        if (world->steps > STEPS_MAX)
            world->model.broken = "it goes on and on";
    }
    if (world->model.broken == NULL && world->open_count > 0)
        world->model.broken = "a request was never answered";
    if (world->model.broken == NULL && !tr_node_valid(world->node))
        world->model.broken = "the node's structures disagree";
    if (world->model.broken == NULL)
        sim_model_finish(&world->model);
    struct tr_node_stats stats;
    tr_node_stats(world->node, &stats);
    if (world->model.broken == NULL &&
        (stats.timers > 0 || stats.debts > 0 || stats.queued > 0 || stats.flights > 0))
        world->model.broken = "something is left over";
}

/* A byte of a synced batch flips: the node must not start as if nothing had happened. */
static void damage(struct world *world)
{
    if (!world->has_log || draw(world, 4) != 0 || world->model.broken != NULL)
        return;
    sim_disk_crash(&world->disk);
    if (!sim_disk_damage(&world->disk))
        return;
    size_t count = 0;
    struct tr_log_segment *list = sim_disk_list(&world->disk, &count);
    struct tr_log_check check = tr_log_check(list, count);
    if (check.verdict == TR_LOG_SOUND || check.verdict == TR_LOG_TORN)
        world->model.broken = "damage was not seen";
    free(list);
}

struct sim_result sim_alone_run(const struct sim_options *options)
{
    struct world *world = calloc(1, sizeof *world);
    TR_ASSERT(world != NULL);
    world->seed = options->seed;
    world->mutant = options->mutant;
    world->is_quiet = options->is_quiet;
    world->is_verbose = options->is_verbose;
    world->random.state = options->seed;
    world->region = malloc(MEMORY_SIZE);
    world->effects = malloc(sizeof *world->effects);
    TR_ASSERT(world->region != NULL && world->effects != NULL);
    world->now_ms = 1700000000000u + draw(world, (uint64_t)1 << 33);
    world->has_log = draw(world, 12) != 0;
    sim_model_init(&world->model);
    sim_disk_init(&world->disk, &world->random);
    start_node(world);
    live(world, options->writes);
    heal(world);
    damage(world);
    struct sim_result result = {
        .broken = world->model.broken,
        .trace_hash = world->trace_hash,
        .timers = world->model.count - 1,
        .pops = world->model.fires,
        .crashes = world->epoch,
        .steps = world->steps,
        .least_lateness_ms = world->model.least_lateness_ms,
    };
    if (result.broken != NULL && !world->is_quiet) {
        print_tail(world);
        printf("seed %llu: %s (write %u)\n", (unsigned long long)options->seed, result.broken,
               world->model.broken_write);
    }
    sim_model_free(&world->model);
    sim_disk_free(&world->disk);
    free(world->replaying);
    free(world->effects);
    free(world->region);
    free(world);
    return result;
}
