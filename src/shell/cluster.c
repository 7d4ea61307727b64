/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/cluster.h"

#include "proof/proof.h"
#include "shell/peer/links.h"
#include "shell/peer/neighbours.h"
#include "shell/view.h"
#include "wire/address.h"
#include "wire/hex.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>

#ifndef TRYST_VERSION
#define TRYST_VERSION "unknown"
#endif

#define OATH_MAX  (TR_VIEW_TEXT_MAX + 1024)
#define RESYNC_MS 1000

/* ---- what is in force ---- */

/* A line that is taken away asks for nothing: whoever meant that a node leaves is told how. */
static void warn_unnamed(const struct tr_daemon *daemon, bool is_start)
{
    const struct tr_config *config = &daemon->config;
    const struct tr_roster *roster = tr_node_roster(daemon->node);
    for (uint32_t i = 0; config->node_count > 0 && i < roster->count; i++) {
        struct tr_span address = tr_roster_address(roster, i);
        if (roster->nodes[i].role == TR_ROLE_STAYING && !tr_config_names(config, address))
            tr_say(is_start ? TR_INFO : TR_WARNING,
                   "[cluster] does not name %.*s, which is a member and stays one: to let it go, "
                   "give it a line 'leaving = %.*s', or use tryst cluster leave",
                   (int)address.size, address.text, (int)address.size, address.text);
    }
}

void tr_cluster_set_view(struct tr_daemon *daemon)
{
    const struct tr_config *config = &daemon->config;
    struct tr_view_node nodes[TR_VIEW_NODES_MAX + 1];
    struct tr_event event = {.kind = TR_EVENT_VIEW_CHANGED, .has_more = true};
    bool is_start = !daemon->has_view;
    daemon->has_view = true;
    for (uint32_t i = 0; i < config->node_count; i++) {
        const char *address = config->nodes[i].address;
        nodes[i] = (struct tr_view_node){.address = {address, strlen(address)},
                                         .role = config->nodes[i].role};
    }
    if (config->node_count == 1 && tr_config_names_itself(config))
        nodes[0].role = TR_ROLE_STAYING; /* there is nobody to join, or to leave to */
    nodes[config->node_count] = (struct tr_view_node){
        .address = {config->localhost, strlen(config->localhost)}, .role = TR_ROLE_STAYING};
    event.of.view.nodes = nodes;
    event.of.view.count = config->node_count > 0 ? config->node_count : 1;
    tr_daemon_step(daemon, &event);
    warn_unnamed(daemon, is_start);
    if (tr_config_is_open(config, tr_node_roster(daemon->node)->count))
        tr_say(TR_WARNING,
               "this cluster serves beyond loopback and has no [cluster] secret-file: whoever can "
               "send from a node's address is taken for that node");
    if (is_start && tr_config_has_no_tokens(config))
        tr_say(TR_WARNING,
               "this node serves beyond loopback and has no [auth] tokens-file: whoever "
               "reaches it may read, set and cancel everything");
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

static void put_signed(struct tr_writer *out, const char *name, int64_t value)
{
    tr_put_text(out, ",\"");
    tr_put_text(out, name);
    tr_put_text(out, "\":");
    tr_put_signed(out, value);
}

static const char *role_text(enum tr_role role)
{
    static const char *const texts[] = {"gone", "staying", "joining", "leaving", "lost"};
    return texts[role];
}

static void put_peer(struct tr_writer *out, const struct tr_node_peer *peer)
{
    const char *state = !peer->is_up ? "down" : peer->is_serving ? "up" : "starting or stopping";
    tr_put_text(out, "{\"address\":");
    tr_put_json_string(out, peer->address);
    tr_put_member(out, "role", role_text(peer->role));
    tr_put_member(out, "state", state);
    tr_put_flag(out, "same-view", peer->has_same_view);
    tr_put_flag(out, "rebalancing", peer->is_rebalancing);
    tr_put_flag(out, "behind", peer->is_behind);
    tr_put_count(out, "heard-ms-ago", peer->heard_ms);
    put_signed(out, "clock-ms-ahead", peer->clock_ms);
    tr_put_count(out, "queued", peer->queued);
    tr_put_count(out, "pending", peer->pending);
    tr_put_count(out, "fill-percent", peer->fill);
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

static void put_roster(const struct tr_daemon *daemon, struct tr_writer *out)
{
    const struct tr_roster *roster = tr_node_roster(daemon->node);
    uint16_t who = TR_MEMBER_NONE;
    tr_put_text(out, ",\"cluster\":\"");
    tr_put_hex(out, roster->cluster, 16);
    tr_put_text(out, "\"");
    tr_put_count(out, "epoch", roster->epoch);
    tr_put_text(out, ",\"roster\":\"");
    tr_put_hex(out, roster->id, 16);
    tr_put_text(out, "\"");
    tr_put_flag(out, "changing", tr_roster_is_changing(roster));
    tr_put_flag(out, "change-waits", tr_node_is_behind(daemon->node));
    if (!tr_node_is_waiting_for(daemon->node, &who) || who == TR_MEMBER_NONE)
        return;
    tr_put_text(out, ",\"waits-for\":");
    tr_put_json_string(out, tr_node_member_address(daemon->node, who));
}

/* How keys are spread, and where on the ring each node stands, or will. */
static void put_keyspace(const struct tr_roster *roster, struct tr_writer *out)
{
    bool is_first = true;
    tr_put_text(out, ",\"keyspace\":{\"partitions\":");
    tr_put_decimal(out, roster->keys.partitions);
    tr_put_count(out, "copies", roster->keys.copies);
    tr_put_count(out, "reads", roster->keys.reads);
    tr_put_count(out, "writes", roster->keys.writes);
    tr_put_text(out, ",\"ring\":[");
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct tr_roster_node *node = &roster->nodes[i];
        if (node->role != TR_ROLE_STAYING && node->role != TR_ROLE_JOINING)
            continue;
        tr_put_text(out, is_first ? "{\"node\":" : ",{\"node\":");
        tr_put_json_string(out, tr_roster_address(roster, i));
        tr_put_text(out, ",\"positions\":[");
        for (uint32_t k = 0; k < node->position_count; k++) {
            tr_put_text(out, k == 0 ? "" : ",");
            tr_put_decimal(out, node->positions[k]);
        }
        tr_put_text(out, "]}");
        is_first = false;
    }
    tr_put_text(out, "]}");
}

/* How long it has been there, and what it takes of what it may have. */
static void put_load(const struct tr_daemon *daemon, const struct tr_node_stats *stats,
                     struct tr_writer *out)
{
    struct statvfs room;
    tr_put_count(out, "uptime-s", (tr_boot_us() - daemon->started_us) / 1000000);
    tr_put_count(out, "memory-bytes", stats->memory_used);
    tr_put_count(out, "memory-budget-bytes", daemon->region_size);
    if (daemon->disk == NULL)
        return;
    tr_put_count(out, "log-bytes", stats->log_bytes);
    if (statvfs(daemon->config.data_dir, &room) == 0)
        tr_put_count(out, "disk-free-bytes", (uint64_t)room.f_bavail * room.f_frsize);
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
    tr_put_member(out, "version", TRYST_VERSION);
    tr_put_member(out, "role", role_text(self.role));
    tr_put_member(out, "state", stats.is_serving ? "up" : "starting or stopping");
    put_load(daemon, &stats, out);
    tr_put_text(out, ",\"view\":\"");
    tr_put_hex(out, tr_node_view(node), 16);
    tr_put_text(out, "\"");
    put_roster(daemon, out);
    tr_put_flag(out, "has-secret", daemon->config.secret[0] != '\0');
    put_challenge(daemon, out);
    tr_put_count(out, "held", stats.timers + stats.debts + stats.dead);
    tr_put_flag(out, "rebalancing", stats.is_rebalancing);
    tr_put_count(out, "to-rebalance", stats.to_rebalance);
    tr_put_count(out, "moving", stats.moving);
    tr_put_count(out, "walked-percent", stats.rebalance_walk * 100 / UINT16_MAX);
    tr_put_count(out, "keys", stats.keys);
    tr_put_flag(out, "keys-moving", !stats.are_keys_home);
    if (tr_node_roster(node)->keys.partitions > 0)
        put_keyspace(tr_node_roster(node), out);
    put_peers(out, node);
    tr_put_text(out, "}\n");
}

/* ---- another list of nodes ---- */

static bool is_proven(struct tr_daemon *daemon, struct tr_span given, struct tr_span text)
{
    uint8_t expected[TR_PROOF_SIZE];
    uint8_t proof[TR_PROOF_SIZE];
    struct tr_span secret = {daemon->config.secret, strlen(daemon->config.secret)};
    struct tr_span address = tr_node_address(daemon->node);
    if (given.text == NULL || daemon->challenge == 0 || !tr_hex_bytes(given, proof, sizeof proof))
        return false;
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

void tr_cluster_explain(const struct tr_daemon *daemon, enum tr_change result, uint16_t who,
                        struct tr_problem *problem)
{
    char name[TR_HOST_MAX + 8] = "a node";
    if (who != TR_MEMBER_NONE) {
        struct tr_span address = tr_node_member_address(daemon->node, who);
        snprintf(name, sizeof name, "%.*s", (int)address.size, address.text);
    }
    switch (result) {
    case TR_CHANGE_MADE:
    case TR_CHANGE_NONE:
        return;
    case TR_CHANGE_BUSY:
        tr_problem_set(problem, 409,
                       "another change is under way: GET /cluster says which; wait until it is "
                       "through, or take it back",
                       NULL);
        return;
    case TR_CHANGE_DOWN:
        tr_problem_set(problem, 503, name,
                       " is down, or has not heard of the last change: bring it back, or say that "
                       "it is lost (tryst cluster leave --force)",
                       NULL);
        return;
    case TR_CHANGE_OLDER:
        tr_problem_set(problem, 409, name, " is of an older version: update it first", NULL);
        return;
    case TR_CHANGE_UP:
        tr_problem_set(problem, 409, name, " is up, and not lost: let it leave, or stop it first",
                       NULL);
        return;
    case TR_CHANGE_FULL:
        tr_problem_set(problem, 507, "there is no room for so many nodes", NULL);
        return;
    case TR_CHANGE_LAST:
        tr_problem_set(problem, 409, "no node would be left", NULL);
        return;
    case TR_CHANGE_GONE:
        tr_problem_set(problem, 409,
                       "this node is no member of the cluster itself: ask one that is", NULL);
        return;
    case TR_CHANGE_NO_POSITION:
        tr_problem_set(problem, 409,
                       "the ring has no free position for it, or not those that were asked for: "
                       "tryst keyspace --ring shows it",
                       NULL);
        return;
    case TR_CHANGE_EXISTS:
        tr_problem_set(problem, 409, "there is a keyspace already", NULL);
        return;
    case TR_CHANGE_NO_KEYSPACE:
        tr_problem_set(problem, 409, "there is no keyspace: CREATE KEYSPACE makes one", NULL);
        return;
    }
}

static bool ask_change(struct tr_daemon *daemon, const struct tr_view_change *change,
                       struct tr_problem *problem)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    uint16_t who = TR_MEMBER_NONE;
    enum tr_change result = tr_node_ask_change(daemon->node, change->nodes, change->count, &who);
    tr_cluster_explain(daemon, result, who, problem);
    if (result == TR_CHANGE_MADE) {
        tr_say(TR_STATUS, "a change of the cluster was asked for, and has begun: epoch %llu",
               (unsigned long long)tr_node_roster(daemon->node)->epoch);
        tr_daemon_step(daemon, &event);
        tr_links_look(daemon->links);
    }
    return result == TR_CHANGE_MADE || result == TR_CHANGE_NONE;
}

/* Keys do not move: a node that holds some is not taken into another cluster. */
static bool may_join(const struct tr_daemon *daemon, const struct tr_view_change *change,
                     struct tr_problem *problem)
{
    struct tr_node_stats stats;
    struct tr_span own = tr_node_address(daemon->node);
    tr_node_stats(daemon->node, &stats);
    bool is_in = tr_roster_role(tr_node_roster(daemon->node), own) != TR_ROLE_NONE &&
                 tr_node_roster(daemon->node)->count > 1;
    for (uint32_t i = 0; !is_in && stats.keys > 0 && i < change->count; i++) {
        if (!tr_span_equals(change->nodes[i].address, own) ||
            change->nodes[i].role != TR_ROLE_JOINING)
            continue;
        tr_problem_set(problem, 409,
                       "this node holds keys, which are not moved: remove them first (FLUSHDB)",
                       NULL);
        return false;
    }
    return true;
}

bool tr_cluster_apply(struct tr_daemon *daemon, int file, struct tr_span proof, struct tr_span text,
                      struct tr_problem *problem)
{
    bool has_secret = daemon->config.secret[0] != '\0';
    if (!daemon->has_view) {
        tr_problem_set(problem, 503, "the node is starting", NULL);
        return false;
    }
    bool may = has_secret ? is_proven(daemon, proof, text)
                          : tr_neighbours_are_near(daemon->node, &daemon->config, file);
    if (!may) {
        tr_problem_set(problem, 403,
                       has_secret ? "to set the nodes one must prove to know the cluster's secret"
                                  : "without a [cluster] secret-file the nodes are set from this "
                                    "machine or from a node of the cluster alone, or of the "
                                    "configuration",
                       NULL);
        daemon->metrics.applies_refused++;
        return false;
    }
    struct tr_view_change *change = calloc(1, sizeof *change);
    if (change == NULL)
        abort();
    bool is_made = tr_view_read_change(daemon->node, text, change, problem) &&
                   may_join(daemon, change, problem) &&
                   (change->is_check || ask_change(daemon, change, problem));
    free(change);
    daemon->challenge = 0;
    return is_made;
}
