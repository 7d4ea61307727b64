/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst cluster status` and `tryst cluster resync`. */
#include "cli/members.h"
#include "cli/options.h"

#include <string.h>

enum option_id { OPTION_NODE = 1, OPTION_JSON, OPTION_HELP };

static const struct tr_option options_table[] = {
    {"--node", true, OPTION_NODE},
    {"--json", false, OPTION_JSON},
    {"--help", false, OPTION_HELP},
    {NULL, false, 0},
};

/* ---- the table ---- */

/* How others see a node that cannot be asked. */
static const struct tr_seen *seen_by_others(const struct tr_cluster_members *members,
                                            const char *address)
{
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        for (size_t k = 0; k < told->seen_count; k++) {
            if (strcmp(told->seen[k].address, address) == 0)
                return &told->seen[k];
        }
    }
    return NULL;
}

/* The longest silence, and the largest difference of clocks, that any node reports of this one. */
static void find_lag(const struct tr_cluster_members *members, const char *address, uint64_t *heard,
                     int64_t *clock)
{
    *heard = 0;
    *clock = 0;
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        for (size_t k = 0; k < told->seen_count; k++) {
            const struct tr_seen *seen = &told->seen[k];
            if (strcmp(seen->address, address) != 0 || strcmp(seen->state, "down") == 0)
                continue;
            *heard = seen->heard_ms > *heard ? seen->heard_ms : *heard;
            int64_t size = seen->clock_ms < 0 ? -seen->clock_ms : seen->clock_ms;
            *clock = size > (*clock < 0 ? -*clock : *clock) ? seen->clock_ms : *clock;
        }
    }
}

static const char *view_word(const struct tr_cluster_members *members, const struct tr_told *told)
{
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *other = &members->list[i].told;
        if (other->is_reached && strcmp(other->role, "gone") != 0 &&
            strcmp(other->view, told->view) != 0)
            return "OTHER";
    }
    return "same";
}

static void print_row(const struct tr_cluster_members *members,
                      const struct tr_cluster_member *member, int width)
{
    const struct tr_told *told = &member->told;
    uint64_t heard = 0;
    int64_t clock = 0;
    if (!told->is_reached) {
        const struct tr_seen *seen = seen_by_others(members, member->address);
        bool is_up = seen != NULL && strcmp(seen->state, "up") == 0;
        printf("%-*s  %-8s %s\n", width, member->address, seen == NULL ? "?" : seen->role,
               is_up ? "UNREACHABLE from here, though the others hear it" : "DOWN");
        return;
    }
    find_lag(members, member->address, &heard, &clock);
    printf("%-*s  %-8s %-8s %-5s %9llu %9llu %8llu %6llu ms %+6lld ms\n", width, member->address,
           told->role, strcmp(told->state, "up") == 0 ? "up" : "STARTING", view_word(members, told),
           (unsigned long long)told->held, (unsigned long long)told->misplaced,
           (unsigned long long)told->moving, (unsigned long long)heard, (long long)clock);
}

static void print_owed(const struct tr_cluster_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        for (size_t k = 0; k < told->seen_count; k++) {
            const struct tr_seen *seen = &told->seen[k];
            bool is_down = strcmp(seen->state, "down") == 0;
            if (seen->owed + seen->queued == 0 && !(seen->is_behind && !is_down))
                continue;
            printf(
                "%s has told %s of %llu records that it may not have yet, %llu messages wait%s\n",
                told->node, seen->address, (unsigned long long)seen->owed,
                (unsigned long long)seen->queued,
                seen->is_behind ? ", more are being looked for" : "");
        }
    }
}

struct summary {
    size_t down;
    size_t starting;
    bool is_other;
    bool is_unsettled;
};

static struct summary summarize(const struct tr_cluster_members *members)
{
    struct summary summary = {0};
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        summary.down += !told->is_reached;
        summary.starting += told->is_reached && strcmp(told->state, "up") != 0;
        summary.is_other |= told->is_reached && strcmp(view_word(members, told), "same") != 0;
        summary.is_unsettled |= told->is_unsettled;
    }
    return summary;
}

static void print_text(const struct tr_cluster_members *members, const struct summary *summary)
{
    int width = 4;
    for (size_t i = 0; i < members->count; i++) {
        int size = (int)strlen(members->list[i].address);
        width = size > width ? size : width;
    }
    printf("%-*s  %-8s %-8s %-5s %9s %9s %8s %9s %9s\n", width, "node", "role", "state", "view",
           "timers", "misplaced", "moving", "heard", "clock");
    for (size_t i = 0; i < members->count; i++)
        print_row(members, &members->list[i], width);
    putchar('\n');
    print_owed(members);
    if (summary->down > 0)
        printf("%zu node%s down: what it would pop is popped by others, and what it misses is kept "
               "for it\n",
               summary->down, summary->down == 1 ? " is" : "s are");
    if (summary->starting > 0)
        printf("%zu node%s starting or stopping\n", summary->starting,
               summary->starting == 1 ? " is" : "s are");
    if (summary->is_other)
        puts("the nodes do not agree on who belongs to the cluster: give all of them the same list "
             "(tryst cluster apply)");
    else if (summary->is_unsettled)
        puts("timers are on their way to where they belong");
    else if (summary->down + summary->starting == 0)
        puts("all nodes are up, and every timer is where it belongs");
}

static void print_json(const struct tr_cluster_members *members)
{
    fputs("{\"nodes\":[", stdout);
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        const char *address = members->list[i].address;
        fputs(i > 0 ? ",{\"address\":" : "{\"address\":", stdout);
        tr_json_string(stdout, address, strlen(address));
        if (!told->is_reached) {
            fputs(",\"state\":\"down\"}", stdout);
            continue;
        }
        printf(",\"state\":\"%s\",\"role\":\"%s\",\"view\":\"%s\",\"held\":%llu,"
               "\"misplaced\":%llu,\"moving\":%llu,\"unsettled\":%s,\"owes\":[",
               told->state, told->role, told->view, (unsigned long long)told->held,
               (unsigned long long)told->misplaced, (unsigned long long)told->moving,
               told->is_unsettled ? "true" : "false");
        for (size_t k = 0; k < told->seen_count; k++) {
            fputs(k > 0 ? ",{\"to\":" : "{\"to\":", stdout);
            tr_json_string(stdout, told->seen[k].address, strlen(told->seen[k].address));
            printf(",\"records\":%llu,\"messages\":%llu,\"behind\":%s}",
                   (unsigned long long)told->seen[k].owed, (unsigned long long)told->seen[k].queued,
                   told->seen[k].is_behind ? "true" : "false");
        }
        fputs("]}", stdout);
    }
    puts("]}");
}

/* ---- the commands ---- */

static enum tr_exit read_options(int argc, char **argv, const char **node, bool *is_json,
                                 bool *is_help)
{
    struct tr_options options = tr_options_start("cluster", options_table, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == 0)
            return tr_usage_error("cluster", "takes no operand such as %s", options.value);
        *node = options.id == OPTION_NODE ? options.value : *node;
        *is_json |= options.id == OPTION_JSON;
        *is_help |= options.id == OPTION_HELP;
    }
    return step == TR_OPTIONS_BAD ? TR_EXIT_USAGE : TR_EXIT_OK;
}

/* Asks all nodes; false: there is nothing more to do, and *status says how it ended. */
static bool begin(const char *command, int argc, char **argv, struct tr_cluster_members *members,
                  bool *is_json, enum tr_exit *status)
{
    const char *node = NULL;
    bool is_help = false;
    *status = read_options(argc, argv, &node, is_json, &is_help);
    if (*status != TR_EXIT_OK)
        return false;
    if (is_help) {
        tr_help_print(stdout, "cluster");
        return false;
    }
    bool is_there = tr_members_ask(command, tr_node_address_or_default(node), members);
    *status = is_there ? TR_EXIT_OK : TR_EXIT_FAILED;
    return is_there;
}

enum tr_exit tr_command_cluster_status(int argc, char **argv)
{
    struct tr_cluster_members members;
    bool is_json = false;
    enum tr_exit status;
    if (!begin("cluster status", argc, argv, &members, &is_json, &status))
        return status;
    struct summary summary = summarize(&members);
    if (is_json)
        print_json(&members);
    else
        print_text(&members, &summary);
    tr_members_free(&members);
    bool is_well = summary.down + summary.starting == 0 && !summary.is_other;
    return is_well ? TR_EXIT_OK : TR_EXIT_FAILED;
}

static enum tr_exit resync(int argc, char **argv)
{
    static const char request[] =
        "POST /cluster/resync HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n";
    struct tr_cluster_members members;
    bool is_json = false;
    enum tr_exit status;
    if (!begin("cluster resync", argc, argv, &members, &is_json, &status))
        return status;
    for (size_t i = 0; i < members.count; i++) {
        struct tr_reply reply;
        if (!members.list[i].told.is_reached) {
            printf("%s  DOWN; it settles when it is back\n", members.list[i].address);
            status = TR_EXIT_FAILED;
            continue;
        }
        if (!tr_node_ask("cluster resync", members.list[i].address, request, sizeof request - 1,
                         &reply)) {
            status = TR_EXIT_FAILED;
            continue;
        }
        printf("%s  settling\n", members.list[i].address);
        tr_reply_free(&reply);
    }
    tr_members_free(&members);
    return status;
}

enum tr_exit tr_command_cluster(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "status") == 0)
        return tr_command_cluster_status(argc - 1, argv + 1);
    if (strcmp(what, "apply") == 0)
        return tr_command_cluster_apply(argc - 1, argv + 1);
    if (strcmp(what, "resync") == 0)
        return resync(argc - 1, argv + 1);
    if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0) {
        tr_help_print(stdout, "cluster");
        return TR_EXIT_OK;
    }
    return tr_usage_error("cluster", "status, apply or resync?; 'tryst help cluster' tells more");
}
