/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst cluster status` and `tryst cluster resync`. */
#include "cli/members.h"
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PENDING_MANY 1000

enum option_id { OPTION_NODE = 1, OPTION_JSON, OPTION_WATCH, OPTION_HELP };

static const struct tr_option options_table[] = {
    {"--node", true, OPTION_NODE},
    {"--json", false, OPTION_JSON},
    {"--watch", false, OPTION_WATCH},
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

/* What the others report of a node: the longest silence, the largest difference of clocks, and how
 * much they have told it that it may not have. */
struct lag {
    bool is_heard; /* by somebody */
    uint64_t heard_ms;
    int64_t clock_ms;
    uint64_t pending;
};

static int64_t size_of(int64_t number)
{
    return number < 0 ? -number : number;
}

/* How far a clock is off, as most others see it: who is off itself sees all of them so. */
static int64_t find_skew(int64_t *skews, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t k = i; k > 0 && size_of(skews[k - 1]) > size_of(skews[k]); k--) {
            int64_t skew = skews[k];
            skews[k] = skews[k - 1];
            skews[k - 1] = skew;
        }
    }
    return count == 0 ? 0 : skews[(count - 1) / 2];
}

static struct lag find_lag(const struct tr_cluster_members *members, const char *address)
{
    struct lag lag = {0};
    int64_t *skews = tr_allocate(members->count * members->count + 1, sizeof *skews);
    size_t heard = 0;
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        for (size_t k = 0; k < told->seen_count; k++) {
            const struct tr_seen *seen = &told->seen[k];
            if (strcmp(seen->address, address) != 0 || strcmp(seen->state, "down") == 0 ||
                heard == members->count * members->count)
                continue;
            lag.is_heard = true;
            lag.pending += seen->pending + seen->queued;
            lag.heard_ms = seen->heard_ms > lag.heard_ms ? seen->heard_ms : lag.heard_ms;
            skews[heard++] = seen->clock_ms;
        }
    }
    lag.clock_ms = find_skew(skews, heard);
    free(skews);
    return lag;
}

static bool is_gone(const struct tr_told *told)
{
    return strcmp(told->role, "gone") == 0;
}

/* Whether the nodes that belong to the cluster have different lists of it. */
static bool views_differ(const struct tr_cluster_members *members)
{
    const char *view = NULL;
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        if (!told->is_reached || is_gone(told))
            continue;
        if (view != NULL && strcmp(view, told->view) != 0)
            return true;
        view = told->view;
    }
    return false;
}

/* ---- rows ---- */

enum column {
    COLUMN_NODE,
    COLUMN_ROLE,
    COLUMN_STATE,
    COLUMN_VERSION,
    COLUMN_UPTIME,
    COLUMN_VIEW,
    COLUMN_TIMERS,
    COLUMN_TO_MOVE,
    COLUMN_MOVING,
    COLUMN_PENDING,
    COLUMN_KEYS,
    COLUMN_MEMORY,
    COLUMN_LOG,
    COLUMN_FREE,
    COLUMN_HEARD,
    COLUMN_CLOCK,
    COLUMNS,
};

struct row {
    const char *color; /* of the state */
    char cells[COLUMNS][TR_MEMBER_NAME];
};

static const char *const titles[COLUMNS] = {
    [COLUMN_NODE] = "node",       [COLUMN_ROLE] = "role",       [COLUMN_STATE] = "state",
    [COLUMN_VERSION] = "version", [COLUMN_UPTIME] = "uptime",   [COLUMN_VIEW] = "view",
    [COLUMN_TIMERS] = "timers",   [COLUMN_TO_MOVE] = "to move", [COLUMN_MOVING] = "moving",
    [COLUMN_PENDING] = "pending", [COLUMN_KEYS] = "keys",       [COLUMN_MEMORY] = "memory",
    [COLUMN_LOG] = "log",         [COLUMN_FREE] = "disk free",  [COLUMN_HEARD] = "heard",
    [COLUMN_CLOCK] = "clock"};

static void put_count(struct row *row, enum column column, uint64_t count)
{
    snprintf(row->cells[column], TR_MEMBER_NAME, "%llu", (unsigned long long)count);
}

static void put_bytes(struct row *row, enum column column, uint64_t bytes)
{
    bool is_large = bytes >= (uint64_t)10 << 30;
    snprintf(row->cells[column], TR_MEMBER_NAME, is_large ? "%.0f GiB" : "%.0f MiB",
             (double)bytes / (is_large ? 1073741824.0 : 1048576.0));
}

static void put_uptime(struct row *row, uint64_t seconds)
{
    static const struct {
        uint64_t seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;
    while (i < 3 && seconds < 2 * units[i].seconds)
        i++;
    snprintf(row->cells[COLUMN_UPTIME], TR_MEMBER_NAME, "%llu %s",
             (unsigned long long)(seconds / units[i].seconds), units[i].unit);
}

/* It cannot be asked from here, and others hear it. */
static bool is_hidden(const struct tr_cluster_members *members,
                      const struct tr_cluster_member *member)
{
    const struct tr_seen *seen = seen_by_others(members, member->address);
    return !member->told.is_reached && seen != NULL && strcmp(seen->state, "up") == 0;
}

/* One that cannot be asked, as others see it. */
static void fill_unreached(const struct tr_cluster_members *members,
                           const struct tr_cluster_member *member, struct row *row)
{
    const struct tr_seen *seen = seen_by_others(members, member->address);
    bool is_up = is_hidden(members, member);
    snprintf(row->cells[COLUMN_ROLE], TR_MEMBER_NAME, "%s", seen == NULL ? "?" : seen->role);
    snprintf(row->cells[COLUMN_STATE], TR_MEMBER_NAME, "%s",
             is_up ? "UNREACHABLE from here, though the others hear it" : "DOWN");
    row->color = TR_COLOR_RED;
}

/* What is nothing on all nodes has no column. */
static void fill_row(const struct tr_cluster_members *members,
                     const struct tr_cluster_member *member, struct row *row)
{
    const struct tr_told *told = &member->told;
    *row = (struct row){.color = TR_COLOR_GREEN};
    snprintf(row->cells[COLUMN_NODE], TR_MEMBER_NAME, "%s", member->address);
    if (!told->is_reached) {
        fill_unreached(members, member, row);
        return;
    }
    bool is_up = strcmp(told->state, "up") == 0;
    row->color = is_up ? TR_COLOR_GREEN : TR_COLOR_YELLOW;
    struct lag lag = find_lag(members, member->address);
    snprintf(row->cells[COLUMN_ROLE], TR_MEMBER_NAME, "%s", told->role);
    snprintf(row->cells[COLUMN_STATE], TR_MEMBER_NAME, "%s", is_up ? "up" : "STARTING");
    snprintf(row->cells[COLUMN_VERSION], TR_MEMBER_NAME, "%s", told->version);
    if (told->memory_most > 0) /* else it is of a version that does not tell */
        put_uptime(row, told->uptime_s);
    if (views_differ(members))
        snprintf(row->cells[COLUMN_VIEW], TR_MEMBER_NAME, "%.6s", told->view);
    put_count(row, COLUMN_TIMERS, told->held);
    put_count(row, COLUMN_TO_MOVE, told->to_rebalance);
    put_count(row, COLUMN_MOVING, told->moving);
    put_count(row, COLUMN_PENDING, lag.pending);
    put_count(row, COLUMN_KEYS, told->keys);
    if (told->memory_most > 0)
        put_bytes(row, COLUMN_MEMORY, told->memory);
    if (told->disk_free > 0) {
        put_bytes(row, COLUMN_LOG, told->log);
        put_bytes(row, COLUMN_FREE, told->disk_free);
    }
    if (lag.is_heard) {
        snprintf(row->cells[COLUMN_HEARD], TR_MEMBER_NAME, "%llu ms",
                 (unsigned long long)lag.heard_ms);
        snprintf(row->cells[COLUMN_CLOCK], TR_MEMBER_NAME, "%+lld ms", (long long)lag.clock_ms);
    } else if (members->count > 1) {
        snprintf(row->cells[COLUMN_HEARD], TR_MEMBER_NAME, "never");
    }
}

static bool is_shown(const struct row *rows, size_t count, enum column column)
{
    bool is_optional = column == COLUMN_TO_MOVE || column == COLUMN_MOVING ||
                       column == COLUMN_PENDING || column == COLUMN_KEYS;
    for (size_t i = 0; i < count; i++) {
        const char *cell = rows[i].cells[column];
        if (cell[0] != '\0' && !(is_optional && strcmp(cell, "0") == 0))
            return true;
    }
    return false;
}

/* How wide a column is; what an unreachable node's state says goes beyond it. */
static int width_of(const struct row *rows, size_t count, enum column column)
{
    size_t width = strlen(titles[column]);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(rows[i].cells[column]);
        bool is_last = rows[i].cells[COLUMN_VERSION][0] == '\0' && column == COLUMN_STATE;
        width = size > width && !is_last ? size : width;
    }
    return (int)width;
}

static void print_row(const struct row *row, const struct row *rows, size_t count)
{
    const char *gap = "";
    for (enum column column = 0; column < COLUMNS; column++) {
        const char *cell = row == NULL ? titles[column] : row->cells[column];
        bool is_left = column <= COLUMN_VERSION;
        int width = width_of(rows, count, column);
        if (!is_shown(rows, count, column))
            continue;
        if (row != NULL && column > COLUMN_STATE && row->cells[COLUMN_VERSION][0] == '\0')
            break;
        bool is_colored = row != NULL && column == COLUMN_STATE;
        printf("%s%s%*s%s", gap, is_colored ? tr_color(row->color) : "", is_left ? -width : width,
               cell, is_colored ? tr_color(TR_COLOR_NONE) : "");
        gap = "  ";
    }
    putchar('\n');
}

static void print_rows(const struct tr_cluster_members *members)
{
    struct row *rows = tr_allocate(members->count, sizeof *rows);
    for (size_t i = 0; i < members->count; i++)
        fill_row(members, &members->list[i], &rows[i]);
    print_row(NULL, rows, members->count);
    for (size_t i = 0; i < members->count; i++)
        print_row(&rows[i], rows, members->count);
    free(rows);
}

/* ---- what is to be said of it ---- */

struct summary {
    size_t down;
    size_t hidden; /* from here: the others hear them */
    size_t starting;
    size_t deaf; /* pairs that do not hear each other, though both answer here */
    bool is_other;
    bool is_rebalancing;
    bool has_keys;
    bool is_changing;           /* somebody joins or leaves */
    const struct tr_told *word; /* of who has the highest epoch; NULL: nobody answers */
};

/* A node that answers, and that another one does not hear. */
static bool is_deaf_to(const struct tr_cluster_members *members, const struct tr_seen *seen)
{
    const struct tr_cluster_member *member = tr_members_find(members, seen->address);
    return strcmp(seen->state, "down") == 0 && strcmp(seen->role, "gone") != 0 && member != NULL &&
           member->told.is_reached;
}

static struct summary summarize(const struct tr_cluster_members *members)
{
    struct summary summary = {.is_other = views_differ(members)};
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        const struct tr_seen *others = seen_by_others(members, members->list[i].address);
        bool has_left = others != NULL && strcmp(others->role, "gone") == 0;
        bool is_unseen = is_hidden(members, &members->list[i]);
        summary.hidden += is_unseen && !has_left;
        summary.down += !told->is_reached && !is_unseen && !has_left;
        summary.starting += told->is_reached && strcmp(told->state, "up") != 0;
        summary.is_rebalancing |= told->is_rebalancing || told->are_keys_moving;
        summary.has_keys |= told->keys > 0;
        if (told->is_reached && (summary.word == NULL || told->epoch > summary.word->epoch))
            summary.word = told;
        for (size_t k = 0; k < told->seen_count; k++) {
            summary.deaf += is_deaf_to(members, &told->seen[k]);
        }
    }
    summary.is_changing = summary.word != NULL && summary.word->is_changing;
    return summary;
}

static bool is_well(const struct summary *summary)
{
    return summary->down + summary->hidden + summary->starting + summary->deaf == 0 &&
           !summary->is_other && !summary->is_changing;
}

static void print_deaf(const struct tr_cluster_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        for (size_t k = 0; k < told->seen_count; k++) {
            if (is_deaf_to(members, &told->seen[k]))
                printf("%s does not hear %s, which answers here: do their secrets differ, or is "
                       "the network between them broken? Their logs tell\n",
                       told->node, told->seen[k].address);
        }
    }
}

/* Records beyond what is always on its way. */
static void print_behind(const struct tr_cluster_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        for (size_t k = 0; k < told->seen_count; k++) {
            const struct tr_seen *seen = &told->seen[k];
            if (strcmp(seen->state, "down") != 0 &&
                (seen->is_behind || seen->pending > PENDING_MANY))
                printf("%s is bringing %s what it may lack: %llu records are on their way%s\n",
                       told->node, seen->address, (unsigned long long)seen->pending,
                       seen->is_behind ? ", and more are looked for" : "");
        }
    }
}

/* Who is waited for, and what for. */
static void print_change(const struct tr_cluster_members *members, const struct tr_told *word)
{
    const struct tr_cluster_member *member = tr_members_find(members, word->waits_for);
    printf("a change is under way, epoch %llu, and goes on by itself",
           (unsigned long long)word->epoch);
    if (member == NULL || word->waits_for[0] == '\0')
        puts("");
    else if (!member->told.is_reached)
        printf(": it waits for %s, which is down; bring it back, or say that it is lost (tryst "
               "cluster leave --force)\n",
               word->waits_for);
    else if (member->told.to_rebalance == 0)
        printf(": it waits for %s, which is not done yet\n", word->waits_for);
    else
        printf(": it waits for %s, which has %llu timers to move\n", word->waits_for,
               (unsigned long long)member->told.to_rebalance);
}

/* Whose configuration asks for something that has to wait. */
static void print_waiting(const struct tr_cluster_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        if (members->list[i].told.has_waiting)
            printf("the configuration of %s asks for a change that has to wait: a member is down "
                   "or of "
                   "an older version, another change is under way, or nobody would stay\n",
                   members->list[i].address);
    }
}

static void print_hidden(const struct tr_cluster_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        if (is_hidden(members, &members->list[i]))
            printf("%s is up for the others, and cannot be asked from here: %s\n",
                   members->list[i].address, members->list[i].told.why);
    }
}

static void print_verdict(const struct tr_cluster_members *members, const struct summary *summary)
{
    if (summary->down > 0)
        printf("%zu node%s down: what %s would pop is popped by others, and what %s is kept\n",
               summary->down, summary->down == 1 ? " is" : "s are",
               summary->down == 1 ? "it" : "they", summary->down == 1 ? "it misses" : "they miss");
    if (summary->starting > 0)
        printf("%zu node%s starting or stopping\n", summary->starting,
               summary->starting == 1 ? " is" : "s are");
    if (summary->is_other)
        puts("the nodes do not agree yet on who belongs to the cluster (see the column view): they "
             "tell each other when they are linked");
    else if (summary->is_changing)
        print_change(members, summary->word);
    else if (summary->is_rebalancing)
        puts("timers or keys are on their way to where they belong");
    else if (is_well(summary))
        printf("all nodes are up, and every timer is where it belongs%s\n",
               summary->has_keys ? ", and so is every key" : "");
}

static void print_text(const struct tr_cluster_members *members, const struct summary *summary)
{
    print_rows(members);
    putchar('\n');
    print_deaf(members);
    print_behind(members);
    print_waiting(members);
    print_hidden(members);
    print_verdict(members, summary);
}

static void print_json(const struct tr_cluster_members *members, const struct summary *summary)
{
    printf("{\"well\":%s,\"changing\":%s,\"views-differ\":%s,\"epoch\":%llu,\"waits-for\":",
           is_well(summary) ? "true" : "false", summary->is_changing ? "true" : "false",
           summary->is_other ? "true" : "false",
           summary->word == NULL ? 0ULL : (unsigned long long)summary->word->epoch);
    const char *waits_for = summary->word == NULL ? "" : summary->word->waits_for;
    if (waits_for[0] == '\0')
        fputs("null", stdout);
    else
        tr_json_string(stdout, waits_for, strlen(waits_for));
    fputs(",\"nodes\":[", stdout);
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        const char *address = members->list[i].address;
        fputs(i > 0 ? ",{\"address\":" : "{\"address\":", stdout);
        tr_json_string(stdout, address, strlen(address));
        if (!told->is_reached) {
            fputs(is_hidden(members, &members->list[i]) ? ",\"state\":\"unreachable\"}"
                                                        : ",\"state\":\"down\"}",
                  stdout);
            continue;
        }
        printf(",\"state\":\"%s\",\"role\":\"%s\",\"view\":\"%s\",\"held\":%llu,"
               "\"to-rebalance\":%llu,\"moving\":%llu,\"rebalancing\":%s,\"version\":\"%s\","
               "\"uptime-s\":%llu,\"memory-bytes\":%llu,\"memory-budget-bytes\":%llu,"
               "\"log-bytes\":%llu,\"disk-free-bytes\":%llu,\"pending\":[",
               told->state, told->role, told->view, (unsigned long long)told->held,
               (unsigned long long)told->to_rebalance, (unsigned long long)told->moving,
               told->is_rebalancing ? "true" : "false", told->version,
               (unsigned long long)told->uptime_s, (unsigned long long)told->memory,
               (unsigned long long)told->memory_most, (unsigned long long)told->log,
               (unsigned long long)told->disk_free);
        for (size_t k = 0; k < told->seen_count; k++) {
            fputs(k > 0 ? ",{\"to\":" : "{\"to\":", stdout);
            tr_json_string(stdout, told->seen[k].address, strlen(told->seen[k].address));
            const struct tr_seen *seen = &told->seen[k];
            printf(",\"records\":%llu,\"messages\":%llu,\"behind\":%s,\"state\":\"%s\","
                   "\"heard-ms-ago\":%llu,\"clock-ms-ahead\":%lld}",
                   (unsigned long long)seen->pending, (unsigned long long)seen->queued,
                   seen->is_behind ? "true" : "false", seen->state,
                   (unsigned long long)seen->heard_ms, (long long)seen->clock_ms);
        }
        fputs("]}", stdout);
    }
    puts("]}");
}

/* ---- the commands ---- */

struct asked {
    const char *node;
    bool is_json;
    bool is_watch;
    bool is_help;
};

static enum tr_exit read_options(int argc, char **argv, struct asked *asked)
{
    struct tr_options options = tr_options_start("cluster", options_table, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == 0)
            return tr_usage_error("cluster", "takes no operand such as %s", options.value);
        asked->node = options.id == OPTION_NODE ? options.value : asked->node;
        asked->is_json |= options.id == OPTION_JSON;
        asked->is_watch |= options.id == OPTION_WATCH;
        asked->is_help |= options.id == OPTION_HELP;
    }
    return step == TR_OPTIONS_BAD ? TR_EXIT_USAGE : TR_EXIT_OK;
}

/* False: there is nothing more to do, and *status says how it ended. */
static bool begin(int argc, char **argv, struct asked *asked, enum tr_exit *status)
{
    *asked = (struct asked){.is_json = false};
    *status = read_options(argc, argv, asked);
    if (*status == TR_EXIT_OK && asked->is_help)
        tr_help_print(stdout, "cluster");
    return *status == TR_EXIT_OK && !asked->is_help;
}

static enum tr_exit show(const struct asked *asked)
{
    struct tr_cluster_members members;
    if (!tr_members_ask("cluster status", tr_node_address_or_default(asked->node), &members))
        return TR_EXIT_FAILED;
    struct summary summary = summarize(&members);
    if (asked->is_watch && tr_is_terminal())
        fputs("\033[H\033[J", stdout); /* home, and nothing below */
    if (asked->is_json)
        print_json(&members, &summary);
    else
        print_text(&members, &summary);
    tr_members_free(&members);
    return is_well(&summary) ? TR_EXIT_OK : TR_EXIT_FAILED;
}

enum tr_exit tr_command_cluster_status(int argc, char **argv)
{
    struct asked asked;
    enum tr_exit status;
    struct timespec pause = {.tv_sec = 1};
    if (!begin(argc, argv, &asked, &status))
        return status;
    status = show(&asked);
    while (asked.is_watch && !ferror(stdout)) { /* until somebody ends it */
        fflush(stdout);
        nanosleep(&pause, NULL);
        if (!tr_is_terminal() && !asked.is_json)
            putchar('\n');
        status = show(&asked);
    }
    return status;
}

static enum tr_exit resync(int argc, char **argv)
{
    static const char request[] =
        "POST /cluster/resync HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n";
    struct tr_cluster_members members;
    struct asked asked;
    enum tr_exit status;
    if (!begin(argc, argv, &asked, &status))
        return status;
    if (asked.is_watch)
        return tr_usage_error("cluster", "--watch goes with status");
    if (!tr_members_ask("cluster resync", tr_node_address_or_default(asked.node), &members))
        return TR_EXIT_FAILED;
    for (size_t i = 0; i < members.count; i++) {
        struct tr_reply reply;
        if (!members.list[i].told.is_reached) {
            printf("%s  DOWN; it is rebalanced when it is back\n", members.list[i].address);
            status = TR_EXIT_FAILED;
            continue;
        }
        if (!tr_node_ask("cluster resync", members.list[i].address, request, sizeof request - 1,
                         &reply)) {
            status = TR_EXIT_FAILED;
            continue;
        }
        if (reply.status == 202)
            printf("%s  rebalancing\n", members.list[i].address);
        else
            status = tr_reply_refused("cluster resync", &reply);
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
    if (strcmp(what, "apply") == 0 || strcmp(what, "join") == 0 || strcmp(what, "leave") == 0)
        return tr_command_cluster_apply(argc - 1, argv + 1);
    if (strcmp(what, "resync") == 0)
        return resync(argc - 1, argv + 1);
    if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0) {
        tr_help_print(stdout, "cluster");
        return TR_EXIT_OK;
    }
    return tr_usage_error("cluster",
                          "status, join, leave, apply or resync?; 'tryst help cluster' tells more");
}
