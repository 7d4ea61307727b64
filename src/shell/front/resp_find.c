/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/resp_find.h"

#include "base/hash.h"
#include "shell/front/allow.h"
#include "shell/front/resp_wait.h"

#include <stdio.h>
#include <string.h>

#define LOADING       "loading" /* the flag of commands that need no keys */
#define NAME_MAX_SIZE 32        /* of a verb, with its container */
#define ECHO_MAX      128       /* bytes of what a client sent that an error repeats */

/* ---- finding one ---- */

static uint32_t slot_of(const char *name, size_t size)
{
    return tr_hash_murmur3(name, size, 0) % TR_RESP_SLOTS;
}

void tr_resp_index(struct tr_server *server, const struct tr_resp_verb *list)
{
    server->verb_list = list;
    for (const struct tr_resp_verb *verb = list; verb->name != NULL; verb++) {
        uint32_t slot = slot_of(verb->name, strlen(verb->name));
        while (server->verbs[slot] != NULL)
            slot = (slot + 1) % TR_RESP_SLOTS;
        server->verbs[slot] = verb;
        server->verb_traits[verb - list] = (struct tr_resp_traits){
            .name_size = (uint8_t)strlen(verb->name),
            .is_container = tr_resp_is_container(verb),
            .is_about_keys = verb->run != NULL && (strstr(verb->flags, "readonly") != NULL ||
                                                   strstr(verb->flags, "write") != NULL),
        };
    }
}

bool tr_resp_is_container(const struct tr_resp_verb *verb)
{
    return verb->run == NULL || strcmp(verb->name, "command") == 0 ||
           strcmp(verb->name, "keyspace") == 0;
}

const struct tr_resp_traits *tr_resp_traits(const struct tr_server *server,
                                            const struct tr_resp_verb *verb)
{
    return &server->verb_traits[verb - server->verb_list];
}

/* A name in small letters; NULL: there is none of that name. */
static const struct tr_resp_verb *find(const struct tr_server *server, const char *name,
                                       size_t size)
{
    for (uint32_t slot = slot_of(name, size); server->verbs[slot] != NULL;
         slot = (slot + 1) % TR_RESP_SLOTS) {
        const struct tr_resp_verb *verb = server->verbs[slot];
        if (tr_resp_traits(server, verb)->name_size == size && memcmp(verb->name, name, size) == 0)
            return verb;
    }
    return NULL;
}

/* Appends a word in small letters; false: it is longer than any name. */
static bool spell(char name[NAME_MAX_SIZE], size_t *size, struct tr_span word)
{
    if (word.size > NAME_MAX_SIZE - *size)
        return false;
    for (size_t i = 0; i < word.size; i++) {
        char letter = word.text[i];
        name[(*size)++] = (char)(letter >= 'A' && letter <= 'Z' ? letter + 32 : letter);
    }
    return true;
}

const struct tr_resp_verb *tr_resp_find(const struct tr_server *server, const struct tr_span *words,
                                        uint32_t count)
{
    char name[NAME_MAX_SIZE];
    size_t size = 0;
    if (memchr(words[0].text, '|', words[0].size) != NULL || !spell(name, &size, words[0]))
        return NULL; /* a subcommand is two words */
    const struct tr_resp_verb *verb = find(server, name, size);
    bool is_container = verb != NULL && tr_resp_traits(server, verb)->is_container;
    if (!is_container || count < 2 || size == NAME_MAX_SIZE)
        return verb;
    name[size++] = '|';
    return spell(name, &size, words[1]) ? find(server, name, size) : NULL;
}

/* ---- carrying one out ---- */

static int shown(struct tr_span text, size_t most)
{
    return (int)(text.size < most ? text.size : most);
}

/* What is repeated ends where a zero byte is, as it does in Redis. */
static void refuse_unknown(struct tr_resp_call *call)
{
    char text[ECHO_MAX * 2];
    size_t size = 0;
    for (uint32_t i = 1; i < call->count && size < ECHO_MAX; i++)
        size +=
            (size_t)snprintf(text + size, sizeof text - size, "'%.*s' ",
                             shown(call->arguments[i], ECHO_MAX - size), call->arguments[i].text);
    tr_resp_put_error_about(call->out, "ERR unknown command '%.*s', with args beginning with: %s",
                            shown(call->arguments[0], ECHO_MAX), call->arguments[0].text,
                            size > 0 ? text : "");
}

static void refuse_subcommand(struct tr_resp_call *call)
{
    char name[NAME_MAX_SIZE];
    int size = shown(call->arguments[0], NAME_MAX_SIZE);
    for (int i = 0; i < size; i++) {
        char letter = call->arguments[0].text[i];
        name[i] = (char)(letter >= 'a' && letter <= 'z' ? letter - 32 : letter);
    }
    tr_resp_put_error_about(call->out, "ERR unknown subcommand '%.*s'. Try %.*s HELP.",
                            shown(call->arguments[1], ECHO_MAX), call->arguments[1].text, size,
                            name);
}

static bool has_arity(const struct tr_resp_verb *verb, uint32_t count)
{
    return verb->arity > 0 ? count == (uint32_t)verb->arity : count >= (uint32_t)-verb->arity;
}

/* Whether its keys are short enough. */
static bool has_good_keys(const struct tr_resp_call *call)
{
    const struct tr_resp_verb *verb = call->verb;
    uint32_t last = verb->last >= 0 ? (uint32_t)verb->last : call->count - (uint32_t)-verb->last;
    for (uint32_t i = (uint32_t)verb->first; verb->first > 0 && i <= last && i < call->count;
         i += (uint32_t)verb->step) {
        if (call->arguments[i].size > TR_KEY_MAX)
            return false;
    }
    return true;
}

/* Commands that write, and tell what was there before. */
static bool tells_value(const struct tr_resp_call *call)
{
    static const char *const names[] = {"getset", "getdel", "getex"};
    bool tells = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        tells |= strcmp(call->verb->name, names[i]) == 0;
    for (uint32_t i = 3; i < call->count && strcmp(call->verb->name, "set") == 0; i++)
        tells |= tr_resp_is(call->arguments[i], "get");
    return tells;
}

/* What is held against it by the token that was shown; NULL: nothing. One that waits for other
 * nodes is run again, and was allowed. */
static const char *find_refusal(const struct tr_resp_call *call)
{
    const struct tr_resp_verb *verb = call->verb;
    uint32_t first = (uint32_t)verb->first;
    uint32_t last = verb->last >= 0 ? (uint32_t)verb->last : call->count - (uint32_t)-verb->last;
    bool has_keys = verb->first > 0 && first < call->count && last >= first;
    bool shows_some = strcmp(verb->name, "scan") == 0 || strcmp(verb->name, "keys") == 0;
    if (!call->daemon->auth.is_on || (call->wait != NULL && call->wait->asked_count > 0))
        return NULL;
    last = last < call->count ? last : call->count - 1;
    if (tells_value(call) && call->connection->rights != NULL && !call->connection->rights->reads)
        return "NOPERM this token may not read, and this tells what was there";
    return tr_allow_command(call->connection, verb->flags,
                            has_keys ? &call->arguments[first] : NULL,
                            has_keys ? last - first + 1 : 0, (uint32_t)(has_keys ? verb->step : 1),
                            !has_keys && !shows_some);
}

/* Lines of HTTP among commands: a page in somebody's browser, or a server that was talked into it,
 * sends commands in the body of a request. */
static bool is_smuggled(struct tr_span name)
{
    return tr_resp_is(name, "post") || tr_resp_is(name, "host:");
}

void tr_resp_call(struct tr_resp_call *call)
{
    struct tr_server *server = call->connection->server;
    const char *refusal = NULL;
    if (call->verb == NULL)
        call->verb = tr_resp_find(server, call->arguments, call->count);
    if (call->verb == NULL && is_smuggled(call->arguments[0])) {
        call->closes = true;
        return;
    }
    if (call->verb == NULL) {
        const struct tr_resp_verb *container = tr_resp_find(server, call->arguments, 1);
        if (container != NULL)
            refuse_subcommand(call);
        else
            refuse_unknown(call);
        return;
    }
    call->session->last = call->verb;
    if (call->verb->run == NULL || !has_arity(call->verb, call->count))
        tr_resp_put_error_about(call->out, "ERR wrong number of arguments for '%s' command",
                                call->verb->name);
    else if (!has_good_keys(call))
        tr_resp_put_error(call->out, "ERR a key is longer than 65536 bytes");
    else if (!tr_node_is_replayed(call->daemon->node) && strstr(call->verb->flags, LOADING) == NULL)
        tr_resp_put_error(call->out, "LOADING Redis is loading the dataset in memory");
    else if ((refusal = find_refusal(call)) != NULL)
        tr_resp_put_error(call->out, refusal);
    else
        call->verb->run(call);
}

void tr_resp_put_counts(struct tr_writer *out, const struct tr_server *server)
{
    char label[64];
    tr_metrics_head(out, "tryst_commands_total", "counter", "Commands of Redis clients, by kind.");
    for (const struct tr_resp_verb *verb = server->verb_list; verb->name != NULL; verb++) {
        uint64_t count = server->verb_counts[verb - server->verb_list];
        if (count == 0)
            continue;
        snprintf(label, sizeof label, "command=\"%s\"", verb->name);
        tr_metrics_sample(out, "tryst_commands_total", label, count);
    }
}
