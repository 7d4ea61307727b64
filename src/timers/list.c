/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/list.h"

#include "cluster/member.h"
#include "cluster/peer.h"
#include "cluster/view.h"
#include "replication/set.h"
#include "wire/plan.h"

#define FIND_SLICE 1024  /* records looked at in one go */
#define SCAN_MAX   20000 /* records looked at for one page; then the page is short */

/* The first node of a timer's replica set that is up lists it, so that each is listed once. */
static bool is_first_up(const struct tr_timers *timers, const struct tr_record *record)
{
    for (unsigned i = 0; i < record->head.replicas.count; i++) {
        if (record->head.replicas.members[i] == 0)
            return true;
        if (tr_peer_is_up(timers->cluster, record->head.replicas.members[i]))
            return false;
    }
    return false;
}

static bool has_name(const struct tr_record *record, struct tr_span prefix)
{
    struct tr_own own;
    return prefix.text == NULL ||
           (tr_own_get(record->own, &own) && tr_span_starts(own.name, prefix));
}

/* Of one that is dead, when its pop was due. */
static bool is_chosen(const struct tr_timers *timers, const struct tr_record *record,
                      const struct tr_query *query)
{
    tr_wall_ms wall_ms = tr_list_due(timers, &record->head);
    bool is_called =
        query->uri_prefix.text == NULL || tr_span_starts(record->uri, query->uri_prefix);
    bool is_before = query->set_before == 0 || record->head.order.version < query->set_before;
    return is_called && is_before && has_name(record, query->name_prefix) &&
           wall_ms >= query->due_after_ms &&
           (query->due_before_ms == 0 || wall_ms < query->due_before_ms);
}

tr_wall_ms tr_list_due(const struct tr_timers *timers, const struct tr_head *head)
{
    bool is_dead = (head->flags & TR_RECORD_DEAD) != 0;
    return head->due_ms - (is_dead ? head->lag_ms : 0) + timers->time->wall_ms -
           timers->time->steady_ms;
}

static bool is_seen(const struct tr_record *record, const struct tr_narrow *narrow)
{
    struct tr_own own;
    struct tr_span name = {NULL, 0};
    if (narrow->count > 0 && tr_own_get(record->own, &own))
        name = own.name;
    return tr_narrow_sees(narrow, record->tags, record->tag_count, name);
}

bool tr_list_sees(const struct tr_record *record, const struct tr_narrow *narrow)
{
    return narrow == NULL || is_seen(record, narrow);
}

bool tr_list_has(const struct tr_timers *timers, tr_ref ref, const struct tr_query *query,
                 struct tr_record *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    uint8_t flags = tr_book_flags(&timers->book, ref);
    bool is_dead = (flags & TR_RECORD_DEAD) != 0;
    if ((flags & TR_RECORD_TOMBSTONE) != 0 || (is_dead != query->wants_dead && !query->wants_any))
        return false;
    tr_book_unpack(&timers->book, ref, record);
    if (query->wants_held)
        return record->head.key.part == 0;
    if (!is_first_up(timers, record))
        return false;
    bool is_retrying = record->head.order.attempt > 0 || record->head.key.part > 0;
    if (query->wants_whole && record->head.key.part > 0)
        return false;
    bool is_part = record->head.key.part > 0 && !query->wants_dead && !query->wants_any;
    if (query->wants_retrying ? !is_retrying : is_part)
        return false;
    if (!is_chosen(timers, record, query) ||
        (query->narrow != NULL && !is_seen(record, query->narrow)))
        return false;
    if (query->tag.text == NULL)
        return true;
    for (unsigned i = 0; i < record->tag_count; i++) {
        if (tr_span_equals(record->tags[i].name, query->tag))
            return true;
    }
    return false;
}

/* Whether a node is to have a record by the view, and it is due late enough. */
static bool is_for_node(const struct tr_timers *timers, tr_ref ref, const struct tr_query *query)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_record record;
    uint16_t placed[TR_SET_MAX] = {0};
    uint16_t member = tr_member_find(timers->cluster, query->node);
    tr_book_unpack(&timers->book, ref, &record);
    if ((record.head.flags & (TR_RECORD_TOMBSTONE | TR_RECORD_DEAD)) != 0 ||
        record.head.key.part > 0 || record.head.due_ms < timers->time->steady_ms + query->from_ms)
        return false;
    unsigned count = tr_view_place(timers->cluster, record.head.key.id,
                                   tr_set_copies(timers->replication, record.head.factor), placed);
    for (unsigned i = 0; i < count; i++) {
        if (placed[i] == member)
            return true;
    }
    return false;
}

enum tr_result tr_list_check_resync(const struct tr_timers *timers, const struct tr_query *query)
{
    const struct tr_cluster *cluster = timers->cluster;
    if (query->node.text == NULL || !query->has_view)
        return TR_RESYNC_INCOMPLETE;
    if (query->view != cluster->view.id)
        return TR_RESYNC_OTHER_VIEW;
    uint16_t member = tr_member_find(cluster, query->node);
    bool is_known =
        member != TR_MEMBER_NONE && (member == 0 || cluster->members[member].role != TR_ROLE_NONE);
    return is_known ? TR_DONE : TR_RESYNC_NO_NODE;
}

/* A page: records by the hash of their id, from behind the cursor. All parts of an id are on one
 * page, so a page may be a few records longer than asked. */
void tr_list_page(struct tr_timers *timers, const struct tr_event *event, struct tr_effects *out)
{
    TR_ASSERT(event->of.request.query->limit > 0);
    const struct tr_query *query = event->of.request.query;
    bool is_resync = event->of.request.command == TR_COMMAND_RESYNC_LIST;
    uint64_t start = query->has_cursor ? query->cursor + 1 : 0;
    bool is_over = query->has_cursor && query->cursor == UINT64_MAX;
    struct tr_index_walk walk = tr_index_seek(&timers->book.index, start);
    tr_ref ref = TR_ARENA_NONE;
    struct tr_record record;
    uint32_t count = 0;
    uint64_t last = 0;
    bool has_more = false;
    for (unsigned i = 0; !is_over && tr_index_next(&walk, &ref); i++) {
        uint64_t hash = tr_book_hash(tr_book_id(&timers->book, ref));
        has_more = hash != last && (count >= query->limit || i >= SCAN_MAX);
        if (has_more || count == sizeof timers->page / sizeof timers->page[0])
            break;
        last = hash;
        if (is_resync ? is_for_node(timers, ref, query) : tr_list_has(timers, ref, query, &record))
            timers->page[count++] = ref;
    }
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_ANSWER_PAGE);
    effect->of.page.token = event->of.request.token;
    effect->of.page.refs = timers->page;
    effect->of.page.count = count;
    effect->of.page.is_resync = is_resync;
    effect->of.page.is_held = query->wants_held;
    effect->of.page.has_more = has_more;
    effect->of.page.cursor = last;
}

unsigned tr_list_find(struct tr_timers *timers, const struct tr_query *query, uint64_t *cursor,
                      struct tr_timer_text *out, unsigned most)
{
    struct tr_index_walk walk = tr_index_seek(&timers->book.index, *cursor);
    uint64_t last = 0; /* no two ids share a hash; all parts of one are looked at together */
    unsigned count = 0;
    for (unsigned i = 0;; i++) {
        tr_ref ref = TR_ARENA_NONE;
        struct tr_record record;
        if (!tr_index_next(&walk, &ref)) {
            *cursor = UINT64_MAX;
            return count;
        }
        uint64_t hash = tr_book_hash(tr_book_id(&timers->book, ref));
        bool is_next = i == 0 || hash != last;
        if (is_next && (i >= FIND_SLICE || count == most)) {
            *cursor = hash;
            return count;
        }
        last = hash;
        tr_timer_id id = tr_book_id(&timers->book, ref);
        bool is_told = count > 0 && out[count - 1].id == id;
        if (!is_told && tr_list_has(timers, ref, query, &record))
            out[count++] = (struct tr_timer_text){.id = id, .factor = record.head.factor};
    }
}
