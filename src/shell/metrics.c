/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/metrics.h"

#include "wire/text.h"

#ifndef TRYST_VERSION
#define TRYST_VERSION "unknown"
#endif

void tr_histogram_add(struct tr_histogram *histogram, uint64_t value)
{
    unsigned bucket = value <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(value - 1);
    if (bucket > TR_HISTOGRAM_BUCKETS)
        bucket = TR_HISTOGRAM_BUCKETS;
    histogram->counts[bucket]++;
    histogram->sum += value;
    histogram->count++;
}

void tr_metrics_head(struct tr_writer *out, const char *name, const char *type, const char *help)
{
    tr_put_text(out, "# HELP ");
    tr_put_text(out, name);
    tr_put_text(out, " ");
    tr_put_text(out, help);
    tr_put_text(out, "\n# TYPE ");
    tr_put_text(out, name);
    tr_put_text(out, " ");
    tr_put_text(out, type);
    tr_put_text(out, "\n");
}

void tr_metrics_sample(struct tr_writer *out, const char *name, const char *labels, uint64_t value)
{
    tr_put_text(out, name);
    if (labels != NULL) {
        tr_put_text(out, "{");
        tr_put_text(out, labels);
        tr_put_text(out, "}");
    }
    tr_put_text(out, " ");
    tr_put_decimal(out, value);
    tr_put_text(out, "\n");
}

static void put_one(struct tr_writer *out, const char *name, const char *type, const char *help,
                    uint64_t value)
{
    tr_metrics_head(out, name, type, help);
    tr_metrics_sample(out, name, NULL, value);
}

/* Microseconds as seconds: `0.000128`. */
static void put_micro(struct tr_writer *out, uint64_t us)
{
    char digits[7] = {'.'};
    for (unsigned i = 6; i > 0; i--) {
        digits[i] = (char)('0' + us % 10);
        us /= 10;
    }
    tr_put_decimal(out, us);
    tr_put_bytes(out, digits, sizeof digits);
}

static void put_value(struct tr_writer *out, uint64_t value, bool is_seconds)
{
    if (is_seconds)
        put_micro(out, value);
    else
        tr_put_decimal(out, value);
    tr_put_text(out, "\n");
}

static void put_series(struct tr_writer *out, const char *name, const char *labels,
                       const struct tr_histogram *histogram, bool is_seconds)
{
    uint64_t below = 0;
    for (unsigned i = 0; i <= TR_HISTOGRAM_BUCKETS; i++) {
        below += histogram->counts[i];
        tr_put_text(out, name);
        tr_put_text(out, "_bucket{");
        tr_put_text(out, labels);
        tr_put_text(out, labels[0] == '\0' ? "le=\"" : ",le=\"");
        if (i == TR_HISTOGRAM_BUCKETS)
            tr_put_text(out, "+Inf");
        else if (is_seconds)
            put_micro(out, (uint64_t)1 << i);
        else
            tr_put_decimal(out, (uint64_t)1 << i);
        tr_put_text(out, "\"} ");
        tr_put_decimal(out, below);
        tr_put_text(out, "\n");
    }
    const char *open = labels[0] == '\0' ? "" : "{";
    const char *close = labels[0] == '\0' ? " " : "} ";
    tr_put_text(out, name);
    tr_put_text(out, "_sum");
    tr_put_text(out, open);
    tr_put_text(out, labels);
    tr_put_text(out, close);
    put_value(out, histogram->sum, is_seconds);
    tr_put_text(out, name);
    tr_put_text(out, "_count");
    tr_put_text(out, open);
    tr_put_text(out, labels);
    tr_put_text(out, close);
    put_value(out, histogram->count, false);
}

static void put_timers(struct tr_writer *out, const struct tr_node *node,
                       const struct tr_node_stats *stats)
{
    tr_metrics_head(out, "tryst_timers", "gauge", "Timers held, by state.");
    tr_metrics_sample(out, "tryst_timers", "state=\"pending\"", stats->timers);
    tr_metrics_sample(out, "tryst_timers", "state=\"retrying\"", stats->debts);
    tr_metrics_sample(out, "tryst_timers", "state=\"dead\"", stats->dead);
    tr_metrics_head(out, "tryst_timers_tagged", "gauge", "Live timers counted under each tag.");
    uint64_t cursor = 0;
    struct tr_tag tag;
    for (unsigned i = 0; i < 1000 && tr_node_next_tag(node, &cursor, &tag); i++) {
        tr_put_text(out, "tryst_timers_tagged{tag=");
        tr_put_json_string(out, tag.name);
        tr_put_text(out, "} ");
        tr_put_decimal(out, tag.count);
        tr_put_text(out, "\n");
    }
    tr_metrics_head(out, "tryst_requests_total", "counter", "Client writes taken, by kind.");
    tr_metrics_sample(out, "tryst_requests_total", "kind=\"create\"", stats->created);
    tr_metrics_sample(out, "tryst_requests_total", "kind=\"replace\"", stats->replaced);
    tr_metrics_sample(out, "tryst_requests_total", "kind=\"cancel\"", stats->cancelled);
    tr_metrics_sample(out, "tryst_requests_total", "kind=\"redrive\"", stats->redriven);
    put_one(out, "tryst_requests_refused_total", "counter",
            "Requests refused with 503 or 507 since the node started.", stats->refused);
}

static void put_pops(struct tr_writer *out, const struct tr_metrics *metrics,
                     const struct tr_node_stats *stats)
{
    static const char *const classes[] = {"class=\"none\"", "class=\"1xx\"", "class=\"2xx\"",
                                          "class=\"3xx\"",  "class=\"4xx\"", "class=\"5xx\""};
    tr_metrics_head(out, "tryst_pops_total", "counter", "Pops by result; failed counts attempts.");
    tr_metrics_sample(out, "tryst_pops_total", "result=\"delivered\"", stats->pops_delivered);
    tr_metrics_sample(out, "tryst_pops_total", "result=\"failed\"", stats->pops_failed);
    tr_metrics_sample(out, "tryst_pops_total", "result=\"dead\"", stats->pops_dead);
    tr_metrics_sample(out, "tryst_pops_total", "result=\"discarded\"", stats->pops_discarded);
    tr_metrics_head(out, "tryst_pop_lateness_seconds", "histogram",
                    "From the due time of a pop to the moment its request is sent.");
    put_series(out, "tryst_pop_lateness_seconds", "", &metrics->lateness_us, true);
    tr_metrics_head(out, "tryst_callback_duration_seconds", "histogram",
                    "From sending a callback to its answer.");
    put_series(out, "tryst_callback_duration_seconds", "", &metrics->callback_us, true);
    tr_metrics_head(out, "tryst_callbacks_total", "counter",
                    "Callbacks by the class of their answer.");
    for (unsigned i = 0; i < 6; i++)
        tr_metrics_sample(out, "tryst_callbacks_total", classes[i], metrics->callbacks_by_class[i]);
    put_one(out, "tryst_callbacks_denied_total", "counter",
            "Callbacks refused because their address is in a denied network.",
            metrics->callbacks_denied);
}

static void put_keys(struct tr_writer *out, const struct tr_metrics *metrics,
                     const struct tr_node_stats *stats)
{
    put_one(out, "tryst_keys", "gauge", "Keys held.", stats->keys);
    put_one(out, "tryst_keys_expiring", "gauge", "Of them, those that expire.",
            stats->keys_expiring);
    put_one(out, "tryst_keys_bytes", "gauge", "Bytes of keys and their values.", stats->keys_bytes);
    put_one(out, "tryst_keys_expired_total", "counter", "Keys that have expired.",
            stats->keys_expired);
    tr_metrics_head(out, "tryst_command_duration_seconds", "histogram",
                    "From the arrival of commands of one client to their replies.");
    put_series(out, "tryst_command_duration_seconds", "", &metrics->command_us, true);
    put_one(out, "tryst_command_errors_total", "counter", "Commands answered with an error.",
            metrics->command_errors);
}

static void put_store(struct tr_writer *out, const struct tr_metrics *metrics,
                      const struct tr_node_stats *stats)
{
    tr_metrics_head(out, "tryst_commit_duration_seconds", "histogram",
                    "From handing a batch to the log until it is as safe as configured.");
    put_series(out, "tryst_commit_duration_seconds", "", &metrics->commit_us, true);
    tr_metrics_head(out, "tryst_commit_batch_bytes", "histogram", "Bytes of a batch of the log.");
    put_series(out, "tryst_commit_batch_bytes", "", &metrics->batch_bytes, false);
    put_one(out, "tryst_log_entries_total", "counter", "Entries written.", stats->log_entries);
    put_one(out, "tryst_log_reclaimed_total", "counter", "Records copied to free old segments.",
            stats->reclaimed);
    put_one(out, "tryst_log_bytes", "gauge", "Bytes of all segments.", stats->log_bytes);
    put_one(out, "tryst_log_live_bytes", "gauge", "Of them, about this many are live.",
            stats->log_live_bytes);
    put_one(out, "tryst_log_segments", "gauge", "Segments of the log.", stats->log_segments);
    put_one(out, "tryst_disk_full", "gauge", "1 while new timers are refused for want of space.",
            stats->is_disk_full);
    put_one(out, "tryst_memory_used_bytes", "gauge", "Of the memory budget.", stats->memory_used);
    tr_metrics_head(out, "tryst_queue_depth", "gauge", "What waits, by queue.");
    tr_metrics_sample(out, "tryst_queue_depth", "queue=\"due\"", stats->due_waiting);
    tr_metrics_sample(out, "tryst_queue_depth", "queue=\"destination\"", stats->queued);
    tr_metrics_sample(out, "tryst_queue_depth", "queue=\"flight\"", stats->flights);
    tr_metrics_sample(out, "tryst_queue_depth", "queue=\"commit\"", stats->waiting);
}

static bool is_of_cluster(const struct tr_node_peer *peer)
{
    return peer->role != TR_ROLE_NONE && peer->role != TR_ROLE_LOST;
}

static void put_each_peer(struct tr_writer *out, const struct tr_node *node)
{
    tr_metrics_head(out, "tryst_peer_up", "gauge", "1 for another node that was heard of lately.");
    for (uint32_t i = 1; i < tr_node_members(node); i++) {
        struct tr_node_peer peer;
        tr_node_peer(node, (uint16_t)i, &peer);
        if (!is_of_cluster(&peer))
            continue;
        tr_put_text(out, "tryst_peer_up{peer=");
        tr_put_json_string(out, peer.address);
        tr_put_text(out, "} ");
        put_value(out, peer.is_up, false);
    }
}

/* The nodes of the view, as this one sees them. */
static void put_peers(struct tr_writer *out, const struct tr_node *node)
{
    struct tr_node_peer peer;
    uint64_t up = 0;
    uint64_t nodes = 0;
    uint64_t others = 0;
    uint64_t queued = 0;
    uint64_t pending = 0;
    uint64_t behind = 0;
    int64_t skew_ms = 0;
    for (uint32_t i = 1; i < tr_node_members(node); i++) {
        tr_node_peer(node, (uint16_t)i, &peer);
        bool is_in = is_of_cluster(&peer);
        nodes += is_in;
        up += is_in && peer.is_up;
        others += is_in && peer.is_up && !peer.has_same_view;
        behind += peer.is_up && peer.is_behind;
        queued += peer.queued;
        pending += peer.pending;
        int64_t size_ms = peer.clock_ms < 0 ? -peer.clock_ms : peer.clock_ms;
        skew_ms = peer.is_up && size_ms > skew_ms ? size_ms : skew_ms;
    }
    put_one(out, "tryst_peers", "gauge", "Other nodes of the view.", nodes);
    put_one(out, "tryst_peers_up", "gauge", "Of them, those that were heard of lately.", up);
    put_each_peer(out, node);
    put_one(out, "tryst_peers_other_view", "gauge",
            "Of those, the ones that show another list of nodes.", others);
    put_one(out, "tryst_peers_behind", "gauge", "Nodes for which records are being looked for.",
            behind);
    put_one(out, "tryst_replication_queue", "gauge", "Messages that wait to be sent to others.",
            queued);
    put_one(out, "tryst_replication_pending", "gauge",
            "Records that others were told of, and are looked at again within a second.", pending);
    tr_metrics_head(out, "tryst_clock_skew_seconds", "gauge",
                    "The largest difference to another clock.");
    tr_put_text(out, "tryst_clock_skew_seconds ");
    put_value(out, (uint64_t)skew_ms * 1000, true);
}

static void put_cluster(struct tr_writer *out, const struct tr_metrics *metrics,
                        const struct tr_node *node, const struct tr_node_stats *stats)
{
    const struct tr_roster *roster = tr_node_roster(node);
    put_peers(out, node);
    put_one(out, "tryst_epoch", "gauge",
            "Of the cluster's roster; each change of its nodes raises it twice.", roster->epoch);
    put_one(out, "tryst_changing", "gauge", "1 while nodes join, leave or are lost.",
            tr_roster_is_changing(roster));
    put_one(out, "tryst_change_still", "gauge",
            "1 while that has not got on for a minute, and this node can tell why.",
            metrics->changes_still);
    put_one(out, "tryst_change_waiting", "gauge",
            "1 while the configuration asks for a change that cannot be made yet.",
            tr_node_is_behind(node));
    put_one(out, "tryst_timer_copies", "gauge",
            "Of the timers held, those of which another node is the first.", stats->copies);
    put_one(out, "tryst_rebalancing", "gauge", "1 while records may be elsewhere than placed.",
            stats->is_rebalancing);
    put_one(out, "tryst_to_rebalance", "gauge",
            "Records that the last walk found where they do not belong.", stats->to_rebalance);
    put_one(out, "tryst_moving", "gauge", "Records that this node is moving.", stats->moving);
    put_one(out, "tryst_moved_total", "counter", "Records that it has moved.", stats->moved);
    put_one(out, "tryst_records_received_total", "counter", "Records that other nodes sent.",
            stats->records_in);
    put_one(out, "tryst_dropped_total", "counter", "Records let go: they belong elsewhere.",
            stats->drops);
    put_one(out, "tryst_hinted_total", "counter", "Writes for which another node was hinted.",
            stats->hinted);
    put_one(out, "tryst_takeovers_total", "counter", "Pops made for a node that is down.",
            stats->takeovers);
    put_one(out, "tryst_late_turns_total", "counter",
            "Pops made for a node that is up and did not make them in time.", stats->late_turns);
    put_one(out, "tryst_claims_total", "counter", "Claims of pops that take long.", stats->claims);
    put_one(out, "tryst_held_back_total", "counter",
            "Looks at a due pop that another node has claimed.", stats->held_back);
    put_one(out, "tryst_catchups_total", "counter",
            "Times that it waited to hear what it missed: starts, and pauses.", stats->catchups);
    put_one(out, "tryst_tombstones", "gauge", "What is remembered of timers that have ended.",
            stats->tombstones);
    put_one(out, "tryst_tombstones_forgotten_early_total", "counter",
            "Of these, those let go for want of memory before all had heard of them.",
            stats->forgotten_early);
    put_one(out, "tryst_operations", "gauge", "Requests under way between nodes.",
            stats->operations);
    put_one(out, "tryst_links_made_total", "counter", "Links to other nodes.", metrics->links_made);
    put_one(out, "tryst_links_refused_total", "counter",
            "Links that somebody dialled and was not let in.", metrics->links_refused);
    put_one(out, "tryst_links_reset_total", "counter", "Links given up for what came on them.",
            metrics->links_reset);
    tr_metrics_head(out, "tryst_frames_total", "counter", "Frames between nodes.");
    tr_metrics_sample(out, "tryst_frames_total", "direction=\"sent\"", metrics->frames_sent);
    tr_metrics_sample(out, "tryst_frames_total", "direction=\"received\"",
                      metrics->frames_received);
    tr_metrics_head(out, "tryst_frame_bytes_total", "counter", "Bytes of frames between nodes.");
    tr_metrics_sample(out, "tryst_frame_bytes_total", "direction=\"sent\"",
                      metrics->frame_bytes_sent);
    tr_metrics_sample(out, "tryst_frame_bytes_total", "direction=\"received\"",
                      metrics->frame_bytes_received);
    put_one(out, "tryst_applies_refused_total", "counter",
            "Lists of nodes that somebody had no right to set.", metrics->applies_refused);
}

void tr_metrics_put(struct tr_writer *out, const struct tr_metrics *metrics,
                    const struct tr_node *node)
{
    static const char *const kinds[] = {"kind=\"write\"", "kind=\"read\"", "kind=\"list\""};
    struct tr_node_stats stats;
    tr_node_stats(node, &stats);
    tr_metrics_head(out, "tryst_build_info", "gauge", "The version that runs; always 1.");
    tr_metrics_sample(out, "tryst_build_info", "version=\"" TRYST_VERSION "\"", 1);
    put_one(out, "tryst_start_time_seconds", "gauge", "When it started, since 1970.",
            metrics->started_s);
    put_timers(out, node, &stats);
    put_pops(out, metrics, &stats);
    tr_metrics_head(out, "tryst_request_duration_seconds", "histogram",
                    "From a whole request to its answer, by kind.");
    for (unsigned i = 0; i < TR_REQUEST_KINDS; i++)
        put_series(out, "tryst_request_duration_seconds", kinds[i], &metrics->request_us[i], true);
    put_one(out, "tryst_requests_bad_total", "counter", "Requests refused with 4xx.",
            metrics->requests_bad);
    put_keys(out, metrics, &stats);
    put_store(out, metrics, &stats);
    put_cluster(out, metrics, node, &stats);
    put_one(out, "tryst_connections", "gauge", "Open client connections.", metrics->connections);
    put_one(out, "tryst_connections_refused_total", "counter", "Connections over the limit.",
            metrics->connections_refused);
    put_one(out, "tryst_tls_refused_total", "counter",
            "Connections that TLS refused, ours or by the other end.", metrics->tls_refused);
    put_one(out, "tryst_config_faults", "gauge",
            "Faults of the last reload; above 0 the former configuration is in force.",
            metrics->config_faults);
    put_one(out, "tryst_ready", "gauge", "1 while client writes are taken.", stats.is_serving);
}
