/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/members.h"

#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static void copy(struct tr_span text, char *to, size_t size)
{
    size_t count = text.size < size - 1 ? text.size : size - 1;
    memcpy(to, text.text, count);
    to[count] = '\0';
}

static int64_t whole(struct tr_span text)
{
    char digits[24];
    copy(text, digits, sizeof digits);
    return strtoll(digits, NULL, 10);
}

/* The value of a key goes to one of these, by its name. */
struct field {
    const char *name;
    char *text;
    size_t size;
    bool *flag;
    uint64_t *count;
    int64_t *number;
};

static bool take(struct tr_json *json, struct tr_span key, const struct field *fields, size_t count)
{
    enum tr_json_token token = tr_json_next(json);
    for (size_t i = 0; i < count; i++) {
        const struct field *field = &fields[i];
        struct tr_span name = {field->name, strlen(field->name)};
        if (!tr_span_equals(key, name))
            continue;
        if (field->text != NULL && token == TR_JSON_STRING)
            copy(json->text, field->text, field->size);
        else if (field->flag != NULL)
            *field->flag = token == TR_JSON_TRUE;
        else if (field->count != NULL && token == TR_JSON_NUMBER)
            *field->count = (uint64_t)whole(json->text);
        else if (field->number != NULL && token == TR_JSON_NUMBER)
            *field->number = whole(json->text);
    }
    return tr_json_skip(json, token);
}

#define TEXT(name, to)                                                                             \
    {                                                                                              \
        name, to, sizeof(to), NULL, NULL, NULL                                                     \
    }
#define FLAG(name, to)                                                                             \
    {                                                                                              \
        name, NULL, 0, to, NULL, NULL                                                              \
    }
#define COUNT(name, to)                                                                            \
    {                                                                                              \
        name, NULL, 0, NULL, to, NULL                                                              \
    }

static bool read_seen(struct tr_json *json, struct tr_told *told)
{
    struct tr_seen seen = {0};
    const struct field fields[] = {
        TEXT("address", seen.address),
        TEXT("role", seen.role),
        TEXT("state", seen.state),
        FLAG("same-view", &seen.has_same_view),
        FLAG("behind", &seen.is_behind),
        COUNT("heard-ms-ago", &seen.heard_ms),
        {"clock-ms-ahead", NULL, 0, NULL, NULL, &seen.clock_ms},
        COUNT("queued", &seen.queued),
        COUNT("pending", &seen.pending),
        COUNT("owed", &seen.pending), /* as nodes of an earlier version say it */
        COUNT("fill-percent", &seen.fill),
    };
    enum tr_json_token token;
    while ((token = tr_json_next(json)) == TR_JSON_KEY) {
        if (!take(json, json->text, fields, sizeof fields / sizeof fields[0]))
            return false;
    }
    told->seen = tr_reallocate(told->seen, told->seen_count + 1, sizeof *told->seen);
    told->seen[told->seen_count++] = seen;
    return token == TR_JSON_OBJECT_END;
}

static bool read_nodes(struct tr_json *json, struct tr_told *told)
{
    enum tr_json_token token = tr_json_next(json);
    if (token != TR_JSON_ARRAY)
        return false;
    while ((token = tr_json_next(json)) == TR_JSON_OBJECT) {
        if (!read_seen(json, told))
            return false;
    }
    return token == TR_JSON_ARRAY_END;
}

static bool read_told(struct tr_json *json, struct tr_told *told)
{
    const struct field fields[] = {
        TEXT("node", told->node),
        TEXT("role", told->role),
        TEXT("state", told->state),
        TEXT("view", told->view),
        TEXT("cluster", told->cluster),
        COUNT("epoch", &told->epoch),
        FLAG("changing", &told->is_changing),
        FLAG("change-waits", &told->has_waiting),
        TEXT("waits-for", told->waits_for),
        TEXT("challenge", told->challenge),
        TEXT("version", told->version),
        COUNT("uptime-s", &told->uptime_s),
        COUNT("memory-bytes", &told->memory),
        COUNT("memory-budget-bytes", &told->memory_most),
        COUNT("log-bytes", &told->log),
        COUNT("disk-free-bytes", &told->disk_free),
        FLAG("has-secret", &told->has_secret),
        FLAG("rebalancing", &told->is_rebalancing),
        FLAG("unsettled", &told->is_rebalancing), /* as nodes of an earlier version say it */
        COUNT("held", &told->held),
        COUNT("to-rebalance", &told->to_rebalance),
        COUNT("misplaced", &told->to_rebalance), /* likewise */
        COUNT("moving", &told->moving),
        COUNT("walked-percent", &told->walked),
        COUNT("keys", &told->keys),
        FLAG("keys-moving", &told->are_keys_moving),
    };
    enum tr_json_token token = tr_json_next(json);
    if (token != TR_JSON_OBJECT)
        return false;
    while ((token = tr_json_next(json)) == TR_JSON_KEY) {
        bool is_nodes = tr_span_equals(json->text, TR_SPAN("nodes"));
        if (is_nodes ? !read_nodes(json, told)
                     : !take(json, json->text, fields, sizeof fields / sizeof fields[0]))
            return false;
    }
    return token == TR_JSON_OBJECT_END && told->node[0] != '\0';
}

/* ---- asking ---- */

bool tr_told_ask(const char *command, const char *address, bool is_quiet, struct tr_told *told)
{
    static const char request[] =
        "GET /cluster HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    struct tr_reply reply;
    struct tr_json json;
    *told = (struct tr_told){0};
    const char *heard_by = is_quiet ? NULL : command;
    if (!tr_node_ask(heard_by, address, request, sizeof request - 1, &reply)) {
        snprintf(told->why, sizeof told->why, "%.300s", tr_failure_last());
        return false;
    }
    tr_json_init(&json, (char *)(uintptr_t)reply.body.text, reply.body.size);
    told->is_reached = reply.status == 200 && read_told(&json, told);
    if (!told->is_reached) {
        tr_reply_strange(heard_by, address, &reply);
        snprintf(told->why, sizeof told->why, "%.300s", tr_failure_last());
    }
    tr_reply_free(&reply);
    return told->is_reached;
}

void tr_told_free(struct tr_told *told)
{
    free(told->seen);
    told->seen = NULL;
}

const char *tr_told_role(const struct tr_told *told, const char *address)
{
    if (strcmp(told->node, address) == 0)
        return told->role;
    for (size_t i = 0; i < told->seen_count; i++) {
        if (strcmp(told->seen[i].address, address) == 0)
            return told->seen[i].role;
    }
    return "gone";
}

struct tr_cluster_member *tr_members_find(const struct tr_cluster_members *members,
                                          const char *address)
{
    for (size_t i = 0; i < members->count; i++) {
        if (strcmp(members->list[i].address, address) == 0)
            return &members->list[i];
    }
    return NULL;
}

struct tr_cluster_member *tr_members_add(struct tr_cluster_members *members, const char *address)
{
    if (tr_members_find(members, address) != NULL)
        return tr_members_find(members, address);
    members->list = tr_reallocate(members->list, members->count + 1, sizeof *members->list);
    size_t at = members->count++;
    while (at > 0 && strcmp(members->list[at - 1].address, address) > 0) {
        members->list[at] = members->list[at - 1];
        at--;
    }
    members->list[at] = (struct tr_cluster_member){0};
    snprintf(members->list[at].address, TR_MEMBER_NAME, "%s", address);
    return &members->list[at];
}

bool tr_members_ask(const char *command, const char *contact, struct tr_cluster_members *members)
{
    struct tr_told first;
    *members = (struct tr_cluster_members){0};
    if (!tr_told_ask(command, contact, false, &first))
        return false;
    tr_members_add(members, first.node);
    for (size_t i = 0; i < first.seen_count; i++)
        tr_members_add(members, first.seen[i].address);
    for (size_t i = 0; i < members->count; i++) {
        struct tr_cluster_member *member = &members->list[i];
        if (strcmp(member->address, first.node) == 0)
            member->told = first;
        else
            tr_told_ask(command, member->address, true, &member->told);
    }
    return true;
}

void tr_members_free(struct tr_cluster_members *members)
{
    for (size_t i = 0; i < members->count; i++)
        tr_told_free(&members->list[i].told);
    free(members->list);
    *members = (struct tr_cluster_members){0};
}
