/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst pops`: what became of the last pops, and of those to come. */
#include "cli/node.h"
#include "cli/options.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS     300
#define FOLLOW_MOST 1000

enum option_id {
    OPTION_NODE = 1,
    OPTION_FOLLOW,
    OPTION_LIMIT,
    OPTION_STATE,
    OPTION_JSON,
    OPTION_HELP
};

static const struct tr_option pops_options[] = {
    {"--node", true, OPTION_NODE},
    {"--follow", false, OPTION_FOLLOW},
    {"--limit", true, OPTION_LIMIT},
    {"--state", true, OPTION_STATE},
    {"--json", false, OPTION_JSON},
    {"--help", false, OPTION_HELP},
    {NULL, false, 0},
};

struct asked {
    const char *node;
    const char *state;
    uint64_t limit;
    bool is_json;
    bool follows;
    bool has_lacked; /* nodes, when it last looked; that was said */
    char last[160];  /* the newest that was printed: its instant, id and attempt */
};

/* A pop of the node's JSON; spans as they are written there. */
struct shown {
    struct tr_span all;
    struct tr_span at;
    struct tr_span id;
    struct tr_span name;
    struct tr_span state;
    struct tr_span uri;
    struct tr_span sequence;
    struct tr_span late;
    struct tr_span attempts;
    struct tr_span status;
    struct tr_span error;
    struct tr_span node;
};

static bool read_pop(struct tr_span all, struct shown *shown)
{
    static const struct tr_span none = {"", 0};
    struct tr_json json;
    *shown = (struct shown){all, none, none, none, none, none, none, none, none, none, none, none};
    tr_json_init(&json, (char *)(uintptr_t)all.text, all.size);
    if (tr_json_next(&json) != TR_JSON_OBJECT)
        return false;
    while (tr_json_next(&json) == TR_JSON_KEY) {
        struct tr_span name = json.text;
        struct tr_span *to = tr_span_equals(name, TR_SPAN("at"))                ? &shown->at
                             : tr_span_equals(name, TR_SPAN("id"))              ? &shown->id
                             : tr_span_equals(name, TR_SPAN("name"))            ? &shown->name
                             : tr_span_equals(name, TR_SPAN("state"))           ? &shown->state
                             : tr_span_equals(name, TR_SPAN("uri"))             ? &shown->uri
                             : tr_span_equals(name, TR_SPAN("sequence-number")) ? &shown->sequence
                             : tr_span_equals(name, TR_SPAN("lateness-ms"))     ? &shown->late
                             : tr_span_equals(name, TR_SPAN("attempts"))        ? &shown->attempts
                             : tr_span_equals(name, TR_SPAN("status"))          ? &shown->status
                             : tr_span_equals(name, TR_SPAN("error"))           ? &shown->error
                             : tr_span_equals(name, TR_SPAN("node"))            ? &shown->node
                                                                                : NULL;
        enum tr_json_token token = tr_json_next(&json);
        if (to != NULL && (token == TR_JSON_STRING || token == TR_JSON_NUMBER))
            *to = json.text;
        else if (!tr_json_skip(&json, token))
            return false;
    }
    return shown->id.size > 0;
}

static void write_place(const struct shown *shown, char *out, size_t size)
{
    snprintf(out, size, "%.*s %.*s %.*s %.*s", (int)shown->at.size, shown->at.text,
             (int)shown->id.size, shown->id.text, (int)shown->sequence.size, shown->sequence.text,
             (int)shown->attempts.size, shown->attempts.text);
}

static void print_pop(const struct asked *asked, const struct shown *shown, const char *copy)
{
    if (asked->is_json) {
        printf("%.*s\n", (int)shown->all.size, copy);
        return;
    }
    struct tr_span who = shown->name.size > 0 ? shown->name : shown->id;
    struct tr_span what = shown->status.size > 0 ? shown->status : shown->error;
    printf("%.*s  %-9.*s  %.*s  pop %.*s of %.*s, attempt %.*s", (int)shown->at.size,
           shown->at.text, (int)shown->state.size, shown->state.text, (int)what.size, what.text,
           (int)shown->sequence.size, shown->sequence.text, (int)who.size, who.text,
           (int)shown->attempts.size, shown->attempts.text);
    if (tr_span_equals(shown->attempts, TR_SPAN("1"))) /* a retry is when it is wanted */
        printf(", %.*s ms late", (int)shown->late.size, shown->late.text);
    printf(", to %.*s", (int)shown->uri.size, shown->uri.text);
    printf(shown->node.size > 0 ? ", by %.*s\n" : "%.*s\n", (int)shown->node.size,
           shown->node.text);
}

/* The pops of a page, newest first, are printed oldest first; those that were printed before are
 * not. */
static void print_page(struct asked *asked, const struct tr_reply *reply)
{
    struct tr_span body = reply->body;
    bool is_whole =
        tr_reply_says(reply, "\"nodes-unheard\":0") || !tr_reply_says(reply, "nodes-unheard");
    struct tr_span pops[FOLLOW_MOST];
    struct tr_json json;
    size_t count = 0;
    tr_json_init(&json, (char *)(uintptr_t)body.text, body.size);
    enum tr_json_token token = TR_JSON_NULL;
    for (unsigned i = 0; i < 3; i++) /* an object, a key, and its value */
        token = tr_json_next(&json);
    if (token != TR_JSON_ARRAY)
        return;
    const char *at = json.at;
    const char *end = body.text + body.size;
    for (; at < end && *at == '{' && count < FOLLOW_MOST; at += *at == ',') {
        struct tr_json one;
        tr_json_init(&one, (char *)(uintptr_t)at, (size_t)(end - at));
        if (!tr_json_raw(&one, &pops[count]))
            return;
        at += pops[count++].size;
    }
    size_t fresh = 0;
    char place[160];
    struct shown shown;
    char *copy = tr_allocate(body.size + 1, 1);
    memcpy(copy, body.text, body.size);
    for (; fresh < count && read_pop(pops[fresh], &shown); fresh++) {
        write_place(&shown, place, sizeof place);
        if (strcmp(place, asked->last) == 0)
            break;
    }
    memcpy((char *)(uintptr_t)body.text, copy, body.size); /* reading has changed it */
    for (size_t i = fresh; i-- > 0;) {
        const char *own = copy + (pops[i].text - body.text);
        if (!read_pop(pops[i], &shown))
            continue;
        write_place(&shown, asked->last, sizeof asked->last);
        print_pop(asked, &shown, own);
    }
    free(copy);
    fflush(stdout);
    if (!is_whole && !asked->has_lacked)
        tr_failure("pops", "some nodes do not answer: what they made is not shown; 'tryst cluster "
                           "status' names them");
    asked->has_lacked = !is_whole;
}

static enum tr_exit look(struct asked *asked)
{
    const char *address = tr_node_address_or_default(asked->node);
    char request[512];
    struct tr_reply reply;
    int size = snprintf(request, sizeof request,
                        "GET /pops?scope=cluster&limit=%llu%s%.32s HTTP/1.1\r\nHost: "
                        "%.200s\r\nConnection: close\r\n\r\n",
                        (unsigned long long)asked->limit, asked->state != NULL ? "&state=" : "",
                        asked->state != NULL ? asked->state : "", address);
    if (!tr_node_ask("pops", address, request, (size_t)size, &reply))
        return TR_EXIT_FAILED;
    enum tr_exit status = TR_EXIT_OK;
    if (reply.status != 200)
        status = tr_reply_refused("pops", &reply);
    else
        print_page(asked, &reply);
    tr_reply_free(&reply);
    return status;
}

enum tr_exit tr_command_pops(int argc, char **argv)
{
    struct asked asked = {.limit = 20};
    struct tr_options options = tr_options_start("pops", pops_options, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        switch (options.id) {
        case OPTION_NODE:
            asked.node = options.value;
            break;
        case OPTION_STATE:
            asked.state = options.value;
            break;
        case OPTION_FOLLOW:
            asked.follows = true;
            break;
        case OPTION_JSON:
            asked.is_json = true;
            break;
        case OPTION_LIMIT:
            if (!tr_option_number(&options, "--limit", 1, FOLLOW_MOST, &asked.limit))
                return TR_EXIT_USAGE;
            break;
        case OPTION_HELP:
            tr_help_print(stdout, "pops");
            return TR_EXIT_OK;
        default:
            return tr_usage_error("pops", "takes no operand such as %s", options.value);
        }
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    enum tr_exit status = look(&asked);
    asked.limit = asked.follows ? FOLLOW_MOST : asked.limit;
    while (asked.follows && status == TR_EXIT_OK) {
        struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
        nanosleep(&pause, NULL);
        status = look(&asked);
    }
    return status;
}
