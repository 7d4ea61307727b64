/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packed record. Fixed, at these offsets:
 *
 *    0  1  0x80 | flags, never 0          29  1  attempt
 *    1  1  state, and what follows        30  1  acked
 *    2  6  due                            31  1  list count | tag count << 4
 *    8  8  id                             32  4  URI, a text
 *   16  8  version                        36     varints: part, if flagged, sequence, moves, lag,
 *   24  2  version node                          interval, repeat-for, if flagged, factor; list,
 *   26  3  segment                               2 bytes each; the same of `from` after its count,
 *                                                if flagged; what only some have, if flagged: a
 *                                                byte that says which (enum extra), then that;
 *                                                tags, each 4 bytes and a varint;
 *                                                content type, 4 bytes if flagged; opaque size;
 *                                                opaque
 *
 * A piece has room for what grows while a timer lives: its sequence, its moves and its lag. So a
 * pop that fails, or a timer that repeats, needs no memory: all of them may at once, when there is
 * none.
 *
 * It exists in memory alone; wire/log_entry.c has the form on disk.
 */
#include "timers/book.h"

#include "base/bytes.h"

#define AT_STATE   1
#define AT_DUE     2
#define AT_ID      8
#define AT_VERSION 16
#define AT_NODE    24
#define AT_SEGMENT 26
#define AT_ATTEMPT 29
#define AT_ACKED   30
#define AT_COUNTS  31
#define AT_URI     32
#define FIXED      36

#define LIVE      0x80
#define HAS_TYPE  0x40
#define HAS_FROM  0x20
#define FLAG_MASK 0x1f
#define GONE      0x8000 /* in `from`: it has dropped the record */

#define STATE_MASK 0x03
#define HAS_PART   0x04
#define HAS_REPEAT 0x08
#define HAS_EXTRA  0x10

/* What only some records have, in this order. */
enum extra {
    EXTRA_INSTANT = 1,     /* 6 bytes */
    EXTRA_ATTEMPT = 2,     /* at 6, result 2, node 2, duration 4 */
    EXTRA_FINGERPRINT = 4, /* 8 bytes */
    EXTRA_PLAN = 8,        /* a text, 4 bytes */
    EXTRA_OWN = 16,        /* a span */
};

#define EXTRA_MAX (1 + 6 + 14 + 8 + 4 + 2 + TR_OWN_MAX)

/* Everything but the opaque bytes. */
#define HEAD_MAX                                                                                   \
    (FIXED + 8 * TR_VARINT_MAX + 2 * (TR_SET_MAX + TR_FROM_MAX) + 1 + EXTRA_MAX +                  \
     TR_TAGS_MAX * (4 + TR_VARINT_MAX) + 4)

/* How long varints get. One that gets longer may need another piece, from the arena's reserve. */
#define LAG_SIZE   5 /* a year */
#define MOVES_SIZE 2 /* three moves */
#define PART_SIZE  2 /* a failed pop's sequence, which counts its redrives */

/* The shared texts of a record. */
struct texts {
    tr_ref uri;
    tr_ref content_type;
    tr_ref plan;
    tr_ref tags[TR_TAGS_MAX];
};

static uint8_t *bytes_at(const struct tr_book *book, tr_ref ref)
{
    return tr_arena_at(book->arena, ref);
}

static uint64_t hash_of(const void *owner, tr_ref ref)
{
    return tr_book_hash(tr_book_id(owner, ref));
}

bool tr_book_init(struct tr_book *book, struct tr_arena *arena)
{
    book->arena = arena;
    return tr_index_init(&book->index, arena, book, hash_of) &&
           tr_strings_init(&book->texts, arena) && tr_strings_init(&book->tags, arena);
}

void tr_book_fetch(const struct tr_book *book, tr_ref ref)
{
    const char *at = tr_arena_at(book->arena, ref);
    __builtin_prefetch(at);
    __builtin_prefetch(at + TR_CACHE_LINE);
}

tr_timer_id tr_book_id(const struct tr_book *book, tr_ref ref)
{
    return tr_load(bytes_at(book, ref) + AT_ID, 8);
}

bool tr_book_is_plain(const struct tr_book *book, tr_ref ref)
{
    return (bytes_at(book, ref)[AT_STATE] & HAS_EXTRA) == 0;
}

uint64_t tr_book_version(const struct tr_book *book, tr_ref ref)
{
    return tr_load(bytes_at(book, ref) + AT_VERSION, 8);
}

tr_steady_ms tr_book_due(const struct tr_book *book, tr_ref ref)
{
    return tr_load(bytes_at(book, ref) + AT_DUE, 6);
}

tr_ref tr_book_uri(const struct tr_book *book, tr_ref ref)
{
    return (tr_ref)tr_load(bytes_at(book, ref) + AT_URI, 4);
}

uint32_t tr_book_segment(const struct tr_book *book, tr_ref ref)
{
    return (uint32_t)tr_load(bytes_at(book, ref) + AT_SEGMENT, 3);
}

void tr_book_set_segment(struct tr_book *book, tr_ref ref, uint32_t segment)
{
    TR_ASSERT(segment <= 0xffffff);
    tr_store(bytes_at(book, ref) + AT_SEGMENT, segment, 3);
}

uint8_t tr_book_flags(const struct tr_book *book, tr_ref ref)
{
    return bytes_at(book, ref)[0] & FLAG_MASK;
}

enum tr_record_state tr_book_state(const struct tr_book *book, tr_ref ref)
{
    return (enum tr_record_state)(bytes_at(book, ref)[AT_STATE] & STATE_MASK);
}

/* Which state may come after which. A record that is replaced begins anew, as UNSAFE; what is under
 * way with it may go on (FLYING). A queued pop that is called back goes to the wheel again. */
static const bool may_follow[4][4] = {
    [TR_STATE_UNSAFE] =
        {[TR_STATE_UNSAFE] = true, [TR_STATE_ARMED] = true, [TR_STATE_FLYING] = true},
    [TR_STATE_ARMED] = {[TR_STATE_UNSAFE] = true,
                        [TR_STATE_ARMED] = true,
                        [TR_STATE_QUEUED] = true,
                        [TR_STATE_FLYING] = true},
    [TR_STATE_QUEUED] = {[TR_STATE_ARMED] = true, [TR_STATE_FLYING] = true},
    [TR_STATE_FLYING] = {[TR_STATE_ARMED] = true},
};

void tr_book_set_state(struct tr_book *book, tr_ref ref, enum tr_record_state state)
{
    TR_ASSERT(may_follow[tr_book_state(book, ref)][state]);
    uint8_t *byte = bytes_at(book, ref) + AT_STATE;
    *byte = (uint8_t)((*byte & (HAS_PART | HAS_REPEAT | HAS_EXTRA)) | (unsigned)state);
}

uint8_t tr_book_acked(const struct tr_book *book, tr_ref ref)
{
    return bytes_at(book, ref)[AT_ACKED];
}

void tr_book_set_acked(struct tr_book *book, tr_ref ref, uint8_t acked)
{
    bytes_at(book, ref)[AT_ACKED] = acked;
}

bool tr_book_all_acked(const struct tr_book *book, tr_ref ref)
{
    const uint8_t *bytes = bytes_at(book, ref);
    unsigned all = (1u << (bytes[AT_COUNTS] & 0x0f)) - 1;
    return (bytes[0] & HAS_FROM) == 0 && (bytes[AT_ACKED] & all) == all;
}

bool tr_book_matches(const struct tr_book *book, tr_ref ref, enum tr_record_state state,
                     tr_steady_ms due_ms)
{
    return tr_arena_holds(book->arena, ref) && tr_book_state(book, ref) == state &&
           tr_book_due(book, ref) == due_ms;
}

void tr_book_forget(struct tr_book *book, tr_ref ref, uint16_t member)
{
    TR_ASSERT((member & GONE) == 0);
    uint8_t *bytes = bytes_at(book, ref);
    struct tr_reader in =
        tr_reader_on(bytes + FIXED, 7 * TR_VARINT_MAX + 2 * (TR_SET_MAX + TR_FROM_MAX) + 1);
    if ((bytes[0] & HAS_FROM) == 0)
        return;
    unsigned before = 5;
    before += (bytes[AT_STATE] & HAS_PART) != 0;
    before += (bytes[AT_STATE] & HAS_REPEAT) != 0;
    for (unsigned i = 0; i < before; i++)
        tr_get_varint(&in);
    tr_get_bytes(&in, 2 * (size_t)(bytes[AT_COUNTS] & 0x0f));
    uint64_t count = tr_get_number(&in, 1);
    size_t at = (size_t)(in.at - bytes);
    for (uint64_t i = 0; i < count; i++, at += 2) {
        if (tr_load(bytes + at, 2) == member)
            tr_store(bytes + at, member | GONE, 2);
    }
}

static void release_texts(struct tr_book *book, const struct texts *texts, unsigned tag_count)
{
    TR_ASSERT(tag_count <= TR_TAGS_MAX);
    if (texts->uri != TR_ARENA_NONE)
        tr_strings_release(&book->texts, texts->uri);
    if (texts->content_type != TR_ARENA_NONE)
        tr_strings_release(&book->texts, texts->content_type);
    if (texts->plan != TR_ARENA_NONE)
        tr_strings_release(&book->texts, texts->plan);
    for (unsigned i = 0; i < tag_count; i++)
        tr_strings_release(&book->tags, texts->tags[i]);
}

static bool hold_texts(struct tr_book *book, const struct tr_record *record, struct texts *texts)
{
    TR_ASSERT(record->tag_count <= TR_TAGS_MAX);
    *texts = (struct texts){0};
    unsigned tags = 0;
    bool is_held = true;
    if (record->uri.size > 0) {
        texts->uri = tr_strings_hold(&book->texts, record->uri);
        is_held = texts->uri != TR_ARENA_NONE;
    }
    if (is_held && record->content_type.size > 0) {
        texts->content_type = tr_strings_hold(&book->texts, record->content_type);
        is_held = texts->content_type != TR_ARENA_NONE;
    }
    if (is_held && record->plan.size > 0) {
        texts->plan = tr_strings_hold(&book->texts, record->plan);
        is_held = texts->plan != TR_ARENA_NONE;
    }
    for (; is_held && tags < record->tag_count; tags += is_held) {
        texts->tags[tags] = tr_strings_hold(&book->tags, record->tags[tags].name);
        is_held = texts->tags[tags] != TR_ARENA_NONE;
    }
    if (!is_held)
        release_texts(book, texts, tags);
    return is_held;
}

static void pack_from(struct tr_writer *out, const struct tr_record *record)
{
    TR_ASSERT(record->head.from.count > 0 && record->head.from.count <= TR_FROM_MAX);
    uint16_t places[TR_FROM_MAX];
    unsigned count = tr_from_places(&record->head.from, places);
    tr_put_number(out, count, 1);
    for (unsigned i = 0; i < count; i++)
        tr_put_number(out, places[i] | ((record->head.from.gone >> i & 1) != 0 ? GONE : 0), 2);
}

static uint8_t extra_of(const struct tr_record *record)
{
    unsigned extra = record->head.instant_ms != 0 ? EXTRA_INSTANT : 0;
    extra |= record->head.attempt.at_ms != 0 ? EXTRA_ATTEMPT : 0;
    extra |= record->head.fingerprint != 0 ? EXTRA_FINGERPRINT : 0;
    extra |= record->plan.size > 0 ? EXTRA_PLAN : 0;
    extra |= record->own.size > 0 ? EXTRA_OWN : 0;
    return (uint8_t)extra;
}

static void pack_extra(struct tr_writer *out, const struct tr_record *record, tr_ref plan)
{
    const struct tr_attempt *attempt = &record->head.attempt;
    uint8_t extra = extra_of(record);
    tr_put_number(out, extra, 1);
    if ((extra & EXTRA_INSTANT) != 0)
        tr_put_number(out, record->head.instant_ms, 6);
    if ((extra & EXTRA_ATTEMPT) != 0) {
        tr_put_number(out, attempt->at_ms, 6);
        tr_put_number(out, attempt->result, 2);
        tr_put_number(out, attempt->node, 2);
        tr_put_number(out, attempt->duration_ms, 4);
    }
    if ((extra & EXTRA_FINGERPRINT) != 0)
        tr_put_number(out, record->head.fingerprint, 8);
    if ((extra & EXTRA_PLAN) != 0)
        tr_put_number(out, plan, 4);
    if ((extra & EXTRA_OWN) != 0)
        tr_put_span(out, record->own);
}

static size_t pack_head(const struct tr_record *record, const struct texts *texts,
                        uint8_t head[HEAD_MAX])
{
    TR_ASSERT(record->head.replicas.count <= TR_SET_MAX && record->head.due_ms <= TR_TIME_MAX);
    TR_ASSERT((record->head.flags & ~FLAG_MASK) == 0 && record->head.segment <= 0xffffff);
    TR_ASSERT(record->head.order.attempt <= TR_ATTEMPT_MAX);
    struct tr_writer out = tr_writer_on(head, HEAD_MAX);
    uint8_t has_type = texts->content_type != TR_ARENA_NONE ? HAS_TYPE : 0;
    uint8_t has_from = record->head.from.count > 0 ? HAS_FROM : 0;
    uint8_t has_part = record->head.key.part > 0 ? HAS_PART : 0;
    uint8_t has_repeat = record->repeat_ms > 0 ? HAS_REPEAT : 0;
    tr_put_number(&out, (uint64_t)LIVE | has_type | has_from | record->head.flags, 1);
    uint8_t has_extra = extra_of(record) != 0 ? HAS_EXTRA : 0;
    tr_put_number(&out, (uint64_t)TR_STATE_UNSAFE | has_part | has_repeat | has_extra, 1);
    tr_put_number(&out, record->head.due_ms, 6);
    tr_put_number(&out, record->head.key.id, 8);
    tr_put_number(&out, record->head.order.version, 8);
    tr_put_number(&out, record->head.order.version_node, 2);
    tr_put_number(&out, record->head.segment, 3);
    tr_put_number(&out, record->head.order.attempt, 1);
    tr_put_number(&out, 0, 1);
    tr_put_number(&out, (uint64_t)record->head.replicas.count | (uint64_t)record->tag_count << 4,
                  1);
    tr_put_number(&out, texts->uri, 4);
    if (has_part != 0)
        tr_put_varint(&out, record->head.key.part);
    tr_put_varint(&out, record->head.order.sequence);
    tr_put_varint(&out, record->head.order.moves);
    tr_put_varint(&out, record->head.lag_ms);
    tr_put_varint(&out, record->interval_ms);
    if (has_repeat != 0)
        tr_put_varint(&out, record->repeat_ms);
    tr_put_varint(&out, record->head.factor);
    for (unsigned i = 0; i < record->head.replicas.count; i++)
        tr_put_number(&out, record->head.replicas.members[i], 2);
    if (has_from)
        pack_from(&out, record);
    if (has_extra)
        pack_extra(&out, record, texts->plan);
    for (unsigned i = 0; i < record->tag_count; i++) {
        tr_put_number(&out, texts->tags[i], 4);
        tr_put_varint(&out, record->tags[i].count);
    }
    if (has_type)
        tr_put_number(&out, texts->content_type, 4);
    tr_put_varint(&out, record->opaque.size);
    TR_ASSERT(!out.is_full);
    return out.size;
}

static void unpack_from(struct tr_reader *in, struct tr_from *from)
{
    uint16_t gone[TR_FROM_MAX];
    unsigned gone_count = 0;
    uint64_t count = tr_get_number(in, 1);
    for (uint64_t i = 0; i < count; i++) {
        uint16_t member = (uint16_t)tr_get_number(in, 2);
        if ((member & GONE) == 0) {
            from->members[from->count++] = member;
            continue;
        }
        from->gone |= (uint16_t)(1u << i);
        gone[gone_count++] = member & (uint16_t)~GONE;
    }
    for (unsigned i = 0; i < gone_count; i++)
        from->members[from->count + i] = gone[i];
}

/* What stands among the head of a record and is none of it. */
struct among {
    uint64_t interval_ms;
    uint64_t repeat_ms;
    tr_ref plan;
    struct tr_span own;
};

static void unpack_extra(struct tr_reader *in, struct tr_head *head, struct among *among)
{
    uint64_t extra = tr_get_number(in, 1);
    if ((extra & EXTRA_INSTANT) != 0)
        head->instant_ms = tr_get_number(in, 6);
    if ((extra & EXTRA_ATTEMPT) != 0) {
        head->attempt.at_ms = tr_get_number(in, 6);
        head->attempt.result = (uint16_t)tr_get_number(in, 2);
        head->attempt.node = (uint16_t)tr_get_number(in, 2);
        head->attempt.duration_ms = (uint32_t)tr_get_number(in, 4);
    }
    if ((extra & EXTRA_FINGERPRINT) != 0)
        head->fingerprint = tr_get_number(in, 8);
    if ((extra & EXTRA_PLAN) != 0)
        among->plan = (tr_ref)tr_get_number(in, 4);
    if ((extra & EXTRA_OWN) != 0)
        among->own = tr_get_span(in);
}

/* Returns where the rest begins. */
static struct tr_reader unpack_head(const struct tr_book *book, tr_ref ref, struct tr_head *head,
                                    struct among *among)
{
    const uint8_t *bytes = bytes_at(book, ref);
    TR_ASSERT((bytes[0] & LIVE) != 0);
    head->flags = bytes[0] & FLAG_MASK;
    head->due_ms = tr_load(bytes + AT_DUE, 6);
    head->key.id = tr_load(bytes + AT_ID, 8);
    head->order.version = tr_load(bytes + AT_VERSION, 8);
    head->order.version_node = (uint16_t)tr_load(bytes + AT_NODE, 2);
    head->segment = (uint32_t)tr_load(bytes + AT_SEGMENT, 3);
    head->order.attempt = bytes[AT_ATTEMPT];
    head->replicas.count = bytes[AT_COUNTS] & 0x0f;
    /* It was packed here, so it ends where its fields say: the region is bound enough. */
    const uint8_t *end = book->arena->base + (size_t)book->arena->block_count * TR_ARENA_BLOCK;
    struct tr_reader in = tr_reader_on(bytes + FIXED, (size_t)(end - bytes) - FIXED);
    head->key.part = (bytes[AT_STATE] & HAS_PART) != 0 ? tr_get_varint(&in) : 0;
    head->order.sequence = tr_get_varint(&in);
    head->order.moves = (uint32_t)tr_get_varint(&in);
    head->lag_ms = tr_get_varint(&in);
    among->interval_ms = tr_get_varint(&in);
    among->repeat_ms = (bytes[AT_STATE] & HAS_REPEAT) != 0 ? tr_get_varint(&in) : 0;
    head->factor = (uint32_t)tr_get_varint(&in);
    for (unsigned i = 0; i < head->replicas.count; i++)
        head->replicas.members[i] = (uint16_t)tr_get_number(&in, 2);
    head->from.count = 0;
    head->from.gone = 0;
    if ((bytes[0] & HAS_FROM) != 0)
        unpack_from(&in, &head->from);
    head->instant_ms = 0;
    head->attempt = (struct tr_attempt){0}; /* the log is given all of it */
    head->fingerprint = 0;
    among->plan = TR_ARENA_NONE;
    among->own = (struct tr_span){"", 0};
    if ((bytes[AT_STATE] & HAS_EXTRA) != 0)
        unpack_extra(&in, head, among);
    head->nominal_ms = tr_head_nominal(head, among->interval_ms);
    return in;
}

static void unpack(const struct tr_book *book, tr_ref ref, struct tr_record *record,
                   struct texts *texts)
{
    const uint8_t *bytes = bytes_at(book, ref);
    struct among among;
    struct tr_reader in = unpack_head(book, ref, &record->head, &among);
    record->interval_ms = among.interval_ms;
    record->repeat_ms = among.repeat_ms;
    record->own = among.own;
    texts->plan = among.plan;
    record->plan = among.plan == TR_ARENA_NONE ? (struct tr_span){"", 0}
                                               : tr_strings_text(&book->texts, among.plan);
    record->tag_count = bytes[AT_COUNTS] >> 4;
    texts->uri = (tr_ref)tr_load(bytes + AT_URI, 4);
    texts->content_type = TR_ARENA_NONE;
    for (unsigned i = 0; i < record->tag_count; i++) {
        texts->tags[i] = (tr_ref)tr_get_number(&in, 4);
        record->tags[i].name = tr_strings_text(&book->tags, texts->tags[i]);
        record->tags[i].count = tr_get_varint(&in);
    }
    if ((bytes[0] & HAS_TYPE) != 0)
        texts->content_type = (tr_ref)tr_get_number(&in, 4);
    record->opaque = tr_get_span(&in);
    record->uri = texts->uri == TR_ARENA_NONE ? (struct tr_span){"", 0}
                                              : tr_strings_text(&book->texts, texts->uri);
    record->content_type = texts->content_type == TR_ARENA_NONE
                               ? (struct tr_span){"", 0}
                               : tr_strings_text(&book->texts, texts->content_type);
    record->head.body_bound = tr_record_body_bound(record);
}

void tr_book_head(const struct tr_book *book, tr_ref ref, struct tr_head *head)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    const uint8_t *bytes = bytes_at(book, ref);
    struct among among;
    struct tr_reader in = unpack_head(book, ref, head, &among);
    tr_ref uri = (tr_ref)tr_load(bytes + AT_URI, 4);
    size_t bound = uri != TR_ARENA_NONE ? tr_strings_text(&book->texts, uri).size : 0;
    bound += among.own.size > 0 ? among.own.size + TR_REST_BESIDE : 0;
    if (among.plan != TR_ARENA_NONE)
        bound += tr_strings_text(&book->texts, among.plan).size + TR_REST_BESIDE;
    bound += head->fingerprint != 0 || head->attempt.at_ms != 0 ? TR_ADVICE_SIZE : 0;
    for (unsigned i = 0; i < bytes[AT_COUNTS] >> 4; i++) {
        tr_ref tag = (tr_ref)tr_get_number(&in, 4);
        bound += tr_strings_text(&book->tags, tag).size + TR_TAG_BESIDE;
        tr_get_varint(&in);
    }
    if ((bytes[0] & HAS_TYPE) != 0)
        bound += tr_strings_text(&book->texts, (tr_ref)tr_get_number(&in, 4)).size;
    head->body_bound = (uint32_t)(bound + tr_get_varint(&in));
}

void tr_book_unpack(const struct tr_book *book, tr_ref ref, struct tr_record *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct texts texts;
    unpack(book, ref, record, &texts);
}

uint64_t tr_book_interval(const struct tr_book *book, tr_ref ref)
{
    struct tr_head head;
    struct among among;
    unpack_head(book, ref, &head, &among);
    return among.interval_ms;
}

/* Timers are counted by tag, not their failed pops nor what remains of them. */
static void count_tags(struct tr_book *book, const struct tr_record *record,
                       const struct texts *texts, bool is_added)
{
    if (record->head.key.part != 0 || (record->head.flags & TR_RECORD_TOMBSTONE) != 0)
        return;
    for (unsigned i = 0; i < record->tag_count; i++) {
        if (record->head.replicas.count > 0 && record->head.replicas.members[0] != 0)
            break; /* it counts where it is first, so that a sum over all nodes is right */
        uint64_t *tally = tr_strings_tally(&book->tags, texts->tags[i]);
        *tally = is_added ? *tally + record->tags[i].count : *tally - record->tags[i].count;
    }
}

/* What a varint may grow by. */
static size_t growth(uint64_t value, size_t most)
{
    size_t size = tr_varint_size(value);
    return size < most ? most - size : 0;
}

/* What a record takes when all that may grow has grown. */
static size_t full_size(const struct tr_record *record, size_t head_size)
{
    const struct tr_head *head = &record->head;
    size_t sequence = head->key.part > 0 ? PART_SIZE : tr_varint_size(tr_record_pops(record) + 1);
    return head_size + record->opaque.size + growth(head->order.sequence, sequence) +
           growth(head->order.moves, MOVES_SIZE) + growth(head->lag_ms, LAG_SIZE);
}

tr_ref tr_book_insert(struct tr_book *book, const struct tr_record *record)
{
    struct texts texts;
    uint8_t head[HEAD_MAX];
    TR_ASSERT(record->tag_count <= TR_TAGS_MAX && record->head.replicas.count <= TR_SET_MAX &&
              record->head.from.count <= TR_FROM_MAX);
    if (!hold_texts(book, record, &texts))
        return TR_ARENA_NONE;
    size_t size = pack_head(record, &texts, head);
    tr_ref ref = tr_arena_take(book->arena, TR_ARENA_RECORD, full_size(record, size), false);
    if (ref == TR_ARENA_NONE) {
        release_texts(book, &texts, record->tag_count);
        return TR_ARENA_NONE;
    }
    uint8_t *bytes = bytes_at(book, ref);
    memcpy(bytes, head, size);
    if (record->opaque.size > 0)
        memcpy(bytes + size, record->opaque.text, record->opaque.size);
    if (!tr_index_insert(&book->index, tr_book_hash(record->head.key.id), ref)) {
        tr_arena_give(book->arena, ref);
        release_texts(book, &texts, record->tag_count);
        return TR_ARENA_NONE;
    }
    count_tags(book, record, &texts, true);
    return ref;
}

/* Puts a record into its piece, or into one of the right size. Where that cannot be had, a piece
 * that is too large will do; for what is urgent also one without room to grow. The reserve is for
 * what has no place at all. */
static tr_ref settle(struct tr_book *book, tr_ref ref, const struct tr_record *record,
                     const uint8_t *head, size_t head_size, bool is_urgent)
{
    TR_ASSERT(head_size >= FIXED && head_size <= HEAD_MAX);
    struct tr_span opaque = record->opaque;
    size_t size = head_size + opaque.size;
    size_t full = full_size(record, head_size);
    size_t capacity = tr_arena_capacity(book->arena, ref);
    tr_ref target = ref;
    if (tr_arena_rounded(full) != capacity)
        target = tr_arena_take(book->arena, TR_ARENA_RECORD, full, is_urgent && size > capacity);
    if (target == TR_ARENA_NONE && (is_urgent ? size : full) <= capacity)
        target = ref;
    if (target == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    uint8_t *bytes = bytes_at(book, target);
    if (opaque.size > 0)
        memmove(bytes + head_size, opaque.text, opaque.size);
    memcpy(bytes, head, head_size);
    if (target != ref) {
        tr_index_replace(&book->index, tr_book_hash(tr_load(head + AT_ID, 8)), ref, target);
        tr_arena_give(book->arena, ref);
    }
    return target;
}

tr_ref tr_book_replace(struct tr_book *book, tr_ref ref, const struct tr_record *record)
{
    struct tr_record old;
    struct texts old_texts;
    struct texts texts;
    uint8_t head[HEAD_MAX];
    unpack(book, ref, &old, &old_texts);
    TR_ASSERT(old.head.key.id == record->head.key.id && old.head.key.part == record->head.key.part);
    if (!hold_texts(book, record, &texts))
        return TR_ARENA_NONE;
    size_t size = pack_head(record, &texts, head);
    bool is_end = (record->head.flags & TR_RECORD_TOMBSTONE) != 0;
    tr_ref placed = settle(book, ref, record, head, size, is_end);
    if (placed == TR_ARENA_NONE) {
        release_texts(book, &texts, record->tag_count);
        return TR_ARENA_NONE;
    }
    count_tags(book, &old, &old_texts, false);
    count_tags(book, record, &texts, true);
    release_texts(book, &old_texts, old.tag_count);
    return placed;
}

tr_ref tr_book_update(struct tr_book *book, tr_ref ref, const struct tr_head *head)
{
    TR_ASSERT(head->due_ms <= TR_TIME_MAX && head->lag_ms <= head->due_ms);
    struct tr_record old;
    struct texts texts;
    uint8_t packed[HEAD_MAX];
    unpack(book, ref, &old, &texts);
    struct tr_record changed = old;
    changed.head.flags = head->flags;
    changed.head.order.sequence = head->order.sequence;
    changed.head.order.attempt = head->order.attempt;
    changed.head.order.moves = head->order.moves;
    changed.head.due_ms = head->due_ms;
    changed.head.lag_ms = head->lag_ms;
    changed.head.instant_ms = head->instant_ms;
    changed.head.attempt = head->attempt;
    if ((old.head.flags & ~head->flags & TR_RECORD_MOVING) != 0)
        changed.head.from.count = 0; /* it has arrived */

    size_t size = pack_head(&changed, &texts, packed);
    bool is_attempt_new = head->attempt.at_ms != 0 && old.head.attempt.at_ms == 0;
    tr_ref placed = settle(book, ref, &changed, packed, size, !is_attempt_new);
    if (placed == TR_ARENA_NONE) { /* there is no memory to remember how it failed */
        changed.head.attempt.at_ms = 0;
        size = pack_head(&changed, &texts, packed);
        placed = settle(book, ref, &changed, packed, size, true);
    }
    if (placed != TR_ARENA_NONE &&
        changed.head.flags != old.head.flags) { /* one that ended counts no more */
        count_tags(book, &old, &texts, false);
        count_tags(book, &changed, &texts, true);
    }
    return placed;
}

bool tr_book_can_update(const struct tr_book *book, tr_ref ref, const struct tr_head *head)
{
    struct tr_record old;
    struct texts texts;
    uint8_t packed[HEAD_MAX];
    unpack(book, ref, &old, &texts);
    old.head.instant_ms = head->instant_ms;
    size_t full = full_size(&old, pack_head(&old, &texts, packed));
    return full <= tr_arena_capacity(book->arena, ref) || !tr_arena_is_tight(book->arena);
}

void tr_book_remove(struct tr_book *book, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_record record;
    struct texts texts;
    unpack(book, ref, &record, &texts);
    count_tags(book, &record, &texts, false);
    tr_index_remove(&book->index, tr_book_hash(record.head.key.id), ref);
    tr_arena_give(book->arena, ref);
    release_texts(book, &texts, record.tag_count);
}

tr_ref tr_book_first(const struct tr_book *book, tr_timer_id id, struct tr_index_walk *walk)
{
    *walk = tr_index_seek(&book->index, tr_book_hash(id));
    return tr_book_next(walk, id);
}

tr_ref tr_book_next(struct tr_index_walk *walk, tr_timer_id id)
{
    const struct tr_book *book = walk->index->owner;
    tr_ref ref = TR_ARENA_NONE;
    if (!tr_index_next_like(walk, tr_book_hash(id), &ref) || tr_book_id(book, ref) != id)
        return TR_ARENA_NONE;
    return ref;
}

static uint64_t part_of(const struct tr_book *book, tr_ref ref)
{
    const uint8_t *bytes = bytes_at(book, ref);
    struct tr_reader in = tr_reader_on(bytes + FIXED, TR_VARINT_MAX);
    return (bytes[AT_STATE] & HAS_PART) != 0 ? tr_get_varint(&in) : 0;
}

tr_ref tr_book_find_part(const struct tr_book *book, const struct tr_key *key, bool *has_any)
{
    struct tr_index_walk walk;
    tr_ref ref = tr_book_first(book, key->id, &walk);
    *has_any = ref != TR_ARENA_NONE;
    while (ref != TR_ARENA_NONE && part_of(book, ref) != key->part)
        ref = tr_book_next(&walk, key->id);
    return ref;
}

tr_ref tr_book_find(const struct tr_book *book, const struct tr_key *key)
{
    bool has_any = false;
    return tr_book_find_part(book, key, &has_any);
}

tr_ref tr_book_find_whole(const struct tr_book *book, tr_timer_id id)
{
    return tr_book_find(book, &(struct tr_key){.id = id});
}

bool tr_book_valid(const struct tr_book *book)
{
    return tr_index_valid(&book->index) && tr_index_valid(&book->texts.index) &&
           tr_index_valid(&book->tags.index) && tr_arena_valid(book->arena);
}
