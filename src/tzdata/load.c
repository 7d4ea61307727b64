/* SPDX-License-Identifier: Apache-2.0 */
#include "tzdata/load.h"

#include "base/hash.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER        "/usr/share/zoneinfo"
#define PATH_MAX_SIZE 512
#define FILE_MAX      ((off_t)1 << 20)

static const char *folder(void)
{
    const char *named = getenv("TZDIR");
    return named != NULL && named[0] == '/' ? named : FOLDER;
}

static bool is_utc(struct tr_span name)
{
    return tr_span_equals(name, TR_SPAN("UTC"));
}

static uint64_t identity_of(const struct stat *status)
{
    const int64_t parts[] = {(int64_t)status->st_ino, (int64_t)status->st_size,
                             (int64_t)status->st_mtim.tv_sec, (int64_t)status->st_mtim.tv_nsec};
    return tr_hash_xxh3(parts, sizeof parts);
}

static bool find_path(struct tr_span name, char path[PATH_MAX_SIZE])
{
    int size = snprintf(path, PATH_MAX_SIZE, "%s/%.*s", folder(), (int)name.size, name.text);
    return size > 0 && size < PATH_MAX_SIZE;
}

static uint8_t *read_all(int file, size_t size)
{
    uint8_t *bytes = malloc(size);
    size_t done = 0;
    while (bytes != NULL && done < size) {
        ssize_t got = read(file, bytes + done, size - done);
        if (got <= 0) {
            free(bytes);
            return NULL;
        }
        done += (size_t)got;
    }
    return bytes;
}

static enum tr_zone_load read_file(int descriptor, struct tr_zone_file *file)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0 ||
        status.st_size > FILE_MAX)
        return TR_ZONE_UNKNOWN;
    file->identity = identity_of(&status);
    file->bytes = read_all(descriptor, (size_t)status.st_size);
    if (file->bytes == NULL)
        return TR_ZONE_DAMAGED;
    if (tr_zone_parse(file->bytes, (size_t)status.st_size, &file->zone))
        return TR_ZONE_LOADED;
    tr_zone_unload(file);
    return TR_ZONE_DAMAGED;
}

enum tr_zone_load tr_zone_load(struct tr_span name, struct tr_zone_file *file)
{
    char path[PATH_MAX_SIZE];
    struct stat status;
    if (!tr_zone_is_name(name))
        return TR_ZONE_UNKNOWN;
    *file = (struct tr_zone_file){.zone = tr_zone_utc()};
    memcpy(file->name, name.text, name.size);
    if (is_utc(name))
        return TR_ZONE_LOADED;
    int descriptor = find_path(name, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return stat(folder(), &status) == 0 ? TR_ZONE_UNKNOWN : TR_ZONE_NO_FILES;
    enum tr_zone_load loaded = read_file(descriptor, file);
    close(descriptor);
    return loaded;
}

void tr_zone_unload(struct tr_zone_file *file)
{
    free(file->bytes);
    file->bytes = NULL;
}

bool tr_zone_has_changed(const struct tr_zone_file *file)
{
    char path[PATH_MAX_SIZE];
    struct stat status;
    struct tr_span name = {file->name, strlen(file->name)};
    if (is_utc(name))
        return false;
    return !find_path(name, path) || stat(path, &status) != 0 ||
           identity_of(&status) != file->identity;
}
