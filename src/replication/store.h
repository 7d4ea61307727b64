/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store behind replication: only the store knows what its records are of, and where they are
 * kept. Replication knows a record by its head, asks the store for it by a reference, and carries
 * whole records from node to node without looking into them.
 *
 * A reference is good until the record changes. Records whose keys share an id share a hash: a walk
 * by hashes meets them together.
 *
 * Owns:    nothing; the records are the store's.
 */
#ifndef TR_REPLICATION_STORE_H
#define TR_REPLICATION_STORE_H

#include "base/assert.h"
#include "log/log.h"
#include "memory/index.h"
#include "seam/command.h"
#include "wire/frame.h"

#define TR_BODY_WORDS 59 /* of the largest record that a store has, beside its head */

_Static_assert(TR_SET_MAX <= 8, "which places of a set have a record is a bit each in a byte");

/* A record with what its store alone understands. */
struct tr_whole {
    struct tr_head head;
    uint64_t body[TR_BODY_WORDS];
};

enum tr_store_state {
    TR_STORE_UNSAFE, /* not durable yet */
    TR_STORE_IDLE,
    TR_STORE_BUSY, /* something is done with it that must end first */
};

/* What is answered to whoever began an operation. */
struct tr_reply {
    uint64_t token;
    tr_timer_id id;
    uint32_t factor;
    enum tr_result result;
    bool is_replayed;  /* it had happened before, by the same key */
    bool has_happened; /* or may have */
    tr_ref shown;      /* of a read: the record, until the next step; or TR_ARENA_NONE */
};

struct tr_store {
    void *context;
    const struct tr_index *index; /* of all records, by the hash of their ids */

    /* Records that are held; TR_ARENA_NONE: there is none. `has_any`, if it is given, says whether
     * there is another one of the same id. */
    tr_ref (*find)(void *context, const struct tr_key *key, bool *has_any);
    tr_ref (*find_shown)(void *context, tr_timer_id id); /* what a reader of this id is shown */
    uint64_t (*hash)(void *context, tr_ref ref);
    void (*head)(void *context, tr_ref ref, struct tr_head *head);
    void (*whole)(void *context, tr_ref ref, struct tr_whole *whole);
    enum tr_store_state (*state)(void *context, tr_ref ref);
    uint64_t (*count)(void *context); /* of records that are no tombstones */

    /* Which places of its replica set are known to have exactly this order: any change clears it.
     * Whether all of them have, and nobody else may hold a copy. */
    uint8_t (*acked)(void *context, tr_ref ref);
    void (*set_acked)(void *context, tr_ref ref, uint8_t acked);
    bool (*is_spread)(void *context, tr_ref ref);
    void (*forget_member)(void *context, tr_ref ref, uint16_t member); /* of `from` */

    /* Stores and logs a record, in the place of `*ref` or, if that is none, as a new one; `*ref` is
     * where it is then, or none if it is a tombstone that nobody needs. False: there is no memory,
     * and nothing has changed. */
    bool (*put)(void *context, const struct tr_whole *whole, tr_ref *ref);
    tr_ref (*put_head)(void *context, tr_ref ref, const struct tr_head *head);
    /* Another order and other times, for which there is always room. */
    tr_ref (*change)(void *context, tr_ref ref, const struct tr_head *before,
                     const struct tr_head *head);
    void (*remove)(void *context, tr_ref ref);
    void (*arm)(void *context, tr_ref ref); /* it counts as durable */
    void (*strip)(struct tr_whole *whole);  /* of what a tombstone has no use for */

    /* As bytes, in memory and between nodes, where its replica set travels by name. */
    size_t (*pack_bound)(const struct tr_whole *whole);
    size_t (*pack)(const struct tr_whole *whole, struct tr_writer *writer);
    void (*unpack)(const uint8_t *bytes, size_t size, struct tr_whole *whole);
    void (*encode)(struct tr_writer *writer, const struct tr_whole *whole,
                   const struct tr_frame_names *names, uint64_t version);
    uint64_t (*version)(const struct tr_whole *whole); /* of frames that it can be told in */
    bool (*decode)(struct tr_reader *reader, struct tr_whole *whole, struct tr_frame_names *names);

    /* Whether a record that another node has sent can be one, and is not too large. */
    bool (*is_sound)(void *context, const struct tr_whole *whole);
    bool (*fits)(void *context, const struct tr_whole *whole);

    tr_timer_id (*draw)(void *context); /* an id that is not in use here */
    void (*answer)(void *context, const struct tr_reply *answer, struct tr_effects *out);

    /* Those below may be missing. */

    /* Whether the log can take what this record has, as far as the store is concerned. */
    bool (*may_store)(void *context, const struct tr_whole *whole);

    /* Whether a record may be moved now, as far as the store is concerned. */
    bool (*may_move)(void *context, tr_ref ref, const struct tr_head *head);
    /* A record was put: what it ends of the same id goes. */
    void (*end_others)(void *context, const struct tr_head *head);
    bool (*is_ended)(void *context, const struct tr_head *head); /* by another one of its id */
    void (*limit_others)(void *context, const struct tr_head *head);
    /* What was done with it at `before` goes on with it at `ref`: only its place has changed. */
    void (*carry_on)(void *context, tr_ref before, tr_ref ref, const struct tr_head *head);
    void (*wake)(void *context, tr_ref ref, const struct tr_head *head); /* it is held no more */
    void (*pause)(void *context, bool was_popping); /* nothing is to be begun from now on */
    /* What a client wants done with the records of an id, wherever they are. Returns with how many
     * it was; the last one has the ticket. */
    bool (*can_perform)(void *context, enum tr_ask_mode mode);
    unsigned (*perform)(void *context, tr_timer_id id, enum tr_ask_mode mode, uint64_t argument,
                        struct tr_waiting ticket);
};

static inline bool tr_store_may_store(const struct tr_store *store, const struct tr_whole *whole)
{
    return store->may_store == NULL || store->may_store(store->context, whole);
}

static inline tr_ref tr_store_find(const struct tr_store *store, const struct tr_key *key)
{
    return store->find(store->context, key, NULL);
}

static inline void tr_store_head(const struct tr_store *store, tr_ref ref, struct tr_head *head)
{
    store->head(store->context, ref, head);
    TR_ASSERT(head->replicas.count <= TR_SET_MAX && head->from.count <= TR_FROM_MAX);
}

static inline enum tr_store_state tr_store_state_of(const struct tr_store *store, tr_ref ref)
{
    return store->state(store->context, ref);
}

static inline uint64_t tr_store_hash(const struct tr_store *store, tr_ref ref)
{
    return store->hash(store->context, ref);
}

static inline uint8_t tr_store_acked(const struct tr_store *store, tr_ref ref)
{
    return store->acked(store->context, ref);
}

static inline void tr_store_set_acked(const struct tr_store *store, tr_ref ref, uint8_t acked)
{
    store->set_acked(store->context, ref, acked);
}

static inline tr_ref tr_store_put_head(const struct tr_store *store, tr_ref ref,
                                       const struct tr_head *head)
{
    return store->put_head(store->context, ref, head);
}

static inline void tr_store_end_others(const struct tr_store *store, const struct tr_head *head)
{
    if (store->end_others != NULL)
        store->end_others(store->context, head);
}

static inline void tr_store_carry_on(const struct tr_store *store, tr_ref before, tr_ref ref,
                                     const struct tr_head *head)
{
    if (store->carry_on != NULL)
        store->carry_on(store->context, before, ref, head);
}

/* The record of this key, if it has exactly this order. */
static inline tr_ref tr_store_find_exactly(const struct tr_store *store,
                                           const struct tr_head *named, struct tr_head *held)
{
    tr_ref ref = tr_store_find(store, &named->key);
    if (ref == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    tr_store_head(store, ref, held);
    return tr_order_compare(&held->order, &named->order) == 0 ? ref : TR_ARENA_NONE;
}

/* Likewise, where it is known where it was: a record's place changes only when the record does. */
static inline tr_ref tr_store_find_near(const struct tr_store *store, const struct tr_arena *arena,
                                        tr_ref ref, const struct tr_head *named,
                                        struct tr_head *held)
{
    if (tr_arena_holds(arena, ref)) {
        tr_store_head(store, ref, held);
        if (tr_key_equals(&held->key, &named->key) &&
            tr_order_compare(&held->order, &named->order) == 0)
            return ref;
    }
    return tr_store_find_exactly(store, named, held);
}

#endif
