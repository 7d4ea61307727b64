/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log's files, and the thread that writes and syncs them.
 *
 * The loop hands over what the node orders, in its order; the thread does it and reports. A write
 * or sync that fails ends the process: after it no answer could be true. Only allocating a segment
 * may fail for want of space.
 *
 * Owns:    the data directory, by a lock; a copy of each batch until it is written.
 */
#ifndef TR_SHELL_DISK_H
#define TR_SHELL_DISK_H

#include "node/node.h"

#include <uv.h>

enum tr_sync { TR_SYNC_ALWAYS, TR_SYNC_INTERVAL, TR_SYNC_NEVER };

struct tr_disk;

/* What the thread has done, as an event for the node. Called on the loop. */
typedef void tr_disk_report(void *context, const struct tr_event *event, uint64_t commit_us);

struct tr_disk_config {
    const char *directory;
    enum tr_sync sync;
    uint64_t sync_interval_ms;
    uv_loop_t *loop;
    tr_disk_report *report;
    void *context;
};

/* Locks the directory, making it if needed. NULL: it has said why. */
struct tr_disk *tr_disk_open(const struct tr_disk_config *config);

/* The segments that are there, mapped into memory, by number. */
bool tr_disk_map(struct tr_disk *disk, struct tr_log_segment **segments, size_t *count);
void tr_disk_unmap(struct tr_disk *disk);

/* Copies what the effect points to. */
void tr_disk_do(struct tr_disk *disk, const struct tr_effect *effect);

void tr_disk_path(const struct tr_disk *disk, uint64_t number, char *path, size_t size);

/* A start that fails takes away what it has made. */
void tr_disk_forsake(const struct tr_disk *disk);

/* Waits for the thread to finish what it was given, and lets the directory go. */
void tr_disk_close(struct tr_disk *disk);

#endif
