/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command on a key, of a client here or of another node: whom it asked, who has answered, and
 * when that is enough.
 *
 *   begun     the nodes of the key's list are asked, and for each that is not there the next one
 *             that is
 *   silent    who has not answered within TR_SILENT_MS is counted out, and another one asked
 *   answered  when enough have answered; the rest is waited for, so that who lacks the pair is sent
 *             it
 *   over      when nobody is waited for any more
 *
 * When the roster changes, an operation begins anew under the new one, with the same order.
 */
#ifndef TR_QUORUM_OPERATION_H
#define TR_QUORUM_OPERATION_H

#include "kv/merge.h"
#include "quorum/quorum.h"

#define TR_SILENT_MS      250
#define TR_GIVE_UP_MS     5000
#define TR_OPERATION_NONE UINT32_MAX

/* NULL: too many are under way. */
struct tr_quorum_operation *tr_quorum_new(struct tr_quorum *quorum, enum tr_quorum_kind kind);
/* From now on nobody who was asked for it so far is heard. */
void tr_quorum_renumber(struct tr_quorum *quorum, struct tr_quorum_operation *operation);
/* NULL: it is over. */
struct tr_quorum_operation *tr_quorum_find(struct tr_quorum *quorum, uint64_t number);
void tr_quorum_end(struct tr_quorum *quorum, struct tr_quorum_operation *operation);

/* A modification, from when it begins: others of its key find it. */
void tr_quorum_chain(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                     struct tr_span key);
/* Whichever made this of a key; NULL: none that is under way. */
const struct tr_quorum_operation *tr_quorum_maker(const struct tr_quorum *quorum,
                                                  struct tr_span key, struct tr_pair_order order);

/* The pair, or the command, that it keeps. */
bool tr_quorum_keep_pair(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                         const struct tr_pair *pair);
bool tr_quorum_pair(const struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                    struct tr_pair *pair);
void tr_quorum_drop_pair(struct tr_quorum *quorum, struct tr_quorum_operation *operation);
/* The key that it is about. */
bool tr_quorum_key(const struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                   struct tr_span *key);
bool tr_quorum_keep_command(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                            const struct tr_key_command *command);
bool tr_quorum_command(const struct tr_quorum *quorum, const struct tr_quorum_operation *operation,
                       struct tr_key_command *command);

/* Answers whoever asked, with operation->result. */
void tr_quorum_answer(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                      struct tr_effects *out);
void tr_quorum_refuse(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                      enum tr_result refusal, struct tr_effects *out);

/* What a write stores; and where the book has its key, as far as that is known. */
struct tr_written {
    struct tr_pair pair;
    struct tr_kv_place place;
    bool has_place;
    bool is_whole; /* it is what others will decode */
};

/* The kinds of operations: asks a target, hears what it says, and goes on if it can. */
void tr_write_ask(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                  struct tr_target *target, const struct tr_written *written);
void tr_write_heard(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                    struct tr_target *target, const struct tr_key_entry *entry);
void tr_write_go_on(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                    struct tr_effects *out);
/* All who are to have it have it: they hear so, if it ends, or will. */
void tr_write_tell_known(struct tr_quorum *quorum, const struct tr_quorum_operation *operation);
void tr_read_ask_target(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                        struct tr_target *target);
void tr_read_heard(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                   struct tr_target *target, const struct tr_key_entry *entry);
void tr_read_go_on(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                   struct tr_effects *out);
/* What a modification does next: carries the command out here, and has others store or confirm
 * it. */
void tr_modify_begin(struct tr_quorum *quorum, struct tr_quorum_operation *operation);
/* What is newest is known, and is here from now on: the command begins. */
void tr_modify_has_read(struct tr_quorum *quorum, struct tr_quorum_operation *operation);
void tr_modify_heard(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                     struct tr_target *target, const struct tr_key_entry *entry);
void tr_modify_go_on(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                     struct tr_effects *out);

#endif
