/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/show.h"

#include "shell/callback/fault.h"
#include "wire/plan.h"
#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD 5 /* pops to come that are told */

/* `,"name":` and then the value, which is not usual. */
static void put_name(struct tr_writer *out, const char *name)
{
    if (out->bytes[out->size - 1] != '{')
        tr_put_text(out, ",");
    tr_put_text(out, "\"");
    tr_put_text(out, name);
    tr_put_text(out, "\":");
}

static void put_string(struct tr_writer *out, const char *name, struct tr_span value)
{
    if (value.size == 0)
        return;
    put_name(out, name);
    tr_put_json_string(out, value);
}

static void put_word(struct tr_writer *out, const char *name, const char *word)
{
    put_string(out, name, (struct tr_span){word, strlen(word)});
}

static void put_ms(struct tr_writer *out, const char *name, uint64_t ms)
{
    if (ms == 0)
        return;
    put_name(out, name);
    tr_put_seconds(out, ms);
}

static void put_instant(struct tr_writer *out, const char *name, tr_wall_ms at_ms)
{
    if (at_ms == 0)
        return;
    put_name(out, name);
    tr_put_text(out, "\"");
    tr_put_rfc3339(out, at_ms);
    tr_put_text(out, "\"");
}

/* Lines of a header each, as members. */
static void put_headers(struct tr_writer *out, struct tr_span lines)
{
    if (lines.size == 0)
        return;
    tr_put_text(out, ",\"headers\":{");
    while (lines.size > 0) {
        const char *colon = memchr(lines.text, ':', lines.size);
        const char *end = memchr(lines.text, '\r', lines.size);
        if (colon == NULL || end == NULL || end < colon + 2)
            break;
        if (out->bytes[out->size - 1] != '{')
            tr_put_text(out, ",");
        tr_put_json_string(out, (struct tr_span){lines.text, (size_t)(colon - lines.text)});
        tr_put_text(out, ":");
        tr_put_json_string(out, (struct tr_span){colon + 2, (size_t)(end - colon) - 2});
        lines = tr_span_from(lines, (size_t)(end - lines.text) + 2);
    }
    tr_put_text(out, "}");
}

static void put_retry(struct tr_writer *out, const struct tr_plan *plan)
{
    if (plan->attempts == 0 && plan->backoff_ms == 0 && plan->backoff_max_ms == 0 &&
        plan->give_up_ms == 0)
        return;
    tr_put_text(out, ",\"retry\":{");
    if (plan->attempts > 0) {
        put_name(out, "attempts");
        tr_put_decimal(out, plan->attempts);
    }
    put_ms(out, "backoff", plan->backoff_ms);
    put_ms(out, "backoff-max", plan->backoff_max_ms);
    put_ms(out, "give-up-after", plan->give_up_ms);
    tr_put_text(out, "}");
}

static void put_callback(struct tr_writer *out, const struct tr_record *record,
                         const struct tr_plan *plan)
{
    tr_put_text(out, ",\"callback\":{\"http\":{\"uri\":");
    tr_put_json_string(out, record->uri);
    if (plan->is_json) {
        tr_put_text(out, ",\"json\":");
        tr_put_bytes(out, record->opaque.text, record->opaque.size);
    } else {
        tr_put_text(out, ",\"opaque\":");
        tr_put_json_string(out, record->opaque);
    }
    put_string(out, "content-type", record->content_type);
    if (plan->method != TR_METHOD_POST)
        put_word(out, "method", tr_method_name(plan->method));
    put_headers(out, plan->headers);
    put_ms(out, "timeout", plan->timeout_ms);
    put_retry(out, plan);
    put_string(out, "ce-type", plan->ce_type);
    tr_put_text(out, "}}");
}

static void put_repeats(struct tr_writer *out, const struct tr_record *record)
{
    tr_put_text(out, ",\"repeat-for\":");
    if (record->repeat_ms == TR_REPEAT_EVER)
        tr_put_text(out, "\"forever\"");
    else
        tr_put_seconds(out, record->repeat_ms > 0 ? record->repeat_ms : record->interval_ms);
}

static void put_cron(struct tr_writer *out, const struct tr_record *record,
                     const struct tr_plan *plan)
{
    put_string(out, "cron", plan->cron);
    put_string(out, "zone", plan->zone);
    if (plan->gap == TR_GAP_SKIP)
        put_word(out, "gap", "skip");
    if (plan->overlap != TR_OVERLAP_FIRST)
        put_word(out, "overlap", plan->overlap == TR_OVERLAP_LAST ? "last" : "both");
    if (record->repeat_ms == TR_REPEAT_EVER)
        return;
    put_name(out, "count");
    tr_put_decimal(out, tr_record_pops(record));
}

static void put_timing(struct tr_writer *out, const struct tr_record *record,
                       const struct tr_plan *plan)
{
    static const char *const missed[] = {NULL, "all", "last", "none"};
    tr_put_text(out, ",\"timing\":{");
    if (plan->timing == TR_TIMING_AT) {
        uint64_t before = tr_record_pop(record) - 1;
        put_instant(out, "at", record->head.instant_ms - before * record->interval_ms);
    }
    if (plan->timing == TR_TIMING_CRON) {
        put_cron(out, record, plan);
    } else if (plan->timing == TR_TIMING_INTERVAL || record->interval_ms > 0) {
        put_name(out, "interval");
        tr_put_seconds(out, record->interval_ms);
        put_repeats(out, record);
    }
    put_instant(out, "until", plan->until_ms);
    put_ms(out, "jitter", plan->jitter_ms);
    if (plan->missed != TR_MISSED_USUAL)
        put_word(out, "missed", missed[plan->missed]);
    tr_put_text(out, "}");
}

/* How the last attempt at its pop failed. */
static void put_attempt(struct tr_writer *out, const struct tr_node *node,
                        const struct tr_attempt *attempt)
{
    char why[160];
    struct tr_span address = tr_node_address_of(node, attempt->node);
    if (attempt->at_ms == 0)
        return;
    tr_put_text(out, ",\"last-attempt\":{\"at\":\"");
    tr_put_rfc3339(out, attempt->at_ms);
    tr_put_text(out, "\"");
    if (attempt->result < TR_ATTEMPT_FAULT) {
        put_name(out, "status");
        tr_put_decimal(out, attempt->result);
    } else {
        tr_fault_write((enum tr_fault)(attempt->result - TR_ATTEMPT_FAULT), why, sizeof why);
        put_word(out, "error", why);
    }
    put_name(out, "duration-ms");
    tr_put_decimal(out, attempt->duration_ms);
    put_string(out, "node", address);
    tr_put_text(out, "}");
}

static void put_ahead(struct tr_writer *out, const struct tr_node *node, uint32_t ref)
{
    tr_wall_ms instants[AHEAD];
    unsigned count = tr_node_ahead(node, ref, instants, AHEAD);
    tr_put_text(out, ",\"next-pops\":[");
    for (unsigned i = 0; i < count; i++) {
        tr_put_text(out, i > 0 ? ",\"" : "\"");
        tr_put_rfc3339(out, instants[i]);
        tr_put_text(out, "\"");
    }
    tr_put_text(out, "]");
}

static void put_tags(struct tr_writer *out, const struct tr_record *record)
{
    if (record->tag_count == 0)
        return;
    tr_put_text(out, ",\"statistics\":{\"tag-info\":[");
    for (unsigned i = 0; i < record->tag_count; i++) {
        tr_put_text(out, i > 0 ? ",{\"type\":" : "{\"type\":");
        tr_put_json_string(out, record->tags[i].name);
        tr_put_text(out, ",\"count\":");
        tr_put_decimal(out, record->tags[i].count);
        tr_put_text(out, "}");
    }
    tr_put_text(out, "]}");
}

static const char *state_of(const struct tr_record *record)
{
    if ((record->head.flags & TR_RECORD_DEAD) != 0)
        return "dead";
    return record->head.order.attempt > 0 || record->head.key.part > 0 ? "retrying" : "pending";
}

/* Nodes by their addresses, in their order. */
static void put_members(struct tr_writer *out, const struct tr_node *node, const uint16_t *members,
                        unsigned count)
{
    tr_put_text(out, "[");
    for (unsigned i = 0; i < count; i++) {
        if (members[i] == TR_MEMBER_NONE)
            continue; /* another node knows it; this one does not */
        tr_put_text(out, out->bytes[out->size - 1] == '[' ? "" : ",");
        tr_put_json_string(out, tr_node_member_address(node, members[i]));
    }
    tr_put_text(out, "]");
}

static void put_holders(struct tr_writer *out, const struct tr_node *node,
                        const struct tr_head *head)
{
    put_name(out, "replicas");
    put_members(out, node, head->replicas.members, head->replicas.count);
    if (head->from.count == 0)
        return;
    put_name(out, (head->flags & TR_RECORD_MOVING) != 0 ? "moving-from" : "to-be-told");
    put_members(out, node, head->from.members, head->from.count);
}

/* How it stands, for a backup: a PUT with that puts it back. */
static void put_past(struct tr_writer *out, const struct tr_node *node,
                     const struct tr_record *record, struct tr_span name)
{
    tr_put_text(out, ",\"restore\":{\"version\":\"");
    tr_put_hex(out, record->head.order.version, 16);
    tr_put_text(out, "\",\"node\":");
    tr_put_decimal(out, record->head.order.version_node);
    tr_put_text(out, ",\"sequence\":");
    tr_put_decimal(out, record->head.order.sequence);
    tr_put_text(out, ",\"due\":");
    tr_put_decimal(out, tr_node_wall(node, record->head.due_ms - record->head.lag_ms));
    if (record->head.instant_ms != 0) {
        tr_put_text(out, ",\"instant\":");
        tr_put_decimal(out, record->head.instant_ms);
    }
    put_string(out, "name", name);
    bool is_text = true;
    for (size_t i = 0; i < record->opaque.size && is_text; i++)
        is_text = (unsigned char)record->opaque.text[i] < 0x80;
    if (!is_text) { /* JSON would not keep bytes that are no UTF-8 */
        tr_put_text(out, ",\"opaque\":\"");
        for (size_t i = 0; i < record->opaque.size; i++)
            tr_put_hex(out, (unsigned char)record->opaque.text[i], 2);
        tr_put_text(out, "\"");
    }
    tr_put_text(out, (record->head.flags & TR_RECORD_KEYED) != 0 ? ",\"keyed\":1}" : "}");
}

/* Of one that goes by the wall clock, the instant itself. */
static tr_wall_ms shown_due(const struct tr_node *node, uint32_t ref,
                            const struct tr_record *record)
{
    tr_wall_ms next_ms = 0;
    bool is_usual = record->head.order.attempt == 0 && record->head.key.part == 0 &&
                    (record->head.flags & (TR_RECORD_DEAD | TR_RECORD_FIRED)) == 0;
    if (record->head.instant_ms != 0 && is_usual && tr_node_ahead(node, ref, &next_ms, 1) == 1)
        return next_ms;
    return tr_node_wall(node, record->head.due_ms);
}

/* A record as GET shows it: what the client set, and where it stands. */
void tr_show_timer(struct tr_writer *out, const struct tr_node *node, uint32_t ref,
                   enum tr_show how)
{
    struct tr_record record;
    struct tr_plan plan;
    struct tr_own own;
    tr_node_record(node, ref, &record);
    tr_plan_get(record.plan, &plan);
    tr_own_get(record.own, &own);
    struct tr_timer_text text = tr_node_text(node, record.head.key.id, record.head.factor);
    bool is_dead = (record.head.flags & TR_RECORD_DEAD) != 0;
    tr_steady_ms now = tr_node_steady(node);
    tr_put_text(out, "{\"id\":\"");
    tr_put_timer_text(out, &text);
    tr_put_text(out, "\"");
    put_string(out, "name", own.name);
    put_timing(out, &record, &plan);
    put_callback(out, &record, &plan);
    tr_put_text(out, ",\"reliability\":{\"replication-factor\":");
    tr_put_decimal(out, record.head.factor);
    tr_put_text(out, "}");
    put_tags(out, &record);
    tr_put_text(out, ",\"state\":\"");
    tr_put_text(out, state_of(&record));
    tr_put_text(out, "\",\"sequence-number\":");
    tr_put_decimal(out, tr_record_pop(&record));
    tr_put_text(out, ",\"attempts\":");
    tr_put_decimal(out, record.head.order.attempt);
    tr_put_text(out, is_dead ? ",\"forgotten-at\":\"" : ",\"next-pop\":\"");
    tr_put_rfc3339(out, shown_due(node, ref, &record));
    tr_put_text(out, "\"");
    if (how != TR_SHOW_ONE) {
        put_name(out, is_dead ? "forgotten-in-ms" : "next-pop-in-ms");
        tr_put_decimal(out, record.head.due_ms > now ? record.head.due_ms - now : 0);
    }
    if ((how == TR_SHOW_ONE || how == TR_SHOW_NOW) && !is_dead)
        put_ahead(out, node, ref);
    put_attempt(out, node, &record.head.attempt);
    tr_put_text(out, ",\"version\":\"");
    tr_put_hex(out, record.head.order.version, 16);
    tr_put_text(out, "\"");
    if (how != TR_SHOW_ONE)
        put_holders(out, node, &record.head);
    if (how == TR_SHOW_HELD)
        put_past(out, node, &record, own.name);
    tr_put_text(out, "}");
}

void tr_show_etag(const struct tr_node *node, uint32_t ref, char out[TR_ETAG_MAX])
{
    struct tr_record record;
    tr_node_record(node, ref, &record);
    snprintf(out, TR_ETAG_MAX, "\"%016llx-%llu-%u%s\"",
             (unsigned long long)record.head.order.version,
             (unsigned long long)tr_record_pop(&record), record.head.order.attempt,
             (record.head.flags & TR_RECORD_DEAD) != 0 ? "-dead" : "");
}

bool tr_etag_parse(struct tr_span text, struct tr_condition *condition)
{
    char copy[TR_ETAG_MAX];
    char again[TR_ETAG_MAX];
    unsigned long long version = 0;
    unsigned long long sequence = 0;
    if (text.size >= sizeof copy || memchr(text.text, '\0', text.size) != NULL)
        return false;
    memcpy(copy, text.text, text.size);
    copy[text.size] = '\0';
    char *at = copy + 1;
    version = strtoull(at, &at, 16);
    sequence = *at == '-' ? strtoull(at + 1, &at, 10) : 0;
    unsigned long attempt = *at == '-' ? strtoul(at + 1, &at, 10) : 0;
    condition->when = TR_WHEN_SAME;
    condition->version = version;
    condition->sequence = sequence;
    condition->attempt = attempt <= TR_ATTEMPT_MAX ? (uint32_t)attempt : 0;
    condition->is_dead = strcmp(at, "-dead\"") == 0;
    snprintf(again, sizeof again, "\"%016llx-%llu-%u%s\"", version, sequence, condition->attempt,
             condition->is_dead ? "-dead" : "");
    return strcmp(copy, again) == 0;
}

/* At most what put_timer writes: every byte of a text may become six, and two more in a backup. */
size_t tr_show_bound(const struct tr_node *node, uint32_t ref)
{
    struct tr_record record;
    tr_node_record(node, ref, &record);
    return 2048 +
           6 * (size_t)TR_LOG_ADDRESS_MAX *
               (record.head.replicas.count + record.head.from.count + 1u) +
           8 * (record.uri.size + record.opaque.size + record.content_type.size + record.plan.size +
                2 * record.own.size + (size_t)record.tag_count * (TR_TAG_SIZE + 16));
}

/* A timer as nodes of the original tell each other of it. */
void tr_show_resync(struct tr_writer *out, const struct tr_node *node, uint32_t ref)
{
    struct tr_record record;
    tr_node_record(node, ref, &record);
    static const struct tr_plan usual = {
        .cron = {"", 0}, .zone = {"", 0}, .headers = {"", 0}, .ce_type = {"", 0}};
    uint16_t placed[TR_SET_MAX] = {0};
    unsigned count = tr_node_placed(node, ref, placed);
    uint64_t pop = tr_record_pop(&record);
    /* It was to be due `pop` intervals after its start, whatever was tried since. */
    int64_t start_ms = (int64_t)(record.head.due_ms - record.head.lag_ms - tr_node_steady(node)) -
                       (int64_t)(pop * record.interval_ms);
    uint64_t repeat = record.repeat_ms > 0 ? record.repeat_ms : record.interval_ms;
    repeat = repeat < TR_INTERVAL_MAX ? repeat : TR_INTERVAL_MAX - 1; /* they know no for ever */
    tr_put_text(out, "{\"TimerID\":");
    tr_put_signed(out, (int64_t)record.head.key.id);
    tr_put_text(out, ",\"OldReplicas\":");
    put_members(out, node, record.head.replicas.members, record.head.replicas.count);
    tr_put_text(out, ",\"Timer\":{\"timing\":{\"start-time-delta\":");
    tr_put_signed(out, start_ms);
    tr_put_text(out, ",\"interval\":");
    tr_put_seconds(out, record.interval_ms);
    tr_put_text(out, ",\"repeat-for\":");
    tr_put_seconds(out, repeat);
    tr_put_text(out, ",\"sequence-number\":");
    tr_put_decimal(out, pop - 1);
    tr_put_text(out, "}");
    put_callback(out, &record, &usual);
    tr_put_text(out, ",\"reliability\":{\"cluster-view-id\":\"");
    tr_put_hex(out, tr_node_view(node), 16);
    tr_put_text(out, "\",\"replicas\":");
    put_members(out, node, placed, count);
    tr_put_text(out, "}");
    put_tags(out, &record);
    tr_put_text(out, "}}");
}
