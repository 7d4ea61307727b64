/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/resp_ask.h"
#include "base/integer.h"
#include "shell/front/resp_wait.h"

static void put_refusal(struct tr_resp_call *call, enum tr_result refusal)
{
    const char *text = "UNAVAILABLE this node is stopping";
    if (refusal == TR_STARTING)
        text = "LOADING Redis is loading the dataset in memory";
    else if (refusal == TR_MEMORY_FULL)
        text = TR_RESP_OOM;
    else if (refusal == TR_DISK_FULL)
        text = "ERR the disk is full";
    else if (refusal == TR_CLOCK_AHEAD)
        text = "UNAVAILABLE this node's clock is ahead of the others'";
    else if (refusal == TR_NO_KEYSPACE)
        text = "ERR there is no keyspace: CREATE KEYSPACE makes one";
    else if (refusal == TR_NO_MEMBER)
        text = "UNAVAILABLE this node is no member of the cluster";
    else if (refusal == TR_NO_NODE_UP)
        text = "UNAVAILABLE too few nodes are up that hold this key, or could";
    else if (refusal == TR_NO_ANSWER)
        text = "UNAVAILABLE a node that holds this key did not answer";
    else if (refusal == TR_TOO_MANY_WRITES)
        text = "UNAVAILABLE this key is written by too many at once";
    else if (refusal == TR_UNKNOWN)
        text = "UNKNOWN it may have been done, or not: a node did not answer";
    tr_resp_put_error(call->out, text);
}

bool tr_resp_settle(struct tr_resp_call *call, const struct tr_key_result *result)
{
    call->batch = result->batch > call->batch ? result->batch : call->batch;
    call->is_again = result->outcome == TR_KEY_AGAIN;
    if (result->outcome == TR_KEY_REFUSED)
        put_refusal(call, result->refusal);
    else if (result->outcome == TR_KEY_TOO_LONG)
        tr_resp_put_error(call->out, TR_RESP_TOO_LONG);
    tr_daemon_asked(call->daemon);
    return result->outcome != TR_KEY_AGAIN && result->outcome != TR_KEY_REFUSED &&
           result->outcome != TR_KEY_TOO_LONG;
}

bool tr_resp_ask(struct tr_resp_call *call, const struct tr_key_command *command,
                 struct tr_key_result *result)
{
    if (call->wait != NULL && !tr_resp_wait_ask(call, command, result)) {
        call->is_waiting = true;
        return false;
    }
    if (call->wait == NULL)
        tr_node_key(call->daemon->node, command, result);
    return tr_resp_settle(call, result);
}

bool tr_resp_read_key(struct tr_resp_call *call, struct tr_span key, struct tr_key_result *result)
{
    struct tr_key_command command = {.verb = TR_KEY_READ, .key = key};
    return tr_resp_ask(call, &command, result);
}

void tr_resp_put_value(struct tr_resp_call *call, const struct tr_key_result *result)
{
    if (result->was_there)
        tr_resp_put_bulk(call->out, result->value);
    else
        tr_resp_put_null(call->out);
}

bool tr_resp_get_integer(struct tr_resp_call *call, struct tr_span text, int64_t *number)
{
    if (tr_integer_read(text, number))
        return true;
    tr_resp_put_error(call->out, TR_RESP_NOT_INTEGER);
    return false;
}

bool tr_resp_is_on_one_node(struct tr_resp_call *call)
{
    if (call->wait == NULL)
        return true;
    tr_resp_put_error_about(call->out, "ERR '%s' needs its keys on one node, and there are several",
                            call->verb->name);
    return false;
}
