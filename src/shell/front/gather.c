/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/gather.h"

#include "base/hash.h"
#include "http/http.h"
#include "shell/address.h"
#include "shell/front/connection.h"
#include "shell/names.h"
#include "shell/tls.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FETCHES_MAX   64
#define LIMIT_MS      5000
#define LONG_LIMIT_MS 300000 /* of what a node is to do, rather than to show */
#define PAGE_MAX      ((size_t)128 << 20)
#define REQUEST_MAX   16384

/* A page that was asked for. */
struct fetch {
    struct tr_stream stream;
    struct tr_name_wait wait;
    struct tr_gather *gather;
    struct fetch *next;
    struct fetch **at;
    uint64_t token;
    uint64_t until_ms;
    tr_gather_done *done; /* NULL: it is a page of a list */
    void *context;
    uint16_t place; /* of the node, among all by address */
    uint16_t port;
    bool is_last; /* there is no node behind it */
    bool is_own;
    bool is_open;
    bool is_plain; /* TLS was tried */
    bool is_long;  /* it is to do something */
    char name[TR_NODE_MAX + 1];
    char request[REQUEST_MAX];
    struct tr_http http;
    char *in;
    size_t in_size;
    size_t in_cap;
};

struct tr_gather {
    struct tr_daemon *daemon;
    struct tr_gather_calls calls;
    struct tr_names *names;
    uv_timer_t look;
    struct fetch *fetches;
    unsigned count;
};

static void on_gone(struct tr_stream *stream)
{
    struct fetch *fetch = (struct fetch *)stream;
    free(fetch->in);
    free(fetch);
}

static void start(struct tr_gather *gather, struct fetch *fetch);

/* It is over: nobody hears of it any more. */
static void end(struct fetch *fetch)
{
    *fetch->at = fetch->next;
    if (fetch->next != NULL)
        fetch->next->at = fetch->at;
    fetch->gather->count--;
    if (fetch->gather->count == 0)
        uv_timer_stop(&fetch->gather->look);
    tr_names_cancel(&fetch->wait);
    if (fetch->is_open)
        tr_stream_close(&fetch->stream);
    else
        on_gone(&fetch->stream);
}

/* Over first: whoever is told may ask for more. */
static void tell_done(struct fetch *fetch, struct tr_span body)
{
    tr_gather_done *done = fetch->done;
    void *context = fetch->context;
    char *bytes = fetch->in;
    fetch->in = NULL;
    end(fetch);
    done(context, body);
    free(bytes);
}

static void fail(struct fetch *fetch)
{
    struct tr_problem problem;
    if (fetch->done != NULL) {
        tell_done(fetch, (struct tr_span){NULL, 0});
        return;
    }
    tr_problem_set(&problem, 503, "a node of the cluster did not answer, ask again: ", fetch->name,
                   NULL);
    fetch->gather->calls.refuse(fetch->gather->daemon->server, fetch->token, &problem);
    end(fetch);
}

/* ---- the page ---- */

/* Where the next page begins: behind this one, or with the next node. */
static void put_cursor(struct tr_writer *out, const struct fetch *fetch, struct tr_span own)
{
    if (own.size == 0 && fetch->is_last)
        return;
    tr_put_text(out, ",\"cursor\":\"");
    tr_put_hex(out, own.size > 0 ? fetch->place : fetch->place + 1u, 4);
    if (own.size > 0)
        tr_put_bytes(out, own.text, own.size);
    else
        tr_put_hex(out, 0, 16);
    tr_put_text(out, "\"");
}

/* Nodes write a page's cursor at its very end: it is found there, without reading the rest. */
static void pass_on(struct fetch *fetch, struct tr_span body)
{
    static const char mark[] = ",\"cursor\":\"";
    enum { MARK = sizeof mark - 1, HEX = 16, TAIL = MARK + HEX + 2 };
    struct tr_span own = {"", 0};
    while (fetch->done == NULL && body.size > 0 &&
           (body.text[body.size - 1] == '\n' || body.text[body.size - 1] == '}'))
        body.size--;
    const char *tail = body.size > TAIL ? body.text + body.size - (TAIL - 1) : NULL;
    if (tail != NULL && memcmp(tail, mark, MARK) == 0) {
        own = (struct tr_span){tail + MARK, HEX};
        body.size -= TAIL - 1;
    }
    if (fetch->done != NULL) {
        tell_done(fetch, body);
        return;
    }
    uint8_t bytes[64];
    struct tr_writer cursor = tr_writer_on(bytes, sizeof bytes);
    put_cursor(&cursor, fetch, own);
    tr_put_text(&cursor, "}\n");
    fetch->gather->calls.answer(fetch->gather->daemon->server, fetch->token, body,
                                (struct tr_span){(const char *)bytes, cursor.size});
    end(fetch);
}

static void on_bytes(struct tr_stream *stream, char *bytes, size_t size)
{
    struct fetch *fetch = (struct fetch *)stream;
    if (fetch->in_size + size > fetch->in_cap) {
        size_t cap = 2 * (fetch->in_size + size);
        char *larger = realloc(fetch->in, cap);
        if (larger == NULL) {
            fail(fetch);
            return;
        }
        fetch->in = larger;
        fetch->in_cap = cap;
    }
    memcpy(fetch->in + fetch->in_size, bytes, size);
    size_t before = fetch->in_size;
    fetch->in_size += size;
    enum tr_http_state state = tr_http_feed(&fetch->http, fetch->in, before, fetch->in_size);
    if (state == TR_HTTP_MORE)
        return;
    if (state == TR_HTTP_COMPLETE && tr_http_status(&fetch->http) == 200)
        pass_on(fetch, tr_http_span(fetch->in, fetch->http.body));
    else
        fail(fetch);
}

static void on_end(struct tr_stream *stream, bool is_broken)
{
    (void)is_broken;
    fail((struct fetch *)stream);
}

static bool may_be_plain(const struct fetch *fetch)
{
    return fetch->gather->daemon->config.tls_clients == TR_TLS_TAKEN && !fetch->is_plain;
}

/* The node does not speak TLS yet: the same is asked without, by another stream. */
static void try_plain(struct fetch *fetch)
{
    struct fetch *again = calloc(1, sizeof *again);
    struct tr_gather *gather = fetch->gather;
    if (again == NULL) {
        fail(fetch);
        return;
    }
    again->is_plain = true;
    again->token = fetch->token;
    again->done = fetch->done;
    again->is_long = fetch->is_long;
    again->context = fetch->context;
    again->place = fetch->place;
    again->is_last = fetch->is_last;
    memcpy(again->name, fetch->name, sizeof again->name);
    memcpy(again->request, fetch->request, sizeof again->request);
    end(fetch);
    start(gather, again);
}

static void on_open(struct tr_stream *stream, bool is_open)
{
    struct fetch *fetch = (struct fetch *)stream;
    if (!is_open && tr_stream_fault(stream) != NULL && may_be_plain(fetch))
        try_plain(fetch);
    else if (!is_open || !tr_stream_put(stream, fetch->request, strlen(fetch->request)))
        fail(fetch);
}

static const struct tr_stream_calls stream_calls = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_gone = on_gone,
};

/* ---- asking ---- */

/* Whether the other node is asked by TLS: while nodes are switched over, at first. */
static bool speaks_tls(const struct fetch *fetch)
{
    const struct tr_daemon *daemon = fetch->gather->daemon;
    uint64_t mode = daemon->config.tls_clients;
    return daemon->certificates.client != NULL &&
           (mode == TR_TLS_REQUIRED || (mode == TR_TLS_TAKEN && !fetch->is_plain));
}

static void connect_to(struct fetch *fetch, const struct sockaddr_storage *address)
{
    struct sockaddr_storage to = *address;
    tr_address_set_port(&to, fetch->port);
    fetch->is_open = tr_stream_connect(&fetch->stream, &fetch->gather->daemon->streams, NULL,
                                       (const struct sockaddr *)&to, &stream_calls);
    if (!fetch->is_open) {
        fail(fetch);
        return;
    }
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    struct tr_span name = {fetch->name, strlen(fetch->name)};
    struct tr_tls *tls = NULL;
    if (!speaks_tls(fetch))
        return;
    if (tr_address_split(name, host, &port) == NULL)
        tls = tr_tls_new(fetch->gather->daemon->certificates.client, host);
    if (tls == NULL)
        fail(fetch);
    else
        tr_stream_secure(&fetch->stream, tls);
}

static void on_found(struct tr_name_wait *wait, const struct sockaddr_storage *address)
{
    struct fetch *fetch = (struct fetch *)(void *)((char *)wait - offsetof(struct fetch, wait));
    if (address == NULL)
        fail(fetch);
    else
        connect_to(fetch, address);
}

static void put_text(struct tr_writer *out, const char *name, struct tr_span text)
{
    if (text.text == NULL)
        return;
    tr_put_text(out, name);
    for (size_t i = 0; i < text.size; i++) {
        tr_put_text(out, "%");
        tr_put_hex(out, (uint8_t)text.text[i], 2);
    }
}

static void put_instant(struct tr_writer *out, const char *name, tr_wall_ms at_ms)
{
    tr_put_text(out, name);
    tr_put_rfc3339(out, at_ms);
}

void tr_gather_put_filters(struct tr_writer *out, const struct tr_api_request *query)
{
    put_text(out, "&tag=", query->query.tag);
    put_text(out, "&uri-prefix=", query->query.uri_prefix);
    put_text(out, "&name-prefix=", query->query.name_prefix);
    if (query->query.due_after_ms > 0)
        put_instant(out, "&due-after=", query->query.due_after_ms);
    if (query->query.due_before_ms > 0)
        put_instant(out, "&due-before=", query->query.due_before_ms);
    if (query->query.set_before > 0) {
        tr_put_text(out, "&set-before=");
        tr_put_hex(out, query->query.set_before, 16);
    }
}

/* Ends a request, of which the line stands there: the node proves that it is one, and says for whom
 * it asks. */
static void put_head(struct tr_writer *out, const struct tr_gather *gather, struct fetch *fetch,
                     const struct tr_narrow *narrow)
{
    const struct tr_daemon *daemon = gather->daemon;
    struct tr_span line = {(const char *)out->bytes, out->size};
    struct tr_span secret = {daemon->config.secret, strlen(daemon->config.secret)};
    tr_wall_ms now_ms = (daemon->now_us + daemon->wall_base_us) / 1000;
    tr_put_text(out, " HTTP/1.1\r\nHost: ");
    tr_put_text(out, fetch->name);
    if (secret.size > 0) {
        tr_put_text(out, "\r\nAuthorization: ");
        tr_auth_put_node(out, secret, line, now_ms, narrow);
    }
    tr_put_text(out, "\r\nConnection: close\r\n\r\n");
    fetch->request[out->size] = '\0';
}

static void write_request(const struct tr_gather *gather, struct fetch *fetch,
                          const struct tr_api_request *query)
{
    struct tr_writer out = tr_writer_on((uint8_t *)fetch->request, REQUEST_MAX - 1);
    tr_put_text(&out, "GET /timers?limit=");
    tr_put_decimal(&out, query->query.limit);
    tr_put_text(&out, query->query.wants_dead       ? "&state=dead"
                      : query->query.wants_retrying ? "&state=retrying"
                                                    : "&state=pending");
    if (query->query.has_cursor && query->query.cursor != 0) {
        tr_put_text(&out, "&cursor=");
        tr_put_hex(&out, query->query.cursor, 16);
    }
    tr_gather_put_filters(&out, query);
    put_head(&out, gather, fetch, query->query.narrow);
}

static int by_address(const void *a, const void *b)
{
    const struct tr_node_peer *x = a;
    const struct tr_node_peer *y = b;
    size_t least = x->address.size < y->address.size ? x->address.size : y->address.size;
    int order = memcmp(x->address.text, y->address.text, least);
    return order != 0 ? order
                      : (x->address.size > y->address.size) - (x->address.size < y->address.size);
}

/* The nodes of the cluster by their addresses, which all of them sort alike. */
static uint32_t list_nodes(const struct tr_node *node, struct tr_node_peer *list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < tr_node_members(node) && count <= TR_VIEW_NODES_MAX; i++) {
        tr_node_peer(node, (uint16_t)i, &list[count]);
        count += i == 0 || list[count].role != TR_ROLE_NONE;
    }
    qsort(list, count, sizeof list[0], by_address);
    return count;
}

/* Those whose clients have gone. */
static void end_abandoned(struct tr_gather *gather)
{
    struct fetch *next = NULL;
    for (struct fetch *fetch = gather->fetches; fetch != NULL; fetch = next) {
        next = fetch->next;
        if (fetch->done == NULL && !gather->calls.has(gather->daemon->server, fetch->token))
            end(fetch);
    }
}

/* It has had its time; or its node is down, and will not answer. */
static bool is_late(const struct tr_gather *gather, const struct fetch *fetch)
{
    struct tr_span name = {fetch->name, strlen(fetch->name)};
    uint16_t member = tr_node_member(gather->daemon->node, name);
    return uv_now(&gather->daemon->loop) >= fetch->until_ms ||
           (!fetch->is_own && member != TR_MEMBER_NONE &&
            !tr_node_is_up(gather->daemon->node, member));
}

static void on_look(uv_timer_t *timer)
{
    struct tr_gather *gather = timer->data;
    struct fetch *fetch = gather->fetches;
    /* The analyzer does not see that what is freed was taken off the list. */
    while (fetch != NULL) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
        if (is_late(gather, fetch)) {
            fail(fetch); /* which may end others, and begin some */
            fetch = gather->fetches;
        } else {
            fetch = fetch->next;
        }
    }
}

/* This node is asked over a connection that never leaves it. */
static void connect_to_own(struct fetch *fetch)
{
    struct tr_gather *gather = fetch->gather;
    int files[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, files) != 0) {
        fail(fetch);
        return;
    }
    fetch->is_open =
        tr_stream_open(&fetch->stream, &gather->daemon->streams, files[0], &stream_calls);
    if (!gather->calls.take_own(gather->daemon->server, files[1]) || !fetch->is_open)
        fail(fetch);
    else
        on_open(&fetch->stream, true);
}

static void start(struct tr_gather *gather, struct fetch *fetch)
{
    char host[TR_HOST_MAX];
    struct sockaddr_storage address;
    struct tr_span name = {fetch->name, strlen(fetch->name)};
    fetch->gather = gather;
    fetch->wait.on_found = on_found;
    fetch->until_ms = uv_now(&gather->daemon->loop) + (fetch->is_long ? LONG_LIMIT_MS : LIMIT_MS);
    fetch->next = gather->fetches;
    fetch->at = &gather->fetches;
    if (fetch->next != NULL)
        fetch->next->at = &fetch->next;
    gather->fetches = fetch;
    if (gather->count++ == 0)
        uv_timer_start(&gather->look, on_look, LIMIT_MS / 10, LIMIT_MS / 10);
    tr_http_init_response(&fetch->http, PAGE_MAX);
    if (fetch->is_own)
        connect_to_own(fetch);
    else if (tr_address_split(name, host, &fetch->port) != NULL)
        fail(fetch);
    else if (tr_address_parse(host, fetch->port, &address))
        connect_to(fetch, &address);
    else
        tr_names_find(gather->names, host, &fetch->wait);
}

void tr_gather_page(struct tr_gather *gather, uint64_t token, const struct tr_api_request *query)
{
    struct tr_node_peer nodes[TR_VIEW_NODES_MAX + 2];
    uint32_t count = list_nodes(gather->daemon->node, nodes);
    uint32_t place = query->query.has_cursor ? query->place : 0;
    struct tr_api_request from = *query;
    while (place < count && !nodes[place].is_up) { /* others list for it */
        place++;
        from.query.has_cursor = false;
    }
    if (gather->count >= FETCHES_MAX)
        end_abandoned(gather);
    bool is_narrow = query->query.narrow != NULL && query->query.narrow->count > 0;
    bool may_ask = !is_narrow || gather->daemon->config.secret[0] != '\0';
    struct fetch *fetch = may_ask && gather->count < FETCHES_MAX ? calloc(1, sizeof *fetch) : NULL;
    if (place >= count || fetch == NULL) {
        struct tr_problem problem;
        tr_problem_set(&problem, 503, "too many requests at once", NULL);
        if (place >= count)
            gather->calls.answer(gather->daemon->server, token, TR_SPAN("{\"timers\":[]"),
                                 TR_SPAN("}\n"));
        else
            gather->calls.refuse(gather->daemon->server, token, &problem);
        free(fetch);
        return;
    }
    fetch->token = token;
    fetch->place = (uint16_t)place;
    fetch->is_last = place + 1 == count;
    fetch->is_own = tr_span_equals(nodes[place].address, tr_node_address(gather->daemon->node));
    memcpy(fetch->name, nodes[place].address.text, nodes[place].address.size);
    write_request(gather, fetch, &from);
    start(gather, fetch);
}

uint16_t tr_gather_next(struct tr_gather *gather, uint16_t place)
{
    struct tr_node_peer nodes[TR_VIEW_NODES_MAX + 2];
    uint32_t count = list_nodes(gather->daemon->node, nodes);
    struct tr_span own = tr_node_address(gather->daemon->node);
    for (uint32_t i = place; i < count; i++) {
        if (nodes[i].is_up && !tr_span_equals(nodes[i].address, own))
            return (uint16_t)i;
    }
    return UINT16_MAX;
}

uint64_t tr_gather_nodes(struct tr_gather *gather)
{
    struct tr_node_peer nodes[TR_VIEW_NODES_MAX + 2];
    uint32_t count = list_nodes(gather->daemon->node, nodes);
    struct tr_span own = tr_node_address(gather->daemon->node);
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++) {
        bool is_up = nodes[i].is_up || tr_span_equals(nodes[i].address, own);
        hash =
            tr_hash_mix(hash ^ tr_hash_xxh3(nodes[i].address.text, nodes[i].address.size)) + is_up;
    }
    return hash;
}

bool tr_gather_ask(struct tr_gather *gather, uint64_t token, uint16_t place, struct tr_span line,
                   const struct tr_narrow *narrow, bool is_long, tr_gather_done *done,
                   void *context)
{
    struct tr_node_peer nodes[TR_VIEW_NODES_MAX + 2];
    uint32_t count = list_nodes(gather->daemon->node, nodes);
    if (gather->count >= FETCHES_MAX)
        end_abandoned(gather);
    if (narrow->count > 0 && gather->daemon->config.secret[0] == '\0')
        return false; /* it could not be told for whom it is asked */
    struct fetch *fetch = place < count && nodes[place].is_up && gather->count < FETCHES_MAX
                              ? calloc(1, sizeof *fetch)
                              : NULL;
    if (fetch == NULL)
        return false;
    fetch->token = token;
    fetch->place = place;
    fetch->done = done;
    fetch->is_long = is_long;
    fetch->context = context;
    memcpy(fetch->name, nodes[place].address.text, nodes[place].address.size);
    struct tr_writer out = tr_writer_on((uint8_t *)fetch->request, REQUEST_MAX - 1);
    tr_put_bytes(&out, line.text, line.size);
    put_head(&out, gather, fetch, narrow);
    start(gather, fetch);
    return true;
}

struct tr_gather *tr_gather_open(struct tr_daemon *daemon, const struct tr_gather_calls *calls)
{
    struct tr_gather *gather = calloc(1, sizeof *gather);
    if (gather == NULL)
        return NULL;
    gather->daemon = daemon;
    gather->calls = *calls;
    gather->names = tr_names_new(&daemon->loop);
    uv_timer_init(&daemon->loop, &gather->look);
    gather->look.data = gather;
    return gather->names == NULL ? NULL : gather;
}

void tr_gather_close(struct tr_gather *gather)
{
    struct fetch *next = NULL;
    for (struct fetch *fetch = gather->fetches; fetch != NULL; fetch = next) {
        next = fetch->next;
        end(fetch);
    }
    uv_timer_stop(&gather->look);
    uv_close((uv_handle_t *)&gather->look, NULL);
    tr_names_free(gather->names);
}
