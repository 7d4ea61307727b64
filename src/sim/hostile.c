/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile peer: it has proven who it is, and sends frames that are well-formed and say whatever
 * comes to its mind, about timers that there are and others. Nobody has to make sense of it; no
 * assertion may fail, and no bound may be broken.
 */
#include "sim/world.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define BURST 4

static tr_timer_id draw_id(struct world *world)
{
    uint32_t number = (uint32_t)sim_draw(world, world->model.count);
    bool is_known = number > 0 && !sim_chance(world, 4);
    return is_known ? world->model.writes[number].id : tr_random_next(&world->random);
}

static uint64_t draw_number(struct world *world)
{
    switch (sim_draw(world, 4)) {
    case 0:
        return sim_draw(world, 4);
    case 1:
        return UINT64_MAX - sim_draw(world, 4);
    case 2:
        return tr_random_next(&world->random) >> sim_draw(world, 64);
    default:
        return sim_draw(world, 1000);
    }
}

static struct tr_span draw_address(struct world *world)
{
    const char *address = world->machines[sim_draw(world, world->machine_count)].address;
    return (struct tr_span){address, strlen(address)};
}

static void draw_record(struct world *world, struct tr_frame_record *frame)
{
    struct tr_record *record = &frame->record;
    *frame = (struct tr_frame_record){0};
    record->head.key.id = draw_id(world);
    record->head.key.part = sim_chance(world, 3) ? draw_number(world) : 0;
    record->head.order.version = sim_chance(world, 2) ? world->now_ms << 16 : draw_number(world);
    record->head.order.version_node = (uint16_t)draw_number(world);
    record->head.order.sequence = draw_number(world);
    record->head.order.attempt = (uint32_t)draw_number(world) & TR_ATTEMPT_MAX;
    record->head.order.moves = (uint32_t)draw_number(world);
    record->head.flags = (uint8_t)sim_draw(world, TR_RECORD_FLAGS + 1);
    record->head.lag_ms = draw_number(world) & TR_TIME_MAX;
    record->interval_ms = draw_number(world) & TR_TIME_MAX;
    record->repeat_ms = draw_number(world) & TR_TIME_MAX;
    record->head.factor = (uint32_t)sim_draw(world, 256);
    record->head.replicas.count = (uint8_t)sim_draw(world, TR_SET_MAX + 1);
    record->head.from.count = (uint8_t)sim_draw(world, TR_FROM_MAX + 1);
    for (unsigned i = 0; i < record->head.replicas.count; i++)
        frame->names.replicas[i] = draw_address(world);
    for (unsigned i = 0; i < record->head.from.count; i++)
        frame->names.from[i] = draw_address(world);
    frame->names.due_in_ms = (int64_t)draw_number(world);
    bool has_uri = !sim_chance(world, 4);
    record->uri = has_uri ? TR_SPAN("http://receiver-1/pop") : (struct tr_span){"", 0};
    record->opaque = TR_SPAN("1 hostile");
    record->content_type = (struct tr_span){"", 0};
}

static void draw_head(struct world *world, struct tr_frame *frame)
{
    static uint8_t sums[8 * TR_BUCKETS];
    frame->heard_ms = draw_number(world);
    switch (frame->kind) {
    case TR_FRAME_HELLO:
        frame->of.hello.version = draw_number(world);
        frame->of.hello.address = draw_address(world);
        frame->of.hello.incarnation_count = (uint32_t)sim_draw(world, 4);
        return;
    case TR_FRAME_BEAT:
        frame->of.beat.tick_ms = draw_number(world);
        frame->of.beat.stamp = sim_chance(world, 2) ? world->now_ms << 16 : draw_number(world);
        frame->of.beat.view = draw_number(world);
        frame->of.beat.memory_fill = (uint8_t)sim_draw(world, 101);
        frame->of.beat.flags = (uint8_t)sim_draw(world, 16);
        frame->of.beat.popping_from_ms = draw_number(world);
        frame->of.beat.has_roster = !sim_chance(world, 4);
        frame->of.beat.cluster = sim_chance(world, 2) ? world->cluster : draw_number(world);
        frame->of.beat.epoch = draw_number(world);
        frame->of.beat.roster_id = draw_number(world);
        frame->of.beat.key_flags = (uint8_t)sim_draw(world, 8);
        return;
    case TR_FRAME_BUCKETS:
        for (unsigned i = 0; i < 16; i++)
            sums[sim_draw(world, sizeof sums)] = (uint8_t)sim_draw(world, 256);
        frame->of.sums = sums;
        return;
    case TR_FRAME_WRITES:
    case TR_FRAME_ANSWERS:
    case TR_FRAME_COPIES:
    case TR_FRAME_OUTCOMES:
    case TR_FRAME_ACKS:
    case TR_FRAME_MARKS:
    case TR_FRAME_CLAIMS:
    case TR_FRAME_DROPS:
    case TR_FRAME_DROPPED:
    case TR_FRAME_ASKS:
    case TR_FRAME_ROSTER:
    case TR_FRAME_PASSES:
    case TR_FRAME_KEYS:
        return;
    }
}

/* What concerns operations, of this node or of the other. */
static void put_operation(struct world *world, struct tr_writer *writer, enum tr_frame_kind kind,
                          const struct tr_frame_record *record)
{
    if (kind == TR_FRAME_WRITES)
        tr_frame_put_write(writer, &(struct tr_frame_write){
                                       .operation = sim_draw(world, 200),
                                       .mode = (enum tr_write_mode)(1 + sim_draw(world, 2)),
                                       .record = *record,
                                   });
    else if (kind == TR_FRAME_ANSWERS)
        tr_frame_put_answer(
            writer, &(struct tr_frame_answer){
                        .operation = sim_draw(world, 200),
                        .result = (enum tr_frame_result)(1 + sim_draw(world, TR_RESULT_HELD)),
                        .has_record = !sim_chance(world, 4),
                        .record = *record,
                    });
    else if (kind == TR_FRAME_ASKS)
        tr_frame_put_ask(writer, &(struct tr_frame_ask){
                                     .operation = draw_number(world),
                                     .mode = (enum tr_ask_mode)(1 + sim_draw(world, 2)),
                                     .id = draw_id(world),
                                     .sequence = sim_draw(world, 3),
                                 });
}

static void put_roster(struct world *world, struct tr_writer *writer)
{
    struct tr_roster roster = {
        .cluster = sim_chance(world, 2) ? world->cluster : draw_number(world),
        .epoch = draw_number(world),
    };
    for (uint64_t i = sim_draw(world, MACHINES_MAX); i > 0; i--)
        tr_roster_set(&roster, draw_address(world), (enum tr_role)(1 + sim_draw(world, 4)));
    tr_put_number(writer, sim_draw(world, 2), 1);
    tr_roster_put(writer, &roster);
}

static void put_entry(struct world *world, struct tr_writer *writer, enum tr_frame_kind kind)
{
    struct tr_frame_record frame;
    if (kind == TR_FRAME_ROSTER) {
        put_roster(world, writer);
        return;
    }
    draw_record(world, &frame);
    if (kind == TR_FRAME_COPIES)
        tr_frame_put_record(writer, &frame.record, &frame.names, TR_FRAME_VERSION);
    else if (kind == TR_FRAME_OUTCOMES)
        tr_frame_put_outcome(writer, &frame.record.head, frame.names.due_in_ms,
                             (uint32_t)draw_number(world), TR_FRAME_VERSION);
    else if (kind == TR_FRAME_ACKS || kind == TR_FRAME_CLAIMS)
        tr_frame_put_key(writer, &frame.record.head);
    else if (kind == TR_FRAME_MARKS)
        tr_frame_put_mark(writer, &frame.record.head, (uint8_t)draw_number(world));
    else if (kind == TR_FRAME_DROPS || kind == TR_FRAME_DROPPED)
        tr_frame_put_drop(writer, &frame.record.head, sim_draw(world, 200), sim_chance(world, 4));
    else
        put_operation(world, writer, kind, &frame);
}

static void send_one(struct world *world, uint32_t to)
{
    static uint8_t bytes[65536];
    struct link *link = sim_link(world, world->hostile, to);
    struct tr_writer writer = tr_writer_on(bytes, sizeof bytes);
    struct tr_frame frame = {.kind = (enum tr_frame_kind)(1 + sim_draw(world, TR_FRAMES - 1))};
    if (sim_chance(world, 2))
        frame.kind = TR_FRAME_COPIES; /* so that the link lives, and more gets through */
    draw_head(world, &frame);
    if (!sim_chance(world, 8)) /* as a link that works would have it */
        frame.heard_ms = world->now_ms - world->machines[to].boot_ms;
    tr_frame_put(&writer, &frame);
    uint64_t entries = frame.kind == TR_FRAME_ROSTER ? 1 : sim_draw(world, 5);
    for (uint64_t i = 0; i < entries; i++)
        put_entry(world, &writer, frame.kind);
    TR_ASSERT(!writer.is_full);
    struct sim_pending pending = {
        .what = HAPPENS_FRAME, .other = world->hostile, .link_epoch = link->epoch};
    pending.bytes = malloc(writer.size);
    pending.size = writer.size;
    TR_ASSERT(pending.bytes != NULL);
    memcpy(pending.bytes, bytes, writer.size);
    sim_plan(world, to, pending, 1);
}

void sim_hostile(struct world *world)
{
    for (uint32_t to = 0; to < world->machine_count; to++) {
        if (to == world->hostile || !world->machines[to].is_ready ||
            !sim_link(world, to, world->hostile)->is_up)
            continue;
        for (unsigned i = 0; i < BURST; i++)
            send_one(world, to);
    }
}
