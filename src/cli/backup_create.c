/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a backup of a running cluster.
 *
 * Keys are scanned and read through one node, each as a quorum has it. Timers every node is asked
 * for (backup_timers.c).
 */
#include "cli/backup.h"
#include "cli/channel.h"
#include "cli/members.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMMAND   "backup"
#define PAGE      512 /* keys of one */
#define TRIES     100 /* of what is refused for a while */
#define CURSOR    40
#define HEAD_MOST 262144

#define SLICE_LEAST 16 /* keys that are read at once, while they come to */
#define SLICE_BYTES ((uint64_t)1 << 20)

struct making {
    struct tr_channel channel; /* to the node that was named */
    bool has_keys;             /* there is a keyspace */
    size_t slice;              /* keys that are read at once */
    struct tr_cluster_members members;
    struct tr_backup_out out;
};

/* ---- what it is a backup of ---- */

/* How keys are spread: partitions, copies, reads, writes. */
static bool ask_definition(struct tr_channel *channel, uint64_t numbers[4])
{
    static const char *const names[] = {"partitions", "copies", "reads", "writes"};
    struct tr_channel_reply reply;
    tr_channel_begin(channel, 2);
    tr_channel_put_word(channel, TR_SPAN("KEYSPACE"));
    tr_channel_put_word(channel, TR_SPAN("INFO"));
    if (!tr_channel_send(channel) || !tr_channel_reply(channel, &reply))
        return false;
    if (reply.kind == TR_CHANNEL_HTTP) {
        fprintf(stderr,
                "tryst backup: %s takes no commands on keys ([resp] enabled): timers "
                "alone\n",
                channel->address);
        return true;
    }
    if (reply.kind != '*') {
        tr_failure(COMMAND, "%s says: %.*s", channel->address, (int)reply.text.size,
                   reply.text.text);
        return false;
    }
    for (int64_t left = reply.number / 2; left > 0; left--) {
        size_t which = 0;
        if (!tr_channel_reply(channel, &reply))
            return false;
        while (which < 4 &&
               !tr_span_equals(reply.text, (struct tr_span){names[which], strlen(names[which])}))
            which++;
        if (!tr_channel_reply(channel, &reply))
            return false;
        if (which < 4)
            numbers[which] = (uint64_t)reply.number;
    }
    return true;
}

static const struct tr_told *contact_of(const struct making *making)
{
    const struct tr_cluster_members *members = &making->members;
    size_t index = 0;
    while (index + 1 < members->count && !members->list[index].told.is_reached)
        index++;
    for (size_t i = 0; i < members->count; i++) { /* it may have been named in another way */
        if (strcmp(members->list[i].address, making->channel.address) == 0)
            index = i;
    }
    return &members->list[index].told;
}

/* Whether it is of the cluster and holds something; `is_missing`: and does not answer. */
static bool is_counted(const struct making *making, size_t index, bool is_missing)
{
    const struct tr_cluster_member *member = &making->members.list[index];
    const char *role = tr_told_role(contact_of(making), member->address);
    bool is_in = strcmp(role, "gone") != 0 && strcmp(role, "lost") != 0;
    return is_in && (!is_missing || !member->told.is_reached);
}

static void put_nodes(const struct making *making, bool is_missing, struct tr_writer *out)
{
    uint64_t count = 0;
    for (size_t i = 0; i < making->members.count; i++)
        count += is_counted(making, i, is_missing);
    tr_put_varint(out, count);
    for (size_t i = 0; i < making->members.count; i++) {
        const char *address = making->members.list[i].address;
        if (is_counted(making, i, is_missing))
            tr_put_span(out, (struct tr_span){address, strlen(address)});
        if (is_missing && is_counted(making, i, true))
            fprintf(stderr, "tryst backup: %s does not answer: what only it has is left out\n",
                    address);
    }
}

static bool put_head(struct making *making)
{
    uint64_t numbers[4] = {0};
    const char *cluster = contact_of(making)->cluster;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!ask_definition(&making->channel, numbers))
        return false;
    making->has_keys = numbers[0] > 0;
    uint8_t *head = tr_allocate(HEAD_MOST, 1);
    struct tr_writer writer = tr_writer_on(head, HEAD_MOST);
    tr_put_varint(&writer, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
    tr_put_span(&writer, (struct tr_span){cluster, strlen(cluster)});
    for (size_t i = 0; i < 4; i++)
        tr_put_varint(&writer, numbers[i]);
    put_nodes(making, false, &writer);
    put_nodes(making, true, &writer);
    bool is_put = tr_backup_put_block(&making->out, TR_BACKUP_HEAD, head, writer.size);
    free(head);
    return is_put;
}

/* ---- keys ---- */

/* Some keys, one after the other. */
struct page {
    char *bytes;
    size_t size;
    size_t cap;
    size_t count;
    size_t keys_cap;
    struct {
        size_t at;
        size_t size;
        bool is_done;
    } * keys;
    char cursor[CURSOR];
    char refusal[128]; /* of one that was not read */
};

static void append(struct page *page, struct tr_span text)
{
    if (page->cap - page->size < text.size) {
        page->cap = 2 * (page->cap + text.size);
        page->bytes = tr_reallocate(page->bytes, page->cap, 1);
    }
    if (text.size > 0)
        memcpy(page->bytes + page->size, text.text, text.size);
    page->size += text.size;
}

/* A refusal: whether it may be tried again. It has paused then; else it has said what is wrong. */
static bool may_try(const struct tr_channel *channel, const char *refusal, unsigned *tries)
{
    bool is_passing =
        strncmp(refusal, "UNAVAILABLE", 11) == 0 || strncmp(refusal, "LOADING", 7) == 0;
    if (is_passing && ++*tries < TRIES) {
        tr_backup_pause();
        return true;
    }
    tr_failure(COMMAND, "%s says: %s", channel->address, refusal);
    return false;
}

/* The next reply takes the place of its text. */
static void keep_refusal(struct page *page, const struct tr_channel_reply *reply)
{
    snprintf(page->refusal, sizeof page->refusal, "%.*s", (int)reply->text.size, reply->text.text);
}

static bool read_page(struct tr_channel *channel, struct page *page, int64_t count)
{
    struct tr_channel_reply reply;
    page->count = 0;
    page->size = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!tr_channel_reply(channel, &reply))
            return false;
        if (page->count == page->keys_cap) {
            page->keys_cap = 2 * page->keys_cap + PAGE;
            page->keys = tr_reallocate(page->keys, page->keys_cap, sizeof page->keys[0]);
        }
        page->keys[page->count].at = page->size;
        page->keys[page->count].size = reply.text.size;
        page->keys[page->count++].is_done = false;
        append(page, reply.text);
    }
    return true;
}

/* Which keys come next. False: it has said why not. */
static bool scan(struct tr_channel *channel, struct page *page)
{
    struct tr_channel_reply reply;
    for (unsigned tries = 0;;) {
        char count[16];
        int size = snprintf(count, sizeof count, "%d", PAGE);
        tr_channel_begin(channel, 4);
        tr_channel_put_word(channel, TR_SPAN("SCAN"));
        tr_channel_put_word(channel, (struct tr_span){page->cursor, strlen(page->cursor)});
        tr_channel_put_word(channel, TR_SPAN("COUNT"));
        tr_channel_put_word(channel, (struct tr_span){count, (size_t)size});
        if (!tr_channel_send(channel) || !tr_channel_reply(channel, &reply))
            return false;
        if (reply.kind == '*')
            break;
        keep_refusal(page, &reply);
        if (!may_try(channel, page->refusal, &tries))
            return false;
    }
    if (!tr_channel_reply(channel, &reply) || reply.text.size >= CURSOR)
        return false;
    memcpy(page->cursor, reply.text.text, reply.text.size);
    page->cursor[reply.text.size] = '\0';
    return tr_channel_reply(channel, &reply) && read_page(channel, page, reply.number);
}

/* What KEYSPACE READ replies of a key that is there. */
static bool read_key(struct tr_channel *channel, struct page *texts, struct tr_backup_key *key)
{
    struct tr_channel_reply reply;
    texts->size = 0;
    if (!tr_channel_reply(channel, &reply))
        return false;
    size_t value = reply.text.size;
    append(texts, reply.text);
    if (!tr_channel_reply(channel, &reply))
        return false;
    key->expires_ms = reply.number > 0 ? (uint64_t)reply.number : 0;
    if (!tr_channel_reply(channel, &reply))
        return false;
    size_t callback = reply.is_null ? 0 : reply.text.size;
    append(texts, (struct tr_span){reply.text.text, callback});
    if (!tr_channel_reply(channel, &reply))
        return false;
    key->version = (uint64_t)reply.number;
    key->value = (struct tr_span){texts->bytes, value};
    key->callback = (struct tr_span){texts->bytes != NULL ? texts->bytes + value : NULL, callback};
    return true;
}

/* Reads keys of a page, from one on, so many at once. `left`: of them, those that were refused. */
static bool read_keys(struct making *making, struct page *page, struct page *texts, size_t from,
                      size_t count, size_t *left)
{
    struct tr_channel *channel = &making->channel;
    for (size_t i = from; i < from + count; i++) {
        if (page->keys[i].is_done)
            continue;
        tr_channel_begin(channel, 3);
        tr_channel_put_word(channel, TR_SPAN("KEYSPACE"));
        tr_channel_put_word(channel, TR_SPAN("READ"));
        tr_channel_put_word(channel,
                            (struct tr_span){page->bytes + page->keys[i].at, page->keys[i].size});
    }
    *left = 0;
    if (!tr_channel_send(channel))
        return false;
    for (size_t i = from; i < from + count; i++) {
        struct tr_channel_reply reply;
        struct tr_backup_key key = {.key = {page->bytes + page->keys[i].at, page->keys[i].size}};
        if (page->keys[i].is_done)
            continue;
        if (!tr_channel_reply(channel, &reply))
            return false;
        page->keys[i].is_done = reply.kind != '-';
        if (reply.kind == '-') {
            keep_refusal(page, &reply);
            (*left)++;
        } else if (!reply.is_null) { /* else it has ended since */
            if (!read_key(channel, texts, &key))
                return false;
            tr_backup_put_key(&making->out, &key);
            if (!tr_backup_flush(&making->out, false))
                return false;
        }
    }
    return true;
}

/* All keys of a page: few at once while values are large. */
static bool read_page_keys(struct making *making, struct page *page, struct page *texts)
{
    for (size_t from = 0; from < page->count;) {
        uint64_t bytes = making->out.counts.bytes + making->out.size;
        size_t count = page->count - from < making->slice ? page->count - from : making->slice;
        size_t left = 1;
        for (unsigned tries = 0; left > 0;) {
            if (!read_keys(making, page, texts, from, count, &left) ||
                (left > 0 && !may_try(&making->channel, page->refusal, &tries)))
                return false;
        }
        bool is_much = making->out.counts.bytes + making->out.size - bytes > SLICE_BYTES;
        making->slice = is_much ? SLICE_LEAST : making->slice < PAGE ? 2 * making->slice : PAGE;
        from += count;
    }
    return true;
}

static uint64_t count_keys(struct tr_channel *channel)
{
    struct tr_channel_reply reply;
    tr_channel_begin(channel, 1);
    tr_channel_put_word(channel, TR_SPAN("DBSIZE"));
    bool is_told =
        tr_channel_send(channel) && tr_channel_reply(channel, &reply) && reply.kind == ':';
    return is_told ? (uint64_t)reply.number : 0;
}

static bool put_keys(struct making *making)
{
    struct page *page = tr_allocate(1, sizeof *page);
    struct page *texts = tr_allocate(1, sizeof *texts);
    uint64_t all = count_keys(&making->channel);
    bool is_good = true;
    snprintf(page->cursor, sizeof page->cursor, "0");
    do {
        is_good = scan(&making->channel, page) && read_page_keys(making, page, texts);
        tr_backup_progress("keys", making->out.counts.keys, all, false);
    } while (is_good && strcmp(page->cursor, "0") != 0);
    tr_backup_progress("keys", 0, 0, true);
    free(page->bytes);
    free(page->keys);
    free(texts->bytes);
    free(page);
    free(texts);
    return is_good && tr_backup_flush(&making->out, true);
}

/* ---- all of it ---- */

static bool is_settled(const struct making *making)
{
    const struct tr_told *told = contact_of(making);
    if (!told->is_changing)
        return true;
    tr_failure(COMMAND, "nodes join or leave, and keys and timers move: make it when that is over "
                        "(tryst cluster status)");
    return false;
}

/* What has one copy may be passed by while it moves. */
static void warn_of_moves(const struct tr_cluster_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        const struct tr_told *told = &members->list[i].told;
        if (told->is_reached && (told->is_rebalancing || told->moving > 0)) {
            fprintf(stderr,
                    "tryst backup: %s moves timers to where they belong: one that has a "
                    "single copy may be missing\n",
                    members->list[i].address);
            return;
        }
    }
}

/* While nodes join or leave, what moves from one to the other may have been passed by. */
static bool has_stayed(const struct making *making, const char *node)
{
    struct tr_told now = {0};
    bool is_told = tr_told_ask(COMMAND, node, false, &now);
    bool is_same = is_told && now.epoch == contact_of(making)->epoch && !now.is_changing;
    if (is_told && !is_same)
        tr_failure(COMMAND, "nodes joined or left meanwhile: make it again");
    if (is_same)
        warn_of_moves(&making->members);
    tr_told_free(&now);
    return is_same;
}

enum tr_exit tr_backup_create(const char *path, const char *node)
{
    struct making making = {.slice = SLICE_LEAST};
    enum tr_exit status = TR_EXIT_FAILED;
    if (!tr_members_ask(COMMAND, node, &making.members) ||
        !tr_channel_open(&making.channel, COMMAND, node) || !tr_channel_login(&making.channel))
        return TR_EXIT_FAILED;
    if (is_settled(&making) && tr_backup_begin(&making.out, COMMAND, path)) {
        if (put_head(&making) && (!making.has_keys || put_keys(&making)) &&
            tr_backup_put_timers(&making.out, &making.members) && has_stayed(&making, node) &&
            tr_backup_finish(&making.out)) {
            printf("keys: %llu\ntimers: %llu\nbytes: %llu\n",
                   (unsigned long long)making.out.counts.keys,
                   (unsigned long long)making.out.counts.timers,
                   (unsigned long long)making.out.counts.bytes);
            status = TR_EXIT_OK;
        }
        tr_backup_drop(&making.out);
    }
    tr_channel_close(&making.channel);
    tr_members_free(&making.members);
    return status;
}
