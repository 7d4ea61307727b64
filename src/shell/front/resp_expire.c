/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/resp_expire.h"

#include "shell/front/resp_ask.h"
#include "shell/peer/neighbours.h"
#include "wire/uri.h"

/* ---- when a key expires ---- */

static void put_bad_expiry(struct tr_resp_call *call)
{
    tr_resp_put_error_about(call->out, "ERR invalid expire time in '%s' command", call->verb->name);
}

/* A time, which may be past; 0 is the least. False: it is no time, which is said. */
static bool to_steady(struct tr_resp_call *call, enum tr_resp_unit unit, int64_t number,
                      tr_steady_ms *expires_ms)
{
    const struct tr_node *node = call->daemon->node;
    int64_t now_ms = (int64_t)tr_node_wall(node, tr_node_steady(node));
    bool is_relative = unit == TR_UNIT_S || unit == TR_UNIT_MS;
    if (unit == TR_UNIT_S || unit == TR_UNIT_AT_S) {
        if (number > INT64_MAX / 1000 || number < INT64_MIN / 1000) {
            put_bad_expiry(call);
            return false;
        }
        number *= 1000;
    }
    if (is_relative && number > INT64_MAX - now_ms) {
        put_bad_expiry(call);
        return false;
    }
    int64_t at_ms = is_relative ? number + now_ms : number;
    int64_t offset_ms = now_ms - (int64_t)tr_node_steady(node);
    bool is_early = at_ms < 0 || at_ms < offset_ms;
    *expires_ms = is_early ? 0 : (tr_steady_ms)at_ms - (tr_steady_ms)offset_ms;
    return true;
}

enum tr_resp_unit tr_resp_unit_of(struct tr_span word)
{
    return tr_resp_is(word, "ex")     ? TR_UNIT_S
           : tr_resp_is(word, "px")   ? TR_UNIT_MS
           : tr_resp_is(word, "exat") ? TR_UNIT_AT_S
           : tr_resp_is(word, "pxat") ? TR_UNIT_AT_MS
                                      : TR_UNIT_NONE;
}

bool tr_resp_read_expiry(struct tr_resp_call *call, enum tr_resp_unit unit, struct tr_span text,
                         struct tr_key_command *command)
{
    int64_t number = 0;
    if (!tr_resp_get_integer(call, text, &number))
        return false;
    if (number <= 0) {
        put_bad_expiry(call);
        return false;
    }
    command->expiry = TR_EXPIRY_AT;
    return to_steady(call, unit, number, &command->expires_ms);
}

bool tr_resp_read_callback(struct tr_resp_call *call, struct tr_span text,
                           struct tr_key_command *command)
{
    struct tr_uri uri;
    const char *fault = text.size <= TR_URI_MAX ? tr_uri_parse(text, &uri) : "is too long";
    if (fault != NULL) {
        tr_resp_put_error_about(call->out, "ERR CALLBACK %s", fault);
        return false;
    }
    if (!call->daemon->config.may_call_nodes && tr_neighbours_have_uri(call->daemon->node, &uri)) {
        tr_resp_put_error(call->out, "ERR CALLBACK is at a node of this cluster; [callback] "
                                     "to-nodes allows that");
        return false;
    }
    command->callback = text;
    return true;
}

/* ---- EXPIRE and its kin ---- */

static bool read_expire_options(struct tr_resp_call *call, struct tr_key_command *command)
{
    struct tr_span callback = {NULL, 0};
    for (uint32_t i = 3; i < call->count; i++) {
        struct tr_span word = call->arguments[i];
        uint8_t bit = tr_resp_is(word, "nx")   ? TR_EXPIRE_NONE
                      : tr_resp_is(word, "xx") ? TR_EXPIRE_SOME
                      : tr_resp_is(word, "gt") ? TR_EXPIRE_LATER
                      : tr_resp_is(word, "lt") ? TR_EXPIRE_SOONER
                                               : 0;
        bool is_callback = tr_resp_is(word, "callback") && i + 1 < call->count;
        if (is_callback)
            callback = call->arguments[++i];
        else if (bit == 0) {
            tr_resp_put_error_about(call->out, "ERR Unsupported option %.*s", (int)word.size,
                                    word.text);
            return false;
        }
        command->expire_if |= bit;
    }
    const unsigned others = TR_EXPIRE_SOME | TR_EXPIRE_LATER | TR_EXPIRE_SOONER;
    const unsigned both = TR_EXPIRE_LATER | TR_EXPIRE_SOONER;
    if ((command->expire_if & TR_EXPIRE_NONE) != 0 && (command->expire_if & others) != 0) {
        tr_resp_put_error(call->out, "ERR NX and XX, GT or LT options at the same time are not "
                                     "compatible");
        return false;
    }
    if ((command->expire_if & both) == both) {
        tr_resp_put_error(call->out, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return callback.text == NULL || tr_resp_read_callback(call, callback, command);
}

static void expire(struct tr_resp_call *call, enum tr_resp_unit unit)
{
    struct tr_key_command command = {.verb = TR_KEY_EXPIRE, .key = call->arguments[1]};
    struct tr_key_result result;
    int64_t number = 0;
    if (read_expire_options(call, &command) &&
        tr_resp_get_integer(call, call->arguments[2], &number) &&
        to_steady(call, unit, number, &command.expires_ms) && tr_resp_ask(call, &command, &result))
        tr_resp_put_integer(call->out, result.outcome == TR_KEY_DONE);
}

void tr_resp_expire(struct tr_resp_call *call)
{
    expire(call, TR_UNIT_S);
}

void tr_resp_pexpire(struct tr_resp_call *call)
{
    expire(call, TR_UNIT_MS);
}

void tr_resp_expireat(struct tr_resp_call *call)
{
    expire(call, TR_UNIT_AT_S);
}

void tr_resp_pexpireat(struct tr_resp_call *call)
{
    expire(call, TR_UNIT_AT_MS);
}

void tr_resp_persist(struct tr_resp_call *call)
{
    struct tr_key_command command = {.verb = TR_KEY_PERSIST, .key = call->arguments[1]};
    struct tr_key_result result;
    if (tr_resp_ask(call, &command, &result))
        tr_resp_put_integer(call->out, result.outcome == TR_KEY_DONE);
}

/* When a key expires: -2 if there is none, -1 if it does not. */
static bool read_time(struct tr_resp_call *call, bool is_left, int64_t *ms)
{
    const struct tr_node *node = call->daemon->node;
    struct tr_key_result result;
    if (!tr_resp_read_key(call, call->arguments[1], &result))
        return false;
    if (!result.was_there || result.expires_ms == TR_NEVER) {
        tr_resp_put_integer(call->out, result.was_there ? -1 : -2);
        return false;
    }
    *ms = is_left ? (int64_t)(result.expires_ms - tr_node_steady(node))
                  : (int64_t)tr_node_wall(node, result.expires_ms);
    return true;
}

void tr_resp_ttl(struct tr_resp_call *call)
{
    int64_t ms = 0;
    if (read_time(call, true, &ms))
        tr_resp_put_integer(call->out, (int64_t)(((uint64_t)ms + 500) / 1000));
}

void tr_resp_pttl(struct tr_resp_call *call)
{
    int64_t ms = 0;
    if (read_time(call, true, &ms))
        tr_resp_put_integer(call->out, ms);
}

void tr_resp_expiretime(struct tr_resp_call *call)
{
    int64_t ms = 0;
    if (read_time(call, false, &ms))
        tr_resp_put_integer(call->out, (int64_t)(((uint64_t)ms + 500) / 1000));
}

void tr_resp_pexpiretime(struct tr_resp_call *call)
{
    int64_t ms = 0;
    if (read_time(call, false, &ms))
        tr_resp_put_integer(call->out, ms);
}
