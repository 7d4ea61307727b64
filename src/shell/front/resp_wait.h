/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands whose keys are on other nodes, too. Each waits, in its place among the commands of its
 * connection, for what the nodes answer.
 *
 * A command is run from its beginning each time something has been answered: what it asks for again
 * it is given at once, so that verbs are written as if every answer were there.
 *
 * Commands of one connection go on beside each other, and are replied to in their order. One whose
 * key another one is changing by what it reads waits for that.
 *
 * Owns:    a copy of each command, its answers so far, its reply until its turn has come.
 * Bounds:  TR_WAITS_MAX commands; WAITS_EACH of one connection, beyond which nothing more is read.
 */
#ifndef TR_SHELL_FRONT_RESP_WAIT_H
#define TR_SHELL_FRONT_RESP_WAIT_H

#include "shell/front/resp.h"

#define TR_WAITS_MAX 65536
#define REPLY_SIZE   48

/* What was asked of the cluster, and the answer. */
struct tr_resp_asked {
    bool is_done;
    bool is_change; /* by what is read: it is not overtaken on its way */
    uint64_t hash;  /* of its key */
    struct tr_key_result result;
    char *value; /* of `result`, and its callback behind it, their own */
    uint64_t cursor;
    uint32_t count; /* of a page: keys, in `result.value` */
};

struct tr_resp_wait {
    struct tr_connection *connection; /* NULL: it is gone */
    struct tr_resp_wait *next;        /* of the connection */
    uint32_t index;                   /* in the server's table */
    uint32_t generation;
    const struct tr_resp_verb *verb;
    struct tr_span *arguments;
    uint32_t count;
    size_t size;                 /* of all of it, with what follows */
    struct tr_resp_asked *asked; /* `first`, or as many as there are */
    uint32_t asked_count;
    uint32_t asked_cap;
    uint32_t open;     /* of them, those without an answer */
    uint32_t given;    /* answers that the run under way was given */
    bool is_refused;   /* by a full table: it is run again in the next turn */
    bool is_over;      /* its reply is there */
    bool is_alone;     /* nothing is begun beside it */
    bool is_silent;    /* the client wants no reply */
    bool is_asked;     /* of a change of the cluster: it was, */
    uint64_t asked_us; /* at this time, */
    uint64_t floor;    /* with this floor */
    uint64_t seed;     /* of what is drawn for it */
    struct tr_resp_out out;
    struct tr_resp_asked first; /* most commands ask once */
    char reply[REPLY_SIZE];     /* where the reply goes, if it is short */
};

struct tr_resp_waits {
    struct tr_resp_wait **table;
    uint32_t count;
    uint32_t cap;
    uint32_t *free;
    uint32_t free_count;
    uint32_t generation;
    struct tr_resp_wait *spare; /* of those that are over, some of one size, by `next` */
    uint32_t spare_count;
};

/* Whether a command on keys has to wait for others. */
bool tr_resp_is_spread(const struct tr_server *server);

enum tr_resp_begun {
    TR_BEGUN,         /* it is under way, or replied to */
    TR_BEGUN_LATER,   /* others of its connection are to end first */
    TR_BEGUN_NOWHERE, /* it needs nobody else: it is to be run at once */
    TR_BEGUN_LOST,    /* there is no memory */
};

/* Begins the command that was read last. */
enum tr_resp_begun tr_resp_wait_begin(struct tr_connection *connection,
                                      const struct tr_resp_verb *verb);

/* An answer, or a page, of the node. */
void tr_resp_wait_answer(struct tr_server *server, const struct tr_effect *effect);

/* Has the cache fetch the command that an answer, or a page, is for. */
void tr_resp_wait_fetch(const struct tr_server *server, const struct tr_effect *effect);

/* Puts out the replies of those at the front that are over. True: there were any. */
bool tr_resp_put_replies(struct tr_connection *connection);

/* In each turn: commands that have been answered go on. True: any did. */
bool tr_resp_waits_run(struct tr_server *server);

/* For the verbs, by resp_ask.h. False: it is not answered yet. */
bool tr_resp_wait_ask(struct tr_resp_call *call, const struct tr_key_command *command,
                      struct tr_key_result *result);
bool tr_resp_wait_page(struct tr_resp_call *call, uint16_t only, uint64_t cursor, uint32_t count,
                       struct tr_resp_asked **page);

/* The connection is gone, or will be. */
void tr_resp_waits_forsake(struct tr_connection *connection);
bool tr_resp_waits_open(struct tr_server *server); /* false: no memory */
void tr_resp_waits_free(struct tr_server *server);

/* Runs a command: by resp.c. */
void tr_resp_run(struct tr_resp_call *call);
/* Replies were put out: they go, and what was not begun is. */
void tr_resp_replied(struct tr_connection *connection);

#endif
