/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of a running cluster, as one of its nodes tells it. */
#include "cli/keyspace.h"
#include "cli/node.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX     256
#define POSITIONS_MAX 32

struct told_ring {
    uint64_t partitions;
    uint64_t copies;
    size_t count;
    struct tryst_place_node nodes[NODES_MAX];
    struct tryst_place_given given[NODES_MAX];
    char names[NODES_MAX][256];
    uint32_t positions[NODES_MAX][POSITIONS_MAX];
};

static uint64_t whole(struct tr_span text)
{
    char digits[24] = {0};
    memcpy(digits, text.text, text.size < sizeof digits - 1 ? text.size : sizeof digits - 1);
    return strtoull(digits, NULL, 10);
}

static bool read_positions(struct tr_json *json, struct told_ring *ring, size_t index)
{
    size_t count = 0;
    enum tr_json_token token = tr_json_next(json);
    if (token != TR_JSON_ARRAY)
        return false;
    while ((token = tr_json_next(json)) == TR_JSON_NUMBER && count < POSITIONS_MAX)
        ring->positions[index][count++] = (uint32_t)whole(json->text);
    ring->given[index] = (struct tryst_place_given){ring->positions[index], count};
    return token == TR_JSON_ARRAY_END;
}

static bool read_node(struct tr_json *json, struct told_ring *ring)
{
    enum tr_json_token token;
    size_t index = ring->count;
    if (index == NODES_MAX)
        return false;
    while ((token = tr_json_next(json)) == TR_JSON_KEY) {
        if (tr_span_equals(json->text, TR_SPAN("positions"))) {
            if (!read_positions(json, ring, index))
                return false;
        } else {
            if (tr_json_next(json) != TR_JSON_STRING || json->text.size >= sizeof ring->names[0])
                return false;
            memcpy(ring->names[index], json->text.text, json->text.size);
        }
    }
    ring->nodes[index] = (struct tryst_place_node){.name = ring->names[index]};
    ring->count++;
    return token == TR_JSON_OBJECT_END;
}

static bool read_nodes(struct tr_json *json, struct told_ring *ring)
{
    enum tr_json_token token = tr_json_next(json);
    if (token != TR_JSON_ARRAY)
        return false;
    while ((token = tr_json_next(json)) == TR_JSON_OBJECT) {
        if (!read_node(json, ring))
            return false;
    }
    return token == TR_JSON_ARRAY_END;
}

static bool read_keyspace(struct tr_json *json, struct told_ring *ring)
{
    enum tr_json_token token = tr_json_next(json);
    if (token != TR_JSON_OBJECT)
        return false;
    while ((token = tr_json_next(json)) == TR_JSON_KEY) {
        bool is_partitions = tr_span_equals(json->text, TR_SPAN("partitions"));
        bool is_copies = tr_span_equals(json->text, TR_SPAN("copies"));
        if (tr_span_equals(json->text, TR_SPAN("ring"))) {
            if (!read_nodes(json, ring))
                return false;
            continue;
        }
        token = tr_json_next(json);
        if (is_partitions)
            ring->partitions = whole(json->text);
        else if (is_copies)
            ring->copies = whole(json->text);
        if (!tr_json_skip(json, token))
            return false;
    }
    return token == TR_JSON_OBJECT_END;
}

/* False: it is not what a node would say. */
static bool read_cluster(struct tr_json *json, struct told_ring *ring)
{
    enum tr_json_token token = tr_json_next(json);
    if (token != TR_JSON_OBJECT)
        return false;
    while ((token = tr_json_next(json)) == TR_JSON_KEY) {
        bool is_keyspace = tr_span_equals(json->text, TR_SPAN("keyspace"));
        if (is_keyspace ? !read_keyspace(json, ring) : !tr_json_skip(json, tr_json_next(json)))
            return false;
    }
    return token == TR_JSON_OBJECT_END;
}

static struct tryst_place_map *build(const struct told_ring *ring)
{
    struct tryst_place_config config = {.strategy = "keyspace@2", .partitions = ring->partitions};
    struct tryst_place_positions positions = {.given = ring->given};
    size_t size = tryst_place_keyspace_size(&config, &positions, ring->nodes, ring->count);
    struct tryst_place_map *map = tr_allocate(size, 1);
    if (tryst_place_keyspace_init(map, size, &config, &positions, ring->nodes, ring->count, NULL) ==
        TRYST_PLACE_OK)
        return map;
    free(map);
    return NULL;
}

struct tryst_place_map *tr_ring_ask(const char *address, size_t *list_size)
{
    static const char request[] =
        "GET /cluster HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    struct tr_reply reply;
    struct tr_json json;
    struct tryst_place_map *map = NULL;
    if (!tr_node_ask("keyspace", address, request, sizeof request - 1, &reply))
        return NULL;
    struct told_ring *ring = tr_allocate(1, sizeof *ring);
    tr_json_init(&json, (char *)(uintptr_t)reply.body.text, reply.body.size);
    bool is_read = reply.status == 200 && read_cluster(&json, ring);
    if (is_read && ring->count == 0)
        tr_failure("keyspace", "there is no keyspace: CREATE KEYSPACE makes one");
    else if (!is_read || (map = build(ring)) == NULL)
        tr_reply_strange("keyspace", address, &reply);
    *list_size = ring->copies < ring->count ? (size_t)ring->copies : ring->count;
    free(ring);
    tr_reply_free(&reply);
    return map;
}
