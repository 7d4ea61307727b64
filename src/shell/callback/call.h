/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls under way, and the connections that they use: what caller.c and connection.c share.
 *
 * A call is one POST. It takes an idle connection of its destination, or opens one. A kept
 * connection that turns out to be closed before any byte of an answer costs the call nothing: it
 * goes once more, on a new one.
 *
 * Bounds:  a connection is kept for half a minute; of all there are twice as many as calls at most.
 */
#ifndef TR_SHELL_CALLBACK_CALL_H
#define TR_SHELL_CALLBACK_CALL_H

#include "http/http.h"
#include "shell/callback/caller.h"
#include "shell/names.h"
#include "shell/pops.h"
#include "shell/tls.h"
#include "wire/plan.h"
#include "wire/uri.h"

#define TR_CALLBACK_POOLS 4096 /* buckets, a power of two */

struct tr_call; /* one flight */

struct tr_callback_link { /* one connection */
    struct tr_stream stream;
    struct tr_caller *caller;
    struct tr_callback_pool *pool;
    struct tr_callback_link *next_idle;
    uint64_t idle_since_ms;
    struct tr_call *call;
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

struct tr_callback_pool { /* one destination */
    struct tr_callback_pool *next;
    uint64_t hash;
    struct tr_span origin;
    struct tr_callback_link *idle;
    uint32_t links;
};

struct tr_call {
    struct tr_name_wait wait; /* for its host's address; first, so that it is found by it */
    struct tr_caller *caller;
    struct tr_call *next; /* by deadline */
    struct tr_call *previous;
    struct tr_callback_link *link;
    uint32_t flight;
    tr_timer_id id; /* of its timer, for the operator: which pop, which try, and what was wrong */
    uint64_t sequence;
    uint32_t attempt;
    enum tr_fault fault;
    uint64_t deadline_ms;
    uint64_t due_us;
    uint64_t late_ms; /* when it was sent */
    uint64_t began_us;
    uint64_t sent_us;
    bool is_tls;
    bool is_timed; /* its lateness was counted */
    uint16_t port;
    char host[TR_HOST_MAX];
    struct tr_span origin;
    struct tr_pop_told *told; /* what is told of it in the end; its texts are behind the request */
    size_t size;
    char *bytes; /* the request, then the origin; in the same piece of memory */
};

struct tr_caller {
    struct tr_daemon *daemon;
    struct tr_tls_context *tls;
    struct tr_call calls; /* a ring by deadline */
    uv_timer_t deadline;
    uv_timer_t sweep;
    struct tr_callback_pool *pools[TR_CALLBACK_POOLS];
    struct tr_names *names;
    uint32_t links;         /* of all destinations */
    uint32_t sweep_from;    /* the bucket that loses an idle link next, when there are too many */
    struct tr_event *ended; /* outcomes that are told after the step under way */
    size_t ended_count;
    size_t ended_cap;
    uv_idle_t teller;
};

/* caller.c */
void tr_call_start(struct tr_call *call); /* on an idle connection, or on a new one */
void tr_call_finish(struct tr_call *call, enum tr_callback_result result, unsigned status,
                    uint64_t retry_after_ms);
bool tr_call_has_next_address(const struct tr_call *call);
uint64_t tr_caller_now_ms(void);

/* connection.c */
struct tr_callback_pool *tr_callback_pool(struct tr_caller *caller, struct tr_span origin);
void tr_callback_connect(struct tr_call *call, const struct sockaddr_storage *address);
void tr_callback_send(struct tr_callback_link *link); /* its call's request */
void tr_callback_fail(struct tr_callback_link *link, enum tr_callback_result result,
                      enum tr_fault fault);
void tr_callback_close(struct tr_callback_link *link);

/* Whether the head of the final answer is there: its status stands, whatever comes after it. */
bool tr_callback_is_decided(const struct tr_callback_link *link);
void tr_callback_answered(struct tr_callback_link *link);

/* Closes connections that nobody has used for a while, and forgets their destinations. */
void tr_callback_sweep(uv_timer_t *timer);

/* request.c: the whole request, as it goes over the wire. */
struct tr_callback_world {
    const struct tr_node *node;
    const struct tr_config *config;
    tr_wall_ms now_ms;
};

size_t tr_callback_request_bound(const struct tr_record *record, const struct tr_uri *uri);
void tr_callback_put_request(struct tr_writer *out, const struct tr_callback_world *world,
                             const struct tr_record *record, const struct tr_plan *plan,
                             const struct tr_uri *uri);

#endif
