/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on keys, in Redis's words. */
#include "shell/front/resp_ask.h"
#include "shell/front/resp_expire.h"

#include <stdio.h>

/* ---- SET and its kin ---- */

/* The options of SET. False: they are none, which is said. */
static bool read_set_options(struct tr_resp_call *call, struct tr_key_command *command)
{
    enum tr_resp_unit unit = TR_UNIT_NONE;
    struct tr_span time = {NULL, 0};
    struct tr_span callback = {NULL, 0};
    for (uint32_t i = 3; i < call->count; i++) {
        struct tr_span word = call->arguments[i];
        bool has_next = i + 1 < call->count;
        enum tr_resp_unit this = tr_resp_unit_of(word);
        bool may_be = command->only_if == TR_IF_ANY;
        if (tr_resp_is(word, "nx") && (may_be || command->only_if == TR_IF_ABSENT)) {
            command->only_if = TR_IF_ABSENT;
        } else if (tr_resp_is(word, "xx") && (may_be || command->only_if == TR_IF_PRESENT)) {
            command->only_if = TR_IF_PRESENT;
        } else if (tr_resp_is(word, "older") && has_next && may_be) {
            int64_t version = 0;
            if (!tr_resp_get_integer(call, call->arguments[++i], &version))
                return false;
            command->only_if = TR_IF_OLDER;
            command->version = version > 0 ? (uint64_t)version : 0;
        } else if (tr_resp_is(word, "get")) {
            command->wants_old = true;
        } else if (tr_resp_is(word, "keepttl") && unit == TR_UNIT_NONE) {
            command->expiry = TR_EXPIRY_KEEP;
        } else if (this != TR_UNIT_NONE && (unit == TR_UNIT_NONE || unit == this) && has_next &&
                   command->expiry != TR_EXPIRY_KEEP) {
            unit = this;
            time = call->arguments[++i];
        } else if (tr_resp_is(word, "callback") && has_next) {
            callback = call->arguments[++i];
        } else {
            tr_resp_put_error(call->out, TR_RESP_SYNTAX);
            return false;
        }
    }
    if (callback.text != NULL && unit == TR_UNIT_NONE) {
        tr_resp_put_error(call->out, "ERR CALLBACK needs EX, PX, EXAT or PXAT");
        return false;
    }
    return (unit == TR_UNIT_NONE || tr_resp_read_expiry(call, unit, time, command)) &&
           (callback.text == NULL || tr_resp_read_callback(call, callback, command));
}

void tr_resp_set(struct tr_resp_call *call)
{
    struct tr_key_command command = {
        .verb = TR_KEY_SET, .key = call->arguments[1], .value = call->arguments[2]};
    struct tr_key_result result;
    if (!read_set_options(call, &command) || !tr_resp_ask(call, &command, &result))
        return;
    if (command.wants_old)
        tr_resp_put_value(call, &result);
    else if (result.outcome == TR_KEY_DONE)
        tr_resp_put_raw(call->out, "+OK\r\n", 5);
    else
        tr_resp_put_null(call->out);
}

void tr_resp_setnx(struct tr_resp_call *call)
{
    struct tr_key_command command = {.verb = TR_KEY_SET,
                                     .only_if = TR_IF_ABSENT,
                                     .key = call->arguments[1],
                                     .value = call->arguments[2]};
    struct tr_key_result result;
    if (tr_resp_ask(call, &command, &result))
        tr_resp_put_integer(call->out, result.outcome == TR_KEY_DONE);
}

static void set_for(struct tr_resp_call *call, enum tr_resp_unit unit)
{
    struct tr_key_command command = {
        .verb = TR_KEY_SET, .key = call->arguments[1], .value = call->arguments[3]};
    struct tr_key_result result;
    if (tr_resp_read_expiry(call, unit, call->arguments[2], &command) &&
        tr_resp_ask(call, &command, &result))
        tr_resp_put_simple(call->out, "OK");
}

void tr_resp_setex(struct tr_resp_call *call)
{
    set_for(call, TR_UNIT_S);
}

void tr_resp_psetex(struct tr_resp_call *call)
{
    set_for(call, TR_UNIT_MS);
}

void tr_resp_getset(struct tr_resp_call *call)
{
    struct tr_key_command command = {.verb = TR_KEY_SET,
                                     .wants_old = true,
                                     .key = call->arguments[1],
                                     .value = call->arguments[2]};
    struct tr_key_result result;
    if (tr_resp_ask(call, &command, &result))
        tr_resp_put_value(call, &result);
}

/* ---- reading ---- */

void tr_resp_get(struct tr_resp_call *call)
{
    struct tr_key_result result;
    if (tr_resp_read_key(call, call->arguments[1], &result))
        tr_resp_put_value(call, &result);
}

/* All that there is of a key, as a backup keeps it. */
void tr_resp_keyspace_read(struct tr_resp_call *call)
{
    const struct tr_node *node = call->daemon->node;
    struct tr_key_result result;
    if (!tr_resp_read_key(call, call->arguments[2], &result))
        return;
    if (!result.was_there) {
        tr_resp_put_null(call->out);
        return;
    }
    bool expires = result.expires_ms != TR_NEVER;
    tr_resp_put_array(call->out, 4);
    tr_resp_put_bulk(call->out, result.value);
    tr_resp_put_integer(call->out, expires ? (int64_t)tr_node_wall(node, result.expires_ms) : -1);
    if (result.callback.size > 0)
        tr_resp_put_bulk(call->out, result.callback);
    else
        tr_resp_put_null(call->out);
    tr_resp_put_integer(call->out, (int64_t)result.version);
}

void tr_resp_getdel(struct tr_resp_call *call)
{
    struct tr_key_command command = {
        .verb = TR_KEY_DELETE, .wants_old = true, .key = call->arguments[1]};
    struct tr_key_result result;
    if (tr_resp_ask(call, &command, &result))
        tr_resp_put_value(call, &result);
}

/* The options of GETEX: one time, or PERSIST. */
static bool read_getex_options(struct tr_resp_call *call, struct tr_key_command *command,
                               enum tr_resp_unit *unit_out, struct tr_span *time_out)
{
    enum tr_resp_unit unit = TR_UNIT_NONE;
    struct tr_span time = {NULL, 0};
    bool persists = false;
    for (uint32_t i = 2; i < call->count; i++) {
        enum tr_resp_unit this = tr_resp_unit_of(call->arguments[i]);
        bool is_time = this != TR_UNIT_NONE && (unit == TR_UNIT_NONE || unit == this) &&
                       !persists && i + 1 < call->count;
        if (is_time) {
            unit = this;
            time = call->arguments[++i];
        } else if (tr_resp_is(call->arguments[i], "persist") && unit == TR_UNIT_NONE) {
            persists = true;
        } else {
            tr_resp_put_error(call->out, TR_RESP_SYNTAX);
            return false;
        }
    }
    command->verb = persists ? TR_KEY_PERSIST : unit != TR_UNIT_NONE ? TR_KEY_EXPIRE : TR_KEY_READ;
    *unit_out = unit;
    *time_out = time;
    return true;
}

void tr_resp_getex(struct tr_resp_call *call)
{
    struct tr_key_command command = {.key = call->arguments[1]};
    struct tr_key_result result;
    enum tr_resp_unit unit = TR_UNIT_NONE;
    struct tr_span time = {NULL, 0};
    if (!read_getex_options(call, &command, &unit, &time) ||
        !tr_resp_read_key(call, call->arguments[1], &result))
        return;
    if (result.was_there && unit != TR_UNIT_NONE &&
        !tr_resp_read_expiry(call, unit, time, &command))
        return;
    /* What is there is put out first: a time that is past deletes it. */
    size_t before = call->out->size;
    tr_resp_put_value(call, &result);
    if (command.verb == TR_KEY_READ || !result.was_there)
        return;
    size_t after = call->out->size;
    if (tr_resp_ask(call, &command, &result))
        return;
    if (call->is_again || call->is_waiting) {
        call->out->size = before;
        return;
    }
    memmove(call->out->bytes + before, call->out->bytes + after, call->out->size - after);
    call->out->size -= after - before; /* the refusal alone */
}

void tr_resp_getrange(struct tr_resp_call *call)
{
    struct tr_key_result result;
    int64_t start = 0;
    int64_t end = 0;
    if (!tr_resp_get_integer(call, call->arguments[2], &start) ||
        !tr_resp_get_integer(call, call->arguments[3], &end) ||
        !tr_resp_read_key(call, call->arguments[1], &result))
        return;
    int64_t size = result.was_there ? (int64_t)result.value.size : 0;
    bool is_empty = size == 0 || (start < 0 && end < 0 && start > end);
    start = start < 0 ? start + size : start;
    end = end < 0 ? end + size : end;
    start = start < 0 ? 0 : start;
    end = end < 0 ? 0 : end;
    end = end >= size ? size - 1 : end;
    if (is_empty || start > end)
        tr_resp_put_bulk(call->out, (struct tr_span){"", 0});
    else
        tr_resp_put_bulk(call->out,
                         (struct tr_span){result.value.text + start, (size_t)(end - start) + 1});
}

void tr_resp_strlen(struct tr_resp_call *call)
{
    struct tr_key_result result;
    if (tr_resp_read_key(call, call->arguments[1], &result))
        tr_resp_put_integer(call->out, result.was_there ? (int64_t)result.value.size : 0);
}

void tr_resp_type(struct tr_resp_call *call)
{
    struct tr_key_result result;
    if (tr_resp_read_key(call, call->arguments[1], &result))
        tr_resp_put_simple(call->out, result.was_there ? "string" : "none");
}

void tr_resp_mget(struct tr_resp_call *call)
{
    size_t before = call->out->size;
    tr_resp_put_array(call->out, call->count - 1);
    for (uint32_t i = 1; i < call->count && !call->out->is_too_large; i++) {
        struct tr_key_result result;
        size_t at = call->out->size;
        if (tr_resp_read_key(call, call->arguments[i], &result)) {
            tr_resp_put_value(call, &result);
        } else if (!call->is_waiting) { /* one refusal for all */
            memmove(call->out->bytes + before, call->out->bytes + at, call->out->size - at);
            call->out->size -= at - before;
            return;
        }
    }
}

void tr_resp_exists(struct tr_resp_call *call)
{
    int64_t sum = 0;
    for (uint32_t i = 1; i < call->count; i++) {
        struct tr_key_result result;
        if (tr_resp_read_key(call, call->arguments[i], &result))
            sum += result.was_there;
        else if (!call->is_waiting)
            return;
    }
    tr_resp_put_integer(call->out, sum);
}

/* ---- several keys ---- */

/* When the log has no room the rest waits for it, and what is done is done. */
void tr_resp_del(struct tr_resp_call *call)
{
    struct tr_resp_session *session = call->session;
    for (uint32_t i = 1 + session->at; i < call->count; i++) {
        struct tr_key_command command = {.verb = TR_KEY_DELETE, .key = call->arguments[i]};
        struct tr_key_result result;
        if (!tr_resp_ask(call, &command, &result) && !call->is_waiting)
            return;
        session->at++;
        session->sum += result.was_there;
    }
    tr_resp_put_integer(call->out, session->sum);
}

static bool has_pairs(struct tr_resp_call *call)
{
    if (call->count % 2 == 1)
        return true;
    tr_resp_put_error_about(call->out, "ERR wrong number of arguments for '%s' command",
                            call->verb->name);
    return false;
}

/* The refusal that was put out last came when some were set already. */
static void say_partly(struct tr_resp_call *call)
{
    char text[64];
    int size = snprintf(text, sizeof text, " (%u of %u keys are set)\r\n", call->session->at,
                        call->count / 2);
    if (call->out->size < 2 || size <= 0)
        return;
    call->out->size -= 2;
    tr_resp_put_raw(call->out, text, (size_t)size);
}

/* False: one was refused, which is said, or waits for the log. */
static bool set_each(struct tr_resp_call *call)
{
    struct tr_resp_session *session = call->session;
    for (uint32_t i = 1 + 2 * session->at; i < call->count; i += 2) {
        struct tr_key_command command = {
            .verb = TR_KEY_SET, .key = call->arguments[i], .value = call->arguments[i + 1]};
        struct tr_key_result result;
        if (!tr_resp_ask(call, &command, &result) && !call->is_waiting) {
            if (!call->is_again && session->at > 0)
                say_partly(call);
            return false;
        }
        session->at++;
    }
    return true;
}

static void set_all(struct tr_resp_call *call)
{
    struct tr_node *node = call->daemon->node;
    bool has_memory = call->wait == NULL && tr_node_begin_together(node);
    if (!has_memory && call->wait == NULL && call->session->at == 0) {
        tr_resp_put_error(call->out, TR_RESP_OOM);
        return;
    }
    bool is_done = set_each(call);
    if (has_memory)
        tr_node_end_together(node);
    if (!is_done)
        return;
    if (call->verb->run == tr_resp_msetnx)
        tr_resp_put_integer(call->out, 1);
    else
        tr_resp_put_simple(call->out, "OK");
}

/* Whether they may be written: all in one batch of the log, so that after a crash there are all or
 * none; or as they come, if they are too many for one. */
static bool may_set_all(struct tr_resp_call *call)
{
    size_t size = 0;
    if (call->session->at > 0)
        return true;
    for (uint32_t i = 1; i < call->count; i++) {
        bool is_value = i % 2 == 0;
        if (is_value && call->arguments[i].size > call->daemon->config.value_max) {
            tr_resp_put_error(call->out, TR_RESP_TOO_LONG);
            return false;
        }
        size += call->arguments[i].size;
    }
    if (call->wait != NULL)
        return true;
    tr_node_expire_keys(call->daemon->node);
    call->is_again = tr_node_key_room(call->daemon->node, size, call->count / 2) == TR_ROOM_LATER;
    return !call->is_again;
}

void tr_resp_mset(struct tr_resp_call *call)
{
    if (has_pairs(call) && may_set_all(call))
        set_all(call);
}

void tr_resp_msetnx(struct tr_resp_call *call)
{
    struct tr_key_result result;
    if (!has_pairs(call) || !tr_resp_is_on_one_node(call))
        return;
    for (uint32_t i = 1; i < call->count && call->session->at == 0; i += 2) {
        if (!tr_resp_read_key(call, call->arguments[i], &result))
            return;
        if (result.was_there) {
            tr_resp_put_integer(call->out, 0);
            return;
        }
    }
    if (may_set_all(call))
        set_all(call);
}

/* ---- reading and writing ---- */

static void add(struct tr_resp_call *call, int64_t by)
{
    struct tr_key_command command = {
        .verb = TR_KEY_ADD, .expiry = TR_EXPIRY_KEEP, .key = call->arguments[1], .number = by};
    struct tr_key_result result;
    if (!tr_resp_ask(call, &command, &result))
        return;
    if (result.outcome == TR_KEY_NO_INTEGER)
        tr_resp_put_error(call->out, TR_RESP_NOT_INTEGER);
    else if (result.outcome == TR_KEY_OVERFLOW)
        tr_resp_put_error(call->out, "ERR increment or decrement would overflow");
    else
        tr_resp_put_integer(call->out, result.number);
}

void tr_resp_incr(struct tr_resp_call *call)
{
    add(call, 1);
}

void tr_resp_decr(struct tr_resp_call *call)
{
    add(call, -1);
}

void tr_resp_incrby(struct tr_resp_call *call)
{
    int64_t by = 0;
    if (tr_resp_get_integer(call, call->arguments[2], &by))
        add(call, by);
}

void tr_resp_decrby(struct tr_resp_call *call)
{
    int64_t by = 0;
    if (!tr_resp_get_integer(call, call->arguments[2], &by))
        return;
    if (by == INT64_MIN)
        tr_resp_put_error(call->out, "ERR decrement would overflow");
    else
        add(call, -by);
}

void tr_resp_append(struct tr_resp_call *call)
{
    struct tr_key_command command = {.verb = TR_KEY_APPEND,
                                     .expiry = TR_EXPIRY_KEEP,
                                     .key = call->arguments[1],
                                     .value = call->arguments[2]};
    struct tr_key_result result;
    if (tr_resp_ask(call, &command, &result))
        tr_resp_put_integer(call->out, result.number);
}

void tr_resp_setrange(struct tr_resp_call *call)
{
    struct tr_key_command command = {.verb = TR_KEY_PATCH,
                                     .expiry = TR_EXPIRY_KEEP,
                                     .key = call->arguments[1],
                                     .value = call->arguments[3]};
    struct tr_key_result result;
    if (!tr_resp_get_integer(call, call->arguments[2], &command.number))
        return;
    if (command.number < 0)
        tr_resp_put_error(call->out, "ERR offset is out of range");
    else if (tr_resp_ask(call, &command, &result))
        tr_resp_put_integer(call->out, result.number);
}
