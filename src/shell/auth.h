/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what: the tokens of `[auth] tokens-file`, and what a request is allowed by the one
 * that it shows.
 *
 * Tokens are long and random, so a plain hash of one is as good as it gets: it is compared with all
 * that there are, each in the same time. A node that asks another one for a part of a listing
 * proves itself by the cluster's secret, and says for whom it asks.
 *
 * Owns:    the tokens, and how much each has asked for in this moment.
 * Bounds:  TR_TOKENS_MAX tokens.
 */
#ifndef TR_SHELL_AUTH_H
#define TR_SHELL_AUTH_H

#include "seam/command.h"
#include "shell/config.h"
#include "wire/token.h"

#define TR_TOKENS_MAX 4096

/* What somebody may do. */
struct tr_rights {
    bool is_known; /* else nothing was shown, or nothing that is good */
    bool reads;
    bool writes;
    bool is_admin;
    bool has_timers; /* it may see some timers, */
    bool has_keys;   /* and some keys */
    struct tr_narrow narrow;
    uint8_t keys_count; /* 0: all of them */
    struct tr_span keys[TR_TOKEN_SCOPES];
    uint64_t pending; /* of its tags; 0: as many as it likes */
    uint32_t token;   /* its number, and 1; 0: none */
    char text[TR_TOKEN_TEXT];
};

struct tr_auth {
    bool is_on;
    uint32_t count;
    struct tr_token *tokens;
    struct tr_allowance { /* by token */
        uint64_t at_us;
        uint64_t left_us; /* of the time that its requests take, at the rate it has */
    } * allowances;
    uint64_t failures;
};

/* Reads the file. Returns how many faults there were, each of which was said; then there is nothing
 * to free. */
unsigned tr_auth_load(struct tr_auth *auth, const struct tr_config *config);
/* `next` is in force from now on. */
void tr_auth_replace(struct tr_auth *auth, struct tr_auth *next);
void tr_auth_free(struct tr_auth *auth);

/* Everything: where no file is. */
void tr_rights_all(struct tr_rights *rights);
void tr_rights_copy(struct tr_rights *to, const struct tr_rights *from);

/* What a token allows; rights that are not known: there is none like it, and it is counted. */
void tr_auth_find(struct tr_auth *auth, struct tr_span secret, struct tr_rights *rights);

/* Whether the token of a session is still there. */
bool tr_auth_still_has(const struct tr_auth *auth, const uint8_t hash[TR_TOKEN_HASH]);
/* What it allows by now. */
void tr_auth_renew(const struct tr_auth *auth, const uint8_t hash[TR_TOKEN_HASH],
                   struct tr_rights *rights);
const uint8_t *tr_auth_hash(const struct tr_auth *auth, const struct tr_rights *rights);

/* Takes one request from what the token may ask for in this moment. False: it is spent, for so many
 * milliseconds. */
bool tr_auth_take(struct tr_auth *auth, const struct tr_rights *rights, uint64_t now_us,
                  uint64_t *wait_ms);
/* How many it may ask for a second, and how many of them are left; 0: any number. */
uint64_t tr_auth_rate(const struct tr_auth *auth, const struct tr_rights *rights, uint64_t *left);

/* Whether a key is one that may be seen, or a timer with these tags and name may be set. */
bool tr_rights_key(const struct tr_rights *rights, struct tr_span key);
bool tr_rights_timer(const struct tr_rights *rights, const struct tr_tag *tags, size_t count,
                     struct tr_span name);

/* What a node says to another one, for somebody with these rights: a value of Authorization. */
void tr_auth_put_node(struct tr_writer *out, struct tr_span secret, struct tr_span line,
                      tr_wall_ms now_ms, const struct tr_narrow *narrow);
/* And what it hears. False: it is none, or not proven. */
bool tr_auth_hear_node(struct tr_span secret, struct tr_span line, struct tr_span value,
                       tr_wall_ms now_ms, struct tr_rights *rights);

#endif
