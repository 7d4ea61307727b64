/* SPDX-License-Identifier: Apache-2.0 */
#include "seam/command.h"

#include "base/assert.h"

bool tr_narrow_sees(const struct tr_narrow *narrow, const struct tr_tag *tags, size_t count,
                    struct tr_span name)
{
    bool is_seen = narrow->count == 0;
    TR_ASSERT(narrow->count <= TR_NARROW_MAX);
    for (unsigned i = 0; i < narrow->count; i++) {
        const struct tr_narrow_by *by = &narrow->any[i];
        is_seen |= by->is_prefix && name.text != NULL && tr_span_starts(name, by->text);
        for (size_t k = 0; !by->is_prefix && k < count; k++)
            is_seen |= tr_span_equals(tags[k].name, by->text);
    }
    return is_seen;
}

const char *tr_result_name(enum tr_result result)
{
    static const char *const names[TR_RESULTS] = {
        [TR_DONE] = "done",
        [TR_NOT_FOUND] = "not found",
        [TR_NO_DEAD_POP] = "no dead pop",
        [TR_FACTOR_DISAGREES] = "the factor disagrees",
        [TR_FACTOR_IS_FIXED] = "the factor is fixed",
        [TR_VERSION_AHEAD] = "the version is ahead",
        [TR_CONDITION_FAILED] = "the condition failed",
        [TR_KEY_REUSED] = "the key is reused",
        [TR_KEY_BUSY] = "the key is busy",
        [TR_NAME_TAKEN] = "the name is taken",
        [TR_NO_ZONE] = "no zone",
        [TR_NEVER_DUE] = "never due",
        [TR_RESYNC_INCOMPLETE] = "resync is incomplete",
        [TR_RESYNC_OTHER_VIEW] = "resync of another view",
        [TR_RESYNC_NO_NODE] = "resync of no node",
        [TR_STARTING] = "starting",
        [TR_OLDER_MEMBER] = "an older member",
        [TR_STOPPING] = "stopping",
        [TR_CLOCK_AHEAD] = "clock ahead",
        [TR_DISK_FULL] = "disk full",
        [TR_DISK_SLOW] = "disk slow",
        [TR_TOO_MANY_WRITES] = "too many writes",
        [TR_TOO_MANY_REQUESTS] = "too many requests",
        [TR_MEMORY_FULL] = "memory full",
        [TR_REPLICA_FULL] = "replica full",
        [TR_NO_NODE_UP] = "no node up",
        [TR_NO_ANSWER] = "no answer",
        [TR_NO_KEYSPACE] = "no keyspace",
        [TR_NO_MEMBER] = "no member",
        [TR_UNKNOWN] = "unknown",
    };
    TR_ASSERT(result < TR_RESULTS);
    return names[result];
}
