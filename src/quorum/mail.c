/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/mail.h"

#include "cluster/outbox.h"
#include "kv/expire.h"

#define AHEAD      8     /* promises that are looked at before they are kept */
#define FRAME_SIZE 65536 /* bytes after which a frame takes no more entries */
#define HEAD_SIZE  4     /* of a piece: how many bytes follow */
#define PIECE_SIZE 4096  /* of a mailbox: of as many entries as fit */

/* Whoever is told that a key has ended is told whether its callback is still to be made. */
static void put(const struct tr_quorum *quorum, struct tr_writer *out,
                const struct tr_key_entry *entry, struct tr_span list)
{
    bool has_end = entry->pair.is_end && (entry->kind == TR_KEYS_WRITE || entry->has_pair);
    if (has_end && tr_kv_is_owing(quorum->kv, &entry->pair)) {
        struct tr_key_entry said = *entry;
        said.pair.is_owed = true;
        tr_keys_put(out, &said, list);
    } else {
        tr_keys_put(out, entry, list);
    }
}

tr_ref tr_mail_encode(struct tr_quorum *quorum, const struct tr_key_entry *entry,
                      struct tr_span list)
{
    size_t bound = tr_keys_bound(entry, list);
    tr_ref piece = tr_arena_take(quorum->arena, TR_ARENA_CHUNK, HEAD_SIZE + bound, false);
    if (piece == TR_ARENA_NONE)
        return piece;
    uint8_t *bytes = tr_arena_at(quorum->arena, piece);
    struct tr_writer out = tr_writer_on(bytes + HEAD_SIZE, bound);
    put(quorum, &out, entry, list);
    TR_ASSERT(!out.is_full);
    tr_store(bytes, out.size, HEAD_SIZE);
    return piece;
}

static size_t size_of(const struct tr_quorum *quorum, tr_ref piece)
{
    return (size_t)tr_load(tr_arena_at(quorum->arena, piece), HEAD_SIZE);
}

struct tr_reader tr_mail_read(const struct tr_quorum *quorum, tr_ref piece)
{
    const uint8_t *bytes = tr_arena_at(quorum->arena, piece);
    return tr_reader_on(bytes + HEAD_SIZE, size_of(quorum, piece));
}

/* ---- mailboxes ---- */

static bool is_taking(const struct tr_quorum *quorum, uint16_t peer)
{
    TR_ASSERT(peer != 0 && peer < quorum->cluster->member_count);
    return quorum->cluster->peers[peer].link == LINK_GREETED;
}

/* A piece of its own: what comes then begins another one. It is said under the roster under which
 * it was made, whatever the roster is when it is sent. */
static bool push(struct tr_quorum *quorum, uint16_t peer, tr_ref piece, uint64_t roster_id)
{
    struct tr_mailbox *box = &quorum->mailboxes[peer];
    struct tr_fifo_entry entry = {.ref = piece, .due_ms = roster_id};
    if (!tr_fifo_push(&box->mail, quorum->arena, entry)) {
        tr_arena_give(quorum->arena, piece);
        return false;
    }
    box->open = TR_ARENA_NONE;
    return true;
}

/* Where the next entry of a mailbox goes, of so many bytes at most: behind the one before, if its
 * piece has room, since a piece for each entry would cost more than to encode it. NULL: there is no
 * memory. */
static uint8_t *open_piece(struct tr_quorum *quorum, uint16_t peer, uint64_t roster_id, size_t size)
{
    struct tr_mailbox *box = &quorum->mailboxes[peer];
    if (box->open == TR_ARENA_NONE || box->open_roster_id != roster_id ||
        size_of(quorum, box->open) + size > box->open_room) {
        size_t room = HEAD_SIZE + size > PIECE_SIZE ? HEAD_SIZE + size : PIECE_SIZE;
        tr_ref piece = tr_arena_take(quorum->arena, TR_ARENA_CHUNK, room, false);
        if (piece == TR_ARENA_NONE)
            return NULL;
        tr_store(tr_arena_at(quorum->arena, piece), 0, HEAD_SIZE);
        if (!push(quorum, peer, piece, roster_id))
            return NULL;
        box->open = piece;
        box->open_room = room - HEAD_SIZE;
        box->open_roster_id = roster_id;
    }
    return (uint8_t *)tr_arena_at(quorum->arena, box->open) + HEAD_SIZE +
           size_of(quorum, box->open);
}

/* So many bytes of an entry were written there. */
static void fill_piece(struct tr_quorum *quorum, uint16_t peer, size_t size)
{
    struct tr_mailbox *box = &quorum->mailboxes[peer];
    size_t before = size_of(quorum, box->open);
    TR_ASSERT(size > 0 && before + size <= box->open_room);
    tr_store(tr_arena_at(quorum->arena, box->open), before + size, HEAD_SIZE);
    box->bytes += size;
}

static bool send_under(struct tr_quorum *quorum, uint16_t peer, uint64_t roster_id,
                       const struct tr_key_entry *entry, struct tr_span list)
{
    size_t bound = tr_keys_bound(entry, list);
    if (!is_taking(quorum, peer))
        return false;
    uint8_t *bytes = open_piece(quorum, peer, roster_id, bound);
    if (bytes == NULL)
        return false;
    struct tr_writer out = tr_writer_on(bytes, bound);
    put(quorum, &out, entry, list);
    TR_ASSERT(!out.is_full);
    fill_piece(quorum, peer, out.size);
    return true;
}

bool tr_mail_send(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                  struct tr_span list)
{
    return quorum->mailboxes[peer].bytes <= TR_MAIL_MAX &&
           send_under(quorum, peer, quorum->roster_id, entry, list);
}

/* An entry that was encoded before, under some roster. */
static bool send_copy(struct tr_quorum *quorum, uint16_t peer, uint64_t roster_id, tr_ref piece)
{
    size_t size = size_of(quorum, piece);
    uint8_t *bytes = is_taking(quorum, peer) ? open_piece(quorum, peer, roster_id, size) : NULL;
    if (bytes == NULL)
        return false;
    memcpy(bytes, (const uint8_t *)tr_arena_at(quorum->arena, piece) + HEAD_SIZE, size);
    fill_piece(quorum, peer, size);
    return true;
}

bool tr_mail_send_again(struct tr_quorum *quorum, uint16_t peer, tr_ref piece)
{
    return quorum->mailboxes[peer].bytes <= TR_MAIL_MAX &&
           send_copy(quorum, peer, quorum->roster_id, piece);
}

bool tr_mail_has_room(const struct tr_quorum *quorum, uint16_t peer)
{
    return quorum->mailboxes[peer].bytes < TR_MAIL_MAX / 8 && !tr_arena_is_tight(quorum->arena);
}

/* ---- what waits for the log ---- */

bool tr_mail_can_promise(const struct tr_quorum *quorum)
{
    return quorum->promise_tail - quorum->promise_head < quorum->config.promises_max;
}

static bool promise(struct tr_quorum *quorum, struct tr_promise made)
{
    if (!tr_mail_can_promise(quorum))
        return false;
    quorum->promises[quorum->promise_tail++ & (quorum->config.promises_max - 1)] = made;
    return true;
}

static bool is_durable(const struct tr_quorum *quorum, uint64_t batch)
{
    return !quorum->log->config.has_log || batch <= quorum->log->durable;
}

bool tr_mail_promise(struct tr_quorum *quorum, uint16_t peer, uint64_t batch,
                     const struct tr_key_entry *entry)
{
    struct tr_span none = {NULL, 0};
    bool is_first = quorum->promise_head == quorum->promise_tail;
    if (is_first && is_durable(quorum, batch))
        return tr_mail_send(quorum, peer, entry, none);
    if (!tr_mail_can_promise(quorum))
        return false;
    if (entry->kind == TR_KEYS_ANSWER && !entry->has_pair) /* most are: it is encoded then */
        return promise(quorum, (struct tr_promise){.batch = batch,
                                                   .operation = entry->operation,
                                                   .peer = peer,
                                                   .roster_id = quorum->roster_id,
                                                   .answer = entry->answer,
                                                   .known = entry->known});
    tr_ref piece = tr_mail_encode(quorum, entry, none);
    return piece != TR_ARENA_NONE &&
           promise(quorum, (struct tr_promise){.batch = batch,
                                               .peer = peer,
                                               .roster_id = quorum->roster_id,
                                               .piece = piece});
}

bool tr_mail_send_pair(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                       uint64_t batch)
{
    struct tr_span none = {NULL, 0};
    TR_ASSERT(entry->kind == TR_KEYS_WRITE);
    return entry->pair.is_end ? tr_mail_promise(quorum, peer, batch, entry)
                              : tr_mail_send(quorum, peer, entry, none);
}

bool tr_mail_promise_own(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                         uint64_t batch)
{
    operation->own_batch = batch;
    return promise(quorum, (struct tr_promise){.batch = batch, .operation = operation->number});
}

static struct tr_promise *promise_at(const struct tr_quorum *quorum, uint64_t place)
{
    return &quorum->promises[place & (quorum->config.promises_max - 1)];
}

/* What was promised to another node is durable. */
static void keep_promise(struct tr_quorum *quorum, const struct tr_promise *made)
{
    struct tr_span none = {NULL, 0};
    struct tr_key_entry entry = {
        .kind = TR_KEYS_ANSWER,
        .operation = made->operation,
        .answer = made->answer,
        .known = made->known,
    };
    if (made->piece == TR_ARENA_NONE) {
        send_under(quorum, made->peer, made->roster_id, &entry, none);
    } else {
        send_copy(quorum, made->peer, made->roster_id, made->piece);
        tr_arena_give(quorum->arena, made->piece);
    }
}

bool tr_mail_next_durable(struct tr_quorum *quorum, uint64_t *operation, uint64_t *batch)
{
    while (quorum->promise_head < quorum->promise_tail) {
        const struct tr_promise *first = promise_at(quorum, quorum->promise_head);
        if (!is_durable(quorum, first->batch))
            return false;
        if (quorum->promise_tail - quorum->promise_head > AHEAD) {
            const struct tr_promise *later = promise_at(quorum, quorum->promise_head + AHEAD);
            if (later->peer == 0)
                tr_quorum_fetch(quorum, later->operation);
        }
        quorum->promise_head++;
        *operation = first->operation;
        *batch = first->batch;
        if (first->peer == 0)
            return true;
        keep_promise(quorum, first);
    }
    return false;
}

/* ---- frames ---- */

static void put_frame(struct tr_quorum *quorum, uint16_t peer, struct tr_effects *out)
{
    struct tr_cluster *cluster = quorum->cluster;
    struct tr_mailbox *box = &quorum->mailboxes[peer];
    struct tr_frame frame = {.kind = TR_FRAME_KEYS, .heard_ms = cluster->peers[peer].tick_ms};
    uint64_t roster_id = tr_fifo_first(&box->mail, quorum->arena).due_ms;
    struct tr_key_frame head = {
        .epoch = roster_id == quorum->roster_id ? quorum->membership->roster->epoch : 0,
        .roster_id = roster_id,
        .now_ms = quorum->time->steady_ms,
    };
    struct tr_writer writer = tr_outbox_begin_frame(cluster);
    tr_frame_put(&writer, &frame);
    tr_keys_put_head(&writer, &head);
    while (box->mail.count > 0 && writer.size < FRAME_SIZE) {
        struct tr_fifo_entry first = tr_fifo_first(&box->mail, quorum->arena);
        tr_ref piece = first.ref;
        size_t size = size_of(quorum, piece);
        if (writer.cap - writer.size < size || first.due_ms != roster_id)
            break;
        tr_put_bytes(&writer, (uint8_t *)tr_arena_at(quorum->arena, piece) + HEAD_SIZE, size);
        tr_fifo_pop(&box->mail, quorum->arena);
        tr_arena_give(quorum->arena, piece);
        box->bytes -= size;
        if (piece == box->open)
            box->open = TR_ARENA_NONE;
    }
    tr_outbox_end_frame(cluster, peer, &writer, out);
    cluster->peers[peer].sent_ms = quorum->time->now_ms;
}

void tr_mail_put_frames(struct tr_quorum *quorum, uint16_t peer, struct tr_effects *out)
{
    while (quorum->mailboxes[peer].mail.count > 0 && tr_outbox_has_frame_room(quorum->cluster, out))
        put_frame(quorum, peer, out);
}

void tr_mail_clear(struct tr_quorum *quorum, uint16_t peer)
{
    struct tr_mailbox *box = &quorum->mailboxes[peer];
    while (box->mail.count > 0)
        tr_arena_give(quorum->arena, tr_fifo_pop(&box->mail, quorum->arena).ref);
    box->bytes = 0;
    box->open = TR_ARENA_NONE;
}
