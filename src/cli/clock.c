/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst clock`: the time of a node that was started with --test-clock. */
#include "cli/node.h"
#include "cli/options.h"
#include "cli/timer.h"

#include <string.h>

enum option_id { OPTION_NODE = 1, OPTION_HELP };

static const struct tr_option clock_options[] = {
    {"--node", true, OPTION_NODE}, {"--help", false, OPTION_HELP}, {NULL, false, 0}};

static enum tr_exit ask(const char *node, const char *method, const char *target, const char *body)
{
    const char *address = tr_node_address_or_default(node);
    char request[1024];
    struct tr_reply reply;
    int size = snprintf(request, sizeof request,
                        "%s %s HTTP/1.1\r\nHost: %.200s\r\nConnection: close\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        method, target, address, strlen(body), body);
    if (!tr_node_ask("clock", address, request, (size_t)size, &reply))
        return TR_EXIT_FAILED;
    enum tr_exit status = reply.status == 200 ? TR_EXIT_OK : tr_reply_refused("clock", &reply);
    if (status == TR_EXIT_OK)
        fwrite(reply.body.text, 1, reply.body.size, stdout);
    tr_reply_free(&reply);
    return status;
}

/* By a duration, or to an instant. */
static enum tr_exit advance(const char *node, const char *by)
{
    char seconds[64];
    char body[256];
    if (strlen(by) > 64 || strpbrk(by, "\"\\") != NULL)
        return tr_usage_error("clock", "advance DURATION, as 15m, or INSTANT");
    if (tr_write_seconds(by, seconds, sizeof seconds))
        snprintf(body, sizeof body, "{\"by\":%s}", seconds);
    else
        snprintf(body, sizeof body, "{\"to\":\"%s\"}", by);
    return ask(node, "POST", "/clock/advance", body);
}

enum tr_exit tr_command_clock(int argc, char **argv)
{
    const char *node = NULL;
    const char *words[2] = {"show", NULL};
    unsigned count = 0;
    struct tr_options options = tr_options_start("clock", clock_options, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == OPTION_HELP) {
            tr_help_print(stdout, "clock");
            return TR_EXIT_OK;
        }
        if (options.id == OPTION_NODE)
            node = options.value;
        else if (count < 2)
            words[count++] = options.value;
        else
            return tr_usage_error("clock", "takes no operand such as %s", options.value);
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    if (strcmp(words[0], "advance") == 0 && words[1] != NULL)
        return advance(node, words[1]);
    if (strcmp(words[0], "show") == 0)
        return ask(node, "GET", "/clock", "");
    if (strcmp(words[0], "run") == 0)
        return ask(node, "PUT", "/clock", "{\"mode\":\"real\"}");
    if (strcmp(words[0], "stop") == 0)
        return ask(node, "PUT", "/clock", "{\"mode\":\"frozen\"}");
    return tr_usage_error("clock", "show, advance DURATION, run or stop");
}
