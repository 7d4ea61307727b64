/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/command.h"

#include "base/integer.h"
#include "cluster/clock.h"
#include "kv/expire.h"
#include "kv/store.h"
#include "log/batch.h"

#define ENTRY_BESIDE 64                          /* bytes of an entry beside its texts, at most */
#define ENTRY_ROOM   (ENTRY_BESIDE + TR_URI_MAX) /* beside key and value */

/* A command under way. */
struct task {
    struct tr_kv *kv;
    const struct tr_key_command *command;
    struct tr_key_result *result;
    uint64_t hash;
    tr_ref ref;    /* what the book has, also if it has ended */
    bool is_there; /* it has not */
};

static void refuse(struct task *task, enum tr_result refusal)
{
    TR_ASSERT(tr_result_is_refusal(refusal));
    task->result->outcome = TR_KEY_REFUSED;
    task->result->refusal = refusal;
}

static void look(struct task *task)
{
    struct tr_kv *kv = task->kv;
    task->hash = tr_kv_hash(task->command->key);
    task->ref = tr_kv_book_find(&kv->book, task->command->key, task->hash);
    task->result->expires_ms = TR_NEVER;
    task->result->batch =
        tr_breaks(kv->trial, MUTANT_KEY_TOLD_EARLY) ? 0 : tr_kv_written(kv, task->hash);
    if (task->ref == TR_ARENA_NONE || tr_kv_book_version(&kv->book, task->ref) < kv->floor ||
        tr_kv_book_is_end(&kv->book, task->ref))
        return;
    tr_steady_ms expires_ms = tr_kv_book_expires(&kv->book, task->ref);
    task->is_there = !tr_kv_has_expired(kv, expires_ms);
    if (!task->is_there)
        return;
    task->result->was_there = true;
    task->result->expires_ms = expires_ms;
    task->result->version = tr_kv_book_version(&kv->book, task->ref);
    task->result->value = tr_kv_book_value(&kv->book, task->ref);
}

/* ---- writing ---- */

/* Whether a change may begin. If the batch that gathers is full, it may when that is written. */
static bool admit(struct task *task, size_t size, bool is_new)
{
    const struct tr_kv *kv = task->kv;
    const struct tr_log *log = kv->log;
    if (!log->is_running)
        refuse(task, kv->is_stopping ? TR_STOPPING : TR_STARTING);
    else if (tr_clock_is_ahead(kv->cluster))
        refuse(task, TR_CLOCK_AHEAD);
    else if ((!log->is_refused || !is_new) && tr_log_has_room(log, size + ENTRY_ROOM, is_new))
        return true;
    else if (log->is_refused)
        refuse(task, TR_DISK_FULL);
    else
        task->result->outcome = TR_KEY_AGAIN;
    return false;
}

/* A callback cannot be owed now. It can when the log has written something, or, if it has room for
 * so many bytes, when there is memory. */
static void put_off(struct task *task, size_t size)
{
    const struct tr_log *log = task->kv->log;
    if (log->is_refused)
        refuse(task, TR_DISK_FULL);
    else if (tr_log_has_room(log, size, false) && tr_log_can_wait(log, 1))
        refuse(task, TR_MEMORY_FULL);
    else
        task->result->outcome = TR_KEY_AGAIN;
}

/* What has ended is out of the way before its key is written: its callback is owed whatever comes.
 * False: that cannot be done now. */
static bool clear_ended(struct task *task)
{
    struct tr_kv *kv = task->kv;
    if (task->ref == TR_ARENA_NONE || task->is_there || tr_kv_book_is_end(&kv->book, task->ref))
        return true;
    if (tr_breaks(kv->trial, MUTANT_KEY_OVERWRITTEN))
        return true;
    bool is_flushed = tr_kv_book_version(&kv->book, task->ref) < kv->floor;
    bool is_done = is_flushed ? tr_kv_expire_flushed(kv, task->ref, true)
                              : tr_kv_expire(kv, task->ref, task->hash, true);
    if (is_done) /* it is gone, or a tombstone */
        task->ref = tr_kv_book_find(&kv->book, task->command->key, task->hash);
    else
        put_off(task, task->command->key.size + kv->config.value_max + ENTRY_ROOM);
    return is_done;
}

static bool begin(struct task *task, size_t size, bool is_new)
{
    return clear_ended(task) && admit(task, size, is_new); /* both take room in the log */
}

/* Whether an entry of the wheel may be made: such entries come from what is kept for urgent pieces,
 * and must not use it up. A pair that expires when it did has one, and needs another if it moves.
 * False: it is refused. */
static bool may_arm(struct task *task, tr_steady_ms expires_ms)
{
    const struct tr_arena *arena = task->kv->arena;
    bool is_armed = task->is_there && expires_ms == task->result->expires_ms;
    if (expires_ms == TR_NEVER || !tr_arena_is_tight(arena) ||
        (is_armed && !tr_arena_is_almost_full(arena)))
        return true;
    refuse(task, TR_MEMORY_FULL);
    return false;
}

/* It is done, or there was no memory for it. */
static void end(struct task *task, bool is_done)
{
    if (!is_done) {
        refuse(task, TR_MEMORY_FULL);
        return;
    }
    task->result->outcome = TR_KEY_DONE;
    task->result->batch = tr_kv_written(task->kv, task->hash);
}

/* What was there, out of the way of what replaces it. */
static void keep_old(struct task *task)
{
    struct tr_span *value = &task->result->value;
    TR_ASSERT(value->size <= TR_VALUE_MAX);
    if (!task->is_there || !task->command->wants_old)
        return;
    memcpy(task->kv->old, value->text, value->size);
    value->text = (const char *)task->kv->old;
}

static bool is_met(const struct task *task)
{
    switch (task->command->only_if) {
    case TR_IF_ANY:
        return true;
    case TR_IF_ABSENT:
        return !task->is_there;
    case TR_IF_PRESENT:
        return task->is_there;
    case TR_IF_VERSION:
        return task->command->version == (task->is_there ? task->result->version : 0);
    case TR_IF_OLDER:
        return task->ref == TR_ARENA_NONE ||
               tr_kv_book_version(&task->kv->book, task->ref) < task->command->version;
    }
    TR_UNREACHABLE("no such condition");
}

/* Stores a value, and when it expires. */
static void put(struct task *task, struct tr_span value)
{
    const struct tr_key_command *command = task->command;
    struct tr_kv *kv = task->kv;
    struct tr_pair pair = {
        .key = command->key,
        .value = value,
        .version = tr_kv_stamp(kv, task->ref),
        .version_node = kv->cluster->stamp_node,
        .expires_ms = TR_NEVER,
    };
    char callback[TR_URI_MAX];
    if (command->expiry == TR_EXPIRY_AT) {
        pair.expires_ms = command->expires_ms;
        pair.callback = command->callback;
    } else if (command->expiry == TR_EXPIRY_KEEP && task->is_there) {
        struct tr_pair held;
        tr_kv_book_unpack(&kv->book, task->ref, &held);
        pair.expires_ms = held.expires_ms;
        if (held.callback.size > 0) /* it is in the book, which changes */
            memcpy(callback, held.callback.text, held.callback.size);
        pair.callback = (struct tr_span){callback, held.callback.size};
    }
    if (!may_arm(task, pair.expires_ms))
        return;
    task->result->expires_ms = pair.expires_ms;
    end(task, tr_kv_put(kv, &task->ref, task->hash, &pair));
}

/* A time that is given counts as past when it has come. */
static bool is_over(const struct tr_kv *kv, tr_steady_ms expires_ms)
{
    return expires_ms <= kv->time->steady_ms;
}

static void set(struct task *task)
{
    const struct tr_key_command *command = task->command;
    bool is_past = command->expiry == TR_EXPIRY_AT && is_over(task->kv, command->expires_ms);
    if (!is_met(task)) {
        task->result->outcome = TR_KEY_UNMET;
        return;
    }
    if (command->value.size > task->kv->config.value_max) {
        task->result->outcome = TR_KEY_TOO_LONG;
        return;
    }
    if (!begin(task, command->key.size + command->value.size, true))
        return;
    keep_old(task);
    /* With a callback it is stored also if its time is past: the callback is made then. */
    if (is_past && command->callback.size == 0) {
        if (task->is_there)
            tr_kv_end(task->kv, task->ref, task->hash);
        end(task, true);
        return;
    }
    put(task, command->value);
}

static void delete (struct task *task)
{
    if (!task->is_there || !is_met(task)) {
        task->result->outcome = task->is_there ? TR_KEY_UNMET : TR_KEY_ABSENT;
        return;
    }
    if (!begin(task, task->command->key.size, false))
        return;
    keep_old(task);
    tr_kv_end(task->kv, task->ref, task->hash);
    end(task, true);
}

/* ---- reading, and writing what follows from it ---- */

static void add(struct task *task)
{
    int64_t by = task->command->number;
    int64_t number = 0;
    char text[TR_INTEGER_MAX];
    if (task->is_there && !tr_integer_read(task->result->value, &number)) {
        task->result->outcome = TR_KEY_NO_INTEGER;
        return;
    }
    if ((by > 0 && number > INT64_MAX - by) || (by < 0 && number < INT64_MIN - by)) {
        task->result->outcome = TR_KEY_OVERFLOW;
        return;
    }
    if (!begin(task, task->command->key.size + TR_INTEGER_MAX, true))
        return;
    task->result->number = number + by;
    put(task, tr_integer_write(number + by, text));
}

/* Writes into the value that is there; a key that is absent has an empty one. */
static void patch(struct task *task, size_t at)
{
    const struct tr_key_command *command = task->command;
    struct tr_kv *kv = task->kv;
    size_t size = task->is_there ? task->result->value.size : 0;
    size_t after = at + command->value.size > size ? at + command->value.size : size;
    if (command->value.size == 0 && (task->is_there || command->verb == TR_KEY_PATCH)) {
        task->result->outcome = TR_KEY_DONE; /* nothing changes */
        task->result->number = (int64_t)size;
        return;
    }
    if (command->value.size > TR_VALUE_MAX || at > TR_VALUE_MAX ||
        after > task->kv->config.value_max) {
        task->result->outcome = TR_KEY_TOO_LONG;
        return;
    }
    if (!begin(task, command->key.size + after, true) ||
        (task->is_there && !may_arm(task, task->result->expires_ms)))
        return;
    if (task->is_there) {
        end(task, tr_kv_patch(kv, &task->ref, task->hash, at, command->value));
    } else { /* what the book may have under this key has ended */
        memset(kv->old, 0, at);
        memcpy(kv->old + at, command->value.text, command->value.size);
        put(task, (struct tr_span){(const char *)kv->old, after});
    }
    if (task->result->outcome != TR_KEY_DONE)
        return;
    task->result->value = tr_kv_book_value(&kv->book, task->ref);
    task->result->number = (int64_t)task->result->value.size;
}

/* ---- expiry ---- */

static bool is_wanted(const struct task *task)
{
    tr_steady_ms before_ms = task->result->expires_ms;
    tr_steady_ms after_ms = task->command->expires_ms;
    uint8_t only_if = task->command->expire_if;
    return ((only_if & TR_EXPIRE_NONE) == 0 || before_ms == TR_NEVER) &&
           ((only_if & TR_EXPIRE_SOME) == 0 || before_ms != TR_NEVER) &&
           ((only_if & TR_EXPIRE_LATER) == 0 || after_ms > before_ms) &&
           ((only_if & TR_EXPIRE_SOONER) == 0 || after_ms < before_ms);
}

static void expire(struct task *task)
{
    const struct tr_key_command *command = task->command;
    if (!task->is_there || !is_wanted(task)) {
        task->result->outcome = task->is_there ? TR_KEY_UNMET : TR_KEY_ABSENT;
        return;
    }
    if (!begin(task, command->key.size, true))
        return;
    if (is_over(task->kv, command->expires_ms) && command->callback.size == 0) {
        tr_kv_end(task->kv, task->ref, task->hash);
        end(task, true);
        return;
    }
    if (!may_arm(task, command->expires_ms))
        return;
    task->result->expires_ms = command->expires_ms;
    end(task,
        tr_kv_set_expiry(task->kv, &task->ref, task->hash, command->expires_ms, command->callback));
}

static void persist(struct task *task)
{
    if (!task->is_there || task->result->expires_ms == TR_NEVER) {
        task->result->outcome = task->is_there ? TR_KEY_UNMET : TR_KEY_ABSENT;
        return;
    }
    if (!begin(task, task->command->key.size, true))
        return;
    task->result->expires_ms = TR_NEVER;
    end(task,
        tr_kv_set_expiry(task->kv, &task->ref, task->hash, TR_NEVER, (struct tr_span){NULL, 0}));
}

/* Whether the book has all keys that the log has. */
static bool may_ask(struct task *task)
{
    const struct tr_kv *kv = task->kv;
    bool is_replayed = kv->log->is_running || kv->is_stopping;
    if (!is_replayed)
        refuse(task, TR_STARTING);
    return is_replayed;
}

void tr_kv_command(struct tr_kv *kv, const struct tr_key_command *command,
                   struct tr_key_result *result)
{
    TR_ASSERT(command->key.size <= TR_KEY_MAX);
    struct task task = {.kv = kv, .command = command, .result = result};
    *result = (struct tr_key_result){0};
    if (!may_ask(&task))
        return;
    look(&task);
    switch (command->verb) {
    case TR_KEY_READ:
        result->outcome = task.is_there ? TR_KEY_DONE : TR_KEY_ABSENT;
        if (result->expires_ms != TR_NEVER)
            result->callback = tr_kv_book_callback(&kv->book, task.ref);
        return;
    case TR_KEY_SET:
        set(&task);
        return;
    case TR_KEY_DELETE:
        delete (&task);
        return;
    case TR_KEY_ADD:
        add(&task);
        return;
    case TR_KEY_APPEND:
        patch(&task, task.is_there ? result->value.size : 0);
        return;
    case TR_KEY_PATCH:
        patch(&task, (size_t)command->number);
        return;
    case TR_KEY_EXPIRE:
        expire(&task);
        return;
    case TR_KEY_PERSIST:
        persist(&task);
        return;
    }
}

void tr_kv_delete_all(struct tr_kv *kv, struct tr_key_result *result)
{
    struct tr_key_command command = {.verb = TR_KEY_DELETE};
    struct task task = {.kv = kv, .command = &command, .result = result};
    *result = (struct tr_key_result){0};
    if (!may_ask(&task))
        return;
    if (kv->is_flushing && kv->stats.keys == 0) { /* nothing has come since */
        result->outcome = TR_KEY_DONE;
        result->batch = kv->written_last;
        return;
    }
    bool is_through = tr_kv_flush_finish(kv);
    if (!admit(&task, 0, false))
        return;
    if (!is_through) {
        put_off(&task, TR_KEY_MAX + kv->config.value_max + ENTRY_ROOM);
        return;
    }
    tr_kv_flush(kv);
    result->outcome = TR_KEY_DONE;
    result->batch = kv->written_last;
}

enum tr_key_room tr_kv_room(const struct tr_kv *kv, size_t size, uint32_t count)
{
    const struct tr_log *log = kv->log;
    size += (size_t)count * ENTRY_BESIDE + TR_URI_MAX; /* which the last of them asks for, too */
    if (!log->config.has_log || !log->is_running || log->is_refused)
        return TR_ROOM_NOW; /* each command says what is wrong */
    if (size > log->config.batch_cap / 4 * 3)
        return TR_ROOM_NEVER;
    return tr_log_has_room(log, size, true) ? TR_ROOM_NOW : TR_ROOM_LATER;
}
