/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection on which much is asked at once and answered in order: commands on keys, or requests
 * of HTTP. A node takes both on one port, and one of them on a connection.
 *
 * Owns:    the connection, what is to be sent, and what was received.
 */
#ifndef TR_CLI_CHANNEL_H
#define TR_CLI_CHANNEL_H

#include "cli/node.h"

struct tr_channel {
    const char *command; /* for messages */
    const char *address;
    int file;
    char *out;
    size_t out_size;
    size_t out_cap;
    char *in;
    size_t in_at; /* of it, what has been read */
    size_t in_size;
    size_t in_cap;
};

/* False: it has said why not; so have all that follow. */
bool tr_channel_open(struct tr_channel *channel, const char *command, const char *address);
/* Shows the token, if there is one, on a channel that is to speak RESP. */
bool tr_channel_login(struct tr_channel *channel);
void tr_channel_close(struct tr_channel *channel);

/* Gathers what tr_channel_send sends. */
void tr_channel_put(struct tr_channel *channel, const void *bytes, size_t size);
void tr_channel_put_word(struct tr_channel *channel, struct tr_span word); /* of a command */
void tr_channel_begin(struct tr_channel *channel, unsigned words); /* a command of so many */
bool tr_channel_send(struct tr_channel *channel);

#define TR_CHANNEL_HTTP 'H' /* it speaks nothing else */

/* What the node replies to a command. `text` is good until the next call. */
struct tr_channel_reply {
    char kind; /* as the first byte says: + - : $ *, or TR_CHANNEL_HTTP */
    bool is_null;
    int64_t number; /* of an integer; of an array, how many replies follow */
    struct tr_span text;
};
bool tr_channel_reply(struct tr_channel *channel, struct tr_channel_reply *reply);

/* An answer to a request of HTTP: its body is good until the next call. */
bool tr_channel_answer(struct tr_channel *channel, unsigned *status, struct tr_span *body);

#endif
