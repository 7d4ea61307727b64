/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about the keyspace and the nodes of the cluster. */
#include "base/integer.h"
#include "shell/address.h"
#include "shell/cluster.h"
#include "shell/front/resp_ask.h"
#include "shell/front/resp_wait.h"
#include "shell/peer/links.h"
#include "wire/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define POSITIONS_SMALL 1    /* of a node, on a ring of few partitions, */
#define POSITIONS_MANY  16   /* and on a ring of */
#define PARTITIONS_MANY 1024 /* at least so many */

/* ---- who may ---- */

bool tr_resp_may_operate(struct tr_resp_call *call)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    const struct tr_rights *rights = call->connection->rights;
    if (call->session->is_operator)
        return true;
    if (call->daemon->auth.is_on && (rights == NULL || !rights->is_admin)) {
        tr_resp_put_error(call->out,
                          "NOPERM this token may not do what operators do: its scope lacks admin");
        return false;
    }
    if (getpeername(call->connection->stream.file, (struct sockaddr *)&address, &size) == 0 &&
        tr_address_is_loopback(&address))
        return true;
    tr_resp_put_error(call->out, "NOPERM this is taken from the same machine, or after AUTH with "
                                 "the cluster's secret");
    return false;
}

/* ---- changes ---- */

void tr_resp_put_change(struct tr_resp_call *call, enum tr_change change, uint16_t who)
{
    struct tr_problem problem = {0};
    tr_cluster_explain(call->daemon, change, who, &problem);
    if (change == TR_CHANGE_MADE || change == TR_CHANGE_NONE)
        tr_resp_put_simple(call->out, "OK");
    else
        tr_resp_put_error_about(call->out, "%s %s",
                                change == TR_CHANGE_BUSY   ? "BUSY"
                                : change == TR_CHANGE_DOWN ? "UNAVAILABLE"
                                                           : "ERR",
                                problem.detail);
}

/* What has been made is on its way to the others. */
static void put_made(struct tr_resp_call *call, enum tr_change change, uint16_t who)
{
    tr_daemon_asked(call->daemon);
    if (change == TR_CHANGE_MADE)
        tr_links_look(call->daemon->links);
    tr_resp_put_change(call, change, who);
}

/* A number within bounds. False: it is none, which is said. */
static bool get_number(struct tr_resp_call *call, struct tr_span text, int64_t least, int64_t most,
                       int64_t *number)
{
    if (tr_integer_read(text, number) && *number >= least && *number <= most)
        return true;
    tr_resp_put_error_about(call->out, "ERR '%.*s' is not a number from %lld to %lld",
                            (int)(text.size < 64 ? text.size : 64), text.text, (long long)least,
                            (long long)most);
    return false;
}

/* Options R, W and POSITIONS, from a word on. */
static bool read_definition(struct tr_resp_call *call, uint32_t from, struct tr_definition *keys)
{
    for (uint32_t i = from; i < call->count; i += 2) {
        struct tr_span word = call->arguments[i];
        int64_t number = 0;
        bool is_positions = tr_resp_is(word, "positions");
        if (i + 1 == call->count ||
            (!tr_resp_is(word, "r") && !tr_resp_is(word, "w") && !is_positions)) {
            tr_resp_put_error(call->out, TR_RESP_SYNTAX);
            return false;
        }
        if (!get_number(call, call->arguments[i + 1], 1,
                        is_positions ? TR_POSITIONS_MAX : keys->copies, &number))
            return false;
        if (is_positions)
            keys->positions = (uint8_t)number;
        else if (tr_resp_is(word, "r"))
            keys->reads = (uint8_t)number;
        else
            keys->writes = (uint8_t)number;
    }
    return true;
}

void tr_resp_create_keyspace(struct tr_resp_call *call)
{
    int64_t partitions = 0;
    int64_t copies = 0;
    uint16_t who = TR_MEMBER_NONE;
    if (!tr_resp_may_operate(call) ||
        !get_number(call, call->arguments[2], 1, (int64_t)TR_PARTITIONS_MAX, &partitions) ||
        !get_number(call, call->arguments[3], 1, TR_COPIES_MAX, &copies))
        return;
    struct tr_definition keys = {
        .partitions = (uint64_t)partitions,
        .copies = (uint8_t)copies,
        .reads = (uint8_t)(copies / 2 + 1),
        .writes = (uint8_t)(copies / 2 + 1),
        .positions = partitions >= PARTITIONS_MANY ? POSITIONS_MANY : POSITIONS_SMALL,
    };
    if (!read_definition(call, 4, &keys))
        return;
    put_made(call, tr_node_create_keyspace(call->daemon->node, &keys, &who), who);
}

void tr_resp_keyspace_set(struct tr_resp_call *call)
{
    struct tr_definition keys = tr_node_roster(call->daemon->node)->keys;
    struct tr_span what = call->arguments[2];
    uint16_t who = TR_MEMBER_NONE;
    int64_t number = 0;
    bool is_copies = tr_resp_is(what, "l");
    if (!tr_resp_may_operate(call))
        return;
    if (!is_copies && !tr_resp_is(what, "r") && !tr_resp_is(what, "w")) {
        tr_resp_put_error(call->out, TR_RESP_SYNTAX);
        return;
    }
    if (!get_number(call, call->arguments[3], 1, is_copies ? TR_COPIES_MAX : keys.copies, &number))
        return;
    if (is_copies) {
        keys.copies = (uint8_t)number;
        keys.reads = keys.writes = (uint8_t)(number / 2 + 1);
    } else if (tr_resp_is(what, "r")) {
        keys.reads = (uint8_t)number;
    } else {
        keys.writes = (uint8_t)number;
    }
    keys.is_assumed = false;
    put_made(call, tr_node_spread_keys(call->daemon->node, &keys, &who), who);
}

static void put_pair(struct tr_resp_call *call, const char *name, uint64_t number)
{
    tr_resp_put_text(call->out, name);
    tr_resp_put_integer(call->out, (int64_t)number);
}

void tr_resp_keyspace(struct tr_resp_call *call)
{
    const struct tr_roster *roster = tr_node_roster(call->daemon->node);
    tr_resp_put_map(call->out, 6);
    put_pair(call, "partitions", roster->keys.partitions);
    put_pair(call, "copies", roster->keys.copies);
    put_pair(call, "reads", roster->keys.reads);
    put_pair(call, "writes", roster->keys.writes);
    put_pair(call, "positions", roster->keys.positions);
    put_pair(call, "epoch", roster->epoch);
}

void tr_resp_keyspace_where(struct tr_resp_call *call)
{
    struct tr_span addresses[TR_COPIES_MAX];
    unsigned count = tr_node_key_list(call->daemon->node, call->arguments[2], addresses);
    tr_resp_put_array(call->out, count);
    for (unsigned i = 0; i < count; i++)
        tr_resp_put_bulk(call->out, addresses[i]);
}

/* ---- the ring ---- */

/* A position of the ring, whose it is, and how many partitions belong to it. */
struct stretch {
    uint32_t position;
    uint32_t node; /* of the roster */
    uint64_t partitions;
};

static int by_position(const void *a, const void *b)
{
    const struct stretch *one = a;
    const struct stretch *other = b;
    return (one->position > other->position) - (one->position < other->position);
}

/* The ring as it is to be, which is to be freed. NULL: it is empty, or there is no memory. */
static struct stretch *list_ring(const struct tr_roster *roster, size_t *count)
{
    struct stretch *ring = calloc((size_t)TR_VIEW_NODES_MAX * TR_POSITIONS_MAX, sizeof *ring);
    *count = 0;
    for (uint32_t i = 0; ring != NULL && i < roster->count; i++) {
        const struct tr_roster_node *node = &roster->nodes[i];
        bool is_on = node->role == TR_ROLE_STAYING || node->role == TR_ROLE_JOINING;
        for (uint32_t k = 0; is_on && k < node->position_count; k++)
            ring[(*count)++] = (struct stretch){.position = node->positions[k], .node = i};
    }
    if (*count == 0) {
        free(ring);
        return NULL;
    }
    qsort(ring, *count, sizeof *ring, by_position);
    uint64_t before = ring[*count - 1].position;
    for (size_t i = 0; i < *count; i++) {
        uint64_t turn = ring[i].position <= before ? roster->keys.partitions : 0;
        ring[i].partitions = ring[i].position + turn - before;
        before = ring[i].position;
    }
    return ring;
}

void tr_resp_keyspace_ring(struct tr_resp_call *call)
{
    const struct tr_roster *roster = tr_node_roster(call->daemon->node);
    size_t count = 0;
    struct stretch *ring = list_ring(roster, &count);
    tr_resp_put_array(call->out, count);
    for (size_t i = 0; i < count; i++) {
        tr_resp_put_array(call->out, 3);
        tr_resp_put_integer(call->out, ring[i].position);
        tr_resp_put_bulk(call->out, tr_roster_address(roster, ring[i].node));
        tr_resp_put_integer(call->out, (int64_t)ring[i].partitions);
    }
    free(ring);
}

/* ---- nodes ---- */

/* False: nobody can have it, which is said. */
static bool is_address(struct tr_resp_call *call, struct tr_span address)
{
    const char *fault = address.size > TR_LOG_ADDRESS_MAX ? "too long" : tr_address_fault(address);
    if (fault != NULL)
        tr_resp_put_error_about(call->out, "ERR the address of a node: %s", fault);
    return fault == NULL;
}

/* A fraction of the circle, as `.85`, that is a position of the ring. */
static bool read_fraction(struct tr_span text, uint64_t partitions, uint32_t *position)
{
    uint64_t value = 0;
    uint64_t unit = 1;
    if (text.size < 2 || text.size > 10)
        return false;
    for (size_t i = 1; i < text.size; i++) {
        unsigned digit = (unsigned)(unsigned char)text.text[i] - '0';
        if (digit > 9)
            return false;
        value = value * 10 + digit;
        unit *= 10;
    }
    *position = (uint32_t)(value * partitions / unit);
    return value * partitions % unit == 0;
}

/* A partition, or a fraction that is one. False: it is neither, which is said. */
static bool get_position(struct tr_resp_call *call, struct tr_span text, uint32_t *position)
{
    uint64_t partitions = tr_node_roster(call->daemon->node)->keys.partitions;
    int64_t number = 0;
    if (text.size > 0 && text.text[0] == '.') {
        if (read_fraction(text, partitions, position))
            return true;
        tr_resp_put_error_about(call->out, "ERR '%.*s' is no position of a ring of %llu partitions",
                                (int)(text.size < 64 ? text.size : 64), text.text,
                                (unsigned long long)partitions);
        return false;
    }
    if (!get_number(call, text, 0, partitions > 0 ? (int64_t)partitions - 1 : 0, &number))
        return false;
    *position = (uint32_t)number;
    return true;
}

static void change_node(struct tr_resp_call *call, enum tr_role role)
{
    uint32_t positions[TR_POSITIONS_MAX];
    struct tr_view_node node = {
        .address = call->arguments[1],
        .role = role,
        .positions = positions,
        .position_count = call->count - 2,
    };
    uint16_t who = TR_MEMBER_NONE;
    if (!tr_resp_may_operate(call))
        return;
    if (node.position_count > TR_POSITIONS_MAX) {
        tr_resp_put_error(call->out, TR_RESP_SYNTAX);
        return;
    }
    if (!is_address(call, node.address))
        return;
    for (uint32_t i = 0; i < node.position_count; i++) {
        if (!get_position(call, call->arguments[2 + i], &positions[i]))
            return;
    }
    put_made(call, tr_node_ask_change(call->daemon->node, &node, 1, &who), who);
}

void tr_resp_join(struct tr_resp_call *call)
{
    change_node(call, TR_ROLE_JOINING);
}

void tr_resp_leave(struct tr_resp_call *call)
{
    change_node(call, TR_ROLE_LEAVING);
}

static bool is_up(const struct tr_node *node, struct tr_span address)
{
    uint16_t member = tr_node_member(node, address);
    return member == 0 || (member != TR_MEMBER_NONE && tr_node_is_up(node, member));
}

/* Nodes that are down, and will not come back. */
void tr_resp_lost(struct tr_resp_call *call)
{
    struct tr_view_node nodes[TR_VIEW_NODES_MAX];
    uint16_t who = TR_MEMBER_NONE;
    if (!tr_resp_may_operate(call))
        return;
    if (call->count - 1 > TR_VIEW_NODES_MAX) {
        tr_resp_put_error(call->out, TR_RESP_SYNTAX);
        return;
    }
    for (uint32_t i = 1; i < call->count; i++) {
        if (!is_address(call, call->arguments[i]))
            return;
    }
    for (uint32_t i = 1; i < call->count; i++)
        nodes[i - 1] = (struct tr_view_node){.address = call->arguments[i], .role = TR_ROLE_LOST};
    put_made(call, tr_node_ask_change(call->daemon->node, nodes, call->count - 1, &who), who);
}

/* Of a node, in per cent of the keys. */
static void put_share(struct tr_resp_call *call, const struct stretch *ring, size_t count,
                      uint32_t node)
{
    uint64_t partitions = tr_node_roster(call->daemon->node)->keys.partitions;
    uint64_t own = 0;
    char text[32];
    for (size_t i = 0; i < count; i++)
        own += ring[i].node == node ? ring[i].partitions : 0;
    uint64_t tenths = partitions > 0 ? (own * 1000 + partitions / 2) / partitions : 0;
    snprintf(text, sizeof text, "%llu.%llu%%", (unsigned long long)(tenths / 10),
             (unsigned long long)(tenths % 10));
    tr_resp_put_text(call->out, text);
}

void tr_resp_nodes(struct tr_resp_call *call)
{
    static const char *const roles[] = {"", "staying", "joining", "leaving", "lost"};
    const struct tr_roster *roster = tr_node_roster(call->daemon->node);
    size_t count = 0;
    struct stretch *ring = list_ring(roster, &count);
    tr_resp_put_array(call->out, roster->count);
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct tr_roster_node *node = &roster->nodes[i];
        struct tr_span address = tr_roster_address(roster, i);
        tr_resp_put_array(call->out, 5);
        tr_resp_put_bulk(call->out, address);
        tr_resp_put_text(call->out, roles[node->role]);
        tr_resp_put_array(call->out, node->position_count);
        for (uint32_t k = 0; k < node->position_count; k++)
            tr_resp_put_integer(call->out, node->positions[k]);
        put_share(call, ring, count, i);
        tr_resp_put_text(call->out, is_up(call->daemon->node, address) ? "up" : "down");
    }
    free(ring);
}
