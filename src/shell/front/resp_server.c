/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that are about the connection and the server, as clients insist on them. */
#include "base/integer.h"
#include "resp/glob.h"
#include "shell/front/allow.h"
#include "shell/front/resp_ask.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define VERSION    "7.0.15" /* of Redis, whose commands these are */
#define INFO_MAX   4096
#define CALLED_MAX 1024               /* of what a client calls itself */
#define LIST_MAX   ((size_t)64 << 20) /* bytes of CLIENT LIST */

/* ---- the connection ---- */

void tr_resp_ping(struct tr_resp_call *call)
{
    if (call->count > 2)
        tr_resp_put_error(call->out, "ERR wrong number of arguments for 'ping' command");
    else if (call->count == 2)
        tr_resp_put_bulk(call->out, call->arguments[1]);
    else
        tr_resp_put_simple(call->out, "PONG");
}

void tr_resp_echo(struct tr_resp_call *call)
{
    tr_resp_put_bulk(call->out, call->arguments[1]);
}

void tr_resp_quit(struct tr_resp_call *call)
{
    tr_resp_put_simple(call->out, "OK");
    call->closes = true;
}

static void set_text(char **text, struct tr_span to)
{
    free(*text);
    *text = to.size > 0 ? malloc(to.size + 1) : NULL;
    if (*text == NULL)
        return;
    memcpy(*text, to.text, to.size);
    (*text)[to.size] = '\0';
}

void tr_resp_reset(struct tr_resp_call *call)
{
    struct tr_resp_session *session = call->session;
    session->mode = TR_RESP_ANSWERS;
    session->out.is_third = false;
    session->is_operator = false;
    if (call->daemon->auth.is_on)
        tr_allow_none(call->connection);
    set_text(&session->name, (struct tr_span){NULL, 0});
    tr_resp_put_simple(call->out, "RESET");
}

void tr_resp_select(struct tr_resp_call *call)
{
    int64_t number = 0;
    if (!tr_integer_read(call->arguments[1], &number))
        tr_resp_put_error(call->out, TR_RESP_NOT_INTEGER);
    else if (number > INT32_MAX || number < INT32_MIN)
        tr_resp_put_error(call->out, TR_RESP_NOT_INT);
    else if (number != 0)
        tr_resp_put_error(call->out, "ERR DB index is out of range");
    else
        tr_resp_put_simple(call->out, "OK");
}

/* Whether a client may be called so: no spaces, nothing but what can be printed, and not long. */
static bool is_name(struct tr_span text)
{
    if (text.size > CALLED_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.text[i] < '!' || text.text[i] > '~')
            return false;
    }
    return true;
}

#define BAD_NAME "ERR Client names cannot contain spaces, newlines or special characters."

/* In a time that does not tell how much of it is right. */
static bool is_secret(struct tr_span secret, struct tr_span given)
{
    unsigned differs = secret.size != given.size;
    for (size_t i = 0; i < given.size; i++)
        differs |= (unsigned char)(given.text[i] ^ secret.text[secret.size > i ? i : 0]);
    return differs == 0;
}

/* There are no users but the one, who needs no password; with the cluster's secret it may do what
 * operators do. Where there are tokens, one of them is the password, whatever the user. */
static bool knows(struct tr_resp_call *call, struct tr_span user, struct tr_span password)
{
    const char *text = call->daemon->config.secret;
    struct tr_span secret = {text, strlen(text)};
    bool has_tokens = call->daemon->auth.is_on;
    bool is_usual = tr_span_equals(user, TR_SPAN("default"));
    call->session->is_operator = is_usual && secret.size > 0 && is_secret(secret, password);
    if (!has_tokens)
        return is_usual && (secret.size == 0 || call->session->is_operator);
    if (call->session->is_operator) {
        tr_allow_all(call->connection);
        return true;
    }
    if (tr_allow_session(call->connection, password)) {
        call->session->is_operator = call->connection->rights->is_admin;
        return true;
    }
    tr_allow_slow(call->connection);
    return false;
}

void tr_resp_auth(struct tr_resp_call *call)
{
    bool has_secret = call->daemon->config.secret[0] != '\0' || call->daemon->auth.is_on;
    struct tr_span user = call->count == 2 ? TR_SPAN("default") : call->arguments[1];
    if (call->count > 3)
        tr_resp_put_error(call->out, TR_RESP_SYNTAX);
    else if (call->count == 2 && !has_secret)
        tr_resp_put_error(call->out,
                          "ERR AUTH <password> called without any password configured for the "
                          "default user. Are you sure your configuration is correct?");
    else if (knows(call, user, call->arguments[call->count - 1]))
        tr_resp_put_simple(call->out, "OK");
    else
        tr_resp_put_error(call->out,
                          "WRONGPASS invalid username-password pair or user is disabled.");
}

/* The options of HELLO behind its version. */
static bool greet(struct tr_resp_call *call)
{
    struct tr_span name = {NULL, 0};
    for (uint32_t i = 2; i < call->count; i++) {
        uint32_t more = call->count - i - 1;
        if (tr_resp_is(call->arguments[i], "auth") && more >= 2) {
            if (!knows(call, call->arguments[i + 1], call->arguments[i + 2])) {
                tr_resp_put_error(call->out, "WRONGPASS invalid username-password pair or user is "
                                             "disabled.");
                return false;
            }
            i += 2;
        } else if (tr_resp_is(call->arguments[i], "setname") && more >= 1) {
            name = call->arguments[++i];
            if (!is_name(name)) {
                tr_resp_put_error(call->out, BAD_NAME);
                return false;
            }
        } else {
            tr_resp_put_error_about(
                call->out, "ERR Syntax error in HELLO option '%.*s'",
                (int)(call->arguments[i].size < 128 ? call->arguments[i].size : 128),
                call->arguments[i].text);
            return false;
        }
    }
    if (name.text != NULL)
        set_text(&call->session->name, name);
    return true;
}

void tr_resp_hello(struct tr_resp_call *call)
{
    struct tr_resp_out *out = call->out;
    int64_t version = out->is_third ? 3 : 2;
    if (call->count > 1 && !tr_integer_read(call->arguments[1], &version)) {
        tr_resp_put_error(out, "ERR Protocol version is not an integer or out of range");
        return;
    }
    if (version < 2 || version > 3) {
        tr_resp_put_error(out, "NOPROTO unsupported protocol version");
        return;
    }
    if (!greet(call))
        return;
    out->is_third = version == 3;
    tr_resp_put_map(out, 7);
    tr_resp_put_text(out, "server");
    tr_resp_put_text(out, "redis");
    tr_resp_put_text(out, "version");
    tr_resp_put_text(out, VERSION);
    tr_resp_put_text(out, "proto");
    tr_resp_put_integer(out, version);
    tr_resp_put_text(out, "id");
    tr_resp_put_integer(out, (int64_t)call->session->id);
    tr_resp_put_text(out, "mode");
    tr_resp_put_text(out, "standalone");
    tr_resp_put_text(out, "role");
    tr_resp_put_text(out, "master");
    tr_resp_put_text(out, "modules");
    tr_resp_put_array(out, 0);
}

/* ---- CLIENT ---- */

void tr_resp_client_id(struct tr_resp_call *call)
{
    tr_resp_put_integer(call->out, (int64_t)call->session->id);
}

void tr_resp_client_getname(struct tr_resp_call *call)
{
    if (call->session->name != NULL)
        tr_resp_put_text(call->out, call->session->name);
    else
        tr_resp_put_null(call->out);
}

void tr_resp_client_setname(struct tr_resp_call *call)
{
    if (!is_name(call->arguments[2])) {
        tr_resp_put_error(call->out, BAD_NAME);
        return;
    }
    set_text(&call->session->name, call->arguments[2]);
    tr_resp_put_simple(call->out, "OK");
}

void tr_resp_client_setinfo(struct tr_resp_call *call)
{
    bool is_library = tr_resp_is(call->arguments[2], "lib-name");
    if (!is_library && !tr_resp_is(call->arguments[2], "lib-ver")) {
        tr_resp_put_error_about(
            call->out, "ERR Unrecognized option '%.*s'",
            (int)(call->arguments[2].size < 128 ? call->arguments[2].size : 128),
            call->arguments[2].text);
        return;
    }
    if (!is_name(call->arguments[3])) {
        tr_resp_put_error_about(call->out,
                                "ERR %s cannot contain spaces, newlines or special characters.",
                                is_library ? "lib-name" : "lib-ver");
        return;
    }
    tr_resp_put_simple(call->out, "OK");
}

void tr_resp_client_no(struct tr_resp_call *call)
{
    bool is_said = tr_resp_is(call->arguments[2], "on") || tr_resp_is(call->arguments[2], "off");
    if (is_said)
        tr_resp_put_simple(call->out, "OK");
    else
        tr_resp_put_error(call->out, TR_RESP_SYNTAX);
}

void tr_resp_client_reply(struct tr_resp_call *call)
{
    struct tr_resp_session *session = call->session;
    if (tr_resp_is(call->arguments[2], "on")) {
        session->mode = TR_RESP_ANSWERS;
        tr_resp_put_simple(call->out, "OK");
    } else if (tr_resp_is(call->arguments[2], "off")) {
        session->mode = TR_RESP_IS_SILENT;
    } else if (tr_resp_is(call->arguments[2], "skip")) {
        call->sets_mode = true;
        if (session->mode == TR_RESP_ANSWERS)
            session->mode = TR_RESP_SKIPS;
    } else {
        tr_resp_put_error(call->out, TR_RESP_SYNTAX);
    }
}

static void write_address(int file, bool is_peer, char text[64])
{
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } address = {.any = {0}};
    socklen_t size = sizeof address;
    char host[INET6_ADDRSTRLEN] = "";
    int result =
        is_peer ? getpeername(file, &address.any, &size) : getsockname(file, &address.any, &size);
    bool is_ipv6 = address.any.sa_family == AF_INET6;
    if (result == 0)
        inet_ntop(address.any.sa_family,
                  is_ipv6 ? (const void *)&address.ipv6.sin6_addr
                          : (const void *)&address.ipv4.sin_addr,
                  host, sizeof host);
    snprintf(text, 64, is_ipv6 ? "[%s]:%u" : "%s:%u", host,
             ntohs(is_ipv6 ? address.ipv6.sin6_port : address.ipv4.sin_port));
}

/* A line about a connection, as CLIENT LIST has it. */
static int write_client(const struct tr_connection *connection, char *text, size_t size)
{
    const struct tr_resp_session *session = connection->resp;
    uint64_t now_ms = uv_now(&connection->server->daemon->loop);
    char peer[64];
    char own[64];
    write_address(connection->stream.file, true, peer);
    write_address(connection->stream.file, false, own);
    return snprintf(
        text, size,
        "id=%llu addr=%s laddr=%s fd=%d name=%.1024s age=%llu idle=%llu flags=N db=0 sub=0 psub=0 "
        "ssub=0 multi=-1 qbuf=%zu qbuf-free=%zu argv-mem=0 multi-mem=0 rbs=%zu rbp=0 obl=0 oll=0 "
        "omem=%zu tot-mem=%zu events=r cmd=%s user=default redir=-1 resp=%d\n",
        (unsigned long long)session->id, peer, own, connection->stream.file,
        session->name != NULL ? session->name : "",
        (unsigned long long)(now_ms - session->since_ms) / 1000,
        (unsigned long long)(now_ms - session->asked_ms) / 1000,
        connection->in_size > 0 ? connection->in_size : session->asking,
        connection->in_cap - connection->in_size, session->out.cap, session->out.size,
        sizeof *connection + sizeof *session + connection->in_cap + session->out.cap,
        session->last != NULL ? session->last->name : "NULL", session->out.is_third ? 3 : 2);
}

void tr_resp_client_info(struct tr_resp_call *call)
{
    char text[INFO_MAX];
    int size = write_client(call->connection, text, sizeof text);
    tr_resp_put_verbatim(call->out, (struct tr_span){text, (size_t)size});
}

/* Clients are of one type, whatever others Redis knows. False: it is none, which is said. */
static bool read_client_type(struct tr_resp_call *call, bool *is_any)
{
    static const char *const others[] = {"master", "replica", "slave", "pubsub"};
    struct tr_span type = call->arguments[3];
    *is_any = tr_resp_is(type, "normal");
    bool is_known = *is_any;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        is_known |= tr_resp_is(type, others[i]);
    if (!is_known)
        tr_resp_put_error_about(call->out, "ERR Unknown client type '%.*s'",
                                (int)(type.size < 128 ? type.size : 128), type.text);
    return is_known;
}

static int by_session(const void *a, const void *b)
{
    uint64_t x = (*(const struct tr_connection *const *)a)->resp->id;
    uint64_t y = (*(const struct tr_connection *const *)b)->resp->id;
    return (x > y) - (x < y);
}

/* The clients in the order in which they have come; NULL: no memory. To be freed. */
static struct tr_connection **sort_clients(struct tr_server *server, size_t *count)
{
    size_t most = server->daemon->metrics.connections;
    struct tr_connection **list = malloc((most + 1) * sizeof(struct tr_connection *));
    *count = 0;
    for (struct tr_connection *connection = server->oldest.next;
         list != NULL && connection != &server->oldest && *count < most;
         connection = connection->next) {
        if (connection->resp != NULL)
            list[(*count)++] = connection;
    }
    if (list != NULL)
        qsort(list, *count, sizeof(struct tr_connection *), by_session);
    return list;
}

static void put_client(struct tr_resp_out *lines, const struct tr_connection *connection)
{
    char text[INFO_MAX];
    tr_resp_put_raw(lines, text, (size_t)write_client(connection, text, sizeof text));
}

/* Those that were asked for by their numbers. False: one is none, which is said. */
static bool put_clients_by_id(struct tr_resp_call *call, struct tr_resp_out *lines,
                              struct tr_connection **list, size_t count)
{
    for (uint32_t i = 3; i < call->count; i++) {
        int64_t id = 0;
        if (!tr_integer_read(call->arguments[i], &id)) {
            tr_resp_put_error(call->out, "ERR Invalid client ID");
            return false;
        }
        size_t low = 0;
        size_t high = count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (list[middle]->resp->id < (uint64_t)id)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < count && list[low]->resp->id == (uint64_t)id)
            put_client(lines, list[low]);
    }
    return true;
}

/* CLIENT LIST, of all, of a TYPE, or by ID. */
void tr_resp_client_list(struct tr_resp_call *call)
{
    struct tr_resp_out lines = {.limit = LIST_MAX};
    size_t count = 0;
    bool is_any = call->count == 2;
    bool is_by_id = call->count > 3 && tr_resp_is(call->arguments[2], "id");
    bool is_by_type = call->count == 4 && tr_resp_is(call->arguments[2], "type");
    if (call->count != 2 && !is_by_id && !is_by_type) {
        tr_resp_put_error(call->out, TR_RESP_SYNTAX);
        return;
    }
    if (is_by_type && !read_client_type(call, &is_any))
        return;
    struct tr_connection **list = sort_clients(call->connection->server, &count);
    bool is_good = !is_by_id || put_clients_by_id(call, &lines, list, count);
    for (size_t i = 0; is_any && i < count; i++)
        put_client(&lines, list[i]);
    if (is_good)
        tr_resp_put_verbatim(call->out, (struct tr_span){lines.bytes, lines.size});
    call->out->is_lost |= list == NULL || lines.is_lost;
    call->out->is_too_large |= lines.is_too_large;
    tr_resp_out_free(&lines);
    free(list);
}

/* CLIENT KILL address, or ID number. */
void tr_resp_client_kill(struct tr_resp_call *call)
{
    struct tr_server *server = call->connection->server;
    bool is_old = call->count == 3;
    int64_t id = 0;
    int64_t killed = 0;
    if (!is_old && (call->count != 4 || !tr_resp_is(call->arguments[2], "id"))) {
        tr_resp_put_error(call->out, TR_RESP_SYNTAX);
        return;
    }
    if (!is_old && (!tr_integer_read(call->arguments[3], &id) || id <= 0)) {
        tr_resp_put_error(call->out, "ERR client-id should be greater than 0");
        return;
    }
    struct tr_connection *next = NULL;
    for (struct tr_connection *connection = server->oldest.next; connection != &server->oldest;
         connection = next) {
        char peer[64];
        next = connection->next;
        if (connection->resp == NULL || (!is_old && connection == call->connection))
            continue; /* by its number nobody kills itself */
        write_address(connection->stream.file, true, peer);
        bool is_meant =
            is_old ? tr_resp_is(call->arguments[2], peer) : connection->resp->id == (uint64_t)id;
        killed += is_meant;
        if (is_meant && connection == call->connection)
            call->closes = true;
        else if (is_meant)
            tr_connection_close(connection);
    }
    if (!is_old)
        tr_resp_put_integer(call->out, killed);
    else if (killed > 0)
        tr_resp_put_simple(call->out, "OK");
    else
        tr_resp_put_error(call->out, "ERR No such client");
}

/* ---- the server ---- */

void tr_resp_time(struct tr_resp_call *call)
{
    struct timespec now;
    char text[24];
    clock_gettime(CLOCK_REALTIME, &now);
    tr_resp_put_array(call->out, 2);
    snprintf(text, sizeof text, "%lld", (long long)now.tv_sec);
    tr_resp_put_text(call->out, text);
    snprintf(text, sizeof text, "%ld", now.tv_nsec / 1000);
    tr_resp_put_text(call->out, text);
}

static bool wants(const struct tr_resp_call *call, const char *section)
{
    bool is_wanted = call->count == 1;
    for (uint32_t i = 1; i < call->count; i++)
        is_wanted |= tr_resp_is(call->arguments[i], section) ||
                     tr_resp_is(call->arguments[i], "all") ||
                     tr_resp_is(call->arguments[i], "everything") ||
                     tr_resp_is(call->arguments[i], "default");
    return is_wanted;
}

static uint64_t commands_of(const struct tr_server *server)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < TR_RESP_SLOTS; i++)
        sum += server->verb_counts[i];
    return sum;
}

void tr_resp_info(struct tr_resp_call *call)
{
    const struct tr_daemon *daemon = call->daemon;
    struct tr_node_stats stats;
    char text[INFO_MAX];
    size_t size = 0;
    uint64_t up_s = (tr_boot_us() - daemon->started_us) / 1000000;
    tr_node_stats(daemon->node, &stats);
    if (wants(call, "server"))
        size += (size_t)snprintf(
            text + size, sizeof text - size,
            "%s# Server\r\nredis_version:" VERSION "\r\nredis_mode:standalone\r\nos:Linux\r\n"
            "arch_bits:64\r\nmultiplexing_api:epoll\r\nprocess_id:%ld\r\ntcp_port:%u\r\n"
            "uptime_in_seconds:%llu\r\nuptime_in_days:%llu\r\n",
            size > 0 ? "\r\n" : "", (long)getpid(), call->connection->server->port,
            (unsigned long long)up_s, (unsigned long long)up_s / 86400);
    if (wants(call, "clients"))
        size += (size_t)snprintf(text + size, sizeof text - size,
                                 "%s# Clients\r\nconnected_clients:%llu\r\nmaxclients:%llu\r\n"
                                 "blocked_clients:0\r\n",
                                 size > 0 ? "\r\n" : "",
                                 (unsigned long long)daemon->metrics.connections,
                                 (unsigned long long)daemon->config.connections_max);
    if (wants(call, "memory"))
        size += (size_t)snprintf(text + size, sizeof text - size,
                                 "%s# Memory\r\nused_memory:%llu\r\nmaxmemory:%llu\r\n"
                                 "maxmemory_policy:noeviction\r\n",
                                 size > 0 ? "\r\n" : "", (unsigned long long)stats.memory_used,
                                 (unsigned long long)tr_config_budget(&daemon->config));
    if (wants(call, "persistence"))
        size +=
            (size_t)snprintf(text + size, sizeof text - size,
                             "%s# Persistence\r\nloading:%d\r\naof_enabled:%d\r\n"
                             "rdb_bgsave_in_progress:0\r\n",
                             size > 0 ? "\r\n" : "", !stats.is_serving, daemon->config.has_disk);
    if (wants(call, "stats"))
        size += (size_t)snprintf(text + size, sizeof text - size,
                                 "%s# Stats\r\ntotal_connections_received:%llu\r\n"
                                 "total_commands_processed:%llu\r\nexpired_keys:%llu\r\n",
                                 size > 0 ? "\r\n" : "",
                                 (unsigned long long)call->connection->server->session_id,
                                 (unsigned long long)commands_of(call->connection->server),
                                 (unsigned long long)stats.keys_expired);
    if (wants(call, "replication"))
        size += (size_t)snprintf(text + size, sizeof text - size,
                                 "%s# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
                                 size > 0 ? "\r\n" : "");
    if (wants(call, "cluster"))
        size += (size_t)snprintf(text + size, sizeof text - size,
                                 "%s# Cluster\r\ncluster_enabled:0\r\n", size > 0 ? "\r\n" : "");
    if (wants(call, "keyspace")) {
        call->batch = stats.keys_batch;
        size += (size_t)snprintf(text + size, sizeof text - size, "%s# Keyspace\r\n",
                                 size > 0 ? "\r\n" : "");
        if (stats.keys > 0)
            size += (size_t)snprintf(
                text + size, sizeof text - size, "db0:keys=%llu,expires=%llu,avg_ttl=0\r\n",
                (unsigned long long)stats.keys, (unsigned long long)stats.keys_expiring);
    }
    tr_resp_put_verbatim(call->out, (struct tr_span){text, size});
}

/* The name under which a setting is shown: as it was asked for, or, by a pattern, its own. Without
 * text: it is not wanted. */
static struct tr_span wanted_name(const struct tr_resp_call *call, const char *setting)
{
    struct tr_span own = {setting, strlen(setting)};
    struct tr_span found = {NULL, 0};
    for (uint32_t i = 2; i < call->count; i++) {
        if (tr_resp_is(call->arguments[i], setting))
            return call->arguments[i];
        if (tr_glob_matches_nocase(call->arguments[i], own))
            found = own;
    }
    return found;
}

void tr_resp_config_get(struct tr_resp_call *call)
{
    const struct tr_config *config = &call->daemon->config;
    char memory[24];
    char port[24];
    char clients[24];
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)tr_config_budget(config));
    snprintf(port, sizeof port, "%u", call->connection->server->port);
    snprintf(clients, sizeof clients, "%llu", (unsigned long long)config->connections_max);
    const char *const settings[][2] = {
        {"appendfsync", config->sync == TR_SYNC_ALWAYS ? "always" : "everysec"},
        {"appendonly", config->has_disk ? "yes" : "no"},
        {"bind", config->bind_address},
        {"databases", "1"},
        {"maxclients", clients},
        {"maxmemory", memory},
        {"maxmemory-policy", "noeviction"},
        {"port", port},
        {"proto-max-bulk-len", "67108864"},
        {"save", ""},
        {"timeout", "0"},
    };
    enum { SETTINGS = sizeof settings / sizeof settings[0] };
    struct tr_span names[SETTINGS];
    size_t count = 0;
    for (size_t i = 0; i < SETTINGS; i++) {
        names[i] = wanted_name(call, settings[i][0]);
        count += names[i].text != NULL;
    }
    tr_resp_put_map(call->out, count);
    for (size_t i = 0; i < SETTINGS; i++) {
        if (names[i].text == NULL)
            continue;
        tr_resp_put_bulk(call->out, names[i]);
        tr_resp_put_text(call->out, settings[i][1]);
    }
}

void tr_resp_memory_usage(struct tr_resp_call *call)
{
    struct tr_key_command command = {.verb = TR_KEY_READ, .key = call->arguments[2]};
    struct tr_key_result result;
    for (uint32_t i = 3; i < call->count; i += 2) {
        int64_t samples = 0;
        bool is_known = tr_resp_is(call->arguments[i], "samples") && i + 1 < call->count;
        if (is_known && !tr_resp_get_integer(call, call->arguments[i + 1], &samples))
            return;
        if (!is_known || samples < 0) {
            tr_resp_put_error(call->out, TR_RESP_SYNTAX);
            return;
        }
    }
    tr_node_key(call->daemon->node, &command, &result);
    if (!tr_resp_settle(call, &result))
        return;
    if (result.was_there)
        tr_resp_put_integer(call->out,
                            (int64_t)tr_node_key_memory(call->daemon->node, call->arguments[2]));
    else
        tr_resp_put_null(call->out);
}
