/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RESP front: reads commands of Redis's clients, carries them out on the node's keys, and puts
 * the outcomes into Redis's words.
 *
 * A command is carried out and its reply rendered at once. The reply is held until the log has what
 * it tells of: what one read brought is let go with the batch that its last command needs.
 *
 * Owns:    a session for each connection: replies that are held, what CLIENT may ask about it.
 * Bounds:  4 MiB of replies, beyond which nothing more is read, and REPLY_MAX of one command.
 */
#ifndef TR_SHELL_FRONT_RESP_H
#define TR_SHELL_FRONT_RESP_H

#include "resp/resp.h"
#include "shell/front/connection.h"
#include "shell/front/resp_out.h"

#define TR_RESP_MARKS 8

/* Replies up to `size` may go when `batch` is durable. */
struct tr_resp_mark {
    size_t size;
    uint64_t batch;
    uint64_t asked_us; /* when the first of them was */
};

struct tr_resp_wait;

struct tr_resp_session {
    uint64_t id;
    char *name; /* NULL: it has none */
    uint64_t since_ms;
    uint64_t asked_ms;               /* when something came from it last */
    const struct tr_resp_verb *last; /* what it asked for last */
    enum { TR_RESP_ANSWERS, TR_RESP_SKIPS, TR_RESP_IS_SILENT } mode; /* CLIENT REPLY */

    struct tr_resp_out out; /* replies that are held */
    struct tr_resp_mark marks[TR_RESP_MARKS];
    unsigned mark_count;
    size_t need;                /* bytes that the command at the start of `in` has at least */
    uint32_t done;              /* arguments of it that were read, */
    size_t done_at;             /* and where the next one begins */
    uint64_t batch;             /* that the command under way has written to */
    bool is_again;              /* the log has no room for the next command now */
    bool closes;                /* when what is held has gone */
    size_t unread;              /* bytes of replies, as the server has counted them */
    size_t asking;              /* bytes of the command under way */
    size_t lingered;            /* bytes read after the connection was to close */
    uint32_t at;                /* how many keys of the command under way are done, */
    int64_t sum;                /* and what came of them */
    struct tr_connection *next; /* of those with replies that are held */
    struct tr_connection **link;

    struct tr_resp_wait *waits; /* commands that wait for other nodes, in their order */
    struct tr_resp_wait *waits_last;
    uint32_t wait_count;
    uint32_t change_count; /* of them, those that were refused, and questions that change a key */
    bool is_operator;      /* it has said the cluster's secret */
    bool is_blocked;       /* the next command is not begun before some of them have ended */
    bool is_answered;      /* one of them has been, */
    struct tr_connection *next_answered; /* as of these connections */
};

/* A command under way. */
struct tr_resp_call {
    struct tr_connection *connection;
    struct tr_resp_session *session;
    struct tr_daemon *daemon;
    const struct tr_resp_verb *verb;
    struct tr_span *arguments;
    uint32_t count;
    struct tr_resp_out *out;
    uint64_t batch;            /* the reply tells of it */
    bool is_again;             /* it is to be carried out once more, when the log has room */
    struct tr_resp_wait *wait; /* its keys are on other nodes, too; NULL: they are not */
    bool is_waiting;           /* for them */
    bool closes;
    bool sets_mode; /* it says itself what becomes of the next reply */
};

extern const struct tr_stream_calls tr_resp_calls;

/* The connection speaks RESP from now on. False: no memory. */
bool tr_resp_open(struct tr_connection *connection);

/* The log has written something: replies go, and who waited for room goes on. */
void tr_resp_release(struct tr_server *server);

/* From time to time: who was not read from because clients left too much unread is, when they have
 * read it, or are gone. */
void tr_resp_resume(struct tr_server *server);

#endif
