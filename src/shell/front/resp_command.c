/* SPDX-License-Identifier: Apache-2.0 */
/* COMMAND: what clients ask about the commands themselves. */
#include "resp/glob.h"
#include "shell/front/resp_verbs.h"

static bool is_subcommand(const struct tr_resp_verb *verb)
{
    return strchr(verb->name, '|') != NULL;
}

static bool is_of(const struct tr_resp_verb *verb, const struct tr_resp_verb *container)
{
    size_t size = strlen(container->name);
    return strncmp(verb->name, container->name, size) == 0 && verb->name[size] == '|';
}

static const struct tr_resp_verb *all(const struct tr_resp_call *call)
{
    return call->connection->server->verb_list;
}

/* How many subcommands a container has; of none, how many commands there are. */
static size_t count_of(const struct tr_resp_call *call, const struct tr_resp_verb *container)
{
    size_t count = 0;
    for (const struct tr_resp_verb *verb = all(call); verb->name != NULL; verb++)
        count += container != NULL ? is_of(verb, container) : !is_subcommand(verb);
    return count;
}

void tr_resp_command_count(struct tr_resp_call *call)
{
    tr_resp_put_integer(call->out, (int64_t)count_of(call, NULL));
}

/* ---- COMMAND INFO ---- */

static void put_flags(struct tr_resp_out *out, const char *flags)
{
    size_t count = flags[0] != '\0';
    for (const char *at = flags; *at != '\0'; at++)
        count += *at == ' ';
    tr_resp_put_set(out, count);
    while (*flags != '\0') {
        size_t size = strcspn(flags, " ");
        tr_resp_put_raw(out, "+", 1);
        tr_resp_put_raw(out, flags, size);
        tr_resp_put_raw(out, "\r\n", 2);
        flags += size + (flags[size] == ' ');
    }
}

static bool has_flag(const struct tr_resp_verb *verb, const char *flag)
{
    return strstr(verb->flags, flag) != NULL;
}

#define CATEGORIES_MAX 8

/* In Redis's order. */
static size_t categories_of(const struct tr_resp_verb *verb, const char *list[CATEGORIES_MAX])
{
    static const char *const dangerous[] = {"flushall", "flushdb", "info", "keys"};
    bool is_container = verb->run == NULL;
    bool is_admin = has_flag(verb, "admin");
    bool is_dangerous = is_admin;
    size_t count = 0;
    for (size_t i = 0; i < sizeof dangerous / sizeof dangerous[0]; i++)
        is_dangerous |= strcmp(verb->name, dangerous[i]) == 0;
    bool is_about_all = strncmp(verb->name, "flush", 5) == 0 || strcmp(verb->name, "dbsize") == 0;
    if (strcmp(verb->group, "generic") == 0 || is_about_all)
        list[count++] = "@keyspace";
    if (has_flag(verb, "readonly"))
        list[count++] = "@read";
    if (has_flag(verb, "write"))
        list[count++] = "@write";
    if (strcmp(verb->group, "string") == 0)
        list[count++] = "@string";
    if (is_admin)
        list[count++] = "@admin";
    list[count++] = has_flag(verb, "fast") ? "@fast" : "@slow";
    if (is_dangerous)
        list[count++] = "@dangerous";
    bool is_of_connection =
        strcmp(verb->group, "connection") == 0 || strncmp(verb->name, "command", 7) == 0;
    if (is_of_connection && !is_container)
        list[count++] = "@connection";
    return count;
}

static void put_categories(struct tr_resp_out *out, const struct tr_resp_verb *verb)
{
    const char *list[CATEGORIES_MAX];
    size_t count = categories_of(verb, list);
    tr_resp_put_set(out, count);
    for (size_t i = 0; i < count; i++)
        tr_resp_put_simple(out, list[i]);
}

/* Ten parts, of which the last are the subcommands. */
static void put_one(struct tr_resp_out *out, const struct tr_resp_verb *verb)
{
    tr_resp_put_array(out, 10);
    tr_resp_put_text(out, verb->name);
    tr_resp_put_integer(out, verb->arity);
    put_flags(out, verb->flags);
    tr_resp_put_integer(out, verb->first);
    tr_resp_put_integer(out, verb->last);
    tr_resp_put_integer(out, verb->step);
    put_categories(out, verb);
    tr_resp_put_set(out, 0); /* tips */
    tr_resp_put_set(out, 0); /* how keys are found, beyond first, last and step */
}

static void put_info(struct tr_resp_call *call, const struct tr_resp_verb *verb)
{
    struct tr_resp_out *out = call->out;
    put_one(out, verb);
    if (!tr_resp_is_container(verb)) {
        tr_resp_put_set(out, 0);
        return;
    }
    tr_resp_put_array(out, count_of(call, verb));
    for (const struct tr_resp_verb *other = all(call); other->name != NULL; other++) {
        if (!is_of(other, verb))
            continue;
        put_one(out, other);
        tr_resp_put_set(out, 0);
    }
}

/* A verb by its name, "client|id" of a subcommand. */
static const struct tr_resp_verb *find(const struct tr_resp_call *call, struct tr_span name)
{
    const char *bar = memchr(name.text, '|', name.size);
    struct tr_span words[2] = {name};
    if (bar != NULL) {
        words[0].size = (size_t)(bar - name.text);
        words[1] = tr_span_from(name, words[0].size + 1);
    }
    const struct tr_resp_verb *verb =
        tr_resp_find(call->connection->server, words, bar != NULL ? 2 : 1);
    return verb != NULL && bar != NULL && !is_subcommand(verb) ? NULL : verb;
}

void tr_resp_command_info(struct tr_resp_call *call)
{
    if (call->count == 2) {
        tr_resp_command(call);
        return;
    }
    tr_resp_put_array(call->out, call->count - 2);
    for (uint32_t i = 2; i < call->count; i++) {
        const struct tr_resp_verb *verb = find(call, call->arguments[i]);
        if (verb != NULL)
            put_info(call, verb);
        else
            tr_resp_put_null(call->out);
    }
}

void tr_resp_command(struct tr_resp_call *call)
{
    tr_resp_put_array(call->out, count_of(call, NULL));
    for (const struct tr_resp_verb *verb = all(call); verb->name != NULL; verb++) {
        if (!is_subcommand(verb))
            put_info(call, verb);
    }
}

/* ---- COMMAND DOCS ---- */

static void put_docs_head(struct tr_resp_out *out, const struct tr_resp_verb *verb, size_t more)
{
    tr_resp_put_text(out, verb->name);
    tr_resp_put_map(out, 3 + more);
    tr_resp_put_text(out, "summary");
    tr_resp_put_text(out, verb->summary);
    tr_resp_put_text(out, "since");
    tr_resp_put_text(out, verb->since);
    tr_resp_put_text(out, "group");
    tr_resp_put_text(out, verb->group);
}

static void put_docs(struct tr_resp_call *call, const struct tr_resp_verb *verb)
{
    struct tr_resp_out *out = call->out;
    size_t count = tr_resp_is_container(verb) ? count_of(call, verb) : 0;
    put_docs_head(out, verb, count > 0);
    if (count == 0)
        return;
    tr_resp_put_text(out, "subcommands");
    tr_resp_put_map(out, count);
    for (const struct tr_resp_verb *other = all(call); other->name != NULL; other++) {
        if (is_of(other, verb))
            put_docs_head(out, other, 0);
    }
}

void tr_resp_command_docs(struct tr_resp_call *call)
{
    size_t count = 0;
    for (uint32_t i = 2; i < call->count; i++)
        count += find(call, call->arguments[i]) != NULL;
    tr_resp_put_map(call->out, call->count > 2 ? count : count_of(call, NULL));
    for (uint32_t i = 2; i < call->count; i++) {
        const struct tr_resp_verb *verb = find(call, call->arguments[i]);
        if (verb != NULL)
            put_docs(call, verb);
    }
    for (const struct tr_resp_verb *verb = all(call); call->count == 2 && verb->name != NULL;
         verb++) {
        if (!is_subcommand(verb))
            put_docs(call, verb);
    }
}

/* ---- COMMAND LIST and GETKEYS ---- */

/* What COMMAND LIST is to name. */
enum filter { FILTER_NONE, FILTER_PATTERN, FILTER_CATEGORY, FILTER_MODULE, FILTER_BAD };

static enum filter filter_of(const struct tr_resp_call *call)
{
    if (call->count == 2)
        return FILTER_NONE;
    if (call->count != 5 || !tr_resp_is(call->arguments[2], "filterby"))
        return FILTER_BAD;
    struct tr_span by = call->arguments[3];
    return tr_resp_is(by, "pattern")  ? FILTER_PATTERN
           : tr_resp_is(by, "aclcat") ? FILTER_CATEGORY
           : tr_resp_is(by, "module") ? FILTER_MODULE
                                      : FILTER_BAD;
}

static bool is_listed(const struct tr_resp_call *call, enum filter filter,
                      const struct tr_resp_verb *verb)
{
    struct tr_span name = {verb->name, strlen(verb->name)};
    const char *list[CATEGORIES_MAX];
    if (filter == FILTER_PATTERN)
        return tr_glob_matches_nocase(call->arguments[4], name);
    if (filter != FILTER_CATEGORY)
        return filter == FILTER_NONE; /* there are no modules */
    size_t count = categories_of(verb, list);
    for (size_t i = 0; i < count; i++) {
        if (tr_resp_is(call->arguments[4], list[i] + 1))
            return true;
    }
    return false;
}

void tr_resp_command_list(struct tr_resp_call *call)
{
    enum filter filter = filter_of(call);
    size_t count = 0;
    if (filter == FILTER_BAD) {
        tr_resp_put_error(call->out, "ERR syntax error");
        return;
    }
    for (const struct tr_resp_verb *verb = all(call); verb->name != NULL; verb++)
        count += is_listed(call, filter, verb);
    tr_resp_put_array(call->out, count);
    for (const struct tr_resp_verb *verb = all(call); verb->name != NULL; verb++) {
        if (is_listed(call, filter, verb))
            tr_resp_put_text(call->out, verb->name);
    }
}

void tr_resp_command_getkeys(struct tr_resp_call *call)
{
    const struct tr_span *words = call->arguments + 2;
    uint32_t count = call->count - 2;
    const struct tr_resp_verb *verb = tr_resp_find(call->connection->server, words, count);
    if (verb == NULL) {
        tr_resp_put_error(call->out, "ERR Invalid command specified");
        return;
    }
    if (verb->first == 0) {
        tr_resp_put_error(call->out, "ERR The command has no key arguments");
        return;
    }
    bool has_arity =
        verb->arity > 0 ? count == (uint32_t)verb->arity : count >= (uint32_t)-verb->arity;
    if (!has_arity) {
        tr_resp_put_error(call->out, "ERR Invalid number of arguments specified for command");
        return;
    }
    uint32_t last = verb->last >= 0 ? (uint32_t)verb->last : count - (uint32_t)-verb->last;
    tr_resp_put_array(call->out, (last - (uint32_t)verb->first) / (uint32_t)verb->step + 1);
    for (uint32_t i = (uint32_t)verb->first; i <= last; i += (uint32_t)verb->step)
        tr_resp_put_bulk(call->out, words[i]);
}
