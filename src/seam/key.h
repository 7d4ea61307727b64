/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client wants of a key, by whatever front it came, and how the core answers.
 *
 * A command on a key is carried out at once, within the call, and its outcome rendered before the
 * next: a step for each would cost more than the command. Only its reply waits, until the log has
 * what it tells of: `batch` says which batch that is.
 */
#ifndef TR_SEAM_KEY_H
#define TR_SEAM_KEY_H

#include "base/pair.h"
#include "seam/command.h"

enum tr_key_verb {
    TR_KEY_READ,
    TR_KEY_SET,
    TR_KEY_DELETE,
    TR_KEY_ADD,    /* `number` to an integer */
    TR_KEY_APPEND, /* `value` */
    TR_KEY_PATCH,  /* `value` from byte `number` on */
    TR_KEY_EXPIRE,
    TR_KEY_PERSIST,
};

/* Only then is it done. */
enum tr_key_if {
    TR_IF_ANY,
    TR_IF_ABSENT,
    TR_IF_PRESENT,
    TR_IF_VERSION, /* it is exactly `version`, which is 0 of an absent key */
    TR_IF_OLDER,   /* what is there, or has ended there, is older than `version` */
};

/* What becomes of the time at which a key expires. */
enum tr_key_expiry {
    TR_EXPIRY_NONE, /* it does not */
    TR_EXPIRY_KEEP,
    TR_EXPIRY_AT, /* `expires_ms` */
};

/* Of EXPIRE: only if that changes the time in this way. */
enum tr_key_expire_if {
    TR_EXPIRE_ANY = 0,
    TR_EXPIRE_NONE = 1,  /* it has none */
    TR_EXPIRE_SOME = 2,  /* it has one */
    TR_EXPIRE_LATER = 4, /* a key without one expires last of all */
    TR_EXPIRE_SOONER = 8,
};

struct tr_key_command {
    enum tr_key_verb verb;
    enum tr_key_if only_if;
    enum tr_key_expiry expiry;
    uint8_t expire_if; /* of enum tr_key_expire_if */
    bool wants_old;    /* of SET and DELETE: what was there */
    struct tr_span key;
    struct tr_span value;
    struct tr_span callback;
    tr_steady_ms expires_ms;
    int64_t number;
    uint64_t version;
};

enum tr_key_outcome {
    TR_KEY_DONE,
    TR_KEY_ABSENT,     /* of READ, DELETE, EXPIRE, PERSIST: there is none */
    TR_KEY_UNMET,      /* its condition */
    TR_KEY_NO_INTEGER, /* is there */
    TR_KEY_OVERFLOW,   /* of an integer */
    TR_KEY_TOO_LONG,   /* its value would be */
    TR_KEY_AGAIN,      /* when the log has written what gathers now */
    TR_KEY_REFUSED,    /* `refusal` says why */
};

struct tr_key_result {
    enum tr_key_outcome outcome;
    enum tr_result refusal;
    bool was_there;
    struct tr_span value; /* of READ, and of what was there if that is wanted; of APPEND and PATCH
                           * the new one, where they are carried out. Until the next command. */
    struct tr_span callback; /* of READ, as long */
    int64_t number;          /* of ADD: the sum; of APPEND and PATCH: bytes of the value */
    tr_steady_ms expires_ms;
    uint64_t version;
    uint64_t batch; /* the reply waits until this one is durable */
};

/* Whether all of several writes will be in one batch of the log. */
enum tr_key_room {
    TR_ROOM_NEVER, /* they are too much for one */
    TR_ROOM_LATER, /* when the log has written what gathers now */
    TR_ROOM_NOW,
};

#define TR_KEY_PAGE_MAX 1024

/* Some of all keys. */
struct tr_key_page {
    uint64_t cursor; /* where the next page begins; 0: this was the last */
    uint64_t batch;  /* as above */
    uint32_t count;
    uint32_t refs[TR_KEY_PAGE_MAX + 64]; /* until the next command */
};

#endif
