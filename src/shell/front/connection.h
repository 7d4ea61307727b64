/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection, whatever it speaks: its slot, its requests under way, its answers in the
 * order of the requests.
 *
 * The node's token names a slot, its generation and the request's number on the connection. Answers
 * may come out of order (a refusal overtakes a write that waits for the disk): one that is early is
 * kept until those before it are there.
 *
 * Owns:    what is kept of an incomplete request, and answers that are early.
 * Bounds:  128 requests under way; 4 MiB of unsent answers, beyond which nothing more is read.
 */
#ifndef TR_SHELL_FRONT_CONNECTION_H
#define TR_SHELL_FRONT_CONNECTION_H

#include "http/api.h"
#include "http/http.h"
#include "resp/resp.h"
#include "seam/key.h"
#include "shell/auth.h"
#include "shell/front/answer.h"
#include "shell/front/server.h"

#define TR_UNDER_WAY_MAX 128 /* requests of one connection */

#define TR_RESP_SLOTS 256 /* of the table of RESP's commands */

struct tr_batch;
struct tr_bulk;
struct tr_look;
struct tr_outlook;
struct early; /* an answer that waits for those before it */
struct tr_resp_session;
struct tr_resp_verb;
struct tr_resp_waits;

struct tr_connection {
    struct tr_stream stream;
    struct tr_server *server;
    uint32_t slot;
    uint32_t generation;
    struct tr_connection *next; /* of all, by last activity */
    struct tr_connection *previous;
    uint64_t active_ms;

    struct tr_resp_session *resp; /* NULL: it speaks HTTP, or has not said what */
    struct tr_http http;
    char *in; /* an incomplete request, and what follows a paused one */
    size_t in_size;
    size_t in_cap;
    size_t parsed; /* of `in`, fed to the parser already */

    uint16_t asked;    /* requests handed on, modulo 2^16 */
    uint16_t answered; /* answers put out, likewise */
    struct tr_rest_client rest;
    struct tr_batch *batch; /* the request under way, if that is one of many lines, */
    struct tr_bulk *bulk;   /* or of all timers that a filter chooses */
    struct early *early;
    size_t early_size;
    uint64_t asked_us[TR_UNDER_WAY_MAX]; /* when, by number modulo */
    uint8_t kinds[TR_UNDER_WAY_MAX];     /* what; bit 7: HEAD, bit 6: close afterwards */
    uint8_t wants[TR_UNDER_WAY_MAX];     /* and what besides, of enum tr_want */
    uint16_t fresh_number;               /* of the last request that wants nothing it has seen: */
    uint64_t fresh_hash;                 /* this is that */
    struct tr_rights *rights; /* of who asks; NULL: not known, or nobody is asked who he is */
    uint8_t rights_hash[TR_TOKEN_HASH]; /* of a session's token */
    bool speaks_resp;                   /* whatever comes first on it */
    bool is_own;     /* this process has made it, for what a client of another one asks */
    bool is_slowed;  /* nothing is read of it for a moment */
    bool is_closing; /* after what is put out */
    bool is_ended;   /* the client sends no more, but may be reading */
    bool is_last;    /* it asked to close after the request under way: what follows is not read */
    uint64_t sent_seen; /* what the last sweep saw of its answers' bytes */
    bool is_shut;
    /* Refused in the middle of a request: the rest is read and thrown away, so that the client sees
     * the answer and not a reset. */
    bool is_lingering;
};

struct tr_slot {
    struct tr_connection *connection;
    uint32_t generation;
    uint32_t next_free;
};

/* Of a command of RESP, what follows from its description and is asked for each time. */
struct tr_resp_traits {
    uint8_t name_size;
    bool is_container; /* its second word says what is meant */
    bool is_about_keys;
};

struct tr_server {
    struct tr_daemon *daemon;
    struct tr_listener {
        uv_poll_t poll;
        struct tr_server *server;
        int file;
        bool is_resp; /* it speaks RESP alone */
    } listeners[2];
    unsigned listener_count;
    unsigned port; /* of the first, also when 0 was asked for */
    bool is_full;  /* of files: it does not accept until the next sweep */
    uv_timer_t sweep;
    struct tr_slot *slots;
    uint32_t slot_count;
    uint32_t slot_free;
    struct tr_connection oldest; /* the ring of all, least recently active first */
    struct tr_api_request route;
    struct tr_timer_body body;
    struct tr_answer answer;
    uint8_t trace[TR_TRACE_SIZE]; /* of the request that is read */
    bool is_draining;
    struct tr_batch *batches; /* all that are under way, */
    size_t batches_size;      /* and what their bodies take */
    uv_timer_t batches_again; /* when one of them waits for room */
    struct tr_bulk *bulks;    /* likewise */
    /* A connection of RESP that this process makes to itself, for what a client has asked. */
    bool (*take)(struct tr_server *server, int file, const struct tr_connection *from);
    struct tr_look *looks; /* requests that are looked at before they are done */
    struct tr_slowed {
        uint64_t token;
        uint64_t until_ms;
    } * slowed; /* connections */
    size_t slowed_count;
    size_t slowed_cap;
    uv_timer_t slow;
    struct tr_outlook *outlooks; /* walks that are under way, or to come; */
    uint32_t outlook_count;      /* of them, and of those that ask other nodes */
    uv_timer_t outlooks_again;
    struct tr_counted { /* and what the last one counted */
        struct tr_ahead ahead;
        uint64_t at_ms; /* 0: there was none */
        uint64_t took_us;
    } counted;
    struct tr_reread {
        uint64_t token;
        struct tr_timer_text timer;
    } * rereads; /* timers that were set, and are to be shown */
    size_t reread_count;
    size_t reread_cap;
    uv_timer_t bulks_again;

    /* Of the RESP front. */
    struct tr_connection *held; /* those with replies that wait for the log */
    uint64_t session_id;
    const struct tr_resp_verb *verbs[TR_RESP_SLOTS];
    const struct tr_resp_verb *verb_list;
    uint64_t verb_counts[TR_RESP_SLOTS];              /* in the order of the list of verbs, */
    struct tr_resp_traits verb_traits[TR_RESP_SLOTS]; /* as these are */
    size_t kept;                                      /* bytes of commands that are not whole, */
    size_t unread;                                    /* and of replies that are not sent, */
    bool is_unread;                                   /* of which there were too many */
    struct tr_resp_command command;
    struct tr_resp_waits *waits;    /* commands that wait for other nodes */
    struct tr_connection *answered; /* those of which one has been answered */
    struct tr_key_page page;
    char line[TR_RESP_LINE_MAX + 1]; /* a line of words, while it is read */
};

#define TR_NO_SLOT    UINT32_MAX
#define TR_KIND_HEAD  0x80
#define TR_KIND_CLOSE 0x40
#define TR_KIND_MASK  0x3f

uint32_t tr_connection_take_slot(struct tr_server *server);
void tr_connection_give_slot(struct tr_server *server, uint32_t index);

/* It has done something: it is the last that is idle. */
void tr_connection_touch(struct tr_connection *connection);
void tr_connection_unlink(struct tr_connection *connection); /* from the ring of all */
void tr_connection_close(struct tr_connection *connection);
void tr_connection_free(struct tr_stream *stream);

/* A request begins, of this kind: its number. */
uint16_t tr_connection_begin(struct tr_connection *connection, uint8_t kind);
uint64_t tr_connection_token(const struct tr_connection *connection, uint16_t number);

/* NULL: that client is gone. */
struct tr_connection *tr_connection_of(struct tr_server *server, uint64_t token);

/* Puts out the answer to request `number`, in its turn. */
void tr_connection_answer(struct tr_connection *connection, uint16_t number, const char *bytes,
                          size_t size);
void tr_connection_put(struct tr_connection *connection, const char *bytes, size_t size);

/* So much is under way that nothing more is read. */
bool tr_connection_is_paused(const struct tr_connection *connection);

/* Keeps what is not whole until the rest comes. False: no memory. */
bool tr_connection_keep(struct tr_connection *connection, const char *bytes, size_t size);

#endif
