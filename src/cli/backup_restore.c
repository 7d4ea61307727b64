/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a backup into a running cluster, of whatever size and keyspace. The whole file is read and
 * found good before the first key is sent.
 *
 * Keys are set anew unless they are there; with --merge, if what is there is older than what the
 * file has. Timers are put back under the versions that they had: what was written since stays.
 */
#include "cli/backup.h"
#include "cli/channel.h"
#include "cli/credentials.h"
#include "cli/members.h"
#include "wire/timer_id.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMMAND   "backup"
#define BATCH     256               /* keys or timers that are sent at once, */
#define BATCH_MAX ((size_t)1 << 20) /* or so many bytes */
#define TRIES     300               /* of what is refused for a while */

#define REFUSED_SAID 10 /* timers that are told of one by one */

struct restoring {
    const char *node;
    struct tr_channel channel;
    enum tr_backup_kind speaks; /* the first bytes of a connection say what it is for */
    struct tr_backup_in in;
    struct tr_backup_counts all;
    bool is_merged;
    uint64_t now_ms;
    uint64_t keys; /* of the file that have been read */
    uint64_t set;
    uint64_t kept;    /* what is there stays */
    uint64_t expired; /* long ago, and nobody is to be called */
    uint64_t timers;
    uint64_t refused; /* timers */
    size_t count;     /* of the batch */
    struct tr_backup_key batch_keys[BATCH];
    struct {
        struct tr_timer_text id;
        struct tr_span json;
    } batch_timers[BATCH];
    bool is_done[BATCH];
};

/* ---- whether there is room for it ---- */

/* How a page of timers goes on: "" if it is the last; NULL if there are timers on it. */
static const char *rest_of_page(struct tr_span body, char cursor[40])
{
    static const char none[] = "{\"timers\":[]";
    static const char more[] = ",\"cursor\":\"";
    cursor[0] = '\0';
    if (body.size < sizeof none || memcmp(body.text, none, sizeof none - 1) != 0)
        return NULL;
    struct tr_span rest = tr_span_from(body, sizeof none - 1);
    if (rest.size > sizeof more + 16 && memcmp(rest.text, more, sizeof more - 1) == 0)
        snprintf(cursor, 40, "%.*s", 16, rest.text + sizeof more - 1);
    return cursor;
}

/* Whether a node holds any timer; true also if it does not answer, which it has said then. */
static bool holds_timers(const char *address)
{
    struct tr_channel channel;
    char cursor[40] = "";
    const char *rest = NULL;
    if (!tr_channel_open(&channel, COMMAND, address))
        return true;
    do {
        char request[1024];
        unsigned status = 0;
        struct tr_span body;
        int size = snprintf(request, sizeof request,
                            "GET /timers?scope=held&limit=1%s%s HTTP/1.1\r\nHost: node\r\n%s\r\n",
                            cursor[0] != '\0' ? "&cursor=" : "", cursor, tr_credentials_header());
        tr_channel_put(&channel, request, (size_t)size);
        rest = tr_channel_send(&channel) && tr_channel_answer(&channel, &status, &body) &&
                       status == 200
                   ? rest_of_page(body, cursor)
                   : NULL;
    } while (rest != NULL && rest[0] != '\0');
    tr_channel_close(&channel);
    return rest == NULL;
}

/* A cluster without keys and timers, unless they may be there. */
static bool is_ready(const char *node, bool is_merged)
{
    struct tr_cluster_members members = {0};
    uint64_t keys = 0;
    bool has_timers = false;
    bool is_moving = false;
    if (!tr_members_ask(COMMAND, node, &members))
        return false;
    for (size_t i = 0; i < members.count; i++)
        is_moving |= members.list[i].told.is_changing;
    for (size_t i = 0; i < members.count && !is_merged; i++) {
        keys += members.list[i].told.is_reached ? members.list[i].told.keys : 0;
        has_timers = has_timers ||
                     (members.list[i].told.is_reached && holds_timers(members.list[i].address));
    }
    tr_members_free(&members);
    if (is_moving) {
        tr_failure(COMMAND, "nodes join or leave: restore it when that is over (tryst cluster "
                            "status)");
        return false;
    }
    if (keys == 0 && !has_timers)
        return true;
    tr_failure(COMMAND,
               "the cluster is not empty: it has %s%s%s. --merge keeps what is newer there, and "
               "adds the rest",
               keys > 0 ? "keys" : "", keys > 0 && has_timers ? " and " : "",
               has_timers ? "timers" : "");
    return false;
}

/* ---- sending ---- */

static struct tr_span word(const char *text)
{
    return (struct tr_span){text, strlen(text)};
}

static void put_set(struct restoring *restoring, const struct tr_backup_key *key)
{
    struct tr_channel *channel = &restoring->channel;
    char expires[24];
    char version[24];
    snprintf(expires, sizeof expires, "%llu", (unsigned long long)key->expires_ms);
    snprintf(version, sizeof version, "%llu", (unsigned long long)key->version);
    bool has_callback = key->callback.size > 0;
    unsigned words = 3 + (key->expires_ms > 0 ? 2u : 0) + (has_callback ? 2u : 0);
    tr_channel_begin(channel, words + (restoring->is_merged ? 2u : 1u));
    tr_channel_put_word(channel, TR_SPAN("SET"));
    tr_channel_put_word(channel, key->key);
    tr_channel_put_word(channel, key->value);
    if (key->expires_ms > 0) {
        tr_channel_put_word(channel, TR_SPAN("PXAT"));
        tr_channel_put_word(channel, word(expires));
    }
    if (has_callback) {
        tr_channel_put_word(channel, TR_SPAN("CALLBACK"));
        tr_channel_put_word(channel, key->callback);
    }
    tr_channel_put_word(channel, restoring->is_merged ? TR_SPAN("OLDER") : TR_SPAN("NX"));
    if (restoring->is_merged)
        tr_channel_put_word(channel, word(version));
}

/* What becomes of a key by the reply. False: it cannot be restored, which is said. */
static bool take_reply(struct restoring *restoring, size_t index,
                       const struct tr_channel_reply *reply)
{
    static const char *const passing[] = {"UNAVAILABLE", "UNKNOWN", "LOADING"};
    const struct tr_backup_key *key = &restoring->batch_keys[index];
    restoring->is_done[index] = reply->kind != '-';
    restoring->set += reply->kind == '+';
    restoring->kept += reply->kind == '$';
    if (reply->kind != '-')
        return true;
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        size_t size = strlen(passing[i]);
        if (reply->text.size >= size && memcmp(reply->text.text, passing[i], size) == 0)
            return true;
    }
    tr_failure(COMMAND, "the key %.*s cannot be restored: %.*s",
               (int)(key->key.size < 64 ? key->key.size : 64), key->key.text, (int)reply->text.size,
               reply->text.text);
    return false;
}

static bool send_keys(struct restoring *restoring, bool *is_left)
{
    struct tr_channel_reply reply;
    *is_left = false;
    for (size_t i = 0; i < restoring->count; i++) {
        if (!restoring->is_done[i])
            put_set(restoring, &restoring->batch_keys[i]);
    }
    if (!tr_channel_send(&restoring->channel))
        return false;
    for (size_t i = 0; i < restoring->count; i++) {
        if (restoring->is_done[i])
            continue;
        if (!tr_channel_reply(&restoring->channel, &reply) || !take_reply(restoring, i, &reply))
            return false;
        *is_left |= !restoring->is_done[i];
    }
    return true;
}

/* A timer that this cluster does not take: its limits may be lower. The others are restored. */
static void say_refused(struct restoring *restoring, size_t index, unsigned status,
                        struct tr_span body)
{
    struct tr_reply reply = {.status = status, .body = body};
    if (restoring->refused++ >= REFUSED_SAID)
        return;
    fprintf(stderr, "tryst backup: the timer %016llx is not restored\n",
            (unsigned long long)restoring->batch_timers[index].id.id);
    tr_reply_refused(COMMAND, &reply);
}

static bool send_timers(struct restoring *restoring, bool *is_left)
{
    struct tr_channel *channel = &restoring->channel;
    char head[256];
    unsigned status = 0;
    struct tr_span body;
    *is_left = false;
    for (size_t i = 0; i < restoring->count; i++) {
        struct tr_timer_text id = restoring->batch_timers[i].id;
        struct tr_span json = restoring->batch_timers[i].json;
        if (restoring->is_done[i])
            continue;
        int size = snprintf(
            head, sizeof head,
            "PUT /timers/%016llx-%u HTTP/1.1\r\nHost: node\r\n%sContent-Length: %zu\r\n\r\n",
            (unsigned long long)id.id, (unsigned)id.factor, tr_credentials_header(), json.size);
        tr_channel_put(channel, head, (size_t)size);
        tr_channel_put(channel, json.text, json.size);
    }
    if (!tr_channel_send(channel))
        return false;
    for (size_t i = 0; i < restoring->count; i++) {
        if (restoring->is_done[i])
            continue;
        if (!tr_channel_answer(channel, &status, &body))
            return false;
        restoring->is_done[i] = status != 503;
        restoring->timers += status == 200;
        *is_left |= status == 503;
        if (status != 200 && status != 503)
            say_refused(restoring, i, status, body);
    }
    return true;
}

/* Sends what has gathered, and again what is refused for a while. */
static bool send_batch(struct restoring *restoring, bool is_keys)
{
    bool is_left = restoring->count > 0;
    for (unsigned tries = 0; is_left; tries++) {
        if (tries > 0)
            tr_backup_pause();
        bool is_sent = is_keys ? send_keys(restoring, &is_left) : send_timers(restoring, &is_left);
        if (!is_sent)
            return false;
        if (is_left && tries == TRIES) {
            tr_failure(COMMAND,
                       "%s refuses what it is sent, again and again (tryst cluster "
                       "status); what was restored so far stays, and --merge goes on",
                       restoring->channel.address);
            return false;
        }
    }
    restoring->count = 0;
    memset(restoring->is_done, 0, sizeof restoring->is_done);
    return true;
}

/* ---- reading ---- */

static bool restore_keys(struct restoring *restoring)
{
    size_t size = 0;
    while (restoring->in.block.at < restoring->in.block.end) {
        struct tr_backup_key *key = &restoring->batch_keys[restoring->count];
        if (!tr_backup_get_key(&restoring->in, key))
            return false;
        restoring->keys++;
        if (key->expires_ms > 0 && key->expires_ms <= restoring->now_ms &&
            key->callback.size == 0) {
            restoring->expired++;
            continue;
        }
        restoring->count++;
        size += key->key.size + key->value.size;
        if ((restoring->count == BATCH || size > BATCH_MAX) && !send_batch(restoring, true))
            return false;
        size = restoring->count == 0 ? 0 : size;
    }
    tr_backup_progress("keys", restoring->keys, restoring->all.keys, false);
    return send_batch(restoring, true);
}

static bool restore_timers(struct restoring *restoring)
{
    size_t size = 0;
    while (restoring->in.block.at < restoring->in.block.end) {
        struct tr_span id;
        struct tr_span json;
        if (!tr_backup_get_timer(&restoring->in, &id, &json))
            return false;
        if (!tr_timer_text_parse(id, &restoring->batch_timers[restoring->count].id))
            return tr_backup_is_damaged(&restoring->in, "a timer has no id");
        restoring->batch_timers[restoring->count].json = json;
        restoring->count++;
        size += json.size;
        if ((restoring->count == BATCH || size > BATCH_MAX) && !send_batch(restoring, false))
            return false;
        size = restoring->count == 0 ? 0 : size;
        tr_backup_progress("timers", restoring->timers, restoring->all.timers, false);
    }
    return send_batch(restoring, false);
}

/* A connection for blocks of this kind. One that is not used for a while the node would close. */
static bool connect_for(struct restoring *restoring, enum tr_backup_kind kind)
{
    bool is_sent = kind == TR_BACKUP_KEYS || kind == TR_BACKUP_TIMERS;
    if (!is_sent || restoring->speaks == kind)
        return true;
    tr_channel_close(&restoring->channel);
    restoring->speaks = kind;
    return tr_channel_open(&restoring->channel, COMMAND, restoring->node) &&
           (kind != TR_BACKUP_KEYS || tr_channel_login(&restoring->channel));
}

static bool restore_all(struct restoring *restoring)
{
    bool is_good = true;
    do {
        is_good = tr_backup_next(&restoring->in) && connect_for(restoring, restoring->in.kind);
        if (is_good && restoring->in.kind == TR_BACKUP_KEYS)
            is_good = restore_keys(restoring);
        else if (is_good && restoring->in.kind == TR_BACKUP_TIMERS)
            is_good = restore_timers(restoring);
    } while (is_good && restoring->in.kind != TR_BACKUP_END);
    tr_backup_progress("", 0, 0, true);
    return is_good;
}

static void print_counts(const struct restoring *restoring)
{
    printf("keys: %llu\n", (unsigned long long)restoring->set);
    if (restoring->kept > 0)
        printf("keys that are there, and stay: %llu\n", (unsigned long long)restoring->kept);
    if (restoring->expired > 0)
        printf("keys that have expired: %llu\n", (unsigned long long)restoring->expired);
    printf("timers: %llu\n", (unsigned long long)restoring->timers);
    if (restoring->refused > 0)
        printf("timers that were refused: %llu\n", (unsigned long long)restoring->refused);
}

enum tr_exit tr_backup_restore(const char *path, const char *node, bool is_merged)
{
    struct tr_backup_counts all;
    struct timespec now;
    if (!tr_backup_verify(COMMAND, path, &all) || !is_ready(node, is_merged))
        return TR_EXIT_FAILED;
    struct restoring *restoring = tr_allocate(1, sizeof *restoring);
    clock_gettime(CLOCK_REALTIME, &now);
    restoring->all = all;
    restoring->is_merged = is_merged;
    restoring->now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    restoring->node = node;
    restoring->channel.file = -1;
    bool is_good = tr_backup_open(&restoring->in, COMMAND, path) && restore_all(restoring);
    if (is_good)
        print_counts(restoring);
    is_good = is_good && restoring->refused == 0;
    tr_channel_close(&restoring->channel);
    tr_backup_close(&restoring->in);
    free(restoring);
    return is_good ? TR_EXIT_OK : TR_EXIT_FAILED;
}
