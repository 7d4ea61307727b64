/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/reload.h"

#include "shell/cluster.h"
#include "shell/daemon.h"
#include "shell/front/allow.h"
#include "shell/view.h"
#include "shell/zones.h"

#include <string.h>

/* What was read, and is not in force yet. */
struct loaded {
    struct tr_config config;
    struct tr_auth auth;
    struct tr_certificates certificates;
};

/* All of them are looked at, so that all that is wrong is said at once. */
static unsigned load(struct loaded *next, const struct tr_config_sources *sources)
{
    unsigned faults = tr_config_load(&next->config, sources);
    unsigned of_auth = tr_auth_load(&next->auth, &next->config);
    unsigned of_certificates = tr_certificates_load(&next->certificates, &next->config, false);
    faults += of_auth + of_certificates;
    if (faults > 0 && of_auth == 0)
        tr_auth_free(&next->auth);
    if (faults > 0 && of_certificates == 0)
        tr_certificates_free(&next->certificates);
    return faults;
}

static void replace_auth(struct tr_daemon *daemon, struct tr_auth *next)
{
    if (daemon->auth.is_on && !next->is_on)
        tr_say(TR_WARNING, "[auth] tokens-file is gone from the configuration: whoever reaches "
                           "this node may read, set and cancel everything");
    else if (next->is_on)
        tr_say(TR_STATUS, "%u token%s in force", next->count, next->count == 1 ? " is" : "s are");
    tr_auth_replace(&daemon->auth, next);
    tr_allow_reloaded(daemon->server);
}

static void replace_certificates(struct tr_daemon *daemon, const struct tr_certificates *next)
{
    tr_certificates_free(&daemon->certificates);
    daemon->certificates = *next;
}

/* What is not named here waits for a restart. */
static void take_over(struct tr_config *now, const struct tr_config *next)
{
    memcpy(now->tokens_file, next->tokens_file, sizeof now->tokens_file);
    memcpy(now->tls_cert, next->tls_cert, sizeof now->tls_cert);
    memcpy(now->tls_key, next->tls_key, sizeof now->tls_key);
    memcpy(now->tls_ca, next->tls_ca, sizeof now->tls_ca);
    memcpy(now->log_folder, next->log_folder, sizeof now->log_folder);
    memcpy(now->secret, next->secret, sizeof now->secret);
    memcpy(now->webhooks, next->webhooks, sizeof now->webhooks);
    memcpy(now->ce_source, next->ce_source, sizeof now->ce_source);
    memcpy(now->deny, next->deny, sizeof now->deny);
    now->has_open_probes = next->has_open_probes;
    now->tls_clients = next->tls_clients;
    now->tls_peers = next->tls_peers;
    now->has_page = next->has_page;
    now->is_page_read_only = next->is_page_read_only;
    now->log_level = next->log_level;
    now->log_json = next->log_json;
    now->target_latency_us = next->target_latency_us;
    now->callback_timeout_ms = next->callback_timeout_ms;
    now->per_destination = next->per_destination;
    now->attempts = next->attempts;
    now->backoff_ms = next->backoff_ms;
    now->dead_keep_s = next->dead_keep_s;
    now->key_keep_s = next->key_keep_s;
    now->body_max = next->body_max;
    now->idle_timeout_s = next->idle_timeout_s;
    now->deny_count = next->deny_count;
    now->webhook_count = next->webhook_count;
    now->is_trace_kept = next->is_trace_kept;
    now->may_call_nodes = next->may_call_nodes;
}

static bool take_nodes(struct tr_config *now, const struct tr_config *next)
{
    bool is_same = now->node_count == next->node_count &&
                   memcmp(now->nodes, next->nodes, next->node_count * sizeof next->nodes[0]) == 0;
    now->node_count = next->node_count;
    memcpy(now->nodes, next->nodes, sizeof now->nodes);
    return is_same;
}

void tr_daemon_reload(struct tr_daemon *daemon)
{
    struct loaded next;
    struct tr_config *now = &daemon->config;
    tr_daemon_read_wall_offset(daemon);
    unsigned faults = load(&next, &daemon->sources);
    daemon->metrics.config_faults = faults;
    if (faults > 0) {
        tr_say(TR_ERROR,
               "the new configuration has %u fault%s; the one before stays in force, with its "
               "tokens and certificates",
               faults, faults == 1 ? "" : "s");
        return;
    }
    replace_auth(daemon, &next.auth);
    replace_certificates(daemon, &next.certificates);
    take_over(now, &next.config);
    next.config.has_disk = now->has_disk; /* storage waits for a restart */
    memcpy(next.config.data_dir, now->data_dir, sizeof next.config.data_dir);
    tr_view_choose(&next.config);
    bool is_same_view = take_nodes(now, &next.config);
    tr_say_setup((enum tr_level)now->log_level, now->log_json,
                 now->log_folder[0] != '\0' ? now->log_folder : NULL);
    struct tr_node_config node;
    struct tr_event event = {.kind = TR_EVENT_CONFIGURED};
    tr_daemon_configure_node(now, &node);
    event.of.config = &node;
    tr_daemon_step(daemon, &event);
    if (!is_same_view && daemon->has_view)
        tr_cluster_set_view(daemon);
    tr_zone_cache_look(daemon->zones);
    tr_say(TR_STATUS, "the new configuration is in force; addresses, storage, limits of "
                      "connections and of opaque data, ca-file wait for a restart");
}
