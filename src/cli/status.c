/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst status`: how a node is, in a few lines, out of its metrics. */
#include "cli/node.h"
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

enum option_id { OPTION_NODE = 1, OPTION_JSON, OPTION_HELP };

static const struct tr_option status_options[] = {
    {"--node", true, OPTION_NODE},
    {"--json", false, OPTION_JSON},
    {"--help", false, OPTION_HELP},
    {NULL, false, 0},
};

static bool ask(const char *address, const char *path, struct tr_reply *reply)
{
    char request[512];
    int size = snprintf(request, sizeof request,
                        "GET %s HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n", path);
    return tr_node_ask("status", address, request, (size_t)size, reply);
}

/* A sample's value, by its whole name; 0 if it is not there. */
static double sample(const struct tr_reply *metrics, const char *name)
{
    size_t size = strlen(name);
    const char *at = metrics->body.text;
    while (at != NULL && *at != '\0') {
        if (strncmp(at, name, size) == 0 && at[size] == ' ')
            return strtod(at + size + 1, NULL);
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    return 0;
}

/* The smallest bucket of a histogram that holds this share of it, in milliseconds; below 0: it is
 * empty. */
static double quantile(const struct tr_reply *metrics, const char *name, double share)
{
    char prefix[128];
    char count_name[128];
    snprintf(prefix, sizeof prefix, "%s_bucket{le=\"", name);
    snprintf(count_name, sizeof count_name, "%s_count", name);
    double count = sample(metrics, count_name);
    const char *at = count > 0 ? metrics->body.text : NULL;
    while (at != NULL && (at = strstr(at, prefix)) != NULL) {
        double bound = strtod(at + strlen(prefix), NULL);
        const char *value = strchr(at, ' ');
        if (value == NULL || strtod(value, NULL) >= count * share)
            return bound * 1000;
        at = value;
    }
    return -1;
}

static void print_quantiles(const struct tr_reply *metrics, const char *title, const char *name)
{
    double half = quantile(metrics, name, 0.5);
    if (half < 0)
        printf("%-10s none yet\n", title);
    else
        printf("%-10s half within %.*f ms, 99%% within %.1f ms\n", title, half < 10 ? 2 : 0, half,
               quantile(metrics, name, 0.99));
}

/* What /readyz says against it; empty: nothing. */
static struct tr_span find_reason(const struct tr_reply *ready)
{
    static const char mark[] = "\"reason\":\"";
    struct tr_span body = ready->body;
    for (size_t at = 0; at + sizeof mark - 1 < body.size; at++) {
        if (memcmp(body.text + at, mark, sizeof mark - 1) != 0)
            continue;
        const char *text = body.text + at + sizeof mark - 1;
        const char *end = memchr(text, '"', body.size - at - (sizeof mark - 1));
        return (struct tr_span){text, end != NULL ? (size_t)(end - text) : 0};
    }
    return (struct tr_span){"", 0};
}

static void print_text(const char *address, const struct tr_reply *ready,
                       const struct tr_reply *metrics)
{
    struct tr_span reason = find_reason(ready);
    bool is_ready = ready->status == 200;
    printf("%-10s %s, %s%s%.*s\n", "node", address, is_ready ? "ready" : "NOT READY",
           reason.size > 0 ? ": " : "", (int)reason.size, reason.text);
    printf("%-10s %.0f pending, %.0f retrying, %.0f dead\n", "timers",
           sample(metrics, "tryst_timers{state=\"pending\"}"),
           sample(metrics, "tryst_timers{state=\"retrying\"}"),
           sample(metrics, "tryst_timers{state=\"dead\"}"));
    printf("%-10s %.0f delivered, %.0f attempts failed, %.0f given up\n", "pops",
           sample(metrics, "tryst_pops_total{result=\"delivered\"}"),
           sample(metrics, "tryst_pops_total{result=\"failed\"}"),
           sample(metrics, "tryst_pops_total{result=\"dead\"}"));
    printf("%-10s %.0f, %.0f of them expire, %.1f MiB\n", "keys", sample(metrics, "tryst_keys"),
           sample(metrics, "tryst_keys_expiring"), sample(metrics, "tryst_keys_bytes") / 1048576);
    print_quantiles(metrics, "lateness", "tryst_pop_lateness_seconds");
    print_quantiles(metrics, "commands", "tryst_command_duration_seconds");
    print_quantiles(metrics, "commits", "tryst_commit_duration_seconds");
    printf("%-10s %.1f MiB in %.0f segments%s\n", "log",
           sample(metrics, "tryst_log_bytes") / 1048576, sample(metrics, "tryst_log_segments"),
           sample(metrics, "tryst_disk_full") > 0 ? ", THE DISK IS FULL" : "");
    printf("%-10s %.1f MiB\n", "memory", sample(metrics, "tryst_memory_used_bytes") / 1048576);
    if (sample(metrics, "tryst_config_faults") > 0)
        puts("config     THE LAST RELOAD HAD FAULTS; the one before is in force");
}

static void print_json(const char *address, bool is_ready, const struct tr_reply *metrics)
{
    static const struct {
        const char *member;
        const char *name;
    } members[] = {
        {"pending", "tryst_timers{state=\"pending\"}"},
        {"retrying", "tryst_timers{state=\"retrying\"}"},
        {"dead", "tryst_timers{state=\"dead\"}"},
        {"delivered", "tryst_pops_total{result=\"delivered\"}"},
        {"failed", "tryst_pops_total{result=\"failed\"}"},
        {"keys", "tryst_keys"},
        {"log-bytes", "tryst_log_bytes"},
        {"memory-bytes", "tryst_memory_used_bytes"},
        {"disk-full", "tryst_disk_full"},
        {"config-faults", "tryst_config_faults"},
    };
    fputs("{\"node\":", stdout);
    tr_json_string(stdout, address, strlen(address));
    printf(",\"ready\":%s", is_ready ? "true" : "false");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        printf(",\"%s\":%.0f", members[i].member, sample(metrics, members[i].name));
    puts("}");
}

enum tr_exit tr_command_status(int argc, char **argv)
{
    struct tr_options options = tr_options_start("status", status_options, argc, argv);
    const char *node = NULL;
    bool is_json = false;
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == OPTION_HELP) {
            tr_help_print(stdout, "status");
            return TR_EXIT_OK;
        }
        if (options.id == 0)
            return tr_usage_error("status", "takes no operand such as %s", options.value);
        node = options.id == OPTION_NODE ? options.value : node;
        is_json |= options.id == OPTION_JSON;
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    const char *address = tr_node_address_or_default(node);
    struct tr_reply ready;
    struct tr_reply metrics;
    if (!ask(address, "/readyz", &ready))
        return TR_EXIT_FAILED;
    bool is_ready = ready.status == 200;
    if (!ask(address, "/metrics", &metrics)) {
        tr_reply_free(&ready);
        return TR_EXIT_FAILED;
    }
    if (metrics.status != 200)
        tr_reply_strange("status", address, &metrics);
    else if (is_json)
        print_json(address, is_ready, &metrics);
    else
        print_text(address, &ready, &metrics);
    tr_reply_free(&ready);
    tr_reply_free(&metrics);
    return is_ready && metrics.status == 200 ? TR_EXIT_OK : TR_EXIT_FAILED;
}
