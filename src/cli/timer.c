/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst timer add|get|where|cancel|ls|redrive`. */
#include "cli/members.h"
#include "cli/options.h"
#include "wire/json.h"
#include "wire/timer_id.h"

#include <stdlib.h>
#include <string.h>

#define CURSOR_MAX 20

enum option_id {
    OPTION_NODE = 1,
    OPTION_JSON,
    OPTION_IN,
    OPTION_TO,
    OPTION_REPEAT,
    OPTION_COUNT,
    OPTION_TAG,
    OPTION_FACTOR,
    OPTION_KEY,
    OPTION_TYPE,
    OPTION_DEAD,
    OPTION_CLUSTER,
    OPTION_HELP,
};

static const struct tr_option timer_options[] = {
    {"--node", true, OPTION_NODE},
    {"--json", false, OPTION_JSON},
    {"--in", true, OPTION_IN},
    {"--to", true, OPTION_TO},
    {"--repeat-for", true, OPTION_REPEAT},
    {"--count", true, OPTION_COUNT},
    {"--tag", true, OPTION_TAG},
    {"--replicas", true, OPTION_FACTOR},
    {"--key", true, OPTION_KEY},
    {"--content-type", true, OPTION_TYPE},
    {"--dead", false, OPTION_DEAD},
    {"--cluster", false, OPTION_CLUSTER},
    {"--help", false, OPTION_HELP},
    {NULL, false, 0},
};

#define OPERANDS_MAX 1024
#define BODY_MAX     ((size_t)8 << 20)

struct asked {
    const char *node;
    const char *in;
    const char *to;
    const char *repeat;
    const char *count;
    const char *tags[TR_TAGS_MAX];
    unsigned tag_count;
    const char *factor;
    const char *key;
    const char *content_type;
    bool is_json;
    bool is_cluster;
    bool is_dead;
    const char *operands[OPERANDS_MAX];
    unsigned operand_count;
};

/* A duration as people write it (`30`, `1.5s`, `250ms`, `15m`, `2h`, `7d`), as seconds in decimal.
 * False: it is none. */
static bool write_seconds(const char *text, char *out, size_t size)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 0.001}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9')
        return false;
    double value = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) == 0) {
            snprintf(out, size, "%.3f", value * units[i].seconds);
            return true;
        }
    }
    return false;
}

static bool read_asked(struct tr_options *options, struct asked *asked, enum tr_exit *status)
{
    enum tr_options_step step;
    *status = TR_EXIT_USAGE;
    while ((step = tr_options_next(options)) == TR_OPTIONS_ONE) {
        const char *value = options->value;
        switch (options->id) {
        case OPTION_NODE:
            asked->node = value;
            break;
        case OPTION_JSON:
            asked->is_json = true;
            break;
        case OPTION_CLUSTER:
            asked->is_cluster = true;
            break;
        case OPTION_IN:
            asked->in = value;
            break;
        case OPTION_TO:
            asked->to = value;
            break;
        case OPTION_REPEAT:
            asked->repeat = value;
            break;
        case OPTION_COUNT:
            asked->count = value;
            break;
        case OPTION_TAG:
            if (asked->tag_count == TR_TAGS_MAX) {
                tr_usage_error("timer", "more than %d tags", TR_TAGS_MAX);
                return false;
            }
            asked->tags[asked->tag_count++] = value;
            break;
        case OPTION_FACTOR:
            asked->factor = value;
            break;
        case OPTION_KEY:
            asked->key = value;
            break;
        case OPTION_TYPE:
            asked->content_type = value;
            break;
        case OPTION_DEAD:
            asked->is_dead = true;
            break;
        case OPTION_HELP:
            tr_help_print(stdout, "timer");
            *status = TR_EXIT_OK;
            return false;
        default:
            if (asked->operand_count == OPERANDS_MAX) {
                tr_usage_error("timer", "more than %d operands", OPERANDS_MAX);
                return false;
            }
            asked->operands[asked->operand_count++] = value;
        }
    }
    return step == TR_OPTIONS_DONE;
}

/* ---- requests ---- */

static void put_string(struct tr_writer *out, const char *text)
{
    tr_put_json_string(out, (struct tr_span){text, strlen(text)});
}

/* How often it pops. */
static bool put_repeats(struct tr_writer *out, const struct asked *asked)
{
    char seconds[64];
    if (asked->count != NULL && asked->repeat != NULL) {
        tr_usage_error("timer", "--count or --repeat-for, not both");
        return false;
    }
    if (asked->count != NULL) {
        if (asked->count[0] == '\0' || asked->count[strspn(asked->count, "0123456789")] != '\0') {
            tr_usage_error("timer", "--count %s is no number", asked->count);
            return false;
        }
        tr_put_text(out, ",\"count\":");
        tr_put_text(out, asked->count);
    } else if (asked->repeat != NULL && strcmp(asked->repeat, "forever") == 0) {
        tr_put_text(out, ",\"repeat-for\":\"forever\"");
    } else if (asked->repeat != NULL) {
        if (!write_seconds(asked->repeat, seconds, sizeof seconds)) {
            tr_usage_error("timer",
                           "--repeat-for %s is no duration such as 30s, 15m or 2h, nor forever",
                           asked->repeat);
            return false;
        }
        tr_put_text(out, ",\"repeat-for\":");
        tr_put_text(out, seconds);
    }
    return true;
}

static bool put_timer_body(struct tr_writer *out, const struct asked *asked)
{
    char seconds[64];
    if (!write_seconds(asked->in, seconds, sizeof seconds)) {
        tr_usage_error("timer", "--in %s is no duration such as 30s, 15m or 2h", asked->in);
        return false;
    }
    tr_put_text(out, "{\"timing\":{\"interval\":");
    tr_put_text(out, seconds);
    if (!put_repeats(out, asked))
        return false;
    tr_put_text(out, "},\"callback\":{\"http\":{\"uri\":");
    put_string(out, asked->to);
    tr_put_text(out, ",\"opaque\":");
    put_string(out, asked->operand_count > 0 ? asked->operands[0] : "");
    if (asked->content_type != NULL) {
        tr_put_text(out, ",\"content-type\":");
        put_string(out, asked->content_type);
    }
    tr_put_text(out, "}}");
    if (asked->factor != NULL) {
        tr_put_text(out, ",\"reliability\":{\"replication-factor\":");
        tr_put_text(out, asked->factor);
        tr_put_text(out, "}");
    }
    for (unsigned i = 0; i < asked->tag_count; i++) {
        tr_put_text(out, i == 0 ? ",\"statistics\":{\"tag-info\":[{\"type\":" : ",{\"type\":");
        put_string(out, asked->tags[i]);
        tr_put_text(out, i + 1 == asked->tag_count ? "}]}" : "}");
    }
    tr_put_text(out, "}");
    return true;
}

struct message {
    const char *method;
    const char *target;
    const char *key;
    struct tr_span body;
};

static bool ask(const struct asked *asked, const struct message *message, struct tr_reply *reply)
{
    const char *address = tr_node_address_or_default(asked->node);
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
    tr_put_text(&out, "Content-Length: ");
    tr_put_decimal(&out, message->body.size);
    tr_put_text(&out, "\r\n\r\n");
    tr_put_bytes(&out, message->body.text, message->body.size);
    bool is_answered = tr_node_ask("timer", address, bytes, out.size, reply);
    free(bytes);
    return is_answered;
}

static void print_id(const struct asked *asked, const char *location)
{
    const char *id = strrchr(location, '/');
    id = id == NULL ? location : id + 1;
    if (asked->is_json)
        printf("{\"id\":\"%s\"}\n", id);
    else
        printf("%s\n", id);
}

static enum tr_exit add(const struct asked *asked)
{
    if (asked->in == NULL || asked->to == NULL)
        return tr_usage_error("timer", "add needs --in DURATION and --to URI");
    if (asked->operand_count > 1)
        return tr_usage_error("timer", "add takes one text; quote it if it has spaces");
    if (asked->key != NULL && strcspn(asked->key, "\r\n") != strlen(asked->key))
        return tr_usage_error("timer", "--key must be one line");
    char *body = tr_allocate(BODY_MAX, 1);
    struct tr_writer out = tr_writer_on(body, BODY_MAX);
    enum tr_exit status = TR_EXIT_USAGE;
    struct tr_reply reply = {0};
    if (put_timer_body(&out, asked)) {
        struct message message = {"POST", "/timers", asked->key, {body, out.size}};
        if (out.is_full)
            status = tr_usage_error("timer", "the text is too long");
        else if (!ask(asked, &message, &reply))
            status = TR_EXIT_FAILED;
        else if (reply.status != 200)
            status = tr_reply_refused("timer", &reply);
        else
            status = TR_EXIT_OK;
        if (status == TR_EXIT_OK)
            print_id(asked, reply.location);
    }
    tr_reply_free(&reply);
    free(body);
    return status;
}

/* ---- showing ---- */

/* A timer of the node's JSON, as far as people want to see it. */
struct shown {
    struct tr_span id;
    struct tr_span state;
    struct tr_span uri;
    struct tr_span next;
    struct tr_span sequence;
};

/* Reads the members of a timer object, whose opening brace was read. */
static void read_timer(struct tr_json *json, struct shown *shown)
{
    struct tr_span last = {0};
    for (unsigned depth = json->depth; json->depth >= depth;) {
        enum tr_json_token token = tr_json_next(json);
        if (token == TR_JSON_BAD || token == TR_JSON_END)
            return;
        if (token == TR_JSON_KEY) {
            last = json->text;
            continue;
        }
        if (tr_span_equals(last, TR_SPAN("id")))
            shown->id = json->text;
        else if (tr_span_equals(last, TR_SPAN("state")))
            shown->state = json->text;
        else if (tr_span_equals(last, TR_SPAN("uri")))
            shown->uri = json->text;
        else if (tr_span_equals(last, TR_SPAN("next-pop")) ||
                 tr_span_equals(last, TR_SPAN("forgotten-at")))
            shown->next = json->text;
        else if (tr_span_equals(last, TR_SPAN("sequence-number")))
            shown->sequence = json->text;
        last = (struct tr_span){0};
    }
}

static void print_line(const struct shown *shown)
{
    printf("%.*s  %-8.*s  %.*s  %3.*s  %.*s\n", (int)shown->id.size, shown->id.text,
           (int)shown->state.size, shown->state.text, (int)shown->next.size, shown->next.text,
           (int)shown->sequence.size, shown->sequence.text, (int)shown->uri.size, shown->uri.text);
}

/* Prints a page's timers and keeps its cursor; false: it was the last. */
static bool print_page(const struct asked *asked, struct tr_reply *reply,
                       char cursor[CURSOR_MAX + 1], bool is_first)
{
    struct tr_json json;
    char *body = (char *)(uintptr_t)reply->body.text;
    cursor[0] = '\0';
    if (asked->is_json) {
        fwrite(body, 1, reply->body.size, stdout);
    } else if (is_first) {
        printf("ID                                   STATE     %-24s  SEQ  URI\n",
               asked->is_dead ? "KEPT UNTIL" : "NEXT POP");
    }
    tr_json_init(&json, body, reply->body.size);
    enum tr_json_token token = tr_json_next(&json);
    while (token != TR_JSON_END && token != TR_JSON_BAD) {
        if (token == TR_JSON_OBJECT && json.depth == 3) {
            struct shown shown = {.next = TR_SPAN("-")};
            read_timer(&json, &shown);
            if (!asked->is_json)
                print_line(&shown);
        } else if (token == TR_JSON_KEY && tr_span_equals(json.text, TR_SPAN("cursor")) &&
                   tr_json_next(&json) == TR_JSON_STRING && json.text.size <= CURSOR_MAX) {
            memcpy(cursor, json.text.text, json.text.size);
            cursor[json.text.size] = '\0';
        }
        token = tr_json_next(&json);
    }
    return cursor[0] != '\0';
}

static enum tr_exit list(const struct asked *asked)
{
    char cursor[CURSOR_MAX + 1] = "";
    bool has_more = true;
    if (asked->operand_count > 0)
        return tr_usage_error("timer", "ls takes no operand such as %s", asked->operands[0]);
    for (bool is_first = true; has_more; is_first = false) {
        char target[1024];
        struct tr_reply reply;
        snprintf(target, sizeof target, "/timers?limit=1000%s%s%s%s%s%s",
                 asked->is_cluster ? "&scope=cluster" : "", asked->is_dead ? "&state=dead" : "",
                 asked->tag_count > 0 ? "&tag=" : "", asked->tag_count > 0 ? asked->tags[0] : "",
                 cursor[0] != '\0' ? "&cursor=" : "", cursor);
        struct message message = {"GET", target, NULL, {"", 0}};
        if (!ask(asked, &message, &reply))
            return TR_EXIT_FAILED;
        if (reply.status != 200) {
            enum tr_exit status = tr_reply_refused("timer", &reply);
            tr_reply_free(&reply);
            return status;
        }
        has_more = print_page(asked, &reply, cursor, is_first);
        tr_reply_free(&reply);
    }
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

static void print_where(const struct asked *asked, const char *id, const struct tr_reply *reply,
                        const struct tr_told *told)
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

/* One request for each id: GET shows what came, the others its Location. */
static enum tr_exit each(const struct asked *asked, const char *method, const char *suffix,
                         const struct tr_told *told)
{
    enum tr_exit status = TR_EXIT_OK;
    if (asked->operand_count == 0)
        return tr_usage_error("timer", "which timer? give its id");
    for (unsigned i = 0; i < asked->operand_count; i++) {
        char target[256];
        struct tr_reply reply;
        struct tr_timer_text text;
        const char *id = asked->operands[i];
        id = strncmp(id, "/timers/", 8) == 0 ? id + 8 : id;
        if (!tr_timer_text_parse((struct tr_span){id, strlen(id)}, &text) || strlen(id) > 200) {
            status = tr_usage_error("timer", "'%.100s' is no timer's id", id);
            continue;
        }
        snprintf(target, sizeof target, "/timers/%s%s", id, suffix);
        struct message message = {method, target, NULL, {"", 0}};
        if (!ask(asked, &message, &reply))
            return TR_EXIT_FAILED;
        if (reply.status != 200)
            status = tr_reply_refused("timer", &reply);
        else if (told != NULL)
            print_where(asked, id, &reply, told);
        else if (strcmp(method, "GET") == 0)
            fwrite(reply.body.text, 1, reply.body.size, stdout);
        else
            print_id(asked, reply.location);
        tr_reply_free(&reply);
    }
    return status;
}

static enum tr_exit where(const struct asked *asked)
{
    struct tr_told told;
    if (!tr_told_ask("timer", tr_node_address_or_default(asked->node), false, &told))
        return TR_EXIT_FAILED;
    enum tr_exit status = each(asked, "GET", "", &told);
    tr_told_free(&told);
    return status;
}

enum tr_exit tr_command_timer(int argc, char **argv)
{
    static struct asked asked;
    enum tr_exit status;
    if (argc < 2)
        return tr_usage_error("timer",
                              "add, get, where, cancel, ls or redrive? 'tryst help timer' tells");
    const char *verb = argv[1];
    if (strcmp(verb, "--help") == 0) {
        tr_help_print(stdout, "timer");
        return TR_EXIT_OK;
    }
    struct tr_options options = tr_options_start("timer", timer_options, argc - 1, argv + 1);
    if (!read_asked(&options, &asked, &status))
        return status;
    if (strcmp(verb, "add") == 0)
        return add(&asked);
    if (strcmp(verb, "get") == 0)
        return each(&asked, "GET", "", NULL);
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
