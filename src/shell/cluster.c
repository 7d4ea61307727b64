/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/cluster.h"

#include "proof/proof.h"
#include "shell/peer/links.h"
#include "shell/peer/neighbours.h"
#include "shell/view.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#ifndef TRYST_VERSION
#define TRYST_VERSION "unknown"
#endif

#define OATH_MAX  (TR_VIEW_TEXT_MAX + 1024)
#define RESYNC_MS 1000

/* ---- what is in force ---- */

void tr_cluster_set_view(struct tr_daemon *daemon)
{
    const struct tr_config *config = &daemon->config;
    struct tr_view_node nodes[TR_VIEW_NODES_MAX + 1];
    struct tr_event event = {.kind = TR_EVENT_VIEW_CHANGED, .has_more = true};
    daemon->has_view = true;
    for (uint32_t i = 0; i < config->node_count; i++) {
        const char *address = config->nodes[i].address;
        nodes[i] = (struct tr_view_node){{address, strlen(address)}, config->nodes[i].role};
    }
    if (config->node_count == 1 && tr_config_names_itself(config))
        nodes[0].role = TR_ROLE_STAYING; /* there is nobody to join, or to leave to */
    nodes[config->node_count] =
        (struct tr_view_node){{config->localhost, strlen(config->localhost)}, TR_ROLE_STAYING};
    if (!tr_config_names_itself(config))
        tr_say(TR_WARNING,
               "[cluster] does not name this node, %s: it hands its timers over to the others",
               config->localhost);
    if (tr_config_is_open(config))
        tr_say(TR_WARNING,
               "this cluster serves beyond loopback and has no [cluster] secret-file: whoever can "
               "send from a node's address is taken for that node");
    event.of.view.nodes = nodes;
    event.of.view.count = config->node_count > 0 ? config->node_count : 1;
    tr_daemon_step(daemon, &event);
    tr_links_look(daemon->links);
}

void tr_cluster_resync(struct tr_daemon *daemon)
{
    struct tr_event event = {.kind = TR_EVENT_REBALANCE_ASKED};
    if (daemon->resynced_ms != 0 && uv_now(&daemon->loop) < daemon->resynced_ms + RESYNC_MS)
        return; /* whoever asks all the time shall not fill the log */
    daemon->resynced_ms = uv_now(&daemon->loop);
    if (tr_node_is_alone(daemon->node)) {
        tr_say(TR_STATUS, "resync: this node has no peers, so there is nothing to do");
        return;
    }
    tr_say(TR_STATUS, "resync: every timer is brought to the nodes where it belongs");
    tr_daemon_step(daemon, &event);
}

/* ---- how it is ---- */

static void put_member(struct tr_writer *out, const char *name, const char *value)
{
    tr_put_text(out, ",\"");
    tr_put_text(out, name);
    tr_put_text(out, "\":\"");
    tr_put_text(out, value);
    tr_put_text(out, "\"");
}

static void put_count(struct tr_writer *out, const char *name, uint64_t value)
{
    tr_put_text(out, ",\"");
    tr_put_text(out, name);
    tr_put_text(out, "\":");
    tr_put_decimal(out, value);
}

static void put_flag(struct tr_writer *out, const char *name, bool value)
{
    tr_put_text(out, ",\"");
    tr_put_text(out, name);
    tr_put_text(out, value ? "\":true" : "\":false");
}

static void put_signed(struct tr_writer *out, const char *name, int64_t value)
{
    tr_put_text(out, ",\"");
    tr_put_text(out, name);
    tr_put_text(out, value < 0 ? "\":-" : "\":");
    tr_put_decimal(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static const char *role_text(enum tr_role role)
{
    static const char *const texts[] = {"gone", "staying", "joining", "leaving"};
    return texts[role];
}

static void put_peer(struct tr_writer *out, const struct tr_node_peer *peer)
{
    const char *state = !peer->is_up ? "down" : peer->is_serving ? "up" : "starting or stopping";
    tr_put_text(out, "{\"address\":");
    tr_put_json_string(out, peer->address);
    put_member(out, "role", role_text(peer->role));
    put_member(out, "state", state);
    put_flag(out, "same-view", peer->has_same_view);
    put_flag(out, "rebalancing", peer->is_rebalancing);
    put_flag(out, "behind", peer->is_behind);
    put_count(out, "heard-ms-ago", peer->heard_ms);
    put_signed(out, "clock-ms-ahead", peer->clock_ms);
    put_count(out, "queued", peer->queued);
    put_count(out, "pending", peer->pending);
    put_count(out, "fill-percent", peer->fill);
    tr_put_text(out, "}");
}

/* Those of the view, and those that are linked though they are not. */
static void put_peers(struct tr_writer *out, const struct tr_node *node)
{
    struct tr_node_peer peer;
    bool is_first = true;
    tr_put_text(out, ",\"nodes\":[");
    for (uint32_t i = 0; i < tr_node_members(node); i++) {
        tr_node_peer(node, (uint16_t)i, &peer);
        if (i == 0 || (peer.role == TR_ROLE_NONE && !peer.is_linked))
            continue;
        tr_put_text(out, is_first ? "" : ",");
        put_peer(out, &peer);
        is_first = false;
    }
    tr_put_text(out, "]");
}

static void put_challenge(struct tr_daemon *daemon, struct tr_writer *out)
{
    while (daemon->challenge == 0) {
        if (getrandom(&daemon->challenge, sizeof daemon->challenge, 0) < 0)
            abort();
    }
    tr_put_text(out, ",\"challenge\":\"");
    tr_put_hex(out, daemon->challenge, 16);
    tr_put_text(out, "\"");
}

void tr_cluster_describe(struct tr_daemon *daemon, struct tr_writer *out)
{
    struct tr_node_stats stats;
    struct tr_node_peer self;
    const struct tr_node *node = daemon->node;
    tr_node_stats(node, &stats);
    tr_node_peer(node, 0, &self);
    tr_put_text(out, "{\"node\":");
    tr_put_json_string(out, self.address);
    put_member(out, "version", TRYST_VERSION);
    put_member(out, "role", role_text(self.role));
    put_member(out, "state", stats.is_serving ? "up" : "starting or stopping");
    tr_put_text(out, ",\"view\":\"");
    tr_put_hex(out, tr_node_view(node), 16);
    tr_put_text(out, "\"");
    put_member(out, "view-from", daemon->config.is_applied ? "apply" : "configuration");
    put_flag(out, "has-secret", daemon->config.secret[0] != '\0');
    put_challenge(daemon, out);
    put_count(out, "held", stats.timers + stats.debts + stats.dead);
    put_flag(out, "rebalancing", stats.is_rebalancing);
    put_count(out, "to-rebalance", stats.to_rebalance);
    put_count(out, "moving", stats.moving);
    put_count(out, "walked-percent", stats.rebalance_walk * 100 / UINT16_MAX);
    put_peers(out, node);
    tr_put_text(out, "}\n");
}

/* ---- another list of nodes ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_proven(struct tr_daemon *daemon, struct tr_span given, struct tr_span text)
{
    uint8_t expected[TR_PROOF_SIZE];
    uint8_t proof[TR_PROOF_SIZE];
    char hex[TR_PROOF_SIZE][2];
    struct tr_span secret = {daemon->config.secret, strlen(daemon->config.secret)};
    struct tr_span address = tr_node_address(daemon->node);
    if (given.text == NULL || given.size != sizeof hex || daemon->challenge == 0)
        return false;
    memcpy(hex, given.text, sizeof hex);
    for (unsigned i = 0; i < TR_PROOF_SIZE; i++) {
        int high = hex_digit(hex[i][0]);
        int low = hex_digit(hex[i][1]);
        if (high < 0 || low < 0)
            return false;
        proof[i] = (uint8_t)(high * 16 + low);
    }
    uint8_t *oath = malloc(OATH_MAX);
    if (oath == NULL)
        abort();
    struct tr_writer out = tr_writer_on(oath, OATH_MAX);
    tr_greeting_apply_oath(&out, address, daemon->challenge, text);
    bool is_whole = !out.is_full;
    tr_proof(secret, (struct tr_span){(const char *)oath, out.size}, expected);
    free(oath);
    return is_whole && tr_proof_equals(expected, proof);
}

bool tr_cluster_apply(struct tr_daemon *daemon, int file, struct tr_span proof, struct tr_span text,
                      struct tr_problem *problem)
{
    bool has_secret = daemon->config.secret[0] != '\0';
    if (!daemon->has_view) {
        tr_problem_set(problem, 503, "the node is starting", NULL);
        return false;
    }
    bool may =
        has_secret ? is_proven(daemon, proof, text) : tr_neighbours_are_near(daemon->node, file);
    if (!may) {
        tr_problem_set(problem, 403,
                       has_secret ? "to set the nodes one must prove to know the cluster's secret"
                                  : "without a [cluster] secret-file the nodes are set from this "
                                    "machine or from a node of the cluster alone",
                       NULL);
        daemon->metrics.applies_refused++;
        return false;
    }
    bool is_check = false;
    if (!tr_view_apply(&daemon->config, daemon->node, text, &is_check, problem))
        return false;
    daemon->challenge = 0;
    if (is_check)
        return true;
    tr_say(TR_STATUS, "a list of %u nodes was applied", daemon->config.node_count);
    tr_cluster_set_view(daemon);
    return true;
}
