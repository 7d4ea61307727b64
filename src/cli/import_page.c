/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node of Chronos has for another one, page by page. A page begins at a time from now, and a
 * node adds that to its clock when it answers, so the pages of the original's own nodes leave out
 * what falls between them. These overlap: the next one begins before the last pop of this one.
 */
#include "base/hash.h"
#include "cli/facts.h"
#include "cli/import.h"
#include "wire/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE_FIRST   1000 /* timers of a page; twice as many if one brings nothing new */
#define PAGE_MOST    1000000
#define OVERLAP_MS   1000
#define REPLICA_MS   2000  /* by which each replica pops later than the one before it */
#define START_MS     10000 /* when a timer was set is told a little differently by each node */
#define PAGES_MAX    1000000
#define FACTOR_MOST  255
#define BODY_BESIDE  4096
#define VERSION_BITS 16

static uint64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int64_t whole(const struct tr_facts *facts, const char *path)
{
    char digits[24] = "";
    struct tr_span value = tr_fact_value(facts, path);
    memcpy(digits, value.text, value.size < sizeof digits ? value.size : sizeof digits - 1);
    return strtoll(digits, NULL, 10);
}

/* ---- those that were found ---- */

static void grow(struct tr_import *import)
{
    import->slot_count = import->slot_count == 0 ? 4096 : import->slot_count * 2;
    free(import->slots);
    import->slots = tr_allocate(import->slot_count, sizeof import->slots[0]);
    for (size_t i = 0; i < import->count; i++) {
        size_t at = tr_hash_mix(import->list[i].id) & (import->slot_count - 1);
        while (import->slots[at] != 0)
            at = (at + 1) & (import->slot_count - 1);
        import->slots[at] = (uint32_t)i + 1;
    }
}

/* The one of this id, which is new if it has no body yet. */
static struct tr_imported *place_of(struct tr_import *import, uint64_t id)
{
    if (import->count * 2 >= import->slot_count)
        grow(import);
    size_t at = tr_hash_mix(id) & (import->slot_count - 1);
    while (import->slots[at] != 0) {
        if (import->list[import->slots[at] - 1].id == id)
            return &import->list[import->slots[at] - 1];
        at = (at + 1) & (import->slot_count - 1);
    }
    if (import->count == import->cap) {
        import->cap = import->cap * 2 + 4096;
        import->list = tr_reallocate(import->list, import->cap, sizeof import->list[0]);
    }
    import->slots[at] = (uint32_t)import->count + 1;
    import->list[import->count] = (struct tr_imported){.id = id};
    return &import->list[import->count++];
}

/* ---- one of them ---- */

static void put_tags(struct tr_writer *out, const struct tr_facts *facts)
{
    bool has_any = false;
    for (unsigned i = 0; i < facts->count; i++) {
        const struct tr_fact *fact = &facts->list[i];
        if (strcmp(fact->path, "Timer.statistics.tag-info.type") == 0) {
            tr_put_text(out,
                        has_any ? "},{\"type\":" : ",\"statistics\":{\"tag-info\":[{\"type\":");
            tr_put_json_string(out, fact->value);
            has_any = true;
        } else if (has_any && strcmp(fact->path, "Timer.statistics.tag-info.count") == 0) {
            tr_put_text(out, ",\"count\":");
            tr_put_bytes(out, fact->value.text, fact->value.size);
        }
    }
    tr_put_text(out, has_any ? "}]}" : "");
}

static void put_member(struct tr_writer *out, const char *name, uint64_t number)
{
    tr_put_text(out, name);
    tr_put_decimal(out, number);
}

static void write_body(struct tr_imported *timer, const struct tr_facts *facts, uint64_t due_ms)
{
    size_t cap = BODY_BESIDE + 6 * (tr_fact_value(facts, "Timer.callback.http.uri").size +
                                    tr_fact_value(facts, "Timer.callback.http.opaque").size);
    free(timer->body);
    timer->body = tr_allocate(cap, 1);
    struct tr_writer out = tr_writer_on(timer->body, cap);
    put_member(&out, "{\"timing\":{\"interval\":", tr_fact_number(facts, "Timer.timing.interval"));
    put_member(&out, ",\"repeat-for\":", tr_fact_number(facts, "Timer.timing.repeat-for"));
    tr_put_text(&out, "},\"callback\":{\"http\":{\"uri\":");
    tr_put_json_string(&out, tr_fact_value(facts, "Timer.callback.http.uri"));
    tr_put_text(&out, ",\"opaque\":");
    tr_put_json_string(&out, tr_fact_value(facts, "Timer.callback.http.opaque"));
    put_member(&out, "}},\"reliability\":{\"replication-factor\":", timer->factor);
    tr_put_text(&out, "}");
    put_tags(&out, facts);
    tr_put_text(&out, ",\"restore\":{\"version\":\"");
    tr_put_hex(&out, (timer->start_ms / START_MS * START_MS) << VERSION_BITS, 16);
    put_member(&out, "\",\"node\":0,\"sequence\":", timer->sequence + 1); /* the one to come */
    put_member(&out, ",\"due\":", due_ms);
    tr_put_text(&out, "}}");
    timer->size = out.is_full ? 0 : out.size;
}

/* How many replicas it has, and which of them this node is. */
static unsigned count_replicas(const struct tr_facts *facts, const char *node, unsigned *place)
{
    struct tr_span name = {node, strlen(node)};
    unsigned count = 0;
    *place = UINT32_MAX;
    for (unsigned i = 0; i < facts->count; i++) {
        if (strcmp(facts->list[i].path, "Timer.reliability.replicas") != 0)
            continue;
        *place = tr_span_equals(facts->list[i].value, name) ? count : *place;
        count++;
    }
    *place = *place == UINT32_MAX ? count : *place;
    return count < FACTOR_MOST ? count : FACTOR_MOST;
}

/* Takes one, unless it is known from another node that has made more of its pops. Returns when the
 * node that told of it would pop it, in milliseconds from its answer. */
static int64_t take(struct tr_import *import, const struct tr_facts *facts, const char *from)
{
    unsigned place = 0;
    int64_t delta_ms = whole(facts, "Timer.timing.start-time-delta");
    uint64_t sequence = tr_fact_number(facts, "Timer.timing.sequence-number");
    uint64_t interval_ms = tr_fact_number(facts, "Timer.timing.interval") * 1000;
    unsigned factor = count_replicas(facts, from, &place);
    int64_t in_ms = delta_ms + (int64_t)((sequence + 1) * interval_ms);
    uint64_t now_ms = clock_ms(CLOCK_REALTIME);
    int64_t start_ms = (int64_t)now_ms + (delta_ms < 0 ? delta_ms : 0);
    struct tr_imported *timer = place_of(import, (uint64_t)whole(facts, "TimerID"));
    bool is_newer = timer->body == NULL || sequence > timer->sequence ||
                    (sequence == timer->sequence && start_ms > (int64_t)timer->start_ms + START_MS);
    if (is_newer) {
        timer->sequence = sequence;
        timer->start_ms = start_ms > START_MS ? (uint64_t)start_ms : START_MS;
        timer->factor = factor > 0 ? factor : 1;
        write_body(timer, facts, now_ms + (in_ms > 0 ? (uint64_t)in_ms : 0));
    }
    return in_ms + (int64_t)place * REPLICA_MS;
}

/* ---- pages ---- */

struct page {
    unsigned status;
    unsigned count;
    int64_t last_ms; /* from the answer on: the last pop that it tells of */
};

static void read_page(struct tr_import *import, const char *from, struct tr_span body,
                      struct page *page)
{
    struct tr_json json;
    struct tr_facts *facts = tr_allocate(1, sizeof *facts);
    enum tr_json_token token;
    tr_json_init(&json, (char *)(uintptr_t)body.text, body.size);
    while ((token = tr_json_next(&json)) != TR_JSON_END && token != TR_JSON_BAD) {
        if (token != TR_JSON_OBJECT || json.depth != 3)
            continue;
        tr_facts_read(&json, facts);
        int64_t pops_ms = take(import, facts, from);
        page->last_ms = pops_ms > page->last_ms ? pops_ms : page->last_ms;
        page->count++;
    }
    if (token == TR_JSON_BAD)
        page->status = 0;
    free(facts);
}

static bool ask_page(struct tr_import *import, const char *from, const char *of, int64_t after_ms,
                     unsigned range, struct page *page)
{
    char request[1024];
    struct tr_reply reply;
    char after[40] = "";
    if (after_ms > 0)
        snprintf(after, sizeof after, ";time-from=%" PRId64, after_ms);
    int size = snprintf(request, sizeof request,
                        "GET /timers?node-for-replicas=%s;cluster-view-id=%s%s HTTP/1.1\r\n"
                        "Host: %s\r\nRange: %u\r\nConnection: close\r\n\r\n",
                        of, import->view, after, from, range);
    *page = (struct page){.last_ms = after_ms};
    if (!tr_node_ask(TR_IMPORT_COMMAND, from, request, (size_t)size, &reply))
        return false;
    page->status = reply.status;
    if (reply.status == 200 || reply.status == 206)
        read_page(import, from, reply.body, page);
    tr_reply_free(&reply);
    if (page->status == 400)
        tr_failure(TR_IMPORT_COMMAND,
                   "%s refuses: --from must name all nodes of its cluster, staying and joining, as "
                   "its configuration names them (or --view its cluster-view-id)",
                   from);
    else if (page->status != 200 && page->status != 206)
        tr_failure(TR_IMPORT_COMMAND, "%s answers what no node of Chronos does (%u)", from,
                   reply.status);
    return page->status == 200 || page->status == 206;
}

bool tr_import_read(struct tr_import *import, const char *from, const char *of)
{
    int64_t after_ms = 0;
    unsigned range = PAGE_FIRST;
    for (unsigned pages = 0; pages < PAGES_MAX; pages++) {
        struct page page;
        size_t known = import->count;
        uint64_t asked_ms = clock_ms(CLOCK_MONOTONIC);
        if (!ask_page(import, from, of, after_ms, range, &page))
            return false;
        if (page.status == 200)
            return true;
        uint64_t took_ms = clock_ms(CLOCK_MONOTONIC) - asked_ms;
        int64_t next_ms = page.last_ms - (int64_t)took_ms - OVERLAP_MS;
        bool is_stuck = next_ms <= after_ms && import->count == known;
        if (is_stuck && page.count < range)
            return true; /* it says that there is more, and has nothing */
        if (is_stuck && range < PAGE_MOST)
            range *= 2;
        after_ms = next_ms > 0 ? next_ms : 0;
    }
    return true;
}
