/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes say to each other about keys: the entries of a frame of the kind KEYS.
 * docs/protocol.md is the normative text.
 *
 * Unlike other frames this one has entries of several kinds, in the order in which they were made:
 * a read that follows a write on one connection must not overtake it. The head says under which
 * roster the sender asks or answers, and what its steady clock shows, since times in entries are
 * the sender's.
 */
#ifndef TR_QUORUM_FRAME_H
#define TR_QUORUM_FRAME_H

#include "base/pair.h"
#include "seam/key.h"
#include "wire/frame.h"

enum tr_key_entry_kind {
    TR_KEYS_WRITE = 1,   /* store this pair */
    TR_KEYS_ASK = 2,     /* what do you have of this key? */
    TR_KEYS_ANSWER = 3,  /* to WRITE, ASK and WANT */
    TR_KEYS_CALL = 4,    /* carry out a command that reads and writes */
    TR_KEYS_RESULT = 5,  /* of CALL */
    TR_KEYS_RANGE = 6,   /* what I have of the keys that we share, by their hashes */
    TR_KEYS_TELL = 7,    /* what I have there, which is something else, or the same */
    TR_KEYS_WANT = 8,    /* send me what you have of this key */
    TR_KEYS_OFFER = 9,   /* I have this, and it is yours: have you, too? */
    TR_KEYS_KNOWN = 10,  /* all who are to have this pair have it */
    TR_KEYS_DONE = 11,   /* the exchange that I began is through */
    TR_KEYS_SCAN = 12,   /* which keys do you have, from this hash on? */
    TR_KEYS_MISSED = 14, /* the node of this address could not be told of what you have stored */
    TR_KEYS_PAGE = 13,   /* these */
};

enum tr_key_answer {
    TR_ANSWER_STORED = 1, /* it is durable here, or something higher is */
    TR_ANSWER_HELD = 2,   /* of ASK: this is here, and durable; the pair follows if it is wanted */
    TR_ANSWER_NONE = 3,   /* likewise: nothing */
    TR_ANSWER_ABOVE = 4,  /* of WRITE on a condition: something else is here; it follows */
    TR_ANSWER_FULL = 5,
    TR_ANSWER_EPOCH = 6, /* the roster here is another one */
};

struct tr_key_frame {
    uint64_t epoch;
    uint64_t roster_id;
    tr_steady_ms now_ms; /* by the sender's clock */
};

/* An entry, decoded: which of its fields mean something depends on its kind. Spans point into the
 * frame. */
struct tr_key_entry {
    enum tr_key_entry_kind kind;
    uint64_t operation; /* of whoever asked; 0: no answer is wanted */
    enum tr_key_answer answer;
    bool has_pair;
    bool is_wanted;      /* of ASK: the pair itself, if it is above `known` */
    bool is_conditional; /* of WRITE: only over `known`, or what its sender made from `since` on */
    struct tr_pair pair; /* of those that have none: its key alone */
    struct tr_pair_order known; /* the order that is meant */
    struct tr_pair_order since;
    bool is_equal;                     /* of TELL: nothing differs */
    union {                            /* it is cleared for every entry, so it is to be small */
        struct tr_key_command command; /* of CALL */
        struct tr_key_result result;   /* of RESULT */
        struct {
            uint64_t from; /* of RANGE, TELL, SCAN: hashes, */
            uint64_t to;   /* both inclusive; of PAGE: how far it goes */
            uint64_t sum;
            uint64_t count;
            struct tr_reader list; /* of TELL and PAGE: `count` keys, by tr_keys_get_listed */
        };
    };
};

/* The head, behind that of tr_frame_put. */
void tr_keys_put_head(struct tr_writer *out, const struct tr_key_frame *head);
bool tr_keys_get_head(struct tr_reader *in, struct tr_key_frame *head);

/* Appends an entry. Of TELL and PAGE the list has been written already, to `list`. */
void tr_keys_put(struct tr_writer *out, const struct tr_key_entry *entry, struct tr_span list);
/* At least what that takes. */
size_t tr_keys_bound(const struct tr_key_entry *entry, struct tr_span list);

/* The next entry; times are those of this node's clock, which shows `now_ms`. False at the end, or
 * with in->is_short set: it is broken. */
bool tr_keys_get(struct tr_reader *in, const struct tr_key_frame *head, tr_steady_ms now_ms,
                 struct tr_key_entry *entry);

/* One of a list: of TELL with its order, of PAGE by itself. */
void tr_keys_put_listed(struct tr_writer *out, struct tr_span key, struct tr_pair_order order);
bool tr_keys_get_listed(struct tr_reader *in, struct tr_span *key, struct tr_pair_order *order);

#endif
