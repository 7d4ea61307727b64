/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tryst bench`: sets timers on a node as fast as it takes them, then cancels them, and says how
 * fast that was. One thread, as many connections as asked, one request under way on each.
 */
#include "cli/credentials.h"
#include "cli/node.h"
#include "cli/options.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1024
#define BUFFER          4096

enum option_id { OPTION_NODE = 1, OPTION_JSON, OPTION_COUNT, OPTION_CONNECTIONS, OPTION_HELP };

static const struct tr_option bench_options[] = {
    {"--node", true, OPTION_NODE},    {"--json", false, OPTION_JSON},
    {"--timers", true, OPTION_COUNT}, {"--connections", true, OPTION_CONNECTIONS},
    {"--help", false, OPTION_HELP},   {NULL, false, 0},
};

struct bench {
    const char *node;
    bool is_json;
    uint64_t count;
    uint64_t connections;
    struct pollfd *files;
    char (*buffers)[BUFFER];
    size_t *sizes;
    uint64_t *started_us;
    uint32_t *latencies_us;
    char (*locations)[64]; /* of the timers set */
    uint64_t *asked_for;   /* by connection: which timer */
    uint64_t refused;
};

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static bool ask(struct bench *bench, uint64_t connection, uint64_t number, bool is_cancel)
{
    static const char body[] =
        "{\"timing\":{\"interval\":86400},\"callback\":{\"http\":{\"uri\":\"http://127.0.0.1:9/\","
        "\"opaque\":\"tryst bench ...........................................\"}},"
        "\"statistics\":{\"tag-info\":[{\"type\":\"tryst-bench\"}]}}";
    char bytes[2048];
    const char *token = tr_credentials_header();
    int size =
        is_cancel
            ? snprintf(bytes, sizeof bytes, "DELETE %s HTTP/1.1\r\nHost: node\r\n%s\r\n",
                       bench->locations[number], token)
            : snprintf(bytes, sizeof bytes,
                       "POST /timers HTTP/1.1\r\nHost: node\r\n%sContent-Length: %zu\r\n\r\n%s",
                       token, sizeof body - 1, body);
    bench->asked_for[connection] = number;
    bench->started_us[connection] = now_us();
    bench->sizes[connection] = 0;
    return send(bench->files[connection].fd, bytes, (size_t)size, MSG_NOSIGNAL) == size;
}

/* True when the answer is whole. */
static bool on_readable(struct bench *bench, uint64_t connection, bool *is_broken)
{
    char *buffer = bench->buffers[connection];
    ssize_t got = recv(bench->files[connection].fd, buffer + bench->sizes[connection],
                       BUFFER - 1 - bench->sizes[connection], 0);
    *is_broken = got <= 0;
    if (*is_broken)
        return false;
    bench->sizes[connection] += (size_t)got;
    buffer[bench->sizes[connection]] = '\0';
    if (strstr(buffer, "\r\n\r\n") == NULL)
        return false;
    uint64_t number = bench->asked_for[connection];
    bench->latencies_us[number] = (uint32_t)(now_us() - bench->started_us[connection]);
    if (strncmp(buffer, "HTTP/1.1 200", 12) != 0)
        bench->refused++;
    const char *location = strstr(buffer, "Location: ");
    if (location != NULL)
        snprintf(bench->locations[number], sizeof bench->locations[number], "%.*s",
                 (int)strcspn(location + 10, "\r"), location + 10);
    return true;
}

/* All timers once; false: a connection broke. */
static bool run(struct bench *bench, bool is_cancel, double *seconds)
{
    uint64_t start = now_us();
    uint64_t asked = 0;
    uint64_t answered = 0;
    bool is_broken = false;
    for (uint64_t i = 0; i < bench->connections && asked < bench->count; i++)
        is_broken |= !ask(bench, i, asked++, is_cancel);
    while (answered < bench->count && !is_broken) {
        if (poll(bench->files, bench->connections, 10000) <= 0)
            return false;
        for (uint64_t i = 0; i < bench->connections && !is_broken; i++) {
            if (bench->files[i].revents == 0 || !on_readable(bench, i, &is_broken))
                continue;
            answered++;
            if (asked < bench->count)
                is_broken = !ask(bench, i, asked++, is_cancel);
        }
    }
    *seconds = (double)(now_us() - start) / 1e6;
    return !is_broken;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void report(const struct bench *bench, const char *what, double seconds)
{
    qsort(bench->latencies_us, bench->count, sizeof *bench->latencies_us, by_number);
    uint64_t middle = bench->count / 2;
    uint64_t late = bench->count * 99 / 100;
    double half = bench->latencies_us[middle] / 1000.0;
    double most = bench->latencies_us[late] / 1000.0;
    if (bench->is_json)
        printf("{\"what\":\"%s\",\"per-second\":%.0f,\"p50-ms\":%.3f,\"p99-ms\":%.3f,\"refused\":%"
               "llu}\n",
               what, (double)bench->count / seconds, half, most,
               (unsigned long long)bench->refused);
    else
        printf("%-8s %8.0f/s   half within %.2f ms, 99%% within %.2f ms, %llu refused\n", what,
               (double)bench->count / seconds, half, most, (unsigned long long)bench->refused);
}

static bool open_connections(struct bench *bench)
{
    const char *address = tr_node_address_or_default(bench->node);
    bench->files = tr_allocate(bench->connections, sizeof *bench->files);
    bench->buffers = tr_allocate(bench->connections, sizeof *bench->buffers);
    bench->sizes = tr_allocate(bench->connections, sizeof *bench->sizes);
    bench->started_us = tr_allocate(bench->connections, sizeof *bench->started_us);
    bench->asked_for = tr_allocate(bench->connections, sizeof *bench->asked_for);
    bench->latencies_us = tr_allocate(bench->count, sizeof *bench->latencies_us);
    bench->locations = tr_allocate(bench->count, sizeof *bench->locations);
    for (uint64_t i = 0; i < bench->connections; i++) {
        bench->files[i] =
            (struct pollfd){.fd = tr_node_connect("bench", address), .events = POLLIN};
        if (bench->files[i].fd < 0)
            return false;
    }
    return true;
}

static bool read_options(int argc, char **argv, struct bench *bench, enum tr_exit *status)
{
    struct tr_options options = tr_options_start("bench", bench_options, argc, argv);
    enum tr_options_step step;
    *status = TR_EXIT_USAGE;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        bool is_good = true;
        if (options.id == OPTION_HELP) {
            tr_help_print(stdout, "bench");
            *status = TR_EXIT_OK;
            return false;
        }
        if (options.id == OPTION_COUNT)
            is_good = tr_option_number(&options, "--timers", 1, 10000000, &bench->count);
        else if (options.id == OPTION_CONNECTIONS)
            is_good = tr_option_number(&options, "--connections", 1, CONNECTIONS_MAX,
                                       &bench->connections);
        else if (options.id == OPTION_NODE)
            bench->node = options.value;
        else if (options.id == OPTION_JSON)
            bench->is_json = true;
        else
            is_good =
                tr_usage_error("bench", "takes no operand such as %s", options.value) == TR_EXIT_OK;
        if (!is_good)
            return false;
    }
    return step == TR_OPTIONS_DONE;
}

/* Its connections are watched all at once, and none of them knows of TLS. */
static bool is_secure(void)
{
    if (tr_credentials_ca() == NULL)
        return false;
    tr_failure("bench", "measures without TLS: leave --ca and TRYST_CA out");
    return true;
}

enum tr_exit tr_command_bench(int argc, char **argv)
{
    struct bench bench = {.count = 20000, .connections = 64};
    enum tr_exit status;
    double seconds = 0;
    if (!read_options(argc, argv, &bench, &status))
        return status;
    if (is_secure() || !open_connections(&bench))
        return TR_EXIT_FAILED;
    if (!run(&bench, false, &seconds))
        return tr_failure("bench", "the node stopped answering");
    report(&bench, "create", seconds);
    if (bench.refused > 0)
        return tr_failure("bench", "the node refused %llu timers",
                          (unsigned long long)bench.refused);
    if (!run(&bench, true, &seconds))
        return tr_failure("bench", "the node stopped answering");
    report(&bench, "cancel", seconds);
    return bench.refused > 0 ? TR_EXIT_FAILED : TR_EXIT_OK;
}
