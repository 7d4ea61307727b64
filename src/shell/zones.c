/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/zones.h"

#include "tzdata/load.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_MS 60000

struct entry {
    struct entry *next;
    struct tr_zone_file file;
};

struct tr_zone_cache {
    struct tr_daemon *daemon;
    struct entry *entries;
    uv_timer_t look;
};

static const struct tr_zone *find(void *context, struct tr_span name)
{
    struct tr_zone_cache *cache = context;
    for (struct entry *entry = cache->entries; entry != NULL; entry = entry->next) {
        if (tr_span_equals(name, (struct tr_span){entry->file.name, strlen(entry->file.name)}))
            return &entry->file.zone;
    }
    struct entry *entry = malloc(sizeof *entry);
    if (entry == NULL)
        abort();
    if (tr_zone_load(name, &entry->file) != TR_ZONE_LOADED) {
        free(entry);
        return NULL;
    }
    entry->next = cache->entries;
    cache->entries = entry;
    return &entry->file.zone;
}

struct tr_zones tr_zone_cache_as_zones(struct tr_zone_cache *cache)
{
    return (struct tr_zones){.find = find, .context = cache};
}

/* A file that is gone, or damaged, changes nothing: the one before goes on. */
static bool read_again(struct entry *entry)
{
    struct tr_zone_file file;
    struct tr_span name = {entry->file.name, strlen(entry->file.name)};
    if (!tr_zone_has_changed(&entry->file) || tr_zone_load(name, &file) != TR_ZONE_LOADED)
        return false;
    tr_zone_unload(&entry->file);
    entry->file = file;
    return true;
}

void tr_zone_cache_look(struct tr_zone_cache *cache)
{
    bool has_changed = false;
    for (struct entry *entry = cache->entries; entry != NULL; entry = entry->next)
        has_changed |= read_again(entry);
    if (!has_changed)
        return;
    struct tr_event event = {.kind = TR_EVENT_ZONES_CHANGED};
    tr_daemon_step(cache->daemon, &event);
}

static void on_look(uv_timer_t *timer)
{
    tr_zone_cache_look(timer->data);
}

struct tr_zone_cache *tr_zone_cache_open(struct tr_daemon *daemon)
{
    struct tr_zone_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->daemon = daemon;
    uv_timer_init(&daemon->loop, &cache->look);
    cache->look.data = cache;
    uv_timer_start(&cache->look, on_look, LOOK_MS, LOOK_MS);
    uv_unref((uv_handle_t *)&cache->look);
    return cache;
}

void tr_zone_cache_close(struct tr_zone_cache *cache)
{
    uv_close((uv_handle_t *)&cache->look, NULL);
}
