/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: each is a pop that the node has handed out, from the lookup of its host to its outcome.
 *
 * They stand in one list in the order of their deadlines; most have the same time limit.
 */
#include "base/assert.h"
#include "shell/address.h"
#include "shell/callback/call.h"
#include "shell/callback/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_MS 5000

/* Not the loop's own time, which stands still while a long step runs: a callback made at the end of
 * one would have used up its time before it began. */
uint64_t tr_caller_now_ms(void)
{
    return uv_hrtime() / 1000000;
}

/* ---- outcomes ---- */

/* Tells the node, but not from inside a step of it. */
static void on_tell(uv_idle_t *idle)
{
    struct tr_caller *caller = idle->data;
    uv_idle_stop(idle);
    size_t count = caller->ended_count;
    struct tr_event *events = caller->ended;
    caller->ended = NULL;
    caller->ended_count = 0;
    caller->ended_cap = 0;
    for (size_t i = 0; i < count; i++)
        tr_daemon_step(caller->daemon, &events[i]);
    free(events);
}

static void tell(struct tr_caller *caller, const struct tr_event *event)
{
    if (!caller->daemon->is_stepping) {
        struct tr_event copy = *event;
        tr_daemon_step(caller->daemon, &copy);
        return;
    }
    if (caller->ended_count == caller->ended_cap) {
        size_t cap = caller->ended_cap * 2 > 64 ? caller->ended_cap * 2 : 64;
        struct tr_event *larger = realloc(caller->ended, cap * sizeof *larger);
        if (larger == NULL)
            abort();
        caller->ended = larger;
        caller->ended_cap = cap;
    }
    caller->ended[caller->ended_count++] = *event;
    uv_idle_start(&caller->teller, on_tell);
}

static void say_failed(const struct tr_call *call, enum tr_callback_result result, unsigned status)
{
    char why[160];
    if (result == TR_CALLBACK_ANSWERED)
        snprintf(why, sizeof why, "HTTP status %u", status);
    else
        tr_fault_explain(result == TR_CALLBACK_TIMED_OUT ? TR_FAULT_TIMED_OUT : call->fault, why,
                         sizeof why);
    char id[24];
    int size = snprintf(id, sizeof id, "%016llx", (unsigned long long)call->id);
    struct tr_said about = {
        .timer = {id, (size_t)size}, .destination = call->origin, .attempt = call->attempt};
    tr_say_of(about, TR_INFO, "timer %016llx: attempt %u of pop %llu, to %.*s, failed: %s",
              (unsigned long long)call->id, call->attempt, (unsigned long long)call->sequence,
              (int)call->origin.size, call->origin.text, why);
}

static void tell_of(struct tr_call *call, enum tr_callback_result result, unsigned status,
                    uint32_t duration_ms)
{
    struct tr_daemon *daemon = call->caller->daemon;
    struct tr_pop_told *told = call->told;
    bool is_answered = result == TR_CALLBACK_ANSWERED;
    told->at_ms = (tr_daemon_clock_us(daemon) + daemon->wall_base_us) / 1000;
    told->late_ms = call->late_ms;
    told->duration_ms = duration_ms;
    told->status = is_answered ? status : 0;
    told->fault = result == TR_CALLBACK_TIMED_OUT ? TR_FAULT_TIMED_OUT : call->fault;
    told->state = is_answered && status / 100 == 2 ? TR_POP_DELIVERED : TR_POP_FAILED;
    tr_pop_ring_add(daemon->pops, told);
}

void tr_call_finish(struct tr_call *call, enum tr_callback_result result, unsigned status,
                    uint64_t retry_after_ms)
{
    struct tr_caller *caller = call->caller;
    struct tr_metrics *metrics = &caller->daemon->metrics;
    call->previous->next = call->next;
    call->next->previous = call->previous;
    if (call->link != NULL)
        call->link->call = NULL;
    bool is_answered = result == TR_CALLBACK_ANSWERED;
    metrics->callbacks_by_class[is_answered && status < 600 ? status / 100 : 0]++;
    if (is_answered)
        tr_histogram_add(&metrics->callback_us, tr_boot_us() - call->sent_us);
    struct tr_event event = {.kind = TR_EVENT_CALLBACK_ENDED, .has_more = true};
    event.of.callback.flight = call->flight;
    event.of.callback.result = result;
    event.of.callback.status = status;
    event.of.callback.fault = call->fault;
    event.of.callback.retry_after_ms = retry_after_ms;
    uint64_t duration_ms = (tr_boot_us() - call->began_us) / 1000;
    event.of.callback.duration_ms = duration_ms < UINT32_MAX ? (uint32_t)duration_ms : UINT32_MAX;
    bool is_failed = !is_answered || status / 100 != 2;
    if (is_failed && tr_say_may(&caller->daemon->failed_lines, tr_boot_us() / 1000))
        say_failed(call, result, status);
    tell_of(call, result, status, event.of.callback.duration_ms);
    tr_names_cancel(&call->wait);
    free(call);
    tell(caller, &event);
}

/* ---- calls ---- */

bool tr_call_has_next_address(const struct tr_call *call)
{
    return call->wait.tries > 0 && call->wait.tries < call->wait.count;
}

static void on_found(struct tr_name_wait *wait, const struct sockaddr_storage *address)
{
    struct tr_call *call = (struct tr_call *)wait;
    if (address == NULL) {
        call->fault = TR_FAULT_DNS;
        tr_call_finish(call, TR_CALLBACK_UNREACHED, 0, 0);
    } else {
        tr_callback_connect(call, address);
    }
}

void tr_call_start(struct tr_call *call)
{
    struct tr_caller *caller = call->caller;
    struct tr_callback_pool *pool = tr_callback_pool(caller, call->origin);
    struct tr_callback_link *link = pool->idle;
    if (link != NULL) {
        pool->idle = link->next_idle;
        link->is_used_again = true;
        link->call = call;
        call->link = link;
        tr_callback_send(link);
        return;
    }
    struct sockaddr_storage address;
    if (tr_address_parse(call->host, call->port, &address))
        tr_callback_connect(call, &address);
    else
        tr_names_find(caller->names, call->host, &call->wait);
}

static void on_deadline(uv_timer_t *timer)
{
    struct tr_caller *caller = timer->data;
    uint64_t now = tr_caller_now_ms();
    /* The analyzer takes the ring's head, which is never freed, for a call that was. */
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    while (caller->calls.next != &caller->calls && caller->calls.next->deadline_ms <= now) {
        struct tr_call *call = caller->calls.next;
        if (call->link != NULL && tr_callback_is_decided(call->link))
            tr_callback_answered(
                call->link); /* its body does not end: nor is the connection kept */
        else if (call->link != NULL)
            tr_callback_fail(call->link, TR_CALLBACK_TIMED_OUT, TR_FAULT_NONE);
        else
            tr_call_finish(call, TR_CALLBACK_TIMED_OUT, 0, 0);
    }
    if (caller->calls.next != &caller->calls)
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
        uv_timer_start(timer, on_deadline, caller->calls.next->deadline_ms - now, 0);
}

/* Of a record that may be gone when the call ends, what is told of its pop. */
static size_t told_size(const struct tr_record *record)
{
    size_t size = sizeof(struct tr_pop_told) + record->uri.size + record->own.size;
    for (unsigned i = 0; i < record->tag_count; i++)
        size += record->tags[i].name.size;
    return size;
}

static struct tr_span keep_text(struct tr_span text, char **to)
{
    struct tr_span kept = {*to, text.size};
    memcpy(*to, text.text, text.size);
    *to += text.size;
    return kept;
}

static struct tr_pop_told *write_told(const struct tr_daemon *daemon,
                                      const struct tr_record *record, void *bytes)
{
    struct tr_pop_told *told = bytes;
    struct tr_own own;
    char *to = (char *)(told + 1);
    tr_own_get(record->own, &own);
    told->id = record->head.key.id;
    told->factor = record->head.factor;
    told->sequence = tr_record_pop(record);
    told->attempts = record->head.order.attempt + 1;
    told->due_ms = tr_node_nominal(daemon->node, record);
    told->uri = keep_text(record->uri, &to);
    told->name = keep_text(own.name, &to);
    told->tag_count = record->tag_count;
    for (unsigned i = 0; i < record->tag_count; i++)
        told->tags[i] = keep_text(record->tags[i].name, &to);
    return told;
}

static struct tr_call *new_call(struct tr_caller *caller, const struct tr_effect *effect,
                                const struct tr_record *record, const struct tr_uri *uri)
{
    struct tr_daemon *daemon = caller->daemon;
    struct tr_plan plan;
    tr_plan_get(record->plan, &plan);
    size_t cap = tr_callback_request_bound(record, uri) + uri->origin.size;
    cap = (cap + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    struct tr_call *call = malloc(sizeof *call + cap + told_size(record));
    if (call == NULL)
        abort();
    char *bytes = (char *)(call + 1);
    struct tr_writer out = tr_writer_on(bytes, cap);
    const struct tr_callback_world world = {
        daemon->node, &daemon->config, tr_node_wall(daemon->node, tr_node_steady(daemon->node))};
    tr_callback_put_request(&out, &world, record, &plan, uri);
    *call = (struct tr_call){
        .caller = caller,
        .flight = effect->of.fire.flight,
        .id = record->head.key.id,
        .sequence = tr_record_pop(record),
        .attempt = record->head.order.attempt + 1,
        .deadline_ms = tr_caller_now_ms() +
                       (plan.timeout_ms > 0 ? plan.timeout_ms : daemon->config.callback_timeout_ms),
        .due_us = effect->of.fire.due_mono_ms * 1000,
        .began_us = tr_boot_us(),
        .sent_us = tr_boot_us(),
        .is_tls = uri->is_tls,
        .port = uri->port,
        .bytes = bytes,
        .size = out.size,
        .wait.on_found = on_found,
    };
    tr_put_bytes(&out, uri->origin.text, uri->origin.size);
    TR_ASSERT(!out.is_full);
    call->origin = (struct tr_span){call->bytes + call->size, uri->origin.size};
    memcpy(call->host, uri->host.text, uri->host.size);
    call->host[uri->host.size] = '\0';
    call->told = write_told(daemon, record, bytes + cap);
    return call;
}

/* Among the others by its deadline, which most often is the last. */
static void link_by_deadline(struct tr_caller *caller, struct tr_call *call)
{
    struct tr_call *after = caller->calls.previous;
    while (after != &caller->calls && after->deadline_ms > call->deadline_ms)
        after = after->previous;
    call->previous = after;
    call->next = after->next;
    after->next->previous = call;
    after->next = call;
    uint64_t now_ms = tr_caller_now_ms();
    uint64_t left_ms = call->deadline_ms > now_ms ? call->deadline_ms - now_ms : 0;
    if (caller->calls.next == call)
        uv_timer_start(&caller->deadline, on_deadline, left_ms, 0);
}

void tr_caller_fire(struct tr_caller *caller, const struct tr_effect *effect)
{
    struct tr_record record;
    struct tr_uri uri;
    tr_node_record(caller->daemon->node, effect->of.fire.ref, &record);
    if (tr_uri_parse(record.uri, &uri) != NULL) {
        struct tr_event event = {.kind = TR_EVENT_CALLBACK_ENDED};
        event.of.callback.flight = effect->of.fire.flight;
        event.of.callback.result = TR_CALLBACK_UNREACHED;
        tell(caller, &event);
        return;
    }
    struct tr_call *call = new_call(caller, effect, &record, &uri);
    link_by_deadline(caller, call);
    tr_call_start(call);
}

struct tr_caller *tr_caller_open(struct tr_daemon *daemon)
{
    struct tr_caller *caller = calloc(1, sizeof *caller);
    if (caller == NULL)
        return NULL;
    caller->daemon = daemon;
    caller->calls.next = &caller->calls;
    caller->calls.previous = &caller->calls;
    caller->tls = tr_tls_context_new(daemon->config.ca_file);
    caller->names = tr_names_new(&daemon->loop);
    if (caller->tls == NULL || caller->names == NULL)
        return NULL;
    uv_timer_init(&daemon->loop, &caller->deadline);
    uv_timer_init(&daemon->loop, &caller->sweep);
    uv_idle_init(&daemon->loop, &caller->teller);
    caller->deadline.data = caller;
    caller->sweep.data = caller;
    caller->teller.data = caller;
    uv_timer_start(&caller->sweep, tr_callback_sweep, SWEEP_MS, SWEEP_MS);
    return caller;
}

void tr_caller_each_origin(const struct tr_caller *caller,
                           void (*each)(void *context, struct tr_span origin), void *context)
{
    for (size_t i = 0; i < TR_CALLBACK_POOLS; i++) {
        for (const struct tr_callback_pool *pool = caller->pools[i]; pool != NULL;
             pool = pool->next)
            each(context, pool->origin);
    }
}

void tr_caller_close(struct tr_caller *caller)
{
    while (caller->calls.next != &caller->calls) { /* the drain has taken too long */
        struct tr_call *call = caller->calls.next;
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the same
        call->previous->next = call->next;
        call->next->previous = call->previous;
        if (call->link != NULL) {
            call->link->call = NULL;
            tr_callback_close(call->link);
        }
        tr_names_cancel(&call->wait);
        free(call);
    }
    tr_names_free(caller->names);
    for (unsigned i = 0; i < TR_CALLBACK_POOLS; i++) {
        for (struct tr_callback_pool *pool = caller->pools[i]; pool != NULL; pool = pool->next) {
            for (struct tr_callback_link *link = pool->idle; link != NULL; link = link->next_idle)
                tr_callback_close(link);
        }
    }
    uv_close((uv_handle_t *)&caller->deadline, NULL);
    uv_close((uv_handle_t *)&caller->sweep, NULL);
    uv_close((uv_handle_t *)&caller->teller, NULL);
}
