/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to receivers: opened, kept and used again, per destination; TLS where it is asked
 * for.
 *
 * The head of an answer decides: what becomes of its body, which nobody here wants, is no matter.
 * It is read for the sake of the connection, which serves the next call; if it is too long, cut
 * short or without end, the connection is closed.
 */
#include "base/hash.h"
#include "calendar/date.h"
#include "shell/address.h"
#include "shell/callback/call.h"
#include "shell/callback/fault.h"
#include "shell/peer/neighbours.h"

#include <stdlib.h>
#include <string.h>

#define RESPONSE_MAX ((size_t)256 << 10) /* bytes of an answer's body that are waited for */
#define PATIENCE_S   1000000             /* more is no number of seconds that anybody waits */
#define READ_SIZE    16384
#define IDLE_MS      30000 /* a kept connection is closed after this */

static const struct tr_stream_calls stream_calls;

struct tr_callback_pool *tr_callback_pool(struct tr_caller *caller, struct tr_span origin)
{
    uint64_t hash = tr_hash_xxh3(origin.text, origin.size);
    struct tr_callback_pool **bucket = &caller->pools[hash % TR_CALLBACK_POOLS];
    for (struct tr_callback_pool *pool = *bucket; pool != NULL; pool = pool->next) {
        if (pool->hash == hash && tr_span_equals(pool->origin, origin))
            return pool;
    }
    struct tr_callback_pool *pool = calloc(1, sizeof *pool + origin.size);
    if (pool == NULL)
        abort();
    char *text = (char *)(pool + 1);
    memcpy(text, origin.text, origin.size);
    *pool = (struct tr_callback_pool){.next = *bucket, .hash = hash, .origin = {text, origin.size}};
    *bucket = pool;
    return pool;
}

static void on_gone(struct tr_stream *stream)
{
    struct tr_callback_link *link = (struct tr_callback_link *)stream;
    if (link->tls != NULL)
        tr_tls_free(link->tls);
    free(link->in);
    free(link);
}

void tr_callback_close(struct tr_callback_link *link)
{
    if (link->stream.is_closed)
        return;
    link->pool->links--;
    link->caller->links--;
    tr_stream_close(&link->stream);
}

static void remove_idle(struct tr_callback_link *link)
{
    struct tr_callback_link **at = &link->pool->idle;
    while (*at != NULL && *at != link)
        at = &(*at)->next_idle;
    if (*at != NULL)
        *at = link->next_idle;
}

/* The connection failed under its call, or while it was idle. */
void tr_callback_fail(struct tr_callback_link *link, enum tr_callback_result result,
                      enum tr_fault fault)
{
    struct tr_call *call = link->call;
    bool is_retried = call != NULL && link->is_used_again && !link->has_answer_bytes &&
                      result == TR_CALLBACK_UNREACHED;
    link->call = NULL;
    if (call == NULL)
        remove_idle(link);
    tr_callback_close(link);
    if (call == NULL)
        return;
    call->link = NULL;
    call->fault = fault;
    if (is_retried)
        tr_call_start(call);
    else
        tr_call_finish(call, result, 0, 0);
}

/* What TLS wants sent. */
static bool flush_tls(struct tr_callback_link *link)
{
    char bytes[READ_SIZE];
    size_t size;
    while ((size = tr_tls_output(link->tls, bytes, sizeof bytes)) > 0) {
        if (!tr_stream_put(&link->stream, bytes, size))
            return false;
    }
    return true;
}

/* The connection is open: the request goes out. This is the moment that lateness is about. */
void tr_callback_send(struct tr_callback_link *link)
{
    struct tr_call *call = link->call;
    uint64_t now = tr_daemon_clock_us(call->caller->daemon);
    if (!call->is_timed) {
        call->is_timed = true;
        struct tr_metrics *metrics = &call->caller->daemon->metrics;
        uint64_t late_us = now > call->due_us ? now - call->due_us : 0;
        tr_histogram_add(&metrics->lateness_us, late_us);
        if (late_us > metrics->lateness_most_us)
            metrics->lateness_most_us = late_us;
    }
    call->sent_us = tr_boot_us();
    call->late_ms = now > call->due_us ? (now - call->due_us) / 1000 : 0;
    link->served++;
    tr_http_init_response(&link->http, RESPONSE_MAX);
    link->in_size = 0;
    link->has_answer_bytes = false;
    bool is_sent = link->tls == NULL
                       ? tr_stream_put(&link->stream, call->bytes, call->size)
                       : tr_tls_write(link->tls, call->bytes, call->size) && flush_tls(link);
    if (is_sent)
        tr_stream_send_now(&link->stream); /* a turn of a flood of commands takes milliseconds */
    else
        tr_callback_fail(link, TR_CALLBACK_UNREACHED, TR_FAULT_RESET);
}

/* Nobody listens at this address of its host: perhaps at the next. */
static void try_next_address(struct tr_callback_link *link)
{
    struct tr_call *call = link->call;
    if (call == NULL || !tr_call_has_next_address(call)) {
        tr_callback_fail(link, TR_CALLBACK_UNREACHED, TR_FAULT_REFUSED);
        return;
    }
    link->call = NULL;
    call->link = NULL;
    tr_callback_close(link);
    tr_call_start(call);
}

static void on_open(struct tr_stream *stream, bool is_open)
{
    struct tr_callback_link *link = (struct tr_callback_link *)stream;
    if (!is_open) {
        try_next_address(link);
    } else if (link->tls == NULL) {
        link->is_ready = true;
        tr_callback_send(link);
    } else if (tr_tls_input(link->tls, NULL, 0) == TR_TLS_FAILED || !flush_tls(link)) {
        tr_callback_fail(link, TR_CALLBACK_UNREACHED,
                         tr_fault_of_certificate(tr_tls_verdict(link->tls)));
    }
}

static bool is_denied(const struct tr_config *config, const struct sockaddr_storage *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    uint8_t host[16];
    tr_address_host(address, host);
    bool is_ipv6 = memcmp(host, mapped, sizeof mapped) != 0;
    const uint8_t *bytes = is_ipv6 ? host : host + sizeof mapped;
    for (size_t i = 0; i < config->deny_count; i++) {
        const struct tr_network *network = &config->deny[i];
        unsigned whole = network->bits / 8;
        unsigned rest = network->bits % 8;
        if (network->is_ipv6 != is_ipv6 || memcmp(network->address, bytes, whole) != 0)
            continue;
        if (rest == 0 || (network->address[whole] ^ bytes[whole]) >> (8 - rest) == 0)
            return true;
    }
    return false;
}

/* Files are few: a connection that nobody uses makes room for one that somebody wants. */
static void spare_link(struct tr_caller *caller)
{
    for (unsigned i = 0;
         caller->links >= 2 * caller->daemon->config.flights && i < TR_CALLBACK_POOLS; i++) {
        struct tr_callback_pool *pool = caller->pools[caller->sweep_from++ % TR_CALLBACK_POOLS];
        while (pool != NULL && pool->idle == NULL)
            pool = pool->next;
        if (pool == NULL)
            continue;
        struct tr_callback_link *link = pool->idle;
        pool->idle = link->next_idle;
        tr_callback_close(link);
    }
}

void tr_callback_connect(struct tr_call *call, const struct sockaddr_storage *address)
{
    struct tr_caller *caller = call->caller;
    const struct tr_config *config = &caller->daemon->config;
    bool is_node = !config->may_call_nodes &&
                   tr_neighbours_have_address(caller->daemon->node, address, call->port);
    if (is_node || is_denied(config, address)) {
        caller->daemon->metrics.callbacks_denied++;
        call->fault = is_node ? TR_FAULT_NODE : TR_FAULT_DENIED;
        if (tr_call_has_next_address(call))
            tr_call_start(call);
        else
            tr_call_finish(call, TR_CALLBACK_UNREACHED, 0, 0);
        return;
    }
    struct sockaddr_storage target = *address;
    tr_address_set_port(&target, call->port);
    spare_link(caller);
    struct tr_callback_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        abort();
    link->tls = call->is_tls ? tr_tls_new(caller->tls, call->host) : NULL;
    if ((call->is_tls && link->tls == NULL) ||
        !tr_stream_connect(&link->stream, &caller->daemon->streams, NULL,
                           (struct sockaddr *)&target, &stream_calls)) {
        on_gone(&link->stream);
        call->fault = TR_FAULT_REFUSED;
        if (tr_call_has_next_address(call))
            tr_call_start(call);
        else
            tr_call_finish(call, TR_CALLBACK_UNREACHED, 0, 0);
        return;
    }
    link->caller = caller;
    link->pool = tr_callback_pool(caller, call->origin);
    link->pool->links++;
    caller->links++;
    link->call = call;
    call->link = link;
}

/* Seconds, or a date. */
static uint64_t retry_after_ms(const struct tr_callback_link *link)
{
    struct tr_span text = tr_http_header(&link->http, link->in, TR_HTTP_RETRY_AFTER);
    uint64_t seconds = 0;
    tr_wall_ms at_ms = 0;
    if (text.text != NULL && tr_http_date_parse(text, &at_ms)) {
        tr_wall_ms now_ms = tr_clock_us(CLOCK_REALTIME) / 1000;
        return at_ms > now_ms ? at_ms - now_ms : 0;
    }
    for (size_t i = 0; text.text != NULL && i < text.size; i++) {
        if (text.text[i] < '0' || text.text[i] > '9')
            return 0;
        if (seconds < PATIENCE_S) /* the node has a limit of its own, well below */
            seconds = seconds * 10 + (uint64_t)(text.text[i] - '0');
    }
    return seconds * 1000;
}

bool tr_callback_is_decided(const struct tr_callback_link *link)
{
    return link->call != NULL && link->has_answer_bytes && link->http.is_head_done &&
           tr_http_status(&link->http) / 100 != 1;
}

void tr_callback_answered(struct tr_callback_link *link)
{
    struct tr_call *call = link->call;
    unsigned status = tr_http_status(&link->http);
    uint64_t retry_after = retry_after_ms(link);
    bool is_kept =
        link->http.is_complete && link->http.keeps_alive && link->http.used == link->in_size;
    link->in_size = 0;
    call->link = NULL;
    link->call = NULL;
    if (is_kept) {
        link->idle_since_ms = tr_caller_now_ms();
        link->next_idle = link->pool->idle;
        link->pool->idle = link;
    } else {
        tr_callback_close(link);
    }
    tr_call_finish(call, TR_CALLBACK_ANSWERED, status, retry_after);
}

/* Bytes of an answer, in the clear. */
static void take(struct tr_callback_link *link, char *bytes, size_t size)
{
    if (link->call == NULL) { /* nobody asked: not a connection to keep */
        tr_callback_fail(link, TR_CALLBACK_UNREACHED, TR_FAULT_RESET);
        return;
    }
    link->has_answer_bytes = true;
    if (link->in_size + size > link->in_cap) {
        char *larger = realloc(link->in, link->in_size + size + 512);
        if (larger == NULL)
            abort();
        link->in = larger;
        link->in_cap = link->in_size + size + 512;
    }
    size_t from = link->in_size;
    memcpy(link->in + from, bytes, size);
    link->in_size += size;
    enum tr_http_state state = tr_http_feed(&link->http, link->in, from, link->in_size);
    while (state == TR_HTTP_COMPLETE && tr_http_status(&link->http) / 100 == 1) {
        size_t used = link->http.used;
        memmove(link->in, link->in + used, link->in_size - used);
        link->in_size -= used;
        tr_http_next(&link->http);
        state = tr_http_feed(&link->http, link->in, 0, link->in_size);
    }
    bool is_over = state == TR_HTTP_BAD || link->in_size > RESPONSE_MAX;
    if (state == TR_HTTP_COMPLETE || (is_over && tr_callback_is_decided(link)))
        tr_callback_answered(link);
    else if (is_over)
        tr_callback_fail(link, TR_CALLBACK_UNREACHED, TR_FAULT_ANSWER);
}

static void take_tls(struct tr_callback_link *link, const char *bytes, size_t size)
{
    char plain[READ_SIZE];
    enum tr_tls_state state = tr_tls_input(link->tls, bytes, size);
    if (state == TR_TLS_FAILED || !flush_tls(link)) {
        if (state == TR_TLS_FAILED)
            tr_say(TR_INFO, "TLS with %.*s failed: %s", (int)link->pool->origin.size,
                   link->pool->origin.text, tr_tls_fault(link->tls));
        tr_callback_fail(link, TR_CALLBACK_UNREACHED,
                         tr_fault_of_certificate(tr_tls_verdict(link->tls)));
        return;
    }
    if (state == TR_TLS_READY && !link->is_ready) {
        link->is_ready = true;
        if (link->call != NULL)
            tr_callback_send(link);
    }
    uint64_t served = link->served;
    size_t got;
    while (!link->stream.is_closed && (got = tr_tls_read(link->tls, plain, sizeof plain)) > 0) {
        if (link->served == served)
            take(link, plain, got);
        else /* more than the answer: the link may serve another call by now, whose it is not */
            tr_callback_fail(link, TR_CALLBACK_UNREACHED, TR_FAULT_RESET);
    }
    if (!link->stream.is_closed && !flush_tls(link))
        tr_callback_fail(link, TR_CALLBACK_UNREACHED, TR_FAULT_RESET);
}

static void on_bytes(struct tr_stream *stream, char *bytes, size_t size)
{
    struct tr_callback_link *link = (struct tr_callback_link *)stream;
    if (link->tls != NULL)
        take_tls(link, bytes, size);
    else
        take(link, bytes, size);
}

static void on_end(struct tr_stream *stream, bool is_broken)
{
    struct tr_callback_link *link = (struct tr_callback_link *)stream;
    (void)is_broken;
    if (tr_callback_is_decided(link)) {
        link->http.keeps_alive = false;
        tr_callback_answered(link);
    } else {
        tr_callback_fail(link, TR_CALLBACK_UNREACHED, TR_FAULT_RESET);
    }
}

static const struct tr_stream_calls stream_calls = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_gone = on_gone,
    .wants_rest = true,
};

void tr_callback_sweep(uv_timer_t *timer)
{
    struct tr_caller *caller = timer->data;
    uint64_t now = tr_caller_now_ms();
    for (unsigned i = 0; i < TR_CALLBACK_POOLS; i++) {
        struct tr_callback_pool **at = &caller->pools[i];
        while (*at != NULL) {
            struct tr_callback_pool *pool = *at;
            struct tr_callback_link **link = &pool->idle;
            while (*link != NULL) {
                struct tr_callback_link *old = *link;
                if (old->idle_since_ms + IDLE_MS > now) {
                    link = &old->next_idle;
                    continue;
                }
                *link = old->next_idle;
                tr_callback_close(old);
            }
            if (pool->links == 0) {
                *at = pool->next;
                free(pool);
            } else {
                at = &pool->next;
            }
        }
    }
}
