/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log as a node sees it: entries gather in a batch; one batch is written at a time, and while
 * it is, the next one gathers. That is the group commit: the slower the disk, the larger the batch.
 *
 * An entry is a type and bytes; the log reads those that are its own (ceilings, offsets, segments
 * that go) and hands the others to its hooks. Whoever waits for an entry leaves a ticket, and gets
 * it back when the entry is durable.
 *
 *   batch.c     entries, the tickets of those who wait for them, writing
 *   segment.c   the files: allocated ahead, opened, closed, refused by a full disk
 *   reclaim.c   the oldest segment's live entries are written again, and its file goes
 *   recovery.c  what is on disk is checked and replayed
 *
 * Owns:    the batch that gathers, the tickets, the counts of live bytes.
 * Bounds:  TR_LOG_SEGMENTS_MAX segments; `waiting_cap` tickets; a batch of `batch_cap` bytes.
 */
#ifndef TR_LOG_LOG_H
#define TR_LOG_LOG_H

#include "memory/arena.h"
#include "seam/effect.h"
#include "seam/mutant.h"

#define TR_LOG_SEGMENTS_MAX 65536

/* The ticket of whoever waits until the log has an entry. The log reads `batch` and `since_ms`. */
struct tr_waiting {
    uint64_t token; /* 0: nobody is to be answered */
    uint64_t batch; /* set by tr_log_wait */
    tr_mono_ms since_ms;
    struct tr_key key;
    struct tr_order order;
    tr_ref ref; /* TR_ARENA_NONE: nothing is to be armed */
    uint32_t factor;
    bool has_location;
    bool is_replayed; /* it was written before */
    uint8_t then;     /* what is to be done then: its owner knows */
    uint16_t peer;
};

/* What the log asks of those who write to it. */
struct tr_log_hooks {
    void *context;
    /* Writes the names of all members, each as a span; returns how many. */
    uint32_t (*put_members)(void *context, struct tr_writer *writer);
    void (*set_member)(void *context, uint16_t index, struct tr_span address);
    /* An entry that is replayed. TR_LOG_SOUND, or why it cannot be applied. */
    enum tr_log_verdict (*apply)(void *context, struct tr_log_entry *entry, uint64_t segment);
    /* Writes live entries of the oldest segment again, from the record with this hash on, as many
     * as there is room for. */
    void (*copy_oldest)(void *context, uint64_t *cursor);
};

struct tr_log_config {
    bool has_log;
    bool is_always_synced; /* what was answered is on disk, also after a power loss */
    size_t segment_size;
    size_t batch_cap;
    uint32_t waiting_cap; /* a power of two */
    uint32_t slice;       /* entries that one step replays, at most */
};

/* Where the replay of the segments on disk is. */
struct tr_recovery {
    struct tr_log_segment *segments;
    size_t count;
    size_t index;
    size_t offset; /* of the next batch in that segment; 0: its header comes first */
    size_t spares; /* allocated segments that follow, never used */
    bool is_clean; /* the last entry was a clean stop */
};

struct tr_log {
    struct tr_log_config config;
    struct tr_log_hooks hooks;
    const struct tr_time *time;
    const struct tr_trial *trial;
    bool is_running; /* the node is: what was written is sealed */

    /* The batch being filled, bound to `segment`. */
    uint8_t *buffer; /* TR_LOG_BATCH_HEAD first */
    struct tr_writer batch;
    uint64_t number;            /* of the batch being filled, from 1 */
    uint64_t durable;           /* batches up to this number may be answered */
    struct tr_waiting *waiting; /* a ring */
    uint64_t waiting_head;
    uint64_t waiting_tail;

    uint64_t segment;      /* the current one's number */
    uint64_t started;      /* the first that this process writes */
    uint64_t offset;       /* in its file, where the batch will go */
    uint64_t first;        /* its first position */
    bool is_begun;         /* its header was written, */
    uint32_t format;       /* and says this */
    uint64_t trim_segment; /* one that was closed, whose file is to be cut to its size; 0: none */
    uint64_t trim_size;
    bool is_extended;   /* the log is to hold records that only the latest format has */
    uint64_t allocated; /* segments up to this number are there */
    bool is_asked;      /* for the one after */
    bool is_refused;
    bool is_exhausted; /* and nothing is left but what reclaim needs */
    tr_mono_ms retry_at_ms;
    uint64_t previous_end;

    bool is_unsealed; /* no batch says that the last one was synced */
    bool is_sealing;  /* the one that is filled does */
    tr_mono_ms written_ms;

    bool is_writing;
    uint64_t writing_end; /* the position after the write under way */
    uint64_t synced;      /* everything below this position is on disk */

    uint8_t *header; /* scratch for a segment's header */
    uint8_t *table;  /* and for the nodes in it */
    uint64_t oldest;
    uint32_t *live;  /* records by segment, modulo TR_LOG_SEGMENTS_MAX */
    uint64_t *sizes; /* bytes of segments, likewise */
    uint64_t bytes;  /* of all segments but the current one */
    uint64_t live_bytes;

    bool is_reclaiming;
    uint64_t reclaim_cursor; /* hash of the record to look at next */
    uint64_t round_end;      /* on a full disk: segments up to this one are gone through; 0: none */
    int64_t appended;        /* bytes since that began, copies aside */
    size_t copy_start;       /* of the batch, before the copy that is being made */
    size_t copied;           /* bytes of copies in batch `copied_to` */
    uint64_t copied_to;      /* a batch */
    bool is_copy_refused;    /* the batch had no room for it */
    bool is_copy_due;        /* clients left it no room: it has more of the next batch */
    bool is_removing;        /* the oldest goes when `remove_after` is durable */
    uint64_t remove_after;   /* a batch */

    uint8_t store_id[TR_LOG_STORE_ID_SIZE];
    struct tr_log_incarnation incarnations[TR_LOG_INCARNATIONS_MAX];
    uint32_t incarnation_count;
    int64_t offset_ms; /* wall time less steady time, as logged last */
    uint64_t ceiling;  /* no stamp above it was given out */
    struct tr_recovery recovery;

    uint64_t batches; /* counts since the start */
    uint64_t entries;
    uint64_t reclaimed;
};

/* At the end of a step: writes the batch, if it may, and looks after the segments. */
void tr_log_run(struct tr_log *log, bool may_write, struct tr_effects *out);

/* A write that was under way is there. */
void tr_log_written(struct tr_log *log, uint64_t written, uint64_t synced);

bool tr_log_is_idle(const struct tr_log *log); /* nothing waits, nothing is under way */
bool tr_log_wants_tick(const struct tr_log *log);
tr_mono_ms tr_log_wake_at(const struct tr_log *log);
uint64_t tr_log_segment_count(const struct tr_log *log);

#endif
