/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/disk.h"

#include "base/assert.h"
#include "wire/log_repair.h"

#include <stdlib.h>
#include <string.h>

#define SECTOR 512

void sim_disk_init(struct sim_disk *disk, struct tr_random *random)
{
    *disk = (struct sim_disk){.random = random, .limit = SIZE_MAX};
}

void sim_disk_free(struct sim_disk *disk)
{
    for (size_t i = 0; i < disk->count; i++)
        free(disk->segments[i].bytes);
    free(disk->segments);
    free(disk->write_bytes);
    free(disk->before);
}

static struct sim_segment *find(struct sim_disk *disk, uint64_t number)
{
    for (size_t i = 0; i < disk->count; i++) {
        if (disk->segments[i].number == number)
            return &disk->segments[i];
    }
    return NULL;
}

void sim_disk_write(struct sim_disk *disk, const struct tr_effect *effect)
{
    size_t head = effect->of.log.head_size;
    TR_ASSERT(!disk->is_writing);
    disk->is_writing = true;
    disk->write_segment = effect->of.log.segment;
    disk->write_offset = effect->of.log.offset - head;
    disk->write_size = head + effect->of.log.size;
    disk->write_bytes = malloc(disk->write_size);
    TR_ASSERT(disk->write_bytes != NULL);
    if (head > 0)
        memcpy(disk->write_bytes, effect->of.log.head, head);
    memcpy(disk->write_bytes + head, effect->of.log.bytes, effect->of.log.size);
}

static void put(struct sim_disk *disk, size_t from, size_t to)
{
    struct sim_segment *segment = find(disk, disk->write_segment);
    TR_ASSERT(segment != NULL && disk->write_offset + to <= segment->size);
    memcpy(segment->bytes + disk->write_offset + from, disk->write_bytes + from, to - from);
}

static void end_write(struct sim_disk *disk)
{
    free(disk->write_bytes);
    disk->write_bytes = NULL;
    disk->is_writing = false;
}

void sim_disk_sync(struct sim_disk *disk)
{
    TR_ASSERT(disk->is_writing);
    put(disk, 0, disk->write_size);
    end_write(disk);
}

static void forget_cached(struct sim_disk *disk)
{
    free(disk->before);
    disk->before = NULL;
}

void sim_disk_kill(struct sim_disk *disk)
{
    if (!disk->is_writing)
        return;
    const struct sim_segment *segment = find(disk, disk->write_segment);
    TR_ASSERT(segment != NULL && disk->write_offset + disk->write_size <= segment->size);
    forget_cached(disk);
    disk->cached_segment = disk->write_segment;
    disk->cached_offset = disk->write_offset;
    disk->cached_size = disk->write_size;
    disk->before = malloc(disk->write_size);
    TR_ASSERT(disk->before != NULL);
    memcpy(disk->before, segment->bytes + disk->write_offset, disk->write_size);
    sim_disk_sync(disk);
}

/* What was only in the machine's memory is lost, or has been written by now. */
static void lose_cached(struct sim_disk *disk)
{
    struct sim_segment *segment = find(disk, disk->cached_segment);
    if (disk->before == NULL)
        return;
    bool is_there = segment != NULL && disk->cached_offset + disk->cached_size <= segment->size;
    if (is_there && tr_random_below(disk->random, 2) == 0)
        memcpy(segment->bytes + disk->cached_offset, disk->before, disk->cached_size);
    forget_cached(disk);
}

bool sim_disk_allocate(struct sim_disk *disk, uint64_t number, size_t size)
{
    TR_ASSERT(find(disk, number) == NULL);
    if (disk->used > disk->limit || disk->limit - disk->used < size)
        return false;
    disk->used += size;
    disk->segments = realloc(disk->segments, (disk->count + 1) * sizeof *disk->segments);
    TR_ASSERT(disk->segments != NULL);
    uint8_t *bytes = calloc(1, size);
    TR_ASSERT(bytes != NULL);
    disk->segments[disk->count++] = (struct sim_segment){number, bytes, size};
    return true;
}

void sim_disk_remove(struct sim_disk *disk, uint64_t number)
{
    struct sim_segment *segment = find(disk, number);
    if (segment == NULL)
        return;
    free(segment->bytes);
    disk->used -= segment->size;
    if (disk->fills_up)
        disk->limit = disk->used;
    size_t index = (size_t)(segment - disk->segments);
    memmove(segment, segment + 1, (disk->count - index - 1) * sizeof *segment);
    disk->count--;
}

void sim_disk_trim(struct sim_disk *disk, uint64_t number, size_t size)
{
    struct sim_segment *segment = find(disk, number);
    TR_ASSERT(segment != NULL && size <= segment->size);
    if (disk->cached_segment == number)
        forget_cached(disk);
    disk->used -= segment->size - size;
    if (disk->fills_up)
        disk->limit = disk->used;
    segment->size = size;
}

static bool is_used(const struct sim_segment *segment)
{
    for (size_t i = 0; i < segment->size && i < SECTOR; i++) {
        if (segment->bytes[i] != 0)
            return true;
    }
    return false;
}

void sim_disk_fill(struct sim_disk *disk)
{
    size_t last = 0;
    for (size_t i = 0; i < disk->count; i++)
        last = disk->segments[i].number > disk->segments[last].number ? i : last;
    if (disk->count > 1 && !is_used(&disk->segments[last]) && tr_random_below(disk->random, 2) == 0)
        sim_disk_remove(disk, disk->segments[last].number);
    disk->limit = disk->used;
    disk->fills_up = true;
}

void sim_disk_empty(struct sim_disk *disk)
{
    disk->limit = SIZE_MAX;
    disk->fills_up = false;
}

void sim_disk_crash(struct sim_disk *disk)
{
    lose_cached(disk);
    if (!disk->is_writing)
        return;
    size_t prefix = tr_random_below(disk->random, disk->write_size + 1);
    switch (tr_random_below(disk->random, 4)) {
    case 0: /* nothing of it */
        break;
    case 1: /* all of it, unacknowledged */
        put(disk, 0, disk->write_size);
        break;
    case 2: /* its beginning */
        put(disk, 0, prefix);
        break;
    default: /* any of its sectors */
        for (size_t at = 0; at < disk->write_size; at += SECTOR) {
            size_t end = at + SECTOR < disk->write_size ? at + SECTOR : disk->write_size;
            if (tr_random_below(disk->random, 2) == 0)
                put(disk, at, end);
        }
    }
    end_write(disk);
}

bool sim_disk_damage(struct sim_disk *disk)
{
    if (disk->count < 2)
        return false;
    struct sim_segment *segment = &disk->segments[0];
    struct tr_log_header header;
    size_t at = 0;
    struct tr_log_batch batch;
    if (tr_log_header_decode(segment->bytes, segment->size, &header, &at) != TR_LOG_HEADER_OK ||
        !tr_log_batch_at(segment->bytes, segment->size, header.first, at, &batch))
        return false;
    size_t offset = tr_random_below(disk->random, at + batch.size);
    segment->bytes[offset] ^= (uint8_t)(1u << tr_random_below(disk->random, 8));
    return true;
}

void sim_disk_repair(struct sim_disk *disk, uint8_t store)
{
    uint8_t store_id[TR_LOG_STORE_ID_SIZE];
    size_t count = 0;
    struct tr_log_segment *list = sim_disk_list(disk, &count);
    memset(store_id, store, sizeof store_id);
    struct tr_log_repair repair;
    tr_log_repair_begin(&repair, list, count, store_id);
    for (size_t i = 0; i < count; i++) {
        struct sim_segment *segment = find(disk, list[i].number);
        size_t cap = tr_log_repair_bound(&list[i]);
        uint8_t *bytes = malloc(cap);
        TR_ASSERT(bytes != NULL);
        size_t size = tr_log_repair_segment(&repair, &list[i], bytes, cap);
        disk->used = disk->used - segment->size + size;
        segment->bytes = bytes;
        segment->size = size;
    }
    for (size_t i = 0; i < count; i++) /* not before: a segment's table of nodes serves the next */
        free((void *)list[i].bytes);
    free(list);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const struct tr_log_segment *)a)->number;
    uint64_t y = ((const struct tr_log_segment *)b)->number;
    return (x > y) - (x < y);
}

struct tr_log_segment *sim_disk_list(const struct sim_disk *disk, size_t *count)
{
    struct tr_log_segment *list = calloc(disk->count + 1, sizeof *list);
    TR_ASSERT(list != NULL);
    for (size_t i = 0; i < disk->count; i++) {
        list[i].number = disk->segments[i].number;
        list[i].bytes = disk->segments[i].bytes;
        list[i].size = disk->segments[i].size;
    }
    qsort(list, disk->count, sizeof *list, by_number);
    *count = disk->count;
    return list;
}

void sim_disk_copy(const struct sim_disk *from, struct sim_disk *to)
{
    *to = (struct sim_disk){
        .random = from->random, .limit = SIZE_MAX, .count = from->count, .used = from->used};
    to->segments = malloc((from->count + 1) * sizeof *to->segments);
    TR_ASSERT(to->segments != NULL);
    for (size_t i = 0; i < from->count; i++) {
        to->segments[i] = from->segments[i];
        to->segments[i].bytes = malloc(from->segments[i].size);
        TR_ASSERT(to->segments[i].bytes != NULL);
        memcpy(to->segments[i].bytes, from->segments[i].bytes, from->segments[i].size);
    }
}
