/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that lies as disks do: what was not synced may be lost, torn, or written out of order by a
 * crash; it may be full; it may be slow.
 */
#ifndef TR_SIM_DISK_H
#define TR_SIM_DISK_H

#include "base/random.h"
#include "node/node.h"

struct sim_segment {
    uint64_t number;
    uint8_t *bytes;
    size_t size;
};

struct sim_disk {
    struct sim_segment *segments; /* by number */
    size_t count;
    size_t used;   /* bytes, */
    size_t limit;  /* and how many fit; more is a full disk */
    bool fills_up; /* others take what is given back */
    struct tr_random *random;

    /* The write that is not synced yet. */
    bool is_writing;
    uint64_t write_segment;
    uint64_t write_offset;
    uint8_t *write_bytes;
    size_t write_size;

    /* What a killed process had written and not synced: it is read, and may be lost yet. */
    uint64_t cached_segment;
    uint64_t cached_offset;
    size_t cached_size;
    uint8_t *before; /* what is there if it is lost; NULL: there is nothing of that kind */
};

void sim_disk_init(struct sim_disk *disk, struct tr_random *random);
void sim_disk_free(struct sim_disk *disk);

/* What is synced, as it is now. */
void sim_disk_copy(const struct sim_disk *from, struct sim_disk *to);

/* Takes a write; it is safe after sim_disk_sync. */
void sim_disk_write(struct sim_disk *disk, const struct tr_effect *effect);
void sim_disk_sync(struct sim_disk *disk);

/* False: full. */
bool sim_disk_allocate(struct sim_disk *disk, uint64_t number, size_t size);
void sim_disk_remove(struct sim_disk *disk, uint64_t number);
void sim_disk_trim(struct sim_disk *disk, uint64_t number, size_t size);

void sim_disk_empty(struct sim_disk *disk); /* there is room */

/* Nothing more fits, also when something is removed; and what was asked for last, and is not used
 * yet, may not have been there. */
void sim_disk_fill(struct sim_disk *disk);

/* The process goes, and the machine stays: all of the write that was not synced is there, until the
 * power goes, too. What is trimmed is synced. */
void sim_disk_kill(struct sim_disk *disk);

/* The power goes: of the write that was not synced, anything from nothing to all stays. */
void sim_disk_crash(struct sim_disk *disk);

/* Flips a bit in the middle of what was synced. False: there is nothing to damage. */
bool sim_disk_damage(struct sim_disk *disk);

/* What `tryst log repair` makes of it: every sound batch, under the id of another store. */
void sim_disk_repair(struct sim_disk *disk, uint8_t store);

/* For the node; the caller frees it. */
struct tr_log_segment *sim_disk_list(const struct sim_disk *disk, size_t *count);

#endif
