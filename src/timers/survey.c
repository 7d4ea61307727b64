/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/survey.h"

#include "base/heap.h"
#include "timers/list.h"

#include <string.h>

#define SLICE     1024
#define FETCHED   16
#define MINUTE_MS 60000u
#define HOUR_MS   3600000u
#define DAY_MS    86400000u

static void count_due(struct tr_ahead *ahead, tr_wall_ms due_ms)
{
    if (due_ms < ahead->from_ms) {
        ahead->overdue++;
        return;
    }
    uint64_t after_ms = due_ms - ahead->from_ms;
    if (after_ms / MINUTE_MS < TR_AHEAD_MINUTES)
        ahead->minutes[after_ms / MINUTE_MS]++;
    if (after_ms / HOUR_MS < TR_AHEAD_HOURS)
        ahead->hours[after_ms / HOUR_MS]++;
    if (after_ms / DAY_MS < TR_AHEAD_DAYS)
        ahead->days[after_ms / DAY_MS]++;
    else
        ahead->later++;
}

static void count(const struct tr_timers *timers, const struct tr_head *head,
                  struct tr_ahead *ahead)
{
    if ((head->flags & TR_RECORD_DEAD) != 0) {
        ahead->dead++;
        return;
    }
    ahead->retrying += head->order.attempt > 0 || head->key.part > 0;
    if (head->key.part > 0)
        return;
    ahead->pending++;
    count_due(ahead, tr_list_due(timers, head));
}

static bool is_before(const void *context, uint32_t a, uint32_t b)
{
    const struct tr_next *list = context;
    return tr_next_compare(&list[a], &list[b]) < 0;
}

void tr_survey_sort(struct tr_nexts *nexts)
{
    for (uint32_t i = 0; i < nexts->count; i++)
        nexts->order[i] = i;
    tr_heap_sort(nexts->order, nexts->count, is_before, nexts->list);
    nexts->has_more |= nexts->count > nexts->limit;
    nexts->count = nexts->count < nexts->limit ? nexts->count : nexts->limit;
    for (uint32_t i = 0; i < nexts->count; i++)
        nexts->first[i] = nexts->list[nexts->order[i]];
    memcpy(nexts->list, nexts->first, nexts->count * sizeof nexts->list[0]);
}

static void keep(struct tr_nexts *nexts, const struct tr_next *next)
{
    if (nexts->has_after && tr_next_compare(next, &nexts->after) <= 0)
        return;
    if (nexts->count == 2 * nexts->limit)
        tr_survey_sort(nexts);
    nexts->list[nexts->count++] = *next;
}

/* A slice of a walk. It goes by hash, and records lie where they were stored: each would have to be
 * waited for, so those to come are fetched some places ahead. */
struct slice {
    struct tr_index_walk walk;
    struct tr_index_walk fetched;
    unsigned looked;
};

static struct slice begin(const struct tr_timers *timers, uint64_t cursor)
{
    struct tr_index_walk walk = tr_index_seek(&timers->book.index, cursor);
    struct slice slice = {.walk = walk, .fetched = walk};
    tr_ref ref = TR_ARENA_NONE;
    for (unsigned i = 0; i < FETCHED && tr_index_next(&slice.fetched, &ref); i++)
        tr_book_fetch(&timers->book, ref);
    return slice;
}

/* A record of the slice that the query chooses. False: the slice, or the walk, is over. */
static bool step(const struct tr_timers *timers, const struct tr_query *query, struct slice *slice,
                 uint64_t *cursor, struct tr_record *record)
{
    tr_ref ref = TR_ARENA_NONE;
    while (tr_index_next(&slice->walk, &ref)) {
        tr_ref next = TR_ARENA_NONE;
        if (tr_index_next(&slice->fetched, &next))
            tr_book_fetch(&timers->book, next);
        uint64_t hash = tr_book_hash(tr_book_id(&timers->book, ref));
        if (slice->looked >= SLICE && hash != *cursor) { /* all parts of an id are in one slice */
            *cursor = hash;
            return false;
        }
        *cursor = hash;
        slice->looked++;
        if (tr_list_has(timers, ref, query, record))
            return true;
    }
    *cursor = UINT64_MAX;
    return false;
}

bool tr_survey_count(struct tr_timers *timers, const struct tr_query *query, uint64_t *cursor,
                     struct tr_ahead *ahead)
{
    struct slice slice = begin(timers, *cursor);
    struct tr_record record;
    while (step(timers, query, &slice, cursor, &record))
        count(timers, &record.head, ahead);
    return *cursor != UINT64_MAX;
}

bool tr_survey_next(struct tr_timers *timers, const struct tr_query *query, uint64_t *cursor,
                    struct tr_nexts *nexts)
{
    TR_ASSERT(nexts->limit > 0 && nexts->limit <= TR_LIST_LIMIT_MAX);
    struct slice slice = begin(timers, *cursor);
    struct tr_record record;
    while (step(timers, query, &slice, cursor, &record)) {
        const struct tr_head *head = &record.head;
        bool is_dead = (head->flags & TR_RECORD_DEAD) != 0;
        struct tr_next next = {.due_ms = head->due_ms - (is_dead ? head->lag_ms : 0),
                               .hash = tr_book_hash(head->key.id),
                               .part = head->key.part};
        keep(nexts, &next);
    }
    return *cursor != UINT64_MAX;
}

tr_ref tr_survey_find(const struct tr_timers *timers, const struct tr_next *next)
{
    struct tr_index_walk walk = tr_index_seek(&timers->book.index, next->hash);
    tr_ref ref = TR_ARENA_NONE;
    while (tr_index_next(&walk, &ref)) {
        struct tr_head head;
        tr_book_head(&timers->book, ref, &head);
        if (tr_book_hash(head.key.id) != next->hash)
            break;
        if (head.key.part == next->part && (head.flags & TR_RECORD_TOMBSTONE) == 0)
            return ref;
    }
    return TR_ARENA_NONE;
}
