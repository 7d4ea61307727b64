/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/roster_log.h"

#include "log/batch.h"
#include "log/reclaim.h"
#include "log/segment.h"

#define IS_SHARED   1 /* flags of an entry */
#define IS_ARRIVED  2
#define IS_RELEASED 4

/* Writes a list to the log, in place of what that has of it. */
static void append(struct tr_membership *membership, enum tr_log_type type,
                   const struct tr_roster *list, struct tr_kept *kept)
{
    struct tr_log *log = membership->log;
    struct tr_writer out = tr_writer_on(membership->bytes, 1 + TR_ROSTER_SIZE_MAX);
    tr_put_number(&out,
                  (membership->is_shared ? IS_SHARED : 0u) |
                      (membership->is_arrived ? IS_ARRIVED : 0u) |
                      (membership->is_released ? IS_RELEASED : 0u),
                  1);
    tr_roster_put(&out, list);
    TR_ASSERT(!out.is_full);
    struct tr_log_entry entry = {.type = type,
                                 .address = {(const char *)membership->bytes, out.size}};
    if (kept->size > 0)
        tr_log_is_dead(log, kept->segment, kept->size);
    kept->size = tr_log_put(tr_log_writer(log), &entry);
    kept->segment = tr_log_appended_live(log, kept->size);
    kept->is_due = false;
}

static size_t bound_of(const struct tr_roster *list)
{
    size_t size = 128;
    for (uint32_t i = 0; i < list->count; i++)
        size += list->nodes[i].address_size + 6u + 5u * list->nodes[i].position_count;
    return size;
}

static void keep(struct tr_membership *membership, enum tr_log_type type,
                 const struct tr_roster *list, struct tr_kept *kept)
{
    if (!membership->log->config.has_log)
        kept->is_due = false;
    if (kept->is_due && tr_log_has_room(membership->log, bound_of(list), false))
        append(membership, type, list, kept);
}

bool tr_roster_log_keep(struct tr_membership *membership)
{
    keep(membership, TR_LOG_ROSTER, membership->roster, &membership->roster_kept);
    keep(membership, TR_LOG_HEEDED, membership->heeded, &membership->heeded_kept);
    return !membership->roster_kept.is_due && !membership->heeded_kept.is_due;
}

bool tr_roster_log_restore(struct tr_membership *membership, const struct tr_log_entry *entry,
                           uint64_t segment)
{
    bool is_roster = entry->type == TR_LOG_ROSTER;
    struct tr_kept *kept = is_roster ? &membership->roster_kept : &membership->heeded_kept;
    struct tr_reader in = tr_reader_on(entry->address.text, entry->address.size);
    uint64_t flags = tr_get_number(&in, 1);
    if (!tr_roster_get(&in, membership->scratch) || in.at != in.end ||
        (is_roster && membership->scratch->epoch == 0))
        return false;
    *(is_roster ? membership->roster : membership->heeded) = *membership->scratch;
    if (is_roster) {
        membership->is_shared = (flags & IS_SHARED) != 0;
        membership->is_arrived = (flags & IS_ARRIVED) != 0;
        membership->is_released = (flags & IS_RELEASED) != 0;
    }
    if (kept->size > 0)
        tr_log_is_dead(membership->log, kept->segment, kept->size);
    kept->size = entry->address.size + TR_LOG_ENTRY_HEAD_MAX;
    kept->segment = (uint32_t)(segment & TR_LOG_SEGMENT_MASK);
    tr_log_restored(membership->log, kept->segment, kept->size);
    return true;
}

static bool copy(struct tr_membership *membership, enum tr_log_type type,
                 const struct tr_roster *list, struct tr_kept *kept)
{
    if (kept->size == 0 || !tr_log_is_oldest(membership->log, kept->segment))
        return true;
    if (!tr_log_begin_copy(membership->log, bound_of(list)))
        return false;
    append(membership, type, list, kept);
    tr_log_end_copy(membership->log);
    return true;
}

bool tr_roster_log_copy(struct tr_membership *membership)
{
    return copy(membership, TR_LOG_ROSTER, membership->roster, &membership->roster_kept) &&
           copy(membership, TR_LOG_HEEDED, membership->heeded, &membership->heeded_kept);
}
