/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/allow.h"
#include "shell/front/render.h"
#include "shell/front/resp.h"

#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_MS 250
#define COPIES  2 /* of a timer, as most have: what a node counts of a tag are its own */

enum need { NEEDS_NOTHING, NEEDS_PROBE, NEEDS_READ, NEEDS_WRITE, NEEDS_ADMIN };

/* Of whom a request asks: of what a narrowed token may see some of, or of everything. */
enum about { ABOUT_ALL, ABOUT_TIMERS, ABOUT_KEYS };

static const struct rule {
    enum need need;
    enum about about;
} rules[TR_API_KINDS] = {
    [TR_API_CREATE] = {NEEDS_WRITE, ABOUT_TIMERS},
    [TR_API_REPLACE] = {NEEDS_WRITE, ABOUT_TIMERS},
    [TR_API_CANCEL] = {NEEDS_WRITE, ABOUT_TIMERS},
    [TR_API_READ] = {NEEDS_READ, ABOUT_TIMERS},
    [TR_API_LIST] = {NEEDS_READ, ABOUT_TIMERS},
    [TR_API_REDRIVE] = {NEEDS_WRITE, ABOUT_TIMERS},
    [TR_API_FIRE] = {NEEDS_WRITE, ABOUT_TIMERS},
    [TR_API_CANCEL_ALL] = {NEEDS_WRITE, ABOUT_TIMERS},
    [TR_API_REDRIVE_ALL] = {NEEDS_WRITE, ABOUT_TIMERS},
    [TR_API_RESYNC_LIST] = {NEEDS_READ, ABOUT_ALL},
    [TR_API_POPS] = {NEEDS_READ, ABOUT_TIMERS},
    [TR_API_AHEAD] = {NEEDS_READ, ABOUT_TIMERS},
    [TR_API_HISTORY] = {NEEDS_READ, ABOUT_ALL},
    [TR_API_DESTINATIONS] = {NEEDS_READ, ABOUT_ALL},
    [TR_API_KEYS] = {NEEDS_READ, ABOUT_KEYS},
    [TR_API_KEY] = {NEEDS_READ, ABOUT_KEYS},
    [TR_API_KEY_DELETE] = {NEEDS_WRITE, ABOUT_KEYS},
    [TR_API_KEYSPACE] = {NEEDS_READ, ABOUT_KEYS},
    [TR_API_CLOCK] = {NEEDS_READ, ABOUT_ALL},
    [TR_API_CLOCK_SET] = {NEEDS_ADMIN, ABOUT_ALL},
    [TR_API_CLOCK_ADVANCE] = {NEEDS_ADMIN, ABOUT_ALL},
    [TR_API_REFERENCES] = {NEEDS_ADMIN, ABOUT_ALL},
    [TR_API_PING] = {NEEDS_NOTHING, ABOUT_ALL},
    [TR_API_LIVE] = {NEEDS_PROBE, ABOUT_ALL},
    [TR_API_READY] = {NEEDS_PROBE, ABOUT_ALL},
    [TR_API_METRICS] = {NEEDS_PROBE, ABOUT_ALL},
    [TR_API_UI] = {NEEDS_NOTHING, ABOUT_ALL},
    [TR_API_CLUSTER] = {NEEDS_READ, ABOUT_ALL},
    [TR_API_CLUSTER_SET] = {NEEDS_ADMIN, ABOUT_ALL},
    [TR_API_CLUSTER_RESYNC] = {NEEDS_ADMIN, ABOUT_ALL},
    [TR_API_PEER] = {NEEDS_NOTHING, ABOUT_ALL},
    [TR_API_REFUSED] = {NEEDS_NOTHING, ABOUT_ALL},
};

/* ---- who it is ---- */

void tr_allow_none(struct tr_connection *connection)
{
    free(connection->rights);
    connection->rights = NULL;
}

static struct tr_rights *rights_of(struct tr_connection *connection)
{
    if (connection->rights == NULL)
        connection->rights = calloc(1, sizeof *connection->rights);
    if (connection->rights == NULL)
        abort();
    return connection->rights;
}

void tr_allow_all(struct tr_connection *connection)
{
    tr_rights_all(rights_of(connection));
}

static bool find(struct tr_connection *connection, struct tr_span secret, struct tr_rights *rights)
{
    tr_auth_find(&connection->server->daemon->auth, secret, rights);
    return rights->is_known;
}

static void grant(struct tr_connection *connection, const struct tr_rights *rights)
{
    const uint8_t *hash = tr_auth_hash(&connection->server->daemon->auth, rights);
    tr_rights_copy(rights_of(connection), rights);
    if (hash != NULL)
        memcpy(connection->rights_hash, hash, TR_TOKEN_HASH);
}

bool tr_allow_session(struct tr_connection *connection, struct tr_span secret)
{
    struct tr_rights rights = {.is_known = false};
    if (!find(connection, secret, &rights))
        return false;
    grant(connection, &rights);
    return true;
}

static const char *method_name(enum tr_http_method method)
{
    return method == TR_HTTP_POST     ? "POST "
           : method == TR_HTTP_DELETE ? "DELETE "
           : method == TR_HTTP_PUT    ? "PUT "
                                      : "GET ";
}

/* Another node, which asks for somebody. */
static bool is_node(struct tr_connection *connection, const char *bytes, struct tr_span value,
                    struct tr_rights *rights)
{
    struct tr_daemon *daemon = connection->server->daemon;
    char line[TR_HTTP_TARGET_MAX + 16];
    struct tr_writer out = tr_writer_on(line, sizeof line);
    struct tr_span secret = {daemon->config.secret, strlen(daemon->config.secret)};
    struct tr_span target = tr_http_span(bytes, connection->http.target);
    tr_put_text(&out, method_name(tr_http_method(&connection->http)));
    tr_put_bytes(&out, target.text, target.size);
    tr_wall_ms now_ms = (daemon->now_us + daemon->wall_base_us) / 1000;
    return tr_auth_hear_node(secret, (struct tr_span){line, out.size}, value, now_ms, rights);
}

static bool know(struct tr_connection *connection, const char *bytes, struct tr_rights *rights)
{
    static const struct tr_span bearer = {"bearer ", 7};
    struct tr_span value = tr_http_header(&connection->http, bytes, TR_HTTP_AUTHORIZATION);
    if (value.text == NULL || value.size <= bearer.size)
        return false;
    struct tr_span scheme = {value.text, bearer.size};
    if (!tr_span_equals_nocase(scheme, bearer))
        return is_node(connection, bytes, value, rights);
    value = tr_span_from(value, bearer.size);
    while (value.size > 0 && value.text[0] == ' ')
        value = tr_span_from(value, 1);
    return find(connection, value, rights);
}

/* Rights are a connection's: those of a request under way must not become another one's. */
static bool is_of_others(const struct tr_connection *connection, uint16_t number,
                         const struct tr_rights *rights)
{
    const struct tr_auth *auth = &connection->server->daemon->auth;
    const uint8_t *hash = tr_auth_hash(auth, rights);
    bool is_beside = connection->rights != NULL && number != connection->answered;
    bool is_same = hash != NULL && connection->rights != NULL && connection->rights->token > 0 &&
                   memcmp(hash, connection->rights_hash, TR_TOKEN_HASH) == 0;
    return is_beside && !is_same;
}

/* ---- slowly ---- */

static void on_slow(uv_timer_t *timer)
{
    struct tr_server *server = timer->data;
    uint64_t now_ms = uv_now(&server->daemon->loop);
    size_t left = 0;
    for (size_t i = 0; i < server->slowed_count; i++) {
        struct tr_slowed slowed = server->slowed[i];
        struct tr_connection *connection = tr_connection_of(server, slowed.token);
        if (now_ms < slowed.until_ms) {
            server->slowed[left++] = slowed;
            continue;
        }
        if (connection == NULL || connection->stream.is_closed)
            continue;
        connection->is_slowed = false;
        if (connection->stream.out_size == 0)
            connection->stream.calls->on_sent(&connection->stream); /* it goes on to read */
    }
    server->slowed_count = left;
    if (left > 0)
        uv_timer_start(&server->slow, on_slow, SLOW_MS / 5, 0);
}

void tr_allow_slow(struct tr_connection *connection)
{
    struct tr_server *server = connection->server;
    if (connection->is_slowed)
        return;
    if (server->slowed_count == server->slowed_cap) {
        size_t cap = server->slowed_cap > 0 ? 2 * server->slowed_cap : 64;
        struct tr_slowed *larger = realloc(server->slowed, cap * sizeof *larger);
        if (larger == NULL)
            return;
        server->slowed = larger;
        server->slowed_cap = cap;
    }
    connection->is_slowed = true;
    server->slowed[server->slowed_count++] =
        (struct tr_slowed){.token = tr_connection_token(connection, 0),
                           .until_ms = uv_now(&server->daemon->loop) + SLOW_MS};
    if (!uv_is_active((uv_handle_t *)&server->slow))
        uv_timer_start(&server->slow, on_slow, SLOW_MS / 5, 0);
}

/* ---- refusals ---- */

static void refuse(struct tr_connection *connection, uint16_t number, unsigned status,
                   const char *detail, const char *headers)
{
    struct tr_answer *answer = &connection->server->answer;
    struct tr_problem problem;
    tr_problem_set(&problem, status, detail, NULL);
    tr_answer_problem(answer, &problem, NULL);
    answer->headers = headers;
    tr_render(connection, number);
}

static void refuse_unknown(struct tr_connection *connection, uint16_t number, bool has_shown)
{
    if (has_shown)
        tr_allow_slow(connection);
    refuse(connection, number, 401,
           has_shown ? "this token is not known here"
                     : "this node wants a token: Authorization: Bearer ...",
           has_shown ? "WWW-Authenticate: Bearer realm=\"tryst\", error=\"invalid_token\"\r\n"
                     : "WWW-Authenticate: Bearer realm=\"tryst\"\r\n");
}

/* As the draft of the IETF has it: how many a second, and how many are left. */
static void refuse_rate(struct tr_connection *connection, uint16_t number, uint64_t wait_ms)
{
    struct tr_server *server = connection->server;
    struct tr_problem problem;
    char headers[160];
    uint64_t left = 0;
    uint64_t rate = tr_auth_rate(&server->daemon->auth, connection->rights, &left);
    snprintf(headers, sizeof headers,
             "RateLimit-Policy: \"token\";q=%llu;w=1\r\nRateLimit: \"token\";r=%llu;t=%llu\r\n",
             (unsigned long long)rate, (unsigned long long)left,
             (unsigned long long)(wait_ms + 999) / 1000);
    tr_problem_set(&problem, 429, "this token has asked for as much as it may in a second", NULL);
    problem.retry_after_s = (unsigned)((wait_ms + 999) / 1000);
    tr_answer_problem(&server->answer, &problem, NULL);
    server->answer.headers = headers;
    tr_render(connection, number);
}

/* ---- requests ---- */

static const char *what_is_missing(enum need need, const struct tr_rights *rights)
{
    if (need == NEEDS_READ && !rights->reads)
        return "this token may not read";
    if (need == NEEDS_WRITE && !rights->writes)
        return "this token may not write";
    if (need == NEEDS_ADMIN && !rights->is_admin)
        return "this token may not do what operators do: its scope lacks admin";
    return NULL;
}

static const char *what_is_narrow(enum about about, const struct tr_rights *rights)
{
    bool is_narrow = rights->narrow.count > 0 || rights->keys_count > 0;
    if (about == ABOUT_ALL && is_narrow)
        return "this token is narrowed to some timers or keys, and this tells of all";
    if (about == ABOUT_TIMERS && !rights->has_timers)
        return "this token is for keys alone";
    if (about == ABOUT_KEYS && !rights->has_keys)
        return "this token is for timers alone";
    return NULL;
}

/* Why it may not be done; NULL: it may. */
static const char *find_refusal(const struct tr_api_request *route, const struct tr_rights *rights)
{
    const struct rule *rule = &rules[route->kind];
    const char *missing = what_is_missing(rule->need, rights);
    if (missing == NULL)
        missing = what_is_narrow(rule->about, rights);
    if (missing == NULL && rights->narrow.count > 0 && route->query.wants_held)
        missing = what_is_narrow(ABOUT_ALL, rights);
    if (missing == NULL && route->is_dry && !rights->reads)
        missing = "this token may not read, and a dry run tells";
    return missing;
}

/* Where there are no tokens everything may be done; but what a node asks for somebody that is
 * narrowed stays narrowed. */
static void allow_openly(struct tr_connection *connection, const char *bytes)
{
    struct tr_api_request *route = &connection->server->route;
    struct tr_rights rights = {.is_known = false};
    struct tr_span value = tr_http_header(&connection->http, bytes, TR_HTTP_AUTHORIZATION);
    if (value.text == NULL || !is_node(connection, bytes, value, &rights))
        return;
    grant(connection, &rights);
    if (rights.narrow.count > 0)
        route->query.narrow = &connection->rights->narrow;
}

bool tr_allow_request(struct tr_connection *connection, uint16_t number, const char *bytes)
{
    struct tr_daemon *daemon = connection->server->daemon;
    struct tr_api_request *route = &connection->server->route;
    enum need need = rules[route->kind].need;
    struct tr_rights rights = {.is_known = false};
    uint64_t wait_ms = 0;
    route->query.narrow = NULL;
    if (!daemon->auth.is_on) {
        allow_openly(connection, bytes);
        return true;
    }
    if (need == NEEDS_NOTHING || (need == NEEDS_PROBE && daemon->config.has_open_probes))
        return true;
    if (!know(connection, bytes, &rights)) {
        refuse_unknown(connection, number,
                       tr_http_header(&connection->http, bytes, TR_HTTP_AUTHORIZATION).text !=
                           NULL);
        return false;
    }
    const char *refusal =
        is_of_others(connection, number, &rights)
            ? "requests that follow each other without waiting must show the same token"
            : find_refusal(route, &rights);
    if (refusal != NULL) {
        refuse(connection, number, 403, refusal, NULL);
        return false;
    }
    grant(connection, &rights);
    if (!tr_auth_take(&daemon->auth, &rights, daemon->now_us, &wait_ms)) {
        refuse_rate(connection, number, wait_ms);
        return false;
    }
    if (rights.narrow.count > 0)
        route->query.narrow = &connection->rights->narrow;
    return true;
}

bool tr_allow_line(const struct tr_connection *connection, struct tr_problem *problem)
{
    struct tr_daemon *daemon = connection->server->daemon;
    uint64_t wait_ms = 0;
    if (!daemon->auth.is_on || connection->rights == NULL ||
        tr_auth_take(&daemon->auth, connection->rights, daemon->now_us, &wait_ms))
        return true;
    tr_problem_set(problem, 429, "this token has asked for as much as it may in a second", NULL);
    problem->retry_after_s = (unsigned)((wait_ms + 999) / 1000);
    return false;
}

/* How many timers there are of a tag, as this node reckons from those that it holds itself. */
static uint64_t count_of(const struct tr_daemon *daemon, struct tr_span name)
{
    uint64_t nodes = tr_node_roster(daemon->node)->count;
    uint64_t copies = nodes < COPIES ? 1 : COPIES;
    return tr_node_tag_count(daemon->node, name) * (nodes > 0 ? nodes : 1) / copies;
}

bool tr_allow_timer(const struct tr_connection *connection, const struct tr_timer_body *body,
                    bool is_more, struct tr_problem *problem)
{
    const struct tr_daemon *daemon = connection->server->daemon;
    const struct tr_rights *rights = connection->rights;
    if (!daemon->auth.is_on || rights == NULL)
        return true;
    if (!tr_rights_timer(rights, body->tags, body->tag_count, body->own.name)) {
        tr_problem_set(problem, 403,
                       "this token may set timers of its own tags and names only: the timer has "
                       "none of them",
                       NULL);
        return false;
    }
    for (unsigned i = 0; is_more && rights->pending > 0 && i < rights->narrow.count; i++) {
        if (rights->narrow.any[i].is_prefix ||
            count_of(daemon, rights->narrow.any[i].text) < rights->pending)
            continue;
        tr_problem_set(problem, 429, "there are as many timers as this token may have", NULL);
        problem->retry_after_s = 1;
        return false;
    }
    return true;
}

/* ---- commands of RESP ---- */

static bool has_flag(const char *flags, const char *flag)
{
    return strstr(flags, flag) != NULL;
}

const char *tr_allow_command(struct tr_connection *connection, const char *flags,
                             const struct tr_span *keys, uint32_t count, uint32_t step,
                             bool is_of_all)
{
    struct tr_daemon *daemon = connection->server->daemon;
    const struct tr_rights *rights = connection->rights;
    bool is_operator = connection->resp != NULL && has_flag(flags, "admin");
    uint64_t wait_ms = 0;
    if (!daemon->auth.is_on || has_flag(flags, "no_auth"))
        return NULL;
    if (rights == NULL || !rights->is_known)
        return "NOAUTH Authentication required.";
    if (is_operator && !rights->is_admin)
        return "NOPERM this token may not do what operators do: its scope lacks admin";
    if (has_flag(flags, "readonly") && !rights->reads)
        return "NOPERM this token may not read";
    if (has_flag(flags, "write") && !rights->writes)
        return "NOPERM this token may not write";
    bool is_about_keys = has_flag(flags, "readonly") || has_flag(flags, "write");
    if (is_about_keys && !rights->has_keys)
        return "NOPERM this token is for timers alone";
    if (is_about_keys && is_of_all && rights->keys_count > 0)
        return "NOPERM this token is narrowed to some keys, and this tells of all";
    for (uint32_t i = 0; i < count; i += step) {
        if (!tr_rights_key(rights, keys[i]))
            return "NOPERM this token may not use a key of this name";
    }
    if (!tr_auth_take(&daemon->auth, rights, daemon->now_us, &wait_ms))
        return "ERR too many requests: this token has asked for as much as it may in a second";
    return NULL;
}

/* ---- from beginning to end ---- */

static void renew(struct tr_connection *connection)
{
    tr_auth_renew(&connection->server->daemon->auth, connection->rights_hash, connection->rights);
    connection->resp->is_operator = connection->rights->is_admin;
}

void tr_allow_reloaded(struct tr_server *server)
{
    const struct tr_auth *auth = &server->daemon->auth;
    for (uint32_t i = 0; i < server->slot_count; i++) {
        struct tr_connection *connection = server->slots[i].connection;
        bool is_session = connection != NULL && connection->resp != NULL && auth->is_on;
        if (is_session && connection->rights != NULL && connection->rights->token > 0 &&
            !tr_auth_still_has(auth, connection->rights_hash))
            tr_connection_close(connection);
        else if (is_session && connection->rights != NULL && connection->rights->token > 0)
            renew(connection);
    }
}

void tr_allow_open(struct tr_server *server)
{
    uv_timer_init(&server->daemon->loop, &server->slow);
    server->slow.data = server;
}

void tr_allow_close(struct tr_server *server)
{
    free(server->slowed);
    server->slowed = NULL;
    server->slowed_count = 0;
    uv_timer_stop(&server->slow);
    uv_close((uv_handle_t *)&server->slow, NULL);
}
