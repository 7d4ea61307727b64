/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client wants of the core, by whatever front it came, and how the core answers: results of
 * its own, which each front puts into its words.
 */
#ifndef TR_SEAM_COMMAND_H
#define TR_SEAM_COMMAND_H

#include "base/record.h"
#include "base/time.h"

#define TR_LIST_LIMIT     100 /* timers of a page, unless asked otherwise */
#define TR_LIST_LIMIT_MAX 1000

enum tr_command {
    TR_COMMAND_CREATE,
    TR_COMMAND_REPLACE,
    TR_COMMAND_CANCEL,
    TR_COMMAND_READ,
    TR_COMMAND_LIST,
    TR_COMMAND_RESYNC_LIST, /* as nodes of the original want it */
    TR_COMMAND_REDRIVE,
    TR_COMMAND_FIRE,
};

#define TR_NARROW_MAX 8

/* What a client is narrowed to: timers of any of these tags, or with names that begin so. */
struct tr_narrow {
    uint8_t count; /* 0: it is not */
    struct tr_narrow_by {
        bool is_prefix;
        struct tr_span text;
    } any[TR_NARROW_MAX];
};

/* Of a list, and of a redrive its sequence. */
struct tr_query {
    uint32_t limit;
    bool has_cursor;
    bool wants_dead;
    bool wants_retrying;
    bool wants_any;   /* whatever its state */
    bool wants_whole; /* timers, and no pops of them that have split off */
    bool wants_held;  /* all timers that this node holds, for a backup */
    bool has_view;
    uint64_t cursor;
    uint64_t sequence;  /* 0: all of them */
    struct tr_span tag; /* text is NULL when not given; so are those of the others */
    struct tr_span uri_prefix;
    struct tr_span name_prefix;
    const struct tr_narrow *narrow; /* NULL: all timers may be seen */
    uint64_t set_before;            /* of a lower version; 0: not given */
    tr_wall_ms due_after_ms;        /* due at it, or later, */
    tr_wall_ms due_before_ms;       /* and before this; 0: not given */
    struct tr_span node; /* of RESYNC_LIST: whose timers, by this view, due from then on */
    uint64_t view;
    uint64_t from_ms;
};

enum tr_result {
    TR_DONE,

    /* As it was asked it cannot be done. */
    TR_NOT_FOUND,
    TR_NO_DEAD_POP,
    TR_FACTOR_DISAGREES, /* with the timer's id */
    TR_FACTOR_IS_FIXED,  /* the timer was made with another one */
    TR_VERSION_AHEAD,    /* what is to be restored is of a time to come */
    TR_CONDITION_FAILED, /* the timer is not, or no longer, as the request wants it */
    TR_KEY_REUSED,       /* an Idempotency-Key came before, with another body */
    TR_KEY_BUSY,         /* a request with that key is under way */
    TR_NAME_TAKEN,       /* by a timer of another name, whose id is the same */
    TR_NO_ZONE,          /* there is none of that name */
    TR_NEVER_DUE,        /* what was asked for never pops */
    TR_RESYNC_INCOMPLETE,
    TR_RESYNC_OTHER_VIEW,
    TR_RESYNC_NO_NODE,

    /* It may be tried again later. From here on nothing has happened, */
    TR_STARTING,
    TR_OLDER_MEMBER, /* a node of an older version cannot hold it */
    TR_STOPPING,
    TR_CLOCK_AHEAD, /* of the others' */
    TR_DISK_FULL,
    TR_DISK_SLOW,
    TR_TOO_MANY_WRITES,
    TR_TOO_MANY_REQUESTS,
    TR_MEMORY_FULL,
    TR_REPLICA_FULL,
    TR_NO_NODE_UP,  /* that could hold it */
    TR_NO_ANSWER,   /* of a node that may have it */
    TR_NO_KEYSPACE, /* there is none */
    TR_NO_MEMBER,   /* this node is none of the cluster */
    TR_UNKNOWN,     /* or may have */
    TR_RESULTS,
};

static inline bool tr_result_is_refusal(enum tr_result result)
{
    return result >= TR_STARTING;
}

/* Whether it may see a timer with these tags and this name; text of NULL: it has none. */
bool tr_narrow_sees(const struct tr_narrow *narrow, const struct tr_tag *tags, size_t count,
                    struct tr_span name);

/* A few words for traces and assertions; clients hear those of their front. */
const char *tr_result_name(enum tr_result result);

#endif
