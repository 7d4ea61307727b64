/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every key is a row of one table. A value comes from the environment, else from the first file
 * that sets the key (cluster, local, shared; or the one file of ours), else from the row.
 */
#include "shell/config.h"

#include "shell/config_complete.h"
#include "wire/address.h"
#include "wire/ini.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum type {
    TYPE_TEXT,
    TYPE_NUMBER,
    TYPE_SIZE, /* a number of bytes; K, M and G may follow */
    TYPE_NODE,
    TYPE_SYNC,
    TYPE_DENY,
    TYPE_FORMAT,  /* text or json */
    TYPE_YES,     /* yes or no */
    TYPE_QUORUM,  /* always or quorum */
    TYPE_UNKNOWN, /* refuse or ignore */
    TYPE_WEBHOOK, /* a file of secrets, and perhaps before it whom they are for */
    TYPE_TRACE,   /* new or parent */
    TYPE_TLS,     /* off, accept or require */
    TYPE_UNUSED,  /* the original's; accepted */
};

struct row {
    const char *section;
    const char *key;
    enum type type;
    size_t offset;
    uint64_t least;
    uint64_t most;
};

#define ANY_PORT 1 /* of an address that is looked at before its port is known */

#define AT(field) offsetof(struct tr_config, field)
#define NUMBER(section, key, field, least, most)                                                   \
    {                                                                                              \
        section, key, TYPE_NUMBER, AT(field), least, most                                          \
    }
#define UNUSED(section, key)                                                                       \
    {                                                                                              \
        section, key, TYPE_UNUSED, 0, 0, 0                                                         \
    }

static const struct row rows[] = {
    {"http", "bind-address", TYPE_TEXT, AT(bind_address), 1, TR_CONFIG_ADDRESS - 1},
    NUMBER("http", "bind-port", bind_port, 0, 65535),
    UNUSED("http", "threads"),
    UNUSED("http", "gr_threads"),
    {"resp", "enabled", TYPE_YES, AT(has_resp), 0, 0},
    NUMBER("resp", "bind-port", resp_port, 1, 65535),
    {"auth", "tokens-file", TYPE_TEXT, AT(tokens_file), 1, TR_CONFIG_TEXT - 1},
    {"auth", "open-probes", TYPE_YES, AT(has_open_probes), 0, 0},
    {"tls", "cert", TYPE_TEXT, AT(tls_cert), 1, TR_CONFIG_TEXT - 1},
    {"tls", "key", TYPE_TEXT, AT(tls_key), 1, TR_CONFIG_TEXT - 1},
    {"tls", "client-ca", TYPE_TEXT, AT(tls_ca), 1, TR_CONFIG_TEXT - 1},
    {"tls", "clients", TYPE_TLS, AT(tls_clients), 0, 0},
    {"tls", "peers", TYPE_TLS, AT(tls_peers), 0, 0},
    {"ui", "enabled", TYPE_YES, AT(has_page), 0, 0},
    {"ui", "read-only", TYPE_YES, AT(is_page_read_only), 0, 0},
    {"cluster", "localhost", TYPE_TEXT, AT(localhost), 1, 240},
    {"cluster", "node", TYPE_NODE, TR_ROLE_STAYING, 1, 240},
    {"cluster", "joining", TYPE_NODE, TR_ROLE_JOINING, 1, 240},
    {"cluster", "leaving", TYPE_NODE, TR_ROLE_LEAVING, 1, 240},
    {"cluster", "secret", TYPE_TEXT, AT(secret), 8, TR_CONFIG_TEXT - 1},
    {"cluster", "secret-file", TYPE_TEXT, AT(secret_file), 1, TR_CONFIG_TEXT - 1},
    {"keyspace", "available", TYPE_QUORUM, AT(needs_quorum), 0, 0},
    NUMBER("keyspace", "anti-entropy-s", anti_entropy_s, 1, 31536000),
    NUMBER("identity", "instance_id", instance_id, 0, 127),
    NUMBER("identity", "deployment_id", deployment_id, 0, 7),
    {"logging", "folder", TYPE_TEXT, AT(log_folder), 0, TR_CONFIG_TEXT - 1},
    NUMBER("logging", "level", log_level, 1, 5),
    {"logging", "format", TYPE_FORMAT, AT(log_json), 0, 0},
    NUMBER("throttling", "target_latency", target_latency_us, 1000, 3600000000),
    UNUSED("throttling", "max_tokens"),
    UNUSED("throttling", "initial_token_rate"),
    UNUSED("throttling", "min_token_rate"),
    UNUSED("throttling", "max_token_rate"),
    UNUSED("exceptions", "max_ttl"),
    UNUSED("dns", "servers"),
    UNUSED("dns", "timeout"),
    UNUSED("dns", "port"),
    UNUSED("sites", "local_site"),
    UNUSED("sites", "remote_site"),
    UNUSED("sites", "replicate_timers_across_sites"),
    {"storage", "data-dir", TYPE_TEXT, AT(data_dir), 1, TR_CONFIG_TEXT - 1},
    {"storage", "sync", TYPE_SYNC, AT(sync), 0, 0},
    NUMBER("storage", "sync-interval-ms", sync_interval_ms, 1, 3600000),
    {"storage", "segment-size", TYPE_SIZE, AT(segment_size), 1 << 20, (uint64_t)1 << 30},
    {"storage", "memory-budget", TYPE_SIZE, AT(memory_budget), TR_NODE_MEMORY_LEAST,
     (uint64_t)64 << 30},
    NUMBER("callback", "timeout-ms", callback_timeout_ms, 10, 600000),
    NUMBER("callback", "per-destination", per_destination, 1, 10000),
    NUMBER("callback", "attempts", attempts, 1, 100),
    NUMBER("callback", "backoff-ms", backoff_ms, 1, 3600000),
    NUMBER("callback", "dead-keep-s", dead_keep_s, 1, 31536000),
    NUMBER("callback", "key-keep-s", key_keep_s, 1, 31536000),
    NUMBER("callback", "in-flight", flights, 1, 30000),
    {"callback", "deny", TYPE_DENY, 0, 0, 0},
    {"callback", "ca-file", TYPE_TEXT, AT(ca_file), 0, TR_CONFIG_TEXT - 1},
    {"callback", "to-nodes", TYPE_YES, AT(may_call_nodes), 0, 0},
    {"callback", "ce-source", TYPE_TEXT, AT(ce_source), 1, TR_CONFIG_SOURCE - 1},
    {"callback", "trace", TYPE_TRACE, AT(is_trace_kept), 0, 0},
    {"webhook", "secret-file", TYPE_WEBHOOK, 0, 0, 0},
    {"api", "unknown-members", TYPE_UNKNOWN, AT(ignores_unknown), 0, 0},
    {"limits", "body", TYPE_SIZE, AT(body_max), 1024, (uint64_t)64 << 20},
    {"limits", "opaque", TYPE_SIZE, AT(opaque_max), 0, (uint64_t)2 << 20},
    {"limits", "value", TYPE_SIZE, AT(value_max), 1, TR_VALUE_MAX},
    NUMBER("limits", "connections", connections_max, 1, 1000000),
    NUMBER("limits", "pops-kept", pops_kept, 0, 10000000),
    NUMBER("limits", "idle-timeout-s", idle_timeout_s, 1, 86400),
};

#define ROWS (sizeof rows / sizeof rows[0])

struct loader {
    struct tr_config *config;
    bool is_strict; /* an unknown key is a fault, not a remark */
    bool is_set[ROWS];
    bool is_set_before[ROWS]; /* by a file read earlier, or the environment: they win */
    bool has_deny;
    unsigned faults;
    const char *where;
    unsigned line; /* 0: not from a file */
};

__attribute__((format(printf, 2, 3))) static void fault(struct loader *loader, const char *format,
                                                        ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (loader->line > 0)
        tr_say(TR_ERROR, "%s:%u: %s", loader->where, loader->line, message);
    else
        tr_say(TR_ERROR, "%s: %s", loader->where, message);
    loader->faults++;
}

static bool parse_number(const char *text, bool has_unit, uint64_t *number)
{
    char *end = NULL;
    errno = 0;
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long long value = strtoull(text, &end, 10);
    unsigned shift = 0;
    if (has_unit && *end != '\0') {
        shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : 0;
        shift = *end == 'G' || *end == 'g' ? 30 : shift;
        end += shift > 0;
        end += shift > 0 && strcmp(end, "iB") == 0 ? 2 : 0;
    }
    if (errno != 0 || *end != '\0' || value > UINT64_MAX >> shift)
        return false;
    *number = (uint64_t)value << shift;
    return true;
}

static void set_number(struct loader *loader, const struct row *row, const char *text)
{
    uint64_t number = 0;
    bool is_size = row->type == TYPE_SIZE;
    if (!parse_number(text, is_size, &number) || number < row->least || number > row->most) {
        fault(loader, "%s must be a number from %llu to %llu%s, not '%.64s'", row->key,
              (unsigned long long)row->least, (unsigned long long)row->most,
              is_size ? " (K, M and G may follow)" : "", text);
        return;
    }
    memcpy((char *)loader->config + row->offset, &number, sizeof number);
    if (strcmp(row->section, "identity") == 0)
        loader->config->has_identity = true;
}

/* Without a port it is the one that this node serves on, which is known when all is read. */
static void add_node(struct loader *loader, const struct row *row, const char *text)
{
    struct tr_config *config = loader->config;
    if (strlen(text) < row->least || strlen(text) > row->most) {
        fault(loader, "%s must be an address of 1 to %llu bytes", row->key,
              (unsigned long long)row->most);
        return;
    }
    if (config->node_count == TR_VIEW_NODES_MAX) {
        fault(loader, "more than %d nodes", TR_VIEW_NODES_MAX);
        return;
    }
    char probe[TR_CONFIG_ADDRESS];
    snprintf(probe, sizeof probe, "%s", text);
    tr_config_complete_address(probe, ANY_PORT);
    const char *wrong = tr_address_fault((struct tr_span){probe, strlen(probe)});
    if (wrong != NULL) {
        fault(loader, "%s %.64s: %s", row->key, text, wrong);
        return;
    }
    struct tr_config_node *node = &config->nodes[config->node_count++];
    snprintf(node->address, sizeof node->address, "%s", text);
    node->role = (enum tr_role)row->offset;
}

static bool parse_network(char *text, struct tr_network *network)
{
    char *slash = strchr(text, '/');
    uint64_t bits = 0;
    *network = (struct tr_network){0};
    if (slash != NULL)
        *slash = '\0';
    network->is_ipv6 = strchr(text, ':') != NULL;
    bool is_good = inet_pton(network->is_ipv6 ? AF_INET6 : AF_INET, text, network->address) == 1;
    uint64_t most = network->is_ipv6 ? 128 : 32;
    if (slash == NULL)
        bits = most;
    else
        is_good = is_good && parse_number(slash + 1, false, &bits) && bits <= most;
    network->bits = (uint8_t)bits;
    return is_good;
}

/* Networks, parted by commas or spaces; `none` for none. */
static void set_deny(struct loader *loader, const char *text)
{
    struct tr_config *config = loader->config;
    char *copy = strdup(text);
    char *rest = NULL;
    if (!loader->has_deny)
        config->deny_count = 0;
    loader->has_deny = true;
    for (char *word = strtok_r(copy, ", \t", &rest); word != NULL;
         word = strtok_r(NULL, ", \t", &rest)) {
        if (strcmp(word, "none") == 0)
            continue;
        if (config->deny_count == TR_CONFIG_DENY)
            fault(loader, "deny has more than %d networks", TR_CONFIG_DENY);
        else if (!parse_network(word, &config->deny[config->deny_count]))
            fault(loader, "deny: '%.64s' is no network such as 10.0.0.0/8 or fe80::/10", word);
        else
            config->deny_count++;
    }
    free(copy);
}

static void set_sync(struct loader *loader, const char *text)
{
    static const char *const names[] = {"always", "interval", "never"};
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            loader->config->sync = (enum tr_sync)i;
            return;
        }
    }
    fault(loader, "sync must be always, interval or never, not '%.64s'", text);
}

/* `FILE`, or `https://host FILE`. */
static void add_webhook(struct loader *loader, const char *text)
{
    struct tr_config *config = loader->config;
    size_t origin = strncmp(text, "http", 4) == 0 ? strcspn(text, " \t") : 0;
    const char *file = text + origin + strspn(text + origin, " \t");
    if (config->webhook_count == TR_CONFIG_WEBHOOKS) {
        fault(loader, "secret-file: there may be %d of them", TR_CONFIG_WEBHOOKS);
        return;
    }
    if (file[0] == '\0' || origin >= TR_CONFIG_ADDRESS || strlen(file) >= TR_CONFIG_TEXT) {
        fault(loader, "secret-file must be a file, or https://host and a file, not '%.64s'", text);
        return;
    }
    struct tr_config_webhook *webhook = &config->webhooks[config->webhook_count++];
    *webhook = (struct tr_config_webhook){.keys.count = 0};
    snprintf(webhook->origin, sizeof webhook->origin, "%.*s", (int)origin, text);
    snprintf(webhook->file, sizeof webhook->file, "%s", file);
    size_t size = strlen(webhook->origin);
    while (size > 0 && webhook->origin[size - 1] == '/')
        webhook->origin[--size] = '\0';
}

static void set_tls(struct loader *loader, const struct row *row, const char *text)
{
    static const char *const names[] = {"off", "accept", "require"};
    for (uint64_t i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        memcpy((char *)loader->config + row->offset, &i, sizeof i);
        loader->config->has_tls_clients |= row->offset == AT(tls_clients);
        return;
    }
    fault(loader, "%s must be off, accept or require, not '%.64s'", row->key, text);
}

static void set_value(struct loader *loader, const struct row *row, const char *text)
{
    switch (row->type) {
    case TYPE_TEXT:
        if (strlen(text) < row->least || strlen(text) > row->most)
            fault(loader, "%s must have %llu to %llu bytes", row->key,
                  (unsigned long long)row->least, (unsigned long long)row->most);
        else
            memcpy((char *)loader->config + row->offset, text, strlen(text) + 1);
        return;
    case TYPE_NUMBER:
    case TYPE_SIZE:
        set_number(loader, row, text);
        return;
    case TYPE_NODE:
        add_node(loader, row, text);
        return;
    case TYPE_SYNC:
        set_sync(loader, text);
        return;
    case TYPE_DENY:
        set_deny(loader, text);
        return;
    case TYPE_FORMAT:
        loader->config->log_json = strcmp(text, "json") == 0;
        if (!loader->config->log_json && strcmp(text, "text") != 0)
            fault(loader, "format must be text or json, not '%.64s'", text);
        return;
    case TYPE_QUORUM:
        loader->config->needs_quorum = strcmp(text, "quorum") == 0;
        if (!loader->config->needs_quorum && strcmp(text, "always") != 0)
            fault(loader, "available must be always or quorum, not '%.64s'", text);
        return;
    case TYPE_UNKNOWN:
        loader->config->ignores_unknown = strcmp(text, "ignore") == 0;
        if (!loader->config->ignores_unknown && strcmp(text, "refuse") != 0)
            fault(loader, "unknown-members must be refuse or ignore, not '%.64s'", text);
        return;
    case TYPE_TRACE:
        loader->config->is_trace_kept = strcmp(text, "parent") == 0;
        if (!loader->config->is_trace_kept && strcmp(text, "new") != 0)
            fault(loader, "trace must be new or parent, not '%.64s'", text);
        return;
    case TYPE_TLS:
        set_tls(loader, row, text);
        return;
    case TYPE_WEBHOOK:
        add_webhook(loader, text);
        return;
    case TYPE_YES:
        *(bool *)((char *)loader->config + row->offset) = strcmp(text, "yes") == 0;
        if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
            fault(loader, "%s must be yes or no, not '%.64s'", row->key, text);
        return;
    case TYPE_UNUSED:
        if (!loader->is_set[row - rows])
            tr_say(TR_STATUS, "[%s] %s means nothing here, and is ignored", row->section, row->key);
        return;
    }
}

static const struct row *find_row(struct tr_span section, struct tr_span key)
{
    for (size_t i = 0; i < ROWS; i++) {
        struct tr_span row_section = {rows[i].section, strlen(rows[i].section)};
        struct tr_span row_key = {rows[i].key, strlen(rows[i].key)};
        if (tr_span_equals(section, row_section) && tr_span_equals(key, row_key))
            return &rows[i];
    }
    return NULL;
}

static void read_values(struct loader *loader, struct tr_span text)
{
    struct tr_ini ini;
    enum tr_ini_step step;
    tr_ini_init(&ini, text);
    memcpy(loader->is_set_before, loader->is_set, sizeof loader->is_set);
    while ((step = tr_ini_next(&ini)) != TR_INI_END) {
        loader->line = ini.line;
        if (step == TR_INI_BAD) {
            fault(loader, "%s", ini.fault);
            continue;
        }
        const struct row *row = find_row(ini.section, ini.key);
        if (row == NULL) {
            if (loader->is_strict)
                fault(loader, "there is no key '%.*s' in [%.*s]; tryst.conf(5) lists them",
                      (int)ini.key.size, ini.key.text, (int)ini.section.size, ini.section.text);
            else
                tr_say(TR_STATUS, "%s:%u: [%.*s] %.*s is unknown, and is ignored", loader->where,
                       ini.line, (int)ini.section.size, ini.section.text, (int)ini.key.size,
                       ini.key.text);
            continue;
        }
        if (loader->is_set_before[row - rows])
            continue;
        bool is_list = row->type == TYPE_NODE || row->type == TYPE_DENY ||
                       row->type == TYPE_WEBHOOK || row->type == TYPE_UNUSED;
        if (loader->is_strict && loader->is_set[row - rows] && !is_list) {
            fault(loader, "%s was set before", row->key);
            continue;
        }
        char *value = strndup(ini.value.text, ini.value.size);
        set_value(loader, row, value);
        loader->is_set[row - rows] = true;
        free(value);
    }
    loader->line = 0;
}

static void read_config_file(struct loader *loader, const char *path, bool may_be_missing)
{
    size_t size = 0;
    if (path == NULL)
        return;
    loader->where = path;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT && may_be_missing)
        return;
    char *text = file < 0 ? NULL : tr_config_read_whole(file, &size);
    if (text == NULL)
        fault(loader, "cannot be read: %s", strerror(errno));
    else
        read_values(loader, (struct tr_span){text, size});
    free(text);
    if (file >= 0)
        close(file);
}

/* A character of a name, as an environment variable has it. */
static char as_variable(char c)
{
    if (c == '-')
        return '_';
    if (c >= 'a' && c <= 'z')
        return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[c - 'a'];
    return c;
}

/* TRYST_<SECTION>_<KEY>, in capitals, with _ for -. Lists may be parted by commas. */
static void read_environment(struct loader *loader)
{
    for (size_t i = 0; i < ROWS; i++) {
        char name[128];
        snprintf(name, sizeof name, "TRYST_%s_%s", rows[i].section, rows[i].key);
        for (char *at = name; *at != '\0'; at++)
            *at = as_variable(*at);
        const char *value = getenv(name);
        if (value == NULL)
            continue;
        loader->where = name;
        if (rows[i].type == TYPE_NODE) {
            char *copy = strdup(value);
            char *rest = NULL;
            for (char *word = strtok_r(copy, ", ", &rest); word != NULL;
                 word = strtok_r(NULL, ", ", &rest))
                set_value(loader, &rows[i], word);
            free(copy);
        } else {
            set_value(loader, &rows[i], value);
        }
        loader->is_set[i] = true;
    }
}

/* A variable that names a section but no key of it is a slip of the pen. */
static void check_environment(struct loader *loader)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        char section[64];
        char name[128];
        bool is_section = false;
        bool is_key = false;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        for (size_t i = 0; i < ROWS; i++) {
            char key[128];
            snprintf(section, sizeof section, "TRYST_%s_", rows[i].section);
            snprintf(key, sizeof key, "%s%s", section, rows[i].key);
            for (char *at = section; *at != '\0'; at++)
                *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 32 : *at);
            for (char *at = key; *at != '\0'; at++)
                *at = as_variable(*at);
            is_section |= strncmp(name, section, strlen(section)) == 0;
            is_key |= strcmp(name, key) == 0;
        }
        loader->where = name;
        if (is_section && !is_key)
            fault(loader, "there is no such key; tryst.conf(5) lists them");
    }
}

/* Where data is if nobody has said. The original kept none, and a daemon that is started by its
 * files and flags has no current directory to speak of. */
static void set_directory(struct loader *loader, bool is_original)
{
    static const char original[] = "/var/lib/chronos";
    char *directory = loader->config->data_dir;
    bool is_there = access(original, F_OK) == 0;
    if (directory[0] != '\0')
        return;
    snprintf(directory, sizeof loader->config->data_dir, "%s",
             is_original ? original : "tryst-data");
    loader->where = "[storage] data-dir";
    if (is_original && access(is_there ? original : "/var/lib", W_OK | X_OK) != 0)
        fault(loader, "is not set, and %s cannot be written to: %s; set it, or give --data-dir",
              original, strerror(errno));
}

/* Its levels are one lower: 1 warnings, 2 what there is to know, 3 more, 4 and 5 all. */
static void follow_original(struct tr_config *config)
{
    static const char folder[] = "/var/log/chronos";
    config->log_level += config->log_level < TR_DEBUG;
    if (config->log_folder[0] == '\0' && access(folder, W_OK | X_OK) == 0)
        snprintf(config->log_folder, sizeof config->log_folder, "%s", folder);
}

static void set_defaults(struct tr_config *config, bool is_original)
{
    static const struct tr_network link_local[] = {
        {.address = {169, 254}, .bits = 16},
        {.address = {0xfe, 0x80}, .bits = 10, .is_ipv6 = true},
    };
    *config = (struct tr_config){
        .bind_port = 7253,
        .has_resp = true,
        .has_page = true,
        .has_open_probes = true,
        .log_level = is_original ? 2 : 3,
        .target_latency_us = 500000,
        .sync_interval_ms = 1000,
        .segment_size = 32 << 20,
        .callback_timeout_ms = 2000,
        .per_destination = 64,
        .attempts = 8,
        .backoff_ms = 5000,
        .dead_keep_s = 604800, /* a week */
        .key_keep_s = 86400,
        .anti_entropy_s = 600,
        .flights = 8192,
        .deny_count = 2,
        .body_max = 1 << 20,
        .opaque_max = 64 << 10,
        .connections_max = 20000,
        .idle_timeout_s = 60,
        .pops_kept = 10000,
    };
    snprintf(config->bind_address, sizeof config->bind_address, "%s",
             is_original ? "0.0.0.0" : "127.0.0.1");
    memcpy(config->deny, link_local, sizeof link_local);
}

/* `host:port`, `:port` or `host`, of --listen. */
static void set_listen(struct loader *loader, const char *text)
{
    struct tr_config *config = loader->config;
    const char *colon = strrchr(text, ':');
    bool is_bare_ipv6 = colon != NULL && strchr(text, ':') != colon && text[0] != '[';
    size_t host = colon == NULL || is_bare_ipv6 ? strlen(text) : (size_t)(colon - text);
    uint64_t port = config->bind_port;
    bool has_port = colon != NULL && !is_bare_ipv6 && strchr(colon, ']') == NULL;
    loader->where = "--listen";
    if (colon != NULL && strchr(colon, ']') != NULL)
        host = strlen(text);
    if ((has_port && (!parse_number(colon + 1, false, &port) || port > 65535)) ||
        host >= TR_CONFIG_ADDRESS) {
        fault(loader, "expected HOST:PORT, not '%.100s'", text);
        return;
    }
    config->bind_port = port;
    bool is_bracketed = text[0] == '[' && host > 2;
    if (host > 0)
        snprintf(config->bind_address, sizeof config->bind_address, "%.*s",
                 (int)(is_bracketed ? host - 2 : host), is_bracketed ? text + 1 : text);
}

unsigned tr_config_load(struct tr_config *config, const struct tr_config_sources *sources)
{
    struct loader loader = {.config = config, .is_strict = !sources->is_original};
    set_defaults(config, sources->is_original);
    read_environment(&loader);
    check_environment(&loader);
    if (sources->is_original) {
        read_config_file(&loader, sources->cluster_file, true);
        read_config_file(&loader, sources->local_file, true);
        read_config_file(&loader, sources->shared_file, true);
    }
    read_config_file(&loader, sources->config_file, false);
    if (sources->data_dir != NULL)
        snprintf(config->data_dir, sizeof config->data_dir, "%s", sources->data_dir);
    if (sources->has_test_clock && sources->data_dir == NULL)
        snprintf(config->data_dir, sizeof config->data_dir, "none");
    set_directory(&loader, sources->is_original);
    if (sources->is_original)
        follow_original(config);
    if (sources->listen != NULL)
        set_listen(&loader, sources->listen);
    loader.where = "--test-clock";
    if (sources->has_test_clock && config->node_count > 1)
        fault(&loader, "is for a node that is alone: the configuration names %u",
              config->node_count);
    return loader.faults + tr_config_complete(config);
}

uint64_t tr_config_budget(const struct tr_config *config)
{
    uint64_t budget = config->memory_budget;
    if (budget == 0)
        budget = (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 * (uint64_t)sysconf(_SC_PAGESIZE);
    return budget < TR_NODE_MEMORY_LEAST ? TR_NODE_MEMORY_LEAST : budget;
}

const struct tr_webhook_keys *tr_config_webhook_keys(const struct tr_config *config,
                                                     struct tr_span origin)
{
    const struct tr_webhook_keys *usual = NULL;
    for (uint32_t i = 0; i < config->webhook_count; i++) {
        const struct tr_config_webhook *webhook = &config->webhooks[i];
        struct tr_span meant = {webhook->origin, strlen(webhook->origin)};
        if (meant.size == 0)
            usual = &webhook->keys;
        else if (tr_span_equals_nocase(meant, origin))
            return &webhook->keys;
    }
    return usual;
}

bool tr_config_names(const struct tr_config *config, struct tr_span address)
{
    for (uint32_t i = 0; i < config->node_count; i++) {
        const char *named = config->nodes[i].address;
        if (tr_span_equals((struct tr_span){named, strlen(named)}, address))
            return true;
    }
    return false;
}

bool tr_config_names_itself(const struct tr_config *config)
{
    struct tr_span own = {config->localhost, strlen(config->localhost)};
    return config->node_count == 0 || tr_config_names(config, own);
}

static bool is_loopback(const struct tr_config *config)
{
    return strncmp(config->bind_address, "127.", 4) == 0 ||
           strcmp(config->bind_address, "::1") == 0;
}

bool tr_config_is_open(const struct tr_config *config, uint32_t nodes)
{
    return nodes > 1 && !is_loopback(config) && config->secret[0] == '\0';
}

bool tr_config_has_no_tokens(const struct tr_config *config)
{
    return !is_loopback(config) && config->tokens_file[0] == '\0';
}
