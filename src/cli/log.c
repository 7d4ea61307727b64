/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tryst log check|dump|repair DIR`: looks at a node's data while it is stopped.
 *
 * A repair keeps every sound batch, leaves out what is damaged, and writes the rest anew under a
 * new store id, so that no peer takes it for the store it was. The files it read stay beside the
 * new ones, with `.damaged` added to their names.
 */
#include "cli/node.h"
#include "cli/options.h"
#include "wire/log_repair.h"
#include "wire/roster.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct log_files {
    const char *directory;
    struct tr_log_segment *segments;
    size_t count;
};

static void path_of(const struct log_files *files, uint64_t number, const char *suffix, char *path,
                    size_t size)
{
    snprintf(path, size, "%s/%016llx.segment%s", files->directory, (unsigned long long)number,
             suffix);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const struct tr_log_segment *)a)->number;
    uint64_t y = ((const struct tr_log_segment *)b)->number;
    return (x > y) - (x < y);
}

static bool map_segment(struct log_files *files, uint64_t number)
{
    static const uint8_t nothing[1];
    char path[4096];
    struct stat info;
    path_of(files, number, "", path, sizeof path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &info) != 0) {
        tr_failure("log", "cannot read %s: %s", path, strerror(errno));
        return false;
    }
    files->segments = tr_reallocate(files->segments, files->count + 1, sizeof *files->segments);
    struct tr_log_segment *segment = &files->segments[files->count++];
    *segment =
        (struct tr_log_segment){.number = number, .bytes = nothing, .size = (size_t)info.st_size};
    if (info.st_size > 0) {
        void *bytes = mmap(NULL, segment->size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes == MAP_FAILED) {
            tr_failure("log", "cannot map %s: %s", path, strerror(errno));
            return false;
        }
        segment->bytes = bytes;
    }
    close(file);
    return true;
}

/* Maps every segment. A node that runs holds the lock: its log is not to be looked at. */
static bool open_files(struct log_files *files)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/lock", files->directory);
    int lock = open(path, O_RDWR | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0) {
        tr_failure("log", "a node is using %s; stop it first", files->directory);
        return false;
    }
    DIR *directory = opendir(files->directory);
    if (directory == NULL) {
        tr_failure("log", "cannot read %s: %s", files->directory, strerror(errno));
        return false;
    }
    struct dirent *entry;
    bool is_good = true;
    while (is_good && (entry = readdir(directory)) != NULL) {
        char *end = NULL;
        uint64_t number = strtoull(entry->d_name, &end, 16);
        if (end - entry->d_name == 16 && strcmp(end, ".segment") == 0)
            is_good = map_segment(files, number);
    }
    closedir(directory);
    if (is_good && files->count == 0) {
        tr_failure("log", "there is no log in %s", files->directory);
        return false;
    }
    if (files->count > 0)
        qsort(files->segments, files->count, sizeof *files->segments, by_number);
    return is_good;
}

static enum tr_exit check(struct log_files *files)
{
    struct tr_log_check result = tr_log_check(files->segments, files->count);
    uint64_t bytes = 0;
    char path[4096] = "";
    for (size_t i = 0; i < result.used; i++)
        bytes += files->segments[i].valid_size;
    if (result.segment < files->count)
        path_of(files, files->segments[result.segment].number, "", path, sizeof path);
    switch (result.verdict) {
    case TR_LOG_SOUND:
    case TR_LOG_NO_MEMORY:
    case TR_LOG_TOO_LARGE:
        printf("sound: %zu segments, %llu bytes\n", result.used, (unsigned long long)bytes);
        return TR_EXIT_OK;
    case TR_LOG_TORN:
        printf("sound up to a torn tail at %s offset %zu, which was never acknowledged; the next "
               "start cuts it\n",
               path, result.offset);
        return TR_EXIT_OK;
    case TR_LOG_DAMAGED:
        printf("damaged: %s at offset %zu; 'tryst log repair' keeps what is sound\n", path,
               result.offset);
        return TR_EXIT_FAILED;
    case TR_LOG_MISSING:
        printf("a segment is missing before %s; 'tryst log repair' keeps what is there\n", path);
        return TR_EXIT_FAILED;
    case TR_LOG_TOO_NEW:
        printf("%s was written by a newer version of tryst\n", path);
        return TR_EXIT_FAILED;
    }
    return TR_EXIT_FAILED;
}

/* Text as a JSON string has it: a key may be any bytes. */
static void dump_text(struct tr_span text)
{
    putchar(' ');
    tr_json_string(stdout, text.text, text.size);
}

static void dump_pair(enum tr_log_type type, const struct tr_pair *pair)
{
    if (type < TR_LOG_KEY_FLOOR)
        dump_text(pair->key);
    printf(" version %016llx", (unsigned long long)pair->version);
    if (pair->expires_ms != TR_NEVER)
        printf(" %s %llu", type >= TR_LOG_KEY_FLOOR ? "at" : "expires",
               (unsigned long long)pair->expires_ms);
    if (type == TR_LOG_KEY)
        printf(" value %zu bytes", pair->value.size);
    if (pair->callback.size > 0)
        printf(" callback %.*s", (int)pair->callback.size, pair->callback.text);
}

static void dump_roster(struct tr_span bytes)
{
    static const char *const roles[] = {"", "staying", "joining", "leaving", "lost"};
    struct tr_roster *roster = tr_allocate(1, sizeof *roster);
    struct tr_reader in = tr_reader_on(bytes.text, bytes.size);
    tr_get_number(&in, 1); /* whether others share it */
    if (tr_roster_get(&in, roster)) {
        printf(" cluster %016llx epoch %llu", (unsigned long long)roster->cluster,
               (unsigned long long)roster->epoch);
        for (uint32_t i = 0; i < roster->count; i++)
            printf(" %.*s %s", (int)roster->nodes[i].address_size, roster->nodes[i].address,
                   roles[roster->nodes[i].role]);
    } else {
        fputs(" damaged", stdout);
    }
    free(roster);
}

static void dump_entry(const struct tr_log_entry *entry)
{
    static const char *const names[] = {
        [TR_LOG_PADDING] = "padding",   [TR_LOG_RECORD] = "record",
        [TR_LOG_SHORT] = "short",       [TR_LOG_TOMBSTONE] = "tombstone",
        [TR_LOG_DROP] = "drop",         [TR_LOG_ADVICE] = "advice",
        [TR_LOG_CEILING] = "ceiling",   [TR_LOG_INCARNATION] = "incarnation",
        [TR_LOG_OFFSET] = "offset",     [TR_LOG_CLEAN_STOP] = "clean stop",
        [TR_LOG_MEMBER] = "member",     [TR_LOG_OLDEST] = "oldest",
        [TR_LOG_KEY] = "key",           [TR_LOG_KEY_EXPIRY] = "key expiry",
        [TR_LOG_KEY_END] = "key end",   [TR_LOG_KEY_FLOOR] = "key floor",
        [TR_LOG_KEY_TIME] = "key time", [TR_LOG_ROSTER] = "roster",
        [TR_LOG_HEEDED] = "heeded",
    };
    const struct tr_record *record = &entry->record;
    printf("  %s", names[entry->type]);
    if (entry->type >= TR_LOG_RECORD && entry->type <= TR_LOG_ADVICE)
        printf(" %016llx part %llu version %016llx sequence %llu attempt %u",
               (unsigned long long)record->head.key.id, (unsigned long long)record->head.key.part,
               (unsigned long long)record->head.order.version,
               (unsigned long long)record->head.order.sequence, record->head.order.attempt);
    if (entry->type == TR_LOG_RECORD || entry->type == TR_LOG_SHORT)
        printf(" due %llu%s%s", (unsigned long long)record->head.due_ms,
               (record->head.flags & TR_RECORD_DEAD) != 0 ? " dead" : "",
               (record->head.flags & TR_RECORD_TOMBSTONE) != 0 ? " tombstone" : "");
    if (entry->type == TR_LOG_RECORD)
        printf(" interval %llu opaque %zu bytes uri %.*s", (unsigned long long)record->interval_ms,
               record->opaque.size, (int)record->uri.size, record->uri.text);
    if ((entry->type >= TR_LOG_CEILING && entry->type <= TR_LOG_OFFSET) ||
        entry->type == TR_LOG_OLDEST || entry->type == TR_LOG_MEMBER)
        printf(" %lld", (long long)entry->number);
    if (entry->type == TR_LOG_MEMBER)
        printf(" %.*s", (int)entry->address.size, entry->address.text);
    if (entry->type >= TR_LOG_KEY && entry->type <= TR_LOG_KEY_TIME)
        dump_pair(entry->type, &entry->pair);
    if (entry->type == TR_LOG_ROSTER || entry->type == TR_LOG_HEEDED)
        dump_roster(entry->address);
    putchar('\n');
}

static void dump_batch(const struct tr_log_batch *batch)
{
    struct tr_reader reader = tr_reader_on(batch->payload, batch->payload_size);
    struct tr_log_entry entry;
    printf("batch at offset %zu, position %llu, %zu bytes, synced below %llu\n", batch->offset,
           (unsigned long long)batch->position, batch->size, (unsigned long long)batch->synced);
    while (tr_log_get(&reader, &entry) == TR_LOG_GET_ONE)
        dump_entry(&entry);
}

static enum tr_exit dump(const struct log_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        const struct tr_log_segment *segment = &files->segments[i];
        struct tr_log_header header;
        struct tr_log_batch batch;
        size_t at = 0;
        enum tr_log_header_status status =
            tr_log_header_decode(segment->bytes, segment->size, &header, &at);
        printf("segment %016llx, %zu bytes: ", (unsigned long long)segment->number, segment->size);
        if (status != TR_LOG_HEADER_OK) {
            puts(status == TR_LOG_HEADER_SPARE ? "spare" : "its header is damaged or newer");
            continue;
        }
        printf("first position %llu, stamps below %llu, %u starts, wall less steady time %lld ms\n",
               (unsigned long long)header.first, (unsigned long long)header.ceiling,
               header.incarnation_count, (long long)header.offset_ms);
        while (tr_log_batch_find(segment->bytes, segment->size, header.first, at, &batch)) {
            if (batch.offset != at)
                printf("%zu bytes at offset %zu are no batch\n", batch.offset - at, at);
            dump_batch(&batch);
            at = batch.offset + batch.size;
        }
    }
    return TR_EXIT_OK;
}

/* ---- repair ---- */

static bool write_file(const char *path, const uint8_t *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    bool is_good = file >= 0;
    while (is_good && size > 0) {
        ssize_t written = write(file, bytes, size);
        is_good = written > 0;
        bytes += is_good ? written : 0;
        size -= is_good ? (size_t)written : 0;
    }
    is_good = is_good && fsync(file) == 0;
    if (!is_good)
        tr_failure("log", "cannot write %s: %s", path, strerror(errno));
    if (file >= 0)
        close(file);
    return is_good;
}

static bool repair_segment(struct log_files *files, struct tr_log_repair *repair,
                           const struct tr_log_segment *segment)
{
    char path[4096];
    char aside[4096];
    char fresh[4096];
    size_t cap = tr_log_repair_bound(segment);
    uint8_t *out = tr_allocate(cap, 1);
    size_t size = tr_log_repair_segment(repair, segment, out, cap);
    path_of(files, segment->number, "", path, sizeof path);
    path_of(files, segment->number, ".damaged", aside, sizeof aside);
    path_of(files, segment->number, ".new", fresh, sizeof fresh);
    bool is_good = write_file(fresh, out, size);
    bool is_there = segment->size > 0;
    if (is_good && ((is_there && rename(path, aside) != 0) || rename(fresh, path) != 0)) {
        tr_failure("log", "cannot rename %s: %s", path, strerror(errno));
        is_good = false;
    }
    free(out);
    return is_good;
}

static bool is_spare(const struct tr_log_segment *segment)
{
    struct tr_log_header header;
    size_t size = 0;
    return tr_log_header_decode(segment->bytes, segment->size, &header, &size) ==
           TR_LOG_HEADER_SPARE;
}

/* Segments at the end that were never used go; one that is missing is made, with nothing in it. */
static bool repair_all(struct log_files *files, struct tr_log_repair *repair)
{
    uint64_t number = files->segments[0].number;
    size_t used = files->count;
    while (used > 0 && is_spare(&files->segments[used - 1]))
        used--;
    for (size_t i = 0; i < files->count; i++, number++) {
        const struct tr_log_segment *segment = &files->segments[i];
        struct tr_log_segment missing = {.bytes = segment->bytes, .size = 0};
        for (; number < segment->number; number++) {
            missing.number = number;
            if (!repair_segment(files, repair, &missing))
                return false;
        }
        char path[4096];
        path_of(files, segment->number, "", path, sizeof path);
        if (i >= used)
            unlink(path);
        else if (!repair_segment(files, repair, segment))
            return false;
    }
    return true;
}

static enum tr_exit repair(struct log_files *files)
{
    struct tr_log_repair state;
    uint8_t store_id[TR_LOG_STORE_ID_SIZE];
    struct tr_log_check result = tr_log_check(files->segments, files->count);
    if (result.verdict == TR_LOG_SOUND || result.verdict == TR_LOG_TORN) {
        puts("there is nothing to repair");
        return TR_EXIT_OK;
    }
    if (result.verdict == TR_LOG_TOO_NEW)
        return check(files);
    if (getrandom(store_id, sizeof store_id, 0) != (ssize_t)sizeof store_id)
        return tr_failure("log", "no random numbers: %s", strerror(errno));
    tr_log_repair_begin(&state, files->segments, files->count, store_id);
    if (!repair_all(files, &state))
        return TR_EXIT_FAILED;
    printf("kept %zu batches, left out about %zu bytes; the files as they were end in .damaged\n",
           state.batches, state.lost_bytes);
    return TR_EXIT_OK;
}

enum tr_exit tr_command_log(int argc, char **argv)
{
    struct log_files files = {0};
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        tr_help_print(stdout, "log");
        return TR_EXIT_OK;
    }
    if (argc != 3)
        return tr_usage_error("log", "check, dump or repair, and the data directory; 'tryst help "
                                     "log' tells more");
    files.directory = argv[2];
    bool is_check = strcmp(argv[1], "check") == 0;
    bool is_dump = strcmp(argv[1], "dump") == 0;
    if (!is_check && !is_dump && strcmp(argv[1], "repair") != 0)
        return tr_usage_error("log", "no verb %s; check, dump or repair", argv[1]);
    if (!open_files(&files))
        return TR_EXIT_FAILED;
    return is_check ? check(&files) : is_dump ? dump(&files) : repair(&files);
}
