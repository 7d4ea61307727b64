/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a backup. */
#include "base/hash.h"
#include "cli/backup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_SIZE ((size_t)1 << 20) /* from which on what gathers is written */
#define BLOCK_MAX  ((size_t)64 << 20)
#define FRONT      5 /* kind and size, in memory before what a block holds */
#define HEAD_SIZE  (FRONT + 8)

/* ---- writing ---- */

static bool cannot_write(struct tr_backup_out *out)
{
    tr_failure(out->command, "%s cannot be written: %s", out->beside, strerror(errno));
    return false;
}

bool tr_backup_begin(struct tr_backup_out *out, const char *command, const char *path)
{
    size_t size = strlen(path) + sizeof ".part";
    *out = (struct tr_backup_out){.command = command, .path = path};
    out->beside = tr_allocate(size, 1);
    snprintf(out->beside, size, "%s.part", path);
    out->file = fopen(out->beside, "wb");
    out->counts.bytes = TR_BACKUP_MAGIC_SIZE;
    if (out->file != NULL && fwrite(TR_BACKUP_MAGIC, TR_BACKUP_MAGIC_SIZE, 1, out->file) == 1)
        return true;
    cannot_write(out);
    tr_backup_drop(out);
    return false;
}

/* Room for so many bytes more of a block of this kind. */
static struct tr_writer reserve(struct tr_backup_out *out, enum tr_backup_kind kind, size_t size)
{
    if (out->size == 0)
        out->size = FRONT;
    if (out->cap < out->size + size) {
        out->cap = 2 * (out->size + size);
        out->bytes = tr_reallocate(out->bytes, out->cap, 1);
    }
    out->kind = (char)kind;
    return tr_writer_on(out->bytes + out->size, size);
}

void tr_backup_put_key(struct tr_backup_out *out, const struct tr_backup_key *key)
{
    struct tr_writer writer =
        reserve(out, TR_BACKUP_KEYS, key->key.size + key->value.size + key->callback.size + 64);
    tr_put_span(&writer, key->key);
    tr_put_span(&writer, key->value);
    tr_put_varint(&writer, key->expires_ms);
    tr_put_span(&writer, key->callback);
    tr_put_number(&writer, key->version, 8);
    out->size += writer.size;
    out->counts.keys++;
}

void tr_backup_put_timer(struct tr_backup_out *out, struct tr_span id, struct tr_span json)
{
    struct tr_writer writer = reserve(out, TR_BACKUP_TIMERS, id.size + json.size + 32);
    tr_put_span(&writer, id);
    tr_put_span(&writer, json);
    out->size += writer.size;
    out->counts.timers++;
}

bool tr_backup_flush(struct tr_backup_out *out, bool is_all)
{
    if (out->size == 0 || (!is_all && out->size < BLOCK_SIZE))
        return true;
    if (out->size > BLOCK_MAX) {
        tr_failure(out->command, "a key or timer is too large for a backup");
        return false;
    }
    uint8_t sum[8];
    struct tr_writer front = tr_writer_on(out->bytes, FRONT);
    struct tr_writer check = tr_writer_on(sum, sizeof sum);
    tr_put_number(&front, (uint64_t)(unsigned char)out->kind, 1);
    tr_put_number(&front, out->size - FRONT, 4);
    tr_put_number(&check, tr_hash_xxh3(out->bytes, out->size), 8);
    bool is_written =
        fwrite(out->bytes, FRONT, 1, out->file) == 1 &&
        fwrite(sum, sizeof sum, 1, out->file) == 1 &&
        (out->size == FRONT || fwrite(out->bytes + FRONT, out->size - FRONT, 1, out->file) == 1);
    out->counts.blocks++;
    out->counts.bytes += out->size + sizeof sum;
    out->size = 0;
    return is_written || cannot_write(out);
}

bool tr_backup_put_block(struct tr_backup_out *out, enum tr_backup_kind kind, const void *bytes,
                         size_t size)
{
    if (!tr_backup_flush(out, true))
        return false;
    struct tr_writer writer = reserve(out, kind, size);
    tr_put_bytes(&writer, bytes, size);
    out->size += size;
    return tr_backup_flush(out, true);
}

bool tr_backup_finish(struct tr_backup_out *out)
{
    uint8_t end[32];
    struct tr_writer writer = tr_writer_on(end, sizeof end);
    tr_put_varint(&writer, out->counts.keys);
    tr_put_varint(&writer, out->counts.timers);
    if (!tr_backup_put_block(out, TR_BACKUP_END, end, writer.size))
        return false;
    if (fflush(out->file) != 0 || fsync(fileno(out->file)) != 0)
        return cannot_write(out);
    if (rename(out->beside, out->path) != 0) {
        tr_failure(out->command, "%s cannot be named %s: %s", out->beside, out->path,
                   strerror(errno));
        return false;
    }
    out->beside[0] = '\0';
    return true;
}

void tr_backup_drop(struct tr_backup_out *out)
{
    if (out->file != NULL)
        fclose(out->file);
    if (out->file != NULL && out->beside[0] != '\0')
        unlink(out->beside);
    free(out->beside);
    free(out->bytes);
    *out = (struct tr_backup_out){0};
}

/* ---- reading ---- */

bool tr_backup_is_damaged(const struct tr_backup_in *in, const char *what)
{
    tr_failure(in->command, "%s is damaged at byte %llu: %s", in->path, (unsigned long long)in->at,
               what);
    return false;
}

bool tr_backup_open(struct tr_backup_in *in, const char *command, const char *path)
{
    char magic[TR_BACKUP_MAGIC_SIZE] = {0};
    *in = (struct tr_backup_in){.command = command, .path = path};
    in->file = fopen(path, "rb");
    if (in->file == NULL) {
        tr_failure(command, "%s cannot be read: %s", path, strerror(errno));
        return false;
    }
    in->next = TR_BACKUP_MAGIC_SIZE;
    if (fread(magic, sizeof magic, 1, in->file) == 1 &&
        memcmp(magic, TR_BACKUP_MAGIC, sizeof magic) == 0)
        return true;
    tr_backup_is_damaged(in, "it does not begin as a backup does");
    tr_backup_close(in);
    return false;
}

/* False: the file ends before. */
static bool read_bytes(struct tr_backup_in *in, uint8_t *bytes, size_t size)
{
    if (size == 0 || fread(bytes, size, 1, in->file) == 1)
        return true;
    return tr_backup_is_damaged(in, ferror(in->file) != 0 ? strerror(errno)
                                                          : "the file is cut short in this block");
}

bool tr_backup_next(struct tr_backup_in *in)
{
    uint8_t head[HEAD_SIZE];
    in->at = in->next;
    if (!read_bytes(in, head, sizeof head))
        return false;
    struct tr_reader reader = tr_reader_on(head, sizeof head);
    in->kind = (enum tr_backup_kind)tr_get_number(&reader, 1);
    size_t size = (size_t)tr_get_number(&reader, 4);
    uint64_t sum = tr_get_number(&reader, 8);
    if (size > BLOCK_MAX)
        return tr_backup_is_damaged(in, "no block is that large");
    if (in->cap < size + FRONT) {
        in->cap = size + FRONT;
        in->bytes = tr_reallocate(in->bytes, in->cap, 1);
    }
    memcpy(in->bytes, head, FRONT);
    if (!read_bytes(in, in->bytes + FRONT, size))
        return false;
    if (tr_hash_xxh3(in->bytes, size + FRONT) != sum)
        return tr_backup_is_damaged(in, "the checksum of this block is another one");
    in->block = tr_reader_on(in->bytes + FRONT, size);
    in->next = in->at + HEAD_SIZE + size;
    return true;
}

bool tr_backup_get_key(struct tr_backup_in *in, struct tr_backup_key *key)
{
    key->key = tr_get_span(&in->block);
    key->value = tr_get_span(&in->block);
    key->expires_ms = tr_get_varint(&in->block);
    key->callback = tr_get_span(&in->block);
    key->version = tr_get_number(&in->block, 8);
    return !in->block.is_short || tr_backup_is_damaged(in, "a key is longer than its block");
}

bool tr_backup_get_timer(struct tr_backup_in *in, struct tr_span *id, struct tr_span *json)
{
    *id = tr_get_span(&in->block);
    *json = tr_get_span(&in->block);
    return !in->block.is_short || tr_backup_is_damaged(in, "a timer is longer than its block");
}

void tr_backup_close(struct tr_backup_in *in)
{
    if (in->file != NULL)
        fclose(in->file);
    free(in->bytes);
    *in = (struct tr_backup_in){0};
}

/* ---- all of it ---- */

static bool count_block(struct tr_backup_in *in, struct tr_backup_counts *counts)
{
    struct tr_backup_key key;
    struct tr_span id;
    struct tr_span json;
    switch (in->kind) {
    case TR_BACKUP_HEAD:
        return counts->blocks == 0 || tr_backup_is_damaged(in, "a head is not the first block");
    case TR_BACKUP_KEYS:
        while (in->block.at < in->block.end) {
            if (!tr_backup_get_key(in, &key))
                return false;
            counts->keys++;
        }
        return true;
    case TR_BACKUP_TIMERS:
        while (in->block.at < in->block.end) {
            if (!tr_backup_get_timer(in, &id, &json))
                return false;
            counts->timers++;
        }
        return true;
    case TR_BACKUP_END: {
        uint64_t keys = tr_get_varint(&in->block);
        uint64_t timers = tr_get_varint(&in->block);
        return (keys == counts->keys && timers == counts->timers) ||
               tr_backup_is_damaged(in, "blocks before the end are missing");
    }
    }
    return tr_backup_is_damaged(in, "there is no such block; is it of a newer tryst?");
}

bool tr_backup_verify(const char *command, const char *path, struct tr_backup_counts *counts)
{
    struct tr_backup_in in;
    bool is_good = tr_backup_open(&in, command, path);
    *counts = (struct tr_backup_counts){0};
    do {
        is_good = is_good && tr_backup_next(&in);
        if (is_good && counts->blocks == 0 && in.kind != TR_BACKUP_HEAD)
            is_good = tr_backup_is_damaged(&in, "the first block is no head");
        is_good = is_good && count_block(&in, counts);
        counts->blocks++;
    } while (is_good && in.kind != TR_BACKUP_END);
    counts->bytes = in.next;
    if (is_good && fgetc(in.file) != EOF) {
        in.at = in.next;
        is_good = tr_backup_is_damaged(&in, "something follows the end");
    }
    tr_backup_close(&in);
    return is_good;
}
