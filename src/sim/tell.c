/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in words, for traces. */
#include "quorum/frame.h"
#include "sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[TR_FRAMES] = {
    "",      "hello",  "beat",  "writes",  "answers", "copies",  "outcomes", "acks",
    "marks", "claims", "drops", "dropped", "asks",    "buckets", "roster",   "keys",
};
static const char *const results[] = {"",     "stored",   "stale",  "exists", "full", "none",
                                      "held", "replayed", "failed", "reused", "busy", "unknown"};

struct words {
    char text[TRACE_SIZE];
    size_t size;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *words, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size =
        vsnprintf(words->text + words->size, sizeof words->text - words->size, format, arguments);
    va_end(arguments);
    words->size += (size_t)size;
    if (words->size >= sizeof words->text)
        words->size = sizeof words->text - 1;
}

static const char *letter(const struct world *world, struct tr_span address)
{
    for (uint32_t i = 0; i < world->machine_count; i++) {
        if (strlen(world->machines[i].address) == address.size &&
            memcmp(world->machines[i].address, address.text, address.size) == 0)
            return sim_name(i);
    }
    return "?";
}

/* A timer is called by the write that made it. */
static uint32_t write_of(const struct world *world, tr_timer_id id)
{
    for (uint32_t i = 1; i < world->model.count; i++) {
        if (world->model.writes[i].id == id)
            return i;
    }
    return 0;
}

static void say_key(const struct world *world, struct words *words, const struct tr_record *record)
{
    uint32_t write = write_of(world, record->head.key.id);
    if (write != 0)
        say(words, " %u", write);
    else
        say(words, " #%04x", (unsigned)(record->head.key.id & 0xffff));
    if (record->head.key.part > 0)
        say(words, "/%llu", (unsigned long long)record->head.key.part);
    say(words, "@%llu.%u.%u", (unsigned long long)record->head.order.sequence,
        record->head.order.attempt, record->head.order.moves >> TR_MOVER_BITS);
}

static void say_record(const struct world *world, struct words *words,
                       const struct tr_frame_record *frame)
{
    const struct tr_record *record = &frame->record;
    say_key(world, words, record);
    say(words, "%s%s(", (record->head.flags & TR_RECORD_TOMBSTONE) != 0 ? "x" : "",
        (record->head.flags & TR_RECORD_DEAD) != 0 ? "!" : "");
    for (unsigned i = 0; i < record->head.replicas.count; i++)
        say(words, "%s", letter(world, frame->names.replicas[i]));
    if (record->head.from.count > 0)
        say(words, (record->head.flags & TR_RECORD_MOVING) != 0 ? "<" : "|");
    for (unsigned i = 0; i < record->head.from.count; i++)
        say(words, "%s", letter(world, frame->names.from[i]));
    say(words, ")");
}

static void say_roster(const struct world *world, struct words *words, struct tr_reader *reader)
{
    struct tr_roster roster;
    tr_get_number(reader, 1);
    if (!tr_roster_get(reader, &roster))
        return;
    say(words, " %llu ", (unsigned long long)roster.epoch);
    for (uint32_t i = 0; i < roster.count; i++)
        say(words, "%s%s", letter(world, tr_roster_address(&roster, i)),
            (const char *[]){"", "", "+", "-", "!"}[roster.nodes[i].role]);
}

static void say_keys(struct words *words, struct tr_reader *reader)
{
    static const char *const kinds[] = {"",       "write", "ask",  "answer", "call",
                                        "result", "range", "tell", "want",   "offer",
                                        "known",  "done",  "scan", "page",   "missed"};
    static const char *const answers[] = {"", "stored", "held", "none", "above", "full", "epoch"};
    struct tr_key_frame head;
    struct tr_key_entry entry;
    if (!tr_keys_get_head(reader, &head))
        return;
    say(words, " %llu", (unsigned long long)head.epoch);
    while (tr_keys_get(reader, &head, head.now_ms, &entry)) {
        struct tr_span key = entry.kind == TR_KEYS_CALL ? entry.command.key : entry.pair.key;
        say(words, " %s", kinds[entry.kind]);
        if (entry.kind == TR_KEYS_ANSWER)
            say(words, " %s", answers[entry.answer]);
        if (key.size > 0)
            say(words, " %.*s", (int)key.size, key.text);
    }
}

static void say_entries(const struct world *world, struct words *words, struct tr_reader *reader,
                        const struct tr_frame *frame)
{
    struct tr_frame_record record;
    struct tr_frame_write write;
    struct tr_frame_answer answer;
    struct tr_frame_ask ask;
    int64_t due_in_ms = 0;
    uint32_t check = 0;
    uint64_t operation = 0;
    uint8_t mask = 0;
    bool is_exact = false;
    switch (frame->kind) {
    case TR_FRAME_WRITES:
        while (tr_frame_get_write(reader, &write))
            say_record(world, words, &write.record);
        return;
    case TR_FRAME_ANSWERS:
        while (tr_frame_get_answer(reader, &answer)) {
            say(words, " %s", results[answer.result]);
            if (answer.has_record)
                say_record(world, words, &answer.record);
        }
        return;
    case TR_FRAME_COPIES:
        while (tr_frame_get_record(reader, &record.record, &record.names))
            say_record(world, words, &record);
        return;
    case TR_FRAME_OUTCOMES:
        while (tr_frame_get_outcome(reader, &record.record.head, &due_in_ms, &check)) {
            say_key(world, words, &record.record);
            say(words, "%s", (record.record.head.flags & TR_RECORD_TOMBSTONE) != 0 ? "x" : "");
        }
        return;
    case TR_FRAME_ACKS:
    case TR_FRAME_CLAIMS:
        while (tr_frame_get_key(reader, &record.record.head))
            say_key(world, words, &record.record);
        return;
    case TR_FRAME_MARKS:
        while (tr_frame_get_mark(reader, &record.record.head, &mask))
            say_key(world, words, &record.record);
        return;
    case TR_FRAME_DROPS:
    case TR_FRAME_DROPPED:
        while (tr_frame_get_drop(reader, &record.record.head, &operation, &is_exact))
            say_key(world, words, &record.record);
        return;
    case TR_FRAME_ASKS:
        while (tr_frame_get_ask(reader, &ask))
            say_key(world, words, &(struct tr_record){.head.key.id = ask.id});
        return;
    case TR_FRAME_ROSTER:
        say_roster(world, words, reader);
        return;
    case TR_FRAME_KEYS:
        say_keys(words, reader);
        return;
    case TR_FRAME_PASSES:
    case TR_FRAME_HELLO:
    case TR_FRAME_BEAT:
    case TR_FRAME_BUCKETS:
        return;
    }
}

void sim_tell_records(struct world *world, uint32_t index, bool are_over)
{
    struct tr_node_walk walk = {0};
    struct tr_frame_record frame;
    const struct tr_node *node = world->machines[index].node;
    sim_trace(world, "%s is not settled, or remembers too much", sim_name(index));
    while (node != NULL && tr_node_next_record(node, &walk, &frame.record)) {
        const struct tr_record *record = &frame.record;
        struct words words = {.size = 0};
        bool is_here = false;
        for (unsigned i = 0; i < record->head.replicas.count; i++) {
            frame.names.replicas[i] =
                tr_node_member_address(node, record->head.replicas.members[i]);
            is_here |= record->head.replicas.members[i] == 0;
        }
        for (unsigned i = 0; i < record->head.from.count; i++)
            frame.names.from[i] = tr_node_member_address(node, record->head.from.members[i]);
        say_record(world, &words, &frame);
        bool is_over = (record->head.flags & TR_RECORD_TOMBSTONE) != 0;
        bool is_away = (record->head.flags & TR_RECORD_MOVING) != 0 || !is_here;
        if (is_over == are_over && (is_over || is_away))
            sim_trace(world, "%s holds%s", sim_name(index), words.text);
    }
}

void sim_tell_frame(struct world *world, uint32_t from, uint32_t to, const uint8_t *bytes,
                    size_t size)
{
    struct tr_reader reader = tr_reader_on(bytes, size);
    struct tr_frame frame;
    struct words words = {.size = 0};
    if (!world->is_telling || !tr_frame_get(&reader, &frame) || frame.kind == TR_FRAME_BEAT)
        return;

    say_entries(world, &words, &reader, &frame);
    sim_trace(world, "%s > %s %s%s", sim_name(from), sim_name(to), names[frame.kind], words.text);
}
