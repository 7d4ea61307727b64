/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/disk.h"

#include "base/assert.h"
#include "shell/say.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DONES_MAX 64 /* the node has one write and one allocation under way */

struct job {
    struct job *next;
    struct tr_effect effect;
    uint8_t *bytes; /* of a write: head, then batch */
    uint64_t started_us;
};

struct done {
    struct tr_event event;
    uint64_t commit_us;
};

#define LOCK_TRIES 8

struct tr_disk {
    struct tr_disk_config config;
    int directory;
    int lock;
    bool made_directory; /* this start did, */
    bool made_lock;      /* and its lock */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    uv_async_t async;
    struct job *first; /* removals alone may be thousands */
    struct job *last;
    struct done dones[DONES_MAX];
    uint64_t done_head;
    uint64_t done_tail;
    bool is_closing;

    struct tr_log_segment *mapped;
    size_t mapped_count;

    /* The thread's own. */
    int file;
    uint64_t file_number;
    bool is_dirty;
    uint64_t written;
    uint64_t synced;
    uint64_t synced_at_us;
};

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void name_of(uint64_t number, char *name, size_t size)
{
    snprintf(name, size, "%016llx.segment", (unsigned long long)number);
}

void tr_disk_path(const struct tr_disk *disk, uint64_t number, char *path, size_t size)
{
    char name[40];
    name_of(number, name, sizeof name);
    snprintf(path, size, "%s/%s", disk->config.directory, name);
}

_Noreturn static void fatal(const struct tr_disk *disk, const char *what, uint64_t number)
{
    char path[4096];
    tr_disk_path(disk, number, path, sizeof path);
    tr_say(TR_ERROR, "%s %s failed: %s; stopping, since nothing said after this could be trusted",
           what, path, strerror(errno));
    _exit(1);
}

/* ---- the thread ---- */

static void sync_file(struct tr_disk *disk)
{
    if (!disk->is_dirty)
        return;
    if (fdatasync(disk->file) != 0)
        fatal(disk, "syncing", disk->file_number);
    disk->is_dirty = false;
    disk->synced = disk->written;
    disk->synced_at_us = now_us();
}

/* 0, or why not. */
static int sync_directory(const struct tr_disk *disk)
{
    return disk->config.sync != TR_SYNC_NEVER && fsync(disk->directory) != 0 ? errno : 0;
}

static void use_file(struct tr_disk *disk, uint64_t number)
{
    char name[40];
    if (disk->file >= 0 && disk->file_number == number)
        return;
    if (disk->file >= 0) {
        if (disk->config.sync != TR_SYNC_NEVER)
            sync_file(disk);
        close(disk->file);
    }
    name_of(number, name, sizeof name);
    disk->file = openat(disk->directory, name, O_WRONLY | O_CLOEXEC);
    disk->file_number = number;
    if (disk->file < 0)
        fatal(disk, "opening", number);
}

static void write_all(struct tr_disk *disk, const uint8_t *bytes, size_t size, uint64_t offset)
{
    while (size > 0) {
        ssize_t written = pwrite(disk->file, bytes, size, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            fatal(disk, "writing to", disk->file_number);
        bytes += written;
        size -= (size_t)written;
        offset += (uint64_t)written;
    }
}

static void do_write(struct tr_disk *disk, struct job *job, struct done *done)
{
    const struct tr_effect *effect = &job->effect;
    uint64_t start = effect->of.log.offset - effect->of.log.head_size;
    use_file(disk, effect->of.log.segment);
    write_all(disk, job->bytes, effect->of.log.head_size + effect->of.log.size, start);
    disk->is_dirty = true;
    disk->written = effect->of.log.end;
    bool is_time = disk->config.sync == TR_SYNC_INTERVAL &&
                   now_us() - disk->synced_at_us >= disk->config.sync_interval_ms * 1000;
    if (disk->config.sync == TR_SYNC_ALWAYS || is_time)
        sync_file(disk);
    done->event.kind = TR_EVENT_LOG_WRITTEN;
    done->event.of.log.written = disk->written;
    done->event.of.log.synced = disk->synced;
    done->commit_us = now_us() - job->started_us;
}

/* ENOSPC shows here and nowhere later: the blocks are the file's own from now on. */
static void do_allocate(struct tr_disk *disk, const struct job *job, struct done *done)
{
    char name[40];
    uint64_t number = job->effect.of.segment.number;
    name_of(number, name, sizeof name);
    int file = openat(disk->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    int fault = file < 0 ? errno : posix_fallocate(file, 0, (off_t)job->effect.of.segment.size);
    if (fault == 0 && disk->config.sync != TR_SYNC_NEVER && fsync(file) != 0)
        fault = errno;
    if (file >= 0)
        close(file);
    if (fault == 0)
        fault = sync_directory(disk); /* a file without a name would be lost with all in it */
    if (fault != 0) {
        unlinkat(disk->directory, name, 0);
        if (fault != ENOSPC && fault != EDQUOT)
            tr_say(TR_ERROR,
                   "allocating %s/%s failed: %s; it is tried again, and counts as a full "
                   "disk until then",
                   disk->config.directory, name, strerror(fault));
    }
    done->event.kind = fault == 0 ? TR_EVENT_SEGMENT_ALLOCATED : TR_EVENT_SEGMENT_REFUSED;
    done->event.of.segment.number = number;
}

static void do_remove(struct tr_disk *disk, const struct job *job)
{
    char name[40];
    name_of(job->effect.of.segment.number, name, sizeof name);
    if (disk->file >= 0)
        sync_file(disk); /* its live records were copied: the copies must be safe first */
    if (unlinkat(disk->directory, name, 0) != 0 && errno != ENOENT)
        tr_say(TR_WARNING, "removing %s/%s failed: %s", disk->config.directory, name,
               strerror(errno));
}

/* At a start the last segment may have a batch that was written and not synced, by a process that
 * was killed: it was read, and counts, so it is synced before anything is written that follows. */
static void do_trim(struct tr_disk *disk, const struct job *job)
{
    char name[40];
    name_of(job->effect.of.segment.number, name, sizeof name);
    int file = openat(disk->directory, name, O_WRONLY | O_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)job->effect.of.segment.size) != 0)
        tr_say(TR_WARNING, "cutting %s/%s failed: %s", disk->config.directory, name,
               strerror(errno));
    if (file >= 0 && disk->config.sync != TR_SYNC_NEVER && fdatasync(file) != 0)
        fatal(disk, "syncing", job->effect.of.segment.number);
    if (file >= 0)
        close(file);
}

/* True when there is something to report. */
static bool do_job(struct tr_disk *disk, struct job *job, struct done *done)
{
    memset(done, 0, sizeof *done);
    switch (job->effect.kind) {
    case TR_EFFECT_LOG_WRITE:
        do_write(disk, job, done);
        free(job->bytes);
        return true;
    case TR_EFFECT_SEGMENT_ALLOCATE:
        do_allocate(disk, job, done);
        return true;
    case TR_EFFECT_SEGMENT_REMOVE:
        do_remove(disk, job);
        return false;
    case TR_EFFECT_SEGMENT_TRIM:
        do_trim(disk, job);
        return false;
    case TR_EFFECT_ANSWER:
    case TR_EFFECT_ANSWER_TIMER:
    case TR_EFFECT_ANSWER_PAGE:
    case TR_EFFECT_KEY:
    case TR_EFFECT_KEY_PAGE:
    case TR_EFFECT_FIRE:
    case TR_EFFECT_RECOVERED:
    case TR_EFFECT_REFUSED:
    case TR_EFFECT_NOTE:
    case TR_EFFECT_STOPPED:
    case TR_EFFECT_FRAME_SEND:
    case TR_EFFECT_LINK_RESET:
        break;
    }
    TR_UNREACHABLE("not an order for the disk");
}

/* Waits for a job; with an interval of syncs, not longer than to the next one. */
static bool wait_job(struct tr_disk *disk)
{
    while (disk->first == NULL && !disk->is_closing) {
        if (disk->config.sync != TR_SYNC_INTERVAL || !disk->is_dirty) {
            pthread_cond_wait(&disk->wake, &disk->mutex);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        uint64_t ns = (uint64_t)until.tv_nsec + disk->config.sync_interval_ms * 1000000;
        until.tv_sec += (time_t)(ns / 1000000000);
        until.tv_nsec = (long)(ns % 1000000000);
        if (pthread_cond_timedwait(&disk->wake, &disk->mutex, &until) == ETIMEDOUT) {
            pthread_mutex_unlock(&disk->mutex);
            sync_file(disk);
            pthread_mutex_lock(&disk->mutex);
        }
    }
    return disk->first != NULL;
}

static void *run(void *argument)
{
    struct tr_disk *disk = argument;
    pthread_mutex_lock(&disk->mutex);
    while (wait_job(disk)) {
        struct job *job = disk->first;
        disk->first = job->next;
        pthread_mutex_unlock(&disk->mutex);
        struct done done;
        bool has_report = do_job(disk, job, &done);
        free(job);
        pthread_mutex_lock(&disk->mutex);
        if (has_report) {
            TR_ASSERT(disk->done_tail - disk->done_head < DONES_MAX);
            disk->dones[disk->done_tail++ % DONES_MAX] = done;
            uv_async_send(&disk->async);
        }
    }
    pthread_mutex_unlock(&disk->mutex);
    if (disk->file >= 0 && disk->config.sync != TR_SYNC_NEVER)
        sync_file(disk);
    return NULL;
}

/* ---- the loop's side ---- */

static void on_done(uv_async_t *async)
{
    struct tr_disk *disk = async->data;
    for (;;) {
        pthread_mutex_lock(&disk->mutex);
        bool is_any = disk->done_head < disk->done_tail;
        struct done done;
        if (is_any)
            done = disk->dones[disk->done_head++ % DONES_MAX];
        pthread_mutex_unlock(&disk->mutex);
        if (!is_any)
            return;
        disk->config.report(disk->config.context, &done.event, done.commit_us);
    }
}

void tr_disk_do(struct tr_disk *disk, const struct tr_effect *effect)
{
    bool is_write = effect->kind == TR_EFFECT_LOG_WRITE;
    size_t head = is_write ? effect->of.log.head_size : 0;
    struct job *job = calloc(1, sizeof *job);
    uint8_t *bytes = is_write ? malloc(head + effect->of.log.size) : NULL;
    if (job == NULL || (is_write && bytes == NULL)) {
        errno = ENOMEM;
        fatal(disk, "copying a batch for", is_write ? effect->of.log.segment : 0);
    }
    *job = (struct job){.effect = *effect, .bytes = bytes, .started_us = now_us()};
    if (head > 0)
        memcpy(bytes, effect->of.log.head, head);
    if (is_write)
        memcpy(bytes + head, effect->of.log.bytes, effect->of.log.size);
    pthread_mutex_lock(&disk->mutex);
    if (disk->first == NULL)
        disk->first = job;
    else
        disk->last->next = job;
    disk->last = job;
    pthread_cond_signal(&disk->wake);
    pthread_mutex_unlock(&disk->mutex);
}

/* The file that is locked is still the one in the directory: a start that failed takes its own
 * away. */
static bool is_the_lock(const struct tr_disk *disk)
{
    struct stat ours;
    struct stat there;
    return fstat(disk->lock, &ours) == 0 && fstatat(disk->directory, "lock", &there, 0) == 0 &&
           ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

static int open_lock(struct tr_disk *disk)
{
    int file = openat(disk->directory, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    disk->made_lock = file >= 0;
    if (file < 0 && errno == EEXIST)
        file = openat(disk->directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    return file;
}

static bool take_lock(struct tr_disk *disk)
{
    const char *directory = disk->config.directory;
    bool is_locked = false;
    for (unsigned tries = 0; tries < LOCK_TRIES; tries++) {
        disk->lock = open_lock(disk);
        if (disk->lock < 0) {
            tr_say(TR_ERROR, "cannot write to the data directory %s: %s", directory,
                   strerror(errno));
            return false;
        }
        is_locked = flock(disk->lock, LOCK_EX | LOCK_NB) == 0;
        if (is_locked && is_the_lock(disk))
            return true;
        disk->made_lock = false;
        if (!is_locked)
            break;
        close(disk->lock); /* that of a start which has just failed */
        disk->lock = -1;
    }
    tr_say(TR_ERROR,
           "another process uses the data directory %s; stop it, or choose another with "
           "--data-dir",
           directory);
    return false;
}

static bool lock_directory(struct tr_disk *disk)
{
    const char *directory = disk->config.directory;
    disk->made_directory = mkdir(directory, 0750) == 0;
    if (!disk->made_directory && errno != EEXIST) {
        tr_say(TR_ERROR, "cannot make the data directory %s: %s", directory, strerror(errno));
        return false;
    }
    disk->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disk->directory < 0) {
        tr_say(TR_ERROR, "cannot open the data directory %s: %s", directory, strerror(errno));
        return false;
    }
    return take_lock(disk);
}

void tr_disk_forsake(const struct tr_disk *disk)
{
    if (disk->made_lock)
        unlinkat(disk->directory, "lock", 0);
    if (disk->made_directory) /* it stays if the log has begun */
        rmdir(disk->config.directory);
}

struct tr_disk *tr_disk_open(const struct tr_disk_config *config)
{
    struct tr_disk *disk = calloc(1, sizeof *disk);
    if (disk == NULL)
        return NULL;
    disk->config = *config;
    disk->file = -1;
    disk->lock = -1;
    disk->directory = -1;
    if (!lock_directory(disk)) {
        if (disk->lock >= 0)
            close(disk->lock);
        if (disk->directory >= 0)
            close(disk->directory);
        free(disk);
        return NULL;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&disk->mutex, NULL);
    pthread_cond_init(&disk->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    uv_async_init(config->loop, &disk->async, on_done);
    disk->async.data = disk;
    if (pthread_create(&disk->thread, NULL, run, disk) != 0) {
        tr_say(TR_ERROR, "cannot start the log thread");
        _exit(1);
    }
    return disk;
}

static bool is_segment_name(const char *name, uint64_t *number)
{
    char wanted[40];
    char *end = NULL;
    *number = strtoull(name, &end, 16);
    name_of(*number, wanted, sizeof wanted);
    return strcmp(name, wanted) == 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const struct tr_log_segment *)a)->number;
    uint64_t y = ((const struct tr_log_segment *)b)->number;
    return (x > y) - (x < y);
}

/* The disk whose segments are mapped. A signal's handler has nothing else to go by. */
static const struct tr_disk *mapped_disk;

/* A page of a segment that cannot be read. It is this process's own access that failed, in the
 * middle of a replay, so that saying so is safe. */
_Noreturn static void on_bad_page(int number, siginfo_t *info, void *context)
{
    const uint8_t *at = info->si_addr;
    (void)number;
    (void)context;
    for (size_t i = 0; mapped_disk != NULL && i < mapped_disk->mapped_count; i++) {
        const struct tr_log_segment *segment = &mapped_disk->mapped[i];
        if (at < segment->bytes || at >= segment->bytes + segment->size)
            continue;
        char path[4096];
        tr_disk_path(mapped_disk, segment->number, path, sizeof path);
        tr_say(TR_ERROR,
               "%s cannot be read at offset %zu: the disk reports an error; copy the data "
               "directory to another disk, and 'tryst log repair' keeps what is sound",
               path, (size_t)(at - segment->bytes));
        _exit(1);
    }
    signal(SIGBUS, SIG_DFL); /* something else: the usual way */
    raise(SIGBUS);
    _exit(1);
}

static void watch_pages(const struct tr_disk *disk)
{
    struct sigaction action = {.sa_sigaction = on_bad_page, .sa_flags = SA_SIGINFO};
    mapped_disk = disk;
    if (disk == NULL)
        signal(SIGBUS, SIG_DFL);
    else
        sigaction(SIGBUS, &action, NULL);
}

static bool map_segment(struct tr_disk *disk, const char *name, struct tr_log_segment *segment)
{
    int file = openat(disk->directory, name, O_RDONLY | O_CLOEXEC);
    struct stat info;
    bool is_good = file >= 0 && fstat(file, &info) == 0;
    if (is_good && info.st_size > 0) {
        segment->size = (size_t)info.st_size;
        void *bytes = mmap(NULL, segment->size, PROT_READ, MAP_PRIVATE, file, 0);
        is_good = bytes != MAP_FAILED;
        segment->bytes = is_good ? bytes : NULL;
        if (is_good)
            madvise(bytes, segment->size, MADV_SEQUENTIAL);
    }
    if (!is_good)
        tr_say(TR_ERROR, "cannot read %s/%s: %s", disk->config.directory, name, strerror(errno));
    if (file >= 0)
        close(file);
    return is_good;
}

bool tr_disk_map(struct tr_disk *disk, struct tr_log_segment **segments, size_t *count)
{
    static const uint8_t nothing[1];
    DIR *directory = opendir(disk->config.directory);
    bool is_good = directory != NULL;
    struct dirent *entry;
    while (is_good && (entry = readdir(directory)) != NULL) {
        uint64_t number = 0;
        if (!is_segment_name(entry->d_name, &number))
            continue;
        struct tr_log_segment *larger =
            realloc(disk->mapped, (disk->mapped_count + 1) * sizeof *larger);
        is_good = larger != NULL;
        if (!is_good)
            break;
        disk->mapped = larger;
        struct tr_log_segment *segment = &disk->mapped[disk->mapped_count++];
        *segment = (struct tr_log_segment){.number = number, .bytes = nothing};
        is_good = map_segment(disk, entry->d_name, segment);
    }
    if (directory != NULL)
        closedir(directory);
    watch_pages(disk);
    if (disk->mapped_count > 0)
        qsort(disk->mapped, disk->mapped_count, sizeof *disk->mapped, by_number);
    *segments = disk->mapped;
    *count = disk->mapped_count;
    return is_good;
}

void tr_disk_unmap(struct tr_disk *disk)
{
    for (size_t i = 0; i < disk->mapped_count; i++) {
        if (disk->mapped[i].size > 0)
            munmap((void *)(uintptr_t)disk->mapped[i].bytes, disk->mapped[i].size);
    }
    watch_pages(NULL);
    free(disk->mapped);
    disk->mapped = NULL;
    disk->mapped_count = 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void tr_disk_close(struct tr_disk *disk)
{
    pthread_mutex_lock(&disk->mutex);
    disk->is_closing = true;
    pthread_cond_signal(&disk->wake);
    pthread_mutex_unlock(&disk->mutex);
    pthread_join(disk->thread, NULL);
    tr_disk_unmap(disk);
    if (disk->file >= 0)
        close(disk->file);
    close(disk->lock);
    close(disk->directory);
    uv_close((uv_handle_t *)&disk->async, on_closed);
}
