/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flight is one POST. It takes an idle connection of its destination, or opens one: look up the
 * name, connect, shake hands if it is TLS. A kept connection that turns out to be closed before any
 * byte of an answer costs the flight nothing: it goes once more, on a new one.
 *
 * The head of an answer decides: what becomes of its body, which nobody here wants, is no matter.
 * It is read for the sake of the connection, which serves the next call; if it is too long, cut
 * short or without end, the connection is closed.
 *
 * All flights have the same time limit, so they stand in one list in the order of their deadlines.
 */
#include "shell/caller.h"

#include "base/assert.h"
#include "base/hash.h"
#include "shell/address.h"
#include "shell/links.h"
#include "shell/names.h"
#include "shell/tls.h"
#include "wire/http.h"
#include "wire/uri.h"

#include <stdlib.h>
#include <string.h>

#define RESPONSE_MAX ((size_t)256 << 10) /* bytes of an answer's body that are waited for */
#define PATIENCE_S   1000000             /* more is no number of seconds that anybody waits */
#define READ_SIZE    16384
#define IDLE_MS      30000 /* a kept connection is closed after this */
#define POOLS        4096  /* buckets, a power of two */
#define SWEEP_MS     5000

struct call; /* one flight */

struct link { /* one connection */
    struct tr_stream stream;
    struct tr_caller *caller;
    struct pool *pool;
    struct link *next_idle;
    uint64_t idle_since_ms;
    struct call *call;
    struct tr_tls *tls; /* NULL: plain */
    struct tr_http http;
    char *in;
    size_t in_size;
    size_t in_cap;
    uint64_t served; /* requests sent on it */
    bool is_used_again;
    bool has_answer_bytes;
    bool is_ready; /* connected, and its handshake done */
};

struct pool { /* one destination */
    struct pool *next;
    uint64_t hash;
    struct tr_span origin;
    struct link *idle;
    uint32_t links;
};

struct call {
    struct tr_name_wait wait; /* for its host's address; first, so that it is found by it */
    struct tr_caller *caller;
    struct call *next; /* by deadline */
    struct call *previous;
    struct link *link;
    uint32_t flight;
    uint64_t deadline_ms;
    uint64_t due_us;
    uint64_t sent_us;
    bool is_tls;
    bool is_timed; /* its lateness was counted */
    uint16_t port;
    char host[TR_HOST_MAX];
    struct tr_span origin;
    size_t size;
    char *bytes; /* the request, then the origin; in the same piece of memory */
};

struct tr_caller {
    struct tr_daemon *daemon;
    struct tr_tls_context *tls;
    struct call calls; /* a ring by deadline */
    uv_timer_t deadline;
    uv_timer_t sweep;
    struct pool *pools[POOLS];
    struct tr_names *names;
    uint32_t links;         /* of all destinations */
    uint32_t sweep_from;    /* the bucket that loses an idle link next, when there are too many */
    struct tr_event *ended; /* outcomes that are told after the step under way */
    size_t ended_count;
    size_t ended_cap;
    uv_idle_t teller;
};

static void start(struct call *call);
static const struct tr_stream_calls stream_calls;

/* Not the loop's own time, which stands still while a long step runs: a callback made at the end of
 * one would have used up its time before it began. */
static uint64_t now_ms(void)
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

static void finish(struct call *call, enum tr_callback_result result, unsigned status,
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
    event.of.callback.retry_after_ms = retry_after_ms;
    bool is_failed = !is_answered || status / 100 != 2;
    if (is_failed && tr_say_may(&caller->daemon->failed_lines, tr_boot_us() / 1000))
        tr_say(TR_INFO, "callback to %.*s failed: %s%.0u", (int)call->origin.size,
               call->origin.text,
               is_answered                       ? "HTTP status "
               : result == TR_CALLBACK_TIMED_OUT ? "it timed out"
                                                 : "no connection",
               is_answered ? status : 0);
    tr_names_cancel(&call->wait);
    free(call);
    tell(caller, &event);
}

/* ---- connections ---- */

static struct pool *pool_of(struct tr_caller *caller, struct tr_span origin)
{
    uint64_t hash = tr_hash_xxh3(origin.text, origin.size);
    struct pool **bucket = &caller->pools[hash % POOLS];
    for (struct pool *pool = *bucket; pool != NULL; pool = pool->next) {
        if (pool->hash == hash && tr_span_equals(pool->origin, origin))
            return pool;
    }
    struct pool *pool = calloc(1, sizeof *pool + origin.size);
    if (pool == NULL)
        abort();
    char *text = (char *)(pool + 1);
    memcpy(text, origin.text, origin.size);
    *pool = (struct pool){.next = *bucket, .hash = hash, .origin = {text, origin.size}};
    *bucket = pool;
    return pool;
}

static void on_gone(struct tr_stream *stream)
{
    struct link *link = (struct link *)stream;
    if (link->tls != NULL)
        tr_tls_free(link->tls);
    free(link->in);
    free(link);
}

static void close_link(struct link *link)
{
    if (link->stream.is_closed)
        return;
    link->pool->links--;
    link->caller->links--;
    tr_stream_close(&link->stream);
}

static void remove_idle(struct link *link)
{
    struct link **at = &link->pool->idle;
    while (*at != NULL && *at != link)
        at = &(*at)->next_idle;
    if (*at != NULL)
        *at = link->next_idle;
}

/* The connection failed under its call, or while it was idle. */
static void fail_link(struct link *link, enum tr_callback_result result)
{
    struct call *call = link->call;
    bool is_retried = call != NULL && link->is_used_again && !link->has_answer_bytes &&
                      result == TR_CALLBACK_UNREACHED;
    link->call = NULL;
    if (call == NULL)
        remove_idle(link);
    close_link(link);
    if (call == NULL)
        return;
    call->link = NULL;
    if (is_retried)
        start(call);
    else
        finish(call, result, 0, 0);
}

/* What TLS wants sent. */
static bool flush_tls(struct link *link)
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
static void send_request(struct link *link)
{
    struct call *call = link->call;
    uint64_t now = tr_boot_us();
    if (!call->is_timed) {
        call->is_timed = true;
        tr_histogram_add(&call->caller->daemon->metrics.lateness_us,
                         now > call->due_us ? now - call->due_us : 0);
    }
    call->sent_us = now;
    link->served++;
    tr_http_init_response(&link->http, RESPONSE_MAX);
    link->in_size = 0;
    link->has_answer_bytes = false;
    bool is_sent = link->tls == NULL
                       ? tr_stream_put(&link->stream, call->bytes, call->size)
                       : tr_tls_write(link->tls, call->bytes, call->size) && flush_tls(link);
    if (!is_sent)
        fail_link(link, TR_CALLBACK_UNREACHED);
}

static bool has_next_address(const struct call *call)
{
    return call->wait.tries > 0 && call->wait.tries < call->wait.count;
}

/* Nobody listens at this address of its host: perhaps at the next. */
static void try_next_address(struct link *link)
{
    struct call *call = link->call;
    if (call == NULL || !has_next_address(call)) {
        fail_link(link, TR_CALLBACK_UNREACHED);
        return;
    }
    link->call = NULL;
    call->link = NULL;
    close_link(link);
    start(call);
}

static void on_open(struct tr_stream *stream, bool is_open)
{
    struct link *link = (struct link *)stream;
    if (!is_open) {
        try_next_address(link);
    } else if (link->tls == NULL) {
        link->is_ready = true;
        send_request(link);
    } else if (tr_tls_input(link->tls, NULL, 0) == TR_TLS_FAILED || !flush_tls(link)) {
        fail_link(link, TR_CALLBACK_UNREACHED);
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
    for (unsigned i = 0; caller->links >= 2 * caller->daemon->config.flights && i < POOLS; i++) {
        struct pool *pool = caller->pools[caller->sweep_from++ % POOLS];
        while (pool != NULL && pool->idle == NULL)
            pool = pool->next;
        if (pool == NULL)
            continue;
        struct link *link = pool->idle;
        pool->idle = link->next_idle;
        close_link(link);
    }
}

static void connect_to(struct call *call, const struct sockaddr_storage *address)
{
    struct tr_caller *caller = call->caller;
    const struct tr_config *config = &caller->daemon->config;
    bool is_node =
        !config->may_call_nodes && tr_links_is_at_node(caller->daemon->links, address, call->port);
    if (is_node || is_denied(config, address)) {
        caller->daemon->metrics.callbacks_denied++;
        tr_say(TR_INFO, "callback to %s refused: %s", call->host,
               is_node ? "it is a node of the cluster" : "its address is in a denied network");
        if (has_next_address(call))
            start(call);
        else
            finish(call, TR_CALLBACK_UNREACHED, 0, 0);
        return;
    }
    struct sockaddr_storage target = *address;
    tr_address_set_port(&target, call->port);
    spare_link(caller);
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        abort();
    link->tls = call->is_tls ? tr_tls_new(caller->tls, call->host) : NULL;
    if ((call->is_tls && link->tls == NULL) ||
        !tr_stream_connect(&link->stream, &caller->daemon->streams, NULL,
                           (struct sockaddr *)&target, &stream_calls)) {
        on_gone(&link->stream);
        if (has_next_address(call))
            start(call);
        else
            finish(call, TR_CALLBACK_UNREACHED, 0, 0);
        return;
    }
    link->caller = caller;
    link->pool = pool_of(caller, call->origin);
    link->pool->links++;
    caller->links++;
    link->call = call;
    call->link = link;
}

static void on_found(struct tr_name_wait *wait, const struct sockaddr_storage *address)
{
    struct call *call = (struct call *)wait;
    if (address == NULL)
        finish(call, TR_CALLBACK_UNREACHED, 0, 0);
    else
        connect_to(call, address);
}

/* ---- calls ---- */

static void start(struct call *call)
{
    struct tr_caller *caller = call->caller;
    struct pool *pool = pool_of(caller, call->origin);
    struct link *link = pool->idle;
    if (link != NULL) {
        pool->idle = link->next_idle;
        link->is_used_again = true;
        link->call = call;
        call->link = link;
        send_request(link);
        return;
    }
    struct sockaddr_storage address;
    if (tr_address_parse(call->host, call->port, &address))
        connect_to(call, &address);
    else
        tr_names_find(caller->names, call->host, &call->wait);
}

/* Seconds, or a date, which is worth nothing more exact than "later". */
static uint64_t retry_after_ms(const struct link *link)
{
    struct tr_span text = tr_http_header(&link->http, link->in, TR_HTTP_RETRY_AFTER);
    uint64_t seconds = 0;
    for (size_t i = 0; text.text != NULL && i < text.size; i++) {
        if (text.text[i] < '0' || text.text[i] > '9')
            return 0;
        if (seconds < PATIENCE_S) /* the node has a limit of its own, well below */
            seconds = seconds * 10 + (uint64_t)(text.text[i] - '0');
    }
    return seconds * 1000;
}

/* Whether the head of the final answer is there: its status stands, whatever comes after it. */
static bool is_decided(const struct link *link)
{
    return link->call != NULL && link->has_answer_bytes && link->http.is_head_done &&
           tr_http_status(&link->http) / 100 != 1;
}

static void on_answer(struct link *link)
{
    struct call *call = link->call;
    unsigned status = tr_http_status(&link->http);
    uint64_t retry_after = retry_after_ms(link);
    bool is_kept =
        link->http.is_complete && link->http.keeps_alive && link->http.used == link->in_size;
    link->in_size = 0;
    call->link = NULL;
    link->call = NULL;
    if (is_kept) {
        link->idle_since_ms = now_ms();
        link->next_idle = link->pool->idle;
        link->pool->idle = link;
    } else {
        close_link(link);
    }
    finish(call, TR_CALLBACK_ANSWERED, status, retry_after);
}

/* Bytes of an answer, in the clear. */
static void take(struct link *link, char *bytes, size_t size)
{
    if (link->call == NULL) { /* nobody asked: not a connection to keep */
        fail_link(link, TR_CALLBACK_UNREACHED);
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
    if (state == TR_HTTP_COMPLETE || (is_over && is_decided(link)))
        on_answer(link);
    else if (is_over)
        fail_link(link, TR_CALLBACK_UNREACHED);
}

static void take_tls(struct link *link, const char *bytes, size_t size)
{
    char plain[READ_SIZE];
    enum tr_tls_state state = tr_tls_input(link->tls, bytes, size);
    if (state == TR_TLS_FAILED || !flush_tls(link)) {
        if (state == TR_TLS_FAILED)
            tr_say(TR_INFO, "TLS with %.*s failed: %s", (int)link->pool->origin.size,
                   link->pool->origin.text, tr_tls_fault(link->tls));
        fail_link(link, TR_CALLBACK_UNREACHED);
        return;
    }
    if (state == TR_TLS_READY && !link->is_ready) {
        link->is_ready = true;
        if (link->call != NULL)
            send_request(link);
    }
    uint64_t served = link->served;
    size_t got;
    while (!link->stream.is_closed && (got = tr_tls_read(link->tls, plain, sizeof plain)) > 0) {
        if (link->served == served)
            take(link, plain, got);
        else /* more than the answer: the link may serve another call by now, whose it is not */
            fail_link(link, TR_CALLBACK_UNREACHED);
    }
    if (!link->stream.is_closed && !flush_tls(link))
        fail_link(link, TR_CALLBACK_UNREACHED);
}

static void on_bytes(struct tr_stream *stream, char *bytes, size_t size)
{
    struct link *link = (struct link *)stream;
    if (link->tls != NULL)
        take_tls(link, bytes, size);
    else
        take(link, bytes, size);
}

static void on_end(struct tr_stream *stream, bool is_broken)
{
    struct link *link = (struct link *)stream;
    (void)is_broken;
    if (is_decided(link)) {
        link->http.keeps_alive = false;
        on_answer(link);
    } else {
        fail_link(link, TR_CALLBACK_UNREACHED);
    }
}

static const struct tr_stream_calls stream_calls = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_gone = on_gone,
    .wants_rest = true,
};

static void on_deadline(uv_timer_t *timer)
{
    struct tr_caller *caller = timer->data;
    uint64_t now = now_ms();
    /* The analyzer takes the ring's head, which is never freed, for a call that was. */
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    while (caller->calls.next != &caller->calls && caller->calls.next->deadline_ms <= now) {
        struct call *call = caller->calls.next;
        if (call->link != NULL && is_decided(call->link))
            on_answer(call->link); /* its body does not end: nor is the connection kept */
        else if (call->link != NULL)
            fail_link(call->link, TR_CALLBACK_TIMED_OUT);
        else
            finish(call, TR_CALLBACK_TIMED_OUT, 0, 0);
    }
    if (caller->calls.next != &caller->calls)
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
        uv_timer_start(timer, on_deadline, caller->calls.next->deadline_ms - now, 0);
}

/* Closes connections that nobody has used for a while, and forgets their destinations. */
static void on_sweep(uv_timer_t *timer)
{
    struct tr_caller *caller = timer->data;
    uint64_t now = now_ms();
    for (unsigned i = 0; i < POOLS; i++) {
        struct pool **at = &caller->pools[i];
        while (*at != NULL) {
            struct pool *pool = *at;
            struct link **link = &pool->idle;
            while (*link != NULL) {
                struct link *old = *link;
                if (old->idle_since_ms + IDLE_MS > now) {
                    link = &old->next_idle;
                    continue;
                }
                *link = old->next_idle;
                close_link(old);
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

/* The whole request, as it goes over the wire. */
static void put_request(struct tr_writer *out, const struct tr_node *node,
                        const struct tr_record *record, const struct tr_uri *uri,
                        tr_steady_ms due_ms)
{
    struct tr_timer_text text = tr_node_text(node, record->id, record->factor);
    uint64_t sequence = tr_record_pop(record);
    tr_put_text(out, "POST ");
    if (uri->target.size == 0 || uri->target.text[0] != '/')
        tr_put_text(out, "/");
    tr_put_bytes(out, uri->target.text, uri->target.size);
    tr_put_text(out, " HTTP/1.1\r\nHost: ");
    tr_put_bytes(out, uri->authority.text, uri->authority.size);
    tr_put_text(out, "\r\nContent-Type: ");
    if (record->content_type.size > 0)
        tr_put_bytes(out, record->content_type.text, record->content_type.size);
    else
        tr_put_text(out, "text/plain; charset=utf-8");
    tr_put_text(out, "\r\nContent-Length: ");
    tr_put_decimal(out, record->opaque.size);
    tr_put_text(out, "\r\nX-Sequence-Number: ");
    tr_put_decimal(out, sequence);
    tr_put_text(out, "\r\nX-Timer-ID: ");
    tr_put_timer_text(out, &text);
    tr_put_text(out, "\r\nX-Timer-Version: ");
    tr_put_hex(out, record->version, 16);
    tr_put_text(out, "\r\nce-specversion: 1.0\r\nce-type: tryst.timer.pop\r\nce-source: /timers\r\n"
                     "ce-id: ");
    tr_put_hex(out, record->id, 16);
    tr_put_text(out, "/");
    tr_put_hex(out, record->version, 16);
    tr_put_text(out, "/");
    tr_put_decimal(out, sequence);
    tr_put_text(out, "\r\nce-time: ");
    tr_put_rfc3339(out, tr_node_wall(node, due_ms));
    tr_put_text(out, "\r\n\r\n");
    tr_put_bytes(out, record->opaque.text, record->opaque.size);
}

static struct call *new_call(struct tr_caller *caller, const struct tr_effect *effect,
                             const struct tr_record *record, const struct tr_uri *uri)
{
    size_t cap = 1024 + TR_TYPE_MAX + record->uri.size + record->opaque.size + uri->origin.size +
                 uri->authority.size;
    struct call *call = malloc(sizeof *call + cap);
    if (call == NULL)
        abort();
    char *bytes = (char *)(call + 1);
    struct tr_writer out = tr_writer_on(bytes, cap);
    put_request(&out, caller->daemon->node, record, uri, record->due_ms - record->lag_ms);
    *call = (struct call){
        .caller = caller,
        .flight = effect->of.fire.flight,
        .deadline_ms = now_ms() + caller->daemon->config.callback_timeout_ms,
        .due_us = effect->of.fire.due_mono_ms * 1000,
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
    return call;
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
    struct call *call = new_call(caller, effect, &record, &uri);
    bool is_first = caller->calls.next == &caller->calls;
    call->next = &caller->calls;
    call->previous = caller->calls.previous;
    caller->calls.previous->next = call;
    caller->calls.previous = call;
    if (is_first)
        uv_timer_start(&caller->deadline, on_deadline, caller->daemon->config.callback_timeout_ms,
                       0);
    start(call);
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
    uv_timer_start(&caller->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    return caller;
}

void tr_caller_close(struct tr_caller *caller)
{
    while (caller->calls.next != &caller->calls) { /* the drain has taken too long */
        struct call *call = caller->calls.next;
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the same
        call->previous->next = call->next;
        call->next->previous = call->previous;
        if (call->link != NULL) {
            call->link->call = NULL;
            close_link(call->link);
        }
        tr_names_cancel(&call->wait);
        free(call);
    }
    tr_names_free(caller->names);
    for (unsigned i = 0; i < POOLS; i++) {
        for (struct pool *pool = caller->pools[i]; pool != NULL; pool = pool->next) {
            for (struct link *link = pool->idle; link != NULL; link = link->next_idle)
                close_link(link);
        }
    }
    uv_close((uv_handle_t *)&caller->deadline, NULL);
    uv_close((uv_handle_t *)&caller->sweep, NULL);
    uv_close((uv_handle_t *)&caller->teller, NULL);
}
