/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/plan.h"

#include "base/hash.h"

#include <stddef.h>

enum { NUMBERS = 16 }; /* members up to this one are numbers, the others spans */

enum member {
    TIMING = 1,
    MISSED = 2,
    GAP = 3,
    OVERLAP = 4,
    METHOD = 5,
    IS_JSON = 6,
    JITTER = 7,
    UNTIL = 8,
    TIMEOUT = 9,
    ATTEMPTS = 10,
    BACKOFF = 11,
    BACKOFF_MAX = 12,
    GIVE_UP = 13,
    CRON = NUMBERS + 1,
    ZONE = NUMBERS + 2,
    HEADERS = NUMBERS + 3,
    CE_TYPE = NUMBERS + 4,
};

enum own_member { NAME = 1, TRACE = 2, TRACESTATE = 3 };

static void put_number(struct tr_writer *writer, enum member member, uint64_t value)
{
    if (value == 0)
        return;
    tr_put_number(writer, member, 1);
    tr_put_varint(writer, value);
}

static void put_text(struct tr_writer *writer, unsigned member, struct tr_span text)
{
    if (text.size == 0)
        return;
    tr_put_number(writer, member, 1);
    tr_put_span(writer, text);
}

void tr_plan_put(struct tr_writer *writer, const struct tr_plan *plan)
{
    TR_ASSERT(plan->headers.size <= TR_HEADERS_SIZE_MAX && plan->cron.size <= TR_CRON_MAX);
    put_number(writer, TIMING, plan->timing);
    put_number(writer, MISSED, plan->missed);
    put_number(writer, GAP, plan->gap);
    put_number(writer, OVERLAP, plan->overlap);
    put_number(writer, METHOD, plan->method);
    put_number(writer, IS_JSON, plan->is_json);
    put_number(writer, JITTER, plan->jitter_ms);
    put_number(writer, UNTIL, plan->until_ms);
    put_number(writer, TIMEOUT, plan->timeout_ms);
    put_number(writer, ATTEMPTS, plan->attempts);
    put_number(writer, BACKOFF, plan->backoff_ms);
    put_number(writer, BACKOFF_MAX, plan->backoff_max_ms);
    put_number(writer, GIVE_UP, plan->give_up_ms);
    put_text(writer, CRON, plan->cron);
    put_text(writer, ZONE, plan->zone);
    put_text(writer, HEADERS, plan->headers);
    put_text(writer, CE_TYPE, plan->ce_type);
}

/* A number that must be from 1 to `most`. */
static uint64_t get_number(struct tr_reader *reader, uint64_t most)
{
    uint64_t value = tr_get_varint(reader);
    reader->is_short |= value == 0 || value > most;
    return reader->is_short ? 0 : value;
}

static struct tr_span get_text(struct tr_reader *reader, size_t most)
{
    struct tr_span text = tr_get_span(reader);
    reader->is_short |= text.size == 0 || text.size > most;
    return reader->is_short ? (struct tr_span){"", 0} : text;
}

static void get_member(struct tr_reader *reader, uint64_t member, struct tr_plan *plan)
{
    switch ((enum member)member) {
    case TIMING:
        plan->timing = (enum tr_timing)get_number(reader, TR_TIMING_CRON);
        return;
    case MISSED:
        plan->missed = (enum tr_missed)get_number(reader, TR_MISSED_NONE);
        return;
    case GAP:
        plan->gap = (enum tr_cron_gap)get_number(reader, TR_GAP_SKIP);
        return;
    case OVERLAP:
        plan->overlap = (enum tr_cron_overlap)get_number(reader, TR_OVERLAP_BOTH);
        return;
    case METHOD:
        plan->method = (enum tr_method)get_number(reader, TR_METHODS - 1);
        return;
    case IS_JSON:
        plan->is_json = get_number(reader, 1) == 1;
        return;
    case JITTER:
        plan->jitter_ms = get_number(reader, TR_TIME_MAX / 256);
        return;
    case UNTIL:
        plan->until_ms = get_number(reader, TR_TIME_MAX);
        return;
    case TIMEOUT:
        plan->timeout_ms = get_number(reader, TR_CALL_TIMEOUT_MOST);
        return;
    case ATTEMPTS:
        plan->attempts = get_number(reader, TR_ATTEMPT_MAX);
        return;
    case BACKOFF:
        plan->backoff_ms = get_number(reader, TR_BACKOFF_MOST);
        return;
    case BACKOFF_MAX:
        plan->backoff_max_ms = get_number(reader, TR_BACKOFF_MOST);
        return;
    case GIVE_UP:
        plan->give_up_ms = get_number(reader, TR_GIVE_UP_MOST);
        return;
    case CRON:
        plan->cron = get_text(reader, TR_CRON_MAX);
        return;
    case ZONE:
        plan->zone = get_text(reader, TR_ZONE_NAME_MAX);
        return;
    case HEADERS:
        plan->headers = get_text(reader, TR_HEADERS_SIZE_MAX);
        return;
    case CE_TYPE:
        plan->ce_type = get_text(reader, TR_CE_TYPE_MAX);
        return;
    }
    reader->is_short = true;
}

bool tr_plan_get(struct tr_span bytes, struct tr_plan *plan)
{
    static const struct tr_plan usual = {
        .cron = {"", 0}, .zone = {"", 0}, .headers = {"", 0}, .ce_type = {"", 0}};
    struct tr_reader reader = tr_reader_on(bytes.text, bytes.size);
    uint64_t before = 0;
    *plan = usual;
    while (reader.at < reader.end && !reader.is_short) {
        uint64_t member = tr_get_number(&reader, 1);
        if (member <= before)
            return false;
        before = member;
        get_member(&reader, member, plan);
    }
    struct tr_cron cron;
    return !reader.is_short && (plan->timing == TR_TIMING_CRON) == (plan->cron.size > 0) &&
           (plan->cron.size == 0 || tr_cron_parse(plan->cron, &cron) == NULL);
}

void tr_own_put(struct tr_writer *writer, const struct tr_own *own)
{
    TR_ASSERT(own->name.size <= TR_NAME_MAX && own->tracestate.size <= TR_TRACESTATE_MAX);
    TR_ASSERT(own->trace.size == 0 || own->trace.size == TR_TRACE_SIZE);
    put_text(writer, NAME, own->name);
    if (own->trace.size > 0) { /* of a size that is known */
        tr_put_number(writer, TRACE, 1);
        tr_put_bytes(writer, own->trace.text, TR_TRACE_SIZE);
    }
    put_text(writer, TRACESTATE, own->tracestate);
}

bool tr_own_get(struct tr_span bytes, struct tr_own *own)
{
    static const struct tr_own none = {{"", 0}, {"", 0}, {"", 0}};
    struct tr_reader reader = tr_reader_on(bytes.text, bytes.size);
    uint64_t before = 0;
    *own = none;
    while (reader.at < reader.end && !reader.is_short) {
        uint64_t member = tr_get_number(&reader, 1);
        if (member <= before)
            return false;
        before = member;
        if (member == NAME) {
            own->name = get_text(&reader, TR_NAME_MAX);
        } else if (member == TRACE) {
            const uint8_t *trace = tr_get_bytes(&reader, TR_TRACE_SIZE);
            own->trace = (struct tr_span){(const char *)trace, trace != NULL ? TR_TRACE_SIZE : 0};
        } else if (member == TRACESTATE) {
            own->tracestate = get_text(&reader, TR_TRACESTATE_MAX);
        } else {
            return false;
        }
    }
    return !reader.is_short;
}

/* Not the hash that keys of idempotency have: a name and a key that are equal are two timers. */
tr_timer_id tr_name_id(struct tr_span name)
{
    return tr_hash_mix(tr_hash_xxh3(name.text, name.size) ^ 0x6e616d6564000001u);
}

const char *tr_method_name(enum tr_method method)
{
    static const char *const names[TR_METHODS] = {
        [TR_METHOD_POST] = "POST", [TR_METHOD_PUT] = "PUT",       [TR_METHOD_PATCH] = "PATCH",
        [TR_METHOD_GET] = "GET",   [TR_METHOD_DELETE] = "DELETE",
    };
    return names[method];
}
