/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, as clients reach them, and what the room of keys asks of the others. */
#include "node/keys.h"

#include "kv/command.h"
#include "kv/expire.h"
#include "kv/scan.h"
#include "timers/owe.h"
#include "wire/log_key.h"

/* A key that has expired owes its callback once, under an id that follows from key and version. */
static bool owe(void *context, const struct tr_pair *pair)
{
    struct tr_node *node = context;
    struct tr_owed owed = {
        .id = tr_hash_mix(tr_kv_hash(pair->key) ^ tr_hash_mix(pair->version)),
        .uri = pair->callback,
        .opaque = pair->value,
        .due_ms = pair->expires_ms,
    };
    if (owed.due_ms > node->time.steady_ms) /* the clock was set back while the node was down */
        owed.due_ms = node->time.steady_ms;
    return tr_timers_owe(&node->timers, &owed, tr_log_key_size(TR_LOG_KEY_END, pair));
}

void tr_keys_hooks(struct tr_node *node)
{
    node->kv.hooks = (struct tr_kv_hooks){.context = node, .owe = owe};
}

bool tr_node_is_replayed(const struct tr_node *node)
{
    return node->log.is_running || node->kv.is_stopping;
}

bool tr_node_keeps_keys(const struct tr_node *node)
{
    return tr_cluster_is_alone(&node->cluster);
}

bool tr_node_begin_together(struct tr_node *node)
{
    if (tr_arena_is_tight(&node->arena))
        return false;
    tr_arena_lend(&node->arena);
    return true;
}

void tr_node_end_together(struct tr_node *node)
{
    tr_arena_give_back(&node->arena);
}

void tr_node_key(struct tr_node *node, const struct tr_key_command *command,
                 struct tr_key_result *result)
{
    tr_kv_command(&node->kv, command, result);
}

void tr_node_delete_keys(struct tr_node *node, struct tr_key_result *result)
{
    tr_kv_delete_all(&node->kv, result);
}

void tr_node_expire_keys(struct tr_node *node)
{
    if (node->log.is_running)
        tr_kv_expire_run(&node->kv);
}

enum tr_key_room tr_node_key_room(const struct tr_node *node, size_t size, uint32_t count)
{
    return tr_kv_room(&node->kv, size, count);
}

void tr_node_scan_keys(const struct tr_node *node, uint64_t cursor, uint32_t count,
                       struct tr_key_page *page)
{
    tr_kv_scan(&node->kv, cursor, count, page);
}

void tr_node_draw_key(struct tr_node *node, struct tr_key_page *page)
{
    tr_kv_draw(&node->kv, page);
}

struct tr_span tr_node_key_name(const struct tr_node *node, uint32_t ref)
{
    return tr_kv_book_key(&node->kv.book, ref);
}

struct tr_span tr_node_key_callback(const struct tr_node *node, struct tr_span key)
{
    struct tr_pair pair = {.callback = {NULL, 0}};
    tr_ref ref = tr_kv_book_find(&node->kv.book, key, tr_kv_hash(key));
    if (ref != TR_ARENA_NONE)
        tr_kv_book_unpack(&node->kv.book, ref, &pair);
    return pair.callback;
}

size_t tr_node_key_memory(const struct tr_node *node, struct tr_span key)
{
    tr_ref ref = tr_kv_book_find(&node->kv.book, key, tr_kv_hash(key));
    return ref != TR_ARENA_NONE ? tr_kv_book_memory(&node->kv.book, ref) : 0;
}

uint64_t tr_node_durable(const struct tr_node *node)
{
    return node->config.has_log ? node->log.durable : UINT64_MAX;
}
