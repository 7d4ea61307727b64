/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst timer add|set|get|where|cancel|fire|ls|redrive`. */
#include "cli/timer.h"
#include "cli/members.h"
#include "cli/options.h"
#include "cli/timer_show.h"
#include "wire/json.h"
#include "wire/timer_id.h"

#include <stdlib.h>
#include <string.h>

enum option_id {
    OPTION_NODE = 1,
    OPTION_JSON,
    OPTION_IN,
    OPTION_AT,
    OPTION_CRON,
    OPTION_ZONE,
    OPTION_UNTIL,
    OPTION_MISSED,
    OPTION_JITTER,
    OPTION_METHOD,
    OPTION_TIMEOUT,
    OPTION_HEADER,
    OPTION_PREFIX,
    OPTION_NAMED,
    OPTION_ALL,
    OPTION_DRY,
    OPTION_TO,
    OPTION_REPEAT,
    OPTION_COUNT,
    OPTION_TAG,
    OPTION_FACTOR,
    OPTION_KEY,
    OPTION_TYPE,
    OPTION_DEAD,
    OPTION_CLUSTER,
    OPTION_MUST_EXIST,
    OPTION_HELP,
};

static const struct tr_option timer_options[] = {
    {"--node", true, OPTION_NODE},
    {"--json", false, OPTION_JSON},
    {"--in", true, OPTION_IN},
    {"--at", true, OPTION_AT},
    {"--cron", true, OPTION_CRON},
    {"--zone", true, OPTION_ZONE},
    {"--until", true, OPTION_UNTIL},
    {"--missed", true, OPTION_MISSED},
    {"--jitter", true, OPTION_JITTER},
    {"--method", true, OPTION_METHOD},
    {"--timeout", true, OPTION_TIMEOUT},
    {"--header", true, OPTION_HEADER},
    {"--name-prefix", true, OPTION_PREFIX},
    {"--named", false, OPTION_NAMED},
    {"--all", false, OPTION_ALL},
    {"--dry-run", false, OPTION_DRY},
    {"--to", true, OPTION_TO},
    {"--repeat-for", true, OPTION_REPEAT},
    {"--count", true, OPTION_COUNT},
    {"--tag", true, OPTION_TAG},
    {"--replicas", true, OPTION_FACTOR},
    {"--key", true, OPTION_KEY},
    {"--content-type", true, OPTION_TYPE},
    {"--dead", false, OPTION_DEAD},
    {"--cluster", false, OPTION_CLUSTER},
    {"--must-exist", false, OPTION_MUST_EXIST},
    {"--help", false, OPTION_HELP},
    {NULL, false, 0},
};

#define BODY_MAX ((size_t)8 << 20)

#define PRECONDITION_FAILED 412

/* One that has a place of its own. NULL: it has none. */
static const char **text_of(struct tr_timer_asked *asked, int id)
{
    switch (id) {
    case OPTION_NODE:
        return &asked->node;
    case OPTION_IN:
        return &asked->in;
    case OPTION_AT:
        return &asked->at;
    case OPTION_CRON:
        return &asked->cron;
    case OPTION_ZONE:
        return &asked->zone;
    case OPTION_UNTIL:
        return &asked->until;
    case OPTION_MISSED:
        return &asked->missed;
    case OPTION_JITTER:
        return &asked->jitter;
    case OPTION_METHOD:
        return &asked->method;
    case OPTION_TIMEOUT:
        return &asked->timeout;
    case OPTION_PREFIX:
        return &asked->prefix;
    case OPTION_TO:
        return &asked->to;
    case OPTION_REPEAT:
        return &asked->repeat;
    case OPTION_COUNT:
        return &asked->count;
    case OPTION_FACTOR:
        return &asked->factor;
    case OPTION_KEY:
        return &asked->key;
    case OPTION_TYPE:
        return &asked->content_type;
    default:
        return NULL;
    }
}

static bool *flag_of(struct tr_timer_asked *asked, int id)
{
    return id == OPTION_JSON         ? &asked->is_json
           : id == OPTION_CLUSTER    ? &asked->is_cluster
           : id == OPTION_NAMED      ? &asked->are_named
           : id == OPTION_ALL        ? &asked->is_all
           : id == OPTION_DRY        ? &asked->is_dry
           : id == OPTION_DEAD       ? &asked->is_dead
           : id == OPTION_MUST_EXIST ? &asked->must_exist
                                     : NULL;
}

/* One of several. False: they are too many. */
static bool add_to(const char **list, unsigned *count, unsigned most, const char *value,
                   const char *what)
{
    if (*count == most) {
        tr_usage_error("timer", "more than %u %s", most, what);
        return false;
    }
    list[(*count)++] = value;
    return true;
}

static bool read_asked(struct tr_options *options, struct tr_timer_asked *asked,
                       enum tr_exit *status)
{
    enum tr_options_step step;
    *status = TR_EXIT_USAGE;
    while ((step = tr_options_next(options)) == TR_OPTIONS_ONE) {
        const char **text = text_of(asked, options->id);
        bool *flag = flag_of(asked, options->id);
        bool is_read = true;
        if (text != NULL) {
            *text = options->value;
        } else if (flag != NULL) {
            *flag = true;
        } else if (options->id == OPTION_TAG) {
            is_read = add_to(asked->tags, &asked->tag_count, TR_TAGS_MAX, options->value, "tags");
        } else if (options->id == OPTION_HEADER) {
            is_read = add_to(asked->headers, &asked->header_count, TR_HEADERS_MAX, options->value,
                             "headers");
        } else if (options->id == OPTION_HELP) {
            tr_help_print(stdout, "timer");
            *status = TR_EXIT_OK;
            return false;
        } else {
            is_read = add_to(asked->operands, &asked->operand_count, TR_TIMER_OPERANDS,
                             options->value, "operands");
        }
        if (!is_read)
            return false;
    }
    return step == TR_OPTIONS_DONE;
}

/* ---- requests ---- */

struct message {
    const char *method;
    const char *target;
    const char *key;
    struct tr_span body;
    bool is_if_there; /* else it is refused */
};

static bool ask(const struct tr_timer_asked *asked, const struct message *message,
                struct tr_reply *reply)
{
    const char *address = asked->node;
    size_t cap = 4096 + strlen(message->target) + message->body.size +
                 (message->key != NULL ? strlen(message->key) : 0);
    char *bytes = tr_allocate(cap, 1);
    struct tr_writer out = tr_writer_on(bytes, cap);
    tr_put_text(&out, message->method);
    tr_put_text(&out, " ");
    tr_put_text(&out, message->target);
    tr_put_text(&out, " HTTP/1.1\r\nHost: ");
    tr_put_text(&out, address);
    tr_put_text(&out, "\r\nConnection: close\r\n");
    if (message->key != NULL) {
        tr_put_text(&out, "Idempotency-Key: ");
        tr_put_text(&out, message->key);
        tr_put_text(&out, "\r\n");
    }
    tr_put_text(&out, message->is_if_there ? "If-Match: *\r\n" : "");
    tr_put_text(&out, "Content-Length: ");
    tr_put_decimal(&out, message->body.size);
    tr_put_text(&out, "\r\n\r\n");
    tr_put_bytes(&out, message->body.text, message->body.size);
    bool is_answered = tr_node_ask("timer", address, bytes, out.size, reply);
    free(bytes);
    return is_answered;
}

static void print_id(const struct tr_timer_asked *asked, const char *location)
{
    const char *id = strrchr(location, '/');
    id = id == NULL ? location : id + 1;
    if (asked->is_json)
        printf("{\"id\":\"%s\"}\n", id);
    else
        printf("%s\n", id);
}

/* `/timers/named/` and the name, with what a path may not have percent-encoded. */
static void write_named(char *out, size_t size, const char *name)
{
    struct tr_writer writer = tr_writer_on(out, size - 1);
    tr_put_text(&writer, "/timers/named/");
    for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; at++) {
        bool is_plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                        (*at >= '0' && *at <= '9') || strchr("-._~:@", *at) != NULL;
        tr_put_text(&writer, is_plain ? "" : "%");
        if (is_plain)
            tr_put_number(&writer, *at, 1);
        else
            tr_put_hex(&writer, *at, 2);
    }
    out[writer.size] = '\0';
}

static enum tr_exit send_body(const struct tr_timer_asked *asked, const struct message *message)
{
    struct tr_reply reply = {0};
    if (!ask(asked, message, &reply))
        return TR_EXIT_FAILED;
    enum tr_exit status = reply.status == 200 ? TR_EXIT_OK : tr_reply_refused("timer", &reply);
    if (status == TR_EXIT_OK)
        print_id(asked, reply.location);
    tr_reply_free(&reply);
    return status;
}

/* All of standard input, which the caller frees. */
static bool read_input(char **input, struct tr_span *text)
{
    *input = tr_allocate(BODY_MAX, 1);
    size_t size = fread(*input, 1, BODY_MAX, stdin);
    bool is_good = ferror(stdin) == 0 && size < BODY_MAX;
    if (!is_good)
        tr_failure("timer", size == BODY_MAX ? "the text on standard input is too long"
                                             : "standard input cannot be read");
    *text = (struct tr_span){*input, size};
    return is_good;
}

static enum tr_exit add(struct tr_timer_asked *asked)
{
    char target[1024] = "/timers";
    bool is_set = strcmp(asked->verb, "set") == 0;
    int times = (asked->in != NULL) + (asked->at != NULL) + (asked->cron != NULL);
    if (times == 0 || asked->to == NULL || (asked->cron != NULL && times > 1))
        return tr_usage_error("timer",
                              "%s needs --to URI and --in DURATION, --at INSTANT or --cron "
                              "EXPRESSION",
                              asked->verb);
    if (is_set && asked->operand_count == 0)
        return tr_usage_error("timer", "set NAME: which name?");
    if (is_set) {
        write_named(target, sizeof target, asked->operands[0]);
        asked->operands[0] = asked->operands[1];
        asked->operand_count--;
    }
    if (asked->operand_count > 1)
        return tr_usage_error("timer", "%s takes one text; quote it if it has spaces", asked->verb);
    if (asked->key != NULL && strcspn(asked->key, "\r\n") != strlen(asked->key))
        return tr_usage_error("timer", "--key must be one line");
    asked->text = (struct tr_span){"", 0};
    char *input = NULL;
    if (asked->operand_count > 0)
        asked->text = (struct tr_span){asked->operands[0], strlen(asked->operands[0])};
    if (tr_span_equals(asked->text, TR_SPAN("-")) && !read_input(&input, &asked->text))
        return TR_EXIT_FAILED;
    char *body = tr_allocate(BODY_MAX, 1);
    struct tr_writer out = tr_writer_on(body, BODY_MAX);
    enum tr_exit status = TR_EXIT_USAGE;
    if (tr_timer_put_body(&out, asked)) {
        struct message message = {
            is_set ? "PUT" : "POST", target, is_set ? NULL : asked->key, {body, out.size}, false};
        status = out.is_full ? tr_usage_error("timer", "the text is too long")
                             : send_body(asked, &message);
    }
    free(body);
    free(input);
    return status;
}

/* ---- showing ---- */

static void put_escaped(struct tr_writer *out, const char *name, const char *value)
{
    if (value == NULL)
        return;
    tr_put_text(out, name);
    for (const unsigned char *at = (const unsigned char *)value; *at != '\0'; at++) {
        tr_put_text(out, "%");
        tr_put_hex(out, *at, 2);
    }
}

static enum tr_exit list(const struct tr_timer_asked *asked)
{
    char cursor[TR_CURSOR_MAX + 1] = "";
    bool has_more = true;
    if (asked->operand_count > 0)
        return tr_usage_error("timer", "ls takes no operand such as %s", asked->operands[0]);
    struct tr_timer_rows rows = {.are_dead = asked->is_dead};
    while (has_more) {
        char target[4096];
        struct tr_reply reply;
        struct tr_writer out = tr_writer_on(target, sizeof target - 1);
        tr_put_text(&out, "/timers?limit=1000");
        tr_put_text(&out, asked->is_cluster ? "&scope=cluster" : "");
        tr_put_text(&out, asked->is_dead ? "&state=dead" : "");
        put_escaped(&out, "&tag=", asked->tag_count > 0 ? asked->tags[0] : NULL);
        put_escaped(&out, "&name-prefix=", asked->prefix);
        tr_put_text(&out, cursor[0] != '\0' ? "&cursor=" : "");
        tr_put_text(&out, cursor);
        target[out.size] = '\0';
        struct message message = {"GET", target, NULL, {"", 0}, false};
        if (!ask(asked, &message, &reply))
            return TR_EXIT_FAILED;
        if (reply.status != 200) {
            enum tr_exit status = tr_reply_refused("timer", &reply);
            tr_reply_free(&reply);
            return status;
        }
        if (asked->is_json)
            fwrite(reply.body.text, 1, reply.body.size, stdout);
        has_more = tr_timer_rows_take(&rows, &reply, cursor);
        rows.count = asked->is_json ? 0 : rows.count;
        tr_reply_free(&reply);
    }
    if (!asked->is_json)
        tr_timer_rows_end(&rows);
    return TR_EXIT_OK;
}

/* ---- where it is ---- */

static const char *state_of(const struct tr_told *told, struct tr_span address)
{
    for (size_t i = 0; i < told->seen_count; i++) {
        struct tr_span seen = {told->seen[i].address, strlen(told->seen[i].address)};
        if (tr_span_equals(seen, address))
            return told->seen[i].state;
    }
    struct tr_span own = {told->node, strlen(told->node)};
    return tr_span_equals(own, address) ? told->state : "unknown";
}

/* The nodes of an array, in the order in which they would pop it. */
static void print_places(struct tr_json *json, const struct tr_told *told, bool is_list)
{
    unsigned place = 0;
    if (tr_json_next(json) != TR_JSON_ARRAY)
        return;
    while (tr_json_next(json) == TR_JSON_STRING) {
        const char *state = state_of(told, json->text);
        if (!is_list)
            printf("   %-24.*s  %-8s  it comes from there, or is to be let go\n",
                   (int)json->text.size, json->text.text, state);
        else if (place == 0)
            printf("1  %-24.*s  %-8s  %s\n", (int)json->text.size, json->text.text, state,
                   strcmp(state, "up") == 0 ? "pops it" : "would pop it");
        else
            printf("%u  %-24.*s  %-8s  if those before do not: at once when they are down, else "
                   "after %u s\n",
                   place + 1, (int)json->text.size, json->text.text, state, 2 * place);
        place++;
    }
}

static void print_places_json(struct tr_json *json, const struct tr_told *told)
{
    const char *before = "";
    printf(",\"%.*s\":[", (int)json->text.size, json->text.text);
    if (tr_json_next(json) == TR_JSON_ARRAY) {
        while (tr_json_next(json) == TR_JSON_STRING) {
            printf("%s{\"node\":", before);
            tr_json_string(stdout, json->text.text, json->text.size);
            printf(",\"state\":\"%s\"}", state_of(told, json->text));
            before = ",";
        }
    }
    putchar(']');
}

static void print_where(const struct tr_timer_asked *asked, const char *id,
                        const struct tr_reply *reply, const struct tr_told *told)
{
    struct tr_json json;
    enum tr_json_token token = TR_JSON_OBJECT;
    tr_json_init(&json, (char *)(uintptr_t)reply->body.text, reply->body.size);
    if (asked->is_json)
        printf("{\"id\":\"%s\"", id);
    while (token != TR_JSON_END && token != TR_JSON_BAD) {
        token = tr_json_next(&json);
        bool is_key = token == TR_JSON_KEY && json.depth == 1;
        bool is_list = is_key && tr_span_equals(json.text, TR_SPAN("replicas"));
        bool is_rest = is_key && (tr_span_equals(json.text, TR_SPAN("moving-from")) ||
                                  tr_span_equals(json.text, TR_SPAN("to-be-told")));
        if ((is_list || is_rest) && asked->is_json)
            print_places_json(&json, told);
        else if (is_list || is_rest)
            print_places(&json, told, is_list);
    }
    if (asked->is_json)
        puts("}");
}

/* It is as it was to be, which is no failure unless that was said. */
static enum tr_exit was_absent(const struct tr_timer_asked *asked, const char *id,
                               enum tr_exit before)
{
    fprintf(stderr, "tryst timer: there is no timer %.200s\n", id);
    return asked->must_exist ? TR_EXIT_FAILED : before;
}

static void print_timer(const struct tr_timer_asked *asked, struct tr_reply *reply, unsigned number)
{
    if (asked->is_json) {
        fwrite(reply->body.text, 1, reply->body.size, stdout);
        return;
    }
    if (number > 0)
        putchar('\n');
    tr_timer_show(reply);
}

/* One request for each id: GET shows what came, the others its Location. */
static enum tr_exit each(const struct tr_timer_asked *asked, const char *method, const char *suffix,
                         const struct tr_told *told)
{
    enum tr_exit status = TR_EXIT_OK;
    if (asked->operand_count == 0)
        return tr_usage_error("timer", "which timer? give its id");
    for (unsigned i = 0; i < asked->operand_count; i++) {
        char target[1100];
        struct tr_reply reply;
        struct tr_timer_text text;
        const char *id = asked->operands[i];
        id = strncmp(id, "/timers/", 8) == 0 ? id + 8 : id;
        char path[1024];
        if (asked->are_named) {
            write_named(path, sizeof path, id);
        } else if (!tr_timer_text_parse((struct tr_span){id, strlen(id)}, &text) ||
                   strlen(id) > 200) {
            status =
                tr_usage_error("timer", "'%.100s' is no timer's id; with --named it is a name", id);
            continue;
        } else {
            snprintf(path, sizeof path, "/timers/%s", id);
        }
        snprintf(target, sizeof target, "%s%s", path, suffix);
        bool is_cancel = strcmp(method, "DELETE") == 0;
        struct message message = {method, target, NULL, {"", 0}, is_cancel};
        if (!ask(asked, &message, &reply))
            return TR_EXIT_FAILED;
        if (is_cancel && reply.status == PRECONDITION_FAILED)
            status = was_absent(asked, id, status);
        else if (reply.status != 200)
            status = tr_reply_refused("timer", &reply);
        else if (told != NULL)
            print_where(asked, id, &reply, told);
        else if (strcmp(method, "GET") == 0)
            print_timer(asked, &reply, i);
        else
            print_id(asked, reply.location);
        tr_reply_free(&reply);
    }
    return status;
}

/* Of an answer that has one number. */
static void print_count(const struct tr_reply *reply, const char *what)
{
    const char *number = strchr(reply->body.text, ':');
    printf("%llu %s\n", number == NULL ? 0 : strtoull(number + 1, NULL, 10), what);
}

/* All timers of the cluster that a filter chooses, in one request. */
static enum tr_exit all_that_match(const struct tr_timer_asked *asked, bool is_cancel)
{
    char target[4096];
    struct tr_writer out = tr_writer_on(target, sizeof target - 1);
    struct tr_reply reply;
    if (asked->operand_count > 0)
        return tr_usage_error("timer", "ids, or a filter such as --tag, not both");
    tr_put_text(&out, is_cancel ? "/timers?" : "/timers/redrive?");
    tr_put_text(&out, asked->is_dry ? "dry-run=yes" : "dry-run=no");
    tr_put_text(&out, asked->is_all ? "&all=yes" : "");
    put_escaped(&out, "&tag=", asked->tag_count > 0 ? asked->tags[0] : NULL);
    put_escaped(&out, "&name-prefix=", asked->prefix);
    if (out.is_full || asked->tag_count > 1)
        return tr_usage_error("timer", "one tag at a time, and a short prefix");
    target[out.size] = '\0';
    struct message message = {is_cancel ? "DELETE" : "POST", target, NULL, {"", 0}, false};
    if (!ask(asked, &message, &reply))
        return TR_EXIT_FAILED;
    enum tr_exit status = reply.status == 200 ? TR_EXIT_OK : tr_reply_refused("timer", &reply);
    if (status == TR_EXIT_OK && asked->is_json)
        fwrite(reply.body.text, 1, reply.body.size, stdout);
    else if (status == TR_EXIT_OK)
        print_count(&reply, asked->is_dry ? "match" : is_cancel ? "cancelled" : "redriven");
    tr_reply_free(&reply);
    return status;
}

static enum tr_exit where(const struct tr_timer_asked *asked)
{
    struct tr_told told;
    if (!tr_told_ask("timer", asked->node, false, &told))
        return TR_EXIT_FAILED;
    enum tr_exit status = each(asked, "GET", "?now=1", &told);
    tr_told_free(&told);
    return status;
}

enum tr_exit tr_command_timer(int argc, char **argv)
{
    static struct tr_timer_asked asked;
    enum tr_exit status;
    if (argc < 2)
        return tr_usage_error("timer",
                              "add, set, get, where, cancel, fire, ls or redrive? 'tryst help "
                              "timer' tells");
    const char *verb = argv[1];
    if (strcmp(verb, "--help") == 0) {
        tr_help_print(stdout, "timer");
        return TR_EXIT_OK;
    }
    struct tr_options options = tr_options_start("timer", timer_options, argc - 1, argv + 1);
    if (!read_asked(&options, &asked, &status))
        return status;
    asked.verb = verb;
    asked.node = tr_node_address_or_default(asked.node);
    if (strcmp(verb, "add") == 0 || strcmp(verb, "set") == 0)
        return add(&asked);
    bool is_bulk = asked.is_all || asked.prefix != NULL || asked.tag_count > 0;
    if (is_bulk && (strcmp(verb, "cancel") == 0 || strcmp(verb, "redrive") == 0))
        return all_that_match(&asked, verb[0] == 'c');
    if (strcmp(verb, "fire") == 0)
        return each(&asked, "POST", "/fire", NULL);
    if (strcmp(verb, "get") == 0)
        return each(&asked, "GET", "?now=1", NULL);
    if (strcmp(verb, "cancel") == 0)
        return each(&asked, "DELETE", "", NULL);
    if (strcmp(verb, "redrive") == 0)
        return each(&asked, "POST", "/redrive", NULL);
    if (strcmp(verb, "where") == 0)
        return where(&asked);
    if (strcmp(verb, "ls") == 0)
        return list(&asked);
    return tr_usage_error("timer", "no verb %s; 'tryst help timer' lists them", verb);
}
