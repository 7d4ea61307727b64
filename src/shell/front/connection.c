/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/connection.h"

#include <stdlib.h>
#include <string.h>

#define OUT_HELD_MAX ((size_t)4 << 20) /* unsent answers; beyond it the client is not reading */

struct early {
    struct early *next;
    uint16_t number;
    bool closes;
    size_t size;
    char bytes[];
};

void tr_connection_unlink(struct tr_connection *connection)
{
    connection->previous->next = connection->next;
    connection->next->previous = connection->previous;
}

void tr_connection_touch(struct tr_connection *connection)
{
    struct tr_connection *ring = &connection->server->oldest;
    connection->active_ms = uv_now(&connection->server->daemon->loop);
    connection->sent_seen = connection->stream.sent;
    tr_connection_unlink(connection);
    connection->previous = ring->previous;
    connection->next = ring;
    ring->previous->next = connection;
    ring->previous = connection;
}

void tr_connection_free(struct tr_stream *stream)
{
    struct tr_connection *connection = (struct tr_connection *)stream;
    while (connection->early != NULL) {
        struct early *early = connection->early;
        connection->early = early->next;
        free(early);
    }
    free(connection->in);
    free(connection->rights);
    free(connection);
}

void tr_connection_give_slot(struct tr_server *server, uint32_t index)
{
    struct tr_slot *slot = &server->slots[index];
    slot->connection = NULL;
    slot->generation = (slot->generation & 0xfffffff) == 0xfffffff ? 1 : slot->generation + 1;
    slot->next_free = server->slot_free;
    server->slot_free = index;
}

void tr_connection_close(struct tr_connection *connection)
{
    struct tr_server *server = connection->server;
    if (connection->stream.is_closed)
        return;
    tr_connection_unlink(connection);
    tr_connection_give_slot(server, connection->slot);
    server->daemon->metrics.connections--;
    tr_rest_gone(&server->daemon->rest, &connection->rest);
    tr_stream_close(&connection->stream);
}

/* Twice as many slots as before. False: there are as many as there may be, or no memory. */
static bool grow_slots(struct tr_server *server)
{
    uint32_t most = (uint32_t)server->daemon->config.connections_max;
    uint32_t count = server->slot_count * 2 > 64 ? server->slot_count * 2 : 64;
    count = count < most ? count : most;
    struct tr_slot *larger = NULL;
    if (server->slot_count < most)
        larger = realloc(server->slots, count * sizeof *larger);
    if (larger == NULL)
        return false;
    server->slots = larger;
    for (uint32_t i = count; i > server->slot_count; i--) {
        /* From 1: no token is 0, which means nobody. */
        server->slots[i - 1] = (struct tr_slot){.generation = 1, .next_free = server->slot_free};
        server->slot_free = i - 1;
    }
    server->slot_count = count;
    return true;
}

uint32_t tr_connection_take_slot(struct tr_server *server)
{
    if (server->slot_free == TR_NO_SLOT && !grow_slots(server))
        return TR_NO_SLOT;
    uint32_t index = server->slot_free;
    server->slot_free = server->slots[index].next_free;
    return index;
}

/* ---- answers ---- */

void tr_connection_put(struct tr_connection *connection, const char *bytes, size_t size)
{
    if (!tr_stream_put(&connection->stream, bytes, size))
        tr_connection_close(connection);
}

uint64_t tr_connection_token(const struct tr_connection *connection, uint16_t number)
{
    return (uint64_t)connection->slot | (uint64_t)number << 20 |
           (uint64_t)(connection->generation & 0xfffffff) << 36;
}

struct tr_connection *tr_connection_of(struct tr_server *server, uint64_t token)
{
    uint32_t slot = (uint32_t)(token & 0xfffff);
    struct tr_connection *connection = server->slots[slot].connection;
    bool is_same = connection != NULL && (connection->generation & 0xfffffff) == token >> 36;
    return is_same ? connection : NULL;
}

static void keep_early(struct tr_connection *connection, uint16_t number, const char *bytes,
                       size_t size, bool closes)
{
    struct early *early = malloc(sizeof *early + size);
    if (early == NULL) {
        tr_connection_close(connection);
        return;
    }
    *early =
        (struct early){.next = connection->early, .number = number, .closes = closes, .size = size};
    memcpy(early->bytes, bytes, size);
    connection->early = early;
    connection->early_size += size;
}

static void count_answer(struct tr_connection *connection)
{
    struct tr_daemon *daemon = connection->server->daemon;
    connection->answered++;
    tr_rest_answered(&daemon->rest, &connection->rest, daemon->now_us);
}

/* The answer with the next number is out: what it held up follows. */
static void put_kept(struct tr_connection *connection)
{
    struct early **link = &connection->early;
    while (*link != NULL && !connection->stream.is_closed && !connection->is_closing) {
        struct early *early = *link;
        if (early->number != connection->answered) {
            link = &early->next;
            continue;
        }
        *link = early->next;
        connection->early_size -= early->size;
        count_answer(connection);
        connection->is_closing |= early->closes;
        tr_connection_put(connection, early->bytes, early->size);
        free(early);
        link = &connection->early;
    }
}

void tr_connection_answer(struct tr_connection *connection, uint16_t number, const char *bytes,
                          size_t size)
{
    unsigned place = number % TR_UNDER_WAY_MAX;
    uint8_t kind = connection->kinds[place];
    bool closes = (kind & TR_KIND_CLOSE) != 0;
    struct tr_metrics *metrics = &connection->server->daemon->metrics;
    if ((kind & TR_KIND_MASK) < TR_REQUEST_KINDS)
        tr_histogram_add(&metrics->request_us[kind & TR_KIND_MASK],
                         connection->server->daemon->now_us - connection->asked_us[place]);
    if (connection->is_closing)
        return;
    if (number != connection->answered) {
        keep_early(connection, number, bytes, size, closes);
        return;
    }
    count_answer(connection);
    connection->is_closing |= closes;
    tr_connection_put(connection, bytes, size);
    if (!connection->stream.is_closed)
        put_kept(connection);
}

uint16_t tr_connection_begin(struct tr_connection *connection, uint8_t kind)
{
    struct tr_daemon *daemon = connection->server->daemon;
    uint16_t number = connection->asked++;
    daemon->now_us = tr_daemon_clock_us(daemon);
    tr_rest_asked(&daemon->rest, &connection->rest, daemon->now_us);
    connection->asked_us[number % TR_UNDER_WAY_MAX] = daemon->now_us;
    connection->kinds[number % TR_UNDER_WAY_MAX] = kind;
    connection->wants[number % TR_UNDER_WAY_MAX] = 0;
    return number;
}

bool tr_connection_is_paused(const struct tr_connection *connection)
{
    return connection->batch != NULL || connection->bulk != NULL ||
           (uint16_t)(connection->asked - connection->answered) >= TR_UNDER_WAY_MAX ||
           connection->stream.out_size + connection->early_size > OUT_HELD_MAX ||
           connection->is_slowed || connection->is_closing;
}

bool tr_connection_keep(struct tr_connection *connection, const char *bytes, size_t size)
{
    if (connection->in_size + size > connection->in_cap) {
        size_t cap = connection->in_cap * 2;
        cap = cap > connection->in_size + size ? cap : connection->in_size + size + 1024;
        char *larger = realloc(connection->in, cap);
        if (larger == NULL)
            return false;
        connection->in = larger;
        connection->in_cap = cap;
    }
    memcpy(connection->in + connection->in_size, bytes, size);
    connection->in_size += size;
    return true;
}
