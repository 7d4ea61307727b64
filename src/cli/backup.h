/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup: a file with every key and every timer of a cluster.
 *
 * The file begins with TR_BACKUP_MAGIC. Then there are blocks: a byte of their kind, 4 bytes of
 * their size, 8 bytes of a checksum (XXH3 of kind, size and what follows), and so many bytes.
 * Numbers are little-endian; a span is a varint of its size, and its bytes.
 *
 *   HEAD    the first. The time it was begun at (varint, ms since 1970), the cluster (span), its
 *           partitions, copies, reads and writes (varints), its nodes (a varint, spans), and those
 *           of them that did not answer (likewise)
 *   KEYS    key, value (spans), when it expires (varint, ms since 1970; 0: never), callback (span),
 *           version (8 bytes); again and again
 *   TIMERS  id, and the timer as GET /timers?scope=held shows it (spans); again and again
 *   END     the last: how many keys, how many timers (varints)
 */
#ifndef TR_CLI_BACKUP_H
#define TR_CLI_BACKUP_H

#include "base/bytes.h"
#include "cli/members.h"

#define TR_BACKUP_MAGIC      "TRYSTBK1"
#define TR_BACKUP_MAGIC_SIZE 8

enum tr_backup_kind {
    TR_BACKUP_HEAD = 'H',
    TR_BACKUP_KEYS = 'K',
    TR_BACKUP_TIMERS = 'T',
    TR_BACKUP_END = 'E',
};

struct tr_backup_key {
    struct tr_span key;
    struct tr_span value;
    uint64_t expires_ms; /* since 1970; 0: never */
    struct tr_span callback;
    uint64_t version;
};

/* How many there are, and of what. */
struct tr_backup_counts {
    uint64_t keys;
    uint64_t timers;
    uint64_t blocks;
    uint64_t bytes;
};

/* ---- writing ---- */

/* It is written beside its path, and is there when all of it is. */
struct tr_backup_out {
    const char *command;
    const char *path;
    char *beside;
    FILE *file;
    char kind; /* of the block that gathers; 0: none does */
    uint8_t *bytes;
    size_t size;
    size_t cap;
    struct tr_backup_counts counts;
};

/* False, here and below: it has said why not. */
bool tr_backup_begin(struct tr_backup_out *out, const char *command, const char *path);
void tr_backup_put_key(struct tr_backup_out *out, const struct tr_backup_key *key);
void tr_backup_put_timer(struct tr_backup_out *out, struct tr_span id, struct tr_span json);
/* Any block, whole. */
bool tr_backup_put_block(struct tr_backup_out *out, enum tr_backup_kind kind, const void *bytes,
                         size_t size);
/* Writes what has gathered, if that is much. */
bool tr_backup_flush(struct tr_backup_out *out, bool is_all);
bool tr_backup_finish(struct tr_backup_out *out);
void tr_backup_drop(struct tr_backup_out *out);

/* ---- reading ---- */

struct tr_backup_in {
    const char *command;
    const char *path;
    FILE *file;
    uint64_t at; /* where the block that was read last begins */
    uint64_t next;
    enum tr_backup_kind kind;
    uint8_t *bytes; /* kind and size, then what the block holds */
    size_t cap;
    struct tr_reader block; /* what is left of it */
};

bool tr_backup_open(struct tr_backup_in *in, const char *command, const char *path);
/* The next block, whose checksum is good. */
bool tr_backup_next(struct tr_backup_in *in);
bool tr_backup_get_key(struct tr_backup_in *in, struct tr_backup_key *key);
bool tr_backup_get_timer(struct tr_backup_in *in, struct tr_span *id, struct tr_span *json);
/* Says what is wrong with the block that was read last, and where. */
bool tr_backup_is_damaged(const struct tr_backup_in *in, const char *what);
void tr_backup_close(struct tr_backup_in *in);

/* Reads all of a file, from its beginning to its end, and counts. */
bool tr_backup_verify(const char *command, const char *path, struct tr_backup_counts *counts);

/* ---- its commands ---- */

enum tr_exit tr_backup_create(const char *path, const char *node);
enum tr_exit tr_backup_inspect(const char *path);
enum tr_exit tr_backup_restore(const char *path, const char *node, bool is_merged);

/* Of every node that answers. */
bool tr_backup_put_timers(struct tr_backup_out *out, const struct tr_cluster_members *members);

/* Before what was refused for a while is tried again. */
void tr_backup_pause(void);

/* A line that is drawn over and over on a terminal; nothing elsewhere. `all` 0: not known. */
void tr_backup_progress(const char *what, uint64_t done, uint64_t all, bool is_last);

#endif
