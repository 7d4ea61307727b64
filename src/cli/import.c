/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst import chronos`: the timers of a running cluster of Chronos, set in one of tryst. */
#include "cli/import.h"

#include "base/assert.h"
#include "cli/backup.h"
#include "cli/credentials.h"
#include "cli/options.h"
#include "wire/timer_id.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND      TR_IMPORT_COMMAND
#define DEFAULT_PORT ":7253"
#define BATCH        256
#define TRIES        300 /* of what is refused for a while */
#define REFUSED_SAID 10
#define NODE_MAX     256

enum option_id { OPTION_FROM = 1, OPTION_TO, OPTION_VIEW, OPTION_DRY, OPTION_HELP };

static const struct tr_option import_options[] = {
    {"--from", true, OPTION_FROM},    {"--to", true, OPTION_TO},      {"--view", true, OPTION_VIEW},
    {"--dry-run", false, OPTION_DRY}, {"--help", false, OPTION_HELP}, {NULL, false, 0},
};

struct asked {
    const char *from;
    const char *to;
    const char *view;
    const char *what;
    bool is_dry;
    bool is_help;
};

/* ---- what is asked for ---- */

static enum tr_exit read_options(int argc, char **argv, struct asked *asked)
{
    struct tr_options options = tr_options_start(COMMAND, import_options, argc, argv);
    enum tr_options_step step;
    *asked = (struct asked){.what = NULL};
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == 0 && asked->what != NULL)
            return tr_usage_error(COMMAND, "takes no operand such as %s", options.value);
        if (options.id == 0)
            asked->what = options.value;
        else if (options.id == OPTION_FROM)
            asked->from = options.value;
        else if (options.id == OPTION_TO)
            asked->to = options.value;
        else if (options.id == OPTION_VIEW)
            asked->view = options.value;
        asked->is_dry |= options.id == OPTION_DRY;
        asked->is_help |= options.id == OPTION_HELP;
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    if (asked->is_help)
        return TR_EXIT_OK;
    if (asked->what == NULL || strcmp(asked->what, "chronos") != 0 || asked->from == NULL) {
        tr_usage_error(COMMAND, "from what? 'tryst import chronos --from HOST:PORT,...', with all "
                                "nodes of the cluster of Chronos");
        return TR_EXIT_USAGE;
    }
    return TR_EXIT_OK;
}

/* The nodes of --from, as the cluster knows them, and what its view of them is called. */
static bool read_nodes(struct tr_import *import, const struct asked *asked)
{
    uint64_t view = 0;
    TR_ASSERT(asked->from != NULL);
    for (const char *at = asked->from; *at != '\0';) {
        size_t size = strcspn(at, ",");
        if (import->node_count == TR_IMPORT_NODES || size >= NODE_MAX) {
            tr_usage_error(COMMAND, "--from: these are too many nodes");
            return false;
        }
        char *name = tr_allocate(NODE_MAX + sizeof DEFAULT_PORT, 1);
        bool has_port = memchr(at, ':', size) != NULL;
        snprintf(name, NODE_MAX + sizeof DEFAULT_PORT, "%.*s%s", (int)size, at,
                 has_port ? "" : DEFAULT_PORT);
        import->nodes[import->node_count++] = name;
        view |= tr_replica_bits((struct tr_span){name, strlen(name)});
        at += size + (at[size] == ',');
    }
    if (asked->view != NULL && strlen(asked->view) < sizeof import->view)
        snprintf(import->view, sizeof import->view, "%s", asked->view);
    else
        snprintf(import->view, sizeof import->view, "%" PRIu64, view);
    return import->node_count > 0;
}

/* ---- setting them ---- */

struct setting {
    struct tr_channel channel;
    uint64_t set;
    uint64_t refused;
};

static void say_refused(struct setting *setting, const struct tr_imported *timer, unsigned status,
                        struct tr_span body)
{
    struct tr_reply reply = {.status = status, .body = body};
    if (setting->refused++ >= REFUSED_SAID)
        return;
    fprintf(stderr, "tryst import: the timer %016" PRIx64 " is not set\n", timer->id);
    tr_reply_refused(COMMAND, &reply);
}

static void put_timer(struct tr_channel *channel, const struct tr_imported *timer)
{
    char head[1024];
    int size = snprintf(head, sizeof head,
                        "PUT /timers/%016" PRIx64 "-%u HTTP/1.1\r\nHost: node\r\n"
                        "%sContent-Length: %zu\r\n\r\n",
                        timer->id, timer->factor, tr_credentials_header(), timer->size);
    tr_channel_put(channel, head, (size_t)size);
    tr_channel_put(channel, timer->body, timer->size);
}

/* Sends those of a batch that are not set yet. False: the connection broke. */
static bool send_batch(struct setting *setting, const struct tr_imported *batch, size_t count,
                       bool *is_done, bool *is_left)
{
    unsigned status = 0;
    struct tr_span body;
    *is_left = false;
    for (size_t i = 0; i < count; i++) {
        if (!is_done[i])
            put_timer(&setting->channel, &batch[i]);
    }
    if (!tr_channel_send(&setting->channel))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (is_done[i])
            continue;
        if (!tr_channel_answer(&setting->channel, &status, &body))
            return false;
        is_done[i] = status != 503;
        setting->set += status == 200;
        *is_left |= status == 503;
        if (status != 200 && status != 503)
            say_refused(setting, &batch[i], status, body);
    }
    return true;
}

static bool set_batch(struct setting *setting, const struct tr_imported *batch, size_t count)
{
    bool is_done[BATCH] = {false};
    bool is_left = true;
    for (unsigned tries = 0; is_left && tries < TRIES; tries++) {
        if (tries > 0)
            tr_backup_pause();
        if (!send_batch(setting, batch, count, is_done, &is_left))
            return false;
    }
    if (is_left)
        tr_failure(COMMAND,
                   "%s refuses what it is sent, again and again (tryst cluster status); "
                   "what was set so far stays: run this again to go on",
                   setting->channel.address);
    return !is_left;
}

static bool set_all(const struct tr_import *import, const char *to, struct setting *setting)
{
    if (!tr_channel_open(&setting->channel, COMMAND, to))
        return false;
    bool is_good = true;
    for (size_t i = 0; i < import->count && is_good; i += BATCH) {
        size_t count = import->count - i < BATCH ? import->count - i : BATCH;
        is_good = set_batch(setting, &import->list[i], count);
        tr_backup_progress("timers", i + count, import->count, false);
    }
    tr_backup_progress("", 0, 0, true);
    tr_channel_close(&setting->channel);
    return is_good;
}

/* ---- all of it ---- */

/* Each node is asked for what it has for each, itself too: so all that any of them has is found. */
static void read_all(struct tr_import *import)
{
    for (unsigned i = 0; i < import->node_count; i++) {
        bool is_there = true;
        for (unsigned k = 0; k < import->node_count && is_there; k++)
            is_there = tr_import_read(import, import->nodes[i], import->nodes[k]);
        import->missing += !is_there;
        fprintf(stderr, "%s: %zu timers so far%s\n", import->nodes[i], import->count,
                is_there ? "" : ", NOT ALL OF THIS NODE'S");
    }
}

static enum tr_exit carry_out(struct tr_import *import, const struct asked *asked)
{
    struct setting setting = {.set = 0};
    read_all(import);
    if (import->missing == import->node_count)
        return TR_EXIT_FAILED;
    bool is_good =
        asked->is_dry || set_all(import, tr_node_address_or_default(asked->to), &setting);
    if (asked->is_dry)
        printf("timers to set: %zu\n", import->count);
    else
        printf("timers: %" PRIu64 "\n", setting.set);
    if (setting.refused > 0)
        printf("timers that were refused: %" PRIu64 "\n", setting.refused);
    if (import->missing > 0)
        tr_failure(COMMAND, "%u of %u nodes did not tell all: what they alone have is missing",
                   import->missing, import->node_count);
    return is_good && setting.refused == 0 && import->missing == 0 ? TR_EXIT_OK : TR_EXIT_FAILED;
}

enum tr_exit tr_command_import(int argc, char **argv)
{
    struct asked asked;
    struct tr_import import = {.count = 0};
    enum tr_exit status = read_options(argc, argv, &asked);
    if (status != TR_EXIT_OK)
        return status;
    if (asked.is_help) {
        tr_help_print(stdout, COMMAND);
        return TR_EXIT_OK;
    }
    if (!read_nodes(&import, &asked))
        return TR_EXIT_USAGE;
    status = carry_out(&import, &asked);
    for (size_t i = 0; i < import.count; i++)
        free(import.list[i].body);
    free(import.list);
    free(import.slots);
    for (unsigned i = 0; i < import.node_count; i++)
        free((char *)(uintptr_t)import.nodes[i]);
    return status;
}
